"""A stopping set learned on rows of its own: how the lead that stops a row should fall with the trees asked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Floats, Int64s

# Trees that one row answered otherwise is worth, relative to T: the penalties that are tried.
_PENALTIES = np.geomspace(2.0, 60.0, 8)

# Width, in log trees, over which learned limits are smoothed.
_SMOOTHED_OVER = 0.4

# A learned set must ask so much less on the rows that it was learned on, since it fits their noise.
_WORTH_LEARNING = 0.97

# What a shape, scaled as boldly as is allowed, asks on the learning rows.
Price = Callable[[Floats], float]


def best_shape(lead: Floats, label: NDArray[np.int32], plain: Floats, price: Price) -> Floats:
    """Relative leads that stop after 1, …, T trees; ``plain`` itself where nothing learned is better.

    For each penalty on a row that is answered otherwise, backward induction goes from the last tree to the first: each
    row has a cost of going on, that of what was decided for later trees; and of all thresholds on the lead that one
    stops which makes the rows' costs least.

    Parameters
    ----------
    lead, label : ndarray, shape (n, T)
        Of the running means of the rows to learn on; see `rfsize.stopping.rules.averages.running_leads`.
    plain : ndarray, shape (T,)
        √((T − t)/(tT)), by which all leads are measured.
    price : callable
        Mean number of trees that a shape asks.
    """
    n_trees = lead.shape[1]
    if n_trees < 3:
        return plain
    order = np.argsort(-lead, axis=0, kind="stable")
    differs = label != label[:, -1:]
    found = [_learned(lead, order, differs, plain, penalty * n_trees) for penalty in _PENALTIES]
    prices = [price(shape) for shape in found]
    return found[int(np.argmin(prices))] if min(prices) < _WORTH_LEARNING * price(plain) else plain


def _learned(lead: Floats, order: Int64s, differs: NDArray[np.bool_], plain: Floats, penalty: float) -> Floats:
    """The shape for one penalty, smoothed."""
    n_rows, n_trees = lead.shape
    cost = np.full(n_rows, float(n_trees))
    limit = np.empty(n_trees - 1)
    for t in range(n_trees - 1, 0, -1):
        first, now = order[:, t - 1], t + penalty * differs[:, t - 1]
        change = np.cumsum(now[first] - cost[first])
        last = int(np.argmin(change))
        stops = change[last] < 0.0
        needed = lead[first[last], t - 1] if stops else 1.05 * lead[first[0], t - 1]
        limit[t - 1] = needed / plain[t - 1]
        if stops:
            cost = np.where(lead[:, t - 1] >= needed, now, cost)
    asked = np.log(np.arange(1, n_trees))
    near = np.exp(-0.5 * np.square((asked[:, None] - asked) / _SMOOTHED_OVER))
    smooth = np.exp(near @ np.log(np.maximum(limit, 1e-9 * limit.max(initial=1e-300))) / near.sum(axis=1))
    return np.append(np.minimum.accumulate(smooth * plain[:-1]), 0.0)
