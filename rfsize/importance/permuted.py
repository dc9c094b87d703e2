"""Training rows that go down the trees with some columns replaced by those of other rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s, each_range, effective_threads
from rfsize.counting.outputs import TreeOutputs, means_of, task_of
from rfsize.counting.task import seen_mask
from rfsize.estimation.intervals import SEED
from rfsize.exceptions import NotAForestError
from rfsize.importance.columns import ColumnSets
from rfsize.models.ensemble import TreeEnsemble
from rfsize.models.rows import Rows
from rfsize.walking.leaves import NativeWalk, checked_walk, quantised

_Result = TypeVar("_Result")

# Most numbers that one thread adds to at a time, which keeps its memory to a few hundred megabytes.
_CELLS = 1 << 24


@dataclass(frozen=True, eq=False)
class PermutedRows:
    """The training rows of out-of-bag outputs, and the sets of columns to shuffle.

    Attributes
    ----------
    outputs : TreeOutputs
        Out-of-bag outputs, with the truth of the rows.
    sets : ColumnSets
        Sets of columns to shuffle.
    seen : ndarray of bool, shape (n_rows, n_members, n_outputs or 1)
        Whether a tree was trained on a row, or on another row of its group.
    """

    outputs: TreeOutputs
    sets: ColumnSets
    seen: Bools
    _walk: NativeWalk
    _rows: _core.Rows
    _set_of_column: NDArray[np.int32]

    @classmethod
    def of(cls, outputs: TreeOutputs, sets: ColumnSets) -> PermutedRows:
        """Prepare the rows of outputs, if they are in memory and the members are trees; raises as `checked_walk`."""
        task = task_of(outputs)
        if task.forest.ensemble is None:
            raise NotAForestError(
                "importances send rows down trees, and the members of this ensemble are no trees: on rows that it was "
                "not trained on, take sklearn.inspection.permutation_importance(model, X_new, y_new)"
            )
        if not isinstance(task.X, Rows):
            raise ValueError(
                "shuffling a column takes all rows at once: give rows in memory, as an array or a DataFrame"
            )
        walk = checked_walk(task.forest, task.X)
        rows = quantised(walk.forest, task.X.whole().read(0, task.n_rows))
        return cls(outputs, sets, seen_mask(task), walk, rows, sets.of_quantised(walk.forest))

    @property
    def trees(self) -> TreeEnsemble:
        """The trees of the forest."""
        ensemble = task_of(self.outputs).forest.ensemble
        assert ensemble is not None
        return ensemble

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return self.outputs.n_rows

    @property
    def used(self) -> tuple[int, float]:
        """How many rows ask any tree, and how many trees each of them asks on average."""
        means = means_of(self.outputs)
        return int(means.is_known.sum()), float(means.n_votes[means.is_known].mean())

    def at_nodes(self, of_leaves: Floats) -> Floats:
        """Values of the leaves in the order in which the compiled loops hold the nodes."""
        return np.ascontiguousarray(of_leaves[self._walk.node])

    def each_part(self, work: Callable[[PartOfSets], _Result], cells: int) -> list[_Result]:
        """Call ``work`` on parts of the sets in several threads, and return its results in order.

        ``cells`` is how many numbers one set needs. No result of a set depends on other sets, nor on the threads.
        """

        def of_part(start: int, stop: int) -> _Result:
            inside = (self._set_of_column >= start) & (self._set_of_column < stop)
            sets = np.where(inside, self._set_of_column - start, -1).astype(np.int32)
            return work(PartOfSets(slice(start, stop), stop - start, self._rows, sets))

        step = max(1, min(-(-len(self.sets) // effective_threads(-1)), _CELLS // cells))
        return each_range(of_part, len(self.sets), step)

    def permutation(self, rows: Int64s, number: int) -> tuple[Int64s, Int64s]:
        """A random order of ``rows``, and how far to shift each set of columns in that order.

        ``number`` seeds the generator. All sets share the order but differ in the shift. No row keeps its own values,
        and each other row is equally likely to provide them.
        """
        generator = np.random.default_rng([SEED, number])
        return generator.permutation(rows), generator.integers(1, len(rows), size=len(self.sets))


@dataclass(frozen=True, eq=False)
class PartOfSets:
    """Some of the sets of columns, for one thread.

    Attributes
    ----------
    sets : slice
        Places of these sets among all sets.
    n_sets : int
        Number of these sets.
    rows : _core.Rows
        All training rows, quantised.
    set_of_column : ndarray of int32
        Place in this part of the set that each quantised column belongs to; -1 if to none.
    """

    sets: slice
    n_sets: int
    rows: _core.Rows
    set_of_column: NDArray[np.int32]
