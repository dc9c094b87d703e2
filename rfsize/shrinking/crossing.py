"""More rows to choose trees and refit leaves on, made of those at hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rfsize.shrinking.leaves_of_rows import LeavesOfRows, most_rows
from rfsize.utils import matrix, rows
from rfsize.utils.typing import Int64s

# Rows at hand and rows made of them, together; more bring hardly anything.
_MOST_ROWS = 50_000

# Rows that are crossed together: in the leaves of one tree, and by the same columns.
_TOGETHER = 1000

# The share of columns that come from the other row.
_OF_OTHER = 0.25


def crossed(given: LeavesOfRows) -> LeavesOfRows | None:
    """Rows like those given, up to 50,000 with them; None where there are as many, or their columns cannot be taken.

    Each has a quarter of its columns from another row that reaches the same leaf of a random tree, so that it lies
    among the rows: labels are not needed, since the whole forest says what to answer. More rows for a smaller model to
    learn from are made in this way since Bucila, Caruana and Niculescu-Mizil (2006, "Model compression"); the leaves of
    the forest tell here which rows are alike, whatever their columns hold.
    """
    n_made = min(_MOST_ROWS, most_rows(given.adapter)) - len(given)
    n_columns = given.adapter.n_features
    if n_made <= 0 or n_columns < 2 or not rows.has_columns(given.forest.X):
        return None
    rng = np.random.default_rng(0)
    X = matrix.pick(given.forest.X, given.number)
    made = []
    for start in range(0, n_made, _TOGETHER):
        some = rng.integers(0, len(given), min(_TOGETHER, n_made - start))
        alike = _alike(given.leaf[:, rng.integers(given.adapter.n_trees), 0], some, rng)
        columns = rng.choice(n_columns, max(1, round(_OF_OTHER * n_columns)), replace=False)
        made.append(rows.with_columns_of(rows.picked(X, some), rows.picked(X, alike), columns))
    return LeavesOfRows.of(given.forest.on(rows.joined(made)))


def _alike(leaf: NDArray[np.int32], some: Int64s, rng: np.random.Generator) -> Int64s:
    """For some rows each a random one of all that reach the same leaf."""
    in_leaves = np.argsort(leaf, kind="stable")
    first, last = (np.searchsorted(leaf[in_leaves], leaf[some], side) for side in ("left", "right"))
    return in_leaves[rng.integers(first, last)]
