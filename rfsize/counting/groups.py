"""Groups: training rows that belong together. A tree that was trained on one of them also knows the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import Bools, Int64s, how_many

# What users may give instead of an array: copies belong together, or each row stands alone.
WORDS = ("copies", "rows")


@dataclass(frozen=True, eq=False)
class Groups:
    """Which training rows belong together. If a tree's bag holds one of them, it votes on none of them out of bag.

    Attributes
    ----------
    by : {"rows", "copies", "given", "unknown"}
        "rows": each row stands alone. "copies": copies belong together. "given": the user gave groups. "unknown": each
        row stands alone, because rfsize had no rows in which to look for copies.
    index : ndarray of int64, shape (n_rows,), or None
        Number of each row's group; -1 if the row stands alone. None if every row stands alone.
    sizes : ndarray of int64, shape (n_rows,), or None
        Number of rows in each row's group; None if every row stands alone.
    copied : float or None
        Share of the rows that have a copy; None if rfsize did not look for copies.
    """

    by: str = "rows"
    index: Int64s | None = None
    sizes: Int64s | None = None
    copied: float | None = None

    @classmethod
    def numbered(cls, by: str, group: NDArray[Any]) -> Groups:
        """Groups from a number for each row, shape (n_rows,). Any numbers will do."""
        _, inverse, size = np.unique(group, return_inverse=True, return_counts=True)
        if not (size > 1).any():
            return cls(by)
        number = np.where(size > 1, np.cumsum(size > 1) - 1, -1)
        return cls(by, number[inverse].astype(np.int64), size[inverse].astype(np.int64))

    @classmethod
    def given(cls, groups: ArrayLike, n_rows: int) -> Groups:
        """Groups from a label for each row.

        Raises
        ------
        ValueError
            If there is not exactly one label for each row.
        """
        label = _as_labels(groups)
        if label.shape != (n_rows,):
            raise ValueError(
                f"groups must hold one label for each of the {n_rows} training rows, found an array of shape "
                f"{label.shape}; 'copies' makes groups of identical rows, 'rows' leaves each row alone"
            )
        missing = np.flatnonzero(_is_missing(label))
        if missing.size:
            raise ValueError(
                f"groups has no label for row {missing[0]} ({how_many(missing.size, 'row')} in all): give rows that "
                "belong to no other a label of their own"
            )
        if label.dtype.kind == "O":
            number: dict[Any, int] = {}
            try:
                label = np.array([number.setdefault(value, len(number)) for value in label.tolist()])
            except TypeError:
                raise ValueError("groups must hold labels such as numbers or text, found others") from None
        return cls.numbered("given", label)

    @property
    def n_groups(self) -> int:
        """Number of groups of more than one row."""
        return 0 if self.index is None else int(self.index.max()) + 1

    @property
    def units(self) -> Int64s | None:
        """A number for each row, equal only for rows of one group; None if every row stands alone."""
        if self.index is None:
            return None
        alone = self.index < 0
        return np.where(alone, self.n_groups + np.cumsum(alone), self.index)

    def first_of_each(self, n_rows: int) -> Bools:
        """Mask of one row of each group, and of all rows that stand alone."""
        if self.index is None:
            return np.ones(n_rows, dtype=np.bool_)
        mask = self.index < 0
        mask[np.unique(self.index, return_index=True)[1]] = True
        return mask

    @property
    def once(self) -> Bools | None:
        """Mask of the rows to count if each set of copies counts once, shape (n_rows,); None if every row counts.

        Copies are one row that occurs several times. Rows of a group that the user gave are different rows.
        """
        if self.by != "copies" or self.index is None:
            return None
        mask = self.first_of_each(len(self.index))
        return None if mask.all() else mask

    def take(self, rows: Bools | Int64s | slice) -> Groups:
        """Groups of some of the rows; ``sizes`` still counts all rows."""
        if self.index is None or self.sizes is None:
            return self
        return replace(self, index=self.index[rows], sizes=self.sizes[rows])

    def spread(self, seen: Bools) -> Bools:
        """Rows that were ``seen``, or that share a group with such a row, shape (n_rows,)."""
        if self.index is None:
            return seen
        hit = np.zeros(self.n_groups + 1, dtype=np.bool_)  # the last entry, at -1, is for rows that stand alone
        hit[self.index[seen]] = True
        hit[-1] = False
        return np.asarray(seen | hit[self.index])


NO_GROUPS = Groups()


def _as_labels(groups: ArrayLike) -> NDArray[Any]:
    """Labels as an array. Different types in a list stay apart, which NumPy would convert to a common type."""
    if np.ma.is_masked(groups):
        raise ValueError("groups is a masked array with masked labels: give rows that belong to no other a label")
    try:
        label = np.asarray(groups)
    except ValueError:
        raise ValueError("groups must hold one label for each training row, found rows of several lengths") from None
    if isinstance(groups, (list, tuple)) and label.ndim == 1 and label.dtype.kind not in "biu":
        label = np.empty(len(groups), dtype=object)
        label[:] = groups
    return label


def _is_missing(label: NDArray[Any]) -> Bools:
    """Which labels are None, NaN, or cannot be compared with themselves."""
    if label.dtype.kind != "O":
        return np.asarray(label != label)
    return np.array([_is_none(value) for value in label.tolist()], dtype=np.bool_)


def _is_none(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError, ArithmeticError):
        return True
