"""Rows of Dask arrays and DataFrames: they go down the trees, and are predicted, on the workers where they lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import how_many, refuse_unused, rows_bar
from rfsize.inference.compiled import CompiledForest
from rfsize.inference.rows import columns_of
from rfsize.models.bags import Layout
from rfsize.models.columns import Columns, places_of
from rfsize.models.framework import framework_of
from rfsize.models.model import Model
from rfsize.models.rows import Chunk, DistributedRows, Rows, in_memory, joined, open_rows


@dataclass(frozen=True)
class RowsOnWorkers:
    """The result of `rows`; its attributes are the arguments of `rows`."""

    X: Any
    layout: Sequence[Sequence[int]] | None = None
    client: Any = None

    def opened(self, forest: Model, *, oob: bool, missing: float | None) -> tuple[BlocksOnWorkers, Layout]:
        """The rows with the columns of the forest, and on which machine each of them lay during training."""
        if not oob:
            refuse_unused("all trees vote on all rows", ", or give training rows with oob=True", layout=self.layout)
        blocks = BlocksOnWorkers(self.X, self.client, forest.columns)
        if (held := blocks.collection) is not None:
            refuse_unused("X was made with its own missing value", missing=missing)
            if not math.isnan(held.missing):
                forest.read_as_missing(held.missing)
        return blocks, blocks.layout(self.layout)


def rows(X: Any, *, layout: Sequence[Sequence[int]] | None = None, client: Any = None) -> RowsOnWorkers:
    """Say which worker held which rows of a Dask collection during training, and which client to use.

    You need this only to give a ``layout`` or a ``client``: `rfsize.tree_outputs`, `size`, `truncate`, `oob_score` and
    `StopTable.calibrate` take Dask arrays and DataFrames directly. The rows stay on the workers.

    Parameters
    ----------
    X : dask.array.Array, dask.dataframe.DataFrame or xgboost.dask.DaskDMatrix, shape (n_rows, n_features)
        Rows, in chunks of any lengths, known or unknown. Arrays whose chunks split rows are rechunked. A DaskDMatrix
        knows which worker held which rows, and which value means missing.
    layout : list of lists of int, optional
        With ``oob=True``: for each worker, the partitions of ``X`` that it held during training, in the worker's order
        (each worker draws bags from its own rows). By default one worker held all rows. Not with a DaskDMatrix, which
        knows its layout.
    client : distributed.Client, optional
        By default the client that is in use.

    Returns
    -------
    RowsOnWorkers
        Give this object in place of ``X``.

    See Also
    --------
    rfsize.size : Find how many trees are enough; takes such rows.
    rfsize.tree_outputs : Count the votes once for several questions; takes such rows.

    Notes
    -----
    What comes to your process: the trees' outputs (with two classes 28 to 40 bytes a row) and at most 400 MB besides.
    With ``oob``, proving the bags takes 8 to 24 bytes for each block and leaf, and sends up to 24 bytes a row to the
    workers; looking for copies takes 72 bytes a row. A calibration takes 32 kB for each block and class, and in
    addition at most 100 MB for the rows that the table is learnt from; with the majority vote, one byte for each tree
    and row, at most 256 MB in all.

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
    ...     there = rfsize.dask.rows(da.from_array(X[300:], chunks=(100, -1)), client=client)
    ...     outputs = rfsize.tree_outputs(forest, there)
    >>> outputs.votes == rfsize.tree_outputs(forest, X[300:]).votes
    True
    """
    return X if isinstance(X, RowsOnWorkers) else RowsOnWorkers(X, layout, client)


def client_in_use(client: Any) -> Any:
    """The given client, or the one in use; Dask's ``ValueError`` if there is none."""
    from distributed import default_client

    return default_client() if client is None else client


def to_local(values: Any, client: Any) -> Any:
    """The values, computed and brought to this process."""
    if not hasattr(values, "compute"):
        return values
    return np.asarray(client_in_use(client).compute(values).result())


