"""compare: how much better one setting is than another on the same rows, and whether the difference is noise.

Both forests err on much the same rows, so the difference of a metric scatters less over the rows than either value
does. rfsize therefore pairs what each row adds, to first order, to the two values. What the trees of a row add to it
scatters from row to row, and so is part of this. What they add to all rows alike belongs to the forests as they are;
only unlimited forests lack it. The gain by more trees is uncertain too (see `rfsize.statistics.metric_loss`). The
variances are added.

Out of bag, rows train the trees that predict the other rows. What row j adds to the loss of row i it gets back: a row
of an unlikely label misleads its neighbours as they mislead it. The scatter over rows counts the variance of this once,
and the sum over both rows has it up to twice. It is the covariance of the two effects, which the bags tell by the
infinitesimal jackknife (see `rfsize.statistics.sampling_variance`), summed over all pairs of rows. Of one pair of
forests with fewer than some 800 trees the sum is noise, so `_OF_PAIRS` is its mean share over many forests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from rfsize._util import Floats, Int64s, class_indices, give, how_many
from rfsize.counting.coverage import check_votes
from rfsize.counting.outputs import TreeOutputs, coverage, distinct, sums_of, warnings_for
from rfsize.exceptions import FewVotesError
from rfsize.showing.html import Result, comparison_page
from rfsize.showing.text_of_results import comparison_text
from rfsize.statistics.curve import TAIL
from rfsize.statistics.metric_estimate import problem_of
from rfsize.statistics.metric_loss import WITHOUT_ONE, MetricLoss, metric_loss, shared_error
from rfsize.statistics.metrics import Metric, clipping_of_rows, value_of
from rfsize.statistics.named_metrics import MetricLike, check_direction, metric_of, predictions_for, usual_metric
from rfsize.statistics.row_errors import metric_error
from rfsize.statistics.subforests import ForestParts

_WHICH = ("first", "second")
_OF_PAIRS = 0.25  # of the variance over rows; the mean over training sets is 0.18 to 0.30


class Difference(NamedTuple):
    """The metric of the first setting minus the metric of the second.

    Attributes
    ----------
    value : float
        The difference: above 0 if the first setting has the larger value, whether larger is better or not.
    interval : tuple of float
        95 % interval of the difference on all rows of the population that the compared rows are drawn from.
    better : {"first", "second"} or None
        Which is better; None if the interval contains 0.
    """

    value: float
    interval: tuple[float, float]
    better: str | None


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """The answer of `rfsize.compare`.

    Attributes
    ----------
    metric : str
        Name of the metric.
    values : tuple of float
        The metric of each forest on the rows. Out of bag, only the trees that did not see a row predict it.
    n_trees : tuple of int
        Trees of each forest.
    at_hand : Difference
        The difference between the two forests as they are, on fresh rows, which all trees predict. A forest may be
        better because its seed was lucky.
    limit : Difference or None
        The difference between the two settings: between forests of infinitely many trees, trained on the same rows.
        None where it cannot be estimated, see ``why``.
    why : str
        Why ``limit`` is None; empty if it is not.
    source : {"oob", "rows given", "cross-validation"}
        Which rows were compared: training rows out of bag, the rows that you gave, or the rows of the folds.
    n_rows, n_dropped : int
        Rows that were compared, and rows that were left out because one of the forests has no tree to predict them.

    See Also
    --------
    compare : Make a comparison.
    oob_score : The metric of one forest.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forests = (RandomForestClassifier(200, random_state=seed).fit(X, y) for seed in (0, 1))
    >>> print(rfsize.compare(*(rfsize.tree_outputs(forest, X, y, oob=True) for forest in forests), metric="auc"))
    the difference of AUC is within noise
      with 200 trees: first minus second ...
      with unlimited trees: first minus second ...
      AUC 0.99... and 0.9... on 569 out-of-bag rows
    """

    metric: str
    values: tuple[float, float]
    n_trees: tuple[int, int]
    at_hand: Difference
    limit: Difference | None
    why: str
    source: str
    n_rows: int
    n_dropped: int

    page = comparison_page
    __str__ = __repr__ = comparison_text


def compare(first: TreeOutputs, second: TreeOutputs, *, metric: MetricLike | None = None) -> Comparison:
    """Compare two forests by a metric: which is better, by how much, and whether the difference is noise.

    Train one forest with each setting and let both predict the same rows. The settings may differ in anything:
    parameters, columns, the framework, the number of trees.

    Parameters
    ----------
    first, second : TreeOutputs
        The results of `tree_outputs` for both forests, on the same rows in the same order, with ``y``. Take both out
        of bag (``oob=True``), both on fresh rows, or both by cross-validation (``cv=``).
    metric : str or scorer, optional
        For classifiers "accuracy" (the default), "log_loss" or "brier"; for two classes also "auc" and
        "average_precision"; for regressors "r2" (the default), "rmse" or "mae"; or a scikit-learn scorer.

    Returns
    -------
    Comparison
        The difference of the forests at hand and of the settings with infinitely many trees, each with a 95 % interval.

    Raises
    ------
    FewVotesError
        If fewer than 20 trees predicted a row on average, or both forests predicted fewer than two common rows.
    NotAForestError
        If the trees' scores are not known.
    ValueError
        If the rows differ (in number, ``y``, weights, groups or source); if one forest is a classifier and the other
        is not; or if the metric does not fit the forests.

    Warns
    -----
    TrainingRowsWarning, ForestWarning
        If the rows or the training of one of the forests make the comparison doubtful.

    See Also
    --------
    oob_score : Score a forest without held-out rows.
    size : See how many trees are enough.

    Notes
    -----
    Written as a loss, the metric of a forest of T trees is ``limit + c/(T + d)`` on average. A setting therefore looks
    worse if its forest has fewer trees, or if fewer trees predict each row out of bag. ``limit`` removes both effects.
    The intervals are for the rows that the forests were trained on, not for other training rows or more of them. That
    of ``at_hand`` holds the difference of your two forests, as a paired test of two classifiers does. That of ``limit``
    covers other seeds too; it takes the trees of the two forests to be independent, and is a little too wide if one
    seed gave both the same bags. Out of bag and by cross-validation, both are an eighth wider than the losses of the
    rows scatter, since rows also train the trees that predict each other. If you compare many settings, the best of
    them looks better than it is.

    References
    ----------
    T. G. Dietterich (1998). "Approximate statistical tests for comparing supervised classification learning
    algorithms." Neural Computation 10(7), 1895-1923.

    M. Lopes (2019). "Estimating the algorithmic variance of randomized ensembles via the bootstrap." The Annals of
    Statistics 47(2), 1088-1112.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> deep, flat = (RandomForestClassifier(200, max_depth=depth, random_state=0).fit(X, y) for depth in (None, 1))
    >>> outputs = [rfsize.tree_outputs(forest, X, y, oob=True) for forest in (deep, flat)]
    >>> answer = rfsize.compare(*outputs, metric="brier")
    >>> answer.at_hand.better, answer.limit.better
    ('first', 'first')
    >>> answer.at_hand.interval[0] < answer.at_hand.value < answer.at_hand.interval[1] < 0
    True
    """
    pair = first, second
    _check_same_rows(first, second)
    name = usual_metric(first) if metric is None else metric
    metrics = [metric_of(name, outputs) for outputs in pair]
    losses, shared, problems = zip(*(_loss(name, outputs) for outputs in pair), strict=True)
    rows, predicted, n_dropped = _paired(pair, metrics)
    for outputs, on_rows, of_forest in zip(pair, metrics, predicted, strict=True):
        give(clipping_of_rows(on_rows, rows, of_forest, outputs.n_trees))
        give(warnings_for(outputs, of_labels=on_rows.name == "accuracy"))
    values = [value_of(on_rows, rows, of_forest) for on_rows, of_forest in zip(metrics, predicted, strict=True)]
    groups = next((outputs.groups for outputs in pair if outputs.groups.units is not None), first.groups)
    error, freedom = metric_error(metrics, predicted, rows, groups.units_of(rows))
    error *= 1.0 if first.source == "rows given" else math.sqrt(1.0 + _OF_PAIRS)
    width = float(student.ppf(1.0 - TAIL, freedom))

    def difference(n_trees: tuple[float, float], of_seeds: Sequence[float] = ()) -> Difference:
        """The difference between forests of these numbers of trees; ``of_seeds`` are further standard errors."""
        gains, errors = zip(*(loss.gain(size) for loss, size in zip(losses, n_trees, strict=True)), strict=True)
        at = [value - loss.worse * gain for value, loss, gain in zip(values, losses, gains, strict=True)]
        value, half = at[0] - at[1], width * math.hypot(error, *errors, *of_seeds)
        better = None if abs(value) <= half else _WHICH[int(losses[0].worse * value > 0.0)]
        return Difference(value, (value - half, value + half), better)

    why = next(filter(None, problems), "")
    return Comparison(
        metric=metrics[0].name,
        values=(values[0], values[1]),
        n_trees=(first.n_trees, second.n_trees),
        at_hand=difference((first.n_trees, second.n_trees)),
        limit=None if why else difference((math.inf, math.inf), shared),
        why=why,
        source=first.source,
        n_rows=len(rows),
        n_dropped=n_dropped,
    )


def _loss(name: MetricLike, outputs: TreeOutputs) -> tuple[MetricLoss, float, str | None]:
    """What a metric loses because the forest has too few trees, its error for other seeds, and why it has no limit."""
    counted = distinct(outputs)
    check_votes(coverage(counted), of_metric=True)
    metric = metric_of(name, counted)
    check_direction(metric)
    loss = metric_loss(counted, metric, of_all_sizes=False, of_seeds=False)
    of_seeds = shared_error(ForestParts.of_blocks(counted, metric, WITHOUT_ONE))
    return loss, of_seeds, problem_of(loss, metric, counted)


def _paired(pair: tuple[TreeOutputs, TreeOutputs], metrics: list[Metric]) -> tuple[Int64s, list[Floats], int]:
    """The rows that both forests predicted, the predictions of each forest, and how many rows one did not predict."""
    first, second = scores = [sums_of(outputs).scores for outputs in pair]
    known = [of_rows.number[of_rows.n_votes > 0] for of_rows in scores]
    rows = np.intersect1d(known[0], known[1], assume_unique=True)
    if len(rows) < 2:
        n_common = how_many(len(rows), "row")
        fault = f"only {n_common} of {pair[0].n_rows:,} have votes of both forests, too few to compare them"
        raise FewVotesError(f"{fault}: train more trees, or give rows that neither forest was trained on")
    predicted = [
        predictions_for(outputs, metric)(of_rows.mean[np.searchsorted(of_rows.number, rows)])
        for outputs, metric, of_rows in zip(pair, metrics, scores, strict=True)
    ]
    # With very many rows and classes, a forest scores one row in k.
    n_scored = len(np.intersect1d(first.number, second.number, assume_unique=True))
    return rows, predicted, n_scored - len(rows)


def _check_same_rows(first: TreeOutputs, second: TreeOutputs) -> None:
    """Raise ``ValueError`` if the outputs are known to be of different rows."""
    for which, outputs in zip(_WHICH, (first, second), strict=True):
        if not isinstance(outputs, TreeOutputs) or outputs.y is None:
            needed = f"the {which} must be what rfsize.tree_outputs(model, X, y, oob=True) returns, with y"
            raise ValueError(f"{needed}; found a {type(outputs).__name__}")
    facts: dict[str, tuple[Any, Any]] = {
        "the source": (first.source, second.source),
        "the number of rows": (first.n_rows, second.n_rows),
        "the number of classes": (len(first.classes), len(second.classes)),
        "y": (_truth(first), _truth(second)),
        "sample_weight": (first.sample_weight, second.sample_weight),
        "groups": (first.groups.units, second.groups.units),
    }
    for what, (of_first, of_second) in facts.items():
        if not np.array_equal(of_first, of_second):
            raise ValueError(f"both outputs must be of the same rows, and {what} differs: make both from one X and y")


def _truth(outputs: TreeOutputs) -> Any:
    """The truth: numbers of classes instead of the model's labels; for a regression unchanged."""
    assert outputs.y is not None
    return class_indices(outputs.classes, outputs.y, outputs.n_rows) if len(outputs.classes) else outputs.y
