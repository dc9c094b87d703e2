"""When to size a forest in training, and when to end its training.

The forest is sized at ``min_trees`` trees and then at min(T*, twice its trees), until it is large enough: figure 3 of
D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers be?" Pattern
Recognition 46(5), 1323-1336.

T* is an average over forests, but this forest keeps its first trees, which can be unlucky. If more labels changed since
the last estimate than T* predicts, the forest keeps enough trees to agree with all trees trained so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfsize._util import whole
from rfsize.exceptions import FewVotesError
from rfsize.sizing.report import Report

# A few trees tell only roughly how many trees get enough votes. If that is more than this many times max_trees,
# training gives up, because max_trees trees would not be enough either.
_GIVE_UP_FACTOR = 2


class StoppingRule:
    """When to size a forest in training again, and when to stop.

    Parameters
    ----------
    min_trees : int
        Number of trees before the first estimate.
    max_trees : int
        Number of trees at which training ends in any case.

    Attributes
    ----------
    next_size : int
        Number of trees at which to size the forest next.
    done : bool
        Whether training ends with the trees of the last estimate.

    Raises
    ------
    ValueError
        If a number of trees is not a whole number of at least 1.
    """

    def __init__(self, min_trees: int, max_trees: int) -> None:
        self.max_trees = whole("max_trees", max_trees, at_least=1)
        self.next_size = min(whole("min_trees", min_trees, at_least=1), self.max_trees)
        self.done = False
        self._labels_before: Any = None  # at the last estimate, to compare with

    def update(self, n_trees: int, estimate: Callable[[], Report]) -> Report | None:
        """Size a forest of ``n_trees`` trees; None if it has too few votes yet, and more trees will have enough.

        An estimate before `next_size` decides nothing.

        Raises
        ------
        FewVotesError
            If there are too few votes, and ``max_trees`` trees would have too few as well.
        """
        try:
            report = estimate()
        except FewVotesError as error:
            if error.enough is None:
                raise
            self.next_size = min(max(self.next_size, error.enough), self.max_trees)
            if n_trees >= self.max_trees or error.enough > _GIVE_UP_FACTOR * self.max_trees:
                raise
            return None
        if n_trees >= self.next_size:
            if self._labels_before is not None:
                report = report._keeping(report._answer.fewest_alike(self._labels_before, n_trees))
            self._labels_before = report._answer.seen
            self.done = report.enough or n_trees >= self.max_trees
            # With too few votes to be sure, T* can be below the current number of trees.
            required = report._wanted if report._wanted > n_trees else 2 * n_trees
            self.next_size = int(min(required, 2 * n_trees, self.max_trees))
        return report

    def postpone(self, n_trees: int) -> None:
        """After an estimate at ``n_trees`` trees that failed, size the forest again at twice as many."""
        self.next_size = min(max(self.next_size, 2 * n_trees), self.max_trees)
