"""A forest and rows: `Task` sends the rows down all trees, batch by batch, and proves the bags beside it.

The proof compares the rows of the rebuilt bags, leaf by leaf, with what the model stored at training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s, blocks, one_per_row, refuse_unused, sample_weights, training_labels
from rfsize.counting.groups import NO_GROUPS, GroupInbag, Groups, check_groups, resolve_groups
from rfsize.exceptions import InbagError
from rfsize.models.bags import FRESH_ROWS, Bags, LaidOutBags, Layout
from rfsize.models.columns import places_of
from rfsize.models.ensemble import LeafIds
from rfsize.models.framework import read_forest
from rfsize.models.link import Predictor
from rfsize.models.model import Forest, Model
from rfsize.models.rows import DistributedRows, Rows, lies_elsewhere
from rfsize.walking.leaves import Lookup, leaf_lookup

# "scores": the scores of each tree before the link, shape (rows, T, n_scores). "partial scores": those that the first
# 1, …, T trees predict together. "values": the leaf values that the framework adds up, in its precision, in the same
# shape. "votes": the class index that each tree votes for, shape (rows, T).
Outputs = Literal["scores", "partial scores", "values", "votes"]

Total = TypeVar("Total")

# Reads a block of outputs. Takes the outputs, and the numbers of the block's rows among all rows.
Read = Callable[[NDArray[Any], Int64s], Total]

# Further numbers that calibration holds for each row and score of a tree.
_CELLS = 6

_WHAT = "scores of trees"  # of a progress bar


class BagCheck:
    """Adds up, leaf by leaf, the rows of rebuilt bags, and compares the sums with the cover that the model stored.

    Attributes
    ----------
    bags : Bags
        The bags to prove.
    rebuilt : ndarray of float64, shape (n_nodes,)
        Cover of each leaf by the rows so far. Checks of the same bags over other rows can be added to it.
    """

    def __init__(self, forest: Model, bags: Bags) -> None:
        self.bags, self._framework, self._trees = bags, forest.framework, forest.ensemble
        self.rebuilt: Floats = np.zeros(0 if self._trees is None else self._trees.cover.size)

    def add(self, start: int, stop: int, leaf: NDArray[Any], inbag: Bools) -> None:
        """Add rows ``start`` to ``stop`` to the leaves that they reach."""
        if self.bags.need_proof:
            value = np.ascontiguousarray(self.bags.row_mass(start, stop))
            _core.add_at_leaves(np.ascontiguousarray(leaf, np.int64), np.ascontiguousarray(inbag), value, self.rebuilt)

    def conclude(self) -> None:
        """Raise `InbagError` if rows in the leaves differ from those that the bags imply."""
        trees = self._trees
        if not self.bags.need_proof or trees is None:  # members that are no trees store no cover
            return
        if not trees.has_cover.any():
            raise InbagError(f"no tree has more than one leaf, so no leaf count can prove the bags: take {FRESH_ROWS}")
        wrong = np.unique(trees.tree_of_node[self.bags.contradicted(trees, self.rebuilt) & trees.has_cover])
        if wrong.size:
            raise InbagError(
                f"the in-bag rows could not be proven: in {wrong.size} of {trees.tree_start.size} trees, the first of "
                f"them tree {wrong[0] // trees.trees_per_iteration}, the rebuilt bag does not match the leaf counts "
                f"that {self._framework} stored. {self.bags.advice} Otherwise take {FRESH_ROWS}"
            )


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
    forest : Model
    n_rows : int
    lookup : callable
        Returns the leaves of rows ``start`` to ``stop``, see `leaf_lookup`.
    bags : Bags or None
        Bags of the rows; None if all trees vote on all rows.
    group_inbag : GroupInbag or None
        Trees that saw a row of each group; None without groups.
    """

    forest: Model
    n_rows: int
    lookup: Lookup
    bags: Bags | None = None
    group_inbag: GroupInbag | None = None

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
        proof = BagCheck(self.forest, self.bags) if check is None and self.bags is not None else check
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
    forest : Model
    X : Rows or DistributedRows
        The rows, opened.
    bags : Bags or None
        If given, only trees that were not trained on a row vote on it.
    threshold : float
        Probability above which class 1 is predicted, checked.
    groups : Groups
        With bags: training rows that belong together. A tree that saw one of them votes on none of them.
    y, sample_weight
        Labels or numbers of the rows and weights for metrics, as given, in this process; None if there are none.
    """

    forest: Model
    X: Rows | DistributedRows
    bags: Bags | None = None
    threshold: float = 0.5
    groups: Groups = NO_GROUPS
    y: Any = None
    sample_weight: Any = None

    @classmethod
    def checked(
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
        check: Callable[[Task], None] | None = None,
    ) -> Task:
        """Check a model, rows and options, as in `rfsize.tree_outputs`.

        A `Model` that was read already may be boosted; with ``oob`` it must be a `Forest`. ``check`` raises if ``y``
        and the weights do not fit the task, which has no bags yet: drawing them takes long.

        Raises
        ------
        NotAForestError
            If the model is not a forest of independent trees.
        InbagError
            If ``oob`` is set and the bags cannot be rebuilt.
        ValueError
            If ``X`` or an option does not fit.
        """
        forest = model if isinstance(model, Model) and not oob else read_forest(model, missing=missing)
        threshold = forest.checked_threshold(threshold)
        elsewhere = rows_elsewhere(X)
        if elsewhere is not None:
            forest.refuse_steps("the steps of a Pipeline transform rows in memory, and X lies on Dask's workers")
        X, layout = (forest.open(X), None) if elsewhere is None else elsewhere.opened(forest, oob=oob, missing=missing)
        if isinstance(X, DistributedRows):
            y, sample_weight, groups = map(X.here, (y, sample_weight, groups))
        weight = None if oob and y is None else sample_weight  # else given only to prove the bags
        task, n_rows = cls(forest, X, None, threshold, y=y, sample_weight=weight), X.n_rows
        if check is not None:
            check(task)
        if not oob:
            advice = ", or give the training rows with oob=True"
            refuse_unused("only training rows have bags", advice, groups=groups, seed=seed, subsample=subsample)
            return task
        check_groups(groups, n_rows)
        sample_weights(sample_weight, n_rows)
        assert isinstance(forest, Forest)
        bags = forest.bags(layout or Layout.alone(n_rows), y, sample_weight, seed, subsample)
        if elsewhere is not None and not isinstance(bags, LaidOutBags):
            unknown = f"rfsize does not know which rows each worker of {forest.framework} trains on"
            raise InbagError(f"{unknown}: give the training rows in memory or in pieces, or take {FRESH_ROWS}")
        return replace(task, bags=bags, groups=resolve_groups(groups, X, n_rows))

    @property
    def feature_names(self) -> list[str]:
        """Names of the features in the order of training, as X has them: a framework may have changed them."""
        rows, names = self.X, self.forest.feature_names
        if isinstance(rows, Rows) and rows.names is not None:
            names = rows.names
            places = None if rows.columns is None else places_of(names, rows.n_features, rows.columns, warns=False)
            names = names if places is None else [names[place] for place in places]
        return [f"x{column}" for column in range(self.forest.n_features)] if names is None else names

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.n_rows

    @property
    def predictor(self) -> Predictor:
        """Turns mean scores into the forest's predictions."""
        forest, trees = self.forest, self.forest.ensemble
        by_score = trees is not None and trees.conventions.labels_of_scores and self.threshold == 0.5
        cut = self.cut if by_score else None
        return Predictor(forest.classes, forest.link, self.threshold, forest.voting_at(self.threshold), cut)

    @property
    def cut(self) -> float:
        """Class 1 is predicted if the raw score is above the cut; 0 if there are several scores, or no classes."""
        forest = self.forest
        return forest.raw_threshold(self.threshold) if forest.n_scores == 1 and forest.classes.size else 0.0

    @cached_property
    def walk(self) -> Pass:
        """The rows on their way down the trees; rows that lie elsewhere are brought here batch by batch."""
        of_groups = GroupInbag.of(self.bags, self.groups)
        return Pass(self.forest, self.n_rows, leaf_lookup(self.forest, self.X), self.bags, of_groups)


