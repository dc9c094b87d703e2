"""One pass down the trees: the leaves that blocks of rows reach, and the votes and scores that they hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter, Bags
from rfsize.counting.bag_proof import BagProof
from rfsize.utils import matrix
from rfsize.voting.links import Link
from rfsize.voting.outputs import TreeOutputs
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes


class ForestOnRows(NamedTuple):
    """What it takes to ask the trees of a forest again: references, no copies.

    Attributes
    ----------
    adapter : Adapter
        The forest.
    X
        Rows, which have been checked.
    bags : Bags or None
        For votes and scores of trees that did not train on the row.
    threshold : float
        Probability of class 1 above which it is predicted.
    """

    adapter: Adapter
    X: Any
    bags: Bags | None
    threshold: float = 0.5


# Numbers that the scatter of scores may hold, for which of many rows and classes a part of the rows do.
_SCORES_HELD = 1 << 25


def count_votes(adapter: Adapter, X: Any, threshold: float, bags: Bags | None = None) -> Votes:
    """Votes of all members on every row; with ``bags``, only of those that did not train on the row.

    The rows go through in blocks, so memory grows with the rows but not with rows × trees (only bags of scikit-learn
    take a byte for each row and member). The bags are proven in the same pass, and no vote is returned where the
    proof fails. ``X`` has been checked.
    """
    return _counted_in_blocks(adapter, X, threshold, bags, None)


def tree_outputs(adapter: Adapter, X: Any, threshold: float, bags: Bags | None = None) -> TreeOutputs:
    """Votes of all members on every row, and their scores, of many rows and classes on a part of the rows.

    See `count_votes`.
    """
    if not adapter.averages_scores:
        return TreeOutputs(count_votes(adapter, X, threshold, bags), predict_obeys=adapter.predict_obeys)
    scores: list[Scores] = []
    votes = _counted_in_blocks(adapter, X, threshold, bags, scores)
    return TreeOutputs(votes, Scores.stacked(scores), adapter.cut(threshold), adapter.predict_obeys)


def _counted_in_blocks(
    adapter: Adapter, X: Any, threshold: float, bags: Bags | None, scores: list[Scores] | None
) -> Votes:
    """Votes; the scores of each block of rows are appended where they are asked for."""
    n_classes, cast = len(adapter.classes), adapter.voter(threshold)
    counts = np.zeros((matrix.n_rows(X), n_classes), dtype=np.int32)
    every = 1 + len(counts) * adapter.leaves.n_scores**2 // _SCORES_HELD
    for rows, leaf, inbag in leaf_blocks(adapter, X, bags, what="votes"):
        leaf, may_vote = out_of_bag_members(leaf, inbag)
        counts[rows] = votes_by_class(cast(leaf), n_classes, may_vote)
        if scores is not None:
            part = slice(-rows.start % every, None, every)
            raw = adapter.leaves.raw_scores(leaf[part])
            scores.append(Scores.of(raw, None if may_vote is None else may_vote[part]))
    return Votes(counts, adapter.classes, adapter.n_trees)


def leaf_blocks(
    adapter: Adapter, X: Any, bags: Bags | None, *, what: str, cells: int = 0
) -> Iterator[tuple[slice, NDArray[Any], NDArray[np.bool_] | None]]:
    """Blocks of rows, the leaves that they reach, and with ``bags`` which trees were trained on them.

    The leaves, shape (rows, n_members, n_outputs), are indices into the table of all leaves; in-bag masks have that
    shape too, or 1 in place of n_outputs where the trees of a member share a bag. The proof of the bags is
    concluded after the last block, and nothing may be made of the rows before. ``cells`` are numbers that the caller
    holds for each row besides.

    Raises
    ------
    InbagError
        If the bags cannot be proven.
    """
    proof = None if bags is None else BagProof(adapter, bags)
    per_row = adapter.n_trees * adapter.leaves.n_scores + cells
    for start, stop in matrix.blocks(matrix.n_rows(X), per_row, what=what):
        leaf = adapter.leaf_index(matrix.take(X, start, stop)) + adapter.leaves.offset
        yield slice(start, stop), leaf, None if proof is None else proof.add(start, stop, leaf)
    if proof is not None:
        proof.conclude()


def cast_votes(adapter: Adapter, X: Any, threshold: float) -> NDArray[np.int32]:
    """Class index that each member votes for on each row, shape (rows, n_members). ``X`` has been checked."""
    cast = adapter.voter(threshold)
    labels = np.empty((matrix.n_rows(X), adapter.n_trees), dtype=np.int32)
    for start, stop in matrix.blocks(len(labels), adapter.leaves.offset.size, what="votes"):
        labels[start:stop] = cast(adapter.leaf_index(matrix.take(X, start, stop)) + adapter.leaves.offset)
    return labels


def out_of_bag_members(
    leaf: NDArray[Any], inbag: NDArray[np.bool_] | None
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Leaves of members that left the row out of their bags, and which members did; None where all may vote.

    Where the trees of each class have bags of their own (XGBoost), so few members have left a row out with all of their
    trees that hardly any vote would remain. But such trees are drawn independently, so that any trees that left the row
    out, one of each class, make as good a member as those of one iteration: the first of each vote together, then the
    second of each, as far as the class with the fewest goes.

    Parameters
    ----------
    leaf : ndarray of int, shape (n_rows, n_members, n_outputs)
        Leaves that the rows reach.
    inbag : ndarray of bool, shape (n_rows, n_members, n_outputs or 1), or None
        Whether the tree was trained on the row.

    Returns
    -------
    leaf : ndarray of int, shape (n_rows, n_members, n_outputs)
        Leaves, member by member.
    may_vote : ndarray of bool, shape (n_rows, n_members), or None
        Whether the member left the row out.
    """
    if inbag is None:
        return leaf, None
    if inbag.shape[2] == 1:
        return leaf, np.logical_not(inbag[:, :, 0])
    order = np.argsort(inbag.view(np.uint8), axis=1, kind="stable")
    complete = inbag.shape[1] - inbag.sum(axis=1).max(axis=1)
    return np.take_along_axis(leaf, order, axis=1), np.arange(inbag.shape[1]) < complete[:, None]


