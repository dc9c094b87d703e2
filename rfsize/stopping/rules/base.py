"""What every rule of stopping has.

A rule is one class here, and one in rfsize/_native/stop_*.hpp that a compiled forest runs. It owns where rows stop and
what they are answered, how it is built or calibrated, its figures, its words and its picture, its part of a table's
file, and what it is in C. `rfsize.stopping.rules.kinds` names them all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.stopping.certificate import ClassOutcome
from rfsize.stopping.document import Fields, refuse
from rfsize.utils.typing import Floats, Int64s

MAX_TREES = 10_001
"""The largest forest that a table can be built for."""

TARGETS = ("forest", "limit")

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


@dataclass(frozen=True, eq=False)
class Terms:
    """What stops are for: see `rfsize.stopping.table.StopTable`, whose fields these are.

    ``alpha`` is what they were built with, which of certified ones need not be what is certified.
    """

    n_trees: int
    n_classes: int
    alpha: float
    rule: str
    target: str
    prior: Floats | None


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
    is_computed: ClassVar[bool] = False
    knows_limit: ClassVar[bool] = False
    counts_alike: ClassVar[bool] = True

    @abstractmethod
    def settle(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        """What rows are answered, and how many trees they ask, from all outputs of the trees; see `settled`."""

    def settled(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        """What rows are answered, and how many trees they ask, a block of rows at a time.

        Parameters
        ----------
        outputs : ndarray, shape (n, T) of votes, (n, T, n_scores) of scores
            Of all trees in the order in which they are asked; of weighted votes in the members' own order.
        n_classes : int
        """
        step = max(1, _TOGETHER // max(math.prod(outputs.shape[1:]), n_classes))
        starts = range(0, max(1, len(outputs)), step)
        blocks = [self.settle(outputs[start : start + step], n_classes) for start in starts]
        answers, asked = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return answers, asked

    def figures(self, terms: Terms) -> Figures | None:
        """What follows from the terms; None where rows tell."""
        return None

    def by_class(self, terms: Terms, labels: tuple[Any, ...]) -> list[ClassOutcome] | None:
        """What follows from the terms of each class; None where rows tell."""
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
