"""How a metric, or its difference between two forests on the same rows, scatters over other rows, and its interval.

To first order, each row adds a term to the metric; the scatter of the terms gives the variance. The rows of a cluster
count as one draw. For a callable, of which the terms are not known, groups of rows are left out in turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import t as student

from rfsize._util import Bools, Floats, Int64s
from rfsize.exceptions import FewVotesError, RfsizeError
from rfsize.models.link import Predictor
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import SEED, TAIL, Estimate, place_of
from rfsize.statistics.metrics import Metric, value_or_nan
from rfsize.statistics.named_metrics import metric_on_rows

# Groups of rows that leave in turn, for a metric without influence.
_GROUPS = 100
_LARGEST_POWER = 300.0  # of e, so that the end of an interval is a number


def metric_error(
    metrics: Sequence[Metric], predicted: Sequence[Floats], rows: Int64s, clusters: Int64s
) -> tuple[float, float]:
    """Standard error over other rows of a metric, or of a first minus a second, and its degrees of freedom.

    Parameters
    ----------
    metrics : sequence of Metric
        One or two metrics of the same rows.
    predicted : sequence of ndarray, shape (n_rows, n_outputs)
        The predictions that each is of.
    rows, clusters : ndarray of int64, shape (n_rows,)
        Numbers of the rows, and the cluster of each.
    """
    on = metrics[0].weight[rows] > 0.0  # rows without weight do not count as sampled rows
    pairs = zip(metrics, predicted, strict=True)
    terms = [unit_terms(metric, rows[on], [of_forest[on]], clusters[on])[0] for metric, of_forest in pairs]
    squares = (terms[0] if len(terms) == 1 else terms[0] - terms[1]) ** 2
    n_units, variance = len(squares), float(squares.sum())
    # A few rows may dominate the metric, such as those of a rare class: Satterthwaite's degrees of freedom.
    tails = n_units * float(np.sum((squares / variance) ** 2)) if variance > 0.0 else 1.0
    freedom = min(n_units - 1.0, max(1.0, 2.0 * n_units / max(tails - 1.0, 1e-9)))
    return math.sqrt(variance), freedom


def unit_terms(
    metric: Metric, rows: Int64s, predicted: Iterable[Floats], clusters: Int64s, n_groups: int = _GROUPS
) -> Floats:
    """What each cluster of the rows adds to the metric of several forests, shape (n_forests, n_units).

    Of a metric without influence, what each of some groups of clusters adds, by leaving out one after the other. The
    products of two forests' terms add up to the covariance of their metrics over other rows.

    Raises
    ------
    FewVotesError
        If all rows are of one cluster.
    RfsizeError
        If the metric has no value without most groups.
    """
    names, cluster = np.unique(clusters, return_inverse=True)
    if len(names) < 2:
        raise FewVotesError("all rows are of one group, and an interval takes several: give rows of more groups")
    if metric.influence is not None:
        truth, weight, factor = metric.truth[rows], metric.weight[rows], math.sqrt(len(names) / (len(names) - 1.0))
        influences = (metric.influence(truth, of_forest, weight) for of_forest in predicted)
        return np.array([factor * np.bincount(cluster, weights=influence) for influence in influences])
    kept = without_groups(clusters, n_groups)
    values = np.array([[value_or_nan(metric, rows[on], of_forest[on]) for on in kept] for of_forest in predicted])
    is_defined = np.isfinite(values).all(axis=0)  # without a group, a rare class may be missing
    n_defined = np.count_nonzero(is_defined)
    if n_defined < 2:
        raise RfsizeError("the metric has no value on most parts of the rows: give more rows of each class")
    factor = (len(kept) - 1.0) / math.sqrt(len(kept) * (n_defined - 1.0))
    mean = values[:, is_defined].mean(axis=1, keepdims=True)
    return np.asarray(np.where(is_defined, factor * (mean - values), 0.0))


def without_groups(clusters: Int64s, n_groups: int) -> list[Bools]:
    """Masks of the rows that remain if one of some groups leaves; clusters stay together."""
    names, cluster = np.unique(clusters, return_inverse=True)
    n_groups = min(n_groups, len(names))
    group = np.random.default_rng(SEED).permutation(len(names))[cluster] % n_groups
    return [group != leaving for leaving in range(n_groups)]


def interval_within(bounds: tuple[float, float], centre: float, error: float, freedom: float) -> tuple[float, float]:
    """95 % interval of a metric that stays within its bounds."""
    z = float(student.ppf(1.0 - TAIL, freedom))
    if np.isfinite(bounds).all():
        return _wilson(centre, error, z, freedom)
    if np.isinf(bounds).all():
        return centre - z * error, centre + z * error
    # On a logarithmic scale of the distance from the bound.
    bound = bounds[0] if math.isfinite(bounds[0]) else bounds[1]
    away = centre - bound
    factor = math.exp(min(z * error / abs(away), _LARGEST_POWER)) if away else 1.0
    ends = bound + away / factor, bound + away * factor
    return min(ends), max(ends)


def _wilson(share: float, error: float, z: float, freedom: float) -> tuple[float, float]:
    """Wilson's interval of a share, for the number of rows at which the share would have this error."""
    n_rows = share * (1.0 - share) / error**2 if error > 0.0 and 0.0 < share < 1.0 else freedom + 1.0
    middle = (share + z**2 / (2.0 * n_rows)) / (1.0 + z**2 / n_rows)
    half = z * math.sqrt(share * (1.0 - share) / n_rows + z**2 / (4.0 * n_rows**2)) / (1.0 + z**2 / n_rows)
    return max(0.0, middle - half), min(1.0, middle + half)