def votes_by_class(vote: NDArray[Any], n_classes: int, may_vote: NDArray[np.bool_] | None) -> NDArray[np.int32]:
    """Votes for each class, shape (rows, n_classes), of the members that may vote on the row."""
    counts = np.empty((len(vote), n_classes), dtype=np.int32)
    for index in range(1, n_classes):
        counts[:, index] = np.sum(vote == index, axis=1, where=True if may_vote is None else may_vote)
    asked = vote.shape[1] if may_vote is None else may_vote.sum(axis=1)
    counts[:, 0] = asked - counts[:, 1:].sum(axis=1)
    return counts


def scores_and_noise(adapter: Adapter, X: Any, bags: Bags | None, link: Link) -> tuple[Scores, float]:
    """Scores of all trees on every row, and how uncertain they leave the mean squared deviation, as a share of it.

    All rows are asked of the same trees, and one of these may deviate on many rows at once. The mean square is a sum of
    what each tree adds to it, and the trees are independent draws. Arguments as in `rfsize.counting.walk.count_votes`.
    """
    parts, added = [], np.zeros(adapter.n_trees)
    for _, leaf, inbag in leaf_blocks(adapter, X, bags, what="scores"):
        score = np.asarray(adapter.leaves.raw_scores(leaf), dtype=np.float64)
        counts = np.ones((*score.shape[:2], 1)) if inbag is None else 1.0 - inbag
        asked = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        mean = np.sum(score * counts, axis=1, keepdims=True) / asked
        away = link.moved(mean, (score - mean) * counts)
        added += np.sum(away**2 / asked, axis=(0, 2))
        ordered, may_vote = out_of_bag_members(leaf, inbag)
        parts.append(Scores.of(score if ordered is leaf else adapter.leaves.raw_scores(ordered), may_vote))
    total = added.sum()
    noise = math.sqrt(added.size) * np.std(added, ddof=1) / total if added.size > 1 and total > 0.0 else 0.0
    return Scores.stacked(parts), float(noise)
