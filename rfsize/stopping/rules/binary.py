"""Two classes: rows stop by their votes for class 1. Exact for any number of trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.stopping import urn
from rfsize.stopping.document import Fields, refuse
from rfsize.stopping.rules.base import Drawing, Figures
from rfsize.stopping.rules.exact import ExactStops, search
from rfsize.stopping.rules.from_prior import ROUNDING
from rfsize.stopping.terms import Terms
from rfsize.utils.typing import Floats, Int64s
from rfsize.walking.c_text import array, part

# Most tallies that `extended` adds, and most states that it visits. Large forests come close to the bound without it.
_EXTENSIONS, _EXTENSION_WORK = 100, 50_000_000

# Column generation ends at this relative gap between the best table and the Lagrangian bound, or after this many
# rounds, because a small forest has no table that close.
_GAP, _MOST_COLUMNS = 2e-4, 40
# Column generation starts from a `search` with this many halvings.
_HALVINGS = 12

_ANSWER = """    const int look = (asked + EVERY - 1) / EVERY;
    return votes[1] <= lower[look] ? 0 : votes[1] >= upper[look] ? 1 : -1;
"""


@dataclass(frozen=True, eq=False)
class BinaryStops(ExactStops):
    """After t trees with n votes for class 1, stop with class 0 if n ≤ lower[t], with class 1 if n ≥ upper[t].

    Attributes
    ----------
    lower, upper : ndarray of int32, shape (T + 1,)
        −1 ≤ lower[t] < upper[t] ≤ t + 1. No row stops at t = 0. Every row stops at t = T, where a tie goes to
        class 0: lower[T] = ⌊T/2⌋, upper[T] = ⌊T/2⌋ + 1.
    """

    kind = "binary"
    rules = ("threshold", "optimal", "robust")
    stored = ("lower", "upper")
    ways = 16

    lower: NDArray[np.int32]
    upper: NDArray[np.int32]

    @classmethod
    def fits(cls, n_trees: int, n_classes: int) -> bool:
        return n_classes == 2

    @classmethod
    def build(cls, terms: Terms) -> BinaryStops:
        if terms.rule != "robust" or terms.built_for == 1.0:
            return super().build(terms)
        return robust(urn.uniform_prior(terms.n_trees, 2) if terms.prior is None else terms.prior, terms.built_for)

    @classmethod
    def lossless(cls, n_trees: int) -> BinaryStops:
        return cls(*urn.lossless_bounds(n_trees))

    @classmethod
    def threshold(cls, wins: Floats, alpha: float) -> BinaryStops:
        lower, upper = urn.lossless_bounds(wins.shape[1] - 1)
        _core.threshold_bounds(wins[0], wins[1], alpha, lower, upper)
        return cls(lower, upper)

    @classmethod
    def cheapest(cls, wins: Floats, penalties: Floats) -> tuple[Floats, list[BinaryStops]]:
        found, stops = cheapest(wins.sum(axis=0), wins, penalties, penalties)
        return found[:, 0] + found[:, 1], stops

    @classmethod
    def optimal(cls, wins: Floats, alpha: float) -> BinaryStops:
        found = super().optimal(wins, alpha)
        return found.extended(wins.sum(axis=0), wins, lambda wrong: wrong.sum(axis=-1) <= 1.0 - alpha)

    def extended(self, prior: Floats, wins: Floats, within: Callable[[Floats], NDArray[np.bool_]]) -> BinaryStops:
        """Stop at more tallies, one at a time, while the errors stay within the bound.

        No penalty gives a table that meets the bound exactly. With few trees the nearest table can be far from it.
        """
        lower, upper = self.lower.copy(), self.upper.copy()
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
        return BinaryStops(lower, upper)

    def answers_of_block(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        count = np.cumsum(outputs == 1, axis=1, dtype=np.int32)
        stop = (count <= self.lower[1:]) | (count >= self.upper[1:])
        asked = stop.argmax(axis=1) + 1
        labels = count[np.arange(len(count)), asked - 1] >= self.upper[asked]
        return labels.astype(np.int64), asked.astype(np.int64)

    def outcome(self, wins: Floats, alpha: float) -> Figures:
        wrong_0, wrong_1, trees, unsettled = _core.binary_outcome(wins[0], wins[1], self.lower, self.upper, alpha)
        return Figures(float(wrong_0 + wrong_1), float(trees), float(unsettled))

    def by_tally(self, target: str) -> Floats:
        answered_0, answered_1 = _core.answers_by_tally(self.lower, self.upper)
        wins_0, wins_1 = urn.winning_masses(np.ones(len(self.lower)), target)
        return np.asarray(answered_0 * wins_1 + answered_1 * wins_0)

    def promised(self, terms: Terms) -> float:
        return self.worst() if terms.rule == "robust" else super().promised(terms)

    def worst(self) -> float:
        """The largest disagreement with all trees, over the final tallies."""
        return float(self.by_tally("forest").max())

    def to_dict(self) -> dict[str, Any]:
        return {"lower": self.lower.tolist(), "upper": self.upper.tolist()}

    @classmethod
    def from_fields(cls, fields: Fields, n_trees: int, n_classes: int) -> BinaryStops:
        lower, upper = (fields.numbers(name, int, n_trees + 1) for name in ("lower", "upper"))
        if not ((lower >= -1) & (lower < upper) & (upper <= np.arange(n_trees + 1) + 1)).all():
            refuse("the bounds must satisfy -1 <= lower < upper <= trees asked + 1")
        half = n_trees // 2
        if (lower[0], upper[0], lower[-1], upper[-1]) != (-1, 1, half, half + 1):
            refuse("the bounds must stop no row before the first tree, and every row at its majority after the last")
        return cls(lower.astype(np.int32), upper.astype(np.int32))

    def native(self, every: int) -> _core.VoteStop:
        return _core.BinaryStop(self.lower, self.upper, every)

    def answer_in_c(self, every: int) -> str:
        n_trees = len(self.lower) - 1
        looks = np.minimum(np.arange(0, n_trees + every, every), n_trees)
        return (
            array("lower", self.lower[looks])
            + array("upper", self.upper[looks])
            + part("answer_by_votes", body=_ANSWER)
        )

    def drawing(self, n_trees: int, classes: list[str]) -> Drawing:
        asked = np.arange(n_trees + 1)
        stops = {
            f"stop: {classes[1]}": np.where(self.upper <= asked, self.upper, np.nan),
            f"stop: {classes[0]}": np.where(self.lower >= 0, self.lower, np.nan),
        }
        going = np.maximum(self.lower, 0), np.minimum(self.upper, asked)
        half = "half of the votes", asked / 2.0
        return Drawing(asked, going, stops, "trees asked", f"votes for {classes[1]}", half)


def robust(prior: Floats, alpha: float) -> BinaryStops:
    """The fewest expected trees under the prior, with disagreement of at most 1 - α for every final tally.

    The stops are intervals, so one more vote for class 1 at any place of the order never makes the answer 0 more
    likely. Class 1 wins with ⌊T/2⌋ + 1 votes or more, and the answers are most often wrong at exactly ⌊T/2⌋ + 1.
    Class 0 wins with ⌊T/2⌋ votes or fewer, and its worst tally is ⌊T/2⌋. So two bounds replace all T + 1 in the linear
    program over vote orders. Column generation (Dantzig and Wolfe) solves this program. Its vertices are
    deterministic tables; one backward pass at the multipliers of the two bounds gives a table. HiGHS solves a
    master program over the tables found so far, which gives the next multipliers. The optimum mixes a few tables
    at random; the function returns the cheapest single table that keeps both bounds. The exact disagreement at
    every tally confirms that.
    """
    allowed, worst = (1.0 - alpha) * (1.0 + ROUNDING), _worst_tallies(len(prior) - 1)
    columns, tables = _robust_columns(prior, worst, 1.0 - alpha)
    for index in np.argsort(columns[:, 2], kind="stable"):
        if columns[index, :2].max() <= allowed:
            found = tables[index].extended(prior, worst, lambda wrong: wrong.max(axis=-1) <= allowed)
            if found.worst() <= allowed:
                return found
    return BinaryStops.lossless(len(prior) - 1)


def _worst_tallies(n_trees: int) -> Floats:
    """Masses of the largest tally at which class 0 wins, and of the smallest at which class 1 wins."""
    worst = np.zeros((2, n_trees + 1))
    worst[0, n_trees // 2] = worst[1, n_trees // 2 + 1] = 1.0
    return worst


def _robust_columns(prior: Floats, worst: Floats, allowed: float) -> tuple[Floats, list[BinaryStops]]:
    """The tables of the column generation, each with its two worst disagreements and its expected trees."""
    n_trees = len(prior) - 1
    tables = [BinaryStops.lossless(n_trees)]
    columns = [np.array([0.0, 0.0, tables[0].outcome(np.stack([prior, np.zeros_like(prior)]), 1.0).trees])]

    def solve(by_0: Floats, by_1: Floats) -> Floats:
        found, stops = cheapest(prior, worst, by_0, by_1)
        columns.extend(found)
        tables.extend(stops)
        return found

    def solve_alike(penalties: Floats) -> tuple[Floats, list[None]]:
        return solve(penalties, penalties)[:, :2].max(axis=1), [None] * len(penalties)

    # Equal multipliers are optimal for a symmetric prior, and a good start for any other.
    search(solve_alike, allowed, max(2.0, n_trees / allowed), BinaryStops.ways, _HALVINGS)
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
    """The penalties on the two disagreements at the optimum of the master program.

    None if α is so close to 1 that HiGHS cannot solve the program in double precision. The tables found so far then
    include the lossless one, which keeps any bound.
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


def cheapest(prior: Floats, wins: Floats, by_0: Floats, by_1: Floats) -> tuple[Floats, list[BinaryStops]]:
    """The cheapest stops for each pair of penalties on wrong answers, with their two errors and expected trees."""
    lower, upper = (np.tile(bound, (len(by_0), 1)) for bound in urn.lossless_bounds(len(prior) - 1))
    found = _core.cheapest_bounds(prior, wins[0], wins[1], by_0, by_1, lower, upper)
    return np.asarray(found), [BinaryStops(*bounds) for bounds in zip(lower, upper, strict=True)]
