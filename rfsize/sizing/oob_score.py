"""The out-of-bag score of a forest, how sure it is, and its curve over the number of trees.

A training row asks only the n of the T trees that did not see it, so that the out-of-bag score is that of a smaller
forest. Draws of the trees, as noisy as n of them are and as T of them are, tell the difference, by
which the middle of the interval is moved.

Three things make the score uncertain of the forest at hand on fresh rows. The rows are a sample: what each adds to the
metric, to first order, scatters, and its sum over the rows of a group is one draw. The rows ask other trees than fresh
rows do, the same ones for many of them: that scatter is the metric's over draws of the trees. And with few votes a row
the difference that draws tell falls short, by some 2d/n of it: where shares of rows and rankings lose c/(n + d) by n
trees, draws are of trees half as many. That share is added, and how uncertain it is. The variances are added, and an
interval is made that keeps within the range of the metric: by Wilson's formula between 0 and 1, else on the logarithmic
scale.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from rfsize.adapters.base import shrinking_of
from rfsize.adapters.registry import several_in
from rfsize.counting.evidence import Evidence, asked_out_of_bag
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.estimation.intervals import TAIL
from rfsize.sizing.chances import cautions_of, chances_in_parts
from rfsize.sizing.goals.named import goal_of
from rfsize.sizing.metrics import GivenMetric, Metric, value_of
from rfsize.sizing.named_metrics import MetricLike, judge_of, of_score
from rfsize.sizing.noise import drawn_trees, noise_of_rows
from rfsize.sizing.report import copies_caution, sized
from rfsize.sizing.scores import Curve, FoldScores, OobScore
from rfsize.sizing.words import metric_in_words
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import refuse_unused
from rfsize.utils.warn import give

_ROWS_DRAWN = 20_000  # that tell what more trees are worth
_POINTS = 40  # of the curve
# By how many votes, in units of the gain over votes, draws of the trees miss what shares of rows and rankings gain by
# all of them (2d), and how uncertain that is. Measured on problems of `benchmarks/oob_score.py`.
_BENT, _UNTOLD = 3.0, 4.0


@overload
def oob_score(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    metric: MetricLike | None = None,
    groups: ArrayLike | str | None = None,
    cv: None = None,
) -> OobScore: ...


@overload
def oob_score(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    metric: MetricLike | None = None,
    groups: ArrayLike | str | None = None,
    cv: Any,
) -> FoldScores: ...


def oob_score(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    metric: MetricLike | None = None,
    groups: ArrayLike | str | None = None,
    cv: Any = None,
) -> OobScore | FoldScores:
    """The out-of-bag score by any metric: how good the forest is on fresh rows, without held-out rows.

    Parameters
    ----------
    model
        As in `tree_outputs`; or tree outputs of ``oob=True``, which have their rows, and may have ``y``. Give
        weights, seeds and the threshold there. With ``cv`` the trained models of several folds: a list of models, or a
        `lightgbm.CVBooster`.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training.
    y : array_like, shape (n_rows,)
        Labels or numbers of the rows, as at training.
    metric : str or callable, optional
        "accuracy" (the default), "log_loss", "brier", of two classes also "auc" and "average_precision"; of a
        regression forest "r2" (the default), "rmse" or "mae"; or a function of the truth and the predictions that
        returns a number. It is given the probability of the second class, of more classes an array of shape
        (n_rows, n_classes), of a regression forest its predictions.
    groups
        As in `tree_outputs`. The interval counts the rows of a group as one draw.
    cv : int, splitter or iterable of (train, held out) pairs, optional
        The folds that the models were trained by, in their order; ``X`` and ``y`` then hold the rows of all folds. The
        folds of ``lightgbm.cv(..., nfold=5)`` are those of ``StratifiedKFold(5, shuffle=True, random_state=0)``, or of
        a regression ``KFold``. Rows are taken in ascending order, as the frameworks take them, and the bags of every
        model are proven, so that other folds are refused.

    Returns
    -------
    OobScore
        The metric, a 95 % interval, and the curve over the number of trees. With ``cv`` a `FoldScores`: the
        ``scores`` of all folds, the ``sizes`` that `rfsize.size` finds for each out of bag, and in one report
        both beside each other, with the mean of the metric and the trees that are enough in every fold.

    Raises
    ------
    FewVotesError
        If less than ten trees were asked about a row on average, unless they are nearly all; or about rows of one
        class, where their number depends on it. It says how many trees it takes.
    NotAForestError, InbagError, ValueError
        As by `oob_predict_proba`; or if the metric or ``y`` does not fit the forest.

    Warns
    -----
    CopiesWarning
        If rows have copies, it is not clear whether by nature or by repetition, and the score depends on it.

    See Also
    --------
    oob_predict_proba : Predict probabilities of the training rows out of bag.
    oob_importance : Measure which columns matter.
    compare : Compare two settings on the same rows.

    Notes
    -----
    The interval is for the metric of *this* forest on fresh rows from the same source as the training rows. ``value``
    comes from predictions by some 37 % of the trees, so it may lie outside the interval if the forest is small. A row
    needs at least ten votes on average. The measurements show how often intervals contain the metric on fresh rows.
    They contain it less often if a few rows make most of the metric, as squared errors with long tails do.

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

    The forests of a cross-validation in one report:

    >>> import lightgbm as lgb
    >>> from sklearn.model_selection import StratifiedKFold
    >>> params = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "verbose": -1}
    >>> folds = StratifiedKFold(3, shuffle=True, random_state=0)
    >>> models = lgb.cv(params, lgb.Dataset(X, y), 100, folds=folds, return_cvbooster=True)["cvbooster"]
    >>> rfsize.oob_score(models, X, y, metric="auc", cv=folds)
    fold  rows ...
       0   379 ...
       1   379 ...
       2   380 ...
    mean ...
    ... trees are enough in every fold, by T*(0.99)...
    """
    several = several_in(model)
    if several is None:
        refuse_unused(
            "it says which rows each of several models was trained on, and model is a "
            f"{type(model).__name__}: give a list of models, or leave it out",
            cv=cv,
        )
        return _score_of(known_out_of_bag(model, X, y, groups), metric)
    return _scores_of_folds(several, X, y, cv, metric, groups)


def _scores_of_folds(models: list[Any], X: Any, y: Any, cv: Any, metric: MetricLike | None, groups: Any) -> FoldScores:
    """The score and the size of each fold's forest."""
    missing = [name for name, value in (("X", X), ("y", y), ("cv", cv)) if value is None]
    if missing or not models:
        raise ValueError(
            f"{' and '.join(missing) or 'models'} missing: of several models give all rows, their y, and as cv the "
            "folds that the models were trained by"
        )
    from rfsize.counting.trained_folds import out_of_bag_of_folds  # scikit-learn takes long to import

    outputs = out_of_bag_of_folds(models, X, y, cv, groups)
    scores = tuple(_score_of(one, metric) for one in outputs)
    sizes = tuple(sized(one, goal_of("auto", None)) for one in outputs)
    give(tuple(dict.fromkeys(caution for one in sizes for caution in one._noted)))
    return FoldScores(scores, sizes)


