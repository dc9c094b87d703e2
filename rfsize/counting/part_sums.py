"""Scores of rows: their mean and scatter over the trees, and single trees or parts of the forest on some of the rows.

All rows are scored by the same trees, so their errors go together. The rows alone do not show this: an estimate from
many rows looks as certain as if each row had trees of its own. `PartSums` shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Bools, Floats, Int64s

_LEVEL = 1e-12

# Most numbers that the scatter of scores may hold. With many rows and classes, only a part of the rows is scored.
_HELD = 1 << 25

N_BLOCKS = 20
"""Trees are dealt in turn into so many blocks, which are independent draws."""

N_FIRST = 74
"""Trees of a row that make small forests: enough for two forests of 37 trees."""

# So many rows are enough to see the noise that rows share. With many trees and classes, fewer rows are kept: at most so
# many scores, but always so many rows.
_ROWS, _CELLS, _FEWEST_ROWS = 20_000, 1 << 25, 300


def scored_every(n_rows: int, n_scores: int) -> int:
    """k, if one in k of ``n_rows`` rows is scored."""
    return 1 + n_rows * n_scores**2 // _HELD


class Parts(NamedTuple):
    """How a forest is dealt into parts, and which rows keep sums by part.

    Attributes
    ----------
    every : int
        One row in so many keeps sums; all of them are scored.
    most : int
        The most parts. Tree t is in part t modulo this number; a part is a single tree while there are no more trees.
    """

    every: int
    most: int

    @classmethod
    def of(cls, n_rows: int, n_trees: int, n_scores: int) -> Parts:
        """The parts of ``n_trees`` trees on some of ``n_rows`` rows. More trees leave fewer of the same rows."""
        every = scored_every(n_rows, n_scores)
        every *= max(1, -(-n_rows // (every * _ROWS)))
        while True:
            fitting = _CELLS // max(1, -(-n_rows // every) * n_scores)
            most = max(fitting // N_BLOCKS, 1) * N_BLOCKS
            if n_trees <= most or n_rows <= 2 * every * _FEWEST_ROWS:
                return cls(every, most)
            every *= 2

    def deal(self, of_trees: NDArray[Any]) -> NDArray[Any]:
        """Sums over the trees of each part, shape (n_rows, n_parts, n), from an array of shape (n_rows, n_trees, n)."""
        return of_trees if of_trees.shape[1] <= self.most else deal(of_trees, self.most)


def deal(of_parts: NDArray[Any], n_blocks: int) -> NDArray[Any]:
    """Sums over the parts of each block, shape (n_rows, n_blocks, n), of an array of shape (n_rows, n_parts, n)."""
    n_rows, n_parts, n = of_parts.shape
    padded = np.concatenate([of_parts, np.zeros((n_rows, -n_parts % n_blocks, n), dtype=of_parts.dtype)], axis=1)
    return np.asarray(padded.reshape(n_rows, -1, n_blocks, n).sum(axis=1, dtype=of_parts.dtype))


class Means(NamedTuple):
    """Mean scores of rows.

    Attributes
    ----------
    mean : ndarray of float64, shape (n_rows, n_scores)
        Mean scores of the trees that may score the row; 0 if there is none.
    n_votes : ndarray of int32, shape (n_rows, 1 or n_scores)
        Number of these trees; one number for each score if the trees of each class have their own bags.
    """

    mean: Floats
    n_votes: NDArray[np.int32]

    @classmethod
    def of(cls, score: NDArray[Any], may_score: Bools) -> Means:
        """The means of single trees' scores, shape (n_rows, n_trees, n_scores), where they ``may_score``."""
        n_votes = may_score.sum(axis=1, dtype=np.int32)
        # XGBoost's scores are float32, and are summed in float64.
        return cls(np.where(may_score, score, np.float64(0.0)).sum(axis=1) / np.maximum(n_votes, 1), n_votes)

    @classmethod
    def stacked(cls, parts: Sequence[Means]) -> Means:
        """Join the rows of all parts, in their order."""
        mean, n_votes = zip(*parts, strict=True)
        return cls(np.concatenate(mean), np.concatenate(n_votes))

    @property
    def is_known(self) -> Bools:
        """Rows with at least one tree for each score, shape (n_rows,)."""
        return np.asarray((self.n_votes > 0).all(axis=1))

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.mean.nbytes + self.n_votes.nbytes


