"""The formulas once more, as slowly and plainly as possible; every fast path is tested against these."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import xgboost as xgb
from scipy.optimize import linprog
from scipy.sparse import lil_matrix, vstack
from scipy.stats import binom, binomtest, chi2, hypergeom, multinomial


def class_probability(n_trees: int, pi: float) -> float:
    """Equation (7) as a sum of the binomial, in exact integers."""
    return float(_majority(n_trees, pi))


def disagreement(n_trees: int, pi: float) -> float:
    """One minus equation (9); the infinite forest predicts class 1 where π > 1/2."""
    class_1 = _majority(n_trees, pi)
    return float(1 - class_1 if pi > 0.5 else class_1)


def _majority(n_trees: int, pi: float) -> Fraction:
    numerator, denominator = pi.as_integer_ratio()
    ways = sum(
        math.comb(n_trees, votes) * numerator**votes * (denominator - numerator) ** (n_trees - votes)
        for votes in range(n_trees // 2 + 1, n_trees + 1)
    )
    return Fraction(ways, denominator**n_trees)


def ensemble_size(alpha: float, pis: list[float], largest: int = 2001) -> float:
    """T*(α) by trying every odd size."""
    for n_trees in range(1, largest + 1, 2):
        if np.mean([1.0 - disagreement(n_trees, pi) for pi in pis]) >= alpha - 1e-14:
            return n_trees
    return math.inf


def histogram(counts: np.ndarray) -> dict[tuple[int, int], int]:
    """Rows of each (votes for class 1, trees asked)."""
    cells: dict[tuple[int, int], int] = {}
    for against, for_class_1 in counts.tolist():
        if against + for_class_1 > 0:
            cell = (for_class_1, against + for_class_1)
            cells[cell] = cells.get(cell, 0) + 1
    return cells


def winner(counts: np.ndarray) -> list[int]:
    """Index of the class with the most votes, the lowest where they tie."""
    return [max(range(len(row)), key=lambda index: (row[index], -index)) for row in counts.tolist()]


def lightgbm_inbag(n_trees: int, n_rows: int, seed: int, fraction: float) -> np.ndarray:
    """LightGBM's bags, one draw at a time."""
    inbag = np.zeros((n_trees, n_rows), dtype=bool)
    states = [(seed + block) % 2**32 for block in range((n_rows + 1023) // 1024)]
    for tree in range(n_trees):
        for row in range(n_rows):
            state = (214013 * states[row // 1024] + 2531011) % 2**32
            states[row // 1024] = state
            inbag[tree, row] = (state >> 16 & 0x7FFF) / 32768 < fraction
    return inbag


def xgboost_inbag(model: Any, n_rows: int, seed: int, subsample: float, **growth: Any) -> np.ndarray:
    """XGBoost's bags in the order of the model's trees, one draw at a time."""
    trees = json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    places, place = [], 0
    for tree in trees:
        places.append(place)
        place += 1 + xgboost_column_draws(tree, **growth)
    if tuple(int(part) for part in xgb.__version__.split(".")[:2]) < (3, 3):
        places = list(range(1, len(trees) + 1))
    outputs = np.random.RandomState(seed).randint(0, 2**32, size=places[-1] + 1, dtype=np.uint32)
    inbag = np.zeros((len(trees), n_rows), dtype=bool)
    for index, place in enumerate(places):
        state = int(outputs[place])
        for row in range(n_rows):
            state = 16807 * state % 2**63
            inbag[index, row] = state / 2**63 < float(np.float32(subsample))
    return inbag


def xgboost_column_draws(
    tree: dict[str, Any], *, bytree: bool = False, bylevel: bool = False, bynode: bool = False, max_depth: int = 0
) -> int:
    """Times that XGBoost sampled columns for a tree grown without a limit on its leaves."""
    tried = [0]  # depths of the nodes it tried to split

    def descend(node: int, depth: int) -> None:
        left, right = tree["left_children"][node], tree["right_children"][node]
        if left == -1:
            return
        if max_depth == 0 or depth + 1 < max_depth:
            tried.extend([depth + 1, depth + 1])
        descend(left, depth + 1)
        descend(right, depth + 1)

    descend(0, 0)
    return bytree + bylevel * len(set(tried)) + bynode * len(tried)


def votes(tree_labels: np.ndarray, n_classes: int, inbag: np.ndarray | None = None) -> np.ndarray:
    """Counts per row and class from each tree's label, shape (n_trees, n_rows)."""
    counts = np.zeros((tree_labels.shape[1], n_classes), dtype=int)
    for tree in range(tree_labels.shape[0]):
        for row in range(tree_labels.shape[1]):
            if inbag is None or not inbag[tree, row]:
                counts[row, tree_labels[tree, row]] += 1
    return counts


def urn_masses(prior: list[Fraction], asked: int, count: int) -> tuple[Fraction, Fraction]:
    """P(``count`` of the first ``asked`` votes are for class 1, and class 0, or 1, wins), as sums over the tallies."""
    n_trees = len(prior) - 1
    wins = [Fraction(0), Fraction(0)]
    for tally, weight in enumerate(prior):
        if count <= tally and asked - count <= n_trees - tally:
            ways = math.comb(tally, count) * math.comb(n_trees - tally, asked - count)
            wins[2 * tally > n_trees] += weight * Fraction(ways, math.comb(n_trees, asked))
    return wins[0], wins[1]


def ternary_masses(prior: dict[tuple[int, ...], Fraction], counts: tuple[int, ...]) -> list[Fraction]:
    """P(the first votes are ``counts``, and class k wins), for each of three classes."""
    wins = [Fraction(0)] * 3
    for tally, weight in prior.items():
        ways = math.prod(math.comb(full, some) for full, some in zip(tally, counts, strict=True))
        wins[tally.index(max(tally))] += weight * Fraction(ways, math.comb(sum(tally), sum(counts)))
    return wins


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


def smoothed(
    histogram: dict[tuple[int, ...], float], tallies: list[tuple[int, ...]], reach: int = 2
) -> dict[tuple[int, ...], float]:
    """Every tally's weight spread evenly over the tallies at most ``reach`` votes of any class away."""
    spread = dict.fromkeys(tallies, 0.0)
    for tally, weight in histogram.items():
        window = [other for other in tallies if max(abs(a - b) for a, b in zip(tally, other, strict=True)) <= reach]
        for other in window:
            spread[other] += weight / len(window)
    total = sum(spread.values())
    return {tally: weight / total for tally, weight in spread.items()}


def scaled_tally(votes_of_class: int, asked: int, n_trees: int) -> int:
    """The whole number nearest to the fraction of ``n_trees``, halves downwards."""
    return math.ceil(Fraction(votes_of_class * n_trees, asked) - Fraction(1, 2))


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


def prefix_majority(votes: list[int], voters: list[bool]) -> list[int | None]:
    """Winner after each tree among the votes that count; ties to the lowest class, None without a vote."""
    winners: list[int | None] = []
    for n in range(1, len(votes) + 1):
        cast = [vote for vote, counts in zip(votes[:n], voters, strict=False) if counts]
        winners.append(min(set(cast), key=lambda k: (-cast.count(k), k)) if cast else None)
    return winners


def mcnemar(b: int, c: int) -> float:
    """Two-sided p: b and c are the rows that only one of the two gets right."""
    if b == c:
        return 1.0
    if b + c < 20:
        return float(binomtest(b, b + c, 0.5).pvalue)
    return float(chi2.sf((abs(b - c) - 1) ** 2 / (b + c), df=1))


def mcnemar_sizes(votes: np.ndarray, y: np.ndarray, sizes: list[int]) -> dict[tuple[int, int], tuple[float, bool]]:
    """p, and whether the larger is the better, of all pairs of sizes."""
    winners = [prefix_majority(row, [True] * len(row)) for row in votes.tolist()]
    found = {}
    for m in sizes:
        for n in sizes:
            b = sum(row[m - 1] == label != row[n - 1] for row, label in zip(winners, y.tolist(), strict=True))
            c = sum(row[n - 1] == label != row[m - 1] for row, label in zip(winners, y.tolist(), strict=True))
            found[m, n] = (mcnemar(b, c), c > b)
    return found


def mcnemar_size(votes: np.ndarray, y: np.ndarray, sizes: list[int], level: float) -> int:
    """The smallest size that no larger one beats."""
    pairs = mcnemar_sizes(votes, y, sizes)

    def beats(n: int, m: int) -> bool:
        p, better = pairs[m, n]
        return p < level and better

    return next(m for m in sizes if not any(beats(n, m) for n in sizes if n > m))


def mcnemar_growing(votes: np.ndarray, y: np.ndarray, sizes: list[int], level: float, patience: int) -> tuple[int, int]:
    """The incremental variant, size by size: the answer, and the size at which growth stopped."""
    for i in range(1, len(sizes) + 1):
        smallest = mcnemar_size(votes, y, sizes[:i], level)
        if sum(size > smallest for size in sizes[:i]) >= patience:
            return smallest, sizes[i - 1]
    return smallest, sizes[-1]


def prefix_accuracy(votes: np.ndarray, y: np.ndarray, inbag: np.ndarray | None) -> list[Fraction]:
    """Accuracy of the first 1, 2, … trees, on the rows on which any of them may vote."""
    out = np.ones(votes.shape, dtype=bool) if inbag is None else ~inbag.T
    winners = [prefix_majority(row, may) for row, may in zip(votes.tolist(), out.tolist(), strict=True)]
    found = []
    for n in range(votes.shape[1]):
        known = [(row[n], label) for row, label in zip(winners, y.tolist(), strict=True) if row[n] is not None]
        found.append(Fraction(sum(winner == label for winner, label in known), len(known)))
    return found


def banfield(accuracy: list[Fraction], window: int, batch: int) -> tuple[int, int | None]:
    """The size chosen, and the trees grown when the rule stopped (None where the trees ran out)."""
    smoothed = []
    for n in range(1, len(accuracy) + 1):
        last = accuracy[max(0, n - window) : n]
        smoothed.append(sum(last) / len(last))
    starts = range(0, len(accuracy) - batch + 1, batch)
    for before, start in pairwise(starts):
        if max(smoothed[start : start + batch]) <= max(smoothed[before : before + batch]):
            return max(range(before, before + batch), key=lambda i: (accuracy[i], -i)) + 1, start + batch
    return max(range(starts[-1], starts[-1] + batch), key=lambda i: (accuracy[i], -i)) + 1, None


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


def cross_validated_votes(forest: Any, X: Any, y: Any, weight: Any, n_folds: int, n_trees: int) -> list[list[int]]:
    """Votes on each row by scikit-learn trees of a forest that was trained on the other (stratified) folds."""
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    classes = sorted(set(y.tolist()))
    counts = [[0] * len(classes) for _ in y]
    for train, held_out in StratifiedKFold(n_folds).split(X, y):
        trained = clone(forest).set_params(n_estimators=n_trees).fit(X[train], y[train], weight[train])
        for tree in trained.estimators_:
            for row, label in zip(held_out, tree.predict(X[held_out]), strict=True):
                counts[row][classes.index(trained.classes_[int(label)])] += 1
    return counts
