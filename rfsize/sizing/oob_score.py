"""The out-of-bag score of a forest, how sure it is, and its curve over the number of trees.

Of the T trees, only the n that were not trained on a row predict it out of bag. The out-of-bag score is therefore the
score of a forest of n trees. Drawing forests of n and of T trees from the trees at hand shows what the score gains with
all trees. The middle of the interval is moved by this gain.

The score on fresh rows is uncertain for three reasons:

- The rows are a sample. To first order, each row adds a term to the metric; the scatter of the terms gives the
  variance. The rows of a group count as one draw.
- Out of bag, rows ask other trees than fresh rows do, and many rows ask the same ones. The scatter of the metric over
  drawn forests gives the variance.
- With few votes a row, the drawn forests show too small a gain. Shares of rows and rankings lose c/(n + d) with n
  trees, and a drawn forest has only half as many distinct trees: about 2d/n of the gain is missing. This share is
  added, with its uncertainty.

The three variances are added. The interval stays within the range of the metric: Wilson's formula is used between 0 and
1, and a logarithmic scale for other metrics.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from rfsize._util import give, refuse_unused
from rfsize.counting.collect import collect_outputs
from rfsize.counting.duplicates import warning_of_copies
from rfsize.counting.outputs import TreeOutputs, coverage_of_means, means_of, predictor_of, sums_of, task_of
from rfsize.counting.task import Task
from rfsize.estimation.intervals import TAIL
from rfsize.models.model import learning_rate_of
from rfsize.sizing.clipping import cautions_of_rows
from rfsize.sizing.metrics import Metric, value_of, value_or_nan
from rfsize.sizing.named_metrics import MetricLike, judge_of, usual_metric
from rfsize.sizing.noise import drawn_trees, noise_of_rows
from rfsize.sizing.scores import Curve, OobScore
from rfsize.sizing.words import metric_in_words

_ROWS_DRAWN = 20_000  # for the gain by all trees
_POINTS = 40  # of the curve
_LARGEST_POWER = 300.0  # of e, so that the end of an interval is a number
# Drawn forests miss a share of the gain by all trees: this number over the votes a row (2d/n, for shares of rows and
# rankings), and how uncertain it is. Both are measured on the problems of `benchmarks/oob_score.py`.
_BENT, _UNTOLD = 3.0, 4.0


def oob_score(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    metric: MetricLike | None = None,
    groups: ArrayLike | str | None = None,
) -> OobScore:
    """Score a forest out of bag by any metric: how good it is on fresh rows, without held-out rows.

    Parameters
    ----------
    model
        A forest, as in `tree_outputs`; or, without ``X``, the result of `tree_outputs` with ``oob=True``. Weights,
        seeds and the threshold are arguments of `tree_outputs`.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training.
    y : array_like, shape (n_rows,)
        Labels or numbers of the rows, as in training.
    metric : str or callable, optional
        For a classifier "accuracy" (the default), "log_loss" or "brier"; for two classes also "auc" and
        "average_precision"; for a regressor "r2" (the default), "rmse" or "mae". Or a function of the truth and the
        predictions that returns a number. The predictions are the probabilities of the second class; with more
        classes, an array of shape (n_rows, n_classes); for a regressor, the predicted numbers. If `tree_outputs` has
        weights, the function must take ``sample_weight``. "log_loss" is scikit-learn's, clipped at 2.2e-16.
    groups
        As in `tree_outputs`. For the interval, the rows of a group count as one draw.

    Returns
    -------
    OobScore
        The metric, a 95 % interval, and the curve over the number of trees.

    Raises
    ------
    FewVotesError
        If on average fewer than ten trees (and not nearly all) predict a row, or a row of one class, out of bag. The
        message says how many trees it takes.
    NotAForestError, InbagError, ValueError
        As in `oob_predict_proba`; or if the metric or ``y`` does not fit the forest.

    Warns
    -----
    ForestWarning
        If training rows have copies, and ``groups`` does not say what they are; or if some rows get a probability of 0
        for their class, so that clipping decides what they add to the log loss.

    See Also
    --------
    oob_predict_proba : Predict probabilities of the training rows out of bag.
    oob_importance : Measure which columns matter.
    compare : Compare two settings on the same rows.

    Notes
    -----
    The interval is for the metric of *this* forest on fresh rows from the same source as the training rows. ``value``
    comes from predictions by some 37 % of the trees, so it may lie outside the interval if the forest is small. A row
    needs at least ten votes on average. The measurements show how often the interval contains the metric on fresh
    rows: less often if a few rows dominate the metric, as large squared errors can.

    References
    ----------
    L. Breiman (1996). "Out-of-bag estimation." Technical report, University of California, Berkeley.

    M. Lopes (2019). "Estimating the algorithmic variance of randomized ensembles via the bootstrap." The Annals of
    Statistics 47(2), 1088-1112.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, oob_score=True, random_state=0).fit(X, y)
    >>> score = rfsize.oob_score(forest, X, y)
    >>> bool(abs(score.value - forest.oob_score_) < 1e-12)
    True
    >>> score.interval[0] < score.value < score.interval[1]
    True

    Score each forest of a cross-validation on the rows that it was trained on:

    >>> from sklearn.model_selection import StratifiedKFold
    >>> folds = list(StratifiedKFold(3).split(X, y))
    >>> models = [RandomForestClassifier(60, random_state=0).fit(X[train], y[train]) for train, _ in folds]
    >>> scores = [rfsize.oob_score(m, X[train], y[train]) for m, (train, _) in zip(models, folds, strict=True)]
    >>> [score.n_rows for score in scores]
    [379, 379, 380]
    """
    return _score_of(known_out_of_bag(model, X, y, groups), metric)


def _score_of(outputs: TreeOutputs, metric: MetricLike | None) -> OobScore:
    """The score of one forest."""
    predictor, forest = predictor_of(outputs), task_of(outputs).forest
    metric = usual_metric(outputs) if metric is None else metric
    labels_at = predictor.threshold if metric == "accuracy" else None
    give(learning_rate_of(forest, labels_at=labels_at))
    judge = judge_of(metric, outputs)
    coverage_of_means(outputs).check(f"the {metric_in_words(judge.name)} on fresh rows", of_these_trees=True)
    give(warning_of_copies(outputs.groups))
    return _scored(outputs, judge)


def known_out_of_bag(model: Any, X: Any, y: Any, groups: Any) -> TreeOutputs:
    """The trees' outputs out of bag on the training rows, with the truth of the rows."""
    if isinstance(model, TreeOutputs):
        refuse_unused("tree outputs already hold their rows. Leave it out", X=X, groups=groups)
        outputs = model if y is None else model.with_truth(y, model.sample_weight)
        if outputs.source != "oob":
            raise ValueError(
                f"these outputs are of {outputs.source}, and an out-of-bag score takes the training rows: give "
                "rfsize.tree_outputs(model, X, y, oob=True). For other rows, score the model's own predict"
            )
    else:
        if X is None:
            raise ValueError("X is missing: give all training rows, in the order of training")
        outputs = collect_outputs(Task.of(model, X, y, oob=True, groups=groups), y, means=True)
    if outputs.y is None:
        raise ValueError("y is missing: a score needs the truth of the training rows")
    return outputs


