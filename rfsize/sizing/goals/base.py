"""Goal and Answer: what must stay the same in a smaller forest, and how many trees that takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from numpy.typing import ArrayLike

from rfsize import theory
from rfsize._util import Caution, choice, in_percent, positive, refuse_unused, share
from rfsize.certifying.certificate import AVERAGES, Certificate
from rfsize.counting.coverage import FEWEST_VOTES
from rfsize.counting.outputs import VOTINGS, TreeOutputs
from rfsize.reporting.account import Grid, Picture
from rfsize.sizing.named_metrics import MetricLike, name_of


class Loss(NamedTuple):
    """What a forest of some size is expected to lose against an unlimited forest.

    Attributes
    ----------
    value : float
        The mean loss of forests of this size. For labels, the share that still changes. For probabilities and scores,
        how far they move: the root mean square, or the distance that 95 % of the rows keep within, whichever is larger.
        For a metric, how much worse it is.
    interval : tuple of float
        95 % interval of the value, for other rows and other trees. If halves of your trees show no clear loss of a
        metric, the interval begins at 0 and ``value`` is its upper end.
    spread : float or None
        For a metric, the standard deviation between single forests of this size.
    by_class : dict of class label to float, or None
        For labels, the share that still changes among the rows to which an unlimited forest gives each class.
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
    """What must stay the same as in an unlimited forest, and how closely.

    Attributes
    ----------
    confidence : float or None
        During training: how sure the forest must be large enough before training ends. The forest then gets the size
        at the upper end of a one-sided interval. None asks for T* itself.
    """

    confidence: float | None = None

    names: ClassVar[tuple[str, ...]] = ()
    """Names by which ``metric`` of `rfsize.size` asks for this kind of goal."""

    is_share = False
    """Whether a loss is a share of the rows."""

    takes_alpha = False
    """Whether the user states the level by ``alpha``, and not by ``tolerance``."""

    of_votes = False
    """Whether the goal needs nothing but the trees' votes."""

    is_of_predictions = True
    """Whether the forest's predictions must stay the same, and not only a metric of them."""

    made_by = "rfsize.truncate(model, n_trees=report)"
    """The call that makes the smaller forest of a report."""

    call = "report = rfsize.size({rows}, {options})"
    """The call that asks another question of the same forest."""

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
        """The goal of a ``metric`` and the given options, such as ``alpha`` and ``tolerance``.

        Raises
        ------
        ValueError
            If the options do not go together, or one of them is not valid.
        """

    @classmethod
    def beside(cls, outputs: TreeOutputs) -> tuple[str, ...]:
        """Names of the goals of this kind whose losses a report on another goal lists as well."""
        return ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The ``metric`` of `rfsize.size`."""

    def answers(self, metric: MetricLike) -> bool:
        """Whether the answer to this goal also tells the loss of ``metric`` against an unlimited forest."""
        return metric == self.name

    @property
    @abstractmethod
    def level(self) -> float:
        """The largest loss that is allowed."""

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The arguments of `rfsize.size` and `rfsize.grow` that ask for this goal."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The name of the number that is estimated, such as "T*(0.99)"."""

    @property
    @abstractmethod
    def aim(self) -> str:
        """What a forest of T* trees does, such as "give the labels of an unlimited forest on 99 % of the rows"."""

    @property
    def level_in_words(self) -> str:
        """The level in words, such as "99 %"."""
        return f"{self.level:.4g}"

    @property
    @abstractmethod
    def easier(self) -> str:
        """What the user can ask for instead if the goal takes too many trees."""

    @property
    @abstractmethod
    def axis(self) -> str:
        """What a picture calls the loss."""

    @property
    def agreement_axis(self) -> str:
        """What a picture calls the share of rows that stays the same; for other goals, the loss."""
        return self.axis

    @property
    def of_labels(self) -> bool:
        """Whether the goal depends on labels only."""
        return False

    @property
    def fewest_votes(self) -> int:
        """Out-of-bag votes that rows of each kind must have on average."""
        return FEWEST_VOTES

    def checked(self, n_classes: int, y: ArrayLike | None = None, *, in_training: bool = False) -> Goal:
        """The goal for a forest of ``n_classes`` classes (0: regression); raises if it does not fit the forest."""
        return self

    @abstractmethod
    def answer(self, outputs: TreeOutputs) -> Answer:
        """The answer to the goal, from the trees' outputs on distinct rows."""


