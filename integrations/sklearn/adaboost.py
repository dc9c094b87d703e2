"""AdaBoost over decision trees, for compiling only: its trees are not independent draws, so rfsize does not size it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rfsize.exceptions import NotAForestError
from rfsize.integrations.sklearn.forest import SklearnForest, is_tree
from rfsize.models.ensemble import Conventions, TreeNodes
from rfsize.models.model import VoteWeights
from rfsize.stopping.rules.weighted import WeightedStops, checked_weights


class BoostedTrees(SklearnForest):
    """The trees of an AdaBoost classifier with nonzero weight, in order of decreasing weight.

    Parameters
    ----------
    model : AdaBoostClassifier
        A fitted classifier with decision trees as members.

    Raises
    ------
    NotAForestError
        If the members are not decision trees, or have no fixed weights.
    ValueError
        If the weights cannot be weights of votes.
    """

    def __init__(self, model: Any) -> None:
        check_is_fitted(model)
        _check_kind(model)
        weights = checked_weights(model.estimator_weights_[: len(model.estimators_)])
        voting = np.flatnonzero(weights)
        # Boosting that ended early leaves weights of 0, and these may change how the total is rounded.
        stops = WeightedStops(weights[voting], -1 / (model.n_classes_ - 1), float(np.sum(model.estimator_weights_)))
        ordered = copy.copy(model)
        ordered.estimators_ = [model.estimators_[member] for member in voting[stops.order]]
        super().__init__(ordered)
        self._stops = stops
        self.vote_weights = VoteWeights(stops.weights, stops.against, stops.total)

    def checked_threshold(self, threshold: float | None) -> float:
        if threshold not in (None, 0.5):
            raise ValueError(f"threshold={threshold!r} is for votes that count alike; leave it at 0.5 for AdaBoost")
        return 0.5

    def tree_table(self, threshold: float) -> TreeNodes:
        table = super().tree_table(threshold)
        stops, is_voted = self._stops, table.vote[:, None] == np.arange(len(self.classes))
        worth, against = np.repeat(stops.worth[:, stops.order] / stops.total, table.n_nodes, axis=1)
        scores = np.where(is_voted, worth[:, None], against[:, None])
        return replace(table, value=scores if len(self.classes) > 2 else scores[:, 1:])

    @property
    def conventions(self) -> Conventions:
        # The softmax of f/(K − 1), where f are the sums of the scores, not the means. For two classes, the softmax of
        # -f/2 and f/2, where f is the difference of two scores of opposite signs.
        of_trees, n_classes = replace(super().conventions, refuses_missing=True), len(self.classes)
        if n_classes == 2:
            return replace(of_trees, link="logistic", slope=2.0 * self.n_trees)
        return replace(of_trees, link="softmax", slope=self.n_trees / (n_classes - 1))


def _check_kind(model: Any) -> None:
    if len(model.classes_) < 2:
        (only,) = model.classes_.tolist()
        raise NotAForestError(f"the ensemble knows one class only, {only!r}: there is nothing to vote on")
    if getattr(model, "algorithm", "SAMME") == "SAMME.R":
        raise NotAForestError(
            "AdaBoost by algorithm='SAMME.R' sums logarithms of probabilities: its members have no fixed weights, and "
            "no lead is safe before the last of them; train with algorithm='SAMME'"
        )
    member, n = model.estimators_[0], len(model.estimators_)
    if not is_tree(member):
        raise NotAForestError(
            f"the members are not scikit-learn's own trees but {type(member).__name__}s, which cannot be compiled; "
            f"with their votes, as class indices of shape (n_rows, {n}), use rfsize.StopTable.lossless("
            f"model.estimator_weights_[:{n}], n_classes={len(model.classes_)}).apply(votes)"
        )
