"""Rows in memory, of any kind: brings them into plain form, and slices them."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import issparse

from rfsize.utils.typing import Int64s
from rfsize.utils.words import printable

_ADVICE = "leave such columns out or convert them with .astype(float), and categories to a DataFrame's 'category'"
_ADVICE_FOR_POLARS = "leave such columns out or convert them with .cast(float), and categories to polars.Categorical"
_POLARS = {f"{kind}Int{bits}" for kind in ("", "U") for bits in (8, 16, 32, 64)} | {
    *("Float16", "Float32", "Float64", "Boolean", "Categorical", "Enum", "String")
}
_MOST = int(np.finfo(np.float64).max)


def in_memory(X: Any, *, numbers_only: bool = True) -> Any:
    """``X`` as a non-empty matrix that every framework reads as the same numbers, and that `sliced` can cut.

    Every reading of rows begins here. Frameworks would read some arrays in different ways, or wrongly without a
    warning. So arrays are brought into native byte order, and sparse matrices hold one float for each entry. With
    ``numbers_only=False`` arrays may hold anything, for members that are not trees and can read it.

    Raises
    ------
    ValueError
        If ``X`` is missing, is not a matrix, has no rows, or holds anything but numbers and categories.
    """
    if X is None:
        raise ValueError("X is missing: give the rows to vote on, as the framework takes them in predict")
    if isinstance(X, (list, tuple)):
        try:
            X = np.asarray(X)
        except ValueError:
            raise ValueError(
                "X is a list of rows of different lengths: give rows with one number for each feature, or a list of "
                "tables, each with rows and features"
            ) from None
    X = from_polars(X)
    if issparse(X):
        X = X.tocsr()
    if not (hasattr(X, "shape") or hasattr(X, "num_row")):
        raise ValueError(
            f"X is a {type(X).__module__}.{type(X).__qualname__}; give a NumPy array, a DataFrame, a SciPy sparse "
            "matrix or an Arrow table"
        )
    shape = X.shape if hasattr(X, "shape") else (X.num_row(), X.num_col())
    if len(shape) == 1 and hasattr(X, "iloc"):
        raise ValueError(
            "X is a Series, which may be one row or one column: give a row as a DataFrame, such as X.iloc[[0]] of the "
            "whole DataFrame"
        )
    if len(shape) != 2:
        raise ValueError(
            f"X must have two dimensions, rows and features, found shape {tuple(shape)}; a single row is "
            "X.reshape(1, -1)"
        )
    if 0 in shape:
        raise ValueError(f"X has no {'rows' if shape[0] == 0 else 'columns'}")
    names = column_names(X)
    if names is not None and len(set(names)) < len(names):
        raise ValueError(f"X has columns of the same name: {sorted({name for name in names if names.count(name) > 1})}")
    if hasattr(X, "iloc"):
        _check_frame(X)
    if hasattr(X, "column_names"):
        _check_arrow(X)
    if issparse(X):
        return _plain_sparse(X)
    return _plain_array(X, numbers_only) if isinstance(X, np.ndarray) else X


def from_polars(X: Any) -> Any:
    """A Polars frame as a pandas frame, which every framework takes; anything else unchanged.

    Raises
    ------
    ValueError
        If the frame is lazy, or a column holds anything but numbers, categories and text.
    """
    kind = _polars_kind(X)
    if kind is None:
        return X
    if kind == "LazyFrame":
        raise ValueError("X is a Polars LazyFrame, whose rows are not there yet: collect() first, and give the result")
    wrong = {name: str(dtype) for name, dtype in X.schema.items() if type(dtype).__name__ not in _POLARS}
    if wrong:
        raise ValueError(f"the Polars columns {_listed(wrong)} of X hold no numbers: {_ADVICE_FOR_POLARS}")
    # Booleans with gaps would become objects in pandas.
    frame = X.with_columns(
        X[name].cast(float) for name, dtype in X.schema.items() if str(dtype) == "Boolean"
    ).to_pandas()
    # From Polars 2 on, an Enum has an order in pandas, and LightGBM takes ordered categories for numbers.
    ordered = [name for name in frame.columns if getattr(frame[name].dtype, "ordered", False)]
    return frame.assign(**{name: frame[name].cat.as_unordered() for name in ordered})


def _polars_kind(X: Any) -> str | None:
    """The kind of a Polars frame; None for anything else."""
    kind = type(X)
    is_frame = kind.__module__.partition(".")[0] == "polars" and kind.__name__ in {"DataFrame", "LazyFrame"}
    return kind.__name__ if is_frame else None


def kind_of(dtype: Any) -> str:
    """The kind of a column of a DataFrame: "number", "category", "text" or "other"."""
    name = str(dtype)
    if name == "category":
        return "category"
    if getattr(dtype, "kind", "O") in "fiub":
        return "number"
    return "text" if name == "object" or name.startswith(("str", "string", "large_string")) else "other"


def _check_frame(X: Any) -> None:
    """Raise ``ValueError`` if a column of a DataFrame holds anything but numbers, categories and text."""
    wrong = {
        str(name): str(dtype) for name, dtype in zip(X.columns, X.dtypes, strict=True) if kind_of(dtype) == "other"
    }
    if wrong:
        raise ValueError(f"the columns {_listed(wrong)} of X hold no numbers: {_ADVICE}")
    for name, dtype in zip(X.columns, X.dtypes, strict=True):
        if str(dtype) == "object" and any(isinstance(value, int) and abs(value) > _MOST for value in X[name]):
            raise ValueError(
                f"column '{printable(name)}' of X holds a whole number beyond double precision: make it missing, or "
                "clip it"
            )


def _check_arrow(X: Any) -> None:
    """Raise ``ValueError`` if a column of an Arrow table holds anything but numbers and text."""
    import pyarrow as pa

    kinds = {field.name: field.type for field in X.schema}
    texts = [name for name, kind in kinds.items() if pa.types.is_dictionary(kind)]
    if texts:
        raise ValueError(
            f"the Arrow columns {texts} are dictionaries, which the frameworks do not take: give X.to_pandas()"
        )
    wrong = {name: str(kind) for name, kind in kinds.items() if arrow_kind_of(kind) == "other"}
    if wrong:
        raise ValueError(f"the Arrow columns {_listed(wrong)} of X hold no numbers: {_ADVICE}")


def frame_of(table: Any) -> Any:
    """An Arrow table as a pandas DataFrame; booleans become numbers, since with gaps they would become objects."""
    return booleans_as_numbers(table, table.column_names).to_pandas(ignore_metadata=True)


def booleans_as_numbers(table: Any, names: Collection[str]) -> Any:
    """An Arrow table with the booleans of some columns as numbers."""
    import pyarrow as pa

    fields = [
        pa.field(field.name, pa.float64()) if field.name in names and pa.types.is_boolean(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def arrow_kind_of(kind: Any) -> str:
    """The kind of a column of an Arrow table: "number", "text" or "other"."""
    import pyarrow as pa

    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    return "number" if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) else "other"


def _listed(kinds: dict[str, str]) -> str:
    return ", ".join(f"'{printable(name)}' ({kind})" for name, kind in kinds.items())


def _plain_array(X: NDArray[Any], numbers_only: bool) -> NDArray[Any]:
    """The array of numbers without a mask, in native byte order."""
    if isinstance(X, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(X).any(axis=0)
        if masked.any():
            raise ValueError(
                f"X is a masked array with masked values in the columns {np.flatnonzero(masked).tolist()}, which the "
                "frameworks would read as if they were not masked: give X.filled(np.nan)"
            )
        X = X.data
    if not numbers_only and X.dtype.kind in "OUS":
        return X
    if X.dtype.kind == "O":
        return _floats(X)
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold numbers, found an array of {X.dtype}: {_ADVICE}")
    return X if X.dtype.isnative else X.astype(X.dtype.newbyteorder("="))


def _floats(X: NDArray[Any]) -> NDArray[np.float32]:
    """An array of objects as single-precision numbers, which every framework reads, with None as missing."""
    others = tuple({kind for kind in set(map(type, X.flat)) if not _is_real(kind)})
    if others:
        row, column = next(place for place, value in np.ndenumerate(X) if isinstance(value, others))
        raise ValueError(
            f"X is an array of objects that are not all numbers: column {column} holds a "
            f"{type(X[row, column]).__name__}, in row {row}; {_ADVICE}"
        )
    try:
        with np.errstate(over="ignore"):
            return X.astype(np.float32)
    except OverflowError:
        pass
    row, column = next(place for place, value in np.ndenumerate(X) if value is not None and abs(value) > _MOST)
    raise ValueError(
        f"column {column} of X holds a whole number beyond double precision, in row {row}: make it missing, or clip it"
    )


def _is_real(kind: type) -> bool:
    return issubclass(kind, (Real, Decimal, np.bool_, type(None))) and not issubclass(kind, np.timedelta64)


def _plain_sparse(X: Any) -> Any:
    """The sparse matrix with one float for each stored entry. The caller's matrix is not changed."""
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold numbers, found a sparse matrix of {X.dtype}")
    if X.dtype not in (np.float32, np.float64) or not X.dtype.isnative:
        # Whole numbers are read in single precision, as in arrays.
        X = X.astype(np.float64 if X.dtype.kind == "f" and X.dtype.itemsize > 4 else np.float32)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def column_names(X: Any) -> list[str] | None:
    """Names of the columns of a DataFrame or Arrow table; None for anything without names."""
    names = getattr(X, "column_names", None)
    if names is None and (hasattr(X, "iloc") or _polars_kind(X) == "DataFrame"):
        names = getattr(X, "columns", None)
    return None if names is None else [str(name) for name in names]


