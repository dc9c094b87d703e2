"""Copies among the training rows: which rows are identical, and whether they are natural or were repeated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from rfsize.counting.groups import ALONE, WORDS, Groups
from rfsize.utils import matrix
from rfsize.utils.rows import from_polars, kind_of
from rfsize.utils.validation import choice

Hashes = NDArray[np.uint64]

# Number of cells to hash at once.
_CELLS = 1 << 18

# Number of column sets to compare rows by; each column is in half of them.
_WINDOWS = 8
_FEWEST_COLUMNS = 4

# Rows were repeated if at most the first share of the rows with copies also have neighbours. If all columns take few
# values, this is no evidence. Copies are natural if at least the second share also have neighbours, and the rows with
# neighbours are this many times the rows with copies. Measured by `benchmarks/copies.py`.
_REPEATED, _NATURAL, _MANY_MORE = 0.1, 0.75, 2.5
_FEW_VALUES, _ROWS_LOOKED_AT = 16, 1000

# A row that occurs more often than this, and makes up more than this share of all copies, is a default: all missing or
# all zero, for example. Whether fresh rows are such defaults too is unknown.
_OFTEN, _MUCH = 10, 0.1

# Of seven copies, hardly one tree in a thousand sees none. If more than this share of the rows has more than six
# copies, too many rows would never get a vote.
_SEEN_BY_ALL, _FEW_ROWS = 6, 0.01

# Repeated rows have similar numbers of copies: their variance is at most their mean. A larger variance counts as chance
# up to this many standard errors.
_CHANCE = 3.0


def resolved(groups: str | ArrayLike | None, X: Any, n_rows: int) -> Groups:
    """The groups that the user asked for; by default, those found in the rows.

    Parameters
    ----------
    groups : array_like of shape (n_rows,), "copies", "rows" or None
        A label for each row; "copies" for groups of identical rows; "rows" for no groups; None to decide from the rows.
    X
        Training rows as a framework takes them, or None if they are not available.
    n_rows : int
        Number of training rows.

    Raises
    ------
    ValueError
        If ``groups`` is none of these, or is "copies" and the rows are not available.
    """
    X = X.get_data() if hasattr(X, "num_row") else from_polars(X)
    X = X.tocsr() if issparse(X) else X
    if groups is None:
        return Groups("unknown") if X is None else found(X)
    if not isinstance(groups, str):
        return Groups.given(groups, n_rows)
    choice("groups", groups, WORDS, "; or give an array with the group of each row")
    if groups == "rows":
        return ALONE
    if X is None:
        raise ValueError(
            "groups='copies' compares the training rows, and the data do not hold them: make a lightgbm.Dataset "
            "with free_raw_data=False, or a DMatrix in place of a QuantileDMatrix, or give the group of each row"
        )
    return copies(X)


def copies(X: Any) -> Groups:
    """Group rows with identical features; missing values count as equal."""
    row = _hashes(X, np.ones((matrix.n_features(X), 1), dtype=np.bool_))[:, 0]
    in_order = np.sort(row)
    if not (in_order[1:] == in_order[:-1]).any():
        return Groups("copies", copied=0.0)
    of_copies = Groups.numbered("copies", row)
    assert of_copies.index is not None
    return replace(of_copies, copied=float((of_copies.index >= 0).mean()))


def found(X: Any) -> Groups:
    """Group copies if rows were repeated; make no groups if copies are natural, or if it is unclear.

    If features take few values, fresh rows have copies among the training rows as often as training rows do. Then the
    trees that predict a fresh row saw its copies too, so copies need no groups. Such rows also have neighbours: other
    rows that agree with them on half of the columns. Repeated rows of continuous features have copies but no
    neighbours. Popular rows, such as items that are bought again and again, have no neighbours either; but some of them
    have far more copies than others.
    """
    of_copies = copies(X)
    copied = of_copies.copied
    if of_copies.index is None:
        return Groups(copied=copied)
    if matrix.n_features(X) == 1:
        return Groups(copied=copied, of_copies=of_copies)
    with_neighbours, times_as_many = _neighbours(X, of_copies)
    unclear = _is_by_default(of_copies) or _are_popular(of_copies) or not _takes_many_values(X, of_copies)
    if with_neighbours <= _REPEATED and not unclear:
        return of_copies
    is_natural = with_neighbours >= _NATURAL and times_as_many >= _MANY_MORE
    return Groups(copied=copied, of_copies=None if is_natural else of_copies)


def _neighbours(X: Any, of_copies: Groups) -> tuple[float, float]:
    """Count rows with neighbours, which agree with other rows on half of the columns; copies count as one row.

    Returns the share of rows with copies that have neighbours, and the ratio of rows with neighbours to rows with
    copies.

    Both are the second lowest of several choices of columns. So one column that tells all rows apart is enough to rule
    out neighbours. But one choice that leaves out two columns with the same content by chance does not decide.
    """
    n = matrix.n_features(X)
    kept = min(n - 1, max(_FEWEST_COLUMNS, (n + 1) // 2))
    rng = np.random.default_rng(0)
    chosen = np.zeros((n, _WINDOWS), dtype=np.bool_)
    for half in (range(_WINDOWS // 2), range(_WINDOWS // 2, _WINDOWS)):
        order = rng.permutation(n)
        for window, start in zip(half, np.arange(len(half)) * n // len(half), strict=True):
            chosen[np.roll(order, -start)[:kept], window] = True
    assert of_copies.index is not None
    has_copy = of_copies.index[of_copies.once] >= 0
    shares = []
    for window in _hashes(X, chosen)[of_copies.once].T:
        _, place, rows = np.unique(window, return_inverse=True, return_counts=True)
        has_neighbour = rows[place] > 1
        shares.append((has_neighbour[has_copy].mean(), has_neighbour.mean() / has_copy.mean()))
    _, (of_copied, times_as_many), *_ = sorted(shares)
    return float(of_copied), float(times_as_many)


def _is_by_default(of_copies: Groups) -> bool:
    """Whether a single row makes up a large share of all copies."""
    assert of_copies.index is not None
    rows = np.bincount(of_copies.index[of_copies.index >= 0])
    return bool(rows.max() > _OFTEN and rows.max() > _MUCH * rows.sum())


def _are_popular(of_copies: Groups) -> bool:
    """Whether some rows have enough copies for every tree to see one, and far more copies than others.

    By Fisher's index of dispersion: if each copy is equally likely to be of any row, the number of copies of a row has
    a variance equal to its mean. The variance is estimated with a relative error of √(2/rows).
    """
    assert of_copies.index is not None
    n_copies = np.bincount(of_copies.index[of_copies.index >= 0])
    n_rows = np.count_nonzero(of_copies.index < 0) + len(n_copies)
    if np.count_nonzero(n_copies > _SEEN_BY_ALL) <= _FEW_ROWS * n_rows:
        return False
    return bool(n_copies.var() > n_copies.mean() * (1.0 + _CHANCE * np.sqrt(2.0 / len(n_copies))))


def _takes_many_values(X: Any, of_copies: Groups) -> bool:
    """Whether any column takes more than a few values, judged by the first distinct rows."""
    assert of_copies.once is not None
    some = np.flatnonzero(of_copies.once)[:_ROWS_LOOKED_AT]
    X = matrix.take(X, 0, int(some[-1]) + 1)
    if issparse(X):
        by_column = X[some].tocsc()
        columns = iter(np.split(by_column.data, by_column.indptr[1:-1]))
    elif isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        columns = iter(X[some].T)
    else:
        columns = (cells[some] for cells in _columns(X))
    return any(len(np.unique(cells)) > _FEW_VALUES for cells in columns)


def _hashes(X: Any, chosen: NDArray[np.bool_]) -> Hashes:
    """Hash each row for each choice of columns, shape (n_rows, n_choices); ``chosen`` is (n_columns, n_choices).

    A row's hash is the 64-bit sum of the hashes of its cells. Among ten million rows, two different rows share a hash
    with a probability of 3e-6.
    """
    return np.concatenate(list(matrix.of_pieces(X, _of_piece, chosen)))


def _of_piece(_: int, X: Any, chosen: NDArray[np.bool_]) -> Hashes:
    return _of_rows(X, chosen)


def _of_rows(X: Any, chosen: NDArray[np.bool_]) -> Hashes:
    rows = np.zeros((matrix.n_rows(X), chosen.shape[1]), dtype=np.uint64)
    if issparse(X):
        return _of_sparse(X, chosen)
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        step = max(1, _CELLS // X.shape[1])
        column = np.arange(X.shape[1])
        for start in range(0, len(X), step):
            cell = _mixed(_bits(X[start : start + step]), column)
            rows[start : start + step] = cell @ chosen.astype(np.uint64)
        return rows
    for place, cells in enumerate(_columns(X)):
        rows += _mixed(_bits(cells), np.array([place]))[:, None] * chosen[place]
    return rows


def _of_sparse(X: Any, chosen: NDArray[np.bool_]) -> Hashes:
    rows = np.zeros((X.shape[0], chosen.shape[1]), dtype=np.uint64)
    cell = _mixed(_bits(X.data), X.indices)
    for window, columns in enumerate(chosen.T):
        # Differences of sums are exact, because they are taken modulo 2⁶⁴.
        total = np.append(np.uint64(0), np.cumsum(cell * columns[X.indices], dtype=np.uint64))
        rows[:, window] = total[X.indptr[1:]] - total[X.indptr[:-1]]
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


def _codes(column: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each distinct value, -1 for missing values."""
    number: dict[Any, int] = {}
    values = column.tolist()
    return np.array(
        [-1 if one is None or one != one else number.setdefault(one, len(number)) for one in values], dtype=np.int64
    )


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
