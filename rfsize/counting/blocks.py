"""TreeBlocks: votes and scores of some rows by blocks of trees, to measure the error that rows share.

All rows ask the same trees, so their errors go together. The rows alone do not show this: an estimate from many rows
looks as certain as if each row had trees of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.counting.scores import Scores
from rfsize.utils.typing import Floats, Int64s

N_BLOCKS = 20
N_FIRST = 74
"""Trees of a row that are kept one by one: enough for two forests of 37 trees."""

# Arrays of `TreeBlocks` with one entry for each row, and with one for each row and block.
_OF_ROWS, _DEALT = ("rows", "counts", "first"), ("votes", "total", "squares", "asked")

# So many rows are enough to see the noise that rows share; with many classes, fewer rows are kept.
_ROWS, _CELLS = 20_000, 1 << 22


@dataclass(eq=False)
class TreeBlocks:
    """Votes and scores of some rows, by block. The trees of a forest are dealt in turn into `N_BLOCKS` blocks.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_rows,)
        Number of each row among all rows whose votes are counted.
    counts : ndarray of int32, shape (n_rows, n_classes)
        Votes of all trees.
    scores : Scores
        Scores of all trees.
    votes : ndarray of int32, shape (n_rows, N_BLOCKS, n_classes)
        Votes of the trees of each block. If trees of several blocks cast one vote together, the vote counts in the
        blocks that hold the trees of the two leading classes.
    total, squares : ndarray of float64, shape (n_rows, N_BLOCKS, n_scores)
        Sums of the scores of the trees of each block, and sums of their squares.
    asked : ndarray of int32, shape (n_rows, N_BLOCKS, 1 or n_scores)
        Number of trees that were asked for each score.
    first : ndarray of float64, shape (n_rows, N_FIRST, n_scores)
        Scores of the first trees that were asked, tree by tree, for forests smaller than a block. 0 beyond the number
        of such trees, which is `n_first`.
    n_trees : int
        Number of trees dealt.
    strata : ndarray of int64, shape (n_rows,), or None
        Number of each row's stratum, if strata are sized separately.
    """

    rows: Int64s
    counts: NDArray[np.int32]
    scores: Scores
    votes: NDArray[np.int32]
    total: Floats
    squares: Floats
    asked: NDArray[np.int32]
    first: Floats
    n_trees: int
    strata: Int64s | None = None

    @classmethod
    def nothing(cls, rows: Int64s, n_classes: int, n_scores: int) -> TreeBlocks:
        """Blocks without trees."""
        dealt = len(rows), N_BLOCKS
        return cls(
            rows,
            counts=np.zeros((len(rows), n_classes), dtype=np.int32),
            scores=Scores.nothing(len(rows), n_scores),
            votes=np.zeros((*dealt, n_classes), dtype=np.int32),
            total=np.zeros((*dealt, n_scores)),
            squares=np.zeros((*dealt, n_scores)),
            asked=np.zeros((*dealt, 1), dtype=np.int32),
            first=np.zeros((len(rows), N_FIRST, n_scores)),
            n_trees=0,
        )

    @classmethod
    def stacked(cls, parts: list[TreeBlocks]) -> TreeBlocks:
        """Join the blocks of the rows of all parts, which asked the same trees."""
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in (*_OF_ROWS, *_DEALT)
        }
        return replace(parts[0], scores=Scores.stacked([part.scores for part in parts]), **arrays)

    @classmethod
    def of_forests(cls, forests: list[TreeBlocks], n_rows: list[int]) -> TreeBlocks:
        """Join the blocks of several forests. Each was asked about its own ``n_rows`` rows, and has its own blocks.

        If there are too many rows, only a part is kept, since each row needs blocks for every forest.
        """
        step = -(-sum(len(each.rows) for each in forests) * len(forests) // _ROWS)
        some = [each.where(np.arange(len(each.rows)) % max(step, 1) == 0) for each in forests]
        first = np.cumsum([0, *n_rows[:-1]])
        found = cls.stacked([replace(each, rows=each.rows + start) for each, start in zip(some, first, strict=True)])
        apart: dict[str, Any] = {name: _apart([getattr(each, name) for each in some]) for name in _DEALT}
        return replace(found, **apart)

    def laid_over(self) -> TreeBlocks:
        """Treat several forests, each asked about its own rows, as one forest of `N_BLOCKS` blocks."""
        n_forests = self.total.shape[1] // N_BLOCKS
        if n_forests == 1:
            return self

        def together(array: NDArray[Any]) -> Any:
            apart = array.reshape(len(array), n_forests, N_BLOCKS, array.shape[2])
            return apart.sum(axis=1, dtype=array.dtype)

        return replace(self, **{name: together(getattr(self, name)) for name in _DEALT})

    @property
    def n_first(self) -> Int64s:
        """How many trees `first` holds for each row and score, shape (n_rows, 1 or n_scores)."""
        return np.minimum(self.asked.sum(axis=1), N_FIRST)

    @property
    def n_filled(self) -> int:
        """Number of blocks that hold trees."""
        return int(np.count_nonzero(self.asked.any(axis=(0, 2))))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        strata = 0 if self.strata is None else self.strata.nbytes
        return sum(getattr(self, name).nbytes for name in (*_OF_ROWS, *_DEALT, "scores")) + strata

    def plus(self, more: TreeBlocks) -> TreeBlocks:
        """Blocks of the trees of both, on the same rows."""
        turn = self.n_trees % N_BLOCKS
        first = np.concatenate([self.first, more.first], axis=1)
        # One may count the trees asked once for all scores, and the other for each score.
        one, other = np.broadcast_arrays(_up_to(self.n_first), _up_to(more.n_first))
        return replace(
            self,
            counts=self.counts + more.counts,
            scores=self.scores.plus(more.scores),
            first=first_asked(first, np.concatenate([one, other], axis=1)),
            n_trees=self.n_trees + more.n_trees,
            **{name: getattr(self, name) + np.roll(getattr(more, name), turn, axis=1) for name in _DEALT},
        )

    def add(
        self, vote: NDArray[np.int16], may_vote: NDArray[np.bool_], score: Floats, may_score: NDArray[np.bool_]
    ) -> None:
        """Add the next trees in place: their votes, shape (n_trees, n_rows), and scores, on rows where they count.

        `counts` and `scores` do not change.
        """
        block, score = self.n_trees % N_BLOCKS, np.ascontiguousarray(score)
        dealt = self.total, self.squares, self.asked, self.first
        _core.add_to_blocks(vote, may_vote, score, may_score, block, self.votes, *dealt)
        self.n_trees += len(vote)

    def take(self, rows: NDArray[np.bool_]) -> TreeBlocks:
        """Select rows by a mask over all rows whose votes are counted."""
        number = np.cumsum(rows) - 1
        found = self.where(rows[self.rows])
        return replace(found, rows=number[found.rows])

    def halves(self) -> list[Scores]:
        """Scores of the trees in each half of the blocks, with the covariance over all trees."""
        found = []
        for half in (slice(0, None, 2), slice(1, None, 2)):
            by_score = self.asked[:, half].sum(axis=1)
            asked = by_score.min(axis=1).astype(np.int32)
            freedom = np.maximum(asked - 1, 0) / np.maximum(self.scores.asked - 1, 1)
            mean = self.total[:, half].sum(axis=1) / np.maximum(by_score, 1)
            found.append(Scores(asked, mean, self.scores.scatter * freedom[:, None]))
        return found

    def where(self, some: NDArray[np.bool_]) -> TreeBlocks:
        """Select rows by a mask over the rows here, shape (n_rows,)."""
        arrays: dict[str, Any] = {name: getattr(self, name)[some] for name in (*_OF_ROWS, *_DEALT)}
        strata = None if self.strata is None else self.strata[some]
        return replace(self, scores=self.scores.take(some), strata=strata, **arrays)


def _apart(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Join arrays of shape (n_rows, n_blocks, n), each with rows and blocks of its own; 0 elsewhere."""
    n_rows, n_blocks = (sum(array.shape[axis] for array in arrays) for axis in (0, 1))
    found = np.zeros((n_rows, n_blocks, arrays[0].shape[2]), dtype=arrays[0].dtype)
    row = block = 0
    for array in arrays:
        found[row : row + array.shape[0], block : block + array.shape[1]] = array
        row, block = row + array.shape[0], block + array.shape[1]
    return found