def leading(mean: Floats, cut: float) -> Int64s:
    """Index of the highest mean score, of shape (…, n_scores), or of a single score whether it exceeds the cut.

    If scores tie, the lowest index wins. Scores also tie if they differ only in their last bits, which depend on the
    order of the trees.
    """
    if mean.shape[-1] == 1:
        return (mean[..., 0] > cut + _LEVEL * abs(cut)).astype(np.int64)
    top = mean.max(axis=-1, keepdims=True)
    return np.asarray((mean >= top - _LEVEL * np.abs(top)).argmax(axis=-1), dtype=np.int64)


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

    @classmethod
    def stacked(cls, parts: Sequence[Scores]) -> Scores:
        """Join the rows of all parts, in their order."""
        arrays = [np.concatenate(of_parts) for of_parts in zip(*(part._arrays() for part in parts), strict=True)]
        numbers = [part.rows for part in parts if part.rows is not None]
        return cls(arrays[0], arrays[1], arrays[2], np.concatenate(numbers) if numbers else None)

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


@dataclass(frozen=True, eq=False)
class Blocks:
    """Sums over `N_BLOCKS` blocks of the trees, and the first trees one by one, for estimates.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_rows,)
        Number of each row among all rows whose votes are counted.
    counts : ndarray of int32, shape (n_rows, n_classes)
        Votes of all trees.
    scores : Scores
        Scores of all trees.
    votes : ndarray of int32, shape (n_rows, n_blocks, n_classes)
        Votes of the trees of each block, see `PartSums`.
    total, squares : ndarray of float64, shape (n_rows, n_blocks, n_scores)
        Sums of the scores of the trees of each block, and sums of their squares.
    n_scored : ndarray of int32, shape (n_rows, n_blocks, 1 or n_scores)
        Number of trees that scored.
    first : ndarray of float64, shape (n_rows, N_FIRST, n_scores)
        Scores of the first trees that may score the row, for forests smaller than a block; 0 beyond their number.
    n_first : ndarray of int64, shape (n_rows, 1 or n_scores)
        Number of these trees.
    n_trees : int
        Number of all trees.
    forest : ndarray of int64, shape (n_rows,), or None
        Which of several forests the row belongs to. Their blocks lie over each other, as if they were one forest.
    strata : ndarray of int64, shape (n_rows,), or None
        Number of each row's stratum, if strata are sized separately.
    """

    rows: Int64s
    counts: NDArray[np.int32]
    scores: Scores
    votes: NDArray[np.int32]
    total: Floats
    squares: Floats
    n_scored: NDArray[np.int32]
    first: Floats
    n_first: Int64s
    n_trees: int
    forest: Int64s | None = None
    strata: Int64s | None = None

    @property
    def n_filled(self) -> int:
        """Number of blocks that hold trees."""
        return int(np.count_nonzero(self.n_scored.any(axis=(0, 2))))

    @property
    def apart(self) -> Blocks:
        """The same, where each of several forests has blocks of its own; 0 elsewhere."""
        if self.forest is None:
            return self
        mine = np.arange(int(self.forest.max(initial=0)) + 1) == self.forest[:, None]
        arrays: Any = {
            name: (of[:, None] * mine[:, :, None, None]).reshape(len(of), mine.shape[1] * of.shape[1], of.shape[2])
            for name in ("votes", "total", "squares", "n_scored")
            for of in [getattr(self, name)]
        }
        return replace(self, forest=None, **arrays)

    def where(self, mask: Bools) -> Blocks:
        """Select rows by a mask over the rows here, shape (n_rows,)."""
        selected: Any = {name: of[mask] for name, of in vars(self).items() if isinstance(of, np.ndarray)}
        return replace(self, scores=self.scores.take(mask), **selected)

    def halves(self) -> list[Scores]:
        """Scores of the trees in each half of the blocks, with the covariance over all trees."""
        halves = []
        for half in (slice(0, None, 2), slice(1, None, 2)):
            by_score = self.n_scored[:, half].sum(axis=1)
            n_votes = by_score.min(axis=1).astype(np.int32)
            freedom = np.maximum(n_votes - 1, 0) / np.maximum(self.scores.asked - 1, 1)
            mean = self.total[:, half].sum(axis=1) / np.maximum(by_score, 1)
            halves.append(Scores(n_votes, mean, self.scores.scatter * freedom[:, None]))
        return halves


