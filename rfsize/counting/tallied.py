"""Tallied: votes and scores of trees on rows, such as the training rows that they were not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rfsize.counting.averages import Averages
from rfsize.counting.blocks import TreeBlocks, rows_in_blocks
from rfsize.counting.scores import Scores


@dataclass(frozen=True, eq=False)
class Tallied:
    """Votes and scores of a forest's trees on rows.

    Attributes
    ----------
    counts : ndarray of int32, shape (n_rows, n_classes)
        Votes for each class; no columns for regression.
    scores : Scores
        Scores before the link, of the rows whose scores are kept.
    blocks : TreeBlocks or None
        Votes and scores of some of the rows by blocks of trees; None if nobody needs them.
    averages : Averages or None
        Averaged scores of all rows, if they are kept.
    """

    counts: NDArray[np.int32]
    scores: Scores
    blocks: TreeBlocks | None = None
    averages: Averages | None = None

    @classmethod
    def nothing(cls, n_rows: int, n_classes: int, n_scores: int) -> Tallied:
        """Votes and scores without trees."""
        rows = np.arange(n_rows)[rows_in_blocks(n_rows, n_classes, n_scores)]
        blocks = TreeBlocks.nothing(rows, n_classes, n_scores)
        return cls(np.zeros((n_rows, n_classes), dtype=np.int32), Scores.nothing(n_rows, n_scores), blocks)

    def plus(self, other: Tallied) -> Tallied:
        """Votes and scores of the trees of both, on the same rows."""
        blocks = None if self.blocks is None or other.blocks is None else self.blocks.plus(other.blocks)
        return Tallied(self.counts + other.counts, self.scores.plus(other.scores), blocks)

    @classmethod
    def joined(cls, parts: Sequence[Tallied]) -> Tallied:
        """Join votes and scores of the same trees on the rows of all parts."""
        blocks = [part.blocks for part in parts if part.blocks is not None]
        averages = [part.averages for part in parts if part.averages is not None]
        return cls(
            np.concatenate([part.counts for part in parts]),
            Scores.stacked([part.scores for part in parts]),
            TreeBlocks.stacked(blocks) if blocks else None,
            Averages.stacked(averages) if averages else None,
        )
