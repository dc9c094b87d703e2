"""Whether the out-of-bag votes of rows may be averaged as if they were votes on fresh rows.

Fresh rows ask all trees. A training row asks those whose bags left it out, and whatever reads out-of-bag votes averages
over the rows as if it were by chance how many these are. That fails in two ways, and this module alone decides where.

*Few votes.* With a few votes a row looks settled that is not, and what more trees would change is an extrapolation. It
takes `FEWEST_VOTES` a row.

*Uneven bags.* Where bags are drawn by weight, the number of votes depends on what a row is: scikit-learn from 1.9 on
draws the rows of a bootstrap in proportion to ``class_weight`` and ``sample_weight``, LightGBM has bagging fractions of
either class, and rows of large groups are in nearly every bag. Were all rows left out with the same probability q,
their numbers of votes would be binomial: the index of dispersion Σ(nᵢ - n̄)² / (T·q·(1 - q)) is then distributed as χ²
(R. A. Fisher (1950). "The significance of deviations from expectation in a Poisson series." Biometrics 6(1), 17-24).

Uneven rows are estimated by strata of the number of their votes, each of which counts by its share of the rows, so that
no kind of row is under-represented. No stratum knows of rows without votes, and a few votes hardly tell. Where these
are rows of one kind, of a class or a fifth of the numbers, the votes of the others are no guide to them: that is
refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from rfsize.exceptions import FewVotesError
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.words import how_many, in_percent
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes

FEWEST_VOTES = 10
"""With fewer votes a row, on average, out-of-bag votes are not read."""

# Numbers of votes are uneven where chance would scatter them so much less, and would not do it in a million forests.
_OVERDISPERSED, _BY_CHANCE = 1.5, 1e-6

# Fewer rows do not tell: of so few, the index of dispersion is not distributed as χ².
_ROWS_THAT_TELL = 30

# How many standard errors a kind of rows has fewer votes than the others, and rows of it without any that are too many.
_FEWER, _WITHOUT = 4.0, 0.1

# Share of the trees that all rows ask, nearly.
_NEARLY_ALL = 0.9

# More rows than these without votes make an answer that of the others. (XGBoost puts two rows in every bag.)
_FEW_ROWS, _FEW_WITHOUT_VOTES = 2, 0.01

# A smaller share of out-of-bag votes than any sensible bagging fraction leaves; trees that nobody trains.
FEW_OUT_OF_BAG, _MOST_TREES = 0.1, 100_000

_FIFTHS = "lowest", "second", "third", "fourth", "highest"


def too_many_without_votes(n_dropped: int, n_rows: int) -> bool:
    """Whether so many of the rows have no votes that an answer is that of the others."""
    return n_dropped > max(_FEW_ROWS, _FEW_WITHOUT_VOTES * n_rows)


def by_nature_advice(groups: str) -> str:
    """What to do besides where copies belong together, and leave rows without votes; as the end of a sentence."""
    if groups != "copies":
        return ""
    return "; or give groups='rows' if equal rows are different cases, so that fresh rows have copies too"


@dataclass(frozen=True)
class Lack:
    """Why out-of-bag votes do not tell what is asked of them, and what to do.

    Attributes
    ----------
    message : str
    enough : int or None
        Trees that would tell; None where that is not known, or more trees do not help.
    of_some_rows : bool
        Whether some kinds of rows lack votes, so that the others are no guide to them; else all rows have too few.
    """

    message: str
    enough: int | None
    of_some_rows: bool = False

    def error(self) -> FewVotesError:
        """The refusal."""
        return FewVotesError(self.message, enough=self.enough)


def fewest_votes(n_classes: int) -> int:
    """Votes a row that it takes to tell how many trees keep the labels of so many classes.

    The leading class is chosen from the votes themselves, and so is its nearest rival. Of many classes, few votes
    choose two that are closer than the true ones, and T* comes out too large (`benchmarks/many_classes.py`). So each
    doubling of the classes takes as many votes as two classes do.
    """
    return math.ceil(FEWEST_VOTES * math.log2(max(n_classes, 2)))


def few_votes(votes_per_row: float, n_trees: int, what: str, *, oob: bool = True, fewest: int = FEWEST_VOTES) -> Lack:
    """What to say where so few trees were asked about a row that they do not tell ``what``."""
    enough = _trees_for(fewest, votes_per_row, n_trees)
    advice = "" if enough is None else f": train at least {how_many(enough, 'tree')}"
    if oob and votes_per_row < FEW_OUT_OF_BAG * n_trees:
        advice += (
            f". On a training row only {in_percent(votes_per_row / n_trees)} of the trees may vote: give validation "
            "rows, or train with a smaller bagging fraction"
        )
    elif oob:
        advice += ", or give validation rows"
    return Lack(
        f"{votes_per_row:.1f} votes per row, from {how_many(n_trees, 'tree')}, are too few to tell {what}; it takes at "
        f"least {fewest}{advice}",
        enough,
    )


@dataclass(frozen=True, eq=False)
class Kinds:
    """What rows are: a class, or a fifth of the numbers.

    Attributes
    ----------
    of_row : ndarray of int64, shape (n_rows,)
        Place in the names; -1 where it is not known.
    names : tuple of str
        Such as "of class 1", which follow "rows".
    """

    of_row: Int64s
    names: tuple[str, ...]

    @classmethod
    def of_labels(cls, label: ArrayLike) -> Kinds:
        """Classes of the truth."""
        return cls.named("of class", label)

    @classmethod
    def of_votes(cls, votes: Votes) -> Kinds:
        """Classes that the forest gives the rows, where it votes on them."""
        found = cls.named("that the forest gives class", votes.winner())
        return replace(found, of_row=np.where(votes.asked > 0, found.of_row, -1))

    @classmethod
    def named(cls, what: str, label: ArrayLike) -> Kinds:
        """Distinct labels, and what rows of each are."""
        names, place = np.unique(np.asarray(label), return_inverse=True)
        return cls(place.astype(np.int64), tuple(f"{what} {name}" for name in names.tolist()))

    @classmethod
    def of_numbers(cls, number: Floats, what: str = "y") -> Kinds:
        """Fifths of numbers."""
        place = np.searchsorted(np.quantile(number, [0.2, 0.4, 0.6, 0.8]), number, side="right")
        return cls(place, tuple(f"in the {which} fifth of {what}" for which in _FIFTHS))

    @classmethod
    def of_scores(cls, scores: Scores) -> Kinds:
        """Fifths of what the forest predicts, where it does."""
        found = cls.of_numbers(scores.mean[:, 0], "the predictions")
        return replace(found, of_row=np.where(scores.asked > 0, found.of_row, -1))


@dataclass(frozen=True, eq=False)
class RowsAsked:
    """Rows, how many trees were asked about each, and what is known of the rows.

    Attributes
    ----------
    asked : ndarray of number, shape (n_rows,)
        Trees asked about each row.
    n_trees : int
        Trees of the forest.
    groups : Groups
        Rows that belong together, and have their votes in common.
    oob : bool
        Whether trees are not asked about rows that they were trained on.
    find_kinds : callable
        Finds out what the rows are, which may take all trees; None where nothing tells.
    """

    asked: NDArray[Any]
    n_trees: int
    groups: Groups = ALONE
    oob: bool = True
    find_kinds: Callable[[], Kinds | None] = lambda: None

    @property
    def n_without(self) -> int:
        """Rows that no tree was asked about."""
        return int(np.count_nonzero(self.asked == 0))

    @cached_property
    def is_uneven(self) -> bool:
        """Whether rows' numbers of votes differ by more than chance, beside what the sizes of their groups do."""
        own = self._first_of_units
        if np.count_nonzero(own) < _ROWS_THAT_TELL:
            return False
        asked, sizes = self.asked[own], np.ones(len(self.asked)) if self.groups.sizes is None else self.groups.sizes
        sizes = sizes[own]
        squares, freedom = 0.0, 0
        for size in np.unique(sizes):
            votes = np.sort(asked[sizes == size])[_FEW_ROWS:].astype(np.float64)
            left_out = float(votes.mean()) / self.n_trees if votes.size else 0.0
            if 0.0 < left_out < 1.0:
                variance = self.n_trees * left_out * (1.0 - left_out)
                squares += float(np.sum((votes - votes.mean()) ** 2)) / variance
                freedom += votes.size - 1
        return squares > _OVERDISPERSED * freedom and float(chi2.sf(squares, freedom)) < _BY_CHANCE

    @property
    def strata(self) -> Int64s | None:
        """Number of the stratum of each row by the number of its votes, each doubling of which is one.

        None where it is by chance how many they are.
        """
        if not self.is_uneven:
            return None
        return np.where(self.asked > 0, 1 + np.floor(np.log2(np.maximum(self.asked, 1))), 0).astype(np.int64)

    def lack(self, what: str, *, of_these_trees: bool = False) -> Lack | None:
        """Why these votes do not tell ``what`` of fresh rows; None where they do.

        Where it is told ``of_these_trees``, and not of more, rows that ask nearly all of them are like fresh ones.
        """
        asked = self.asked[self.asked > 0]
        if not asked.size:
            return Lack("every tree saw every row, so no row is out of bag: train more trees", None)
        mean = float(asked.mean())
        if mean >= FEWEST_VOTES or (of_these_trees and mean >= _NEARLY_ALL * self.n_trees):
            return self.of_some_rows(what)
        return self._poor_kind(what, FEWEST_VOTES) or few_votes(mean, self.n_trees, what, oob=self.oob)

    def check(self, what: str, *, of_these_trees: bool = False) -> None:
        """Raise `FewVotesError` where these votes do not tell ``what`` of fresh rows; arguments as of `lack`."""
        lack = self.lack(what, of_these_trees=of_these_trees)
        if lack is not None:
            raise lack.error()

    def of_some_rows(self, what: str, *, fewest: int = FEWEST_VOTES) -> Lack | None:
        """Why rows of some kind have too few votes to tell ``what``, where the others have enough."""
        poor = self._poor_kind(what, fewest)
        return self._too_many_without(what) if poor is None and not self._are_alike else poor

    @property
    def _are_alike(self) -> bool:
        """Whether it is by chance alone how many votes a row has."""
        return self.groups.sizes is None and not self.is_uneven

    def _poor_kind(self, what: str, fewest: int) -> Lack | None:
        if self._are_alike or self.asked.min() >= fewest or self.kinds is None:
            return None
        kinds = self.kinds
        poor = [place for place in range(len(kinds.names)) if self._is_poor(kinds.of_row == place, fewest)]
        if not poor:
            return None
        place = min(poor, key=lambda one: float(self.asked[kinds.of_row == one].mean()))
        name, own, others = kinds.names[place], self.asked[kinds.of_row == place], self.asked[kinds.of_row != place]
        mean, without = float(own.mean()), float(np.mean(own == 0))
        enough = _trees_for(fewest, max(mean, 1.0 / len(own)), self.n_trees) if mean < fewest else None
        none = f", and {in_percent(without)} of them have none" if without > _WITHOUT else ""
        return Lack(
            f"the {how_many(len(own), 'row')} {name} have {mean:.1f} out-of-bag votes on average{none}, and the "
            f"others {others.mean():.1f}: {self._cause}. So these votes cannot tell {what}, which depends on such "
            f"rows too; it takes {fewest} votes on rows of each kind. {self._advice(enough)}",
            enough,
            of_some_rows=True,
        )

    def _is_poor(self, of_kind: NDArray[np.bool_], fewest: int) -> bool:
        """Whether rows of a kind have too few votes, and fewer than the others."""
        asked = self.asked[of_kind]
        if len(asked) <= _FEW_ROWS or len(asked) == len(self.asked):
            return False
        without = np.count_nonzero(asked == 0)
        if asked.mean() >= fewest and without <= max(_FEW_ROWS, _WITHOUT * len(asked)):
            return False
        own = self._first_of_units
        return _fewer(self.asked[of_kind & own], self.asked[~of_kind & own])

    def _too_many_without(self, what: str) -> Lack | None:
        without = self.n_without
        known = self.kinds is not None and bool((self.kinds.of_row[self.asked == 0] >= 0).all())
        if not too_many_without_votes(without, len(self.asked)) and (known or without <= _FEW_ROWS):
            return None
        return Lack(
            f"{how_many(without, 'row')} ({in_percent(without / len(self.asked))}) have no out-of-bag votes, and "
            f"not by chance: {self._cause}. So the votes on the others cannot tell {what}. {self._advice(None)}",
            None,
            of_some_rows=True,
        )

    @property
    def _cause(self) -> str:
        if self.is_uneven:
            return (
                "the bags were not drawn evenly, as with class_weight='balanced' or sample_weight in scikit-learn from "
                "1.9 on, or with a bagging fraction for each class"
            )
        return "they belong to large groups, of which every tree saw some row"

    def _advice(self, enough: int | None) -> str:
        ways = ["with smaller bags (max_samples, bagging_fraction)"]
        if self.is_uneven:
            ways = ["with class_weight='balanced_subsample', which draws bags evenly", *ways]
        if enough is not None:
            ways = [f"at least {how_many(enough, 'tree')}", *ways]
        return f"Train {', or '.join(ways)}; or give validation rows{by_nature_advice(self.groups.by)}"

    @cached_property
    def kinds(self) -> Kinds | None:
        """What the rows are."""
        return self.find_kinds()

    @cached_property
    def _first_of_units(self) -> NDArray[np.bool_]:
        """One row of each group, of which all have the same votes."""
        found = np.ones(len(self.asked), dtype=np.bool_)
        units = self.groups.units
        if units is not None:
            found[:] = False
            found[np.unique(units, return_index=True)[1]] = True
        return found


def _fewer(some: NDArray[Any], others: NDArray[Any]) -> bool:
    """Whether some rows have fewer votes than others, and not by chance (Welch)."""
    if min(len(some), len(others)) <= _FEW_ROWS:
        return False
    error = math.sqrt(some.var() / len(some) + others.var() / len(others))
    return bool(some.mean() - others.mean() < -_FEWER * error)


def _trees_for(fewest: int, votes_per_row: float, n_trees: int) -> int | None:
    """Trees that give this number of votes a row, to two digits; None where nobody would train as many."""
    if votes_per_row <= 0.0:
        return None
    trees = 1.1 * fewest * n_trees / votes_per_row
    unit = 10.0 ** max(0.0, math.floor(math.log10(trees)) - 1.0)
    enough = int(math.ceil(trees / unit) * unit)
    return enough if enough <= _MOST_TREES else None