def rows_in_blocks(n_rows: int, n_classes: int, n_scores: int) -> slice:
    """Which of ``n_rows`` rows have blocks."""
    return slice(None, None, -(-n_rows // _most_rows(n_classes, n_scores)) if n_rows else 1)


def _most_rows(n_classes: int, n_scores: int) -> int:
    return min(_ROWS, max(1, _CELLS // (N_BLOCKS * (n_classes + n_scores))))


def dealt(values: NDArray[Any]) -> NDArray[Any]:
    """Sum values of shape (n_rows, n_trees, …) over the trees of each block; returns shape (n_rows, N_BLOCKS, …)."""
    n_rows, n_trees, *rest = values.shape
    short = -n_trees % N_BLOCKS
    padded = np.concatenate([values, np.zeros((n_rows, short, *rest), dtype=values.dtype)], axis=1)
    return np.asarray(padded.reshape(n_rows, -1, N_BLOCKS, *rest).sum(axis=1))


def first_asked(score: NDArray[Any], asked: NDArray[np.bool_]) -> Floats:
    """Scores of the first trees that were asked, in the form of `TreeBlocks.first`.

    ``score`` has the shape (n_rows, n_trees, n_scores). ``asked`` has the same shape, or 1 in place of n_scores.
    """
    n_rows, _, n_scores = score.shape
    found = np.zeros((n_rows, N_FIRST, n_scores))
    for output in range(n_scores):
        may = asked[:, :, min(output, asked.shape[2] - 1)]
        place = np.cumsum(may, axis=1)
        row, tree = np.nonzero(may & (place <= N_FIRST))
        found[row, place[row, tree] - 1, output] = score[row, tree, output]
    return found


def _up_to(n_first: Int64s) -> NDArray[np.bool_]:
    """Which places of `TreeBlocks.first` hold a tree, shape (n_rows, N_FIRST, 1 or n_scores)."""
    return np.arange(N_FIRST)[:, None] < n_first[:, None]