def _score_of(outputs: Evidence, metric: MetricLike | None) -> OobScore:
    """The score of one forest."""
    predictor = outputs.asked_again.predictor
    metric, outputs = of_score(metric, outputs)
    labels_at = predictor.threshold if metric == "accuracy" else None
    give(shrinking_of(outputs.asked_again.adapter, labels_at=labels_at))
    judge = judge_of(metric, outputs)
    outputs.by_averages().check(f"the {metric_in_words(judge.name)} on fresh rows", of_these_trees=True)
    found = _scored(outputs, judge)
    _warn_where_copies_decide(found, outputs, metric)
    return found


def known_out_of_bag(model: Any, X: Any, y: Any, groups: Any) -> Evidence:
    """What trees say of training rows that they did not see, and the truth of these."""
    if isinstance(model, TreeOutputs):
        refuse_unused("tree outputs already hold their rows. Leave it out", X=X, groups=groups)
        outputs = model._evidence
        outputs = outputs if y is None else outputs.with_truth(y, outputs.sample_weight)
        if outputs.source != "oob":
            raise ValueError(
                f"these outputs are of {outputs.source}, and an out-of-bag score takes the training rows: give "
                "rfsize.tree_outputs(model, X, y, oob=True). For other rows, score the model's own predict"
            )
    else:
        if X is None:
            raise ValueError("X is missing: give all training rows, in the order of training")
        outputs = asked_out_of_bag(model, X, y, groups)
    if outputs.y is None:
        raise ValueError("y is missing: a score needs the truth of the training rows")
    return outputs


