"""One pass over the rows: the members' answers, and which members may vote.

Compiled loops find the leaves, if they are proven to reach the same leaves as the framework.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.counting.bag_proof import BagProof
from rfsize.counting.groups import Groups
from rfsize.exceptions import NotAForestError
from rfsize.models.bags import Bags
from rfsize.models.ensemble import LeafIds
from rfsize.models.model import Forest
from rfsize.utils import matrix
from rfsize.utils.matrix import blocks
from rfsize.utils.pieces import Pieces
from rfsize.utils.threads import each_range
from rfsize.utils.typing import Bools, Int64s
from rfsize.walking.encoding import encoded
from rfsize.walking.layout import PackedForest
from rfsize.walking.quantising import quantised_blocks

# Returns the members' answers on rows start to stop. Members that saw a row, by the mask, need not be asked about it.
Ask = Callable[[int, int, Bools | None], LeafIds]

# Receives a block of rows: its place, the members' answers, and which members saw a row or its group.
Visit = Callable[[slice, LeafIds, Bools | None], None]

ROWS_PER_THREAD = 2048

# From this many cells (rows × trees) on, compiled loops save more time than it takes to lay out the trees and to
# compare leaves.
CELLS_WORTH_A_LAYOUT = 1 << 22

# Number of rows compared with the framework's leaves: of all rows, and of a block of pieces. Then the number of rows
# with missing values to take at each place, and the number of rows searched for them there.
_ROWS_COMPARED, _ROWS_COMPARED_OF_BLOCK = 1024, 64
_ROWS_OF_PLACE, _ROWS_PER_PLACE = 16, 4096


def trees_of(forest: Forest) -> int:
    """Number of single trees, or of members that are no trees."""
    return forest.n_trees if forest.ensemble is None else forest.ensemble.tree_start.size


def leaf_ids(forest: Forest, X: Any, inbag: Bools | None = None) -> LeafIds:
    """The leaves that rows reach, by the framework itself; the mask marks rows that members may skip."""
    if forest.ensemble is None:
        return LeafIds.of_scores(forest.tree_scores(X, inbag))
    return LeafIds(forest.apply(X), forest.ensemble.tree_scores)


def asked_about(adapter: Forest, X: Any, of: int | None = None) -> Ask:
    """Return the function that asks the members about ``X``, the rows that `Forest.check` returned.

    With many rows, it uses compiled loops without the framework, if these reach the framework's leaves on rows from all
    over ``X``. Otherwise, or if the members or the rows cannot be compiled, it calls the framework by
    `Forest.answers`. If ``X`` is one block of the rows, ``of`` is the number of all rows: together they may be worth
    compiling when a block is not.
    """

    def by_framework(start: int, stop: int, inbag: Bools | None) -> LeafIds:
        return leaf_ids(adapter, matrix.take(X, start, stop), inbag)

    n_rows = matrix.n_rows(X) if of is None else of
    if n_rows * trees_of(adapter) < CELLS_WORTH_A_LAYOUT:
        return by_framework
    try:
        walk = CompiledWalk(adapter)
    except ValueError:  # trees that cannot be compiled
        return by_framework
    if not isinstance(X, Pieces) and not walk.reaches_leaves_of(adapter, X, _ROWS_COMPARED):
        return by_framework

    def by_either(start: int, stop: int, inbag: Bools | None) -> LeafIds:
        rows = matrix.take(X, start, stop)
        # Pieces are compared one by one, since taking rows from all of them first would read them twice.
        if isinstance(X, Pieces) and not walk.reaches_leaves_of(adapter, rows, _ROWS_COMPARED_OF_BLOCK):
            return by_framework(start, stop, inbag)
        try:
            return LeafIds(walk.leaf_index(rows), walk.tree_scores)
        except ValueError:  # let the framework raise its own error if it refuses these rows
            return by_framework(start, stop, inbag)

    return by_either


class CompiledWalk:
    """A forest laid out for compiled loops; each leaf has its index into the table of all leaves.

    Attributes
    ----------
    forest : PackedForest
        The trees that the loops walk down.
    leaf_of_node : ndarray of int64, shape (n_nodes,)
        For each node that is a leaf, its index into the table of all leaves; 0 for other nodes.
    """

    def __init__(self, adapter: Forest) -> None:
        trees = adapter.ensemble
        if trees is None:
            raise NotAForestError("members that are no trees have no leaves")
        node = np.arange(trees.nodes.left.size, dtype=np.float64)[:, None]
        numbered = replace(trees, nodes=replace(trees.nodes, value=node), classes=trees.classes[:0])
        forest = PackedForest.of(numbered)
        self.leaf_of_node = forest.trees.value[:, 0].astype(np.int64)
        self.tree_scores = trees.tree_scores
        # The framework may refuse numbers beyond single precision, so let it decide about them.
        self.forest = replace(forest, conventions=replace(forest.conventions, refuses_infinite=True))
        self._shape = trees.tree_start.shape

    def leaf_index(self, X: Any) -> NDArray[Any]:
        """The leaves that all rows of ``X`` reach, shape (rows, n_members, n_outputs)."""
        quantise = quantised_blocks(self.forest, X)
        leaf = np.empty((matrix.n_rows(X), self.forest.trees.tree_start.size - 1), dtype=np.int64)

        def walk(start: int, stop: int) -> None:
            quantise(start, stop).reach(self.leaf_of_node, leaf[start:stop])

        each_range(walk, len(leaf), ROWS_PER_THREAD)
        return leaf.reshape(-1, *self._shape)

    def reaches_leaves_of(self, adapter: Forest, X: Any, n_rows: int) -> bool:
        """Whether ``n_rows`` rows from all over ``X``, and some with missing values, reach the framework's leaves."""
        try:
            some = matrix.pick(X, _compared_rows(X, self.forest, n_rows))
            reached = self.leaf_index(some)
        except ValueError:  # rows that the compiled loops cannot take
            return False
        return np.array_equal(reached, leaf_ids(adapter, some).leaf)


