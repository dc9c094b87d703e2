"""Predictions of a compiled forest, made where the rows lie, when they are asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.columns import known_columns
from rfsize.dask.rows import as_said, checked_collection
from rfsize.inference.compiled import CompiledForest


def predict(fast: CompiledForest, X: Any) -> Any:
    """Labels, or numbers of a regression forest, of the rows of a Dask collection: lazily, block by block.

    Parameters
    ----------
    fast : CompiledForest
        What `rfsize.compile` returned, with a stop table or without. It goes to each worker once.
    X : dask.array.Array or dask.dataframe.DataFrame, shape (n_rows, n_features)
        Rows in any chunks.

    Returns
    -------
    dask.array.Array or dask.dataframe.Series, shape (n_rows,)
        What ``fast.predict`` returns of the same rows; of a DataFrame with its index and divisions, named
        "prediction".

    Raises
    ------
    ValueError
        If ``X`` is no such collection; when it is computed, if it does not fit the forest, or a block has other rows
        than the array says.

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
    dask.array<_labels, shape=(150,), dtype=int64, chunksize=(40,), chunktype=numpy.ndarray>
    >>> bool((labels.compute() == forest.predict(X)).all())
    True
    """
    kind = _kind_of_labels(_checked(fast))
    X = _rows(fast, X)
    if hasattr(X, "map_blocks"):
        return X.map_blocks(_labels, _once(fast), drop_axis=1, dtype=kind, meta=np.empty(0, dtype=kind))
    import pandas as pd

    meta = pd.Series(np.empty(0, dtype=kind), index=X._meta.index, name="prediction")
    return X.map_partitions(_series, _once(fast), meta=meta)


def predict_proba(fast: CompiledForest, X: Any) -> Any:
    """Probabilities of all classes, of the rows of a Dask collection: lazily, block by block.

    Parameters
    ----------
    fast, X
        As in `predict`.

    Returns
    -------
    dask.array.Array or dask.dataframe.DataFrame, shape (n_rows, n_classes)
        What ``fast.predict_proba`` returns of the same rows; of a DataFrame with its index and divisions, and a column
        named by each class.

    Raises
    ------
    ValueError
        As in `predict`, or if the forest predicts numbers.

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
    if not _checked(fast).classes.size:
        raise ValueError("the forest predicts numbers, which have no probabilities: ask predict")
    X, classes = _rows(fast, X), fast.classes
    if hasattr(X, "map_blocks"):
        chunks = (X.chunks[0], (len(classes),))
        return X.map_blocks(_shares, _once(fast), chunks=chunks, dtype=np.float64, meta=np.empty((0, 0)))
    import pandas as pd

    names = [str(name) for name in classes]
    meta = pd.DataFrame(np.empty((0, len(names))), index=X._meta.index, columns=names)
    return X.map_partitions(_frame, _once(fast), meta=meta)


def _checked(fast: CompiledForest) -> CompiledForest:
    if not isinstance(fast, CompiledForest):
        raise ValueError(f"a compiled forest is asked, found {type(fast).__qualname__}: give rfsize.compile(model)")
    return fast


def _rows(fast: CompiledForest, X: Any) -> Any:
    """The collection with the columns that the forest knows, where both have names."""
    underscores = fast.forest.conventions.spaces_become_underscores
    return known_columns(checked_collection(X), fast.forest.feature_names, spaces_become_underscores=underscores)


def _once(fast: CompiledForest) -> Any:
    """The forest as one task of the graph, which each worker is given once."""
    from dask import delayed

    return delayed(fast, pure=True, traverse=False)


def _kind_of_labels(fast: CompiledForest) -> np.dtype[Any]:
    return fast.classes.dtype if fast.classes.size else np.dtype(np.float64)


def _labels(block: Any, fast: CompiledForest, block_info: Any = None) -> NDArray[Any]:
    _check_rows(block, block_info)
    return fast.predict(block) if block.shape[0] else np.empty(0, dtype=_kind_of_labels(fast))


def _shares(block: Any, fast: CompiledForest, block_info: Any = None) -> NDArray[np.float64]:
    _check_rows(block, block_info)
    return fast.predict_proba(block) if block.shape[0] else np.empty((0, len(fast.classes)))


def _check_rows(block: Any, block_info: Any) -> None:
    """``ValueError`` where a block of an array has other rows than the array says; partitions of frames say nothing."""
    if block_info is not None:
        first, last = block_info[0]["array-location"][0]
        if not math.isnan(last - first):
            as_said(block, last - first)


def _series(part: Any, fast: CompiledForest) -> Any:
    import pandas as pd

    return pd.Series(_labels(part, fast), index=part.index, name="prediction")


def _frame(part: Any, fast: CompiledForest) -> Any:
    import pandas as pd

    return pd.DataFrame(_shares(part, fast), index=part.index, columns=[str(name) for name in fast.classes])
