"""Chooses the bagging fraction: on how many rows to train each tree of a forest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.adapters.registry import adapter_for, integration_for
from rfsize.adapters.trainer import Trainer
from rfsize.counting.copies import resolved
from rfsize.counting.evidence import VOTINGS
from rfsize.theory.sampling_ratio import DEFAULT_FRACTIONS
from rfsize.training.fraction_search import FractionSearch
from rfsize.utils.matrix import n_rows
from rfsize.utils.progress import progress_bar
from rfsize.utils.rows import from_polars
from rfsize.utils.validation import as_numbers, choice, refuse_unused, share, whole

if TYPE_CHECKING:
    from rfsize.training.successive_halving import Candidate, Outcome


_FEWEST_TREES = 10


# Bagging fraction of a first tree, which shows how the estimator reads its rows.
_ANY_FRACTION = 0.5

_SEARCHES = ("full", "elimination")


_RULES = ("keep", "best", "one-se")


def select_bagging_fraction(
    params: Any,
    data: Any,
    y: ArrayLike | None = None,
    *,
    fractions: ArrayLike | None = None,
    metric: str | Callable[..., Any] | None = None,
    voting: Literal["auto", "hard", "soft"] = "auto",
    n_trees: int = 200,
    search: Literal["full", "elimination"] = "full",
    rule: Literal["keep", "best", "one-se"] = "keep",
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    progress: bool = True,
    resume: str | PathLike[str] | None = None,
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
        with replacement. It can draw all rows at most, so fractions go up to 1/2.
    metric : str or callable, optional
        A scikit-learn scorer or its name; greater is better. By default the error of the labels, or the mean squared
        error of a regression. Weights of the training data count.
    voting : {"auto", "hard", "soft"}, default "auto"
        Which labels are judged: those of the averaged scores, as in ``predict`` (``"soft"`` and ``"auto"``), or those
        of the majority vote (``"hard"``).
    n_trees : int, default 200
        Number of trees of each forest; with ``search="elimination"``, of the forests in the last comparison.
    search : {"full", "elimination"}, default "full"
        ``"full"`` compares all fractions with ``n_trees`` trees. ``"elimination"`` drops the worse half of the
        fractions each time the number of trees has doubled, and hopeless fractions besides. It takes at most a third of
        the trees, and a third to a half of the time.
    rule : {"keep", "best", "one-se"}, default "keep"
        ``"keep"`` chooses your own fraction, unless the error of another is smaller by more than the standard error of
        the difference. If ``params`` name no fraction, it chooses the best. ``"best"`` chooses the fraction with the
        smallest error. ``"one-se"`` chooses the smallest fraction that is worse than the best by at most the standard
        error of the difference. This standard error is over other rows and other trees.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `grow`.
    sample_weight : array_like, shape (n_rows,), optional
        Training weights; only for an estimator.
    seed : int, optional
        Seed of all forests; by default the seed in ``params``.
    progress : bool, default True
        Show a progress bar if the search takes long.
    resume : path, optional
        A file that keeps the votes of each finished forest. If the search stops early, run it again with the same file,
        parameters, data and seed to continue. Another rule, metric or list of fractions can use the same file.

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
        If with some fraction the rows, or the rows of one class, would have fewer than ten out-of-bag votes each.
    ValueError
        If an option or the data do not fit, or the file was written for other parameters, data or another seed.

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
    # Here, because scikit-learn's scorers take long to import.
    from rfsize.training.checkpoint import SearchFile
    from rfsize.training.scoring import judge_for
    from rfsize.training.successive_halving import Candidate, cost, elimination_plan, grid_plan, run

    choice("search", search, _SEARCHES)
    choice("rule", rule, _RULES)
    choice("voting", voting, VOTINGS)
    n_trees = whole("n_trees", n_trees, at_least=_FEWEST_TREES)
    trainer, X, asked_for, own, with_fraction = _what_trains(params, data, y, sample_weight)
    if trainer.has_soft_labels:
        raise ValueError(
            "select_bagging_fraction compares predictions with classes, and the labels are soft, between 0 and 1: give "
            "labels 0 and 1 with weights, a row of each for every soft label"
        )
    if fractions is None:
        fractions = [one for one in DEFAULT_FRACTIONS if one <= trainer.largest_fraction]
    grid, own = _with_own(_checked_grid(fractions), own if rule == "keep" else None)
    plan = (grid_plan if search == "full" else elimination_plan)(len(grid), n_trees)

    belong = resolved(groups, X, len(trainer.label))
    seed = None if seed is None else whole("seed", seed, at_least=0)
    judge = judge_for(trainer, metric, voting)
    file = SearchFile(None if resume is None else Path(resume), trainer, asked_for, seed, belong)
    candidates = [Candidate(trainer, fraction, seed, file, belong) for fraction in grid]
    for candidate in candidates:
        candidate.check_votes_to_come(n_trees)

    with progress_bar("bagging fractions", cost(plan), "trees", shown=progress) as bar:
        outcome = run(candidates, judge, plan, rule, None if own is None else grid.index(own), bar)
    best = candidates[outcome.chosen].fraction
    return FractionSearch(
        best=best,
        params=with_fraction(best),
        curve=_curve(candidates, outcome, judge.name),
        metric=judge.name,
        rule=rule,
        own=own,
        search=search,
        n_rows=outcome.n_rows,
        n_dropped=len(trainer.label) - outcome.n_rows,
        of_labels=len(trainer.classes) > 0,
    )


class _Trained(NamedTuple):
    """The trainer of the forests, its rows, the given parameters, their fraction, and a way to change the fraction."""

    trainer: Trainer
    X: Any
    asked_for: dict[str, Any]
    own: float | None
    with_fraction: Callable[[float], Any]


def _what_trains(params: Any, data: Any, y: Any, sample_weight: Any) -> _Trained:
    if isinstance(params, dict):
        refuse_unused(
            "labels and weights are in the Dataset or DMatrix. Leave it out, or give an estimator",
            y=y,
            sample_weight=sample_weight,
        )
        integration = integration_for(data)
        X = integration.rows_of(data)
        trainer = integration.trainer(params, data)
        own = trainer.fraction if 0.0 < trainer.fraction < 1.0 else None
        return _Trained(trainer, X, params, own, trainer.with_fraction)
    # Here, because scikit-learn takes long to import.
    from sklearn.base import clone

    from rfsize.counting.training_data import of_size, tree_counts

    if not hasattr(params, "fit") or not tree_counts(params):
        raise ValueError(
            f"params is a {type(params).__name__}; give the parameters of a LightGBM or XGBoost forest, a dict, and "
            "its training data: select_bagging_fraction(params, data); or an estimator of trees, its rows and labels"
        )
    if y is None:
        raise ValueError("y is missing: an estimator is trained on X and y, as it is fitted")
    integration, X = integration_for(params), from_polars(data)
    integration.check_estimator(params)
    weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
    one = integration.with_fraction(of_size(params, 1), _ANY_FRACTION, n_rows(X)).fit(X, y, **weighted)
    adapter = adapter_for(one, casts_votes=False)
    X = adapter.check(X)
    trainer = integration.trainer_of(adapter, X, y, sample_weight)
    asked_for = {**params.get_params(), "estimator": type(params).__name__, "random_state": trainer.seed}
    own = integration.fraction_of(params, n_rows(X))
    return _Trained(
        trainer,
        X,
        asked_for,
        own,
        lambda fraction: integration.with_fraction(clone(params), fraction, len(trainer.label)),
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


def _curve(candidates: Sequence[Candidate], outcome: Outcome, metric: str) -> NDArray[np.void]:
    numbers = ("fraction", "trees", metric, "standard_error", "difference", "difference_se", "seconds", "dropped")
    kinds = {"trees": np.int64, "dropped": np.int64}
    rows = [
        (candidate.fraction, candidate.n_trees, *verdict[:-1], candidate.seconds, verdict.dropped)
        for candidate, verdict in zip(candidates, outcome.verdicts, strict=True)
    ]
    return np.array(rows, dtype=[(name, kinds.get(name, np.float64)) for name in numbers])
