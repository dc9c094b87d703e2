"""A forest and rows: `Task` sends the rows down all trees, batch by batch, and proves the bags beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Bools, blocks, refuse_unused
from rfsize.counting.duplicates import resolve_groups
from rfsize.counting.groups import NO_GROUPS, Groups
from rfsize.counting.leaves import Lookup, leaf_lookup
from rfsize.counting.proof import BagCheck, GroupInbag
from rfsize.exceptions import InbagError
from rfsize.models.bags import FRESH_ROWS, Bags, LaidOutBags, Layout
from rfsize.models.ensemble import LeafIds
from rfsize.models.framework import read_forest
from rfsize.models.link import Predictor
from rfsize.models.model import Forest
from rfsize.models.rows import DistributedRows, Rows


class Batch(NamedTuple):
    """Consecutive rows on their way down the trees.

    Attributes
    ----------
    rows : slice
        Their numbers.
    leaves : LeafIds
        The leaves that they reach.
    seen : ndarray of bool, shape (n_rows, n_trees, trees_per_iteration or 1), or None
        Trees that saw the row or its group; None if all trees vote on all rows. The last axis is 1 if the trees of an
        iteration share a bag.
    """

    rows: slice
    leaves: LeafIds
    seen: Bools | None

    @property
    def may_score(self) -> Bools:
        """Which trees score a row, shape (n_rows, n_trees, trees_per_iteration or 1)."""
        return np.ones((*self.leaves.leaf.shape[:2], 1), dtype=np.bool_) if self.seen is None else ~self.seen

    def take(self, rows: Any) -> Batch:
        """Some of the rows."""
        return Batch(self.rows, self.leaves.take(rows), None if self.seen is None else self.seen[rows])


@dataclass(frozen=True, eq=False)
class Pass:
    """One way of rows down all trees.

    Attributes
    ----------
    forest : Forest
    n_rows : int
    lookup : callable
        Returns the leaves of rows ``start`` to ``stop``, see `leaf_lookup`.
    bags : Bags or None
        Bags of the rows; None if all trees vote on all rows.
    group_inbag : GroupInbag or None
        Trees that saw a row of each group; None without groups.
    """

    forest: Forest
    n_rows: int
    lookup: Lookup
    bags: Bags | None = None
    group_inbag: GroupInbag | None = None

    @property
    def n_bags(self) -> int:
        """Number of bags of an iteration: 1, or one for the tree of each class."""
        return 1 if self.bags is None or not self.n_rows else self.bags.take(0, 1).shape[2]

    def seen(self, start: int, stop: int, inbag: Bools) -> Bools:
        """Trees that saw each row or another row of its group, as in `Batch`, from the bags of the rows."""
        return inbag if self.group_inbag is None else self.group_inbag.expand(start, stop, inbag)

    def batches(
        self, what: str, *, cells: int = 0, most_rows: int | None = None, check: BagCheck | None = None
    ) -> Iterator[Batch]:
        """All rows in order, and at the end an `InbagError` if the bags are not proven.

        Use what you gathered only when the iteration has ended.

        Parameters
        ----------
        what : str
            Name for the progress bar.
        cells : int, default 0
            Further numbers that you hold for each row.
        most_rows : int, optional
            Most rows in a batch.
        check : BagCheck, optional
            If the rows are a part of the training rows: the check to add them to, which you conclude.
        """
        proof = check
        if check is None and self.bags is not None:
            proof = BagCheck(self.forest, self.bags)
        cells += self.forest.n_trees * self.forest.n_scores
        for start, stop in blocks(self.n_rows, cells, what=what, most_rows=most_rows):
            inbag = seen = None
            if self.bags is not None:
                inbag = self.bags.take(start, stop)
                seen = self.seen(start, stop, inbag)
            leaves = self.lookup(start, stop, seen)
            if proof is not None and inbag is not None:
                proof.add(start, stop, leaves.leaf, inbag)
            yield Batch(slice(start, stop), leaves, seen)
        if proof is not None and check is None:
            proof.conclude()


@dataclass(frozen=True, eq=False)
class Task:
    """A forest, rows, and the bags that say which trees may vote on a row: references, no copies.

    Attributes
    ----------
    forest : Forest
    X : Rows or DistributedRows
        The rows, opened.
    bags : Bags or None
        If given, only trees that were not trained on a row vote on it.
    threshold : float
        Probability above which class 1 is predicted, checked.
    groups : Groups
        With bags: training rows that belong together. A tree that saw one of them votes on none of them.
    """

    forest: Forest
    X: Rows | DistributedRows
    bags: Bags | None = None
    threshold: float = 0.5
    groups: Groups = NO_GROUPS

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        oob: bool = False,
        threshold: float | None = None,
        sample_weight: Any = None,
        seed: int | None = None,
        subsample: float | None = None,
        groups: Any = None,
        missing: float | None = None,
    ) -> Task:
        """Check a model, rows and options; arguments as in `rfsize.tree_outputs`.

        Raises
        ------
        NotAForestError
            If the model is not a forest of independent trees.
        InbagError
            If ``oob`` is set and the bags cannot be rebuilt.
        ValueError
            If ``X`` or an option does not fit.
        """
        forest = read_forest(model, missing=missing)
        threshold = forest.checked_threshold(threshold)
        elsewhere = rows_elsewhere(X)
        X, layout = (forest.open(X), None) if elsewhere is None else elsewhere.opened(forest, oob=oob, missing=missing)
        if not oob:
            of_bags = {"groups": groups, "y": y, "sample_weight": sample_weight, "seed": seed, "subsample": subsample}
            refuse_unused(
                "it is about the bags of training rows, and with oob=False every tree votes on every row. Leave it "
                "out, or give the training rows with oob=True",
                **of_bags,
            )
            return cls(forest, X, None, threshold)
        n_rows = X.n_rows
        y, sample_weight, groups = (brought_here(X, values) for values in (y, sample_weight, groups))
        bags = forest.bags(layout or Layout.alone(n_rows), y, sample_weight, seed, subsample)
        if elsewhere is not None and not isinstance(bags, LaidOutBags):
            raise InbagError(
                f"rfsize does not know which rows each worker of {forest.framework} trains on, so it cannot tell which "
                f"are out of bag: give the training rows in memory or in pieces, or take {FRESH_ROWS}"
            )
        return cls(forest, X, bags, threshold, resolve_groups(groups, X, n_rows))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.n_rows

    @property
    def layout(self) -> Layout:
        """How the rows were laid out in training, if they are the training rows."""
        return self.X.layout(None) if isinstance(self.X, DistributedRows) else Layout.alone(self.n_rows)

    @property
    def predictor(self) -> Predictor:
        """Turns mean scores into the forest's predictions."""
        forest = self.forest
        return Predictor(forest.classes, forest.link, self.threshold, forest.voting_at(self.threshold))

    @property
    def source(self) -> str:
        """Where the votes come from, as reports name it."""
        return "rows given" if self.bags is None else "oob"

    @cached_property
    def walk(self) -> Pass:
        """The rows on their way down the trees; rows that lie elsewhere are brought here batch by batch."""
        of_groups = GroupInbag.of(self.bags, self.groups)
        return Pass(self.forest, self.n_rows, leaf_lookup(self.forest, self.X), self.bags, of_groups)

    def __getstate__(self) -> dict[str, Any]:
        """The fields; the cached pass is made again on demand."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class RowsElsewhere(ABC):
    """Rows that a user names and that lie elsewhere, such as on the workers of a cluster."""

    @abstractmethod
    def opened(self, forest: Forest, *, oob: bool, missing: float | None) -> tuple[DistributedRows, Layout]:
        """The rows with the columns of the forest, and on which machine each of them lay during training."""


def rows_elsewhere(X: Any) -> RowsElsewhere | None:
    """Rows on Dask's workers, wrapped by `rfsize.dask.rows`; None for rows in this process."""
    if isinstance(X, RowsElsewhere):
        return X
    # Types of Dask, or of a framework's module for Dask. Compare names, so as not to import Dask for nothing.
    if not any("dask" in kind.__module__.split(".")[:2] for kind in type(X).__mro__):
        return None
    rows: RowsElsewhere = import_module("rfsize.dask").rows(X)
    return rows


