"""Cross-validation: forests are trained without each fold, and vote on the rows of the fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv

from rfsize._util import Int64s, class_indices, sample_weights, whole
from rfsize.counting.collect import outputs_of
from rfsize.counting.groups import NO_GROUPS, Groups, resolve_groups, warning_of_copies
from rfsize.counting.outputs import TreeOutputs, predictor_of, sums_of
from rfsize.counting.sums import PartSums, Scores, Sums, stacked
from rfsize.counting.task import Task, rows_elsewhere
from rfsize.counting.votes import Votes
from rfsize.exceptions import NotAForestError
from rfsize.models.estimators import TrainingData, checked_target, is_regression, tree_counts
from rfsize.models.framework import read_forest, training_of
from rfsize.models.model import with_classes
from rfsize.models.rows import n_rows_of, plain_rows, rows_at, stream_of

Fold = tuple[Int64s, Int64s]
"""Numbers of the rows to train on, and of the rows held out."""


def cross_validated(
    model: Any, X: Any, y: Any, cv: Any, *, groups: Any, sample_weight: Any, threshold: float
) -> TreeOutputs:
    """Train a forest without each fold and count its votes on the fold; arguments as in `rfsize.tree_outputs`."""
    if not hasattr(model, "fit") or not tree_counts(model):
        kind = type(model).__name__
        raise NotAForestError(f"cv trains an estimator for each fold, and rfsize trains no {kind}: give an estimator")
    training_of(model).check_estimator(model)
    rows = rows_in_memory(X, "cv fits an estimator on rows in memory: give an array or a table")
    n_rows = n_rows_of(rows)
    classes, label = checked_target(y, n_rows, of_labels=not is_regression(model))
    weight = None if sample_weight is None else sample_weights(sample_weight, n_rows)
    data, belong = TrainingData(rows, classes, label, weight), resolve_groups(groups, rows, n_rows)
    folds = held_out_folds(cv, label, belong, stratified=len(classes) > 0)
    return outputs_of_estimator(model, data, folds, belong, threshold).with_truth(data.truth, weight)


def outputs_of_estimator(
    estimator: Any, data: TrainingData, folds: Sequence[Fold], groups: Groups, threshold: float = 0.5
) -> TreeOutputs:
    """Fit the estimator without each fold, and count the votes of each forest on its fold."""
    parts = []
    for train, held_out in folds:
        part = data.part(train)
        forest = with_classes(read_forest(part.fitted(estimator)), part.classes)  # XGBoost only numbers them
        task = Task.checked(forest, rows_at(data.X, held_out), threshold=threshold)
        parts.append((held_out, outputs_of(task)))
    return outputs_of_folds(parts, data.classes, len(data.label), groups)


def rows_in_memory(X: Any, otherwise: str) -> Any:
    """Rows that folds can be taken from; else ``ValueError``, with ``otherwise`` as the advice."""
    if rows_elsewhere(X) is not None or stream_of(X) is not None or hasattr(X, "num_row"):
        raise ValueError(f"X is a {type(X).__name__}, and {otherwise}")
    return plain_rows(X, takes_text=True)


def held_out_folds(cv: Any, label: NDArray[Any], groups: Groups, *, stratified: bool) -> list[Fold]:
    """Folds from anything that scikit-learn takes as ``cv``; an int makes folds that keep groups together.

    Raises
    ------
    ValueError
        If there are no folds, a row is held out twice, or a fold trains on a row that it holds out, or on another of
        its group.
    """
    n_rows, belong = label.size, groups.units
    pairs = _splitter(cv, label, groups, stratified=stratified).split(np.zeros((n_rows, 1)), label, belong)
    folds, held_out_before = [_checked_fold(pair, n_rows) for pair in pairs], np.zeros(n_rows, dtype=np.bool_)
    if not folds:
        raise ValueError("cv makes no folds: give an int, such as cv=5, or a splitter")
    for train, held_out in folds:
        if np.isin(held_out, train).any() or held_out_before[held_out].any():
            raise ValueError("cv must hold out each row at most once, and must not train on the rows that it holds out")
        if belong is not None and np.isin(belong[held_out], belong[train]).any():
            raise ValueError("cv trains on groups that it holds out: give GroupKFold(), say, or groups='rows'")
        held_out_before[held_out] = True
    return folds


def _splitter(cv: Any, label: NDArray[Any], groups: Groups, *, stratified: bool) -> Any:
    if isinstance(cv, int | np.integer):
        cv = whole("cv", int(cv), at_least=2)
        if groups.units is not None:
            n_groups = len(np.unique(groups.units))
            if cv > n_groups:
                raise ValueError(f"{cv} folds take as many groups, and there are {n_groups}: give a smaller cv")
            return (StratifiedGroupKFold if stratified else GroupKFold)(cv)
    return check_cv(cv, label, classifier=stratified)


def _checked_fold(pair: Any, n_rows: int) -> Fold:
    """Rows to train on and rows held out, in order, because the frameworks take subsets in order."""
    if not hasattr(pair, "__len__") or len(pair) != 2:
        raise ValueError(f"a fold of cv is a {type(pair).__name__}: give pairs, rows to train on and rows to hold out")
    train, held_out = (np.asarray(rows) for rows in pair)
    for index in (train, held_out):
        fits = index.dtype.kind in "iu" and index.ndim == 1 and index.size > 0
        if not fits or index.min() < 0 or index.max() >= n_rows or len(np.unique(index)) < index.size:
            raise ValueError(f"folds of cv must hold row numbers from 0 to {n_rows - 1}, each once, found {index}")
    return np.sort(train).astype(np.int64), np.sort(held_out).astype(np.int64)


def outputs_of_folds(
    parts: Sequence[tuple[Int64s, TreeOutputs]], classes: NDArray[Any], n_rows: int, groups: Groups = NO_GROUPS
) -> TreeOutputs:
    """Join the folds of a cross-validation: each row has the outputs of the forest that was trained without it.

    Parameters
    ----------
    parts : sequence of tuple
        For each fold the numbers of its held-out rows, and the outputs of its forest on them.
    classes : ndarray, shape (n_classes,)
        All classes, also those that some forests do not know; empty for regression.
    n_rows : int
        Number of all rows; rows that no fold holds out have no votes.
    groups : Groups, optional
        Rows that belong together.

    Returns
    -------
    TreeOutputs
        Scores and parts of the forests come only from forests that know all classes.
    """
    of_folds = dict.fromkeys(caution for _, fold in parts for caution in fold.warnings)
    knowing_all = [(rows, fold) for rows, fold in parts if len(fold.classes) == len(classes)]
    first = (knowing_all or parts)[0][1]
    predictor = replace(predictor_of(first), classes=classes)
    votes = _votes_of_folds(parts, classes, n_rows) if len(classes) else None
    counts = np.zeros((n_rows, 0), dtype=np.int32) if votes is None else votes.counts
    sums = _sums_of_folds(knowing_all, counts) if knowing_all else None
    warnings = *of_folds, *warning_of_copies(groups)
    described: dict[str, Any] = {"source": "cross-validation", "groups": groups, "warnings": warnings}
    return TreeOutputs(n_rows, first.n_trees, votes, sums, predictor, **described)


def _sums_of_folds(parts: Sequence[tuple[Int64s, TreeOutputs]], counts: NDArray[np.int32]) -> Sums:
    """The sums of folds that know all classes, beside the ``counts`` of all rows."""
    numbers, sums = [rows for rows, _ in parts], [sums_of(fold) for _, fold in parts]
    # Rows that no fold holds out count as scored by no tree. With many rows, each fold scores only some of its own.
    number = np.concatenate([rows[fold.scores.number] for rows, fold in zip(numbers, sums, strict=True)])
    scored = np.delete(np.arange(len(counts)), np.setdiff1d(np.concatenate(numbers), number))
    places, joined = np.searchsorted(scored, number), stacked([fold.scores for fold in sums])
    scores = replace(Scores.nothing(len(scored), joined.n_scores), rows=None if len(scored) == len(counts) else scored)
    for name in ("n_votes", "mean", "scatter"):
        getattr(scores, name)[places] = getattr(joined, name)
    return Sums(counts, scores, (PartSums.of_forests([fold.parts for fold in sums], numbers),))


def _votes_of_folds(parts: Sequence[tuple[Int64s, TreeOutputs]], classes: NDArray[Any], n_rows: int) -> Votes:
    counts, first = np.zeros((n_rows, len(classes)), dtype=np.int32), parts[0][1]
    for rows, fold in parts:
        counts[rows[:, None], class_indices(classes, fold.classes, len(fold.classes))] = fold.votes.counts
    return Votes(counts, classes, first.n_trees, threshold=first.votes.threshold)
