"""Which trees, on which rows, tell what a metric loses in forests of a few trees."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rfsize.sizing.forest_parts import _kept

N_ROWS, N_TREES = 100, 8


def kept(most: int | None, n_first: np.ndarray | None = None, weight: np.ndarray | None = None) -> Any:
    """Of rows with the numbers 1000, 1001, …, each with the same score from all trees."""
    score = np.broadcast_to(np.arange(N_ROWS)[:, None, None], (N_ROWS, N_TREES, 1)).astype(np.float64)
    n_first = np.full(N_ROWS, N_TREES) if n_first is None else n_first
    blocks: Any = SimpleNamespace(rows=1000 + np.arange(N_ROWS), first=score, n_first=n_first[:, None])
    of_rows = np.concatenate([np.zeros(1000), np.ones(N_ROWS) if weight is None else weight])
    judge: Any = SimpleNamespace(weight=of_rows, most_rows=lambda *_: most)
    return _kept(blocks, judge, lambda mean: mean)


@pytest.mark.parametrize(
    ("most", "step"), [(None, 1), (N_ROWS, 1), (N_ROWS - 1, 2), (50, 2), (49, 3), (30, 4), (1, N_ROWS)]
)
def test_no_more_rows_than_a_metric_takes_from_the_first_to_the_last(most: int | None, step: int) -> None:
    found = kept(most)
    assert found.rows.tolist() == list(range(1000, 1000 + N_ROWS, step))
    assert found.total[:, 0, 0].tolist() == list(range(0, N_ROWS, step))


def test_rows_without_weight_do_not_count() -> None:
    weight = np.where(np.arange(N_ROWS) % 3 == 0, 2.0, 0.0)
    assert kept(None, weight=weight).rows.tolist() == list(range(1000, 1000 + N_ROWS, 3))


def test_as_many_trees_as_nearly_all_rows_have() -> None:
    """Up to 5 % of the rows may have fewer, and are left out."""
    n_first = np.full(N_ROWS, N_TREES - 1)
    n_first[[7, 30]] = 2
    found = kept(None, n_first)
    assert found.total.shape == (N_ROWS - 2, N_TREES - 1, 1)
    assert not set(found.rows.tolist()) & {1007, 1030}
