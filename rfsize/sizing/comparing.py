"""compare: how much better one setting is than another on the same rows, and whether the difference is noise.

Both forests err on much the same rows, so the difference of a metric scatters less over the rows than either value
does. rfsize therefore pairs what each row adds, to first order, to the two values. Other seeds move each value by s/√T
as well, and the gain by more trees is uncertain too (see `rfsize.sizing.loss`). The variances are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from rfsize._util import Floats, Int64s, class_indices, give, how_many
from rfsize.counting.outputs import TreeOutputs, warnings_for
from rfsize.estimation.intervals import TAIL
from rfsize.exceptions import FewVotesError
from rfsize.reporting.account import Account, Figure, Grid, Remark, Section
from rfsize.reporting.result import Result
from rfsize.reporting.words import sentence
from rfsize.sizing.goals.metric import MetricAnswer
from rfsize.sizing.goals.named import any_goal
from rfsize.sizing.metrics import Metric, value_of
from rfsize.sizing.named_metrics import MetricLike, judge_of, predictions_for, usual_metric
from rfsize.sizing.noise import noise_of_rows
from rfsize.sizing.page import SOURCES
from rfsize.sizing.sized_forest import answer_of
from rfsize.sizing.words import decimals, metric_in_words, rows_from

_WIDE = float(norm.ppf(1.0 - TAIL))
_WHICH = ("first", "second")


class Difference(NamedTuple):
    """The metric of the first setting minus the metric of the second.

    Attributes
    ----------
    value : float
        The difference: above 0 if the first setting has the larger value, whether larger is better or not.
    interval : tuple of float
        95 % interval of the difference, for other rows and other seeds of both forests.
    better : {"first", "second"} or None
        Which setting is better; None if the interval contains 0.
    """

    value: float
    interval: tuple[float, float]
    better: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values that ``json`` can write."""
        return {**self._asdict(), "interval": list(self.interval)}


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """The answer of `rfsize.compare`.

    Attributes
    ----------
    metric : str
        Name of the metric.
    values : tuple of float
        The metric of each forest on the rows. Out of bag, a row asks only the trees that did not see it.
    n_trees : tuple of int
        Trees of each forest.
    at_hand : Difference
        The difference between the two forests as they are, on fresh rows, which ask all trees.
    limit : Difference or None
        The difference if both forests had infinitely many trees. None where it cannot be estimated, see ``why``.
    why : str
        Why ``limit`` is None; empty if it is not.
    source : {"oob", "rows given", "cross-validation"}
        Which rows were compared: training rows out of bag, the rows that you gave, or the rows of the folds.
    n_rows, n_dropped : int
        Rows that were compared, and rows that were left out because one of the forests had no tree to ask.

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
    >>> print(rfsize.compare(*(rfsize.tree_outputs(one, X, y, oob=True) for one in forests), metric="auc"))
    the difference of AUC is within noise: the rows and trees do not tell which is better
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

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values that ``json`` can write."""
        limit = None if self.limit is None else self.limit.to_dict()
        tuples = {"values": list(self.values), "n_trees": list(self.n_trees)}
        return {**self.__dict__, **tuples, "at_hand": self.at_hand.to_dict(), "limit": limit}

    def __str__(self) -> str:
        first, second = self._in_digits(*self.values)
        dropped = f"; {self.n_dropped:,} left out, with no tree to judge them" if self.n_dropped else ""
        return (
            f"{self._verdict}\n"
            f"  {self._with_all_trees}: {self._said(self.at_hand)}\n"
            f"  with unlimited trees: {self.why if self.limit is None else self._said(self.limit)}\n"
            f"  {self._words} {first} and {second} on {rows_from(self.n_rows, self.source)}{dropped}"
        )

    __repr__ = __str__

    def _account(self) -> Account:
        values = self._in_digits(*self.values)
        rows = [(self._with_all_trees, self.at_hand)]
        rows += [] if self.limit is None else [("with unlimited trees", self.limit)]
        cells = tuple((where, *self._in_digits(one.value, *one.interval)) for where, one in rows)
        figures = zip(_WHICH, values, self.n_trees, strict=True)
        return Account(
            title="Two settings compared",
            verdict=sentence(self._verdict),
            cautions=(Remark(sentence(f"with unlimited trees: {self.why}")),) if self.why else (),
            figures=tuple(Figure(f"{self._words}, {one}", value, how_many(n, "tree")) for one, value, n in figures),
            sections=(Section("", grids=(Grid(("first minus second", "difference", "from", "to"), cells),)),),
            origin=(("rows", f"{how_many(self.n_rows, 'row')}, {SOURCES.get(self.source, self.source)}"),),
        )

    @property
    def _words(self) -> str:
        return metric_in_words(self.metric)

    @property
    def _with_all_trees(self) -> str:
        first, second = self.n_trees
        return f"with {how_many(first, 'tree')}" + ("" if first == second else f" and {second:,}")

    @property
    def _verdict(self) -> str:
        now, limit = self.at_hand.better, self.at_hand.better if self.limit is None else self.limit.better
        if now == limit:
            if now is None:
                return (
                    f"the difference of {self._words} is within noise: the rows and trees do not tell which is better"
                )
            return f"the {now} setting has the better {self._words}"
        if now is None:
            return (
                f"with unlimited trees the {limit} setting has the better {self._words}; with the trees at hand the "
                "difference is within noise"
            )
        rest = "that is within noise" if limit is None else f"the {limit} has"
        return f"the {now} setting has the better {self._words} at hand; with unlimited trees {rest}"

    def _said(self, difference: Difference) -> str:
        value, low, high = self._in_digits(difference.value, *difference.interval)
        return f"first minus second {value} (95 % interval {low} to {high})"

    def _in_digits(self, *values: float) -> tuple[str, ...]:
        """Values of the metric, with as many digits as the interval of the difference is worth."""
        digits = decimals(self.at_hand.interval)
        return tuple(f"{value:.{digits}f}".replace("-", "−") for value in values)


