"""The columns that a model was trained on: found by name, checked by kind, and encoded as the numbers of training."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from rfsize._util import Floats, printable, warn
from rfsize.exceptions import ForestWarning
from rfsize.models.conventions import Conventions

_ADVICE = "leave such columns out, or convert them to numbers, and categories to a categorical type"

# Takes the numbers start and stop, and returns these rows as numbers: an array or a sparse matrix.
Read = Callable[[int, int], Any]

# Takes the distinct values of a column, and returns their codes.
CodesOf = Callable[[Sequence[Any]], Floats]


@dataclass(frozen=True)
class Columns:
    """The columns that a model was trained on.

    Attributes
    ----------
    names : list of str or None
        Names of the features; None if they have none.
    n_features : int
        Number of features.
    conventions : Conventions or None
        How values become numbers. None if members that are no trees read the rows themselves.
    """

    names: list[str] | None
    n_features: int
    conventions: Conventions | None = None


def places_of(names: Sequence[str] | None, n_columns: int, columns: Columns, *, warns: bool = True) -> list[int] | None:
    """The places of the features among the columns of rows; None if the columns are the features, in their order.

    Columns with other names are left out, with a `ForestWarning` unless ``warns`` is False.

    Raises
    ------
    ValueError
        If a feature is missing, or two columns have its name; without names, if the number of columns differs.
    """
    if columns.names is None or names is None:
        if n_columns != columns.n_features:
            trained_on = f"the model was trained on {columns.n_features} features without names"
            raise ValueError(f"X has {n_columns} columns, but {trained_on}: give these columns alone, in order")
        return None
    if columns.conventions is not None and columns.conventions.spaces_become_underscores:
        names = [name.replace(" ", "_") for name in names]
    if list(names) == columns.names:
        return None
    place = {name: index for index, name in enumerate(names)}
    missing, unknown = sorted(set(columns.names) - set(place)), [name for name in names if name not in columns.names]
    if missing:
        beside = f", and has {_listed(sorted(unknown))} instead" if unknown else ""
        raise ValueError(f"X lacks the columns {_listed(missing)}{beside}: name its columns as at training")
    if unknown and warns:
        warn(f"the columns {unknown} of X are left out, because the model was not trained on them", ForestWarning)
    return [place[name] for name in columns.names]


def _listed(names: list[str], most: int = 6) -> str:
    """The first names, for messages."""
    return str(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def frame_of(X: Any) -> nw.DataFrame[Any] | None:
    """A frame of any library, seen through narwhals; None for anything else."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def kind_of(values: nw.Series[Any]) -> str:
    """The kind of a column of a frame: "number", "category", "text" or "other"."""
    dtype = values.dtype
    if dtype in (nw.Categorical, nw.Enum):
        return "category"
    if dtype in (nw.String, nw.Object):
        return "text"
    if (dtype.is_numeric() and dtype != nw.Decimal) or dtype == nw.Boolean:
        return "number"
    native = getattr(values.to_native(), "dtype", None)  # narwhals knows neither pandas' sparse columns nor halves
    return "number" if getattr(native, "kind", "O") in "fiub" else "other"


def encoder(frame: nw.DataFrame[Any], columns: Columns | None) -> Read:
    """A function that reads rows of a frame, which has the columns of training, as the numbers of training.

    Without ``columns``, as before a model is there, categories and text get codes by value.

    Raises
    ------
    ValueError
        If a column holds something else than at training. When rows are read: if they hold a category that training
        did not know, and the framework refuses it.
    """
    names, places = [str(name) for name in frame.columns], range(len(frame.columns))
    series = [frame[:, place] for place in places]
    kinds = [kind_of(values) for values in series]
    wrong = [place for place, kind in enumerate(kinds) if kind == "other"]
    if wrong:
        raise ValueError(f"the columns {_printable(names, wrong)} of X hold no numbers: {_ADVICE}")
    conventions = None if columns is None else columns.conventions
    coders = coders_by_place(names, kinds, conventions)
    single = _rounded_once(frame, series, conventions)
    readers = [_reader(series[at], coders.get(at), kinds[at], single=at in single) for at in places]
    is_single = not coders and all(values.dtype == nw.Float32 for values in series)

    def read(start: int, stop: int) -> Any:
        out = np.empty((stop - start, len(readers)), np.float32 if is_single else np.float64, order="F")
        for place, of_column in enumerate(readers):
            out[:, place] = of_column(start, stop)
        return out

    return read


