"""The rules that fill a stop table: threshold, optimal and robust; see `rfsize.stopping.table.StopTable.build`.

The cheapest stops under a bound on the errors minimise expected trees + penalty · errors for some penalty
(Lagrange). One backward pass of a compiled loop (rfsize/_native/urn.hpp) minimises that for many penalties at once;
this module searches for the penalty, and keeps only what is proven to respect the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.stopping import urn
from rfsize.stopping.stops import MAX_TERNARY, ROUNDING, BinaryStops, LeaderStops, TernaryStops, VoteStops
from rfsize.stopping.urn import Bounds, lossless_bounds
from rfsize.utils.typing import Floats
from rfsize.utils.words import how_many

Table = TypeVar("Table")


# Penalties tried per pass, and passes, of `_search`: the last bracket is 16⁻⁶ of the first on a logarithmic scale.
_WAYS, _PASSES = 16, 6


# Single tallies by which a table is extended at most, and the states that may be visited for that: in large forests
# the bound is met closely enough without.
_EXTENSIONS, _EXTENSION_WORK = 100, 50_000_000


# Column generation ends at this gap, relative, between the best table and the Lagrangian bound, or after this many
# rounds: a small forest has no table that close.
_GAP, _MOST_COLUMNS = 2e-4, 40


def table_kind(n_trees: int, n_classes: int) -> str:
    """Which kind of stops a forest needs."""
    if n_classes == 2:
        return BinaryStops.kind
    return TernaryStops.kind if n_classes == 3 and n_trees <= MAX_TERNARY else LeaderStops.kind


def winning_masses(n_trees: int, n_classes: int, prior: Floats | None, target: str) -> Floats:
    """`urn.winning_masses` of a table's prior, None being uniform."""
    return urn.winning_masses(urn.uniform_prior(n_trees, n_classes) if prior is None else prior, target)


def built_stops(
    kind: str, n_trees: int, n_classes: int, alpha: float, prior: Floats | None, rule: str, target: str
) -> VoteStops:
    """The stops of a checked combination."""
    if kind == LeaderStops.kind:
        return leader_stops(n_trees, n_classes, alpha, prior)
    if alpha == 1.0:
        return lossless_stops(kind, n_trees)
    if rule == "robust":
        return BinaryStops(*robust_binary(urn.uniform_prior(n_trees, 2) if prior is None else prior, alpha))
    wins = winning_masses(n_trees, n_classes, prior, target)
    if kind == BinaryStops.kind:
        binary = threshold_binary if rule == "threshold" else optimal_binary
        return BinaryStops(*binary(wins, alpha))
    ternary = threshold_ternary if rule == "threshold" else optimal_ternary
    return TernaryStops(ternary(wins, alpha))


def lossless_stops(kind: str, n_trees: int) -> VoteStops:
    """The earliest stops that never change the outcome; where a leader cannot be overtaken is told without a table."""
    if kind == BinaryStops.kind:
        return BinaryStops(*urn.lossless_bounds(n_trees))
    if kind == TernaryStops.kind:
        return TernaryStops(lossless_ternary(n_trees))
    return _leader_ahead(n_trees)


def _leader_ahead(n_trees: int) -> LeaderStops:
    return LeaderStops(np.arange(1, n_trees + 2, dtype=np.int32))


def leader_stops(n_trees: int, n_classes: int, alpha: float, prior: Floats | None) -> LeaderStops:
    """Stops by the two leading classes, from the prior over their tally."""
    if alpha == 1.0:
        return _leader_ahead(n_trees)
    wins = winning_masses(n_trees, 2, prior, "forest")
    return LeaderStops(threshold_binary(wins, 1.0 - (1.0 - alpha) / (n_classes - 1))[1])


def threshold_binary(wins: Floats, alpha: float) -> Bounds:
    """Stop where the leader's probability exceeds α."""
    lower, upper = lossless_bounds(wins.shape[1] - 1)
    _core.threshold_bounds(wins[0], wins[1], alpha, lower, upper)
    return lower, upper


def threshold_ternary(wins: Floats, alpha: float) -> NDArray[np.int8]:
    """Stop where the leader's probability exceeds α, three classes."""
    decision = lossless_ternary(wins.shape[1] - 1)
    _core.threshold_decisions(wins, alpha, decision)
    return decision


