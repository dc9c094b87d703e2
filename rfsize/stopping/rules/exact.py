"""Rules on votes that are solved exactly, tally by tally: the shared part for two and for three classes.

The cheapest stops under a bound on the errors minimise expected trees + penalty · errors for some penalty (Lagrange).
One backward pass of a compiled loop (rfsize/_native/urn.hpp) minimises this sum for many penalties at once. This module
searches for the penalty, and keeps only stops that provably respect the bound.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Self, TypeVar

import numpy as np

from rfsize.certifying.certificate import ClassCounts, ClassOutcome
from rfsize.stopping import urn
from rfsize.stopping.document import refuse
from rfsize.stopping.rules.base import Figures
from rfsize.stopping.rules.from_prior import ROUNDING, UrnStops
from rfsize.stopping.terms import Terms
from rfsize.utils.typing import Floats
from rfsize.utils.words import how_many

Table = TypeVar("Table")

# On a logarithmic scale, the last bracket of `search` has 2⁻²⁴ of the width of the first.
_HALVINGS = 24


class ExactStops(UrnStops):
    """Stops for which disagreement and trees asked are sums over all tallies."""

    is_computed = True
    knows_limit = True

    ways: ClassVar[int]
    """Number of penalties that one pass tries."""

    @classmethod
    def build(cls, terms: Terms) -> Self:
        if terms.built_for == 1.0:
            return cls.lossless(terms.n_trees)
        find = cls.threshold if terms.rule == "threshold" else cls.optimal
        return find(winning_masses(terms), terms.built_for)

    @classmethod
    @abstractmethod
    def threshold(cls, wins: Floats, alpha: float) -> Self:
        """Stop when the leading class wins with a probability above α."""

    @classmethod
    @abstractmethod
    def cheapest(cls, wins: Floats, penalties: Floats) -> tuple[Floats, list[Self]]:
        """For each penalty, the stops that minimise expected trees + penalty · errors, and their errors."""

    @classmethod
    def optimal(cls, wins: Floats, alpha: float) -> Self:
        """The fewest expected trees for an expected disagreement of at most 1 - α.

        Raises
        ------
        ValueError
            If even all trees disagree more often. That can happen only with target="limit".
        """
        n_trees, allowed = wins.shape[1] - 1, 1.0 - alpha
        whole_forest = float((wins.sum(axis=0) - wins.max(axis=0)).sum())
        if whole_forest > allowed:
            raise ValueError(
                f"a forest of {how_many(n_trees, 'tree')} disagrees with the infinite forest on "
                f"{100.0 * whole_forest:.3f} % of the rows under this prior, more than the {100.0 * allowed:.3f} % "
                f"that alpha={alpha!r} allows, so no table can keep its promise; use more trees (rfsize.size tells how "
                "many), a smaller alpha, or rule='threshold'"
            )
        # A stop pays only if penalty · error is below the trees that it saves, so no larger penalty is needed.
        largest = max(2.0, n_trees / max(allowed - whole_forest, ROUNDING * allowed))
        found = search(lambda penalties: cls.cheapest(wins, penalties), allowed, largest, cls.ways)
        known = [
            (stops.outcome(wins, alpha), stops) for stops in (cls.lossless(n_trees), cls.threshold(wins, alpha), *found)
        ]
        kept = [
            (outcome.trees, stops) for outcome, stops in known if outcome.disagreement <= allowed * (1.0 + ROUNDING)
        ]
        return min(kept, key=lambda pair: pair[0])[1]

    @abstractmethod
    def outcome(self, wins: Floats, alpha: float) -> Figures:
        """Disagreement and trees for masses of final tallies, by the class that wins. They need not sum to 1."""

    def figures(self, terms: Terms, seen: ClassCounts | None) -> Figures:
        return self.outcome(winning_masses(terms), terms.built_for)

    def by_class(self, terms: Terms, seen: ClassCounts | None) -> list[ClassOutcome]:
        """For each class: the counts on rows, or the figures of the mass on which the class wins."""
        if seen is not None:
            return super().by_class(terms, seen)
        wins = winning_masses(terms)
        found = []
        for index, label in enumerate(terms.class_labels):
            alone = np.zeros_like(wins)
            alone[index] = wins[index]
            mass, known = float(alone.sum()), self.outcome(alone, terms.built_for)
            of_class = (known.disagreement / mass, known.trees / mass) if mass > 0.0 else (np.nan, np.nan)
            found.append(ClassOutcome(label, mass, *of_class))
        return found

    def check_kept(self, terms: Terms) -> None:
        alpha = terms.built_for
        if alpha == 1.0:
            if self.to_dict() != self.lossless(terms.n_trees).to_dict():
                refuse("alpha is 1, but the stops are not the lossless ones")
            return
        allowed, found = (1.0 - alpha) * (1.0 + ROUNDING) + 1e-12, self.promised(terms)
        if not found <= allowed:
            refuse(
                f"the stops disagree on {100.0 * found:.4f} % of the rows, but alpha={alpha!r} promises "
                f"{100.0 * (1.0 - alpha):.4f} %"
            )

    def promised(self, terms: Terms) -> float:
        """The disagreement that 1 − α bounds."""
        found = self.outcome(winning_masses(terms), terms.built_for)
        # The threshold rule answers rows that never reach α as the whole forest does, and promises no more for them.
        return found.disagreement - (found.unsettled if terms.rule == "threshold" else 0.0)


def flat_prior(prior: Floats) -> Floats:
    """The weights of all tallies in one dimension, also for three classes."""
    return prior if prior.ndim == 1 else prior[urn.simplex(len(prior) - 1)]


def winning_masses(terms: Terms) -> Floats:
    """`urn.winning_masses` of the prior; None means uniform."""
    prior = urn.uniform_prior(terms.n_trees, terms.n_classes) if terms.prior is None else terms.prior
    return urn.winning_masses(prior, terms.target)


def search(
    solve: Callable[[Floats], tuple[Floats, list[Table]]],
    allowed: float,
    largest: float,
    ways: int,
    halvings: int = _HALVINGS,
) -> list[Table]:
    """Tables within the bound, while brackets of ``ways`` penalties close in on the smallest penalty that gives one."""
    low, high = 1.0, largest
    penalties = np.geomspace(low, high, ways + 1)
    found = []
    for _ in range(halvings // (ways.bit_length() - 1)):
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
