"""The numbers of a report on the size of a forest, without its words and pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

from rfsize._util import Caution, in_percent, share, whole
from rfsize.certifying.certificate import Certificate
from rfsize.counting.coverage import by_nature_advice, few_votes
from rfsize.counting.outputs import TreeOutputs, coverage, distinct
from rfsize.estimation.intervals import TAIL
from rfsize.exceptions import NotConvergedWarning, RfsizeError
from rfsize.sizing.goals.base import Answer, Goal, Loss
from rfsize.sizing.goals.named import any_goal, listed_beside
from rfsize.sizing.named_metrics import MetricLike, one_name
from rfsize.sizing.words import from_to, rows_from

_LEAST_CONFIDENCE = 1e-6

# If the upper end of an interval is more than _WIDE times the lower end, the interval leaves the size open. Sizes below
# _FEW_TREES count as _FEW_TREES: a few trees more cost nothing.
_WIDE, _FEW_TREES = 4.0, 3


@dataclass(frozen=True, eq=False, repr=False)
class SizedForest:
    """How many trees are enough, and what forests of other sizes lose; see `Report`."""

    goal: Goal
    available: int
    source: str
    copied: float | None
    groups: str
    _noted: tuple[Caution, ...]
    _answer: Answer
    _outputs: TreeOutputs | None
    _answers: dict[MetricLike, Answer] = field(default_factory=dict)
    _fewest_alike: int = 0
    notes_on_rows: tuple[str, ...] = ()

    @property
    def n_trees(self) -> int | float:
        """T*, the smallest number of trees that is enough; ``math.inf`` if no number is known to be (see `reason`).

        With ``target="forest"``, the smallest certified number of first trees.
        """
        return self._answer.n_trees

    @property
    def certificate(self) -> Certificate | None:
        """With ``target="forest"``: the rows that test the first `n_trees` trees, how many differ, and the bound."""
        return self._answer.certificate

    @property
    def n_rows(self) -> int:
        """Rows that were used."""
        return self._answer.n_rows

    @property
    def n_dropped(self) -> int:
        """Rows left out because too few trees could predict them."""
        return self._answer.n_dropped

    @property
    def votes_per_row(self) -> float:
        """Mean number of trees that predicted a row."""
        return self._answer.votes_per_row

    @cached_property
    def interval(self) -> tuple[int | float, int | float]:
        """95 % interval of T*, for other rows and other trees; from 1 to ``math.inf`` if the trees do not tell T*.

        With ``target="forest"``, the interval of the fewest first trees that are enough on all rows like those given.
        """
        if self._cannot_tell is not None:
            return 1, math.inf
        low, high = self._answer.quantile(TAIL), self._answer.quantile(1.0 - TAIL)
        return min(low, self.n_trees), max(high, self.n_trees)

    def upper(self, confidence: float) -> int | float:
        """A number of trees that is enough with a probability of ``confidence``: the end of a one-sided interval.

        Parameters
        ----------
        confidence : float
            The probability, at least a millionth and below 1.

        Returns
        -------
        int or float
            The number of trees; ``math.inf`` if none is known to be enough.

        Raises
        ------
        ValueError
            If ``confidence`` is below a millionth, or not below 1.

        Examples
        --------
        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]] * 100)
        >>> report = rfsize.size(votes, alpha=0.95)
        >>> report.interval[0] <= report.upper(0.8) <= report.interval[1]
        True
        """
        if (confidence := share("confidence", confidence)) < _LEAST_CONFIDENCE:
            raise ValueError(
                f"confidence must be at least {_LEAST_CONFIDENCE:f} and below 1, found {confidence!r}. Give 0.5 "
                "for the estimate of T*, 0.8 or 0.95 to be surer"
            )
        return math.inf if self._cannot_tell is not None else self._answer.quantile(confidence)

    @property
    def enough(self) -> bool:
        """Whether your forest is large enough; during training, with the ``confidence`` that you asked for."""
        return self._has_enough and self._wanted <= self.available

    @property
    def _has_enough(self) -> bool:
        """Whether the forest has T* trees by the estimate, whatever its confidence."""
        return self._cannot_tell is None and self.n_trees <= self.available

    @property
    def _wanted(self) -> int | float:
        """Trees that the forest needs: T*, or during training the upper end of T* at the ``confidence``.

        During training also at least as many as agree with all trees so far, by the change since an earlier look.
        """
        if self.goal.confidence is None or not self._has_enough:
            return self.n_trees
        sure = self.n_trees if self.goal.confidence == 0.5 else self.upper(self.goal.confidence)
        return max(self.n_trees, sure, self._fewest_alike)

    @property
    def n_kept(self) -> int:
        """Number of trees to keep: as many as are enough, or all trees if the forest is too small."""
        return int(self._wanted) if self.enough else self.available

    @cached_property
    def _cannot_tell(self) -> str | None:
        """Why the trees at hand do not tell T*, and what to do; None if they do."""
        answer, oob = self._answer, self.source == "oob"
        if answer.votes_per_row < answer.fewest_votes:
            what = "how many trees are enough"
            return few_votes(answer.votes_per_row, self.available, what, oob=oob, fewest=answer.fewest_votes).message
        if answer.lacks_votes:
            lost = answer.n_dropped / (answer.n_rows + answer.n_dropped)
            return (
                f"{in_percent(lost)} of the rows have no out-of-bag votes, since every tree saw a row of their groups, "
                "and these rows may be the ones that take most trees: give validation rows, take "
                "rfsize.tree_outputs(cv=...), lower the bagging fraction, or train on each row once with weights for "
                f"its copies{by_nature_advice(self.groups)}"
            )
        return answer.cannot_tell(self.available)

    @property
    def reason(self) -> str | None:
        """Why T* is infinite; None if it is finite."""
        if math.isfinite(self.n_trees):
            return None
        return self._cannot_tell or self._answer.why_infinite()

    @property
    def _likely(self) -> str:
        """How sure it is whether the trees at hand are enough: "", "probably " or "perhaps "."""
        low, high = self.interval
        if self._cannot_tell is not None or not low <= self.available < high:
            return ""
        return "perhaps " if self._answer.is_bound else "probably "

    @cached_property
    def _suffering(self) -> tuple[Caution, ...]:
        """What suffers if the forest is cut to `n_kept` trees."""
        if not self.enough:
            return ()
        suffering = self._answer.suffering(self.n_kept, lambda: map(self._answer_to, self._beside))
        # Advice without a metric is the same question of each class; other advice is another question.
        own = {name: value for name, value in self.goal.options.items() if name != "n_trees" and value != "labels"}
        return tuple(
            replace(one, options={**own, **one.options}) if one.options.keys() == {"average"} else one
            for one in suffering
        )

    @cached_property
    def _open(self) -> tuple[Caution, ...]:
        """A warning if the rows and trees leave open how many of the trees are enough."""
        is_estimate = self.certificate is None and self.goal.confidence is None and self.goal.is_of_predictions
        if not self.enough or not is_estimate or self._answer.is_bound:
            return ()
        low, high = self.interval
        if high <= min(self.available, _WIDE * max(low, _FEW_TREES)):
            return ()
        more = "give more rows" if self.source == "rows given" else "more rows or more trees narrow it"
        rows = rows_from(self.n_rows, self.source)
        return (Caution(NotConvergedWarning, f"{rows} leave the size open: {from_to((low, high))} trees; {more}"),)

    @property
    def _cautions(self) -> tuple[Caution, ...]:
        """All warnings, except that the forest is too small."""
        return (*self._noted, *self._open, *self._suffering)

    def computed(self) -> Self:
        """The same report, with all that it prints and pickles; printing and pickling then compute nothing."""
        self._cautions, self._beside, self.interval  # noqa: B018
        return self

    def _noting(self, *cautions: Caution) -> Self:
        """The same report with more warnings."""
        return replace(self, _noted=(*self._noted, *cautions)) if cautions else self

    def _keeping(self, n_trees: int) -> Self:
        """The same report, which keeps at least ``n_trees`` trees."""
        return replace(self, _fewest_alike=n_trees)

    def size_at(self, level: float) -> int | float:
        """T* at another level, from the same outputs.

        Parameters
        ----------
        level : float
            Another ``alpha`` for a report about labels, another ``tolerance`` for any other report.

        Returns
        -------
        int or float
            The smallest number of trees; ``math.inf`` if none is known to be enough.

        Raises
        ------
        ValueError
            If ``level`` cannot be an alpha or a tolerance.

        Examples
        --------
        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]])
        >>> report = rfsize.size(votes, alpha=0.95, method="plugin")
        >>> [report.size_at(alpha) for alpha in (0.9, 0.95, 0.99)]
        [9, 71, ...]
        """
        return self._answer.size_at(level)

    def loss_at(self, n_trees: int, metric: MetricLike | None = None) -> Loss:
        """What a forest of ``n_trees`` is expected to lose against an unlimited forest.

        With ``target="forest"`` and no ``metric``, this is the share of rows on which the first ``n_trees`` trees
        differ from all trees of your forest.

        Parameters
        ----------
        n_trees : int
            Ensemble size T, at least 1.
        metric : str or scorer, optional
            What is lost, as in `rfsize.size`; by default the metric of the report. Metrics need ``y``: give ``y`` to
            `rfsize.size` or `rfsize.tree_outputs`.

        Returns
        -------
        Loss
            ``value`` and its 95 % ``interval``; for a metric also its ``spread`` between single forests, for labels
            also the loss ``by_class``.

        Raises
        ------
        FewVotesError
            If too few trees predicted each row.
        ValueError
            If ``n_trees`` is below 1, if ``y`` is missing or does not fit the metric, or if the report was pickled
            before this metric was computed.

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
        return (self._answer if metric is None else self._answer_to(metric)).loss(n_trees)

    def _answer_to(self, metric: MetricLike) -> Answer:
        """The answer of the same outputs to another goal; raises as `loss_at`."""
        metric = one_name(metric)
        if self.goal.answers(metric):
            return self._answer
        if metric not in self._answers:
            if self._outputs is None:
                own = [self.goal.name] if self.goal.answers(self.goal.name) else []
                known = ", ".join(map(str, (*own, *self._answers)))
                raise ValueError(
                    f"this report no longer has its trees, and knows only the loss of {known}: make the report again"
                )
            goal = any_goal(metric).checked(len(self._outputs.classes), self._outputs.y)
            self._answers[metric] = answer_of(goal, self._outputs)
        return self._answers[metric]

    @cached_property
    def _beside(self) -> tuple[str, ...]:
        """Names of the other losses that the report lists: of labels, probabilities or scores, and of metrics."""
        return tuple(map(str, self._answers) if self._outputs is None else self._told(self._outputs))

    def _told(self, outputs: TreeOutputs) -> Iterator[str]:
        for name in listed_beside(distinct(outputs)):
            if not self.goal.answers(name):
                with suppress(RfsizeError):
                    self._answer_to(name)
                    yield name


def answer_of(goal: Goal, outputs: TreeOutputs) -> Answer:
    """The answer to a goal that has been checked.

    Raises
    ------
    FewVotesError
        If rows of some kind have too few out-of-bag votes; other errors as by `Goal.answer`.
    """
    counted = distinct(outputs)
    if outputs.source == "oob":
        _check_votes(goal, counted)
    return goal.answer(counted)


def _check_votes(goal: Goal, outputs: TreeOutputs) -> None:
    """Raise `FewVotesError` if rows of some kind have too few out-of-bag votes."""
    votes = coverage(outputs)
    # If rows of large groups have no votes, or no row has any, the report says so; no error is raised here.
    if votes.is_uneven or not votes.lacks_votes:
        problem = votes.problem_of_some("how many trees are enough", fewest=goal.fewest_votes)
        if problem is not None:
            raise problem.error()
