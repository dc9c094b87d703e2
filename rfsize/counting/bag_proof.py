"""The proof of rebuilt bags: leaf by leaf, against what the model stored at training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter, Bags
from rfsize.counting.label_proof import LabelProof
from rfsize.counting.leaf_sums import LeafSums
from rfsize.exceptions import InbagError
from rfsize.utils.typing import Floats


class BagProof:
    """Compares, leaf by leaf, the rows of the rebuilt bags with what the model stored at training."""

    def __init__(self, adapter: Adapter, bags: Bags) -> None:
        self._adapter = adapter
        self._bags = bags
        self._rebuilt = np.zeros(len(adapter.leaves.score))
        self._labels = None if bags.labels is None else LabelProof(adapter, bags.labels)

    def add(self, start: int, stop: int, leaf: NDArray[Any]) -> NDArray[np.bool_]:
        """Count a block of rows by leaf and return its in-bag mask."""
        inbag = self._bags.take(start, stop)
        if not self._bags.need_proof:
            return inbag
        sums, mass = LeafSums(leaf, inbag), self._bags.row_mass(start, stop)
        sums.add(mass, self._rebuilt)
        if self._labels is not None:
            self._labels.add(start, stop, sums, mass)
        return inbag

    @property
    def sums(self) -> list[Floats]:
        """What was added up by leaf, of the rows so far."""
        return [self._rebuilt, *(self._labels.sums if self._labels is not None else ())]

    def include(self, sums: list[Floats]) -> None:
        """Add what another proof of the same forest added up of other rows."""
        for own, others in zip(self.sums, sums, strict=True):
            own += others

    def conclude(self) -> None:
        if not self._bags.need_proof:
            return
        leaves = self._adapter.leaves
        if not leaves.provable.any():
            raise InbagError(
                "no tree has more than one leaf, so no leaf count can prove which rows were in the bags; give "
                "validation rows instead of oob=True"
            )
        wrong = self._bags.contradicted(leaves, self._rebuilt) & leaves.provable
        if wrong.any():
            trees = np.unique(leaves.tree_of_leaf()[wrong])
            first = int(trees[0]) // leaves.offset.shape[1]
            raise InbagError(
                f"the in-bag rows could not be proven: in {trees.size} of {leaves.offset.size} trees, the first of "
                f"them tree {first}, the rebuilt bag does not match the leaf counts that {self._adapter.framework} "
                f"stored. {self._bags.advice} Otherwise give validation rows and leave oob=False"
            )
        if self._labels is not None:
            self._labels.conclude(self._rebuilt)
