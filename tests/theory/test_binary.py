"""The mathematics against sums of the binomial."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import reference.majority
from rfsize import theory

# Tinier fractions only make the exact rational arithmetic of the naive sums slow.
fractions = st.floats(0.0, 1.0).map(lambda pi: 0.0 if pi < 1e-12 else pi)
sizes = st.integers(1, 120)


@given(sizes, fractions)
def test_class_probability_is_the_binomial_tail(n_trees: int, pi: float) -> None:
    assert theory.class_probability(n_trees, pi) == pytest.approx(
        reference.majority.class_probability(n_trees, pi), abs=1e-10
    )


@given(sizes, fractions)
def test_disagreement_is_the_other_tail(n_trees: int, pi: float) -> None:
    expected = reference.majority.disagreement(n_trees, pi)
    assert theory.disagreement(n_trees, pi) == pytest.approx(expected, abs=1e-10, rel=1e-9)
    assert theory.agreement(n_trees, pi) == pytest.approx(1.0 - expected, abs=1e-10)


@pytest.mark.parametrize("n_trees", [501, 1001])
def test_large_forests_are_exact(n_trees: int) -> None:
    for pi in (0.4, 0.47, 0.5, 0.52, 0.9):
        assert theory.agreement(n_trees, pi) == pytest.approx(
            1.0 - reference.majority.disagreement(n_trees, pi), abs=1e-10
        )


@given(fractions, st.integers(0, 60))
def test_agreement_grows_over_odd_sizes_and_is_symmetric(pi: float, half: int) -> None:
    small, large = theory.agreement([2 * half + 1, 2 * half + 3], pi)
    assert large >= small - 1e-12
    assert theory.agreement(2 * half + 1, 1.0 - pi) == pytest.approx(small, abs=1e-9)


def test_broadcasting() -> None:
    assert theory.agreement([[1], [3]], [0.1, 0.5, 0.8]).shape == (2, 3)


@given(st.floats(0.55, 0.999), st.floats(0.0, 0.42))
def test_instance_size_is_the_smallest_odd_size(alpha: float, pi: float) -> None:
    size = float(theory.instance_size(alpha, pi))
    assert size % 2 == 1
    assert reference.majority.disagreement(int(size), pi) <= (1 - alpha) * (1 + 1e-9)
    if size > 1:
        assert reference.majority.disagreement(int(size) - 2, pi) > (1 - alpha) * (1 - 1e-9)


def test_instance_size_at_one_half_is_infinite() -> None:
    assert theory.instance_size(0.9, [0.5, 0.0]).tolist() == [math.inf, 1.0]
    assert theory.instance_size_closed_form(0.9, [0.5, 0.0]).tolist() == [math.inf, 0.0]


@pytest.mark.parametrize("pi", [0.49, 0.499, 0.4999, 0.5003])
def test_closed_form_is_close_where_sizes_are_large(pi: float) -> None:
    exact = float(theory.instance_size(0.99, pi))
    assert theory.instance_size_closed_form(0.99, pi) == pytest.approx(exact, rel=5e-3)


def test_sizes_of_ten_million_trees() -> None:
    n_trees = 10_000_001
    for z in (0.5, 2.0, 4.0):
        pi = 0.5 - z / (2.0 * math.sqrt(n_trees))
        assert theory.disagreement(n_trees, pi) == pytest.approx(norm.cdf(-z), rel=1e-4)
    assert math.isfinite(theory.instance_size(0.99, 0.5 - 4e-4))
    assert theory.instance_size(0.99, 0.5 - 4e-4) > 8_000_000


def test_asymptotics_agree_with_a_uniform_density() -> None:
    """For π uniform, f(1/2) = 1, and the mean over π is an integral."""
    pi = (np.arange(200_000) + 0.5) / 200_000
    assert theory.asymptotic_disagreement(1001, 1.0) == pytest.approx(theory.mean_disagreement(1001, pi), rel=2e-3)
    assert theory.asymptotic_size(0.99, 1.0) == pytest.approx(float(theory.ensemble_size(0.99, pi)), rel=5e-3)
    needed = theory.instance_size(0.99, pi)
    assert theory.size_tail(1001, 0.99, 1.0) == pytest.approx(np.mean(needed > 1001), rel=1e-2)


@given(st.lists(st.floats(0.0, 0.42), min_size=1, max_size=6), st.floats(0.55, 0.98))
def test_ensemble_size_by_trying_every_size(pis: list[float], alpha: float) -> None:
    assert theory.ensemble_size(alpha, pis) == reference.majority.ensemble_size(alpha, pis)


@given(st.lists(st.tuples(st.floats(0.0, 0.45), st.integers(1, 4)), min_size=1, max_size=5))
def test_weights_stand_for_repeated_instances(cells: list[tuple[float, int]]) -> None:
    pis, rows = zip(*cells, strict=True)
    repeated = np.repeat(pis, rows)
    assert theory.ensemble_size(0.95, pis, rows) == theory.ensemble_size(0.95, repeated)
    assert theory.mean_agreement(7, pis, rows) == pytest.approx(theory.mean_agreement(7, repeated))


def test_no_size_is_enough_for_rows_at_one_half() -> None:
    pis = [0.5] * 5 + [0.0] * 95
    assert theory.limit_agreement(pis) == 0.975
    assert theory.ensemble_size(0.98, pis) == math.inf
    assert theory.ensemble_size(0.97, pis) == 1
    assert "exactly half" in theory.why_infinite(0.98, pis)


def test_sizes_beyond_the_search_are_infinite_with_the_reason() -> None:
    assert theory.ensemble_size(0.99, [0.5 - 1e-7]) == math.inf
    assert "more than" in theory.why_infinite(0.99, [0.5 - 1e-7])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.agreement(0, 0.3), "at least 1"),
        (lambda: theory.agreement(3, 1.2), "between 0 and 1"),
        (lambda: theory.agreement(3, math.nan), "between 0 and 1"),
        (lambda: theory.instance_size(1.0, 0.3), "strictly between 0 and 1"),
        (lambda: theory.ensemble_size(0.0, [0.3]), "strictly between 0 and 1"),
        (lambda: theory.ensemble_size(0.9, []), "non-empty"),
        (lambda: theory.ensemble_size(0.9, [0.3], [-1.0]), "non-negative"),
        (lambda: theory.mean_agreement(3, [0.3], [1.0, 2.0]), "shape"),
        (lambda: theory.asymptotic_size(0.9, -1.0), "density"),
    ],
)
def test_refusals(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("alpha", [0.3, 0.55, 0.7, 0.99])
def test_size_tail_is_that_of_fractions_about_a_half(alpha: float) -> None:
    """An instance needs more than T trees where its fraction is less than z(α)/(2√T) from one half."""
    near = max(norm.ppf(alpha), 0.0) / (2.0 * math.sqrt(400))
    assert theory.size_tail(400, alpha, 1.5) == pytest.approx(1.5 * 2.0 * near)
