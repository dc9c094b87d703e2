"""Votes of forests on rows that they were not trained on, by cross-validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.adapters.registry import integration_for
from rfsize.counting.copies import resolved
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.utils.validation import class_indices, refuse_unused, share, whole
from rfsize.voting.blocks import TreeBlocks
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes


def cv_votes(
    params: dict[str, Any],
    dtrain: Any,
    nfold: int | None = None,
    *,
    n_trees: int = 200,
    folds: Iterable[tuple[ArrayLike, ArrayLike]] | None = None,
    stratified: bool | None = None,
    seed: int | None = None,
    threshold: float = 0.5,
    groups: ArrayLike | str | None = None,
) -> Votes:
    """Count votes on the training rows by trees that did not see them, without knowing any bag.

    A forest is trained without each fold in turn, and all of its trees vote on the rows of that fold. This
    serves where out-of-bag votes cannot be had: bags drawn on a GPU, whole queries, rows sampled by gradient,
    or no bagging at all. ``rfsize.size(votes, alpha=...)`` then sizes a forest;
    strictly, one that is trained on the rows of all folds but one.

    Parameters
    ----------
    params : dict
        Training parameters of a forest, as for ``lightgbm.train`` or ``xgboost.train``.
    dtrain : lightgbm.Dataset or xgboost.DMatrix
        Training data; binned once.
    nfold : int, default 5
        Folds.
    n_trees : int, default 200
        Trees of each forest, so votes on each row.
    folds : iterable of (train, held out) pairs of row indices, optional
        The folds themselves, in place of ``nfold``, ``stratified``, ``seed`` and ``groups``.
    stratified : bool, default True
        Whether each fold has all classes in proportion.
    seed : int, default 0
        Of the shuffle that makes the folds.
    threshold : float, default 0.5
        As in `tree_outputs`.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `grow`: a fold holds out all rows of a group, or none.

    Returns
    -------
    Votes
        One row of counts per training row, in their order; a row that no fold holds out has none.

    Raises
    ------
    NotAForestError
        If the parameters do not train a forest of independent trees.
    ValueError
        If the folds overlap, a row is held out twice, or an argument does not fit.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> params = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1, "verbosity": -1}
    >>> votes = rfsize.cv_votes(params, lgb.Dataset(X, y), nfold=3, n_trees=20)
    >>> votes
    Votes(569 rows, 2 classes, 20 trees)
    >>> set(votes.asked.tolist())
    {20}
    """
    share("threshold", threshold)
    whole("n_trees", n_trees, at_least=1)
    integration = integration_for(dtrain)
    X = integration.rows_of(dtrain)
    label = integration.labels_of(params, dtrain)
    if label.ndim != 1 or not label.size:
        raise ValueError("dtrain must be a lightgbm.Dataset or xgboost.DMatrix with labels")
    if folds is None:
        nfold = whole("nfold", 5 if nfold is None else nfold, at_least=2, at_most=label.size)
        seed, belong = 0 if seed is None else seed, resolved(groups, X, label.size)
        folds = _folds(label, nfold, stratified in (None, True), seed, belong)
    else:
        of_folds = {"nfold": nfold, "stratified": stratified, "seed": seed, "groups": groups}
        refuse_unused("folds say which rows are held out together. Leave out the others, or folds", **of_folds)
    counts: NDArray[np.int32] | None = None
    for train, held_out in checked_folds(folds, label.size):
        found = integration.fold_votes(params, dtrain, train, held_out, n_trees=n_trees, threshold=threshold)
        if counts is None:
            counts = np.zeros((label.size, found.shape[1]), dtype=np.int32)
        counts[held_out] = found
    if counts is None:
        raise ValueError("there are no folds")
    return Votes(counts, n_trees=n_trees, threshold=threshold)


def _folds(label: NDArray[Any], nfold: int, stratified: bool, seed: int, groups: Groups) -> Iterable[tuple[Any, Any]]:
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    rows = np.zeros((label.size, 1))
    if groups.index is None:
        kind = StratifiedKFold if stratified else KFold
        return kind(nfold, shuffle=True, random_state=seed).split(rows, label)
    of_groups = StratifiedGroupKFold if stratified else GroupKFold
    n_groups = len(np.unique(groups.numbers))
    if nfold > n_groups:
        raise ValueError(f"{nfold} folds cannot hold out whole groups of which there are {n_groups}: give fewer folds")
    return of_groups(nfold, shuffle=True, random_state=seed).split(rows, label, groups.numbers)


def folds_of(
    cv: Any, label: NDArray[Any], groups: Groups, *, stratified: bool = True
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Folds by what scikit-learn takes for ``cv``, each of which holds out all rows of a group, or none.

    Raises
    ------
    ValueError
        If a row is held out twice, or rows are of which others of the same group are not.
    """
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv

    rows = np.zeros((label.size, 1))
    if groups.index is None:
        return list(checked_folds(check_cv(cv, label, classifier=stratified).split(rows, label), label.size))
    of_groups = StratifiedGroupKFold if stratified else GroupKFold
    splitter = of_groups(cv) if isinstance(cv, int) else check_cv(cv)
    folds = list(checked_folds(splitter.split(rows, label, groups.numbers), label.size))
    for train, held_out in folds:
        if np.isin(groups.numbers[held_out], groups.numbers[train]).any():
            raise ValueError(
                "cv holds out rows of which forests are trained on others of the same group: give a splitter that "
                "keeps groups together, such as StratifiedGroupKFold"
            )
    return folds


