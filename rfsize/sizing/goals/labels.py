"""Labels: how many trees give the labels of an unlimited forest on a share of the rows.

T*(α) is the smallest odd forest whose labels agree with those of the infinite forest on a share α of the rows, on
average over rows and forests: D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of
classifiers be?" Pattern Recognition 46(5), 1323-1336.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.counting.representative import fewest_votes, too_many_untold
from rfsize.counting.tree_outputs import VOTINGS, TreeOutputs
from rfsize.estimation.base import Curves, Estimate, Margins
from rfsize.estimation.hard import ESTIMATORS
from rfsize.estimation.strata import FEWEST_ROWS, ByClass, by_class, by_group_sizes, of_group_sizes, within_classes
from rfsize.exceptions import FewVotesError, NotAForestError
from rfsize.reporting.account import Picture
from rfsize.sizing.goals.base import TAIL, Answer, Goal, Loss
from rfsize.sizing.goals.label_rows import LabelRows, label_rows
from rfsize.sizing.plots import draw_by_class, draw_margins
from rfsize.sizing.words import VOTED, in_percent, no_votes_advice
from rfsize.utils.typing import Int64s
from rfsize.utils.validation import choice, share
from rfsize.utils.words import printable
from rfsize.voting.blocks import TreeBlocks

AVERAGES = ("micro", "macro")

# A wider interval, as a factor, tells little more than the order of magnitude. What a few trees more cost is nothing.
_WIDE, _FEW_TREES = 4.0, 3


@dataclass(frozen=True)
class LabelGoal(Goal):
    """T*(α) by a rule of voting.

    Attributes
    ----------
    alpha, voting, method, average
        As in `rfsize.size`.
    """

    alpha: float = 0.99
    voting: str = "auto"
    method: str = "auto"
    average: str = "micro"

    name = "labels"
    is_share = True
    easier = "a lower alpha"
    of_labels = True

    def __post_init__(self) -> None:
        super().__post_init__()
        share("alpha", self.alpha)
        choice("voting", self.voting, VOTINGS)
        choice("method", self.method, ESTIMATORS)
        choice("average", self.average, AVERAGES)

    @property
    def level(self) -> float:
        return 1.0 - self.alpha

    @property
    def asked(self) -> str:
        return in_percent(self.alpha)

    @property
    def options(self) -> dict[str, Any]:
        usual = LabelGoal()
        chosen = {name: getattr(self, name) for name in ("voting", "average")}
        return {
            "alpha": self.alpha,
            **{name: value for name, value in chosen.items() if value != getattr(usual, name)},
        }

    @property
    def title(self) -> str:
        return f"T*({self.alpha!r}{', macro' if self.average == 'macro' else ''})"

    @property
    def of_rows(self) -> str:
        """What the share is a share of."""
        return "" if self.average == "micro" else " of each class, averaged over the classes,"

    @property
    def aim(self) -> str:
        rows = "rows" if self.average == "micro" else "the rows of each class, averaged over the classes"
        return f"give the labels of an unlimited forest on {in_percent(self.alpha)} of {rows}"

    @property
    def axis(self) -> str:
        return "labels that still change" + ("" if self.average == "micro" else "\n(mean of the classes)")

    def checked(self, n_classes: int, y: ArrayLike | None = None, *, in_training: bool = False) -> LabelGoal:
        if not n_classes:
            raise NotAForestError(
                "the trees of a regression forest cast no votes, so that it has no labels to size: take "
                "metric='scores', with a tolerance in the unit of y"
            )
        return self

    def answer(self, outputs: TreeOutputs) -> LabelAnswer:
        """The agreement of labels by the votes or averaged scores.

        Raises
        ------
        FewVotesError
            If no row has a vote, or the scores of two trees.
        ValueError
            If there are no scores to size by.
        """
        if not outputs.votes.asked.any():
            raise FewVotesError("no row has a vote" + no_votes_advice(outputs))
        voting = outputs.voting(self.voting)
        rows = label_rows(outputs, voting, self.method)
        if not (rows.asked >= rows.at_least).any():
            raise FewVotesError("no row has the scores of two trees" + no_votes_advice(outputs))
        sizes, blocks, strata = outputs.groups.sizes, outputs.blocks, outputs.strata
        if strata is None and sizes is not None:
            strata = of_group_sizes(sizes)
        if blocks is not None and strata is not None:
            blocks = replace(blocks, strata=strata[blocks.rows])
        if strata is not None and voting == "soft":
            strata = strata[outputs.scored]
        return LabelAnswer(replace(self, voting=voting), rows, strata, blocks, outputs)


class LabelAnswer(Answer):
    """The agreement of labels by one rule of voting.

    Agreement averaged over the classes is estimated when it is first asked for. A pickle has it, and not what the trees
    said of the rows.

    Parameters
    ----------
    goal : LabelGoal
        Its ``voting`` is the rule itself, not "auto".
    rows : LabelRows
    strata : ndarray of int64, shape (n_rows,), or None
        Strata of the rows, which blocks know too; None where rows stand alone.
    blocks : TreeBlocks or None
    outputs : TreeOutputs
        What names the classes, and says by which rule the model itself predicts.
    """

    goal: LabelGoal

    def __init__(
        self,
        goal: LabelGoal,
        rows: LabelRows,
        strata: Int64s | None,
        blocks: TreeBlocks | None,
        outputs: TreeOutputs,
    ) -> None:
        self.goal, self._rows, self._strata, self._blocks, self._outputs = goal, rows, strata, blocks, outputs
        used = rows.asked[rows.asked >= rows.at_least]
        self.n_rows, self.n_dropped = len(used), len(rows.asked) - len(used)
        self.votes_per_row = float(used.mean())
        self.untold = strata is not None and too_many_untold(self.n_dropped, len(rows.asked))
        self.classes = outputs.classes.tolist()
        self.predict_obeys = outputs.predict_obeys
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
        return by_class(within_classes(self._strata, self._leaders), self._used, self._rows.estimate)

    @cached_property
    def label_shares(self) -> dict[Any, float]:
        """Share of the rows that each class is given, by the votes or scores at hand."""
        rows = np.bincount(self._leaders[self._used], minlength=self._rows.n_classes)
        return dict(zip(self.classes, (rows / self.n_rows).tolist(), strict=True))

    def labels_and_probabilities(self) -> list[tuple[Any, float, float]]:
        """Of each class its label, its share of the labels, and its mean probability; none where that is not known."""
        if self._probabilities is None:
            return []
        return [(*given, one) for given, one in zip(self.label_shares.items(), self._probabilities, strict=True)]

    @cached_property
    def _probabilities(self) -> list[float] | None:
        """Mean over the rows of the probability of each class; None where scores are not known."""
        scores = self._outputs.scores
        if scores is None or self._outputs.link is None or not scores.are_finite():
            return None
        means = self._outputs.predictor.predictions(scores.mean[scores.asked > 0]).mean(axis=0)
        return list(np.asarray(means).tolist())

    @property
    def _used(self) -> NDArray[np.bool_]:
        return self._rows.asked >= self._rows.at_least

    @property
    def _leaders(self) -> Int64s:
        return self._rows.leaders()

    @cached_property
    def _shared(self) -> TreeBlocks | None:
        """The blocks of trees, which for the mean of the classes know what class leads on their rows."""
        if self._blocks is None or self.goal.average == "micro":
            return self._blocks
        return replace(self._blocks, strata=within_classes(self._blocks.strata, self._rows.leaders_of(self._blocks)))

    def size_at(self, level: float) -> int | float:
        return math.inf if self.untold else self.estimate.size(share("alpha", level))

    @cached_property
    def _curves(self) -> Curves:
        """Disagreement around T* as it might also have come out, with other rows and other trees."""
        return self.estimate.shaken_replicates(self.n_trees, self._shared)

    def quantile(self, share_below: float) -> int | float:
        return self._curves.quantile(self.goal.alpha, share_below)

    def value(self, n_trees: int) -> float:
        return self.estimate.disagreement(n_trees)

    def interval(self, n_trees: int) -> tuple[float, float]:
        curves = self.estimate.shaken_replicates(n_trees, self._shared)
        at = [float(np.interp(math.log(n_trees), np.log(curves.sizes), one)) for one in curves.disagreement]
        low, high = np.quantile(at, [TAIL, 1.0 - TAIL])
        return float(low), float(high)

    def by_class(self, n_trees: int) -> dict[Any, float]:
        """See `Loss.by_class`."""
        return {self.classes[of]: lost for of, lost in self.of_classes.disagreement_of_each(n_trees).items()}

    def loss(self, n_trees: int) -> Loss:
        return super().loss(n_trees)._replace(by_class=self.by_class(n_trees))

    def margins(self) -> Margins:
        """How far from a tie the rows are."""
        return self.estimate.margins()

    def said(self, n_trees: int) -> str:
        equal = in_percent(1.0 - self.value(n_trees))
        return f"{equal} of labels{self.goal.of_rows} equal those of an unlimited forest"

    def in_short(self, n_trees: int) -> str:
        return f"{in_percent(self.value(n_trees))} of labels change"

    def why_infinite(self) -> str:
        alpha = in_percent(self.goal.alpha)
        return f"no forest size reaches {alpha} by this estimate: {self.estimate.why_infinite(self.goal.alpha)}"

    def notes(self) -> list[str]:
        notes = [] if self.estimate.caveat is None else [self.estimate.caveat]
        low, high = self.quantile(TAIL), self.quantile(1.0 - TAIL)
        if high > _WIDE * max(low, _FEW_TREES):
            notes.append("the interval is wide: more rows, or more votes on each, narrow it")
        if self.goal.average == "macro":
            shares = self.label_shares.items()
            few = [f"{printable(of)} ({round(part * self.n_rows):,})" for of, part in shares if self._is_small(part)]
            if few:
                notes.append(f"few rows are given these classes, and tell little of them: {', '.join(few)}")
        if self.predict_obeys not in (None, self.goal.voting):
            ruled, own = VOTED[self.goal.voting], VOTED[str(self.predict_obeys)]
            notes.append(f"these are labels by {ruled}; the model's own predict goes by {own}")
        return notes

    def _is_small(self, part: float) -> bool:
        """Whether so few rows are given a class that they tell little of it."""
        return 0 < round(part * self.n_rows) < FEWEST_ROWS

    def pictures(self) -> tuple[Picture, ...]:
        def draw_classes(ax: Any) -> None:
            size = int(self.n_trees) if math.isfinite(self.n_trees) else 1
            draw_by_class(self.by_class(size), self.goal.level, size, ax)

        margins = Picture("Share of the rows by their distance from a tie", lambda ax: draw_margins(self.margins(), ax))
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
        for name in ("_of_rows", "of_classes", "label_shares", "_probabilities", "_shared", "_curves"):
            getattr(self, name)
        return {**self.__dict__, "_rows": None, "_strata": None, "_blocks": None, "_outputs": None}
