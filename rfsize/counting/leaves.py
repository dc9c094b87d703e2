"""The leaves that rows reach: by compiled loops where these were compared with the framework, else by the framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.exceptions import NotAForestError
from rfsize.models.ensemble import LeafIds, TreeEnsemble
from rfsize.models.model import Forest, Model
from rfsize.utils import matrix
from rfsize.utils.pieces import Pieces
from rfsize.utils.threads import each_range
from rfsize.utils.typing import Bools, Int64s
from rfsize.walking.encoding import encoded
from rfsize.walking.layout import PackedForest
from rfsize.walking.quantising import quantised_blocks

# Returns the leaves of rows start to stop. Trees that saw a row, by the mask, may be skipped.
Lookup = Callable[[int, int, Bools | None], LeafIds]

ROWS_PER_THREAD = 2048

# From this many cells (rows × trees) on, compiled loops save more time than it takes to lay out the trees and to
# compare leaves.
CELLS_WORTH_A_LAYOUT = 1 << 22

# Number of rows compared with the framework's leaves: of all rows, and of a block of pieces. Then the number of rows
# with missing values to take at each place, and the number of rows searched for them there.
_ROWS_COMPARED, _ROWS_COMPARED_OF_BLOCK = 1024, 64
_ROWS_OF_PLACE, _ROWS_PER_PLACE = 16, 4096


def leaf_lookup(forest: Forest, X: Any, n_rows: int | None = None) -> Lookup:
    """The function that looks up leaves of ``X``, the rows that `Model.check` returned.

    With many rows it walks down the trees without the framework, if rows from all over ``X`` reach the framework's
    leaves. Otherwise, or if the trees or the rows cannot be compiled, it calls `Model.apply`. If ``X`` is a part of the
    rows, ``n_rows`` is the number of all rows: together they may be worth compiling when a part is not.
    """

    def by_framework(start: int, stop: int, seen: Bools | None) -> LeafIds:
        return leaves_by_framework(forest, matrix.take(X, start, stop), seen)

    ensemble, n_rows = forest.ensemble, matrix.n_rows(X) if n_rows is None else n_rows
    if ensemble is None or n_rows * ensemble.tree_start.size < CELLS_WORTH_A_LAYOUT:
        return by_framework
    try:
        walk = NativeWalk(ensemble)
    except ValueError:  # trees that cannot be compiled
        return by_framework
    if not isinstance(X, Pieces) and not walk.agrees_with(forest, X, _ROWS_COMPARED):
        return by_framework

    def by_either(start: int, stop: int, seen: Bools | None) -> LeafIds:
        rows = matrix.take(X, start, stop)
        # Pieces are compared one by one, since taking rows from all of them first would read them twice.
        if isinstance(X, Pieces) and not walk.agrees_with(forest, rows, _ROWS_COMPARED_OF_BLOCK):
            return leaves_by_framework(forest, rows, seen)
        try:
            return LeafIds(walk.apply(rows), ensemble.tree_scores)
        except ValueError:  # let the framework raise its own error if it refuses these rows
            return leaves_by_framework(forest, rows, seen)

    return by_either


def leaves_by_framework(forest: Forest, X: Any, seen: Bools | None = None) -> LeafIds:
    """The leaves as the framework finds them, or the scores of members that are no trees."""
    if forest.ensemble is None:
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
        number = np.arange(ensemble.nodes.left.size, dtype=np.float64)
        # The framework may refuse numbers beyond single precision, so let it decide about them.
        conventions = replace(ensemble.conventions, refuses_infinite=True)
        nodes, nothing = replace(ensemble.nodes, value=number[:, None]), np.zeros(0)
        self.forest = PackedForest.of(replace(ensemble, nodes=nodes, conventions=conventions, classes=nothing))
        self.node = self.forest.trees.value[:, 0].astype(np.int64)
        self._shape = ensemble.tree_start.shape

    def apply(self, X: Any) -> Int64s:
        """Node that each row reaches in each tree, as `Model.apply` returns it."""
        quantise = quantised_blocks(self.forest, X)
        leaf = np.empty((matrix.n_rows(X), self.forest.trees.tree_start.size - 1), dtype=np.int64)

        def walk(start: int, stop: int) -> None:
            quantise(start, stop).reach(self.node, leaf[start:stop])

        each_range(walk, len(leaf), ROWS_PER_THREAD)
        return leaf.reshape(-1, *self._shape)

    def agrees_with(self, model: Model, X: Any, n_rows: int) -> bool:
        """Whether ``n_rows`` rows from all over ``X``, and some with missing values, reach the framework's leaves."""
        try:
            rows = matrix.pick(X, _compared_rows(X, self.forest, n_rows))
            leaf = self.apply(rows)
        except ValueError:  # rows that the compiled loops cannot take
            return False
        return np.array_equal(leaf, model.apply(rows))


def checked_walk(model: Model, X: Any) -> NativeWalk:
    """The compiled walk for rows that `Model.check` returned; it reaches the framework's leaves on a sample of them.

    Raises
    ------
    NotAForestError
        If it reaches other leaves on rows from all over ``X``, or if members are not trees.
    """
    assert model.ensemble is not None
    walk = NativeWalk(model.ensemble)
    if not walk.agrees_with(model, X, _ROWS_COMPARED):
        raise NotAForestError(
            f"on some rows of X rfsize reaches other leaves than {model.framework} does. Give X as a float array; if "
            "that does not help, please report the model"
        )
    return walk


def _compared_rows(X: Any, forest: PackedForest, at_most: int) -> Int64s:
    """Evenly spaced rows from the first to the last, and rows with missing values found at several places."""
    n_rows, blocks = matrix.n_rows(X), encoded(X, forest.conventions)
    rows = [np.linspace(0, n_rows - 1, at_most).astype(np.int64)]
    for start in np.linspace(0, max(n_rows - _ROWS_PER_PLACE, 0), at_most // _ROWS_OF_PLACE).astype(np.int64):
        values = blocks(int(start), int(min(start + _ROWS_PER_PLACE, n_rows)))
        missing: NDArray[Any] = np.isnan(values).any(axis=1) if isinstance(values, np.ndarray) else np.zeros(0)
        rows.append(start + np.flatnonzero(missing)[:_ROWS_OF_PLACE])
    return np.unique(np.concatenate(rows))
