"""Scores: mean and scatter of the trees' scores, row by row, in memory that grows with the rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.utils.typing import Floats, Int64s

_LEVEL = 1e-12

# Numbers that the scatter of scores may hold, for which of many rows and classes a part of the rows do.
_HELD = 1 << 25


def scored_every(n_rows: int, n_scores: int) -> int:
    """Of so many rows, one in how many is scored."""
    return 1 + n_rows * n_scores**2 // _HELD


def most_scored(n_rows: int, n_scores: int) -> int:
    """Of so many rows, or of fewer, at most so many are scored."""
    return min(n_rows, 1 + _HELD // n_scores**2)


def in_proportion(n_kept: Sequence[int], n_rows: Sequence[int], most: int | None = None) -> NDArray[np.bool_]:
    """Of rows that are kept of several parts, a mask of those to keep on: of all parts the same share of their rows.

    Parameters
    ----------
    n_kept, n_rows : sequence of int
        Rows that are kept of each part, and all of its rows.
    most : int, optional
        Rows to keep on in all, at most.

    Returns
    -------
    ndarray of bool, shape (sum of n_kept,)
    """
    shares = [kept / rows for kept, rows in zip(n_kept, n_rows, strict=True) if rows]
    share = min([*shares, 1.0 if most is None else most / max(1, sum(n_rows))])
    of_each = [share * rows / max(1, kept) for kept, rows in zip(n_kept, n_rows, strict=True)]
    # Over all parts, so that of many small ones some are kept.
    upto = np.concatenate([[0.0], np.cumsum(np.repeat(of_each, n_kept))])
    return np.diff(np.floor(upto + 1e-9)) > 0


@dataclass(frozen=True, eq=False)
class Scores:
    """What the trees score on each row, before the link.

    That is one score for two classes and for regression, else one for each class. Of a softmax, a constant that all
    classes of a row share may be missing.

    Attributes
    ----------
    asked : ndarray of int32, shape (n_rows,)
        Trees asked; 0 where none could score the row, whose mean is then 0.
    mean : ndarray of float64, shape (n_rows, n_scores)
        Their mean scores.
    scatter : ndarray of float64, shape (n_rows, n_scores · (n_scores + 1) / 2)
        Sums over the trees of the products of the scores' deviations from their means, for each pair of classes j ≤ k
        in the order (0, 0), (0, 1), …, (1, 1), …
    """

    asked: NDArray[np.int32]
    mean: Floats
    scatter: Floats

    def __len__(self) -> int:
        return len(self.asked)

    @property
    def n_scores(self) -> int:
        """Scores of a row: 1, or one for each class."""
        return self.mean.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays())

    @staticmethod
    def bytes_of(n_rows: int, n_scores: int) -> int:
        """`nbytes` of so many rows."""
        return n_rows * (4 + 8 * n_scores + 4 * n_scores * (n_scores + 1))

    @classmethod
    def nothing(cls, n_rows: int, n_scores: int) -> Scores:
        """Those of no trees."""
        pairs = n_scores * (n_scores + 1) // 2
        return cls(np.zeros(n_rows, dtype=np.int32), np.zeros((n_rows, n_scores)), np.zeros((n_rows, pairs)))

    @classmethod
    def of(cls, score: NDArray[Any], may_vote: NDArray[np.bool_] | None = None) -> Scores:
        """Those of some trees, shape (n_rows, n_trees, n_scores), each only on the rows that it ``may_vote`` on."""
        score = np.asarray(score, dtype=np.float64)
        if may_vote is None:
            may_vote = np.ones(score.shape[:2], dtype=np.bool_)
        counts = may_vote[:, :, None]
        asked = may_vote.sum(axis=1, dtype=np.int32)
        mean = np.sum(score, axis=1, where=counts) / np.maximum(asked, 1)[:, None]
        with np.errstate(invalid="ignore"):  # infinite scores have no scatter, which is for whoever asks for it to say
            away = np.where(counts, score - mean[:, None, :], 0.0)
        if score.shape[2] == 1:
            return cls(asked, mean, np.einsum("rts,rts->rs", away, away))
        products = np.matmul(away.transpose(0, 2, 1), away)
        one, other = np.triu_indices(score.shape[2])
        return cls(asked, mean, products[:, one, other])

    def plus(self, more: Scores) -> Scores:
        """Those of the trees of both, on the same rows.

        By the update of T. Chan, G. Golub, R. LeVeque (1983). "Algorithms for computing the sample variance." The
        American Statistician 37(3), 242-247.
        """
        asked = self.asked + more.asked
        weight = (more.asked / np.maximum(asked, 1))[:, None]
        with np.errstate(invalid="ignore"):
            away = more.mean - self.mean
        one, other = np.triu_indices(self.n_scores)
        between = self.asked[:, None] * weight * away[:, one] * away[:, other]
        return Scores(asked, self.mean + weight * away, self.scatter + more.scatter + between)

    def add(self, score: Floats, may_vote: NDArray[np.bool_]) -> None:
        """Count one more tree in place: its scores, shape (n_rows, n_scores), on the rows that it ``may_vote`` on.

        By the update of B. Welford (1962). "Note on a method for calculating corrected sums of squares and products."
        Technometrics 4(3), 419-420.
        """
        _core.add_scores(np.ascontiguousarray(score), np.ascontiguousarray(may_vote), *self._arrays())

    @classmethod
    def stacked(cls, parts: Sequence[Scores]) -> Scores:
        """Those of the rows of all parts, in their order."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*(part._arrays() for part in parts), strict=True)))

    def leading(self) -> Int64s:
        """Index of the highest mean score of each row, shape (n_rows,); the lowest of those that are level.

        Scores are level that differ in their last bits only, in which they depend on the order of the trees.
        """
        top = self.mean.max(axis=1, keepdims=True)
        return np.asarray((self.mean >= top - _LEVEL * np.abs(top)).argmax(axis=1), dtype=np.int64)

    def are_finite(self) -> bool:
        """Whether no score is NaN or infinite."""
        return bool(np.isfinite(self.mean).all() and np.isfinite(self.scatter).all())

    def take(self, rows: NDArray[Any] | slice) -> Scores:
        """Those of some of the rows."""
        return Scores(*(part[rows] for part in self._arrays()))

    def put(self, rows: NDArray[Any], scores: Scores) -> None:
        """Write those of some of the rows, in place."""
        for whole, part in zip(self._arrays(), scores._arrays(), strict=True):
            whole[rows] = part

    def covariance(self, one: Any, other: Any) -> Floats:
        """Covariance between the trees of a row's scores of two classes, shape (n_rows,); NaN of less than two trees.

        The classes are numbers, or arrays of shape (n_rows,) with a class for each row.
        """
        low, high = np.minimum(one, other), np.maximum(one, other)
        place = low * self.n_scores - low * (low - 1) // 2 + high - low
        with np.errstate(invalid="ignore", divide="ignore"):
            found = self.scatter[np.arange(len(self)), place] / (self.asked - 1.0)
        return np.where(self.asked > 1, found, np.nan)

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.asked, self.mean, self.scatter