def proven_walk(adapter: Forest, X: Any) -> CompiledWalk:
    """The compiled walk for rows that `Forest.check` returned, proven to reach the framework's leaves.

    Raises
    ------
    NotAForestError
        If it reaches other leaves on rows from all over ``X``, or if members are not trees.
    """
    walk = CompiledWalk(adapter)
    if not walk.reaches_leaves_of(adapter, X, _ROWS_COMPARED):
        raise NotAForestError(
            f"on some rows of X rfsize reaches other leaves than {adapter.framework} does. Give X as a float "
            "array; if that does not help, please report the model"
        )
    return walk


def _compared_rows(X: Any, forest: PackedForest, at_most: int) -> Int64s:
    """Evenly spaced rows from the first to the last, and rows with missing values found at several places."""
    n_rows, blocks = matrix.n_rows(X), encoded(X, forest.conventions)
    rows = [np.linspace(0, n_rows - 1, at_most).astype(np.int64)]
    for start in np.linspace(0, max(n_rows - _ROWS_PER_PLACE, 0), at_most // _ROWS_OF_PLACE).astype(np.int64):
        values = blocks(int(start), int(min(start + _ROWS_PER_PLACE, n_rows)))
        missing = np.isnan(values).any(axis=1) if isinstance(values, np.ndarray) else np.zeros(0)
        rows.append(start + np.flatnonzero(missing)[:_ROWS_OF_PLACE])
    return np.unique(np.concatenate(rows))


@dataclass(frozen=True, eq=False)
class SeenByGroup:
    """For each group of rows, the trees that saw a row of the group.

    Attributes
    ----------
    index : ndarray of int64, shape (n_rows,)
        Number of each row's group, -1 for a row without a group.
    trees : tuple of int
        Number of members, and of outputs with separate bags.
    seen : ndarray of uint8, shape (n_groups, ...)
        For each group, one bit for each tree.
    """

    index: Int64s
    trees: tuple[int, ...]
    seen: NDArray[np.uint8]

    @classmethod
    def of(cls, bags: Bags, groups: Groups) -> SeenByGroup | None:
        """Build it from a forest's bags in one pass; None if there are no groups."""
        if groups.index is None:
            return None
        of_one_row = bags.take(0, 1)
        seen = np.zeros((groups.n_groups, (of_one_row.size + 7) // 8), dtype=np.uint8)
        found = cls(groups.index, of_one_row.shape[1:], seen)
        for start, stop in blocks(bags.n_rows, of_one_row.size, what="bags of groups"):
            belongs = found.index[start:stop] >= 0
            if belongs.any():
                found._add(found.index[start:stop][belongs], bags.take(start, stop)[belongs])
        return found

    def part(self, start: int, stop: int) -> SeenByGroup:
        """Keep only rows ``start`` to ``stop`` and their groups."""
        present, index = np.unique(self.index[start:stop], return_inverse=True)
        stand_alone = int(present[0] == -1)  # rows without a group share the number -1
        return SeenByGroup(index - stand_alone, self.trees, self.seen[present[stand_alone:]])

    def _add(self, group: Int64s, inbag: Bools) -> None:
        bits = np.packbits(inbag.reshape(len(inbag), -1), axis=1)
        order = np.argsort(group, kind="stable")
        present, first = np.unique(group[order], return_index=True)
        self.seen[present] |= np.bitwise_or.reduceat(bits[order], first, axis=0)

    def with_group(self, start: int, stop: int, inbag: Bools) -> Bools:
        """In-bag mask of rows ``start`` to ``stop``, also True for trees that saw another row of the group."""
        group = self.index[start:stop]
        belongs = group >= 0
        bits = np.unpackbits(self.seen[group[belongs]], axis=1, count=int(np.prod(self.trees)))
        inbag = inbag.copy()
        inbag[belongs] |= bits.reshape(-1, *self.trees).view(np.bool_)
        return inbag


def visit_answers(
    adapter: Forest,
    n_rows: int,
    ask: Ask,
    visit: Visit,
    *,
    what: str,
    proof: BagProof | None = None,
    seen: SeenByGroup | None = None,
    cells: int = 0,
) -> None:
    """Visit all rows, block by block.

    With a ``proof`` of bags, ``visit`` also gets the in-bag mask, shape (rows, n_members, n_outputs), or 1 in place of
    n_outputs if the trees of a member share a bag. For a row of a group, the mask shows which trees saw any row of the
    group. Use what ``visit`` gathered only after the proof was concluded without an error.

    Parameters
    ----------
    adapter : Forest
        The forest.
    n_rows : int
        Number of rows.
    ask, visit : callable
        ``ask`` gives the answers, such as `asked_about` returns it; ``visit`` receives them.
    what : str
        Name for the progress bar.
    proof : BagProof, optional
        Proof of the forest's bags, for out-of-bag answers. The rows are added to it; you conclude it.
    seen : SeenByGroup, optional
        If there are groups: which trees saw a row of each group; only with ``proof``.
    cells : int, default 0
        Further numbers that ``visit`` holds for each row.
    """
    for start, stop in blocks(n_rows, adapter.n_trees * adapter.n_scores + cells, what=what):
        inbag = saw = None if proof is None else proof.bags.take(start, stop)
        if inbag is not None and seen is not None:
            saw = seen.with_group(start, stop, inbag)
        answers = ask(start, stop, saw)
        if proof is not None and inbag is not None:
            proof.add(start, stop, answers.leaf, inbag)
        visit(slice(start, stop), answers, saw)


def out_of_bag_members(answers: LeafIds, inbag: Bools | None) -> tuple[LeafIds, Bools]:
    """LeafIds of the members that did not see each row, and a mask of these members; without bags, all members.

    XGBoost draws a separate bag for the tree of each class. Hardly any member has left out a row with all of its trees,
    so hardly any vote would remain. But these trees are drawn independently. So any trees that left the row out, one of
    each class, make as good a member as the trees of one iteration. The first such tree of each class vote together,
    then the second of each class, until one class has no tree left.

    Parameters
    ----------
    answers : LeafIds
        LeafIds of all members on the rows.
    inbag : ndarray of bool, shape (n_rows, n_members, n_outputs or 1), or None
        Whether the tree was trained on the row.

    Returns
    -------
    answers : LeafIds
        LeafIds of the trees that vote together, member by member.
    may_vote : ndarray of bool, shape (n_rows, n_members)
        Whether the member left the row out.
    """
    if inbag is None:
        return answers, np.ones(answers.leaf.shape[:2], dtype=np.bool_)
    if inbag.shape[2] == 1:
        return answers, np.ascontiguousarray(~inbag[:, :, 0])
    order = trees_of_members(inbag)
    complete = inbag.shape[1] - inbag.sum(axis=1).max(axis=1)
    together = replace(answers, leaf=np.take_along_axis(answers.leaf, order, axis=1))
    return together, np.arange(inbag.shape[1]) < complete[:, None]


def trees_of_members(inbag: Bools) -> NDArray[np.intp]:
    """Index of the tree of each class that takes part in each member's vote; same shape as the mask."""
    return np.argsort(inbag.view(np.uint8), axis=1, kind="stable")


def asked_of(answers: LeafIds, inbag: Bools | None) -> Bools:
    """Which trees are asked, shape (n_rows, n_members, 1), or n_outputs in place of 1 if each has its own bag."""
    return np.ones((*answers.leaf.shape[:2], 1), dtype=np.bool_) if inbag is None else ~inbag