def _reader(values: nw.Series[Any], codes_of: CodesOf | None, kind: str, *, single: bool) -> Read:
    """Reads one column; whole numbers rounded ``single`` go straight to single precision."""
    if codes_of is not None:
        if kind == "number":
            numbers = _reader(values, None, kind, single=False)
            return lambda start, stop: coded_numbers(numbers(start, stop), codes_of)
        return lambda start, stop: _coded(values[start:stop], codes_of)
    if kind == "category":
        return lambda start, stop: _own_codes(values[start:stop])
    if values.implementation.is_pandas_like():
        native, dtype = values.to_native(), np.float32 if single else np.float64
        return lambda start, stop: native.iloc[start:stop].to_numpy(dtype=dtype, na_value=np.nan)
    kind_of_float = nw.Float32 if single else nw.Float64
    return lambda start, stop: values[start:stop].cast(kind_of_float).to_numpy()


def _rounded_once(
    frame: nw.DataFrame[Any], series: Sequence[nw.Series[Any]], conventions: Conventions | None
) -> set[int]:
    """Columns of whole numbers that are rounded directly to single precision, and not to double precision first.

    For its own nullable types pandas reads column by column, whatever the framework does, and so does Arrow.
    """
    if conventions is None or not conventions.reading.single_precision:
        return set()
    whole = {place for place, values in enumerate(series) if values.dtype.is_integer()}
    of_numpy = not frame.implementation.is_pyarrow() and all(
        isinstance(getattr(values.to_native(), "dtype", None), np.dtype) or values.implementation.is_polars()
        for values in series
    )
    return whole if conventions.reading.reads_by_column or not of_numpy or len(whole) == len(series) else set()


def coders_by_place(names: Sequence[str], kinds: Sequence[str], conventions: Conventions | None) -> dict[int, CodesOf]:
    """A coder for each column with coded categories; ``ValueError`` if a column is of another kind than at training."""
    if conventions is None:
        others = [place for place, kind in enumerate(kinds) if kind != "number"]
        return dict.fromkeys(others, lambda categories: np.array([_stable_code(value) for value in categories]))
    places = categorical_columns(names, kinds, conventions)
    return dict(zip(places, coders_of(names, places, conventions), strict=True))


def coders_of(names: Sequence[str], places: Sequence[int], conventions: Conventions) -> list[CodesOf]:
    """A coder for each list of categories of training; the columns at ``places`` hold them."""
    refuses = not conventions.unknown_category_is_missing
    known = [{value: float(code) for code, value in enumerate(values)} for values in conventions.categories]
    return [_coder(names[place], code, refuses) for place, code in zip(places, known, strict=True)]


def _coder(name: str, code: dict[Any, float], refuses: bool) -> CodesOf:
    def codes_of(categories: Sequence[Any]) -> Floats:
        unknown = [value for value in categories if value not in code] if refuses else []
        if unknown:
            what = f"column '{printable(name)}' of X holds the category {unknown[0]!r}, which training did not know"
            raise ValueError(f"{what}: make it missing, or train with it")
        return np.array([code.get(value, np.nan) for value in categories], dtype=np.float64)

    return codes_of


def coded_numbers(values: NDArray[Any], codes_of: CodesOf) -> Floats:
    """The codes of numbers that are categories; NaN for a missing value."""
    distinct, place = np.unique(values, return_inverse=True)
    is_known = ~np.isnan(distinct)
    codes = np.full(distinct.size, np.nan)
    codes[is_known] = codes_of(distinct[is_known].tolist())
    return codes[place]


