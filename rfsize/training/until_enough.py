"""When to size a forest in training, and when to end its training.

The forest is sized at ``min_trees`` trees and then at min(T*, twice its trees), until it is large enough: figure 3 of
D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers be?" Pattern
Recognition 46(5), 1323-1336.

T* is an average over forests, but this forest keeps its first trees, which can be unlucky. If more labels changed since
the last look than T* predicts, the forest keeps enough trees to agree with all trees trained so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfsize._util import whole
from rfsize.exceptions import FewVotesError
from rfsize.sizing.report import Report

# A few trees tell only roughly how many trees get enough votes. Beyond this many times max_trees, training goes no
# further, because max_trees trees would not be enough either.
_FAR = 2


class UntilEnough:
    """Decides whether training goes on, and up to which number of trees.

    Parameters
    ----------
    min_trees : int
        Number of trees before the first estimate.
    max_trees : int
        Number of trees at which training ends in any case.

    Attributes
    ----------
    next_look : int
        Number of trees at which to size the forest next.
    is_over : bool
        Whether training ends with the trees of the last look.

    Raises
    ------
    ValueError
        If a number of trees is not a whole number of at least 1.
    """

    def __init__(self, min_trees: int, max_trees: int) -> None:
        self.max_trees = whole("max_trees", max_trees, at_least=1)
        self.next_look = min(whole("min_trees", min_trees, at_least=1), self.max_trees)
        self.is_over = False
        self._seen: Any = None  # labels of the last look, to compare with

    def look(self, n_trees: int, size: Callable[[], Report]) -> Report | None:
        """Size a forest of ``n_trees`` trees; None if it has too few votes yet, and more trees will have enough.

        A look before `next_look` decides nothing.

        Raises
        ------
        FewVotesError
            If there are too few votes, and ``max_trees`` trees would have too few as well.
        """
        try:
            report = size()
        except FewVotesError as too_few:
            if too_few.enough is None:
                raise
            self.next_look = min(max(self.next_look, too_few.enough), self.max_trees)
            if n_trees >= self.max_trees or too_few.enough > _FAR * self.max_trees:
                raise
            return None
        if n_trees >= self.next_look:
            if self._seen is not None:
                report = report._keeping(report._answer.fewest_alike(self._seen, n_trees))
            self._seen = report._answer.seen
            self.is_over = report.enough or n_trees >= self.max_trees
            # With too few votes to be sure, T* can be below the current number of trees.
            wanted = report._wanted if report._wanted > n_trees else 2 * n_trees
            self.next_look = int(min(wanted, 2 * n_trees, self.max_trees))
        return report

    def put_off(self, n_trees: int) -> None:
        """After a look at ``n_trees`` trees that failed, look again at twice as many."""
        self.next_look = min(max(self.next_look, 2 * n_trees), self.max_trees)
