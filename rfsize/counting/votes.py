"""Votes: how many trees voted for each class on each row."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import Int64s, how_many, whole
from rfsize.models.model import checked_threshold

MAX_COUNT = 2**31 - 1
"""The most votes for a class that a row may have."""


class Votes:
    """How many trees voted for each class on each row.

    Parameters
    ----------
    counts : array_like of int, shape (n_rows, n_classes)
        Number of trees that voted for each class; stored as int32.
    classes : array_like, shape (n_classes,), optional
        Class labels; 0, 1, … by default.
    n_trees : int, optional
        Number of trees in the forest; by default the most votes that any row has. Give ``n_trees`` with out-of-bag
        votes: then only some of the trees vote on each row, and sizes and stop tables need the number of all trees.
    threshold : float, optional
        The trees voted for class 1 if its probability was above the threshold; two classes only. `rfsize.tree_outputs`
        sets the threshold of its votes, and a `StopTable` built from votes keeps it.

    Attributes
    ----------
    counts : ndarray of int32, shape (n_rows, n_classes)
        Number of trees that voted for each class.
    classes : ndarray, shape (n_classes,)
        Class labels.
    n_trees : int
        Number of trees in the forest.
    threshold : float or None
        The trees voted for class 1 if its probability was above the threshold. None for more than two classes, and if
        the threshold is not known.

    Raises
    ------
    ValueError
        If ``counts`` is not a matrix of whole numbers from 0 to 2,147,483,647 with at least two columns; if a label is
        missing or occurs twice; if a row has more votes than ``n_trees``; or if the threshold is not a probability, or
        is given for more than two classes.

    See Also
    --------
    tree_outputs : Count the votes of a model.
    size : See how many trees are enough.

    Examples
    --------
    >>> import rfsize
    >>> votes = rfsize.Votes([[3, 97], [60, 40]], classes=["no", "yes"])
    >>> votes
    Votes(2 rows, 2 classes, 100 trees)
    >>> votes.winner().tolist()
    ['yes', 'no']
    >>> votes.fractions().tolist()
    [[0.03, 0.97], [0.6, 0.4]]
    """

    def __init__(
        self,
        counts: ArrayLike,
        classes: ArrayLike | None = None,
        n_trees: int | None = None,
        *,
        threshold: float | None = None,
    ) -> None:
        self.counts = _checked_counts(counts)
        n_classes = self.counts.shape[1]
        self.classes = np.arange(n_classes) if classes is None else np.asarray(classes)
        if self.classes.shape != (n_classes,) or len(set(self.classes.tolist())) != n_classes:
            raise ValueError(f"classes must name the {n_classes} columns of counts, each once; found {self.classes}")
        most = int(self.n_votes.max(initial=0))
        self.n_trees = most if n_trees is None else whole("n_trees", n_trees, at_least=0, at_most=MAX_COUNT)
        self._knows_trees = n_trees is not None
        if self.n_trees < most:
            raise ValueError(f"a row has {most} votes, more than the {self.n_trees} trees that n_trees names")
        # Callers may pass 0.5 for more than two classes, which have no threshold.
        at = None if threshold is None else checked_threshold(threshold, n_classes=n_classes)
        self.threshold = at if n_classes == 2 else None

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    def __repr__(self) -> str:
        return f"Votes({how_many(len(self), 'row')}, {len(self.classes)} classes, {how_many(self.n_trees, 'tree')})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Votes):
            return NotImplemented
        is_like = (self.n_trees, self.threshold) == (other.n_trees, other.threshold)
        return is_like and np.array_equal(self.classes, other.classes) and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]

    @property
    def n_votes(self) -> NDArray[np.int32]:
        """Number of trees that vote on each row, int32 of shape (n_rows,)."""
        return self.counts.sum(axis=1, dtype=np.int32)

    @property
    def is_out_of_bag(self) -> bool:
        """Whether on some row some of the trees vote, but not all of them."""
        return bool(((self.n_votes > 0) & (self.n_votes < self.n_trees)).any())

    def check_trees(self) -> None:
        """Raise ``ValueError`` if only some of the trees vote on a row, and the number of trees is not known.

        Examples
        --------
        >>> import rfsize
        >>> rfsize.Votes([[3, 7], [6, 2]], n_trees=20).check_trees()
        >>> rfsize.Votes([[3, 7], [6, 2]]).check_trees()
        Traceback (most recent call last):
            ...
        ValueError: rows have 8 to 10 votes, of an unknown number of trees: give rfsize.Votes(counts, n_trees=...)
        """
        if self.is_out_of_bag and not self._knows_trees:
            of_rows = f"rows have {self.n_votes[self.n_votes > 0].min():,} to {self.n_trees:,} votes"
            raise ValueError(f"{of_rows}, of an unknown number of trees: give rfsize.Votes(counts, n_trees=...)")

    def fractions(self) -> NDArray[np.float64]:
        """Vote fractions, shape (n_rows, n_classes); NaN if the row has no votes."""
        with np.errstate(invalid="ignore"):
            return self.counts / self.n_votes[:, None]

    def winner(self) -> NDArray[Any]:
        """Majority label, shape (n_rows,). Ties go to the lowest class index, rows without votes to the first class."""
        return self.classes[self.counts.argmax(axis=1)]

    def take(self, rows: NDArray[Any] | slice) -> Votes:
        """Select the votes on some of the rows.

        Parameters
        ----------
        rows : ndarray of int or bool, or slice
            Numbers of the rows, or a mask of shape (n_rows,).

        Returns
        -------
        Votes
            Votes on these rows.

        Examples
        --------
        >>> import rfsize
        >>> rfsize.Votes([[3, 7], [6, 4], [9, 1]]).take([0, 2]).counts.tolist()
        [[3, 7], [9, 1]]
        """
        taken = copy(self)
        taken.counts = self.counts[rows]
        return taken


def two_leaders(counts: NDArray[np.int32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Index of the class with the most votes, and of the class with the second most, for each row of ``counts``.

    Ties go to the lowest index.
    """
    leader = counts.argmax(axis=1)
    without = counts.copy()
    without[np.arange(len(counts)), leader] = -1
    return leader, without.argmax(axis=1)


