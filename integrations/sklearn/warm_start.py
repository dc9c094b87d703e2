"""Add members to scikit-learn's ensembles with ``warm_start``."""

from __future__ import annotations

import copy
import warnings
from numbers import Integral
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone

from rfsize.counting.groups import ALONE, Groups
from rfsize.counting.leaves import asked_about
from rfsize.counting.tallied import Tallied
from rfsize.counting.tally import out_of_bag
from rfsize.exceptions import InbagError
from rfsize.integrations.sklearn.ensemble import BAGGING, SklearnEnsemble, holds_members, no_members
from rfsize.models.bags import Layout
from rfsize.models.training import ForestInTraining, Trainer
from rfsize.theory.sampling_ratio import fraction_without_replacement, ratio_with_replacement
from rfsize.utils.matrix import n_rows
from rfsize.utils.validation import sample_weights, training_labels

# Bags with replacement of more draws than there are rows.
_DRAWS_MORE_THAN_ALL = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9)


class SklearnTrainer(Trainer):
    """Grows ensembles like a fitted one, on the same training rows.

    Parameters
    ----------
    ensemble : SklearnEnsemble
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

    framework = "scikit-learn"

    def __init__(self, ensemble: SklearnEnsemble, X: Any, y: Any, sample_weight: Any) -> None:
        if not holds_members(ensemble.booster):
            raise InbagError(no_members(ensemble.booster))
        self.ensemble, self.rows = ensemble, (X, y, sample_weight)
        self.classes, self.link = ensemble.classes, ensemble.link
        self.largest_fraction = 0.5 if ensemble.booster.bootstrap and not _DRAWS_MORE_THAN_ALL else 1.0
        named = ensemble.booster.random_state
        self.seed = int(named) if isinstance(named, Integral) else 0
        self.label = training_labels(ensemble.classes, y, n_rows(X))
        self.weight = None if sample_weight is None else sample_weights(sample_weight, len(self.label))
        missing = np.setdiff1d(np.arange(len(ensemble.classes)), self.label)
        if missing.size:
            raise ValueError(
                f"y lacks the classes {ensemble.classes[missing].tolist()} that the ensemble was fitted to: give the "
                "labels of its training"
            )

    def start(
        self, *, fraction: float | None = None, seed: int | None = None, threshold: float = 0.5, groups: Groups = ALONE
    ) -> SklearnInTraining:
        """An ensemble without members yet; the seed is 0 if the fitted ensemble names none."""
        model = clone(self.ensemble.booster)
        if fraction is not None:
            model = with_fraction(model, fraction, len(self.label))
        model.set_params(random_state=self.seed if seed is None else seed)
        return SklearnInTraining(self, model, None, threshold, groups)

    def left_out(self, fraction: float) -> float:
        if not self.ensemble.booster.bootstrap:
            return super().left_out(fraction)
        return float(np.exp(-ratio_with_replacement(fraction)))

    def resume(self, model: Any, *, threshold: float = 0.5, groups: Groups = ALONE) -> SklearnInTraining:
        """A copy of the fitted ensemble; its own ``random_state`` draws the new members."""
        copied = self.ensemble.part(slice(None)).booster
        # Further fits must not draw from the caller's own generator.
        copied.random_state = copy.deepcopy(copied.random_state)
        return SklearnInTraining(self, copied, self.ensemble, threshold, groups)


def with_fraction(estimator: Any, fraction: float, n_rows: int) -> Any:
    """See `Framework.with_fraction`; sets ``max_samples`` to a number of rows."""
    if estimator.bootstrap:
        if fraction > 0.5 and not _DRAWS_MORE_THAN_ALL:
            raise ValueError(
                f"a bagging fraction of {fraction:g} is worth more draws with replacement than there are rows, which "
                f"scikit-learn {sklearn.__version__} does not draw: give fractions up to 0.5, or install 1.9 or newer"
            )
        fraction = ratio_with_replacement(fraction)
    elif not isinstance(estimator, BAGGING):
        raise InbagError(
            f"{type(estimator).__name__}(bootstrap=False) trains every tree on all rows: set bootstrap=True"
        )
    return estimator.set_params(max_samples=max(1, round(fraction * n_rows)))


def fraction_of(estimator: Any, n_rows: int) -> float | None:
    """See `Framework.fraction_of`; None if all rows are drawn without replacement."""
    drawn = estimator.max_samples
    ratio = 1.0 if drawn is None else float(drawn) / (n_rows if isinstance(drawn, Integral) else 1.0)
    if estimator.bootstrap:
        return float(fraction_without_replacement(ratio))
    return ratio if ratio < 1.0 else None


class SklearnInTraining(ForestInTraining):
    """An ensemble that gets more members.

    With a fixed ``random_state``, the members are the same as those of a single fit.

    Parameters
    ----------
    trainer : SklearnTrainer
    model : estimator
        The estimator that is fitted further.
    begun : SklearnEnsemble or None
        The members that ``model`` already has.
    threshold : float
        As in `rfsize.tree_outputs`.
    groups : Groups
        Groups of rows; a member votes on a row only if it saw no row of the same group.

    Raises
    ------
    InbagError
        If the bags of the members cannot be proven on these rows.
    """

    def __init__(
        self, trainer: SklearnTrainer, model: Any, begun: SklearnEnsemble | None, threshold: float, groups: Groups
    ) -> None:
        ensemble, self._rows, self._model = trainer.ensemble, trainer.rows, model
        self._settings = {name: getattr(model, name) for name in ("warm_start", "oob_score")}
        self.n_trees, self.link = 0, ensemble.link
        self.threshold, self.groups = threshold, groups
        self.voting, self.cut = ensemble.voting_at(threshold), ensemble.raw_threshold(threshold)
        self.out_of_bag = Tallied.nothing(len(trainer.label), len(ensemble.classes), ensemble.leaves.n_scores)
        self._kind = type(ensemble)
        if begun is not None:
            self.n_trees = begun.n_trees
            self._count(begun)

    def add(self, n_trees: int) -> None:
        X, y, sample_weight = self._rows
        weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
        model, before = self._model, self.n_trees
        model.set_params(warm_start=True, oob_score=False, n_estimators=before + n_trees)
        seeds, weights = getattr(model, "_seeds", None), _drawn_by(model)
        with warnings.catch_warnings():
            # scikit-learn warns that balanced class weights differ on other rows, but these are the same rows.
            warnings.filterwarnings("ignore", "class_weight presets")
            model.fit(X, y, **weighted)
        if before and not np.array_equal(weights, _drawn_by(model)):
            raise ValueError(
                "the ensemble was fitted with other sample weights, by which its bags were drawn: give the "
                "sample_weight of its training"
            )
        if seeds is not None:
            # Bagging keeps only the seeds of the newest members.
            model._seeds = np.concatenate([seeds, model._seeds])
        self.n_trees += n_trees
        self._count(self._ensemble.part(slice(before, None)))

    def _count(self, newest: SklearnEnsemble) -> None:
        """Add the newest members' out-of-bag outputs to the tally."""
        if newest.no_bags is not None:
            return
        X, _, sample_weight = self._rows
        bags = newest.bags(Layout.alone(len(self.out_of_bag.scores.asked)), None, sample_weight, None, None)
        ask = asked_about(newest, X)
        self.out_of_bag = self.out_of_bag.plus(out_of_bag(newest, bags, ask, self.threshold, self.groups))

    @property
    def _ensemble(self) -> SklearnEnsemble:
        """The ensemble of all members so far."""
        return self._kind(self._model)

    def check_bags(self) -> None:
        if self._ensemble.no_bags is not None:
            raise InbagError(self._ensemble.no_bags)

    def booster(self) -> Any:
        return self._ensemble.first(self.n_trees).set_params(**self._settings)


def _drawn_by(model: Any) -> NDArray[Any]:
    """Weights that bags were drawn by, stored since scikit-learn 1.8 (forests: 1.9); empty if not stored."""
    weights = getattr(model, "_sample_weight", None)
    return np.zeros(0) if weights is None else np.asarray(weights)
