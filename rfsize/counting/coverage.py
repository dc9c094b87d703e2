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
are no guide to them, and rfsize raises an error. Without ``y`` the kinds are not known, and a few rows with too few
votes are enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from rfsize._util import Bools, Int64s, how_many, in_percent
from rfsize.counting.groups import NO_GROUPS, Groups
from rfsize.exceptions import FewVotesError

if TYPE_CHECKING:
    from rfsize.counting.outputs import TreeOutputs

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


def too_many_without_votes(n_dropped: int, n_rows: int) -> bool:
    """Whether so many rows have no votes that an answer holds only for the other rows."""
    return n_dropped > max(_FEW_ROWS, _FEW_WITHOUT_VOTES * n_rows)


def by_nature_advice(groups: str) -> str:
    """Further advice if grouped copies leave rows without votes; the end of a sentence."""
    if groups != "copies":
        return ""
    return "; or give groups='rows' if equal rows are different cases, so that fresh rows have copies too"


def fewest_votes(n_classes: int) -> int:
    """Votes per row needed to estimate how many trees keep the labels, by the number of classes.

    The votes themselves choose the leading class and its nearest rival. With many classes, few votes choose two classes
    that are closer than the true ones, and T* comes out too large (`benchmarks/many_classes.py`). So each doubling of
    the classes needs as many more votes as two classes do.
    """
    return math.ceil(FEWEST_VOTES * math.log2(max(n_classes, 2)))


def few_votes(
    votes_per_row: float, n_trees: int, what: str, *, oob: bool = True, fewest: int = FEWEST_VOTES
) -> FewVotesError:
    """The error if too few trees vote on each row to tell ``what``."""
    enough, advice = _trees_for(fewest, votes_per_row, n_trees), ""
    if enough is not None:
        advice = f": train at least {how_many(enough, 'tree')}{', or give validation rows' if oob else ''}"
    if oob and votes_per_row < FEW_OUT_OF_BAG * n_trees:
        advice += ", or train with a smaller bagging fraction"
    text = f"{votes_per_row:.1f} votes per row, from {how_many(n_trees, 'tree')}, are too few to tell {what}"
    return FewVotesError(f"{text}; it takes at least {fewest}{advice}", enough=enough)


