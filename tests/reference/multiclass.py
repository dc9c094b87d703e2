"""Plurality voting as sums over all outcomes."""

from __future__ import annotations

from collections.abc import Iterator

from scipy.stats import binom, multinomial


def overtakes(n_trees: int, leader: float, rival: float, wins_ties: bool) -> float:
    """P(the rival gets more of the votes than the leader, or as many where it wins ties), over the votes for either."""
    total = 0.0
    for both in range(n_trees + 1):
        share = rival / (leader + rival)
        ahead = binom.sf(both // 2, both, share) + (wins_ties and both % 2 == 0) * binom.pmf(both // 2, both, share)
        total += binom.pmf(both, n_trees, leader + rival) * ahead
    return float(total)


def plurality_agreement(n_trees: int, pi: list[float]) -> float:
    """P(the class that leads in the limit gets the most votes), over all outcomes of the multinomial."""
    leader = max(range(len(pi)), key=lambda index: (pi[index], -index))

    def outcomes(left: int, classes: int) -> Iterator[tuple[int, ...]]:
        if classes == 1:
            yield (left,)
            return
        for votes in range(left + 1):
            for rest in outcomes(left - votes, classes - 1):
                yield (votes, *rest)

    return float(
        sum(
            multinomial.pmf(counts, n_trees, pi)
            for counts in outcomes(n_trees, len(pi))
            if max(range(len(pi)), key=lambda index: (counts[index], -index)) == leader
        )
    )
