"""Goal and Answer: what a size is looked for by, and what the trees' outputs say of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from numpy.typing import ArrayLike

from rfsize import theory
from rfsize.certifying.certificate import AVERAGES, Certificate
from rfsize.counting.evidence import VOTINGS, Evidence
from rfsize.counting.representative import FEWEST_VOTES
from rfsize.reporting.account import Grid, Picture
from rfsize.sizing.described import Savings
from rfsize.sizing.named_metrics import MetricLike, name_of
from rfsize.utils.validation import choice, positive, refuse_unused, share
from rfsize.utils.warn import Caution
from rfsize.utils.words import in_percent


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

    names: ClassVar[tuple[str, ...]] = ()
    """What ``metric`` of `rfsize.size` may be, of those that have names."""

    is_share = False
    """Whether a loss is a share of the rows."""

    of_votes = False
    """Whether it goes by votes, so that it needs trees that cast them, and no more."""

    is_of_predictions = True
    """Whether it is what a forest predicts that must stay the same."""

    made_by = "rfsize.truncate(model, n_trees=report)"
    """What makes the smaller forest of a report."""

    def __post_init__(self) -> None:
        if self.confidence is not None and share("confidence", self.confidence) < 0.5:
            raise ValueError(
                f"confidence must be at least 0.5, which asks for T* itself; found {self.confidence!r}. "
                "Below that, the forest would more likely be too small than large enough"
            )

    @classmethod
    def is_named(cls, metric: MetricLike) -> bool:
        """Whether a ``metric`` of `rfsize.size` means this kind of goal."""
        return metric in cls.names

    @classmethod
    @abstractmethod
    def named(cls, metric: MetricLike, **given: Any) -> Goal:
        """The goal that a user means by it, and by the options that were given, such as ``alpha`` and ``tolerance``.

        Raises
        ------
        ValueError
            If the options do not go together, or one of them is none.
        """

    @classmethod
    def beside(cls, outputs: Evidence) -> tuple[str, ...]:
        """Names of the goals of this kind whose losses a report about something else lists."""
        return ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The ``metric`` of `rfsize.size`."""

    def answers(self, metric: MetricLike) -> bool:
        """Whether it tells what smaller forests lose of a metric against an unlimited forest."""
        return metric == self.name

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
    def level_in_words(self) -> str:
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
    def agreement_axis(self) -> str:
        """What a picture calls the share of rows that stays; of anything else, the loss."""
        return self.axis

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
    def answer(self, outputs: Evidence) -> Answer:
        """What the outputs on the rows that sizes go by say of it."""


@dataclass(frozen=True)
class GoalOnRows(Goal):
    """A goal that a share of the rows must keep.

    Attributes
    ----------
    alpha, voting, average
        As in `rfsize.size`.
    """

    alpha: float = 0.99
    voting: str = "auto"
    average: str = "micro"

    is_share = True

    def __post_init__(self) -> None:
        super().__post_init__()
        share("alpha", self.alpha)
        choice("voting", self.voting, VOTINGS)
        choice("average", self.average, AVERAGES)

    @property
    def level(self) -> float:
        return 1.0 - self.alpha

    @property
    def level_in_words(self) -> str:
        return in_percent(self.alpha)

    @property
    def options(self) -> dict[str, Any]:
        chosen = {"voting": self.voting, "average": self.average}
        usual = {"voting": GoalOnRows.voting, "average": GoalOnRows.average}
        return {"alpha": self.alpha, **{name: value for name, value in chosen.items() if value != usual[name]}}


@dataclass(frozen=True)
class GoalWithin(Goal):
    """A goal that is lost by a number, which a tolerance bounds.

    Attributes
    ----------
    metric : str or callable
        What is lost.
    tolerance : float
        How much of it may be.
    """

    metric: MetricLike
    tolerance: float

    easier = "a larger tolerance"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("tolerance", self.tolerance)

    @classmethod
    def named(cls, metric: MetricLike, **given: Any) -> Goal:
        others = {name: value for name, value in given.items() if name not in ("tolerance", "confidence")}
        refuse_unused(
            f"with metric={metric!r} tolerance says how far off it may be. Leave out {' and '.join(others)}", **others
        )
        if "tolerance" not in given:
            raise ValueError(f"metric={metric!r} needs a tolerance, such as tolerance=0.01: how far off it may be")
        return cls(metric, **given)

    @property
    def name(self) -> str:
        return self.metric if isinstance(self.metric, str) else name_of(self.metric)

    @property
    def level(self) -> float:
        return self.tolerance

    @property
    def options(self) -> dict[str, Any]:
        return {"metric": self.metric, "tolerance": self.tolerance}

    @property
    def title(self) -> str:
        return f"T*({self.name} within {self.level_in_words})"


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
    lacks_votes : bool
        Whether so many rows that belong together have no votes that they leave T* unknown.
    """

    goal: Goal
    n_trees: int | float
    n_rows: int
    n_dropped: int
    votes_per_row: float
    lacks_votes: bool

    fewest_votes = FEWEST_VOTES
    """Votes a row that it takes to tell T*."""

    cautions: tuple[Caution, ...] = ()
    """Warnings about what is lost itself, such as that it may be infinite on other rows."""

    certificate: Certificate | None = None
    """What is certified of the first `n_trees` trees; None where they are an estimate."""

    largest: int | None = None
    """The largest forest that it knows of; None where it knows of any."""

    tried: tuple[int, ...] | None = None
    """Sizes that it knows of; None where it knows of all."""

    are = "enough"
    """What a report says of the trees that it keeps, where they are certified."""

    against = "an unlimited forest"
    """What smaller forests are compared with."""

    @property
    def savings(self) -> Savings | None:
        """What the forest at hand costs, and the smaller one, where its trees are not the first ones."""
        return None

    def which(self, kept: int, trees: str) -> str:
        """So many trees, of those that there are, as a subject."""
        return f"{kept:,} of {trees}"

    @property
    def seen(self) -> Any:
        """What `fewest_alike` asks of an earlier look at a forest in training; None where it asks nothing."""
        return None

    def fewest_alike(self, before: Any, n_trees: int) -> int:
        """The fewest first of ``n_trees`` trees that are as near to all of them as the goal asks, by what was ``seen``.

        0 where nothing tells.
        """
        return 0

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

    def suffering(self, n_trees: int, others: Callable[[], Iterable[Answer]]) -> list[str]:
        """What suffers where a forest is cut to so many trees for this goal, as the answers to others tell it."""
        return []

    def harm(self, n_trees: int, *, of_a_rare_class: bool) -> str | None:
        """What suffers of this where a forest is cut to so many trees for its labels; None where nothing does."""
        return None

    def grids(self, n_trees: int) -> tuple[Grid, ...]:
        """Tables beside the losses of forests of several sizes, of a forest of so many trees."""
        return ()

    def main_pictures(self) -> tuple[Picture, ...]:
        """Pictures in place of the loss over the number of trees; none where that is drawn."""
        return ()

    def pictures(self) -> tuple[Picture, ...]:
        """Pictures beside the loss over the number of trees."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """What only a report of this goal has, as plain Python values."""
        return {}