@dataclass(frozen=True, eq=False)
class Coverage:
    """How many trees vote on each row, and what is known about the rows.

    Attributes
    ----------
    n_votes : ndarray of number, shape (n_rows,)
        Number of trees that vote on each row.
    n_trees : int
        Number of trees in the forest.
    groups : Groups
        Rows that belong together: the same trees vote on all rows of a group.
    oob : bool
        Whether only those trees vote on a row that were not trained on it.
    y : ndarray, shape (n_rows,), or None
        Labels or numbers of the rows, by which their kinds are named.
    of_classes : bool
        Whether ``y`` holds labels.
    """

    n_votes: NDArray[Any]
    n_trees: int
    groups: Groups = NO_GROUPS
    oob: bool = True
    y: NDArray[Any] | None = None
    of_classes: bool = True

    @property
    def lacks_votes(self) -> bool:
        """Whether so many rows have no votes that an answer holds only for the other rows."""
        return too_many_without_votes(int(np.count_nonzero(self.n_votes == 0)), len(self.n_votes))

    @cached_property
    def is_uneven(self) -> bool:
        """Whether the numbers of votes differ by more than chance among rows of groups of the same size."""
        first = self.groups.representatives(len(self.n_votes))
        if np.count_nonzero(first) < _ROWS_THAT_TELL:
            return False
        sizes = np.ones(len(self.n_votes)) if self.groups.sizes is None else self.groups.sizes
        squares, freedom = 0.0, 0
        for size in np.unique(sizes):
            votes = np.sort(self.n_votes[first & (sizes == size)])[_FEW_ROWS:].astype(np.float64)
            left_out = float(votes.mean()) / self.n_trees if votes.size else 0.0
            if 0.0 < left_out < 1.0:
                squares += float(np.sum((votes - votes.mean()) ** 2)) / (self.n_trees * left_out * (1.0 - left_out))
                freedom += votes.size - 1
        return squares > _OVERDISPERSED * freedom and float(chi2.sf(squares, freedom)) < _BY_CHANCE

    @property
    def strata(self) -> Int64s | None:
        """Number of each row's stratum, one stratum for each doubling of the number of votes.

        None if the numbers of votes differ only by chance.
        """
        return np.frexp(self.n_votes)[1].astype(np.int64) if self.is_uneven else None

    def problem(self, what: str, *, of_these_trees: bool = False) -> FewVotesError | None:
        """Why these votes do not tell ``what`` about fresh rows; None if they do.

        ``of_these_trees`` says that the question is about this forest, not about more trees. Then rows on which nearly
        all trees vote are like fresh ones.
        """
        n_votes = self.n_votes[self.n_votes > 0]
        if not n_votes.size:
            return FewVotesError("every tree saw every row, so no row is out of bag: train more trees")
        mean = float(n_votes.mean())
        if mean >= FEWEST_VOTES or (of_these_trees and mean >= _NEARLY_ALL * self.n_trees):
            return self.problem_of_some(what)
        return self._poor_kind(what, FEWEST_VOTES) or few_votes(mean, self.n_trees, what, oob=self.oob)

    def check(self, what: str) -> None:
        """Raise `FewVotesError` if these votes do not tell ``what`` of these trees about fresh rows, see `problem`."""
        problem = self.problem(what, of_these_trees=True)
        if problem is not None:
            raise problem

    def problem_of_some(self, what: str, *, fewest: int = FEWEST_VOTES) -> FewVotesError | None:
        """Why some rows have too few votes to tell ``what`` while the others have enough; None if chance decides."""
        if not self._may_differ:
            return None
        poor_kind = self._poor_kind(what, fewest)
        n_poor = int(np.count_nonzero(self.n_votes < fewest))
        if poor_kind is None and self.lacks_votes:
            share = in_percent(float(np.mean(self.n_votes == 0)))
            return self._error(f"{share} of the rows have no out-of-bag votes, and not by chance", what, None)
        if self.y is None and self.is_uneven and too_many_without_votes(n_poor, len(self.n_votes)):
            text = f"{how_many(n_poor, 'row')} have fewer than {fewest} out-of-bag votes, and y, which is not given, "
            return self._error(f"{text}would tell whether they are of one kind", what, None)
        return poor_kind

    @property
    def _may_differ(self) -> bool:
        """Whether the number of votes of a row is more than chance: by its group, or by uneven bags."""
        return self.groups.sizes is not None or self.is_uneven

    def _poor_kind(self, what: str, fewest: int) -> FewVotesError | None:
        """The error if rows of one kind have too few votes, and fewer than the others."""
        if self.y is None or self.n_votes.min() >= fewest or not self._may_differ:
            return None
        names, kind = self._kinds(self.y)
        poor = [place for place in range(len(names)) if self._is_poor(kind == place, fewest)]
        if not poor:
            return None
        place = min(poor, key=lambda place: float(self.n_votes[kind == place].mean()))
        own, mean_of_others = self.n_votes[kind == place], float(self.n_votes[kind != place].mean())
        mean, without = float(own.mean()), in_percent(float(np.mean(own == 0)))
        text = f"the {how_many(len(own), 'row')} {names[place]} have {mean:.1f} out-of-bag votes on average ({without} "
        text += f"of them none), the others {mean_of_others:.1f}"
        enough = _trees_for(fewest, max(mean, 1.0 / len(own)), self.n_trees) if mean < fewest else None
        return self._error(text, f"{what}, which takes {fewest} votes on rows of each kind", enough)

    def _kinds(self, y: NDArray[Any]) -> tuple[list[str], Int64s]:
        """Names of the kinds of rows, as messages write them after "rows", and the kind of each row."""
        if self.of_classes:
            names, kind = np.unique(y, return_inverse=True)
            return [f"of class {name}" for name in names.tolist()], kind
        numbers = y.astype(np.float64)
        kind = np.searchsorted(np.quantile(numbers, [0.2, 0.4, 0.6, 0.8]), numbers, side="right")
        return [f"in fifth {fifth} of y (the lowest is 1)" for fifth in range(1, 6)], kind

    def _is_poor(self, of_kind: Bools, fewest: int) -> bool:
        """Whether the rows of a kind have too few votes, and beyond chance fewer than the others (Welch's test)."""
        first, n_votes = self.groups.representatives(len(self.n_votes)), self.n_votes[of_kind]
        own, others = self.n_votes[of_kind & first], self.n_votes[~of_kind & first]
        if min(len(own), len(others)) <= _FEW_ROWS:
            return False
        if n_votes.mean() >= fewest and np.count_nonzero(n_votes == 0) <= max(_FEW_ROWS, _WITHOUT * len(n_votes)):
            return False
        error = math.sqrt(own.var() / len(own) + others.var() / len(others))
        return bool(own.mean() - others.mean() < -_FEWER * error)

    def _error(self, text: str, what: str, enough: int | None) -> FewVotesError:
        """The error for votes that are few because of how the bags were drawn."""
        cause, advice = "groups are large, and every tree saw some row of them", "train with smaller bags"
        if self.is_uneven:
            cause = "the bags were not drawn evenly, as with class_weight='balanced' or a fraction for each class"
            advice += ", or class_weight='balanced_subsample'"
        if enough is not None:
            advice = f"train at least {how_many(enough, 'tree')}, or {advice}"
        advice += f"; or give validation rows{by_nature_advice(self.groups.by)}"
        return FewVotesError(f"{text}, because {cause}. So these votes cannot tell {what}: {advice}", enough=enough)


