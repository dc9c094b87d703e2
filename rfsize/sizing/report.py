"""Report: how many trees of a forest are enough, and what fewer or more of them lose."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rfsize.counting.representative import by_nature_advice, few_votes
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.estimation.curves import TAIL
from rfsize.exceptions import (
    FewVotesError,
    LabelsOnlyWarning,
    NotAForestError,
    NotConvergedWarning,
    UndefinedMetricError,
)
from rfsize.reporting.account import Account
from rfsize.reporting.result import Result
from rfsize.sizing.answers import answer_to
from rfsize.sizing.goals.base import Answer, Goal, Loss
from rfsize.sizing.goals.named import GOALS, any_goal
from rfsize.sizing.named_metrics import MetricLike, one_name
from rfsize.sizing.page import report_account
from rfsize.sizing.plots import plot_report
from rfsize.sizing.told import finding, lines
from rfsize.sizing.words import finite, from_to, in_words
from rfsize.utils.validation import share, whole
from rfsize.utils.warn import Caution

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Report(Result):
    """The answer of `rfsize.size`: how many trees are enough.

    Attributes
    ----------
    goal : Goal
        What must stay the same: its ``name`` is the ``metric``, its ``level`` what may be lost.
    available : int
        Trees of the forest at hand.
    source : str
        Where the votes or scores come from: "oob", "rows given", "cross-validation" or, in training, the validation
        set.
    copied : float or None
        Share of the training rows that have a copy; None where copies were not looked for.
    groups : {"rows", "copies", "given", "unknown"}
        Which rows a tree that saw one of them says nothing of: that row only, its copies too, or all of the group that
        was given; "unknown" where the training data hold no rows to look for copies in.
    noted : tuple of Caution
        Warnings that were known before the size was; `warnings` has all.

    Notes
    -----
    The 95 % interval of T* is for other rows and other trees. The noise that all rows share, since they ask the same
    trees, is seen in blocks of the trees; counted `Votes` have none, and their interval is for other rows alone. What a
    metric loses goes as c/(T + d), which halves and quarters of the trees at hand tell; what forests of up to 37 trees
    lose is measured on forests drawn from the trees at hand.

    Examples
    --------
    >>> import rfsize
    >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]] * 100)
    >>> report = rfsize.size(votes, alpha=0.95, method="plugin")
    >>> print(report)
    71 of your 100 trees are enough (95 % interval ... to ...)
      95.04 % of labels equal those of an unlimited forest
      from 400 rows given, 100 votes each
    >>> report.enough, report.to_dict()["n_trees"]
    (True, 71)
    """

    goal: Goal
    available: int
    source: str
    copied: float | None
    groups: str
    noted: tuple[Caution, ...]
    answer: Answer
    _outputs: TreeOutputs | None
    _answers: dict[MetricLike, Answer] = field(default_factory=dict)

    @classmethod
    def of(cls, outputs: TreeOutputs, goal: Goal) -> Report:
        """What the trees' outputs say of a goal; raises as `answer_to` and `Goal.checked`."""
        goal = goal.checked(len(outputs.classes), outputs.y)
        answer = answer_to(goal, outputs)
        groups = outputs.groups
        return cls(goal, outputs.n_trees, outputs.source, groups.copied, groups.by, answer.cautions, answer, outputs)

    @property
    def n_trees(self) -> int | float:
        """T*, the smallest forest that is large enough; ``math.inf`` where none is known to be (`reason` says why)."""
        return self.answer.n_trees

    @property
    def n_rows(self) -> int:
        """Rows that were used."""
        return self.answer.n_rows

    @property
    def n_dropped(self) -> int:
        """Rows left out because too few trees could be asked about them."""
        return self.answer.n_dropped

    @property
    def votes_per_row(self) -> float:
        """Mean number of trees asked about a row."""
        return self.answer.votes_per_row

    @cached_property
    def interval(self) -> tuple[int | float, int | float]:
        """95 % interval of T*, for other rows and other trees; from 1 to ``math.inf`` where T* is not known."""
        if self.cannot_tell is not None:
            return 1, math.inf
        low, high = self.answer.quantile(TAIL), self.answer.quantile(1.0 - TAIL)
        return min(low, self.n_trees), max(high, self.n_trees)

    def upper(self, confidence: float) -> int | float:
        """A size that T* is at most, with a probability: the upper end of a one-sided interval.

        Parameters
        ----------
        confidence : float
            The probability, strictly between 0 and 1.

        Returns
        -------
        int or float
            A size; ``math.inf`` where none is known to be large enough.

        Raises
        ------
        ValueError
            If ``confidence`` is not strictly between 0 and 1.

        Examples
        --------
        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]] * 100)
        >>> report = rfsize.size(votes, alpha=0.95)
        >>> report.interval[0] <= report.upper(0.8) <= report.interval[1]
        True
        """
        confidence = share("confidence", confidence)
        return math.inf if self.cannot_tell is not None else self.answer.quantile(confidence)

    @property
    def enough(self) -> bool:
        """Whether the forest at hand is large enough: in training, as sure as its ``confidence`` asks for."""
        return self._has_enough and self.wanted <= self.available

    @property
    def _has_enough(self) -> bool:
        """Whether the forest has T* trees, as far as the estimate itself says."""
        return self.cannot_tell is None and self.n_trees <= self.available

    @property
    def wanted(self) -> int | float:
        """Trees that the forest shall have: T*, or in training as many as T* is at most with its ``confidence``."""
        if self.goal.confidence in (None, 0.5) or not self._has_enough:
            return self.n_trees
        return max(self.n_trees, self.upper(float(self.goal.confidence)))

    @property
    def n_kept(self) -> int:
        """Trees to keep: those that are `wanted`, or all of a forest that is too small."""
        return int(self.wanted) if self.enough else self.available

    @cached_property
    def cannot_tell(self) -> str | None:
        """Why the trees at hand do not tell T*, and what to do; None where they do."""
        answer, oob = self.answer, self.source == "oob"
        if answer.votes_per_row < answer.fewest_votes:
            what = "how many trees are enough"
            return few_votes(answer.votes_per_row, self.available, what, oob=oob, fewest=answer.fewest_votes).message
        if answer.untold:
            lost = answer.n_dropped / (answer.n_rows + answer.n_dropped)
            return (
                f"{lost:.1%} of the rows have no out-of-bag votes, since every tree saw a row of their groups, and "
                "these rows may be the ones that take most trees: give validation rows, take "
                "rfsize.tree_outputs(cv=...), lower the bagging fraction, or train on each row once with weights for "
                f"its copies{by_nature_advice(self.groups)}"
            )
        return answer.cannot_tell(self.available)

    @property
    def reason(self) -> str | None:
        """Why T* is infinite; None where it is not."""
        if math.isfinite(self.n_trees):
            return None
        return self.cannot_tell or self.answer.why_infinite()

    @property
    def likely(self) -> str:
        """How sure it is whether the trees at hand are enough: "", "probably " or "perhaps "."""
        low, high = self.interval
        if self.cannot_tell is not None or not low <= self.available < high:
            return ""
        return "perhaps " if self.answer.is_bound else "probably "

    @cached_property
    def warnings(self) -> tuple[Caution, ...]:
        """What is wrong, or suffers where the forest is cut to the trees to keep: its ``category`` and ``text`` each.

        `rfsize.truncate`, `rfsize.grow` and `rfsize.SizeCallback` give them as Python warnings.
        """
        if not self.enough:
            return (*self.noted, Caution(NotConvergedWarning, finding(self)))
        suffering = self.answer.suffering(self.n_kept, lambda: map(self.answer_of, self.beside))
        return (*self.noted, *(Caution(LabelsOnlyWarning, text) for text in suffering))

    def noting(self, *cautions: Caution) -> Report:
        """The same report with more warnings."""
        return replace(self, noted=(*self.noted, *cautions)) if cautions else self

    def size_at(self, level: float) -> int | float:
        """T* at another level, from the same outputs.

        Parameters
        ----------
        level : float
            Another ``alpha`` of a report about labels; of any other report another ``tolerance``.

        Returns
        -------
        int or float
            The smallest size; ``math.inf`` where none is known to be enough.

        Raises
        ------
        ValueError
            If ``level`` is no alpha, or no tolerance.

        Examples
        --------
        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]])
        >>> report = rfsize.size(votes, alpha=0.95, method="plugin")
        >>> [report.size_at(alpha) for alpha in (0.9, 0.95, 0.99)]
        [9, 71, ...]
        """
        return self.answer.size_at(level)

    def loss_at(self, n_trees: int, metric: MetricLike | None = None) -> Loss:
        """What a forest of ``n_trees`` is expected to lose against an unlimited forest.

        Parameters
        ----------
        n_trees : int
            Ensemble size T, at least 1.
        metric : str or scorer, optional
            Of what, as ``metric`` of `rfsize.size`; by default of what the report is about. Metrics need ``y``, given
            to `rfsize.size` or `rfsize.tree_outputs`.

        Returns
        -------
        Loss
            ``value``, its 95 % ``interval``, of a metric the ``spread`` of single forests, of labels the loss
            ``by_class``. The report about this metric has the same.

        Raises
        ------
        FewVotesError
            If too few trees were asked about a row to tell.
        ValueError
            If ``n_trees`` is below 1, ``y`` is missing or does not fit the metric, or the report was pickled and does
            not know this metric.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
        >>> report = rfsize.size(forest, X, y, oob=True, alpha=0.95)
        >>> report.loss_at(10).value > report.loss_at(100).value
        True
        >>> 0.0 < report.loss_at(100, "auc").value < 0.01
        True
        """
        n_trees = whole("n_trees", n_trees, at_least=1)
        return self.answer_of(self.goal.name if metric is None else metric).loss(n_trees)

    def answer_of(self, metric: MetricLike) -> Answer:
        """What the same outputs say of another goal; raises as `loss_at`."""
        metric = one_name(metric)
        if metric == self.goal.name:
            return self.answer
        if metric not in self._answers:
            if self._outputs is None:
                known = ", ".join(map(str, (self.goal.name, *self._answers)))
                raise ValueError(f"this report was pickled, and knows the loss of {known} alone: size the model again")
            goal = any_goal(metric).checked(len(self._outputs.classes), self._outputs.y)
            self._answers[metric] = answer_to(goal, self._outputs)
        return self._answers[metric]

    @cached_property
    def beside(self) -> tuple[str, ...]:
        """Names of the losses that the report lists beside its own: of labels, probabilities or scores, and metrics."""
        return tuple(self._beside())

    def _beside(self) -> Iterator[str]:
        outputs = self._outputs
        if outputs is None:
            return
        distinct = outputs.distinct
        for name in (name for kind in GOALS for name in kind.beside(distinct)):
            if name != self.goal.name:
                with suppress(FewVotesError, NotAForestError, UndefinedMetricError):
                    self.answer_of(name)
                    yield name

    def headline(self) -> str:
        """T* in a few words, such as ``T*(0.99) = 613 (480 to 790)``."""
        if self.answer.is_bound:
            return f"{self.goal.title} is at most {in_words(self.n_trees)}"
        return f"{self.goal.title} = {in_words(self.n_trees)} ({from_to(self.interval)})"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain Python values that ``json`` can write; infinite sizes are None."""
        return {
            "warnings": [one.to_dict() for one in self.warnings],
            "n_trees": finite(self.n_trees),
            "interval": [finite(bound) for bound in self.interval],
            "available": self.available,
            "enough": self.enough,
            "n_kept": self.n_kept,
            "reason": self.reason,
            "metric": self.goal.name,
            **{name: value for name, value in self.goal.options.items() if name != "metric"},
            "confidence": self.goal.confidence,
            "loss": self.loss_at(self.n_kept).to_dict(),
            "beside": {name: self.loss_at(self.n_kept, name).to_dict() for name in self.beside},
            "source": self.source,
            "n_rows": self.n_rows,
            "n_dropped": self.n_dropped,
            "votes_per_row": self.votes_per_row,
            "copied": self.copied,
            "groups": self.groups,
            "notes": self.answer.notes(),
            **self.answer.to_dict(),
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the loss over the number of trees, with its 95 % interval, T*, and the forest at hand.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw the loss alone. By default a new figure has, for labels, also how near to a tie the rows are.

        Returns
        -------
        matplotlib Axes
            The axes of the loss.
        """
        return plot_report(self, ax)

    def _account(self) -> Account:
        return report_account(self)

    def __getstate__(self) -> dict[str, Any]:
        self.warnings, self.beside  # noqa: B018
        # Neither model nor rows go into a pickle.
        return {**self.__dict__, "_outputs": None}

    def __str__(self) -> str:
        return lines(self)

    __repr__ = __str__
