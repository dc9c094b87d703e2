"""One pass down the trees: the leaves that blocks of rows reach, and which trees may vote on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.bags import Bags
from rfsize.adapters.base import Adapter
from rfsize.counting.bag_proof import BagProof
from rfsize.counting.leaves import LeafIndex
from rfsize.utils.matrix import blocks
from rfsize.utils.typing import Bools, Int64s
from rfsize.voting.groups import Groups

# What is done with a block of rows: its place, the leaves it reaches, and which trees were trained on it or its group.
Visit = Callable[[slice, NDArray[Any], Bools | None], None]


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
