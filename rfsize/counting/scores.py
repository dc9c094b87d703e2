"""Scores: mean and scatter of the trees' scores on each row. Their memory does not grow with the number of trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.utils.typing import Floats, Int64s

_LEVEL = 1e-12

# Most numbers that the scatter of scores may hold. With many rows and classes, only a part of the rows is scored.
_HELD = 1 << 25


def scored_every(n_rows: int, n_scores: int) -> int:
    """k, if one in k of ``n_rows`` rows is scored."""
    return 1 + n_rows * n_scores**2 // _HELD


@dataclass(frozen=True, eq=False)
class Scores:
    """Mean and scatter of the trees' scores on each row, before the link turns them into predictions.

    Two classes have a single score, and so does a regression. With more classes, each class has a score. For a softmax,
    the scores of a row may lack a constant that all classes share.

    Attributes
    ----------
    asked : ndarray of int32, shape (n_rows,)
        Number of trees asked. If 0, no tree could score the row, and its mean is 0.
    mean : ndarray of float64, shape (n_rows, n_scores)
        Mean scores of these trees.
    scatter : ndarray of float64, shape (n_rows, n_scores · (n_scores + 1) / 2)
        Sums over the trees of the products of the scores' deviations from their means, for each pair of classes j ≤ k
        in the order (0, 0), (0, 1), …, (1, 1), …
    rows : ndarray of int64, shape (n_rows,), or None
        Numbers of these rows among all rows of the outputs; None if they are all rows.
    """

    asked: NDArray[np.int32]
    mean: Floats
    scatter: Floats
    rows: Int64s | None = None

    def __len__(self) -> int:
        return len(self.asked)

    @property
    def n_scores(self) -> int:
        """Number of scores of a row: 1, or one for each class."""
        return self.mean.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays())

    @property
    def number(self) -> Int64s:
        """Numbers of these rows among all rows of the outputs, shape (n_rows,)."""
        return np.arange(len(self)) if self.rows is None else self.rows

    @classmethod
    def nothing(cls, n_rows: int, n_scores: int, *, every: int = 1) -> Scores:
        """Scores without trees, of one in ``every`` of ``n_rows`` rows."""
        rows, pairs = np.arange(0, n_rows, every), n_scores * (n_scores + 1) // 2
        counts, of_all = np.zeros(len(rows), dtype=np.int32), None if every == 1 else rows
        return cls(counts, np.zeros((len(rows), n_scores)), np.zeros((len(rows), pairs)), of_all)

    @classmethod
    def of(cls, score: NDArray[Any], may_vote: NDArray[np.bool_] | None = None) -> Scores:
        """Scores of trees, shape (n_rows, n_trees, n_scores). Each tree counts on the rows that it ``may_vote`` on."""
        score = np.asarray(score, dtype=np.float64)
        if may_vote is None:
            may_vote = np.ones(score.shape[:2], dtype=np.bool_)
        counts = may_vote[:, :, None]
        asked = may_vote.sum(axis=1, dtype=np.int32)
        mean = np.sum(score, axis=1, where=counts) / np.maximum(asked, 1)[:, None]
        with np.errstate(invalid="ignore"):  # infinite scores have no scatter; callers check with `are_finite`
            away = np.where(counts, score - mean[:, None, :], 0.0)
        if score.shape[2] == 1:
            return cls(asked, mean, np.einsum("rts,rts->rs", away, away))
        products = np.matmul(away.transpose(0, 2, 1), away)
        one, other = np.triu_indices(score.shape[2])
        return cls(asked, mean, products[:, one, other])

    def plus(self, more: Scores) -> Scores:
        """Scores of the trees of both, on the same rows.

        By the update of T. Chan, G. Golub, R. LeVeque (1983). "Algorithms for computing the sample variance." The
        American Statistician 37(3), 242-247.
        """
        asked = self.asked + more.asked
        weight = (more.asked / np.maximum(asked, 1))[:, None]
        with np.errstate(invalid="ignore"):
            away = more.mean - self.mean
        one, other = np.triu_indices(self.n_scores)
        between = self.asked[:, None] * weight * away[:, one] * away[:, other]
        return Scores(asked, self.mean + weight * away, self.scatter + more.scatter + between, self.rows)

    def add(self, score: Floats, may_vote: NDArray[np.bool_]) -> None:
        """Count one more tree in place: its scores, shape (n_rows, n_scores), on the rows that it ``may_vote`` on.

        By the update of B. Welford (1962). "Note on a method for calculating corrected sums of squares and products."
        Technometrics 4(3), 419-420.
        """
        _core.add_scores(np.ascontiguousarray(score), np.ascontiguousarray(may_vote), *self._arrays())

    @classmethod
    def stacked(cls, parts: Sequence[Scores]) -> Scores:
        """Join the rows of all parts, in their order."""
        arrays = [np.concatenate(of_parts) for of_parts in zip(*(part._arrays() for part in parts), strict=True)]
        numbers = [part.rows for part in parts if part.rows is not None]
        return cls(arrays[0], arrays[1], arrays[2], np.concatenate(numbers) if numbers else None)

    def leading(self) -> Int64s:
        """Index of the highest mean score of each row, shape (n_rows,). If scores tie, the lowest index wins.

        Scores also tie if they differ only in their last bits, which depend on the order of the trees.
        """
        top = self.mean.max(axis=1, keepdims=True)
        return np.asarray((self.mean >= top - _LEVEL * np.abs(top)).argmax(axis=1), dtype=np.int64)

    def are_finite(self) -> bool:
        """Whether no score is NaN or infinite."""
        return bool(np.isfinite(self.mean).all() and np.isfinite(self.scatter).all())

    def take(self, rows: NDArray[Any] | slice) -> Scores:
        """Scores of some of the rows."""
        return Scores(self.asked[rows], self.mean[rows], self.scatter[rows], self.number[rows])

    def placed(self, places: Int64s, n_rows: int) -> Scores:
        """Scores of ``n_rows`` rows, with these scores at some places, and no trees elsewhere."""
        scores = Scores.nothing(n_rows, self.n_scores)
        for whole, part in zip(scores._arrays(), self._arrays(), strict=True):
            whole[places] = part
        return scores

    def covariance(self, one: Any, other: Any) -> Floats:
        """Covariance over the trees of the scores of two classes, shape (n_rows,); NaN for fewer than two trees.

        Give each class as a number, or as an array of shape (n_rows,) with a class for each row.
        """
        low, high = np.minimum(one, other), np.maximum(one, other)
        place = low * self.n_scores - low * (low - 1) // 2 + high - low
        with np.errstate(invalid="ignore", divide="ignore"):
            found = self.scatter[np.arange(len(self)), place] / (self.asked - 1.0)
        return np.where(self.asked > 1, found, np.nan)

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.asked, self.mean, self.scatter
