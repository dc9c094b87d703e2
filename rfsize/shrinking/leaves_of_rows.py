"""The leaves that rows reach in every tree, kept so that any trees can be asked again with other leaf scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rfsize._util import Floats, Int64s
from rfsize.counting.task import Task
from rfsize.models.ensemble import TreeEnsemble
from rfsize.models.model import Forest
from rfsize.models.rows import DistributedRows

# Most rows × trees that are kept, at four bytes each. From more rows a random part is drawn.
_MOST_CELLS = 50_000_000

# Most scores that are held at a time.
_CELLS_TOGETHER = 1 << 22


@dataclass(frozen=True, eq=False)
class LeavesOfRows:
    """The leaves that rows reach in every tree.

    Attributes
    ----------
    forest : Forest
        The whole forest.
    leaf : ndarray of int32, shape (n_rows, n_members, n_outputs)
        Indices into the table of all leaves.
    number : ndarray of int64, shape (n_rows,)
        Index of each row among the rows that the user gave.
    """

    forest: Forest
    leaf: NDArray[np.int32]
    number: Int64s

    @classmethod
    def of(cls, task: Task) -> LeavesOfRows:
        """Find the leaves of all rows, or of a random part if there are too many rows to keep."""
        if isinstance(task.X, DistributedRows):
            raise ValueError(
                "shrink takes rows in memory or in a folder, found rows on workers: give a part of them in memory"
            )
        ensemble, n_rows = task.forest.ensemble, task.n_rows
        assert ensemble is not None
        most, drawn = max(1, _MOST_CELLS // ensemble.tree_start.size), np.arange(n_rows)
        if n_rows > most:
            drawn = np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))
        leaf = np.empty((len(drawn), *ensemble.tree_start.shape), dtype=np.int32)
        for batch in task.walk.batches("leaves of rows"):
            first, last = np.searchsorted(drawn, (batch.rows.start, batch.rows.stop))
            leaf[first:last] = batch.leaves.leaf[drawn[first:last] - batch.rows.start]
        return cls(task.forest, leaf, drawn)

    def __len__(self) -> int:
        return len(self.leaf)

    @property
    def ensemble(self) -> TreeEnsemble:
        """The trees of the whole forest."""
        assert self.forest.ensemble is not None
        return self.forest.ensemble

    def some(self, rows: Int64s) -> LeavesOfRows:
        """Select rows by their index here."""
        return LeavesOfRows(self.forest, self.leaf[rows], self.number[rows])

    @cached_property
    def whole(self) -> Floats:
        """Mean scores of all trees, shape (n_rows, n_scores)."""
        return self.mean(np.arange(self.forest.n_trees))

    def mean(self, members: Int64s, raw: NDArray[Any] | None = None) -> Floats:
        """Mean scores of some trees, shape (n_rows, n_scores); ``raw`` replaces the scores of all leaves."""
        found = np.empty((len(self), self.ensemble.n_scores))
        for rows in self._blocks(len(members)):
            found[rows] = self.scores(rows, members, raw).mean(axis=1)
        return found

    def scores(self, rows: slice, members: Int64s, raw: NDArray[Any] | None = None) -> Floats:
        """Scores of each of some trees on some of the rows, shape (n, n_members, n_scores)."""
        raw = self.ensemble.tree_scores if raw is None else raw
        leaf = self.leaf[rows][:, members]
        return np.asarray(raw[leaf[:, :, 0]] if raw.ndim > 1 else raw[leaf], dtype=np.float64)

    @property
    def products(self) -> Floats:
        """Inner products over all rows of each tree's deviation from the mean score of all trees, shape (T, T)."""
        all_members = np.arange(self.forest.n_trees)
        products = np.zeros((len(all_members),) * 2)
        for rows in self._blocks(len(all_members)):
            apart = self.scores(rows, all_members) - self.whole[rows][:, None]
            for of_score in np.moveaxis(apart, 2, 0):
                products += of_score.T @ of_score
        return products

    def in_leaves(self, members: Int64s, output: int) -> sparse.csr_array:
        """Which leaves each row reaches in the trees of one output, as ones and zeros, shape (n_rows, n_leaves)."""
        leaf = np.ascontiguousarray(self.leaf[:, members, output]).ravel()
        starts = np.arange(0, leaf.size + 1, len(members))
        ones = np.ones(leaf.size, dtype=np.float32)
        return sparse.csr_array((ones, leaf, starts), shape=(len(self), len(self.ensemble.tree_scores)))

    def _blocks(self, n_members: int) -> list[slice]:
        step = max(1, _CELLS_TOGETHER // (n_members * self.ensemble.n_scores))
        return [slice(start, start + step) for start in range(0, len(self), step)]
