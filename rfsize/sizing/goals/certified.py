"""The fewest first trees of the forest at hand that predict like all of its trees, certified on rows.

Sizes are tested from large to small. Each test is the exact binomial bound on the share of rows that get another
prediction; the first size that fails ends the series. See A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan,
L. Lei (2021). "Learn then test: calibrating predictive algorithms to achieve risk control." arXiv 2110.01052.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from rfsize._util import Caution, Floats, how_many, in_percent, positive, refuse_unused, share
from rfsize.certifying.certificate import Certificate, bounds, tested
from rfsize.certifying.promise import Promise, check_classes, checked_confidence
from rfsize.certifying.smaller_forests import FirstTrees, SizesTried
from rfsize.certifying.trees_on_rows import TreesOnRows
from rfsize.counting.collect import outputs_of
from rfsize.counting.outputs import TreeOutputs, predictor_of, task_of, voting_of
from rfsize.counting.training_rows import training_rows_error
from rfsize.estimation.intervals import TAIL
from rfsize.exceptions import FewVotesError, NotAForestError, NotConvergedWarning, TrainingRowsWarning
from rfsize.models.framework import read_forest
from rfsize.sizing.goals.base import Answer, Goal, GoalOnRows, Loss
from rfsize.sizing.goals.deviation import DeviationGoal, tolerance_of_numbers
from rfsize.sizing.goals.labels import LabelGoal, changing_classes, own_predict, unlabelled_classes
from rfsize.sizing.named_metrics import MetricLike, name_of
from rfsize.sizing.paired import harms_of_cut, paired_metrics
from rfsize.sizing.words import RARE, finite, from_to

# The note on more rows is about this many times the rows.
_MORE_ROWS = 4

_TOLERANCE = 0.001  # of a metric, in the advice to size by it


@dataclass(frozen=True)
class CertifiedGoal(GoalOnRows):
    """Keep the labels, probabilities or scores of all trees at hand, on a certified share of rows.

    Attributes
    ----------
    metric, tolerance
        As in `rfsize.size`.
    certainty : float
        The ``confidence`` of `rfsize.size`.
    """

    metric: str = "auto"
    tolerance: float | None = None
    certainty: float = 0.95

    # For the message that refuses a metric: what certifies, and what to use for metrics.
    certifier = "target='forest'"
    of_metrics = "leave target out"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_confidence(self.certainty)
        if self.tolerance is not None:
            positive("tolerance", self.tolerance)

    @classmethod
    def named(cls, metric: MetricLike, **given: Any) -> Self:
        refuse_unused("it says how T* is estimated, and a certificate estimates nothing. Leave it out", **_taken(given))
        if metric not in ("auto", "labels", "probabilities", "scores"):
            name = metric if isinstance(metric, str) else name_of(metric)
            raise ValueError(
                f"{cls.certifier} certifies a share of rows, and {name} is no share of rows: {cls.of_metrics}, which "
                "estimates the loss with an interval, or certify metric='labels', 'probabilities' or 'scores'"
            )
        if metric in ("probabilities", "scores") and "tolerance" not in given:
            raise ValueError(f"metric={metric!r} needs a tolerance, such as tolerance=0.01: how far off it may be")
        if metric == "labels" and "tolerance" in given:
            raise ValueError("tolerance is for probabilities and scores, and labels are equal or not: leave it out")
        return cls(metric=str(metric), certainty=given.pop("confidence", cls.certainty), **given)

    @property
    def name(self) -> str:
        return self.metric

    @property
    def easier(self) -> str:
        return "a lower alpha" if self.of_labels else "a lower alpha or a larger tolerance"

    @property
    def of_votes(self) -> bool:  # type: ignore[override]
        """Whether the goal is about labels, which a regression does not have."""
        return self.metric == "labels"

    @property
    def of_labels(self) -> bool:
        return self.metric == "labels"

    @property
    def options(self) -> dict[str, Any]:
        given = {"metric": self.metric, "target": "forest", "confidence": self.certainty, **super().options}
        return given if self.tolerance is None else {**given, "tolerance": self.tolerance}

    @property
    def title(self) -> str:
        return f"first trees that answer {in_percent(self.alpha)} of rows as all do"

    @property
    def aim(self) -> str:
        rows = "rows" if self.average == "micro" else "the rows of every class"
        return f"give {self.what} on {in_percent(self.alpha)} of {rows}"

    @property
    def what(self) -> str:
        """What a row must get from fewer trees: the label, the probabilities or the score of all trees."""
        if self.of_labels and self.voting == "hard":
            return "the label that most of your trees vote for"
        if self.of_labels:
            return "the label of all your trees"
        return f"{self.metric} within {self.tolerance:.4g} of those of all your trees"

    @property
    def axis(self) -> str:
        rows = "" if self.average == "micro" else " (worst class)"
        return f"rows answered otherwise than by all trees{rows}"

    @property
    def agreement_axis(self) -> str:
        return "rows answered as by all trees" + ("" if self.average == "micro" else " (worst class)")

    def answers(self, metric: MetricLike) -> bool:
        return False  # the question is about an unlimited forest

    def checked(self, n_classes: int, y: ArrayLike | None = None, *, in_training: bool = False) -> Self:
        if self.metric in ("probabilities", "scores") or not n_classes:
            voting = None if self.voting == "auto" else self.voting
            refuse_unused("it is for labels, and no labels are compared. Leave it out", voting=voting)
        if self.metric != "auto":
            return self
        if n_classes:
            refuse_unused(
                "labels are equal or not. Leave it out, or give metric='probabilities'", tolerance=self.tolerance
            )
            return replace(self, metric="labels")
        tolerance = tolerance_of_numbers(y) if self.tolerance is None else self.tolerance
        return replace(self, metric="scores", tolerance=tolerance)

    def keeping(self, metric: str, tolerance: float) -> dict[str, Any]:
        """The arguments that keep something else within a tolerance."""
        if metric == "probabilities":
            return {"metric": metric, "tolerance": tolerance, "target": "forest"}
        return {"metric": metric, "tolerance": _TOLERANCE, "target": "limit"}

    def answer(self, outputs: TreeOutputs) -> CertifiedAnswer:
        """The sizes that the rows certify.

        Raises
        ------
        ValueError
            If the rows are training rows or too few, or the outputs refer to no model.
        """
        trees = TreesOnRows(_rows_to_certify_on(outputs))
        adapter, n_classes = trees.forest, len(outputs.classes)
        voting = voting_of(outputs, self.voting) if self.of_labels else "soft"
        if voting == "soft":
            check_classes(n_classes, self.metric, self.average)
        promise = Promise(self.alpha, self.certainty, self.average, adapter.digest, self.metric, self.tolerance or 0.0)
        first = FirstTrees.of(trees, promise, voting)
        classes = outputs.classes.tolist()
        promise.check_rows(first.rows, classes or [""])
        obeyed = adapter.voting_at(trees.rows.threshold)
        harms = self._harms(outputs, first.fewest(promise), first.label_shares(classes)) if self.of_labels else []
        return CertifiedAnswer(self, promise, first, classes, self._limit(outputs, voting), obeyed, harms)

    def _harms(self, outputs: TreeOutputs, n_trees: int, shares: dict[Any, float]) -> list[Caution]:
        """What else the first ``n_trees`` trees lose against all trees, on the same rows."""
        if outputs.scores is None or not outputs.scores.are_finite() or n_trees >= outputs.n_trees:
            return []
        predictor, scores = predictor_of(outputs), outputs.scores
        means = predictor.predictions(scores.mean).mean(axis=0)
        harms = unlabelled_classes(shares, means.tolist(), target="forest")
        first = None if outputs.y is None and min(shares.values()) >= RARE else _first_trees_on(outputs, n_trees)
        if first is None:
            return harms
        metrics = None
        if outputs.y is not None:
            y, weight = (None if of is None else of[scores.number] for of in (outputs.y, outputs.sample_weight))
            metrics = paired_metrics(predictor, len(scores), y, weight)
        return [*harms, *harms_of_cut(predictor, first, scores.mean, shares, self.keeping, metrics)]

    def _limit(self, outputs: TreeOutputs, voting: str) -> Answer | None:
        """The answer of the same rows for an unlimited forest; None if they do not tell."""
        goal: Goal = (
            LabelGoal(alpha=self.alpha, average=self.average, voting=voting)
            if self.of_labels
            else DeviationGoal(self.metric, float(self.tolerance or 0.0))
        )
        try:
            found = goal.answer(outputs)
        except FewVotesError:
            return None
        too_few = found.votes_per_row < found.fewest_votes
        return None if too_few or found.cannot_tell(outputs.n_trees) else found


def _first_trees_on(outputs: TreeOutputs, n_trees: int) -> Floats | None:
    """Mean scores of the first trees on the scored rows; None for a compiled forest, which cannot be cut."""
    task = task_of(outputs)
    try:
        small = read_forest(task.forest.first(n_trees))
    except NotAForestError:
        return None
    scores = outputs_of(replace(task, forest=small)).scores
    return None if scores is None else scores.mean


def _taken(given: dict[str, Any]) -> dict[str, Any]:
    """Take ``method`` out of the given options."""
    given.pop("threshold", None)
    return {"method": given.pop("method", None)}


def _rows_to_certify_on(outputs: TreeOutputs) -> Any:
    """The forest on the rows; ``ValueError`` if the rows cannot certify, or no model is known."""
    refuse_to_certify(outputs.source)
    if any(caution.category is TrainingRowsWarning for caution in outputs.warnings):
        raise training_rows_error()
    if outputs.task is None:
        raise ValueError(
            "target='forest' needs the model, and these outputs refer to no model (counted Votes, pickled or "
            "joined outputs): give the model, with all rows at once"
        )
    return outputs.task


def refuse_to_certify(source: str) -> None:
    """Raise ``ValueError`` if rows come from a source that certifies nothing."""
    if source == "rows given":
        return
    why = (
        "out of bag each row asks only some of the trees"
        if source == "oob"
        else f"in {source} each fold has a forest of its own"
    )
    raise ValueError(
        f"target='forest' compares the first trees with all trees on the same rows, and {why}: give rows that the "
        "forest was not trained on, or leave target out"
    )


class CertifiedAnswer(Answer):
    """How many rows the first trees predict differently from all trees, and how few trees are certified."""

    goal: CertifiedGoal

    fewest_votes = 0

    def __init__(
        self,
        goal: CertifiedGoal,
        promise: Promise,
        first: SizesTried,
        classes: list[Any],
        limit: Answer | None,
        predict_obeys: str,
        harms: Sequence[Caution] = (),
    ) -> None:
        self._predict_obeys, self._harms = predict_obeys, harms
        self.goal, self._promise, self._first, self._classes, self._limit = goal, promise, first, classes, limit
        self.n_rows, self.n_dropped, self.lacks_votes = int(first.rows.sum()), 0, False
        self.votes_per_row = float(first.available)
        self.n_trees = first.fewest(promise)
        self.certificate: Certificate = first.certificate(self.n_trees, promise)
        self.largest = first.available
        if self.n_trees == self.largest:
            self.cautions = (Caution(NotConvergedWarning, self._nothing_certified()),)

    def _nothing_certified(self) -> str:
        if self._first.available == 1:
            return "a forest of 1 tree cannot be cut: give a larger one"
        rows, trees = how_many(self.n_rows, "row"), how_many(self._first.available, "tree")
        advice = self._with_more_rows() or f"{self.goal.easier} asks for less"
        return f"{rows} certify no fewer than all {trees}: {advice}"

    def size_at(self, level: float) -> int:
        """The fewest certified first trees for another share of the rows."""
        promise = replace(self._promise, alpha=share("alpha", level))
        promise.check_rows(self._first.rows, self._classes or [""])
        return self._first.fewest(promise)

    def quantile(self, share_below: float) -> int:
        return self._first.fewest(replace(self._promise, confidence=share_below))

    def value(self, n_trees: int) -> float:
        return self._first.share(n_trees, self.goal.average)

    def interval(self, n_trees: int) -> tuple[float, float]:
        """The Clopper–Pearson interval, of all rows or of the worst class; for all trees it is zero."""
        if n_trees >= self._first.available:
            return 0.0, 0.0
        differing, rows = tested(self._first.at(n_trees), self._first.rows, self.goal.average)
        worst = int(np.argmax(differing / rows))
        seen, of = differing[worst], rows[worst]
        low = 1.0 - bounds(of - seen, of, 1.0 - TAIL)
        return float(low), float(bounds(seen, of, 1.0 - TAIL))

    def by_class(self, n_trees: int) -> dict[Any, float]:
        """Share of each class's rows that the first ``n_trees`` trees predict differently."""
        differing, rows = self._first.at(n_trees), self._first.rows
        return {self._classes[of]: float(differing[of] / rows[of]) for of in np.flatnonzero(rows) if self._classes}

    def loss(self, n_trees: int) -> Loss:
        return super().loss(n_trees)._replace(by_class=self.by_class(n_trees) if self._classes else None)

    def which(self, kept: int, trees: str) -> str:
        return f"the first of {trees}" if kept == 1 else f"the first {kept:,} of {trees}"

    def said(self, n_trees: int) -> str:
        # The bound at the chosen size is not certified itself, because it was used to choose the size.
        rows = "rows" if self.goal.average == "micro" else "each class's rows"
        seen = f"{int(self._first.at(n_trees).sum()):,} of {self.n_rows:,} differ"
        return f"at least {in_percent(self.goal.alpha)} of {rows} like these get {self.goal.what} ({seen})"

    def in_short(self, n_trees: int) -> str:
        return f"{in_percent(self.value(n_trees))} of rows are answered otherwise than by all trees"

    @cached_property
    def _ahead(self) -> int:
        """The number of trees that more rows like these may certify."""
        return self._first.times(_MORE_ROWS).fewest(self._promise)

    def _with_more_rows(self) -> str | None:
        """How many fewer trees more rows may certify; None if no fewer."""
        if self._ahead >= self.n_trees:
            return None
        rows = how_many(_MORE_ROWS * self.n_rows, "row")
        return f"{rows} like these would certify about {how_many(self._ahead, 'tree')}"

    def notes(self) -> list[str]:
        ahead = self._with_more_rows() if self.n_trees < self._first.available else None
        notes = [*([ahead] if ahead else []), *self._of_an_unlimited_forest()]
        if self.goal.of_labels and self.goal.voting not in ("auto", self._predict_obeys):
            notes.append(own_predict(self.goal.voting, self._predict_obeys))
        return notes

    def _of_an_unlimited_forest(self) -> list[str]:
        if self._limit is None or math.isinf(self._limit.n_trees):
            return []
        interval = from_to((self._limit.quantile(TAIL), self._limit.quantile(1.0 - TAIL)))
        return [
            f"a new forest needs {how_many(self._limit.n_trees, 'tree')} ({interval}) to predict like an unlimited "
            f"forest, on average over forests: {self._limit.goal.title}"
        ]

    def suffering(self, n_trees: int, others: Callable[[], Iterable[Answer]]) -> list[Caution]:
        if not self.goal.of_labels or n_trees == self._first.available:
            return []
        how, shares = "differ from those of all trees", self._first.label_shares(self._classes)
        return [*changing_classes(self.by_class(n_trees), shares, self.goal, how), *self._harms]

    def to_dict(self) -> dict[str, Any]:
        limit = None if self._limit is None else self._limit.n_trees
        return {
            "certificate": {**self.certificate.to_dict(), "bound": self.certificate.bound},
            "limit_n_trees": None if limit is None else finite(limit),
        }
