"""SizeReport: how many trees are enough, and what that rests on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from rfsize.counting.representative import fewest_votes
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.errors import FewVotesError
from rfsize.estimation.base import Curves, Estimate, Margins
from rfsize.estimation.strata import FEWEST_ROWS
from rfsize.reporting.account import Picture
from rfsize.sizing.accounts import Wording
from rfsize.sizing.base import Report
from rfsize.sizing.goal import AVERAGES, Goal, LabelGoal, check_goal
from rfsize.sizing.labels_only import what_suffers
from rfsize.sizing.loss import Loss
from rfsize.sizing.named_metrics import MetricLike
from rfsize.sizing.price import Pricing
from rfsize.sizing.voting_rule import VotingRule, rules_of
from rfsize.sizing.words import (
    RARE,
    VOTED,
    by_class_in_words,
    finite,
    in_a_sentence,
    in_percent,
    no_votes_advice,
)
from rfsize.utils.validation import choice, share, whole
from rfsize.utils.warn import Caution
from rfsize.utils.words import how_many, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A wider interval, as a factor, tells little more than the order of magnitude. What a few trees more cost is nothing.
_WIDE, _FEW_TREES = 4.0, 3


@dataclass(frozen=True, eq=False)
class SizeReport(Report):
    """The answer of `rfsize.size` about labels.

    Attributes
    ----------
    n_trees : int or float
        T*(α), the smallest odd forest that agrees with the infinite forest on a share ``alpha`` of the rows,
        on average; ``math.inf`` where no size does (`reason` says why).
    alpha : float
        Confidence α.
    available : int
        Trees of the forest at hand.
    source : str
        Where the votes come from: "oob" or "rows given" (or, in training, the validation set).
    n_rows : int
        Rows whose votes were used.
    n_dropped : int
        Rows left out because no tree could vote on them.
    votes_per_row : float
        Mean number of trees asked per row.
    copied : float or None
        Share of the training rows that have a copy; None where copies were not looked for.
    groups : {"rows", "copies", "given", "unknown"}
        Which rows a tree that saw one of them says nothing of, see `rfsize.size`; "unknown" where the training data
        hold no rows to look for copies in.
    voting : {"hard", "soft"}
        The rule that T*(α) is of: the majority of the trees' votes, or their averaged scores.
    average : {"micro", "macro"}
        Whether agreement is averaged over the rows, or over the classes that the infinite forest gives them.
    predict_obeys : {"hard", "soft"} or None
        The rule that the model's own ``predict`` goes by; None where there is no model.
    sure : float or None
        How sure it must be that a forest in training is large enough, see `rfsize.grow`; None of a finished one.
    pricing : Pricing
        What `price` is estimated from.
    noted : tuple of Caution
        Warnings that were known before the size was; `warnings` has all.

    Notes
    -----
    The 95 % ``interval`` is, of rows, by the plug-in estimate, the bootstrap, with the votes of each row held fixed; by
    the smooth one, the posterior distribution of the density, which covers the noise of each row's votes too. Of trees,
    which all rows share, it is by draws of the noise that blocks of them show; counted `Votes` do not tell them apart,
    and their interval is of rows alone.

    Examples
    --------
    >>> import rfsize
    >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]] * 100)
    >>> report = rfsize.size(votes, alpha=0.95, estimator="plugin")
    >>> print(report)
    T*(0.95) = 71 (... to ...) trees, 95 % interval in brackets
    enough: the 100 trees at hand agree with the infinite forest on 96.64% of the rows
    price of 71 trees: 4.96% of the labels still change (0: 0.00%, 1: 6.61%)
    estimated (plugin) from 400 rows (rows given), 100 votes each on average
    >>> report.converged, report.to_dict()["n_trees"]
    (True, 71)
    """

    criterion = "label"

    n_trees: int | float
    alpha: float
    available: int
    source: str
    n_rows: int
    n_dropped: int
    votes_per_row: float
    voting: str
    average: str
    predict_obeys: str | None
    copied: float | None
    groups: str
    sure: float | None
    _rules: Mapping[str, VotingRule]
    _classes: list[Any]
    pricing: Pricing
    noted: tuple[Caution, ...] = ()
    _report_of: Callable[[Goal], Report] | None = None
    _others: dict[MetricLike, Report] = field(default_factory=dict)

    @classmethod
    def of(cls, outputs: TreeOutputs, goal: LabelGoal, *, both: bool = True) -> SizeReport:
        """Size a forest from what its trees say of the rows that sizes go by.

        Unless it is to tell the sizes by ``both`` rules of voting, only that of the goal is estimated.

        Raises
        ------
        NotAForestError
            If the trees cast no votes.
        FewVotesError
            If no row has a vote.
        ValueError
            If the estimator does not fit the votes, or there are no scores to size by.
        """
        check_goal(goal, len(outputs.classes))
        if not outputs.votes.asked.any():
            raise FewVotesError("no row has a vote" + no_votes_advice(outputs))
        voting = outputs.voting(goal.voting)
        rules = rules_of(outputs, goal, both=both)
        if voting not in rules:
            raise FewVotesError("no row has the scores of two trees" + no_votes_advice(outputs))
        return cls(
            **rules[voting].said(goal.alpha, goal.average),
            alpha=float(goal.alpha),
            available=outputs.n_trees,
            source=outputs.source,
            voting=voting,
            average=goal.average,
            predict_obeys=outputs.predict_obeys,
            copied=outputs.groups.copied,
            groups=outputs.groups.by,
            sure=goal.sure,
            _rules=rules,
            _classes=outputs.classes.tolist(),
            pricing=Pricing(outputs, rules.get(outputs.voting("auto"))),
        )

    @property
    def _rule(self) -> VotingRule:
        return self._rules[self.voting]

    @property
    def _estimate(self) -> Estimate:
        return self._rule.estimate(self.average)

    @property
    def other(self) -> SizeReport | None:
        """The report by the other rule of voting; None where there are no scores."""
        voting = "soft" if self.voting == "hard" else "hard"
        if voting not in self._rules:
            return None
        return replace(self, voting=voting, **self._rules[voting].said(self.alpha, self.average))

    @property
    def estimator(self) -> str:
        """How the vote fractions were estimated: "plugin" or "smooth"."""
        return self._estimate.name

    @property
    def reason(self) -> str | None:
        """Why T*(α) is infinite; None where it is not."""
        if math.isfinite(self.n_trees):
            return None
        if self._rule.untold:
            return self._untold()
        return self._estimate.why_infinite(self.alpha)

    @property
    def _fewest_votes(self) -> int:
        return fewest_votes(len(self._classes))

    @property
    def _is_unknown(self) -> bool:
        return self._rule.untold or self._has_few_votes

    def _quantile(self, share_below: float) -> int | float:
        return self._curves.quantile(self.alpha, share_below)

    def _suffers(self) -> tuple[Caution, ...]:
        return what_suffers(self)

    @property
    def wide(self) -> bool:
        """Whether the data cannot tell T*(α): its interval spans more than a factor of 4."""
        low, high = self.interval
        return high > _WIDE * max(low, _FEW_TREES)

    def agreement(self, n_trees: int) -> float:
        """Estimated mean agreement of a forest of ``n_trees`` with the infinite forest, equation (15) or (17).

        Parameters
        ----------
        n_trees : int
            Ensemble size T, at least 1.

        Returns
        -------
        float
            Share of the rows, between 0 and 1.

        Raises
        ------
        ValueError
            If ``n_trees`` is below 1.

        Examples
        --------
        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]])
        >>> report = rfsize.size(votes, alpha=0.95, estimator="plugin")
        >>> [round(report.agreement(n_trees), 3) for n_trees in (1, 11, 101)]
        [0.825, 0.905, 0.961]
        """
        return 1.0 - self._estimate.disagreement(whole("n_trees", n_trees, at_least=1))

    def _own_loss(self, n_trees: int) -> Loss:
        by_class = {of: 1.0 - agreement for of, agreement in self.agreement_by_class(n_trees).items()}
        low, high = self._rule.interval(n_trees, self.average)
        value = 1.0 - self.agreement(n_trees)
        return Loss(value, (min(low, value), max(high, value)), by_class=by_class)

    def curves(self) -> Curves:
        """Mean disagreement around T*(α) as it might also have come out: what `interval` is made from."""
        return self._curves

    @cached_property
    def _curves(self) -> Curves:
        return self._rule.curves(self.alpha, self.average)

    def margins(self) -> Margins:
        """How far from a tie the rows are."""
        return self._estimate.margins()

    def size_at(self, alpha: float, average: str | None = None) -> int | float:
        """T* at another confidence, or by the other average, from the same votes.

        Parameters
        ----------
        alpha : float
            Confidence α, strictly between 0 and 1.
        average : {"micro", "macro"}, optional
            That of the report by default.

        Returns
        -------
        int or float
            The smallest odd size; ``math.inf`` where none reaches α.

        Raises
        ------
        ValueError
            If ``alpha`` is not strictly between 0 and 1, or there is no such average.

        Examples
        --------
        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]])
        >>> report = rfsize.size(votes, alpha=0.95, estimator="plugin")
        >>> [report.size_at(alpha) for alpha in (0.9, 0.95, 0.99)]
        [9, 71, ...]
        """
        average = self.average if average is None else average
        choice("average", average, AVERAGES)
        return self._rule.size(share("alpha", alpha), average)

    @property
    def macro_size(self) -> int | float:
        """T*(α) of agreement averaged over the classes, whatever average the report is of."""
        return self.size_at(self.alpha, "macro")

    @property
    def label_shares(self) -> dict[Any, float]:
        """Share of the rows that each class is given, by the votes or scores at hand."""
        rows = self._rule.rows_by_class / self.n_rows
        return dict(zip(self._classes, rows.tolist(), strict=True))

    def agreement_by_class(self, n_trees: int) -> dict[Any, float]:
        """Estimated mean agreement of a forest of ``n_trees`` with the infinite forest, on the rows of each class.

        Parameters
        ----------
        n_trees : int
            Ensemble size T, at least 1.

        Returns
        -------
        dict of class label to float
            Of the rows that the infinite forest gives each class, the share on which both agree; the macro average is
            their mean. Classes that no row is given to are left out.

        Raises
        ------
        ValueError
            If ``n_trees`` is below 1.

        Examples
        --------
        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]], classes=["no", "yes"])
        >>> report = rfsize.size(votes, alpha=0.95, estimator="plugin")
        >>> {of: round(agreement, 3) for of, agreement in report.agreement_by_class(11).items()}
        {'no': 1.0, 'yes': 0.874}
        """
        found = self._rule.of_classes.disagreement_of_each(whole("n_trees", n_trees, at_least=1))
        return {self._classes[of]: 1.0 - disagreement for of, disagreement in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """The report as plain Python values that ``json`` can write; infinite sizes are None."""
        return {
            **super().to_dict(),
            "wide": self.wide,
            "alpha": self.alpha,
            "voting": self.voting,
            "average": self.average,
            "sizes": {voting: finite(one.size(self.alpha, self.average)) for voting, one in self._rules.items()},
            "predict_obeys": self.predict_obeys,
            "agreement": self.agreement(self.available),
            "agreement_by_class": {str(of): share for of, share in self.agreement_by_class(self.available).items()},
            "label_shares": {str(of): share for of, share in self.label_shares.items()},
            "estimator": self.estimator,
            "caveat": self._caveat,
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how near to a tie the rows are, and the disagreement of forests of any size with the infinite one.

        The last panel has the law of large forests, disagreement ∝ 1/√T (equation 14), T*(α) with its 95 % interval,
        and the forest at hand. Of the macro average there is a panel of the disagreement by class between them.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw the last panel alone; a new figure of all by default.

        Returns
        -------
        matplotlib Axes
        """
        from rfsize.sizing.plots import plot_report

        return plot_report(self, ax)

    @property
    def target(self) -> str:
        """What is estimated, such as "T*(0.99)"."""
        return f"T*({self.alpha!r}{', macro' if self.average == 'macro' else ''})"

    def not_converged(self) -> str:
        """What to say of a forest that is too small."""
        if self._has_few_votes:
            return self._few_votes()
        if self._rule.untold:
            return self._not_told()
        if self._is_within_reach and self.sure is not None:
            return self._unsure(f"agree with the infinite forest on {self._of_rows(self.alpha)}", "a lower alpha")
        if self.reason is not None:
            return (
                f"no forest size reaches {in_percent(self.alpha)} agreement by this estimate: {self.reason}. All "
                f"{self.available:,} trees are kept; more trees settle such rows, or ask for a lower alpha"
            )
        return (
            f"the forest has {self.available:,} trees, but {self.n_trees:,} are needed to agree with the infinite "
            f"forest on {self._of_rows(self.alpha)}; it agrees on about "
            f"{in_percent(self.agreement(self.available))}. Train more trees, or ask for a lower alpha"
        )

    def __str__(self) -> str:
        votes = how_many(round(self.votes_per_row), "vote")
        rows = f"{how_many(self.n_rows, 'row')} ({self.source}), {votes} each on average"
        if self.n_dropped:
            rows += f"; {how_many(self.n_dropped, 'row')} dropped, on which no tree could vote"
        agree = "agrees" if self._ends_with == 1 else "agree"
        rate = self._of_rows(self.agreement(self._ends_with))
        enough = f"{self._its_trees()} {agree} with the infinite forest on {rate}"
        return "\n".join(
            [
                *self._answer(enough),
                *self._how_sure(),
                *self._both_sizes(),
                *self._said_of_classes(),
                str(self.price()),
                *self._doubts(),
                *self._said_of_groups(),
                f"estimated ({self.estimator}) from {rows}",
            ]
        )

    def _remarks(self) -> list[str]:
        """What is to be said beside T* and the price."""
        return [*self._how_sure(), *self._both_sizes(), *self._doubts(), *self._said_of_groups()]

    def _wording(self) -> Wording:
        """How it speaks on a page."""
        from rfsize.sizing.plots import draw_classes, draw_margins, plot_report

        whole = "the rows" if self.average == "micro" else "the rows of each class, averaged over the classes"
        by_class = Picture("Disagreement by class, at the size to keep", partial(draw_classes, self))
        options: dict[str, Any] = {"alpha": self.alpha}
        options |= {} if self.voting == self.predict_obeys else {"voting": self.voting}
        options |= {} if self.average == "micro" else {"average": self.average}
        return Wording(
            aim=f"give the label of infinitely many on {100.0 * self.alpha:.10g} % of {whole}",
            pictures=(
                Picture("Disagreement with the infinite forest over the number of trees", partial(plot_report, self)),
                Picture("Share of the rows by their distance from a tie", partial(draw_margins, self)),
                *([] if self.average == "micro" else [by_class]),
            ),
            options=options,
            method=f"labels by {VOTED[self.voting]}, {self.estimator} estimate",
            label_shares=self.label_shares,
        )

    def _doubts(self) -> list[str]:
        """What is not known of T*(α)."""
        doubts = [] if self._caveat is None else [f"beware: {self._caveat}"]
        if self.wide:
            low, high = self.interval
            span = f"a factor of {high / low:.1f}" if math.isfinite(high) else "all that is larger"
            doubts.append(
                f"the data cannot tell {self.target} well: the interval spans {span}; more rows, or more votes on "
                "each, narrow it"
            )
        return doubts

    @property
    def _caveat(self) -> str | None:
        """What makes the estimate not to be trusted."""
        caveats = [] if self._estimate.caveat is None else [self._estimate.caveat]
        if self.average == "macro":
            of_class = zip(self._classes, self._rule.rows_by_class.tolist(), strict=True)
            few = [f"{printable(of)} ({rows:,})" for of, rows in of_class if 0 < rows < FEWEST_ROWS]
            if few:
                caveats.append(f"classes that few rows are given tell little of themselves: {', '.join(few)}")
        return "; ".join(caveats) or None

    def _of_rows(self, agreement: float) -> str:
        """A share of agreement, and what it is of."""
        whole = "the rows" if self.average == "micro" else "the rows of a class, averaged over the classes"
        return f"{in_percent(agreement)} of {whole}"

    def _said_of_classes(self) -> list[str]:
        """Agreement by class at the size to keep, of those that agree least where they are many.

        Only where it is the macro average that is asked for, or a class has few of the labels.
        """
        shares = self.label_shares
        if self.average == "micro" and min(shares.values()) >= RARE:
            return []
        return [by_class_in_words(self.agreement_by_class(self.n_kept), shares, self.n_kept)]

    def _both_sizes(self) -> list[str]:
        """Both sizes, and which of them the model's own predict goes by."""
        if self.other is None:
            if self.predict_obeys != "soft":
                return []
            return [
                "trees by majority vote; the model's own predict averages probabilities, which only trees tell here"
            ]
        sizes = ", ".join(f"by {VOTED[one.voting]} {in_a_sentence(one.n_trees)}" for one in (self, self.other))
        obeys = "" if self.predict_obeys is None else f"; the model's own predict goes by {VOTED[self.predict_obeys]}"
        return [f"trees {sizes}{obeys}"]

    __repr__ = __str__
