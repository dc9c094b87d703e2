"""Goal and Answer: what a size is looked for by, and what the trees' outputs say of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from rfsize import theory
from rfsize.counting.representative import FEWEST_VOTES
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.reporting.account import Picture
from rfsize.utils.validation import share

COVERAGE = 0.95
TAIL = (1.0 - COVERAGE) / 2.0


class Loss(NamedTuple):
    """What a forest of some size is expected to lose against an unlimited forest.

    Attributes
    ----------
    value : float
        Of labels, the share that still changes. Of probabilities and scores, how far off they are: the root mean
        square, or how far 95 % of the rows are off at most, whichever is larger. Of a metric, by how much it is worse.
        The mean over forests of this size.
    interval : tuple of float
        95 % interval of the value, for other rows and other trees. Where halves of the trees lose too little of a
        metric to be told from nothing, it begins at 0, and ``value`` is its upper end.
    spread : float or None
        Of a metric, the standard deviation between single forests of this size.
    by_class : dict of class label to float, or None
        Of labels, the share that still changes among the rows that an unlimited forest gives each class.
    """

    value: float
    interval: tuple[float, float]
    spread: float | None = None
    by_class: dict[Any, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values that ``json`` can write."""
        by_class = None if self.by_class is None else {str(of): changed for of, changed in self.by_class.items()}
        return {**self._asdict(), "interval": list(self.interval), "by_class": by_class}


@dataclass(frozen=True, kw_only=True)
class Goal(ABC):
    """What must stay the same as in an unlimited forest, and how nearly.

    Attributes
    ----------
    confidence : float or None
        How sure it must be that a forest in training is large enough before it ends: its size is then the upper end of
        a one-sided interval. None asks for T* itself.
    """

    confidence: float | None = None

    is_share = False
    """Whether a loss is a share of the rows."""

    def __post_init__(self) -> None:
        if self.confidence is not None and share("confidence", self.confidence) < 0.5:
            raise ValueError(
                f"confidence must be at least 0.5, which asks for T* itself; found {self.confidence!r}. A forest that "
                "is more likely too small than not is no place to stop"
            )

    @property
    @abstractmethod
    def name(self) -> str:
        """The ``metric`` of `rfsize.size`."""

    @property
    @abstractmethod
    def level(self) -> float:
        """What may be lost at most."""

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The arguments of `rfsize.size` and `rfsize.grow` that ask for it."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What is estimated, such as "T*(0.99)"."""

    @property
    @abstractmethod
    def aim(self) -> str:
        """What a forest of T* trees does, such as "give the labels of an unlimited forest on 99 % of the rows"."""

    @property
    def asked(self) -> str:
        """What is asked for, in a word."""
        return f"{self.level:.4g}"

    @property
    @abstractmethod
    def easier(self) -> str:
        """What to ask for where this takes too many trees."""

    @property
    @abstractmethod
    def axis(self) -> str:
        """What a picture calls the loss."""

    @property
    def of_labels(self) -> bool:
        """Whether it goes by nothing but labels."""
        return False

    @property
    def fewest_votes(self) -> int:
        """Out-of-bag votes that rows of each kind must have on average."""
        return FEWEST_VOTES

    def checked(self, n_classes: int, y: ArrayLike | None = None, *, in_training: bool = False) -> Goal:
        """The goal for a forest of so many classes, 0 for regression; raises where the forest cannot reach it."""
        return self

    @abstractmethod
    def answer(self, outputs: TreeOutputs) -> Answer:
        """What the outputs on the rows that sizes go by say of it."""


class Answer(ABC):
    """What the trees' outputs say of a goal: the loss of forests of any size, and the size within it.

    Attributes
    ----------
    goal : Goal
    n_trees : int or float
        T*; ``math.inf`` where no size is known to be enough.
    n_rows, n_dropped : int
        Rows that were used, and rows left out because too few trees could be asked about them.
    votes_per_row : float
        Mean number of trees asked about a row.
    untold : bool
        Whether so many rows that belong together have no votes that they leave T* unknown.
    """

    goal: Goal
    n_trees: int | float
    n_rows: int
    n_dropped: int
    votes_per_row: float
    untold: bool

    fewest_votes = FEWEST_VOTES
    """Votes a row that it takes to tell T*."""

    @property
    def is_bound(self) -> bool:
        """Whether T* is only known to be `n_trees` at most."""
        return False

    @property
    def measured(self) -> tuple[tuple[float, float], ...]:
        """Sizes and losses that were measured, for a picture."""
        return ()

    @abstractmethod
    def size_at(self, level: float) -> int | float:
        """T* at another level: another alpha of labels, another tolerance of anything else."""

    @abstractmethod
    def quantile(self, share_below: float) -> int | float:
        """The size that T* is at most with a probability."""

    @abstractmethod
    def value(self, n_trees: int) -> float:
        """See `Loss.value`."""

    @abstractmethod
    def interval(self, n_trees: int) -> tuple[float, float]:
        """See `Loss.interval`."""

    def loss(self, n_trees: int) -> Loss:
        """What so many trees lose."""
        value, (low, high) = self.value(n_trees), self.interval(n_trees)
        return Loss(value, (min(low, value), max(high, value)))

    @abstractmethod
    def said(self, n_trees: int) -> str:
        """How a report says what its forest of so many trees loses."""

    @abstractmethod
    def in_short(self, n_trees: int) -> str:
        """The same as one item of the losses that a report about something else lists."""

    def cannot_tell(self, available: int) -> str | None:
        """Why the trees at hand do not tell T*, and what to do; None where they do."""
        return None

    def why_infinite(self) -> str:
        """Why no size is enough."""
        return f"more than {theory.MAX_TREES - 1:,} trees would be needed"

    def notes(self) -> list[str]:
        """What you should know beside T*."""
        return []

    def pictures(self) -> tuple[Picture, ...]:
        """Pictures beside the loss over the number of trees."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """What only a report of this goal has, as plain Python values."""
        return {}


def within_reach(size: int) -> int | float:
    """A size; infinite beyond those that are searched for."""
    return size if size < theory.MAX_TREES else float("inf")
