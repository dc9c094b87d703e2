"""The compiled loops over the scores of trees, and nothing else. Imported only when needed, since numba is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.jit import compiled
from rfsize.utils.typing import Floats


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
