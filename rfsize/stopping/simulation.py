"""What a table of leaders asks and gets wrong, measured on random orders of votes."""

from __future__ import annotations

import numpy as np

from rfsize.stopping import urn
from rfsize.stopping.certificate import ClassCounts
from rfsize.stopping.stops import LeaderStops
from rfsize.voting.votes import Votes

_BLOCK = 2_000_000  # votes held at a time
_SIMULATED = 4_000_000  # votes simulated to measure a table of leaders


_SIMULATION_SEED = 2016  # fixed: the same table gives the same measurement


def simulated(stops: LeaderStops, n_trees: int, n_classes: int, votes: Votes | None) -> ClassCounts:
    """Trees asked and disagreements on random orders of the votes of the prior's rows."""
    generator = np.random.default_rng(_SIMULATION_SEED)
    n_rows = max(100, _SIMULATED // max(n_trees, 10 * n_classes))
    if votes is None:
        # Uniform fractions, then multinomial votes: every tally of T votes is equally likely.
        tallies = generator.multinomial(n_trees, generator.dirichlet(np.ones(n_classes), n_rows))
    else:
        rows = urn.voted_rows(votes)
        total = np.cumsum(rows[generator.integers(len(rows), size=n_rows)], axis=1)
        tallies = np.diff(total * n_trees // total[:, -1:], axis=1, prepend=0)
    trees, differs = np.zeros((2, n_rows), dtype=np.int64)
    winner = tallies.argmax(axis=1)
    block = max(1, _BLOCK // max(n_trees, n_classes))
    for start in range(0, n_rows, block):
        some = tallies[start : start + block]
        ordered = np.repeat(np.tile(np.arange(n_classes), len(some)), some.ravel()).reshape(len(some), n_trees)
        labels, asked = stops.settle(generator.permuted(ordered, axis=1), n_classes)
        trees[start : start + block], differs[start : start + block] = asked, labels != winner[start : start + block]
    return ClassCounts.of(winner, differs, trees, n_classes)
