"""Training rows that go down the trees with columns of other rows in place of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.counting.evidence import Evidence
from rfsize.counting.leaves import CompiledWalk, proven_walk
from rfsize.estimation.intervals import SEED
from rfsize.exceptions import NotAForestError
from rfsize.importance.columns import ColumnSets
from rfsize.utils.pieces import Pieces
from rfsize.utils.threads import each_range, effective_threads
from rfsize.utils.typing import Bools, Floats, Int64s
from rfsize.walking.quantising import quantised_blocks

_Result = TypeVar("_Result")

# Numbers that one thread adds to, of some sets of columns at a time; a few hundred megabytes at the most.
_CELLS = 1 << 24


@dataclass(frozen=True, eq=False)
class PermutedRows:
    """The rows of outputs that are out of bag, and sets of columns to permute.

    Attributes
    ----------
    outputs : Evidence
        With the truth of the rows.
    sets : ColumnSets
    seen : ndarray of bool, shape (n_rows, n_members, n_outputs or 1)
        Whether a tree was trained on a row, or another of its group.
    """

    outputs: Evidence
    sets: ColumnSets
    seen: Bools
    _walk: CompiledWalk
    _rows: _core.Rows
    _set_of_column: NDArray[np.int32]

    @classmethod
    def of(cls, outputs: Evidence, sets: ColumnSets) -> PermutedRows:
        """Of outputs whose forest can be asked again, on rows in memory; raises as `proven_walk`."""
        forest = outputs.asked_again
        if not forest.adapter.are_trees:
            raise NotAForestError(
                "importances send rows down trees, and the members of this ensemble are no trees: on rows that it was "
                "not trained on, take sklearn.inspection.permutation_importance(model, X_new, y_new)"
            )
        if isinstance(forest.X, Pieces):
            raise ValueError(
                "the rows are read in pieces, and shuffling a column takes all rows at once: give rows in memory, "
                "as an array or a DataFrame"
            )
        walk = proven_walk(forest.adapter, forest.X)
        rows = quantised_blocks(walk.forest, forest.X)(0, forest.n_rows)
        return cls(outputs, sets, forest.seen(), walk, rows, sets.of_quantised(walk.forest))

    @property
    def n_rows(self) -> int:
        """Rows."""
        return self.outputs.n_rows

    @property
    def used(self) -> tuple[int, float]:
        """Rows that a tree may be asked about, and how many may on average."""
        averages = self.outputs.averages
        return int(averages.is_asked.sum()), float(averages.asked[averages.is_asked].mean())

    def at_nodes(self, of_leaves: Floats) -> Floats:
        """What leaves have, by their numbers, at the nodes that rows come to."""
        return np.ascontiguousarray(of_leaves[self._walk.leaf_of_node])

    def each_part(self, work: Callable[[PartOfSets], _Result], cells: int) -> list[_Result]:
        """What ``work`` returns of parts of the sets, in several threads, where a set takes so many ``cells``.

        A set is worked on alone, so that nothing depends on the threads.
        """

        def of_part(start: int, stop: int) -> _Result:
            inside = (self._set_of_column >= start) & (self._set_of_column < stop)
            sets = np.where(inside, self._set_of_column - start, -1).astype(np.int32)
            return work(PartOfSets(slice(start, stop), stop - start, self._rows, sets))

        step = max(1, min(-(-len(self.sets) // effective_threads(-1)), _CELLS // cells))
        return each_range(of_part, len(self.sets), step)

    def permutation(self, rows: Int64s, number: int) -> tuple[Int64s, Int64s]:
        """An order of rows, and how far each set is shifted in it, by a generator of such a number.

        One order serves all sets, of which each takes its values from another row: no row keeps its own, and any other
        is as likely as the next.
        """
        generator = np.random.default_rng([SEED, number])
        return generator.permutation(rows), generator.integers(1, len(rows), size=len(self.sets))


@dataclass(frozen=True, eq=False)
class PartOfSets:
    """Some of the sets of columns, which are worked on together.

    Attributes
    ----------
    sets : slice
        Their places among all.
    n_sets : int
    rows : _core.Rows
    set_of_column : ndarray of int32
        The set of each column of quantised rows, counted in the part.
    """

    sets: slice
    n_sets: int
    rows: _core.Rows
    set_of_column: NDArray[np.int32]
