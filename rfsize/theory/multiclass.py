"""The mathematics of plurality voting between any number of classes: agreement with the infinite forest.

The votes of T trees on a row are a multinomial draw from the row's *vote fractions* π; the forest predicts the
class with the most votes, the lowest index of ties, and the infinite forest the class of the largest fraction.
Equation (9) of Hernández-Lobato et al. 2013 (see `rfsize.theory`) is the case of two classes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize.theory.arguments import checked_sizes, single
from rfsize.utils.typing import Floats
from rfsize.utils.validation import as_numbers

# Pairs that one thread solves in no time, and pieces per thread, since some rows take longer than others.
_FEW_PAIRS, _PIECES_PER_THREAD = 20_000, 4


@dataclass(frozen=True)
class Rivals:
    """Vote fractions of rows as pairs of the leading class and each rival that has any votes.

    Attributes
    ----------
    leader : ndarray of float, shape (n,)
        Vote fraction of the class that the infinite forest predicts: the largest, the lowest index of ties.
    first : ndarray of int64, shape (n + 1,)
        Where each row's rivals begin.
    rival : ndarray of float, shape (n_pairs,)
        Their vote fractions, above 0.
    wins_ties : ndarray of bool, shape (n_pairs,)
        Whether the rival has the lower class index, which wins where both have as many votes.

    Examples
    --------
    The second row has one rival only, whose lower index wins ties:

    >>> from rfsize.theory.multiclass import Rivals
    >>> rivals = Rivals.of([[0.5, 0.3, 0.2], [0.4, 0.6, 0.0]])
    >>> rivals.leader.tolist(), rivals.first.tolist(), rivals.rival.tolist()
    ([0.5, 0.6], [0, 2, 3], [0.3, 0.2, 0.4])
    >>> rivals.wins_ties.tolist()
    [False, False, True]
    """

    leader: Floats
    first: NDArray[np.int64]
    rival: Floats
    wins_ties: NDArray[np.bool_]

    @classmethod
    def of(cls, pi: ArrayLike) -> Rivals:
        """Pairs of vote fractions.

        Parameters
        ----------
        pi : array_like of float, shape (n, K)
            Vote fractions of each row; they sum to 1.

        Returns
        -------
        Rivals
            Of all rows.

        Raises
        ------
        ValueError
            If a row is no distribution over the classes.
        """
        fraction = _checked_simplex(pi)
        leading = fraction.argmax(axis=1)
        has_votes = fraction > 0.0
        has_votes[np.arange(len(fraction)), leading] = False
        row, index = np.nonzero(has_votes)
        return cls(
            leader=fraction.max(axis=1),
            first=np.concatenate([[0], np.cumsum(has_votes.sum(axis=1))]),
            rival=fraction[row, index],
            wins_ties=index < leading[row],
        )

    def take(self, rows: NDArray[np.int64]) -> Rivals:
        """The pairs of some of the rows."""
        sizes = np.diff(self.first)[rows]
        first = np.concatenate([[0], np.cumsum(sizes)])
        pairs = np.repeat(self.first[rows] - first[:-1], sizes) + np.arange(first[-1])
        return Rivals(self.leader[rows], first, self.rival[pairs], self.wins_ties[pairs])

    def disagreement(self, n_trees: int) -> Floats:
        """Disagreement of each row, shape (n,); see `disagreement`."""
        if n_trees == 1:
            return 1.0 - self.leader
        from joblib import effective_n_jobs

        out = np.empty(len(self.leader))
        pieces = min(_PIECES_PER_THREAD * effective_n_jobs(-1), 1 + len(self.rival) // _FEW_PAIRS)
        ends = np.linspace(0, len(out), pieces + 1).astype(np.int64).tolist()

        def solve(start: int, stop: int) -> None:
            first = self.first[start : stop + 1]
            _core.disagreement(n_trees, self.leader[start:stop], first, self.rival, self.wins_ties, out[start:stop])

        if pieces == 1:
            solve(0, len(out))
        else:
            # Threads do not outlive the call: a pool that did would be dead after a fork.
            with ThreadPoolExecutor(effective_n_jobs(-1)) as pool:
                list(pool.map(solve, ends[:-1], ends[1:]))
        return out

    def limit(self) -> Floats:
        """Disagreement of each row that no forest falls below: that of a tie, shape (n,)."""
        row = np.repeat(np.arange(len(self.leader)), np.diff(self.first))
        ties = np.bincount(row, weights=self.rival == self.leader[row], minlength=len(self.leader))
        return np.asarray(1.0 - 0.5**ties)


def agreement(n_trees: int, pi: ArrayLike) -> Floats:
    """Probability that a forest of ``n_trees`` predicts what the infinite forest predicts, for K classes.

    The product over the rivals of the leading class of the exact probability that the rival, of T votes, does
    not overtake it (ties go to the lowest class index). The events go together, because they share the
    leader's votes (for many trees Slepian's inequality says so), so the product claims too little agreement,
    never too much; it is closer than one minus the sum over the rivals, and exact for two classes and for one
    tree. No distribution of votes was found where it claims noticeably more than there is.

    Parameters
    ----------
    n_trees : int
        Ensemble size T, at least 1.
    pi : array_like of float, shape (n, K)
        Vote fractions of each row; they sum to 1.

    Returns
    -------
    ndarray of float, shape (n,)
        Agreement.

    Raises
    ------
    ValueError
        If the size is below 1 or above 2³¹ − 1, or a row is no distribution over the classes.

    Examples
    --------
    >>> from rfsize.theory import multiclass
    >>> multiclass.agreement(101, [[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]]).round(3).tolist()
    [0.99, 0.72]
    """
    return 1.0 - disagreement(n_trees, pi)


def disagreement(n_trees: int, pi: ArrayLike) -> Floats:
    """One minus `agreement`, to full relative precision.

    Parameters
    ----------
    n_trees, pi
        As in `agreement`.

    Returns
    -------
    ndarray of float, shape (n,)
        Disagreement.

    Examples
    --------
    One tree disagrees wherever it does not vote for the leading class:

    >>> from rfsize.theory import multiclass
    >>> multiclass.disagreement(1, [[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]]).round(3).tolist()
    [0.5, 0.6]
    """
    return Rivals.of(pi).disagreement(int(single("n_trees", checked_sizes(n_trees))))


def _checked_simplex(pi: ArrayLike) -> Floats:
    fraction = as_numbers("vote fractions", pi)
    if fraction.ndim != 2 or fraction.shape[0] == 0 or fraction.shape[1] < 2:
        raise ValueError(f"vote fractions must have shape (n ≥ 1, K ≥ 2), found {fraction.shape}")
    if not ((fraction >= 0.0).all() and np.allclose(fraction.sum(axis=1), 1.0, atol=1e-6)):
        raise ValueError("each row of vote fractions must be non-negative and sum to 1; found others, or NaN")
    return fraction
