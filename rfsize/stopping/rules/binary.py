"""Two classes: rows stop by their votes for class 1. Exact for any number of trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize._util import Floats, Int64s
from rfsize.counting.votes import Votes
from rfsize.statistics.certify import ClassCounts, ClassOutcome
from rfsize.stopping import urn
from rfsize.stopping.document import Fields, refuse
from rfsize.stopping.rules.base import Drawing
from rfsize.stopping.rules.from_prior import UrnStops, wins_of
from rfsize.stopping.terms import Terms
from rfsize.walking.c_text import array, part

_ANSWER = """    const int look = (asked + EVERY - 1) / EVERY;
    return votes[1] <= lower[look] ? 0 : votes[1] >= upper[look] ? 1 : -1;
"""


@dataclass(frozen=True, eq=False)
class BinaryStops(UrnStops):
    """After t trees with n votes for class 1, stop with class 0 if n ≤ lower[t], with class 1 if n ≥ upper[t].

    Attributes
    ----------
    lower, upper : ndarray of int32, shape (T + 1,)
        −1 ≤ lower[t] < t/2 < upper[t] ≤ t + 1 for t below T, because only the class that leads is answered. Every row
        stops at t = T, where a tie goes to class 0: lower[T] = ⌊T/2⌋, upper[T] = ⌊T/2⌋ + 1.
    """

    kind = "binary"
    stored = ("lower", "upper")

    lower: NDArray[np.int32]
    upper: NDArray[np.int32]

    @classmethod
    def fits(cls, n_trees: int, n_classes: int) -> bool:
        return n_classes == 2

    @classmethod
    def prior_from(cls, prior: Votes | ArrayLike, n_trees: int) -> Floats:
        return urn.votes_prior(prior, n_trees) if isinstance(prior, Votes) else urn.checked_prior(prior, n_trees)

    @classmethod
    def build(cls, terms: Terms) -> BinaryStops:
        return cls.of_wins(wins_of(terms), terms.built_for)

    @classmethod
    def of_wins(cls, wins: Floats, alpha: float) -> BinaryStops:
        """Stop when the class that leads wins with a probability above α, or can no longer lose."""
        lower, upper = urn.lossless_bounds(wins.shape[1] - 1)
        if alpha < 1.0:
            _core.threshold_bounds(wins[0], wins[1], alpha, lower, upper)
        return cls(lower, upper)

    @classmethod
    def lossless(cls, n_trees: int) -> BinaryStops:
        return cls(*urn.lossless_bounds(n_trees))

    def answers_of_block(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        count = np.cumsum(outputs == 1, axis=1, dtype=np.int32)
        stop = (count <= self.lower[1:]) | (count >= self.upper[1:])
        n_used = stop.argmax(axis=1) + 1
        labels = count[np.arange(len(count)), n_used - 1] >= self.upper[n_used]
        return labels.astype(np.int64), n_used.astype(np.int64)

    def by_class(self, terms: Terms, seen: ClassCounts | None) -> list[ClassOutcome]:
        """The counts on rows, or for each class the exact figures of the mass on which it wins."""
        if seen is not None:
            return super().by_class(terms, seen)
        outcomes = []
        for index, (label, wins) in enumerate(zip(terms.class_labels, wins_of(terms), strict=True)):
            of_class = np.zeros((2, len(wins)))
            of_class[index] = wins
            share = float(wins.sum())
            wrong_0, wrong_1, trees = _core.binary_outcome(of_class[0], of_class[1], self.lower, self.upper)
            of_rows = ((wrong_0 + wrong_1) / share, trees / share) if share > 0.0 else (np.nan, np.nan)
            outcomes.append(ClassOutcome(label, share, *of_rows))
        return outcomes

    def to_dict(self) -> dict[str, Any]:
        return {"lower": self.lower.tolist(), "upper": self.upper.tolist()}

    @classmethod
    def from_fields(cls, fields: Fields, n_trees: int, n_classes: int) -> BinaryStops:
        lower, upper = (fields.numbers(name, int, n_trees + 1) for name in ("lower", "upper"))
        n_used, half = np.arange(n_trees), n_trees // 2
        answers_the_leader = (lower >= -1)[:-1] & (2 * lower[:-1] < np.maximum(n_used, 1)) & (2 * upper[:-1] > n_used)
        if not (answers_the_leader & (upper[:-1] <= n_used + 1)).all() or lower[0] != -1:
            refuse("the bounds must satisfy -1 <= lower < half of the trees asked < upper <= trees asked + 1")
        if (lower[-1], upper[-1]) != (half, half + 1):
            refuse("the bounds must stop every row at its majority after the last tree")
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
        n_used = np.arange(n_trees + 1)
        stops = {
            f"stop: {classes[1]}": np.where(self.upper <= n_used, self.upper, np.nan),
            f"stop: {classes[0]}": np.where(self.lower >= 0, self.lower, np.nan),
        }
        going = np.maximum(self.lower, 0), np.minimum(self.upper, n_used)
        half = "half of the votes", n_used / 2.0
        return Drawing(n_used, going, stops, "trees asked", f"votes for {classes[1]}", half)
