"""Sums over the trees: votes, mean and scatter of scores, and sums over parts of the forest on some of the rows.

All rows are scored by the same trees, so their errors go together. The rows alone do not show this: an estimate from
many rows looks as certain as if each row had trees of its own. `PartSums` shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
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
_ROWS, CELLS, FEWEST_ROWS = 20_000, 1 << 25, 300

_Record = TypeVar("_Record")


def scored_every(n_rows: int, n_scores: int) -> int:
    """k, if one in k of ``n_rows`` rows is scored."""
    return 1 + n_rows * n_scores**2 // _HELD


def rows_and_parts(n_rows: int, n_trees: int, n_scores: int) -> tuple[int, int]:
    """k, if one in k of ``n_rows`` rows keeps sums by part, and the most parts; all of these rows are scored.

    Tree t is in part t modulo the number of parts; a part is a single tree while there are no more trees than parts.
    More trees leave fewer of the same rows.
    """
    every = scored_every(n_rows, n_scores)
    every *= max(1, -(-n_rows // (every * _ROWS)))
    while True:
        fitting = CELLS // max(1, -(-n_rows // every) * n_scores)
        most = max(fitting // N_BLOCKS, 1) * N_BLOCKS
        if n_trees <= most or n_rows <= 2 * every * FEWEST_ROWS:
            return every, most
        every *= 2


def leading(mean: Floats, cut: float) -> Int64s:
    """Index of the highest mean score, of shape (…, n_scores), or of a single score whether it exceeds the cut.

    If scores tie, the lowest index wins. Scores also tie if they differ only in their last bits, which depend on the
    order of the trees.
    """
    if mean.shape[-1] == 1:
        return (mean[..., 0] > cut + _LEVEL * abs(cut)).astype(np.int64)
    top = mean.max(axis=-1, keepdims=True)
    return np.asarray((mean >= top - _LEVEL * np.abs(top)).argmax(axis=-1), dtype=np.int64)


# The records below hold arrays with one entry for each row, and may hold such records, or several of them.


def _contents(record: Any) -> dict[str, Any]:
    """The arrays of a record and the records in it, by name."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {name: of for name, of in values.items() if isinstance(of, np.ndarray | tuple) or is_dataclass(of)}


def where(record: _Record, rows: Any) -> _Record:
    """Some of the rows of a record, by a mask or by their numbers; the record itself if the mask marks all rows."""
    if getattr(rows, "dtype", None) == np.bool_ and rows.all():
        return record
    if isinstance(record, np.ndarray):
        return record[rows]
    chosen: Any = {name: where(value, rows) for name, value in _contents(record).items()}
    return replace(record, **chosen)  # type: ignore[type-var]


def stacked(records: Sequence[_Record]) -> _Record:
    """The rows of all records, in their order; the same trees voted on all of them."""
    if len(records) == 1:
        return records[0]
    if isinstance(records[0], np.ndarray):
        return np.concatenate(records)  # type: ignore[arg-type, return-value]
    if isinstance(records[0], tuple):
        return tuple(map(stacked, zip(*records, strict=True)))  # type: ignore[return-value]
    joined: Any = {name: stacked([getattr(record, name) for record in records]) for name in _contents(records[0])}
    return replace(records[0], **joined)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class Means:
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
        with np.errstate(over="ignore", invalid="ignore"):  # in each thread
            return cls(np.where(may_score, score, np.float64(0.0)).sum(axis=1) / np.maximum(n_votes, 1), n_votes)

    @property
    def is_known(self) -> Bools:
        """Rows with at least one tree for each score, shape (n_rows,)."""
        return np.asarray((self.n_votes > 0).all(axis=1))


