"""Groups: training rows that belong together, such as copies. A tree that saw one of them also knows the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from rfsize._util import Bools, Caution, Int64s, blocks, choice, how_many, in_percent
from rfsize.exceptions import ForestWarning
from rfsize.models.bags import Bags
from rfsize.models.columns import is_missing
from rfsize.models.rows import Chunk, DistributedRows, Rows, open_rows

Hashes = NDArray[np.uint64]

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

    def units_of(self, rows: Int64s) -> Int64s:
        """`units` of the rows with these numbers; their own numbers if every row stands alone."""
        units = self.units
        return rows if units is None else units[rows]

    def representatives(self, n_rows: int) -> Bools:
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
        mask = self.representatives(len(self.index))
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


def _labels(groups: ArrayLike, n_rows: int) -> NDArray[Any]:
    """Labels as an array. Different types in a list get numbers, since NumPy would convert them to a common type.

    Raises
    ------
    ValueError
        If there is not exactly one label for each row.
    """
    try:
        label = np.asarray(groups)
    except ValueError:  # rows of several lengths
        label = np.zeros(0)
    if label.shape != (n_rows,):
        raise ValueError(f"groups must hold one label for each of the {n_rows} training rows, found {label.shape}")
    has_none = label != label
    if label.dtype.kind in "OUS":  # in a list, NumPy makes text of numbers beside text
        values: list[Any] = list(groups) if isinstance(groups, (list, tuple)) else label.tolist()
        number: dict[Any, int] = {}
        try:
            label = np.array([number.setdefault(value, len(number)) for value in values])
        except TypeError:
            raise ValueError("groups must hold labels such as numbers or text, found others") from None
        has_none = np.array([is_missing(value) for value in values])
    missing = np.flatnonzero(has_none)
    if missing.size:
        rows = how_many(missing.size, "row")
        raise ValueError(f"groups has no label for row {missing[0]} ({rows} in all): give each row a label")
    return label


@dataclass(frozen=True, eq=False)
class GroupInbag:
    """For each group of rows, the trees that saw a row of the group.

    Attributes
    ----------
    index : ndarray of int64, shape (n_rows,)
        Number of each row's group, -1 for a row without a group.
    trees : tuple of int
        Number of trees, and of bags of each.
    bits : ndarray of uint8, shape (n_groups, ...)
        For each group, one bit for each tree.
    """

    index: Int64s
    trees: tuple[int, ...]
    bits: NDArray[np.uint8]

    @classmethod
    def of(cls, bags: Bags | None, groups: Groups) -> GroupInbag | None:
        """Build it from a forest's bags in one pass; None if there are no groups."""
        if bags is None or groups.index is None:
            return None
        trees = bags.take(0, 1).shape[1:]
        n_bags = int(np.prod(trees))
        bits = np.zeros((groups.n_groups, (n_bags + 7) // 8), dtype=np.uint8)
        for start, stop in blocks(bags.n_rows, n_bags, what="bags of groups"):
            rows = np.flatnonzero(groups.index[start:stop] >= 0)
            if rows.size:
                _add_bits(bits, groups.index[start:stop][rows], bags.take(start, stop)[rows])
        return cls(groups.index, trees, bits)

    def part(self, start: int, stop: int) -> GroupInbag:
        """Keep only rows ``start`` to ``stop`` and their groups."""
        present, index = np.unique(self.index[start:stop], return_inverse=True)
        alone = int(present[0] == -1)  # rows without a group share the number -1
        return GroupInbag(index - alone, self.trees, self.bits[present[alone:]])

    def expand(self, start: int, stop: int, inbag: Bools) -> Bools:
        """In-bag mask of rows ``start`` to ``stop``, also True for trees that saw another row of the group."""
        group = self.index[start:stop]
        rows = np.flatnonzero(group >= 0)
        bits = np.unpackbits(self.bits[group[rows]], axis=1, count=int(np.prod(self.trees)))
        seen = inbag.copy()
        seen[rows] |= bits.reshape(-1, *self.trees).view(np.bool_)
        return seen


def _add_bits(bits: NDArray[np.uint8], group: Int64s, inbag: Bools) -> None:
    packed = np.packbits(inbag.reshape(len(inbag), -1), axis=1)
    order = np.argsort(group, kind="stable")
    present, first = np.unique(group[order], return_index=True)
    bits[present] |= np.bitwise_or.reduceat(packed[order], first, axis=0)


# Copies

# Number of rows to hash at once.
_ROWS = 1 << 13

# From this share of rows with copies on, a warning is given.
_FEW_COPIES = 0.01


def check_groups(groups: str | ArrayLike | None, n_rows: int) -> None:
    """Raise ``ValueError`` if ``groups`` are no word and no label for each of ``n_rows`` rows; copies take longer."""
    if isinstance(groups, str):
        choice("groups", groups, WORDS, "; or give an array with the group of each row")
    elif groups is not None:
        _labels(groups, n_rows)


def resolve_groups(groups: str | ArrayLike | None, X: Any, n_rows: int) -> Groups:
    """The groups that the user chooses; by default each row stands alone, and only the share of copies is counted.

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
        return Groups.numbered("given", _labels(groups, n_rows))
    check_groups(groups, n_rows)
    if groups == "rows":
        return NO_GROUPS
    rows = None if X is None else _readable(X)
    if rows is not None:
        return copies(rows) if groups == "copies" else Groups(copied=copies(rows).copied)
    if groups is None:
        return Groups("unknown")
    raise ValueError("groups='copies' compares rows that the data do not hold: give free_raw_data=False, or a DMatrix")


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
        hashes = list(rows.each(_hashes_of_part, what="copies"))
    else:
        hashes = [_hashes(chunk) for chunk in rows.chunks()]
    groups = Groups.numbered("copies", np.concatenate(hashes))
    return replace(groups, copied=0.0 if groups.index is None else float((groups.index >= 0).mean()))


def warning_of_copies(groups: Groups) -> tuple[Caution, ...]:
    """A warning that tells what to do about copies, if the user has said nothing and more than a few rows have one."""
    if groups.by != "rows" or groups.copied is None or groups.copied < _FEW_COPIES:
        return ()
    text = (
        f"{in_percent(groups.copied)} of the training rows have a copy, and each row counts as it is: give "
        "groups='copies' if rows were repeated before the training, groups='rows' if equal rows are different cases"
    )
    return (Caution(ForestWarning, text),)


def _hashes_of_part(_: range, X: Any) -> Hashes:
    return np.concatenate([_hashes(chunk) for chunk in open_rows(X).chunks()])


def _hashes(chunk: Chunk) -> Hashes:
    """Hash of each row, the 64-bit sum of the hashes of its cells.

    Among ten million rows, two different rows share a hash with a probability of 3e-6.
    """
    hashes = np.zeros(chunk.n_rows, dtype=np.uint64)
    for start in range(0, chunk.n_rows, _ROWS):
        stop = min(chunk.n_rows, start + _ROWS)
        values = chunk.read(start, stop)
        if issparse(values):
            # Differences of sums are exact, because they are taken modulo 2⁶⁴.
            total = np.append(np.uint64(0), np.cumsum(_mixed(_bits(values.data), values.indices), dtype=np.uint64))
            hashes[start:stop] = np.diff(total[values.indptr])
        else:
            hashes[start:stop] = _mixed(_bits(values), np.arange(values.shape[1])).sum(axis=1, dtype=np.uint64)
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