def checked_collection(X: Any) -> Any:
    """A Dask array of two dimensions whose chunks hold whole rows, or a Dask DataFrame.

    Raises
    ------
    ValueError
        If ``X`` is neither.
    """
    import dask.array as da
    from dask.base import is_dask_collection

    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and features, found a Dask array of {X.ndim}")
        return X.rechunk({1: -1})
    if is_dask_collection(X) and hasattr(X, "map_partitions") and hasattr(X, "columns"):
        return X
    raise ValueError(
        f"X is a {type(X).__qualname__}, and rfsize.dask takes Dask arrays and DataFrames: give X to rfsize itself"
    )


def parts_of(X: Any) -> list[Any]:
    """The blocks of rows, each as a task that has not started."""
    parts = X.to_delayed()
    return list(np.ravel(parts)) if isinstance(parts, np.ndarray) else list(parts)


class BlocksOnWorkers(DistributedRows):
    """The blocks of rows of a Dask collection: to work on where they lie, or to bring to this process.

    Parameters
    ----------
    X : dask.array.Array, dask.dataframe.DataFrame or xgboost.dask.DaskDMatrix
        The rows.
    client : distributed.Client or None
        The client of the workers; by default the client that is in use.
    columns : Columns
        The columns of training, to which each block is brought on its worker.

    Raises
    ------
    ValueError
        If ``X`` is no such collection or has no rows, or if there is no client.
    """

    def __init__(self, X: Any, client: Any, columns: Columns) -> None:
        self.client, self.columns = client_in_use(client), columns
        framework = framework_of(X)
        training = None if framework is None else framework.training
        self.collection = None if training is None else training.held_on_workers(X)
        if self.collection is None:
            X = _with_columns(checked_collection(X), columns)
            parts, self.lengths = parts_of(X), _lengths(X, self.client)
        else:
            parts = self.collection.parts
            self.lengths = _lengths_of(parts, self.client)
        self.n_rows, self.n_features = int(self.lengths.sum()), columns.n_features
        if not self.n_rows:
            raise ValueError("X has no rows: give at least one")
        # A filter may have emptied some partitions.
        self._parts = [part for part, length in zip(parts, self.lengths, strict=True) if length]
        ends = np.cumsum(self.lengths[self.lengths > 0]).tolist()
        self._rows = [range(*bounds) for bounds in pairwise([0, *ends])]

    def layout(self, machines: Sequence[Sequence[int]] | None) -> Layout:
        """Which machine held which rows: as a framework's collection stores it, or by the partitions of each machine.

        By default one machine held all rows.

        Raises
        ------
        ValueError
            If ``machines`` is given although the collection stores it, or does not name each partition once.
        """
        if self.collection is not None:
            refuse_unused("X stores the rows of each worker", layout=machines)
            machines = self.collection.machines
        return Layout.alone(self.n_rows) if machines is None else Layout.of_parts(self.lengths, machines)

    def here(self, values: Any) -> Any:
        return to_local(values, self.client)

    def each(
        self, work: Callable[..., Any], *sent: Any, own: Callable[[range], tuple[Any, ...]] = lambda _: (), what: str
    ) -> Iterator[Any]:
        """Yield the results, see `DistributedRows.each`; ``sent`` is sent to each worker once."""
        held = self.client.scatter(sent, broadcast=True, hash=False) if sent else ()
        arguments = [(work, rows, *held, *own(rows)) for rows in self._rows]
        with rows_bar(what, self.n_rows) as bar:
            results = _map_blocks(self.client, _work_on_block, self._parts, arguments)
            for rows, result in zip(self._rows, results, strict=True):
                bar.update(len(rows))
                yield result

    def pick(self, numbers: NDArray[np.int64]) -> Rows:
        """Some rows; only these are brought to this process."""
        inside = np.split(numbers, np.searchsorted(numbers, [rows.stop for rows in self._rows[:-1]]))
        blocks = [block for block in zip(self._parts, self._rows, inside, strict=True) if block[2].size]
        arguments = [(_pick, rows, self.columns, picked) for _, rows, picked in blocks]
        parts = list(_map_blocks(self.client, _work_on_block, [part for part, _, _ in blocks], arguments))
        return in_memory(joined(parts), self.columns, encoded=True, names=None)

    def chunks(self) -> Iterator[Chunk]:
        """The blocks, brought to this process one by one."""
        for part, rows in zip(self._parts, self._rows, strict=True):
            block = _checked_length(self.client.compute(part).result(), len(rows))
            yield replace(next(open_rows(block, self.columns).chunks()), start=rows.start)


