"""Scikit-learn's ensembles: the common part of forests and bagging, and their bags (each member's training rows)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import sklearn
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.utils.validation import check_array

from rfsize.exceptions import InbagError, NotAForestError
from rfsize.models.bags import FRESH_ROWS, Bags, Layout
from rfsize.models.leaves import Leaves
from rfsize.models.link import Link
from rfsize.models.model import Forest
from rfsize.utils.rows import frame_of
from rfsize.utils.typing import Bools, Floats, Int64s
from rfsize.utils.validation import sample_weights

BAGGING = (BaggingClassifier, BaggingRegressor)


# Most draws (rows × members) that are worth making to see whether fresh rows are training rows.
_MOST_DRAWN = 50_000_000

# Attributes with an entry for each member (the last two are imbalanced-learn's), and attributes of the whole ensemble.
_OF_EACH = {"estimators_", "estimators_features_", "_seeds", "samplers_", "pipelines_"}
_OF_THE_WHOLE = {"oob_score_", "oob_decision_function_"}


SHRUNK = "rfsize_shrunk_"
"""Name of the attribute that marks a shrunk ensemble."""


class SklearnBags(Bags):
    """The bags that scikit-learn redraws from its stored seeds; one byte for each row and member.

    Parameters
    ----------
    ensemble : SklearnEnsemble
        A fitted ensemble with out-of-bag rows.
    weight : ndarray of float64, shape (n_rows,)
        Sample weights. If the members are trees, rows of weight 0 are in no bag; the leaves prove this.
    """

    def __init__(self, ensemble: SklearnEnsemble, weight: Floats) -> None:
        self.n_rows = len(weight)
        self.need_proof = ensemble.are_trees
        drawn = np.zeros((self.n_rows, ensemble.n_trees, 1), dtype=np.uint8)
        for member in range(ensemble.n_trees):
            samples = _samples(ensemble.booster, member)
            drawn[:, member, 0] = np.minimum(np.bincount(samples, minlength=self.n_rows), 255)
        if ensemble.are_trees:
            drawn[weight == 0.0] = 0
        self._drawn = drawn
        # A tree that was fitted with weights counts a row once. A tree that was fitted to the drawn rows counts a row
        # as often as it was drawn.
        leaves, n_drawn = ensemble.leaves, drawn.sum(axis=(0, 2), dtype=np.int64)
        self._counts_once = ensemble.are_trees and not np.array_equal(leaves.mass[leaves.offset[:, 0]], n_drawn)

    def take(self, start: int, stop: int) -> Bools:
        return self._drawn[start:stop] > 0

    def row_mass(self, start: int, stop: int) -> Floats:
        drawn = self._drawn[start:stop]
        return (drawn > 0 if self._counts_once else drawn).astype(np.float64)

    def drawn_weights(self, weight: Floats, start: int, stop: int) -> Floats:
        """Weight times number of draws, for rows ``start`` to ``stop``, shape (rows, n_members, 1)."""
        return self._drawn[start:stop] * weight[start:stop, None, None]

    def contradicted(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        return np.asarray(leaves.mass != rebuilt)

    @property
    def advice(self) -> str:
        return (
            "Give the training rows themselves, all of them and in the order of training; where the forest was trained "
            "with weights of zero, go on with rfsize.tree_outputs(model, X, y, oob=True, sample_weight=...). "
            "Before scikit-learn 1.8, trees count rows with missing values "
            "in other leaves than they send them to."
        )


class SklearnEnsemble(Forest):
    """A fitted ensemble of scikit-learn.

    Parameters
    ----------
    model : RandomForestClassifier, ExtraTreesClassifier or BaggingClassifier
        Fitted to one label per row.
    """

    framework = "scikit-learn"
    link = Link("identity")

    def __init__(self, model: Any) -> None:
        self.booster = model
        self.n_trees = len(model.estimators_)
        self.is_pruned = hasattr(model, SHRUNK)
        self.n_features = int(model.n_features_in_)
        names = getattr(model, "feature_names_in_", None)
        self.feature_names = None if names is None else [str(name) for name in names]
        self.classes = np.asarray(getattr(model, "classes_", ()))
        # Columns that each member uses; None if it uses all.
        self._features: list[Any] = list(getattr(model, "estimators_features_", [None] * self.n_trees))

    def check(self, X: Any) -> Any:
        X = super().check(X)
        if hasattr(X, "column_names"):  # not every version of scikit-learn reads the names of an Arrow table
            X = frame_of(X)
        # Drop names that the ensemble was trained without: scikit-learn would warn about them.
        return as_array(X) if hasattr(X, "iloc") and self.feature_names is None else X

    def bags(
        self, layout: Layout, y: Any, sample_weight: Any, seed: int | None, subsample: float | None
    ) -> SklearnBags:
        if seed is not None or subsample is not None:
            raise ValueError("a scikit-learn ensemble keeps its own seeds: leave out seed and subsample")
        if self.no_bags is not None:
            raise InbagError(self.no_bags)
        if layout.n_rows != self.booster._n_samples:
            raise InbagError(
                f"the ensemble was trained on {self.booster._n_samples} rows, but X has {layout.n_rows}: give all "
                "training rows, in the order of training"
            )
        return SklearnBags(self, sample_weights(sample_weight, layout.n_rows))

    def leading_bags(self, n_rows: int) -> Bags | None:
        if self.no_bags is not None or self.booster._n_samples * self.n_trees > _MOST_DRAWN:
            return None
        return SklearnBags(self, np.ones(self.booster._n_samples))

    @property
    def no_bags(self) -> str | None:
        """Why no row is out of bag; None if some rows are."""
        model = self.booster
        if not (hasattr(model, "_n_samples") and holds_members(model)):
            return _forgotten_bags(model)
        if isinstance(model, BAGGING) and len(model._seeds) != self.n_trees:
            return (
                f"scikit-learn stored the samples of only {len(model._seeds)} of the {self.n_trees} members, as it "
                "does when warm_start adds some: fit all of them at once, let rfsize.grow add them, or take "
                f"{FRESH_ROWS}"
            )
        if model.bootstrap or (isinstance(model, BAGGING) and model._max_samples < model._n_samples):
            return None
        return (
            "every member was trained on all rows, so no row is out of bag: train with bootstrap=True, or take "
            f"{FRESH_ROWS}"
        )

    def part(self, members: slice) -> SklearnEnsemble:
        """A new ensemble of some of the members, with its own lists."""
        return type(self)(part_of(self.booster, members))

    def first(self, n_trees: int) -> Any:
        return part_of(self.booster, slice(n_trees))


def holds_members(model: Any) -> bool:
    """Whether the model predicts by a list of members; Intel's makes the list from another model when it is read."""
    return "estimators_" in vars(model)


