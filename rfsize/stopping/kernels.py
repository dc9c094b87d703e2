"""The compiled loops over the urn's lattice of tallies, and nothing else.

Each goes back from all T votes to none in place, one row per mass, so that memory is O(T) for two classes and
O(T²) for three. ``wins_0`` and ``wins_1`` are the masses of `rfsize.stopping.urn`; a stop that answers class 0 is wrong
on the mass ``wins_1``, and the other way round. Imported only when a table is built or read, since numba is.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rfsize.stopping import stops
from rfsize.utils.jit import compiled
from rfsize.utils.typing import Floats, Int32s

Decisions = NDArray[np.int8]

ternary_index = compiled(stops.ternary_index)


@compiled
def _support(row: Floats) -> tuple[int, int]:
    """First and last index that is not 0; an empty range where all are."""
    first, last = 0, len(row) - 1
    while first <= last and row[first] == 0.0:
        first += 1
    while last >= first and row[last] == 0.0:
        last -= 1
    return first, last


@compiled
def _step_back(row: Floats, asked: int, first: int, last: int) -> None:
    """From the layer of ``asked`` + 1 votes to that of ``asked``, for the tallies from first to last."""
    share = 1.0 / (asked + 1)
    for n in range(first, last + 1):
        row[n] = (row[n + 1] * (n + 1) + row[n] * (asked + 1 - n)) * share


@compiled
def _padded(row: Floats) -> Floats:
    padded = np.zeros(len(row) + 1)
    padded[:-1] = row
    return padded


@compiled
def threshold_bounds(wins_0: Floats, wins_1: Floats, alpha: float, lower: Int32s, upper: Int32s) -> None:
    """Widen ``lower`` and ``upper``, the lossless bounds, to all tallies whose leader's probability exceeds α.

    The probability that class 1 wins grows with its votes over the tallies that can occur, so the stops are
    found from outside in; a tally that cannot occur stops only beyond one that can and does.
    """
    n_trees = len(wins_0) - 1
    first_0, last_0 = _support(wins_0)
    first_1, last_1 = _support(wins_1)
    zero, one = _padded(wins_0), _padded(wins_1)
    for asked in range(n_trees - 1, 0, -1):
        left = n_trees - asked
        _step_back(zero, asked, max(0, first_0 - left), min(asked, last_0))
        _step_back(one, asked, max(0, first_1 - left), min(asked, last_1))
        low, high = lower[asked], upper[asked]
        for n in range(low + 1, high):
            if zero[n] + one[n] == 0.0:
                continue
            if zero[n] < one[n] or not zero[n] > alpha * (zero[n] + one[n]):
                break
            low = n
        for n in range(high - 1, low, -1):
            if zero[n] + one[n] == 0.0:
                continue
            if one[n] <= zero[n] or not one[n] > alpha * (zero[n] + one[n]):
                break
            high = n
        lower[asked], upper[asked] = low, high


@compiled
def binary_outcome(wins_0: Floats, wins_1: Floats, lower: Int32s, upper: Int32s, alpha: float) -> Floats:
    """Mass answered 0 and answered 1 wrongly, expected trees, and unsettled mass, under the prior.

    Unsettled rows are answered as the whole forest would, since the remaining votes cannot change that, while
    no class exceeds α.
    """
    n_trees = len(wins_0) - 1
    half = n_trees // 2
    first_0, last_0 = _support(wins_0)
    first_1, last_1 = _support(wins_1)
    zero, one = _padded(wins_0), _padded(wins_1)
    wrong_0 = np.zeros(n_trees + 2)
    wrong_1 = np.zeros(n_trees + 2)
    trees = np.zeros(n_trees + 2)
    unsettled = np.zeros(n_trees + 2)
    for asked in range(n_trees - 1, -1, -1):
        first, last = max(lower[asked] + 1, 0), min(upper[asked] - 1, asked)
        for n in range(first, last + 2):
            if lower[asked + 1] < n < upper[asked + 1]:
                continue
            mass = zero[n] + one[n]
            answers_0 = n <= lower[asked + 1]
            wrong_0[n] = one[n] if answers_0 else 0.0
            wrong_1[n] = 0.0 if answers_0 else zero[n]
            trees[n] = (asked + 1) * mass
            decided = n > half or n + n_trees - asked - 1 <= half
            unsettled[n] = mass if decided and max(zero[n], one[n]) <= alpha * mass else 0.0
        _step_back(wrong_0, asked, first, last)
        _step_back(wrong_1, asked, first, last)
        _step_back(trees, asked, first, last)
        _step_back(unsettled, asked, first, last)
        left = n_trees - asked
        _step_back(zero, asked, max(0, first_0 - left), min(asked, last_0))
        _step_back(one, asked, max(0, first_1 - left), min(asked, last_1))
    return np.array([wrong_0[0], wrong_1[0], trees[0], unsettled[0]])


@compiled
def cheapest_bounds(
    prior: Floats,
    wins_0: Floats,
    wins_1: Floats,
    penalty_0: Floats,
    penalty_1: Floats,
    lower: Int32s,
    upper: Int32s,
) -> Floats:
    """The stops that minimise expected trees plus penalised errors, for several penalties in one pass.

    Backward induction: a tally stops where the penalty on answering now is at most the expected cost of going
    on. Where both tallies that a tally leads to answer alike, answering at once makes the same errors with
    fewer trees; so each layer's region of going on is that of the next, widened by one, or less, and only it
    is visited. Stops are found from outside in, which keeps both regions intervals.

    Parameters
    ----------
    prior : ndarray, shape (T + 1,)
        Weights of the final tallies, under which trees are counted.
    wins_0, wins_1 : ndarray, shape (T + 1,)
        Masses on which answering class 1, or class 0, is wrong.
    penalty_0, penalty_1 : ndarray, shape (n,)
        Trees that one unit of wrong answers 0, or 1, is worth.
    lower, upper : ndarray of int32, shape (n, T + 1)
        The lossless bounds; overwritten with the result for each penalty.

    Returns
    -------
    ndarray, shape (n, 3)
        Mass answered 0 wrongly, mass answered 1 wrongly, expected trees.
    """
    n_trees = len(prior) - 1
    first_p, last_p = _support(prior)
    first_0, last_0 = _support(wins_0)
    first_1, last_1 = _support(wins_1)
    mass, zero, one = _padded(prior), _padded(wins_0), _padded(wins_1)
    errors_0 = np.zeros((len(penalty_0), n_trees + 2))
    errors_1 = np.zeros((len(penalty_0), n_trees + 2))
    trees = np.zeros((len(penalty_0), n_trees + 2))
    for which in range(len(penalty_0)):
        low, high = lower[which, n_trees], upper[which, n_trees]
        errors_0[which, low], errors_1[which, high] = one[low], zero[high]
        trees[which, low], trees[which, high] = n_trees * mass[low], n_trees * mass[high]
    for asked in range(n_trees - 1, -1, -1):
        left = n_trees - asked
        _step_back(mass, asked, max(0, first_p - left), min(asked, last_p))
        _step_back(zero, asked, max(0, first_0 - left), min(asked, last_0))
        _step_back(one, asked, max(0, first_1 - left), min(asked, last_1))
        for which in range(len(penalty_0)):
            wrong_0, wrong_1, cost = errors_0[which], errors_1[which], trees[which]
            first, last = max(0, lower[which, asked + 1]), min(asked, upper[which, asked + 1] - 1)
            if asked == 0:
                first, last = 0, 0
            _step_back(wrong_0, asked, first, last)
            _step_back(wrong_1, asked, first, last)
            _step_back(cost, asked, first, last)
            if asked == 0:
                continue
            low, high = max(lower[which, asked], first - 1), min(upper[which, asked], last + 1)
            by_0, by_1 = penalty_0[which], penalty_1[which]
            for n in range(low + 1, high):
                if one[n] > zero[n]:
                    break
                if mass[n] == 0.0:
                    continue
                go_on = by_0 * wrong_0[n] + by_1 * wrong_1[n] + cost[n]
                if by_0 * one[n] + asked * mass[n] > go_on:
                    break
                low = n
            for n in range(high - 1, low, -1):
                if zero[n] > one[n]:
                    break
                if mass[n] == 0.0:
                    continue
                go_on = by_0 * wrong_0[n] + by_1 * wrong_1[n] + cost[n]
                if zero[n] == one[n] or by_1 * zero[n] + asked * mass[n] > go_on:
                    break
                high = n
            # Going on from no votes is never pruned: it reads both tallies of one vote.
            for n in range(max(low, 0) if asked > 1 else 0, low + 1):
                wrong_0[n], wrong_1[n], cost[n] = one[n], 0.0, asked * mass[n]
            for n in range(high, min(high, asked) + 1 if asked > 1 else 2):
                wrong_0[n], wrong_1[n], cost[n] = 0.0, zero[n], asked * mass[n]
            lower[which, asked], upper[which, asked] = low, high
    return np.stack((errors_0[:, 0], errors_1[:, 0], trees[:, 0]), axis=1)


@compiled
def _arrivals(lower: Int32s, upper: Int32s) -> Floats:
    """Share of the vote orders of the tallies lower + 1, and upper - 1, that stop nowhere before; (2, T + 1)."""
    n_trees = len(lower) - 1
    found = np.zeros((2, n_trees + 1))
    going = np.zeros(n_trees + 2)
    going[0] = 1.0
    for asked in range(1, n_trees):
        share = 1.0 / asked
        for n in range(min(asked, upper[asked - 1]), max(lower[asked - 1], -1), -1):
            before = going[n - 1] * n if n > 0 else 0.0
            going[n] = (before + going[n] * (asked - n)) * share
        if lower[asked] + 1 < upper[asked]:
            found[0, asked], found[1, asked] = going[lower[asked] + 1], going[upper[asked] - 1]
        for n in range(max(lower[asked - 1] + 1, 0), min(asked, upper[asked - 1]) + 1):
            if n <= lower[asked] or n >= upper[asked]:
                going[n] = 0.0
    return found


@compiled
def extensions(prior: Floats, wins_0: Floats, wins_1: Floats, lower: Int32s, upper: Int32s) -> tuple[Floats, Floats]:
    """What stopping at one more tally would change, for the innermost tally beside each bound.

    Returns
    -------
    outcome : ndarray, shape (3,)
        Mass answered 0 wrongly, mass answered 1 wrongly, expected trees.
    changes : ndarray, shape (2, T + 1, 3)
        Their changes if lower[t] were one more, or upper[t] one less; 0 where the two would meet.
    """
    n_trees = len(prior) - 1
    arrivals = _arrivals(lower, upper)
    changes = np.zeros((2, n_trees + 1, 3))
    mass, zero, one = _padded(prior), _padded(wins_0), _padded(wins_1)
    wrong_0 = np.zeros(n_trees + 2)
    wrong_1 = np.zeros(n_trees + 2)
    trees = np.zeros(n_trees + 2)
    for asked in range(n_trees - 1, -1, -1):
        first, last = max(lower[asked] + 1, 0), min(upper[asked] - 1, asked)
        for n in range(first, last + 2):
            if lower[asked + 1] < n < upper[asked + 1]:
                continue
            answers_0 = n <= lower[asked + 1]
            wrong_0[n] = one[n] if answers_0 else 0.0
            wrong_1[n] = 0.0 if answers_0 else zero[n]
            trees[n] = (asked + 1) * mass[n]
        for row in (wrong_0, wrong_1, trees):
            _step_back(row, asked, first, last)
        for row in (mass, zero, one):
            _step_back(row, asked, 0, asked)
        if asked == 0 or last < first:
            continue
        for side, n in ((0, first), (1, last)):
            share = arrivals[side, asked]
            changes[side, asked, 0] = share * ((one[n] if side == 0 else 0.0) - wrong_0[n])
            changes[side, asked, 1] = share * ((zero[n] if side == 1 else 0.0) - wrong_1[n])
            changes[side, asked, 2] = share * (asked * mass[n] - trees[n])
    return np.array([wrong_0[0], wrong_1[0], trees[0]]), changes


@compiled
def answers_by_tally(lower: Int32s, upper: Int32s) -> Floats:
    """Probability that class 0, and class 1, is answered, given each final tally; shape (2, T + 1).

    The share of a tally's vote orders that stop nowhere before goes forward; every stop then adds its share
    times the hypergeometric probability of its tally.
    """
    n_trees = len(lower) - 1
    log_factorial = np.array([math.lgamma(n + 1.0) for n in range(n_trees + 1)])
    answers = np.zeros((2, n_trees + 1))
    going = np.zeros(n_trees + 2)
    going[0] = 1.0
    for asked in range(1, n_trees + 1):
        share = 1.0 / asked
        for n in range(min(asked, upper[asked - 1]), max(lower[asked - 1], -1), -1):
            before = going[n - 1] * n if n > 0 else 0.0
            going[n] = (before + going[n] * (asked - n)) * share
        for n in range(max(lower[asked - 1] + 1, 0), min(asked, upper[asked - 1]) + 1):
            if going[n] == 0.0 or lower[asked] < n < upper[asked]:
                continue
            _add_stop(answers[1 if n >= upper[asked] else 0], log_factorial, asked, n, going[n])
            going[n] = 0.0
    return answers


@compiled
def _add_stop(answers: Floats, log_factorial: Floats, asked: int, n: int, share: float) -> None:
    """Add share · P(n of the first ``asked`` votes | final tally) to every final tally."""
    n_trees = len(answers) - 1
    ways = log_factorial[asked] - log_factorial[n] - log_factorial[asked - n] - log_factorial[n_trees]
    rest = n_trees - asked
    for tally in range(n, rest + n + 1):
        more = tally - n
        ways_on = log_factorial[rest] - log_factorial[more] - log_factorial[rest - more]
        answers[tally] += share * math.exp(ways + ways_on + log_factorial[tally] + log_factorial[n_trees - tally])


@compiled
def ternary_lossless(n_trees: int, asked: int, n_0: int, n_1: int) -> int:
    """The class that wins whatever the remaining votes are, or -1."""
    n_2 = asked - n_0 - n_1
    leader, most, rival, next_most = 0, n_0, 1, n_1
    if n_1 > most:
        leader, most, rival, next_most = 1, n_1, 0, n_0
    if n_2 > most:
        leader, most, rival, next_most = 2, n_2, leader, most
    elif n_2 > next_most:
        rival, next_most = 2, n_2
    ahead = most - next_most - (n_trees - asked)
    return leader if ahead > 0 or (ahead == 0 and leader < rival) else -1


@compiled
def _ternary_step_back(plane: Floats, asked: int) -> None:
    share = 1.0 / (asked + 1)
    for n_0 in range(asked + 1):
        for n_1 in range(asked + 1 - n_0):
            plane[n_0, n_1] = (
                plane[n_0 + 1, n_1] * (n_0 + 1)
                + plane[n_0, n_1 + 1] * (n_1 + 1)
                + plane[n_0, n_1] * (asked + 1 - n_0 - n_1)
            ) * share


@compiled
def _ternary_padded(wins: Floats) -> Floats:
    padded = np.zeros((3, wins.shape[1] + 1, wins.shape[2] + 1))
    padded[:, :-1, :-1] = wins
    return padded


@compiled
def lossless_decisions(n_trees: int, decision: Decisions) -> None:
    """Fill in the earliest stops that never change the outcome; -1 elsewhere."""
    for asked in range(n_trees + 1):
        for n_0 in range(asked + 1):
            for n_1 in range(asked + 1 - n_0):
                decision[ternary_index(asked, n_0, n_1)] = ternary_lossless(n_trees, asked, n_0, n_1)


@compiled
def _leader(wins: Floats, n_0: int, n_1: int) -> int:
    """The most probable class, the lowest index where they tie."""
    leader = 1 if wins[1, n_0, n_1] > wins[0, n_0, n_1] else 0
    return 2 if wins[2, n_0, n_1] > wins[leader, n_0, n_1] else leader


@compiled
def threshold_decisions(wins: Floats, alpha: float, decision: Decisions) -> None:
    """Add to ``decision``, the lossless stops, all states whose leader's probability exceeds α."""
    masses = _ternary_padded(wins)
    for asked in range(wins.shape[1] - 2, 0, -1):
        for plane in range(3):
            _ternary_step_back(masses[plane], asked)
        for n_0 in range(asked + 1):
            for n_1 in range(asked + 1 - n_0):
                index = ternary_index(asked, n_0, n_1)
                mass = masses[0, n_0, n_1] + masses[1, n_0, n_1] + masses[2, n_0, n_1]
                leader = _leader(masses, n_0, n_1)
                if decision[index] < 0 and masses[leader, n_0, n_1] > alpha * mass:
                    decision[index] = leader


