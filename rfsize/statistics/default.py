"""What must stay the same, and how closely, where the user does not say: what the forest predicts decides.

By default probabilities and scores may move as far as in a forest whose variance by the trees is a small share of the
variance by the training set, which no number of trees removes: N. S. O'Connell (2026). "Random forests as statistical
procedures: design, variance, and dependence." arXiv 2602.13104.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rfsize._util import Floats, how_many, in_percent, printable
from rfsize.counting.outputs import TreeOutputs, distinct, predictor_of
from rfsize.counting.task import Task
from rfsize.models.link import Predictor
from rfsize.statistics.criterion import PREDICTIONS, Criterion
from rfsize.statistics.first_trees import Comparison
from rfsize.statistics.predictions import estimate_predictions
from rfsize.statistics.sampling_variance import pooled_variances

# Labels say too little of a class with at least this mean probability (of two classes, and of more) that gets less than
# this share of it as labels.
_MEAN_OF_TWO, _MEAN, _SHARE = 0.001, 0.01, 0.5
# One of two classes that gets a smaller share of the labels is rare. Its rows are ranked by their probability, which
# takes more trees than labels do, unless a threshold says that labels are wanted.
_RARE = 0.05

# The default tolerance, as a share of the variance by the training set. With 0.05, forests of a rare class lose
# more than 0.002 of AUC (`benchmarks/metric_size.py`). And as a share of a standard deviation.
_OF_VARIANCE, _OF_SPREAD = 0.02, 0.05


def with_defaults(
    criterion: Criterion, outputs: TreeOutputs, task: Callable[[], Task | None] | None = None
) -> Criterion:
    """The criterion with a metric and a tolerance, for a forest with these outputs; labels if scores are not known.

    Parameters
    ----------
    criterion : Criterion
        Resolved for the classes of the forest.
    outputs : TreeOutputs
    task : callable, optional
        The forest, the training rows and their bags, if the outputs do not refer to them.
    """
    counted = distinct(outputs)
    scores = counted.scores
    if scores is None or not scores.are_finite():
        return replace(criterion, metric="labels") if criterion.metric == "auto" else criterion
    mean = scores.mean[scores.n_votes > 0]
    predictor = predictor_of(outputs)
    criterion = with_metric(criterion, predictor, mean)
    if not _lacks_tolerance(criterion) or not len(mean):
        return criterion
    variances = pooled_variances(outputs if task is None else replace(outputs, task=task()))
    if variances is not None and variances.is_known:
        n_trees = max(1, math.ceil(variances.by_tree / (_OF_VARIANCE * variances.by_rows)))
        loss = estimate_predictions(counted, Criterion(criterion.metric), interval=False).curve.at(n_trees)
        share = in_percent(_OF_VARIANCE)
        where = f"where the variance by the trees is {share} of that by the training set, {variances.by_rows:.2g}"
        return _with_tolerance(criterion, loss, where)
    unknown = "without bags nothing tells" if variances is None else f"{how_many(outputs.n_trees, 'tree')} do not tell"
    why = f"; {unknown} the variance by the training set"
    return with_spread(criterion, predictor, mean, outputs.y, why)


def with_metric(criterion: Criterion, predictor: Predictor, mean: Floats) -> Criterion:
    """The criterion with a metric, for a forest with these mean scores on rows, shape (n_rows, n_scores)."""
    if criterion.metric != "auto":
        return criterion
    why = _why_not_labels(predictor, mean)
    return replace(criterion, metric="probabilities" if why else "labels", why=why)


def with_spread(criterion: Criterion, predictor: Predictor, mean: Floats, y: Any = None, why: str = "") -> Criterion:
    """The criterion with a share of the standard deviation of a regression's ``y``, or of what is predicted."""
    if not _lacks_tolerance(criterion):
        return criterion
    of, numbers = criterion.name, Comparison(predictor, criterion.name, 0.0).numbers(mean)
    if y is not None and not len(predictor.classes):
        of, numbers = "y", np.asarray(y, dtype=np.float64)[:, None]
    spread = float(numbers.std(axis=0).max())
    basis = f"{in_percent(_OF_SPREAD)} of the standard deviation of {of}, {spread:.3g}{why}"
    return _with_tolerance(criterion, _OF_SPREAD * spread, basis)


def _lacks_tolerance(criterion: Criterion) -> bool:
    return criterion.metric in PREDICTIONS and criterion.tolerance is None


def _with_tolerance(criterion: Criterion, tolerance: float, basis: str) -> Criterion:
    tolerance = float(f"{tolerance:.3g}") or 1.0  # if nothing varies, any tolerance is reached
    return replace(criterion, tolerance=tolerance, basis=f"the tolerance of {tolerance:g} is {basis}")


def _why_not_labels(predictor: Predictor, mean: Floats) -> str:
    """Why labels say too little of some class; empty if they do not."""
    if not len(mean):
        return ""
    probability = predictor.predictions(mean).mean(axis=0)
    share = np.bincount(predictor.labels_of_scores(mean), minlength=len(probability)) / len(mean)
    least = _MEAN_OF_TWO if len(share) == 2 else _MEAN
    counts = probability >= least
    rarest = int(np.where(counts, share / np.maximum(probability, least), np.inf).argmin())
    if len(share) == 2 and predictor.threshold == 0.5 and counts[share.argmin()] and share.min() < _RARE:
        rarest = int(share.argmin())
    elif not counts.any() or share[rarest] >= _SHARE * probability[rarest]:
        return ""
    gets = f"only {100.0 * share[rarest]:.2g} % of rows get" if share[rarest] else "no row gets"
    but = f"whose mean probability is {100.0 * probability[rarest]:.2g} %: sized by probabilities"
    return f"{gets} label {printable(predictor.classes[rarest])}, {but}"
