"""Predictions of a compiled forest on Dask workers, where the rows lie, at the time they are computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.dask.blocks import as_said, checked_collection, with_columns
from rfsize.inference.compiled import CompiledForest
from rfsize.inference.rows import columns_of


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
        If ``X`` is no Dask array or DataFrame. When you compute the result: if ``X`` does not fit the forest, or the
        number of rows in a block is not the one that the array states.

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
    dask.array<_predicted, shape=(150,), dtype=int64, chunksize=(40,), chunktype=numpy.ndarray>
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


def _rows(fast: CompiledForest, X: Any) -> Any:
    """The collection with the forest's columns in the forest's order, if both have column names."""
    return with_columns(checked_collection(X), columns_of(fast.forest))


def _of_each_block(fast: CompiledForest, X: Any, method: str) -> Any:
    """The predictions of a method of the forest for each block, lazily."""
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
    """The predictions of a method of the forest for no rows, which show their type."""
    forest, each_class = fast.forest, (0, len(fast.classes))
    if method == "predict_labels" or (method, forest.output) == ("predict", "labels"):
        return np.empty(0, dtype=fast.classes.dtype)
    if method == "predict_proba":
        return np.empty(each_class, dtype=forest.precision)
    return np.empty(each_class if forest.predicts_each_class else 0, dtype=forest.precision)


def _once(fast: CompiledForest) -> Any:
    """The forest as one task of the graph, so that each worker receives it once."""
    from dask import delayed

    return delayed(fast, pure=True, traverse=False)


def _predicted(block: Any, fast: CompiledForest, method: str, block_info: Any = None) -> NDArray[Any]:
    _check_rows(block, block_info)
    found: NDArray[Any] = getattr(fast, method)(block) if block.shape[0] else _nothing(fast, method)
    return found


def _check_rows(block: Any, block_info: Any) -> None:
    """``ValueError`` if a block of an array has not the rows that the array states; partitions of frames state none."""
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
