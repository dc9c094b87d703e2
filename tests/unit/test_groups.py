"""Groups of rows of any labels, and copies of rows: no tree votes where it saw a row of the group."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.ensemble import RandomForestClassifier

import reference.groups
import rfsize

N_ROWS = 24
X = np.random.default_rng(0).normal(size=(N_ROWS, 3))


@cache
def forest() -> Any:
    return RandomForestClassifier(9, max_samples=0.3, random_state=0).fit(X, X[:, 0] > 0)


def n_votes(trained: Any, rows: Any, groups: Any) -> list[int]:
    return rfsize.tree_outputs(trained, rows, oob=True, groups=groups).votes.n_votes.tolist()


def expected(trained: Any, rows: Any, groups: Any) -> list[int]:
    return (~reference.groups.spread(rfsize.inbag(trained, rows), groups)).sum(axis=0).tolist()


@given(st.lists(st.integers(0, 12), min_size=N_ROWS, max_size=N_ROWS))
def test_groups_that_are_given(labels: list[int]) -> None:
    assert n_votes(forest(), X, labels) == expected(forest(), X, labels)
    for same in (np.array(labels, dtype=float), [f"group {label}" for label in labels], pd.Categorical(labels)):
        assert n_votes(forest(), X, same) == n_votes(forest(), X, labels)


@pytest.mark.parametrize(
    "labels",
    [
        [2**63, 2**63 + 1, 2**53, 2**53 + 1, 1.5, "1", 1, "a", "a\0", *range(100, 115)],  # all of them different
        ["a", 1] * (N_ROWS // 2),
        pd.Series(["u", "v"] * (N_ROWS // 2), index=range(7, 7 + N_ROWS)),
        np.repeat(np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), N_ROWS // 2),
    ],
    ids=["numbers and words", "mixed", "Series", "days"],
)
def test_labels_keep_their_kinds(labels: Any) -> None:
    assert n_votes(forest(), X, labels) == expected(forest(), X, list(labels))


CELLS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e30, np.nan, -np.nan])


@settings(max_examples=20)
@given(arrays(np.float64, st.tuples(st.just(N_ROWS), st.integers(1, 2)), elements=CELLS))
def test_copies(cells: np.ndarray) -> None:
    rows = np.column_stack([np.arange(N_ROWS) // 4, cells])
    trained = RandomForestClassifier(7, max_samples=0.2, random_state=0).fit(rows, np.arange(N_ROWS) % 3 > 0)
    copies = reference.groups.of_copies(rows.tolist())
    assert n_votes(trained, rows, "copies") == expected(trained, rows, copies)


def test_copies_of_frames() -> None:
    """Of columns of all kinds, of few values and with gaps."""
    rng = np.random.default_rng(0)
    gap, whole = rng.random((200, 4)) < 0.2, rng.integers(0, 2, (200, 4))
    table = pd.DataFrame(
        {
            "number": np.where(gap[:, 0], np.nan, whole[:, 0]),
            "whole": whole[:, 1] + 2**20,
            "flag": whole[:, 2] > 0,
            "nullable": pd.array(np.where(gap[:, 3], None, whole[:, 3]), dtype="Int64"),
        }
    )
    trained = RandomForestClassifier(15, max_samples=0.1, random_state=0).fit(table, whole[:, 0])
    copies = reference.groups.of_copies(table.astype(object).where(table.notna(), None).to_numpy().tolist())
    assert len(set(copies)) < 60
    assert n_votes(trained, table, "copies") == expected(trained, table, copies)
