"""oob_importance: how much worse a forest predicts out-of-bag rows after a column is shuffled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from rfsize._util import Caution, Floats, did_you_mean, give, how_many, share, whole
from rfsize.api.oob_score import known_out_of_bag
from rfsize.api.report import Report, completed, report_on_estimate, with_warnings
from rfsize.counting.coverage import FEWEST_VOTES
from rfsize.counting.groups import warning_of_copies
from rfsize.counting.outputs import TreeOutputs, coverage_of_means, task_of
from rfsize.counting.task import Task, check_truth
from rfsize.exceptions import ForestWarning
from rfsize.models.model import dependence_of
from rfsize.showing.html import Result, importances_page
from rfsize.showing.plots import plot_importances
from rfsize.showing.text_of_results import importances_text
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import Estimate
from rfsize.statistics.metric_estimate import few_rows
from rfsize.statistics.metrics import Metric
from rfsize.statistics.named_metrics import MetricLike, check_direction, check_metric
from rfsize.statistics.permutation import (
    PermutationLosses,
    centred_ranks,
    instability,
    permutation_losses,
    top_columns,
)

_FEWEST_ROWS = 15  # outside the largest class, from which on intervals hold

# The user lists some of the columns, or names sets of columns.
ColumnsLike = Iterable[str | int] | Mapping[str, str | int | Iterable[str | int]]


class Importance(NamedTuple):
    """How much the forest loses when a column, or a set of columns, is shuffled.

    Attributes
    ----------
    name : str
        Name of the column or the set.
    value : float
        By how much the metric becomes worse when the column is shuffled.
    interval : tuple of float
        95 % interval of ``value``, for other rows and other seeds.
    rank : int
        Rank among all columns; the most important column has rank 1.
    is_noise : bool
        Whether the interval reaches down to 0 or below, so that the column may not matter at all.
    """

    name: str
    value: float
    interval: tuple[float, float]
    rank: int
    is_noise: bool


@dataclass(frozen=True, eq=False)
class Importances(Result):
    """The answer of `rfsize.oob_importance`.

    Attributes
    ----------
    columns : tuple of Importance
        Importances of the columns, the most important first. ``pandas.DataFrame(importances.columns)`` makes a table.
    metric : str
        Name of the metric.
    score : float
        The metric out of bag with no column shuffled.
    available : int
        Number of trees in the forest.
    n_rows : int
        Number of rows that were used.
    votes_per_row : float
        Mean number of trees that predicted a row.
    groups : {"rows", "copies", "given", "unknown"}
        Which training rows belong together, as in `Report`.
    copied : float or None
        Share of the training rows that have a copy; None if rfsize did not look for copies.
    block_losses : ndarray of float64, shape (n_blocks, n_columns)
        Losses by block of trees, whose scatter shows what another seed would change. The columns are in the order of
        the forest, or of the ``columns`` that you gave.
    warnings : tuple
        Warnings about the forest and the rows.

    See Also
    --------
    oob_importance : Compute importances.
    Report : What ``size`` returns.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> importances = rfsize.oob_importance(forest, X, y, metric="auc")
    >>> importances["worst area"].is_noise
    False
    >>> importances.columns[0].rank
    1
    """

    columns: tuple[Importance, ...]
    metric: str
    score: float
    available: int
    n_rows: int
    votes_per_row: float
    groups: str
    copied: float | None
    block_losses: Floats
    warnings: tuple[Caution, ...] = ()

    def __getitem__(self, name: str) -> Importance:
        """The importance of a column or a set by its name; ``KeyError`` if there is no such name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"{name!r} was not shuffled: see [column.name for column in importances.columns]")

    def size(self, *, top: int | None = None, alpha: float = 0.95) -> Report:
        """How many trees you need until importances hardly depend on the seed.

        rfsize trains nothing again. The trees of a forest are independent draws, so the losses of its blocks of trees
        show how much the importances of two forests of any size would differ.

        Parameters
        ----------
        top : int, optional
            Compare which columns are among the ``top`` most important, whatever their order. By default the order of
            all columns is compared.
        alpha : float, default 0.95
            How alike two forests of different seeds must be, on average: Spearman's rank correlation of their
            importances. With ``top``, the share of the ``top`` columns that both have in common.

        Returns
        -------
        Report
            As `rfsize.size` returns: T* with a 95 % interval, and whether your forest has enough trees. T* is at least
            as large as out-of-bag importances need: ten trees a row. ``report.loss_at(n).value`` is 1 minus how alike
            two forests of n trees are.

        Raises
        ------
        ValueError
            If ``top`` is not at least 1 and below the number of columns, if ``alpha`` is not a share, or if there is
            only one column.

        Warns
        -----
        ForestWarning
            If the trees are not independent draws.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
        >>> importances = rfsize.oob_importance(forest, X, y)
        >>> report = importances.size(top=10, alpha=0.8)
        >>> report.loss_at(10).value > report.loss_at(1000).value
        True
        """
        if len(self.columns) < 2:
            raise ValueError("one column has no order: give at least two columns or sets")
        if top is not None:
            top = whole("top", top, at_least=1, at_most=len(self.columns) - 1)
        give(self.warnings)
        criterion = Criterion("importance", alpha=share("alpha", alpha), top=top)
        # How much the importances of two forests with different seeds differ, over their size.
        similarity = centred_ranks if top is None else top_columns(top)
        fewest = math.ceil(FEWEST_VOTES * self.available / self.votes_per_row)
        curve = instability(self.block_losses, self.available / len(self.block_losses), similarity, fewest)
        n_trees, notes = curve.size(criterion.level), []
        if n_trees == fewest:
            notes.append("fewer trees predict a row too rarely out of bag to measure importances")
        n_columns, matter = len(self.columns), sum(not column.is_noise for column in self.columns)
        if top is None and 0 < matter < n_columns:
            noise = f"{n_columns - matter} of {n_columns} columns may be noise, and their order takes the most trees"
            notes.append(f"{noise}: size(top={matter}) is about the other columns only")
        why_infinite = f"more than {curve.sizes[-1]:,} trees would be needed, since some columns matter equally"
        said: dict[str, Any] = {"why_infinite": why_infinite, "notes": tuple(notes)}
        estimate = Estimate(curve, n_trees, self.n_rows, 0, self.votes_per_row, **said)
        report = report_on_estimate(criterion, estimate, self.available, "oob", copied=self.copied, groups=self.groups)
        return completed(with_warnings(report, *self.warnings))

    plot = plot_importances
    page = importances_page
    __str__ = __repr__ = importances_text


