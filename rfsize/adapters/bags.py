"""Which rows each tree was trained on, as a framework draws them from where these lay; see `counting.bag_proof`."""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import NamedTuple

import numpy as np

from rfsize.adapters.leaves import LeafLabels, Leaves
from rfsize.utils.typing import Bools, Floats, Int64s


class Run(NamedTuple):
    """Rows that lay one after another on one machine.

    Attributes
    ----------
    rows : slice
        Which they are of the rows that were asked for.
    first : int
        Number, on its machine, of the first of them.
    machine : int
        Number of the machine.
    """

    rows: slice
    first: int
    machine: int

    @property
    def stop(self) -> int:
        """Number, on its machine, after that of the last of them."""
        return int(self.first + self.rows.stop - self.rows.start)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where training rows lay, in runs of rows that were one after another on one machine.

    LightGBM and XGBoost draw bags on each machine by the numbers that rows have there, from the same seed: row 7 of
    every machine is in the same bags.

    Attributes
    ----------
    ends : ndarray of int64, shape (n_runs,)
        Rows up to the end of each run.
    first : ndarray of int64, shape (n_runs,)
        Number, on its machine, of the first row of each run.
    machine : ndarray of int64, shape (n_runs,)
        The machine of each run.
    sizes : ndarray of int64, shape (n_machines,)
        Rows of each machine.
    """

    ends: Int64s
    first: Int64s
    machine: Int64s
    sizes: Int64s

    @classmethod
    def alone(cls, n_rows: int) -> Layout:
        """Of rows that all lay on one machine, in their order."""
        return cls(*(np.array([number]) for number in (n_rows, 0, 0, n_rows)))

    @classmethod
    def of_parts(cls, lengths: Sequence[int] | Int64s, machines: Sequence[Sequence[int]]) -> Layout:
        """Of parts of the rows, of which each machine held some, one after another.

        Parameters
        ----------
        lengths : sequence of int
            Rows of each part, in the order of the rows.
        machines : sequence of sequences of int
            Numbers of the parts that lay on each machine, in the order in which it held them.

        Raises
        ------
        ValueError
            If ``machines`` does not name each part once.
        """
        lengths = np.asarray(lengths, dtype=np.int64)
        try:
            held = [[index(part) for part in parts] for parts in machines]
        except TypeError:  # of what is no list of lists of whole numbers
            held = []
        if sorted(itertools.chain.from_iterable(held)) != list(range(len(lengths))):
            raise ValueError(
                "layout must hold a list for each worker, with the numbers of its partitions of X. Each of the "
                f"{len(lengths)} partitions must be named once, from 0 on; found {machines!r}"
            )
        first, machine = np.zeros((2, len(lengths)), dtype=np.int64)
        for number, parts in enumerate(held):
            first[parts] = np.cumsum(lengths[parts]) - lengths[parts]
            machine[parts] = number
        some, sizes = lengths > 0, np.array([lengths[parts].sum() for parts in held if lengths[parts].any()])
        _, numbers = np.unique(machine[some], return_inverse=True)  # of machines that held rows
        return cls(np.cumsum(lengths[some]), first[some], numbers.astype(np.int64), sizes)

    @property
    def n_rows(self) -> int:
        """Rows of all machines."""
        return int(self.ends[-1])

    @property
    def machine_of_row(self) -> Int64s:
        """The machine of each row, shape (n_rows,)."""
        return np.repeat(self.machine, np.diff(self.ends, prepend=0))

    def runs(self, start: int, stop: int) -> Iterator[Run]:
        """The runs of rows ``start`` to ``stop``."""
        at = start
        for run in range(int(np.searchsorted(self.ends, start, side="right")), len(self.ends)):
            end, before = min(stop, int(self.ends[run])), int(self.ends[run - 1]) if run else 0
            if at < end:
                yield Run(slice(at - start, end - start), int(self.first[run]) + at - before, int(self.machine[run]))
            at = end
            if at == stop:
                return

    def part(self, start: int, stop: int) -> Layout:
        """Of rows ``start`` to ``stop`` alone; the machines keep their numbers and sizes."""
        runs = list(self.runs(start, stop))
        ends, first, machine = np.array([(run.rows.stop, run.first, run.machine) for run in runs], dtype=np.int64).T
        return Layout(ends, first, machine, self.sizes)

    def only(self, machine: int) -> Layout:
        """Of the rows of one machine."""
        mine = self.machine == machine
        lengths = np.diff(self.ends, prepend=0)[mine]
        alone: Int64s = np.zeros(len(lengths), dtype=np.int64)
        return Layout(np.cumsum(lengths), self.first[mine], alone, self.sizes[[machine]])


class Bags(ABC):
    """The in-bag rows of every member, rebuilt from the model's own seed.

    Attributes
    ----------
    n_rows : int
        Training rows.
    need_proof : bool
        Whether the framework does not itself say which rows were in the bags.
    labels : LeafLabels or None
        What the labels of training make of the leaves, where they were given and that is simple to say.
    fit : bool
        Whether the bags are as large as the model says, where a quick look tells.
    hold_all : bool
        Whether each bag holds all rows.
    """

    n_rows: int
    need_proof: bool = True
    labels: LeafLabels | None = None
    fit: bool = True
    hold_all: bool = False

    @abstractmethod
    def take(self, start: int, stop: int) -> Bools:
        """In-bag mask of rows ``start`` to ``stop``, shape (rows, n_members, n_outputs or 1)."""

    @abstractmethod
    def row_mass(self, start: int, stop: int) -> Floats:
        """What each row adds to `Leaves.mass` where it is in the bag, shape (rows, n_members or 1, n_outputs or 1)."""

    @abstractmethod
    def contradicted(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        """Leaves whose stored mass differs from the mass of the rebuilt bags, shape (n_leaves,)."""

    def exceeded(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        """Leaves in which the rows so far have more mass than all rows had at training, shape (n_leaves,)."""
        return np.asarray(rebuilt > leaves.mass)

    @property
    @abstractmethod
    def advice(self) -> str:
        """What a failed proof may mean for this framework and what to do, as a clause."""


class WholeBags(Bags):
    """Bags of trees that were all trained on all rows.

    Parameters
    ----------
    n_rows, n_members : int
    unit : ndarray of float64, shape (n_leaves,)
        What a row adds to the mass of each leaf.
    """

    hold_all = True

    def __init__(self, n_rows: int, n_members: int, unit: Floats) -> None:
        self.n_rows, self._n_members, self._unit = n_rows, n_members, unit

    def take(self, start: int, stop: int) -> Bools:
        return np.ones((stop - start, self._n_members, 1), dtype=np.bool_)

    def row_mass(self, start: int, stop: int) -> Floats:
        return np.ones((stop - start, 1, 1))

    def contradicted(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        return np.asarray(np.rint(leaves.mass / self._unit) != rebuilt)

    def exceeded(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        return np.asarray(rebuilt > np.rint(leaves.mass / self._unit))

    @property
    def advice(self) -> str:
        return "Give the training rows."


class LaidOutBags(Bags):
    """Bags that each machine drew over its own rows, by the numbers that these have there.

    Attributes
    ----------
    layout : Layout
        Where the rows lay; of a forest that one machine trained, all of them in their order.
    """

    layout: Layout

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Training rows."""
        return self.layout.n_rows

    def part(self, start: int, stop: int) -> LaidOutBags:
        """The bags of rows ``start`` to ``stop`` alone, to be taken elsewhere; only all rows together prove them."""
        part = copy.copy(self)
        part.layout = self.layout.part(start, stop)
        part.labels = None if self.labels is None else self.labels.part(start, stop)
        return part
