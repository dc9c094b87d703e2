"""Forests trained on workers, block by block; Dask schedules the blocks, and repeats those of workers that are lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from rfsize._util import give, share, whole
from rfsize.api.report import Report
from rfsize.counting.groups import Groups, resolve_groups
from rfsize.counting.sums import Sums
from rfsize.dask.rows import checked_collection, parts_of, to_local
from rfsize.models.framework import framework_of_params, read_forest, training_named
from rfsize.models.link import Link
from rfsize.models.model import dependence_of, learning_rate_of
from rfsize.models.rows import for_training, joined, n_rows_of
from rfsize.models.training import ForestInTraining, Trainer
from rfsize.statistics.criterion import make_criterion
from rfsize.statistics.named_metrics import MetricLike
from rfsize.training.grow import Growth, checked_criterion, grow_until_enough
from rfsize.training.stopping_rule import StoppingRule

# How long to wait for a worker: a nanny restarts a lost one.
_SECONDS_WITHOUT_WORKERS = 60.0


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
        If there is no worker for a minute, if all workers that hold the rows are lost, or if several workers are lost
        while they train the same block.

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
    if not isinstance(params, dict):
        raise ValueError(
            f"params is a {type(params).__name__}, and workers train from a dict of parameters: give one, or call "
            "rfsize.grow"
        )
    framework, client = framework_of_params(params), checked_client(client)
    of_labels: dict[str, Any] = {"alpha": alpha, "voting": voting, "average": average}
    criterion = make_criterion(metric, tolerance, confidence=confidence, threshold=threshold, **of_labels)
    rule, trees_per_block = StoppingRule(min_trees, max_trees), whole("trees_per_block", trees_per_block, at_least=1)
    y = _one_per_row("label", label, client)
    sample_weight = None if weight is None else _one_per_row("weight", weight, client)
    threshold = share("threshold", 0.5 if threshold is None else threshold)
    job = _Job(uuid4().hex, framework, params, y, sample_weight, threshold, groups)
    with closing(_Workers(client, job, data)) as workers:
        forest = _ForestInBlocks(workers, trees_per_block)
        criterion = checked_criterion(criterion, forest.training_classes, y, sample_weight)
        model, report = grow_until_enough(Growth(criterion, forest, y, sample_weight), rule)
    read = read_forest(model)
    give((*dependence_of(read), *learning_rate_of(read)))
    return model, report


class _ForestInBlocks(ForestInTraining):
    """A forest that takes its trees in blocks, which can be trained anywhere and in any order.

    Its trees depend only on ``trees_per_block`` and on how many trees each call of `add` added: the last block of each
    can have fewer trees than the others.
    """

    def __init__(self, workers: _Workers, trees_per_block: int) -> None:
        self.training_classes, self.out_of_bag, self.link, self.groups = next(workers.results(_start, [()]))
        self.n_trees, self.threshold = 0, workers.job.threshold
        self._workers, self._trees_per_block, self._boosters = workers, trees_per_block, list[Any]()

    def add(self, n_trees: int) -> None:
        full, rest = divmod(whole("n_trees", n_trees, at_least=1), self._trees_per_block)
        sizes = [self._trees_per_block] * full + [rest] * bool(rest)
        blocks = list(enumerate(sizes, start=len(self._boosters)))
        # Added in the order of the blocks, because the last bits of a sum depend on the order.
        for booster, out_of_bag in self._workers.results(_train, blocks):
            self._boosters.append(booster)
            self.out_of_bag = self.out_of_bag.plus(out_of_bag)
        self.n_trees += n_trees

    def booster(self) -> Any:
        return training_named(self._workers.job.framework).merged(self._boosters)


# In this process


@dataclass(frozen=True, eq=False)
class _Job:
    """All that each worker needs besides the rows; ``token`` names the trainer that it keeps."""

    token: str
    framework: str
    params: dict[str, Any]
    y: NDArray[Any]
    sample_weight: NDArray[Any] | None
    threshold: float
    groups: ArrayLike | str | None


class _Workers:
    """The workers of a client with the training rows, until the forest is done."""

    def __init__(self, client: Any, job: _Job, X: Any) -> None:
        from dask.base import is_dask_collection

        self.job, self._client = job, client
        is_collection = is_dask_collection(X)
        X = checked_collection(X) if is_collection else X
        if len(getattr(X, "shape", ())) != 2:
            raise ValueError(
                f"data is a {type(X).__qualname__}; give rows, in Dask or in this process, with label and weight beside"
            )
        self._rows: list[Any] = client.scatter([job] if is_collection else [job, X], broadcast=True, hash=False)
        if is_collection:  # of which blocks are computed again if they are lost
            self._rows += client.compute(parts_of(X))

    def close(self) -> None:
        """Let the workers forget the rows and the trainer."""
        self._rows.clear()
        if self._client.status == "running":
            with suppress(Exception):  # a worker that is being lost has nothing left to forget
                self._client.run(_forget, self.job.token)

    def results(self, work: Any, pieces: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield the result of ``work(trainer, *piece)`` on a worker for each piece, in order.

        Raises
        ------
        RuntimeError
            If there is no worker left, or several were lost with the same piece of work.
        """
        from distributed import CancelledError
        from distributed.scheduler import KilledWorker

        def submitted(piece: tuple[Any, ...]) -> Any:
            return self._client.submit(_on_worker, work, piece, *self._rows, pure=False)

        futures = [submitted(piece) for piece in pieces]
        try:
            for number, piece in enumerate(pieces):
                try:
                    result = self._wait(futures[number])
                except CancelledError:  # the scheduler may forget a task while it learns that a worker is lost
                    result = self._wait(submitted(piece))
                futures[number] = None  # the workers need not keep it any longer
                yield result
        except (CancelledError, KilledWorker) as error:
            raise RuntimeError(
                "workers were lost, all that held the rows or several with the same block of trees: most likely they "
                "have too little memory for all rows, which each of them holds; give them more, or train on fewer rows"
            ) from error

    def _wait(self, future: Any) -> Any:
        from distributed import TimeoutError

        while True:
            try:
                return future.result(timeout=_SECONDS_WITHOUT_WORKERS)
            except TimeoutError:
                checked_client(self._client)


