"""Scikit-learn's ensembles, given more members by ``warm_start``."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.trainer import ForestInTraining
from rfsize.counting.out_of_bag import out_of_bag
from rfsize.exceptions import InbagError
from rfsize.integrations.sklearn.ensemble import SklearnEnsemble
from rfsize.utils.matrix import take
from rfsize.utils.typing import Int64s
from rfsize.voting.groups import Groups
from rfsize.voting.out_of_bag import OutOfBag


class SklearnInTraining(ForestInTraining):
    """An ensemble that takes more members: with a fixed ``random_state``, those that a single fit would give it.

    Parameters
    ----------
    ensemble : SklearnEnsemble
        What was fitted, and is not changed.
    X, y, sample_weight
        What it was fitted to.
    label : ndarray of int64, shape (n_rows,)
        Class index of each row.
    threshold : float
        As in `rfsize.tree_outputs`.
    groups : Groups
        Rows that belong together.

    Raises
    ------
    InbagError
        If the bags of its members cannot be proven on these rows.
    ValueError
        If the labels are not those of its training.
    """

    def __init__(
        self,
        ensemble: SklearnEnsemble,
        X: Any,
        y: Any,
        label: Int64s,
        sample_weight: Any,
        threshold: float,
        groups: Groups,
    ) -> None:
        missing = np.setdiff1d(np.arange(len(ensemble.classes)), label)
        if missing.size:
            raise ValueError(
                f"y lacks the classes {ensemble.classes[missing].tolist()} that the ensemble was fitted to: give the "
                "labels of its training"
            )
        self._rows = X, y, sample_weight
        self._settings = {name: getattr(ensemble.booster, name) for name in ("warm_start", "oob_score")}
        self._ensemble = ensemble.part(slice(None))
        # To fit on must not draw from the caller's own generator.
        self._ensemble.booster.random_state = copy.deepcopy(ensemble.booster.random_state)
        self.n_trees, self.link = ensemble.n_trees, ensemble.link
        self._threshold, self.groups = threshold, groups
        self.averages_scores, self.predict_obeys = ensemble.averages_scores, ensemble.predict_obeys
        self.cut = ensemble.cut(threshold) if ensemble.averages_scores else 0.0
        self.out_of_bag = OutOfBag.nothing(len(label), len(ensemble.classes), ensemble.leaves.n_scores)
        self._count(ensemble)

    def add(self, n_trees: int) -> None:
        X, y, sample_weight = self._rows
        weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
        model, before = self._ensemble.booster, self.n_trees
        model.set_params(warm_start=True, oob_score=False, n_estimators=before + n_trees)
        seeds, weights = getattr(model, "_seeds", None), _drawn_by(model)
        with warnings.catch_warnings():
            # That balanced weights differ where the next members are fitted to other rows: they are not.
            warnings.filterwarnings("ignore", "class_weight presets")
            model.fit(X, y, **weighted)
        if not np.array_equal(weights, _drawn_by(model)):
            raise ValueError(
                "the ensemble was fitted with other sample weights, by which its bags were drawn: give the "
                "sample_weight of its training"
            )
        if seeds is not None:
            # Bagging keeps the seeds of the last members only.
            model._seeds = np.concatenate([seeds, model._seeds])
        self._ensemble = type(self._ensemble)(model)
        self.n_trees += n_trees
        self._count(self._ensemble.part(slice(before, None)))

    def _count(self, newest: SklearnEnsemble) -> None:
        """Add up what the newest members say of the rows that they did not see."""
        if newest.no_bags is not None:
            return
        X, _, sample_weight = self._rows
        bags = newest.bags(len(self.out_of_bag.scores.asked), None, sample_weight, None, None)
        found = out_of_bag(
            newest,
            bags,
            lambda start, stop: newest.leaf_index(take(X, start, stop)),
            self._threshold,
            self.groups,
        )
        self.out_of_bag = self.out_of_bag.plus(found)

    def check_bags(self) -> None:
        if self._ensemble.no_bags is not None:
            raise InbagError(self._ensemble.no_bags)

    def booster(self) -> Any:
        return self._ensemble.truncated(self.n_trees).set_params(**self._settings)


def _drawn_by(model: Any) -> NDArray[Any]:
    """The weights by which bags were drawn, kept since scikit-learn 1.8 (1.9 of forests); empty where not."""
    weights = getattr(model, "_sample_weight", None)
    return np.zeros(0) if weights is None else np.asarray(weights)
