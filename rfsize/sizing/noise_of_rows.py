"""How a metric scatters as the rows, or groups of them, might have been others."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from rfsize.estimation.intervals import REPLICATES, SEED
from rfsize.exceptions import FewVotesError
from rfsize.utils.typing import Floats, Int64s

_ROWS_TRIED = 50_000  # that a callable is tried on again and again


class OfRows(Protocol):
    """A metric, or a difference of metrics; methods as of `Metric`."""

    def value(self, rows: Int64s, predicted: Floats) -> float: ...

    def influence(self, rows: Int64s, predicted: Floats) -> Floats | None: ...


def noise_of_rows(judge: OfRows, rows: Int64s, predicted: Floats, units: Int64s) -> tuple[float, float]:
    """Standard error of the metric as the rows, or groups of them, might have been others, and its freedom."""
    added = judge.influence(rows, predicted)
    if added is None:
        return _noise_by_trying(judge, rows, predicted, units)
    _, unit = np.unique(units, return_inverse=True)
    by_unit = np.bincount(unit, weights=added)
    n_units, squares = len(by_unit), by_unit**2
    if n_units < 2:
        raise FewVotesError("all rows that a tree did not see are of one group, which tells nothing of others")
    variance = float(squares.sum())
    # Few rows may make most of the metric, as those of a rare class do: Satterthwaite's degrees of freedom.
    tails = n_units * float(np.sum(squares**2)) / variance**2 if variance > 0.0 else 1.0
    freedom = min(n_units - 1.0, max(1.0, 2.0 * n_units / max(tails - 1.0, 1e-9)))
    return math.sqrt(variance * n_units / (n_units - 1.0)), freedom


def _noise_by_trying(judge: OfRows, rows: Int64s, predicted: Floats, units: Int64s) -> tuple[float, float]:
    """The same of a callable, by the bootstrap over groups, on some of them where rows are many."""
    rng = np.random.default_rng(SEED)
    names, unit, size = np.unique(units, return_inverse=True, return_counts=True)
    first = np.append(0, np.cumsum(size))
    order = np.argsort(unit, kind="stable")
    some = rng.permutation(len(names))
    some = some[: max(2, int(np.searchsorted(np.cumsum(size[some]), _ROWS_TRIED)))]
    found = []
    for _ in range(REPLICATES):
        drawn = rng.choice(some, size=len(some))
        taken = np.concatenate([order[first[one] : first[one + 1]] for one in drawn])
        found.append(judge.value(rows[taken], predicted[taken]))
    return float(np.std(found, ddof=1)) * math.sqrt(len(some) / len(names)), len(names) - 1.0
