"""Chooses the bagging fraction: on how many rows to train each tree of a forest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from rfsize._util import (
    Floats,
    Int64s,
    as_numbers,
    choice,
    how_many,
    in_percent,
    progress_bar,
    refuse_unused,
    share,
    whole,
)
from rfsize.counting.coverage import Coverage
from rfsize.counting.groups import resolve_groups
from rfsize.exceptions import FewVotesError
from rfsize.models.framework import read_forest, training_of
from rfsize.models.link import Predictor
from rfsize.models.rows import n_rows_of
from rfsize.models.training import Trainer
from rfsize.showing.html import Result, fraction_page
from rfsize.showing.plots import plot_fractions
from rfsize.showing.text_of_results import fraction_text
from rfsize.statistics.metric_loss import shared_error
from rfsize.statistics.metrics import SQUARED_ERROR, Metric, value_of
from rfsize.statistics.named_metrics import check_direction, metric_on_rows
from rfsize.statistics.row_errors import unit_terms
from rfsize.statistics.subforests import ForestParts
from rfsize.theory import ratio_with_replacement

_MIN_TREES = 10

DEFAULT_FRACTIONS: tuple[float, ...] = tuple(k / (10 + k) for k in range(1, 13))
"""The grid of the 2010 paper: 0.1, 0.2, … 1.2 with replacement."""

# Bagging fraction of a first tree, which shows how the estimator reads its rows.
_ANY_FRACTION = 0.5

# How many standard deviations of an expected gain change your fraction.
_CLEARLY = 0.25

# Scales of the gains in noise; how many standard errors make a fraction clearly worse; and a share of the noise that
# keeps its covariance from being singular.
_SCALES, _FAR, _RIDGE = (0.0, 0.5, 1.0, 2.0, 4.0), 2.0, 1e-9

# A forest is at a disadvantage if its rows have less than this share of the votes that its fraction should leave.
_FAIR_SHARE = 0.5


def select_bagging_fraction(
    params: Any,
    data: Any,
    y: ArrayLike | None = None,
    *,
    fractions: ArrayLike | None = None,
    metric: str | Callable[..., Any] | None = None,
    n_trees: int = 200,
    rule: Literal["keep", "best"] = "keep",
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
) -> FractionSearch:
    """Find out whether another bagging fraction than yours has a smaller out-of-bag error.

    The search trains one forest with each fraction, and predicts each row by the trees that did not see it. All forests
    share a seed, and the data are binned once. Standard bagging, which draws n of n rows with replacement, is
    equivalent to a fraction of 1/2. On noisy problems a much smaller fraction can be better, and it always trains
    faster. On many problems no fraction is better than another by more than noise.

    Parameters
    ----------
    params : dict or scikit-learn estimator
        Parameters of a LightGBM or XGBoost forest, or a forest estimator of LightGBM, XGBoost or scikit-learn. Their
        number of trees is not used.
    data : lightgbm.Dataset, xgboost.DMatrix or xgboost.QuantileDMatrix
        Training data with labels. For an estimator, the rows that its ``fit`` takes.
    y : array_like, shape (n_rows,), optional
        Labels or numbers; only for an estimator.
    fractions : array_like, shape (n_fractions,), optional
        Fractions to compare, for rows drawn without replacement. With ``rule="keep"`` your own is added. The default is
        1/11, 2/12, … 12/22, equivalent to sampling ratios of 0.1, 0.2, … 1.2 with replacement
        (`ratio_with_replacement`). A scikit-learn ensemble with ``bootstrap=True`` draws the equivalent number of rows
        with replacement: ``max_samples`` above the number of rows for fractions above 1/2, which takes scikit-learn 1.9
        or newer. Fractions so large that rows would have too few votes are left out, and the result says so.
    metric : str or callable, optional
        A scikit-learn scorer or its name; greater is better. By default the error of the labels, or the mean squared
        error of a regression. Labels and probabilities are those of averaged scores. Weights of the training data
        count.
    n_trees : int, default 200
        Number of trees of each forest.
    rule : {"keep", "best"}, default "keep"
        ``"keep"`` chooses your own fraction, unless another is expected to gain more than a quarter of the gain's
        standard deviation on fresh rows (see ``gain`` of the result). If ``params`` name no fraction, it chooses the
        best. ``"best"`` chooses the fraction with the smallest error, though it may be the smallest by luck.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `grow`.
    sample_weight : array_like, shape (n_rows,), optional
        Training weights; only for an estimator.
    seed : int, optional
        Seed of all forests; by default the seed in ``params``.

    Returns
    -------
    FractionSearch
        The chosen fraction, and the curve. ``rfsize.grow(search.params, data)`` trains a forest with this fraction.

    Raises
    ------
    NotAForestError
        If the parameters do not train a forest of independent trees.
    InbagError
        If the bags of a forest cannot be rebuilt and proven.
    FewVotesError
        If with each fraction the rows, or the rows of one class, would have fewer than ten out-of-bag votes each.
    ValueError
        If an option or the data do not fit.

    See Also
    --------
    grow : Train a forest to its size.
    compare : Compare two settings on the same rows.

    References
    ----------
    G. Martínez-Muñoz, A. Suárez (2010). "Out-of-bag estimation of the optimal sample size in bagging." Pattern
    Recognition 43(1), 143-152.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> params = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "verbosity": -1}
    >>> data = lgb.Dataset(X, y, free_raw_data=False)
    >>> search = rfsize.select_bagging_fraction(params, data, fractions=[0.2, 0.5], n_trees=50)
    >>> search.best in (0.2, 0.5)
    True
    >>> booster, report = rfsize.grow(search.params, data, alpha=0.95)
    >>> booster.params["bagging_fraction"] == search.best
    True
    """
    choice("rule", rule, ("keep", "best"))
    n_trees = whole("n_trees", n_trees, at_least=_MIN_TREES)
    seed = None if seed is None else whole("seed", seed, at_least=0)
    _grid(DEFAULT_FRACTIONS if fractions is None else fractions, None)  # refused before anything is trained
    trainer, X, own, with_fraction = _resolve_trainer(params, data, y, sample_weight)
    if fractions is None:
        fractions = [fraction for fraction in DEFAULT_FRACTIONS if fraction <= trainer.largest_fraction]
    grid, own = _grid(fractions, own if rule == "keep" else None)
    measure, trainer.groups = _metric(metric, trainer), resolve_groups(groups, X, len(trainer.label))
    grid, left_out = _with_enough_votes(grid, trainer, n_trees)
    forests = []
    with progress_bar("bagging fractions", n_trees * len(grid), "trees") as bar:
        for fraction in grid:
            forests.append(_trained(trainer, fraction, n_trees, seed, measure))
            bar.update(n_trees)
    of_labels, name = len(trainer.classes) > 0, "error" if metric is None else "score"
    value, row_noise, noise, n_rows = _compared(forests, measure, trainer)
    loss = measure.worse * value
    least = int(loss.argmin())  # of equals the smallest fraction
    apart = np.diag(noise) + noise[least, least] - 2.0 * noise[least]
    chosen, gain, gain_se = least, None, None
    if own in grid:
        chosen = grid.index(own)
        gains, errors = expected_gains(np.array(grid), loss, noise, chosen)
        most = int(gains.argmax())
        chosen = most if gains[most] > _CLEARLY * errors[most] else chosen
        gain, gain_se = float(gains[chosen]), float(errors[chosen])
    if metric is not None:
        value = -measure.worse * value
    elif of_labels:
        value = 1.0 - value
    columns = {
        "fraction": grid,
        "trees": [n_trees] * len(grid),
        name: value,
        "standard_error": np.sqrt(np.diag(row_noise)),
        "difference": loss - loss[least],
        "difference_se": np.sqrt(np.maximum(apart, 0.0)),
    }
    types = [(column, np.asarray(of).dtype) for column, of in columns.items()]
    return FractionSearch(
        best=grid[chosen],
        params=with_fraction(grid[chosen]),
        curve=np.array(list(zip(*columns.values(), strict=True)), dtype=types),
        metric=name,
        own=own,
        gain=gain,
        gain_se=gain_se,
        left_out=left_out,
        n_rows=n_rows,
        n_dropped=len(trainer.label) - n_rows,
        of_labels=of_labels,
    )


def expected_gains(fractions: Floats, loss: Floats, noise: Floats, own: int) -> tuple[Floats, Floats]:
    """How much less each fraction is expected to lose than your own, and the standard deviation.

    The fraction of least loss is partly the luckiest one, so what it seems to gain is too much. The mean given the
    measured losses does not depend on which fraction is looked at afterwards. Before, the gain is taken for a random
    walk in the logarithm of the sampling ratio, which is 0 at your own fraction. How far it goes is not known: it may
    stay at 0, or go half, once, twice or four times as far as the noise, each a quarter as likely as the one before.
    Fractions that are clearly worse than yours say nothing about that, and keep what was measured.

    Parameters
    ----------
    fractions, loss : ndarray of float64, shape (n_fractions,)
    noise : ndarray of float64, shape (n_fractions, n_fractions)
        Covariance of the losses.
    own : int
        Place of your own fraction.

    Returns
    -------
    expected, error : ndarray of float64, shape (n_fractions,)
        Posterior means and standard deviations of the gains; 0 for your own fraction.
    """
    gain, noise = loss[own] - loss, noise - noise[own] - noise[:, [own]] + noise[own, own]
    deviation = np.sqrt(np.maximum(np.diag(noise), 0.0))
    expected, error = gain.copy(), deviation.copy()
    near = np.flatnonzero((deviation > 0.0) & (gain > -_FAR * deviation))
    if not len(near):
        return expected, error
    away = np.log(ratio_with_replacement(fractions) / ratio_with_replacement(fractions[own]))[near]
    walk = np.minimum.outer(abs(away), abs(away)) * (np.multiply.outer(away, away) > 0.0)
    gain, noise = gain[near], noise[np.ix_(near, near)]
    noise += _RIDGE * np.trace(noise) * np.eye(len(near))
    evidence, means, squares = [], [], []
    for scale in _SCALES:
        prior = scale**2 * np.trace(noise) / np.trace(walk) * walk
        share = np.linalg.solve(prior + noise, prior).T
        evidence.append(-0.5 * (np.linalg.slogdet(prior + noise)[1] + gain @ np.linalg.solve(prior + noise, gain)))
        means.append(share @ gain)
        squares.append(means[-1] ** 2 + np.diag(prior - share @ prior))
    weight = softmax(np.array(evidence) - math.log(4.0) * np.arange(len(_SCALES)))
    expected[near] = weight @ means
    error[near] = np.sqrt(weight @ squares - expected[near] ** 2)
    return expected, error


def _resolve_trainer(
    params: Any, data: Any, y: Any, sample_weight: Any
) -> tuple[Trainer, Any, float | None, Callable[[float], Any]]:
    """The trainer of the forests, its rows, the fraction of the given parameters, and a way to change it."""
    if isinstance(params, dict):
        refuse_unused("the Dataset or DMatrix has its own", ", or give an estimator", y=y, sample_weight=sample_weight)
        training = training_of(data)
        X, trainer = training.rows_of(data), training.trainer(params, data)
        return trainer, X, trainer.fraction if 0.0 < trainer.fraction < 1.0 else None, trainer.with_fraction
    # Here, because scikit-learn takes long to import.
    from sklearn.base import clone

    from rfsize.counting.cross_validation import rows_in_memory
    from rfsize.models.estimators import of_size, tree_counts

    if not hasattr(params, "fit") or not tree_counts(params):
        raise ValueError(
            f"params is a {type(params).__name__}; give a dict of parameters of LightGBM or XGBoost and training data, "
            "or an estimator of trees, its rows and labels"
        )
    if y is None:
        raise ValueError("y is missing: an estimator is trained on X and y, as it is fitted")
    training = training_of(params)
    X = rows_in_memory(data, "an estimator is fitted on rows in memory: give an array or a table")
    training.check_estimator(params)
    weighted, n_rows = {} if sample_weight is None else {"sample_weight": sample_weight}, n_rows_of(X)
    forest = read_forest(training.with_fraction(of_size(params, 1), _ANY_FRACTION, n_rows).fit(X, y, **weighted))
    forest.open(X)
    trainer, own = training.trainer_of(forest, X, y, sample_weight), training.fraction_of(params, n_rows)
    return trainer, X, own, lambda fraction: training.with_fraction(clone(params), fraction, n_rows)


def _grid(fractions: ArrayLike, own: float | None) -> tuple[list[float], float | None]:
    """The fractions with your own, in ascending order, and the value among them that stands for your own."""
    grid = sorted({share("each of fractions", fraction) for fraction in as_numbers("fractions", fractions).flat})
    if not grid:
        raise ValueError("fractions is empty: give at least one fraction")
    if own is None:
        return grid, None
    near = [fraction for fraction in grid if math.isclose(fraction, own, rel_tol=1e-6)]
    return (grid, near[0]) if near else (sorted([*grid, own]), own)


def _metric(metric: Any, trainer: Trainer) -> Metric:
    """The metric with the truth of the training rows; for None the accuracy, or the mean squared error."""
    classes, y = trainer.classes, trainer.label
    y = classes[y.astype(np.int64)] if len(classes) else y
    usual = "accuracy" if len(classes) else "rmse"
    on_rows = metric_on_rows(metric or usual, Predictor(classes, trainer.link), len(y), y, trainer.weight)
    check_direction(on_rows)
    if metric is None and not len(classes):
        return replace(SQUARED_ERROR, truth=on_rows.truth, weight=on_rows.weight)
    return on_rows


def _left_out_share(trainer: Trainer, fraction: float) -> Floats:
    """For each row, the expected share of trees that see no row of its group; shape (n_rows,)."""
    sizes = np.ones(len(trainer.label)) if trainer.groups.sizes is None else trainer.groups.sizes
    return np.asarray(trainer.left_out(fraction) ** sizes)


def _with_enough_votes(fractions: list[float], trainer: Trainer, n_trees: int) -> tuple[list[float], tuple[float, ...]]:
    """The fractions with which rows get enough votes to compare them, and those left out; raises if there are none."""
    label = trainer.label if len(trainer.classes) else None
    problems = {}
    for fraction in fractions:
        votes = Coverage(n_trees * _left_out_share(trainer, fraction), n_trees, trainer.groups, y=label)
        problems[fraction] = votes.problem(f"how good the bagging fraction {fraction:g} is")
    enough = [fraction for fraction, problem in problems.items() if problem is None]
    if not enough:
        raise FewVotesError(f"{problems[fractions[0]]}; or give smaller fractions")
    return enough, tuple(fraction for fraction in fractions if fraction not in enough)


class _Forest(NamedTuple):
    """A forest of one fraction.

    Attributes
    ----------
    rows : ndarray of int64, shape (n,)
        Numbers of the rows with out-of-bag votes.
    predicted : ndarray of float64, shape (n, n_outputs)
        Their out-of-bag predictions.
    shared_error : float
        Error of the metric by what trees add to all rows.
    """

    rows: Int64s
    predicted: Floats
    shared_error: float


def _trained(trainer: Trainer, fraction: float, n_trees: int, seed: int | None, metric: Metric) -> _Forest:
    forest = trainer.start(fraction=fraction, seed=seed)
    forest.add(n_trees)
    forest.check_bags()
    sums = forest.out_of_bag
    left_out = float(sums.scores.n_votes.mean()) / n_trees
    expected = float(_left_out_share(trainer, fraction).mean())
    if left_out < _FAIR_SHARE * expected:
        raise ValueError(
            f"at fraction {fraction:g} only {in_percent(left_out)} of the votes are out of bag, instead of "
            f"{in_percent(expected)}, because XGBoost draws a bag for the tree of each class: take, from XGBoost 3.2 "
            "on, one tree for all classes (multi_strategy='multi_output_tree')"
        )
    blocks, scores, predictions_of = sums.blocks, sums.scores, Predictor(trainer.classes, trainer.link).predictions
    known = scores.n_votes > 0
    has_two_blocks = ((blocks.n_scored > 0).sum(axis=1) > 1).all(axis=1)  # and so outputs without any one of them
    on = has_two_blocks & (metric.weight[blocks.rows] > 0.0)
    of_blocks = [sums_of[on].swapaxes(0, 1).astype(np.float64) for sums_of in (blocks.total, blocks.n_scored)]
    parts = ForestParts(metric, predictions_of, blocks.rows[on], blocks.rows[on], *of_blocks)
    return _Forest(scores.number[known], predictions_of(scores.mean[known]), shared_error(parts))


def _compared(forests: Sequence[_Forest], metric: Metric, trainer: Trainer) -> tuple[Floats, Floats, Floats, int]:
    """Compare the forests on the rows on which each of them has out-of-bag votes.

    Returns the metric of each forest, its covariance over other rows, the same over other rows and other trees, and the
    number of rows. Forests of one seed draw mostly the same rows, and part of what their trees add to all rows cancels
    in a comparison of two; it is counted all the same.
    """
    rows = reduce(np.intersect1d, (forest.rows for forest in forests))
    predicted = [forest.predicted[np.searchsorted(forest.rows, rows)] for forest in forests]
    if rows.size < 2:
        raise ValueError(
            f"only {how_many(rows.size, 'row')} have out-of-bag votes from every forest, too few to compare them: give "
            "more trees, or smaller fractions"
        )
    value = np.array([value_of(metric, rows, of_forest) for of_forest in predicted])
    terms = unit_terms(metric, rows, predicted, trainer.groups.units_of(rows))
    row_noise = terms @ terms.T
    return value, row_noise, row_noise + np.diag([forest.shared_error**2 for forest in forests]), len(rows)


@dataclass(frozen=True, eq=False)
class FractionSearch(Result):
    """The result of `select_bagging_fraction`.

    Attributes
    ----------
    best : float
        The chosen fraction.
    curve : structured ndarray, shape (n_fractions,)
        One row per fraction, in ascending order:

        - ``fraction``, ``trees``: the fraction, and the number of trees of its forest;
        - ``error`` (or ``score``), ``standard_error``: the out-of-bag error, and its standard error over the choice of
          rows;
        - ``difference``, ``difference_se``: how much worse the fraction is than the best (positive is worse, for scores
          too), and the standard error over other rows, paired row by row, and other trees.
    params : dict or estimator
        Your parameters, or a copy of your estimator, with the best fraction. Give them to `rfsize.grow`.
    metric : str
        Name of the column: "error" if less is better, "score" if more is better.
    own : float or None
        Your own fraction, if your parameters name one. ``rule="keep"`` chooses it unless another fraction is better by
        more than noise.
    gain, gain_se : float or None
        How much better than your own fraction ``best`` is expected to be on fresh rows, and the standard deviation of
        that, in units of the error or score. The gain is smaller than the difference in ``curve``, part of which is
        luck. None where ``own`` was not compared.
    left_out : tuple of float
        Fractions that were not compared, because rows would have had too few out-of-bag votes.
    n_rows, n_dropped : int
        Number of rows compared, and of rows left out because some forest had no out-of-bag vote on them.
    of_labels : bool
        Whether the forests classify.

    See Also
    --------
    select_bagging_fraction : Search for the fraction.
    grow : Train with it.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> params = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "verbosity": -1}
    >>> search = rfsize.select_bagging_fraction(params, lgb.Dataset(X, y), fractions=[0.2, 0.5], n_trees=50)
    >>> search.curve["fraction"].tolist(), search.curve["trees"].tolist()
    ([0.2, 0.5], [50, 50])
    >>> bool(search.curve["error"].max() < 0.2)
    True
    """

    best: float
    params: Any
    curve: NDArray[np.void]
    metric: str
    own: float | None
    gain: float | None
    gain_se: float | None
    left_out: tuple[float, ...]
    n_rows: int
    n_dropped: int
    of_labels: bool

    plot = plot_fractions

    page = fraction_page
    __str__ = __repr__ = fraction_text