def _scored(outputs: TreeOutputs, judge: Metric) -> OobScore:
    means = means_of(outputs)
    rows = np.flatnonzero(means.is_known)
    predicted = predictor_of(outputs).predictions(means.mean[rows])
    value = value_of(judge, rows, predicted)
    give(cautions_of_rows(judge, rows, predicted, outputs.n_trees))
    units = outputs.groups.units
    units = rows if units is None else units[rows]
    noise, freedom = noise_of_rows(judge, rows, predicted, units, outputs.sample_weight)
    gain, noise_of_trees = _gain_by_all_trees(outputs, judge)
    votes_per_row = float(means.n_votes[rows].mean())
    if judge.steps or judge.by_order:
        gain *= 1.0 + _BENT / votes_per_row
    at_all_trees, noise_of_gain = float(np.clip(value + gain, *judge.range)), abs(gain) * _UNTOLD / votes_per_row
    return OobScore(
        metric=judge.name,
        value=value,
        at_all_trees=at_all_trees,
        interval=_interval(judge.range, at_all_trees, math.hypot(noise, noise_of_trees, noise_of_gain), freedom),
        curve=_curve(outputs, judge, value),
        available=outputs.n_trees,
        votes_per_row=votes_per_row,
        source=outputs.source,
        groups=outputs.groups.by,
        n_rows=len(rows),
        n_dropped=outputs.n_rows - len(rows),
    )


