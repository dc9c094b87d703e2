"""Labels: how many trees give the labels of an unlimited forest on a share of the rows.

T*(α) is the size of the smallest odd forest that gives the labels of the infinite forest on a share α of the rows, on
average over rows and forests: D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of
classifiers be?" Pattern Recognition 46(5), 1323-1336.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import Caution, Int64s, choice, how_many, in_percent, printable, share
from rfsize.counting.coverage import fewest_votes, too_many_without_votes
from rfsize.counting.outputs import TreeOutputs, coverage, voting_of
from rfsize.counting.part_sums import Blocks
from rfsize.estimation.base import Estimate, Margins
from rfsize.estimation.hard import ESTIMATORS
from rfsize.estimation.intervals import TAIL, Curves, between
from rfsize.estimation.shared_trees import TreeNoise
from rfsize.estimation.strata import FEWEST_ROWS, ByClass, by_class, by_group_sizes, of_group_sizes, within_classes
from rfsize.exceptions import FewVotesError, LabelsOnlyWarning, NotAForestError
from rfsize.reporting.account import Grid, Picture
from rfsize.reporting.words import most_changed
from rfsize.showing.plotting import draw_shares, faint, finish, ink, label_sparsely, percent
from rfsize.sizing.goals.base import Answer, Goal, GoalOnRows, Loss
from rfsize.sizing.goals.label_rows import LabelRows, ScoredRows, label_rows
from rfsize.sizing.named_metrics import MetricLike
from rfsize.sizing.words import RARE, VOTED, in_round_percent, no_votes_advice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A warning is given if more than _CHANGED times 1 − α of a class's labels change, or if a class gets fewer labels than
# 1/_LABELS of its mean probability. A warning names at most _NAMED classes.
_CHANGED, _LABELS, _NAMED = 4.0, 10.0, 3

_BINS = 25  # of the rows' distances from a tie


@dataclass(frozen=True)
class LabelGoal(GoalOnRows):
    """Keep the labels of a voting rule on a share α of the rows: T*(α).

    Attributes
    ----------
    method
        As in `rfsize.size`.
    """

    method: str = "auto"

    names = ("labels",)
    name = names[0]
    of_votes = of_labels = True
    easier = "a lower alpha"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("method", self.method, ESTIMATORS)

    @classmethod
    def named(cls, metric: MetricLike, **given: Any) -> Goal:
        if "tolerance" in given:
            raise ValueError(
                "tolerance is for metric='probabilities', 'scores' or a metric; labels are equal on a share alpha of "
                "the rows. Leave out one of the two"
            )
        given.pop("threshold", None)
        return cls(**given)

    @classmethod
    def beside(cls, outputs: TreeOutputs) -> tuple[str, ...]:
        return cls.names if len(outputs.classes) else ()

    @property
    def title(self) -> str:
        return f"T*({self.alpha!r}{', macro' if self.average == 'macro' else ''})"

    @property
    def of_rows(self) -> str:
        """What the share is averaged over, if not over rows."""
        return "" if self.average == "micro" else ", averaged over the classes"

    @property
    def aim(self) -> str:
        rows = "rows" if self.average == "micro" else "the rows of each class, averaged over the classes"
        return f"give the labels of an unlimited forest on {in_percent(self.alpha)} of {rows}"

    @property
    def axis(self) -> str:
        return "labels that still change" + ("" if self.average == "micro" else " (mean of the classes)")

    @property
    def agreement_axis(self) -> str:
        labels = "rows with the label of an unlimited forest"
        return labels + ("" if self.average == "micro" else " (mean of the classes)")

    def checked(self, n_classes: int, y: ArrayLike | None = None, *, in_training: bool = False) -> LabelGoal:
        if not n_classes:
            raise NotAForestError(
                "the trees of a regression forest cast no votes, so that it has no labels to size: take "
                "metric='scores', with a tolerance in the unit of y"
            )
        return self

    def answer(self, outputs: TreeOutputs) -> LabelAnswer:
        """The agreement of labels, from votes or averaged scores.

        Raises
        ------
        FewVotesError
            If no row has a vote, or the scores of two trees.
        ValueError
            If there are no scores to size by.
        """
        if not outputs.votes.asked.any():
            raise FewVotesError("no row has a vote" + no_votes_advice(outputs))
        voting = voting_of(outputs, self.voting)
        rows = label_rows(outputs, voting, self.method)
        if not (rows.asked >= rows.at_least).any():
            raise FewVotesError("no row has the scores of two trees" + no_votes_advice(outputs))
        sizes, blocks = outputs.groups.sizes, None if outputs.sums is None else outputs.sums.blocks
        strata = coverage(outputs).strata if outputs.source == "oob" else None
        if strata is None and sizes is not None:
            strata = of_group_sizes(sizes)
        if blocks is not None and strata is not None:
            blocks = replace(blocks, strata=strata[blocks.rows])
        if strata is not None and isinstance(rows, ScoredRows):
            strata = strata[rows.scores.number]
        return LabelAnswer(replace(self, voting=voting), rows, strata, blocks, outputs)


class LabelsSeen(NamedTuple):
    """Labels of the rows at one look at a forest in training (-1: too few trees can vote), and votes per row."""

    labels: Int64s
    votes_per_row: float


class LabelAnswer(Answer):
    """The agreement of labels under one voting rule.

    Agreement averaged over the classes is estimated at its first use. A pickle holds it, but not the trees' outputs.

    Parameters
    ----------
    goal : LabelGoal
        Its ``voting`` is "hard" or "soft", not "auto".
    rows : LabelRows
    strata : ndarray of int64, shape (n_rows,), or None
        Strata of the rows, which the blocks know too; None if there are no strata.
    blocks : Blocks or None
    outputs : TreeOutputs
        Where the names of the classes and the voting rule of the model's own ``predict`` come from.
    """

    goal: LabelGoal

    def __init__(
        self,
        goal: LabelGoal,
        rows: LabelRows,
        strata: Int64s | None,
        blocks: Blocks | None,
        outputs: TreeOutputs,
    ) -> None:
        self.goal, self._rows, self._strata, self._blocks, self._outputs = goal, rows, strata, blocks, outputs
        used = rows.asked[rows.asked >= rows.at_least]
        self.n_rows, self.n_dropped = len(used), len(rows.asked) - len(used)
        self.votes_per_row = float(used.mean())
        self.lacks_votes = strata is not None and too_many_without_votes(self.n_dropped, len(rows.asked))
        self.classes = outputs.classes.tolist()
        self.predict_obeys = None if outputs.predictor is None else outputs.predictor.voting
        self.fewest_votes = fewest_votes(len(self.classes))
        self.n_trees = self.size_at(goal.alpha)

    @property
    def estimate(self) -> Estimate:
        """The estimate of agreement, averaged over the rows or the classes."""
        return self.of_classes if self.goal.average == "macro" else self._of_rows

    @cached_property
    def _of_rows(self) -> Estimate:
        if self._strata is None:
            return self._rows.estimate(slice(None))
        return by_group_sizes(self._strata, self._used, self._rows.estimate)

    @cached_property
    def of_classes(self) -> ByClass:
        """The estimates of the classes, and their mean."""
        return by_class(within_classes(self._strata, self._rows.leaders()), self._used, self._rows.estimate)

    @cached_property
    def label_shares(self) -> dict[Any, float]:
        """Share of the rows that get the label of each class, by the votes or scores at hand."""
        rows = np.bincount(self._rows.leaders()[self._used], minlength=self._rows.n_classes)
        return dict(zip(self.classes, (rows / self.n_rows).tolist(), strict=True))

    @cached_property
    def _probabilities(self) -> list[float] | None:
        """Mean probability of each class over the rows; None if there are no scores."""
        scores, predictor = self._outputs.scores, self._outputs.predictor
        if scores is None or predictor is None or not scores.are_finite():
            return None
        means = predictor.predictions(scores.mean[scores.asked > 0]).mean(axis=0)
        return list(np.asarray(means).tolist())

    @property
    def _used(self) -> NDArray[np.bool_]:
        return self._rows.asked >= self._rows.at_least

    @cached_property
    def _shared(self) -> Blocks | None:
        """The blocks of trees; for a mean over classes, with the class that leads on each of their rows."""
        if self._blocks is None or self.goal.average == "micro":
            return self._blocks
        return replace(self._blocks, strata=within_classes(self._blocks.strata, self._rows.leaders_of(self._blocks)))

    @property
    def seen(self) -> LabelsSeen:
        return LabelsSeen(np.where(self._used, self._rows.leaders(), -1), self.votes_per_row)

    def fewest_alike(self, before: LabelsSeen, n_trees: int) -> int:
        """See `Answer.fewest_alike`: t of T trees give other labels on a share of the rows ∝ √(1/t − 1/T)."""
        labels, votes = self.seen
        known = (labels >= 0) & (before.labels >= 0)
        differs, of = (before.labels != labels)[known], labels[known]
        if votes <= before.votes_per_row or not differs.any():
            return 0
        by_class = [differs[of == each].mean() for each in np.unique(of)]
        changed = float(np.mean(by_class if self.goal.average == "macro" else differs))
        apart = (self.goal.level / changed) ** 2 * (1.0 / before.votes_per_row - 1.0 / votes)
        # As T* of a majority vote, odd.
        return min(2 * math.ceil((1.0 / (1.0 / n_trees + apart) - 1.0) / 2.0) + 1, n_trees)

    def size_at(self, level: float) -> int | float:
        return math.inf if self.lacks_votes else self.estimate.size(share("alpha", level))

    @cached_property
    def _curves(self) -> Curves:
        """Replicates of the disagreement around T*, as other rows and other trees would give it."""
        return self.estimate.replicates_with(self._tree_noise, self.n_trees)

    @cached_property
    def _tree_noise(self) -> TreeNoise | None:
        return self.estimate.tree_noise(self._shared)

    def quantile(self, share_below: float) -> int | float:
        return self._curves.quantile(self.goal.alpha, share_below)

    def value(self, n_trees: int) -> float:
        return self.estimate.disagreement(n_trees)

    def interval(self, n_trees: int) -> tuple[float, float]:
        curves = self.estimate.replicates_with(self._tree_noise, n_trees)
        low, high = np.quantile(between(n_trees, curves.sizes, curves.disagreement), [TAIL, 1.0 - TAIL])
        return float(low), float(high)

    def by_class(self, n_trees: int) -> dict[Any, float]:
        """See `Loss.by_class`."""
        return {self.classes[of]: lost for of, lost in self.of_classes.disagreement_of_each(n_trees).items()}

    def loss(self, n_trees: int) -> Loss:
        return super().loss(n_trees)._replace(by_class=self.by_class(n_trees))

    def said(self, n_trees: int) -> str:
        equal = in_percent(1.0 - self.value(n_trees))
        return f"{equal} of labels equal those of an unlimited forest{self.goal.of_rows}"

    def in_short(self, n_trees: int) -> str:
        return f"{in_percent(self.value(n_trees))} of labels change"

    def why_infinite(self) -> str:
        alpha = in_percent(self.goal.alpha)
        return f"no number of trees reaches {alpha} by this estimate: {self.estimate.why_infinite(self.goal.alpha)}"

    def notes(self) -> list[str]:
        notes = [] if self.estimate.caveat is None else [self.estimate.caveat]
        small = {of: round(part * self.n_rows) for of, part in self.label_shares.items() if self._is_small(part)}
        if self.goal.average == "macro" and small:
            few = ", ".join(f"{printable(of)} ({rows:,})" for of, rows in small.items())
            notes.append(f"few rows get these classes, so their labels are uncertain: {few}")
        elif len(self.classes) == 2:
            notes += [
                f"class {printable(of)} has only {how_many(rows, 'row')}: the interval may be too narrow"
                for of, rows in small.items()
            ]
        if self.predict_obeys not in (None, self.goal.voting):
            notes.append(own_predict(self.goal.voting, str(self.predict_obeys)))
        return notes

    def _is_small(self, part: float) -> bool:
        """Whether too few rows get the label of a class to tell much about the class."""
        return 0 < round(part * self.n_rows) < FEWEST_ROWS

    def suffering(self, n_trees: int, others: Callable[[], Iterable[Answer]]) -> list[Caution]:
        is_rare = min(self.label_shares.values()) < RARE
        return [
            *changing_classes(self.by_class(n_trees), self.label_shares, self.goal, "still change"),
            *unlabelled_classes(self.label_shares, self._probabilities or []),
            *(harm for other in others() if (harm := other.harm(n_trees, of_a_rare_class=is_rare))),
        ]

    def grids(self, n_trees: int) -> tuple[Grid, ...]:
        changed = self.by_class(n_trees)
        if len(changed) < 2:
            return ()
        most, title = most_changed(changed, lambda of: changed[of])
        rows = tuple((printable(of), in_percent(self.label_shares[of]), in_percent(changed[of])) for of in most)
        heads = ("class", "share of the rows", f"labels that still change with {how_many(n_trees, 'tree')}")
        return (Grid(heads, rows, title=title.capitalize()),)

    def pictures(self) -> tuple[Picture, ...]:
        def draw_classes(ax: Any) -> None:
            size = int(self.n_trees) if math.isfinite(self.n_trees) else 1
            _draw_by_class(self.by_class(size), self.goal.level, size, ax)

        margins = Picture(
            "Share of the rows by their distance from a tie", lambda ax: _draw_margins(self.estimate.margins(), ax)
        )
        if self.goal.average == "micro" or math.isinf(self.n_trees):
            return (margins,)
        return margins, Picture("Labels that still change, by class", draw_classes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "voting": self.goal.voting,
            "average": self.goal.average,
            "method": self.estimate.name,
            "predict_obeys": self.predict_obeys,
            "label_shares": {str(of): part for of, part in self.label_shares.items()},
        }

    def __getstate__(self) -> dict[str, Any]:
        for name in ("_of_rows", "of_classes", "label_shares", "_probabilities", "_curves"):
            getattr(self, name)
        # The pickle keeps the drawn noise of the trees; the outputs that it was drawn from are many times larger.
        left_out = ("_rows", "_strata", "_blocks", "_outputs", "_shared")
        return {**self.__dict__, **dict.fromkeys(left_out)}


def own_predict(voting: str, predict_obeys: str) -> str:
    """A note for labels by a voting rule that is not the one of the model's own ``predict``."""
    return f"this report is about labels by {VOTED[voting]}; the model's own predict goes by {VOTED[predict_obeys]}"