@dataclass(frozen=True, eq=False)
class PartSums:
    """Sums over parts of the forest, which are single trees unless there are very many, on some of the rows.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_rows,)
        Number of each row among all rows whose votes are counted.
    of : int
        Number of all these rows.
    n_trees : int
        Number of trees dealt into the parts.
    votes : ndarray of int32, shape (n_rows, N_BLOCKS, n_classes)
        Votes by block of trees. If trees of several blocks cast one vote together, the vote counts in the blocks that
        hold the trees of the two leading classes.
    total : ndarray of float64, shape (n_rows, n_parts, n_scores)
        Sums of the scores of the trees of each part that may score the row.
    n_scored : ndarray of uint16, shape (n_rows, n_parts, 1 or n_scores)
        Number of these trees; one number for each score if the trees of each class have their own bags.
    forest : ndarray of int64, shape (n_rows,), or None
        Which forest the row belongs to, if several forests were trained and each has its own rows.
    """

    rows: Int64s
    of: int
    n_trees: int
    votes: NDArray[np.int32]
    total: Floats
    n_scored: NDArray[np.uint16]
    forest: Int64s | None = None

    @classmethod
    def nothing(cls, rows: Int64s, of: int, n_classes: int, n_scores: int) -> PartSums:
        """The sums of a forest without trees, on the rows with these numbers."""
        return cls(
            rows,
            of,
            0,
            np.zeros((len(rows), N_BLOCKS, n_classes), dtype=np.int32),
            np.zeros((len(rows), 0, n_scores)),
            np.zeros((len(rows), 0, 1), dtype=np.uint16),
        )

    @classmethod
    def stacked(cls, parts: Sequence[PartSums]) -> PartSums:
        """Join the rows of all parts, which were scored by the same trees."""
        names = ("rows", "votes", "total", "n_scored")
        arrays: Any = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return replace(parts[0], **arrays)

    @classmethod
    def of_forests(cls, forests: Sequence[PartSums], rows: Sequence[Int64s]) -> PartSums:
        """Join the sums of several forests of equal size; the rows of each have these numbers among all rows."""
        whole = cls.stacked([replace(part, rows=number[part.rows]) for part, number in zip(forests, rows, strict=True)])
        which = np.repeat(np.arange(len(forests)), [len(part.rows) for part in forests])
        joined = replace(whole, forest=which, of=sum(part.of for part in forests))
        return joined.where(np.arange(len(which)) % max(1, -(-len(which) * len(forests) // _ROWS)) == 0)

    @property
    def sizes(self) -> Int64s:
        """Number of trees in each part, shape (n_parts,)."""
        n_parts = self.total.shape[1]
        return np.bincount(np.arange(self.n_trees) % max(n_parts, 1), minlength=n_parts)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(of.nbytes for of in (self.rows, self.votes, self.total, self.n_scored))

    def plus(self, more: PartSums) -> PartSums:
        """The sums of the trees of both, on the same rows, or on fewer if there are too many trees."""
        n_trees, n_scores = self.n_trees + more.n_trees, self.total.shape[2]
        every, most = Parts.of(self.of, n_trees, n_scores)
        first, second = (part if every == 1 else part.where(part.rows % every == 0) for part in (self, more))
        n_parts, n_bags = min(n_trees, most), max(self.n_scored.shape[2], more.n_scored.shape[2])
        total = np.zeros((len(first.rows), n_parts, n_scores))
        n_scored = np.zeros((len(first.rows), n_parts, n_bags), dtype=np.uint16)
        for part, start in ((first, 0), (second, self.n_trees)):
            place = (start + np.arange(part.total.shape[1])) % most
            total[:, place] += part.total
            n_scored[:, place] += part.n_scored
        votes = first.votes + np.roll(second.votes, self.n_trees % N_BLOCKS, axis=1)
        return replace(first, n_trees=n_trees, votes=votes, total=total, n_scored=n_scored)

    def take(self, rows: Bools) -> PartSums:
        """Select rows by a mask over all rows whose votes are counted."""
        number = np.cumsum(rows) - 1
        kept = self.where(rows[self.rows])
        return replace(kept, rows=number[kept.rows], of=int(np.count_nonzero(rows)))

    def where(self, mask: Bools) -> PartSums:
        """Select rows by a mask over the rows here, shape (n_rows,)."""
        selected: Any = {name: of[mask] for name, of in vars(self).items() if isinstance(of, np.ndarray)}
        return replace(self, **selected)

    def blocks(self, counts: NDArray[np.int32], scores: Scores) -> Blocks:
        """Sums over blocks of the trees, beside the votes and scores of all trees on all rows."""
        squares = self.total**2 / np.maximum(self.n_scored, 1)  # of a part of several trees as many as of one
        total, squares, n_scored = (deal(of, N_BLOCKS) for of in (self.total, squares, self.n_scored.astype(np.int32)))
        of_all = counts[self.rows], scores.take(np.searchsorted(scores.number, self.rows))
        return Blocks(
            self.rows, *of_all, self.votes, total, squares, n_scored, *self._first(), self.n_trees, self.forest
        )

    def _first(self) -> tuple[Floats, Int64s]:
        n_rows, _, n_scores = self.total.shape
        n_first = np.minimum(self.n_scored.sum(axis=1, dtype=np.int64), N_FIRST)
        score = np.zeros((n_rows, N_FIRST, n_scores))
        if self.total.shape[1] < self.n_trees:
            return score, np.zeros_like(n_first)
        for output in range(n_scores):
            may_score = self.n_scored[:, :, min(output, self.n_scored.shape[2] - 1)] > 0
            place = np.cumsum(may_score, axis=1)
            row, tree = np.nonzero(may_score & (place <= N_FIRST))
            score[row, place[row, tree] - 1, output] = self.total[row, tree, output]
        return score, n_first
