"""What a forest's trees say of rows on workers, counted where these lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from rfsize.adapters.base import Adapter, warn_of_dependence
from rfsize.adapters.registry import adapter_for
from rfsize.counting.copies import resolved
from rfsize.counting.counted import Counted
from rfsize.counting.forest_on_rows import ForestOnRows, PartOfRows
from rfsize.counting.tally import Tallied
from rfsize.dask.rows import BlocksOnWorkers
from rfsize.sizing.api import size as size_here
from rfsize.sizing.base import Report
from rfsize.sizing.named_metrics import MetricLike
from rfsize.sizing.oob_score import OobScore
from rfsize.sizing.oob_score import oob_score as oob_score_of_counted
from rfsize.utils.typing import Floats
from rfsize.voting.votes import Votes


def count(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    client: Any = None,
    oob: bool = False,
    layout: Sequence[Sequence[int]] | None = None,
    threshold: float = 0.5,
    sample_weight: Any = None,
    seed: int | None = None,
    subsample: float | None = None,
    groups: Any = None,
    missing: float | None = None,
) -> Counted:
    """Ask the trees about rows, block by block, where these lie.

    What travels is what is counted: 40 bytes a row where one score tells two classes, and besides what parts of the
    forest say, of all rows at most 400 MB. It is equal to what `rfsize.count` counts of the same rows in memory, to
    the last bit. With ``oob``, the proof takes 8 to 24 bytes of each block for each leaf of the forest, and sends up to
    24 for each row; copies are looked for by 72 bytes a row.

    Parameters
    ----------
    model
        As in `rfsize.count`, or an estimator that ``lightgbm.dask`` or ``xgboost.dask`` trained. It is sent to each
        worker once.
    X : dask.array.Array, dask.dataframe.DataFrame or xgboost.dask.DaskDMatrix, shape (n_rows, n_features)
        Rows that the forest was not trained on, in any chunks; or, with ``oob``, all training rows, in the partitions
        in which they were trained on.
    y : dask or NumPy array, or Series, shape (n_rows,), optional
        Labels of the rows, for metrics, and with ``oob`` as in `rfsize.inbag`; they are brought to this process.
    client : distributed.Client, optional
        Whose workers are asked; by default the client that is in use.
    oob : bool, default False
        Count on each row only the trees that did not see it in training. The bags are rebuilt and proven over the rows
        of all workers.
    layout : list of lists of int, optional
        With ``oob``, of a forest that several workers trained: for each worker the numbers of the partitions of ``X``
        that lay on it, in the order in which it held them. Each worker draws bags of its own rows. A DaskDMatrix keeps
        its layout; that of ``lightgbm.dask`` is known where each worker held one partition: ``[[0], [1]]`` for two. By
        default all rows lay on one machine, in their order.
    threshold, missing
        As in `rfsize.count`.
    sample_weight : dask or NumPy array, shape (n_rows,), optional
        Weights of the rows, for metrics, and with ``oob`` as in `rfsize.inbag`.
    seed, subsample, groups
        As in `rfsize.count`; only with ``oob``.

    Returns
    -------
    Counted
        What `rfsize.size`, `rfsize.truncate`, `rfsize.oob_predict` and `StopTable.build` take. What these ask of the
        rows again, which only single metrics do, is answered here, from a block of rows at a time.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees.
    InbagError
        If ``oob`` and the bags cannot be proven, as where the rows did not lie as ``layout`` says.
    ValueError
        If ``X`` or an option does not fit, or there is no client.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X[:300], y[:300])
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     counted = rfsize.dask.count(forest, da.from_array(X[300:], chunks=(100, -1)))
    >>> counted
    Counted(269 rows (rows given), 2 classes, 50 trees)

    Out of bag, of a forest that ``xgboost.dask`` trained:

    >>> from xgboost import dask as dxgb
    >>> params = {"objective": "binary:logistic", "num_parallel_tree": 50, "learning_rate": 1, "subsample": 0.5}
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     X_train, y_train = da.from_array(X, chunks=(200, -1)), da.from_array(y, chunks=200)
    ...     dtrain = dxgb.DaskDMatrix(client, X_train, y_train)
    ...     booster = dxgb.train(client, params, dtrain, num_boost_round=1)["booster"]
    ...     counted = rfsize.dask.count(booster, dtrain, y, oob=True)
    >>> counted
    Counted(569 rows (oob), 2 classes, 50 trees)
    """
    of_bags = {"seed": seed, "subsample": subsample, "groups": groups, "sample_weight": sample_weight}
    options: dict[str, Any] = {"client": client, "oob": oob, "layout": layout, "threshold": threshold, **of_bags}
    adapter = adapter_for(model, casts_votes=False, missing=missing)
    warn_of_dependence(adapter.shared_bags, adapter.seed_dependence)
    forest, tallied = _asked(adapter, X, y, missing=missing, **options)
    return Counted(forest, _here(y), _here(sample_weight), forest.told_by(tallied))


def votes(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    client: Any = None,
    oob: bool = False,
    layout: Sequence[Sequence[int]] | None = None,
    threshold: float = 0.5,
    sample_weight: Any = None,
    seed: int | None = None,
    subsample: float | None = None,
    groups: Any = None,
    missing: float | None = None,
) -> Votes:
    """Count how many trees vote for each class, row by row, where the rows lie.

    Parameters
    ----------
    model, X, y, client, oob, layout, threshold, sample_weight, seed, subsample, groups, missing
        As in `count`.

    Returns
    -------
    Votes
        Equal to those that `rfsize.votes` counts of the same rows in memory.

    Raises
    ------
    NotAForestError, InbagError, ValueError
        As in `count`.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from distributed import Client
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     found = rfsize.dask.votes(forest, da.from_array(X, chunks=(40, -1)))
    >>> found == rfsize.votes(forest, X)
    True
    """
    of_bags = {"seed": seed, "subsample": subsample, "groups": groups, "sample_weight": sample_weight}
    options: dict[str, Any] = {"client": client, "oob": oob, "layout": layout, "threshold": threshold, **of_bags}
    adapter = adapter_for(model, missing=missing)
    _, tallied = _asked(adapter, X, y, missing=missing, **options)
    return Votes(tallied.counts, adapter.classes, adapter.n_trees)


def size(
    model: Any,
    X: Any,
    y: ArrayLike | Any = None,
    *,
    client: Any = None,
    oob: bool = False,
    layout: Sequence[Sequence[int]] | None = None,
    threshold: float = 0.5,
    sample_weight: Any = None,
    seed: int | None = None,
    subsample: float | None = None,
    groups: Any = None,
    missing: float | None = None,
    max_rows: int | Literal["auto"] | None = None,
    **goal: Any,
) -> Report:
    """How many trees are enough: `rfsize.size` of what `count` counts.

    Parameters
    ----------
    model, X, y, client, oob, layout, threshold, sample_weight, seed, subsample, groups, missing
        As in `count`.
    max_rows : int or "auto", optional
        As in `rfsize.size`. Those drawn, and no others, are brought to this process.
    **goal
        ``alpha``, ``voting``, ``average``, ``estimator``, ``criterion`` and ``tolerance`` as in `rfsize.size`.

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
    of_bags = {"seed": seed, "subsample": subsample, "groups": groups, "sample_weight": sample_weight}
    options: dict[str, Any] = {"client": client, "oob": oob, "layout": layout, "threshold": threshold, **of_bags}
    if max_rows is not None:
        of_rows = {"threshold": threshold, "sample_weight": _here(sample_weight), "missing": missing, "oob": oob}
        return size_here(model, BlocksOnWorkers(X, client).pieces(), _here(y), max_rows=max_rows, **of_rows, **goal)
    report: Report = size_here(count(model, X, y, missing=missing, **options), **goal)
    return report