def brought_here(X: Any, values: Any) -> Any:
    """Labels, weights or groups of the rows ``X``, brought to this process if they lie elsewhere."""
    return X.here(values) if isinstance(X, DistributedRows) else values


def tree_votes(task: Task) -> NDArray[np.int32]:
    """Class index of each tree's vote on each row, shape (n_rows, n_trees); −1 where the tree saw the row."""
    votes = np.empty((task.n_rows, task.forest.n_trees), dtype=np.int32)
    leaf_class = task.forest.leaf_class(task.threshold)
    for batch in task.walk.batches("votes"):
        votes[batch.rows] = leaf_class(batch.leaves)
        if batch.seen is not None:
            votes[batch.rows][batch.seen.any(axis=2)] = -1
    return votes


def inbag_mask(task: Task) -> Bools:
    """Whether each tree, or one of an iteration, saw each row or its group, shape (n_trees, n_rows)."""
    mask = np.zeros((task.forest.n_trees, task.n_rows), dtype=np.bool_)
    for batch in task.walk.batches("in-bag rows"):
        assert batch.seen is not None
        mask[:, batch.rows] = batch.seen.any(axis=2).T
    return mask


def seen_mask(task: Task) -> Bools:
    """`Batch.seen` of all rows. Call it only after the bags were proven: no row goes down the trees."""
    assert task.bags is not None
    cells, bags, walk = task.forest.n_trees * task.forest.n_scores, task.bags, task.walk
    ranges = blocks(task.n_rows, cells, what="bags")
    return np.concatenate([walk.seen(start, stop, bags.take(start, stop)) for start, stop in ranges])


def pair_oob_trees(leaves: LeafIds, seen: Bools | None) -> tuple[LeafIds, Bools]:
    """Leaves of the trees that vote together, and which of these votes count, shape (n_rows, n_trees).

    XGBoost draws a separate bag for the tree of each class. Hardly any iteration has left out a row with all of its
    trees, so hardly any vote would remain. But these trees are drawn independently. So any trees that left the row out,
    one of each class, make as good a voter as the trees of one iteration. The first such tree of each class vote
    together, then the second of each class, until one class has no tree left.
    """
    if seen is None:
        return leaves, np.ones(leaves.leaf.shape[:2], dtype=np.bool_)
    if seen.shape[2] == 1:
        return leaves, np.ascontiguousarray(~seen[:, :, 0])
    order = oob_order(seen)
    complete = seen.shape[1] - seen.sum(axis=1).max(axis=1)
    together = replace(leaves, leaf=np.take_along_axis(leaves.leaf, order, axis=1))
    return together, np.arange(seen.shape[1]) < complete[:, None]


def oob_order(seen: Bools) -> NDArray[np.intp]:
    """Index of the tree of each class that takes part in each vote; same shape as the mask."""
    return np.argsort(seen.view(np.uint8), axis=1, kind="stable")
