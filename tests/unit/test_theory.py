"""The equations against sums over all outcomes, and the search for a size against trying every size."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference.majority
import reference.multiclass
from rfsize import _core, theory

# Tinier fractions only make the exact rational arithmetic of the naive sums slow.
FRACTION = st.floats(0.0, 1.0).map(lambda pi: 0.0 if pi < 1e-12 else pi)
SHARES = st.lists(st.floats(0.001, 1.0), min_size=3, max_size=3).map(lambda parts: np.array(parts) / sum(parts))


@given(st.integers(1, 120), FRACTION)
def test_agreement_is_the_binomial_sum(n_trees: int, pi: float) -> None:
    expected = reference.majority.disagreement(n_trees, pi)
    assert theory.disagreement(n_trees, pi) == pytest.approx(expected, abs=1e-10, rel=1e-9)
    assert theory.agreement(n_trees, pi) == pytest.approx(1.0 - expected, abs=1e-10)
    class_1 = reference.majority.class_probability(n_trees, pi)
    assert theory.class_probability(n_trees, pi) == pytest.approx(class_1, abs=1e-10)
    assert theory.agreement([[n_trees], [3]], [pi, 0.5, 0.8])[0, 0] == theory.agreement(n_trees, pi)


@given(st.floats(0.55, 0.999), st.floats(0.0, 0.42))
def test_instance_size_is_the_smallest_odd_size(alpha: float, pi: float) -> None:
    size = int(theory.instance_size(alpha, pi))
    assert size % 2 == 1
    assert reference.majority.disagreement(size, pi) <= (1 - alpha) * (1 + 1e-9)
    below = reference.majority.disagreement(size - 2, pi) if size > 1 else 1.0
    assert below > (1 - alpha) * (1 - 1e-9)


def test_instance_size_at_one_half_and_near_it() -> None:
    assert theory.instance_size(0.9, [0.5, 0.0]).tolist() == [math.inf, 1.0]
    assert theory.instance_size_closed_form(0.9, [0.5, 0.0]).tolist() == [math.inf, 0.0]
    near = [0.49, 0.499, 0.4999, 0.5003]
    assert theory.instance_size_closed_form(0.99, near) == pytest.approx(theory.instance_size(0.99, near), rel=5e-3)
    assert 8_000_000 < theory.instance_size(0.99, 0.5 - 4e-4) < math.inf


def test_asymptotics_are_integrals_over_the_density() -> None:
    """For π uniform, f(1/2) = 1."""
    pi = (np.arange(20_000) + 0.5) / 20_000
    assert theory.asymptotic_disagreement(1001, 1.0) == pytest.approx(theory.mean_disagreement(1001, pi), rel=2e-3)
    assert theory.asymptotic_size(0.99, 1.0) == pytest.approx(float(theory.ensemble_size(0.99, pi)), rel=5e-3)
    assert theory.size_tail(1001, 0.99, 1.0) == pytest.approx(np.mean(theory.instance_size(0.99, pi) > 1001), rel=1e-2)


@given(st.lists(st.tuples(st.floats(0.0, 0.42), st.integers(1, 4)), min_size=1, max_size=6), st.floats(0.55, 0.98))
def test_ensemble_size_by_trying_every_size(cells: list[tuple[float, int]], alpha: float) -> None:
    pis, rows = zip(*cells, strict=True)
    repeated = np.repeat(pis, rows)
    expected = reference.majority.ensemble_size(alpha, repeated.tolist())
    assert theory.ensemble_size(alpha, pis, rows) == theory.ensemble_size(alpha, repeated) == expected
    assert theory.mean_agreement(7, pis, rows) == pytest.approx(theory.mean_agreement(7, repeated))


def test_ensemble_size_is_infinite_for_rows_at_one_half() -> None:
    pis = [0.5] * 5 + [0.0] * 95
    assert theory.limit_agreement(pis) == 0.975
    assert theory.ensemble_size(0.98, pis) == theory.ensemble_size(0.99, [0.5 - 1e-7]) == math.inf
    assert theory.ensemble_size(0.97, pis) == 1


@given(st.integers(1, 501).map(lambda half: 2 * half - 1), st.floats(0.0, 1.0))
def test_plurality_of_two_classes_is_the_binomial(n_trees: int, pi: float) -> None:
    expected = float(theory.disagreement(n_trees, pi))
    assert theory.multiclass_disagreement(n_trees, [[1.0 - pi, pi]]) == pytest.approx(expected, abs=2e-8)
    third = theory.multiclass_disagreement(n_trees, [[1.0 - pi, 0.0, pi]])  # a class without votes
    assert third == pytest.approx(expected, abs=2e-8)


@given(st.integers(1, 9), SHARES)
def test_plurality_claims_no_more_than_there_is(n_trees: int, pi: np.ndarray) -> None:
    exact = reference.multiclass.plurality_agreement(n_trees, pi.tolist())
    assert theory.multiclass_agreement(n_trees, pi[None, :]) <= exact + 2e-4
    alone = reference.multiclass.plurality_agreement(1, pi.tolist())
    assert theory.multiclass_agreement(1, pi[None, :]) == pytest.approx(alone)


def overtakes(n_trees: int, leader: float, rival: float, wins_ties: bool) -> float:
    out = np.empty(1)
    _core.disagreement(n_trees, np.array([leader]), np.arange(2), np.array([rival]), np.array([wins_ties]), out)
    return float(out[0])


@given(st.integers(1, 40), SHARES, st.booleans())
def test_a_rival_overtakes_as_often_as_the_sums_say(n_trees: int, pi: np.ndarray, wins_ties: bool) -> None:
    rival, leader = sorted(pi[:2].tolist())
    expected = reference.multiclass.overtakes(n_trees, leader, rival, wins_ties)
    assert overtakes(n_trees, leader, rival, wins_ties) == pytest.approx(expected, abs=2e-8)


@pytest.mark.parametrize("n_trees", [1, 2, 11, 501])
@pytest.mark.parametrize("pair", [(0.5, 0.5), (0.5, 0.5 - 1e-9), (0.3, 0.3), (0.9, 1e-9), (0.999, 0.001), (1e-4, 1e-5)])
def test_overtaking_at_the_edges(n_trees: int, pair: tuple[float, float]) -> None:
    for wins_ties in (False, True):
        expected = reference.multiclass.overtakes(n_trees, *pair, wins_ties)
        assert overtakes(n_trees, *pair, wins_ties) == pytest.approx(expected, abs=2e-8)


def _hard_rows(n_classes: int, rng: np.random.Generator) -> list[np.ndarray]:
    """All classes level; the leader last; two classes far ahead of the rest; any."""
    last = np.full(n_classes, 0.5 / (n_classes - 1))
    last[-1] = 0.5
    pair = np.full(n_classes, 0.1 / (n_classes - 2))
    pair[:2] = 0.46, 0.44
    return [np.full(n_classes, 1.0 / n_classes), last, pair, rng.dirichlet(np.full(n_classes, 0.5))]


@pytest.mark.parametrize("n_classes", [3, 10])
@pytest.mark.parametrize("n_trees", [11, 101])
def test_plurality_against_many_draws(n_classes: int, n_trees: int) -> None:
    rng = np.random.default_rng(n_classes * n_trees)
    for pi in _hard_rows(n_classes, rng):
        shown = np.mean(rng.multinomial(n_trees, pi, size=200_000).argmax(axis=1) == pi.argmax())
        claimed = float(theory.multiclass_agreement(n_trees, pi[None, :])[0])
        # Where the forest nearly agrees, little is given away; elsewhere, more may be.
        given_away = 0.1 * (1.0 - shown) + 0.001 if shown > 0.98 else 1.0
        assert shown - given_away <= claimed <= shown + 0.003


def test_tied_classes_never_converge() -> None:
    assert theory.multiclass_disagreement(10**8 + 1, [[0.4, 0.4, 0.2]]) == pytest.approx(0.5, abs=1e-3)


def test_fractions_with_and_without_replacement() -> None:
    """Equation (1) takes one grid of the paper to the other."""
    with_replacement = np.arange(1, 13) / 10
    fractions = with_replacement / (1.0 + with_replacement)
    np.testing.assert_allclose(theory.ratio_with_replacement(fractions), with_replacement)
    np.testing.assert_allclose(theory.fraction_without_replacement(with_replacement), fractions)
    assert theory.fraction_without_replacement([[1.0, 3.0]]).shape == (1, 2)


LOSSES: dict[str, Callable[[int], float]] = {
    "power law": lambda n_trees: 0.3 / n_trees,
    "slow": lambda n_trees: 0.3 / math.sqrt(n_trees),
    "fast": lambda n_trees: math.exp(-n_trees / 50.0),
    "steps": lambda n_trees: 1.0 / (1 + n_trees // 40),
    "none from some size on": lambda n_trees: 1.0 if n_trees < 777 else 0.0,
}


def _with_few_looks(loss: Callable[[int], float]) -> Callable[[int], float]:
    looks = iter(range(100))

    def counted(n_trees: int) -> float:
        assert next(looks, None) is not None
        return loss(n_trees)

    return counted


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("guess", [1, 20, 1e12])
@pytest.mark.parametrize("kind", LOSSES)
def test_smallest_size_in_few_looks(kind: str, guess: float, *, odd: bool) -> None:
    loss, level = LOSSES[kind], 0.0201
    expected = next(n_trees for n_trees in range(1, 10_000, 2 if odd else 1) if loss(n_trees) <= level)
    assert theory.smallest_size(_with_few_looks(loss), level, guess=guess, odd=odd) == expected


@pytest.mark.parametrize("odd", [False, True])
def test_smallest_size_ends_somewhere(*, odd: bool) -> None:
    last = theory.MAX_TREES - (theory.MAX_TREES % 2 == 0 and odd)
    assert theory.smallest_size(_with_few_looks(lambda n_trees: float(n_trees < last)), 0.5, odd=odd) == last
    assert theory.smallest_size(_with_few_looks(lambda n_trees: 1.0), 0.5, odd=odd) == math.inf
    assert theory.smallest_size(_with_few_looks(lambda n_trees: 0.0), 0.5, odd=odd) == 1
