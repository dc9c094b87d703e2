"""MetricReport: how many trees bring a metric near enough to the infinite forest's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rfsize import theory
from rfsize.counting.representative import too_many_untold
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.reporting.account import Picture
from rfsize.sizing.accounts import Wording
from rfsize.sizing.base import Report
from rfsize.sizing.chances import cautions_of, chances_in_blocks
from rfsize.sizing.goal import Goal, MetricGoal, scores_of
from rfsize.sizing.loss import Loss, MetricLoss, Part, metric_loss
from rfsize.sizing.named_metrics import MetricLike, judge_of, predictions_for
from rfsize.sizing.price import Pricing
from rfsize.sizing.words import in_words
from rfsize.utils.validation import positive
from rfsize.utils.warn import Caution
from rfsize.utils.words import how_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COVERAGE = 0.95
_ANY_SIZE = 100  # trees that a report tells the price of


@dataclass(frozen=True, eq=False, repr=False)
class MetricReport(Report):
    """The answer of `rfsize.size` about a metric.

    Attributes
    ----------
    n_trees : int or float
        T*, the smallest forest whose metric is expected to be worse than the infinite forest's by no more than
        ``tolerance``; ``math.inf`` where the trees at hand cannot tell (`reason` says why).
    criterion : str
        The metric.
    tolerance : float
        How much worse it may be.
    value : float
        The metric of the trees at hand; out of bag, of those that each row may ask.
    available : int
        Trees of the forest at hand.
    source : str
        Where the predictions come from: "oob" or "rows given".
    n_rows : int
        Rows that the metric was measured on, of many rows a part.
    n_dropped : int
        Others of these left out because smaller forests of the trees at hand cannot be asked about them.
    votes_per_row : float
        Mean number of trees asked per row.
    copied : float or None
        Share of the training rows that have a copy; None where copies were not looked for.
    groups : {"rows", "copies", "given", "unknown"}
        Which rows a tree that saw one of them says nothing of, see `rfsize.size`.
    sure : float or None
        How sure it must be that a forest in training is large enough, see `rfsize.grow`; None of a finished one.
    pricing : Pricing
        What `price` is estimated from.
    noted : tuple of Caution
        Warnings that were known before the size was; `warnings` has all.

    Notes
    -----
    The expected loss of T trees goes as c/(T + d). Halves and quarters of the trees at hand lose against all of them
    what tells both. What forests of 1, 2, 3, 5, 9, 19 and 37 trees lose is measured on forests drawn from the trees at
    hand; between sizes that were measured, the loss is a straight line over 1/T. The promise is one on average: what a
    single forest loses moves around it from seed to seed, by s/√T (``loss_at(T).spread``), which the jackknife over
    blocks of the trees at hand tells (Efron and Stein 1981).

    References
    ----------
    B. Efron and C. Stein (1981). "The jackknife estimate of variance." The Annals of Statistics 9(3), 586-596.

    Examples
    --------
    How many trees are within 0.005 of the area under the curve that infinitely many would have:

    >>> import rfsize
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(3000, weights=[0.9], class_sep=0.7, random_state=0)
    >>> forest = RandomForestClassifier(200, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> report = rfsize.size(forest, X, y, oob=True, criterion="auc", tolerance=0.005)
    >>> report.converged, report.interval[0] <= report.n_trees <= report.interval[1]
    (True, True)
    >>> bool(report.loss_at(report.n_trees).value <= 0.005)
    True
    """

    n_trees: int | float
    criterion: str
    tolerance: float
    value: float
    available: int
    source: str
    n_rows: int
    n_dropped: int
    votes_per_row: float
    copied: float | None
    groups: str
    sure: float | None
    _is_untold: bool
    _loss: MetricLoss
    pricing: Pricing
    noted: tuple[Caution, ...] = ()
    _report_of: Callable[[Goal], Report] | None = None
    _others: dict[MetricLike, Report] = field(default_factory=dict)

    @classmethod
    def of(cls, outputs: TreeOutputs, goal: MetricGoal) -> MetricReport:
        """Size a forest from what its trees say of the rows that sizes go by, and the truth.

        Raises
        ------
        NotAForestError
            If the members are no trees.
        FewVotesError
            If too few trees were asked about a row.
        ValueError
            If ``y`` is missing, the metric is no number, or it is not known whether it is better when larger.
        """
        scores_of(outputs, goal.criterion)
        blocks, tolerance = outputs.blocks, goal.tolerance
        assert blocks is not None
        if outputs.y is None:
            raise ValueError(f"y is missing: criterion={goal.criterion!r} needs the truth of the rows")
        judge = judge_of(goal.criterion, outputs)
        if judge.larger_is_better is None:
            raise ValueError(
                f"the callable {judge.name!r} does not say whether more of it is better: give a scorer, "
                "sklearn.metrics.make_scorer(..., greater_is_better=...), which does"
            )
        found = metric_loss(blocks, judge, predictions_for(outputs, judge), outputs.units)
        cautions = cautions_of(judge, chances_in_blocks(judge, blocks))
        unasked = int(np.count_nonzero((blocks.asked.sum(axis=1) == 0).any(axis=1)))
        is_untold = outputs.groups.index is not None and too_many_untold(unasked, len(blocks.rows))
        n_trees = math.inf if is_untold or found.is_bent else _within_reach(found.size(tolerance))
        return cls(
            n_trees=n_trees,
            criterion=judge.name,
            tolerance=tolerance,
            value=found.value,
            available=outputs.n_trees,
            source=outputs.source,
            n_rows=found.n_rows,
            n_dropped=found.n_dropped,
            votes_per_row=found.votes_per_row,
            copied=outputs.groups.copied,
            groups=outputs.groups.by,
            sure=goal.sure,
            _is_untold=is_untold,
            _loss=found,
            pricing=Pricing(outputs, of_metric={judge.name: found}),
            noted=cautions,
        )

    @property
    def reason(self) -> str | None:
        """Why T* is infinite; None where it is not."""
        if math.isfinite(self.n_trees):
            return None
        if self._is_untold:
            return self._untold()
        if self._loss.is_bent:
            return (
                f"so few trees cannot tell: the {self.criterion} gains so much by more of them that its loss does not "
                f"yet fall as 1/T. Train at least {self._enough_to_tell():,} trees to tell"
            )
        return f"more than {theory.MAX_TREES - 1:,} trees would be needed"

    @property
    def caveat(self) -> str | None:
        """What makes T* less sure than it looks; None where nothing does."""
        if not self._loss.is_told:
            return (
                f"halves of the trees lose too little {self.criterion} to be told from none, so that T* is what the "
                "largest loss that the rows allow would take (95 %): more rows may make it smaller"
            )
        return None

    @property
    def is_bound(self) -> bool:
        """Whether T* is only known to be `n_trees` at most."""
        return math.isfinite(self.n_trees) and not self._loss.is_told

    @property
    def _is_unknown(self) -> bool:
        return math.isinf(self.n_trees)

    def _quantile(self, share_below: float) -> int | float:
        return _within_reach(self._loss.size(self.tolerance, share_below))

    def _own_loss(self, n_trees: int) -> Loss:
        return self._loss.at_size(n_trees)

    def size_at(self, tolerance: float) -> int | float:
        """T* at another tolerance, from the same trees.

        Parameters
        ----------
        tolerance : float
            How much worse the metric may be, above 0.

        Returns
        -------
        int or float
            The smallest size; ``math.inf`` where the trees at hand cannot tell.

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
        >>> forest = RandomForestRegressor(100, random_state=0).fit(X, y)
        >>> report = rfsize.size(forest, X, y, oob=True, criterion="rmse", tolerance=0.5)
        >>> report.size_at(1.0) < report.n_trees < report.size_at(0.1)
        True
        """
        tolerance = positive("tolerance", tolerance)
        cannot_tell = self._is_untold or self._loss.is_bent
        return math.inf if cannot_tell else _within_reach(self._loss.size(tolerance))

    @property
    def parts(self) -> tuple[Part, Part]:
        """Halves and quarters of the trees at hand: the trees that they ask about a row, and what they lose."""
        return self._loss.halves, self._loss.quarters

    def to_dict(self) -> dict[str, Any]:
        """The report as plain Python values that ``json`` can write; infinite sizes are None."""
        return {
            **super().to_dict(),
            "tolerance": self.tolerance,
            "value": self.value,
            "loss": self.loss_at(self.available).to_dict(),
            "caveat": self.caveat,
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the expected loss over the number of trees, with T*, the forest at hand and what parts of it lose.

        Beside it by what single forests differ from seed to seed, as 1/√T.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
        """
        from rfsize.sizing.plots import plot_loss

        return plot_loss(self, ax)

    @property
    def target(self) -> str:
        """What is estimated, such as "T*(auc within 0.001)"."""
        return f"T*({self.criterion} within {self.tolerance!r})"

    def not_converged(self) -> str:
        """What to say of a forest that is too small."""
        if self._is_untold:
            return self._not_told()
        if self._loss.is_bent:
            return f"the forest has {self.available:,} trees, and {self.reason}"
        if self._is_within_reach and self.sure is not None:
            what = f"keep the {self.criterion} within {self.tolerance!r} of the infinite forest's"
            return self._unsure(what, "a larger tolerance")
        needed = f"{in_words(self.n_trees)} are" if self.reason is None else f"more than {theory.MAX_TREES - 1:,} are"
        if self.is_bound:
            needed = f"up to {in_words(self.n_trees)} may be"
        return (
            f"the forest has {self.available:,} trees, but {needed} needed to keep the {self.criterion} within "
            f"{self.tolerance!r} of the infinite forest's; its own is expected to be {self._price(self.available)} "
            "worse. Train more trees, or ask for a larger tolerance"
        )

    def _enough_to_tell(self) -> int:
        """Trees from which the law may be known, to two digits."""
        enough = self.available * self._loss.enough_to_tell
        unit = 10.0 ** (math.floor(math.log10(enough)) - 1)
        return int(math.ceil(enough / unit) * unit)

    def _price(self, n_trees: int) -> str:
        found = self.loss_at(n_trees)
        low, high = found.interval
        most = "" if self._loss.is_told else "at most "
        return f"{most}{found.value:.2g} ({low:.2g} to {high:.2g})"

    def _remarks(self) -> list[str]:
        """What is to be said beside T* and the price."""
        return [*self._how_sure(), *self._told(), *self._said_of_groups()]

    def _wording(self) -> Wording:
        """How it speaks on a page."""
        return Wording(
            aim=f"keep the {self.criterion} within {self.tolerance!r} of that of infinitely many",
            pictures=(Picture("Expected loss over the number of trees", self.plot),),
            options={"criterion": self.criterion, "tolerance": self.tolerance},
            method="what forests drawn from these trees, of one tree up to half of them, lose against all",
            label_shares={},
        )

    def _told(self) -> list[str]:
        told = [f"note: {self.caveat}"] if self.caveat else []
        if not self._loss.is_bent:
            told.append(f"{_ANY_SIZE} trees would cost {self._price(_ANY_SIZE)} of the {self.criterion}")
        kept = self.n_kept
        moves = f"the {self.criterion} of {how_many(kept, 'tree')} moves by {self.loss_at(kept).spread:.2g}"
        return [*told, f"from seed to seed {moves} (standard deviation)"]

    def _enough(self) -> str:
        """What to say of a forest that is large enough."""
        price = self._price(self._ends_with)
        if self._ends_with == self.available:
            return (
                f"the {self.criterion} of the {self.available:,} trees at hand, {self.value:.4g}, is expected to be "
                f"{price} worse than that of infinitely many"
            )
        return (
            f"the {self.criterion} is {self.value:.4g} with all {self.available:,} trees grown, and expected to be "
            f"{price} worse with {self._ends_with:,} of them than with infinitely many"
        )

    def __str__(self) -> str:
        asked = f"{self.votes_per_row:,.0f} trees asked of each on average"
        rows = f"{how_many(self.n_rows, 'row')} ({self.source}), {asked}"
        if self.n_dropped:
            dropped = how_many(self.n_dropped, "row")
            rows += f"; {dropped} dropped, which some quarter of the trees could not be asked about"
        return "\n".join(
            [
                *self._answer(self._enough()),
                *self._how_sure(),
                *self._told(),
                str(self.price()),
                *self._said_of_groups(),
                f"estimated from {rows}",
            ]
        )


def _within_reach(size: int) -> int | float:
    """A size, infinite beyond those that are searched for."""
    return size if size < theory.MAX_TREES else math.inf
