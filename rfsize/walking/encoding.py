"""Turns rows of any kind into floating-point numbers, with categories coded as at training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from rfsize.models.columns import categorical_columns
from rfsize.models.ensemble import Conventions
from rfsize.utils.rows import kinds_of
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.words import printable

# Takes the numbers start and stop, and returns these rows as a float32, float64 or compressed sparse row matrix.
Blocks = Callable[[int, int], Any]


def encoded(X: Any, conventions: Conventions) -> Blocks:
    """A function that reads blocks of ``X``, which `as_rows` returned and which has the columns of training.

    Arrays and frames of one float type are not copied. Everything else is converted block by block.

    Raises
    ------
    ValueError
        If ``X`` holds anything but numbers, or a column is categorical that was not at training. When a block is read:
        if it holds numbers that are not finite, and the framework refuses them.
    """
    blocks = _blocks(X, conventions)
    return _without_refused(blocks, conventions) if conventions.refuses_infinite else blocks


def _without_refused(blocks: Blocks, conventions: Conventions) -> Blocks:
    def read(start: int, stop: int) -> Any:
        rows = blocks(start, stop)
        with np.errstate(over="ignore"):
            values = (rows.data if issparse(rows) else rows).astype(np.float32, copy=False)
        refuses_missing = conventions.refuses_missing or issparse(rows)
        if (~np.isfinite(values) if refuses_missing else np.isinf(values)).any():
            raise ValueError(
                f"X holds {'missing values, or ' if refuses_missing else ''}numbers beyond single precision, which "
                f"{conventions.framework} refuses for this model; fill them in as at training"
            )
        return rows

    return read


def _blocks(X: Any, conventions: Conventions) -> Blocks:
    if hasattr(X, "num_row"):
        raise ValueError("X is an XGBoost DMatrix, which only XGBoost can read; give the rows as an array or DataFrame")
    if issparse(X):
        return lambda start, stop: X[start:stop]
    if hasattr(X, "iloc"):
        return _frame_blocks(X, conventions)
    if hasattr(X, "column_names"):
        return _arrow_blocks(X, conventions)
    return _array_blocks(X, conventions)


def _array_blocks(X: Any, conventions: Conventions) -> Blocks:
    if conventions.codes_numbers and conventions.categories:
        return _coded_blocks(X, conventions)
    if X.dtype in (np.float32, np.float64) and X.flags.aligned:
        return lambda start, stop: X[start:stop]
    # Most frameworks read all other types in single precision.
    kind = np.float64 if X.dtype == np.float64 or conventions.integers_in_double else np.float32
    return lambda start, stop: X[start:stop].astype(kind)


def _coded_blocks(X: Any, conventions: Conventions) -> Blocks:
    """Blocks of an array whose categorical columns hold the values of categories, and not codes."""
    coders = _coders([str(column) for column in range(X.shape[1])], ["number"] * X.shape[1], conventions)

    def read(start: int, stop: int) -> Floats:
        out = X[start:stop].astype(np.float64)
        for column, coder in coders.items():
            out[:, column] = coder.codes_of_numbers(out[:, column])
        return out

    return read


def _frame_blocks(X: Any, conventions: Conventions) -> Blocks:
    kinds = kinds_of(X) or []
    coders = _coders([str(name) for name in X.columns], kinds, conventions)
    if not coders and len(set(X.dtypes)) == 1 and X.dtypes.iloc[0] in (np.float32, np.float64):
        return _array_blocks(X.to_numpy(), conventions)
    once = _rounded_once(X.dtypes, conventions)

    def read(start: int, stop: int) -> Floats:
        out = np.empty((stop - start, X.shape[1]), order="F")
        for column in range(X.shape[1]):
            values = X.iloc[start:stop, column]
            if column not in coders:
                out[:, column] = values.to_numpy(dtype=np.float32 if column in once else np.float64, na_value=np.nan)
            elif kinds[column] == "number":
                out[:, column] = coders[column].codes_of_numbers(values.to_numpy(dtype=np.float64, na_value=np.nan))
            elif kinds[column] == "category":
                out[:, column] = coders[column].codes(values.cat.codes.to_numpy(), values.cat.categories)
            else:
                out[:, column] = coders[column].codes(*_enumerated(values.to_numpy(dtype=object, na_value=None)))
        return out

    return read


def _rounded_once(dtypes: Any, conventions: Conventions) -> set[int]:
    """Columns of whole numbers that are rounded directly to single precision, and not to double precision first.

    For its own nullable types pandas reads column by column, whatever the framework does.
    """
    whole = {column for column, dtype in enumerate(dtypes) if getattr(dtype, "kind", "O") in "iu"}
    by_column = conventions.reads_by_column or any(not isinstance(dtype, np.dtype) for dtype in dtypes)
    return whole if conventions.reading.single_precision and (by_column or len(whole) == len(dtypes)) else set()


def _arrow_blocks(X: Any, conventions: Conventions) -> Blocks:
    import pyarrow as pa

    kinds = kinds_of(X) or []
    coders = _coders(list(X.column_names), kinds, conventions)

    def read(start: int, stop: int) -> Floats:
        out = np.empty((stop - start, len(kinds)), order="F")
        for column, values in enumerate(X.slice(start, stop - start).columns):
            if column in coders and kinds[column] != "number":
                out[:, column] = coders[column].codes(*_enumerated(values.to_pylist()))
            else:
                once = conventions.reading.single_precision and pa.types.is_integer(values.type)
                out[:, column] = values.cast(pa.float32() if once else pa.float64(), safe=False).to_numpy()
                if column in coders:
                    out[:, column] = coders[column].codes_of_numbers(out[:, column])
        return out

    return read


def _enumerated(values: Any) -> tuple[Int64s, list[Any]]:
    """Values as codes, -1 for a missing value, and the values that the codes stand for."""
    index: dict[Any, int] = {}
    codes = [-1 if value is None or value != value else index.setdefault(value, len(index)) for value in values]
    return np.array(codes, dtype=np.int64), list(index)


class _Coder:
    """Codes the categories of one column as at training. Without ``known`` categories, a frame keeps its codes."""

    def __init__(self, name: str, known: Sequence[Any] | None, *, unknown_is_missing: bool) -> None:
        self._name = name
        self._code = None if known is None else {category: code for code, category in enumerate(known)}
        self._unknown_is_missing = unknown_is_missing

    def codes(self, codes: NDArray[Any], categories: Any) -> Floats:
        """Translate codes for ``categories`` to the codes of training; NaN for a missing value."""
        if self._code is None:
            return np.where(codes < 0, np.nan, codes)
        at_training = np.array([self._code.get(category, np.nan) for category in categories] + [np.nan])
        coded = at_training[codes]  # a missing value has code -1
        unknown = np.isnan(coded) & (codes >= 0)
        if unknown.any() and not self._unknown_is_missing:
            example = list(categories)[int(codes[unknown][0])]
            raise ValueError(
                f"column '{printable(self._name)}' of X holds the category {example!r}, which was not in the training "
                "data; make it missing, or train with it"
            )
        return coded

    def codes_of_numbers(self, values: Floats) -> Floats:
        """Codes of training of numbers, in which the categories are sorted; NaN for numbers that are no category."""
        known = [] if self._code is None else list(self._code)
        if not known or not all(isinstance(category, (int, float)) for category in known):
            return np.full(len(values), np.nan)
        categories = np.array(known, dtype=np.float64)
        place = np.minimum(np.searchsorted(categories, values), len(categories) - 1)
        return np.where(categories[place] == values, place, np.nan)


def _coders(names: list[str], kinds: list[str], conventions: Conventions) -> dict[int, _Coder]:
    """A coder for each categorical column; ``ValueError`` if a column is of another kind than at training."""
    known = dict(zip(categorical_columns(names, kinds, conventions.categorical), conventions.categories, strict=True))
    codes = {column: None for column in conventions.coded_features if kinds[column] == "category"}
    unknown_is_missing = conventions.unknown_category_is_missing
    return {
        column: _Coder(names[column], categories, unknown_is_missing=unknown_is_missing)
        for column, categories in {**codes, **known}.items()
    }
