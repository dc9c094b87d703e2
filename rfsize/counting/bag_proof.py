"""The proof of rebuilt bags: compare them, leaf by leaf, with what the model stored at training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.exceptions import InbagError
from rfsize.models.bags import FRESH_ROWS, Bags
from rfsize.models.leaves import LeafLabels
from rfsize.models.model import Forest
from rfsize.utils.threads import each_range, effective_threads
from rfsize.utils.typing import Bools, Floats

# Gradients, hessians and leaves are in single precision: sums of weights are exact to this share …
_WEIGHT_TOLERANCE = 1e-5
# … and sums of targets to this share of the sum if every row had the largest target.
_TARGET_TOLERANCE = 1e-5

# From this many cells per leaf on, several threads with separate sums are faster than one thread.
_FEWEST_CELLS_PER_LEAF = 8


class BagProof:
    """Compares, leaf by leaf, the rows of the rebuilt bags with what the model stored at training.

    If the training labels are known, the proof also compares them with the leaf values: leaves that were changed after
    training may know rows that their bags left out.

    Attributes
    ----------
    bags : Bags
        The bags to prove.
    sums : list of ndarray of float64, shape (n_leaves,)
        Sums by leaf over the rows so far: of masses; with labels also of targets; and of weights, if they differ from
        the masses.
    """

    def __init__(self, adapter: Forest, bags: Bags) -> None:
        self.bags = bags
        self._adapter, self._labels = adapter, bags.labels
        n_sums = 1 if bags.labels is None else 2 if bags.labels.weight is None else 3
        self.sums = [np.zeros(len(adapter.leaves.score)) for _ in range(n_sums)]

    def add(self, start: int, stop: int, leaf: NDArray[Any], inbag: Bools) -> None:
        """Add a block of rows to the sums of the leaves that they reach."""
        if not self.bags.need_proof:
            return
        leaf, bags, mass = np.ascontiguousarray(leaf, np.int64), np.ascontiguousarray(inbag), self.bags.row_mass
        values = [mass(start, stop)]
        if self._labels is not None:
            weight = values[0] if self._labels.weight is None else self._labels.weight(start, stop)
            values += [weight * self._labels.target[start:stop, None, :], weight]
        for value, total in zip(values, self.sums, strict=False):
            add_at_leaves(leaf, bags, value, total)

    def include(self, sums: list[Floats]) -> None:
        """Add the sums that another proof of the same forest made over other rows."""
        for own, others in zip(self.sums, sums, strict=True):
            own += others

    def conclude(self) -> None:
        """Raise `InbagError` if rows or labels in the leaves differ from those that the bags imply."""
        if not self.bags.need_proof:
            return
        leaves = self._adapter.leaves
        if not leaves.provable.any():
            raise InbagError(
                "no tree has more than one leaf, so no leaf count can prove which rows were in the bags; take "
                f"{FRESH_ROWS}"
            )
        wrong = self.bags.contradicted(leaves, self.sums[0]) & leaves.provable
        if wrong.any():
            raise InbagError(
                f"the in-bag rows could not be proven: in {self._trees_of(wrong)}, the rebuilt bag does not match the "
                f"leaf counts that {self._adapter.framework} stored. {self.bags.advice} Otherwise take {FRESH_ROWS}"
            )
        if self._labels is not None:
            self._compare_with(self._labels)

    def _compare_with(self, labels: LeafLabels) -> None:
        """Raise `InbagError` if leaves differ from what their proven bags and the labels imply.

        Skip forests trained with weights that are not proportional to the given ones: their leaves differ anyway.
        """
        leaves = self._adapter.leaves
        comparable = leaves.provable & np.isfinite(labels.stored)
        n_outputs = leaves.offset.shape[1]
        target, weight = self.sums[1], np.where(comparable, self.sums[0 if labels.weight is None else 2], 0.0)
        stored = np.where(comparable, labels.stored_weight, 0.0)
        output = leaves.tree_of_leaf() % n_outputs
        given, kept = (np.bincount(output, weights=each, minlength=n_outputs) for each in (weight, stored))
        scale = (given / np.maximum(kept, 1e-300))[output]
        if (np.abs(weight - scale * stored) > _WEIGHT_TOLERANCE * weight).any():
            return
        tolerance = _TARGET_TOLERANCE * weight * np.abs(labels.target).max() + scale * labels.error
        with np.errstate(invalid="ignore"):
            wrong = comparable & (np.abs(target - scale * labels.stored) > tolerance)
        if wrong.any():
            raise InbagError(
                f"the leaves differ from what their bags and the labels y give: in {self._trees_of(wrong)}. Either "
                "y are not the labels of training, in its order: give y as at training. Or the leaves were "
                "changed after training (refit, set_leaf_output, an edited file) or grown on top of other "
                f"predictions (base_margin, boosting), and may know rows outside their bags: take {FRESH_ROWS}"
            )

    def _trees_of(self, wrong: Bools) -> str:
        """Words for messages: how many trees the leaves belong to, and the first of these trees."""
        leaves = self._adapter.leaves
        trees, (n_members, n_outputs) = np.unique(leaves.tree_of_leaf()[wrong]), leaves.offset.shape
        first = int(trees[0]) // n_outputs
        return f"{trees.size} of {n_members * n_outputs} trees, the first of them tree {first}"


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
