"""The proof that leaves are as training left them: what their values imply, against the labels of their bags."""

from __future__ import annotations

import numpy as np

from rfsize.adapters.base import Adapter
from rfsize.adapters.leaf_labels import LeafLabels
from rfsize.counting.leaf_sums import LeafSums
from rfsize.exceptions import InbagError
from rfsize.utils.typing import Floats

# Gradients, hessians and leaves in single precision tell sums of weights to this share …
_WEIGHT_TOLERANCE = 1e-5
# … and sums of targets to this share of what the largest target would make.
_TARGET_TOLERANCE = 1e-5


class LabelProof:
    """Compares, leaf by leaf, the labels of the rebuilt bags with what the model's leaf values imply."""

    def __init__(self, adapter: Adapter, labels: LeafLabels) -> None:
        self._adapter = adapter
        self._labels = labels
        self._target = np.zeros(len(adapter.leaves.score))
        self._weight = None if labels.weight is None else np.zeros(len(adapter.leaves.score))

    @property
    def sums(self) -> list[Floats]:
        """What was added up by leaf."""
        return [self._target] if self._weight is None else [self._target, self._weight]

    def add(self, start: int, stop: int, sums: LeafSums, mass: Floats) -> None:
        """Add up rows ``start`` to ``stop`` by leaf, each with its mass as `Bags.row_mass` gives it."""
        weight = mass
        if self._weight is not None and self._labels.weight is not None:
            weight = self._labels.weight(start, stop)
            sums.add(weight, self._weight)
        sums.add(weight * self._labels.target[start:stop, None, :], self._target)

    def conclude(self, mass: Floats) -> None:
        """Raise `InbagError` where leaves are not what their bags make of the labels; ``mass`` is proven, by leaf.

        Nothing is said of forests whose weights are not those given, but for a constant: their leaves would differ as
        well.
        """
        labels, leaves = self._labels, self._adapter.leaves
        told = leaves.provable & np.isfinite(labels.stored)
        tree, n_outputs = leaves.tree_of_leaf(), leaves.offset.shape[1]
        weight = np.where(told, mass if self._weight is None else self._weight, 0.0)
        stored = np.where(told, labels.stored_weight, 0.0)
        output = tree % n_outputs
        given, kept = (np.bincount(output, weights=each, minlength=n_outputs) for each in (weight, stored))
        scale = (given / np.maximum(kept, 1e-300))[output]
        if (np.abs(weight - scale * stored) > _WEIGHT_TOLERANCE * weight).any():
            return
        tolerance = _TARGET_TOLERANCE * weight * np.abs(labels.target).max() + scale * labels.error
        with np.errstate(invalid="ignore"):
            wrong = told & (np.abs(self._target - scale * labels.stored) > tolerance)
        if wrong.any():
            trees = np.unique(tree[wrong])
            raise InbagError(
                f"the leaves do not hold what their bags make of the labels y: in {trees.size} of {leaves.offset.size} "
                f"trees, the first of them tree {int(trees[0]) // leaves.offset.shape[1]}. Either y are not the labels "
                "of training, in its order. Or leaves were changed after training (refit, set_leaf_output, an edited "
                "file) or grown on top of other predictions (base_margin, boosting), and may know rows that their bags "
                "left out. Give y as at training; for a changed forest give validation rows and leave oob=False"
            )
