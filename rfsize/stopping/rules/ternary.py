"""Three classes: one decision for each state of the votes. Exact, for forests of at most 201 trees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.stopping import urn
from rfsize.stopping.document import Fields, refuse
from rfsize.stopping.rules.base import Drawing, Figures
from rfsize.stopping.rules.exact import ExactStops
from rfsize.stopping.rules.from_prior import stored_prior
from rfsize.utils.typing import Floats, Int64s
from rfsize.walking.c_text import array, part

MAX_TERNARY = 201
"""The largest forest of three classes that keeps every state. Larger forests use the two leading classes."""

_ANSWER = """    const int32_t t = asked, a = votes[0], b = votes[1];
    const int32_t state = t * (t + 1) * (t + 2) / 6 + a * (t + 1) - a * (a - 1) / 2 + b;
    return ((decision[state >> 2] >> (2 * (state & 3))) & 3) - 1;
"""


def ternary_index(asked: Any, n_0: Any, n_1: Any) -> Any:
    """Index in `TernaryStops.decision` of the state with ``n_0`` of ``asked`` votes for class 0, ``n_1`` for class 1.

    t(t + 1)(t + 2)/6 + n0(t + 1) − n0(n0 − 1)/2 + n1: ordered by t, then n0, then n1. Integers or arrays.
    """
    return asked * (asked + 1) * (asked + 2) // 6 + n_0 * (asked + 1) - n_0 * (n_0 - 1) // 2 + n_1


@dataclass(frozen=True, eq=False)
class TernaryStops(ExactStops):
    """One decision for each state of the votes.

    Attributes
    ----------
    decision : ndarray of int8, shape ((T + 1)(T + 2)(T + 3)/6,)
        −1 to ask the next tree, else the answer, at `ternary_index` (t, votes for class 0, votes for class 1).
    """

    kind = "ternary"
    rules = ("threshold", "optimal")
    stored = ("runs", "answers")
    ways = 2

    decision: NDArray[np.int8]

    @classmethod
    def fits(cls, n_trees: int, n_classes: int) -> bool:
        return n_classes == 3 and n_trees <= MAX_TERNARY

    @classmethod
    def lossless(cls, n_trees: int) -> TernaryStops:
        decision = np.empty((n_trees + 1) * (n_trees + 2) * (n_trees + 3) // 6, dtype=np.int8)
        _core.lossless_decisions(n_trees, decision)
        return cls(decision)

    @classmethod
    def threshold(cls, wins: Floats, alpha: float) -> TernaryStops:
        stops = cls.lossless(wins.shape[1] - 1)
        _core.threshold_decisions(wins, alpha, stops.decision)
        return stops

    @classmethod
    def cheapest(cls, wins: Floats, penalties: Floats) -> tuple[Floats, list[TernaryStops]]:
        stops = [cls.lossless(wins.shape[1] - 1) for _ in penalties]
        errors = [
            _core.cheapest_decisions(wins, penalty, one.decision)[0]
            for penalty, one in zip(penalties, stops, strict=True)
        ]
        return np.array(errors), stops

    def answers_of_block(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        count_0 = np.cumsum(outputs == 0, axis=1, dtype=np.int64)
        count_1 = np.cumsum(outputs == 1, axis=1, dtype=np.int64)
        decided = self.decision[ternary_index(np.arange(1, count_0.shape[1] + 1), count_0, count_1)]
        asked = (decided >= 0).argmax(axis=1) + 1
        labels = decided[np.arange(len(decided)), asked - 1]
        return labels.astype(np.int64), asked.astype(np.int64)

    def outcome(self, wins: Floats, alpha: float) -> Figures:
        wrong, trees, unsettled = _core.ternary_outcome(wins, self.decision, alpha)
        return Figures(wrong, trees, unsettled)

    def to_dict(self) -> dict[str, Any]:
        """The decisions as runs of equal values, because neighbouring states mostly decide alike."""
        starts = np.concatenate([[0], np.flatnonzero(np.diff(self.decision)) + 1])
        lengths = np.diff(np.append(starts, len(self.decision)))
        return {"runs": lengths.tolist(), "answers": self.decision[starts].tolist()}

    @classmethod
    def from_fields(cls, fields: Fields, n_trees: int, n_classes: int) -> TernaryStops:
        size = (n_trees + 1) * (n_trees + 2) * (n_trees + 3) // 6
        runs = fields.numbers("runs", int)
        answers = fields.numbers("answers", int, len(runs))
        # Each run is checked before the sum, because a sum of large integers could wrap around.
        if not ((runs >= 1) & (runs <= size)).all() or len(runs) > size or runs.sum() != size:
            refuse(f"runs must be positive lengths that sum to {size}")
        if not ((answers >= -1) & (answers <= 2)).all() or any(a == b for a, b in pairwise(answers.tolist())):
            refuse("answers must be -1, 0, 1 or 2, each run's unlike the one before")
        decision = np.repeat(answers.astype(np.int8), runs)
        counts = np.stack(urn.three_counts(n_trees))[:, urn.simplex(n_trees)]
        last = decision[ternary_index(n_trees, counts[0], counts[1])]
        if decision[0] != -1 or not np.array_equal(last, counts.argmax(axis=0)):
            refuse("the decisions must stop no row before the first tree, and every row at its majority after the last")
        return cls(decision)

    @classmethod
    def prior_of(cls, fields: Fields, n_trees: int) -> Floats | None:
        weights = stored_prior(fields, (n_trees + 1) * (n_trees + 2) // 2)
        if weights is None:
            return None
        prior = np.zeros((n_trees + 1, n_trees + 1))
        prior[urn.simplex(n_trees)] = weights
        return prior

    def native(self, every: int) -> _core.VoteStop:
        return _core.TernaryStop(self.decision, every)

    def answer_in_c(self, every: int) -> str:
        return array("decision", _packed(self.decision)) + part("answer_by_votes", body=_ANSWER)

    def drawing(self, n_trees: int, classes: list[str]) -> Drawing:
        """The smallest lead that stops a row, for two ways in which the other classes share the other votes."""
        asked = np.arange(1, n_trees + 1)
        level, alone = (np.array([self._smallest_lead(t, share) for t in asked.tolist()]) for share in (0.5, 0.0))
        stops = {"stop: the other two share the rest": level, "stop: one of the others has no vote": alone}
        going = np.zeros(n_trees), np.fmin(np.fmin(level, alone), asked)
        return Drawing(asked, going, stops, "trees asked", f"lead of {classes[0]} over the runner-up, votes")

    def _smallest_lead(self, asked: int, share: float) -> float:
        """Smallest lead of class 0 that stops, if class 2 has ``share`` of the other votes; NaN if no lead stops."""
        for n_0 in range((asked + 2) // 3, asked + 1):
            n_2 = int(share * (asked - n_0))
            n_1 = asked - n_0 - n_2
            if n_0 >= n_1 and self.decision[ternary_index(asked, n_0, n_1)] == 0:
                return float(n_0 - n_1)
        return math.nan


def _packed(decision: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Decisions in two bits each, stored as the class plus 1."""
    padded = np.zeros(-(-decision.size // 4) * 4, dtype=np.uint8)
    padded[: decision.size] = decision + 1
    return np.bitwise_or.reduce(padded.reshape(-1, 4) << np.array([0, 2, 4, 6], dtype=np.uint8), axis=1)