def compare(first: TreeOutputs, second: TreeOutputs, *, metric: MetricLike | None = None) -> Comparison:
    """Compare two forests by a metric: which is better, by how much, and whether the difference is noise.

    Train one forest with each setting and ask both about the same rows. The settings may differ in anything:
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
        The difference with the trees at hand and with infinitely many trees, each with a 95 % interval.

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
    The interval covers forests of other seeds and other rows. It assumes that the trees of the two forests are
    independent, so it is a little too wide if one seed gave both forests the same bags. It does not cover training
    data of another size. If you compare many settings, the best of them looks better than it is.

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
    >>> found = rfsize.compare(*(rfsize.tree_outputs(one, X, y, oob=True) for one in (deep, flat)), metric="brier")
    >>> found.at_hand.better, found.limit.better
    ('first', 'first')
    >>> found.at_hand.interval[0] < found.at_hand.value < found.at_hand.interval[1] < 0
    True
    """
    pair = _of_the_same_rows(first, second)
    metric = usual_metric(pair[0]) if metric is None else metric
    judges, answers = [judge_of(metric, one) for one in pair], [_loss_of(metric, one) for one in pair]
    for one, answer in zip(pair, answers, strict=True):
        give((*answer.cautions, *warnings_for(one, of_labels=judges[0].name == "accuracy")))
    paired, rows, predicted = _paired(pair, judges)
    values = [value_of(judge, rows, part) for judge, part in paired.each(predicted)]
    noise, freedom = noise_of_rows(paired, rows, predicted, _units(pair, rows), pair[0].sample_weight)

    def difference(trees: list[int | None]) -> Difference:
        """The difference between forests of these numbers of trees; None means infinitely many."""
        known = [_at(*of) for of in zip(answers, values, trees, strict=True)]
        value = known[0].value - known[1].value
        sure = float(student.ppf(1.0 - TAIL, freedom)) * math.hypot(noise, known[0].noise, known[1].noise)
        low, high = value - sure, value + sure
        is_better = judges[0].worse * value < 0.0
        better = None if low <= 0.0 <= high else _WHICH[0 if is_better else 1]
        return Difference(value, (low, high), better)

    why = next(
        (lack for answer, one in zip(answers, pair, strict=True) if (lack := answer.cannot_tell(one.n_trees))), ""
    )
    return Comparison(
        metric=judges[0].name,
        values=(values[0], values[1]),
        n_trees=(first.n_trees, second.n_trees),
        at_hand=difference([first.n_trees, second.n_trees]),
        limit=None if why else difference([None, None]),
        why=why,
        source=first.source,
        n_rows=len(rows),
        n_dropped=_n_scored(pair) - len(rows),
    )


class _Known(NamedTuple):
    """The metric of forests of some size, and its standard error for other seeds."""

    value: float
    noise: float


def _at(answer: MetricAnswer, value: float, n_trees: int | None) -> _Known:
    """The metric of forests of ``n_trees`` trees (None: infinitely many), from its value with the trees asked."""
    lost, asked = answer.lost, max(1, round(answer.lost.asked))
    if n_trees is not None and n_trees <= asked:
        return _Known(value, lost.of_a_tree / math.sqrt(asked))
    low, high = answer.interval(asked)
    gained = answer.value(asked) if lost.is_significant else (low + high) / 2.0
    left = 1.0 if n_trees is None else 1.0 - answer.value(n_trees) / (answer.value(asked) or 1.0)
    sign = -1.0 if answer.larger_is_better else 1.0
    of_trees = lost.of_a_tree / math.sqrt(asked)
    return _Known(value - sign * left * gained, math.hypot(of_trees, left * (high - low) / (2.0 * _WIDE)))


def _loss_of(metric: MetricLike, outputs: TreeOutputs) -> MetricAnswer:
    """How much a metric loses because the forest has too few trees."""
    answer = answer_of(any_goal(metric), outputs)
    assert isinstance(answer, MetricAnswer)
    return answer


