"""The adapter of a compiled forest, so that you can size it and calibrate tables for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.exceptions import NotAForestError
from rfsize.inference.rows import Rows
from rfsize.models.leaves import Leaves
from rfsize.models.link import Link
from rfsize.models.model import Forest
from rfsize.utils import matrix
from rfsize.walking.layout import PackedForest


class CompiledTrees(Forest):
    """The trees of a compiled forest.

    Parameters
    ----------
    forest : PackedForest
        A forest of trees with equal weights.
    rows : Rows
        Reads the rows.
    voting : {"soft", "hard"}
        How trees make a label.
    """

    def __init__(self, forest: PackedForest, rows: Rows, voting: str) -> None:
        self.framework = forest.conventions.framework  # type: ignore[misc]
        self._forest, self._rows = forest, rows
        self.booster = forest
        self.n_trees, self.n_features = forest.n_trees, forest.n_features
        self.feature_names, self.classes = forest.feature_names, forest.classes
        self.link = Link(forest.conventions.link, forest.conventions.slope)
        self.voting, self.is_pruned = voting, forest.is_pruned
        self.leaves = self._leaf_table()

    @property
    def output(self) -> str:
        return self._forest.output

    def _leaf_table(self) -> Leaves:
        forest = self._forest
        scale, start = forest.alone[0], forest.start
        value = forest.trees.value
        if forest.n_outputs > 1:
            n_nodes = np.diff(forest.trees.tree_start)
            raw = np.tile(start, forest.n_trees).repeat(n_nodes) + value[:, 0] * scale
        else:
            raw = (start + value * scale)[
                :, -1 if len(self.classes) < 3 and self.link.kind == "identity" else slice(None)
            ]
            raw = raw[:, 0] if raw.ndim > 1 and raw.shape[1] == 1 else raw
        alone = raw.ndim == 1 and forest.n_outputs == 1
        return Leaves(
            offset=forest.trees.tree_start[:-1].reshape(forest.n_trees, forest.n_outputs),
            score=np.asarray(self.link.predicted(raw)) if alone else raw,
            raw=raw,
            mass=np.zeros(len(raw)),
            provable=np.zeros(len(raw), dtype=np.bool_),
        )

    @property
    def digest(self) -> str | None:
        return self._forest.digest

    def check(self, X: Any) -> Any:
        return self._rows.checked(X)

    def leaf_index(self, X: Any) -> NDArray[Any]:
        start = self._forest.trees.tree_start
        index = np.arange(start[-1]) - np.repeat(start[:-1], np.diff(start))
        leaf = np.empty((matrix.n_rows(X), self.leaves.offset.size), dtype=np.int64)

        def work(some: _core.Rows, rows: slice) -> None:
            some.reach(index, leaf[rows])

        self._rows.each_block(X, work)
        return leaf.reshape(len(leaf), *self.leaves.offset.shape)

    def leaf_votes(self, threshold: float) -> NDArray[Any]:
        return self._forest.trees.vote if threshold == self._forest.threshold else super().leaf_votes(threshold)

    def first(self, n_trees: int) -> Any:
        raise NotAForestError(
            f"rfsize cannot cut a compiled forest: truncate the model to {n_trees} trees, and compile that"
        )