def in_parts(task: Task, work: Callable[..., Any], *sent: Any, what: str) -> Iterator[Any]:
    """The results of ``work(pass, numbers of the rows, *sent)``: of all rows, or of each part that lies elsewhere.

    A part goes down the trees where it lies, so ``work`` and ``sent`` must be picklable; ``what`` names a progress bar.
    """
    if not isinstance(task.X, DistributedRows):
        yield work(task.walk, range(task.n_rows), *sent)
        return
    bags, group_inbag = task.bags, GroupInbag.of(task.bags, task.groups)
    assert bags is None or isinstance(bags, LaidOutBags)

    def own(rows: range) -> tuple[Bags | None, GroupInbag | None]:
        bounds = rows.start, rows.stop
        return bags and bags.part(*bounds), group_inbag and group_inbag.part(*bounds)

    yield from task.X.each(_work_there, work, task.forest, task.n_rows, *sent, own=own, what=what)


def _work_there(rows: range, X: Any, work: Callable[..., Any], forest: Model, n_rows: int, *rest: Any) -> Any:
    """The result of a part of the rows; the bags and the groups of its rows come last."""
    *sent, bags, group_inbag = rest
    walk = Pass(forest, len(rows), leaf_lookup(forest, forest.open(X), n_rows), bags, group_inbag)
    return work(walk, rows, *sent)


