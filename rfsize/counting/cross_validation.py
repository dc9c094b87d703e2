"""Cross-validation: forests are trained without each fold, and vote on the rows of the fold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from rfsize.counting.collect import outputs_of, outputs_of_folds
from rfsize.counting.duplicates import resolve_groups
from rfsize.counting.groups import Groups
from rfsize.counting.outputs import TreeOutputs
from rfsize.counting.task import Task, rows_elsewhere
from rfsize.exceptions import NotAForestError
from rfsize.models.framework import framework_of, read_forest, training_of
from rfsize.models.model import with_classes
from rfsize.models.rows import n_rows_of, plain_rows, stream_of
from rfsize.models.training import trees_to_train
from rfsize.utils.tags import is_regression
from rfsize.utils.typing import Int64s
from rfsize.utils.validation import sample_weights, whole
from rfsize.utils.words import how_many


@dataclass(frozen=True)
class TrainingData:
    """Rows with their labels or numbers, weights and groups.

    ``label`` holds indices into the sorted classes, or for regression, where ``classes`` is empty, numbers.
    """

    X: Any
    classes: NDArray[Any]
    label: NDArray[Any]
    weight: NDArray[np.float64] | None
    groups: Any = None

    def part(self, rows: NDArray[np.int64]) -> TrainingData:
        """Some of the rows, with only the classes that occur in them."""
        weight = None if self.weight is None else self.weight[rows]
        if not len(self.classes):
            return TrainingData(_safe_indexing(self.X, rows), self.classes, self.label[rows], weight)
        present, label = np.unique(self.label[rows], return_inverse=True)
        if len(present) < 2:
            raise ValueError(
                f"outside one fold all rows are of the class {self.classes[present].tolist()}, because the others "
                "have too few rows; give more rows, or give as cv= folds that leave rows of two classes"
            )
        return TrainingData(_safe_indexing(self.X, rows), self.classes[present], label, weight)

    @property
    def truth(self) -> NDArray[Any]:
        """Labels as the user gave them, or numbers."""
        return self.classes[self.label] if len(self.classes) else self.label

    def target(self, estimator: Any) -> NDArray[Any]:
        """Labels as the estimator takes them."""
        return self.label if training_of(estimator).labels_are_indices else self.truth

    def fitted(self, estimator: Any) -> Any:
        """A copy of the estimator, fitted on the rows; the estimator itself does not change."""
        weighted = {} if self.weight is None else {"sample_weight": self.weight}
        return clone(estimator).fit(self.X, self.target(estimator), **weighted)


def tree_counts(estimator: Any) -> set[str]:
    """Names of the parameters that set an estimator's number of trees; empty if it trains no trees."""
    framework = framework_of(estimator)
    if framework is None or framework.training is None:
        return set()
    return framework.training.tree_count_names(estimator) & estimator.get_params().keys()


def of_size(estimator: Any, n_trees: int) -> Any:
    """An unfitted copy of the estimator that will train ``n_trees`` trees."""
    return clone(estimator).set_params(**dict.fromkeys(tree_counts(estimator), n_trees))


def checked_target(y: Any, n_rows: int, *, of_labels: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """The classes and each row's class index; for regression, an empty array and each row's number."""
    what = "label" if of_labels else "number"
    if y is None:
        raise ValueError(f"training requires y to be passed, but the target y is None: give one {what} per row")
    given = check_array(y, ensure_2d=False, dtype=None if of_labels else np.float64, input_name="y")
    if given.ndim > 1 and given.shape[1] > 1:
        raise ValueError(
            f"y has {given.shape[1]} columns; T* is about one {what} per row: fit one forest for each column, as "
            f"sklearn.multioutput.MultiOutput{'Classifier' if of_labels else 'Regressor'} does"
        )
    target = column_or_1d(given, warn=True)
    if len(target) != n_rows:
        raise ValueError(
            f"X has {how_many(n_rows, 'row')} and y {how_many(len(target), what)}; give one {what} per row"
        )
    return _classes_of(target) if of_labels else (np.zeros(0), target)


def _classes_of(labels: NDArray[Any]) -> tuple[NDArray[Any], Int64s]:
    """The classes, at least two, and each row's class index."""
    try:
        check_classification_targets(labels)
        classes, label = np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(value).__name__ for value in labels})
        if len(kinds) == 1:
            raise ValueError(
                f"y holds labels of the type {kinds[0]}, which scikit-learn does not take: {error}"
            ) from None
        raise ValueError(f"y mixes labels of the types {', '.join(kinds)}; give labels of one type") from None
    if len(classes) < 2:
        raise ValueError(f"y holds one class only, {classes.tolist()}; trees have nothing to vote on")
    return classes, label


Fold = tuple[Int64s, Int64s]
"""Numbers of the rows to train on, and of the rows held out."""


def cross_validated(
    model: Any, X: Any, y: Any, cv: Any, *, groups: Any, sample_weight: Any, threshold: float
) -> TreeOutputs:
    """Train a forest without each fold and count its votes on the fold; arguments as in `rfsize.tree_outputs`."""
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
    belong = resolve_groups(groups, data.X, len(data.label))
    folds = held_out_folds(cv, data.label, belong, stratified=len(data.classes) > 0)
    return outputs_of_estimator(model, data, folds, belong, threshold).with_truth(data.truth, data.weight)


def outputs_of_estimator(
    estimator: Any, data: TrainingData, folds: Sequence[Fold], groups: Groups, threshold: float = 0.5
) -> TreeOutputs:
    """Fit the estimator without each fold, and count the votes of each forest on its fold."""
    parts = []
    for train, held_out in folds:
        part = data.part(train)
        forest = with_classes(read_forest(part.fitted(estimator)), part.classes)  # XGBoost only numbers them
        task = Task.of(forest, _safe_indexing(data.X, held_out), threshold=threshold)
        parts.append((held_out, outputs_of(task)))
    return outputs_of_folds(parts, data.classes, len(data.label), groups)


def _training_data(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> TrainingData:
    """The checked data to fit the estimator on."""
    rows = rows_in_memory(X, "cv fits an estimator on rows in memory: give an array or a table")
    n_rows = n_rows_of(rows)
    classes, label = checked_target(y, n_rows, of_labels=not is_regression(estimator))
    weight = None if sample_weight is None else sample_weights(sample_weight, n_rows)
    return TrainingData(rows, classes, label, weight, groups)


def rows_in_memory(X: Any, otherwise: str) -> Any:
    """Rows that folds can be taken from; else ``ValueError``, with ``otherwise`` as the advice."""
    if rows_elsewhere(X) is not None or stream_of(X) is not None or hasattr(X, "num_row"):
        raise ValueError(f"X is a {type(X).__name__}, and {otherwise}")
    return plain_rows(X, takes_text=True)


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