@compiled
def cheapest_decisions(wins: Floats, penalty: float, decision: Decisions) -> tuple[float, float]:
    """The stops that minimise expected trees plus penalised errors, by backward induction.

    ``decision`` holds the lossless stops and is overwritten. Returns the mass answered wrongly, and the
    expected trees.
    """
    n_trees = wins.shape[1] - 1
    masses = _ternary_padded(wins)
    wrong = np.zeros((n_trees + 2, n_trees + 2))
    trees = np.zeros((n_trees + 2, n_trees + 2))
    for asked in range(n_trees, -1, -1):
        if asked < n_trees:
            for plane in range(3):
                _ternary_step_back(masses[plane], asked)
            _ternary_step_back(wrong, asked)
            _ternary_step_back(trees, asked)
        for n_0 in range(asked + 1):
            for n_1 in range(asked + 1 - n_0):
                index = ternary_index(asked, n_0, n_1)
                answer = decision[index]
                mass = masses[0, n_0, n_1] + masses[1, n_0, n_1] + masses[2, n_0, n_1]
                if answer < 0 and mass > 0.0 and asked > 0:
                    leader = _leader(masses, n_0, n_1)
                    stop = penalty * (mass - masses[leader, n_0, n_1]) + asked * mass
                    if stop <= penalty * wrong[n_0, n_1] + trees[n_0, n_1]:
                        answer = leader
                        decision[index] = leader
                if answer >= 0:
                    wrong[n_0, n_1] = mass - masses[answer, n_0, n_1]
                    trees[n_0, n_1] = asked * mass
    return wrong[0, 0], trees[0, 0]


