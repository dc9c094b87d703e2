"""Three classes and more: rows stop by the votes for the two leading classes."""

from __future__ import annotations

import math
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
from rfsize.stopping.rules.base import TREES_BETWEEN_LOOKS, Drawing
from rfsize.stopping.rules.binary import BinaryStops
from rfsize.stopping.rules.from_prior import UrnStops, wins_of
from rfsize.stopping.rules.votes import LabelsByVotes, ask_in_turn
from rfsize.stopping.terms import Terms
from rfsize.walking.c_text import array, part
from rfsize.walking.layout import PackedForest

_ANSWER = """    int leader, rival;
    two_leaders(votes, &leader, &rival);
    if (votes[leader] - votes[rival] + (leader < rival) > TREES - asked) return leader;
    return %s;
"""


@dataclass(frozen=True, eq=False)
class LeaderStops(UrnStops):
    """Stop by the votes for the two leading classes only.

    After t trees, class a has the most votes and class b the second most; a tie goes to the lowest index. A row stops
    with the label a if n_a ≥ upper[n_a + n_b]. A row also stops if n_a − n_b, plus 1 if a < b, exceeds the T − t
    remaining votes: then no class can overtake a, or tie with it and come first.

    Attributes
    ----------
    upper : ndarray of int32, shape (T + 1,)
        s/2 < upper[s] ≤ s + 1, because only a leader is answered; s + 1 means that no row stops.
    """

    kind = "leaders"
    stored = ("upper",)

    upper: NDArray[np.int32]

    @classmethod
    def fits(cls, n_trees: int, n_classes: int) -> bool:
        return n_classes > 2

    @classmethod
    def prior_from(cls, prior: Votes | ArrayLike, n_trees: int) -> Floats:
        assert isinstance(prior, Votes)  # an array is a prior over the tallies of two classes
        return urn.pair_prior(prior, n_trees)

    @classmethod
    def build(cls, terms: Terms) -> LeaderStops:
        """The stops from the prior over the tally of the two leading classes.

        The leader has K − 1 rivals, which share the disagreement of 1 − α.
        """
        if terms.built_for == 1.0:
            return cls.lossless(terms.n_trees)
        enough = 1.0 - (1.0 - terms.built_for) / (terms.n_classes - 1)
        return cls(BinaryStops.of_wins(wins_of(terms), enough).upper)

    @classmethod
    def lossless(cls, n_trees: int) -> LeaderStops:
        # The check for an unbeatable leader needs no table.
        return cls(np.arange(1, n_trees + 2, dtype=np.int32))

    def answers_of_block(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        n_trees = outputs.shape[1]

        def settles(n_used: int, comes_first: NDArray[np.bool_], most: NDArray[Any], next_most: NDArray[Any]) -> Any:
            return (most >= self.upper[most + next_most]) | (most - next_most + comes_first > n_trees - n_used)

        return ask_in_turn(outputs, np.ones(n_trees, dtype=np.int32), n_classes, settles)

    def by_class(self, terms: Terms, seen: ClassCounts | None) -> list[ClassOutcome]:
        if seen is not None:
            return super().by_class(terms, seen)
        return [ClassOutcome(label, math.nan, math.nan, math.nan) for label in terms.class_labels]

    def to_dict(self) -> dict[str, Any]:
        return {"upper": self.upper.tolist()}

    @classmethod
    def from_fields(cls, fields: Fields, n_trees: int, n_classes: int) -> LeaderStops:
        upper = fields.numbers("upper", int, n_trees + 1)
        seen = np.arange(n_trees + 1)
        if not ((2 * upper > seen) & (upper >= 1) & (upper <= seen + 1)).all():
            refuse("upper must lie above half of the votes seen, and be at most one more than these")
        return cls(upper.astype(np.int32))

    def native(self, every: int) -> _core.VoteStop:
        return _core.LeaderStop(self.upper, every)

    def answer_in_c(self, every: int) -> str:
        if (self.upper > np.arange(self.upper.size)).all():  # no row has that many votes
            return part("two_leaders") + part("answer_by_votes", body=_ANSWER % "-1")
        bound = "votes[leader] >= upper[votes[leader] + votes[rival]] ? leader : -1"
        return array("upper", self.upper) + part("two_leaders") + part("answer_by_votes", body=_ANSWER % bound)

    def drawing(self, n_trees: int, classes: list[str]) -> Drawing:
        both = np.arange(n_trees + 1)
        stops = {"stop: the leader wins": np.where(self.upper <= both, self.upper, np.nan)}
        level, going = both / 2.0, (both / 2.0, np.minimum(self.upper, both))
        words = "votes of the two leading classes", "votes of the leader", ("both level", level)
        return Drawing(both, going, stops, *words, of_trees=False)


def majority_on(forest: PackedForest) -> LabelsByVotes:
    """Stops that never change the majority of all trees, on rows of a forest of classes."""
    kind = BinaryStops if len(forest.classes) == 2 else LeaderStops
    return kind.lossless(forest.n_trees).on(forest, TREES_BETWEEN_LOOKS)
