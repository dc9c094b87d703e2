"""The leaves that rows reach, by compiled loops where these are proven to reach those of the framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter
from rfsize.adapters.trees import TreeTable
from rfsize.utils import matrix
from rfsize.utils.threads import each_range
from rfsize.utils.typing import Int64s
from rfsize.walking.encoding import encoded
from rfsize.walking.layout import Forest
from rfsize.walking.quantising import Quantiser

# The leaves of rows start to stop as indices into the table of all leaves, shape (rows, n_members, n_outputs).
LeafIndex = Callable[[int, int], NDArray[Any]]

ROWS_PER_THREAD = 2048

# Rows whose leaves are compared with the framework's own, and places at which missing values are looked for.
_ROWS_COMPARED, _PLACES, _ROWS_PER_PLACE = 1024, 64, 4096


def leaf_index(adapter: Adapter, X: Any) -> LeafIndex:
    """Where the leaves of rows come from, which `Adapter.check` returned.

    Many rows go down the trees by compiled loops, without the framework, if on rows from all over ``X`` these reach the
    leaves that the framework says. Else, and where a framework or rows cannot be compiled, its own `Adapter.leaf_index`
    goes on being asked.
    """
    offset = adapter.leaves.offset

    def by_framework(start: int, stop: int) -> NDArray[Any]:
        return adapter.leaf_index(matrix.take(X, start, stop)) + offset

    if not is_worth_compiling(adapter, matrix.n_rows(X)):
        return by_framework
    try:
        walk = _CompiledWalk(adapter)
        by_walk, some = walk.leaf_index(X), matrix.pick(X, _compared_rows(X, walk.forest))
        reached = walk.leaf_index(some)(0, matrix.n_rows(some))
    except ValueError:  # of trees or rows that are not compiled
        return by_framework
    if not np.array_equal(reached, adapter.leaf_index(some) + offset):
        return by_framework

    def by_either(start: int, stop: int) -> NDArray[Any]:
        try:
            return by_walk(start, stop)
        except ValueError:  # which is the framework's to raise, where it refuses these rows
            return by_framework(start, stop)

    return by_either


def is_worth_compiling(adapter: Adapter, n_rows: int) -> bool:
    """Whether compiled loops are to be used on so many rows of the forest."""
    return matrix.is_worth_compiling(n_rows, adapter.leaves.offset.size)


class _CompiledWalk:
    """A forest laid out for compiled loops, each leaf with its index into the table of all leaves."""

    def __init__(self, adapter: Adapter) -> None:
        table = adapter.tree_table(0.5)
        index = _index_of_nodes(table, adapter.leaves.offset.ravel())
        forest = Forest.of(adapter, replace(table, value=index[:, None].astype(np.float64)))
        self._index = forest.trees.value[:, 0].astype(np.int64)
        if self._index.min() < 0 or self._index.max() >= len(adapter.leaves.score):
            raise ValueError("tree_table has leaves that the table of leaves has not")
        # The framework may refuse numbers beyond single precision, and is asked.
        self.forest = replace(forest, conventions=replace(forest.conventions, refuses_infinite=True))
        self._shape = adapter.leaves.offset.shape

    def leaf_index(self, X: Any) -> LeafIndex:
        from rfsize.counting.kernels import reach

        quantise, trees = Quantiser(self.forest).blocks(X), tuple(self.forest.trees)

        def leaves(start: int, stop: int) -> NDArray[Any]:
            leaf = np.empty((stop - start, self.forest.trees.tree_start.size - 1), dtype=np.int64)

            def walk(first: int, last: int) -> None:
                reach(quantise(start + first, start + last), trees, self._index, leaf[first:last])

            each_range(walk, len(leaf), ROWS_PER_THREAD)
            return leaf.reshape(-1, *self._shape)

        return leaves


def _index_of_nodes(table: TreeTable, offset: Int64s) -> Int64s:
    """Index into the table of all leaves of each node that is one."""
    if table.n_nodes.size != offset.size:
        raise ValueError(f"tree_table has {table.n_nodes.size} trees, and the table of leaves {offset.size}")
    first = np.cumsum(table.n_nodes) - table.n_nodes
    number = np.arange(table.left.size) - np.repeat(first, table.n_nodes) if table.leaf is None else table.leaf
    return np.asarray(np.where(table.left == -1, number + np.repeat(offset, table.n_nodes), 0))


def _compared_rows(X: Any, forest: Forest) -> Int64s:
    """Rows from the first to the last, and some with missing values, where there are any at as many places."""
    n_rows, blocks = matrix.n_rows(X), encoded(X, forest.conventions)
    rows = [np.linspace(0, n_rows - 1, _ROWS_COMPARED).astype(np.int64)]
    for start in np.linspace(0, max(n_rows - _ROWS_PER_PLACE, 0), _PLACES).astype(np.int64):
        values = blocks(int(start), int(min(start + _ROWS_PER_PLACE, n_rows)))
        missing = np.isnan(values).any(axis=1) if isinstance(values, np.ndarray) else np.zeros(0)
        rows.append(start + np.flatnonzero(missing)[: _ROWS_COMPARED // _PLACES])
    return np.unique(np.concatenate(rows))
