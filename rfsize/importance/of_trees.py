"""Importances tree by tree: how much worse each tree predicts its own out-of-bag rows after a column is shuffled.

The mean over trees is Breiman's importance. Trees are independent draws, so the scatter of their losses shows how much
importances vary with the seed. Each tree shuffles its own rows: the noise of shuffling then averages out over the
trees. With one permutation for all trees, this noise would stay in the mean.

L. Breiman (2001). "Random forests." Machine Learning 45(1), 5-32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s
from rfsize.counting.outputs import TreeOutputs, predictor_of, task_of
from rfsize.exceptions import FewVotesError
from rfsize.importance.measured import Measured, noise_of_rows, sums_of_sets
from rfsize.importance.permuted import PartOfSets, PermutedRows
from rfsize.models.link import Predictor
from rfsize.sizing.metrics import MeanMetric, Metric

# Metrics that can be measured on one tree, as means over rows.
_OF_TREES = ("accuracy", "brier", "mae", "r2")


def is_of_trees(judge: Metric, outputs: TreeOutputs) -> bool:
    """Whether the metric can be measured on one tree; never if each class has its own trees."""
    return judge.name in _OF_TREES and _trees_per_iteration(outputs) == 1


def _trees_per_iteration(outputs: TreeOutputs) -> int:
    ensemble = task_of(outputs).forest.ensemble
    return 1 if ensemble is None else ensemble.trees_per_iteration


class _Asked(NamedTuple):
    """A tree, the rows that it was not trained on, and the weight of each such row in the mean over trees."""

    tree: int
    rows: Int64s
    share: float


def lost_by_trees(permuted: PermutedRows, judge: Metric) -> Measured:
    """Measure how much trees lose on average, each on the rows that it was not trained on.

    Raises
    ------
    FewVotesError
        If fewer than two trees have two rows that they were not trained on.
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
    mass = np.zeros(permuted.n_rows)  # expected weight of the pairs that a row is in
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
    """The trees with at least two rows that they were not trained on, if these have any weight."""
    by_tree = np.asfortranarray(may_ask)
    rows = [np.flatnonzero(by_tree[:, tree]) for tree in range(by_tree.shape[1])]
    known = [tree for tree, one in enumerate(rows) if len(one) > 1 and weight[one].any()]
    return [_Asked(tree, rows[tree], 1.0 / (len(known) * weight[rows[tree]].sum())) for tree in known]


# The rows, the tree, the order of the rows, the set of each column, and how far each set is shifted in that order.
_Placed = tuple[_core.Rows, int, Int64s, NDArray[np.int32], Int64s]


class _OfClasses(NamedTuple):
    """Losses of a classification: at each leaf, the loss of rows of each class, shape (n_nodes, n_classes)."""

    at_nodes: Floats
    truth: Int64s

    def add(self, placed: _Placed, weight: Floats, of_rows: Floats, total: Floats, squares: Floats) -> float:
        """Add the tree's loss for each shuffled set; return its loss with unshuffled columns."""
        return _core.losses_of_classes(*placed, self.at_nodes, self.truth, weight, of_rows, total, squares)


class _OfNumbers(NamedTuple):
    """Losses of a regression: the prediction at each leaf, shape (n_nodes,), and whether errors are squared."""

    at_nodes: Floats
    truth: Floats
    is_squared: bool

    def add(self, placed: _Placed, weight: Floats, of_rows: Floats, total: Floats, squares: Floats) -> float:
        """Add the tree's loss for each shuffled set; return its loss with unshuffled columns."""
        truth = (self.at_nodes, self.truth, self.is_squared)
        return _core.losses_of_numbers(*placed, *truth, weight, of_rows, total, squares)


def _loss(permuted: PermutedRows, judge: MeanMetric) -> _OfClasses | _OfNumbers:
    outputs = permuted.outputs
    predicted = _predicted(predictor_of(outputs), permuted.trees.tree_scores)
    if not len(outputs.classes):
        scale = np.sqrt(judge.variance(judge.truth, judge.weight))  # R² divides squared errors by its square
        return _OfNumbers(permuted.at_nodes(predicted[:, 0] / scale), judge.truth / scale, judge.form == "explained")
    classes = [np.full(len(predicted), index) for index in range(len(outputs.classes))]
    by_class = np.stack([judge.by_row(predicted[None], truth)[0] for truth in classes], axis=1)
    return _OfClasses(permuted.at_nodes(judge.worse * by_class), judge.truth)


def _predicted(predictor: Predictor, raw: NDArray[Any]) -> Floats:
    """What a forest of one tree predicts in each leaf, shape (n_leaves, n_outputs)."""
    return predictor.predictions(raw.astype(np.float64).reshape(len(raw), -1))
