"""Count: add up the votes and scores of a forest's trees on rows, here or part by part where the rows lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s, each_range
from rfsize.counting.groups import NO_GROUPS, GroupInbag, Groups
from rfsize.counting.sums import N_BLOCKS, Means, PartSums, Scores, Sums, deal, rows_and_parts, scored_every, stacked
from rfsize.counting.task import BagCheck, Batch, Pass, Task
from rfsize.counting.training_rows import TreesOnRows
from rfsize.counting.votes import two_leaders
from rfsize.models.bags import Bags, LaidOutBags
from rfsize.models.ensemble import LeafIds
from rfsize.models.model import Forest, Model
from rfsize.models.rows import DistributedRows
from rfsize.walking.leaves import ROWS_PER_THREAD, Lookup, leaf_lookup

LeafClass = Callable[[LeafIds], NDArray[Any]]
"""Class index that each tree votes for, shape (n_rows, n_trees)."""


def count(task: Task, *, means: bool = False) -> Sums:
    """Add up votes and scores over all rows of a task, and ``means`` if you need them; return only proven bags.

    Raises
    ------
    InbagError
        If the bags cannot be proven.
    """
    if not isinstance(task.forest, Forest):
        return _raw_scores(task)
    if isinstance(task.X, DistributedRows):
        return _count_elsewhere(task, means)
    return _add_up(task.walk, Part(range(task.n_rows), task.n_rows, means, task.threshold))


def out_of_bag(forest: Forest, bags: Bags, lookup: Lookup, threshold: float = 0.5, groups: Groups = NO_GROUPS) -> Sums:
    """Add up the out-of-bag votes and scores of trees just trained, and prove their bags.

    Parameters
    ----------
    forest : Forest
        The new trees.
    bags : Bags
        Their bags.
    lookup : callable
        Returns the leaves of rows ``start`` to ``stop``, such as `leaf_lookup` makes it.
    threshold : float, default 0.5
        As in `rfsize.tree_outputs`.
    groups : Groups, optional
        Rows that belong together.

    Raises
    ------
    InbagError
        If the proof fails.
    ValueError
        If a threshold is given for more than two classes.
    """
    rows = Pass(forest, bags.n_rows, lookup, bags, GroupInbag.of(bags, groups))
    return _add_up(rows, Part(range(bags.n_rows), bags.n_rows, False, forest.checked_threshold(threshold)))


def _raw_scores(task: Task) -> Sums:
    """What a model predicts whose trees are no independent draws: no votes, and scores without scatter."""
    n_rows, n_trees, n_scores = task.n_rows, task.forest.n_trees, task.forest.n_scores
    raw = np.concatenate(TreesOnRows(task).added_up("partial scores", _of_all_trees, list))
    scores = Scores(np.full(n_rows, n_trees, dtype=np.int32), raw, np.zeros((n_rows, 0)))
    return replace(Sums.nothing(n_rows, 0, n_scores), scores=scores)


def _of_all_trees(partial_scores: NDArray[Any], _: Int64s) -> list[Floats]:
    return [partial_scores[:, -1].astype(np.float64)]


class Part(NamedTuple):
    """All that is needed to count some of the rows where they lie, beside the forest.

    Attributes
    ----------
    rows : range
        Numbers of these rows among all rows.
    n_rows : int
        Number of all rows.
    means : bool
        Whether to keep mean scores of all rows.
    threshold : float
        As in `Task`.
    bags : LaidOutBags or None
        Bags of these rows.
    group_inbag : GroupInbag or None
        Trees that saw rows of the same groups.
    """

    rows: range
    n_rows: int
    means: bool
    threshold: float
    bags: LaidOutBags | None = None
    group_inbag: GroupInbag | None = None


def _add_up(rows: Pass, part: Part, check: BagCheck | None = None) -> Sums:
    """Add up the votes and scores of a part of the rows; ``check`` as in `Pass.batches`."""
    forest, leaf_class = rows.forest, rows.forest.leaf_class(part.threshold)
    with np.errstate(over="ignore", invalid="ignore"):  # an error later, if deviations are needed
        sums = [_sums(batch, forest, leaf_class, part) for batch in rows.batches("votes and scores", check=check)]
    return stacked(sums)


def _sums(batch: Batch, forest: Model, leaf_class: LeafClass, part: Part) -> Sums:
    """Votes on consecutive rows, scores of one in k of them, and sums by part of the forest on one in a larger k."""
    number = np.arange(part.rows.start + batch.rows.start, part.rows.start + batch.rows.stop)
    paired, may_vote = pair_oob_trees(batch.leaves, batch.seen)
    counts = _counts(paired, may_vote, leaf_class, len(forest.classes))
    every = scored_every(part.n_rows, forest.n_scores)
    rows: Any = slice(None) if every == 1 else np.flatnonzero(number % every == 0)
    scores = _scores(paired.take(rows), may_vote[rows], forest.n_scores)
    scores = replace(scores, rows=None if every == 1 else number[rows])
    every, n_parts = rows_and_parts(part.n_rows, forest.n_trees, forest.n_scores)
    rows = slice(None) if every == 1 else np.flatnonzero(number % every == 0)
    by_part = _by_part(batch.take(rows), paired.take(rows), may_vote[rows], counts[rows], leaf_class, n_parts)
    parts = PartSums(number[rows], part.n_rows, forest.n_trees, *by_part)
    return Sums(counts, scores, parts, Means.of(batch.leaves.scores, batch.may_score) if part.means else None)


def _counts(leaves: LeafIds, may_vote: Bools, leaf_class: LeafClass, n_classes: int) -> NDArray[np.int32]:
    """Votes for each class; no columns for regression."""
    counts = np.zeros((len(may_vote), n_classes), dtype=np.int32)

    def add(start: int, stop: int) -> None:
        vote = leaf_class(leaves.take(slice(start, stop)))
        vote = np.ascontiguousarray(vote, dtype=np.bool_ if vote.dtype == np.bool_ else np.int64)
        _core.count_votes(vote, may_vote[start:stop], counts[start:stop])

    if n_classes:
        each_range(add, len(counts), ROWS_PER_THREAD)
    return counts


def _scores(leaves: LeafIds, may_vote: Bools, n_scores: int) -> Scores:
    """Mean and scatter of the scores of the votes that count."""
    scores = Scores.nothing(len(leaves.leaf), n_scores)
    leaf, may_vote = np.ascontiguousarray(leaves.leaf, dtype=np.int64), np.ascontiguousarray(may_vote)

    def add(start: int, stop: int) -> None:
        rows = slice(start, stop)
        of_rows = scores.n_votes[rows], scores.mean[rows], scores.scatter[rows]
        _core.add_up_scores(leaf[rows], may_vote[rows], leaves.in_double, *of_rows)

    each_range(add, len(leaf), ROWS_PER_THREAD)
    return scores


def _by_part(
    batch: Batch, paired: LeafIds, may_vote: Bools, counts: NDArray[np.int32], leaf_class: LeafClass, n_parts: int
) -> tuple[NDArray[np.int32], Floats, NDArray[np.uint16]]:
    """Votes by block, sums of scores by part, and their number, as in `PartSums`."""
    score, may_score, n_classes = batch.leaves.scores, batch.may_score, counts.shape[1]
    if not n_classes:
        votes = np.zeros((len(counts), N_BLOCKS, 0), dtype=np.int32)
    elif may_score.shape[2] > 1:
        votes = _votes_of_paired_trees(leaf_class(paired), may_vote, counts, oob_order(~may_score))
    else:
        vote = leaf_class(paired)
        votes = np.stack([deal(may_vote & (vote == of_class), N_BLOCKS) for of_class in range(n_classes)], axis=2)
    total, n_scored = np.where(may_score, score, np.float64(0.0)), may_score.astype(np.uint16)
    if score.shape[1] > n_parts:
        total, n_scored = deal(total, n_parts), deal(n_scored, n_parts)
    return votes, total, n_scored


def _votes_of_paired_trees(
    vote: NDArray[Any], may_vote: Bools, counts: NDArray[np.int32], tree: NDArray[np.intp]
) -> NDArray[np.int32]:
    """Votes by block if the trees that cast one vote together are in several blocks.

    A vote counts in the blocks of two trees. The first is the tree of the class voted for. The second is the tree of
    the row's leading class or, if the vote is for the leader, of the runner-up.
    """
    leader, runner_up = two_leaders(counts)
    other = np.where(vote == leader[:, None], runner_up[:, None], leader[:, None])
    row, number = np.nonzero(may_vote)
    winner, loser = vote[row, number], other[row, number]
    first, second = (tree[row, number, of_class] % N_BLOCKS for of_class in (winner, loser))
    votes = np.zeros((len(vote), N_BLOCKS, counts.shape[1]), dtype=np.int32)
    np.add.at(votes, (row, first, winner), 1)
    apart = first != second
    np.add.at(votes, (row[apart], second[apart], winner[apart]), 1)
    return votes


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


# Rows that lie elsewhere


def count_part(X: Any, forest: Model, part: Part) -> tuple[Sums, Floats | None]:
    """Add up votes and scores on a part of the rows, and the rows in each leaf, which prove the bags of all parts."""
    opened, bags = forest.open(X), part.bags
    lookup = leaf_lookup(forest, opened, part.n_rows)
    rows = Pass(forest, opened.n_rows, lookup, bags, part.group_inbag)
    check = None if bags is None else BagCheck(forest, bags)
    return _add_up(rows, part, check), None if check is None else check.rebuilt


def _count_elsewhere(task: Task, means: bool) -> Sums:
    """Count each part of the rows where it lies; prove the bags here."""
    bags, group_inbag = task.bags, GroupInbag.of(task.bags, task.groups)
    check = None if bags is None else BagCheck(task.forest, bags)
    assert isinstance(task.X, DistributedRows)
    assert bags is None or isinstance(bags, LaidOutBags)

    def part(rows: range) -> Part:
        own = None if bags is None else bags.part(rows.start, rows.stop)
        of_groups = None if group_inbag is None else group_inbag.part(rows.start, rows.stop)
        return Part(rows, task.n_rows, means, task.threshold, own, of_groups)

    parts = []
    for sums, rebuilt in task.X.each_with(count_part, task.forest, part, what="votes and scores"):
        parts.append(sums)
        if check is not None:
            check.rebuilt += rebuilt
    if check is not None:
        check.conclude()
    return stacked(parts)
