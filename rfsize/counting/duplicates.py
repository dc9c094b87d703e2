"""Duplicates: which training rows are identical, and the groups that the user asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from rfsize._util import Caution, choice, in_percent
from rfsize.counting.groups import NO_GROUPS, WORDS, Groups
from rfsize.exceptions import ForestWarning
from rfsize.models.rows import Chunk, DistributedRows, Rows, open_rows

Hashes = NDArray[np.uint64]

# Number of rows to hash at once.
_ROWS = 1 << 13

# From this share of rows with copies on, a warning is given.
_FEW_COPIES = 0.01


def resolve_groups(groups: str | ArrayLike | None, X: Any, n_rows: int) -> Groups:
    """The groups that the user asks for; by default each row stands alone, and only the share of copies is counted.

    Parameters
    ----------
    groups : array_like of shape (n_rows,), "copies", "rows" or None
        A label for each row; "copies" for groups of identical rows; "rows" for no groups; None if nothing is said.
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
    rows = None if X is None else _readable(X)
    if rows is None and groups == "copies":
        raise ValueError(
            "groups='copies' compares the training rows, and the data do not hold them: make a lightgbm.Dataset "
            "with free_raw_data=False, or a DMatrix in place of a QuantileDMatrix, or give the group of each row"
        )
    if rows is None:
        return Groups("unknown")
    return copies(rows) if groups == "copies" else Groups(copied=copies(rows).copied)


def _readable(X: Any) -> Rows | DistributedRows | None:
    """Opened rows of numbers and categories; None if the rows cannot be read."""
    if isinstance(X, DistributedRows) or (isinstance(X, Rows) and X.is_encoded):
        return X
    X = X.source if isinstance(X, Rows) else X
    try:
        return open_rows(X.get_data() if hasattr(X, "num_row") else X)
    except ValueError:  # members that are no trees may read anything, and quantised rows are gone
        return None


def copies(rows: Rows | DistributedRows) -> Groups:
    """Group rows with identical features; missing values count as equal."""
    if isinstance(rows, DistributedRows):
        hashes = list(rows.each(_hashes_of_part))
    else:
        hashes = [_hashes(chunk) for chunk in rows.chunks()]
    groups = Groups.numbered("copies", np.concatenate(hashes))
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
    return (Caution(ForestWarning, text),)


def _hashes_of_part(_: int, X: Any) -> Hashes:
    return np.concatenate([_hashes(chunk) for chunk in open_rows(X).chunks()])


def _hashes(chunk: Chunk) -> Hashes:
    """Hash of each row, the 64-bit sum of the hashes of its cells.

    Among ten million rows, two different rows share a hash with a probability of 3e-6.
    """
    hashes, start = np.zeros(chunk.n_rows, dtype=np.uint64), 0
    while start < chunk.n_rows:
        stop = min(chunk.n_rows, start + _ROWS)
        values = chunk.read(start, stop)
        if issparse(values):
            # Differences of sums are exact, because they are taken modulo 2⁶⁴.
            total = np.append(np.uint64(0), np.cumsum(_mixed(_bits(values.data), values.indices), dtype=np.uint64))
            hashes[start:stop] = total[values.indptr[1:]] - total[values.indptr[:-1]]
        else:
            hashes[start:stop] = _mixed(_bits(values), np.arange(values.shape[1])).sum(axis=1, dtype=np.uint64)
        start = stop
    return hashes


def _bits(values: NDArray[Any]) -> Hashes:
    """Numbers as bits: equal numbers have equal bits, and so have all missing values."""
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
