"""Confidences next to 0 and 1, tiny and huge forests, counts near 2^31: a right number, or a refusal of ours."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from sklearn.ensemble import RandomForestRegressor

import rfsize
from helpers.reports import agreement
from rfsize import theory
from rfsize.theory import multiclass

EPSILON = 2.0**-53
MOST = 2**31 - 1

ALPHAS = [5e-324, 1e-300, EPSILON, 0.3, 0.5, 0.5 + EPSILON, 0.99, 1 - 1e-9, 1 - 1e-15, 1 - EPSILON]
NO_ALPHAS = [0.0, 1.0, -1.0, 2.0, math.nan, math.inf, None, "0.9", [0.9], True]
SIZES = [1, 2, 3, 1001, theory.MAX_TREES, MOST]
NO_SIZES = [0, -1, MOST + 1, 2**53, 2**63, 10**30, 1e300, math.inf, math.nan, None, "x"]
FRACTIONS = [0.0, 5e-324, 1e-300, EPSILON, 0.3, 0.5 - EPSILON / 2, 0.5, 0.5 + EPSILON, 1.0 - EPSILON, 1.0]
NO_FRACTIONS = [-1e-320, 1.0 + 2 * EPSILON, math.nan, math.inf, None, "x"]
DENSITIES = [0.0, 5e-324, 1.0, 1e100]
NO_DENSITIES = [-1.0, 1e101, 1e308, math.inf, math.nan, None]


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def _refused(function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    with pytest.raises(ValueError, match=r"must|found"):
        function(*arguments, **options)


@pytest.mark.parametrize("function", [theory.class_probability, theory.agreement, theory.disagreement])
def test_equations_of_two_classes(function: Callable[..., Any]) -> None:
    found = function(np.array(SIZES)[:, None], FRACTIONS)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    for n_trees in NO_SIZES:
        _refused(function, n_trees, 0.3)
    for pi in NO_FRACTIONS:
        _refused(function, 11, pi)


@pytest.mark.parametrize("distance", [0.5, 2.0, 5.0])
def test_the_largest_forests_are_as_the_normal_distribution_says(distance: float) -> None:
    """A thousand times as large, and the incomplete beta function would lose its digits without a word."""
    pi = 0.5 - distance / (2.0 * math.sqrt(MOST))
    assert theory.disagreement(MOST, pi) == pytest.approx(ndtr(-distance), rel=1e-6)
    assert multiclass.disagreement(MOST, [[1.0 - pi, pi]]) == pytest.approx(ndtr(-distance), rel=1e-6)


def test_sizes_of_instances_and_of_ensembles() -> None:
    for alpha in ALPHAS:
        for size in (theory.instance_size(alpha, FRACTIONS), theory.instance_size_closed_form(alpha, FRACTIONS)):
            assert (size >= 0.0).all()
        for pi in FRACTIONS:
            found = theory.ensemble_size(alpha, [pi, 0.3])
            if math.isinf(found):
                assert theory.why_infinite(alpha, [pi, 0.3])
            else:
                assert theory.mean_disagreement(int(found), [pi, 0.3]) <= (1.0 - alpha) * (1.0 + 1e-9)
    for alpha in NO_ALPHAS:
        _refused(theory.ensemble_size, alpha, [0.3])
        _refused(theory.why_infinite, alpha, [0.3])


def test_the_bisection_starts_anywhere() -> None:
    for alpha, guess in itertools.product(ALPHAS, [-(10**30), 0, 1, 99, 10**30, math.inf]):
        found = theory.smallest_size(lambda n_trees: 0.5 / n_trees, 1.0 - alpha, guess=guess)
        assert found == theory.smallest_size(lambda n_trees: 0.5 / n_trees, 1.0 - alpha)


@pytest.mark.parametrize("weights", [[math.inf, 1.0], [math.nan, 1.0], [-1.0, 1.0], [0.0, 0.0]])
def test_weights_that_have_no_mean(weights: list[float]) -> None:
    _refused(theory.mean_agreement, 11, [0.3, 0.4], weights)
    _refused(theory.limit_agreement, [0.3, 0.5], weights)
    _refused(theory.ensemble_size, 0.9, [0.3, 0.4], weights)


@pytest.mark.parametrize("weight", [5e-324, 1e-310, 1e-200, 1e200, 1e308])
def test_weights_may_be_tiny_or_huge(weight: float) -> None:
    found = theory.mean_agreement(11, [0.3, 0.4], [weight, weight])
    assert found == pytest.approx(theory.mean_agreement(11, [0.3, 0.4]))
    assert theory.ensemble_size(0.9, [0.3, 0.4], [weight, weight]) == theory.ensemble_size(0.9, [0.3, 0.4])


def test_power_laws() -> None:
    for alpha, density in itertools.product(ALPHAS, DENSITIES):
        assert math.isfinite(theory.asymptotic_size(alpha, density))
        assert 0.0 <= theory.size_tail(10**30 * 1.0, alpha, density) <= 1.0
    for density in NO_DENSITIES:
        _refused(theory.asymptotic_size, 0.9, density)
        _refused(theory.size_tail, 11, 0.9, density)
        _refused(theory.asymptotic_disagreement, 11, density)
    for n_trees in (math.inf, math.nan, 0):
        _refused(theory.asymptotic_disagreement, n_trees, 1.0)


def test_several_classes() -> None:
    rows = [[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3, [5e-324, 1 - EPSILON, EPSILON], [0.5, 0.5 - EPSILON, EPSILON]]
    for n_trees in SIZES:
        found = multiclass.agreement(n_trees, rows)
        assert ((found >= 0.0) & (found <= 1.0)).all()
    for n_trees in NO_SIZES:
        _refused(multiclass.agreement, n_trees, rows)
    for row in ([2, -1, 0], [math.nan] * 3, [math.inf, 1], ["x", "y"]):
        _refused(multiclass.agreement, 11, [row])


@pytest.mark.parametrize("n_trees", [1, 2, 3, 4, 11, 101])
def test_stop_tables(n_trees: int) -> None:
    certain, last = [1.0] + [0.0] * n_trees, [0.0] * n_trees + [1.0]
    votes = rfsize.Votes([[MOST - 5, 3], [1, 0]], n_trees=MOST)
    for alpha in [*ALPHAS, 1.0]:
        for prior in ("uniform", certain, last, [5e-324] * (n_trees + 1), votes):
            table = rfsize.StopTable.build(n_trees, alpha=alpha, prior=prior)
            assert 1.0 - 1e-9 <= table.expected_trees() <= n_trees * (1.0 + 1e-9)
            assert table.expected_disagreement() <= (1.0 - alpha) * (1.0 + 1e-9)
            assert rfsize.StopTable.from_dict(table.to_dict()) == table


@pytest.mark.parametrize("n_trees", [1, 2, 3, 11])
@pytest.mark.parametrize("n_classes", [3, 5])
def test_stop_tables_of_several_classes(n_classes: int, n_trees: int) -> None:
    for alpha in [*ALPHAS, 1.0]:
        table = rfsize.StopTable.build(n_trees, alpha=alpha, n_classes=n_classes)
        labels, asked = table.apply(np.zeros((1, n_trees), dtype=int))
        assert labels[0] == 0
        assert 1 <= asked[0] <= n_trees


@pytest.mark.parametrize("estimator", ["auto", "smooth", "plugin"])
@pytest.mark.parametrize(
    "counts",
    [
        [[MOST - 5, 3], [3, MOST - 5], [MOST // 2, MOST // 2], [MOST, 0]],
        [[MOST, 0], [1, 0], [0, 0], [2, 1], [5, 6]],
        [[MOST // 2, MOST // 2]] * 40,
        [[MOST // 2, MOST // 2 - 1]] * 40,
        [[MOST, 0]] * 50,
        [[1, 0], [0, 1]] * 30,
        [[MOST - 5, 3, 2], [MOST // 3, MOST // 3, MOST // 3], [1, 2, MOST - 9]],
        [[1, 1, 1], [0, 0, 0], [MOST, 0, 0]],
    ],
)
def test_votes_near_the_largest_integer(counts: list[list[int]], estimator: str) -> None:
    votes = rfsize.Votes(counts, n_trees=max(map(sum, counts)))
    for alpha in ALPHAS:
        report = rfsize.size(votes, alpha=alpha, method=estimator)
        assert report.n_trees >= 1
        assert 0.0 <= agreement(report, theory.MAX_TREES) <= 1.0
        assert str(report)
        assert report.interval[0] <= report.interval[1]


def test_the_size_does_not_depend_on_how_many_trees_tell_it() -> None:
    rng = np.random.default_rng(0)
    sizes = []
    for n_trees in (10**4, 10**8, MOST):
        votes = rng.binomial(n_trees, np.random.default_rng(1).beta(2, 3, 300))
        sizes.append(rfsize.size(rfsize.Votes(np.stack([n_trees - votes, votes], axis=1))).n_trees)
    assert max(sizes) <= 1.1 * min(sizes)


@pytest.mark.parametrize("counts", [[[MOST, MOST], [1, 2]], [[MOST, MOST, MOST]], [[MOST, 1]]])
def test_votes_beyond_the_largest_integer_are_refused(counts: list[list[int]]) -> None:
    with pytest.raises(ValueError, match=r"a row has [\d,]+ votes; counts are kept of at most 2,147,483,647 trees"):
        rfsize.Votes(counts)


def test_votes_are_not_merged_beyond_it() -> None:
    votes = rfsize.Votes([[MOST - 5, 3]])
    with pytest.raises(ValueError, match="counts must be whole numbers from 0 to 2147483647"):
        votes.merge(votes)


@pytest.mark.parametrize("n_trees", [2**31, 2**63, 10**30, 3.5, math.nan, math.inf, "x", True, -1])
def test_numbers_of_trees_that_are_none(n_trees: Any) -> None:
    _refused(rfsize.Votes, [[1, 0]], n_trees=n_trees)


@given(
    alpha=st.floats(allow_nan=True, allow_infinity=True),
    counts=st.lists(st.tuples(st.integers(0, MOST), st.integers(0, MOST)), min_size=1, max_size=5),
)
@settings(deadline=None, max_examples=60)
def test_any_votes_and_confidence(alpha: float, counts: list[tuple[int, int]]) -> None:
    try:
        votes = rfsize.Votes(counts, n_trees=min(MOST, max(map(sum, counts))))
        report = rfsize.size(votes, alpha=alpha)
    except ValueError as error:
        assert any(word in str(error) for word in ("alpha", "votes", "no row has a vote"))  # noqa: PT017
    else:
        assert report.n_trees >= 1


@pytest.fixture(scope="module")
def regression() -> Callable[[float], tuple[RandomForestRegressor, np.ndarray]]:
    """A forest of a target in some unit, and rows that it was not trained on."""
    rng = np.random.default_rng(0)
    X, fresh = rng.normal(size=(2, 300, 4))
    y = X[:, 0] + rng.normal(size=300)

    def fitted(unit: float) -> tuple[RandomForestRegressor, np.ndarray]:
        return RandomForestRegressor(20, max_depth=4, random_state=0).fit(X, y * unit), fresh

    return fitted


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**60, 2.0**190])
def test_deviations_do_not_depend_on_the_unit(unit: float, regression: Any) -> None:
    one, scaled = (rfsize.size(*regression(scale), metric="scores", tolerance=0.05 * scale) for scale in (1.0, unit))
    assert scaled.n_trees == one.n_trees
    assert scaled.interval == pytest.approx(one.interval, rel=0.05)  # rows are drawn again in groups


@pytest.mark.parametrize("unit", [1e-200, 1e-310, 1e100, 1e152, 1e300])
def test_scores_too_large_or_too_small_to_be_multiplied_are_refused(unit: float, regression: Any) -> None:
    with pytest.raises(ValueError, match="train on the target in other units"):
        rfsize.size(*regression(unit), metric="scores", tolerance=unit)


@pytest.mark.parametrize("tolerance", [5e-324, 1e-300, 1e-17, 1e17, 1e300, np.finfo(np.float64).max])
def test_tolerances(tolerance: float, regression: Any) -> None:
    report = rfsize.size(*regression(1.0), metric="scores", tolerance=tolerance)
    assert report.n_trees >= 1
    assert str(report)
