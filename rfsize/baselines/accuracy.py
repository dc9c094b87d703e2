"""Accuracy of the majority vote of the first trees of a forest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import MAX_CLASSES, blocks, class_indices


def checked_votes(
    tree_votes: ArrayLike, y: ArrayLike, classes: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """Votes, class index of each row, and number of classes; ``ValueError`` if they do not fit."""
    votes = np.asarray(tree_votes)
    if votes.ndim != 2 or votes.size == 0 or votes.dtype.kind not in "iub":
        raise ValueError(
            "tree_votes must hold the class index of each tree, whole numbers of shape (n_rows, T); found shape "
            f"{votes.shape}, dtype {votes.dtype}"
        )
    known = np.arange(np.clip(int(votes.max()) + 1, 1, MAX_CLASSES)) if classes is None else np.asarray(classes)
    if known.ndim != 1 or len(set(known.tolist())) < len(known):
        raise ValueError(f"classes must name each class index once, found {classes!r}")
    if votes.min() < 0 or votes.max() >= len(known):
        raise ValueError(
            f"tree_votes must hold class indices from 0 to {len(known) - 1}; found {votes.min()} to {votes.max()}"
        )
    try:
        return votes, class_indices(known, y, len(votes)), len(known)
    except ValueError as error:
        if classes is not None:
            raise
        raise ValueError(
            f"{error}. y must hold class indices, as tree_votes does. If it holds labels, or a class that no tree "
            "votes for, give classes=[...], the label of each class index"
        ) from None


def right_by_size(
    votes: NDArray[Any],
    truth: NDArray[np.int64],
    n_classes: int,
    sizes: NDArray[np.int64],
    bags: NDArray[np.bool_] | None,
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """For each row and size: whether the majority vote is right, and whether any tree voted. Yields blocks of rows."""
    for start, stop in blocks(*votes.shape, what="Counting the votes of all sizes"):
        block, index = votes[start:stop], truth[start:stop]
        right = np.zeros((len(block), len(sizes)), dtype=np.bool_)
        most = np.zeros(right.shape, dtype=np.int32)
        for k in range(n_classes):
            cast = block == k
            if bags is not None:
                cast &= ~bags[:, start:stop].T
            count = np.cumsum(cast, axis=1, dtype=np.int32)[:, sizes - 1]
            leads = count > most
            right = np.where(leads, (index == k)[:, None], right)
            np.maximum(most, count, out=most)
        yield right, most > 0
