"""Learns from rows how the lead that stops a row should fall as more trees are asked.

Only these rows serve the learning; other rows certify the table.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats, Int64s

# Penalties that are tried for a row with a changed label, in trees, relative to T.
_PENALTIES = np.geomspace(2.0, 60.0, 8)

# Learned leads are smoothed over this width, in the logarithm of the number of trees.
_SMOOTHED_OVER = 0.4
_SMOOTHED_TOGETHER = 512  # trees

# A learned shape fits the noise of its rows. It is taken only if it asks at most this share of the plain shape's trees.
_WORTH_LEARNING = 0.97

# Mean number of trees that the learning rows ask if a shape is scaled as far down as α allows.
Price = Callable[[Floats], float]


def best_shape(lead: Floats, label: NDArray[np.int32], plain: Floats, price: Price) -> Floats:
    """Relative leads that stop a row after 1, …, T trees; ``plain`` itself if no learned shape is better.

    For each penalty on a row with a changed label, backward induction goes from the last tree to the first. The cost of
    going on is known for each row from the later trees. At each tree the threshold on the lead is the one with the
    least total cost over the rows.

    Parameters
    ----------
    lead, label : ndarray, shape (n, T)
        Lead and label of the running means on the learning rows; see `rfsize.statistics.first_trees.running_leads`.
    plain : ndarray, shape (T,)
        √((T − t)/(tT)), the unit of all leads.
    price : callable
        Mean number of trees that a shape asks.
    """
    n_trees = lead.shape[1]
    if n_trees < 3:
        return plain
    order = np.argsort(-lead, axis=0, kind="stable")
    differs = label != label[:, -1:]
    shapes = list(_learned(lead, order, differs, plain, _PENALTIES * n_trees))
    prices = [price(shape) for shape in shapes]
    return shapes[int(np.argmin(prices))] if min(prices) < _WORTH_LEARNING * price(plain) else plain


def _learned(lead: Floats, order: Int64s, differs: NDArray[np.bool_], plain: Floats, penalties: Floats) -> Floats:
    """The shape for each penalty, smoothed."""
    limits = np.stack([_limits(lead, order, differs, plain, penalty) for penalty in penalties.tolist()])
    shapes = np.minimum.accumulate(_smoothed(limits) * plain[:-1], axis=1)
    return np.append(shapes, np.zeros((len(shapes), 1)), axis=1)


def _limits(lead: Floats, order: Int64s, differs: NDArray[np.bool_], plain: Floats, penalty: float) -> Floats:
    """The leads of least cost after 1, …, T − 1 trees, relative to ``plain``."""
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
    return np.maximum(limit, 1e-9 * limit.max(initial=1e-300))


def _smoothed(limits: Floats) -> Floats:
    """Each row of limits smoothed over the logarithm of the number of trees."""
    logs, n_used = np.log(limits), np.log(np.arange(1, limits.shape[1] + 1))
    smooth = np.empty_like(limits)
    for start in range(0, len(n_used), _SMOOTHED_TOGETHER):  # all weights of 10,000 trees would take 0.8 GB
        here = slice(start, start + _SMOOTHED_TOGETHER)
        near = np.exp(-0.5 * np.square((n_used[here, None] - n_used) / _SMOOTHED_OVER))
        smooth[:, here] = logs @ (near / near.sum(axis=1, keepdims=True)).T
    return np.exp(smooth)