def changing_classes(changed: dict[Any, float], shares: dict[Any, float], goal: GoalOnRows, how: str) -> list[Caution]:
    """A warning about classes in which many more labels change than the goal allows on average."""
    most = sorted(changed, key=lambda of: -changed[of])
    suffer = [of for of in most if changed[of] > _CHANGED * goal.level]
    if goal.average == "macro" or not suffer:
        return []
    named = "; ".join(
        f"class {printable(of)} (predicted on {in_round_percent(shares[of])} of rows): "
        f"{in_round_percent(changed[of])} of its labels"
        for of in suffer[:_NAMED]
    )
    more = "" if len(suffer) <= _NAMED else f" (and {len(suffer) - _NAMED} more classes)"
    return [Caution.advising(LabelsOnlyWarning, f"{named} {how}{more}; size them", average="macro")]


def unlabelled_classes(shares: dict[Any, float], probabilities: Sequence[float], **options: Any) -> list[Caution]:
    """Warnings about classes that get far fewer labels than their mean probability suggests.

    ``probabilities`` are in the order of the classes, or empty if they are not known. ``options`` are further arguments
    of the advised call.
    """
    advice = {"metric": "probabilities", "tolerance": 0.01, **options}
    return [
        Caution.advising(
            LabelsOnlyWarning,
            f"class {printable(name)} gets {in_percent(given)} of the labels, and its mean probability is "
            f"{in_percent(mean)}; size its probabilities",
            **advice,
        )
        for (name, given), mean in zip(shares.items(), probabilities, strict=False)
        if _LABELS * given < mean
    ]


