"""Where voting stops, one vote at a time: by the papers' rule, by the tables, and by all orders of the votes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from reference.urn import urn_masses


def papers_decision(prior: list[Fraction], asked: int, count: int, alpha: Fraction) -> int:
    """The rule of HYPER and SIBA for two classes, from the sums over all final tallies.

    The class that leads the votes polled, if it wins with a probability above α, or can no longer lose; else -1. At a
    tie no class leads. Tallies that cannot occur under the prior stop only where nothing can change any more.
    """
    counts, n_trees = [asked - count, count], len(prior) - 1
    certain = settled(counts, n_trees - asked)
    if certain >= 0 or counts[0] == counts[1]:
        return certain
    leader, wins = int(counts[1] > counts[0]), urn_masses(prior, asked, count)
    return leader if wins[leader] > alpha * sum(wins) else -1


def settled(counts: list[int], left: int) -> int:
    """The class that wins however the votes that are left fall, or -1: by giving all of them to each class."""
    outcomes = set()
    for rival in range(len(counts)):
        final = [count + left * (index == rival) for index, count in enumerate(counts)]
        outcomes.add(final.index(max(final)))
    return outcomes.pop() if len(outcomes) == 1 else -1


def vote_in_order(table: Any, row: list[int]) -> tuple[int, int]:
    """Class answered and trees asked, one tree at a time."""
    counts = [0] * table.n_classes
    for asked, vote in enumerate(row, start=1):
        counts[vote] += 1
        answer = stop(table, asked, counts)
        if answer >= 0:
            return answer, asked
    raise AssertionError("no table goes on after the last tree")


def stop(table: Any, asked: int, counts: list[int]) -> int:
    """What a table says of one row: the class to answer, or -1 to go on."""
    if table.kind == "binary":
        if counts[1] <= table.stops.lower[asked]:
            return 0
        return 1 if counts[1] >= table.stops.upper[asked] else -1
    order = sorted(range(len(counts)), key=lambda index: (-counts[index], index))
    most, next_most = counts[order[0]], counts[order[1]]
    if most >= table.stops.upper[most + next_most]:
        return order[0]
    return settled(counts, table.n_trees - asked)


def table_outcome(table: Any, tallies: dict[tuple[int, ...], float]) -> tuple[float, float]:
    """Disagreement with the whole forest, and trees asked, over all orders of the votes of each final tally."""
    wrong, trees = 0.0, 0.0

    def ask(left: tuple[int, ...], counts: tuple[int, ...], weight: float, winner: int) -> None:
        nonlocal wrong, trees
        asked, remaining = sum(counts), sum(left)
        answer = stop(table, asked, list(counts)) if asked else -1
        if answer >= 0:
            wrong += weight * (answer != winner)
            trees += weight * asked
            return
        for vote, votes_left in enumerate(left):
            if votes_left:
                fewer = tuple(n - (k == vote) for k, n in enumerate(left))
                more = tuple(n + (k == vote) for k, n in enumerate(counts))
                ask(fewer, more, weight * votes_left / remaining, winner)

    for tally, weight in tallies.items():
        if weight > 0.0:
            ask(tally, (0,) * len(tally), weight, tally.index(max(tally)))
    return wrong, trees


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
