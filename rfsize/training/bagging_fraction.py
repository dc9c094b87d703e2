"""Choosing the bagging fraction: how many rows each tree of a forest should be trained on."""

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


# Of the tree that tells what an estimator makes of its rows.
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

    One forest is trained with each fraction, and each row is judged by the trees that did not see it. All forests share
    a seed and data that are binned once. Standard bagging is worth a fraction of 1/2; on noisy problems a much smaller
    one may be better, and is always faster. On many problems no fraction is better than another by more than noise.

    Parameters
    ----------
    params : dict or scikit-learn estimator
        Parameters of a LightGBM or XGBoost forest, or an estimator of LightGBM, XGBoost or scikit-learn, of trees; the
        number of trees that they name is not used.
    data : lightgbm.Dataset, xgboost.DMatrix or xgboost.QuantileDMatrix
        Training data with labels. For an estimator, what its ``fit`` takes.
    y : array_like, shape (n_rows,), optional
        Labels or numbers; only for an estimator.
    fractions : array_like, shape (n_fractions,), optional
        Fractions to compare, of rows drawn without replacement, with ``rule="keep"`` beside your own; by default 1/11,
        2/12, … 12/22, which are worth 0.1, 0.2, … 1.2 with replacement (`ratio_with_replacement`). An ensemble of
        scikit-learn that draws with replacement (``bootstrap=True``) draws as many rows as the fraction is worth, at
        most all of them: fractions up to 1/2.
    metric : str or callable, optional
        A scikit-learn scorer, or the name of one, where greater is better; by default the error of the labels, for
        regression the mean squared error. Where the training data have weights, they count.
    voting : {"auto", "hard", "soft"}, default "auto"
        Which labels are judged: those of the averaged scores, as ``predict`` gives them (``"soft"`` and ``"auto"``), or
        of the majority of the trees' votes (``"hard"``).
    n_trees : int, default 200
        Trees of each forest; with ``search="elimination"``, trees of the forests that are compared last.
    search : {"full", "elimination"}, default "full"
        With ``"full"``, all fractions are compared with ``n_trees`` trees. With ``"elimination"``, the worse half of
        the fractions is dropped each time the number of trees has doubled, and hopeless fractions besides. It takes at
        most a third of the trees, and a third to a half of the time.
    rule : {"keep", "best", "one-se"}, default "keep"
        ``"keep"`` chooses your own fraction, unless another has a smaller error by more than the standard error of the
        difference; where ``params`` name no fraction, the best. ``"best"`` chooses the fraction of the least error, and
        ``"one-se"`` the smallest that is worse by no more than the standard error of the difference. The standard error
        is over other rows and other trees.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `grow`.
    sample_weight : array_like, shape (n_rows,), optional
        Training weights; only for an estimator.
    seed : int, optional
        Seed of all forests; by default the one that ``params`` name.
    progress : bool, default True
        Show a progress bar when the search takes long.
    resume : path, optional
        A file in which every forest's votes are kept as it is done. Run again with the same file, parameters, data
        and seed, the search takes them from there; another rule, metric or grid may use it too.

    Returns
    -------
    FractionSearch
        The chosen fraction, and the curve; ``rfsize.grow(found.params, data)`` trains a forest of it.

    Raises
    ------
    NotAForestError
        If the parameters do not train a forest of independent trees.
    InbagError
        If its bags cannot be rebuilt and proven.
    FewVotesError
        If a fraction would leave rows, or those of a class, fewer than ten out-of-bag votes to be judged by.
    ValueError
        If an option or the data do not fit, or the file was written for others.

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
    """What trains forests: the trainer, its rows, the parameters asked for, their fraction, and what gives another."""

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
    """The grid with your own fraction, and that fraction as the grid has it."""
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
