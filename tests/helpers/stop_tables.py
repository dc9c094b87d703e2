"""Priors and stop tables for tests: a random one of every kind and prior."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from rfsize import Votes
from rfsize.stopping.table import StopTable

ALPHAS = st.one_of(st.sampled_from([0.3, 0.5, 0.9, 0.99, 0.999]), st.floats(0.05, 0.99999))


@st.composite
def binary_priors(draw: st.DrawFn, largest: int = 60) -> np.ndarray:
    """Weights over the tallies of a random forest, many of them zero."""
    n_trees = draw(st.integers(1, largest))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    kept = generator.random(n_trees + 1) < draw(st.sampled_from([0.1, 0.5, 1.0]))
    prior = kept * generator.gamma(draw(st.sampled_from([0.1, 1.0, 10.0])), size=n_trees + 1)
    prior[generator.integers(n_trees + 1)] += 1.0
    return prior


def some_votes(n_classes: int, seed: int = 0, n_rows: int = 300) -> Votes:
    """Out-of-bag votes of a plausible kind: rows asked by different numbers of trees, which are so by chance."""
    generator = np.random.default_rng(seed)
    fractions = generator.dirichlet(np.full(n_classes, 0.3), n_rows)
    counts = np.array([generator.multinomial(generator.binomial(60, 0.37), p) for p in fractions])
    return Votes(counts, n_trees=60)


def random_table(n_trees: int, n_classes: int, alpha: float, seed: int) -> StopTable:
    prior = some_votes(n_classes, seed) if seed % 2 else "uniform"
    return StopTable.build(n_trees, alpha=alpha, prior=prior, n_classes=n_classes)


tables = st.builds(
    random_table, st.integers(1, 14), st.integers(2, 5), st.one_of(ALPHAS, st.just(1.0)), st.integers(0, 20)
)


@st.composite
def member_weights(draw: st.DrawFn, largest: int = 12) -> np.ndarray:
    """Weights of a vote, some of them zero: whole numbers, tenths whose sums are rounded, or of any magnitude."""
    weight = draw(
        st.sampled_from(
            [
                st.integers(0, 5).map(float),
                st.integers(0, 9).map(lambda tenths: tenths * 0.1),
                st.floats(0.0, 3.0),
                st.floats(-320.0, 290.0).map(lambda exponent: 10.0**exponent),
            ]
        )
    )
    weights = np.array(draw(st.lists(weight, min_size=1, max_size=largest)))
    if not weights.any():
        weights[draw(st.integers(0, len(weights) - 1))] = 1.0
    return weights


weighted_tables = st.builds(
    lambda weights, n_classes: StopTable.lossless(weights, n_classes=n_classes), member_weights(), st.integers(2, 5)
)
