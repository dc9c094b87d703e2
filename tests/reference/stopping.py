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
    for n_used in range(1, len(row) + 1):
        counts = [row[:n_used].count(label) for label in range(n_classes)]
        certain = settled(counts, len(row) - n_used)
        if certain >= 0:
            return certain, n_used
        leader, wins = counts.index(max(counts)), tally_masses(prior, counts)
        if counts.count(max(counts)) == 1:
            distance = wins[leader] - alpha * sum(wins)
            if abs(distance) <= CLOSE * sum(wins):
                return None
            if distance > 0:
                return leader, n_used
    raise AssertionError("after the last vote nothing can change")


def leaders_rule(prior: list[Fraction], row: list[int], n_classes: int, alpha: Fraction) -> tuple[int, int] | None:
    """Label and trees asked by the votes for the two leading classes, whose tally the prior is over."""
    enough = 1 - (1 - alpha) / (n_classes - 1)  # the rivals share the disagreement
    for n_used in range(1, len(row) + 1):
        counts = [row[:n_used].count(label) for label in range(n_classes)]
        first, second = sorted(range(n_classes), key=lambda label: (-counts[label], label))[:2]
        certain = settled(counts, len(row) - n_used)
        if certain >= 0:
            return certain, n_used
        wins = urn_masses(prior, counts[first] + counts[second], counts[first])
        if counts[first] > counts[second]:
            if abs(wins[1] - enough * sum(wins)) <= CLOSE * sum(wins):
                return None
            if wins[1] > enough * sum(wins):
                return first, n_used
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
    for n_used, member in enumerate(order, start=1):
        tallies[row[member]] += exact[member]
        remaining -= exact[member]
        outcomes = set()
        for rival in range(n_classes):
            final = [tally + remaining * (index == rival) for index, tally in enumerate(tallies)]
            outcomes.add(final.index(max(final)))
        if len(outcomes) == 1:
            return outcomes.pop(), n_used
    raise AssertionError("the last member settles the outcome")


def by_lead(score: np.ndarray, margin: np.ndarray, cut: float, every: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Labels and trees used where a lead in partial scores reaches the margin after every 8th tree, or the last.

    ``score`` has shape (n_rows, T, n_scores); of one score, the lead is the distance from ``cut``.
    """
    answers = []
    for row in score:
        for n_used, sums in enumerate(row, start=1):
            is_last = n_used == len(row)
            if n_used % every and not is_last:
                continue
            if len(sums) == 1:
                number = float(sums[0])
                is_settled, label = number <= cut - margin[n_used] or number >= cut + margin[n_used], int(number > cut)
            else:
                first, second = np.sort(sums.astype(float))[::-1][:2]
                is_settled, label = first - second >= margin[n_used], int(np.argmax(sums))
            if is_settled or is_last:
                answers.append((label, n_used))
                break
    label, n_used = np.array(answers).T
    return label, n_used


def lead_schedule(score: np.ndarray, cut: float) -> np.ndarray:
    """Root mean square of what the trees after the first 1, …, T take from a lead; the largest from there on."""
    both = np.concatenate([np.full_like(score, cut), score], axis=2) if score.shape[2] == 1 else score
    both, lost = both.astype(float), np.zeros(score.shape[:2])
    for row, of_row in enumerate(both):
        for tree, sums in enumerate(of_row):
            second, first = np.argsort(sums)[-2:]
            lost[row, tree] = max(sums[first] - sums[second] - (of_row[-1][first] - of_row[-1][second]), 0.0)
    size = np.sqrt((lost**2).mean(axis=0))
    return np.array([size[tree:].max() for tree in range(len(size))])


def boosted_left(score: np.ndarray, of_pool: np.ndarray, steepness: object) -> np.ndarray:
    """How far the trees after the first 1, …, T may move each prediction, shape (n_rows, T); scores add up.

    The spread of what trees add to a row, relative to other rows, counts with that of 16 trees like other rows'.
    """
    added, of_others = (np.diff(of, axis=1, prepend=0.0) for of in (score, of_pool))
    relative = added / np.sqrt((of_others**2).mean(axis=(0, 2)))[:, None]
    left = np.sqrt(((of_pool[:, -1:] - of_pool) ** 2).mean(axis=(0, 2)))
    moves = np.empty(score.shape[:2])
    for n_used in range(1, score.shape[1] + 1):
        squares = ((relative[:, :n_used] - relative[:, :n_used].mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        spread = np.sqrt((16 + squares) / (15 + n_used))
        moves[:, n_used - 1] = (spread * steepness(score[:, n_used - 1])).max(axis=1) * left[n_used - 1]
    return moves
