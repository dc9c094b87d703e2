"""Chooses the bagging fraction: on how many rows to train each tree of a forest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
from rfsize.counting.groups import Groups, resolve_groups
from rfsize.counting.outputs import VOTINGS
from rfsize.exceptions import FewVotesError
from rfsize.models.framework import read_forest, training_of
from rfsize.models.link import Predictor
from rfsize.models.rows import n_rows_of
from rfsize.models.training import ForestInTraining, Trainer
from rfsize.showing.html import Alert, Page, Picture, Result, Section, Table
from rfsize.showing.plotting import finish, new_axes
from rfsize.showing.text import sentence
from rfsize.statistics.margins import scores_of_blocks
from rfsize.statistics.metrics import Metric, check_direction, metric_on_rows, value_of
from rfsize.statistics.row_errors import metric_error
from rfsize.theory import ratio_with_replacement

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

_MIN_TREES = 10
_RULES = ("keep", "best")

DEFAULT_FRACTIONS: tuple[float, ...] = tuple(k / (10 + k) for k in range(1, 13))
"""The grid of the 2010 paper: 0.1, 0.2, … 1.2 with replacement."""

# Bagging fraction of a first tree, which shows how the estimator reads its rows.
_ANY_FRACTION = 0.5

# A forest is at a disadvantage if its rows have less than this share of the votes that its fraction should leave.
_FAIR_SHARE = 0.5

_TITLE_WIDTH = 60  # characters
_SE = 1.96  # standard errors on either side of a 95 % interval


def select_bagging_fraction(
    params: Any,
    data: Any,
    y: ArrayLike | None = None,
    *,
    fractions: ArrayLike | None = None,
    metric: str | Callable[..., Any] | None = None,
    voting: Literal["auto", "hard", "soft"] = "auto",
    n_trees: int = 200,
    rule: Literal["keep", "best"] = "keep",
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    progress: bool = True,
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
        error of a regression. Weights of the training data count.
    voting : {"auto", "hard", "soft"}, default "auto"
        What is compared: the labels and probabilities of the averaged scores, as in ``predict`` (``"soft"`` and
        ``"auto"``), or those of the votes (``"hard"``).
    n_trees : int, default 200
        Number of trees of each forest.
    rule : {"keep", "best"}, default "keep"
        ``"keep"`` chooses your own fraction, unless the error of another is smaller by more than the standard error of
        the difference. If ``params`` name no fraction, it chooses the best. ``"best"`` chooses the fraction with the
        smallest error. The standard error is over other rows, paired row by row, and other trees.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `grow`.
    sample_weight : array_like, shape (n_rows,), optional
        Training weights; only for an estimator.
    seed : int, optional
        Seed of all forests; by default the seed in ``params``.
    progress : bool, default True
        Show a progress bar if the search takes long.

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
    choice("rule", rule, _RULES)
    choice("voting", voting, VOTINGS)
    n_trees = whole("n_trees", n_trees, at_least=_MIN_TREES)
    seed = None if seed is None else whole("seed", seed, at_least=0)
    trainer, X, own, with_fraction = _resolve_trainer(params, data, y, sample_weight)
    if fractions is None:
        fractions = [fraction for fraction in DEFAULT_FRACTIONS if fraction <= trainer.largest_fraction]
    fractions, own = _with_own(_checked_fractions(fractions), own if rule == "keep" else None)
    measure, grouped = _metric(metric, trainer), resolve_groups(groups, X, len(trainer.label))
    fractions, left_out = _with_enough_votes(fractions, trainer, grouped, n_trees)
    forests = []
    with progress_bar("bagging fractions", n_trees * len(fractions), "trees", shown=progress) as bar:
        for fraction in fractions:
            forests.append(_trained(trainer, fraction, n_trees, seed, grouped, voting))
            bar.update(n_trees)
    compared, n_rows = _compared(forests, measure, trainer.weight, grouped)
    name, value = "score", -measure.worse * compared.value
    if metric is None:
        name, value = "error", 1.0 - compared.value if len(trainer.classes) else compared.value
    columns: dict[str, Any] = {
        "fraction": fractions,
        "trees": np.full(len(fractions), n_trees, dtype=np.int64),
        name: value,
        "standard_error": compared.value_se,
        "difference": compared.difference,
        "difference_se": compared.difference_se,
        "seconds": [forest.seconds for forest in forests],
    }
    curve = np.empty(len(fractions), dtype=[(key, np.asarray(column).dtype) for key, column in columns.items()])
    for key, column in columns.items():
        curve[key] = column
    best = fractions[int(compared.difference.argmin())]  # of equals the smallest
    if own in fractions:
        at_own = curve[fractions.index(own)]
        best = own if at_own["difference"] <= at_own["difference_se"] else best
    return FractionSearch(
        best=best,
        params=with_fraction(best),
        curve=curve,
        metric=name,
        rule=rule,
        own=own,
        left_out=left_out,
        n_rows=n_rows,
        n_dropped=len(trainer.label) - n_rows,
        of_labels=len(trainer.classes) > 0,
    )


def _resolve_trainer(
    params: Any, data: Any, y: Any, sample_weight: Any
) -> tuple[Trainer, Any, float | None, Callable[[float], Any]]:
    """The trainer of the forests, its rows, the fraction of the given parameters, and a way to change it."""
    if isinstance(params, dict):
        reason = "labels and weights are in the Dataset or DMatrix. Leave it out, or give an estimator"
        refuse_unused(reason, y=y, sample_weight=sample_weight)
        training = training_of(data)
        X, trainer = training.rows_of(data), training.trainer(params, data)
        if trainer.has_soft_labels:
            raise ValueError(
                "select_bagging_fraction compares predictions with classes, and the labels are soft, between 0 and 1: "
                "give labels 0 and 1 with weights, a row of each for every soft label"
            )
        own = trainer.fraction if 0.0 < trainer.fraction < 1.0 else None
        return trainer, X, own, trainer.with_fraction
    # Here, because scikit-learn takes long to import.
    from sklearn.base import clone

    from rfsize.counting.cross_validation import rows_in_memory
    from rfsize.models.estimators import of_size, tree_counts

    if not hasattr(params, "fit") or not tree_counts(params):
        raise ValueError(
            f"params is a {type(params).__name__}; give the parameters of a LightGBM or XGBoost forest, a dict, and "
            "its training data: select_bagging_fraction(params, data); or an estimator of trees, its rows and labels"
        )
    if y is None:
        raise ValueError("y is missing: an estimator is trained on X and y, as it is fitted")
    training = training_of(params)
    X = rows_in_memory(data, "an estimator is fitted on rows in memory: give an array or a table")
    training.check_estimator(params)
    weighted, n_rows = {} if sample_weight is None else {"sample_weight": sample_weight}, n_rows_of(X)
    forest = read_forest(training.with_fraction(of_size(params, 1), _ANY_FRACTION, n_rows).fit(X, y, **weighted))
    forest.open(X)
    trainer = training.trainer_of(forest, X, y, sample_weight)
    own = training.fraction_of(params, n_rows)
    return trainer, X, own, lambda fraction: training.with_fraction(clone(params), fraction, n_rows)


def _checked_fractions(fractions: ArrayLike) -> list[float]:
    """The fractions in ascending order."""
    numbers = as_numbers("fractions", fractions)
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(f"fractions must be a list of at least one number, found {fractions!r}")
    ascending = sorted(share("each of fractions", fraction) for fraction in numbers.tolist())
    if len(set(ascending)) < len(ascending):
        raise ValueError(f"fractions holds a fraction twice: {ascending}; give each once")
    return ascending


def _with_own(fractions: list[float], own: float | None) -> tuple[list[float], float | None]:
    """The fractions with your own, and the value among them that stands for it."""
    if own is None:
        return fractions, None
    near = [fraction for fraction in fractions if math.isclose(fraction, own, rel_tol=1e-6)]
    return (fractions, near[0]) if near else (sorted([*fractions, own]), own)


def _metric(metric: Any, trainer: Trainer) -> Metric:
    """The metric with the truth of the training rows; for None the accuracy, or the mean squared error."""
    is_usual, classes, y = metric is None, trainer.classes, trainer.label
    if is_usual:
        metric = "accuracy" if len(classes) else "rmse"
    y = classes[y.astype(np.int64)] if len(classes) else y
    made: Any = metric_on_rows(metric, Predictor(classes, trainer.link), len(y), y, trainer.weight)
    check_direction(made)
    if is_usual and not len(classes):
        made = _squared(made)
    return made


def _squared(rmse: Metric) -> Metric:
    """The mean squared error."""
    root, influence = rmse.value, rmse.influence
    assert influence is not None
    return replace(
        rmse,
        name="mean squared error",
        value=lambda truth, predicted, weight: root(truth, predicted, weight) ** 2,
        influence=lambda *given: 2.0 * root(*given) * influence(*given),
    )


def _left_out_share(trainer: Trainer, fraction: float, groups: Groups) -> Floats:
    """For each row, the expected share of trees that see no row of its group; shape (n_rows,)."""
    sizes = np.ones(len(trainer.label)) if groups.sizes is None else groups.sizes
    return np.asarray(trainer.left_out(fraction) ** sizes)


def _with_enough_votes(
    fractions: list[float], trainer: Trainer, groups: Groups, n_trees: int
) -> tuple[list[float], tuple[float, ...]]:
    """The fractions with which rows get enough votes to compare them, and those left out; raises if there are none."""
    problems, label = {}, trainer.label if len(trainer.classes) else None
    for fraction in fractions:
        votes = Coverage(n_trees * _left_out_share(trainer, fraction, groups), n_trees, groups, y=label)
        problem = votes.problem(f"how good the bagging fraction {fraction:g} is")
        if problem is not None:
            problems[fraction] = problem
    if len(problems) == len(fractions):
        problem = problems[fractions[0]]
        raise FewVotesError(f"{problem}; or give smaller fractions", enough=problem.enough)
    return [fraction for fraction in fractions if fraction not in problems], tuple(problems)


_Predictions = tuple[Int64s, Floats]
"""Numbers of rows with out-of-bag votes, and their predictions, shape (n_rows, n_outputs)."""


class _Forest(NamedTuple):
    """Out-of-bag predictions of all trees and of each half of them, and the seconds that the training took."""

    whole: _Predictions
    halves: list[_Predictions]
    seconds: float


def _trained(trainer: Trainer, fraction: float, n_trees: int, seed: int | None, groups: Groups, voting: str) -> _Forest:
    started = time.perf_counter()
    forest = trainer.start(fraction=fraction, seed=seed, groups=groups)
    forest.add(n_trees)
    forest.check_bags()
    seconds = time.perf_counter() - started
    votes = float(forest.out_of_bag.scores.n_votes.mean()) / n_trees
    expected = float(_left_out_share(trainer, fraction, groups).mean())
    if votes < _FAIR_SHARE * expected:
        raise ValueError(
            f"at fraction {fraction:g} only {in_percent(votes)} of the votes are out of bag, instead of "
            f"{in_percent(expected)}, because XGBoost draws a bag for the tree of each class: grow more trees "
            "(n_trees), or, from XGBoost 3.2 on, one tree for all classes (multi_strategy='multi_output_tree')"
        )
    whole, *halves = _oob_predictions(forest, trainer, voting)
    return _Forest(whole, halves, seconds)


def _oob_predictions(forest: ForestInTraining, trainer: Trainer, voting: str) -> list[_Predictions]:
    """Out-of-bag predictions of all trees, and of each half of the trees on the rows whose blocks are kept."""
    sums, n_classes = forest.out_of_bag, len(trainer.classes)
    blocks = sums.blocks
    sources = [(sums.scores.number, sums.counts[sums.scores.number], sums.scores)]
    even = np.arange(blocks.votes.shape[1]) % 2 == 0
    for half in (even, ~even):
        sources.append((blocks.rows, blocks.votes[:, half].sum(axis=1), scores_of_blocks(blocks, half)))
    predictions = []
    for rows, counts, scores in sources:
        known = scores.n_votes > 0
        if voting == "hard" and n_classes:
            predicted = counts[known] / counts[known].sum(axis=1, keepdims=True)
        else:
            predicted = trainer.link.predictions(scores.mean[known], n_classes)
        predictions.append((rows[known], predicted))
    return predictions


class _Compared(NamedTuple):
    """For each forest: the metric, how much worse it is than the best, and the standard errors of both."""

    value: Floats
    value_se: Floats
    difference: Floats
    difference_se: Floats


def _compared(
    forests: Sequence[_Forest], metric: Metric, weight: Floats | None, groups: Groups
) -> tuple[_Compared, int]:
    """Compare the forests on the rows on which each of them has out-of-bag votes; also returns their number.

    The standard error of a difference is over other rows, paired row by row, and other trees. Other trees have another
    error on the same rows. The difference between the errors of the two halves of a forest has four times the variance
    of the error of all trees. Forests of one seed draw mostly the same rows, so part of this difference is the same for
    all forests and cancels in a comparison of two. The rest is the scatter of the difference from forest to forest:
    half of the mean square between two of them.
    """
    rows, predicted = _on_common_rows([forest.whole for forest in forests])
    if rows.size < 2 or (weight is not None and not weight[rows].sum() > 0.0):
        raise ValueError(
            f"only {how_many(rows.size, 'row')} (of positive weight) have out-of-bag votes from every forest "
            "compared, too few to compare them: give more trees, or smaller fractions"
        )
    units = rows if groups.units is None else groups.units[rows]
    value = np.array([value_of(metric, rows, of) for of in predicted])
    best = int((metric.worse * value).argmin())
    value_se, difference_se = np.zeros((2, len(forests)))
    for place, of in enumerate(predicted):
        value_se[place] = metric_error([metric], [of], rows, units)[0]
        if place != best:
            difference_se[place] = metric_error([metric] * 2, [of, predicted[best]], rows, units)[0]
    if len(forests) > 1:
        rows, halves = _on_common_rows([half for forest in forests for half in forest.halves])
        of_halves = np.array([value_of(metric, rows, of) for of in halves])
        over_trees = np.var(of_halves[::2] - of_halves[1::2], ddof=1) / 2.0
        difference_se = np.where(np.arange(len(forests)) == best, 0.0, np.sqrt(difference_se**2 + over_trees))
    return _Compared(value, value_se, np.abs(value - value[best]), difference_se), len(units)


def _on_common_rows(predictions: Sequence[_Predictions]) -> tuple[Int64s, list[Floats]]:
    rows = reduce(np.intersect1d, (rows for rows, _ in predictions))
    return rows, [predicted[np.searchsorted(of, rows)] for of, predicted in predictions]


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
          too), and the standard error over other rows, paired row by row, and other trees;
        - ``seconds``: time to train the forest.
    params : dict or estimator
        Your parameters, or a copy of your estimator, with the best fraction. Give them to `rfsize.grow`.
    metric : str
        Name of the column: "error" if less is better, "score" if more is better.
    rule : str
        As you gave it.
    own : float or None
        Your own fraction, if your parameters name one. ``rule="keep"`` chooses it unless another fraction is better by
        more than noise.
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
    >>> search.curve["fraction"].tolist(), search.trees_grown
    ([0.2, 0.5], 100)
    >>> bool(search.curve["error"].max() < 0.2)
    True
    """

    best: float
    params: Any
    curve: NDArray[np.void]
    metric: str
    rule: str
    own: float | None
    left_out: tuple[float, ...]
    n_rows: int
    n_dropped: int
    of_labels: bool

    @property
    def trees_grown(self) -> int:
        """Number of trees that the search trained."""
        return int(self.curve["trees"].sum())

    def to_frame(self) -> pandas.DataFrame:
        """The curve as a pandas.DataFrame.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        import pandas

        return pandas.DataFrame(self.curve)

    def to_dict(self) -> dict[str, Any]:
        """The search as plain Python values that ``json`` can write, without `params`."""
        names = self.curve.dtype.names or ()
        rows = [dict(zip(names, row, strict=True)) for row in self.curve.tolist()]
        kept = ("best", "own", "rule", "metric", "n_rows", "n_dropped")
        return {**{name: getattr(self, name) for name in kept}, "left_out": list(self.left_out), "curve": rows}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the out-of-bag curve with its standard errors, and the chosen fraction.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
        """
        from matplotlib.ticker import PercentFormatter

        ax, curve = new_axes() if ax is None else ax, self.curve
        points, label = (curve["fraction"], curve[self.metric]), f"out-of-bag {self.metric} ± standard error"
        ax.errorbar(*points, curve["standard_error"], fmt="o-", color="C0", capsize=2.5, label=label)
        chosen = curve[curve["fraction"] == self.best]
        ax.plot(chosen["fraction"], chosen[self.metric], "D", color="C1", zorder=5, label="chosen")
        ax.axvline(self.best, color="C1", linewidth=1.0, linestyle="--", zorder=1)
        ax.set_title("\n".join(wrap(self._choice(), _TITLE_WIDTH)))
        ax.set_xlabel("bagging fraction (rows drawn without replacement)")
        ax.set_ylabel(f"out-of-bag {self.metric}")
        if self._is_share:
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        finish(ax)
        return ax

    def page(self) -> Page:
        picture = Picture(f"Out-of-bag {self.metric} over the bagging fraction", self.plot)
        rows = tuple((f"{row['fraction']:.3f}", f"{row['trees']:,}", *self._numbers(row)) for row in self.curve)
        grid = Table(_heads(self.metric), rows, int((self.curve["fraction"] == self.best).argmax()))
        return Page(
            title="Bagging fraction",
            verdict=sentence(self._choice()),
            alerts=tuple(Alert(sentence(text)) for text in self._remarks()),
            sections=(Section("", pictures=(picture,), tables=(grid,)),),
            code="forest, report = rfsize.grow(search.params, data)  # with this fraction, and as many trees as needed",
            origin=(("rows", self._rows()), ("trees grown to compare", f"{self.trees_grown:,}")),
        )

    def __str__(self) -> str:
        fraction, trees, *heads = _heads(self.metric)
        lines = [f"{fraction:>9}{trees:>7}" + "".join(f"{head:>10}" for head in heads)]
        for row in self.curve:
            mark = "*" if row["fraction"] == self.best else " "
            numbers = "".join(f"{number:>10}" for number in self._numbers(row))
            lines.append(f"{mark}{row['fraction']:>8.3f}{row['trees']:>7,}{numbers}")
        ratio = f"{ratio_with_replacement(self.best):.2f}"
        return "\n".join(
            [
                *lines,
                self._choice(),
                *(f"! {text}" for text in self._remarks()),
                f"fraction {self.best:.3f} is worth a sampling ratio of {ratio} with replacement",
                f"{self.trees_grown:,} trees grown; {self._rows()}",
            ]
        )

    __repr__ = __str__

    @property
    def _is_share(self) -> bool:
        return self.of_labels and self.metric == "error"

    def _number(self, value: float) -> str:
        return f"{100.0 * value:.2f} %" if self._is_share else f"{value:.4g}"

    def _numbers(self, row: np.void) -> list[str]:
        names = (self.metric, "standard_error", "difference", "difference_se")
        return [self._number(row[name]) for name in names]

    def _choice(self) -> str:
        """The sentence that says which fraction is chosen, and how much better it is."""
        n_fractions, difference = len(self.curve), self.curve["difference"]
        least = float(self.curve["fraction"][difference.argmin()])
        level = int(np.sum(difference <= _SE * self.curve["difference_se"])) - 1
        also = f"; {how_many(level, 'other')} may be as good, within noise" if level else ""
        if self.own is None or self.own in self.left_out:
            return f"fraction {self.best:.3f} has the best {self.metric} of {n_fractions}{also}"
        own = self.curve[self.curve["fraction"] == self.own][0]
        apart = f"{self._number(own['difference'])} ± {self._number(own['difference_se'])}"
        if self.best != self.own:
            return f"take fraction {self.best:.3f}: its {self.metric} is better than your {self.own:.3f}'s by {apart}"
        if least == self.own:
            return f"keep your fraction {self.own:.3f}: it has the best {self.metric} of {n_fractions}{also}"
        return f"keep your fraction {self.own:.3f}: the best of {n_fractions}, {least:.3f}, is better by {apart}: noise"

    def _remarks(self) -> list[str]:
        """That fractions were left out, and that the best is the smallest or the largest of those compared."""
        remarks, fractions = [], self.curve["fraction"]
        if self.left_out:
            left_out = ", ".join(f"{fraction:.3f}" for fraction in self.left_out)
            own = ", your own," if self.own in self.left_out else ""
            remarks.append(
                f"left out: {left_out}{own} for which {int(self.curve['trees'][0]):,} trees leave rows too few "
                "out-of-bag votes: give a larger n_trees"
            )
        least = fractions[self.curve["difference"].argmin()]
        if len(fractions) > 1 and least in (fractions[0], fractions[-1]):
            remarks.append(
                f"the best {self.metric} is at {least:.3f}, at the end of the fractions compared: compare fractions "
                "beyond it"
            )
        return remarks

    def _rows(self) -> str:
        dropped = f"; {self.n_dropped:,} left out, because in some forest every tree saw them" if self.n_dropped else ""
        return f"{self.n_rows:,} rows, predicted by the trees that did not see them{dropped}"


def _heads(metric: str) -> tuple[str, ...]:
    return "fraction", "trees", metric, "± s.e.", "worse by", "± s.e."
