"""The proof of rebuilt bags: compare them, leaf by leaf, with what the model stored at training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.exceptions import InbagError
from rfsize.models.bags import FRESH_ROWS, Bags
from rfsize.models.model import Forest
from rfsize.utils.threads import each_range, effective_threads
from rfsize.utils.typing import Bools, Floats

# From this many cells per leaf on, several threads with separate sums are faster than one thread.
_FEWEST_CELLS_PER_LEAF = 8


class BagProof:
    """Compares, leaf by leaf, the rows of the rebuilt bags with what the model stored at training.

    Attributes
    ----------
    bags : Bags
        The bags to prove.
    sums : list of ndarray of float64, shape (n_nodes,)
        Sum by leaf over the rows so far.
    """

    def __init__(self, forest: Forest, bags: Bags) -> None:
        self.bags, self._forest = bags, forest
        self.sums = [np.zeros(0 if forest.ensemble is None else forest.ensemble.cover.size)]

    def add(self, start: int, stop: int, leaf: NDArray[Any], inbag: Bools) -> None:
        """Add a block of rows to the sums of the leaves that they reach."""
        if self.bags.need_proof:
            leaf, inbag = np.ascontiguousarray(leaf, np.int64), np.ascontiguousarray(inbag)
            add_at_leaves(leaf, inbag, self.bags.row_mass(start, stop), self.sums[0])

    def include(self, sums: list[Floats]) -> None:
        """Add the sums that another proof of the same forest made over other rows."""
        for own, others in zip(self.sums, sums, strict=True):
            own += others

    def conclude(self) -> None:
        """Raise `InbagError` if rows in the leaves differ from those that the bags imply."""
        if not self.bags.need_proof:
            return
        trees = self._forest.ensemble
        assert trees is not None
        if not trees.has_cover.any():
            raise InbagError(
                "no tree has more than one leaf, so no leaf count can prove which rows were in the bags: take "
                f"{FRESH_ROWS}"
            )
        wrong = np.unique(trees.tree_of_node[self.bags.contradicted(trees, self.sums[0]) & trees.has_cover])
        if wrong.size:
            raise InbagError(
                f"the in-bag rows could not be proven: in {wrong.size} of {trees.nodes.n_nodes.size} trees, the first "
                f"of them tree {wrong[0] // trees.trees_per_iteration}, the rebuilt bag does not match the leaf counts "
                f"that {self._forest.framework} stored. {self.bags.advice} Otherwise take {FRESH_ROWS}"
            )


def add_at_leaves(leaf: NDArray[np.int64], inbag: Bools, value: Floats, total: Floats) -> None:
    """Add to ``total``, by leaf, the values of those rows of a block that the trees were trained on.

    Parameters
    ----------
    leaf : ndarray of int64, shape (rows, n_members, n_outputs)
        Leaves that the rows reach, as indices into the table of all leaves; contiguous.
    inbag : ndarray of bool, shape (rows, n_members, n_outputs or 1)
        Whether the tree was trained on the row; contiguous.
    value : ndarray of float64, shape (rows, n_members or 1, n_outputs or 1)
    total : ndarray of float64, shape (n_leaves,)
    """
    value, rows = np.ascontiguousarray(value), len(leaf)
    threads = effective_threads(-1) if leaf.size >= _FEWEST_CELLS_PER_LEAF * total.size else 1
    if threads == 1:
        _core.add_at_leaves(leaf, inbag, value, total)
        return

    def part(start: int, stop: int) -> Floats:
        own = np.zeros(total.size)
        _core.add_at_leaves(leaf[start:stop], inbag[start:stop], value[start:stop], own)
        return own

    for own in each_range(part, rows, -(-rows // threads)):
        total += own
