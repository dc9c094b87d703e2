"""When a forest in training is sized, and when its training ends, whoever trains it.

At ``min_trees`` trees and then at min(T*, twice its trees), until it has as many as are `wanted`: figure 3 of D.
Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers be?" Pattern
Recognition 46(5), 1323-1336.

T* is of forests drawn at random, and it is the first trees that are kept. Where they were unlucky, labels changed more
from one look to the next than T* lets expect, and as many trees are kept as agree with all at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfsize.exceptions import FewVotesError
from rfsize.sizing.report import Report
from rfsize.utils.validation import whole

# A few trees tell only roughly how many it takes. Where they ask for more than this many times max_trees, growing up to
# max_trees would not help either.
_FAR = 2


class UntilEnough:
    """Decides whether training goes on, and until which number of trees.

    Parameters
    ----------
    min_trees : int
        Trees before the first estimate.
    max_trees : int
        Trees at which training ends in any case.

    Attributes
    ----------
    next_look : int
        Trees at which the forest is to be sized next.
    is_over : bool
        Whether training ends with the trees of the last look.

    Raises
    ------
    ValueError
        If a number of trees is none.
    """

    def __init__(self, min_trees: int, max_trees: int) -> None:
        self.max_trees = whole("max_trees", max_trees, at_least=1)
        self.next_look = min(whole("min_trees", min_trees, at_least=1), self.max_trees)
        self.is_over = False
        self._seen: Any = None  # what the answer keeps of the last look

    def look(self, n_trees: int, size: Callable[[], Report]) -> Report | None:
        """Size a forest of ``n_trees`` trees; None where its votes are too few to tell, and more trees will tell.

        Before the next look is due, nothing is decided.

        Raises
        ------
        FewVotesError
            If votes are too few to tell, and no forest that is allowed has enough.
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
            # T* may lie below the trees at hand where these have too few votes to tell.
            wanted = report._wanted if report._wanted > n_trees else 2 * n_trees
            self.next_look = int(min(wanted, 2 * n_trees, self.max_trees))
        return report
