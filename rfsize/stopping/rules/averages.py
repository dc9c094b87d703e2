"""Averaged scores: rows stop when the leading class is far enough ahead in the mean of the trees asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats, Int64s
from rfsize.counting.training_rows import TreesOnRows
from rfsize.statistics.certify import Certificate, RiskTarget
from rfsize.statistics.first_trees import running_leads
from rfsize.stopping.document import Fields, refuse
from rfsize.stopping.rules.base import Drawing
from rfsize.stopping.rules.on_sums import LabelsBySums, cut_of
from rfsize.stopping.rules.scores import TRIED, ScoreStops, Tallies
from rfsize.stopping.terms import Terms
from rfsize.walking.layout import PackedForest

# The boldest limit, relative to the range of the scores: below the scatter of the rows of any forest.
_BOLDEST = 1e-5

_SAME_CUT = 1e-6  # two cuts this close count as equal


@dataclass(frozen=True, eq=False)
class AverageStops(ScoreStops):
    """Stop when the leading class is far enough ahead in the mean of the trees asked.

    Scores are those of single trees, before the link. The lead after t trees is the distance between the two largest
    mean scores. If two classes share one score, the lead is the distance of its mean from ``cut``. A row stops when
    lead ≥ needed[t]. Its label is the class with the largest mean, and a tie goes to the lowest index; with one score,
    it is class 1 if the mean is above ``cut``.

    Attributes
    ----------
    needed : ndarray of float64, shape (T + 1,)
        Leads that stop a row: ∞ before the first tree, 0 after the last, and never larger after one more tree.
    cut : float
        With one score: the mean above which the label is class 1. Not used with several scores.
    """

    kind = "averages"
    stored = ("needed", "cut")
    metric = "labels"
    calibrates = ("labels",)

    needed: Floats
    cut: float

    @classmethod
    def calibrated(cls, trees: TreesOnRows, promise: RiskTarget) -> tuple[Terms, AverageStops, Certificate]:
        """Scale one schedule of leads down as far as the rows certify."""
        terms = Terms.of_forest(trees, promise)
        shape = needed_leads(1.0, trees.forest.n_trees)[1:]
        limits, n_classes = limits_tried(trees, shape), terms.n_classes
        read = partial(_tallied_leads, cut=trees.cut, limits=limits, shape=shape, n_classes=n_classes)
        tallies = trees.added_up("scores", read, partial(Tallies.nothing, n_classes, limits.size))
        rule = max(0, tallies.boldest(promise, terms.class_labels))  # with the first rule, every row asks all trees
        stops = cls(np.concatenate([[np.inf], limits[rule] * shape]), trees.cut)
        return terms, stops, tallies.certificate(rule, promise)

    def answers_of_block(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        lead, label = running_leads(outputs, self.cut)
        n_used = (lead >= self.needed[1:]).argmax(axis=1) + 1
        return label[np.arange(len(label)), n_used - 1].astype(np.int64), n_used.astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """The leads after 1, …, T trees, and the cut."""
        return {"needed": self.needed[1:].tolist(), "cut": self.cut}

    @classmethod
    def from_fields(cls, fields: Fields, n_trees: int, n_classes: int) -> AverageStops:
        needed, cut = fields.numbers("needed", float, n_trees), fields.real("cut")
        if needed[-1] != 0.0 or (np.diff(needed) > 0.0).any():
            refuse(
                "needed must fall from tree to tree, or stay, and end with 0, so that the last tree settles every row"
            )
        return cls(np.concatenate([[np.inf], needed]), cut)

    def check_forest(self, forest: PackedForest) -> None:
        if forest.n_scores > 1:
            return
        cut = cut_of(forest)
        if abs(self.cut - cut) > _SAME_CUT * max(1.0, abs(cut)):
            raise ValueError(
                f"the table stops at a mean score of {self.cut:g}, and the forest's labels turn at {cut:g}: make a "
                "table from this forest, StopTable.calibrate(model, X)"
            )

    def on(self, forest: PackedForest) -> LabelsBySums:
        n_trees = forest.n_trees
        n_used = np.arange(n_trees + 1)
        start: Floats = forest.start.astype(np.float64)
        share = n_used / n_trees * forest.divisor
        if forest.n_scores == 1:
            # If sums are not divided by the number of trees, the mean score of t trees is start + T/t·(sum − start).
            level = start + (self.cut - start) * share
            lead = self.needed * np.where(n_used > 0, share, 1.0)
            return LabelsBySums.of(forest, n_used > 0, 1, level - lead, level + lead, self.needed, start)
        # Two shares that sum to 1 are twice as far from each other as from one half.
        apart = 2.0 if forest.conventions.link == "identity" and len(forest.classes) == 2 else 1.0
        needed = self.needed * np.where(n_used > 0, share, 1.0) * apart
        return LabelsBySums.of(forest, n_used > 0, 1, needed, needed, needed, start)

    def drawing(self, n_trees: int, classes: list[str]) -> Drawing:
        n_used = np.arange(1, n_trees)
        needed = self.needed[n_used]
        going = np.full(len(needed), needed[needed > 0.0].min(initial=1.0)), needed
        stops = {"stop: the first class is so far ahead": needed}
        return Drawing(n_used, going, stops, "trees asked", "lead in the mean score", is_logarithmic=bool(needed.any()))


def _tallied_leads(
    scores: NDArray[Any], _: Int64s, *, cut: float, limits: Floats, shape: Floats, n_classes: int
) -> Tallies:
    """What rules on the lead do."""
    lead, label = running_leads(scores, cut)
    final = label[:, -1].astype(np.int64)
    return Tallies.of(lead, label != final[:, None], final, limits, shape, n_classes)


def needed_leads(limit: float, n_trees: int) -> Floats:
    """λ·√((T − t)/(tT)): the leads that stop a row, in proportion to what the remaining trees can change."""
    n_used = np.arange(1, n_trees + 1)
    return np.concatenate([[np.inf], limit * np.sqrt((n_trees - n_used) / (n_used * n_trees))])


def limits_tried(trees: TreesOnRows, shape: Floats) -> Floats:
    """Factors of a shape, from one that no lead reaches before the last tree to one that stops at once.

    The factors depend only on the forest and the shape. If rows chose them, they would be no fixed sequence to test.
    """
    forest = trees.forest
    assert forest.ensemble is not None
    raw, n_trees = forest.ensemble.tree_scores[forest.ensemble.nodes.left == -1], forest.n_trees
    width = float(max(raw.max(), trees.cut) - min(raw.min(), trees.cut)) or 1.0
    highest = 1.01 * width / shape[-2] if n_trees > 1 else width
    return np.geomspace(highest, highest * _BOLDEST / n_trees, TRIED)
