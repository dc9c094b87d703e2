"""DeviationReport: how many trees bring predictions near enough to the infinite forest's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rfsize import theory
from rfsize.counting.representative import too_many_untold
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.errors import FewVotesError
from rfsize.estimation.deviation import Deviation, Deviations, Sizes, check_scale, noise_of_trees
from rfsize.reporting.account import Picture
from rfsize.sizing.accounts import Wording
from rfsize.sizing.base import Report
from rfsize.sizing.goal import DeviationGoal, Goal, check_goal, scores_of
from rfsize.sizing.loss import Loss
from rfsize.sizing.named_metrics import MetricLike
from rfsize.sizing.price import Pricing
from rfsize.sizing.words import finite, in_words, no_votes_advice
from rfsize.utils.typing import Floats
from rfsize.utils.validation import positive, whole
from rfsize.utils.warn import Caution
from rfsize.utils.words import how_many
from rfsize.voting.links import Link

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A round number for the largest odd size that is searched for.
_MANY_TREES = theory.MAX_TREES - 1

_COVERAGE = 0.95

_WHAT = {"probability": "predicted probabilities", "score": "predicted scores"}


@dataclass(frozen=True, eq=False, repr=False)
class DeviationReport(Report):
    """The answer of `rfsize.size` about probabilities or scores.

    Attributes
    ----------
    n_trees : int or float
        T*, the smallest forest whose predictions are within ``tolerance`` of the infinite forest's both as root mean
        square and as 95th percentile over rows; ``math.inf`` where no size is.
    sizes : Sizes
        The smallest forest by each of the two.
    criterion : {"probability", "score"}
        What is predicted.
    tolerance : float
        How far off it may be.
    available : int
        Trees of the forest at hand.
    source : str
        Where the scores come from: "oob" or "rows given".
    n_rows : int
        Rows whose scores were used.
    n_dropped : int
        Rows left out because less than two trees could score them.
    votes_per_row : float
        Mean number of trees asked per row.
    copied : float or None
        Share of the training rows that have a copy; None where copies were not looked for.
    groups : {"rows", "copies", "given", "unknown"}
        Which rows a tree that saw one of them says nothing of, see `rfsize.size`; "unknown" where the training data
        hold no rows to look for copies in.
    sure : float or None
        How sure it must be that a forest in training is large enough, see `rfsize.grow`; None of a finished one.
    pricing : Pricing
        What `price` is estimated from.
    noted : tuple of Caution
        Warnings that were known before the size was; `warnings` has all.

    Examples
    --------
    How many trees predict the progression of diabetes, a number from 25 to 346, to within 10:

    >>> import rfsize
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(50, random_state=0).fit(X, y)
    >>> report = rfsize.size(forest, X, oob=True, criterion="score", tolerance=10)
    >>> report.converged, report.n_trees == max(report.sizes)
    (False, True)
    """

    n_trees: int | float
    sizes: Sizes
    criterion: str
    tolerance: float
    available: int
    source: str
    n_rows: int
    n_dropped: int
    votes_per_row: float
    copied: float | None
    groups: str
    sure: float | None
    _is_untold: bool
    _deviations: Deviations
    pricing: Pricing
    noted: tuple[Caution, ...] = ()
    _report_of: Callable[[Goal], Report] | None = None
    _others: dict[MetricLike, Report] = field(default_factory=dict)

    @classmethod
    def of(cls, outputs: TreeOutputs, goal: DeviationGoal) -> DeviationReport:
        """Size a forest from what its trees say of the rows that sizes go by.

        Raises
        ------
        NotAForestError
            If the members are no trees.
        FewVotesError
            If no row has the scores of two trees.
        ValueError
            If the scores are too large or too small to be multiplied, or the criterion does not fit the forest.
        """
        check_goal(goal, len(outputs.classes))
        scores, link = scores_of(outputs, goal.criterion)
        if len(outputs.classes) and goal.criterion == "score":
            link = Link("identity")
        check_scale(scores)
        used = scores.take(scores.asked > 1)
        if not len(used):
            raise FewVotesError("no row has the scores of two trees" + no_votes_advice(outputs))
        noise = 0.0 if outputs.blocks is None else noise_of_trees(outputs.blocks, link)
        deviations = Deviations(used, link, noise)
        sizes = deviations.sizes(goal.tolerance)
        untold = outputs.groups.index is not None and too_many_untold(len(scores) - len(used), len(scores))
        return cls(
            n_trees=math.inf if untold else max(sizes),
            sizes=sizes,
            criterion=goal.criterion,
            tolerance=goal.tolerance,
            available=outputs.n_trees,
            source=outputs.source,
            n_rows=len(used),
            n_dropped=len(scores) - len(used),
            votes_per_row=float(used.asked.mean()),
            copied=outputs.groups.copied,
            groups=outputs.groups.by,
            sure=goal.sure,
            _is_untold=untold,
            _deviations=deviations,
            pricing=Pricing(outputs),
        )

    @property
    def reason(self) -> str | None:
        """Why T* is infinite; None where it is not."""
        if math.isfinite(self.n_trees):
            return None
        if self._is_untold:
            return self._untold()
        return f"more than {_MANY_TREES:,} trees would be needed"

    @property
    def _is_unknown(self) -> bool:
        return self._is_untold

    def _quantile(self, share_below: float) -> int | float:
        size = float(np.quantile(self._replicates, share_below, method="inverted_cdf"))
        return math.ceil(size - 1e-9) if math.isfinite(size) else math.inf

    @cached_property
    def _replicates(self) -> Floats:
        return self._deviations.replicates(self.tolerance, self.n_trees)

    def deviation(self, n_trees: int) -> Deviation:
        """How far the predictions of a forest of ``n_trees`` are from the infinite forest's.

        Parameters
        ----------
        n_trees : int
            Ensemble size T, at least 1.

        Returns
        -------
        Deviation
            ``rms``, the root mean square over rows and forests, and ``p95``, the 95th percentile.

        Raises
        ------
        ValueError
            If ``n_trees`` is below 1.

        Examples
        --------
        Four times the trees halve it:

        >>> import rfsize
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> forest = RandomForestRegressor(50, random_state=0).fit(X, y)
        >>> report = rfsize.size(forest, X, oob=True, criterion="score", tolerance=10)
        >>> round(report.deviation(50).rms / report.deviation(200).rms, 6)
        2.0
        """
        return self._deviations.at(whole("n_trees", n_trees, at_least=1))

    def _own_loss(self, n_trees: int) -> Loss:
        value = max(self._deviations.at(n_trees))
        if value == 0.0:
            return Loss(0.0, (0.0, 0.0))
        # Sizes at which it might be as large; it falls about as 1/√T.
        sizes = self._deviations.replicates(value, n_trees)
        low, high = (value * math.sqrt(float(size) / n_trees) for size in np.quantile(sizes, [0.025, 0.975]))
        return Loss(value, (min(low, value), max(high, value)))

    def size_at(self, tolerance: float) -> int | float:
        """T* at another tolerance, from the same scores.

        Parameters
        ----------
        tolerance : float
            How far off predictions may be, above 0, in their own unit.

        Returns
        -------
        int or float
            The smallest size; ``math.inf`` where none is within the tolerance.

        Raises
        ------
        ValueError
            If ``tolerance`` is not a positive number.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> forest = RandomForestRegressor(50, random_state=0).fit(X, y)
        >>> report = rfsize.size(forest, X, oob=True, criterion="score", tolerance=10)
        >>> report.size_at(20) < report.n_trees < report.size_at(5)
        True
        """
        tolerance = positive("tolerance", tolerance)
        return math.inf if self._is_untold else max(self._deviations.sizes(tolerance))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain Python values that ``json`` can write; infinite sizes are None."""
        return {
            **super().to_dict(),
            "tolerance": self.tolerance,
            "sizes": {name: finite(size) for name, size in self.sizes._asdict().items()},
            "deviation": self.deviation(self.available)._asdict(),
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw both deviations over the number of trees, with T* and the forest at hand.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
        """
        from rfsize.sizing.plots import plot_deviation

        return plot_deviation(self, ax)

    @property
    def target(self) -> str:
        """What is estimated, such as "T*(probability within 0.01)"."""
        return f"T*({self.criterion} within {self.tolerance!r})"

    def not_converged(self) -> str:
        """What to say of a forest that is too small."""
        if self._has_few_votes:
            return self._few_votes()
        if self._is_untold:
            return self._not_told()
        if self._is_within_reach and self.sure is not None:
            what = f"give {_WHAT[self.criterion]} within {self.tolerance!r} of the infinite forest's"
            return self._unsure(what, "a larger tolerance")
        needed = in_words(self.n_trees) if self.reason is None else f"more than {_MANY_TREES:,}"
        return (
            f"the forest has {self.available:,} trees, but {needed} are needed for {_WHAT[self.criterion]} within "
            f"{self.tolerance!r} of the infinite forest's; its own are {self._off()}. Train more trees, or ask for a "
            "larger tolerance"
        )

    def _off(self) -> str:
        now = self.deviation(self._ends_with)
        return f"off by {now.rms:.3g} (root mean square), and by at most {now.p95:.3g} on 95 % of the rows"

    def _remarks(self) -> list[str]:
        """What is to be said beside T* and the price."""
        return [*self._how_sure(), *self._by_each(), *self._said_of_groups()]

    def _wording(self) -> Wording:
        """How it speaks on a page."""
        return Wording(
            aim=f"give {_WHAT[self.criterion]} within {self.tolerance!r} of those of infinitely many",
            pictures=(Picture("Deviation from the infinite forest over the number of trees", self.plot),),
            options={"criterion": self.criterion, "tolerance": self.tolerance},
            method=f"{_WHAT[self.criterion]}, by the variance between trees on each row",
            label_shares={},
        )

    def _by_each(self) -> list[str]:
        return [
            f"by root mean square: {how_many(self.sizes.rms, 'tree')}",
            f"by the 95th percentile over rows: {how_many(self.sizes.p95, 'tree')}",
        ]

    def __str__(self) -> str:
        asked = how_many(round(self.votes_per_row), "tree")
        rows = f"{how_many(self.n_rows, 'row')} ({self.source}), {asked} asked of each on average"
        if self.n_dropped:
            rows += f"; {how_many(self.n_dropped, 'row')} dropped, which less than two trees could score"
        enough = f"the {_WHAT[self.criterion]} of {self._its_trees()} are {self._off()}"
        return "\n".join(
            [
                *self._answer(enough),
                *self._how_sure(),
                *self._by_each(),
                str(self.price()),
                *self._said_of_groups(),
                f"estimated from {rows}",
            ]
        )
