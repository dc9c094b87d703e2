"""Cross-validation: forests are trained without each fold, and vote on the rows of the fold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from rfsize._util import Int64s, how_many, is_regression, sample_weights, whole
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
        kinds = ", ".join(sorted({type(value).__name__ for value in labels}))
        raise ValueError(f"y holds labels of {kinds}, which scikit-learn does not take: {error}") from None
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
        task = Task.of(forest, _safe_indexing(data.X, held_out), threshold=threshold)
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
    n_rows, belong, pairs = label.size, groups.units, cv
    if isinstance(cv, str) or not isinstance(cv, Iterable):
        pairs = _splitter(cv, label, groups, stratified=stratified).split(np.zeros((n_rows, 1)), label, belong)
    folds, held_out_before = [_checked_fold(pair, n_rows) for pair in pairs], np.zeros(n_rows, dtype=np.bool_)
    if not folds:
        raise ValueError("cv makes no folds: give an int, such as cv=5, or a splitter")
    for train, held_out in folds:
        if np.isin(held_out, train).any() or held_out_before[held_out].any():
            raise ValueError("cv must hold out each row at most once, and must not train on the rows that it holds out")
        if belong is not None and np.isin(belong[held_out], belong[train]).any():
            raise ValueError(
                f"cv holds out rows, and trains their forest on {_OTHERS[groups.by == 'copies']}: give a splitter that "
                "keeps groups together, such as StratifiedGroupKFold, or groups='rows' if each row stands alone"
            )
        held_out_before[held_out] = True
    return folds


_OTHERS = "others of the same group", "copies"


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
        raise ValueError(
            "each fold in cv must be a pair of arrays, the rows to train on and those held out, found a "
            f"{type(pair).__name__}: give list(splitter.split(X, y)), or the splitter"
        )
    train, held_out = (np.asarray(rows) for rows in pair)
    for index in (train, held_out):
        if index.dtype.kind not in "iu" or index.ndim != 1 or not index.size:
            raise ValueError(
                f"folds must be pairs of arrays of row numbers, found {index.dtype} of shape {index.shape}"
            )
        if index.min() < 0 or index.max() >= n_rows or len(np.unique(index)) < index.size:
            raise ValueError(f"the rows of a fold must be from 0 to {n_rows - 1}, each once")
    return np.sort(train).astype(np.int64), np.sort(held_out).astype(np.int64)