def only(X: Any, places: list[int]) -> Any:
    """Some columns of a DataFrame or Arrow table, by their places."""
    if hasattr(X, "iloc"):
        return X.iloc[:, places]
    return X.select(places) if hasattr(X, "column_names") else X[:, places]


def kinds_of(X: Any) -> list[str] | None:
    """The kind of each column of a DataFrame or Arrow table; None for rows that hold one type of numbers."""
    if hasattr(X, "iloc"):
        return [kind_of(dtype) for dtype in X.dtypes]
    return [arrow_kind_of(field.type) for field in X.schema] if hasattr(X, "column_names") else None


def form_of(X: Any) -> Any:
    """The form that all pieces of a table share: the kind of rows; for frames also the columns and categories."""
    kinds = kinds_of(X)
    if kinds is None:
        return "sparse matrix" if issparse(X) else "array"
    forms: list[Any] = [
        list(X.iloc[:, place].cat.categories) if kind == "category" else kind for place, kind in enumerate(kinds)
    ]
    return list(zip(column_names(X) or (), forms, strict=True))


def sliced(X: Any, start: int, stop: int) -> Any:
    """Rows ``start`` to ``stop`` of the output of `in_memory`, in the same form."""
    if hasattr(X, "iloc"):
        return X.iloc[start:stop]
    if hasattr(X, "to_batches"):  # an Arrow table
        return X.slice(start, stop - start)
    if hasattr(X, "num_row"):  # an XGBoost DMatrix
        return X.slice(np.arange(start, stop))
    return X[start:stop]


def picked(X: Any, rows: Int64s) -> Any:
    """Some rows of the output of `in_memory`, by their numbers, in the same form."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "num_row"):  # an XGBoost DMatrix
        return X.slice(rows)
    return X.take(rows) if hasattr(X, "column_names") else X[rows]


def joined(parts: list[Any]) -> Any:
    """Join parts that have the same form."""
    if len(parts) == 1:
        return parts[0]
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    if hasattr(parts[0], "to_batches"):
        import pyarrow as pa

        return pa.concat_tables(parts)
    return sparse.vstack(parts, format="csr") if issparse(parts[0]) else np.concatenate(parts)
