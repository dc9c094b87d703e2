"""A forest on rows: what it takes to ask its trees, and all that they can be asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter, Bags
from rfsize.adapters.registry import adapter_for
from rfsize.counting.block_counts import BlockCounts
from rfsize.counting.copies import resolved
from rfsize.counting.leaves import LeafIndex, leaf_index
from rfsize.counting.walk import Visit, out_of_bag_members, visit_leaves
from rfsize.utils import matrix
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.links import Link
from rfsize.voting.outputs import TreeOutputs
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes

# Numbers that the scatter of scores may hold, for which of many rows and classes a part of the rows do.
_SCORES_HELD = 1 << 25

_LARGEST_SCORE = 1e60


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
    groups : Groups
        With bags: training rows that belong together, of which such trees saw none.
    """

    adapter: Adapter
    X: Any
    bags: Bags | None = None
    threshold: float = 0.5
    groups: Groups = ALONE

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
        groups: Any = None,
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
        if not oob:
            if groups is not None:
                raise ValueError(
                    "groups say on which training rows a tree may not vote, and oob=False asks all trees about all "
                    "rows: leave groups out, or give the training rows with oob=True"
                )
            return cls(adapter, X, None, threshold)
        n_rows = matrix.n_rows(X)
        bags = adapter.bags(n_rows, y, sample_weight, seed, subsample)
        return cls(adapter, X, bags, threshold, resolved(groups, X, n_rows))

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
        leaves, groups = self._leaves, self.groups
        visit_leaves(self.adapter, self.bags, self.n_rows, leaves, visit, what=what, groups=groups, cells=cells)

    def votes(self) -> Votes:
        """Votes of all members on every row; with bags, only of those that did not train on the row or its group."""
        return self._counted(None)

    def outputs(self) -> TreeOutputs:
        """Votes on every row that sizes go by, and scores, of many rows and classes on a part of the rows."""
        adapter = self.adapter
        scores: list[Scores] | None = [] if adapter.averages_scores else None
        votes = self._counted(scores)
        if self.groups.once is not None:
            votes = votes.take(self.groups.once)
        if scores is None:
            return TreeOutputs(votes, predict_obeys=adapter.predict_obeys)
        cut, obeys = adapter.cut(self.threshold), adapter.predict_obeys
        return TreeOutputs(votes, Scores.stacked(scores), cut, obeys, self.groups.scored(self._every()))

    def _every(self) -> int:
        """Of how many rows one is scored."""
        return 1 + self.n_rows * self.adapter.leaves.n_scores**2 // _SCORES_HELD

    def _counted(self, scores: list[Scores] | None) -> Votes:
        """Votes; the scores of each block of rows are appended where they are asked for."""
        adapter = self.adapter
        block = BlockCounts(adapter, self.threshold, self.n_rows)
        counts = np.zeros((self.n_rows, len(adapter.classes)), dtype=np.int32)
        every, once = self._every(), self.groups.once

        def count(rows: slice, leaf: NDArray[Any], inbag: NDArray[np.bool_] | None) -> None:
            leaf, may_vote = out_of_bag_members(leaf, inbag)
            counts[rows] = block.votes(leaf, may_vote)
            if scores is not None:
                part: Any = slice(-rows.start % every, None, every)
                if once is not None:
                    part = np.arange(rows.start, rows.stop)[part] - rows.start
                    part = part[once[rows][part]]
                scores.append(block.scores(leaf[part], None if may_vote is None else may_vote[part]))

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
        """Scores on every row that sizes go by, and how uncertain they leave the mean squared deviation, as a share.

        All rows are asked of the same trees, and one of these may deviate on many rows at once. The mean square is a
        sum of what each tree adds to it, and the trees are independent draws.

        Raises
        ------
        ValueError
            If the scores are too large or too small to be multiplied.
        """
        leaves = self.adapter.leaves
        parts: list[Scores] = []
        added, largest, once = np.zeros(self.adapter.n_trees), 0.0, self.groups.once

        def add(rows: slice, leaf: NDArray[Any], inbag: NDArray[np.bool_] | None) -> None:
            nonlocal added, largest
            if once is not None and inbag is not None:
                leaf, inbag = leaf[once[rows]], inbag[once[rows]]
            score = np.asarray(leaves.raw_scores(leaf), dtype=np.float64)
            largest = max(largest, float(np.abs(score).max(initial=0.0)))
            counts = np.ones((*score.shape[:2], 1)) if inbag is None else 1.0 - inbag
            asked = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
            mean = np.sum(score * counts, axis=1, keepdims=True) / asked
            away = link.moved(mean, (score - mean) * counts)
            added += np.sum(away**2 / asked, axis=(0, 2))
            ordered, may_vote = out_of_bag_members(leaf, inbag)
            parts.append(Scores.of(score if ordered is leaf else leaves.raw_scores(ordered), may_vote))

        with np.errstate(over="ignore", invalid="ignore"):  # which is refused
            self.visit(add, what="scores")
        _check_scale(largest)
        total = added.sum()
        noise = math.sqrt(added.size) * np.std(added, ddof=1) / total if added.size > 1 and total > 0.0 else 0.0
        return Scores.stacked(parts), float(noise)

    @cached_property
    def _leaves(self) -> LeafIndex:
        return leaf_index(self.adapter, self.X)


def _check_scale(largest: float) -> None:
    """``ValueError`` where products of four scores would overflow or vanish."""
    if not (largest == 0.0 or 1.0 / _LARGEST_SCORE <= largest <= _LARGEST_SCORE):
        raise ValueError(
            f"the trees' scores reach {largest:.3g}, beyond what deviations are computed of ({1.0 / _LARGEST_SCORE:g} "
            f"to {_LARGEST_SCORE:g}): train on the target in other units"
        )
