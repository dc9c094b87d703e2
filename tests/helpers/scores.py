"""Scores of trees drawn at random."""

from __future__ import annotations

import numpy as np

from rfsize.counting.scores import Scores


def some_scores(n_rows: int = 600, asked: int = 80, n_scores: int = 1, seed: int = 0) -> Scores:
    rng = np.random.default_rng(seed)
    mean, spread = 2.0 * rng.normal(size=(n_rows, 1, n_scores)), rng.gamma(3.0, 0.5, size=(n_rows, 1, 1))
    return Scores.of(mean + spread * rng.normal(size=(n_rows, asked, n_scores)))
