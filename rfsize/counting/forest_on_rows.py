"""A forest on rows: what it takes to ask its trees, and all that they can be asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter, Bags
from rfsize.adapters.registry import adapter_for
from rfsize.counting.copies import resolved
from rfsize.counting.leaves import LeafIndex, leaf_index
from rfsize.counting.tally import Tally, squares_added
from rfsize.counting.walk import Visit, asked_of, out_of_bag_members, visit_leaves
from rfsize.utils import matrix
from rfsize.utils.typing import Floats
from rfsize.voting.averages import Averages
from rfsize.voting.blocks import TreeBlocks, rows_in_blocks
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
        tally = Tally(self.adapter, self.n_rows, len(self.adapter.classes), self.threshold)
        self.visit(tally.add, what="votes")
        return Votes(tally.counts, self.adapter.classes, self.adapter.n_trees)

    def outputs(self) -> TreeOutputs:
        """Votes on every row that sizes go by, and scores, of many rows and classes on a part of the rows."""
        tally, every = self._tally()
        self.visit(tally.add, what="votes")
        return self._outputs_of(tally, self._once(tally.blocks), every)

    def told(self) -> Told:
        """All that `rfsize.count` keeps, of classification or regression."""
        adapter, averages = self.adapter, None
        links: set[Link] = set()
        if adapter.averages_scores:
            averages = self._no_averages()
            links = {adapter.link, Link("identity")}
        tally, every = self._tally(averages=averages, links=tuple(links))
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused where deviations are asked for
            self.visit(tally.add, what="votes and scores")
        blocks = self._once(tally.blocks)
        if len(adapter.classes):
            outputs = self._outputs_of(tally, blocks, every)
            return Told(outputs, outputs.scores, averages, tally.added, blocks)
        return Told(None, tally.scores, averages, tally.added, blocks)

    def blocks(self) -> TreeBlocks:
        """What blocks of the trees say of some of the rows that sizes go by, which keep their numbers among all."""
        adapter, n_classes = self.adapter, len(self.adapter.classes)
        in_blocks = rows_in_blocks(self.n_rows, n_classes, adapter.leaves.n_scores)
        tally = Tally(adapter, self.n_rows, n_classes, self.threshold, in_blocks=in_blocks)
        self.visit(tally.add, what="scores")
        return self._once(tally.blocks)

    def _once(self, blocks: TreeBlocks) -> TreeBlocks:
        once = self.groups.once
        return blocks if once is None else blocks.where(once[blocks.rows])

    def averages(self) -> Averages:
        """Averaged scores of all rows, and of parts of the forest; of members that are no trees, of their votes."""
        averages, leaves = self._no_averages(), self.adapter.leaves

        def fill(rows: slice, leaf: NDArray[Any], inbag: NDArray[np.bool_] | None) -> None:
            averages.fill(rows, leaves.raw_scores(leaf), asked_of(leaf, inbag))

        self.visit(fill, what="scores")
        return averages

    def _no_averages(self) -> Averages:
        n_bags = 1 if self.bags is None else self.bags.take(0, min(1, self.n_rows)).shape[2]
        return Averages.empty(self.n_rows, self.adapter.n_trees, self.adapter.leaves.n_scores, n_bags)

    def _tally(self, **more: Any) -> tuple[Tally, int]:
        """What adds up votes and scores, and one row in how many is scored."""
        adapter, once = self.adapter, self.groups.once
        n_rows, n_classes, n_scores = self.n_rows, len(adapter.classes), adapter.leaves.n_scores
        every = 1 + n_rows * n_scores**2 // _SCORES_HELD
        scored = np.ones(n_rows, dtype=np.bool_) if once is None else once.copy()
        scored &= np.arange(n_rows) % every == 0
        tally = Tally(
            adapter,
            n_rows,
            n_classes,
            self.threshold,
            scored=scored if adapter.averages_scores else None,
            in_blocks=rows_in_blocks(n_rows, n_classes, n_scores),
            **more,
        )
        return tally, every

    def _outputs_of(self, tally: Tally, blocks: TreeBlocks, every: int) -> TreeOutputs:
        """What the votes and scores that were added up say of the rows that sizes go by."""
        adapter, once = self.adapter, self.groups.once
        votes = Votes(tally.counts, adapter.classes, adapter.n_trees)
        if once is not None:
            number = np.cumsum(once) - 1
            votes, blocks = votes.take(once), replace(blocks, rows=number[blocks.rows])
        if not adapter.averages_scores:
            return TreeOutputs(votes, predict_obeys=adapter.predict_obeys, blocks=blocks)
        cut, obeys, scored = adapter.cut(self.threshold), adapter.predict_obeys, self.groups.scored(every)
        return TreeOutputs(votes, tally.scores, cut, obeys, scored, blocks)

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
            added += squares_added(score, asked_of(leaf, inbag), link)
            ordered, may_vote = out_of_bag_members(leaf, inbag)
            parts.append(Scores.of(score if ordered is leaf else leaves.raw_scores(ordered), may_vote))

        with np.errstate(over="ignore", invalid="ignore"):  # which is refused
            self.visit(add, what="scores")
        check_scale(largest)
        return Scores.stacked(parts), noise_of(added)

    @cached_property
    def _leaves(self) -> LeafIndex:
        return leaf_index(self.adapter, self.X)


@dataclass(frozen=True, eq=False)
class Told:
    """What the trees say of rows, for `rfsize.count`.

    Attributes
    ----------
    outputs : TreeOutputs or None
        Votes and scores of the rows that sizes go by; None of regression.
    scores : Scores or None
        Scores of these rows, or of a part of them; None where members are no trees.
    averages : Averages or None
        Averaged scores of all rows.
    added : dict of Link to ndarray of float64, shape (n_trees,)
        As in `Tally`.
    blocks : TreeBlocks or None
        What blocks of the trees say of some of the rows, which keep their numbers among all.
    """

    outputs: TreeOutputs | None
    scores: Scores | None
    averages: Averages | None
    added: dict[Link, Floats]
    blocks: TreeBlocks | None = None


def noise_of(added: Floats) -> float:
    """How uncertain the mean squared deviation is, as a share, by what each tree adds to it."""
    total = added.sum()
    return float(math.sqrt(added.size) * np.std(added, ddof=1) / total) if added.size > 1 and total > 0.0 else 0.0


def check_scale(largest: float) -> None:
    """``ValueError`` where products of four scores would overflow or vanish."""
    if not (largest == 0.0 or 1.0 / _LARGEST_SCORE <= largest <= _LARGEST_SCORE):
        raise ValueError(
            f"the trees' scores reach {largest:.3g}, beyond what deviations are computed of ({1.0 / _LARGEST_SCORE:g} "
            f"to {_LARGEST_SCORE:g}): train on the target in other units"
        )
