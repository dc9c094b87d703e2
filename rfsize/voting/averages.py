"""Averages: the scores of a forest's trees averaged, row by row, for the whole forest and for parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Floats, Int64s

# Parts are held of so many sums at most (4 bytes each, and 2 for the trees asked), of which a row has this many at
# least; of very many rows and classes, some rows have none.
_SUMS = 1 << 26
_FEWEST_PARTS, _MOST_PARTS = 20, 1000


@dataclass(frozen=True)
class Parts:
    """How the trees of a forest are cut into runs of consecutive ones, and which rows know of them.

    Attributes
    ----------
    ends : ndarray of int64, shape (n_parts,)
        Trees of the forest up to the end of each part.
    every : int
        One row in so many knows them.
    """

    ends: Int64s
    every: int

    @classmethod
    def of(cls, n_rows: int, n_trees: int, n_scores: int) -> Parts:
        """As many parts as memory allows, of all rows if it can be."""
        fewest = min(n_trees, _FEWEST_PARTS)
        every = max(1, -(-n_rows * n_scores * fewest // _SUMS))
        most = _SUMS // max(1, n_scores * -(-n_rows // every))
        n_parts = min(n_trees, max(fewest, min(most, _MOST_PARTS)))
        return cls(np.linspace(0, n_trees, n_parts + 1).round().astype(np.int64)[1:], every)

    def __len__(self) -> int:
        return len(self.ends)

    @staticmethod
    def most_sums(n_rows: int, n_trees: int, n_scores: int) -> int:
        """Sums that are held of so many rows, or of fewer, at most."""
        return min(n_rows * n_scores * min(n_trees, _MOST_PARTS), _SUMS)

    def known(self, n_rows: int) -> int:
        """How many of the first rows know the parts."""
        return -(-n_rows // self.every)

    def sums(self, of_trees: NDArray[Any]) -> NDArray[Any]:
        """Sums over the trees of each part, shape (n_rows, n_parts, n), of an array of shape (n_rows, n_trees, n)."""
        return np.asarray(np.add.reduceat(of_trees, np.append(0, self.ends[:-1]), axis=1))


@dataclass(frozen=True, eq=False)
class Averages:
    """The mean scores of rows, and the sums that parts of the forest add to them.

    Attributes
    ----------
    mean : ndarray of float64, shape (n_rows, n_scores)
        Mean scores of the trees that were asked; 0 where none was.
    asked : ndarray of int32, shape (n_rows, 1 or n_scores)
        Trees asked; a number for each score where the trees of each class have bags of their own.
    parts : Parts
        How the forest is cut.
    total : ndarray of float32, shape (n_rows / every, n_parts, n_scores)
        Sums of the scores of the trees asked, part by part.
    asked_of : ndarray of uint16, shape (n_rows / every, n_parts, 1 or n_scores)
        Trees asked, part by part.
    first : int
        Number of the first row, where they are some of others: those know the parts whose numbers `every` divides.
    """

    mean: Floats
    asked: NDArray[np.int32]
    parts: Parts
    total: NDArray[np.float32]
    asked_of: NDArray[np.uint16]
    first: int = 0

    @classmethod
    def empty(cls, rows: range, of: int, n_trees: int, n_scores: int, n_bags: int) -> Averages:
        """To be filled, for some rows ``of`` so many.

        ``n_bags`` is 1, or as many as scores where each class has bags of its own.
        """
        parts, n_rows = Parts.of(of, n_trees, n_scores), len(rows)
        known = parts.known(rows.stop) - parts.known(rows.start)
        return cls(
            np.zeros((n_rows, n_scores)),
            np.zeros((n_rows, n_bags), dtype=np.int32),
            parts,
            np.zeros((known, len(parts), n_scores), dtype=np.float32),
            np.zeros((known, len(parts), n_bags), dtype=np.uint16),
            rows.start,
        )

    @classmethod
    def stacked(cls, some: Sequence[Averages]) -> Averages:
        """Of rows one after another."""
        mean, asked, total, asked_of = (
            np.concatenate([getattr(one, name) for one in some]) for name in ("mean", "asked", "total", "asked_of")
        )
        return cls(mean, asked, some[0].parts, total, asked_of, some[0].first)

    def fill(self, rows: slice, score: NDArray[Any], asked: NDArray[np.bool_]) -> None:
        """Put in what the trees score on some rows, where they were asked.

        Parameters
        ----------
        rows : slice
        score : ndarray of float, shape (n_rows, n_trees, n_scores)
        asked : ndarray of bool, shape (n_rows, n_trees, 1 or n_scores)
        """
        score = np.where(asked, score, np.float64(0.0))  # XGBoost's are in single precision, and are added in double
        self.asked[rows] = asked.sum(axis=1)
        self.mean[rows] = score.sum(axis=1) / np.maximum(self.asked[rows], 1)
        start, stop = self.first + rows.start, self.first + rows.stop
        known = slice(-start % self.parts.every, None, self.parts.every)
        before = self.parts.known(self.first)
        into = slice(self.parts.known(start) - before, self.parts.known(stop) - before)
        self.total[into] = self.parts.sums(score[known])
        self.asked_of[into] = self.parts.sums(asked[known].astype(np.uint16))

    @property
    def is_asked(self) -> NDArray[np.bool_]:
        """Rows that a tree was asked about, for each score."""
        return np.asarray((self.asked > 0).all(axis=1))

    def take(self, start: int, stop: int, step: int = 1) -> PartsOfRows:
        """Of the rows that know the parts, those with these numbers among them, in double precision."""
        some = slice(start, stop, step)
        rows = np.arange(start, stop, step) * self.parts.every
        total, asked_of = (of[some].astype(np.float64) for of in (self.total, self.asked_of))
        return PartsOfRows(rows, self.mean[rows], self.asked[rows], total, asked_of)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.mean.nbytes + self.asked.nbytes + self.total.nbytes + self.asked_of.nbytes


class PartsOfRows(NamedTuple):
    """Some rows of `Averages`; attributes are named as there, and ``rows`` are their numbers."""

    rows: Int64s
    mean: Floats
    asked: NDArray[np.int32]
    total: Floats
    asked_of: Floats

    @property
    def n_parts_asked(self) -> Int64s:
        """Parts with a tree that was asked, shape (n_rows, 1 or n_scores)."""
        return np.asarray(np.count_nonzero(self.asked_of, axis=1))

    def where(self, some: NDArray[np.bool_]) -> PartsOfRows:
        """Those of some of the rows, a mask."""
        taken: Any = (array[some] for array in self)
        return PartsOfRows(*taken)