def _draw_margins(margins: Margins, ax: Axes) -> None:
    """Draw the rows by their distance from a tie: large forests change only rows next to it."""
    edges = np.linspace(min(margins.tie, margins.most), max(margins.tie, margins.most), _BINS + 1)
    values = np.clip(margins.values, edges[0], edges[-1])
    shares, _ = np.histogram(values, bins=edges, weights=margins.rows / margins.rows.sum())
    ax.stairs(shares, edges, fill=True, color="C0", alpha=0.35)
    ax.stairs(shares, edges, color="C0")
    ax.axvline(margins.tie, **faint(ax, "--"))
    ax.set_yscale("log")
    ax.set_xlim(margins.most, margins.tie)
    ax.set_xlabel(f"{margins.what}\n(ties at the right edge)")
    ax.set_ylabel(f"share of the rows, in {_BINS} bins")
    ax.set_title("How near to a tie the rows are")
    label_sparsely(ax.yaxis, percent)
    ax.grid(which="major", color=ink(ax), alpha=0.15)
    ax.set_axisbelow(True)


def _draw_by_class(changed: dict[Any, float], level: float, n_trees: int, ax: Axes) -> None:
    """Draw the share of labels that change, for the classes that change most, and the share that may on average."""
    most, which = most_changed(changed, lambda of: changed[of])
    draw_shares(ax, most, [changed[of] for of in most], None, which)
    ax.axvline(level, **faint(ax, ":"), label=f"asked for: {in_percent(level)}")
    ax.set_xlim(right=max(ax.get_xlim()[1], 1.1 * level))
    ax.set_xlabel("labels that still change")
    ax.set_title(f"By class, with {how_many(n_trees, 'tree')}")
    finish(ax)
