"""Sets of columns that are shuffled together, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import did_you_mean, how_many
from rfsize.walking.layout import PackedForest

# The user lists some of the columns, or names sets of columns.
ColumnsLike = Iterable[str | int] | Mapping[str, str | int | Iterable[str | int]]


class ColumnSets:
    """Sets of columns. Each set is shuffled as a whole, and no column is in two sets.

    Parameters
    ----------
    columns : list of str or int, dict of str to such lists, or None
        See `rfsize.oob_importance`.
    names : list of str or None
        Names of all columns of the forest.
    n_columns : int
        Number of columns of the forest.

    Attributes
    ----------
    names : tuple of str
        Names of the sets, in the order in which they were given.

    Raises
    ------
    ValueError
        If the forest has no such column, a column is in two sets, or there is nothing to shuffle.
    """

    def __init__(self, columns: ColumnsLike | None, names: list[str] | None, n_columns: int) -> None:
        self._known = [f"x{column}" for column in range(n_columns)] if names is None else names
        self._number = {name: column for column, name in enumerate(self._known)}
        sets = self._sets(range(n_columns) if columns is None else columns)
        if not sets:
            raise ValueError("columns names nothing to shuffle: give names or numbers of columns, or leave it out")
        self.names = tuple(sets)
        self._set_of = np.full(n_columns, -1, dtype=np.int32)
        for place, (name, members) in enumerate(sets.items()):
            if not members:
                raise ValueError(f"columns has a set {name!r} that is empty: name its columns, or leave it out")
            for column in members:
                if self._set_of[column] not in (-1, place):
                    raise ValueError(
                        f"column {self._known[column]!r} is in two sets, {self.names[self._set_of[column]]!r} and "
                        f"{name!r}: leave it out of one, or make two calls"
                    )
                self._set_of[column] = place

    def __len__(self) -> int:
        return len(self.names)

    def of_quantised(self, forest: PackedForest) -> NDArray[np.int32]:
        """The set of each column of quantised rows, shape (forest.n_columns,); -1 if the column is in no set."""
        found = np.full(forest.n_columns, -1, dtype=np.int32)
        feature = np.repeat(forest.columns.feature, np.diff(forest.columns.start))
        found[: len(feature)] = self._set_of[feature]
        return found

    def _sets(self, columns: Any) -> dict[str, list[int]]:
        if isinstance(columns, Mapping):
            return {str(name): [self._column(one) for one in _several(some)] for name, some in columns.items()}
        numbers = [self._column(one) for one in _several(columns)]
        twice = {self._known[one] for one in numbers if numbers.count(one) > 1} if len(numbers) < 1000 else set()
        if twice or len(set(numbers)) < len(numbers):
            raise ValueError(f"columns names the same column twice: {sorted(twice)}")
        return {self._known[one]: [one] for one in numbers}

    def _column(self, named: Any) -> int:
        if isinstance(named, Integral) and not isinstance(named, bool) and 0 <= int(named) < len(self._known):
            return int(named)
        if isinstance(named, str) and named in self._number:
            return self._number[named]
        there = f"the forest has {how_many(len(self._known), 'column')}, {self._known[0]!r} to {self._known[-1]!r}"
        raise ValueError(f"columns has {named!r}{did_you_mean(named, self._known)}, which is no column: {there}")


def _several(some: Any) -> list[Any]:
    return list(some) if isinstance(some, Iterable) and not isinstance(some, str) else [some]