def oob_importance(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    metric: MetricLike | None = None,
    groups: ArrayLike | str | None = None,
    columns: ColumnsLike | None = None,
) -> Importances:
    """Permutation importances out of bag: how much worse the forest becomes when you shuffle a column.

    You need no held-out rows, and rfsize trains nothing again: each training row is predicted by the trees that were
    not trained on it. The result also shows how the importances would differ with another seed.

    Parameters
    ----------
    model
        The trained model, as in `tree_outputs`; its members must be trees. Or the result of `tree_outputs` with
        ``oob=True``, without ``X`` and ``y``; give weights, seeds and the threshold there.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training, in memory.
    y : array_like, shape (n_rows,)
        Labels or numbers of the rows, as in training.
    metric : str or scorer, optional
        Classification: "brier" (the default), "log_loss" or "accuracy", for two classes also "auc" and
        "average_precision". Regression: "r2" (the default), "mae" or "rmse". Or a scorer of scikit-learn.
    groups
        As in `tree_outputs`. The intervals count the rows of a group as one draw.
    columns : list of str or int, or dict of str to such lists, optional
        Columns to shuffle, by name or number; all by default. A dict names sets of columns, and each set is shuffled
        as a whole: ``{"place": ["latitude", "longitude"]}``.

    Returns
    -------
    Importances
        For each column the loss with a 95 % interval, the rank, and whether the loss may be noise.

    Raises
    ------
    FewVotesError
        If on average fewer than ten trees predict a row out of bag, as in `oob_score`.
    NotAForestError, InbagError
        As in `oob_predict_proba`; or if the members of the model are not trees.
    ValueError
        If ``y`` is missing, if ``X``, the metric or ``columns`` do not fit the model, or if the rows lie in pieces or
        on workers.

    See Also
    --------
    oob_score : Score a forest without held-out rows.

    Notes
    -----
    Let :math:`M(X)` be the metric of the forest's out-of-bag predictions on the training rows. The loss of a column is
    by how much :math:`M(X')` is worse, where in :math:`X'` each row has the column of another row. All trees predict
    the same changed rows, by one permutation of them. This is the importance of the column to the forest. Breiman's
    [1]_ is that to a single tree on average. It is larger, because other trees stand in for one that is misled.

    The interval adds the variances over trees and over rows. The variance over trees comes from the jackknife over 20
    blocks of trees. The variance over rows takes into account that pairs with a common row vary together, and holds
    the noise of shuffling. The interval is for this way of training on these rows. It does not cover other training
    sets. If two columns hold the same information, each loses little by itself: shuffle them as a set. With fewer than
    15 rows outside the largest class the interval is too narrow, and ``warnings`` says so.

    Memory: one byte per row and tree, two bytes per row and column, a copy of the rows as floats if they are not
    floats, and a few hundred megabytes.

    References
    ----------
    .. [1] L. Breiman (2001). "Random forests." Machine Learning 45(1), 5-32.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> importances = rfsize.oob_importance(forest, X, y)
    >>> importances.metric, len(importances.columns)
    ('brier', 30)
    >>> sets = {"texture": ["mean texture", "worst texture"], "area": ["mean area", "worst area"]}
    >>> [column.name for column in rfsize.oob_importance(forest, X, y, metric="auc", columns=sets).columns]
    ['area', 'texture']
    """

    def check(task: Task) -> None:
        check_truth(task) if metric is None else check_metric(metric, task)
        _sets_of_columns(columns, task)

    outputs, on_rows = known_out_of_bag(model, X, y, groups, metric, "brier", check=check)
    check_direction(on_rows)
    task = task_of(outputs)
    sets, few = _sets_of_columns(columns, task), _warning_of_few(on_rows, outputs)
    coverage_of_means(outputs).check(f"what the {on_rows.label} loses")
    losses = permutation_losses(outputs, on_rows, list(sets.values()))
    return Importances(
        columns=_ranked(list(sets), losses),
        metric=on_rows.name,
        score=losses.score,
        available=outputs.n_trees,
        n_rows=losses.n_rows,
        votes_per_row=losses.votes_per_row,
        groups=outputs.groups.by,
        copied=outputs.groups.copied,
        block_losses=losses.block_losses,
        warnings=(*dependence_of(task.forest), *warning_of_copies(outputs.groups), *few),
    )


