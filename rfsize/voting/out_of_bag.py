"""OutOfBag: what trees say of the training rows that they did not see, added up while a forest grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rfsize.voting.blocks import TreeBlocks, rows_in_blocks
from rfsize.voting.scores import Scores


@dataclass(frozen=True)
class OutOfBag:
    """What a forest's trees say of the training rows that they did not see.

    Attributes
    ----------
    counts : ndarray of int32, shape (n_rows, n_classes)
        Votes for each class; no columns for regression.
    scores : Scores
        Their scores before the link.
    blocks : TreeBlocks or None
        What blocks of the trees say of some of the rows; None where nothing is asked of them.
    """

    counts: NDArray[np.int32]
    scores: Scores
    blocks: TreeBlocks | None = None

    @classmethod
    def nothing(cls, n_rows: int, n_classes: int, n_scores: int) -> OutOfBag:
        """What no trees say."""
        rows = np.arange(n_rows)[rows_in_blocks(n_rows, n_classes, n_scores)]
        blocks = TreeBlocks.nothing(rows, n_classes, n_scores)
        return cls(np.zeros((n_rows, n_classes), dtype=np.int32), Scores.nothing(n_rows, n_scores), blocks)

    def plus(self, other: OutOfBag) -> OutOfBag:
        """What the trees of both say."""
        blocks = None if self.blocks is None or other.blocks is None else self.blocks.plus(other.blocks)
        return OutOfBag(self.counts + other.counts, self.scores.plus(other.scores), blocks)
