"""Confidences next to 0 and 1, tiny and huge forests, counts near 2³¹, any unit: right numbers, no NumPy warning."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from sklearn.ensemble import RandomForestRegressor

import rfsize
from helpers.models import FRESH, NUMBER, X
from rfsize import theory

EPSILON, MOST = 2.0**-53, 2**31 - 1
ALPHAS = [5e-324, 1e-300, EPSILON, 0.3, 0.5, 0.5 + EPSILON, 0.99, 1 - 1e-9, 1 - EPSILON]
SIZES = [1, 2, 3, 1001, theory.MAX_TREES, MOST]
FRACTIONS = [0.0, 5e-324, EPSILON, 0.3, 0.5 - EPSILON / 2, 0.5, 0.5 + EPSILON, 1.0 - EPSILON, 1.0]


@pytest.fixture(autouse=True)
def warnings_are_errors(recwarn: pytest.WarningsRecorder) -> Iterator[None]:
    yield
    assert [str(warning.message) for warning in recwarn if issubclass(warning.category, RuntimeWarning)] == []


def test_equations() -> None:
    for function in (theory.class_probability, theory.agreement, theory.disagreement):
        actual = function(np.array(SIZES)[:, None], FRACTIONS)
        assert ((actual >= 0.0) & (actual <= 1.0)).all()
    rows = [[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3, [5e-324, 1 - EPSILON, EPSILON], [0.5, 0.5 - EPSILON, EPSILON]]
    for n_trees in SIZES:
        actual = theory.multiclass_agreement(n_trees, rows)
        assert ((actual >= 0.0) & (actual <= 1.0)).all()
    for distance in (0.5, 2.0, 5.0):
        pi = 0.5 - distance / (2.0 * math.sqrt(MOST))
        assert theory.disagreement(MOST, pi) == pytest.approx(ndtr(-distance), rel=1e-6)
        assert theory.multiclass_disagreement(MOST, [[1.0 - pi, pi]]) == pytest.approx(ndtr(-distance), rel=1e-6)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_sizes(alpha: float) -> None:
    for size in (theory.instance_size(alpha, FRACTIONS), theory.instance_size_closed_form(alpha, FRACTIONS)):
        assert (size >= 0.0).all()
    sizes = [theory.ensemble_size(alpha, [pi, 0.3]) for pi in FRACTIONS]
    for pi, size in zip(FRACTIONS, sizes, strict=True):
        n_trees = int(min(size, theory.MAX_TREES))
        disagrees = theory.mean_disagreement(n_trees, [pi, 0.3])
        assert disagrees <= (1.0 - alpha) * (1.0 + 1e-9) or math.isinf(size)
    for guess in (-(10**30), 0, 1, 10**30, math.inf):
        actual = theory.smallest_size(lambda n_trees: 0.5 / n_trees, 1.0 - alpha, guess=guess)
        assert actual == theory.smallest_size(lambda n_trees: 0.5 / n_trees, 1.0 - alpha)
    for density in (0.0, 5e-324, 1.0, 1e100):
        assert math.isfinite(theory.asymptotic_size(alpha, density))
        assert 0.0 <= theory.size_tail(1e30, alpha, density) <= 1.0


@pytest.mark.parametrize("weight", [5e-324, 1e-200, 1e200, 1e308])
def test_weights(weight: float) -> None:
    weights = [weight, weight]
    assert theory.mean_agreement(11, [0.3, 0.4], weights) == pytest.approx(theory.mean_agreement(11, [0.3, 0.4]))
    assert theory.ensemble_size(0.9, [0.3, 0.4], weights) == theory.ensemble_size(0.9, [0.3, 0.4])


@pytest.mark.parametrize("n_trees", [1, 2, 3, 4, 101])
def test_stop_tables(n_trees: int) -> None:
    votes = rfsize.Votes([[MOST - 5, 3], [1, 0]], n_trees=MOST)
    priors: list[Any] = [[1.0] + [0.0] * n_trees, [0.0] * n_trees + [1.0], [5e-324] * (n_trees + 1), votes, "uniform"]
    priors.append([1e308] * (n_trees + 1))
    for alpha, prior in itertools.product([*ALPHAS, 1.0], priors):
        table = rfsize.StopTable.build(n_trees, alpha=alpha, prior=prior)
        assert 1.0 - 1e-9 <= table.expected_trees() <= n_trees * (1.0 + 1e-9)
        assert table.expected_disagreement() <= (1.0 - alpha) * (1.0 + 1e-9)
        assert rfsize.StopTable.from_dict(table.to_dict()) == table
    for alpha in [*ALPHAS, 1.0]:
        labels, n_used = rfsize.StopTable.build(n_trees, alpha=alpha, n_classes=5).apply(np.zeros((1, n_trees), int))
        assert (labels[0], 1 <= n_used[0] <= n_trees) == (0, True)


COUNTS = [
    [[MOST - 5, 3], [3, MOST - 5], [MOST // 2, MOST // 2], [MOST, 0]],
    [[MOST, 0], [1, 0], [0, 0], [2, 1], [5, 6]],
    [[MOST // 2, MOST // 2 - 1]] * 40,
    [[MOST, 0]] * 50,
    [[1, 0], [0, 1]] * 30,
    [[MOST - 5, 3, 2], [MOST // 3, MOST // 3, MOST // 3], [1, 2, MOST - 9]],
]


@pytest.mark.parametrize("method", ["auto", "smooth", "plugin"])
@pytest.mark.parametrize("counts", COUNTS, ids=range(len(COUNTS)))
def test_votes_near_the_largest_integer(counts: list[list[int]], method: str) -> None:
    votes = rfsize.Votes(counts, n_trees=max(map(sum, counts)))
    for alpha in ALPHAS:
        report = rfsize.size(votes, alpha=alpha, method=method)
        assert report.n_trees >= 1
        assert report.interval[0] <= report.interval[1]
        assert 0.0 <= report.loss_at(theory.MAX_TREES).value <= 1.0


@settings(max_examples=60)
@given(
    alpha=st.floats(allow_nan=True, allow_infinity=True),
    counts=st.lists(st.tuples(st.integers(0, MOST), st.integers(0, MOST)), min_size=1, max_size=5),
)
def test_any_votes_and_confidence(alpha: float, counts: list[tuple[int, int]]) -> None:
    fits = 0.0 < alpha < 1.0 and 0 < max(map(sum, counts)) <= MOST
    try:
        n_trees = rfsize.size(rfsize.Votes(counts, n_trees=min(MOST, max(map(sum, counts)))), alpha=alpha).n_trees
    except ValueError:
        n_trees = 0
    assert (n_trees >= 1) == fits


@cache
def regression(unit: float) -> RandomForestRegressor:
    return RandomForestRegressor(20, max_depth=4, random_state=0).fit(X, NUMBER * unit)


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**60, 2.0**190])
def test_deviations_do_not_depend_on_the_unit(unit: float) -> None:
    plain, scaled = (
        rfsize.size(regression(scale), FRESH, metric="scores", tolerance=0.05 * scale) for scale in (1.0, unit)
    )
    assert scaled.n_trees == plain.n_trees
    assert scaled.interval == pytest.approx(plain.interval, rel=0.1)  # rows are drawn again in groups


@pytest.mark.parametrize("tolerance", [5e-324, 1e-17, 1e17, np.finfo(np.float64).max])
def test_tolerances(tolerance: float) -> None:
    assert rfsize.size(regression(1.0), FRESH, metric="scores", tolerance=tolerance).n_trees >= 1
