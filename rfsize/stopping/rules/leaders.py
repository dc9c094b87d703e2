"""Any number of classes: rows stop by the votes for the two leading classes. Measured on random orders of votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize.certifying.certificate import ClassCounts
from rfsize.stopping import urn
from rfsize.stopping.document import Fields, refuse
from rfsize.stopping.rules.base import TREES_BETWEEN_LOOKS, Drawing
from rfsize.stopping.rules.binary import BinaryStops
from rfsize.stopping.rules.from_prior import UrnStops
from rfsize.stopping.rules.ternary import MAX_TERNARY, TernaryStops
from rfsize.stopping.rules.votes import LabelsByVotes, ask_in_turn
from rfsize.stopping.terms import MAX_TREES, Terms
from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.votes import Votes
from rfsize.walking.c_text import array, part
from rfsize.walking.layout import Forest

_BLOCK = 2_000_000  # votes held at a time

_SIMULATED = 4_000_000  # votes simulated
_SIMULATION_SEED = 2016  # fixed: the same stops give the same measurement

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
        1 ≤ upper[s] ≤ s + 1, and s + 1 means that no row stops.
    """

    kind = "leaders"
    rules = ("threshold",)
    stored = ("upper",)

    upper: NDArray[np.int32]

    @classmethod
    def fits(cls, n_trees: int, n_classes: int) -> bool:
        return n_classes > 2 and not TernaryStops.fits(n_trees, n_classes)

    @classmethod
    def check_rule(cls, rule: str, target: str) -> None:
        super().check_rule(rule, target)
        if rule not in cls.rules or target == "limit":
            raise ValueError(
                f"more than three classes, or three with more than {MAX_TERNARY} trees, are reduced to the two leading "
                f"classes, on which rule={rule!r} with target={target!r} is not defined; use rule='threshold' and "
                "target='forest'"
            )

    @classmethod
    def prior_from(cls, prior: Votes | ArrayLike, n_trees: int) -> Floats:
        if isinstance(prior, Votes):
            return urn.pair_prior(prior, n_trees)
        super().prior_from(prior, n_trees)
        raise ValueError(
            f"prior has weights over the tallies of three classes, but {n_trees} trees are more than the "
            f"{MAX_TERNARY} that are solved exactly; give rfsize.Votes or 'uniform', which go up to {MAX_TREES}"
        )

    @classmethod
    def build(cls, terms: Terms) -> LeaderStops:
        """The stops for checked terms, from the prior over the tally of the two leading classes."""
        if terms.built_for == 1.0:
            return cls.lossless(terms.n_trees)
        prior = urn.uniform_prior(terms.n_trees, 2) if terms.prior is None else terms.prior
        wins = urn.winning_masses(prior, "forest")
        return cls(BinaryStops.threshold(wins, 1.0 - (1.0 - terms.built_for) / (terms.n_classes - 1)).upper)

    @classmethod
    def lossless(cls, n_trees: int) -> LeaderStops:
        # The check for an unbeatable leader needs no table.
        return cls(np.arange(1, n_trees + 2, dtype=np.int32))

    def answers_of_block(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        n_trees = outputs.shape[1]

        def settles(asked: int, comes_first: NDArray[np.bool_], most: NDArray[Any], next_most: NDArray[Any]) -> Any:
            return (most >= self.upper[most + next_most]) | (most - next_most + comes_first > n_trees - asked)

        return ask_in_turn(outputs, np.ones(n_trees, dtype=np.int32), n_classes, settles)

    def simulated(self, terms: Terms, votes: Votes | None) -> ClassCounts:
        """Counts on random orders of votes: those of the prior's rows, or of uniform tallies."""
        n_trees, n_classes = terms.n_trees, terms.n_classes
        generator = np.random.default_rng(_SIMULATION_SEED)
        n_rows = max(100, _SIMULATED // max(n_trees, 10 * n_classes))
        if votes is None:
            # Uniform fractions, then multinomial votes: every tally of T votes is equally likely.
            tallies = generator.multinomial(n_trees, generator.dirichlet(np.ones(n_classes), n_rows))
        else:
            rows = urn.voted_rows(votes)
            total = np.cumsum(rows[generator.integers(len(rows), size=n_rows)], axis=1)
            tallies = np.diff(total * n_trees // total[:, -1:], axis=1, prepend=0)
        trees, differs = np.zeros((2, n_rows), dtype=np.int64)
        winner = tallies.argmax(axis=1)
        block = max(1, _BLOCK // max(n_trees, n_classes))
        for start in range(0, n_rows, block):
            here = slice(start, start + block)
            some = tallies[here]
            ordered = np.repeat(np.tile(np.arange(n_classes), len(some)), some.ravel()).reshape(len(some), n_trees)
            labels, trees[here] = self.answers_of_block(generator.permuted(ordered, axis=1), n_classes)
            differs[here] = labels != winner[here]
        return ClassCounts.of(winner, differs, trees, n_classes)

    def check_kept(self, terms: Terms) -> None:
        if not np.array_equal(self.build(terms).upper, self.upper):
            refuse("the stops are not those that the table's prior and alpha give")

    def to_dict(self) -> dict[str, Any]:
        return {"upper": self.upper.tolist()}

    @classmethod
    def from_fields(cls, fields: Fields, n_trees: int, n_classes: int) -> LeaderStops:
        upper = fields.numbers("upper", int, n_trees + 1)
        if not ((upper >= 1) & (upper <= np.arange(n_trees + 1) + 1)).all():
            refuse("upper must lie between 1 and one more than the votes seen")
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


def majority_on(forest: Forest) -> LabelsByVotes:
    """Stops that never change the majority of all trees, on rows of a forest of classes."""
    kind = BinaryStops if len(forest.classes) == 2 else LeaderStops
    return kind.lossless(forest.n_trees).on(forest, TREES_BETWEEN_LOOKS)
