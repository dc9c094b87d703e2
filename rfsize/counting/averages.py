"""Averages: mean scores of the trees on each row, for the whole forest and for parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Floats, Int64s

# Most sums that the parts hold in all, at 4 bytes each, and 2 bytes for the number of trees asked.
_SUMS = 1 << 26
# Fewest and most parts of a row. With very many rows and classes, only some rows have parts.
_FEWEST_PARTS, _MOST_PARTS = 20, 1000


@dataclass(frozen=True)
class Parts:
    """How a forest is cut into parts of consecutive trees, and which rows keep sums by part.

    Attributes
    ----------
    ends : ndarray of int64, shape (n_parts,)
        Number of trees up to the end of each part.
    every : int
        One row in so many keeps sums by part.
    """

    ends: Int64s
    every: int

    @classmethod
    def of(cls, n_rows: int, n_trees: int, n_scores: int) -> Parts:
        """As many parts as memory allows, for all rows if possible."""
        fewest = min(n_trees, _FEWEST_PARTS)
        every = max(1, -(-n_rows * n_scores * fewest // _SUMS))
        most = _SUMS // max(1, n_scores * -(-n_rows // every))
        n_parts = min(n_trees, max(fewest, min(most, _MOST_PARTS)))
        return cls(np.linspace(0, n_trees, n_parts + 1).round().astype(np.int64)[1:], every)

    def __len__(self) -> int:
        return len(self.ends)

    def known(self, n_rows: int) -> int:
        """How many of the first ``n_rows`` rows keep sums by part."""
        return -(-n_rows // self.every)

    def sums(self, of_trees: NDArray[Any]) -> NDArray[Any]:
        """Sums over the trees of each part, shape (n_rows, n_parts, n), of an array of shape (n_rows, n_trees, n)."""
        return np.asarray(np.add.reduceat(of_trees, np.append(0, self.ends[:-1]), axis=1))


@dataclass(frozen=True, eq=False)
class Averages:
    """The mean scores of rows, and sums of the scores by part of the forest.

    Attributes
    ----------
    mean : ndarray of float64, shape (n_rows, n_scores)
        Mean scores of the trees that were asked; 0 if no tree was asked.
    asked : ndarray of int32, shape (n_rows, 1 or n_scores)
        Number of trees asked; one number for each score if the trees of each class have their own bags.
    parts : Parts
        How the forest is cut.
    total : ndarray of float32, shape (n_rows / every, n_parts, n_scores)
        Sums of the scores of the trees asked, by part.
    asked_of : ndarray of uint16, shape (n_rows / every, n_parts, 1 or n_scores)
        Number of trees asked, by part.
    first : int
        Number of the first row, if these rows are some of many. A row keeps sums if ``every`` divides its number.
    """

    mean: Floats
    asked: NDArray[np.int32]
    parts: Parts
    total: NDArray[np.float32]
    asked_of: NDArray[np.uint16]
    first: int = 0

    @classmethod
    def empty(cls, rows: range, of: int, n_trees: int, n_scores: int, n_bags: int) -> Averages:
        """Averages to fill, for some ``rows`` out of ``of`` rows in all.

        ``n_bags`` is 1, or the number of scores if each class has its own bags.
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
        """Join the averages of consecutive rows."""
        mean, asked, total, asked_of = (
            np.concatenate([getattr(one, name) for one in some]) for name in ("mean", "asked", "total", "asked_of")
        )
        return cls(mean, asked, some[0].parts, total, asked_of, some[0].first)

    def fill(self, rows: slice, score: NDArray[Any], asked: NDArray[np.bool_]) -> None:
        """Enter the scores of the trees that were asked about some rows.

        Parameters
        ----------
        rows : slice
        score : ndarray of float, shape (n_rows, n_trees, n_scores)
        asked : ndarray of bool, shape (n_rows, n_trees, 1 or n_scores)
        """
        score = np.where(asked, score, np.float64(0.0))  # XGBoost's scores are float32, and are summed in float64
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
        """Rows that have asked at least one tree for each score."""
        return np.asarray((self.asked > 0).all(axis=1))

    def take(self, start: int, stop: int, step: int = 1) -> PartsOfRows:
        """Some of the rows that keep sums by part, numbered among these rows; in double precision."""
        some = slice(start, stop, step)
        rows = np.arange(start, stop, step) * self.parts.every
        total, asked_of = (of[some].astype(np.float64) for of in (self.total, self.asked_of))
        return PartsOfRows(rows, self.mean[rows], self.asked[rows], total, asked_of)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.mean.nbytes + self.asked.nbytes + self.total.nbytes + self.asked_of.nbytes


class PartsOfRows(NamedTuple):
    """Some rows of `Averages`: ``rows`` are their numbers, and the other attributes mean the same as there."""

    rows: Int64s
    mean: Floats
    asked: NDArray[np.int32]
    total: Floats
    asked_of: Floats

    @property
    def n_parts_asked(self) -> Int64s:
        """Number of parts with a tree that was asked, shape (n_rows, 1 or n_scores)."""
        return np.asarray(np.count_nonzero(self.asked_of, axis=1))

    def where(self, some: NDArray[np.bool_]) -> PartsOfRows:
        """Select rows by a mask."""
        taken: Any = (array[some] for array in self)
        return PartsOfRows(*taken)
