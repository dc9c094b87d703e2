"""Decide whether out-of-bag votes may be averaged over the rows as if they were votes on fresh rows.

All trees vote on a fresh row. On a training row, only the trees vote whose bags left it out. Estimates from out-of-bag
votes average over the rows as if chance decided how many votes each row has. That fails in two ways, and only this
module decides when.

*Few votes.* With a few votes, a row looks settled that is not, and what more trees would change is an extrapolation.
Estimates need `FEWEST_VOTES` per row.

*Uneven bags.* If bags are drawn by weight, the number of votes depends on the kind of row. scikit-learn from 1.9 on
draws the rows of a bootstrap in proportion to ``class_weight`` and ``sample_weight``, LightGBM has a bagging fraction
for each class, and rows of large groups are in nearly every bag. If all rows were left out with the same probability q,
their numbers of votes would be binomial: the index of dispersion Σ(nᵢ - n̄)² / (T·q·(1 - q)) is then distributed as χ²
(R. A. Fisher (1950). "The significance of deviations from expectation in a Poisson series." Biometrics 6(1), 17-24).

With uneven bags, rfsize estimates in strata of rows with similar numbers of votes. Each stratum counts by its share of
the rows, so that no kind of row is under-represented. Strata say nothing about rows without votes, and little about
rows with few votes. If such rows are of one kind (one class, or one fifth of the numbers), the votes on the other rows
are no guide to them, and rfsize raises an error.
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

from rfsize.counting.groups import ALONE, Groups
from rfsize.counting.scores import Scores
from rfsize.counting.votes import Votes
from rfsize.exceptions import FewVotesError
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.words import how_many, in_percent

FEWEST_VOTES = 10
"""With fewer votes per row, on average, rfsize makes no estimate from out-of-bag votes."""

# Numbers of votes are uneven if their variance exceeds that of chance by the first factor, and chance would do this
# with less than the second probability.
_OVERDISPERSED, _BY_CHANCE = 1.5, 1e-6

# With fewer rows, the index of dispersion is not distributed as χ².
_ROWS_THAT_TELL = 30

# A kind of rows lacks votes if its mean is this many standard errors below that of the others; and this share of the
# kind without any vote is too many.
_FEWER, _WITHOUT = 4.0, 0.1

# From this share of the trees on, nearly all trees vote on a row.
_NEARLY_ALL = 0.9

# If more rows (number, share) than these have no votes, an answer holds only for the others. (XGBoost puts two rows in
# every bag.)
_FEW_ROWS, _FEW_WITHOUT_VOTES = 2, 0.01

# Any sensible bagging fraction leaves a larger share of out-of-bag votes; nobody trains more trees.
FEW_OUT_OF_BAG, _MOST_TREES = 0.1, 100_000

_FIFTHS = "lowest", "second", "third", "fourth", "highest"


def too_many_without_votes(n_dropped: int, n_rows: int) -> bool:
    """Whether so many rows have no votes that an answer holds only for the other rows."""
    return n_dropped > max(_FEW_ROWS, _FEW_WITHOUT_VOTES * n_rows)


def by_nature_advice(groups: str) -> str:
    """Further advice if grouped copies leave rows without votes; the end of a sentence."""
    if groups != "copies":
        return ""
    return "; or give groups='rows' if equal rows are different cases, so that fresh rows have copies too"


@dataclass(frozen=True)
class Lack:
    """Why out-of-bag votes do not answer a question, and what to do.

    Attributes
    ----------
    message : str
    enough : int or None
        Number of trees that would answer it; None if this is not known, or more trees do not help.
    of_some_rows : bool
        True if some kinds of rows lack votes, so that the others are no guide to them; False if all rows have too few.
    """

    message: str
    enough: int | None
    of_some_rows: bool = False

    def error(self) -> FewVotesError:
        """The error to raise."""
        return FewVotesError(self.message, enough=self.enough)


def fewest_votes(n_classes: int) -> int:
    """Votes per row needed to estimate how many trees keep the labels, by the number of classes.

    The votes themselves choose the leading class and its nearest rival. With many classes, few votes choose two classes
    that are closer than the true ones, and T* comes out too large (`benchmarks/many_classes.py`). So each doubling of
    the classes needs as many more votes as two classes do.
    """
    return math.ceil(FEWEST_VOTES * math.log2(max(n_classes, 2)))


def few_votes(votes_per_row: float, n_trees: int, what: str, *, oob: bool = True, fewest: int = FEWEST_VOTES) -> Lack:
    """The lack if too few trees were asked about each row to tell ``what``."""
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
    """The kind of each row: its class, or the fifth of the numbers that it is in.

    Attributes
    ----------
    of_row : ndarray of int64, shape (n_rows,)
        Index into the names; -1 if the kind is not known.
    names : tuple of str
        Such as "of class 1"; messages write them after "rows".
    """

    of_row: Int64s
    names: tuple[str, ...]

    @classmethod
    def of_labels(cls, label: ArrayLike) -> Kinds:
        """Kinds by true class."""
        return cls.named("of class", label)

    @classmethod
    def of_votes(cls, votes: Votes) -> Kinds:
        """Kinds by the class that the forest predicts, for rows with votes."""
        found = cls.named("that the forest gives class", votes.winner())
        return replace(found, of_row=np.where(votes.asked > 0, found.of_row, -1))

    @classmethod
    def named(cls, what: str, label: ArrayLike) -> Kinds:
        """One kind for each distinct label, with ``what`` before the label as its name."""
        names, place = np.unique(np.asarray(label), return_inverse=True)
        return cls(place.astype(np.int64), tuple(f"{what} {name}" for name in names.tolist()))

    @classmethod
    def of_numbers(cls, number: Floats, what: str = "y") -> Kinds:
        """Kinds by fifth of the numbers."""
        place = np.searchsorted(np.quantile(number, [0.2, 0.4, 0.6, 0.8]), number, side="right")
        return cls(place, tuple(f"in the {which} fifth of {what}" for which in _FIFTHS))

    @classmethod
    def of_scores(cls, scores: Scores) -> Kinds:
        """Kinds by fifth of the forest's predictions, for rows that have one."""
        found = cls.of_numbers(scores.mean[:, 0], "the predictions")
        return replace(found, of_row=np.where(scores.asked > 0, found.of_row, -1))


