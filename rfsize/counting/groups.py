"""Groups: training rows that belong together. A tree that was trained on one of them also knows the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.utils.words import how_many

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
    of_copies : Groups or None
        The groups of copies, if rows stand alone but it is not clear whether their copies should.
    """

    by: str = "rows"
    index: NDArray[np.int64] | None = None
    sizes: NDArray[np.int64] | None = None
    copied: float | None = None
    of_copies: Groups | None = None

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
        missing = [index for index, one in enumerate(label.tolist()) if _is_missing(one)]
        if missing:
            raise ValueError(
                f"groups has no label for row {missing[0]} ({how_many(len(missing), 'row')} in all): give rows that "
                "belong to no other a label of their own"
            )
        if label.dtype.kind == "O":
            try:
                number = {one: place for place, one in enumerate(dict.fromkeys(label.tolist()))}
            except TypeError:
                raise ValueError("groups must hold labels such as numbers or text, found others") from None
            label = np.array([number[one] for one in label.tolist()])
        return cls.numbered("given", label)

    @property
    def n_groups(self) -> int:
        """Number of groups of more than one row."""
        return 0 if self.index is None else int(self.index.max()) + 1

    @property
    def units(self) -> NDArray[np.int64] | None:
        """A number for each row, equal only for rows of one group; None if every row stands alone."""
        if self.index is None:
            return None
        alone = self.index < 0
        return np.where(alone, self.n_groups + np.cumsum(alone), self.index)

    @property
    def once(self) -> NDArray[np.bool_] | None:
        """Mask of the rows to count if each set of copies counts once, shape (n_rows,); None if every row counts.

        Copies are one row that occurs several times. Rows of a group that the user gave are different rows.
        """
        if self.by != "copies" or self.index is None:
            return None
        first = self.index < 0
        first[np.unique(self.index, return_index=True)[1]] = True
        return None if first.all() else first

    def take(self, rows: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Groups:
        """Groups of some of the rows; ``sizes`` still counts all rows."""
        if self.index is None or self.sizes is None:
            return self
        return replace(self, index=self.index[rows], sizes=self.sizes[rows])

    def spread(self, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Rows that were ``seen``, or that share a group with such a row, shape (n_rows,)."""
        if self.index is None:
            return seen
        hit = np.zeros(self.n_groups + 1, dtype=np.bool_)  # the last entry, at -1, is for rows that stand alone
        hit[self.index[seen]] = True
        hit[-1] = False
        return np.asarray(seen | hit[self.index])


def _as_labels(groups: ArrayLike) -> NDArray[Any]:
    """Labels as an array. Labels in a list keep their types, which NumPy would convert to a common type."""
    if np.ma.is_masked(groups):
        raise ValueError("groups is a masked array with masked labels: give rows that belong to no other a label")
    if isinstance(groups, (list, tuple)) and not any(isinstance(one, (list, tuple, np.ndarray)) for one in groups):
        label = np.empty(len(groups), dtype=object)
        label[:] = groups
        return label
    try:
        return np.asarray(groups)
    except ValueError:
        raise ValueError("groups must hold one label for each training row, found rows of several lengths") from None


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or cannot be compared with itself."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError, ArithmeticError):
        return True


ALONE = Groups()