def _warn_where_copies_decide(found: OobScore, outputs: Evidence, metric: MetricLike) -> None:
    """Warn where it is not clear whether copies belong together, and the score depends on it."""
    groups = outputs.groups
    if groups.of_copies is None:
        return
    other = outputs.by_groups(groups.of_copies)
    judge, averages = judge_of(metric, other), other.averages
    rows = np.flatnonzero(averages.is_asked)
    value = value_of(judge, rows, other.predictor.predictions(averages.mean[rows])) if len(rows) else math.nan
    counted_once = f"is {value:.4g}" if len(rows) else "cannot be known, because every tree saw a copy of each row"
    give(copies_caution(groups, f"the {found._words}", f"{found.value:.4g}", found.interval, value, counted_once))


def _scored(outputs: Evidence, judge: Metric) -> OobScore:
    averages = outputs.averages
    rows = np.flatnonzero(averages.is_asked)
    predicted = outputs.predictor.predictions(averages.mean[rows])
    value = value_of(judge, rows, predicted)
    give(cautions_of(judge, chances_in_parts(judge, averages)))
    units = outputs.groups.units
    units = rows if units is None else units[rows]
    noise, freedom = noise_of_rows(judge, rows, predicted, units, outputs.sample_weight)
    gain, noise_of_trees = _gain_by_all_trees(outputs, judge)
    votes_per_row = float(averages.asked[rows].mean())
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


def _gain_by_all_trees(outputs: Evidence, judge: Metric) -> tuple[float, float]:
    """What the metric gains where rows ask all trees, and how it scatters with the trees that they ask."""
    if outputs.n_trees == 1:
        return 0.0, 0.0  # fresh rows ask the same one tree
    by_all, as_asked = drawn_trees(outputs, judge, most_rows=_ROWS_DRAWN)
    return float(by_all.mean() - as_asked.mean()), float(as_asked.std())


def _interval(span: tuple[float, float], centre: float, noise: float, freedom: float) -> tuple[float, float]:
    """95 % interval within the range of a metric."""
    wide = float(student.ppf(1.0 - TAIL, freedom))
    lowest, highest = span
    if math.isfinite(lowest) and math.isfinite(highest):
        return _wilson(centre, noise, wide, freedom)
    if math.isfinite(lowest):
        factor = math.exp(wide * noise / centre) if centre > lowest else 1.0
        return centre / factor, centre * factor
    if math.isfinite(highest):
        missing = highest - centre
        factor = math.exp(wide * noise / missing) if missing > 0.0 else 1.0
        return highest - missing * factor, highest - missing / factor
    return centre - wide * noise, centre + wide * noise


def _wilson(share: float, noise: float, wide: float, freedom: float) -> tuple[float, float]:
    """Wilson's interval of a share, of as many rows as would make it as uncertain."""
    n_rows = share * (1.0 - share) / noise**2 if noise > 0.0 and 0.0 < share < 1.0 else freedom + 1.0
    middle = (share + wide**2 / (2.0 * n_rows)) / (1.0 + wide**2 / n_rows)
    half = wide * math.sqrt(share * (1.0 - share) / n_rows + wide**2 / (4.0 * n_rows**2)) / (1.0 + wide**2 / n_rows)
    return max(0.0, middle - half), min(1.0, middle + half)


def _curve(outputs: Evidence, judge: Metric, value: float) -> Curve:
    """The metric of the first trees, at the ends of some of the parts."""
    averages = outputs.averages
    ends, every = averages.parts.ends, averages.parts.every
    points = np.unique(np.geomspace(1, len(ends), _POINTS).round().astype(np.int64)) - 1
    n_known = len(averages.total)
    total, asked = np.zeros(averages.total.shape[::2]), np.zeros(averages.asked_of.shape[::2])
    rows, values, done = np.arange(n_known) * every, [], 0
    for point in points:
        total += averages.total[:, done : point + 1].sum(axis=1, dtype=np.float64)
        asked += averages.asked_of[:, done : point + 1].sum(axis=1)
        done = point + 1
        known = (asked > 0).all(axis=1)
        values.append(_value_or_nan(judge, rows[known], outputs.predictor.predictions(total[known] / asked[known])))
    values[-1] = value  # of all rows, and not rounded
    return Curve(ends[points], np.array(values))


def _value_or_nan(judge: Metric, rows: Int64s, predicted: Floats) -> float:
    try:
        found = judge.value(rows, predicted) if judge.weight[rows].any() else math.nan
    except ValueError:
        if not isinstance(judge, GivenMetric):
            raise
        found = math.nan
    return found if math.isfinite(found) else math.nan
