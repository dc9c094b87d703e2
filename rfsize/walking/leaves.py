"""The leaves that rows reach: by compiled loops where these were compared with the framework, else by the framework."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from rfsize import _core
from rfsize._util import Bools, Int64s, each_range, effective_threads
from rfsize.exceptions import NotAForestError
from rfsize.models.ensemble import LeafIds, TreeEnsemble
from rfsize.models.model import Forest, Model
from rfsize.models.rows import DistributedRows, ForwardReader, Rows
from rfsize.walking.layout import PackedForest

# Returns the leaves of rows start to stop. Trees that saw a row, by the mask, may be skipped.
Lookup = Callable[[int, int, Bools | None], LeafIds]

ROWS_PER_THREAD = 2048
FEW = 16

# From this many cells (rows × trees) on, compiled loops save more time than it takes to lay out the trees and to
# compare leaves.
CELLS_WORTH_A_LAYOUT = 1 << 20

# Number of rows compared with the framework's leaves: of all rows, and of a batch of rows in chunks. Then the number of
# rows with missing values to take at each place, and the number of rows searched for them there.
_ROWS_COMPARED, _ROWS_COMPARED_OF_BATCH = 1024, 64
_ROWS_OF_PLACE, _ROWS_PER_PLACE = 16, 4096

# Quantised values per block of rows. They must stay in the cache, but there must be enough rows that the last undecided
# rows still go down a tree together.
_VALUES_PER_BLOCK = 1 << 19
_FEWEST_ROWS, _MOST_ROWS = 256, 16_384

# Up to this many cells (rows × trees) one thread is done before others have begun.
_CELLS_OF_ONE_THREAD = 1 << 18


def quantised(forest: PackedForest, values: Any) -> _core.Rows:
    """Rows in the form that trees compare, from a float array, a sparse row matrix, or a list of columns."""
    if isinstance(values, list):
        return forest.native.column_rows(values)
    if not issparse(values):
        return forest.native.rows(values)
    index, begin = (np.require(part, np.int64, "A") for part in (values.indices, values.indptr))
    return forest.native.sparse_rows(np.require(values.data, np.float64, "A"), index, begin)


def rows_in_one_call(forest: PackedForest) -> int:
    """The most rows that take no longer together than in blocks and threads."""
    cells = forest.trees.tree_start.size - 1
    return max(FEW, min(_CELLS_OF_ONE_THREAD // cells, _VALUES_PER_BLOCK // forest.n_columns))


def in_blocks(forest: PackedForest, work: Callable[[int, int], None], n_rows: int, n_jobs: int) -> None:
    """Call ``work(start, stop)`` for blocks of rows, in ``n_jobs`` threads if that is faster; -1 for one per core."""
    threads = 1 if n_rows <= rows_in_one_call(forest) else effective_threads(n_jobs)
    step = max(min(_VALUES_PER_BLOCK // forest.n_columns, _MOST_ROWS, -(-n_rows // threads)), _FEWEST_ROWS)
    each_range(work, n_rows, step, n_jobs=threads)


def leaf_lookup(forest: Model, rows: Rows | DistributedRows, n_rows: int | None = None) -> Lookup:
    """The function that looks up leaves of opened rows, which is called forwards.

    With many rows it walks down the trees without the framework, if rows from all over ``rows`` reach the framework's
    leaves. Otherwise, or if the trees or the rows cannot be compiled, it calls `Model.apply`. If ``rows`` are a part of
    the rows, ``n_rows`` is the number of all rows: together they may be worth compiling when a part is not.
    """
    read, walk = ForwardReader(rows).read, _walk_for(forest, rows, rows.n_rows if n_rows is None else n_rows)
    is_stream = not isinstance(rows, Rows) or rows.is_stream

    def lookup(start: int, stop: int, seen: Bools | None) -> LeafIds:
        values = read(start, stop)
        # Rows in chunks are compared batch by batch, since a sample of all of them would read them twice.
        if walk is not None and (
            not is_stream or walk.agrees_with(forest, values[:: max(1, values.shape[0] // _ROWS_COMPARED_OF_BATCH)])
        ):
            return LeafIds(walk.apply(values), walk.tree_scores)
        return leaves_by_framework(forest, values, seen)

    return lookup


def _walk_for(forest: Model, rows: Rows | DistributedRows, n_rows: int) -> NativeWalk | None:
    """The compiled walk, if it is worth making and reaches the framework's leaves; else None."""
    trees = forest.ensemble
    if trees is None or n_rows * trees.tree_start.size < CELLS_WORTH_A_LAYOUT:
        return None
    with suppress(ValueError):  # trees that cannot be compiled, or that reach other leaves
        if isinstance(rows, Rows) and not (rows.is_stream and rows.is_encoded):
            return checked_walk(forest, rows)
        return NativeWalk(trees)
    return None


