"""A compiled forest read as a model, so that you can size it and calibrate tables for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import each_range
from rfsize.exceptions import NotAForestError
from rfsize.inference.rows import opened
from rfsize.models.model import Forest, Output
from rfsize.models.rows import Rows
from rfsize.walking.layout import PackedForest, unpacked
from rfsize.walking.leaves import quantised, rows_per_block


class CompiledTrees(Forest):
    """The trees of a compiled forest.

    Parameters
    ----------
    forest : PackedForest
        A forest of trees with equal weights.
    n_jobs : int
        Number of threads.
    voting : {"soft", "hard"}
        How trees make a label.
    """

    def __init__(self, forest: PackedForest, n_jobs: int, voting: str) -> None:
        self.framework = forest.conventions.framework  # type: ignore[misc]
        self.booster, self._n_jobs, self.ensemble = forest, n_jobs, unpacked(forest)
        self.voting, self.is_pruned = voting, forest.is_pruned

    @property
    def output(self) -> Output:
        return self.booster.output

    @property
    def digest(self) -> str | None:
        return self.booster.digest

    def open(self, X: Any) -> Rows:
        return opened(self.booster, X)

    def apply(self, X: Any) -> NDArray[np.int64]:
        node = np.arange(self.booster.trees.nodes.size)
        leaf = np.empty((X.shape[0], self._arrays.nodes.n_nodes.size), dtype=np.int64)

        def reach(start: int, stop: int) -> None:
            quantised(self.booster, X[start:stop]).reach(node, leaf[start:stop])

        each_range(
            reach,
            len(leaf),
            rows_per_block(len(leaf), self.booster.n_columns, n_jobs=self._n_jobs),
            n_jobs=self._n_jobs,
        )
        return leaf.reshape(len(leaf), *self._arrays.tree_start.shape)

    def first(self, n_trees: int) -> Any:
        raise NotAForestError(
            f"rfsize cannot cut a compiled forest: truncate the model to {n_trees} trees, and compile that"
        )