def _trees_for(fewest: int, votes_per_row: float, n_trees: int) -> int | None:
    """Number of trees that gives the ``fewest`` votes per row, to two digits; None if nobody would train so many."""
    trees = 1.1 * fewest * n_trees / votes_per_row if votes_per_row > 0.0 else math.inf
    if trees > _MOST_TREES:
        return None
    unit = 10.0 ** max(0.0, math.floor(math.log10(trees)) - 1.0)
    return int(math.ceil(trees / unit) * unit)


# Whether the rows have enough votes to estimate how many trees are enough

_FEWEST_VOTES_OF_METRICS = 40
"""Every quarter of the trees must predict rows of each kind, or the loss of smaller forests cannot be measured."""

_SIZES = "how many trees are enough"


def check_votes(votes: Coverage, *, of_metric: bool = False) -> None:
    """Raise `FewVotesError` if rows of some kind have too few out-of-bag votes to size labels, or to size a metric."""
    # If rows of large groups have no votes, or no row has any, the report says so; no error is raised here.
    if votes.oob and (votes.is_uneven or not votes.lacks_votes):
        problem = votes.problem_of_some(_SIZES, fewest=_FEWEST_VOTES_OF_METRICS if of_metric else FEWEST_VOTES)
        if problem is not None:
            raise problem


def problem_of_votes(
    outputs: TreeOutputs, votes_per_row: float, n_dropped: int, n_rows: int, fewest: int, has_kinds: bool = False
) -> tuple[str | None, bool]:
    """Why the votes do not tell how many trees are enough, and what to do, None if they do; and whether rows lack them.

    Rows lack votes if too many of large groups, or with ``has_kinds`` of uneven bags, have none.
    """
    lacks = (has_kinds or outputs.groups.sizes is not None) and too_many_without_votes(n_dropped, n_rows)
    if votes_per_row < fewest:
        is_oob = outputs.source == "oob"
        return str(few_votes(votes_per_row, outputs.n_trees, _SIZES, oob=is_oob, fewest=fewest)), lacks
    if not lacks:
        return None, False
    return (
        f"{in_percent(n_dropped / n_rows)} of the rows have no out-of-bag votes, since every tree saw a row of their "
        "groups, and may be the ones that take most trees: give validation rows, take rfsize.tree_outputs(cv=...), or "
        f"lower the bagging fraction{by_nature_advice(outputs.groups.by)}"
    ), True


def no_votes_error(outputs: TreeOutputs, what: str) -> FewVotesError:
    """The error if no row has ``what``: a vote, or the scores of two trees."""
    if outputs.source != "oob" or outputs.n_trees < 2:
        trees = how_many(outputs.n_trees, "tree")
        return FewVotesError(f"no row has {what} of the forest's {trees}: train more, or give other rows")
    advice = f"lower the bagging fraction or give validation rows{by_nature_advice(outputs.groups.by)}"
    return FewVotesError(f"no row has {what}: every tree saw every row, or another of its group; {advice}")
