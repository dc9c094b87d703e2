"""Chooses the bagging fraction: on how many rows to train each tree of a forest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import as_numbers, choice, in_percent, progress_bar, refuse_unused, share, whole
from rfsize.counting.count import Sums
from rfsize.counting.coverage import Coverage
from rfsize.counting.duplicates import resolve_groups
from rfsize.counting.groups import Groups
from rfsize.counting.outputs import VOTINGS
from rfsize.exceptions import FewVotesError
from rfsize.models.framework import read_forest, training_of
from rfsize.models.rows import n_rows_of
from rfsize.models.training import Trainer
from rfsize.theory.sampling_ratio import DEFAULT_FRACTIONS
from rfsize.training.fraction_search import FractionSearch

if TYPE_CHECKING:
    from rfsize.training.scoring import Comparison

_FEWEST_TREES = 10

# Bagging fraction of a first tree, which shows how the estimator reads its rows.
_ANY_FRACTION = 0.5

# A forest is at a disadvantage if its rows have less than this share of the votes that its fraction should leave.
_FAIR_SHARE = 0.5

_RULES = ("keep", "best")


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

    The search trains one forest with each fraction, and judges each row by the trees that did not see it. All forests
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
        Which labels are judged: those of the averaged scores, as in ``predict`` (``"soft"`` and ``"auto"``), or those
        of the majority vote (``"hard"``).
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
        The chosen fraction, and the curve. ``rfsize.grow(found.params, data)`` trains a forest with this fraction.

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
    >>> found = rfsize.select_bagging_fraction(params, data, fractions=[0.2, 0.5], n_trees=50)
    >>> found.best in (0.2, 0.5)
    True
    >>> booster, report = rfsize.grow(found.params, data, alpha=0.95)
    >>> booster.params["bagging_fraction"] == found.best
    True
    """
    from rfsize.training.scoring import judge_for  # here, because scikit-learn's scorers take long to import

    choice("rule", rule, _RULES)
    choice("voting", voting, VOTINGS)
    n_trees = whole("n_trees", n_trees, at_least=_FEWEST_TREES)
    trainer, X, own, with_fraction = _what_trains(params, data, y, sample_weight)
    if trainer.has_soft_labels:
        raise ValueError(
            "select_bagging_fraction compares predictions with classes, and the labels are soft, between 0 and 1: give "
            "labels 0 and 1 with weights, a row of each for every soft label"
        )
    if fractions is None:
        fractions = [fraction for fraction in DEFAULT_FRACTIONS if fraction <= trainer.largest_fraction]
    grid, own = _with_own(_checked_grid(fractions), own if rule == "keep" else None)

    belong = resolve_groups(groups, X, len(trainer.label))
    seed = None if seed is None else whole("seed", seed, at_least=0)
    judge = judge_for(trainer, metric, voting)
    grid, left_out = _with_enough_votes(grid, trainer, belong, n_trees)
    forests = _trained(grid, trainer, belong, n_trees, seed, progress)
    comparison = judge.compare([forest.out_of_bag for forest in forests])
    best = grid[_chosen(comparison, grid.index(own) if own in grid else None)]
    return FractionSearch(
        best=best,
        params=with_fraction(best),
        curve=_curve(grid, forests, comparison, n_trees, judge.name),
        metric=judge.name,
        rule=rule,
        own=own,
        left_out=left_out,
        n_rows=comparison.n_rows,
        n_dropped=len(trainer.label) - comparison.n_rows,
        of_labels=len(trainer.classes) > 0,
    )


def _left_out(trainer: Trainer, fraction: float, groups: Groups) -> NDArray[np.float64]:
    """For each row, the expected share of trees that see no row of its group; shape (n_rows,)."""
    sizes = np.ones(len(trainer.label)) if groups.sizes is None else groups.sizes
    return np.asarray(trainer.left_out(fraction) ** sizes)


def _with_enough_votes(
    grid: list[float], trainer: Trainer, groups: Groups, n_trees: int
) -> tuple[list[float], tuple[float, ...]]:
    """The fractions with which ``n_trees`` trees give rows enough votes to compare them, and those left out.

    Raises
    ------
    FewVotesError
        If there is no such fraction.
    """
    lacks, label = {}, trainer.label if len(trainer.classes) else None
    for fraction in grid:
        votes = Coverage(n_trees * _left_out(trainer, fraction, groups), n_trees, groups, y=label)
        problem = votes.problem(f"how good the bagging fraction {fraction:g} is")
        if problem is not None:
            lacks[fraction] = problem
    if len(lacks) == len(grid):
        fewest = lacks[grid[0]]
        raise FewVotesError(f"{fewest.message}; or give smaller fractions", enough=fewest.enough)
    return [fraction for fraction in grid if fraction not in lacks], tuple(lacks)


class _Forest(NamedTuple):
    """The out-of-bag outputs of a forest, and the seconds that its training took."""

    out_of_bag: Sums
    seconds: float