@dataclass(frozen=True)
class GoalOnRows(Goal):
    """A goal that a share ``alpha`` of the rows must reach.

    Attributes
    ----------
    alpha, voting, average
        As in `rfsize.size`.
    """

    alpha: float = 0.99
    voting: str = "auto"
    average: str = "micro"

    is_share = takes_alpha = True

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
    """A goal whose loss is a number that must stay within a tolerance.

    Attributes
    ----------
    metric : str or callable
        What is lost: probabilities, scores or a metric.
    tolerance : float
        The largest loss that is allowed.
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
    """The answer to a goal: the loss of forests of any size, and the size that reaches the goal.

    Attributes
    ----------
    goal : Goal
    n_trees : int or float
        T*; ``math.inf`` if no size is known to be enough.
    n_rows, n_dropped : int
        Rows that were used, and rows left out because too few trees could predict them.
    votes_per_row : float
        Mean number of trees that predicted a row.
    lacks_votes : bool
        Whether T* is unknown because too many rows of large groups have no votes.
    """

    goal: Goal
    n_trees: int | float
    n_rows: int
    n_dropped: int
    votes_per_row: float
    lacks_votes: bool

    fewest_votes = FEWEST_VOTES
    """The smallest mean number of votes per row from which T* can be estimated."""

    cautions: tuple[Caution, ...] = ()
    """Warnings about the loss itself, such as that it may be infinite on other rows."""

    certificate: Certificate | None = None
    """The certificate of the first `n_trees` trees; None if `n_trees` is an estimate."""

    largest: int | None = None
    """The largest size whose loss is known; None if there is no limit."""

    tried: tuple[int, ...] | None = None
    """The sizes whose loss is known; None if it is known for all."""

    are = "enough"
    """The word in "105 of your 500 trees are enough (certified)"."""

    against = "an unlimited forest"
    """The forest that smaller forests are compared with."""

    def which(self, kept: int, trees: str) -> str:
        """The subject of a sentence about the kept trees, such as "105 of your 500 trees"."""
        return f"{kept:,} of {trees}"

    @property
    def seen(self) -> Any:
        """What `fewest_alike` needs later from this look at a forest in training; None if nothing."""
        return None

    def fewest_alike(self, before: Any, n_trees: int) -> int:
        """The fewest of the first ``n_trees`` trees that are as close to all of them as the goal asks.

        It is estimated from ``before``, the result of ``seen`` at an earlier look. 0 if it cannot be estimated.
        """
        return 0

    @property
    def is_bound(self) -> bool:
        """Whether `n_trees` is only an upper bound of T*."""
        return False

    @property
    def measured(self) -> tuple[tuple[float, float], ...]:
        """Sizes and losses that were measured, for a picture."""
        return ()

    @abstractmethod
    def size_at(self, level: float) -> int | float:
        """T* at another level: another alpha for labels, another tolerance for other goals."""

    @abstractmethod
    def quantile(self, share_below: float) -> int | float:
        """The size that T* does not exceed with probability ``share_below``."""

    @abstractmethod
    def value(self, n_trees: int) -> float:
        """See `Loss.value`."""

    @abstractmethod
    def interval(self, n_trees: int) -> tuple[float, float]:
        """See `Loss.interval`."""

    def loss(self, n_trees: int) -> Loss:
        """The loss of forests of ``n_trees`` trees."""
        value, (low, high) = self.value(n_trees), self.interval(n_trees)
        return Loss(value, (min(low, value), max(high, value)))

    @abstractmethod
    def said(self, n_trees: int) -> str:
        """The line of the report about the loss of ``n_trees`` trees."""

    @abstractmethod
    def in_short(self, n_trees: int) -> str:
        """The loss of ``n_trees`` trees in a few words, for the list in a report on another goal."""

    def cannot_tell(self, available: int) -> str | None:
        """Why the trees at hand do not tell T*, and what to do; None if they do."""
        return None

    def why_infinite(self) -> str:
        """Why no size is enough."""
        return f"more than {theory.MAX_TREES - 1:,} trees would be needed"

    def notes(self) -> list[str]:
        """Notes that the report adds to T*."""
        return []

    def suffering(self, n_trees: int, others: Callable[[], Iterable[Answer]]) -> list[Caution]:
        """What suffers if a forest is cut to ``n_trees`` trees for this goal, by the answers to ``others``."""
        return []

    def harm(self, n_trees: int, *, of_a_rare_class: bool) -> Caution | None:
        """How this goal suffers if a forest is cut to ``n_trees`` trees for its labels; None if it does not."""
        return None

    def grids(self, n_trees: int) -> tuple[Grid, ...]:
        """Further tables about a forest of ``n_trees`` trees."""
        return ()

    def pictures(self) -> tuple[Picture, ...]:
        """Pictures in addition to the loss over the number of trees."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values that only a report on this goal has."""
        return {}
