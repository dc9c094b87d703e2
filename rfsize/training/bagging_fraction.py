"""Choosing the bagging fraction: how many rows each tree of a forest should be trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.adapters.registry import adapter_for, integration_for
from rfsize.adapters.trainer import Trainer
from rfsize.counting.copies import resolved
from rfsize.counting.tree_outputs import VOTINGS
from rfsize.reporting.account import Account
from rfsize.reporting.result import Result
from rfsize.theory.sampling_ratio import DEFAULT_FRACTIONS, ratio_with_replacement
from rfsize.utils.matrix import n_rows
from rfsize.utils.progress import progress_bar
from rfsize.utils.table import from_polars
from rfsize.utils.validation import as_numbers, choice, refuse_unused, share, whole

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from rfsize.training.successive_halving import Candidate, Outcome


_FEWEST_TREES = 10


# Of the tree that tells what an estimator makes of its rows.
_ANY_FRACTION = 0.5

_SEARCHES = ("full", "elimination")


_RULES = ("best", "one-se")


@dataclass(frozen=True, eq=False)
class FractionSearch(Result):
    """The answer of `select_bagging_fraction`.

    Attributes
    ----------
    best : float
        The chosen fraction.
    curve : structured ndarray, shape (n_fractions,)
        One row per fraction, in ascending order, as of the last comparison that it took part in:

        - ``fraction``, ``trees``: what it was judged with;
        - ``error`` (or ``score``), ``standard_error``: over the choice of the rows;
        - ``difference``, ``difference_se``: how much worse than the best (above 0 is worse for scores too), and its
          standard error, paired row by row;
        - ``seconds``: spent on growing it;
        - ``dropped``: comparison after which it was dropped, counted from 1; 0 where it stayed to the end.
    params : dict or estimator
        The parameters, or a copy of the estimator, with this fraction, as `rfsize.grow` takes them.
    metric : str
        "error" where less is better, "score" where more is: the name of the column.
    rule, search : str
        As asked for.
    n_rows, n_dropped : int
        Rows compared on last, and those left out because some forest had no out-of-bag vote for them.
    of_labels : bool
        Whether the forests classify.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> params = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "verbosity": -1}
    >>> found = rfsize.select_bagging_fraction(params, lgb.Dataset(X, y), fractions=[0.2, 0.5], n_trees=50)
    >>> found.curve["fraction"].tolist(), found.trees_grown
    ([0.2, 0.5], 100)
    >>> bool(found.curve["error"].max() < 0.2)
    True
    """

    best: float
    params: Any
    curve: NDArray[np.void]
    metric: str
    rule: str
    search: str
    n_rows: int
    n_dropped: int
    of_labels: bool

    @property
    def trees_grown(self) -> int:
        """Trees that the search grew."""
        return int(self.curve["trees"].sum())

    def to_frame(self) -> pandas.DataFrame:
        """The curve as a pandas.DataFrame.

        Raises
        ------
        ImportError
            If there is no pandas.
        """
        import pandas

        return pandas.DataFrame(self.curve)

    def to_dict(self) -> dict[str, Any]:
        """The search as plain Python values that ``json`` can write, without `params`."""
        names = self.curve.dtype.names or ()
        rows = [dict(zip(names, row, strict=True)) for row in self.curve.tolist()]
        return {
            "best": self.best,
            "rule": self.rule,
            "search": self.search,
            "metric": self.metric,
            "n_rows": self.n_rows,
            "n_dropped": self.n_dropped,
            "curve": rows,
        }

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
        from rfsize.training.plots import plot_bagging_fraction

        return plot_bagging_fraction(self, ax)

    def _account(self) -> Account:
        from rfsize.training.account import search_account

        return search_account(self)

    def __str__(self) -> str:
        chosen = "the best" if self.rule == "best" else "the smallest within one standard error of the best"
        rows = f"{self.n_rows:,} rows, judged by the trees that did not see them"
        if self.n_dropped:
            rows += f"; {self.n_dropped:,} left out, which some forest had no such tree for"
        lines = [
            *_table(self),
            f"fraction {self.best:.3f} is {chosen} of {len(self.curve)}, worth a sampling ratio of "
            f"{ratio_with_replacement(self.best):.2f} with replacement",
            f"{self.trees_grown:,} trees grown; {rows}",
        ]
        return "\n".join(lines)

    __repr__ = __str__


def _table(search: FractionSearch) -> list[str]:
    """The curve in text, the chosen fraction marked."""
    shares = search.metric == "error" and search.of_labels
    columns = (search.metric, "standard_error", "difference", "difference_se")
    lines = [f"{'fraction':>9}{'trees':>7}{search.metric:>10}{'± s.e.':>10}{'worse by':>10}{'± s.e.':>10}"]
    for row in search.curve:
        numbers = "".join(f"{f'{row[name]:.2%}' if shares else f'{row[name]:.4g}':>10}" for name in columns)
        dropped = f"dropped after comparison {row['dropped']}" if row["dropped"] else ""
        mark = "*" if row["fraction"] == search.best else " "
        lines.append(f"{mark}{row['fraction']:>8.3f}{row['trees']:>7,}{numbers}  {dropped}".rstrip())
    return lines


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
    rule: Literal["best", "one-se"] = "best",
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    progress: bool = True,
    resume: str | PathLike[str] | None = None,
) -> FractionSearch:
    """Find the bagging fraction of least out-of-bag error.

    A forest is trained at each fraction, all from one seed and on data binned once, and each row is judged by the
    trees that did not see it. Standard bagging is worth a fraction of 1/2; on noisy problems a much smaller one is
    often better, and always faster.

    Parameters
    ----------
    params : dict or scikit-learn estimator
        Parameters of a LightGBM or XGBoost forest, or an estimator of LightGBM, XGBoost or scikit-learn, of trees; the
        bagging fraction and the number of trees that they name are not used.
    data : lightgbm.Dataset, xgboost.DMatrix or xgboost.QuantileDMatrix
        Training data with labels. For an estimator, what its ``fit`` takes.
    y : array_like, shape (n_rows,), optional
        Labels or numbers; only for an estimator.
    fractions : array_like, shape (n_fractions,), optional
        Fractions to compare, of rows drawn without replacement; by default 1/11, 2/12, … 12/22, which are worth 0.1,
        0.2, … 1.2 with replacement (`ratio_with_replacement`). An ensemble of scikit-learn that draws with replacement
        (``bootstrap=True``) draws as many rows as the fraction is worth, at most all of them: fractions up to 1/2.
    metric : str or callable, optional
        A scikit-learn scorer, or the name of one, where greater is better; by default the error of the labels, for
        regression the mean squared error. Where the training data have weights, they count.
    voting : {"auto", "hard", "soft"}, default "auto"
        Whether the labels that are judged are the majority of the trees' votes (``"hard"``), or those of their averaged
        scores, which ``predict`` goes by (``"soft"`` and ``"auto"``).
    n_trees : int, default 200
        Trees of each forest compared, or in a search by elimination of those compared last.
    search : {"full", "elimination"}, default "full"
        Whether all fractions are compared with ``n_trees`` trees, or half of them are dropped, and hopeless ones more,
        each time the number of trees has doubled. That takes at most a third of the trees.
    rule : {"best", "one-se"}, default "best"
        The fraction of the least error, or the smallest that is worse by no more than the standard error of its
        difference from the best.
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
    trainer, X, told, with_fraction = _what_trains(params, data, y, sample_weight)
    if fractions is None:
        fractions = [one for one in DEFAULT_FRACTIONS if one <= trainer.largest_fraction]
    grid = _checked_grid(fractions)
    plan = (grid_plan if search == "full" else elimination_plan)(len(grid), n_trees)

    belong = resolved(groups, X, len(trainer.label))
    seed = None if seed is None else whole("seed", seed, at_least=0)
    judge = judge_for(trainer, metric, voting)
    file = SearchFile(None if resume is None else Path(resume), trainer, told, seed, belong)
    candidates = [Candidate(trainer, fraction, seed, file, belong) for fraction in grid]
    for candidate in candidates:
        candidate.check_votes_to_come(n_trees)

    with progress_bar("bagging fractions", cost(plan), "trees", shown=progress) as bar:
        outcome = run(candidates, judge, plan, rule, bar)
    best = candidates[outcome.chosen].fraction
    return FractionSearch(
        best=best,
        params=with_fraction(best),
        curve=_curve(candidates, outcome, judge.name),
        metric=judge.name,
        rule=rule,
        search=search,
        n_rows=outcome.n_rows,
        n_dropped=len(trainer.label) - outcome.n_rows,
        of_labels=len(trainer.classes) > 0,
    )


class _Trained(NamedTuple):
    """What trains forests: the trainer, its rows, what it was told, and what gives that with another fraction."""

    trainer: Trainer
    X: Any
    told: dict[str, Any]
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
        return _Trained(trainer, X, params, trainer.with_fraction)
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
    told = {**params.get_params(), "estimator": type(params).__name__, "random_state": trainer.seed}
    return _Trained(
        trainer, X, told, lambda fraction: integration.with_fraction(clone(params), fraction, len(trainer.label))
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


def _curve(candidates: Sequence[Candidate], outcome: Outcome, metric: str) -> NDArray[np.void]:
    numbers = ("fraction", "trees", metric, "standard_error", "difference", "difference_se", "seconds", "dropped")
    kinds = {"trees": np.int64, "dropped": np.int64}
    rows = [
        (
            candidate.fraction,
            candidate.n_trees,
            verdict.value,
            verdict.value_se,
            verdict.behind,
            verdict.behind_se,
            candidate.seconds,
            verdict.dropped,
        )
        for candidate, verdict in zip(candidates, outcome.verdicts, strict=True)
    ]
    return np.array(rows, dtype=[(name, kinds.get(name, np.float64)) for name in numbers])
