"""Where voting stops, one vote at a time: by the tables, by all orders of the votes, and by programs in full."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import lil_matrix, vstack
from scipy.stats import hypergeom

from reference.urn import urn_masses


def threshold_decision(wins: list[Fraction], alpha: Fraction) -> int:
    """The class whose probability exceeds α, or -1."""
    leader = wins.index(max(wins))
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
    if table.kind == "ternary":
        return int(table.stops.decision[ternary_states(table.n_trees)[asked, counts[0], counts[1]]])
    order = sorted(range(len(counts)), key=lambda index: (-counts[index], index))
    most, next_most = counts[order[0]], counts[order[1]]
    if most >= table.stops.upper[most + next_most]:
        return order[0]
    return settled(counts, table.n_trees - asked)


@cache
def ternary_states(n_trees: int) -> dict[tuple[int, int, int], int]:
    """Place of each state (trees asked, votes for class 0, votes for class 1) in their order."""
    states = ((t, a, b) for t in range(n_trees + 1) for a in range(t + 1) for b in range(t + 1 - a))
    return {state: place for place, state in enumerate(states)}


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


def disagreement_of_tally(lower: list[int], upper: list[int], tally: int) -> float:
    """P(wrong answer | final tally), forward through the tree of votes."""
    n_trees = len(lower) - 1
    going = {0: 1.0}
    wrong = 0.0
    for asked in range(1, n_trees + 1):
        arrived: dict[int, float] = {}
        for count, share in going.items():
            one = (tally - count) / (n_trees - asked + 1)
            for next_count, next_share in ((count + 1, share * one), (count, share * (1.0 - one))):
                arrived[next_count] = arrived.get(next_count, 0.0) + next_share
        going = {}
        for count, share in arrived.items():
            if count <= lower[asked]:
                wrong += share * (2 * tally > n_trees)
            elif count >= upper[asked]:
                wrong += share * (2 * tally <= n_trees)
            else:
                going[count] = share
    return wrong


def least_cost(prior: list[float], penalty: float) -> float:
    """Fewest expected trees + penalty · disagreement over all stops whatever, from the sums over the tallies."""
    n_trees = len(prior) - 1
    exact = [Fraction(weight) for weight in prior]
    following: dict[int, float] = {}
    for asked in range(n_trees, -1, -1):
        here = {}
        for count in range(asked + 1):
            wins = [float(mass) for mass in urn_masses(exact, asked, count)]
            mass = sum(wins)
            go_on = math.inf
            if asked < n_trees:
                # Each order of the first votes is as likely as any other with the same tally.
                share_1, share_0 = (count + 1) / (asked + 1), (asked + 1 - count) / (asked + 1)
                go_on = following[count + 1] * share_1 + following[count] * share_0
            stop_now = penalty * min(wins) + asked * mass if asked else math.inf
            here[count] = min(go_on, stop_now)
        following = here
    return following[0]


def robust_program(prior: np.ndarray, alpha: float) -> float:
    """Fewest expected trees of randomised stops by the linear program over all tallies, written out in full."""
    n_trees = len(prior) - 1
    states = [(t, n) for t in range(n_trees + 1) for n in range(t + 1)]
    place = {state: i for i, state in enumerate(states)}
    # Per state: the share of its vote orders that arrive, stop with class 0, and stop with class 1.
    arrive, stop_0, stop_1 = (len(states) * k for k in range(3))
    flow, right = lil_matrix((len(states), 3 * len(states))), np.zeros(len(states))
    errors, cost = lil_matrix((n_trees + 1, 3 * len(states))), np.zeros(3 * len(states))
    upper = np.ones(3 * len(states))
    ends = lil_matrix((len(states), 3 * len(states)))
    for (t, n), i in place.items():
        flow[i, arrive + i] = 1.0
        right[i] = t == 0
        for before, share in (((t - 1, n), (t - n) / max(t, 1)), ((t - 1, n - 1), n / max(t, 1))):
            if before in place:
                for variable, sign in ((arrive, -share), (stop_0, share), (stop_1, share)):
                    flow[i, variable + place[before]] = sign
        ends[i, [arrive + i, stop_0 + i, stop_1 + i]] = [-1.0, 1.0, 1.0]
        if t == 0:
            upper[[stop_0, stop_1]] = 0.0
        if t == n_trees:
            upper[(stop_1 if 2 * n <= n_trees else stop_0) + i] = 0.0
        for tally in range(n_trees + 1):
            chance = hypergeom.pmf(n, n_trees, tally, t)
            errors[tally, (stop_0 if 2 * tally > n_trees else stop_1) + i] = chance
            # Every state that is not left by a stop asks one more tree.
            for variable, sign in ((arrive, 1.0), (stop_0, -1.0), (stop_1, -1.0)):
                cost[variable + i] += sign * chance * prior[tally] * (t < n_trees)
    found = linprog(
        cost,
        A_ub=vstack([errors, ends]).tocsr(),
        b_ub=np.concatenate([np.full(n_trees + 1, 1.0 - alpha), np.zeros(len(states))]),
        A_eq=flow.tocsr(),
        b_eq=right,
        bounds=np.stack([np.zeros_like(upper), upper], axis=1),
        method="highs",
    )
    return float(found.fun)


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
