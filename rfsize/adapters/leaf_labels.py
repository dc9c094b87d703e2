"""What the labels of training make of the leaves of a forest, to tell leaves that were changed afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Floats
from rfsize.utils.validation import one_per_row, training_labels


@dataclass(frozen=True)
class LeafLabels:
    """Sums over the rows of a bag that reach a leaf, as labels give them and as the model's leaf implies them.

    An integration makes them where the formula of its leaves is simple, and leaves them out elsewhere.

    Attributes
    ----------
    target : ndarray of float64, shape (n_rows, 1) or (n_rows, n_outputs)
        What a row of unit weight adds, such as the distance of its label from what was predicted before any tree.
    stored : ndarray of float64, shape (n_leaves,)
        Sum of weight × target that the leaf's value implies; NaN where it implies none.
    stored_weight : ndarray of float64, shape (n_leaves,)
        Sum of the weights, as the model has it.
    weight : callable or None
        Weights of rows ``start`` to ``stop``, shape (rows, n_members or 1, 1); None where they are the masses that
        prove the bags.
    error : ndarray of float64, shape (n_leaves,), or float
        How far off ``stored`` may be, beside the rounding of sums.
    """

    target: Floats
    stored: Floats
    stored_weight: Floats
    weight: Callable[[int, int], Floats] | None = None
    error: Floats | float = 0.0

    def part(self, start: int, stop: int) -> LeafLabels:
        """What rows ``start`` to ``stop`` add; what the leaves imply, which no row adds to, is left behind."""
        nothing = np.zeros(0)
        weights = None if self.weight is None else self.weight(start, stop)
        weight = None if weights is None else lambda first, last: weights[first:last]
        return LeafLabels(self.target[start:stop], nothing, nothing, weight)


def known_truth(classes: NDArray[Any], y: Any, n_rows: int) -> NDArray[Any] | None:
    """Index into ``classes`` of each label, or without classes numbers; None where some are not the model's.

    Raises
    ------
    ValueError
        If there is not one label for each row.
    """
    label = one_per_row(y, n_rows)
    try:
        return training_labels(classes, label, n_rows)
    except (TypeError, ValueError):
        return None


def kept_as_single(label: NDArray[Any], n_outputs: int) -> Floats:
    """Labels as a framework of single precision keeps them, or whether each is an output's; (n_rows, n_outputs)."""
    kept = label.astype(np.float32)
    target = kept if n_outputs == 1 else kept[:, None] == np.arange(n_outputs)
    return target.astype(np.float64).reshape(len(label), -1)
