"""The out-of-bag score of a forest, how sure it is, and its curve over the number of trees.

Of the T trees, only the n that were not trained on a row predict it out of bag. The out-of-bag score is therefore the
score of a forest of n trees. With all trees it gains c/(n + d) − c/(T + d), see `rfsize.statistics.metric_loss`; the
middle of the interval is moved by this gain.

The score on fresh rows is uncertain for three reasons, whose variances are added: the rows are a sample; out of bag,
other trees predict the rows than all trees, which predict fresh rows; and the gain is estimated. Halves of the trees
show how much the metric scatters with the trees. The interval stays within the bounds of the metric: Wilson's formula
is used between 0 and 1, and a logarithmic scale for other metrics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rfsize._util import Floats, Int64s, give
from rfsize.counting.collect import collect_outputs
from rfsize.counting.groups import warning_of_copies
from rfsize.counting.outputs import (
    TreeOutputs,
    coverage_of_means,
    given_outputs,
    means_of,
    predictor_of,
    sums_of,
    task_of,
)
from rfsize.counting.task import Task, check_truth
from rfsize.exceptions import FewVotesError
from rfsize.models.model import learning_rate_of
from rfsize.showing.html import Result, score_page
from rfsize.showing.plots import plot_score
from rfsize.showing.text_of_results import score_text
from rfsize.statistics.metric_loss import MetricLoss, loss_of_halves, metric_loss
from rfsize.statistics.metrics import Metric, clipping_of_rows, label_of, value_of, value_or_nan
from rfsize.statistics.named_metrics import MetricLike, check_metric, metric_of, usual_metric
from rfsize.statistics.row_errors import interval_within, metric_error

_POINTS = 40  # of the curve


class OobCurve(NamedTuple):
    """The score over the number of trees.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n_sizes,)
        Numbers of first trees.
    values : ndarray of float64, shape (n_sizes,)
        The out-of-bag score of these trees, on the rows that at least one of them was not trained on; NaN if there are
        no such rows.
    """

    sizes: Int64s
    values: Floats


@dataclass(frozen=True, eq=False)
class OobScore(Result):
    """The result of `rfsize.oob_score`.

    Attributes
    ----------
    metric : str
        Name of the metric.
    value : float
        The metric of the out-of-bag predictions, those of `oob_predict_proba` or `oob_predict`.
    at_all_trees : float
        The metric to expect if all trees predict each row, as on fresh rows.
    interval : tuple of float
        95 % interval of the metric of your forest on fresh rows.
    curve : OobCurve
        The metric of the out-of-bag predictions of the first n trees, over n.
    available : int
        Number of trees of the forest.
    votes_per_row : float
        Mean number of trees that predicted a row.
    groups : {"rows", "copies", "given", "unknown"}
        Which training rows belong together, as in `Report`.
    n_rows : int
        Rows that were scored.
    n_dropped : int
        Rows left out because every tree was trained on them.

    See Also
    --------
    oob_score : Compute the score.
    compare : Compare two forests by a metric.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> print(rfsize.oob_score(forest, X, y, metric="auc"))
    AUC 0.99... out of bag, with ... trees a row
    about 0.99... with all 100 trees; on fresh rows 0.9... to 0.99... (95 %)
    from 569 out-of-bag rows
    """

    metric: str
    value: float
    at_all_trees: float
    interval: tuple[float, float]
    curve: OobCurve
    available: int
    votes_per_row: float
    groups: str
    n_rows: int
    n_dropped: int

    plot = plot_score
    page = score_page
    __str__ = __repr__ = score_text


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
        If training rows have copies, and ``groups`` does not say what they are.
    ForestWarning
        If some rows get a probability of 0 for their class, so that clipping decides what they add to the log loss.

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
    check = check_truth if metric is None else partial(check_metric, metric, has_loss=False)
    outputs, on_rows = known_out_of_bag(model, X, y, groups, metric, "accuracy", check=check)
    coverage_of_means(outputs).check(f"the {label_of(on_rows.name)} on fresh rows")
    give(warning_of_copies(outputs.groups))
    return _score(outputs, on_rows)


def known_out_of_bag(
    model: Any, X: Any, y: Any, groups: Any, metric: Any, of_classes: str, *, check: Callable[[Task], Any]
) -> tuple[TreeOutputs, Metric]:
    """The trees' outputs out of bag on the training rows, and the metric with their truth; warns of learning rates.

    Without a metric it is the one named ``of_classes``, or R². ``check`` refuses what does not fit, before bags are
    drawn.
    """
    if y is None and (not isinstance(model, TreeOutputs) or model.y is None):
        raise ValueError("y is missing: a score needs the truth of the training rows")
    if isinstance(model, TreeOutputs):
        outputs = given_outputs(model, y, X=X, groups=groups)
        if outputs.source != "oob":
            fault = f"these outputs are of {outputs.source}, and an out-of-bag score takes the training rows"
            advice = "give rfsize.tree_outputs(model, X, y, oob=True). For other rows, score the model's own predict"
            raise ValueError(f"{fault}: {advice}")
    elif X is None:
        raise ValueError("X is missing: give all training rows, in the order of training")
    else:
        outputs = collect_outputs(Task.checked(model, X, y, oob=True, groups=groups, check=check), means=True)
    on_rows = metric_of(usual_metric(outputs, of_classes) if metric is None else metric, outputs)
    labels_at = predictor_of(outputs).threshold if on_rows.name == "accuracy" else None
    give(learning_rate_of(task_of(outputs).forest, labels_at=labels_at))
    return outputs, on_rows


def _score(outputs: TreeOutputs, metric: Metric) -> OobScore:
    means = means_of(outputs)
    rows = np.flatnonzero(means.is_known)
    predicted = predictor_of(outputs).predictions(means.mean[rows])
    value = value_of(metric, rows, predicted)
    give(clipping_of_rows(metric, rows, predicted, outputs.n_trees))
    error, freedom = metric_error([metric], [predicted], rows, outputs.groups.units_of(rows))
    gain, gain_error, tree_error = 0.0, 0.0, 0.0
    if outputs.n_trees > 1:  # else the same one tree predicts fresh rows
        loss = _loss(outputs, metric)
        (gain, gain_error), tree_error = loss.gain(outputs.n_trees), loss.tree_error
        gain *= -loss.worse
    at_all_trees = float(np.clip(value + gain, *metric.bounds))
    error = math.hypot(error, tree_error, gain_error)
    return OobScore(
        metric=metric.name,
        value=value,
        at_all_trees=at_all_trees,
        interval=interval_within(metric.bounds, at_all_trees, error, freedom),
        curve=_curve(outputs, metric, value),
        available=outputs.n_trees,
        votes_per_row=float(means.n_votes[rows].mean()),
        groups=outputs.groups.by,
        n_rows=len(rows),
        n_dropped=outputs.n_rows - len(rows),
    )


def _loss(outputs: TreeOutputs, metric: Metric) -> MetricLoss:
    """What the metric loses with few trees: by the law of the loss, or by halves if the rows have few votes."""
    try:
        return metric_loss(outputs, metric, of_all_sizes=False, of_seeds=False)
    except FewVotesError:
        return loss_of_halves(outputs, metric)


def _curve(outputs: TreeOutputs, metric: Metric, value: float) -> OobCurve:
    """The metric of the first parts of the forest, for some numbers of them; ``value`` is that of all trees."""
    parts = sums_of(outputs).parts
    n_parts = parts.total.shape[1]
    ends = np.unique(np.geomspace(1, n_parts, _POINTS).round().astype(np.int64))
    total, n_scored = np.zeros(parts.total.shape[::2]), np.zeros(parts.n_scored.shape[::2])
    values = []
    for done, end in pairwise((0, *ends)):
        total += parts.total[:, done:end].sum(axis=1)
        n_scored += parts.n_scored[:, done:end].sum(axis=1)
        known = (n_scored > 0).all(axis=1)
        predicted = predictor_of(outputs).predictions(total[known] / n_scored[known])
        values.append(value_or_nan(metric, parts.rows[known], predicted))
    values[-1] = value  # the parts may be known on some rows only
    return OobCurve(np.cumsum(parts.sizes)[ends - 1], np.array(values))
