"""What all reports on the size of a forest have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rfsize.counting.representative import FEWEST_VOTES, by_nature_advice, few_votes
from rfsize.errors import NotConvergedWarning
from rfsize.reporting.account import Account
from rfsize.reporting.result import Result
from rfsize.sizing.accounts import Wording, report_account
from rfsize.sizing.goal import Goal, any_goal
from rfsize.sizing.loss import Loss
from rfsize.sizing.named_metrics import MetricLike, one_name
from rfsize.sizing.price import Price, Pricing
from rfsize.sizing.words import finite, in_words
from rfsize.utils.validation import share, whole
from rfsize.utils.warn import Caution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COVERAGE = 0.95

_Report = TypeVar("_Report", bound="Report")


class Report(Result, ABC):
    """The answer of `rfsize.size`.

    Attributes
    ----------
    n_trees : int or float
        T*, the smallest forest that is large enough; ``math.inf`` where no size is (`reason` says why).
    available : int
        Trees of the forest at hand.
    source : str
        Where the votes or scores come from: "oob" or "rows given" (or, in training, the validation set).
    n_rows : int
        Rows that were used.
    n_dropped : int
        Rows left out because too few trees could be asked about them.
    votes_per_row : float
        Mean number of trees asked per row.
    copied : float or None
        Share of the training rows that have a copy; None where copies were not looked for.
    groups : {"rows", "copies", "given", "unknown"}
        Which rows a tree that saw one of them says nothing of: that row only, its copies too, or all of the group that
        was given; "unknown" where the training data hold no rows to look for copies in.
    sure : float or None
        How sure it must be that a forest in training is large enough, see `rfsize.grow`; None of a finished one.
    pricing : Pricing
        What `price` is estimated from.
    noted : tuple of Caution
        Warnings that were known before the size was.
    """

    n_trees: int | float
    available: int
    source: str
    n_rows: int
    n_dropped: int
    votes_per_row: float
    copied: float | None
    groups: str
    sure: float | None
    criterion: str
    pricing: Pricing
    noted: tuple[Caution, ...]
    _report_of: Callable[[Goal], Report] | None
    _others: dict[MetricLike, Report]

    @cached_property
    def warnings(self) -> tuple[Caution, ...]:
        """What is wrong, or suffers where the forest is cut to the trees to keep: its ``category`` and ``text`` each.

        `rfsize.truncate`, `rfsize.grow` and `rfsize.SizeCallback` give them as Python warnings.
        """
        if self.converged:
            return (*self.noted, *self._suffers())
        return (*self.noted, Caution(NotConvergedWarning, self.not_converged()))

    def noting(self: _Report, *cautions: Caution) -> _Report:
        """The same report with more warnings."""
        return cast(_Report, replace(cast(Any, self), noted=(*self.noted, *cautions))) if cautions else self

    def _suffers(self) -> tuple[Caution, ...]:
        """What suffers though the forest is large enough for what it was sized by."""
        return ()

    @property
    def converged(self) -> bool:
        """Whether the forest at hand is large enough, as `sure` as was asked for, and has votes enough to tell."""
        return self._is_within_reach and self.wanted <= self.available

    @property
    def _is_within_reach(self) -> bool:
        """Whether the forest has T* trees, as far as the estimate itself says."""
        return self.n_trees <= self.available and not self._has_few_votes

    @property
    def _fewest_votes(self) -> int:
        """Votes a row that it takes to tell T*."""
        return FEWEST_VOTES

    @property
    def _has_few_votes(self) -> bool:
        """Whether too few trees were asked about a row to tell T*."""
        return self.votes_per_row < self._fewest_votes

    @property
    def n_kept(self) -> int:
        """Trees to keep: those that are `wanted`, or all of a forest that is too small."""
        return int(self.wanted) if self.converged else self.available

    @property
    def wanted(self) -> int | float:
        """Trees that a forest in training ends with: as many as T* is at most, as `sure` as was asked for.

        T* itself of a finished forest.
        """
        if self.sure in (None, 0.5) or not self._is_within_reach:
            return self.n_trees
        return max(self.n_trees, self.upper(float(self.sure)))

    def upper(self, sure: float) -> int | float:
        """A size that T* is at most, with a probability: the upper end of a one-sided interval.

        Parameters
        ----------
        sure : float
            The probability, strictly between 0 and 1.

        Returns
        -------
        int or float
            A size; ``math.inf`` where none is known to be large enough.

        Raises
        ------
        ValueError
            If ``sure`` is not strictly between 0 and 1.

        Examples
        --------
        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]] * 100)
        >>> report = rfsize.size(votes, alpha=0.95)
        >>> report.interval[0] <= report.upper(0.8) <= report.interval[1]
        True
        """
        sure = share("sure", sure)
        return math.inf if self._is_unknown else self._quantile(sure)

    @cached_property
    def interval(self) -> tuple[int | float, int | float]:
        """95 % interval of T*, for other rows and other trees; from 1 to ``math.inf`` where T* is not known."""
        if self._is_unknown:
            return 1, math.inf
        tail = (1.0 - _COVERAGE) / 2.0
        return min(self._quantile(tail), self.n_trees), max(self._quantile(1.0 - tail), self.n_trees)

    @property
    @abstractmethod
    def _is_unknown(self) -> bool:
        """Whether the trees at hand cannot tell T*."""

    @abstractmethod
    def _quantile(self, share_below: float) -> int | float:
        """The size that T* is at most with a probability, where it is known."""

    def next_look(self) -> int:
        """Trees at which to size a forest that is too small again: min(T*, twice its trees).

        That is figure 3 of Hernández-Lobato et al. 2013. Where the forest has T* trees, but it is not sure that they
        are enough, the upper end of the interval takes the place of T*.
        """
        # T* may lie below the trees at hand where these have too few votes to tell.
        wanted = self.wanted if self.wanted > self.available else 2 * self.available
        return int(min(wanted, 2 * self.available))

    @property
    @abstractmethod
    def reason(self) -> str | None:
        """Why T* is infinite; None where it is not."""

    @abstractmethod
    def not_converged(self) -> str:
        """What to say of a forest that is too small."""

    @property
    @abstractmethod
    def target(self) -> str:
        """What is estimated, such as "T*(0.99)"."""

    @property
    def is_bound(self) -> bool:
        """Whether T* is only known to be `n_trees` at most."""
        return False

    @property
    def likely(self) -> str:
        """How sure it is whether the trees at hand are enough, as a word before that: empty where it is."""
        low, high = self.interval
        if self._is_unknown or self._has_few_votes or not low <= self.available < high:
            return ""
        return "perhaps " if self.is_bound else "probably "

    def headline(self) -> str:
        """The estimate in one line, such as ``T*(0.99) = 613 (480 to 790)``."""
        if self.is_bound:
            return f"{self.target} is at most {in_words(self.n_trees)}"
        low, high = self.interval
        return f"{self.target} = {in_words(self.n_trees)} ({in_words(low)} to {in_words(high)})"

    def _heading(self) -> str:
        """The estimate, as the first line of a report."""
        trees = "tree" if self.interval[1] == 1 else "trees"
        return f"{self.headline()} {trees}{' (95 %)' if self.is_bound else ', 95 % interval in brackets'}"

    def _answer(self, enough: str) -> list[str]:
        """The estimate, what suffers, and whether the trees are ``enough``, as the first lines of a report."""
        said = [f"! {one.text}" for one in self.warnings if one.category is not NotConvergedWarning]
        if self.converged:
            return [self._heading(), *said, f"{self.likely}enough: {enough}"]
        return [self._heading(), f"{self.likely}not enough: {self.not_converged()}", *said]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain Python values that ``json`` can write; infinite sizes are None."""
        return {
            "warnings": [one.to_dict() for one in self.warnings],
            "n_trees": finite(self.n_trees),
            "interval": [finite(bound) for bound in self.interval],
            "available": self.available,
            "converged": self.converged,
            "sure": self.sure,
            "wanted": finite(self.wanted),
            "reason": self.reason,
            "source": self.source,
            "n_rows": self.n_rows,
            "n_dropped": self.n_dropped,
            "votes_per_row": self.votes_per_row,
            "copied": self.copied,
            "groups": self.groups,
            "criterion": self.criterion,
            "price": self.price().to_dict(),
        }

    @abstractmethod
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw it over the number of trees."""

    @abstractmethod
    def _wording(self) -> Wording:
        """How it speaks on a page."""

    @abstractmethod
    def _remarks(self) -> list[str]:
        """What is to be said beside T* and the price."""

    def _account(self) -> Account:
        return report_account(self, self._wording(), self._remarks())

    def loss_at(self, n_trees: int, metric: MetricLike | None = None) -> Loss:
        """What a forest of ``n_trees`` is expected to lose against the infinite forest.

        Parameters
        ----------
        n_trees : int
            Ensemble size T, at least 1.
        metric : "label", "probability", "score", metric or scorer, optional
            Of what, as ``criterion`` of `rfsize.size`; by default of what the report is about. Metrics need ``y``,
            given to `rfsize.size` or `rfsize.tree_outputs`.

        Returns
        -------
        Loss
            ``value``, its 95 % ``interval``, of a metric the ``spread`` of single forests, of labels the loss
            ``by_class``. A report about this metric has the same.

        Raises
        ------
        FewVotesError
            If too few trees were asked about a row to tell.
        ValueError
            If ``n_trees`` is below 1, ``y`` is missing or does not fit the metric, or the report was pickled and is not
            about this metric.

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
        about = self if metric is None or one_name(metric) == self.criterion else self._about(metric)
        return about._own_loss(n_trees)

    def _about(self, metric: MetricLike) -> Report:
        """The report about something else, from the same outputs of the trees."""
        metric = one_name(metric)
        if metric not in self._others:
            if self._report_of is None:
                raise ValueError(
                    f"this report was pickled, and tells the loss of its own {self.criterion} alone: size the model "
                    "again"
                )
            self._others[metric] = self._report_of(any_goal(metric))
        return self._others[metric]

    @abstractmethod
    def _own_loss(self, n_trees: int) -> Loss:
        """What so many trees lose of what the report is about."""

    def price(self, n_trees: int | None = None) -> Price:
        """What a forest of ``n_trees`` is expected to cost against the infinite one, whatever it was sized by.

        Parameters
        ----------
        n_trees : int, optional
            Ensemble size T, at least 1; by default that to keep, `n_kept`.

        Returns
        -------
        Price
            The share of labels that still change, how far off probabilities or numbers are, and where ``y`` is known
            how much worse the logarithmic loss and the area under the ROC curve are, or of regression the root mean
            square error.

        Raises
        ------
        ValueError
            If ``n_trees`` is below 1; or of a report that was pickled, which knows that of its own size alone.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0).fit(X, y)
        >>> report = rfsize.size(forest, X, y, oob=True, alpha=0.95)
        >>> few, many = report.price(10), report.price(100)
        >>> many.labels < few.labels, many.rms < few.rms, many.metrics["auc"] < few.metrics["auc"]
        (True, True, True)
        """
        return self.pricing.at(self.n_kept if n_trees is None else whole("n_trees", n_trees, at_least=1))

    def _said_of_groups(self) -> list[str]:
        """What a report says of rows that belong together."""
        if self.groups == "given":
            return ["grouped: no tree votes on a row of whose group it saw one"]
        if self.groups == "unknown":
            return ["copies of rows were not looked for: the training data hold no rows that can be read"]
        if not self.copied:
            return []
        share_copied = f"{max(self.copied, 0.0001):.2%} of the rows have a copy"
        if self.groups == "copies":
            return [f"{share_copied}: each counts once, and no tree that saw it votes on it"]
        return [f"{share_copied}, and count as rows of their own"]

    @property
    def _ends_with(self) -> int:
        """Trees that a forest in training ends with, or all of a finished one."""
        return self.available if self.sure is None else self.n_kept

    def _its_trees(self) -> str:
        """The trees that are said to be enough."""
        if self._ends_with == self.available:
            return f"the {self.available:,} trees at hand"
        return f"{self._ends_with:,} of the {self.available:,} trees grown"

    def _how_sure(self) -> list[str]:
        """What a forest in training ends with beyond T*."""
        if self.sure is None or not self.converged or self.wanted == self.n_trees:
            return []
        return [f"{in_words(self.wanted)} trees to be {self.sure:.0%} sure"]

    def _unsure(self, what: str, instead: str) -> str:
        """What to say where T* trees do ``what``, and it is not sure that they are enough."""
        return (
            f"the forest has {self.available:,} trees, and {self.n_trees:,} {what} as far as these trees tell; but it "
            f"may take up to {in_words(self.wanted)}, to be {self.sure:.0%} sure. Train more trees, or ask for "
            f"{instead}, or to be less sure"
        )

    def _untold(self) -> str:
        """Why T* is not known where rows that belong together have no votes left."""
        share_lost = self.n_dropped / (self.n_rows + self.n_dropped)
        return f"{share_lost:.1%} of the rows have no out-of-bag votes, since every tree saw a row of their groups"

    def _not_told(self) -> str:
        """What to say of them."""
        return (
            f"{self._untold()}, and they may be the ones that take most trees. Give validation rows, or "
            "rfsize.tree_outputs(estimator, X, y, cv=5), lower the bagging fraction, or train on each row once with "
            "weights for its copies"
            f"{by_nature_advice(self.groups)}. All {self.available:,} trees are kept"
        )

    def _few_votes(self) -> str:
        """What to say where too few trees were asked about a row."""
        told, oob = "how many trees are enough", self.source == "oob"
        return few_votes(self.votes_per_row, self.available, told, oob=oob, fewest=self._fewest_votes).message

    def __getstate__(self) -> dict[str, Any]:
        self.price()
        self.warnings  # noqa: B018
        # Neither model nor rows go into a pickle.
        return {**self.__dict__, "_report_of": None, "_others": {}}

    def __repr__(self) -> str:
        return str(self)
