"""One pass down the trees: the leaves that rows reach, and which trees may vote on them.

The leaves come from compiled loops where these are proven to reach those of the framework.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.bags import Bags
from rfsize.adapters.base import Adapter
from rfsize.adapters.trees import TreeTable
from rfsize.counting.bag_proof import BagProof
from rfsize.exceptions import NotAForestError
from rfsize.utils import matrix
from rfsize.utils.matrix import blocks
from rfsize.utils.pieces import Pieces
from rfsize.utils.threads import each_range
from rfsize.utils.typing import Bools, Int64s
from rfsize.voting.groups import Groups
from rfsize.walking.encoding import encoded
from rfsize.walking.layout import Forest
from rfsize.walking.quantising import quantised_blocks

# The leaves of rows start to stop as indices into the table of all leaves, shape (rows, n_members, n_outputs).
LeafIndex = Callable[[int, int], NDArray[Any]]

# What is done with a block of rows: its place, the leaves it reaches, and which trees were trained on it or its group.
Visit = Callable[[slice, NDArray[Any], Bools | None], None]

ROWS_PER_THREAD = 2048

# Cells of (rows × trees) from which laying out the trees, and comparing leaves, takes less time than it saves.
CELLS_WORTH_A_LAYOUT = 1 << 22

# Rows whose leaves are compared with the framework's own, of all and of a block of pieces; and how many at a place with
# missing values, out of how many that are looked at there.
_ROWS_COMPARED, _ROWS_COMPARED_OF_BLOCK = 1024, 64
_ROWS_OF_PLACE, _ROWS_PER_PLACE = 16, 4096


def leaf_index(adapter: Adapter, X: Any, of: int | None = None) -> LeafIndex:
    """Where the leaves of rows come from, which `Adapter.check` returned.

    Many rows go down the trees by compiled loops, without the framework, if on rows from all over ``X`` these reach the
    leaves that the framework says. Else, and where a framework or rows cannot be compiled, its own `Adapter.leaf_index`
    goes on being asked. Where ``X`` is one block of the rows that are asked, ``of`` tells how many those are: together
    they may be worth compiling where a block is not.
    """
    offset = adapter.leaves.offset

    def by_framework(start: int, stop: int) -> NDArray[Any]:
        return adapter.leaf_index(matrix.take(X, start, stop)) + offset

    n_rows = matrix.n_rows(X) if of is None else of
    if n_rows * adapter.leaves.offset.size < CELLS_WORTH_A_LAYOUT:
        return by_framework
    try:
        walk = CompiledWalk(adapter)
    except ValueError:  # of trees that are not compiled
        return by_framework
    if not isinstance(X, Pieces) and not walk.reaches_leaves_of(adapter, X, _ROWS_COMPARED):
        return by_framework

    def by_either(start: int, stop: int) -> NDArray[Any]:
        rows = matrix.take(X, start, stop)
        # Of pieces each is compared as it comes: to read all over them first would be to read them twice.
        if isinstance(X, Pieces) and not walk.reaches_leaves_of(adapter, rows, _ROWS_COMPARED_OF_BLOCK):
            return by_framework(start, stop)
        try:
            return walk.leaf_index(rows)
        except ValueError:  # which is the framework's to raise, where it refuses these rows
            return by_framework(start, stop)

    return by_either


class CompiledWalk:
    """A forest laid out for compiled loops, each leaf with its index into the table of all leaves.

    Attributes
    ----------
    forest : Forest
        What rows go down.
    leaf_of_node : ndarray of int64, shape (n_nodes,)
        Index into the table of all leaves of each node that is one, 0 elsewhere.
    """

    def __init__(self, adapter: Adapter) -> None:
        table = adapter.tree_table(0.5)
        index = _index_of_nodes(table, adapter.leaves.offset.ravel())
        forest = Forest.of(adapter, replace(table, value=index[:, None].astype(np.float64)))
        self.leaf_of_node = forest.trees.value[:, 0].astype(np.int64)
        if self.leaf_of_node.min() < 0 or self.leaf_of_node.max() >= len(adapter.leaves.score):
            raise ValueError("tree_table has leaves that the table of leaves has not")
        # The framework may refuse numbers beyond single precision, and is asked.
        self.forest = replace(forest, conventions=replace(forest.conventions, refuses_infinite=True))
        self._shape = adapter.leaves.offset.shape

    def leaf_index(self, X: Any) -> NDArray[Any]:
        """The leaves that all rows of ``X`` reach, shape (rows, n_members, n_outputs)."""
        quantise = quantised_blocks(self.forest, X)
        leaf = np.empty((matrix.n_rows(X), self.forest.trees.tree_start.size - 1), dtype=np.int64)

        def walk(start: int, stop: int) -> None:
            quantise(start, stop).reach(self.leaf_of_node, leaf[start:stop])

        each_range(walk, len(leaf), ROWS_PER_THREAD)
        return leaf.reshape(-1, *self._shape)

    def reaches_leaves_of(self, adapter: Adapter, X: Any, n_rows: int) -> bool:
        """Whether so many rows from all over ``X``, and some with missing values, reach the framework's own leaves."""
        try:
            some = matrix.pick(X, _compared_rows(X, self.forest, n_rows))
            reached = self.leaf_index(some)
        except ValueError:  # of rows that are not compiled
            return False
        return np.array_equal(reached, adapter.leaf_index(some) + adapter.leaves.offset)