def _gain_by_all_trees(outputs: TreeOutputs, judge: Metric) -> tuple[float, float]:
    """How much the metric gains if all trees predict a row, and its scatter over forests drawn from the trees."""
    if outputs.n_trees == 1:
        return 0.0, 0.0  # fresh rows ask the same one tree
    by_all, as_asked = drawn_trees(outputs, judge, most_rows=_ROWS_DRAWN)
    return float(by_all.mean() - as_asked.mean()), float(as_asked.std())


def _interval(span: tuple[float, float], centre: float, noise: float, freedom: float) -> tuple[float, float]:
    """95 % interval that stays within the range of the metric."""
    wide = float(student.ppf(1.0 - TAIL, freedom))
    lowest, highest = span
    if math.isfinite(lowest) and math.isfinite(highest):
        return _wilson(centre, noise, wide, freedom)
    if math.isfinite(lowest):
        factor = math.exp(min(wide * noise / centre, _LARGEST_POWER)) if centre > lowest else 1.0
        return centre / factor, centre * factor
    if math.isfinite(highest):
        missing = highest - centre
        factor = math.exp(min(wide * noise / missing, _LARGEST_POWER)) if missing > 0.0 else 1.0
        return highest - missing * factor, highest - missing / factor
    return centre - wide * noise, centre + wide * noise


def _wilson(share: float, noise: float, wide: float, freedom: float) -> tuple[float, float]:
    """Wilson's interval of a share, for the number of rows at which the share would have this noise."""
    n_rows = share * (1.0 - share) / noise**2 if noise > 0.0 and 0.0 < share < 1.0 else freedom + 1.0
    middle = (share + wide**2 / (2.0 * n_rows)) / (1.0 + wide**2 / n_rows)
    half = wide * math.sqrt(share * (1.0 - share) / n_rows + wide**2 / (4.0 * n_rows**2)) / (1.0 + wide**2 / n_rows)
    return max(0.0, middle - half), min(1.0, middle + half)


def _curve(outputs: TreeOutputs, judge: Metric, value: float) -> Curve:
    """The metric of the first parts of the forest, for some numbers of them; ``value`` is that of all trees."""
    parts = sums_of(outputs).parts
    n_parts = parts.total.shape[1]
    points = np.unique(np.geomspace(1, n_parts, _POINTS).round().astype(np.int64)) - 1
    total, n_scored = np.zeros(parts.total.shape[::2]), np.zeros(parts.n_scored.shape[::2])
    values, done = [], 0
    for point in points:
        total += parts.total[:, done : point + 1].sum(axis=1)
        n_scored += parts.n_scored[:, done : point + 1].sum(axis=1)
        done = point + 1
        known = (n_scored > 0).all(axis=1)
        predicted = predictor_of(outputs).predictions(total[known] / n_scored[known])
        values.append(value_or_nan(judge, parts.rows[known], predicted))
    values[-1] = value  # the parts may be known on some rows only
    return Curve(np.cumsum(parts.sizes)[points], np.array(values))
