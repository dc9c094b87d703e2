"""The mathematics of plurality voting between any number of classes: agreement with the unlimited forest.

The votes of T trees on a row are a multinomial draw from the row's *vote fractions* π. The forest predicts the
class with the most votes, and the unlimited forest predicts the class with the largest vote fraction. If classes
tie, the lowest class index wins. For two classes this is equation (9) of Hernández-Lobato et al. 2013 (see
`rfsize.theory`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize._util import Floats, as_numbers
from rfsize.theory.arguments import checked_sizes, single

_FEW_PAIRS = 20_000  # so few pairs are solved before a second thread has started
_PIECES_PER_THREAD = 4  # more than one, since some rows take longer than others


@dataclass(frozen=True)
class Rivals:
    """Vote fractions of rows, as pairs of the leading class and a rival class.

    The leading class is the one that the unlimited forest predicts. A rival is any other class with a vote fraction
    above 0.

    Attributes
    ----------
    leader : ndarray of float, shape (n,)
        Vote fraction of each row's leading class.
    first : ndarray of int64, shape (n + 1,)
        Index in ``rival`` of each row's first rival.
    rival : ndarray of float, shape (n_pairs,)
        Vote fractions of the rivals, row after row.
    wins_ties : ndarray of bool, shape (n_pairs,)
        Whether the rival wins if it ties with the leading class, because its class index is lower.

    Examples
    --------
    The second row has a single rival. Its class index is lower, so it wins ties:

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
        """Pair the vote fractions of each row.

        Parameters
        ----------
        pi : array_like of float, shape (n, K)
            Vote fractions of each row; they sum to 1.

        Returns
        -------
        Rivals
            The pairs of all rows.

        Raises
        ------
        ValueError
            If a row has a negative vote fraction or does not sum to 1.
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
            # The pool ends with the call: the threads of a lasting pool would be gone after a fork.
            with ThreadPoolExecutor(effective_n_jobs(-1)) as pool:
                list(pool.map(solve, ends[:-1], ends[1:]))
        return out

    def limit(self) -> Floats:
        """The least disagreement of each row, shape (n,): above 0 only if classes tie for the lead."""
        row = np.repeat(np.arange(len(self.leader)), np.diff(self.first))
        ties = np.bincount(row, weights=self.rival == self.leader[row], minlength=len(self.leader))
        return np.asarray(1.0 - 0.5**ties)


def agreement(n_trees: int, pi: ArrayLike) -> Floats:
    """Probability that a forest of ``n_trees`` gives a row the unlimited forest's label, for K classes.

    For each rival class, rfsize computes the exact probability that the rival does not overtake the leading class
    in T votes. If two classes tie, the lower class index wins. The result is the product over the rivals. It is
    exact for two classes and for one tree. Otherwise the product is too low rather than too high: all rivals
    compete with the same leader's votes, so the events go together (for many trees by Slepian's inequality). No
    vote fractions were found where the product is noticeably too high. The product is closer to the truth than
    one minus the sum of the probabilities that a rival overtakes.

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
        If the size is below 1 or above 2³¹ − 1, or a row has a negative vote fraction or does not sum to 1.

    Examples
    --------
    >>> from rfsize.theory import multiclass
    >>> multiclass.agreement(101, [[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]]).round(3).tolist()
    [0.99, 0.72]
    """
    return 1.0 - disagreement(n_trees, pi)


def disagreement(n_trees: int, pi: ArrayLike) -> Floats:
    """One minus `agreement`, accurate even where the agreement rounds to one.

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
    One tree disagrees if it votes for a rival:

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