def lossless_ternary(n_trees: int) -> NDArray[np.int8]:
    """The earliest three-class stops that never change the outcome."""
    decision = np.empty((n_trees + 1) * (n_trees + 2) * (n_trees + 3) // 6, dtype=np.int8)
    _core.lossless_decisions(n_trees, decision)
    return decision


def optimal_binary(wins: Floats, alpha: float) -> Bounds:
    """The fewest expected trees for expected disagreement of at most 1 - α.

    Raises
    ------
    ValueError
        If even all trees disagree more often, which only target="limit" allows.
    """

    def solve(penalties: Floats) -> tuple[Floats, list[Bounds]]:
        lower, upper = _copies(wins, len(penalties))
        found = _core.cheapest_bounds(wins.sum(axis=0), wins[0], wins[1], penalties, penalties, lower, upper)
        return found[:, 0] + found[:, 1], list(zip(lower, upper, strict=True))

    def outcome(bounds: Bounds) -> tuple[float, float]:
        wrong_0, wrong_1, trees, _ = _core.binary_outcome(wins[0], wins[1], *bounds, alpha)
        return wrong_0 + wrong_1, trees

    candidates = [lossless_bounds(wins.shape[1] - 1), threshold_binary(wins, alpha)]
    best = _optimal(wins, alpha, solve, outcome, candidates)
    return _extended(best, wins.sum(axis=0), wins, lambda wrong: wrong.sum(axis=-1) <= 1.0 - alpha)


def optimal_ternary(wins: Floats, alpha: float) -> NDArray[np.int8]:
    """The fewest expected trees for expected disagreement of at most 1 - α, three classes; errors as above."""
    lossless = lossless_ternary(wins.shape[1] - 1)

    def solve(penalties: Floats) -> tuple[Floats, list[NDArray[np.int8]]]:
        tables = [lossless.copy() for _ in penalties]
        errors = [
            _core.cheapest_decisions(wins, penalty, table)[0] for penalty, table in zip(penalties, tables, strict=True)
        ]
        return np.array(errors), tables

    def outcome(decision: NDArray[np.int8]) -> tuple[float, float]:
        wrong, trees, _ = _core.ternary_outcome(wins, decision, alpha)
        return wrong, trees

    return _optimal(wins, alpha, solve, outcome, [lossless, threshold_ternary(wins, alpha)], ways=2, passes=4 * _PASSES)


def _optimal(
    wins: Floats,
    alpha: float,
    solve: Callable[[Floats], tuple[Floats, list[Table]]],
    outcome: Callable[[Table], tuple[float, float]],
    candidates: list[Table],
    **search: int,
) -> Table:
    """The cheapest table within the bound among the candidates and those of the search."""
    whole_forest = float((wins.sum(axis=0) - wins.max(axis=0)).sum())
    allowed = 1.0 - alpha
    if whole_forest > allowed:
        raise ValueError(
            f"a forest of {how_many(wins.shape[1] - 1, 'tree')} disagrees with the infinite forest on "
            f"{whole_forest:.3%} of the rows under this prior, more than the {allowed:.3%} that "
            f"alpha={alpha!r} allows, so no table can keep its promise; use more trees (rfsize.size "
            "tells how many), a smaller alpha, or rule='threshold'"
        )
    # A stop is worth its error only if penalty · error is below the trees it saves, so this much is enough.
    largest = max(2.0, (wins.shape[1] - 1) / max(allowed - whole_forest, ROUNDING * allowed))
    found = _search(solve, allowed, largest, **search)
    outcomes = [(outcome(table), table) for table in [*candidates, *found]]
    return min(
        ((trees, table) for (wrong, trees), table in outcomes if wrong <= allowed * (1.0 + ROUNDING)),
        key=lambda pair: pair[0],
    )[1]


def _search(
    solve: Callable[[Floats], tuple[Floats, list[Table]]],
    allowed: float,
    largest: float,
    ways: int = _WAYS,
    passes: int = _PASSES,
) -> list[Table]:
    """Tables within the bound, for penalties ever closer to the smallest that gives one."""
    low, high = 1.0, largest
    penalties = np.geomspace(low, high, ways + 1)
    found = []
    for _ in range(passes):
        errors, tables = solve(penalties)
        first = int(np.argmax(np.append(errors, 0.0) <= allowed))
        if first < len(tables):
            found.append(tables[first])
            high = penalties[first]
        if first > 0:
            low = penalties[first - 1]
        elif low == high:
            break
        penalties = np.geomspace(low, high, ways + 1)[1:-1]
    return found


def _extended(bounds: Bounds, prior: Floats, wins: Floats, within: Callable[[Floats], NDArray[np.bool_]]) -> Bounds:
    """Use up what is left of the errors allowed: stop at one more tally as long as that keeps within the bound.

    No penalty gives a table that meets the bound exactly, and on a small lattice the next one is far away.
    """
    lower, upper = (bound.copy() for bound in bounds)
    for _ in range(min(_EXTENSIONS, _EXTENSION_WORK // len(prior) ** 2)):
        outcome, changes = _core.extensions(prior, wins[0], wins[1], lower, upper)
        saved = np.where(within(outcome[:2] + changes[..., :2]), -changes[..., 2], 0.0)
        side, asked = np.unravel_index(np.argmax(saved), saved.shape)
        if not saved[side, asked] > ROUNDING * outcome[2]:
            break
        if side == 0:
            lower[asked] += 1
        else:
            upper[asked] -= 1
    return lower, upper


def robust_binary(prior: Floats, alpha: float) -> Bounds:
    """The fewest expected trees under the prior, with disagreement of at most 1 - α for every final tally.

    With interval-shaped stops, one more vote for class 1 in any place of the order never makes an answer 0 more
    likely. So of all tallies where class 1 wins, the smallest, ⌊T/2⌋ + 1, has most wrong answers, and of those
    where class 0 wins the largest, ⌊T/2⌋: two bounds stand for all T + 1 of the linear program over vote orders.
    That program is solved by column generation (Dantzig and Wolfe): its vertices are deterministic tables, each
    from one backward pass at the multipliers of the two bounds, and a master program over the tables found so
    far, for HiGHS, gives the next multipliers. Its optimum mixes a few tables at random; the cheapest single
    table that keeps both bounds is taken, which the exact disagreement of every tally confirms.
    """
    allowed = (1.0 - alpha) * (1.0 + ROUNDING)
    columns, tables = _robust_columns(prior, 1.0 - alpha)
    for index in np.argsort(columns[:, 2], kind="stable"):
        if columns[index, :2].max() <= allowed:
            found = _extended(tables[index], prior, _worst_tallies(prior), lambda wrong: wrong.max(axis=-1) <= allowed)
            if largest_disagreement(found) <= allowed:
                return found
    return lossless_bounds(len(prior) - 1)


def _worst_tallies(prior: Floats) -> Floats:
    """Masses of the largest tally where class 0 wins, and of the smallest where class 1 does."""
    n_trees = len(prior) - 1
    worst = np.zeros((2, n_trees + 1))
    worst[0, n_trees // 2] = worst[1, n_trees // 2 + 1] = 1.0
    return worst


def _robust_columns(prior: Floats, allowed: float) -> tuple[Floats, list[Bounds]]:
    """Tables on the way to the optimum; of each, the two worst disagreements and the expected trees."""
    n_trees = len(prior) - 1
    worst = _worst_tallies(prior)
    lossless = lossless_bounds(n_trees)
    columns = [np.array([0.0, 0.0, _core.binary_outcome(prior, np.zeros_like(prior), *lossless, 1.0)[2]])]
    tables = [lossless]

    def solve(by_0: Floats, by_1: Floats) -> Floats:
        lower, upper = _copies(worst, len(by_0))
        found = _core.cheapest_bounds(prior, worst[0], worst[1], by_0, by_1, lower, upper)
        columns.extend(found)
        tables.extend(zip(lower, upper, strict=True))
        return np.asarray(found)

    def solve_alike(penalties: Floats) -> tuple[Floats, list[None]]:
        return solve(penalties, penalties)[:, :2].max(axis=1), [None] * len(penalties)

    # Equal multipliers are optimal for a symmetric prior, and a good start for any other.
    _search(solve_alike, allowed, max(2.0, n_trees / allowed), passes=_PASSES // 2)
    at_least = 0.0
    for _ in range(_MOST_COLUMNS):
        multipliers = _multipliers(np.array(columns), allowed)
        if multipliers is None:
            break
        by_0, by_1 = multipliers
        wrong_0, wrong_1, trees = solve(np.array([by_0]), np.array([by_1]))[0]
        at_least = max(at_least, trees + by_0 * (wrong_0 - allowed) + by_1 * (wrong_1 - allowed))
        fewest = min(column[2] for column in columns if column[:2].max() <= allowed)
        if fewest <= at_least * (1.0 + _GAP):
            break
    return np.array(columns), tables


def _multipliers(columns: Floats, allowed: float) -> tuple[float, float] | None:
    """Penalties on the two disagreements at which the best mixture of the tables is optimal among them.

    None where α is so close to 1 that HiGHS cannot solve the program in double precision; of the tables found so far
    the lossless one keeps any bound.
    """
    from scipy.optimize import linprog

    mixture = linprog(
        columns[:, 2],
        A_ub=columns[:, :2].T / allowed,
        b_ub=[1.0, 1.0],
        A_eq=np.ones((1, len(columns))),
        b_eq=[1.0],
        method="highs-ds",
    )
    if mixture.status != 0:
        return None
    by_0, by_1 = np.maximum(-mixture.ineqlin.marginals, 0.0) / allowed
    return float(by_0), float(by_1)


def largest_disagreement(bounds: Bounds) -> float:
    """The largest disagreement of any final tally, each computed exactly."""
    half = (len(bounds[0]) - 1) // 2
    answers = _core.answers_by_tally(*bounds)
    return float(max(answers[1, : half + 1].max(), answers[0, half + 1 :].max()))


def _copies(wins: Floats, n: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    lower, upper = lossless_bounds(wins.shape[1] - 1)
    return np.tile(lower, (n, 1)), np.tile(upper, (n, 1))
