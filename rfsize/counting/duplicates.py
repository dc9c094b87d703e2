"""Duplicates: which training rows are identical, and the groups that the user asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from rfsize.counting.groups import NO_GROUPS, WORDS, Groups
from rfsize.exceptions import CopiesWarning
from rfsize.utils import matrix
from rfsize.utils.rows import from_polars, kind_of
from rfsize.utils.typing import Int64s
from rfsize.utils.validation import choice
from rfsize.utils.warn import Caution
from rfsize.utils.words import in_percent

Hashes = NDArray[np.uint64]

# Number of cells to hash at once.
_CELLS = 1 << 18

# From this share of rows with copies on, a warning is given.
_FEW_COPIES = 0.01


def resolve_groups(groups: str | ArrayLike | None, X: Any, n_rows: int) -> Groups:
    """The groups that the user asks for; by default each row stands alone, and only the share of copies is counted.

    Parameters
    ----------
    groups : array_like of shape (n_rows,), "copies", "rows" or None
        A label for each row; "copies" for groups of identical rows; "rows" for no groups; None if the user says nothing.
    X
        Training rows as a framework takes them, or None if they are not available.
    n_rows : int
        Number of training rows.

    Raises
    ------
    ValueError
        If ``groups`` is none of these, or is "copies" and the rows are not available.
    """
    if groups is not None and not isinstance(groups, str):
        return Groups.given(groups, n_rows)
    if groups is not None:
        choice("groups", groups, WORDS, "; or give an array with the group of each row")
    if groups == "rows":
        return NO_GROUPS
    X = X.get_data() if hasattr(X, "num_row") else from_polars(X)
    X = X.tocsr() if issparse(X) else X
    if X is None and groups == "copies":
        raise ValueError(
            "groups='copies' compares the training rows, and the data do not hold them: make a lightgbm.Dataset "
            "with free_raw_data=False, or a DMatrix in place of a QuantileDMatrix, or give the group of each row"
        )
    if X is None:
        return Groups("unknown")
    return copies(X) if groups == "copies" else Groups(copied=copies(X).copied)


def copies(X: Any) -> Groups:
    """Group rows with identical features; missing values count as equal."""
    groups = Groups.numbered("copies", np.concatenate(list(matrix.of_pieces(X, _hashes))))
    return replace(groups, copied=0.0 if groups.index is None else float((groups.index >= 0).mean()))


def warning_of_copies(groups: Groups) -> tuple[Caution, ...]:
    """A warning that tells what to do about copies, if the user has said nothing and more than a few rows have one."""
    if groups.by != "rows" or groups.copied is None or groups.copied < _FEW_COPIES:
        return ()
    text = (
        f"{in_percent(groups.copied)} of the training rows have a copy, and each row counts as it is. If rows were "
        "repeated or oversampled before the training, give groups='copies'; if equal rows are different cases, "
        "groups='rows'"
    )
    return (Caution(CopiesWarning, text),)


def _hashes(_: int, X: Any) -> Hashes:
    """Hash of each row, the 64-bit sum of the hashes of its cells.

    Among ten million rows, two different rows share a hash with a probability of 3e-6.
    """
    rows = np.zeros(matrix.n_rows(X), dtype=np.uint64)
    if issparse(X):
        # Differences of sums are exact, because they are taken modulo 2⁶⁴.
        total = np.append(np.uint64(0), np.cumsum(_mixed(_bits(X.data), X.indices), dtype=np.uint64))
        return np.asarray(total[X.indptr[1:]] - total[X.indptr[:-1]])
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        step, column = max(1, _CELLS // X.shape[1]), np.arange(X.shape[1])
        for start in range(0, len(X), step):
            rows[start : start + step] = _mixed(_bits(X[start : start + step]), column).sum(axis=1, dtype=np.uint64)
        return rows
    for place, cells in enumerate(_columns(X)):
        rows += _mixed(_bits(cells), np.array([place]))
    return rows


def _columns(X: Any) -> Iterator[NDArray[Any]]:
    """The columns of a table, or of an array of text, as numbers that are equal if the values are equal."""
    if isinstance(X, np.ndarray):
        yield from (_codes(column) for column in X.T)
        return
    import pandas as pd

    for place in range(matrix.n_features(X)):
        column = X.iloc[:, place] if hasattr(X, "iloc") else X.column(place).to_pandas()
        kind = kind_of(column.dtype)
        if kind == "category":
            yield column.cat.codes.to_numpy()
        elif kind != "number":
            # Hashes are the same in all pieces of a table; numbers by order of appearance would not be.
            hashes = pd.util.hash_array(column.to_numpy(dtype=object))
            yield np.where(column.isna(), 0, hashes.view(np.int64))
        elif isinstance(column.dtype, np.dtype):
            yield column.to_numpy()
        else:
            yield column.to_numpy(dtype=np.float64, na_value=np.nan)


def _codes(column: NDArray[Any]) -> Int64s:
    """A number for each distinct value, -1 for missing values."""
    number: dict[Any, int] = {}
    values = column.tolist()
    codes = [-1 if value is None or value != value else number.setdefault(value, len(number)) for value in values]
    return np.array(codes, dtype=np.int64)


def _bits(values: NDArray[Any]) -> Hashes:
    """Numbers as bits: equal numbers have equal bits, and so have all missing values."""
    if values.dtype.kind != "f":
        return values.astype(np.int64).view(np.uint64)
    values = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    return values.view(np.uint64)


def _mixed(bits: Hashes, column: NDArray[Any]) -> Hashes:
    """Hash cells by value and column.

    Method of G. Steele, D. Lea, C. Flood (2014). "Fast splittable pseudorandom number generators." OOPSLA, 453-472.
    """
    mixed = bits + (column.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, multiplier in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(multiplier)
    return np.asarray(mixed ^ mixed >> np.uint64(31))