# What a smaller forest loses against all trees of the forest at hand, measured on the same rows


class PairedLoss(NamedTuple):
    """A metric of a smaller forest compared with the metric of the whole forest, on the same rows.

    Attributes
    ----------
    lost : float
        How much worse the smaller forest is.
    error : float
        Standard error of ``lost``, over the choice of the rows.
    """

    lost: float
    error: float

    @classmethod
    def of(cls, metric: Metric, predicted: Floats, by_all: Floats) -> PairedLoss:
        """From the predictions of both forests."""
        rows, both = np.arange(len(metric.truth)), (predicted, by_all)
        of_few, of_all = (value_or_nan(metric, rows, predictions) for predictions in both)
        return cls(metric.worse * (of_few - of_all), metric_error((metric, metric), both, rows, rows)[0])


def paired_metrics(predictor: Predictor, n_rows: int, y: Any, weight: Any = None) -> Iterator[Metric]:
    """The metrics that smaller forests are compared by, without those that these rows do not define."""
    of_classes = ("accuracy", "auc", "log_loss") if len(predictor.classes) == 2 else ("accuracy", "log_loss")
    for name in () if n_rows < 2 else of_classes if len(predictor.classes) else ("rmse",):
        with suppress(RfsizeError):
            yield metric_on_rows(name, predictor, n_rows, y, weight)


def paired_losses(
    metrics: Iterable[Metric], by_few: dict[int, Floats], by_all: Floats, n_trees: int, target: str
) -> dict[str, tuple[Criterion, Estimate]]:
    """How much worse metrics are in smaller forests, from their predictions by size, as other losses of a report."""
    losses = {}
    for metric in metrics:
        pairs = [PairedLoss.of(metric, predicted, by_all) for predicted in by_few.values()]
        curve = PairedCurve(np.array(list(by_few)), pairs, n_trees)
        estimate = Estimate(curve, n_trees, len(by_all), n_dropped=0, votes_per_row=float(n_trees))
        losses[metric.name] = Criterion(metric.name, target=target), estimate
    return losses


@dataclass(frozen=True, eq=False)
class PairedCurve:
    """How much worse a metric is in smaller forests than in the whole forest, on the same rows; see `Curve`.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n,)
        Sizes that were tried, ascending.
    losses : list of PairedLoss, length n
    n_trees : int
        Number of trees of the whole forest.
    """

    sizes: Int64s
    losses: list[PairedLoss]
    n_trees: int

    def at(self, n_trees: int) -> float:
        """See `Curve.at`."""
        return self.loss(n_trees).lost

    def interval(self, n_trees: int) -> tuple[float, float]:
        """See `Curve.interval`."""
        loss = self.loss(n_trees)
        half_width = float(ndtri(1.0 - TAIL)) * loss.error
        return loss.lost - half_width, loss.lost + half_width

    def size(self, level: float) -> int:
        """The smallest size tried that loses no more than ``level``."""
        return min([int(size) for size in self.sizes if self.at(int(size)) <= level], default=self.n_trees)

    def size_quantile(self, level: float, share: float) -> int:
        """The whole forest, since nothing is certified of a metric."""
        return self.n_trees

    def loss(self, n_trees: int) -> PairedLoss:
        """The loss with its standard error; only for sizes that were tried."""
        if n_trees >= self.n_trees:
            return PairedLoss(0.0, 0.0)
        return self.losses[place_of(self.sizes, n_trees)]
