"""Where training rows lay, where several machines trained a forest together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import NamedTuple

import numpy as np

from rfsize.utils.typing import Int64s


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
                f"layout must name each of the {len(lengths)} partitions of X once, by its number from 0, in a list of "
                f"those that lay on each worker, found {machines!r}"
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