def no_members(model: Any) -> str:
    """Why a model without `holds_members` gets no other number of members."""
    return (
        f"{_named(model)} does not predict by the list of its members, so it can be neither cut nor grown: train with "
        "scikit-learn's own class, which sklearnex.unpatch_sklearn() brings back after Intel's patch"
    )


def _named(model: Any) -> str:
    return f"this {type(model).__name__}, of {type(model).__module__.partition('.')[0]},"


def _forgotten_bags(model: Any) -> str:
    return (
        f"{_named(model)} does not keep which rows each member was trained "
        f"on as scikit-learn {sklearn.__version__} does: train with scikit-learn's own class of this version, or give "
        "validation rows and leave oob=False"
    )


def _samples(model: Any, member: int) -> Int64s:
    """The rows of one member's bag. All at once would take eight bytes for each row and member."""
    try:
        (samples,) = part_of(model, slice(member, member + 1)).estimators_samples_
    except AttributeError as error:
        raise InbagError(_forgotten_bags(model)) from error
    return np.asarray(samples)


def part_of(model: Any, members: slice | Int64s) -> Any:
    """A copy of the model with some of its members.

    Raises
    ------
    NotAForestError
        If the model does not predict by the members that it names.
    """
    if not holds_members(model):
        raise NotAForestError(no_members(model))
    model = copy.copy(model)
    for name in _OF_THE_WHOLE & vars(model).keys():
        delattr(model, name)
    if len(getattr(model, "_seeds", model.estimators_)) != len(model.estimators_):
        model._seeds = model._seeds[:0]  # nobody knows which members these seeds belong to
    for name in _OF_EACH & vars(model).keys():
        of_all = getattr(model, name)
        if isinstance(members, slice) or isinstance(of_all, np.ndarray):
            setattr(model, name, of_all[members])
        else:
            setattr(model, name, [of_all[member] for member in members])
    model.n_estimators = len(model.estimators_)
    return model


def as_array(X: Any) -> Any:
    """Rows in the form that the members of a bagging ensemble read."""
    return check_array(X, accept_sparse=True, dtype=None, ensure_all_finite=False)


def some_columns(X: Any, features: Any) -> Any:
    return X if features is None or np.array_equal(features, np.arange(X.shape[1])) else X[:, features]
