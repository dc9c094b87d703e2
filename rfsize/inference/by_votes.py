"""What a compiled forest says by the votes of its trees, or by votes with weights."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.inference.rows import Rows
from rfsize.stopping.rules.kinds import majority
from rfsize.stopping.rules.votes import VoteStops
from rfsize.stopping.rules.weighted import WeightedStops
from rfsize.utils import matrix
from rfsize.utils.typing import Int64s
from rfsize.walking.layout import Forest

# Without a table. To find the two leaders of many classes after every tree would take longer than to walk down it.
TREES_BETWEEN_LOOKS = 8


class ByVotes:
    """The majority vote.

    Parameters
    ----------
    forest : Forest
        A forest of classes.
    rows : Rows
        Its reader of rows.
    stops : VoteStops or None
        Where voting ends; by default where the trees left can no longer change the majority of all.
    """

    def __init__(self, forest: Forest, rows: Rows, stops: VoteStops | None) -> None:
        self._forest, self._rows, self._stops = forest, rows, stops

    def labels(self, X: Any) -> tuple[Int64s, Int64s]:
        """Index of the class that each row is answered with, and how many trees it asked."""
        if self._stops is None:
            _, labels, asked = self._decided(X, self._majority, every=TREES_BETWEEN_LOOKS)
        else:
            _, labels, asked = self._decided(X, self._stops)
        return labels, asked

    def counts(self, X: Any) -> NDArray[Any]:
        """Votes of all trees for each class, shape (n_rows, n_classes)."""
        return self._decided(X, None)[0]

    @cached_property
    def _majority(self) -> VoteStops:
        return majority(self._forest.n_trees, len(self._forest.classes))

    def _decided(self, X: Any, stops: VoteStops | None, every: int = 1) -> tuple[NDArray[Any], Int64s, Int64s]:
        """Votes that each row asked for, or their weights, the index of its label, and how many they are."""
        forest = self._forest
        stop = _core.VoteStop.never() if stops is None else stops.native(every)
        X, alone = self._rows.checked(X), forest.alone
        of_votes = np.float64 if isinstance(stops, WeightedStops) else np.int32
        counts = np.zeros((matrix.n_rows(X), len(forest.classes)), dtype=of_votes)
        labels = np.full(len(counts), -1, dtype=np.int64)
        asked = np.full(len(counts), forest.n_trees, dtype=np.int64)

        def work(some: _core.Rows, rows: slice) -> None:
            some.decide(alone, stop, counts[rows], labels[rows], asked[rows])
            if isinstance(stops, WeightedStops):
                level = np.flatnonzero(labels[rows] < 0)
                if level.size:
                    labels[rows][level] = self._winner(some.take(level), stops)

        self._rows.each_block(X, work)
        return counts, labels, asked

    def _winner(self, some: _core.Rows, stops: WeightedStops) -> Int64s:
        """Labels of quantised rows by the weights of all trees, summed in the model's own order of them."""
        forest = self._forest
        votes = np.empty((len(some), forest.n_trees), dtype=np.int64)
        some.cast(forest.alone, votes)
        in_own_order = np.empty_like(votes)
        in_own_order[:, stops.order] = votes
        return stops.winner(in_own_order, len(forest.classes))