def leaves_by_framework(forest: Model, X: Any, seen: Bools | None = None) -> LeafIds:
    """The leaves as the framework finds them, or the scores of members that are no trees."""
    if forest.ensemble is None:
        assert isinstance(forest, Forest)
        return LeafIds.of_scores(forest.tree_scores(X, seen))
    return LeafIds(forest.apply(X), forest.ensemble.tree_scores)


class NativeWalk:
    """Trees laid out for compiled loops, which find nodes of the ensemble.

    Attributes
    ----------
    forest : PackedForest
        The trees that the loops walk down.
    node : ndarray of int64, shape (n_packed_nodes,)
        For each packed node that is a leaf, its node in the ensemble; 0 for other nodes.
    """

    def __init__(self, ensemble: TreeEnsemble) -> None:
        nodes = replace(ensemble.nodes, value=np.arange(ensemble.nodes.left.size, dtype=np.float64)[:, None])
        self.forest = PackedForest.of(replace(ensemble, nodes=nodes, classes=np.zeros(0)))
        self.tree_scores = ensemble.tree_scores
        self.node = self.forest.trees.value[:, 0].astype(np.int64)
        self._shape = ensemble.tree_start.shape

    def apply(self, values: Any) -> Int64s:
        """Node that each row reaches in each tree, as `Model.apply` returns it."""
        leaf = np.empty((values.shape[0], self.forest.trees.tree_start.size - 1), dtype=np.int64)

        def walk(start: int, stop: int) -> None:
            quantised(self.forest, values[start:stop]).reach(self.node, leaf[start:stop])

        each_range(walk, len(leaf), ROWS_PER_THREAD)
        return leaf.reshape(-1, *self._shape)

    def agrees_with(self, model: Model, values: Any) -> bool:
        """Whether rows reach the framework's leaves."""
        return np.array_equal(self.apply(values), model.apply(values))


def checked_walk(model: Model, rows: Rows) -> NativeWalk:
    """The compiled walk for rows in memory; it reaches the framework's leaves on a sample of them.

    Raises
    ------
    NotAForestError
        If it reaches other leaves, or only the framework can read the rows.
    """
    assert model.ensemble is not None
    if rows.is_encoded and (walk := NativeWalk(model.ensemble)).agrees_with(model, _sample(rows)):
        return walk
    raise NotAForestError(f"rfsize reaches other leaves than {model.framework}: give float arrays, or report the model")


def _sample(rows: Rows) -> Any:
    """Evenly spaced rows in memory from the first to the last, and rows with missing values found at several places."""
    read, n_rows = ForwardReader(rows).read, rows.n_rows
    numbers, n_places = [np.linspace(0, n_rows - 1, _ROWS_COMPARED).astype(np.int64)], _ROWS_COMPARED // _ROWS_OF_PLACE
    step = min(_ROWS_PER_PLACE, -(-n_rows // n_places))
    for start in np.linspace(0, n_rows - step, n_places).astype(np.int64):
        values = read(int(start), int(start) + step)
        if isinstance(values, np.ndarray):
            numbers.append(start + np.flatnonzero(np.isnan(values).any(axis=1))[:_ROWS_OF_PLACE])
    return rows.pick(np.unique(np.concatenate(numbers))).source
