"""Groups of rows one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def of_copies(rows: Sequence[Sequence[Any]]) -> list[int]:
    """Number of the group of each row: identical rows, missing values being equal to each other."""
    number: dict[tuple[Any, ...], int] = {}
    keys = [tuple("missing" if cell is None or cell != cell else cell for cell in row) for row in rows]
    return [number.setdefault(key, len(number)) for key in keys]


def spread(inbag: np.ndarray, group: Sequence[Any]) -> np.ndarray:
    """Whether each tree saw a row of the group of each row, from its bags, shape (n_trees, n_rows)."""
    seen = np.zeros_like(inbag)
    for tree in range(len(inbag)):
        of_tree = {label for label, drawn in zip(group, inbag[tree], strict=True) if drawn}
        seen[tree] = [label in of_tree for label in group]
    return seen


def first_of_each(group: Sequence[Any]) -> list[int]:
    """The first row of each group."""
    known: set[Any] = set()
    return [row for row, label in enumerate(group) if not (label in known or known.add(label))]