def _trained(
    grid: Sequence[float], trainer: Trainer, groups: Groups, n_trees: int, seed: int | None, progress: bool
) -> list[_Forest]:
    """A forest of ``n_trees`` trees for each fraction."""
    forests = []
    with progress_bar("bagging fractions", n_trees * len(grid), "trees", shown=progress) as bar:
        for fraction in grid:
            bar.set_postfix_str(f"fraction {fraction:.3f}", refresh=False)
            started = time.perf_counter()
            forest = trainer.start(fraction=fraction, seed=seed, groups=groups)
            forest.add(n_trees)
            forest.check_bags()
            forests.append(_Forest(forest.out_of_bag, time.perf_counter() - started))
            _check_votes(forest.out_of_bag, n_trees, fraction, float(_left_out(trainer, fraction, groups).mean()))
            bar.update(n_trees)
    return forests


def _check_votes(out_of_bag: Sums, n_trees: int, fraction: float, expected: float) -> None:
    found = float(out_of_bag.scores.asked.mean()) / n_trees
    if found < _FAIR_SHARE * expected:
        raise ValueError(
            f"at fraction {fraction:g} only {in_percent(found)} of the votes are out of bag, instead of "
            f"{in_percent(expected)}. XGBoost draws a bag for the tree of each class, and the class with the "
            "fewest out-of-bag trees decides how many votes a row has: grow more trees (n_trees), or with "
            "multi_strategy='multi_output_tree', from XGBoost 3.2 on, one tree and bag for all classes"
        )


def _chosen(comparison: Comparison, own: int | None) -> int:
    """Place of your own fraction if no other is better by more than noise, else of the best; of equals the smallest."""
    if own is not None and comparison.behind[own] <= comparison.behind_se[own]:
        return own
    return int(comparison.behind.argmin())


class _Trained(NamedTuple):
    """The trainer of the forests, its rows, the fraction of the given parameters, and a way to change it."""

    trainer: Trainer
    X: Any
    own: float | None
    with_fraction: Callable[[float], Any]


def _what_trains(params: Any, data: Any, y: Any, sample_weight: Any) -> _Trained:
    if isinstance(params, dict):
        refuse_unused(
            "labels and weights are in the Dataset or DMatrix. Leave it out, or give an estimator",
            y=y,
            sample_weight=sample_weight,
        )
        framework = training_of(data)
        X = framework.rows_of(data)
        trainer = framework.trainer(params, data)
        own = trainer.fraction if 0.0 < trainer.fraction < 1.0 else None
        return _Trained(trainer, X, own, trainer.with_fraction)
    # Here, because scikit-learn takes long to import.
    from sklearn.base import clone

    from rfsize.counting.cross_validation import of_size, rows_in_memory, tree_counts

    if not hasattr(params, "fit") or not tree_counts(params):
        raise ValueError(
            f"params is a {type(params).__name__}; give the parameters of a LightGBM or XGBoost forest, a dict, and "
            "its training data: select_bagging_fraction(params, data); or an estimator of trees, its rows and labels"
        )
    if y is None:
        raise ValueError("y is missing: an estimator is trained on X and y, as it is fitted")
    framework = training_of(params)
    X = rows_in_memory(data, "an estimator is fitted on rows in memory: give an array or a table")
    framework.check_estimator(params)
    weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
    one = framework.with_fraction(of_size(params, 1), _ANY_FRACTION, n_rows_of(X)).fit(X, y, **weighted)
    adapter = read_forest(one)
    adapter.open(X)
    trainer = framework.trainer_of(adapter, X, y, sample_weight)
    own = framework.fraction_of(params, n_rows_of(X))
    return _Trained(
        trainer,
        X,
        own,
        lambda fraction: framework.with_fraction(clone(params), fraction, len(trainer.label)),
    )


def _checked_grid(fractions: ArrayLike) -> list[float]:
    """The fractions in ascending order."""
    given = as_numbers("fractions", fractions)
    if given.ndim != 1 or not given.size:
        raise ValueError(f"fractions must be a list of at least one number, found {fractions!r}")
    grid = sorted(share("each of fractions", fraction) for fraction in given.tolist())
    if len(set(grid)) < len(grid):
        raise ValueError(f"fractions holds a fraction twice: {grid}; give each once")
    return grid


def _with_own(grid: list[float], own: float | None) -> tuple[list[float], float | None]:
    """The grid with your own fraction, and the value in the grid that stands for it."""
    if own is None:
        return grid, None
    near = [one for one in grid if math.isclose(one, own, rel_tol=1e-6)]
    return (grid, near[0]) if near else (sorted([*grid, own]), own)


def _curve(
    grid: list[float], forests: list[_Forest], comparison: Comparison, n_trees: int, metric: str
) -> NDArray[np.void]:
    columns = {
        "fraction": grid,
        "trees": np.full(len(grid), n_trees, dtype=np.int64),
        metric: comparison.value,
        "standard_error": comparison.value_se,
        "difference": comparison.behind,
        "difference_se": comparison.behind_se,
        "seconds": [forest.seconds for forest in forests],
    }
    curve = np.empty(len(grid), dtype=[(name, np.asarray(column).dtype) for name, column in columns.items()])
    for name, column in columns.items():
        curve[name] = column
    return curve
