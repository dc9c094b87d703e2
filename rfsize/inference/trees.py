"""A compiled forest read as a model, so that you can size it and calibrate tables for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.exceptions import NotAForestError
from rfsize.inference.rows import Rows
from rfsize.models.model import Forest, Output
from rfsize.utils import matrix
from rfsize.walking.layout import PackedForest, unpacked


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
        self.booster, self._rows, self.ensemble = forest, rows, unpacked(forest)
        self.voting, self.is_pruned = voting, forest.is_pruned

    @property
    def output(self) -> Output:
        return self.booster.output

    @property
    def digest(self) -> str | None:
        return self.booster.digest

    def check(self, X: Any) -> Any:
        return self._rows.checked(X)

    def apply(self, X: Any) -> NDArray[np.int64]:
        node = np.arange(self.booster.trees.nodes.size)
        leaf = np.empty((matrix.n_rows(X), self._arrays.nodes.n_nodes.size), dtype=np.int64)

        def work(batch: _core.Rows, rows: slice) -> None:
            batch.reach(node, leaf[rows])

        self._rows.each_block(X, work)
        return leaf.reshape(len(leaf), *self._arrays.tree_start.shape)

    def first(self, n_trees: int) -> Any:
        raise NotAForestError(
            f"rfsize cannot cut a compiled forest: truncate the model to {n_trees} trees, and compile that"
        )
