"""Importances tree by tree: what each tree loses on its own out-of-bag rows where columns are permuted among these.

The mean over trees is Breiman's importance. Trees are drawn alike, so that the scatter of what single trees lose tells
the noise of seeds. Each tree permutes its own rows: the noise of the permutations is then one more that differs from
tree to tree, and becomes small with it, where one permutation for all trees would leave its noise in the mean.

L. Breiman (2001). "Random forests." Machine Learning 45(1), 5-32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.counting.evidence import Evidence
from rfsize.exceptions import FewVotesError
from rfsize.importance.measured import Measured, noise_of_rows, sums_of_sets
from rfsize.importance.permuted import PartOfSets, PermutedRows
from rfsize.sizing.metrics import MeanMetric, Metric
from rfsize.utils.typing import Bools, Floats, Int64s
from rfsize.voting.links import Predictor

# Metrics that a tree has by itself, as means over its rows, however few classes its leaves hold.
_OF_TREES = ("accuracy", "brier", "mae", "r2")


def is_of_trees(judge: Metric, outputs: Evidence) -> bool:
    """Whether single trees have the metric: not where each class has a tree of its own."""
    return judge.name in _OF_TREES and outputs.asked_again.adapter.leaves.offset.shape[1] == 1


class _Asked(NamedTuple):
    """A tree, the rows that it did not see, and what each of them counts in the mean over trees."""

    tree: int
    rows: Int64s
    share: float


def lost_by_trees(permuted: PermutedRows, judge: Metric) -> Measured:
    """What trees lose on average, each on the rows that it did not see.

    Raises
    ------
    FewVotesError
        If fewer than two trees have two rows that they did not see.
    """
    assert isinstance(judge, MeanMetric)
    outputs = permuted.outputs
    asked = _asked(~permuted.seen[:, :, 0], judge.weight)
    if len(asked) < 2:
        raise FewVotesError(
            f"only {len(asked)} of the trees left two rows out of their bags, and the noise of seeds takes two "
            "such trees: train more trees"
        )
    loss = _loss(permuted, judge)
    mass = np.zeros(permuted.n_rows)  # pairs that a row is expected in
    for _, rows, share in asked:
        mass[rows] += share * judge.weight[rows] + 1.0 / (len(asked) * len(rows))

    def work(part: PartOfSets) -> tuple[float, Floats, Floats]:
        of_rows, squares = np.zeros((permuted.n_rows, part.n_sets)), np.zeros(part.n_sets)
        of_trees, as_they_are = np.zeros((len(asked), part.n_sets)), 0.0
        for (tree, rows, share), total in zip(asked, of_trees, strict=True):
            order, shift = permuted.permutation(rows, tree)
            placed = (part.rows, tree, order, part.set_of_column, np.ascontiguousarray(shift[part.sets]))
            as_they_are += loss.add(placed, judge.weight * share, of_rows, total, squares)
        of_rows -= sums_of_sets(of_trees) * mass[:, None]
        noise = noise_of_rows(of_rows, 2.0 * squares, outputs.groups.units)
        return as_they_are, of_trees, noise

    parts = permuted.each_part(work, permuted.n_rows)
    of_trees, of_rows = np.concatenate([one for _, one, _ in parts], axis=1), np.concatenate([one[2] for one in parts])
    score = judge.worse * parts[0][0] if judge.form == "mean" else 1.0 - parts[0][0]
    return Measured(score, of_trees.sum(axis=0), of_rows, of_trees * len(asked), 1.0, *permuted.used)


def _asked(may_ask: Bools, weight: Floats) -> list[_Asked]:
    """The trees that have rows they did not see, two of them at least, with weight."""
    by_tree = np.asfortranarray(may_ask)
    rows = [np.flatnonzero(by_tree[:, tree]) for tree in range(by_tree.shape[1])]
    known = [tree for tree, one in enumerate(rows) if len(one) > 1 and weight[one].any()]
    return [_Asked(tree, rows[tree], 1.0 / (len(known) * weight[rows[tree]].sum())) for tree in known]


# Where a tree goes: the rows, the tree, their order, the sets of their columns, and how far each set is shifted.
_Placed = tuple[_core.Rows, int, Int64s, NDArray[np.int32], Int64s]


class _OfClasses(NamedTuple):
    """What rows of each class lose at the nodes that are leaves, shape (n_nodes, n_classes)."""

    at_nodes: Floats
    truth: Int64s

    def add(self, placed: _Placed, weight: Floats, of_rows: Floats, total: Floats, squares: Floats) -> float:
        """Add what a tree loses by each set; returns what it loses with the columns as they are."""
        return _core.losses_of_classes(*placed, self.at_nodes, self.truth, weight, of_rows, total, squares)


class _OfNumbers(NamedTuple):
    """What a tree predicts at the nodes that are leaves, shape (n_nodes,), and whether it is off by the square."""

    at_nodes: Floats
    truth: Floats
    is_squared: bool

    def add(self, placed: _Placed, weight: Floats, of_rows: Floats, total: Floats, squares: Floats) -> float:
        """The same of numbers."""
        truth = (self.at_nodes, self.truth, self.is_squared)
        return _core.losses_of_numbers(*placed, *truth, weight, of_rows, total, squares)


def _loss(permuted: PermutedRows, judge: MeanMetric) -> _OfClasses | _OfNumbers:
    outputs, leaves = permuted.outputs, permuted.outputs.asked_again.adapter.leaves
    predicted = _predicted(outputs.asked_again.predictor, leaves.raw)
    if not len(outputs.classes):
        scale = np.sqrt(judge.variance(judge.truth, judge.weight))  # by which R² divides
        return _OfNumbers(permuted.at_nodes(predicted[:, 0] / scale), judge.truth / scale, judge.form == "explained")
    classes = [np.full(len(predicted), index) for index in range(len(outputs.classes))]
    by_class = np.stack([judge.by_row(predicted[None], truth)[0] for truth in classes], axis=1)
    return _OfClasses(permuted.at_nodes(judge.worse * by_class), judge.truth)


def _predicted(predictor: Predictor, raw: NDArray[Any]) -> Floats:
    """What a tree alone predicts in each leaf, shape (n_leaves, n_outputs)."""
    return predictor.predictions(raw.astype(np.float64).reshape(len(raw), -1))