class _Paired(NamedTuple):
    """The metric of one forest minus the metric of another; their predictions stand in one array, side by side.

    Attributes
    ----------
    judges : list of Metric
        The metric of each forest.
    n_outputs : int
        How many columns of the predictions belong to the first forest.
    """

    judges: list[Metric]
    n_outputs: int

    def each(self, predicted: Floats) -> list[tuple[Metric, Floats]]:
        """The metric of each forest, with the predictions of that forest."""
        parts = predicted[..., : self.n_outputs], predicted[..., self.n_outputs :]
        return list(zip(self.judges, parts, strict=True))

    def value(self, rows: Int64s, predicted: Floats) -> float:
        """The difference on some rows."""
        first, second = (judge.value(rows, part) for judge, part in self.each(predicted))
        return first - second

    def influence(self, rows: Int64s, predicted: Floats) -> Floats | None:
        """What each row adds to the difference; None if a metric has no formula for it."""
        first, second = (judge.influence(rows, part) for judge, part in self.each(predicted))
        return None if first is None or second is None else first - second


def _paired(pair: list[TreeOutputs], judges: list[Metric]) -> tuple[_Paired, Int64s, Floats]:
    """The difference, the rows that both forests predicted, and both forests' predictions side by side."""
    found, is_asked = [], []
    for one, judge in zip(pair, judges, strict=True):
        assert one.scores is not None
        at = np.full(one.n_rows, -1)
        at[one.scores.number] = np.where(one.scores.asked > 0, np.arange(len(one.scores)), -1)
        is_asked.append(at)
        found.append((one.scores.mean, predictions_for(one, judge)))
    rows = np.flatnonzero((is_asked[0] >= 0) & (is_asked[1] >= 0))
    if len(rows) < 2:
        raise FewVotesError(
            f"only {how_many(len(rows), 'row')} of {pair[0].n_rows:,} have votes of both forests, too few to "
            "compare them: train more trees, or give rows that neither forest was trained on"
        )
    first, second = (predicted(mean[at[rows]]) for (mean, predicted), at in zip(found, is_asked, strict=True))
    return _Paired(judges, first.shape[1]), rows, np.concatenate([first, second], axis=1)


def _n_scored(pair: list[TreeOutputs]) -> int:
    """How many rows both forests scored; with very many rows and classes, one row in k."""
    first, second = (np.zeros(0) if one.scores is None else one.scores.number for one in pair)
    return len(np.intersect1d(first, second, assume_unique=True))


def _units(pair: list[TreeOutputs], rows: Int64s) -> Int64s:
    """The number of each row's group; without groups each row is a group of its own."""
    units = next((one.groups.units for one in pair if one.groups.units is not None), None)
    return rows if units is None else units[rows]


def _of_the_same_rows(first: TreeOutputs, second: TreeOutputs) -> list[TreeOutputs]:
    """Both outputs; ``ValueError`` if they are known to be of different rows."""
    for name, one in zip(_WHICH, (first, second), strict=True):
        if not isinstance(one, TreeOutputs):
            raise ValueError(
                f"the {name} is a {type(one).__name__}: give what rfsize.tree_outputs(model, X, y, oob=True) returns"
            )
        if one.y is None:
            raise ValueError(
                f"the {name} outputs have no y: a metric needs the truth of the rows, give it to tree_outputs"
            )
    pair = [first, second]
    for what, (one, other) in _told_of_rows(*pair).items():
        if one != other:
            raise ValueError(
                f"both outputs must be of the same rows and made in the same way, but {what} is {one} in the first "
                f"and {other} in the second: make both from one X and y"
            )
    truths = [_truth(one) for one in pair]
    differ = np.flatnonzero(truths[0] != truths[1])
    if len(differ):
        row = int(differ[0])
        found, other_found = (np.asarray(one.y)[row] for one in pair)
        raise ValueError(
            f"both outputs must be of the same rows in the same order, but y differs on {len(differ):,} of "
            f"{first.n_rows:,}: row {row} has {found} in the first and {other_found} in the second"
        )
    beside: dict[str, list[Any]] = {
        "sample_weight": [one.sample_weight for one in pair],
        "groups": [one.groups.units for one in pair],
    }
    for name, (weights_or_units, others) in beside.items():
        if (weights_or_units is None) != (others is None) or not np.array_equal(weights_or_units, others):
            raise ValueError(f"{name} of the first outputs is not that of the second: ask both forests with the same")
    return pair


def _told_of_rows(first: TreeOutputs, second: TreeOutputs) -> dict[str, tuple[Any, Any]]:
    """Facts that must be equal in both outputs."""
    return {
        "their source": (first.source, second.source),
        "the number of rows": (first.n_rows, second.n_rows),
        "the number of classes": (len(first.classes), len(second.classes)),
    }


def _truth(outputs: TreeOutputs) -> Any:
    """The truth: numbers of classes instead of the model's labels; for a regression unchanged."""
    y = outputs.y
    assert y is not None
    return class_indices(outputs.classes, y, outputs.n_rows) if len(outputs.classes) else y
