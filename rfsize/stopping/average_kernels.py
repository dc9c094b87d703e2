"""The compiled loops over the scores of trees, and nothing else. Imported only when needed, since numba is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.jit import compiled
from rfsize.utils.typing import Floats, Int64s


@compiled
def running_leads(scores: NDArray[Any], cut: float, lead: Floats, label: NDArray[np.int32]) -> None:
    """Lead of the first class in the mean of the first 1, …, T trees' scores, and which class that is.

    ``scores`` has shape (n, T, n_scores), ``lead`` and ``label`` (n, T). Of one score, the lead is the distance of the
    mean from ``cut``.
    """
    n_rows, n_trees, n_scores = scores.shape
    total = np.empty(n_scores)
    for row in range(n_rows):
        total[:] = 0.0
        for t in range(n_trees):
            if n_scores == 1:
                total[0] += scores[row, t, 0]
                ahead = total[0] / (t + 1) - cut
                lead[row, t], label[row, t] = abs(ahead), 1 if ahead > 0.0 else 0
                continue
            first, most, second = 0, -np.inf, -np.inf
            for k in range(n_scores):
                total[k] += scores[row, t, k]
                if total[k] > most:
                    first, most, second = k, total[k], most
                elif total[k] > second:
                    second = total[k]
            lead[row, t], label[row, t] = (most - second) / (t + 1), first


@compiled
def count_stops(
    evidence: Floats,
    differs: NDArray[np.bool_],
    number: Int64s,
    group: Int64s,
    limits: Floats,
    scale: Floats,
    differing: Int64s,
    trees: Int64s,
) -> None:
    """Add up what each of many rules does: one stops a row where its evidence reaches the limit.

    Limits descend, from cautious to bold, so that a row stops ever sooner; each of its trees is looked at once.

    Parameters
    ----------
    evidence, differs : ndarray, shape (n, T)
        After 1, …, T trees; whether the answer would then differ from that of all of them.
    number : ndarray of int64, shape (n,)
        Trees that are asked about the row, at most.
    group : ndarray of int64, shape (n,)
        The class that all trees give.
    limits : ndarray of float64, shape (n_rules,)
    scale : ndarray of float64, shape (T,) or (0,)
        What limits are multiplied by after 1, …, T trees; √((n − t)/(tn)) for a row of n trees, where it is empty.
    differing, trees : ndarray of int64, shape (n_classes, n_rules)
        Added to: rows answered otherwise, and trees asked.
    """
    for row in range(len(number)):
        n, k = number[row], group[row]
        going = len(limits)
        for t in range(1, n):
            here = scale[t - 1] if len(scale) else np.sqrt((n - t) / (t * n))
            while going > 0 and evidence[row, t - 1] >= limits[going - 1] * here:
                going -= 1
                trees[k, going] += t
                differing[k, going] += differs[row, t - 1]
            if going == 0:
                break
        for rule in range(going):
            trees[k, rule] += n