def checked_client(client: Any) -> Any:
    """The client, once it is checked: it must be connected, synchronous, and have workers.

    Raises
    ------
    ValueError
        If it is no connected, synchronous client.
    RuntimeError
        If there are no workers, and none join in time.
    """
    from distributed import Client, TimeoutError

    if not isinstance(client, Client):
        raise ValueError(f"client is a {type(client).__qualname__}, and workers train: give a distributed.Client")
    if client.asynchronous or client.status != "running":
        raise ValueError("the client is closed or asynchronous, and training waits for it: give distributed.Client()")
    try:
        client.wait_for_workers(1, timeout=_SECONDS_WITHOUT_WORKERS)
    except TimeoutError:
        seconds = f"{_SECONDS_WITHOUT_WORKERS:.0f} seconds"
        raise RuntimeError(f"no worker for {seconds}: start some, each with memory for all rows") from None
    return client


def _one_per_row(name: str, values: Any, client: Any) -> NDArray[Any]:
    """Labels or weights, brought to this process and checked."""
    numbers = np.asarray(to_local(values, client))
    if numbers.ndim != 1 or numbers.dtype.kind not in "biuf" or not np.isfinite(numbers).all():
        raise ValueError(f"{name} must hold one finite number per row of data; classes are 0 to K − 1")
    return numbers.astype(np.int64) if numbers.dtype.kind == "b" else numbers


# On a worker, which trains one block at a time with all of its threads


# By token of the job: the trainer, which holds all rows.
_TRAINERS: dict[str, Trainer] = {}
_LOCK = Lock()


def _on_worker(work: Any, piece: tuple[Any, ...], job: _Job, *parts: Any) -> Any:
    """The result of the work with the trainer of the job, which each worker makes once."""
    from distributed import get_worker

    # Dask starts workers with a limit of one thread for OpenMP.
    with _LOCK, threadpool_limits(get_worker().state.nthreads, user_api="openmp"):
        if job.token not in _TRAINERS:
            _TRAINERS[job.token] = _make_trainer(job, parts)
        return work(_TRAINERS[job.token], *piece)


def _make_trainer(job: _Job, parts: Sequence[Any]) -> Trainer:
    X = for_training(_all_rows(parts))
    for name, values in (("label", job.y), ("weight", job.sample_weight)):
        if values is not None and len(values) != n_rows_of(X):
            raise ValueError(f"{name} has {len(values):,} numbers, and data {n_rows_of(X):,} rows: give one for each")
    training = training_named(job.framework)
    params, dtrain = training.deterministic_data(job.params, X, job.y, job.sample_weight)
    rows, trainer = training.rows_of(dtrain), training.trainer(params, dtrain)
    trainer.threshold, trainer.groups = job.threshold, resolve_groups(job.groups, rows, len(trainer.label))
    return trainer


def _all_rows(parts: Sequence[Any]) -> Any:
    """The rows of all parts, in their order."""
    if len(parts) > 1 and hasattr(parts[0], "columns"):
        from dask.dataframe.dispatch import concat  # unites the categories of the parts

        return concat(list(parts))
    return joined(list(parts))


def _start(trainer: Trainer) -> tuple[NDArray[Any], Sums, Link, Groups]:
    """The properties that a forest has before it has trees."""
    forest = trainer.start()
    return trainer.classes, forest.out_of_bag, forest.link, forest.groups


def _train(trainer: Trainer, number: int, n_trees: int) -> tuple[Any, Sums]:
    """A booster with the trees of a block that follows ``number`` others, and their out-of-bag outputs."""
    forest = trainer.start_after(number)
    forest.add(n_trees)
    return forest.booster(), forest.out_of_bag


def _forget(token: str) -> None:
    _TRAINERS.pop(token, None)