def _coded(values: nw.Series[Any], codes_of: CodesOf) -> Floats:
    """The codes of categories or text; NaN for a missing value."""
    native = values.to_native()
    if values.implementation.is_pandas_like() and values.dtype in (nw.Categorical, nw.Enum):
        present, place = np.unique(native.cat.codes.to_numpy(), return_inverse=True)
        categories = [native.cat.categories[index] for index in present if index >= 0]
        return np.append(np.full(int(present[0] < 0), np.nan), codes_of(categories))[place]
    if values.implementation.is_pandas_like():
        return coded_values(values.to_list(), codes_of)
    present_values = [value for value in values.unique().to_list() if value is not None]
    new = [*codes_of(present_values).tolist(), np.nan]
    return np.asarray(values.replace_strict([*present_values, None], new, return_dtype=nw.Float64).to_numpy())


def coded_values(values: Sequence[Any], codes_of: CodesOf) -> Floats:
    """The codes of text or numbers, value by value; NaN for a missing one."""
    distinct = list(dict.fromkeys(value for value in values if not is_missing(value)))
    codes = dict(zip(distinct, codes_of(distinct), strict=True))
    return np.array([np.nan if is_missing(value) else codes[value] for value in values], dtype=np.float64)


def is_missing(value: Any) -> bool:
    """Whether a single value is None, NaN, or what pandas has for them."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _own_codes(values: nw.Series[Any]) -> Floats:
    """The codes that the frame itself gives its categories; NaN for a missing value."""
    native = values.to_native()
    if values.implementation.is_pandas_like():
        codes = native.cat.codes.to_numpy()
        return np.where(codes < 0, np.nan, codes)
    indices = native.combine_chunks().indices if values.implementation.is_pyarrow() else native.to_physical()
    return np.asarray(nw.from_native(indices, series_only=True, allow_series=True).cast(nw.Float64).to_numpy())


def _stable_code(value: Any) -> float:
    """A whole number of 52 bits for a value, the same in every part of a table and in every process."""
    digest = hashlib.blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return float(int.from_bytes(digest) >> 12)


def categorical_columns(names: Sequence[str], kinds: Sequence[str], conventions: Conventions) -> list[int]:
    """The columns that hold categories whose codes the model knows, in the order of its lists of categories.

    ``kinds`` are those of the columns, as `kind_of` tells them; ``ValueError`` if one differs from training.
    """

    others = [place for place, kind in enumerate(kinds) if kind != "number"]
    known, coded = conventions.category_features, conventions.coded_features
    places, n_known = others if known is None else list(known), len(conventions.categories)
    if len(places) != n_known:
        other = f"the columns {_printable(names, places)} of X are categorical, and {n_known} columns were at training"
        raise ValueError(f"{other}: give the columns the types of training")
    numbers = [place for place in places if kinds[place] == "number" and not conventions.codes_numbers]
    if numbers:
        listed = _printable(names, numbers)
        raise ValueError(f"the columns {listed} of X hold numbers, not categories: convert them, .astype('category')")
    wrong = [place for place in others if place not in places]
    if conventions.takes_codes:
        wrong = [place for place in wrong if place not in coded or kinds[place] != "category"]
    if wrong:
        listed = _printable(names, wrong)
        raise ValueError(f"the columns {listed} of X hold no numbers, as they did at training: convert them to these")
    return places


def _printable(names: Sequence[str], places: Sequence[int]) -> list[str]:
    return [printable(names[place]) for place in places]


def checked(read: Read, columns: Columns | None) -> Read:
    """The same reader; it raises ``ValueError`` for numbers that the framework refuses."""
    conventions = None if columns is None else columns.conventions
    if conventions is None or not conventions.reading.refuses_infinite:
        return read

    def checked_values(start: int, stop: int) -> Any:
        values = read(start, stop)
        is_sparse = issparse(values)
        with np.errstate(over="ignore"):
            numbers = (values.data if is_sparse else values).astype(np.float32, copy=False)
        refuses_missing = conventions.reading.refuses_missing or is_sparse
        if (~np.isfinite(numbers) if refuses_missing else np.isinf(numbers)).any():
            what = f"X holds {'missing values or ' if refuses_missing else ''}numbers beyond single precision"
            raise ValueError(f"{what}, which {conventions.framework} refuses here: fill them in as at training")
        return values

    return checked_values
