"""Choosing the bagging fraction: how many rows each tree of a forest should be trained on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.adapters.registry import adapter_for, integration_for, trainer_for
from rfsize.adapters.trainer import Trainer
from rfsize.counting.copies import resolved
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.reporting.account import Account
from rfsize.reporting.result import Result
from rfsize.sizing.base import Report
from rfsize.sizing.copies_warning import noting_copies
from rfsize.sizing.goal import Goal, LabelGoal, check_goal, goal_of
from rfsize.sizing.named_metrics import MetricLike
from rfsize.sizing.reports import report_by, report_for
from rfsize.training.grown import grown
from rfsize.training.sampling_ratio import DEFAULT_FRACTIONS, ratio_with_replacement
from rfsize.utils.progress import progress_bar
from rfsize.utils.validation import as_numbers, choice, refuse_unused, share, whole
from rfsize.utils.warn import give

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from rfsize.training.successive_halving import Candidate, Outcome


_FEWEST_TREES = 10


_SEARCHES = ("full", "elimination")


_RULES = ("best", "one-se")


_SURE = 0.8


_UNKNOWN = (math.nan, math.nan, math.nan)


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
        - ``size``, ``size_low``, ``size_high``: T* at this fraction and its 95 % interval; NaN where a regression
          forest was to have none, and for fractions dropped early, whose few trees do not tell;
        - ``seconds``: spent on growing it;
        - ``dropped``: comparison after which it was dropped, counted from 1; 0 where it stayed to the end.
    booster : lightgbm.Booster or xgboost.Booster
        A forest of the chosen fraction that is 80 % sure to have T* trees (``report.wanted``); a regression forest that
        was to have no T*, of ``n_trees`` trees.
    report : SizeReport, DeviationReport or None
        What that size rests on.
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
    >>> found = rfsize.select_bagging_fraction(params, lgb.Dataset(X, y), [0.2, 0.5], n_trees=50, alpha=0.95)
    >>> found.curve["fraction"].tolist(), found.trees_grown
    ([0.2, 0.5], 100)
    >>> bool(found.curve["error"].max() < 0.2)
    True
    """

    best: float
    curve: NDArray[np.void]
    booster: Any
    report: Report | None
    metric: str
    rule: str
    search: str
    n_rows: int
    n_dropped: int
    of_labels: bool

    @property
    def trees_grown(self) -> int:
        """Trees that the search grew, without those that the chosen forest took to reach T*."""
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
        """The search as plain Python values that ``json`` can write; sizes that are infinite or unknown are None."""
        names = self.curve.dtype.names or ()
        rows = [dict(zip(names, row, strict=True)) for row in self.curve.tolist()]
        return {
            "best": self.best,
            "rule": self.rule,
            "search": self.search,
            "metric": self.metric,
            "n_rows": self.n_rows,
            "n_dropped": self.n_dropped,
            "curve": [{name: _plain(value) for name, value in row.items()} for row in rows],
            "report": None if self.report is None else self.report.to_dict(),
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the out-of-bag curve with its standard errors and the chosen fraction, and T* at each fraction below it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw the curve, without T*; by default a new figure with both.

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
        return "\n".join(lines if self.report is None else [*lines, str(self.report)])

    __repr__ = __str__


def _plain(value: float | int) -> float | int | None:
    return value if math.isfinite(value) else None


def _table(search: FractionSearch) -> list[str]:
    """The curve in text, the chosen fraction marked."""
    shares = search.metric == "error" and search.of_labels
    columns = (search.metric, "standard_error", "difference", "difference_se")
    size = "" if search.report is None else search.report.target
    heading = f"{'fraction':>9}{'trees':>7}{search.metric:>10}{'± s.e.':>10}{'worse by':>10}{'± s.e.':>10}{size:>11}"
    lines = [heading.rstrip()]
    for row in search.curve:
        numbers = "".join(f"{f'{row[name]:.2%}' if shares else f'{row[name]:.4g}':>10}" for name in columns)
        size = "" if math.isnan(row["size"]) else f"{row['size']:,.0f}"
        dropped = f"dropped after comparison {row['dropped']}" if row["dropped"] else ""
        mark = "*" if row["fraction"] == search.best else " "
        lines.append(f"{mark}{row['fraction']:>8.3f}{row['trees']:>7,}{numbers}{size:>11}  {dropped}".rstrip())
    return lines


def select_bagging_fraction(
    params: dict[str, Any],
    dtrain: Any,
    fractions: ArrayLike | None = None,
    *,
    n_trees: int = 200,
    search: Literal["full", "elimination"] = "full",
    rule: Literal["best", "one-se"] = "best",
    scoring: str | Callable[..., Any] | None = None,
    alpha: float | None = None,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    criterion: MetricLike = "label",
    tolerance: float | None = None,
    groups: ArrayLike | str | None = None,
    seed: int | None = None,
    progress: bool = True,
    resume: str | PathLike[str] | None = None,
    max_trees: int = 5000,
) -> FractionSearch:
    """Find the bagging fraction of least out-of-bag error, and grow a forest of it to T*.

    A forest is trained at each fraction, all from one seed and on data binned once, and each row is judged by the
    trees that did not see it. Standard bagging is worth a fraction of 1/2; on noisy problems a much smaller one is
    often better, and always faster.

    Parameters
    ----------
    params : dict
        Parameters of a LightGBM or XGBoost forest; the bagging fraction that they name is not used.
    dtrain : lightgbm.Dataset, xgboost.DMatrix or xgboost.QuantileDMatrix
        Training data with labels.
    fractions : array_like, shape (n_fractions,), optional
        Fractions to compare, of rows drawn without replacement; by default 1/11, 2/12, … 12/22, which are worth 0.1,
        0.2, … 1.2 with replacement (`ratio_with_replacement`).
    n_trees : int, default 200
        Trees of each forest compared, or in a search by elimination of those compared last.
    search : {"full", "elimination"}, default "full"
        Whether all fractions are compared with ``n_trees`` trees, or half of them are dropped, and hopeless ones more,
        each time the number of trees has doubled. That takes at most a third of the trees.
    rule : {"best", "one-se"}, default "best"
        The fraction of the least error, or the smallest that is worse by no more than the standard error of its
        difference from the best.
    scoring : str or callable, optional
        A scikit-learn scorer, or the name of one, where greater is better; by default the error of the labels, for
        regression the mean squared error. Where the training data have weights, they count.
    alpha : float, default 0.99
        Confidence α of T*(α), strictly between 0 and 1; only for labels.
    voting : {"auto", "hard", "soft"}, default "auto"
        Whether labels are the majority of the trees' votes ("hard"), or those of their averaged scores, which
        ``predict`` goes by ("soft" and "auto"): what is judged, and what T*(α) is of. Only for labels.
    average : {"micro", "macro"}, default "micro"
        Over what agreement is averaged, as in `size`: rows, or the classes that they are given. Only for labels.
    estimator : {"auto", "plugin", "smooth"}, default "auto"
        As in `size`; only for labels.
    criterion, tolerance
        What T* is of, as in `grow`. A regression forest has a T* by ``criterion="score"`` only, and keeps ``n_trees``
        trees without one.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `grow`.
    seed : int, optional
        Seed of all forests; by default the one that ``params`` name.
    progress : bool, default True
        Show a progress bar when the search takes long.
    resume : path, optional
        A file in which every forest's votes are kept as it is done. Run again with the same file, parameters, data
        and seed, the search takes them from there; another rule, scoring or grid may use it too.
    max_trees : int, default 5000
        Trees that the forest returned may grow to on its way to T*.

    Returns
    -------
    FractionSearch
        The chosen fraction, the curve, and a sized forest.

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

    Warns
    -----
    NotConvergedWarning
        If ``max_trees`` are fewer than T*, or leave it unsure.
    CopiesWarning
        As in `size`.

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
    >>> found = rfsize.select_bagging_fraction(params, lgb.Dataset(X, y), [0.2, 0.5], n_trees=50, alpha=0.95)
    >>> found.best in (0.2, 0.5)
    True
    >>> found.booster.num_trees() == found.report.wanted
    True
    """
    # Here, because scikit-learn's scorers take long to import.
    from rfsize.training.checkpoint import SearchFile
    from rfsize.training.scoring import judge_for
    from rfsize.training.successive_halving import Candidate, cost, elimination_plan, grid_plan, run

    if not isinstance(params, dict):
        raise ValueError(
            f"params is a {type(params).__name__}; give the parameters of a LightGBM or XGBoost forest, a dict, and "
            "its training data: select_bagging_fraction(params, dtrain)"
        )
    grid = _checked_grid(fractions)
    choice("search", search, _SEARCHES)
    choice("rule", rule, _RULES)
    of_labels = {"alpha": alpha, "voting": voting, "average": average, "estimator": estimator}
    goal = goal_of(criterion, tolerance, sure=_SURE, **of_labels)
    n_trees = whole("n_trees", n_trees, at_least=_FEWEST_TREES)
    max_trees = whole("max_trees", max_trees, at_least=1)
    plan = (grid_plan if search == "full" else elimination_plan)(len(grid), n_trees)

    X = integration_for(dtrain).rows_of(dtrain)
    trainer = trainer_for(params, dtrain)
    belong = resolved(groups, X, len(trainer.label))
    seed = None if seed is None else whole("seed", seed, at_least=0)
    if is_sized := len(trainer.classes) > 0 or not isinstance(goal, LabelGoal):
        check_goal(goal, len(trainer.classes), in_training=True)
    else:
        refuse_unused(
            "a regression forest has no labels, and no T* unless a criterion and a tolerance are given. Give both, or "
            f"leave out {' and '.join(name for name, value in of_labels.items() if value is not None)}",
            **of_labels,
        )
    judge = judge_for(trainer, scoring, goal.voting if isinstance(goal, LabelGoal) else "auto")
    file = SearchFile(None if resume is None else Path(resume), trainer, params, seed, belong)
    candidates = [Candidate(trainer, fraction, seed, file, belong) for fraction in grid]
    for candidate in candidates:
        candidate.check_votes_to_come(n_trees)
    with progress_bar("bagging fractions", cost(plan), "trees", shown=progress) as bar:
        outcome = run(candidates, judge, plan, rule, bar)
    sized_by = goal if is_sized else None
    curve = _curve(trainer, candidates, outcome, judge.name, sized_by)
    chosen = candidates[outcome.chosen]
    booster, report = _sized(trainer, chosen, n_trees, sized_by, max_trees, progress)
    if report is not None:
        rows = (booster, X, trainer.label, trainer.weight)
        report = noting_copies(report, belong, lambda groups: report_by(groups, *rows, goal=goal))
        give(report.warnings)
    return FractionSearch(
        best=chosen.fraction,
        curve=curve,
        booster=booster,
        report=report,
        metric=judge.name,
        rule=rule,
        search=search,
        n_rows=outcome.n_rows,
        n_dropped=len(trainer.label) - outcome.n_rows,
        of_labels=len(trainer.classes) > 0,
    )


def _checked_grid(fractions: ArrayLike | None) -> list[float]:
    """The fractions in ascending order."""
    given = as_numbers("fractions", DEFAULT_FRACTIONS if fractions is None else fractions)
    if given.ndim != 1 or not given.size:
        raise ValueError(f"fractions must be a list of at least one number, found {fractions!r}")
    grid = sorted(share("each of fractions", fraction) for fraction in given.tolist())
    if len(set(grid)) < len(grid):
        raise ValueError(f"fractions holds a fraction twice: {grid}; give each once")
    return grid


def _curve(
    trainer: Trainer, candidates: Sequence[Candidate], outcome: Outcome, metric: str, goal: Goal | None
) -> NDArray[np.void]:
    numbers = ("fraction", "trees", metric, "standard_error", "difference", "difference_se")
    kinds = {"trees": np.int64, "dropped": np.int64}
    names = (*numbers, "size", "size_low", "size_high", "seconds", "dropped")
    rows = [
        (
            candidate.fraction,
            candidate.n_trees,
            verdict.value,
            verdict.value_se,
            verdict.behind,
            verdict.behind_se,
            *(_UNKNOWN if verdict.dropped else _size(trainer, candidate, goal)),
            candidate.seconds,
            verdict.dropped,
        )
        for candidate, verdict in zip(candidates, outcome.verdicts, strict=True)
    ]
    return np.array(rows, dtype=[(name, kinds.get(name, np.float64)) for name in names])


def _size(trainer: Trainer, candidate: Candidate, goal: Goal | None) -> tuple[float, float, float]:
    """T* and its interval from what the candidate was judged by."""
    if goal is None:
        return _UNKNOWN
    of_candidate = candidate.out_of_bag, candidate.n_trees, trainer.link
    outputs = TreeOutputs.out_of_bag(*of_candidate, groups=candidate.groups)
    report = report_for(goal, outputs.with_truth(trainer.label, trainer.weight))
    return report.n_trees, *report.interval


def _sized(
    trainer: Trainer, chosen: Candidate, n_trees: int, goal: Goal | None, max_trees: int, progress: bool
) -> tuple[Any, Report | None]:
    """The chosen forest, grown on or cut down to T*."""
    if goal is None:
        if chosen.n_trees < n_trees:
            chosen.grow_to(n_trees)
        return chosen.forest().booster(), None
    forest = chosen.forest()
    report = grown(forest, goal, (trainer.label, trainer.weight), max_trees=max_trees, min_trees=1, progress=progress)
    return adapter_for(forest.booster(), casts_votes=False).truncated(report.n_kept), report
