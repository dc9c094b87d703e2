"""Judges forests by their out-of-bag outputs, and compares them on the same rows."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer

from rfsize._util import how_many
from rfsize.counting.count import Sums
from rfsize.models.training import Trainer
from rfsize.sizing.named_metrics import scorer_name
from rfsize.sizing.stored_predictions import StoredClassifier, StoredRegressor

_REPLICATES = 100
_BOOTSTRAP_SEED = 2010  # fixed: the same votes give the same standard errors


@dataclass(frozen=True)
class Comparison:
    """Candidates, judged on the rows on which each of them has out-of-bag votes.

    Attributes
    ----------
    value : ndarray of float64, shape (n_candidates,)
        Error (less is better) or score (more is better).
    value_se : ndarray of float64, shape (n_candidates,)
        Standard error of the value, over the choice of rows.
    behind : ndarray of float64, shape (n_candidates,)
        How much worse the candidate is than the best; at least 0.
    behind_se : ndarray of float64, shape (n_candidates,)
        Standard error of this difference, over the choice of rows, paired row by row, and over other trees; 0 for the
        best.
    n_rows : int
        Number of rows that judge.
    """

    value: NDArray[np.float64]
    value_se: NDArray[np.float64]
    behind: NDArray[np.float64]
    behind_se: NDArray[np.float64]
    n_rows: int


class Judge(ABC):
    """A measure that judges forests.

    Attributes
    ----------
    name : str
        "error" if less is better, "score" if more is better.
    """

    name: str

    def __init__(self, trainer: Trainer, voting: str) -> None:
        self._trainer = trainer
        self._voting = voting

    def compare(self, candidates: Sequence[Sums]) -> Comparison:
        """Judge all candidates on the rows on which each of them has votes.

        Raises
        ------
        ValueError
            If there are fewer than two such rows, or a value is undefined.
        """
        rows = self._common_rows(candidates)
        value = self._values(candidates, rows)
        best = int((value if self.name == "error" else -value).argmin())
        value_se, over_rows = self._standard_errors(candidates, rows, best)
        behind_se = self._behind_se(over_rows, best, candidates)
        return Comparison(value, value_se, np.abs(value - value[best]), behind_se, rows.size)

    @abstractmethod
    def _standard_errors(
        self, candidates: Sequence[Sums], rows: NDArray[np.int64], best: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Standard errors over the choice of rows, for the values and for the differences from the best."""

    @abstractmethod
    def _values(self, candidates: Sequence[Sums], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Error or score of each candidate on the given rows."""

    def _behind_se(self, over_rows: NDArray[np.float64], best: int, candidates: Sequence[Sums]) -> Any:
        """Standard errors of the differences from the best: those over rows, with the scatter over trees added.

        Other trees have another error on the same rows. The difference between the errors of the two halves of a forest
        has four times the variance of the error of all trees. Forests of one seed draw mostly the same rows, so part of
        this difference is the same for all candidates and cancels in a comparison of two. The rest is the scatter of
        the difference from candidate to candidate: half of the mean square between two of them.
        """
        if len(candidates) == 1:
            return np.zeros(1)
        first, second = zip(*map(_halves, candidates), strict=True)
        rows = self._common_rows([*first, *second])
        apart = self._values(first, rows) - self._values(second, rows)
        over_trees = 2.0 * np.var(apart, ddof=1) / 4.0
        return np.where(np.arange(len(over_rows)) == best, 0.0, np.sqrt(over_rows**2 + over_trees))

    def _common_rows(self, candidates: Sequence[Sums]) -> NDArray[np.int64]:
        known = np.logical_and.reduce([candidate.scores.asked > 0 for candidate in candidates])
        rows = candidates[0].scores.number[known]
        weight = self._trainer.weight
        if rows.size < 2 or (weight is not None and not weight[rows].sum() > 0.0):
            raise ValueError(
                f"only {how_many(rows.size, 'row')} (of positive weight) have out-of-bag votes from every forest "
                "compared, too few to judge by; give more trees, or smaller fractions"
            )
        return rows

    def _weight(self, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        return None if self._trainer.weight is None else self._trainer.weight[rows]

    def _predicted(self, candidate: Sums, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        mean = candidate.scores.mean[np.searchsorted(candidate.scores.number, rows)]
        return self._trainer.link.predictions(mean, len(self._trainer.classes))

    def _labels(self, candidate: Sums, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Class index of each row, by majority vote or averaged scores. A tie goes to the lowest index."""
        said = candidate.counts[rows] if self._voting == "hard" else self._predicted(candidate, rows)
        return said.argmax(axis=1)


def _halves(candidate: Sums) -> list[Sums]:
    """The sums of each half of the trees, on the rows whose sums are kept by blocks of trees."""
    blocks, halves = candidate.blocks, []
    places = np.searchsorted(candidate.scores.number, blocks.rows)
    for half, scores in zip((slice(0, None, 2), slice(1, None, 2)), blocks.halves(), strict=True):
        counts = np.zeros_like(candidate.counts)
        counts[blocks.rows] = blocks.votes[:, half].sum(axis=1)
        of_all = replace(scores.placed(places, len(candidate.scores)), rows=candidate.scores.rows)
        halves.append(replace(candidate, counts=counts, scores=of_all))
    return halves


def judge_for(trainer: Trainer, metric: str | Callable[..., Any] | None, voting: str) -> Judge:
    """The judge for a metric: a scikit-learn scorer, or for None the error of the labels or the mean squared error.

    Raises
    ------
    ValueError
        If ``metric`` is not a scorer, or cannot judge these labels.
    """
    return MeanLoss(trainer, voting) if metric is None else Scorer(trainer, metric, voting)


class MeanLoss(Judge):
    """Weighted share of rows with a wrong label; for regression, mean squared error."""

    name = "error"

    def _standard_errors(
        self, candidates: Sequence[Sums], rows: NDArray[np.int64], best: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        loss, weight = self._losses(candidates, rows), self._weight(rows)
        weight = np.ones(rows.size) if weight is None else weight
        return _standard_error(loss, weight), _standard_error(loss - loss[best], weight)

    def _values(self, candidates: Sequence[Sums], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.average(self._losses(candidates, rows), axis=1, weights=self._weight(rows))

    def _losses(self, candidates: Sequence[Sums], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.stack([self._loss(candidate, rows) for candidate in candidates])

    def _loss(self, candidate: Sums, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        label = self._trainer.label[rows]
        if len(self._trainer.classes):
            return (self._labels(candidate, rows) != label).astype(np.float64)
        squared: NDArray[np.float64] = (self._predicted(candidate, rows)[:, 0] - label) ** 2
        return squared


def _standard_error(loss: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard error of the weighted mean of each row of ``loss``."""
    mean = np.average(loss, axis=1, weights=weight)
    squares = ((weight * (loss - mean[:, None])) ** 2).sum(axis=1)
    n_rows = loss.shape[1]
    return np.sqrt(squares * n_rows / (n_rows - 1)) / weight.sum()


class Scorer(Judge):
    """The score of a scikit-learn scorer on the out-of-bag predictions, with standard errors from a paired bootstrap.

    The scorer gets an estimator that predicts labels by ``voting``, and the probabilities that the framework predicts
    from the mean of the trees. The bootstrap draws rows within each class, so that no replicate lacks a class.
    """

    name = "score"

    def __init__(self, trainer: Trainer, metric: str | Callable[..., Any], voting: str) -> None:
        super().__init__(trainer, voting)
        self._metric = metric
        self._scorer = _checked_scorer(metric)
        # A scorer that does not fit the labels raises here, before any forest is trained.
        rows = np.arange(len(trainer.label))
        n_classes = len(trainer.classes)
        right = np.eye(n_classes)[trainer.label.astype(np.int64)] if n_classes else trainer.label.astype(np.float64)
        self._score(self._estimator(right, right.argmax(axis=1) if n_classes else right), rows, rows)

    def _standard_errors(
        self, candidates: Sequence[Sums], rows: NDArray[np.int64], best: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        estimators = [self._stored(candidate, rows) for candidate in candidates]
        drawn = np.array(
            [[self._score(estimator, rows, draw) for estimator in estimators] for draw in self._draws(rows)]
        )
        return drawn.std(axis=0, ddof=1), (drawn[:, [best]] - drawn).std(axis=0, ddof=1)

    def _values(self, candidates: Sequence[Sums], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        every = np.arange(rows.size)
        return np.array([self._score(self._stored(candidate, rows), rows, every) for candidate in candidates])

    def _draws(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Places in ``rows``, drawn with replacement."""
        generator = np.random.default_rng(_BOOTSTRAP_SEED)
        if not len(self._trainer.classes):
            return [generator.integers(0, rows.size, rows.size) for _ in range(_REPLICATES)]
        label = self._trainer.label[rows]
        strata = [np.flatnonzero(label == one) for one in np.unique(label)]
        return [np.concatenate([generator.choice(s, s.size) for s in strata]) for _ in range(_REPLICATES)]

    def _stored(self, candidate: Sums, rows: NDArray[np.int64]) -> Any:
        predicted = self._predicted(candidate, rows)
        if not len(self._trainer.classes):
            return self._estimator(predicted, predicted)
        return self._estimator(predicted, self._labels(candidate, rows))

    def _estimator(self, predicted: NDArray[np.float64], label: NDArray[Any]) -> Any:
        if len(self._trainer.classes):
            return StoredClassifier(self._trainer.classes, self._trainer.classes[label], predicted)
        return StoredRegressor(predicted)

    def _score(self, estimator: Any, rows: NDArray[np.int64], places: NDArray[np.int64]) -> float:
        """Score of the stored predictions at some places of ``rows``."""
        label = self._trainer.label[rows[places]]
        if len(self._trainer.classes):
            label = self._trainer.classes[label.astype(np.int64)]
        weight = self._weight(rows[places])
        given = {} if weight is None else {"sample_weight": weight}
        try:
            value = float(self._scorer(estimator, places[:, None], label, **given))
        except (ValueError, TypeError, AttributeError) as error:
            weighed = " with sample weights" if given else ""
            raise ValueError(
                f"metric={self._metric!r} cannot judge out-of-bag predictions of these labels{weighed}: {error}. It "
                "must be a scikit-learn scorer, called as scorer(estimator, X, y); make_scorer makes one of a metric"
            ) from error
        if not np.isfinite(value):
            raise ValueError(f"metric={self._metric!r} gives {value} on {places.size} rows; take another scorer")
        return value


def _checked_scorer(metric: str | Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(metric, str):
        scorer: Callable[..., Any] = get_scorer(scorer_name(metric))
        return scorer
    if not callable(metric):
        raise ValueError(f"metric must be the name of a scikit-learn scorer, a scorer, or None; found {metric!r}")
    try:
        needed = [each for each in inspect.signature(metric).parameters.values() if each.default is each.empty]
    except ValueError:  # a callable without a signature
        return metric
    if needed and needed[0].name.startswith("y"):
        name = getattr(metric, "__name__", repr(metric))
        raise ValueError(
            f"metric is the function {name}, which takes labels and predictions; a scorer takes (estimator, X, y). "
            f"Give sklearn.metrics.make_scorer({name}), with greater_is_better=False where less is better"
        )
    return metric
