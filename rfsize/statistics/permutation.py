"""Importances: how much a metric loses out of bag when columns are shuffled, and how alike two forests find them.

One permutation serves all trees: the trees that were not trained on a row all predict the same changed row, and their
mean score is measured as that of the unchanged row is.

How alike the importances of two forests with different seeds are is predicted from the trees of one forest. Importances
are means over blocks of trees, and the blocks are independent draws. Let v_b be the losses of block b for each column,
and let μ and Σ be the mean and covariance of v_b over blocks of t trees. The importances of a forest of T trees are
then about normal with mean μ and covariance Σ·t/T. Drawing such forests shows how alike they are.

μ is not known. The importances of the forest at hand hold noise, which makes columns look more different than they
are. So rfsize draws μ from its posterior distribution. The prior is a mixture of normal distributions around 0, in
units of the standard error of each column, fitted to all columns: M. Stephens (2017). "False discovery rates: a new
deal." Biostatistics 18(2), 275-294.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from scipy.stats import t as student

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s, each_range, effective_threads
from rfsize.counting.outputs import TreeOutputs, means_of, task_of
from rfsize.counting.task import seen_mask
from rfsize.exceptions import FewVotesError, NotAForestError
from rfsize.models.rows import ForwardReader, Rows
from rfsize.statistics.curve import SEED, TAIL, LossCurve
from rfsize.statistics.metrics import Metric, value_of, values_of
from rfsize.statistics.named_metrics import predictions_for
from rfsize.statistics.row_errors import without_groups
from rfsize.statistics.subforests import GROUPS_OF_MANY
from rfsize.walking.leaves import checked_walk, quantised

# Most numbers that one thread adds to at a time, which keeps its memory to a few hundred megabytes.
_CELLS = 1 << 24

# Numbers of blocks for which there are contrasts, see `_contrasts`.
_BLOCKS = (20, 12, 8, 4)


@dataclass(frozen=True, eq=False)
class PermutationLosses:
    """How much a metric loses when each set of columns is shuffled.

    Attributes
    ----------
    score : float
        The metric with all columns as they are.
    value : ndarray of float64, shape (n_sets,)
        By how much the metric becomes worse when the set is shuffled.
    half_width : ndarray of float64, shape (n_sets,)
        Half the width of the 95 % interval of ``value``, over other draws of rows and other seeds.
    block_losses : ndarray of float64, shape (n_blocks, n_sets)
        Losses by block of trees: pseudo-values of a jackknife, which scatter like independent draws around ``value``.
    n_rows : int
        Number of rows that were used.
    votes_per_row : float
        Mean number of trees that predicted a row.
    """

    score: float
    value: Floats
    half_width: Floats
    block_losses: Floats
    n_rows: int
    votes_per_row: float


def permutation_losses(outputs: TreeOutputs, metric: Metric, sets: Sequence[Sequence[int]]) -> PermutationLosses:
    """Shuffle each set of columns among all training rows, and measure what the metric loses out of bag.

    Parameters
    ----------
    outputs : TreeOutputs
        Out-of-bag outputs of a forest on rows in memory.
    metric : Metric
        The metric with the truth of the rows.
    sets : sequence of sequence of int
        Numbers of the columns in each set; no column is in two sets.

    Raises
    ------
    FewVotesError
        If there are fewer than four trees.
    NotAForestError
        If the members of the forest are no trees, or rfsize reaches other leaves than the framework.
    ValueError
        If the rows are not in memory.
    """
    shuffled, means = _shuffled_rows(outputs, sets), means_of(outputs)
    clusters = np.unique(outputs.groups.units_of(np.arange(outputs.n_rows)), return_inverse=True)[1]
    rows = np.flatnonzero(means.is_known)
    evaluate = _evaluation(outputs, metric, rows, shuffled.n_scored[:, rows], clusters[rows])

    def work(start: int, stop: int) -> tuple[float, list[tuple[float, Floats, float]]]:
        total, changes = shuffled.scores_by_block(start, stop)
        before, losses = evaluate(total[:, rows]), []
        for place, change in enumerate(changes, start):
            after = evaluate((total + change)[:, rows])
            by_row = after[2] - before[2]
            if metric.influence is None:  # without each part of the rows
                variance = float(by_row.var() * (len(by_row) - 1))
            else:
                variance = _dyadic_variance(by_row, clusters[rows], clusters[shuffled.donors(place)[rows]])
            losses.append((after[0] - before[0], after[1] - before[1], variance))
        return before[0], losses

    cells = shuffled.n_blocks * outputs.n_rows * shuffled.n_scores
    parts = each_range(work, len(sets), max(1, min(-(-len(sets) // effective_threads(-1)), _CELLS // cells)))
    by_set = zip(*(losses for _, part in parts for losses in part), strict=True)
    value, by_block, row_variance = (np.array(numbers) for numbers in by_set)
    value = metric.worse * value + 0.0  # no -0.0
    block_losses, n_blocks = value + metric.worse * by_block.T, shuffled.n_blocks
    variance = row_variance + block_losses.var(axis=0, ddof=1) / n_blocks
    return PermutationLosses(
        score=parts[0][0],
        value=value,
        half_width=float(student.ppf(1.0 - TAIL, n_blocks - 1.0)) * np.sqrt(variance),
        block_losses=block_losses,
        n_rows=len(rows),
        votes_per_row=float(means.n_votes[rows].mean()),
    )


class _ShuffledRows(NamedTuple):
    """Training rows as the compiled loops take them, and where each row takes the columns of a set from.

    All sets share one random order of the rows. In this order, a set's columns move ``shift`` rows. So no row keeps its
    own values, and each other row is equally likely to provide them.
    """

    rows: _core.Rows
    set_of_column: NDArray[np.int32]  # of each quantised column; -1 if it is in no set
    order: Int64s  # (n_rows,)
    shift: Int64s  # (n_sets,)
    seen: Bools  # (n_rows, n_members, n_outputs or 1)
    leaf_scores: Floats  # (n_nodes, scores of a tree)
    n_outputs: int  # trees of a member

    @property
    def n_scores(self) -> int:
        return self.n_outputs * self.leaf_scores.shape[1]

    @property
    def n_blocks(self) -> int:
        """Trees are dealt in turn into so many blocks."""
        return next(n_blocks for n_blocks in _BLOCKS if n_blocks <= self.seen.shape[1])

    @property
    def n_scored(self) -> Floats:
        """Number of out-of-bag trees of each block, shape (n_blocks, n_rows, n_outputs or 1)."""
        blocks = [~self.seen[:, block :: self.n_blocks] for block in range(self.n_blocks)]
        return np.stack([is_oob.sum(axis=1) for is_oob in blocks]).astype(np.float64)

    def donors(self, place: int) -> Int64s:
        """The row that each row takes the columns of a set from, shape (n_rows,)."""
        donor = np.empty_like(self.order)
        donor[self.order] = np.roll(self.order, -self.shift[place])
        return donor

    def scores_by_block(self, start: int, stop: int) -> tuple[Floats, Floats]:
        """Sums of out-of-bag scores by block, and their changes by each of the sets from ``start`` to ``stop``.

        Shapes (n_blocks, n_rows, n_scores) and (stop - start, n_blocks, n_rows, n_scores).
        """
        n_rows, n_members, n_bags = self.seen.shape
        is_here = (self.set_of_column >= start) & (self.set_of_column < stop)
        sets = np.where(is_here, self.set_of_column - start, -1).astype(np.int32)
        total = np.zeros((self.n_blocks, n_rows, self.n_scores))
        changes = np.zeros((self.n_blocks, stop - start, n_rows, self.n_scores))
        shift = np.ascontiguousarray(self.shift[start:stop])
        for member in range(n_members):
            for output in range(self.n_outputs):
                is_oob = np.ascontiguousarray(~self.seen[:, member, output if n_bags > 1 else 0])
                tree, block = member * self.n_outputs + output, member % self.n_blocks
                scores = (self.leaf_scores, output, total[block], changes[block])
                _core.changes_of_scores(self.rows, tree, self.order, sets, shift, is_oob, *scores)
        return total, np.swapaxes(changes, 0, 1)


def _shuffled_rows(outputs: TreeOutputs, sets: Sequence[Sequence[int]]) -> _ShuffledRows:
    task = task_of(outputs)
    trees = task.forest.ensemble
    if trees is None:
        instead = "on other rows, take sklearn.inspection.permutation_importance(model, X_new, y_new)"
        raise NotAForestError(f"importances send rows down trees, and this ensemble has none: {instead}")
    if trees.n_trees < _BLOCKS[-1]:
        raise FewVotesError(f"importances take {_BLOCKS[-1]} trees, to show what another seed would change: train more")
    if not isinstance(task.X, Rows):
        raise ValueError("shuffling a column takes all rows at once: give rows in memory, as an array or a DataFrame")
    walk = checked_walk(task.forest, task.X)
    columns = walk.forest.columns
    set_of_feature = np.full(task.forest.n_features, -1, dtype=np.int32)
    for place, members in enumerate(sets):
        set_of_feature[list(members)] = place
    set_of_column = np.full(walk.forest.n_columns, -1, dtype=np.int32)
    feature = np.repeat(columns.feature, np.diff(columns.start))
    set_of_column[: len(feature)] = set_of_feature[feature]
    generator = np.random.default_rng([SEED, 0])
    scores = trees.tree_scores.astype(np.float64).reshape(len(trees.tree_scores), -1)
    return _ShuffledRows(
        rows=quantised(walk.forest, ForwardReader(task.X).read(0, task.n_rows)),
        set_of_column=set_of_column,
        order=generator.permutation(np.arange(task.n_rows)),
        shift=generator.integers(1, task.n_rows, size=len(sets)),
        seen=seen_mask(task),
        leaf_scores=np.ascontiguousarray(scores[walk.node]),
        n_outputs=trees.trees_per_iteration,
    )


def _evaluation(
    outputs: TreeOutputs, metric: Metric, rows: Int64s, n_scored: Floats, clusters: Int64s
) -> Callable[[Floats], tuple[float, Floats, Floats]]:
    """A function that evaluates the metric on some rows, from sums of their scores by block.

    It takes sums of shape (n_blocks, n_rows, n_scores). It returns the metric, how far each block of trees moves it,
    and what each row adds to it; of a metric without a formula for that, its values without each part of the rows.
    """
    predictions, parts = predictions_for(outputs, metric), without_groups(clusters, GROUPS_OF_MANY)
    contrasts = _contrasts(len(n_scored))
    halves = np.concatenate([contrasts > 0.0, contrasts < 0.0]).astype(np.float64)
    n_of_all, n_of_halves = n_scored.sum(axis=0), np.tensordot(halves, n_scored, axes=1)

    def evaluate(total: Floats) -> tuple[float, Floats, Floats]:
        mean = total.sum(axis=0) / n_of_all
        # A half without an out-of-bag tree of a row takes the mean of all trees there.
        of_halves = np.where(n_of_halves > 0, np.tensordot(halves, total, axes=1) / np.maximum(n_of_halves, 1), mean)
        predicted, by_half = predictions(mean), predictions(of_halves)
        first, second = np.split(values_of(metric, rows, by_half), 2)
        if metric.influence is not None:
            by_row = metric.influence(metric.truth[rows], predicted, metric.weight[rows])
        else:
            by_row = np.array([value_of(metric, rows[part], predicted[part]) for part in parts])
        return value_of(metric, rows, predicted), contrasts.T @ (first - second) / 2.0, by_row

    return evaluate


def _contrasts(n_blocks: int) -> Floats:
    """Signs that split the blocks of trees into halves, shape (n_blocks - 1, n_blocks).

    The splits are orthogonal. So half the difference of the halves of all splits tells how far each block moves a mean.
    With halves, this jackknife also holds for shares of rows, which leaving out single blocks makes look far too noisy:
    J. Shao, C. Wu (1989). "A general theory for jackknife variance estimation." The Annals of Statistics 17(3),
    1176-1197. The signs are those of R. Paley (1933). "On orthogonal matrices." Journal of Mathematics and Physics 12,
    311-320.
    """
    numbers = np.arange(n_blocks - 1)
    is_square = np.isin((numbers - numbers[:, None]) % (n_blocks - 1), numbers[1:] ** 2 % (n_blocks - 1))
    return np.column_stack([np.ones(n_blocks - 1), np.where(is_square, 1.0, -1.0)])


def _dyadic_variance(lost: Floats, clusters: Int64s, donors: Int64s) -> float:
    """Variance over other draws of rows of a sum over pairs of rows, given the cluster of both rows of each pair.

    Pairs that have a cluster in common vary together: P. Aronow, C. Samii, V. Assenova (2015). "Cluster-robust variance
    estimation for dyadic data." Political Analysis 23(4), 564-577.
    """
    n_clusters = int(max(1, clusters.max(), donors.max())) + 1
    sums = np.bincount(clusters, lost, n_clusters) + np.bincount(donors, lost, n_clusters)
    # Each pair counts at both of its rows, and its square is subtracted once.
    return max(float(sums @ sums * n_clusters / (n_clusters - 1.0) - lost @ lost), 0.0)


# How alike the importances of two forests are

SIZES = np.unique(np.round(2.0 ** np.arange(0.0, 20.5, 0.5))).astype(np.int64)
"""Ensemble sizes for which the instability of importances is predicted."""

_DRAWS = 200  # of the noise-free importances
_FORESTS = 10  # with the importances of a draw, which are compared in pairs
_SPREADS = 2.0 ** np.arange(-3.0, 10.0)  # standard deviations in the mixture, in standard errors of a column
_STEPS = 100  # iterations that fit the mixture
_ROUNDING = 1e-12  # of products of vectors of length 1

# Takes importances, shape (..., n_columns). Returns vectors of length 1, whose products say how alike two forests are.
Similarity = Callable[[Floats], Floats]


def instability(block_losses: Floats, trees_per_block: float, similarity: Similarity, fewest: int = 1) -> LossCurve:
    """How much the importances of two forests with different seeds differ, over their size.

    Parameters
    ----------
    block_losses : ndarray of float64, shape (n_blocks, n_columns)
        Losses of one forest by block of trees.
    trees_per_block : float
        Trees in a block.
    similarity : callable
        `centred_ranks` or `top_columns`.
    fewest : int, default 1
        The smallest forest whose importances can be measured.

    Returns
    -------
    LossCurve
        1 minus the expected similarity. Each replicate has another draw of the noise-free importances, and of how far a
        few blocks misjudge their own scatter.
    """
    value, n_blocks = block_losses.mean(axis=0), len(block_losses)
    deviation = (block_losses - value) / np.sqrt(n_blocks - 1.0)
    # The seed is fixed, so that all calls and all sizes use the same draws and differ only by the trees.
    generator, sizes = np.random.default_rng(SEED), np.union1d(fewest, SIZES[fewest < SIZES])
    by_size = np.sqrt(trees_per_block / sizes)[:, None, None]
    scales = np.sqrt((n_blocks - 1.0) / generator.chisquare(n_blocks - 1.0, _DRAWS))
    replicates = np.empty((_DRAWS, len(sizes)))
    spreads = _prior_spreads(value, deviation / np.sqrt(n_blocks), generator)
    for losses, scale, spread in zip(replicates, scales, spreads, strict=True):
        mean = _posterior(value, scale * deviation / np.sqrt(n_blocks), spread, generator)
        noise = generator.standard_normal((_FORESTS, n_blocks)) @ (scale * deviation)
        squares = (similarity(mean + by_size * noise).sum(axis=1) ** 2).sum(axis=1)
        losses[:] = 1.0 - (squares - _FORESTS) / (_FORESTS * (_FORESTS - 1.0))
    replicates[replicates < _ROUNDING] = 0.0  # all forests alike: an interval from 0 holds a truth of 0
    return LossCurve(sizes, replicates.mean(axis=0), replicates)


def centred_ranks(importances: Floats) -> Floats:
    """Standardised ranks, whose products are Spearman's rank correlations; equal ranks if all importances are equal."""
    centred = rankdata(importances, axis=-1) - (importances.shape[-1] + 1.0) / 2.0
    length = np.sqrt((centred**2).sum(axis=-1, keepdims=True))
    return np.where(length > 0.0, centred, 1.0) / np.where(length > 0.0, length, np.sqrt(importances.shape[-1]))


