"""What every rule of stopping has.

A rule is one class in a file here, and one in a file rfsize/_native/stop_*.cpp that a compiled forest runs. It owns
which forests may have it, where rows stop and what they are answered, how it is built or calibrated, its figures, its
words and its picture, its part of a table's file, and what it is in C. Nobody lists the rules: each says its kind.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize.certifying.certificate import Certificate, ClassCounts, ClassOutcome
from rfsize.certifying.promise import Promise
from rfsize.certifying.trees_on_rows import TreesOnRows
from rfsize.stopping.document import Fields, refuse
from rfsize.stopping.terms import Terms
from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.votes import Votes
from rfsize.walking.layout import Forest

TREES_BETWEEN_LOOKS = 8
"""After how many trees a row is looked at again where to look after each would take longer than to walk down it."""

# Votes or scores that are looked at together, at most.
_TOGETHER = 2_000_000


class Figures(NamedTuple):
    """What a rule is expected to do to rows.

    Attributes
    ----------
    disagreement : float
        Share of them that are answered otherwise than by the target.
    trees : float
        Mean number of trees asked; NaN where that is not known.
    unsettled : float
        Share that never reaches α.
    """

    disagreement: float
    trees: float
    unsettled: float


@dataclass(frozen=True, eq=False)
class Drawing:
    """Where rows stop, as curves over numbers of trees, or of votes.

    Attributes
    ----------
    over : ndarray, shape (n,)
    going : (ndarray, ndarray), each of shape (n,)
        Rows ask on between the two.
    stops : dict of ndarray, shape (n,)
        Where they stop, by what they are told; NaN where none does.
    xlabel, ylabel : str
    aside : (str, ndarray of shape (n,)), optional
        What the curves are compared with.
    highest : float, optional
        Where the vertical axis ends.
    of_trees : bool, default True
        Whether ``over`` are trees asked.
    is_logarithmic : bool, default False
        Of the vertical axis: leads run from beyond any lead to 0.
    """

    over: Int64s
    going: tuple[NDArray[Any], NDArray[Any]]
    stops: dict[str, NDArray[Any]]
    xlabel: str
    ylabel: str
    aside: tuple[str, NDArray[Any]] | None = None
    highest: float | None = None
    of_trees: bool = True
    is_logarithmic: bool = False


class Stops(ABC):
    """Where rows stop asking trees, and what they are answered.

    Attributes
    ----------
    kind : str
        Its name in files.
    rules : tuple of str
        What a table's ``rule`` may be.
    stored : tuple of str
        The keys of `to_dict`.
    voting : {"hard", "soft"}
        Whether it goes by the trees' votes or by their scores.
    metric : {"labels", "probabilities", "scores"}
        What its answers are.
    calibrates : tuple of str
        The metrics for which `rfsize.StopTable.calibrate` makes it.
    is_computed : bool
        Whether its figures follow from a prior, and not from rows.
    knows_limit : bool
        Whether it may agree with the infinite forest.
    counts_alike : bool
        Whether all members count alike.
    """

    kind: ClassVar[str]
    rules: ClassVar[tuple[str, ...]]
    stored: ClassVar[tuple[str, ...]]
    voting: ClassVar[str]
    metric: str
    calibrates: ClassVar[tuple[str, ...]] = ()
    is_computed: ClassVar[bool] = False
    knows_limit: ClassVar[bool] = False
    counts_alike: ClassVar[bool] = True

    _by_kind: ClassVar[dict[str, type[Stops]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" not in vars(cls):
            return
        other = Stops._by_kind.get(cls.kind, cls)
        if not _is_the_same(cls, other):
            raise TypeError(
                f"two rules of stopping are of the kind {cls.kind!r}, by which files know them: {_where(other)} and "
                f"{_where(cls)}. Give one of them another kind"
            )
        Stops._by_kind[cls.kind] = cls

    @classmethod
    def kinds(cls, n_trees: int, n_classes: int) -> dict[str, type[Self]]:
        """The rules of this kind that a forest may have, by name; one class stands for a regression."""
        found = Stops._by_kind.items()
        return {name: kind for name, kind in found if issubclass(kind, cls) and kind.fits(n_trees, n_classes)}

    @classmethod
    def calibrating(cls, metric: str, voting: str, n_trees: int, n_classes: int) -> type[Stops]:
        """The rule that a forest takes to keep a metric by votes ("hard") or by scores ("soft")."""
        found = [kind for kind in Stops._by_kind.values() if kind.voting == voting and metric in kind.calibrates]
        (rule,) = (kind for kind in found if kind.fits(n_trees, n_classes))
        return rule

    @classmethod
    def fits(cls, n_trees: int, n_classes: int) -> bool:
        """Whether a forest may have it."""
        return n_classes > 1

    @classmethod
    def calibrated(cls, trees: TreesOnRows, promise: Promise) -> tuple[Terms, Stops, Certificate]:
        """The boldest stops that are certified on rows to keep the promise."""
        raise NotImplementedError

    def simulated(self, terms: Terms, votes: Votes | None) -> ClassCounts | None:
        """What stops that were just built do to simulated rows; None where their figures follow from the terms."""
        return None

    @abstractmethod
    def checked(self, outputs: ArrayLike, terms: Terms) -> NDArray[Any]:
        """Outputs of trees that `answers` takes; ``ValueError`` where they are none."""

    @abstractmethod
    def answers_of_block(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        """What rows are answered, and how many trees they ask, from all outputs of the trees; see `answers`."""

    def answers(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        """What rows are answered, and how many trees they ask, a block of rows at a time.

        Parameters
        ----------
        outputs : ndarray, shape (n, T) of votes, (n, T, n_scores) of scores
            Of all trees in the order in which they are asked; of weighted votes in the members' own order.
        n_classes : int
        """
        step = max(1, _TOGETHER // max(math.prod(outputs.shape[1:]), n_classes))
        starts = range(0, max(1, len(outputs)), step)
        blocks = [self.answers_of_block(outputs[start : start + step], n_classes) for start in starts]
        answers, asked = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return answers, asked

    @abstractmethod
    def on(self, forest: Forest) -> Settling:
        """The rule as the compiled loops run it on rows of a forest."""

    def check_forest(self, forest: Forest) -> None:  # noqa: B027
        """``ValueError`` where the rule is not for a forest that has the trees and classes of its table."""

    def figures(self, terms: Terms, seen: ClassCounts | None) -> Figures:
        """What it does to rows, by what was seen of it or what follows from the terms."""
        assert seen is not None
        return Figures(seen.disagreement, seen.mean_trees, 0.0)

    def by_class(self, terms: Terms, seen: ClassCounts | None) -> list[ClassOutcome]:
        """The same of the rows that all trees give each class."""
        assert seen is not None
        return seen.by_class(terms.class_labels)

    def by_tally(self, target: str) -> Floats | None:
        """Probability of a wrong answer given each final tally; None where tallies are no single numbers."""
        return None

    def check_kept(self, terms: Terms) -> None:  # noqa: B027
        """``TableError`` where stops of a file do not keep what the terms promise."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The arrays and numbers as plain values."""

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: Fields, n_trees: int, n_classes: int) -> Stops:
        """What `to_dict` gave, checked."""

    @classmethod
    def prior_of(cls, fields: Fields, n_trees: int) -> Floats | None:
        """The prior that the stops were built with, checked."""
        if fields["prior"] is not None:
            refuse(f"a table of kind {cls.kind!r} has no prior")
        return None

    @property
    def goes_by(self) -> str:
        """Words of a table's ``repr`` that say what agrees, where its rule does not say it."""
        return ""

    @property
    def differs(self) -> str:
        """What rows do that disagree."""
        return "get another label than all trees give"

    @abstractmethod
    def drawing(self, n_trees: int, classes: list[str]) -> Drawing:
        """Where rows stop; ``classes`` is what to call the classes."""


def _is_the_same(one: type, other: type) -> bool:
    """Whether two classes are one that was made again: reloaded, or its file imported under another name."""
    same_module = one.__module__ == other.__module__ or _file(one) == _file(other) is not None
    return same_module and one.__qualname__ == other.__qualname__


def _file(cls: type) -> str | None:
    """Where a class is written down; None where its module came from no file."""
    return getattr(sys.modules.get(cls.__module__), "__file__", None)


def _where(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__} ({_file(cls) or 'of no file'})"


class Settling(ABC):
    """A rule on rows of one compiled forest."""

    @abstractmethod
    def settle(self, rows: _core.Rows, answer: NDArray[Any], asked: Int64s) -> None:
        """Ask trees about rows until each is settled.

        Parameters
        ----------
        rows : _core.Rows
            As the trees compare them.
        answer : ndarray
            The index of each label, -1 before; of numbers the sums of scores, before what these start with.
        asked : ndarray of int64, shape (n,)
            Trees asked, T before.
        """

    def label_in_c(self) -> str:
        """The function ``label_of`` in C, of a rule that answers labels."""
        raise NotImplementedError
