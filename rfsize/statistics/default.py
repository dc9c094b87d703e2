"""What must stay the same, and how closely, where the user does not say: what the forest predicts decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats, printable
from rfsize.counting.outputs import TreeOutputs, predictor_of
from rfsize.models.link import Predictor
from rfsize.statistics.criterion import PREDICTIONS, Criterion
from rfsize.statistics.first_trees import Comparison

# Labels say too little of a class with at least this mean probability that gets less than this share of it as labels.
_MEAN, _SHARE = 0.01, 0.5

# The default tolerance, as a share of a standard deviation.
_OF_SPREAD = 0.05


def settled(criterion: Criterion, outputs: TreeOutputs) -> Criterion:
    """The criterion with a metric and a tolerance, for a forest with these outputs; labels if scores are not known."""
    scores = outputs.scores
    if scores is None or not scores.are_finite():
        return replace(criterion, metric="labels") if criterion.metric == "auto" else criterion
    return settled_by(criterion, predictor_of(outputs), scores.mean[scores.n_votes > 0], outputs.y)


def settled_by(criterion: Criterion, predictor: Predictor, mean: Floats, y: NDArray[Any] | None = None) -> Criterion:
    """The criterion with a metric and a tolerance.

    Parameters
    ----------
    criterion : Criterion
        Resolved for the classes of the forest.
    predictor : Predictor
        Turns mean scores into predictions.
    mean : ndarray of float, shape (n_rows, n_scores)
        Mean score of the trees that predict each row.
    y : ndarray, shape (n_rows,), optional
        Numbers of the rows, for a regression.
    """
    if criterion.metric == "auto":
        why = _why_not_labels(predictor, mean)
        criterion = replace(criterion, metric="probabilities" if why else "labels", why=why)
    if criterion.metric not in PREDICTIONS or criterion.tolerance is not None or not len(mean):
        return criterion
    is_number = y is not None and not len(predictor.classes)
    numbers = Comparison(predictor, criterion.name, 0.0).numbers(mean)
    if is_number:
        numbers = np.asarray(y, dtype=np.float64)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(numbers.std(axis=0).max())
    if not np.isfinite(spread):
        raise ValueError("the predictions are too large to have a standard deviation: give a tolerance")
    # If nothing varies, any tolerance is reached.
    tolerance = float(f"{_OF_SPREAD * spread:.3g}") or 1.0
    of = "y" if is_number else criterion.name
    basis = f"the tolerance of {tolerance:g} is 5 % of the standard deviation of {of}, {spread:.3g}"
    return replace(criterion, tolerance=tolerance, basis=basis)


def _why_not_labels(predictor: Predictor, mean: Floats) -> str:
    """Why labels say too little of some class; empty if they do not."""
    if not len(mean):
        return ""
    probability = predictor.predictions(mean).mean(axis=0)
    share = np.bincount(predictor.labels_of_scores(mean), minlength=len(probability)) / len(mean)
    counts = probability >= _MEAN
    rarest = int(np.where(counts, share / np.maximum(probability, _MEAN), np.inf).argmin())
    if not counts.any() or share[rarest] >= _SHARE * probability[rarest]:
        return ""
    gets = f"only {100.0 * share[rarest]:.2g} % of rows get" if share[rarest] else "no row gets"
    but = f"whose mean probability is {100.0 * probability[rarest]:.2g} %: sized by probabilities"
    return f"{gets} label {printable(predictor.classes[rarest])}, {but}"
