"""Groups: training rows that belong together, so that a tree which saw one of them is no stranger to the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.utils.words import how_many

# In place of an array: copies belong together, or each row stands alone.
WORDS = ("copies", "rows")


@dataclass(frozen=True, eq=False)
class Groups:
    """Which training rows belong together. A tree whose bag holds one of them does not vote on the others out of bag.

    Attributes
    ----------
    by : {"rows", "copies", "given", "unknown"}
        Whether each row stands alone, copies belong together, or the groups were given; "unknown" where rows stand
        alone because there were none to look for copies in.
    index : ndarray of int64, shape (n_rows,), or None
        Number of the group of each row, -1 where no other row belongs to it; None where that is so of all rows.
    sizes : ndarray of int64, shape (n_rows,), or None
        Rows of the group of each row; None where each row stands alone.
    copied : float or None
        Share of the rows that have a copy; None where copies were not looked for.
    of_copies : Groups or None
        Where rows stand alone though it is not clear whether their copies should: the groups of copies.
    """

    by: str = "rows"
    index: NDArray[np.int64] | None = None
    sizes: NDArray[np.int64] | None = None
    copied: float | None = None
    of_copies: Groups | None = None

    @classmethod
    def numbered(cls, by: str, group: NDArray[Any]) -> Groups:
        """Groups by a number for each row, shape (n_rows,), whatever the numbers."""
        _, inverse, size = np.unique(group, return_inverse=True, return_counts=True)
        if not (size > 1).any():
            return cls(by)
        number = np.where(size > 1, np.cumsum(size > 1) - 1, -1)
        return cls(by, number[inverse].astype(np.int64), size[inverse].astype(np.int64))

    @classmethod
    def given(cls, groups: ArrayLike, n_rows: int) -> Groups:
        """Groups by a label for each row.

        Raises
        ------
        ValueError
            If there is not one label for each row.
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
        """Groups of more than one row."""
        return 0 if self.index is None else int(self.index.max()) + 1

    @property
    def units(self) -> NDArray[np.int64] | None:
        """A number for each row, the same for rows of one group alone; None where each row stands alone."""
        if self.index is None:
            return None
        alone = self.index < 0
        return np.where(alone, self.n_groups + np.cumsum(alone), self.index)

    @property
    def once(self) -> NDArray[np.bool_] | None:
        """The first of the copies of each row, shape (n_rows,); None where every row counts.

        Copies are one row that stands there often; rows of a group that was given are many rows.
        """
        if self.by != "copies" or self.index is None:
            return None
        first = self.index < 0
        first[np.unique(self.index, return_index=True)[1]] = True
        return None if first.all() else first

    def take(self, rows: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Groups:
        """Those of some of the rows; sizes stay those of all rows."""
        if self.index is None or self.sizes is None:
            return self
        return replace(self, index=self.index[rows], sizes=self.sizes[rows])

    def spread(self, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Rows that were seen, or of whose group one was; shape (n_rows,)."""
        if self.index is None:
            return seen
        hit = np.zeros(self.n_groups + 1, dtype=np.bool_)  # the last, at -1, is of rows that stand alone
        hit[self.index[seen]] = True
        hit[-1] = False
        return np.asarray(seen | hit[self.index])


def _as_labels(groups: ArrayLike) -> NDArray[Any]:
    """Labels as an array; those of a list keep their kinds, which NumPy would make one of."""
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
    """Whether a label is None, NaN, or what does not even tell whether it is itself."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError, ArithmeticError):
        return True


ALONE = Groups()
