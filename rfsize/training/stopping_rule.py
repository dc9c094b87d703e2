"""When to size a forest in training, and when to end its training.

The forest is sized at ``min_trees`` trees and then at min(T*, twice its trees), until it is large enough: figure 3 of
D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers be?" Pattern
Recognition 46(5), 1323-1336.

T* is an average over forests, but this forest keeps its first trees, which can be unlucky. If more labels changed since
the last estimate than T* predicts, the forest keeps enough trees to agree with all trees trained so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rfsize._util import Int64s, whole
from rfsize.api.report import Report, trees_required
from rfsize.counting.outputs import distinct
from rfsize.exceptions import FewVotesError
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.labels import leading_labels

# A few trees tell only roughly how many trees get enough votes. If that is more than this many times max_trees,
# training gives up, because max_trees trees would not be enough either.
_GIVE_UP_FACTOR = 2

# A look takes as long as the training of many trees, so the next is at no fewer than this many times as many. A forest
# in training keeps only what it needs of them.
_SMALLEST_STEP = 1.05


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
        self._before: tuple[Int64s, float] | None = None  # labels at the last estimate, and votes per row

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
            report = self._with_min_kept(report, n_trees)
            self.done = report.enough or n_trees >= self.max_trees
            # With too few votes to be sure, T* can be below the current number of trees.
            required = required if (required := trees_required(report)) > n_trees else 2 * n_trees
            required = max(required, math.ceil(_SMALLEST_STEP * n_trees))
            self.next_size = int(min(required, 2 * n_trees, self.max_trees))
        return report

    def _with_min_kept(self, report: Report, n_trees: int) -> Report:
        """The report, which keeps enough trees to agree with all trees so far, by the change of labels."""
        if report.criterion.kind != "labels" or report.outputs is None:
            return report
        labels = leading_labels(distinct(report.outputs), report.criterion)
        before, self._before = self._before, (labels, report.estimate.votes_per_row)
        if before is None:
            return report
        votes = before[1], report.estimate.votes_per_row
        return replace(report, min_kept=_fewest_alike(before[0], labels, votes, report.criterion, n_trees))

    def postpone(self, n_trees: int) -> None:
        """After an estimate at ``n_trees`` trees that failed, size the forest again at twice as many."""
        self.next_size = min(max(self.next_size, 2 * n_trees), self.max_trees)


def _fewest_alike(before: Int64s, now: Int64s, votes: tuple[float, float], criterion: Criterion, n_trees: int) -> int:
    """The fewest of the first ``n_trees`` trees that are as close to all of them as the criterion asks.

    It is estimated from the labels at two looks, and the mean ``votes`` of a row at each: t of T trees give other
    labels on a share of the rows ∝ √(1/t − 1/T). 0 if it cannot be estimated.
    """
    known = (now >= 0) & (before >= 0)
    differs, leader = (before != now)[known], now[known]
    if votes[1] <= votes[0] or not differs.any():
        return 0
    by_class = [differs[leader == label].mean() for label in np.unique(leader)]
    changed = float(np.mean(by_class if criterion.average == "macro" else differs))
    apart = (criterion.level / changed) ** 2 * (1.0 / votes[0] - 1.0 / votes[1])
    # As T* of a majority vote, odd.
    return min(2 * math.ceil((1.0 / (1.0 / n_trees + apart) - 1.0) / 2.0) + 1, n_trees)
