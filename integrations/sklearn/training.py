"""Add members to scikit-learn's ensembles with ``warm_start``."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import BaseEnsemble
from sklearn.pipeline import Pipeline

from rfsize._util import Int64s, sample_weights, training_labels
from rfsize.counting.count import out_of_bag
from rfsize.counting.sums import Sums
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.integrations.sklearn.bags import BAGGING, holds_estimators, of_others, part_of, why_no_bags
from rfsize.integrations.sklearn.boosting import BOOSTED, why_no_forest
from rfsize.integrations.sklearn.model import FORESTS, SklearnForest, why_unread
from rfsize.models.bags import Layout
from rfsize.models.rows import n_rows_of
from rfsize.models.training import ForestInTraining, Trainer, Training
from rfsize.theory import fraction_without_replacement, ratio_with_replacement
from rfsize.walking.leaves import leaf_lookup

# Bags with replacement of more draws than there are rows.
_DRAWS_MORE_THAN_ALL = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9)


class SklearnTraining(Training):
    """How scikit-learn's forests and bagging ensembles are trained."""

    def trainer_of(self, forest: Any, X: Any, y: Any, sample_weight: Any) -> SklearnTrainer:
        return SklearnTrainer(forest, X, y, sample_weight)

    def check_estimator(self, estimator: Any) -> None:
        if isinstance(estimator, Pipeline):
            raise NotAForestError("rfsize grows no Pipeline: make pipeline[-1] a RightSizedClassifier or -Regressor")
        if isinstance(estimator, BOOSTED):
            raise NotAForestError(why_no_forest(estimator))
        if isinstance(estimator, BaseEnsemble) and not isinstance(estimator, FORESTS):
            raise NotAForestError(why_unread(estimator))

    def with_fraction(self, estimator: Any, fraction: float, n_rows: int) -> Any:
        if estimator.bootstrap:
            if fraction > 0.5 and not _DRAWS_MORE_THAN_ALL:
                raise ValueError("fractions above 0.5 draw more than all rows: give less, or install scikit-learn 1.9")
            fraction = float(ratio_with_replacement(fraction))
        elif not isinstance(estimator, BAGGING):
            raise InbagError("bootstrap=False trains every tree on all rows: set bootstrap=True")
        return estimator.set_params(max_samples=max(1, round(fraction * n_rows)))

    def fraction_of(self, estimator: Any, n_rows: int) -> float | None:
        drawn = estimator.max_samples
        ratio = 1.0 if drawn is None else float(drawn) / (n_rows if isinstance(drawn, Integral) else 1.0)
        if estimator.bootstrap:
            return float(fraction_without_replacement(ratio))
        return ratio if ratio < 1.0 else None


class SklearnTrainer(Trainer):
    """Grows ensembles like a fitted one, on the same training rows.

    Parameters
    ----------
    forest : SklearnForest
        The fitted ensemble, which stays unchanged.
    X, y, sample_weight
        Training rows, labels and weights of the ensemble.

    Raises
    ------
    InbagError
        If the ensemble is of a class that does not predict by its list of members.
    ValueError
        If the labels are not the training labels.
    """

    forest: SklearnForest

    def __init__(self, forest: SklearnForest, X: Any, y: Any, sample_weight: Any) -> None:
        if not holds_estimators(forest.booster):
            raise InbagError(of_others(forest.booster))
        label = training_labels(forest.classes, y, n_rows_of(X))
        weight = None if sample_weight is None else sample_weights(sample_weight, len(label))
        super().__init__(forest, label, weight)
        self.rows = X, y, sample_weight
        self.largest_fraction = 0.5 if forest.booster.bootstrap and not _DRAWS_MORE_THAN_ALL else 1.0
        seed = forest.booster.random_state
        self.seed = int(seed) if isinstance(seed, Integral) else 0
        if len(np.unique(label)) < len(forest.classes):
            raise ValueError("y lacks classes of the training: give the labels of the training")

    def start(self, *, fraction: float | None = None, seed: int | None = None) -> SklearnInTraining:
        """An ensemble without members yet; the seed is 0 if the fitted ensemble names none."""
        model = clone(self.forest.booster)
        if fraction is not None:
            model = SklearnTraining().with_fraction(model, fraction, len(self.label))
        model.set_params(random_state=self.seed if seed is None else seed)
        return SklearnInTraining(self, model, 0)

    def left_out(self, fraction: float) -> float:
        if not self.forest.booster.bootstrap:
            return super().left_out(fraction)
        return float(np.exp(-ratio_with_replacement(fraction)))

    def resume(self, model: Any) -> SklearnInTraining:
        """A copy of the fitted ensemble; its own ``random_state`` draws the new members."""
        copied = part_of(self.forest.booster, np.arange(self.forest.n_trees))
        # Further fits must not draw from the caller's own generator.
        copied.random_state = copy.deepcopy(copied.random_state)
        return SklearnInTraining(self, copied, self.forest.n_trees)


