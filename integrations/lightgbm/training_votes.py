"""Reads the votes and scores of each tree from the training predictions of a booster, without its rows."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from rfsize.counting.blocks import TreeBlocks, rows_in_blocks
from rfsize.counting.evidence import Evidence
from rfsize.counting.scores import Scores
from rfsize.counting.votes import Votes
from rfsize.exceptions import InbagError
from rfsize.integrations.lightgbm.bags import Draws
from rfsize.integrations.lightgbm.leaf_matching import LeafValues, bag_fits, find_up_to_constant
from rfsize.integrations.lightgbm.model_text import ForestText
from rfsize.integrations.lightgbm.score_noise import (
    LightGbmLink,
    Newest,
    first_of_tied,
    is_certain,
    newest_scores,
    tied,
)
from rfsize.integrations.lightgbm.training_rows import OTHER_ROWS, Training
from rfsize.utils.typing import Bools, Floats, Int64s

# The most rows to read of many, and the most cells of (rows × pairs of classes).
_MOST_ROWS, _MOST_CELLS = 20_000, 1 << 22

# Reading a tree takes a third of its training or more. Where rows are many and labels are sized, only the first trees
# are read, and then a few of each run. These few are consecutive, because the score of a tree is the difference of the
# predictions before and after it.
_FEW_ROWS, _FIRST_TREES, _READ_AT_ONCE, _RUN = 10_000, 104, 8, 32

# Bags are proven for the first trees, then for one tree in this many, and for the newest before each estimate.
_TREES_PROVEN_FIRST, _PROVEN_EVERY = 3, 128

_SAME_SCORE = 1e-10  # scores of two classes that are closer are ties


class TrainingVoteReader:
    """Reads votes and scores from the predictions of a booster in training, tree by tree.

    The score of a tree is the change of t · (mean score of t trees). LightGBM hands out probabilities, so a mean beyond
    the `LightGbmLink.bounds` is lost in rounding. Such a row is settled: its mean counts as the bound.

    Parameters
    ----------
    training : Training
    share : float, optional
        Read a share of at most 20,000 rows, drawn at random. All rows by default.
    every_tree : bool
        Whether to read every tree, even of many rows.

    Attributes
    ----------
    trees : int
        Number of trees trained.
    rows : slice or ndarray of int64
        The rows that are read.
    counts : ndarray of int32, shape (n_classes, n_rows)
        Votes for each class; shape (0, n_rows) for a regression.
    asked : ndarray of int32, shape (n_rows,)
        Number of trees read on each row.
    scores : Scores
    bounded : ndarray of bool, shape (n_rows,)
        Rows on which the score of some tree was bounded.
    n_unsure : int
        Number of votes that rounding hides, and that may be for another class.
    proven : int
        Number of trees whose bags were proven.
    """

    def __init__(self, training: Training, *, share: float | None = None, every_tree: bool = True) -> None:
        self.training, forest = training, training.forest
        self.link = LightGbmLink.of(forest, training.params)
        self._draws = None if training.bags is None else Draws(training.bags, 0, training.n_rows)
        self._cut = float(logit(training.threshold))
        self.trees = self.proven = self.n_unsure = 0
        n_outputs, n_classes = forest.n_outputs, forest.n_classes
        self.rows = slice(None) if share is None else _drawn(training.n_rows, share, n_outputs)
        self._every_tree = every_tree or training.n_rows <= _FEW_ROWS
        n_rows = training.n_rows if isinstance(self.rows, slice) else len(self.rows)
        self.counts = np.zeros((n_classes, n_rows), dtype=np.int32)
        self.asked = np.zeros(n_rows, dtype=np.int32)
        self.bounded = np.zeros(n_rows, dtype=np.bool_)
        self.scores = Scores.nothing(n_rows, n_outputs)
        self._in_blocks = rows_in_blocks(n_rows, n_classes, n_outputs)
        self._blocks = TreeBlocks.nothing(np.arange(n_rows)[self._in_blocks], n_classes, n_outputs)
        self._undealt: list[tuple[NDArray[Any], ...]] = []
        # Number of trees at the last look at the predictions, these on all rows, and the mean scores of the rows read.
        self._last: tuple[int, Floats | None, Floats] = (0, None, np.zeros((n_outputs, n_rows)))
        self._unproven: tuple[int, Floats | None, Floats, Bools] | None = None
        self._full_bag = False
        self._text: tuple[int, ForestText] = (0, forest)
        self.read()

    def read(self) -> None:
        """Add the votes and scores of the newest tree, if it is one of the trees to read.

        Raises
        ------
        InbagError
            If its bag is wrong, and it is one of the trees whose bags are proven.
        """
        tree = self.trees
        self.trees += 1
        if not (self._is_read(tree) or self._is_read(tree + 1)):
            return
        predicted = self.training.predictions()
        mean = self.link.score(predicted[:, self.rows])
        (trees_before, predicted_before, before), self._last = self._last, (tree + 1, predicted, mean)
        if not self._is_read(tree) or trees_before != tree:
            return
        newest = self._newest(tree, before, mean)
        vote, certain = self._votes(newest)
        may_count = newest.known
        if self._draws is not None:
            inbag = self._draws.drawn(tree)
            # After a bag with all rows, LightGBM draws no other bag.
            self._full_bag = self._full_bag or bool(inbag.all())
            inbag |= self._full_bag
            may_count = may_count & ~self.training.groups.spread(inbag)[self.rows]
            self._unproven = tree, predicted_before, predicted, inbag
            if self.proven < _TREES_PROVEN_FIRST or tree % _PROVEN_EVERY == 0:
                self.prove_newest()
        self.bounded |= newest.bounded & may_count
        self.n_unsure += int(np.count_nonzero(may_count & ~certain))
        self._add(newest, vote, may_count)

    def _is_read(self, tree: int) -> bool:
        return self._every_tree or tree < _FIRST_TREES or tree % _RUN < _READ_AT_ONCE

    @property
    def blocks(self) -> TreeBlocks:
        """The outputs of blocks of trees on some of the rows. Further trees change them."""
        self._deal()
        counts, scores = self.counts[:, self._blocks.rows].T, self.scores.take(self._in_blocks)
        return replace(self._blocks, counts=counts, scores=scores)

    def outputs(self, source: str) -> Evidence:
        """A copy of everything read so far."""
        threshold = self.training.threshold
        votes = Votes(self.counts.T, n_trees=self.trees, threshold=threshold) if len(self.counts) else None
        outputs = Evidence(
            len(self.asked),
            self.trees,
            votes,
            self.scores,
            self.blocks,
            link=self.link,
            cut=self._cut / self.link.slope,
            voting="soft",
            source=source,
            groups=self.training.groups.take(self.rows),
        )
        return deepcopy(outputs)

    @property
    def can_tell(self) -> bool:
        """Whether some row has the scores of two trees."""
        return bool((self.scores.asked > 1).any())

    @property
    def n_votes(self) -> int:
        """Number of votes counted."""
        return int(self.asked.sum())

    @property
    def n_read(self) -> int:
        """Number of rows that are read."""
        return len(self.asked)

    @property
    def n_rows(self) -> int:
        """Number of rows of the Dataset."""
        return self.training.n_rows

    @property
    def n_bounded(self) -> int:
        """Number of rows on which the score of some tree was bounded."""
        return int(np.count_nonzero(self.bounded))

    def _newest(self, tree: int, before: Floats, mean: Floats) -> Newest:
        """Scores of the newest tree, from the change of the mean."""
        newest = newest_scores(self.link, tree, before, mean)
        # In a softmax, an unchanged score still appears changed, because the other classes' scores change.
        if tree > 0 and (self.link.kind == "softmax" or any(map(np.array_equal, before, mean))):
            self._put_lone_leaves(newest)
        return newest

    def _put_lone_leaves(self, newest: Newest) -> None:
        """Put in the scores of trees without splits.

        Such a tree (except the first) does not change LightGBM's training predictions, but it changes those of the
        finished forest.
        """
        values = self._text_of(newest.tree).leaf_value
        lone = np.array([value.size == 1 for value in values])
        if not lone.any():
            return
        own = self.link.slope * np.array([[value[0]] for value in values])
        if self.link.kind != "softmax":
            newest.score[lone] = own[lone]
            if newest.noise is not None:
                newest.noise[lone] = 0.0
        elif lone.all():
            newest.score, newest.noise = np.broadcast_to(own, newest.score.shape).copy(), None
            newest.exact = True
        else:
            # The scores of the other trees lack a constant, which only their leaves show.
            exact = self._exact(newest, np.flatnonzero(~lone))
            newest.score[~lone] = exact
            newest.score[lone] = own[lone]
            newest.known &= np.isfinite(exact).all(axis=0)

    def _exact(self, newest: Newest, trees: NDArray[np.intp]) -> Floats:
        """Scores of some trees of a softmax, from the model text; NaN if they cannot be determined."""
        score, leaves = newest.score[trees], self._leaves(newest.tree, trees, newest.tie)
        exact = np.full(score.shape, np.nan)
        if len(leaves) > 1:
            row, place = find_up_to_constant(score, leaves)
            sure = np.bincount(row, minlength=score.shape[1])[row] == 1
            for of_tree, at, into in zip(leaves, place, exact, strict=True):
                into[row[sure]] = of_tree.value[at[sure]]
        return exact

    def _leaves(self, tree: int, trees: NDArray[np.intp], tolerance: float) -> list[LeafValues]:
        text, slope = self._text_of(tree), self.link.slope
        return [LeafValues.of(slope * text.leaf_value[one], text.leaf_count[one], tolerance) for one in trees]

    def _text_of(self, tree: int) -> ForestText:
        if self._text[0] != tree:
            text = self.training.booster.model_to_string(start_iteration=tree, num_iteration=1)
            self._text = tree, ForestText.read(text, casts_votes=False)
        return self._text[1]

    def _votes(self, newest: Newest) -> tuple[NDArray[np.int16], Bools]:
        """The class that the newest tree votes for on each row, and whether that is certain."""
        score, noise = newest.score, newest.noise
        vote, certain = np.zeros(score.shape[1], dtype=np.int16), newest.known
        if len(self.counts) == 2 and len(score) == 1:
            distance = score[0] - self._cut
            vote = (distance > newest.tie).astype(np.int16)
            if noise is not None:
                certain = certain & ((noise[0] <= newest.tie) | (np.abs(distance) > noise[0]))
        elif len(self.counts):
            tie = 0.0 if newest.exact else max(newest.tie, _SAME_SCORE)
            vote = first_of_tied(score, tie)
            if not newest.exact:
                certain = certain & ~tied(score, tie)
            if noise is not None:
                certain = certain & is_certain(score, noise, vote)
        return vote, certain

    def _add(self, newest: Newest, vote: NDArray[np.int16], may_count: Bools) -> None:
        """Add the votes and scores of the rows that may count."""
        for index, count in enumerate(self.counts):
            count += may_count & (vote == index)
        self.asked += may_count
        score = newest.score.T / self.link.slope
        self.scores.add(score, may_count)
        some, rows = self._in_blocks, self._blocks.rows
        self._undealt.append((vote[rows], may_count[rows], score[some], may_count[some]))
        if len(self._undealt) == _READ_AT_ONCE:
            self._deal()

    def _deal(self) -> None:
        """Add the last trees to the blocks."""
        if self._undealt:
            self._blocks.add(*map(np.stack, zip(*self._undealt, strict=True)))
            self._undealt.clear()

    def prove_newest(self) -> None:
        """Prove the bag of the last tree: in each leaf, its rows must be as many as LightGBM counted.

        The leaf of a row is found by its value. Rows with a lost score may be in any leaf.
        """
        if self._unproven is None:
            return
        (tree, predicted_before, predicted, inbag), self._unproven = self._unproven, None
        mean = self.link.score(predicted)
        before = np.zeros_like(mean) if predicted_before is None else self.link.score(predicted_before)
        newest = self._newest(tree, before, mean)
        splits = np.flatnonzero([value.size > 1 for value in self._text_of(tree).leaf_value])
        up_to_constant = self.link.kind == "softmax"
        together = [splits] if up_to_constant else [np.array([one]) for one in splits]
        together = [trees for trees in together if len(trees) > up_to_constant]
        for trees in together:
            if not self._bag_fits(newest, trees, inbag):
                raise InbagError(
                    f"the in-bag rows of tree {tree} do not match the leaf counts that LightGBM stored, so no "
                    "out-of-bag vote can be trusted (bags drawn on a GPU, or parameters changed during training): "
                    f"{OTHER_ROWS}"
                )
        self.proven += bool(together)

    def _bag_fits(self, newest: Newest, trees: NDArray[np.intp], inbag: Bools) -> bool:
        tolerance = newest.tie
        if self.link.kind == "logistic":
            value = self.link.slope * self._text_of(newest.tree).leaf_value[trees[0]]
            tolerance = 1e-7 * (1.0 + np.abs(value).max())
        seen = inbag & newest.known
        if newest.noise is not None:
            seen &= (newest.noise[trees] <= tolerance).all(axis=0)
        lost = int(np.count_nonzero(inbag)) - int(np.count_nonzero(seen))
        leaves = self._leaves(newest.tree, trees, tolerance)
        return bag_fits(newest.score[np.ix_(trees, np.flatnonzero(seen))], leaves, lost)


def _drawn(n_rows: int, share: float, n_outputs: int) -> slice | Int64s:
    """Numbers of the rows to read."""
    most = max(1, int(share * min(_MOST_ROWS, 2 * _MOST_CELLS // (n_outputs * (n_outputs + 1)))))
    if n_rows <= most:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False)).astype(np.int64)
