"""Cross-validation: ask about each training row the trees of a forest that was trained without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.utils import _safe_indexing

from rfsize.counting.copies import resolved
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows, rows_elsewhere
from rfsize.counting.groups import Groups
from rfsize.counting.training_data import TrainingData, checked_target, tree_counts
from rfsize.exceptions import NotAForestError
from rfsize.models.framework import read_forest, training_of
from rfsize.models.training import trees_to_train
from rfsize.utils import matrix
from rfsize.utils.pieces import Pieces
from rfsize.utils.tags import is_regression
from rfsize.utils.typing import Int64s
from rfsize.utils.validation import sample_weights, whole

Fold = tuple[Int64s, Int64s]
"""Numbers of the rows to train on, and of the rows held out."""


def cross_validated(
    model: Any, X: Any, y: Any, cv: Any, *, groups: Any, sample_weight: Any, threshold: float
) -> Evidence:
    """Train a forest without each fold and ask it about the fold; arguments as in `rfsize.tree_outputs`."""
    if not hasattr(model, "fit") or not tree_counts(model):
        raise NotAForestError(
            f"cv trains a forest for each fold, and rfsize cannot train a {type(model).__name__}: give an "
            "estimator, such as RandomForestClassifier(200) or LGBMClassifier(boosting_type='rf', ...)"
        )
    training_of(model).check_estimator(model)
    names = tree_counts(model)
    chosen = [value for name, value in model.get_params().items() if name in names and value is not None]
    trees_to_train(chosen[0] if chosen else None, " or ".join(sorted(names)))
    data = _training_data(model, X, y, sample_weight, groups)
    belong = resolved(groups, data.X, len(data.label))
    folds = held_out_folds(cv, data.label, belong, stratified=len(data.classes) > 0)
    return of_estimator(model, data, folds, belong, threshold).with_truth(data.truth, data.weight)


def of_estimator(
    estimator: Any, data: TrainingData, folds: Sequence[Fold], groups: Groups, threshold: float = 0.5
) -> Evidence:
    """Fit the estimator without each fold, and ask each forest about its fold."""
    parts = []
    for train, held_out in folds:
        part = data.part(train)
        adapter = read_forest(part.fitted(estimator))
        adapter.classes = part.classes  # XGBoost only numbers them
        rows = ForestOnRows.of(adapter, _safe_indexing(data.X, held_out), threshold=threshold)
        parts.append((held_out, Evidence.of(rows)))
    return Evidence.of_folds(parts, data.classes, len(data.label), groups)


def _training_data(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> TrainingData:
    """The checked data to fit the estimator on."""
    rows = rows_in_memory(X, "cv fits an estimator on rows in memory: give an array or a table")
    n_rows = matrix.n_rows(rows)
    classes, label = checked_target(y, n_rows, of_labels=not is_regression(estimator))
    weight = None if sample_weight is None else sample_weights(sample_weight, n_rows)
    return TrainingData(rows, classes, label, weight, groups)


def rows_in_memory(X: Any, otherwise: str) -> Any:
    """Rows that folds can be taken from; else ``ValueError``, with ``otherwise`` as the advice."""
    rows = None if rows_elsewhere(X) is not None else matrix.as_rows(X, numbers_only=False)
    if rows is None or isinstance(rows, Pieces) or hasattr(rows, "num_row"):
        raise ValueError(f"X is a {type(X).__name__}, and {otherwise}")
    return rows


def folds_of(cv: Any, label: NDArray[Any], groups: Groups, *, stratified: bool) -> list[Fold]:
    """Folds from anything that scikit-learn takes as ``cv``; an int makes folds that keep groups together.

    Raises
    ------
    ValueError
        If a row is held out twice, or there are no folds.
    """
    rows, splitter = np.zeros((label.size, 1)), None
    belong = groups.units
    if isinstance(cv, int | np.integer):
        cv = whole("cv", int(cv), at_least=2)
        if belong is not None:
            n_groups = len(np.unique(belong))
            if cv > n_groups:
                raise ValueError(f"{cv} folds take as many groups, and there are {n_groups}: give a smaller cv")
            splitter = (StratifiedGroupKFold if stratified else GroupKFold)(cv)
    if splitter is None:
        if isinstance(cv, Iterable) and not isinstance(cv, str):
            cv = list(cv)
            _refuse_other_than_pairs(cv)
        splitter = check_cv(cv, label, classifier=stratified)
    folds = list(_checked(splitter.split(rows, label, belong), label.size))
    if not folds:
        raise ValueError("cv makes no folds: give an int, such as cv=5, or a splitter")
    return folds


def held_out_folds(cv: Any, label: NDArray[Any], groups: Groups, *, stratified: bool) -> list[Fold]:
    """Like `folds_of`, but each fold must hold out all rows of a group or none.

    Raises
    ------
    ValueError
        As in `folds_of`, or if a fold holds out only some rows of a group.
    """
    folds, belong = folds_of(cv, label, groups, stratified=stratified), groups.units
    if belong is None:
        return folds
    for train, held_out in folds:
        if np.isin(belong[held_out], belong[train]).any():
            others = "copies" if groups.by == "copies" else "others of the same group"
            raise ValueError(
                f"cv holds out rows, and trains their forest on {others}: give a splitter that keeps groups "
                "together, such as StratifiedGroupKFold, or groups='rows' if each row stands alone"
            )
    return folds


def _refuse_other_than_pairs(folds: list[Any]) -> None:
    other = next((fold for fold in folds if not hasattr(fold, "__len__") or len(fold) != 2), None)
    if other is not None:
        found = f"of {len(other)}" if hasattr(other, "__len__") else f"{other!r}"
        raise ValueError(
            f"each fold in cv must be a pair of arrays, the rows to train on and those held out, found a "
            f"{type(other).__name__} {found}: give list(splitter.split(X, y)), or the splitter"
        )


def _checked(folds: Iterable[tuple[ArrayLike, ArrayLike]], n_rows: int) -> Iterator[Fold]:
    """The folds; ``ValueError`` if a row is held out twice, or a fold trains on a row that it holds out."""
    held_out_before = np.zeros(n_rows, dtype=np.bool_)
    for train, held_out in folds:
        train, held_out = _checked_rows(train, n_rows), _checked_rows(held_out, n_rows)
        if np.isin(held_out, train).any() or held_out_before[held_out].any():
            raise ValueError("cv must hold out each row at most once, and must not train on the rows that it holds out")
        held_out_before[held_out] = True
        yield train, held_out


def _checked_rows(rows: ArrayLike, n_rows: int) -> Int64s:
    index = np.asarray(rows)
    if index.dtype.kind not in "iu" or index.ndim != 1 or not index.size:
        raise ValueError(f"folds must be pairs of arrays of row indices, found {index.dtype} of shape {index.shape}")
    if index.min() < 0 or index.max() >= n_rows or len(np.unique(index)) < index.size:
        raise ValueError(f"the rows of a fold must be from 0 to {n_rows - 1}, each once")
    # Sorted, because the frameworks take subsets in order.
    return np.sort(index).astype(np.int64)