@dataclass(frozen=True, eq=False)
class Scores:
    """Mean and scatter of the trees' scores on each row, before the link turns them into predictions.

    Two classes have a single score, and so does a regression. With more classes, each class has a score. For a softmax,
    the scores of a row may lack a constant that all classes share.

    Attributes
    ----------
    n_votes : ndarray of int32, shape (n_rows,)
        Number of trees that score the row. If 0, its mean is 0.
    mean : ndarray of float64, shape (n_rows, n_scores)
        Mean scores of these trees.
    scatter : ndarray of float64, shape (n_rows, n_scores · (n_scores + 1) / 2)
        Sums over the trees of the products of the scores' deviations from their means, for each pair of classes j ≤ k
        in the order (0, 0), (0, 1), …, (1, 1), …
    rows : ndarray of int64, shape (n_rows,), or None
        Numbers of these rows among all rows of the outputs; None if they are all rows.
    """

    n_votes: NDArray[np.int32]
    mean: Floats
    scatter: Floats
    rows: Int64s | None = None

    def __len__(self) -> int:
        return len(self.n_votes)

    @property
    def n_scores(self) -> int:
        """Number of scores of a row: 1, or one for each class."""
        return self.mean.shape[1]

    @property
    def number(self) -> Int64s:
        """Numbers of these rows among all rows of the outputs, shape (n_rows,)."""
        return np.arange(len(self)) if self.rows is None else self.rows

    @classmethod
    def nothing(cls, n_rows: int, n_scores: int) -> Scores:
        """The scores of ``n_rows`` rows without trees."""
        pairs = n_scores * (n_scores + 1) // 2
        return cls(np.zeros(n_rows, dtype=np.int32), np.zeros((n_rows, n_scores)), np.zeros((n_rows, pairs)))

    def plus(self, more: Scores) -> Scores:
        """Scores of the trees of both, on the same rows.

        By the update of T. Chan, G. Golub, R. LeVeque (1983). "Algorithms for computing the sample variance." The
        American Statistician 37(3), 242-247.
        """
        n_votes = self.n_votes + more.n_votes
        weight = (more.n_votes / np.maximum(n_votes, 1))[:, None]
        with np.errstate(invalid="ignore"):
            away = more.mean - self.mean
        first, second = np.triu_indices(self.n_scores)
        between = self.n_votes[:, None] * weight * away[:, first] * away[:, second]
        return Scores(n_votes, self.mean + weight * away, self.scatter + more.scatter + between, self.rows)

    def are_finite(self) -> bool:
        """Whether no score is NaN or infinite."""
        return bool(np.isfinite(self.mean).all() and np.isfinite(self.scatter).all())

    def take(self, rows: NDArray[Any] | slice) -> Scores:
        """Scores of some of the rows."""
        return where(replace(self, rows=self.number), rows)

    def covariance(self, first: Any, second: Any) -> Floats:
        """Covariance over the trees of the scores of two classes, shape (n_rows,); NaN for fewer than two trees.

        Give each class as a number, or as an array of shape (n_rows,) with a class for each row.
        """
        low, high = np.minimum(first, second), np.maximum(first, second)
        place = low * self.n_scores - low * (low - 1) // 2 + high - low
        with np.errstate(invalid="ignore", divide="ignore"):
            covariance = self.scatter[np.arange(len(self)), place] / (self.n_votes - 1.0)
        return np.where(self.n_votes > 1, covariance, np.nan)

    def covariances(self) -> Floats:
        """Covariances of all scores of each row, shape (n_rows, n_scores, n_scores); NaN for fewer than two trees."""
        first, second = np.triu_indices(self.n_scores)
        covariances = np.empty((len(self), self.n_scores, self.n_scores))
        freedom = np.where(self.n_votes > 1, self.n_votes - 1.0, np.nan)
        covariances[:, first, second] = covariances[:, second, first] = self.scatter / freedom[:, None]
        return covariances


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
    def of_forests(cls, forests: Sequence[PartSums], rows: Sequence[Int64s]) -> PartSums:
        """Join the sums of several forests of equal size; the rows of each have these numbers among all rows."""
        whole = stacked([replace(part, rows=number[part.rows]) for part, number in zip(forests, rows, strict=True)])
        which = np.repeat(np.arange(len(forests)), [len(part.rows) for part in forests])
        joined = replace(whole, forest=which, of=sum(part.of for part in forests))
        return where(joined, np.arange(len(which)) % max(1, -(-len(which) * len(forests) // _ROWS)) == 0)

    @property
    def sizes(self) -> Int64s:
        """Number of trees in each part, shape (n_parts,)."""
        n_parts = self.total.shape[1]
        return np.bincount(np.arange(self.n_trees) % max(n_parts, 1), minlength=n_parts)

    def plus(self, more: PartSums) -> PartSums:
        """The sums of the trees of both, on the same rows, or on fewer if there are too many trees."""
        n_trees, n_scores = self.n_trees + more.n_trees, self.total.shape[2]
        every, most = rows_and_parts(self.of, n_trees, n_scores)
        first, second = (part if every == 1 else where(part, part.rows % every == 0) for part in (self, more))
        n_parts, n_bags = min(n_trees, most), max(self.n_scored.shape[2], more.n_scored.shape[2])
        total = np.zeros((len(first.rows), n_parts, n_scores))
        n_scored = np.zeros((len(first.rows), n_parts, n_bags), dtype=np.uint16)
        for part, start in ((first, 0), (second, self.n_trees % most)):
            at = (start + np.arange(part.total.shape[1])) % most  # beyond the last part round to the first
            total[:, at] += part.total
            n_scored[:, at] += part.n_scored
        votes = first.votes + np.roll(second.votes, self.n_trees % N_BLOCKS, axis=1)
        return replace(first, n_trees=n_trees, votes=votes, total=total, n_scored=n_scored)

    def take(self, rows: Bools) -> PartSums:
        """Select rows by a mask over all rows whose votes are counted."""
        number = np.cumsum(rows) - 1
        kept = where(self, rows[self.rows])
        return replace(kept, rows=number[kept.rows], of=int(np.count_nonzero(rows)))


@dataclass(frozen=True, eq=False)
class Sums:
    """Votes and scores of a forest's trees on rows.

    Attributes
    ----------
    counts : ndarray of int32, shape (n_rows, n_classes)
        Votes for each class; no columns for regression.
    scores : Scores
        Scores before the link, of the rows whose scores are kept.
    pieces : tuple of PartSums
        Sums over parts of the forest on some of the rows, of trees that were counted one after another.
    means : Means or None
        Mean scores of all rows, if they are kept.
    """

    counts: NDArray[np.int32]
    scores: Scores
    pieces: tuple[PartSums, ...]
    means: Means | None = None

    @classmethod
    def nothing(
        cls, n_rows: int, n_classes: int, n_scores: int, n_trees: int = 0, n_bags: int = 1, rows: range | None = None
    ) -> Sums:
        """No votes and scores yet, with room for those of ``n_trees`` trees; only of some of the rows, if given."""
        own = np.arange(n_rows) if rows is None else np.arange(rows.start, rows.stop)
        every = scored_every(n_rows, n_scores)
        scored = own[own % every == 0]
        scores = replace(Scores.nothing(len(scored), n_scores), rows=None if every == 1 else scored)
        every, most = rows_and_parts(n_rows, n_trees, n_scores)
        number, n_parts = own[own % every == 0], min(n_trees, most)
        votes = np.zeros((len(number), N_BLOCKS, n_classes), np.int32)
        total = np.zeros((len(number), n_parts, n_scores))
        n_scored = np.zeros((len(number), n_parts, n_bags), np.uint16)
        parts = PartSums(number, n_rows, n_trees, votes, total, n_scored)
        return cls(np.zeros((len(own), n_classes), np.int32), scores, (parts,))

    @cached_property
    def parts(self) -> PartSums:
        """Sums over parts of the forest in one piece."""
        return reduce(PartSums.plus, self.pieces)

    @cached_property
    def blocks(self) -> Blocks:
        """Sums over blocks of the trees, for estimates."""
        like, rows, n_trees = self.pieces[0], self.pieces[0].rows, 0
        (n_rows, n_parts, n_scores), n_bags = like.total.shape, like.n_scored.shape[2]
        total, squares = np.zeros((2, n_rows, N_BLOCKS, n_scores))
        n_scored, counted = np.zeros((n_rows, N_BLOCKS, n_bags), np.int32), np.zeros((n_rows, n_bags), np.int64)
        first = np.zeros((n_rows, N_FIRST if n_parts == like.n_trees else 0, n_scores))
        votes = np.zeros_like(like.votes)
        for piece in self.pieces:
            of_parts = np.ascontiguousarray(piece.total), np.ascontiguousarray(piece.n_scored)
            _core.deal_parts(*of_parts, n_trees % N_BLOCKS, total, squares, n_scored, first, counted)
            votes += np.roll(piece.votes, n_trees % N_BLOCKS, axis=1)
            n_trees += piece.n_trees
        counts, scores = self.counts[rows], self.scores.take(np.searchsorted(self.scores.number, rows))
        return Blocks(rows, counts, scores, votes, total, squares, n_scored, first, counted, n_trees, like.forest)

    def take(self, rows: Bools) -> Sums:
        """The sums on the rows of a mask."""
        scores = self.scores.take(rows[self.scores.number])
        number = None if self.scores.rows is None else (np.cumsum(rows) - 1)[scores.number]
        return Sums(self.counts[rows], replace(scores, rows=number), tuple(piece.take(rows) for piece in self.pieces))

    def plus(self, other: Sums) -> Sums:
        """The sums of the trees of both, on the same rows."""
        pieces = tuple(piece for piece in (*self.pieces, *other.pieces) if piece.n_trees) or self.pieces
        if sum(piece.n_trees for piece in pieces) > rows_and_parts(pieces[0].of, 1, self.scores.n_scores)[1]:
            pieces = (reduce(PartSums.plus, pieces),)  # where trees are fewer, nothing is copied
        return Sums(self.counts + other.counts, self.scores.plus(other.scores), pieces)
