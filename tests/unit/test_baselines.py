"""Older rules for the number of trees, next to loops over all sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference.baselines
from rfsize.baselines import banfield_size, mcnemar_size


@st.composite
def voted(draw: st.DrawFn) -> Any:
    """Votes of three classes, most of them right, so that larger sizes do beat smaller ones; classes and bags."""
    n_rows, n_trees = draw(st.integers(1, 40)), draw(st.integers(4, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    y = rng.integers(0, 3, n_rows)
    right = rng.random((n_rows, n_trees)) < rng.uniform(0.4, 0.9)
    votes = np.where(right, y[:, None], rng.integers(0, 3, (n_rows, n_trees)))
    inbag = rng.random((n_trees, n_rows)) < draw(st.sampled_from([0.1, 0.632]))
    inbag[0, 0] = False
    return votes, y, inbag


@settings(max_examples=40)
@given(voted(), st.integers(1, 2), st.sampled_from([0.05, 0.3, 0.7]), st.booleans())
def test_mcnemar_is_as_restated(drawn: Any, step: int, level: float, exact: bool) -> None:
    votes, y, _ = drawn
    options: dict[str, Any] = {"step": step, "level": level, "exact": exact, "classes": [0, 1, 2]}
    result, sizes = mcnemar_size(votes, y, **options), list(range(step, votes.shape[1] + 1, step))
    assert result.sizes.tolist() == sizes
    pairs = reference.baselines.mcnemar_sizes(votes, y, sizes, exact)
    np.testing.assert_allclose(result.p_values, [[pairs[m, n][0] for n in sizes] for m in sizes], rtol=1e-9)
    beaten = [[n > m and pairs[m, n][0] < level and pairs[m, n][1] for n in sizes] for m in sizes]
    assert np.array_equal(result.beaten, beaten)
    accuracy = reference.baselines.prefix_accuracy(votes, y, None)
    assert result.accuracy.tolist() == [float(accuracy[m - 1]) for m in sizes]
    assert result.n_trees == reference.baselines.mcnemar_size(votes, y, sizes, level, exact)
    assert result.converged == (result.n_trees < sizes[-1])


@pytest.mark.parametrize(("b", "c"), [(0, 0), (3, 9), (9, 10), (0, 19), (10, 10), (10, 11), (4, 16), (90, 140)])
@pytest.mark.parametrize("exact", [False, True])
def test_fewer_than_20_discordant_rows(exact: bool, b: int, c: int) -> None:
    """One tree against three: b rows that only the first tree gets right, c that only the other two do."""
    y = np.zeros(b + c + 5, dtype=int)
    votes = np.zeros((len(y), 3), dtype=int)
    votes[:b, 1:], votes[b : b + c, 0] = 1, 1
    p_values = mcnemar_size(votes, y, exact=exact, classes=[0, 1]).p_values
    assert p_values[0, 2] == p_values[2, 0] == pytest.approx(reference.baselines.mcnemar(b, c, exact), rel=1e-12)


@settings(max_examples=40)
@given(voted(), st.integers(1, 6), st.integers(1, 4), st.booleans())
def test_banfield_is_as_restated(drawn: Any, window: int, batch: int, oob: bool) -> None:
    votes, y, inbag = drawn
    bags = inbag if oob else None
    given = np.where(inbag.T, -1, votes) if oob else votes
    result = banfield_size(given, y, window=window, batch=batch, classes=[0, 1, 2])
    accuracy = reference.baselines.prefix_accuracy(votes, y, bags)
    np.testing.assert_allclose(result.accuracy, [float(share) for share in accuracy], rtol=1e-12)
    chosen, grown = reference.baselines.banfield(accuracy, window, batch)
    assert (result.n_trees, result.converged) == (chosen, grown is not None)
    assert result.grown == (grown or votes.shape[1] // batch * batch)


def test_types_and_labels_change_nothing() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 80)
    votes = np.where(rng.random((80, 40)) < 0.6, y[:, None], rng.integers(0, 3, (80, 40)))
    names, kept = np.array(["low", "middle", "high"]), votes.copy()
    sizes, batches = mcnemar_size(votes, y, step=5), banfield_size(votes, y)
    named = mcnemar_size(votes.astype(np.uint8).tolist(), pd.Series(names[y]), step=5, classes=names)
    assert np.array_equal(named.p_values, sizes.p_values)
    again = banfield_size(np.asfortranarray(votes), y.astype(float))
    assert np.array_equal(again.accuracy, batches.accuracy)
    assert np.array_equal(votes, kept)
    assert mcnemar_size([[1, 0, 0, 0, 0, 0]], [0]).n_trees == 1
    assert banfield_size([[1, 0, 0, 0, 0, 0]], [0], batch=2).n_trees == 5