def top_columns(top: int) -> Similarity:
    """Make a function that marks the ``top`` most important columns: the products are the shares in common."""

    def mark(importances: Floats) -> Floats:
        marks, first = np.zeros(importances.shape), np.argsort(-importances, axis=-1, kind="stable")[..., :top]
        np.put_along_axis(marks, first, 1.0 / np.sqrt(top), axis=-1)
        return marks

    return mark


def _posterior(value: Floats, deviation: Floats, spread: Floats, generator: np.random.Generator) -> Floats:
    """A draw of the noise-free importances, shape (n_columns,).

    The noise has the covariance N = ``deviation.T @ deviation``. With draws x of the prior, of the covariance P, and e
    of the noise, x + P (P + N)⁻¹ (value − x − e) is a draw of the posterior: Y. Hoffman, E. Ribak (1991). "Constrained
    realizations of Gaussian fields: A simple algorithm." The Astrophysical Journal 380, L5-L8. By Woodbury's identity,
    the system that is solved is only as large as the number of blocks.
    """
    from_prior = spread * generator.standard_normal(len(value))
    rest = value - from_prior - generator.standard_normal(len(deviation)) @ deviation
    weighted = deviation / spread**2
    inner = np.linalg.solve(np.eye(len(deviation)) + weighted @ deviation.T, weighted @ rest)
    return np.asarray(from_prior + rest - inner @ deviation)


def _prior_spreads(value: Floats, deviation: Floats, generator: np.random.Generator) -> Floats:
    """Draws of the standard deviation of the prior of each column, given all values, shape (_DRAWS, n_columns)."""
    error = np.sqrt((deviation**2).sum(axis=0))
    spreads, is_noisy = np.ones((_DRAWS, len(value))), error > 0.0  # without noise, the prior does not matter
    score, spread = value[is_noisy] / error[is_noisy], np.sqrt(1.0 + _SPREADS**2)
    membership = density = np.exp(-0.5 * (score[:, None] / spread) ** 2) / spread
    weight = np.full(len(_SPREADS), 1.0 / len(_SPREADS))
    for _ in range(_STEPS if len(score) else 0):
        membership = density * weight + 1e-300
        membership /= membership.sum(axis=1, keepdims=True)
        weight = membership.mean(axis=0)
    component = (generator.random((_DRAWS, len(score), 1)) > np.cumsum(membership, axis=1)).sum(axis=2)
    spreads[:, is_noisy] = error[is_noisy] * _SPREADS[np.minimum(component, len(_SPREADS) - 1)]
    return spreads
