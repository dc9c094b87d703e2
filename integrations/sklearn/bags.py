"""Parts of scikit-learn's ensembles, and their bags: the rows that each member was trained on."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import sklearn
from sklearn.ensemble import BaggingClassifier, BaggingRegressor

from rfsize._util import Bools, Floats, Int64s
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.models.bags import FRESH_ROWS, Bags
from rfsize.models.model import Forest

BAGGING = (BaggingClassifier, BaggingRegressor)

# Attributes with an entry for each estimator (the last two are imbalanced-learn's), and those of the whole ensemble.
_OF_EACH = {"estimators_", "estimators_features_", "_seeds", "estimator_weights_", "estimator_errors_"}
_OF_EACH |= {"samplers_", "pipelines_"}
_OF_THE_WHOLE = {"oob_score_", "oob_decision_function_"}


def holds_estimators(model: Any) -> bool:
    """Whether the model predicts by a list of estimators; Intel's makes the list from another model when it is read."""
    return "estimators_" in vars(model)


def of_others(model: Any) -> str:
    """Why a model that others derive from scikit-learn's has no bags, and gets no other number of trees."""
    return (
        f"this {type(model).__name__}, of {type(model).__module__.partition('.')[0]}, does not keep its members as "
        f"scikit-learn {sklearn.__version__} does: train with scikit-learn's own class (sklearnex.unpatch_sklearn())"
    )


def n_training_rows(model: Any) -> int | None:
    """Number of rows that a forest or bagging ensemble was trained on; None if it does not keep it."""
    return vars(model).get("_n_samples")


def part_of(model: Any, members: Int64s) -> Any:
    """A copy of the model with some of its members.

    Raises
    ------
    NotAForestError
        If the model does not predict by the members that it names.
    """
    if not holds_estimators(model):
        raise NotAForestError(of_others(model))
    model = copy.copy(model)
    for name in _OF_THE_WHOLE & vars(model).keys():
        delattr(model, name)
    names = _OF_EACH & vars(model).keys()
    if "_seeds" in names and len(model._seeds) != len(model.estimators_):
        model._seeds = model._seeds[:0]  # nobody knows which members these seeds belong to
        names -= {"_seeds"}
    for name in names:
        values = getattr(model, name)
        setattr(model, name, values[members] if isinstance(values, np.ndarray) else [values[at] for at in members])
    model.n_estimators = len(model.estimators_)
    return model


class SklearnBags(Bags):
    """The bags that scikit-learn redraws from its stored seeds; one byte for each row and member.

    Parameters
    ----------
    forest : Forest
        A fitted ensemble with out-of-bag rows.
    weight : ndarray of float64, shape (n_rows,)
        Sample weights. If the members are trees, rows of weight 0 are in no bag; the leaves prove this.
    """

    def __init__(self, forest: Forest, weight: Floats) -> None:
        trees = forest.ensemble
        self.n_rows, self.need_proof = len(weight), trees is not None
        drawn = np.zeros((self.n_rows, forest.n_trees, 1), dtype=np.uint8)
        for member in range(forest.n_trees):
            rows = _drawn_rows(forest.booster, member)
            drawn[:, member, 0] = np.minimum(np.bincount(rows, minlength=self.n_rows), 255)
        if trees is not None:
            drawn[weight == 0.0] = 0
        self._drawn = drawn
        # A tree that was fitted with weights counts a row once, another as often as the row was drawn.
        n_drawn = drawn.sum(axis=(0, 2), dtype=np.int64)
        self._counts_once = trees is not None and not np.array_equal(trees.cover[trees.tree_start[:, 0]], n_drawn)

    def take(self, start: int, stop: int) -> Bools:
        return self._drawn[start:stop] > 0

    def row_mass(self, start: int, stop: int) -> Floats:
        drawn = self._drawn[start:stop]
        return (drawn > 0 if self._counts_once else drawn).astype(np.float64)

    advice = (
        "Give the training rows, all of them in the order of training; where the forest was trained with weights of "
        "zero, also sample_weight. Before scikit-learn 1.8, trees miscount rows with missing values."
    )


def _drawn_rows(model: Any, member: int) -> Int64s:
    """The rows of one member's bag. All at once would take eight bytes for each row and member."""
    try:
        (rows,) = part_of(model, np.array([member])).estimators_samples_
    except AttributeError as error:
        raise InbagError(of_others(model)) from error
    return np.asarray(rows)


def why_no_bags(model: Any) -> str | None:
    """Why no row is out of bag; None if some rows are."""
    n_rows = n_training_rows(model)
    if n_rows is None or not holds_estimators(model):
        return of_others(model)
    if isinstance(model, BAGGING) and len(model._seeds) != len(model.estimators_):
        return f"warm_start added members without their samples: let rfsize.grow add them, or take {FRESH_ROWS}"
    if model.bootstrap or (isinstance(model, BAGGING) and vars(model)["_max_samples"] < n_rows):
        return None
    return f"every member was trained on all rows: train with bootstrap=True, or take {FRESH_ROWS}"
