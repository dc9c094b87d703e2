"""Count: add up the votes and scores of a forest's trees on rows, here or part by part where the rows lie."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s, each_range
from rfsize.counting.groups import NO_GROUPS, GroupInbag, Groups
from rfsize.counting.sums import N_BLOCKS, Means, Scores, Sums, stacked
from rfsize.counting.task import BagCheck, Batch, Pass, Task, in_parts
from rfsize.counting.training_rows import added_up
from rfsize.counting.votes import two_leaders
from rfsize.models.bags import Bags
from rfsize.models.ensemble import LeafIds
from rfsize.models.model import Forest, LeafClass
from rfsize.walking.leaves import ROWS_PER_THREAD, Lookup

_WHAT = "votes and scores"  # of a progress bar


def count(task: Task, *, means: bool = False) -> Sums:
    """Add up votes and scores over all rows of a task, and ``means`` if you need them; return only proven bags.

    Raises
    ------
    InbagError
        If the bags cannot be proven.
    """
    if not isinstance(task.forest, Forest):
        return _raw_scores(task)
    parts = in_parts(task, _add_up, task.threshold, task.n_rows, means, what=_WHAT)
    return _proven(task.forest, task.bags, parts)


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
    walk = Pass(forest, bags.n_rows, lookup, bags, GroupInbag.of(bags, groups))
    return _proven(forest, bags, [_add_up(walk, range(bags.n_rows), forest.checked_threshold(threshold), bags.n_rows)])


def _proven(forest: Forest, bags: Bags | None, parts: Iterable[tuple[Sums, Floats]]) -> Sums:
    """The sums of all parts of the rows, if what these add to the leaves proves the bags."""
    check, sums = None if bags is None else BagCheck(forest, bags), []
    for part, rebuilt in parts:
        sums.append(part)
        if check:
            check.rebuilt += rebuilt
    if check:
        check.conclude()
    return stacked(sums)


def _raw_scores(task: Task) -> Sums:
    """What a model predicts whose trees are no independent draws: no votes, and scores without scatter."""
    n_rows, n_trees, n_scores = task.n_rows, task.forest.n_trees, task.forest.n_scores
    raw = np.concatenate(added_up(task, "partial scores", _of_all_trees, list))
    scores = Scores(np.full(n_rows, n_trees, dtype=np.int32), raw, np.zeros((n_rows, 0)))
    return replace(Sums.nothing(n_rows, 0, n_scores), scores=scores)


def _of_all_trees(partial_scores: NDArray[Any], _: Int64s) -> list[Floats]:
    return [partial_scores[:, -1].astype(np.float64)]


def _add_up(walk: Pass, rows: range, threshold: float, n_rows: int, means: bool = False) -> tuple[Sums, Floats]:
    """The votes and scores of consecutive rows among all ``n_rows``, and what they add to the leaves, as a proof."""
    forest, bags = walk.forest, walk.bags
    n_bags = 1 if bags is None else bags.take(0, 1).shape[2]
    sums = Sums.nothing(n_rows, len(forest.classes), forest.n_scores, forest.n_trees, n_bags, rows)
    if means and n_bags == 1 and sums.scores.rows is None:  # those of the scores, which are still to be written
        sums = replace(sums, means=Means(sums.scores.mean, sums.scores.n_votes[:, None]))
    elif means:
        mean, n_votes = np.zeros((len(rows), forest.n_scores)), np.zeros((len(rows), n_bags), dtype=np.int32)
        sums = replace(sums, means=Means(mean, n_votes))
    check, leaf_class = None if bags is None else BagCheck(forest, bags), forest.leaf_class(threshold)
    with np.errstate(over="ignore", invalid="ignore"):  # an error later, if deviations are needed
        for batch in walk.batches(_WHAT, check=check):
            add = partial(_add, sums, batch, batch.leaves.in_double, leaf_class, rows.start + batch.rows.start)
            each_range(add, len(batch.leaves.leaf), ROWS_PER_THREAD)
    return sums, np.zeros(0) if check is None else check.rebuilt


def _add(sums: Sums, batch: Batch, table: Floats, leaf_class: LeafClass, first: int, start: int, stop: int) -> None:
    """Add rows ``start`` to ``stop`` of a batch, whose first row has the number ``first``, to the sums.

    ``table`` is that of the leaves in double precision.
    """
    own = slice(batch.rows.start + start, batch.rows.start + stop)
    batch, first, n_rows = batch.take(slice(start, stop)), first + start, stop - start
    paired, may_vote = pair_oob_trees(batch.leaves, batch.seen)
    vote = leaf_class(paired) if sums.counts.shape[1] else np.zeros((n_rows, 0), dtype=np.bool_)
    vote = np.ascontiguousarray(vote, dtype=np.bool_ if vote.dtype == np.bool_ else np.int64)
    if vote.size:
        _core.count_votes(vote, may_vote, sums.counts[own, None])
    inside, at = (own, slice(None)) if sums.scores.rows is None else _kept(sums.scores.rows, first, n_rows)
    leaf, of_rows = paired.leaf[at], (getattr(sums.scores, name)[inside] for name in ("n_votes", "mean", "scatter"))
    _core.add_up_scores(np.ascontiguousarray(leaf, dtype=np.int64), may_vote[at], table, *of_rows)
    parts, (inside, at) = sums.parts, _kept(sums.parts.rows, first, n_rows)
    leaf, may_score = np.ascontiguousarray(batch.leaves.leaf[at], dtype=np.int64), batch.may_score
    may_add = np.ascontiguousarray(may_score[at])
    _core.add_by_part(leaf, may_add, table, parts.total[inside], parts.n_scored[inside])
    if vote.size and may_score.shape[2] == 1:
        _core.count_votes(vote[at], may_vote[at], parts.votes[inside])
    elif vote.size:
        order = oob_order(~may_add)
        parts.votes[inside] = _votes_of_paired_trees(vote[at], may_vote[at], sums.counts[own][at], order)
    if sums.means is not None and sums.means.mean is not sums.scores.mean:
        means = Means.of(batch.leaves.scores, may_score)
        sums.means.mean[own], sums.means.n_votes[own] = means.mean, means.n_votes


def _kept(numbers: Int64s, first: int, n_rows: int) -> tuple[slice, Any]:
    """Where rows with consecutive numbers stand among rows that are kept, and which of them these are."""
    inside = slice(*np.searchsorted(numbers, (first, first + n_rows)))
    at = numbers[inside] - first
    return inside, slice(None) if len(at) == n_rows else at


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