class SklearnInTraining(ForestInTraining):
    """An ensemble that gets more members; with a fixed ``random_state``, those of a single fit.

    Parameters
    ----------
    trainer : SklearnTrainer
    model : estimator
        The estimator that is fitted further.
    n_trees : int
        Number of members that ``model`` already has, whose bags are proven.
    """

    def __init__(self, trainer: SklearnTrainer, model: Any, n_trees: int) -> None:
        super().__init__(trainer)
        self.n_trees, self.voting = n_trees, trainer.forest.voting_at(self.threshold)
        self._trainer, self._model, self._read = trainer, model, type(trainer.forest)
        self._settings = {name: getattr(model, name) for name in ("warm_start", "oob_score")}
        if n_trees:
            self.out_of_bag = self._count(np.arange(n_trees))

    def train(self, n_trees: int) -> Iterator[tuple[int, Sums]]:
        X, y, sample_weight = self._trainer.rows
        weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
        model, before = self._model, self.n_trees
        model.set_params(warm_start=True, oob_score=False, n_estimators=before + n_trees)
        seeds, weights = getattr(model, "_seeds", None), _drawn_by(model)
        with warnings.catch_warnings():
            # scikit-learn warns that balanced class weights differ on other rows, but these are the same rows.
            warnings.filterwarnings("ignore", "class_weight presets")
            model.fit(X, y, **weighted)
        if before and not np.array_equal(weights, _drawn_by(model)):
            raise ValueError("the bags were drawn by other sample weights: give the sample_weight of the training")
        if seeds is not None:
            # Bagging keeps only the seeds of the newest members.
            model._seeds = np.concatenate([seeds, model._seeds])
        yield n_trees, self._count(np.arange(before, before + n_trees))

    def _count(self, members: Int64s) -> Sums:
        """The out-of-bag outputs of some of the members."""
        X, _, sample_weight = self._trainer.rows
        newest = self._read(part_of(self._model, members))
        if why_no_bags(newest.booster) is not None:
            return Sums.nothing(len(self._trainer.label), len(newest.classes), newest.n_scores)
        bags = newest.bags(Layout.alone(n_rows_of(X)), None, sample_weight, None, None)
        return out_of_bag(newest, bags, leaf_lookup(newest, newest.open(X)), self.threshold, self.groups)

    def check_bags(self) -> None:
        why = why_no_bags(self._model)
        if why is not None:
            raise InbagError(why)

    def booster(self) -> Any:
        return part_of(self._model, np.arange(self.n_trees)).set_params(**self._settings)


def _drawn_by(model: Any) -> NDArray[Any]:
    """Weights that bags were drawn by, stored since scikit-learn 1.8 (forests: 1.9); empty if not stored."""
    weights = getattr(model, "_sample_weight", None)
    return np.zeros(0) if weights is None else np.asarray(weights)
