"""How far a row's prediction moves from seed to seed, and from training set to training set.

On one row, the trees' scores have the mean F and scatter around it, because each tree has a bag and a seed of its own.
Another seed moves the mean of T trees by a variance of v/T, where v is that of single trees. Another training set moves
F itself, and the bags tell how far: a training row i matters as much as trees that drew it differ from the others. The
infinitesimal jackknife adds up these effects,

    V = Σᵢ (mᵢ/wᵢ · Cᵢ)²,  Cᵢ = Cov(Nᵢ, s),

where Nᵢ says whether the row is in a tree's bag, with the mean mᵢ and the variance wᵢ over trees, and s is the tree's
score. It is the estimate of

    S. Wager, T. Hastie, B. Efron (2014). "Confidence intervals for random forests: the jackknife and the infinitesimal
    jackknife." Journal of Machine Learning Research 15, 1625-1651,

which counts how often a bootstrap drew the row. rfsize asks whether it did: mᵢ/wᵢ · Cᵢ is then what the scores would
lose without the row, whether or not a tree makes more of a row that it drew twice. Without replacement, mᵢ/wᵢ = n/(n −
s) is the factor for bags of s of n rows of

    S. Wager, S. Athey (2018). "Estimation and inference of heterogeneous treatment effects using random forests."
    Journal of the American Statistical Association 113(523), 1228-1242.

A tree is no sum of effects of single rows. What j rows do together, V counts j times (B. Efron, C. Stein (1981). "The
jackknife estimate of variance." The Annals of Statistics 9(3), 586-596; W. Peng, L. Mentch, L. Stefanski (2021). "Bias,
consistency, and alternative perspectives of the infinitesimal jackknife." arXiv 2106.05918). Let A(j) be the variance
of what j rows of a bag do together (W. Hoeffding (1948). "A class of statistics with asymptotically normal
distribution." The Annals of Mathematical Statistics 19(3), 293-325). Two trees whose bags have a share x of their rows
in common have the covariance P(x) = ΣⱼA(j)·xʲ over training sets. With bags of a share m of the rows, V is m·P'(m), and
the variance of an unlimited forest P(m). A single forest has too few trees to tell from pairs of rows how strongly P is
bent. In trees that try all columns, A(j) is nearly proportional to 1/j, whatever they learn, so that P is a logarithm.
Where columns are drawn, two trees share an effect only if both split by its columns, which is the rarer the more rows
it takes: A(j) has a factor of θʲ, and

    P(x) ∝ −ln(1 − θ·x),  V / P(m) = u / ln(1 + u),  u = θ·m / (1 − θ·m).

Where chance splits, trees scatter more, and the share of single rows in this scatter, b = (1 − m)/m · V/v, is small.
θ is b/(b + 0.02), of all rows together, which was fitted to real variances of forests of LightGBM, XGBoost and
scikit-learn on eight made problems, with fractions of 0.3 to 1. `benchmarks/agreement.py` measures others.

Of B trees, each Cᵢ has an error with the variance wᵢ·v·(B − 1)/B². Their squares add up to the Monte Carlo bias, which
is taken off. What remains of it is noise with a variance of 2·bias²/n. It hides the V of single rows where there are
not many more trees than training rows, and hardly that of all rows together. So V/v of each row is shrunk towards that
of all rows: its posterior mean, if the true values have a gamma distribution whose mean and variance fit all rows (B.
Efron (2010). *Large-Scale Inference.* Cambridge University Press).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Bools, Floats, Int64s, blocks, choice, how_many, refuse_unused
from rfsize.counting.outputs import TreeOutputs, task_of, why_no_forest
from rfsize.counting.sums import FEWEST_ROWS, Scores
from rfsize.counting.task import Task, seen_mask
from rfsize.exceptions import FewVotesError, NotAForestError
from rfsize.models.link import Link
from rfsize.models.model import Forest
from rfsize.statistics.curve import SEED
from rfsize.walking.leaves import leaf_lookup

ROWS = 2000
"""Most rows over which variances are pooled; fewer where there are many rows and trees, to end in seconds."""

_MOST_PRODUCTS = 100_000_000_000

_SHARE_BY_CHANCE = 0.02  # see above

# Rows are drawn unevenly if the variance of their numbers of trees exceeds that of chance by this factor.
_UNEVEN = 1.5

_ROWS_COMPARED = 300  # whose errors tell how far those of all rows go together

# Ratios V/v are sought on so many points, from this share of the mean on; a scatter below this share of its square is
# none.
_POINTS, _LEAST_RATIO, _NO_SCATTER, _ROWS_PER_BLOCK = 256, 0.02, 1e-4, 4096

Take = Callable[[int, int], NDArray[Any]]
"""Whether training rows ``start`` to ``stop`` are in each bag, shape (n, n_trees, 1 or trees_per_iteration)."""


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
    """Whether each training row is in the bag of each tree.

    Attributes
    ----------
    take : callable
        See `Take`.
    factor, variance : ndarray of float, shape (n_rows, 1 or trees_per_iteration)
        What multiplies the covariance of each row, and the variance of this times whether the row is in the bag.
    units : ndarray of int64, shape (n_rows,), or None
        Rows with the same number were sampled together; None if each row was sampled alone.
    fraction : float
        The share of the rows in the bag of a tree; 0 of other members, of which no law is known.
    """

    take: Take
    factor: Floats
    variance: Floats
    units: Int64s | None = None
    fraction: float = 0.0

    @classmethod
    def of(cls, take: Take, n_rows: int, units: Int64s | None = None, *, of_trees: bool = True) -> TrainingBags:
        """Bags, by one pass over the rows."""
        n_trees = take(0, 1).shape[1]
        mean, variance = np.empty((2, n_rows, take(0, 1).shape[2]))
        for start, stop in blocks(n_rows, n_trees, what="bags"):
            drawn = take(start, stop).astype(np.float64)
            mean[start:stop], variance[start:stop] = drawn.mean(axis=1), drawn.var(axis=1, ddof=1)
        # By chance alone the ratio of a row varies over forests, and its square is too large.
        if mean.var() <= _UNEVEN * variance.mean() / n_trees and variance.any():
            factor = np.full(mean.shape, mean.sum() / variance.sum())
        else:
            factor = np.divide(mean, variance, out=np.zeros_like(mean), where=variance > 0.0)
        return cls(take, factor, factor**2 * variance, units, float(mean.mean()) if of_trees else 0.0)

    @property
    def n_units(self) -> int:
        """Number of units that were sampled apart."""
        return len(self.factor) if self.units is None else int(self.units.max()) + 1


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
    rows, per_row = np.arange(task.n_rows), task.n_rows * task.forest.n_trees * task.forest.n_scores
    most = min(ROWS, max(_MOST_PRODUCTS // per_row, FEWEST_ROWS))
    if task.n_rows > most:
        rows = np.sort(np.random.default_rng(SEED).choice(task.n_rows, most, replace=False))
    return _variances(task, rows, training_bags(task))[1]


def standard_error(outputs: TreeOutputs, of: str, bags: Any) -> Floats:
    """See `TreeOutputs.standard_error`."""
    choice("of", of, ("seeds", "rows"))
    if (why := why_no_forest(outputs)) is not None:
        raise NotAForestError(why)
    if outputs.scores is None or outputs.predictor is None:
        raise NotAForestError("counted Votes have no scores, which a standard error takes: take outputs.agreement()")
    if outputs.predictor.link.kind == "step":
        raise ValueError("predictions of 0 or 1 have no standard error, they move in steps: take outputs.agreement()")
    if of == "seeds":
        refuse_unused("another seed brings other bags", bags=bags)
        number, variance = outputs.scores.number, _by_seeds(outputs.scores, outputs.predictor.link) / outputs.n_trees
    else:
        number, variance = np.arange(outputs.n_rows), _by_rows(outputs, bags)
    if not len(outputs.classes):
        variance = variance[:, 0]
    elif variance.shape[1] == 1:
        variance = np.repeat(variance, 2, axis=1)
    error = np.full((outputs.n_rows, *variance.shape[1:]), np.nan)
    error[number] = np.sqrt(variance)
    return error


def _by_seeds(scores: Scores, link: Link) -> Floats:
    """Variance of each prediction over single trees, shape (n_rows, n_outputs)."""
    slopes, variance = link.slopes(scores.mean), np.empty(scores.mean.shape)
    for start, stop in blocks(len(scores), scores.n_scores**2, what="scores"):
        rows = slice(start, stop)
        variance[rows] = np.einsum("rkj,rjl,rkl->rk", slopes[rows], scores.take(rows).covariances(), slopes[rows])
    return np.maximum(variance, 0.0)


def _by_rows(outputs: TreeOutputs, bags: Any) -> Floats:
    """V of each prediction, shrunk towards that of all rows, shape (n_rows, n_outputs)."""
    task = task_of(outputs)
    if task.bags is not None:
        refuse_unused("out-of-bag outputs know the bags of their rows", bags=bags)
    known = training_bags(task) if task.bags is not None else _given_bags(bags, outputs)
    variances, of_all = _variances(task, np.arange(task.n_rows), known)
    if of_all is None:
        raise FewVotesError("no two trees predict any of the rows: train more trees")
    if not of_all.is_known:
        ratio = 3.0 * of_all.error / max(of_all.by_rows, of_all.error, np.finfo(np.float64).tiny)
        enough = int(float(f"{max(ratio, 1.1) * outputs.n_trees:.2g}"))
        noise = f"{how_many(outputs.n_trees, 'tree')} do not tell from noise what other training rows would bring"
        advice = f"train some {enough:,} trees or more, take more rows at once, or give the bags of this very model"
        raise FewVotesError(f"{noise}: {advice}", enough=enough)
    return _shrunk(variances, known.n_units)


def _shrunk(variances: RowVariances, n_units: int) -> Floats:
    """Posterior means of V, whose ratios to v have a gamma distribution over the rows, with the mean of all V."""
    by_tree, by_rows, bias = variances
    is_known = by_tree > 0.0
    ratio, noise = by_rows[is_known] / by_tree[is_known], bias[is_known] / by_tree[is_known]
    mean = by_rows[is_known].sum() / by_tree[is_known].sum()
    scatter = np.mean((ratio - mean) ** 2 - 2.0 * noise**2 / n_units - 4.0 * noise / n_units * mean)
    grid = mean * np.geomspace(_LEAST_RATIO, max(1.0 / _LEAST_RATIO, ratio.max() / mean), _POINTS)
    shape = min(mean**2 / max(scatter, _NO_SCATTER * mean**2), 1.0 / _NO_SCATTER)
    log_prior = shape * (np.log(grid / mean) - grid / mean)
    posterior = np.empty(len(ratio))
    for start in range(0, len(ratio), _ROWS_PER_BLOCK):
        block = slice(start, start + _ROWS_PER_BLOCK)
        own = noise[block, None]
        variance = 2.0 * own**2 / n_units + 4.0 * own / n_units * grid
        log_mass = log_prior - 0.5 * np.log(variance) - 0.5 * (ratio[block, None] - grid) ** 2 / variance
        mass = np.exp(log_mass - log_mass.max(axis=1, keepdims=True))
        posterior[block] = mass @ grid / mass.sum(axis=1)
    shrunk = np.where(np.isnan(by_tree), np.nan, 0.0)
    shrunk[is_known] = posterior * by_tree[is_known]
    return np.asarray(shrunk * (by_rows[is_known].sum() / shrunk[is_known].sum()))


def _given_bags(bags: Any, outputs: TreeOutputs) -> TrainingBags:
    """Bags that the user gives for fresh rows; ``ValueError`` if they do not fit the model."""
    task, train = task_of(outputs), "rfsize.tree_outputs(model, X_train, y_train, oob=True)"
    if isinstance(bags, TreeOutputs):
        training = task_of(bags)
        known = training.forest.digest, bags.n_trees
        if training.bags is None or known != (task.forest.digest, outputs.n_trees):
            raise ValueError(f"bags are not out-of-bag outputs of this model: give {train}")
        return training_bags(training)
    if bags is not None and isinstance(task.forest, Forest) and task.forest.has_bags_by_class:
        raise ValueError(f"bags hold one bag an iteration, and the tree of each class has its own: give bags={train}")
    drawn = np.asarray(bags)
    is_by_tree = drawn.ndim == 2 and drawn.dtype.kind in "bui" and len(drawn) == outputs.n_trees and drawn.size
    if not is_by_tree or (drawn == drawn[:1]).all():
        raise ValueError(
            f"bags must say how often each training row is in the bag of each of the {outputs.n_trees} trees, which "
            f"differ: give bags=rfsize.inbag(model, X_train), or bags={train}"
        )
    by_row, of_trees = drawn.T[:, :, None] > 0, task.forest.ensemble is not None
    return TrainingBags.of(lambda start, stop: by_row[start:stop], len(by_row), of_trees=of_trees)


def _variances(task: Task, rows: Int64s, bags: TrainingBags) -> tuple[RowVariances, PooledVariances | None]:
    """The jackknife on rows with these ascending numbers, and its means over rows and outputs."""
    variances, shares = [], []
    for parts, n_votes in _parts_of_rows(task, rows, bags):
        variances.append(row_variances(parts, n_votes, bags))
        shares.append((parts / np.maximum(n_votes, 1.0)[..., None, None])[:, :: max(1, len(rows) // _ROWS_COMPARED)])
    joined = RowVariances(*(np.concatenate(of) for of in zip(*variances, strict=True)))
    is_known = ~np.isnan(joined.by_tree).any(axis=1)
    if not is_known.any():
        return joined, None
    by_tree, by_rows, _ = (float(of[is_known].mean()) for of in joined)
    once = _counted_once(by_rows, by_tree, bags.fraction)
    # The same trees predict all rows, so the errors of rows go together as far as their trees' deviations do.
    share = np.concatenate(shares, axis=1).transpose(0, 1, 3, 2).reshape(len(bags.factor[0]), -1, task.forest.n_trees)
    together = np.square(np.einsum("pat,pbt->ab", share, share))
    own, n_outputs = float(np.trace(together)) / len(together), joined.by_tree.size
    others = (float(together.sum()) / len(together) - own) / max(len(together) - 1, 1)
    of_bags = bags.variance.mean(axis=1)
    squares = np.square(of_bags if bags.units is None else np.bincount(bags.units, of_bags)).sum()
    error = math.sqrt(2.0 * squares * (others + max(own - others, 0.0) / n_outputs))
    joined = RowVariances(joined.by_tree, once * joined.by_rows, once * joined.bias)
    return joined, PooledVariances(by_tree, once * by_rows, once * error)


def _counted_once(by_rows: float, by_tree: float, fraction: float) -> float:
    """P(m) / V, which is 1 where rows do nothing together."""
    if min(by_rows, by_tree, fraction) <= 0.0:
        return 1.0
    share = (1.0 - fraction) / fraction * by_rows / by_tree
    common = fraction * share / (share + _SHARE_BY_CHANCE)
    bent = common / (1.0 - common)
    return math.log1p(bent) / bent


def training_bags(task: Task) -> TrainingBags:
    """The bags of out-of-bag outputs."""
    assert task.bags is not None
    return TrainingBags.of(task.bags.take, task.n_rows, task.groups.units, of_trees=task.forest.ensemble is not None)


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
        bias = np.einsum("p,pr,prk->rk", bags.variance.sum(axis=0), (n_votes - 1.0) / n_votes**2, variance)
        shares = parts / n_votes[..., None, None]
    squares = np.zeros((n_rows, n_outputs))
    of_units = np.zeros((0 if bags.units is None else bags.n_units, n_rows, n_outputs))
    for start, stop in blocks(len(bags.factor), max(parts.shape[2] * len(parts), n_rows * n_outputs), what="bags"):
        drawn = bags.take(start, stop) * bags.factor[start:stop, None]
        effect = sum(np.tensordot(drawn[:, :, part], of, axes=(1, 1)) for part, of in enumerate(shares))
        if bags.units is None:
            squares += np.square(effect).sum(axis=0)
        else:
            np.add.at(of_units, bags.units[start:stop], effect)
    squares += np.square(of_units).sum(axis=0)
    return RowVariances(variance.sum(axis=0), squares - bias, bias)


def _parts_of_rows(task: Task, rows: Int64s, bags: TrainingBags) -> Iterator[tuple[Floats, Floats]]:
    """``parts`` and ``n_votes`` of `row_variances`, block by block, of rows with these ascending numbers."""
    forest, link, is_all = task.forest, task.predictor.link, len(rows) == task.n_rows
    lookup = leaf_lookup(forest, task.X if is_all else task.X.pick(rows))
    cells = forest.n_trees * forest.n_scores * (bags.factor.shape[1] + 2)
    of_rows = None if is_all or task.bags is None else seen_mask(task, rows)
    for start, stop in blocks(len(rows), cells, what="scores"):
        seen = None if of_rows is None else of_rows[start:stop]
        if is_all and task.bags is not None:
            seen = task.walk.seen(start, stop, task.bags.take(start, stop))
        scores = lookup(start, stop, seen).scores.astype(np.float64)
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