def held_out_outputs(
    parts: list[tuple[NDArray[np.int64], NDArray[Any], TreeOutputs]],
    classes: NDArray[Any],
    n_rows: int,
    groups: Groups = ALONE,
) -> TreeOutputs:
    """What forests say of the rows that they were not trained on, put together.

    Parameters
    ----------
    parts : list of tuple
        For each forest the rows, the classes that it knows, and what its trees say.
    classes : ndarray, shape (n_classes,)
        All classes; empty for regression.
    n_rows : int
    groups : Groups, optional
        Rows that belong together.

    Returns
    -------
    TreeOutputs
        Scores, and blocks of trees, are those of forests that know all classes.
    """
    first = parts[0][2]
    votes = None
    if len(classes):
        counts = np.zeros((n_rows, len(classes)), dtype=np.int32)
        for rows, known, outputs in parts:
            counts[rows[:, None], class_indices(classes, known, len(known))] = outputs.votes.counts
        votes = Votes(counts, classes, first.n_trees, threshold=first.votes.threshold)
    found = TreeOutputs(
        n_rows, first.n_trees, votes, predict_obeys=first.predict_obeys, source="cross-validation", groups=groups
    )
    whole = [(rows, outputs) for rows, known, outputs in parts if len(known) == len(classes)]
    if not whole or whole[0][1].scores is None:
        return found
    scores = Scores.nothing(n_rows, whole[0][1].scores.n_scores)
    blocks, order = [], np.concatenate([rows for rows, _ in whole])
    for rows, outputs in whole:
        assert outputs.scores is not None
        assert outputs.blocks is not None
        scores.put(rows[outputs.scored], outputs.scores)
        blocks.append(outputs.blocks)
    together = TreeBlocks.of_forests(blocks, [len(rows) for rows, _ in whole])
    together = replace(together, rows=order[together.rows])
    return replace(found, scores=scores, blocks=together, link=whole[0][1].link, cut=whole[0][1].cut)


def checked_folds(
    folds: Iterable[tuple[ArrayLike, ArrayLike]], n_rows: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The folds, each as rows to train on and rows held out; ``ValueError`` where a row is held out twice, or both."""
    held_out_before = np.zeros(n_rows, dtype=np.bool_)
    for train, held_out in folds:
        train, held_out = _checked_fold(train, n_rows), _checked_fold(held_out, n_rows)
        if np.isin(held_out, train).any() or held_out_before[held_out].any():
            raise ValueError("a row must not be held out twice, nor be trained on where it is held out")
        held_out_before[held_out] = True
        yield train, held_out


def _checked_fold(rows: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    index = np.asarray(rows)
    if index.dtype.kind not in "iu" or index.ndim != 1 or not index.size:
        raise ValueError(f"folds must be pairs of arrays of row indices, found {index.dtype} of shape {index.shape}")
    if index.min() < 0 or index.max() >= n_rows or len(np.unique(index)) < index.size:
        raise ValueError(f"the rows of a fold must be from 0 to {n_rows - 1}, each once")
    # In order, as the frameworks take subsets.
    return np.sort(index).astype(np.int64)