def _with_columns(X: Any, columns: Columns) -> Any:
    """The collection with the columns of training in their order, if both have names."""
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    places = places_of(names, int(X.shape[1]), columns)
    return X if places is None else X[[X.columns[place] for place in places]]


def _map_blocks(
    client: Any, work: Callable[..., Any], parts: list[Any], arguments: Sequence[tuple[Any, ...]]
) -> Iterator[Any]:
    """Yield the result of ``work(block, *arguments)`` for each block, in order.

    If blocks are read lazily, a worker holds only the blocks that it is working on.
    """
    from dask import delayed

    on_worker = delayed(work)
    futures = client.compute([on_worker(part, *more) for part, more in zip(parts, arguments, strict=True)])
    for number, future in enumerate(futures):
        try:
            result = future.result()
        except KeyError as error:
            text = f"a partition of X lacks columns ({error.args[0]}): write all of its files with the same columns"
            raise ValueError(text) from error
        yield result
        futures[number] = None  # the workers need not keep it any longer


# On a worker


def _work_on_block(part: Any, work: Callable[..., Any], rows: range, *options: Any) -> Any:
    return work(rows, _checked_length(part, len(rows)), *options)


def _pick(rows: range, part: Any, columns: Columns, numbers: NDArray[np.int64]) -> Any:
    """Some rows of a block, as the numbers of training."""
    return open_rows(part, columns).pick(numbers - rows.start).source


def _checked_length(part: Any, n_rows: int) -> Any:
    """A block; ``ValueError`` if its number of rows is not the one that the collection states, as Dask may not see."""
    if part.shape[0] != n_rows:
        raise ValueError(
            f"a chunk or partition of X has {how_many(part.shape[0], 'row')}, and the collection says {n_rows:,}: "
            "make X with its true chunks, or with math.nan where you do not know them"
        )
    return part


def _lengths(X: Any, client: Any) -> NDArray[np.int64]:
    """Number of rows of each block. If it is unknown, all blocks are read; of a DataFrame, one column."""
    if not hasattr(X, "map_blocks"):
        X = X[list(X.columns[:1])]
    elif not np.isnan(X.chunks[0]).any():
        return np.array(X.chunks[0], dtype=np.int64)
    return _lengths_of(parts_of(X), client)


def _lengths_of(parts: list[Any], client: Any) -> NDArray[np.int64]:
    shapes = _map_blocks(client, attrgetter("shape"), parts, [()] * len(parts))
    return np.array([n_rows for n_rows, _ in shapes], dtype=np.int64)


# Predictions


def predict(fast: CompiledForest, X: Any) -> Any:
    """Predict the rows of a Dask collection as the model's own ``predict`` does: lazily, block by block.

    Parameters
    ----------
    fast : CompiledForest
        The result of `rfsize.compile`, with or without a stop table. It is sent to each worker once.
    X : dask.array.Array or dask.dataframe.DataFrame, shape (n_rows, n_features)
        Rows, in chunks of any lengths.

    Returns
    -------
    dask.array.Array, dask.dataframe.Series or dask.dataframe.DataFrame, shape (n_rows,) or (n_rows, n_classes)
        The predictions that ``fast.predict`` returns. For a DataFrame, a Series named "prediction", or a DataFrame with
        one column for each class, with the index and divisions of ``X``.

    Raises
    ------
    ValueError
        If ``X`` is no Dask array or DataFrame. When you compute the result: if ``X`` does not fit the forest.

    See Also
    --------
    predict_labels : Predict class labels.
    predict_proba : Predict probabilities.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> labels = rfsize.dask.predict(rfsize.compile(forest), da.from_array(X, chunks=(40, -1)))
    >>> labels
    dask.array<_predict_block, shape=(150,), dtype=int64, chunksize=(40,), chunktype=numpy.ndarray>
    >>> bool((labels.compute() == forest.predict(X)).all())
    True
    """
    return _of_each_block(fast, X, "predict")


