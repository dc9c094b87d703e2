"""Bags: the rows each tree was trained on, redrawn from where the rows lay; proven by `counting.task.BagCheck`."""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from rfsize._util import Bools, Floats, Int64s
from rfsize.models.ensemble import TreeEnsemble

# The end of messages: what needs no bags. It can be done as written, whatever function raises the error.
FRESH_ROWS = "rows that the forest was not trained on, which need no bags, as in rfsize.size(model, X_new, y_new)"


class Run(NamedTuple):
    """Consecutive rows of one machine.

    Attributes
    ----------
    rows : slice
        Their places among the requested rows.
    first : int
        Number of the first row on its machine.
    machine : int
        Number of the machine.
    """

    rows: slice
    first: int
    machine: int

    @property
    def stop(self) -> int:
        """Number of the last row on its machine, plus one."""
        return int(self.first + self.rows.stop - self.rows.start)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the training rows lay, as runs of consecutive rows of one machine.

    Every machine numbers its own rows. LightGBM and XGBoost draw bags by these numbers, from the same seed on every
    machine. So row 7 of every machine is in the same bags.

    Attributes
    ----------
    ends : ndarray of int64, shape (n_runs,)
        Number of rows up to the end of each run.
    first : ndarray of int64, shape (n_runs,)
        Number of each run's first row on its machine.
    machine : ndarray of int64, shape (n_runs,)
        The machine of each run.
    sizes : ndarray of int64, shape (n_machines,)
        Number of rows of each machine.
    """

    ends: Int64s
    first: Int64s
    machine: Int64s
    sizes: Int64s

    @classmethod
    def alone(cls, n_rows: int) -> Layout:
        """The layout of rows that all lay on one machine, in their order."""
        return cls(*(np.array([number]) for number in (n_rows, 0, 0, n_rows)))

    @classmethod
    def of_parts(cls, lengths: Int64s, machines: Sequence[Sequence[int]]) -> Layout:
        """The layout of rows in parts; each machine held some of the parts, one after another.

        Parameters
        ----------
        lengths : ndarray of int64
            Number of rows of each part, in the order of the rows.
        machines : sequence of sequences of int
            For each machine, the numbers of its parts, in the order in which it held them.

        Raises
        ------
        ValueError
            If ``machines`` does not name each part exactly once.
        """
        try:
            held = [list(parts) for parts in machines]
        except TypeError:  # machines is not a list of lists
            held = []
        if sorted(itertools.chain.from_iterable(held)) != list(range(len(lengths))):
            every = f"0 to {len(lengths) - 1}"
            raise ValueError(f"layout must list each worker's partitions, {every}, each once: found {machines!r}")
        first, machine = np.zeros((2, len(lengths)), dtype=np.int64)
        for number, parts in enumerate(held):
            first[parts] = np.cumsum(lengths[parts]) - lengths[parts]
            machine[parts] = number
        has_rows, sizes = lengths > 0, np.array([lengths[parts].sum() for parts in held if lengths[parts].any()])
        _, numbers = np.unique(machine[has_rows], return_inverse=True)  # count only machines that held rows
        return cls(np.cumsum(lengths[has_rows]), first[has_rows], numbers.astype(np.int64), sizes)

    @property
    def n_rows(self) -> int:
        """Number of rows of all machines."""
        return int(self.ends[-1])

    @property
    def machine_of_row(self) -> Int64s:
        """The machine of each row, shape (n_rows,)."""
        return np.repeat(self.machine, np.diff(self.ends, prepend=0))

    def runs(self, start: int, stop: int) -> Iterator[Run]:
        """The runs that rows ``start`` to ``stop`` consist of."""
        first, last = np.searchsorted(self.ends, (start, stop - 1), side="right").tolist()
        for run in range(first, last + 1):
            before = int(self.ends[run - 1]) if run else 0
            low, high = max(start, before), min(stop, int(self.ends[run]))
            yield Run(slice(low - start, high - start), int(self.first[run]) + low - before, int(self.machine[run]))

    def part(self, start: int, stop: int) -> Layout:
        """The layout of rows ``start`` to ``stop`` only; the machines keep their numbers and sizes."""
        runs = list(self.runs(start, stop))
        ends, first, machine = np.array([(run.rows.stop, run.first, run.machine) for run in runs], dtype=np.int64).T
        return Layout(ends, first, machine, self.sizes)


class Bags(ABC):
    """The in-bag rows of every member, rebuilt from the model's own seed.

    Attributes
    ----------
    n_rows : int
        Number of training rows.
    need_proof : bool
        True if the framework does not store which rows were in the bags, so that rfsize must prove them.
    fit : bool
        False if a quick check finds that the bags are not as large as the model says.
    advice : str
        What a failed proof may mean for this framework, and what to do; part of an error message.
    """

    n_rows: int
    need_proof: bool = True
    fit: bool = True
    advice: str = "Give the training rows, all of them, in the order of training."

    @abstractmethod
    def take(self, start: int, stop: int) -> Bools:
        """In-bag mask of rows ``start`` to ``stop``, shape (rows, n_members, n_outputs or 1)."""

    def row_mass(self, start: int, stop: int) -> Floats:
        """What each row adds to the cover of a leaf if it is in the bag, shape (rows, n_trees or 1, n_outputs or 1)."""
        return np.ones((stop - start, 1, 1))

    def cover(self, trees: TreeEnsemble) -> Floats:
        """The cover of each leaf by the rows of its bag, as the model stores it, shape (n_nodes,)."""
        return trees.cover

    def contradicted(self, trees: TreeEnsemble, rebuilt: Floats) -> Bools:
        """Leaves whose stored cover differs from that of the rebuilt bags, shape (n_nodes,)."""
        return np.asarray(rebuilt != self.cover(trees))

    def exceeded(self, trees: TreeEnsemble, rebuilt: Floats) -> Bools:
        """Leaves in which the rows read so far exceed the cover by all training rows, shape (n_nodes,)."""
        return np.asarray(rebuilt > self.cover(trees))


class WholeBags(Bags):
    """Bags of a forest in which every tree was trained on all rows.

    Parameters
    ----------
    n_rows, n_members : int
    unit : ndarray of float64, shape (n_nodes,)
        What a row adds to the cover of each leaf.
    """

    def __init__(self, n_rows: int, n_members: int, unit: Floats) -> None:
        self.n_rows, self._n_members, self._unit = n_rows, n_members, unit

    def take(self, start: int, stop: int) -> Bools:
        return np.ones((stop - start, self._n_members, 1), dtype=np.bool_)

    def cover(self, trees: TreeEnsemble) -> Floats:
        return np.asarray(np.rint(trees.cover / self._unit))


class LaidOutBags(Bags):
    """Bags that each machine drew from its own rows, by the rows' numbers on that machine.

    Attributes
    ----------
    layout : Layout
        Where the rows lay. If one machine trained the forest, it held all rows in their order.
    by_row : str
        Name of the array that holds a number for each row.
    """

    layout: Layout
    by_row: ClassVar[str]

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of training rows."""
        return self.layout.n_rows

    def part(self, start: int, stop: int) -> LaidOutBags:
        """The bags of rows ``start`` to ``stop``, to send to another process; only all rows together prove the bags."""
        part = copy.copy(self)
        part.layout = self.layout.part(start, stop)
        setattr(part, self.by_row, getattr(self, self.by_row)[start:stop])
        return part
