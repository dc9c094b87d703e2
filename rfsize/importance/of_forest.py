"""Importances of the whole forest: the loss of a metric of the averaged out-of-bag predictions.

Some metrics cannot be measured on one tree, such as AUC (an order of rows) or log loss (averaged probabilities). Here
one permutation serves all trees: the trees that were not trained on a row are all asked about the same changed row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s
from rfsize.counting.sums import N_BLOCKS
from rfsize.estimation.intervals import SEED
from rfsize.importance.measured import Measured, noise_of_rows
from rfsize.importance.permuted import PartOfSets, PermutedRows
from rfsize.sizing.metrics import GivenMetric, Metric, value_of
from rfsize.sizing.named_metrics import predictions_for

# A scorer has no formula for what each row adds. So it is measured without each of so many parts of the rows.
_PARTS_OF_ROWS = 20


class _Sums(NamedTuple):
    """By block of trees: summed scores and number of the trees asked, shape (n_blocks, n_rows, n_scores or 1)."""

    total: Floats
    asked: Floats

    @property
    def of_all(self) -> tuple[Int64s, Floats]:
        """Rows that asked a tree, and their mean scores."""
        total, asked = self.total.sum(axis=0), self.asked.sum(axis=0)
        rows = np.flatnonzero((asked > 0).all(axis=1))
        return rows, total[rows] / asked[rows]

    @property
    def without_each(self) -> tuple[Int64s, Floats]:
        """Rows that asked trees of two blocks or more, and mean scores over all trees and without each block."""
        asked = self.asked.sum(axis=0) - np.concatenate([np.zeros_like(self.asked[:1]), self.asked])
        total = self.total.sum(axis=0) - np.concatenate([np.zeros_like(self.total[:1]), self.total])
        rows = np.flatnonzero((asked > 0).all(axis=(0, 2)))
        return rows, total[:, rows] / asked[:, rows]


@dataclass(frozen=True, eq=False)
class _Judged:
    """The metric as a function of the rows' mean scores."""

    judge: Metric
    predictions: Callable[[Floats], Floats]
    units: Int64s

    def value(self, rows: Int64s, mean: Floats) -> float:
        return value_of(self.judge, rows, self.predictions(mean))

    def by_blocks(self, sums: _Sums) -> Floats:
        """The metric without each block of trees."""
        rows, mean = sums.without_each
        predicted = self.predictions(mean)
        measuring = self.judge.start(len(mean), predicted[0])
        measuring.add(rows, predicted)
        return measuring.conclude()[1:]

    def by_rows(self, rows: Int64s, mean: Floats) -> Floats:
        """What each row adds to the metric; for a scorer, the metric without each part of the rows."""
        if not isinstance(self.judge, GivenMetric):
            return np.asarray(self.judge.influence(rows, self.predictions(mean)))
        names, unit = np.unique(self.units[rows], return_inverse=True)
        part = np.random.default_rng(SEED).permutation(len(names))[unit] % min(_PARTS_OF_ROWS, len(names))
        kept = [part != one for one in range(part.max() + 1)]
        return np.array([self.value(rows[some], mean[some]) for some in kept])

    def noise(self, before: Floats, after: Floats, rows: Int64s, donor: Int64s) -> float:
        """Variance of the loss over rows, from two results of `by_rows`; each row took columns of its ``donor`` row."""
        lost = after - before
        if isinstance(self.judge, GivenMetric):
            return float(lost.var() * (len(lost) - 1))
        of_rows = np.zeros(len(donor))
        of_rows[rows] = lost
        np.add.at(of_rows, donor[rows], lost)
        return float(noise_of_rows(of_rows[:, None], (lost**2).sum()[None], self.units)[0])


def lost_by_forest(permuted: PermutedRows, judge: Metric) -> Measured:
    """Measure how much a metric of the averaged out-of-bag predictions loses when columns are shuffled."""
    outputs = permuted.outputs
    n_rows, units = permuted.n_rows, outputs.groups.units
    judged = _Judged(judge, predictions_for(outputs, judge), np.arange(n_rows) if units is None else units)
    order, shift = permuted.permutation(np.arange(n_rows), 0)
    asked = _asked_by_block(permuted)
    trees = permuted.trees
    at_nodes = permuted.at_nodes(trees.tree_scores.astype(np.float64).reshape(len(trees.tree_scores), -1))
    n_blocks, n_scores = len(asked), trees.n_scores

    def work(part: PartOfSets) -> tuple[float, list[tuple[float, Floats, float]]]:
        total = np.zeros((n_blocks, n_rows, n_scores))
        changed = np.zeros((n_blocks, part.n_sets, n_rows, n_scores))
        placed = (order, part.set_of_column, np.ascontiguousarray(shift[part.sets]))
        for tree, member, may_ask, first in _trees(permuted.seen, trees.trees_per_iteration):
            block = member % n_blocks
            _core.changes_of_scores(part.rows, tree, *placed, may_ask, at_nodes, first, total[block], changed[block])
        sums = _Sums(total, asked)
        rows, mean = sums.of_all
        now, by_blocks, by_rows = judged.value(rows, mean), judged.by_blocks(sums), judged.by_rows(rows, mean)
        found = []
        for place in range(part.n_sets):
            after = _Sums(total + changed[:, place], asked)
            _, mean = after.of_all
            donor = np.empty(n_rows, dtype=np.int64)
            donor[order] = np.roll(order, -shift[part.sets][place])
            noise = judged.noise(by_rows, judged.by_rows(rows, mean), rows, donor)
            found.append((judged.value(rows, mean) - now, judged.by_blocks(after) - by_blocks, noise))
        return now, found

    parts = permuted.each_part(work, n_blocks * n_rows * n_scores)
    found = [one for _, some in parts for one in some]
    value, noise = judge.worse * np.array([one[0] for one in found]), np.array([one[2] for one in found])
    without = judge.worse * np.stack([one[1] for one in found], axis=1)
    of_blocks = value + (n_blocks - 1) * (without.mean(axis=0) - without)  # pseudo-values of the jackknife
    return Measured(parts[0][0], value, noise, of_blocks, outputs.n_trees / n_blocks, *permuted.used)


def _asked_by_block(permuted: PermutedRows) -> Floats:
    """Number of trees asked, shape (n_blocks, n_rows, n_outputs or 1). Trees are dealt to the blocks in turn."""
    n_blocks = min(N_BLOCKS, permuted.seen.shape[1])
    return np.stack([(~permuted.seen[:, block::n_blocks]).sum(axis=1) for block in range(n_blocks)]).astype(np.float64)


def _trees(seen: Bools, n_outputs: int) -> Iterator[tuple[int, int, Bools, int]]:
    """Each tree, its member of the forest, the rows that may ask it, and which of the member's scores is its first."""
    _, n_members, n_bags = seen.shape
    for member in range(n_members):
        for output in range(n_outputs):
            may_ask = np.ascontiguousarray(~seen[:, member, output if n_bags > 1 else 0])
            yield member * n_outputs + output, member, may_ask, output