def predict_labels(fast: CompiledForest, X: Any) -> Any:
    """Predict class labels of the rows of a Dask collection, also if ``predict`` gives probabilities: lazily.

    Parameters
    ----------
    fast, X
        As in `predict`.

    Returns
    -------
    dask.array.Array or dask.dataframe.Series, shape (n_rows,)
        The labels that ``fast.predict_labels`` returns. For a DataFrame, a Series named "prediction", with the index
        and divisions of ``X``.

    Raises
    ------
    ValueError
        As in `predict`, or if the forest is a regressor.

    See Also
    --------
    predict : Predict as the model's own ``predict`` does.
    predict_proba : Predict probabilities.
    """
    return _of_each_block(fast, X, "predict_labels")


def predict_proba(fast: CompiledForest, X: Any) -> Any:
    """Predict the probabilities of all classes for the rows of a Dask collection: lazily, block by block.

    Parameters
    ----------
    fast, X
        As in `predict`.

    Returns
    -------
    dask.array.Array or dask.dataframe.DataFrame, shape (n_rows, n_classes)
        The probabilities that ``fast.predict_proba`` returns. For a DataFrame, a DataFrame with one column for each
        class, with the index and divisions of ``X``.

    Raises
    ------
    ValueError
        As in `predict`, or if the forest is a regressor.

    See Also
    --------
    predict : Predict as the model's own ``predict`` does.
    predict_labels : Predict class labels.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> shares = rfsize.dask.predict_proba(rfsize.compile(forest), da.from_array(X, chunks=(40, -1)))
    >>> shares.shape
    (150, 3)
    """
    return _of_each_block(fast, X, "predict_proba")


def _of_each_block(fast: CompiledForest, X: Any, method: str) -> Any:
    """The predictions of a method of the forest for each block, lazily."""
    from dask import delayed

    if not isinstance(fast, CompiledForest):
        raise ValueError(f"expected a compiled forest, got a {type(fast).__qualname__}: give rfsize.compile(model)")
    if method != "predict" and not fast.classes.size:
        raise ValueError(f"the forest predicts numbers, and {method} is for classes: use predict")
    X, nothing = _with_columns(checked_collection(X), columns_of(fast.forest)), _no_predictions(fast, method)
    once = delayed(fast, pure=True, traverse=False)  # one task of the graph, so that each worker receives it once
    if not hasattr(X, "map_blocks"):
        return X.map_partitions(_predict_part, once, method, meta=_named(nothing, fast, X._meta.index))
    shape: dict[str, Any] = {"drop_axis": 1} if nothing.ndim == 1 else {"chunks": (X.chunks[0], (nothing.shape[1],))}
    return X.map_blocks(_predict_block, once, method, dtype=nothing.dtype, meta=nothing, **shape)


def _no_predictions(fast: CompiledForest, method: str) -> NDArray[Any]:
    """The predictions of a method of the forest for no rows, which show their type."""
    forest, by_class = fast.forest, (0, len(fast.classes))
    if method == "predict_labels" or (method, forest.output) == ("predict", "labels"):
        return np.empty(0, dtype=fast.classes.dtype)
    if method == "predict_proba" or forest.predicts_each_class:
        return np.empty(by_class, dtype=forest.precision)
    return np.empty(0, dtype=forest.precision)


def _predict_block(block: Any, fast: CompiledForest, method: str) -> NDArray[Any]:
    predicted: NDArray[Any] = getattr(fast, method)(block) if block.shape[0] else _no_predictions(fast, method)
    return predicted


def _predict_part(part: Any, fast: CompiledForest, method: str) -> Any:
    return _named(_predict_block(part, fast, method), fast, part.index)


def _named(predicted: NDArray[Any], fast: CompiledForest, index: Any) -> Any:
    """A Series, or a DataFrame with a column for each class."""
    import pandas as pd

    if predicted.ndim == 1:
        return pd.Series(predicted, index=index, name="prediction")
    return pd.DataFrame(predicted, index=index, columns=[str(name) for name in fast.classes])
