"""Forests trained on workers, block by block, each worker with all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from rfsize._util import give, share, whole
from rfsize.counting.duplicates import resolve_groups
from rfsize.dask.blocks import checked_collection, parts_of
from rfsize.dask.clients import checked_client, here
from rfsize.dask.held import HeldOnWorkers
from rfsize.models.framework import framework_of_params, read_forest, training_named
from rfsize.models.model import dependence_of, learning_rate_of
from rfsize.models.rows import for_training, joined, n_rows_of
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.goals.named import goal_of
from rfsize.sizing.named_metrics import MetricLike
from rfsize.sizing.report import Report
from rfsize.training.blocks import Beginning, Block, ForestInBlocks, TrainedBlock, trained
from rfsize.training.growing import Growth
from rfsize.training.until_enough import UntilEnough

# How long the others wait for a paused worker.
_SECONDS_FOR_PAUSED = 1.0


def grow(
    client: Any,
    params: dict[str, Any],
    data: Any,
    label: Any,
    *,
    weight: Any = None,
    alpha: float | None = None,
    voting: str | None = None,
    average: str | None = None,
    threshold: float | None = None,
    metric: MetricLike = "auto",
    tolerance: float | None = None,
    confidence: float = 0.8,
    max_trees: int = 5000,
    min_trees: int = 100,
    groups: ArrayLike | str | None = None,
    trees_per_block: int = 20,
) -> tuple[Any, Report]:
    """Train a random forest on Dask's workers until it has T* trees, in blocks of trees.

    Each worker holds all rows, and trains one block of trees at a time with all of its threads. The forest does not
    depend on the number of workers or threads, nor on which worker trained which block. If a worker is lost, another
    worker trains its block.

    Parameters
    ----------
    client : distributed.Client
        The client of the workers that train.
    params : dict
        Training parameters, as for `lightgbm.train` (with ``boosting="rf"``) or `xgboost.train` (with a ``subsample``;
        rfsize sets the number of parallel trees). LightGBM trains with ``deterministic=True`` and
        ``force_col_wise=True``.
    data : dask.array.Array, dask.dataframe.DataFrame, ndarray, DataFrame or sparse matrix, shape (n_rows, n_features)
        Training rows, on the workers in any chunks, or in this process.
    label : dask or NumPy array, or Series, shape (n_rows,)
        Labels of the rows, as numbers; classes are 0 to K − 1.
    weight : dask or NumPy array, or Series, shape (n_rows,), optional
        Weights of the rows.
    alpha, voting, average, threshold, metric, tolerance, confidence, max_trees, min_trees, groups
        As in `rfsize.grow`.
    trees_per_block : int, default 20
        Number of trees that a worker trains at a time. Another number gives another forest.

    Returns
    -------
    booster
        The trained forest, as in `rfsize.grow`. rfsize proved which rows each tree was trained on; `rfsize.inbag` knows
        them.
    report : Report
        The report that ended the training.

    Raises
    ------
    NotAForestError, InbagError, FewVotesError
        As in `rfsize.grow`.
    ValueError
        If an argument does not fit, or the client is closed.
    RuntimeError
        If there is no worker for a minute, or if several workers are lost while they train the same block.

    Warns
    -----
    NotConvergedWarning, LabelsOnlyWarning, ForestWarning
        As in `rfsize.grow`.

    See Also
    --------
    rfsize.grow : Train in this process.

    Notes
    -----
    Each worker receives the rows once and keeps them until the forest is done. The rows of a collection also stay
    where they lie, for workers that join later. Each block sends back its trees and their out-of-bag outputs. With two
    classes these take 28 bytes a row, and up to 12 MB in all to show how the trees' errors are correlated; more classes
    take more.

    With weights and in regression, XGBoost's sums depend on the number of threads. Each worker then trains with the
    ``nthread`` in ``params``, by default with one thread.

    Examples
    --------
    >>> import lightgbm
    >>> import rfsize.dask
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> params = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.632, "verbosity": -1}
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     booster, report = rfsize.dask.grow(client, params, X, y, alpha=0.95)
    >>> booster.num_trees() == report.n_kept
    True
    """
    framework, client = framework_of_params(_checked_parameters(params)), checked_client(client)
    of_labels = {"alpha": alpha, "voting": voting, "average": average}
    goal = goal_of(metric, tolerance, confidence=confidence, threshold=threshold, **of_labels)
    until = UntilEnough(min_trees, max_trees)
    trees_per_block = whole("trees_per_block", trees_per_block, at_least=1)
    given = _Given(
        framework,
        params,
        _one_per_row("label", label, client),
        None if weight is None else _one_per_row("weight", weight, client),
        share("threshold", 0.5 if threshold is None else threshold),
        groups,
    )
    rows = _RowsForWorkers(client, data)
    if rows.n_rows is not None:
        given.check(rows.n_rows)
    with HeldOnWorkers(client, "rfsize-grow", partial(rows.sent_to, given), _TrainerOnWorker) as workers:
        growth = _growth(workers, given, goal, trees_per_block)
        model, report = growth.to_size(until)
    adapter = read_forest(model)
    give((*dependence_of(adapter), *learning_rate_of(adapter)))
    return model, report


@dataclass(frozen=True, eq=False)
class _Given:
    """What each worker needs besides the rows."""

    framework: str
    params: dict[str, Any]
    label: NDArray[Any]
    weight: NDArray[Any] | None
    threshold: float
    groups: ArrayLike | str | None

    def check(self, rows: int) -> None:
        """Raise ``ValueError`` if labels or weights do not fit the number of rows."""
        if not rows:
            raise ValueError("data has no rows")
        for name, values in (("label", self.label), ("weight", self.weight)):
            if values is not None and len(values) != rows:
                raise ValueError(
                    f"{name} must hold one number per row of data: {rows:,} rows, {len(values):,} numbers found"
                )


class _RowsForWorkers:
    """Training rows of a collection, or of this process, for every worker.

    Parameters
    ----------
    client : distributed.Client
        The client of the workers.
    X : dask.array.Array, dask.dataframe.DataFrame, or rows in memory
        The rows.

    Attributes
    ----------
    n_rows : int or None
        Number of rows; None if it is not known before they are computed.

    Raises
    ------
    ValueError
        If ``X`` is neither a collection nor rows in memory.
    """

    def __init__(self, client: Any, X: Any) -> None:
        from dask.base import is_dask_collection

        self._client = client
        in_memory = not is_dask_collection(X)
        if not in_memory:
            X = checked_collection(X)
        if len(getattr(X, "shape", ())) != 2:
            raise ValueError(
                f"data is a {type(X).__module__}.{type(X).__qualname__}; give Dask arrays or DataFrames, or "
                "arrays, DataFrames or sparse matrices of this process, as rows and features, with label and "
                "weight beside them"
            )
        self.n_rows = int(X.shape[0]) if isinstance(X.shape[0], Integral) else None
        self._here: list[Any] = [X] if in_memory else []
        self._parts: list[Any] = [] if in_memory else client.compute(parts_of(X))

    def sent_to(self, more: Any, address: str) -> list[Any]:
        """Send the rows and ``more`` to the worker at an address; returns their futures."""
        sent = self._client.scatter([more, *self._here], workers=[address], hash=False, timeout=_SECONDS_FOR_PAUSED)
        return [*sent, *self._parts]


def _all_rows(parts: Sequence[Any]) -> Any:
    """The rows of all parts, in their order."""
    if len(parts) > 1 and hasattr(parts[0], "columns"):
        from dask.dataframe.dispatch import concat  # unites the categories of the parts

        return concat(list(parts))
    return joined(list(parts))


class _TrainerOnWorker:
    """The object on each worker: it holds all rows, and trains on them with all threads of the worker."""

    def __init__(self, threads: int, given: _Given, *parts: Any) -> None:
        X = for_training(_all_rows(parts))
        given.check(n_rows_of(X))
        training = training_named(given.framework)
        params, dtrain = training.deterministic_data(given.params, X, given.label, given.weight)
        self._threads, self._threshold, rows = threads, given.threshold, training.rows_of(dtrain)
        with self._all_threads():
            self._trainer = training.trainer(params, dtrain)
            self._groups = resolve_groups(given.groups, rows, len(self._trainer.label))

    def beginning(self) -> Beginning:
        """The forest without trees: its classes, labels and weights."""
        return Beginning.of(self._trainer, self._threshold, self._groups)

    def trained(self, *block: int) -> TrainedBlock:
        """Train one block of trees."""
        with self._all_threads():
            return trained(self._trainer, Block(*block), self._threshold, self._groups)

    def _all_threads(self) -> Any:
        """Let the frameworks use all threads by OpenMP; Dask starts workers with a limit of one thread."""
        return threadpool_limits(self._threads, user_api="openmp")

    def __reduce__(self) -> Any:
        raise TypeError("a trainer stays on its worker: it is neither moved nor spilled")


def _growth(workers: HeldOnWorkers, given: _Given, goal: Goal, trees_per_block: int) -> Growth:
    """The growth of a forest that gets its trees from the workers."""
    beginning = workers.once(_TrainerOnWorker.beginning)
    goal = goal.checked(len(beginning.classes), given.label, in_training=True)
    train = partial(workers.each, _TrainerOnWorker.trained)
    forest = ForestInBlocks(beginning, train, training_named(given.framework).merged, trees_per_block)
    return Growth(goal, forest, (beginning.label, beginning.weight))


def _checked_parameters(params: Any) -> dict[str, Any]:
    if hasattr(params, "fit"):
        raise ValueError(
            f"params is a {type(params).__name__}; workers train from the parameters of a booster, a dict: give those, "
            "or grow the estimator in this process by rfsize.grow"
        )
    if not isinstance(params, dict):
        raise ValueError(f"params must be the training parameters, a dict, found a {type(params).__name__}")
    return params


def _one_per_row(name: str, values: Any, client: Any) -> NDArray[Any]:
    """Labels or weights, brought to this process and checked."""
    found = np.asarray(here(values, client))
    if found.ndim != 1 or found.dtype.kind not in "biuf" or not np.isfinite(found).all():
        raise ValueError(
            f"{name} must hold one finite number per row of data (classes are 0 to K − 1), found "
            f"{'nothing' if values is None else f'{found.dtype} of shape {found.shape}, such as {found.ravel()[:3]}'}"
        )
    return found.astype(np.int64) if found.dtype.kind == "b" else found
