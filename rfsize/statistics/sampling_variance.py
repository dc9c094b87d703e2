"""How far a row's prediction moves from seed to seed, and from training set to training set.

On one row, the trees' scores have the mean F and scatter around it, because each tree has a bag and a seed of its own.
Another seed moves the mean of T trees by a variance of v/T, where v is that of single trees. Another training set moves
F itself, and the bags tell how far: a training row i matters as much as trees that drew it differ from the others. The
infinitesimal jackknife adds up these effects,

    V = Σᵢ (mᵢ/wᵢ · Cᵢ)²,  Cᵢ = Cov(Nᵢ, s),

where Nᵢ says how often the row is in a tree's bag, with the mean mᵢ and the variance wᵢ over trees, and s is the tree's
score. With a bootstrap mᵢ = wᵢ, which is the estimate of

    S. Wager, T. Hastie, B. Efron (2014). "Confidence intervals for random forests: the jackknife and the infinitesimal
    jackknife." Journal of Machine Learning Research 15, 1625-1651.

Without replacement wᵢ = mᵢ·(1 − mᵢ), and mᵢ/wᵢ = n/(n − s) is the factor for bags of s of n rows of

    S. Wager, S. Athey (2018). "Estimation and inference of heterogeneous treatment effects using random forests."
    Journal of the American Statistical Association 113(523), 1228-1242.

Of B trees, each Cᵢ has an error with the variance wᵢ·v/B. Their squares add up to the Monte Carlo bias, which is taken
off. What remains of it is noise with a variance of 2·bias²/n. It hides the V of single rows where there are not many
more trees than training rows, and hardly that of all rows together. So V/v of each row is shrunk towards that of all
rows: its posterior mean, if the true values have a gamma distribution whose mean and variance fit all rows (B. Efron
(2010). *Large-Scale Inference.* Cambridge University Press).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Bools, Floats, Int64s, blocks
from rfsize.counting.outputs import TreeOutputs
from rfsize.counting.task import Task
from rfsize.models.link import Link
from rfsize.statistics.curve import SEED
from rfsize.walking.leaves import leaf_lookup

ROWS = 2000
"""Most rows over which variances are pooled."""

# Numbers of draws are uneven if their variance over rows exceeds that of chance by this factor.
_UNEVEN = 1.5

_ROWS_COMPARED = 300  # whose errors tell how far those of all rows go together

Take = Callable[[int, int], NDArray[Any]]
"""How often training rows ``start`` to ``stop`` are in each bag, shape (n, n_trees, 1 or trees_per_iteration)."""


class PooledVariances(NamedTuple):
    """Variances of predictions in the mean over rows and classes, in squared units of the prediction.

    Attributes
    ----------
    by_tree : float
        The variance over single trees. Another seed moves a forest of T trees by this, divided by T.
    by_rows : float
        The variance that another training set brings to a forest of unlimited size; NaN if it is not known.
    error : float
        The standard error of ``by_rows``, because the trees are a sample.
    """

    by_tree: float
    by_rows: float
    error: float

    @property
    def is_known(self) -> bool:
        """Whether the trees tell ``by_rows`` from nothing."""
        return self.by_rows > 2.0 * self.error


@dataclass(frozen=True, eq=False)
class TrainingBags:
    """How often each training row is in the bag of each tree.

    Attributes
    ----------
    n_rows : int
        Number of training rows.
    take : callable
        See `Take`.
    factor, variance : ndarray of float, shape (n_rows, 1 or trees_per_iteration)
        m/w of each row, and the variance of m/w times the number of draws.
    units : ndarray of int64, shape (n_rows,), or None
        Rows with the same number were sampled together; None if each row was sampled alone.
    """

    n_rows: int
    take: Take
    factor: Floats
    variance: Floats
    units: Int64s | None = None

    @classmethod
    def of(cls, take: Take, n_rows: int, units: Int64s | None = None) -> TrainingBags:
        """Bags, and their means and variances by one pass over the rows."""
        n_trees = take(0, 1).shape[1]
        ranges = list(blocks(n_rows, n_trees, what="bags"))
        drawn = (take(*bounds).astype(np.float64) for bounds in ranges)
        mean, variance = np.concatenate([(of.mean(axis=1), of.var(axis=1)) for of in drawn], axis=1)
        # By chance alone the ratio of a row varies over forests, and its square is too large.
        if mean.var() <= _UNEVEN * variance.mean() / n_trees and variance.any():
            factor = np.full(mean.shape, mean.sum() / variance.sum())
        else:
            factor = np.divide(mean, variance, out=np.zeros_like(mean), where=variance > 0.0)
        return cls(n_rows, take, factor, factor**2 * variance, units)

    @property
    def n_units(self) -> int:
        """Number of units that were sampled apart."""
        return self.n_rows if self.units is None else int(self.units.max()) + 1

    def unit_variance(self) -> Floats:
        """``variance`` of each unit, in the mean over the trees of an iteration, shape (n_units,)."""
        of_rows = self.variance.mean(axis=1)
        return of_rows if self.units is None else np.bincount(self.units, of_rows).astype(np.float64)


class RowVariances(NamedTuple):
    """Variances of each prediction, shape (n_rows, n_outputs) each.

    Attributes
    ----------
    by_tree : ndarray of float
        The variance over single trees; NaN if fewer than two predict the row.
    by_rows : ndarray of float
        V, without its Monte Carlo bias; may be negative.
    bias : ndarray of float
        The bias that was taken off.
    """

    by_tree: Floats
    by_rows: Floats
    bias: Floats


def pooled_variances(outputs: TreeOutputs) -> PooledVariances | None:
    """Variances over at most `ROWS` out-of-bag rows; None where no bags are known, or no two trees predict a row."""
    task = outputs.task
    if task is None or task.bags is None or outputs.scores is None:
        return None
    rows = np.arange(task.n_rows)
    if task.n_rows > ROWS:
        rows = np.sort(np.random.default_rng(SEED).choice(task.n_rows, ROWS, replace=False))
    bags = training_bags(task)
    variances, shares = [], []
    for parts, n_votes in _parts_of_rows(task, rows, bags):
        variances.append(row_variances(parts, n_votes, bags))
        shares.append((parts / n_votes[..., None, None])[:, :: max(1, len(rows) // _ROWS_COMPARED)])
    joined = RowVariances(*(np.concatenate(of) for of in zip(*variances, strict=True)))
    return pooled(joined, np.concatenate(shares, axis=1), bags)


def pooled(variances: RowVariances, shares: Floats, bags: TrainingBags) -> PooledVariances | None:
    """Means over rows and outputs; ``shares`` are deviations of some of the rows, divided by their number of trees."""
    is_known = ~np.isnan(variances.by_tree).any(axis=1)
    if not is_known.any():
        return None
    by_tree, by_rows, _ = (float(of[is_known].mean()) for of in variances)
    # The same trees predict all rows, so the errors of rows go together as far as their trees' deviations do.
    shares = np.nan_to_num(shares.transpose(0, 1, 3, 2).reshape(len(shares), -1, shares.shape[2]))
    together = np.square(np.einsum("pat,pbt->ab", shares, shares))
    own, n_outputs = float(np.trace(together)) / len(together), variances.by_tree.size
    others = (float(together.sum()) / len(together) - own) / max(len(together) - 1, 1)
    squares = np.square(bags.unit_variance()).sum()
    error = math.sqrt(2.0 * squares * (others + max(own - others, 0.0) / n_outputs))
    return PooledVariances(by_tree, by_rows, error)


def training_bags(task: Task) -> TrainingBags:
    """The bags of out-of-bag outputs."""
    assert task.bags is not None
    return TrainingBags.of(task.bags.n_drawn, task.n_rows, task.groups.units)


def row_variances(parts: Floats, n_votes: Floats, bags: TrainingBags) -> RowVariances:
    """The jackknife on a block of rows.

    Parameters
    ----------
    parts : ndarray of float, shape (n_parts, n_rows, n_trees, n_outputs)
        How far each tree moves each prediction off the mean, 0 where it may not score the row. Trees of one iteration
        that have bags of their own are different parts.
    n_votes : ndarray of float, shape (n_parts, n_rows)
        Number of trees that score the row.
    bags : TrainingBags
    """
    n_rows, n_outputs = parts.shape[1], parts.shape[3]
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = np.square(parts).sum(axis=2) / (n_votes - 1.0)[..., None]
        variance[n_votes < 2.0] = np.nan
        bias = np.einsum("p,prk->rk", bags.variance.sum(axis=0), variance / n_votes[..., None])
        shares = parts / n_votes[..., None, None]
    squares = np.zeros((n_rows, n_outputs))
    of_units = None if bags.units is None else np.zeros((bags.n_units, n_rows, n_outputs))
    for start, stop in blocks(bags.n_rows, max(parts.shape[2] * len(parts), n_rows * n_outputs), what="bags"):
        drawn = bags.take(start, stop) * bags.factor[start:stop, None]
        effect = sum(np.tensordot(drawn[:, :, part], of, axes=(1, 1)) for part, of in enumerate(shares))
        if of_units is None or bags.units is None:
            squares += np.square(effect).sum(axis=0)
        else:
            np.add.at(of_units, bags.units[start:stop], effect)
    if of_units is not None:
        squares = np.square(of_units).sum(axis=0)
    return RowVariances(variance.sum(axis=0), squares - bias, bias)


def _parts_of_rows(task: Task, rows: Int64s, bags: TrainingBags) -> Iterator[tuple[Floats, Floats]]:
    """``parts`` and ``n_votes`` of `row_variances`, block by block, of rows with these ascending numbers."""
    forest, link = task.forest, task.predictor.link
    lookup = leaf_lookup(forest, task.X if len(rows) == task.n_rows else task.X.pick(rows))
    cells = forest.n_trees * forest.n_scores * (bags.factor.shape[1] + 2)
    for start, stop in blocks(task.n_rows, cells, what="scores"):
        first, last = np.searchsorted(rows, (start, stop))
        if first == last:
            continue
        seen = None
        if task.bags is not None:
            seen = task.walk.seen(start, stop, task.bags.take(start, stop))[rows[first:last] - start]
        scores = lookup(int(first), int(last), seen).scores.astype(np.float64)
        may_score = np.ones((*scores.shape[:2], 1), dtype=np.bool_) if seen is None else ~seen
        yield parts_of(scores, may_score, link, n_parts=bags.factor.shape[1])


def parts_of(scores: Floats, may_score: Bools, link: Link, *, n_parts: int) -> tuple[Floats, Floats]:
    """``parts`` and ``n_votes`` of `row_variances` from the trees' scores, by the link to first order."""
    may_score = np.broadcast_to(may_score, (*scores.shape[:2], n_parts))
    n_votes = may_score.sum(axis=1).astype(np.float64)
    deviation = np.where(may_score, scores, 0.0)
    mean = deviation.sum(axis=1) / np.maximum(n_votes, 1.0)
    deviation = np.where(may_score, scores - mean[:, None], 0.0)
    slopes = link.slopes(mean)
    if n_parts == 1:
        parts = np.einsum("rts,rks->rtk", deviation, slopes)[None]
    else:
        parts = np.einsum("rts,rks->srtk", deviation, slopes)
    return parts, n_votes.T
