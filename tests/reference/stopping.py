"""Where voting stops, one vote at a time: by the papers' rule, by the two leaders, and by exact weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from reference.urn import tally_masses, urn_masses

CLOSE = Fraction(1, 10**11)
"""Where a probability is as near to α as this, rounding decides."""


def papers_rule(prior: dict[tuple[int, ...], Fraction], row: list[int], alpha: Fraction) -> tuple[int, int] | None:
    """Label and trees asked by HYPER and SIBA, for a prior over final tallies; None where rounding decides.

    A row stops with the class that leads the votes polled if it wins with a probability above α, or can no longer lose.
    """
    n_classes = len(next(iter(prior)))
    for asked in range(1, len(row) + 1):
        counts = [row[:asked].count(label) for label in range(n_classes)]
        certain = settled(counts, len(row) - asked)
        if certain >= 0:
            return certain, asked
        leader, wins = counts.index(max(counts)), tally_masses(prior, counts)
        if counts.count(max(counts)) == 1:
            distance = wins[leader] - alpha * sum(wins)
            if abs(distance) <= CLOSE * sum(wins):
                return None
            if distance > 0:
                return leader, asked
    raise AssertionError("after the last vote nothing can change")


def leaders_rule(prior: list[Fraction], row: list[int], n_classes: int, alpha: Fraction) -> tuple[int, int] | None:
    """Label and trees asked by the votes for the two leading classes, whose tally the prior is over."""
    enough = 1 - (1 - alpha) / (n_classes - 1)  # the rivals share the disagreement
    for asked in range(1, len(row) + 1):
        counts = [row[:asked].count(label) for label in range(n_classes)]
        first, second = sorted(range(n_classes), key=lambda label: (-counts[label], label))[:2]
        certain = settled(counts, len(row) - asked)
        if certain >= 0:
            return certain, asked
        wins = urn_masses(prior, counts[first] + counts[second], counts[first])
        if counts[first] > counts[second]:
            if abs(wins[1] - enough * sum(wins)) <= CLOSE * sum(wins):
                return None
            if wins[1] > enough * sum(wins):
                return first, asked
    raise AssertionError("after the last vote nothing can change")


def settled(counts: list[int], left: int) -> int:
    """The class that wins however the votes that are left fall, or -1: by giving all of them to each class."""
    outcomes = set()
    for rival in range(len(counts)):
        final = [count + left * (index == rival) for index, count in enumerate(counts)]
        outcomes.add(final.index(max(final)))
    return outcomes.pop() if len(outcomes) == 1 else -1


def weighted_vote(weights: list[float], row: list[int], n_classes: int) -> int:
    """Class of the highest score, computed as `AdaBoostClassifier` does, in plain floats."""
    against = -1 / (n_classes - 1)
    total = float(np.sum(weights))
    scores = [0.0] * n_classes
    for weight, vote in zip(weights, row, strict=True):
        for index in range(n_classes):
            scores[index] += weight if index == vote else against * weight
    scores = [score / total for score in scores]
    if n_classes == 2:
        return int(-scores[0] + scores[1] > 0)
    return scores.index(max(scores))


def weighted_stop(weights: list[float], row: list[int], n_classes: int) -> tuple[int, int]:
    """Class answered and members asked in exact arithmetic, giving the remaining weight to each class in turn."""
    exact = [Fraction(weight) for weight in weights]
    order = sorted((member for member in range(len(row)) if exact[member]), key=lambda member: (-exact[member], member))
    tallies, remaining = [Fraction(0)] * n_classes, sum(exact, Fraction(0))
    for asked, member in enumerate(order, start=1):
        tallies[row[member]] += exact[member]
        remaining -= exact[member]
        outcomes = set()
        for rival in range(n_classes):
            final = [tally + remaining * (index == rival) for index, tally in enumerate(tallies)]
            outcomes.add(final.index(max(final)))
        if len(outcomes) == 1:
            return outcomes.pop(), asked
    raise AssertionError("the last member settles the outcome")