@compiled
def ternary_outcome(wins: Floats, decision: Decisions, alpha: float) -> Floats:
    """Mass answered wrongly, expected trees, and unsettled mass (see `binary_outcome`), under the prior."""
    n_trees = wins.shape[1] - 1
    masses = _ternary_padded(wins)
    wrong = np.zeros((n_trees + 2, n_trees + 2))
    trees = np.zeros((n_trees + 2, n_trees + 2))
    unsettled = np.zeros((n_trees + 2, n_trees + 2))
    for asked in range(n_trees, -1, -1):
        if asked < n_trees:
            for plane in range(3):
                _ternary_step_back(masses[plane], asked)
            _ternary_step_back(wrong, asked)
            _ternary_step_back(trees, asked)
            _ternary_step_back(unsettled, asked)
        for n_0 in range(asked + 1):
            for n_1 in range(asked + 1 - n_0):
                answer = decision[ternary_index(asked, n_0, n_1)]
                if answer < 0:
                    continue
                mass = masses[0, n_0, n_1] + masses[1, n_0, n_1] + masses[2, n_0, n_1]
                wrong[n_0, n_1] = mass - masses[answer, n_0, n_1]
                trees[n_0, n_1] = asked * mass
                uncertain = masses[answer, n_0, n_1] <= alpha * mass
                decided = ternary_lossless(n_trees, asked, n_0, n_1) >= 0
                unsettled[n_0, n_1] = mass if uncertain and decided else 0.0
    return np.array([wrong[0, 0], trees[0, 0], unsettled[0, 0]])