def most_voted(counts: NDArray[np.int32]) -> Int64s:
    """Index of the class with the most votes; tied classes take turns, so that no class is favoured."""
    leader = counts.argmax(axis=1).astype(np.int64)
    first = counts == counts.max(axis=1, keepdims=True)
    tied = np.flatnonzero(np.count_nonzero(first, axis=1) > 1)
    tied = tied[np.lexsort(counts[tied].T)]  # whatever the order of the rows
    place = np.cumsum(first[tied], axis=1)
    turn = 1 + np.arange(len(tied)) % place[:, -1]
    leader[tied] = (place >= turn[:, None]).argmax(axis=1)
    return leader


def running_majority(
    votes: NDArray[Any], n_classes: int, last: slice = slice(None)
) -> tuple[Int64s, NDArray[np.int32]]:
    """The class with most of the first 1, …, T votes, and how many it has; the lowest index wins a tie.

    Parameters
    ----------
    votes : ndarray of int, shape (n_rows, T)
        Class indices; negative numbers do not count.
    n_classes : int
    last : slice, optional
        Which of the numbers of votes are wanted; all by default.

    Returns
    -------
    ndarray, ndarray of shape (n_rows, n_sizes)
    """
    label, most = (np.zeros(votes[:, last].shape, dtype=dtype) for dtype in (np.int64, np.int32))
    for index in range(n_classes):
        counted = np.cumsum(votes == index, axis=1, dtype=np.int32)[:, last]
        label[counted > most] = index
        np.maximum(most, counted, out=most)
    return label, most


def _checked_counts(counts: ArrayLike) -> NDArray[np.int32]:
    given = np.asarray(counts)
    if given.ndim != 2 or given.shape[1] < 2:
        raise ValueError(f"counts must have shape (n_rows, n_classes ≥ 2), found {given.shape}")
    fits = given.dtype.kind in "iuf" and bool(((given >= 0) & (given == np.floor(given))).all())
    if not fits or given.sum(axis=1, dtype=np.float64).max(initial=0.0) > MAX_COUNT:
        most = f"and a row has at most {MAX_COUNT:,} votes"
        raise ValueError(f"counts must be whole numbers of at least 0, {most}; found {given.dtype} with other values")
    return given.astype(np.int32)