def oob_score(
    model: Any,
    X: Any,
    y: Any,
    *,
    metric: MetricLike | None = None,
    client: Any = None,
    layout: Sequence[Sequence[int]] | None = None,
    threshold: float = 0.5,
    sample_weight: Any = None,
    seed: int | None = None,
    subsample: float | None = None,
    groups: Any = None,
    missing: float | None = None,
) -> OobScore:
    """The out-of-bag score by any metric: `rfsize.oob_score` of what `count` counts with ``oob=True``.

    Parameters
    ----------
    model, X, y, client, layout, threshold, sample_weight, seed, subsample, groups, missing
        As in `count`, with ``oob=True``.
    metric : str or callable, optional
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
    of_bags = {"seed": seed, "subsample": subsample, "groups": groups, "sample_weight": sample_weight}
    options: dict[str, Any] = {"client": client, "layout": layout, "threshold": threshold, **of_bags}
    return oob_score_of_counted(count(model, X, y, oob=True, missing=missing, **options), metric=metric)


def _asked(
    adapter: Adapter,
    X: Any,
    y: Any,
    *,
    client: Any,
    oob: bool,
    layout: Sequence[Sequence[int]] | None,
    threshold: float,
    sample_weight: Any,
    seed: int | None,
    subsample: float | None,
    groups: Any,
    missing: float | None,
) -> tuple[ForestOnRows, Tallied]:
    """The forest on the rows, and what its trees say of them, their bags proven; arguments as in `count`."""
    threshold = adapter.checked_threshold(threshold)
    if not oob and (groups is not None or layout is not None):
        raise ValueError(
            "groups and layout say which trees saw a training row, and oob=False asks all trees about all rows: leave "
            "them out, or give the training rows with oob=True"
        )
    blocks = BlocksOnWorkers(X, client)
    blocks.tell_missing(adapter, missing)
    forest = ForestOnRows(adapter, blocks.pieces(), None, threshold)
    if oob:
        bags = adapter.laid_out_bags(blocks.layout(layout), _here(y), _here(sample_weight), seed, subsample)
        forest = replace(forest, bags=bags, groups=resolved(_here(groups), forest.X, blocks.n_rows))
    return forest, forest.joined(blocks.each(_tallied, adapter, forest.part))


def _tallied(block: Any, adapter: Adapter, part: PartOfRows) -> tuple[Tallied, list[Floats]]:
    """On a worker: what the trees say of a block of the rows."""
    return part.tallied(adapter, adapter.check(block))


def _here(values: Any) -> Any:
    """Values in this process."""
    return np.asarray(values.compute()) if hasattr(values, "compute") else values
