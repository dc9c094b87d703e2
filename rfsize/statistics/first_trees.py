"""The fewest first trees of the forest at hand that predict like all of its trees, certified on rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Bools, Caution, Floats, Int64s, how_many
from rfsize.counting.collect import training_rows_error
from rfsize.counting.outputs import TreeOutputs, predictor_of, task_of, voting_of
from rfsize.counting.task import Task, added_up
from rfsize.counting.votes import running_majority
from rfsize.exceptions import NotConvergedWarning, TrainingRowsWarning
from rfsize.models.link import Predictor
from rfsize.models.model import Forest
from rfsize.statistics.certify import Certificate, CertifiedCurve, RiskTarget
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import Estimate
from rfsize.statistics.metrics import Metric
from rfsize.statistics.row_errors import paired_losses, paired_metrics

# The expected loss grows by this factor from one size that is tried to the next. Larger steps would skip sizes that
# pass. Smaller steps would try more sizes, of which one may fail by chance.
_STEP = 1.05


@dataclass(frozen=True, eq=False)
class CertificateDetails:
    """Further numbers of a certified size.

    Attributes
    ----------
    certificate : Certificate
        Of the first `n_trees` trees, or of the trees chosen.
    voting : str or None
        The rule of voting, if labels are compared.
    predict_voting : str
        The rule of the model's own ``predict``.
    n_refitted : int or None
        Up to which size chosen trees were refitted; None if they are the first trees.
    """

    certificate: Certificate
    voting: str | None
    predict_voting: str
    n_refitted: int | None = None


def certify(outputs: TreeOutputs, criterion: Criterion) -> Estimate:
    """The fewest first trees that the rows certify.

    Raises
    ------
    ValueError
        If the rows are training rows or too few, or the outputs refer to no model.
    """
    refuse_to_certify(outputs.source)
    if any(caution.category is TrainingRowsWarning for caution in outputs.warnings):
        raise training_rows_error()
    if outputs.task is None:
        raise ValueError("target='model' needs the model, and these outputs have none: give the model and all rows")
    trees = outputs.task
    forest = trees.forest
    voting = voting_of(outputs, criterion.voting) if criterion.of_labels else "soft"
    if voting == "hard" and not isinstance(forest, Forest):
        raise ValueError("voting='hard' counts one vote for each tree, and boosted trees add up: leave voting out")
    curve = count_first_trees(trees, risk_target(criterion, forest.digest), voting)
    own = forest.voting_at(trees.threshold)
    return certified_estimate(curve, voting=voting if criterion.of_labels else None, predict_voting=own)


def risk_target(criterion: Criterion, digest: str | None) -> RiskTarget:
    """What a certificate of a criterion bounds, for the forest with this digest."""
    assert criterion.confidence is not None
    how = criterion.average, digest, criterion.name, criterion.tolerance or 0.0
    return RiskTarget(criterion.alpha, criterion.confidence, *how)


def certified_estimate(curve: CertifiedCurve, *, n_trees: int | None = None, **more: Any) -> Estimate:
    """The estimate of a certified curve; with ``n_trees`` this size is certified, whatever the rows would certify.

    ``more`` are further fields of `CertificateDetails`.

    Raises
    ------
    ValueError
        If the rows are too few to certify anything.
    """
    warnings: tuple[Caution, ...] = ()
    if n_trees is None:
        curve.target.check_rows(curve.rows, curve.classes)
        n_trees = curve.fewest(curve.target)
        warnings = (_nothing_certified(curve),) if n_trees == curve.n_trees else ()
    details, n_rows = CertificateDetails(curve.certificate(n_trees), **more), int(curve.rows.sum())
    return Estimate(curve, n_trees, n_rows, 0, float(curve.n_trees), warnings=warnings, details=details)


def _nothing_certified(curve: CertifiedCurve) -> Caution:
    if curve.n_trees == 1:
        return Caution(NotConvergedWarning, "a forest of 1 tree cannot be cut: give a larger one")
    advice = "give more rows, or ask for a lower alpha"
    advice += "" if curve.target.metric == "labels" else " or more tolerance"
    rows, trees = how_many(int(curve.rows.sum()), "row"), how_many(curve.n_trees, "tree")
    return Caution(NotConvergedWarning, f"{rows} certify no fewer than all {trees}: {advice}")


def refuse_to_certify(source: str) -> None:
    """Raise ``ValueError`` if rows come from a source that certifies nothing."""
    if source != "rows given":
        advice = "give rows that the forest was not trained on, or leave target out"
        fault = "target='model' takes rows that all trees may predict, and out of bag or in folds not all may"
        raise ValueError(f"{fault}: {advice}")


# Counting


@dataclass(frozen=True)
class Comparison:
    """Says whether fewer trees answer a row in the same way as all trees.

    Attributes
    ----------
    predictor : Predictor
        Turns mean scores into predictions.
    metric : {"labels", "probabilities", "scores"}
        What must be the same.
    tolerance : float
        How far apart probabilities or scores may be.
    """

    predictor: Predictor
    metric: str
    tolerance: float

    def labels(self, mean: Floats) -> Int64s:
        """Class index that mean scores of shape (…, n_scores) predict; 0 for a regression."""
        if not len(self.predictor.classes):
            return np.zeros(mean.shape[:-1], dtype=np.int64)
        return self.predictor.labels_of_scores(mean)

    def differ(self, mean: Floats, whole: Floats) -> Bools:
        """Rows where ``mean`` gives another answer than ``whole``, the mean scores of all trees.

        Both have the shape (…, n_scores), and the mask has the shape (…).
        """
        if self.metric == "labels":
            return self.labels(mean) != self.labels(whole)
        apart = np.abs(self.numbers(mean) - self.numbers(whole)).max(axis=-1)
        return np.asarray(apart > self.tolerance)

    def numbers(self, mean: Floats) -> Floats:
        """The numbers to compare: probabilities, or scores. The scores of a regressor are its predictions."""
        if self.metric == "probabilities":
            return self.predictor.predictions(mean)
        return np.asarray(self.predictor.link_to("scores").predicted(mean))


def count_first_trees(trees: Task, target: RiskTarget, voting: str) -> CertifiedCurve:
    """How many rows the first 1, …, T trees answer differently from all T trees.

    Parameters
    ----------
    trees : Task
        The trees, with the rows to predict.
    target : RiskTarget
        What must stay the same.
    voting : {"hard", "soft"}
        Whether labels come from a majority vote or from averaged scores.
    """
    forest = trees.forest
    n_classes, n_trees = max(1, forest.classes.size), forest.n_trees
    nothing: Any = partial(np.zeros, (n_classes, 1 + n_trees), np.int64)
    if target.metric == "labels" and voting == "hard":
        counts = added_up(trees, "votes", partial(_by_votes, n_classes=n_classes), nothing)
    else:
        comparison = Comparison(trees.predictor, target.metric, target.tolerance)
        counts = added_up(trees, "partial scores", partial(_by_predictions, comparison=comparison), nothing)
    sizes, classes, tested = np.arange(1, n_trees + 1), forest.classes.tolist(), sizes_tried(n_trees)
    return CertifiedCurve(sizes, counts[:, 0], counts[:, 1:], n_trees, tested, target, classes)


def _counted(differs: Bools, label: Int64s, n_classes: int) -> Int64s:
    """Rows of each class, and how many of them the first 1, …, T trees answer differently, shape (n_classes, 1 + T).

    ``differs`` has shape (n_rows, T), and ``label`` is the class that all trees give each row.
    """
    in_class = [label == index for index in range(n_classes)]
    return np.array([[mask.sum(), *np.count_nonzero(differs[mask], axis=0)] for mask in in_class], dtype=np.int64)


def sizes_tried(n_trees: int, step: float = _STEP) -> Int64s:
    """Sizes to try, from T − 1 trees down to a single tree. They depend only on the number T of trees and ``step``.

    The share of rows on which the first t trees disagree with all T is expected to be proportional to √(1/t − 1/T).
    Each next size makes it ``step`` times as large.
    """
    sizes = [n_trees - 1] if n_trees > 1 else []
    while sizes and sizes[-1] > 1:
        apart = 1.0 / sizes[-1] - 1.0 / n_trees
        next_size = math.ceil(1.0 / (step**2 * apart + 1.0 / n_trees))
        sizes.append(min(sizes[-1] - 1, next_size))
    return np.array(sizes, dtype=np.int64)


def _by_votes(votes: NDArray[Any], _: Int64s, *, n_classes: int) -> Int64s:
    """Count rows with another label by the majority of the votes."""
    label = running_majority(votes, n_classes)[0]
    return _counted(label != label[:, -1:], label[:, -1], n_classes)


def _by_predictions(scores: NDArray[Any], _: Int64s, *, comparison: Comparison) -> Int64s:
    """Count rows with another label, or with an output that is farther off than the tolerance."""
    differs = comparison.differ(scores, scores[:, -1:])
    return _counted(differs, comparison.labels(scores[:, -1]), max(1, len(comparison.predictor.classes)))


# What metrics lose


def losses_of_first_trees(
    outputs: TreeOutputs, sizes: list[int], metric: Metric | None = None
) -> dict[str, tuple[Criterion, Estimate]]:
    """What a metric, by default each usual one, loses in the first trees against all trees, on the same rows."""
    assert outputs.scores is not None
    predictor, truth = predictor_of(outputs), (outputs.y, outputs.sample_weight)
    by_few, by_all = map(predictor.predictions, (scores_of_first_trees(outputs, sizes), outputs.scores.mean))
    metrics = paired_metrics(predictor, outputs.n_rows, *truth) if metric is None else [metric]
    return paired_losses(metrics, dict(zip(sizes, by_few, strict=True)), by_all, outputs.n_trees, "model")


def scores_of_first_trees(outputs: TreeOutputs, sizes: list[int]) -> Floats:
    """Raw scores of the first trees on the scored rows, shape (n_sizes, n_rows, n_scores)."""
    take = partial(_of_sizes, sizes=np.array(sizes))
    scores = np.concatenate(added_up(task_of(outputs), "partial scores", take, list), axis=1)
    assert outputs.scores is not None
    return scores[:, outputs.scores.number]


def _of_sizes(scores: Floats, _: Int64s, *, sizes: Int64s) -> list[Floats]:
    return [np.moveaxis(scores[:, sizes - 1], 1, 0).astype(np.float64)]
