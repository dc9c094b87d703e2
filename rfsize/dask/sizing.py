"""How many trees a forest needs, and how good it is, by rows on workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from rfsize.adapters.registry import adapter_for
from rfsize.dask.clients import here
from rfsize.dask.counting import count
from rfsize.dask.forest import ForestOnWorkers
from rfsize.sizing.api import cut_to, sized
from rfsize.sizing.base import Report
from rfsize.sizing.goal import Goal, LabelGoal, goal_of
from rfsize.sizing.named_metrics import MetricLike
from rfsize.sizing.oob_score import OobScore, refuse_threshold
from rfsize.sizing.oob_score import oob_score as oob_score_of_counted
from rfsize.utils.warn import give


def size(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    client: Any = None,
    alpha: float | None = None,
    oob: bool = False,
    layout: Sequence[Sequence[int]] | None = None,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: MetricLike = "label",
    tolerance: float | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    seed: int | None = None,
    subsample: float | None = None,
    missing: float | None = None,
    max_rows: int | Literal["auto"] | None = None,
) -> Report:
    """How many trees are enough: `rfsize.size` of rows on workers.

    What travels is 28 bytes a row where one score tells two classes, for a metric what `count` sends; with
    ``max_rows="auto"`` some ten thousand rows, however many there are.

    Parameters
    ----------
    model, X, y, client, oob, layout, groups, sample_weight, seed, subsample, missing
        As in `count`.
    alpha, voting, average, estimator, threshold, criterion, tolerance
        As in `rfsize.size`.
    max_rows : int or "auto", optional
        As in `rfsize.size`; those drawn, and no others, are brought to this process.

    Returns
    -------
    SizeReport, DeviationReport or MetricReport
        Equal to that of the same rows in memory.

    Raises
    ------
    NotAForestError, InbagError, ValueError
        As in `count`.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X[:300], y[:300])
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     report = rfsize.dask.size(forest, da.from_array(X[300:], chunks=(100, -1)), alpha=0.95)
    >>> report.n_trees == rfsize.size(forest, X[300:], alpha=0.95).n_trees
    True
    """
    of_labels: dict[str, Any] = {"alpha": alpha, "voting": voting, "average": average, "estimator": estimator}
    goal = goal_of(criterion, tolerance, threshold=threshold, **of_labels)
    of_rows: dict[str, Any] = {"sample_weight": sample_weight, "client": client, "oob": oob, "layout": layout}
    of_rows |= {"groups": groups, "seed": seed, "subsample": subsample, "missing": missing, "threshold": threshold}
    report = _report(model, X, y, goal, max_rows=max_rows, **of_rows)
    give(report.noted)
    return report


def _report(
    model: Any,
    X: Any,
    y: Any,
    goal: Goal,
    *,
    sample_weight: Any,
    client: Any,
    missing: float | None,
    threshold: float | None,
    max_rows: int | str | None,
    both: bool = True,
    **of_rows: Any,
) -> Report:
    adapter = adapter_for(model, casts_votes=isinstance(goal, LabelGoal), missing=missing)
    y, sample_weight, at = here(y, client), here(sample_weight, client), 0.5 if threshold is None else threshold
    of_rows |= {"client": client, "missing": missing}
    forest = ForestOnWorkers.asked(adapter, X, y, sample_weight, threshold=at, **of_rows)
    return sized(forest, goal, y, sample_weight, max_rows, both=both)


def truncate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    client: Any = None,
    alpha: float | None = None,
    oob: bool = False,
    layout: Sequence[Sequence[int]] | None = None,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: MetricLike = "label",
    tolerance: float | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    seed: int | None = None,
    subsample: float | None = None,
    missing: float | None = None,
    max_rows: int | Literal["auto"] | None = None,
) -> Any:
    """A forest of the first T* trees, of the same type as ``model``: `rfsize.truncate` by rows on workers.

    Parameters
    ----------
    model, X, y, client, oob, layout, groups, sample_weight, seed, subsample, missing
        As in `count`; the model is not changed.
    alpha, voting, average, estimator, threshold, criterion, tolerance, max_rows
        As in `size`.

    Returns
    -------
    model of the caller's type
        As by `rfsize.truncate`.

    Raises
    ------
    NotAForestError, InbagError, ValueError
        As in `count`.

    Warns
    -----
    NotConvergedWarning, LabelsOnlyWarning, CopiesWarning
        As by `rfsize.truncate`.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X[:300], y[:300])
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     small = rfsize.dask.truncate(forest, da.from_array(X[300:], chunks=(100, -1)), alpha=0.95)
    >>> len(small.estimators_) < 100
    True
    """
    of_labels: dict[str, Any] = {"alpha": alpha, "voting": voting, "average": average, "estimator": estimator}
    goal = goal_of(criterion, tolerance, threshold=threshold, **of_labels)
    of_rows: dict[str, Any] = {"sample_weight": sample_weight, "client": client, "oob": oob, "layout": layout}
    of_rows |= {"groups": groups, "seed": seed, "subsample": subsample, "missing": missing, "threshold": threshold}
    report = _report(model, X, y, goal, max_rows=max_rows, both=False, **of_rows)
    return cut_to(report, adapter_for(model, casts_votes=False))


def oob_score(
    model: Any,
    X: Any,
    y: Any,
    *,
    metric: MetricLike | None = None,
    client: Any = None,
    layout: Sequence[Sequence[int]] | None = None,
    threshold: float | None = None,
    sample_weight: Any = None,
    seed: int | None = None,
    subsample: float | None = None,
    groups: Any = None,
    missing: float | None = None,
) -> OobScore:
    """The out-of-bag score by any metric: `rfsize.oob_score` of what `count` counts with ``oob=True``.

    Parameters
    ----------
    model, X, y, client, layout, sample_weight, seed, subsample, groups, missing
        As in `count`, with ``oob=True``.
    metric, threshold
        As in `rfsize.oob_score`.

    Returns
    -------
    OobScore
        Equal to that of the same rows in memory.

    Raises
    ------
    FewVotesError, NotAForestError, InbagError, ValueError
        As by `count` and `rfsize.oob_score`.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from xgboost import dask as dxgb
    >>> X, y = (da.from_array(part, chunks=200) for part in load_breast_cancer(return_X_y=True))
    >>> params = {"objective": "binary:logistic", "num_parallel_tree": 50, "learning_rate": 1, "subsample": 0.5}
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     dtrain = dxgb.DaskDMatrix(client, X, y)
    ...     booster = dxgb.train(client, params, dtrain, num_boost_round=1)["booster"]
    ...     score = rfsize.dask.oob_score(booster, dtrain, y, metric="auc")
    >>> score.value > 0.9
    True
    """
    if metric is not None:
        refuse_threshold(metric, threshold)
    of_bags = {"seed": seed, "subsample": subsample, "groups": groups, "sample_weight": sample_weight}
    options: dict[str, Any] = {"client": client, "layout": layout, **of_bags}
    options["threshold"] = 0.5 if threshold is None else threshold
    return oob_score_of_counted(count(model, X, y, oob=True, missing=missing, **options), metric=metric)
