"""Predictions of a compiled forest, made where the rows lie, when they are asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.columns import known_columns
from rfsize.dask.blocks import as_said, checked_collection
from rfsize.inference.compiled import CompiledForest


def predict(fast: CompiledForest, X: Any) -> Any:
    """What the model's own ``predict`` gives, of the rows of a Dask collection: lazily, block by block.

    Parameters
    ----------
    fast : CompiledForest
        What `rfsize.compile` returned, with a stop table or without. It goes to each worker once.
    X : dask.array.Array or dask.dataframe.DataFrame, shape (n_rows, n_features)
        Rows in any chunks.

    Returns
    -------
    dask.array.Array, dask.dataframe.Series or dask.dataframe.DataFrame, shape (n_rows,) or (n_rows, n_classes)
        What ``fast.predict`` returns of the same rows; of a DataFrame with its index and divisions, named "prediction",
        or with a column named by each class.

    Raises
    ------
    ValueError
        If ``X`` is no such collection; when it is computed, if it does not fit the forest, or a block has other rows
        than the array says.

    See Also
    --------
    predict_labels : Labels.
    predict_proba : Probabilities.

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
    dask.array<_predicted, shape=(150,), dtype=int64, chunksize=(40,), chunktype=numpy.ndarray>
    >>> bool((labels.compute() == forest.predict(X)).all())
    True
    """
    return _of_each_block(fast, X, "predict")


def predict_labels(fast: CompiledForest, X: Any) -> Any:
    """Class labels, whatever the model's own ``predict`` gives, of the rows of a Dask collection: lazily.

    Parameters
    ----------
    fast, X
        As in `predict`.

    Returns
    -------
    dask.array.Array or dask.dataframe.Series, shape (n_rows,)
        What ``fast.predict_labels`` returns of the same rows; of a DataFrame with its index and divisions, named
        "prediction".

    Raises
    ------
    ValueError
        As in `predict`, or if the forest predicts numbers.

    See Also
    --------
    predict : The kind of prediction that the model gives.
    predict_proba : Probabilities.

    Examples
    --------
    >>> import dask.array as da
    >>> import lightgbm as lgb
    >>> import rfsize.dask
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> params = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "verbose": -1}
    >>> fast = rfsize.compile(lgb.train(params, lgb.Dataset(X, y), 20))
    >>> rfsize.dask.predict_labels(fast, da.from_array(X, chunks=(200, -1))).compute()[:3].tolist()
    [0, 0, 0]
    """
    return _of_each_block(fast, X, "predict_labels")


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

    See Also
    --------
    predict : The kind of prediction that the model gives.
    predict_labels : Labels.

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


def _rows(fast: CompiledForest, X: Any) -> Any:
    """The collection with the columns that the forest knows, where both have names."""
    underscores = fast.forest.conventions.spaces_become_underscores
    return known_columns(checked_collection(X), fast.forest.feature_names, spaces_become_underscores=underscores)


def _of_each_block(fast: CompiledForest, X: Any, method: str) -> Any:
    """What a method of the forest gives of each block, lazily."""
    if not isinstance(fast, CompiledForest):
        raise ValueError(f"found a {type(fast).__qualname__} in place of a compiled forest: give rfsize.compile(model)")
    if method != "predict" and not fast.classes.size:
        what = "labels" if method == "predict_labels" else "probabilities"
        raise ValueError(f"the forest predicts numbers, and no {what}: use predict")
    X, nothing = _rows(fast, X), _nothing(fast, method)
    if not hasattr(X, "map_blocks"):
        return X.map_partitions(_part, _once(fast), method, meta=_named(nothing, fast, X._meta.index))
    shape: dict[str, Any] = {"drop_axis": 1} if nothing.ndim == 1 else {"chunks": (X.chunks[0], (nothing.shape[1],))}
    return X.map_blocks(_predicted, _once(fast), method, dtype=nothing.dtype, meta=nothing, **shape)


def _nothing(fast: CompiledForest, method: str) -> NDArray[Any]:
    """What a method of the forest gives of no rows."""
    forest, each_class = fast.forest, (0, len(fast.classes))
    if method == "predict_labels" or (method, forest.predict_gives) == ("predict", "labels"):
        return np.empty(0, dtype=fast.classes.dtype)
    if method == "predict_proba":
        return np.empty(each_class)
    return np.empty(each_class if forest.predicts_each_class else 0, dtype=forest.precision)


def _once(fast: CompiledForest) -> Any:
    """The forest as one task of the graph, which each worker is given once."""
    from dask import delayed

    return delayed(fast, pure=True, traverse=False)


def _predicted(block: Any, fast: CompiledForest, method: str, block_info: Any = None) -> NDArray[Any]:
    _check_rows(block, block_info)
    found: NDArray[Any] = getattr(fast, method)(block) if block.shape[0] else _nothing(fast, method)
    return found


def _check_rows(block: Any, block_info: Any) -> None:
    """``ValueError`` where a block of an array has other rows than the array says; partitions of frames say nothing."""
    if block_info is not None:
        first, last = block_info[0]["array-location"][0]
        if not math.isnan(last - first):
            as_said(block, last - first)


def _part(part: Any, fast: CompiledForest, method: str) -> Any:
    return _named(_predicted(part, fast, method), fast, part.index)


def _named(predicted: NDArray[Any], fast: CompiledForest, index: Any) -> Any:
    """A Series, or a DataFrame with a column for each class."""
    import pandas as pd

    if predicted.ndim == 1:
        return pd.Series(predicted, index=index, name="prediction")
    return pd.DataFrame(predicted, index=index, columns=[str(name) for name in fast.classes])
