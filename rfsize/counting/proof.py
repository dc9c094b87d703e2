"""The proof of rebuilt bags: their rows, leaf by leaf, are compared with what the model stored at training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s, blocks, each_range, effective_threads
from rfsize.counting.groups import Groups
from rfsize.exceptions import InbagError
from rfsize.models.bags import FRESH_ROWS, Bags
from rfsize.models.ensemble import TreeEnsemble
from rfsize.models.model import Forest

# From this many cells per node on, several threads with separate sums are faster than one thread.
_FEWEST_CELLS_PER_NODE = 8


class BagCheck:
    """Adds up, leaf by leaf, the rows of rebuilt bags, and compares the sums with the cover that the model stored.

    Attributes
    ----------
    bags : Bags
        The bags to prove.
    rebuilt : ndarray of float64, shape (n_nodes,)
        Cover of each leaf by the rows so far.
    """

    def __init__(self, forest: Forest, bags: Bags) -> None:
        self.bags, self._framework, self._ensemble = bags, forest.framework, forest.ensemble
        self.rebuilt: Floats = np.zeros(0 if self._ensemble is None else self._ensemble.cover.size)

    def add(self, start: int, stop: int, leaf: NDArray[Any], inbag: Bools) -> None:
        """Add rows ``start`` to ``stop`` to the leaves that they reach."""
        if self.bags.need_proof:
            leaf, inbag = np.ascontiguousarray(leaf, np.int64), np.ascontiguousarray(inbag)
            add_at_leaves(leaf, inbag, self.bags.row_mass(start, stop), self.rebuilt)

    def include(self, rebuilt: Floats) -> None:
        """Add the cover that another check of the same forest found over other rows."""
        self.rebuilt += rebuilt

    @property
    def _trees(self) -> TreeEnsemble:
        assert self._ensemble is not None  # other members store no cover, so their bags need no proof
        return self._ensemble

    @property
    def is_exceeded(self) -> bool:
        """Whether the rows so far fill some leaf beyond what all training rows can."""
        return bool((self.bags.exceeded(self._trees, self.rebuilt) & self._trees.has_cover).any())

    def conclude(self) -> None:
        """Raise `InbagError` if rows in the leaves differ from those that the bags imply."""
        if not self.bags.need_proof:
            return
        trees = self._trees
        if not trees.has_cover.any():
            raise InbagError(
                "no tree has more than one leaf, so no leaf count can prove which rows were in the bags: take "
                f"{FRESH_ROWS}"
            )
        wrong = np.unique(trees.tree_of_node[self.bags.contradicted(trees, self.rebuilt) & trees.has_cover])
        if wrong.size:
            raise InbagError(
                f"the in-bag rows could not be proven: in {wrong.size} of {trees.tree_start.size} trees, the first of "
                f"them tree {wrong[0] // trees.trees_per_iteration}, the rebuilt bag does not match the leaf counts "
                f"that {self._framework} stored. {self.bags.advice} Otherwise take {FRESH_ROWS}"
            )


def add_at_leaves(leaf: Int64s, inbag: Bools, value: Floats, total: Floats) -> None:
    """Add to ``total``, by leaf, the values of those rows of a batch that the trees were trained on.

    Parameters
    ----------
    leaf : ndarray of int64, shape (n_rows, n_trees, trees_per_iteration)
        Nodes that the rows reach; contiguous.
    inbag : ndarray of bool, shape (n_rows, n_trees, trees_per_iteration or 1)
        Whether the tree was trained on the row; contiguous.
    value : ndarray of float64, shape (n_rows, n_trees or 1, trees_per_iteration or 1)
    total : ndarray of float64, shape (n_nodes,)
    """
    value, n_rows = np.ascontiguousarray(value), len(leaf)
    threads = effective_threads(-1) if leaf.size >= _FEWEST_CELLS_PER_NODE * total.size else 1
    if threads == 1:
        _core.add_at_leaves(leaf, inbag, value, total)
        return

    def of_part(start: int, stop: int) -> Floats:
        part = np.zeros(total.size)
        _core.add_at_leaves(leaf[start:stop], inbag[start:stop], value[start:stop], part)
        return part

    for part in each_range(of_part, n_rows, -(-n_rows // threads)):
        total += part


@dataclass(frozen=True, eq=False)
class GroupInbag:
    """For each group of rows, the trees that saw a row of the group.

    Attributes
    ----------
    index : ndarray of int64, shape (n_rows,)
        Number of each row's group, -1 for a row without a group.
    trees : tuple of int
        Number of trees, and of bags of each.
    bits : ndarray of uint8, shape (n_groups, ...)
        For each group, one bit for each tree.
    """

    index: Int64s
    trees: tuple[int, ...]
    bits: NDArray[np.uint8]

    @classmethod
    def of(cls, bags: Bags | None, groups: Groups) -> GroupInbag | None:
        """Build it from a forest's bags in one pass; None if there are no groups."""
        if bags is None or groups.index is None:
            return None
        trees = bags.take(0, 1).shape[1:]
        n_bags = int(np.prod(trees))
        bits = np.zeros((groups.n_groups, (n_bags + 7) // 8), dtype=np.uint8)
        for start, stop in blocks(bags.n_rows, n_bags, what="bags of groups"):
            rows = np.flatnonzero(groups.index[start:stop] >= 0)
            if rows.size:
                _add_bits(bits, groups.index[start:stop][rows], bags.take(start, stop)[rows])
        return cls(groups.index, trees, bits)

    def part(self, start: int, stop: int) -> GroupInbag:
        """Keep only rows ``start`` to ``stop`` and their groups."""
        present, index = np.unique(self.index[start:stop], return_inverse=True)
        alone = int(present[0] == -1)  # rows without a group share the number -1
        return GroupInbag(index - alone, self.trees, self.bits[present[alone:]])

    def expand(self, start: int, stop: int, inbag: Bools) -> Bools:
        """In-bag mask of rows ``start`` to ``stop``, also True for trees that saw another row of the group."""
        group = self.index[start:stop]
        rows = np.flatnonzero(group >= 0)
        bits = np.unpackbits(self.bits[group[rows]], axis=1, count=int(np.prod(self.trees)))
        seen = inbag.copy()
        seen[rows] |= bits.reshape(-1, *self.trees).view(np.bool_)
        return seen


def _add_bits(bits: NDArray[np.uint8], group: Int64s, inbag: Bools) -> None:
    packed = np.packbits(inbag.reshape(len(inbag), -1), axis=1)
    order = np.argsort(group, kind="stable")
    present, first = np.unique(group[order], return_index=True)
    bits[present] |= np.bitwise_or.reduceat(packed[order], first, axis=0)
