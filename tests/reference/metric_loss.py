"""What halves and quarters of a forest's trees lose, by loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rfsize.estimation.intervals import SEED

N_BLOCKS, N_DEALS = 20, 24


def deals() -> list[list[np.ndarray]]:
    """The blocks in each of the four quarters of each deal."""
    rng, found = np.random.default_rng(SEED), []
    for _ in range(N_DEALS):
        place = rng.permutation(N_BLOCKS)
        found.append([np.flatnonzero(place % 4 == quarter) for quarter in range(4)])
    return found


def losses(
    score: np.ndarray, may_vote: np.ndarray, loss: Callable[[np.ndarray, np.ndarray], float]
) -> tuple[float, float]:
    """Mean losses of halves and quarters against all trees.

    Of scores, shape (n_rows, n_trees, n_scores), that count where ``may_vote``, and a loss of some rows, a mask, and
    their mean scores.
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

    whole = of(np.arange(N_BLOCKS))
    return tuple(float(np.mean([of(blocks) for blocks in parts])) - whole for parts in (halves, quarters))


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
        drawn = [places[places < len(one)][:size] for one in heard]
        lost.append(loss(known, np.array([one[some].mean() for one, some in zip(heard, drawn, strict=True)])))
    return float(np.mean(lost)) - loss(known, np.array([one.mean() for one in heard]))