@dataclass(frozen=True, eq=False)
class RowsAsked:
    """How many trees were asked about each row, and what is known about the rows.

    Attributes
    ----------
    asked : ndarray of number, shape (n_rows,)
        Number of trees asked about each row.
    n_trees : int
        Number of trees in the forest.
    groups : Groups
        Rows that belong together: the same trees vote on all rows of a group.
    oob : bool
        Whether only those trees vote on a row that were not trained on it.
    find_kinds : callable
        Returns the kinds of the rows, or None if they are unknown; it may have to ask all trees.
    """

    asked: NDArray[Any]
    n_trees: int
    groups: Groups = ALONE
    oob: bool = True
    find_kinds: Callable[[], Kinds | None] = lambda: None

    @property
    def n_without(self) -> int:
        """Number of rows that no tree was asked about."""
        return int(np.count_nonzero(self.asked == 0))

    @cached_property
    def is_uneven(self) -> bool:
        """Whether the numbers of votes differ by more than chance among rows of groups of the same size."""
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
        """Number of each row's stratum, one stratum for each doubling of the number of votes.

        None if the numbers of votes differ only by chance.
        """
        if not self.is_uneven:
            return None
        return np.where(self.asked > 0, 1 + np.floor(np.log2(np.maximum(self.asked, 1))), 0).astype(np.int64)

    def lack(self, what: str, *, of_these_trees: bool = False) -> Lack | None:
        """Why these votes do not tell ``what`` about fresh rows; None if they do.

        ``of_these_trees`` says that the question is about this forest, not about more trees. Then rows on which nearly
        all trees vote are like fresh ones.
        """
        asked = self.asked[self.asked > 0]
        if not asked.size:
            return Lack("every tree saw every row, so no row is out of bag: train more trees", None)
        mean = float(asked.mean())
        if mean >= FEWEST_VOTES or (of_these_trees and mean >= _NEARLY_ALL * self.n_trees):
            return self.of_some_rows(what)
        return self._poor_kind(what, FEWEST_VOTES) or few_votes(mean, self.n_trees, what, oob=self.oob)

    def check(self, what: str, *, of_these_trees: bool = False) -> None:
        """Raise `FewVotesError` if these votes do not tell ``what`` about fresh rows; arguments as in `lack`."""
        lack = self.lack(what, of_these_trees=of_these_trees)
        if lack is not None:
            raise lack.error()

    def of_some_rows(self, what: str, *, fewest: int = FEWEST_VOTES) -> Lack | None:
        """The lack if one kind of rows has too few votes to tell ``what`` while the others have enough; else None."""
        poor = self._poor_kind(what, fewest)
        return self._too_many_without(what) if poor is None and not self._are_alike else poor

    @property
    def _are_alike(self) -> bool:
        """Whether only chance decides how many votes a row has."""
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
        """Whether the rows of a kind have too few votes, and fewer than the others."""
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
        """Kinds of the rows; None if they are unknown."""
        return self.find_kinds()

    @cached_property
    def _first_of_units(self) -> NDArray[np.bool_]:
        """Mask of one row per group, since the same trees vote on all rows of a group."""
        found = np.ones(len(self.asked), dtype=np.bool_)
        units = self.groups.units
        if units is not None:
            found[:] = False
            found[np.unique(units, return_index=True)[1]] = True
        return found


def _fewer(some: NDArray[Any], others: NDArray[Any]) -> bool:
    """Whether ``some`` rows have fewer votes than ``others``, beyond chance (Welch's test)."""
    if min(len(some), len(others)) <= _FEW_ROWS:
        return False
    error = math.sqrt(some.var() / len(some) + others.var() / len(others))
    return bool(some.mean() - others.mean() < -_FEWER * error)


def _trees_for(fewest: int, votes_per_row: float, n_trees: int) -> int | None:
    """Number of trees that gives the ``fewest`` votes per row, to two digits; None if nobody would train so many."""
    if votes_per_row <= 0.0:
        return None
    trees = 1.1 * fewest * n_trees / votes_per_row
    unit = 10.0 ** max(0.0, math.floor(math.log10(trees)) - 1.0)
    enough = int(math.ceil(trees / unit) * unit)
    return enough if enough <= _MOST_TREES else None