def proven_walk(adapter: Adapter, X: Any) -> CompiledWalk:
    """The walk of rows that `Adapter.check` returned, which reaches the framework's own leaves.

    Raises
    ------
    NotAForestError
        If it does not on rows from all over ``X``, or members are no trees.
    """
    walk = CompiledWalk(adapter)
    if not walk.reaches_leaves_of(adapter, X, _ROWS_COMPARED):
        raise NotAForestError(
            f"on some rows of X rfsize reaches other leaves than {adapter.framework} does. Give X as a float "
            "array; if that does not help, please report the model"
        )
    return walk


def _index_of_nodes(table: TreeTable, offset: Int64s) -> Int64s:
    """Index into the table of all leaves of each node that is one."""
    if table.n_nodes.size != offset.size:
        raise ValueError(f"tree_table has {table.n_nodes.size} trees, and the table of leaves {offset.size}")
    first = np.cumsum(table.n_nodes) - table.n_nodes
    number = np.arange(table.left.size) - np.repeat(first, table.n_nodes) if table.leaf is None else table.leaf
    return np.asarray(np.where(table.left == -1, number + np.repeat(offset, table.n_nodes), 0))


def _compared_rows(X: Any, forest: Forest, at_most: int) -> Int64s:
    """Rows from the first to the last, and some with missing values, where there are any at as many places."""
    n_rows, blocks = matrix.n_rows(X), encoded(X, forest.conventions)
    rows = [np.linspace(0, n_rows - 1, at_most).astype(np.int64)]
    for start in np.linspace(0, max(n_rows - _ROWS_PER_PLACE, 0), at_most // _ROWS_OF_PLACE).astype(np.int64):
        values = blocks(int(start), int(min(start + _ROWS_PER_PLACE, n_rows)))
        missing = np.isnan(values).any(axis=1) if isinstance(values, np.ndarray) else np.zeros(0)
        rows.append(start + np.flatnonzero(missing)[:_ROWS_OF_PLACE])
    return np.unique(np.concatenate(rows))


@dataclass(frozen=True, eq=False)
class SeenByGroup:
    """Trees whose bag holds a row of a group.

    Attributes
    ----------
    index : ndarray of int64, shape (n_rows,)
        Number of the group of each row, -1 where no other row belongs to it.
    trees : tuple of int
        Members, and outputs with bags of their own.
    seen : ndarray of uint8, shape (n_groups, ...)
        For each group a bit for each tree.
    """

    index: Int64s
    trees: tuple[int, ...]
    seen: NDArray[np.uint8]

    @classmethod
    def of(cls, bags: Bags, groups: Groups) -> SeenByGroup | None:
        """Of a forest's bags, by one pass over all of them; None where no rows belong together."""
        if groups.index is None:
            return None
        of_one_row = bags.take(0, 1)
        seen = np.zeros((groups.n_groups, (of_one_row.size + 7) // 8), dtype=np.uint8)
        found = cls(groups.index, of_one_row.shape[1:], seen)
        for start, stop in blocks(bags.n_rows, of_one_row.size, what="bags of groups"):
            belongs = found.index[start:stop] >= 0
            if belongs.any():
                found._add(found.index[start:stop][belongs], bags.take(start, stop)[belongs])
        return found

    def part(self, start: int, stop: int) -> SeenByGroup:
        """Of rows ``start`` to ``stop`` alone."""
        present, index = np.unique(self.index[start:stop], return_inverse=True)
        stand_alone = int(present[0] == -1)  # the number of all of them
        return SeenByGroup(index - stand_alone, self.trees, self.seen[present[stand_alone:]])

    def _add(self, group: Int64s, inbag: Bools) -> None:
        bits = np.packbits(inbag.reshape(len(inbag), -1), axis=1)
        order = np.argsort(group, kind="stable")
        present, first = np.unique(group[order], return_index=True)
        self.seen[present] |= np.bitwise_or.reduceat(bits[order], first, axis=0)

    def with_group(self, start: int, stop: int, inbag: Bools) -> Bools:
        """In-bag mask of rows ``start`` to ``stop``, with the trees that saw another row of the group."""
        group = self.index[start:stop]
        belongs = group >= 0
        bits = np.unpackbits(self.seen[group[belongs]], axis=1, count=int(np.prod(self.trees)))
        inbag = inbag.copy()
        inbag[belongs] |= bits.reshape(-1, *self.trees).view(np.bool_)
        return inbag


def visit_leaves(
    adapter: Adapter,
    n_rows: int,
    leaf_index: LeafIndex,
    visit: Visit,
    *,
    what: str,
    proof: BagProof | None = None,
    seen: SeenByGroup | None = None,
    cells: int = 0,
) -> None:
    """Visit all rows, block by block.

    ``visit`` gets the leaves, shape (rows, n_members, n_outputs), as indices into the table of all leaves, and with a
    ``proof`` of bags the in-bag mask, which has that shape too, or 1 in place of n_outputs where the trees of a member
    share a bag; of a row that belongs to others, this is the mask of the trees that were trained on any of them. What
    it gathered may be used when the proof is concluded, and not where that raises.

    Parameters
    ----------
    adapter : Adapter
        The forest.
    n_rows : int
        Rows.
    leaf_index, visit : callable
        Where leaves come from, such as `leaves.leaf_index`, and where they go.
    what : str
        Named by the progress bar.
    proof : BagProof, optional
        Of its bags, where rows are to be known that trees did not see; it is added to, and not concluded.
    seen : SeenByGroup, optional
        Where rows belong together: which trees saw one of them; only with ``proof``.
    cells : int, default 0
        Numbers that ``visit`` holds for each row besides.
    """
    for start, stop in blocks(n_rows, adapter.n_trees * adapter.leaves.n_scores + cells, what=what):
        leaf = leaf_index(start, stop)
        inbag = None if proof is None else proof.add(start, stop, leaf)
        visit(slice(start, stop), leaf, inbag if seen is None or inbag is None else seen.with_group(start, stop, inbag))


def out_of_bag_members(leaf: NDArray[Any], inbag: Bools | None) -> tuple[NDArray[Any], Bools]:
    """Leaves of members that left the row out of their bags, and which members did; without bags all.

    Where the trees of each class have bags of their own (XGBoost), so few members have left a row out with all of their
    trees that hardly any vote would remain. But such trees are drawn independently, so that any trees that left the row
    out, one of each class, make as good a member as those of one iteration: the first of each vote together, then the
    second of each, as far as the class with the fewest goes.

    Parameters
    ----------
    leaf : ndarray of int, shape (n_rows, n_members, n_outputs)
        Leaves that the rows reach.
    inbag : ndarray of bool, shape (n_rows, n_members, n_outputs or 1), or None
        Whether the tree was trained on the row.

    Returns
    -------
    leaf : ndarray of int, shape (n_rows, n_members, n_outputs)
        Leaves, member by member.
    may_vote : ndarray of bool, shape (n_rows, n_members)
        Whether the member left the row out.
    """
    if inbag is None:
        return leaf, np.ones(leaf.shape[:2], dtype=np.bool_)
    if inbag.shape[2] == 1:
        return leaf, np.ascontiguousarray(~inbag[:, :, 0])
    order = trees_of_members(inbag)
    complete = inbag.shape[1] - inbag.sum(axis=1).max(axis=1)
    return np.take_along_axis(leaf, order, axis=1), np.arange(inbag.shape[1]) < complete[:, None]


def trees_of_members(inbag: Bools) -> NDArray[np.intp]:
    """The tree of each class that takes part in each member's vote; shape and order of members as in the mask."""
    return np.argsort(inbag.view(np.uint8), axis=1, kind="stable")


def asked_of(leaf: NDArray[Any], inbag: Bools | None) -> Bools:
    """Which trees are asked, shape (n_rows, n_members, 1), or n_outputs in place of 1 where each has its own bag."""
    return np.ones((*leaf.shape[:2], 1), dtype=np.bool_) if inbag is None else ~inbag