def _warning_of_few(metric: Metric, outputs: TreeOutputs) -> tuple[Caution, ...]:
    """A warning if so few rows are outside the largest class that they do not show how much importances vary."""
    n_few = few_rows(metric, outputs)
    if n_few is None or n_few >= _FEWEST_ROWS:
        return ()
    rows = f"only {how_many(n_few, 'row')} outside the largest class: the intervals of importances are too narrow"
    advice = f"and hold from {_FEWEST_ROWS} such rows on. Give more rows of the smaller classes"
    return (Caution(ForestWarning, f"{rows}, {advice}"),)


def _sets_of_columns(columns: ColumnsLike | None, task: Task) -> dict[str, list[int]]:
    """The sets of columns to shuffle, by name; ``ValueError`` if a name is unknown, or a column is there twice."""
    names = task.feature_names
    known = {name: number for number, name in enumerate(names)}

    def numbers(listed: Any) -> list[int]:
        is_list = isinstance(listed, Iterable) and not isinstance(listed, str)
        return [_number(column, known) for column in (listed if is_list else [listed])]

    if isinstance(columns, Mapping):
        sets = [(str(name), numbers(members)) for name, members in columns.items()]
    else:
        sets = [(names[number], [number]) for number in numbers(range(len(names)) if columns is None else columns)]
    if not all([sets, *(members for _, members in sets)]):
        raise ValueError("columns has nothing to shuffle, or an empty set: name columns, or leave it out")
    times = Counter(number for _, members in sets for number in set(members))
    twice = [names[number] for number, count in times.items() if count > 1]
    if twice:
        raise ValueError(f"columns names {twice[0]!r} twice: leave it out once, or make two calls")
    return dict(sets)


def _number(column: Any, known: dict[str, int]) -> int:
    """The number of a column that is named, or given by its number."""
    if isinstance(column, Integral) and not isinstance(column, bool) and 0 <= int(column) < len(known):
        return int(column)
    if isinstance(column, str) and column in known:
        return known[column]
    names = list(known)
    advice = f"the forest has {how_many(len(names), 'column')}, {names[0]!r} to {names[-1]!r}"
    raise ValueError(f"columns has {column!r}{did_you_mean(column, names)}, which is no column: {advice}")


def _ranked(names: list[str], losses: PermutationLosses) -> tuple[Importance, ...]:
    """The importance of each set with its intervals, the most important first."""
    numbers = losses.value, losses.half_width, rankdata(-losses.value, "min").astype(np.int64)
    importances = [
        Importance(name, loss, (loss - half, loss + half), rank, is_noise=loss <= half)
        for name, loss, half, rank in zip(names, *(of_columns.tolist() for of_columns in numbers), strict=True)
    ]
    return tuple(sorted(importances, key=lambda column: -column.value))
