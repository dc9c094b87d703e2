"""How much a metric of a forest's predictions will still move, up to the infinite forest.

The trees of the forest are drawn again with replacement: the metric of the averages of such draws lies around that of
the forest at hand as the latter lies around that of the infinite forest (M. Lopes (2019). "Estimating the algorithmic
variance of randomized ensembles via the bootstrap." The Annals of Statistics 47(2), 1088-1112).

A training row asks only the n of the T trees that were not trained on it, and the variance of its average is T/n times
that of the forest, which sees new rows with all its trees. The metric's mean change, which comes from the variance on
each row, is therefore taken of deviations scaled by √(n/T). What moves the metric to and fro is the covariance of rows
with one another, which the n²/T trees that both ask leave as it is in the forest: C · (n²/T)/n² = C/T. So the spread is
taken of deviations as they are.

Accuracy moves in steps. On which side of a tie the forest at hand happens to be on a row says nothing of where more
trees will be, but draws of its trees, which fall on both sides, would make it foretell a change. A row that they change
with probability p adds p² to the variance of that change, which is made as much smaller as it owes to this, and its
interval as much longer. Where hardly a draw changes any of n rows, the interval is as wide as the share of rows that
n of them can overlook, 1 − 0.05^(1/n) at 95 %.

The logarithmic loss of averaged probabilities is taken to second order around the forest at hand, −log p − δ/p + δ²/2p²
for draws that are off by δ: draws of trees with pure leaves give a class that few of them predict exactly 0, which new
trees do not, and their loss would be that of whatever constant is put in its place. Where no tree asked about a row
predicts its class, the loss of the forest is infinite, and it is refused. The forests left are those that missed no
such class; where one tree or two made the difference, their loss is lower than that of others, and more trees raise it
although the change expected is a fall. The interval therefore reaches at least as high as the draws do.

Where the draws reach beyond the range of a metric, as they do where it is nearly 1 on the rows given, the trees at
hand are as good as any, and draws of them only worse. Changes cannot then be mirrored at the forest at hand: limit and
interval are cut to the range, and the other end of the interval goes at least as far as the draws do.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.representative import RowsAsked
from rfsize.estimation.base import REPLICATES
from rfsize.reporting.account import Account, Picture
from rfsize.reporting.plain import plain_account
from rfsize.reporting.result import Result
from rfsize.sizing.chances import cautions_of, chances_in_parts
from rfsize.sizing.drawn_trees import drawn_trees
from rfsize.sizing.metrics import LARGEST, MeanMetric, value_of
from rfsize.sizing.named_metrics import MetricLike, metric_with_truth
from rfsize.sizing.words import decimals
from rfsize.utils.typing import Floats
from rfsize.utils.warn import give
from rfsize.utils.words import how_many
from rfsize.voting.averages import Averages

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COVERAGE = 0.95
_ROUNDING = 1e-12  # of sums over the same rows in another order


@dataclass(frozen=True)
class MetricGap(Result):
    """What `SizeReport.metric_gap` predicts of a metric.

    Attributes
    ----------
    metric : str
        Its name.
    value : float
        The metric of the forest at hand; on training rows by its out-of-bag predictions, corrected for their being of
        fewer trees.
    change : float
        What infinitely many trees are expected to change it by.
    interval : tuple of float
        95 % interval of the change.
    available : int
        Trees of the forest at hand.
    source : str
        Where the predictions come from: "oob" or "rows given".
    n_rows : int
        Rows that they are of.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(50, random_state=0).fit(X, y)
    >>> report = rfsize.size(forest, X, oob=True, criterion="score", tolerance=10)
    >>> gap = report.metric_gap("rmse", y)
    >>> print(gap)
    rmse ... with 50 trees, about ... with infinitely many
    change ..., 95 % interval ... to ...
    estimated by drawing the trees again 200 times, on 442 rows (oob)
    >>> 50 < gap.limit < 70
    True
    """

    metric: str
    value: float
    change: float
    interval: tuple[float, float]
    available: int
    source: str
    n_rows: int

    @property
    def limit(self) -> float:
        """The metric expected of infinitely many trees."""
        return self.value + self.change

    def _account(self) -> Account:
        title = f"What more trees change of the {self.metric}"
        return plain_account(self, title, (Picture(title, self.plot),))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the metric of the forest at hand, and that of infinitely many trees with its interval.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> ax = rfsize.size(forest, X, y, oob=True, alpha=0.95).metric_gap("auc").plot()
        >>> ax.get_ylabel()
        'auc'
        """
        from rfsize.sizing.plots import plot_gap

        return plot_gap(self, ax)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values that ``json`` can write."""
        return {**asdict(self), "interval": list(self.interval), "limit": self.limit}

    def __str__(self) -> str:
        low, high = self.interval
        digits = decimals(self.interval)
        return (
            f"{self.metric} {self.value:.{digits}f} with {self.available:,} trees, about {self.limit:.{digits}f} with "
            "infinitely many\n"
            f"change {self.change:+.{digits}f}, 95 % interval {low:+.{digits}f} to {high:+.{digits}f}\n"
            f"estimated by drawing the trees again {REPLICATES} times, on "
            f"{how_many(self.n_rows, 'row')} ({self.source})"
        )

    __repr__ = __str__


def metric_gap(
    rows: ForestOnRows,
    counted: Averages | None,
    metric: MetricLike,
    y: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
) -> MetricGap:
    """Predict what infinitely many trees change a metric by, from averages that were counted or are counted now.

    See `SizeReport.metric_gap`.
    """
    if not rows.adapter.averages_scores:
        raise ValueError(
            "the members of the ensemble are no trees, and only their votes are read, not the probabilities that "
            "predict averages"
        )
    if y is None:
        raise ValueError("y is missing: a metric needs the truth of the rows; give it here, or before to rfsize.size")
    judge = metric_with_truth(metric, rows.predictor, rows.n_rows, y, sample_weight)
    averages = rows.averages() if counted is None else counted
    RowsAsked.of(rows, averages.asked, y).check(f"how much the {judge.name} still moves")
    found = drawn_trees(rows, averages, judge)
    give(cautions_of(judge, chances_in_parts(judge, averages)))
    used = np.flatnonzero(averages.is_spread)
    scaled, as_asked = found.scaled, found.as_asked
    # Draws may have been measured on a part of the rows, or in bins.
    is_exact = isinstance(judge, MeanMetric) and found.n_rows == len(used)
    now = found.now if is_exact else value_of(judge, used, rows.predictor.predictions(averages.mean[used]))
    if not max(abs(now), np.abs(scaled).max(), np.abs(as_asked).max()) < LARGEST:
        raise ValueError(f"the {judge.name} of the rows given is too large a number to tell what it will move by")
    drawn, spread = float(scaled.mean() - found.now), as_asked - as_asked.mean()
    change = -drawn
    if found.chance > 0.0:
        change *= max(0.0, 1.0 - found.chance / change**2) if change else 0.0
        spread *= np.sqrt(1.0 + found.chance / np.maximum(spread.var(), found.chance))
    tail = (1.0 - _COVERAGE) / 2.0
    ends = np.quantile(spread, [tail, 1.0 - tail])
    value = float(now + (scaled.mean() - as_asked.mean()))
    if judge.steps and np.ptp(ends) < _ROUNDING:
        # Hardly a draw changes any of so many rows, which leaves a share of them that may be.
        value, change, drawn = now, 0.0, 0.0
        ends = np.array([-1.0, 1.0]) * -math.expm1(math.log1p(-_COVERAGE) / len(used))
    value, change, interval = _within(
        judge.range,
        value,
        change,
        change - ends[::-1],
        drawn + ends,
        either_way=judge.either_way,
    )
    return MetricGap(
        metric=judge.name,
        value=value,
        change=change,
        interval=interval,
        available=rows.adapter.n_trees,
        source=rows.source,
        n_rows=len(used),
    )


def _within(
    span: tuple[float, float], value: float, change: float, mirrored: Floats, drawn: Floats, *, either_way: bool
) -> tuple[float, float, tuple[float, float]]:
    """Value, change and its interval of a metric with a range, from intervals of mirrored draws and of draws."""
    low, high = mirrored
    if value + mirrored[1] > span[1]:
        low = min(low, drawn[0])
    if either_way or value + mirrored[0] < span[0]:
        high = max(high, drawn[1])
    limit, lowest, highest = np.clip(value + np.array([change, low, high]), *span)
    value = float(np.clip(value, *span))
    return value, float(limit - value), (float(lowest - value), float(highest - value))
