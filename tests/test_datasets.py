"""The made problems: what their definitions say of classes, means and the least error that a rule can have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rfsize import datasets

ROWS = 40_000
N_CLASSES = {"waveform": 3, "led24": 10}


def within(value: float, expected: float, of: int = ROWS) -> bool:
    """A share of so many rows, within five standard errors."""
    return abs(value - expected) < 5.0 * np.sqrt(expected * (1.0 - expected) / of)


@pytest.fixture(params=datasets.__all__)
def draw(request: pytest.FixtureRequest) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    return getattr(datasets, request.param)


def test_classes_are_equally_likely(draw: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    X, y = draw(ROWS, seed=0)
    n_classes = N_CLASSES.get(draw.__name__, 2)
    assert X.dtype == np.float64
    assert y.dtype == np.int64
    assert all(within(share, 1.0 / n_classes) for share in np.bincount(y, minlength=n_classes) / ROWS)
    assert y.max() == n_classes - 1


def test_a_seed_gives_the_same_rows_and_a_generator_goes_on(draw: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    (X, y), (again, labels) = draw(50, seed=3), draw(50, seed=3)
    assert np.array_equal(X, again)
    assert np.array_equal(y, labels)
    generator = np.random.default_rng(3)
    assert np.array_equal(draw(50, generator)[0], X)
    assert not np.array_equal(draw(50, generator)[0], X)


def test_rows_must_be_a_whole_number(draw: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    with pytest.raises(ValueError, match="n_rows must be a whole number of at least 1, found 0"):
        draw(0, seed=0)


def squared(X: np.ndarray, mean: np.ndarray | float) -> np.ndarray:
    """Distance from a mean, squared."""
    return ((X - mean) ** 2).sum(axis=1)


A = 2.0 / np.sqrt(20.0)


def test_twonorm() -> None:
    X, y = datasets.twonorm(ROWS, seed=1)
    assert np.allclose(X[y == 0].mean(axis=0), A, atol=0.04)
    assert np.allclose(np.cov(X[y == 1].T), np.eye(20), atol=0.06)
    assert within(float(np.mean((X.sum(axis=1) < 0) != y)), 0.02275)


def test_threenorm() -> None:
    X, y = datasets.threenorm(ROWS, seed=1)
    signs = np.tile([1.0, -1.0], 10)
    assert np.allclose(X[y == 1].mean(axis=0), A * signs, atol=0.04)
    assert np.allclose(X[y == 0].mean(axis=0), 0.0, atol=0.06)
    two = 0.5 * (np.exp(-0.5 * squared(X, A)) + np.exp(-0.5 * squared(X, -A)))
    assert abs(np.mean((two < np.exp(-0.5 * squared(X, A * signs))) != y) - 0.105) < 0.01  # Breiman's figure


@pytest.mark.parametrize(("centre", "error"), [(2.0, 0.0125), (1.0, 0.015)])
def test_ringnorm(centre: float, error: float) -> None:
    X, y = datasets.ringnorm(ROWS, seed=1, centre=centre)
    mean = centre / np.sqrt(20.0)
    assert np.allclose(X[y == 1].mean(axis=0), mean, atol=0.04)
    assert np.allclose(X[y == 0].std(axis=0), 2.0, atol=0.06)
    wide = -20.0 * np.log(2.0) - squared(X, 0.0) / 8.0
    assert abs(np.mean((wide < -0.5 * squared(X, mean)) != y) - error) < 0.003


def test_waveform_mixes_two_of_three_waves() -> None:
    X, y = datasets.waveform(ROWS, seed=1)
    wave = {centre: np.array([max(6 - abs(place - centre), 0) for place in range(1, 22)]) for centre in (7, 11, 15)}
    for k, (first, second) in enumerate([(11, 15), (11, 7), (15, 7)]):
        assert np.allclose(X[y == k].mean(axis=0), 0.5 * (wave[first] + wave[second]), atol=0.1)


def test_circle_and_xor_are_their_rules() -> None:
    X, y = datasets.circle(1000, seed=1)
    assert np.array_equal(y, [int(a * a + b * b < 2 / np.pi) for a, b in X])
    X, y = datasets.xor(1000, seed=1)
    assert np.array_equal(y, [int((a < 0 and b > 0) or (a > 0 and b < 0)) for a, b in X])
    assert np.abs(X).max() <= 1.0


@pytest.mark.parametrize("cycles", [1.0, 1.5])
def test_spiral_without_noise_lies_on_its_curve(cycles: float) -> None:
    X, y = datasets.spiral(1000, seed=1, cycles=cycles)
    X = np.where(y == 0, 1, -1)[:, None] * X
    radius = np.hypot(*X.T)
    turns = (3.0 * radius - 1.0) / 2.0
    assert 0.0 <= turns.min() < 0.01 * cycles
    assert 0.99 * cycles < turns.max() <= cycles
    assert np.allclose(X, radius[:, None] * np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], axis=1))


def test_noise_of_a_spiral_is_across_it() -> None:
    clean, y = datasets.spiral(ROWS, seed=1)
    X, same = datasets.spiral(ROWS, seed=1, noise=0.02)
    assert np.array_equal(y, same)
    off = X - clean
    nearby = datasets.spiral(ROWS, seed=2)
    curve = nearby[0][nearby[1] == 0]
    curve = curve[np.argsort(np.hypot(*curve.T))]  # in the order of w
    at = np.searchsorted(np.hypot(*curve.T), np.hypot(*clean[y == 0].T)).clip(50, len(curve) - 51)
    tangent = curve[at + 50] - curve[at - 50]
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    assert np.abs((off[y == 0] * tangent).sum(axis=1)).std() < 0.003
    assert abs(np.linalg.norm(off, axis=1).std() - 0.02 * np.sqrt(1.0 - 2.0 / np.pi)) < 0.001
    with pytest.raises(ValueError, match="noise"):
        datasets.spiral(10, seed=0, noise=-1.0)


DIGITS = {0: "top ul ur ll lr bottom", 1: "ur lr", 2: "top ur middle ll bottom", 3: "top ur middle lr bottom"}
DIGITS |= {4: "ul ur middle lr", 5: "top ul middle lr bottom", 6: "top ul middle ll lr bottom", 7: "top ur lr"}
DIGITS |= {8: "top ul ur middle ll lr bottom", 9: "top ul ur middle lr bottom"}


def test_led24() -> None:
    X, y = datasets.led24(ROWS, seed=1)
    for digit, lit in DIGITS.items():
        expected = [
            0.9 if segment in lit.split() else 0.1 for segment in ["top", "ul", "ur", "middle", "ll", "lr", "bottom"]
        ]
        assert np.allclose(X[y == digit, :7].mean(axis=0), expected, atol=0.03), digit
    assert np.allclose(X[:, 7:].mean(axis=0), 0.5, atol=0.02)
    # The best rule takes the likeliest digit, which is the one that differs in the fewest segments.
    lit = np.array([X[y == digit, :7].mean(axis=0) > 0.5 for digit in range(10)])
    wrong = np.abs(X[:, None, :7] - lit).sum(axis=2)
    best = (wrong == wrong.min(axis=1, keepdims=True)) / (wrong == wrong.min(axis=1, keepdims=True)).sum(
        axis=1, keepdims=True
    )
    assert abs(1.0 - best[np.arange(ROWS), y].mean() - 0.26) < 0.01
