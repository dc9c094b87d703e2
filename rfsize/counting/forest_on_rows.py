"""A forest on rows: what it takes to ask its trees, and all that they can be asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter, Bags
from rfsize.adapters.registry import adapter_for
from rfsize.counting.walk import Visit, out_of_bag_members, visit_leaves, votes_by_class
from rfsize.utils import matrix
from rfsize.voting.links import Link
from rfsize.voting.outputs import TreeOutputs
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes

# Numbers that the scatter of scores may hold, for which of many rows and classes a part of the rows do.
_SCORES_HELD = 1 << 25


@dataclass(frozen=True, eq=False)
class ForestOnRows:
    """What it takes to ask the trees of a forest, once or again: references, no copies.

    The rows go through in blocks, so memory grows with the rows but not with rows × trees (only bags of scikit-learn
    take a byte for each row and member). The bags are proven in the same pass, and nothing is returned where the proof
    fails.

    Attributes
    ----------
    adapter : Adapter
        The forest.
    X
        Rows, which have been checked.
    bags : Bags or None
        For votes and scores of trees that did not train on the row.
    threshold : float
        Probability of class 1 above which it is predicted, which has been checked.
    """

    adapter: Adapter
    X: Any
    bags: Bags | None = None
    threshold: float = 0.5

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        oob: bool = False,
        threshold: float = 0.5,
        sample_weight: Any = None,
        seed: int | None = None,
        subsample: float | None = None,
        missing: float | None = None,
    ) -> ForestOnRows:
        """Of a model (or its adapter) and rows, all of which are checked here; arguments as in `rfsize.votes`.

        Raises
        ------
        NotAForestError
            If the model is not a forest of independent trees.
        InbagError
            If ``oob`` and the bags cannot be rebuilt.
        ValueError
            If ``X`` or an option does not fit.
        """
        adapter = adapter_for(model, missing=missing)
        threshold = adapter.checked_threshold(threshold)
        X = adapter.check(X)
        bags = adapter.bags(matrix.n_rows(X), y, sample_weight, seed, subsample) if oob else None
        return cls(adapter, X, bags, threshold)

    @property
    def n_rows(self) -> int:
        """Rows."""
        return matrix.n_rows(self.X)

    @property
    def source(self) -> str:
        """Where votes come from, as reports name it."""
        return "rows given" if self.bags is None else "oob"

    def visit(self, visit: Visit, *, what: str, cells: int = 0) -> None:
        """Visit the leaves that the rows reach; see `visit_leaves`."""
        leaf_index = self._leaf_index
        visit_leaves(self.adapter, self.bags, self.n_rows, leaf_index, visit, what=what, cells=cells)

    def votes(self) -> Votes:
        """Votes of all members on every row; with bags, only of those that did not train on the row."""
        return self._counted(None)

    def outputs(self) -> TreeOutputs:
        """Votes on every row, and scores, of many rows and classes on a part of the rows."""
        adapter = self.adapter
        if not adapter.averages_scores:
            return TreeOutputs(self.votes(), predict_obeys=adapter.predict_obeys)
        scores: list[Scores] = []
        votes = self._counted(scores)
        return TreeOutputs(votes, Scores.stacked(scores), adapter.cut(self.threshold), adapter.predict_obeys)

    def _counted(self, scores: list[Scores] | None) -> Votes:
        """Votes; the scores of each block of rows are appended where they are asked for."""
        adapter = self.adapter
        n_classes, cast = len(adapter.classes), adapter.voter(self.threshold)
        counts = np.zeros((self.n_rows, n_classes), dtype=np.int32)
        every = 1 + len(counts) * adapter.leaves.n_scores**2 // _SCORES_HELD

        def count(rows: slice, leaf: NDArray[Any], inbag: NDArray[np.bool_] | None) -> None:
            leaf, may_vote = out_of_bag_members(leaf, inbag)
            counts[rows] = votes_by_class(cast(leaf), n_classes, may_vote)
            if scores is not None:
                part = slice(-rows.start % every, None, every)
                raw = adapter.leaves.raw_scores(leaf[part])
                scores.append(Scores.of(raw, None if may_vote is None else may_vote[part]))

        self.visit(count, what="votes")
        return Votes(counts, adapter.classes, adapter.n_trees)

    def tree_votes(self) -> NDArray[np.int32]:
        """Class index that each member votes for on each row, shape (n_rows, n_members), whoever was trained on it."""
        cast = self.adapter.voter(self.threshold)
        labels = np.empty((self.n_rows, self.adapter.n_trees), dtype=np.int32)

        def label(rows: slice, leaf: NDArray[Any], _: NDArray[np.bool_] | None) -> None:
            labels[rows] = cast(leaf)

        self.visit(label, what="votes")
        return labels

    def inbag(self) -> NDArray[np.bool_]:
        """Whether each member, or one of its trees, was trained on each row, shape (n_members, n_rows)."""
        mask = np.zeros((self.adapter.n_trees, self.n_rows), dtype=np.bool_)

        def mark(rows: slice, _: NDArray[Any], inbag: NDArray[np.bool_] | None) -> None:
            assert inbag is not None
            mask[:, rows] = inbag.any(axis=2).T

        self.visit(mark, what="in-bag rows")
        return mask

    def scores_and_noise(self, link: Link) -> tuple[Scores, float]:
        """Scores of all trees on every row, and how uncertain they leave the mean squared deviation, as a share of it.

        All rows are asked of the same trees, and one of these may deviate on many rows at once. The mean square is a
        sum of what each tree adds to it, and the trees are independent draws.
        """
        leaves = self.adapter.leaves
        parts: list[Scores] = []
        added = np.zeros(self.adapter.n_trees)

        def add(_: slice, leaf: NDArray[Any], inbag: NDArray[np.bool_] | None) -> None:
            nonlocal added
            score = np.asarray(leaves.raw_scores(leaf), dtype=np.float64)
            counts = np.ones((*score.shape[:2], 1)) if inbag is None else 1.0 - inbag
            asked = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
            mean = np.sum(score * counts, axis=1, keepdims=True) / asked
            away = link.moved(mean, (score - mean) * counts)
            added += np.sum(away**2 / asked, axis=(0, 2))
            ordered, may_vote = out_of_bag_members(leaf, inbag)
            parts.append(Scores.of(score if ordered is leaf else leaves.raw_scores(ordered), may_vote))

        self.visit(add, what="scores")
        total = added.sum()
        noise = math.sqrt(added.size) * np.std(added, ddof=1) / total if added.size > 1 and total > 0.0 else 0.0
        return Scores.stacked(parts), float(noise)

    def _leaf_index(self, start: int, stop: int) -> NDArray[Any]:
        return self.adapter.leaf_index(matrix.take(self.X, start, stop))
