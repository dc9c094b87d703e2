"""What halves and quarters of a forest's trees lose, by loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from rfsize.statistics.curve import SEED

N_BLOCKS, N_DEALS = 20, 24


def deals() -> list[list[np.ndarray]]:
    """The blocks in each of the four quarters of each deal."""
    rng, found = np.random.default_rng(SEED), []
    for _ in range(N_DEALS):
        place = rng.permutation(N_BLOCKS)
        found.append([np.flatnonzero(place % 4 == quarter) for quarter in range(4)])
    return found


def law(
    score: np.ndarray, may_vote: np.ndarray, loss: Callable[[np.ndarray, np.ndarray], float]
) -> tuple[float, float]:
    """The c and d of the loss c/(T + d) that halves and quarters of the trees lose against all trees.

    Of scores, shape (n_rows, n_trees, n_scores), that count where ``may_vote``, and a loss of some rows, a mask, and
    their mean scores. A part that n trees of a row make up loses the mean of c/(n + d) over the rows.
    """
    block = np.arange(score.shape[1]) % N_BLOCKS
    halves, quarters = [], []
    for one, two, three, four in deals():
        halves += [np.concatenate(pair) for pair in ((one, two), (three, four), (one, three))]
        halves += [np.concatenate(pair) for pair in ((two, four), (one, four), (two, three))]
        quarters += [one, two, three, four]
    known = np.all([may_vote[:, np.isin(block, blocks)].any(axis=1) for blocks in quarters], axis=0)

    def of(blocks: np.ndarray) -> float:
        counts = (may_vote & np.isin(block, blocks))[known][:, :, None]
        return loss(known, (score[known] * counts).sum(axis=1) / counts.sum(axis=1))

    def lost_by(parts: list[np.ndarray], d: float) -> float:
        asked = np.array([may_vote[known][:, np.isin(block, blocks)].sum(axis=1) for blocks in parts])
        return float(np.mean(1.0 / (asked + d)) - np.mean(1.0 / (may_vote[known].sum(axis=1) + d)))

    whole = of(np.arange(N_BLOCKS))
    by_halves, by_quarters = (float(np.mean([of(blocks) for blocks in parts])) - whole for parts in (halves, quarters))

    def unlike(d: float) -> float:
        return lost_by(quarters, d) / lost_by(halves, d) - by_quarters / by_halves

    d = 0.0 if unlike(0.0) <= 0.0 else float(brentq(unlike, 0.0, 1e3 * score.shape[1]))
    return by_halves / lost_by(halves, d), d


def of_few_trees(
    score: np.ndarray, may_vote: np.ndarray, loss: Callable[[np.ndarray, np.ndarray], float], size: int, draws: int
) -> float:
    """Mean loss of forests of ``size`` trees, drawn of those that may vote on each row, against all of them.

    Of scores of shape (n_rows, n_trees), on the rows that may ask so many.
    """
    rng = np.random.default_rng(0)
    known = may_vote.sum(axis=1) >= size
    heard = [score[row, may_vote[row]] for row in np.flatnonzero(known)]
    lost = []
    for _ in range(draws):
        places = rng.random(score.shape[1]).argsort()  # the same trees of all rows, where all may vote
        drawn = [places[places < len(row)][:size] for row in heard]
        lost.append(loss(known, np.array([row[some].mean() for row, some in zip(heard, drawn, strict=True)])))
    return float(np.mean(lost)) - loss(known, np.array([row.mean() for row in heard]))