def added_up(task: Task, outputs: Outputs, read: Read[Total], nothing: Callable[[], Total]) -> Total:
    """Call ``read`` on each block of outputs, in the order of the rows, and add up what it returns.

    ``nothing`` makes the total to start from. Rows on workers are read there, so then ``read`` and ``nothing`` must be
    picklable.
    """
    total: Any = nothing()
    for part in in_parts(task, _add_up, task.threshold, outputs, read, nothing, what=_WHAT):
        total += part
    return total


def _add_up(
    walk: Pass, rows: range, threshold: float, outputs: Outputs, read: Read[Any], nothing: Callable[[], Any]
) -> Any:
    forest, total = walk.forest, nothing()
    of_leaves: dict[Outputs, Callable[[LeafIds], NDArray[Any]]] = {
        "scores": lambda leaves: leaves.scores,
        "partial scores": forest.partial_scores,
        "values": forest.leaf_values,
        "votes": forest.leaf_class(threshold),
    }
    for batch in walk.batches(_WHAT, cells=_CELLS * forest.n_members * forest.n_scores):
        number = np.arange(rows.start + batch.rows.start, rows.start + batch.rows.stop)
        total += read(of_leaves[outputs](batch.leaves), number)
    return total


def check_truth(task: Task) -> None:
    """Raise ``ValueError`` if ``y`` or the weights of a task do not fit, before trees predict its rows."""
    checked_truth(task, task.forest.classes, task.n_rows, task.y, task.sample_weight)


def checked_truth(
    task: Task | None, classes: NDArray[Any], n_rows: int, y: Any, sample_weight: Any
) -> tuple[NDArray[Any] | None, Floats | None]:
    """Labels or numbers as the model reads them, and weights; ``ValueError`` if they do not fit."""
    if y is None:
        refuse_unused("it is for metrics, which compare with y", ", or give y too", sample_weight=sample_weight)
        return None, None
    y = y if task is None else task.forest.truth(y)
    training_labels(classes, y, n_rows)
    return one_per_row(y, n_rows), None if sample_weight is None else sample_weights(sample_weight, n_rows)


def rows_elsewhere(X: Any) -> Any:
    """Rows on Dask's workers, as `rfsize.dask.rows` wraps them; None for rows in this process."""
    return import_module("rfsize.dask").rows(X) if lies_elsewhere(X) else None


def tree_votes(task: Task) -> NDArray[np.int32]:
    """Class index of each tree's vote on each row, shape (n_rows, n_trees); −1 where the tree saw the row."""
    votes, leaf_class = [], task.forest.leaf_class(task.threshold)
    for batch in task.walk.batches("votes"):
        seen = False if batch.seen is None else batch.seen.any(axis=2)
        votes.append(np.where(seen, -1, leaf_class(batch.leaves)).astype(np.int32))
    return np.concatenate(votes)


def inbag_mask(task: Task) -> Bools:
    """Whether each tree, or one of an iteration, saw each row or its group, shape (n_trees, n_rows)."""
    batches = task.walk.batches("in-bag rows")
    return np.concatenate([~batch.may_score.all(axis=2).T for batch in batches], axis=1)


def seen_mask(task: Task, rows: Int64s | None = None) -> Bools:
    """`Batch.seen` of all rows, or of those with these ascending numbers.

    Call it only after the bags were proven: no row goes down the trees.
    """
    assert task.bags is not None
    cells, bags, seen = task.forest.n_trees * task.forest.n_scores, task.bags, []
    for start, stop in blocks(task.n_rows, cells, what="bags"):
        here = slice(None) if rows is None else rows[slice(*np.searchsorted(rows, (start, stop)))] - start
        seen.append(task.walk.seen(start, stop, bags.take(start, stop))[here])
    return np.concatenate(seen)
