"""Reads the votes and scores of each tree from a booster in training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from rfsize.adapters.bags import Layout
from rfsize.adapters.base import checked_threshold
from rfsize.counting.evidence import Evidence
from rfsize.exceptions import InbagError
from rfsize.integrations.lightgbm.bags import Draws, rebuilt_bags
from rfsize.integrations.lightgbm.leaf_matching import LeafValues, bag_fits, find_up_to_constant
from rfsize.integrations.lightgbm.model_text import ForestText
from rfsize.integrations.lightgbm.parameters import bagging, exact_fractions
from rfsize.integrations.lightgbm.score_noise import (
    TIE,
    LightGbmLink,
    Newest,
    are_sharp,
    first_of_tied,
    is_certain,
    rounding_noise,
    tied,
)
from rfsize.utils.pieces import pieces_of
from rfsize.utils.typing import Bools, Floats
from rfsize.utils.words import in_percent
from rfsize.voting.blocks import TreeBlocks, rows_in_blocks
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes

# On many rows, reading the votes of a tree takes a third of its training time. So only the first trees are read, and
# then a few of each run: the cost is bounded, and the estimate still improves. These few are consecutive, because the
# score of a tree is the difference of the predictions before and after it.
_FEW_ROWS = 10_000


_FIRST_TREES, _READ_AT_ONCE, _RUN = 52, 8, 256


# Bags are proven for the first trees, then for one tree in this many, and for the newest before each estimate.
_TREES_PROVEN_FIRST, _PROVEN_EVERY = 3, 128


# The most rows with scores, and the most cells of (rows × pairs of classes). If trees are read in part, only this many
# rows get scores.
_SCORED_ROWS, _SCATTER_CELLS = 50_000, 1 << 22


# Scores of two classes that are closer than the first number are ties. Without the rows, ties on at most this share of
# the rows go to the lowest class.
_SAME_SCORE, _FEW_TIES = 1e-10, 0.01


class TrainingVoteReader:
    """Reads votes and scores from a booster in training, tree by tree.

    Parameters
    ----------
    booster : lightgbm.Booster
        A booster in training that has just got its first tree.
    params : dict
        The parameters of the training.
    valid : str, optional
        Name of a validation set to read in place of the training rows. Every tree votes on all its rows.
    threshold : float
        Probability above which a tree votes for class 1; two classes only.
    every_tree : bool
        Whether to read every tree and the scores of all rows, even with very many rows.
    rows : array_like, optional
        The rows themselves, to predict lost scores; by default those that the Dataset has kept.
    groups : Groups
        Training rows that belong together.

    Attributes
    ----------
    booster, dataset
        The booster, and the Dataset whose rows are read.
    trees : int
        Number of trees trained.
    counts : ndarray of int32, shape (n_classes, n_rows)
        Votes for each class; shape (0, n_rows) for a regression.
    asked : ndarray of int32, shape (n_rows,)
        Number of trees read on each row.
    scores : Scores
        The scores, without those that rounding blurs. With very many rows only part of the rows has scores, unless
        ``every_tree``.
    scored : slice
        Rows that have scores.
    cut : float
        For two classes: mean score above which class 1 is predicted.
    """

    def __init__(
        self,
        booster: lgb.Booster,
        params: dict[str, Any],
        *,
        valid: str | None = None,
        threshold: float = 0.5,
        every_tree: bool = False,
        rows: Any = None,
        groups: Groups = ALONE,
    ) -> None:
        forest = self.forest = ForestText.read(booster.model_to_string(num_iteration=1), casts_votes=False)
        _refuse_several_machines(booster, forest.parameters)
        forest.parameters.update(exact_fractions(params))
        several = forest.n_outputs > 1
        threshold = checked_threshold(threshold, casts_votes=forest.casts_votes, scores_each_class=several)
        self.link = LightGbmLink.of(forest, params)
        self._bagging = bagging(params)
        self.booster, self._valid, self.groups = booster, valid, groups
        self.dataset = booster.train_set if valid is None else _validation_set(booster, valid)
        self._every_tree = every_tree
        self._rows = rows_of(self.dataset) if rows is None else rows
        n_rows, n_outputs = self.dataset.num_data(), forest.n_outputs
        self._draws: Draws | None = None
        if valid is None:
            label = np.asarray(self.dataset.get_label())
            self._draws = Draws(rebuilt_bags(forest, Layout.alone(n_rows), label > 0), 0, n_rows)
        n_classes = forest.n_classes
        self._threshold, self._cut = threshold, float(logit(threshold))
        self.cut = self._cut / self.link.slope
        self.trees = 0
        self.counts = np.zeros((n_classes, n_rows), dtype=np.int32)
        self.asked = np.zeros(n_rows, dtype=np.int32)
        cells = n_rows * n_outputs * (n_outputs + 1) // 2
        every = max(1 + cells // _SCATTER_CELLS, -(-n_rows // _SCORED_ROWS))
        self.scored = slice(None, None, 1 if every_tree else every)
        rows = np.arange(n_rows)[self.scored]
        self.scores = Scores.nothing(len(rows), n_outputs)
        self._in_blocks = rows_in_blocks(len(rows), n_classes, n_outputs)
        self._blocks = TreeBlocks.nothing(rows[self._in_blocks], n_classes, n_outputs)
        self._undealt: list[tuple[NDArray[Any], ...]] = []
        # Number of trees, and the mean of their scores, at the last look at the predictions.
        self._last = (0, np.zeros((n_outputs, n_rows)))
        self._unproven: tuple[Newest, Bools] | None = None
        self.proven = 0
        self._full_bag = False

    def read(self, params: dict[str, Any]) -> None:
        """Add the votes and scores of the newest tree, if it is one of the trees to read.

        Raises
        ------
        InbagError
            If its bag cannot be proven, or the parameters of the bagging have changed.
        ValueError
            If scores are lost in rounding, and the rows are not available.
        """
        tree = self.trees
        self.trees += 1
        if self._draws is not None and bagging(params) != self._bagging:
            raise InbagError(
                f"the bagging was changed during training, from {self._bagging} to {bagging(params)}, "
                "and such bags cannot be rebuilt; leave it as it is, or name a validation set: "
                "SizeCallback(validation='valid_0')"
            )
        if not (self._is_read(tree) or self._is_read(tree + 1)):
            return
        mean = self._mean_score(self._valid)
        (trees_before, before), self._last = self._last, (tree + 1, mean)
        if not self._is_read(tree) or trees_before != tree:
            return
        newest = self._newest(tree, before, mean)
        inbag = np.zeros(len(self.asked), dtype=np.bool_)
        if self._draws is not None:
            inbag = self._draws.drawn(tree)
            # After a bag with all rows, LightGBM draws no other bag.
            self._full_bag = self._full_bag or bool(inbag.all())
            inbag |= self._full_bag
        seen = self.groups.spread(inbag)
        (vote, certain), sharp = self._votes(newest), are_sharp(newest)
        lost = ~(certain & sharp | seen)
        if lost.any() and self._rows is not None:
            newest = self._predicted(newest)
            (vote, certain), sharp = self._votes(newest), are_sharp(newest)
        elif newest.noise is not None:
            self._refuse_to_leave_out(lost if self._every_tree else ~(certain | seen))
        else:
            # A few ties may go to the lowest class. If a whole iteration is unknown, it is left out.
            self._refuse_to_leave_out(lost & newest.known, but_for=_FEW_TIES)
            certain = newest.known
        if self._draws is not None:
            self._unproven = newest, inbag
            if self.proven < _TREES_PROVEN_FIRST or tree % _PROVEN_EVERY == 0:
                self.prove_newest()
        self._add(newest, vote, certain & ~seen, sharp)

    @property
    def blocks(self) -> TreeBlocks:
        """The outputs of blocks of trees on some of the scored rows. Further trees change them."""
        self._deal()
        counts, scores = self.counts[:, self._blocks.rows].T, self.scores.take(self._in_blocks)
        return replace(self._blocks, counts=counts, scores=scores)

    def outputs(self, source: str) -> Evidence:
        """Everything read so far. Further trees change it unless it is copied."""
        votes = Votes(self.counts.T, n_trees=self.trees, threshold=self._threshold) if len(self.counts) else None
        return Evidence(
            len(self.asked),
            self.trees,
            votes,
            self.scores,
            self.blocks,
            link=self.link,
            cut=self.cut,
            predict_obeys="soft",
            scored=self.scored,
            source=source,
            groups=self.groups,
        )

    @property
    def can_tell(self) -> bool:
        """Whether some row has the scores of two trees."""
        return bool((self.scores.asked > 1).any())

    def _is_read(self, tree: int) -> bool:
        few_rows = len(self.asked) <= _FEW_ROWS
        return self._every_tree or few_rows or tree < _FIRST_TREES or tree % _RUN < _READ_AT_ONCE

    @property
    def reads_training_rows(self) -> bool:
        """Whether the validation set holds the training rows: the same number of rows with the same predictions."""
        if self._valid is None or self.dataset.num_data() != self.booster.train_set.num_data():
            return False
        return np.allclose(self._mean_score(self._valid), self._mean_score(None), rtol=1e-9, atol=1e-12)

    def _mean_score(self, valid: str | None) -> Floats:
        """Mean score of all trees, from the predictions by the inverse link; shape (n_outputs, n_rows)."""
        taken: list[Floats] = []

        def look(predicted: Floats, _: lgb.Dataset) -> tuple[str, float, bool]:
            taken.append(self.link.score(np.atleast_2d(predicted.T)))
            return "rfsize", 0.0, True

        # These public functions evaluate the metrics of the training too.
        if valid is None:
            self.booster.eval_train(look)
        else:
            self.booster.eval(self.dataset, valid, look)
        return taken[0]

    def _newest(self, tree: int, before: Floats, mean: Floats) -> Newest:
        """Scores of the newest tree, from the change of the mean."""
        with np.errstate(invalid="ignore"):
            score = (tree + 1) * mean - tree * before
        noise, tie = rounding_noise(self.link, tree, before, mean)
        newest = Newest(tree, score, noise, np.ones(score.shape[1], dtype=np.bool_), tie)
        if noise is not None:
            newest.known = np.asarray(np.isfinite(noise).all(axis=0))
        # In a softmax, an unchanged score still appears changed, because the other classes' scores change.
        if tree > 0 and (self.link.kind == "softmax" or any(map(np.array_equal, before, mean))):
            self._put_lone_leaves(newest)
        return newest

    def _put_lone_leaves(self, newest: Newest) -> None:
        """Put in the scores of trees without splits.

        Such a tree (except the first) does not change LightGBM's training predictions, but it changes those of the
        finished forest.
        """
        values = self._text(newest).leaf_value
        lone = np.array([value.size == 1 for value in values])
        if not lone.any():
            return
        own = self.link.slope * np.array([[value[0]] for value in values])
        if self.link.kind != "softmax":
            newest.score[lone] = own[lone]
            if newest.noise is not None:
                newest.noise[lone] = 0.0
                newest.known = np.asarray(np.isfinite(newest.noise).all(axis=0))
        elif lone.all():
            newest.score, newest.noise = np.broadcast_to(own, newest.score.shape).copy(), None
            newest.known[:] = True
            newest.exact = True
        else:
            # The scores of the other trees lack a constant, which only their leaves show.
            exact = self._exact(newest, np.flatnonzero(~lone))
            newest.score[~lone] = exact
            newest.score[lone] = own[lone]
            newest.known &= np.isfinite(exact).all(axis=0)

    def _exact(self, newest: Newest, trees: NDArray[np.intp]) -> Floats:
        """Scores of some trees of a softmax, from the model text; NaN if they cannot be determined."""
        score, leaves = newest.score[trees], self._leaves(newest, trees, newest.tie)
        exact = np.full(score.shape, np.nan)
        if len(leaves) > 1:
            row, place = find_up_to_constant(score, leaves)
            sure = np.bincount(row, minlength=score.shape[1])[row] == 1
            for one, of_tree, into in zip(leaves, place, exact, strict=True):
                into[row[sure]] = one.value[of_tree[sure]]
        return exact

    def _leaves(self, newest: Newest, trees: NDArray[np.intp], tolerance: float) -> list[LeafValues]:
        text, slope = self._text(newest), self.link.slope
        return [LeafValues.of(slope * text.leaf_value[tree], text.leaf_count[tree], tolerance) for tree in trees]

    def _text(self, newest: Newest) -> ForestText:
        if newest.text is None:
            text = self.booster.model_to_string(start_iteration=newest.tree, num_iteration=1)
            newest.text = ForestText.read(text, casts_votes=False)
        return newest.text

    def _predicted(self, newest: Newest) -> Newest:
        """The newest tree, with scores predicted from the rows. Leaving out lost scores would hide rare classes."""
        raw = self.booster.predict(self._rows, start_iteration=newest.tree, num_iteration=1, raw_score=True)
        score = self.link.slope * np.atleast_2d(np.asarray(raw, dtype=np.float64).T)
        return Newest(newest.tree, score, None, np.ones_like(newest.known), TIE, newest.text, exact=True)

    def _refuse_to_leave_out(self, lost: Bools, but_for: float = 0.0) -> None:
        if lost.mean() > but_for:
            raise ValueError(
                f"on {in_percent(lost.mean())} of the rows the votes of single trees cannot be read from "
                "LightGBM's rounded predictions, as happens where a class is rare. Let the Dataset keep its rows "
                "(free_raw_data=False), or train first, then rfsize.size(model, X, oob=True)"
            )

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

    def _add(self, newest: Newest, vote: NDArray[np.int16], may_count: Bools, sharp: Bools) -> None:
        """Add the votes of the rows that may count, and the scores of the rows with sharp scores."""
        for index, count in enumerate(self.counts):
            count += may_count & (vote == index)
        self.asked += may_count
        score, may_score = newest.score[:, self.scored].T / self.link.slope, (may_count & sharp)[self.scored]
        self.scores.add(score, may_score)
        some, rows = self._in_blocks, self._blocks.rows
        self._undealt.append((vote[rows], may_count[rows], score[some], may_score[some]))
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
        (newest, inbag), self._unproven = self._unproven, None
        splits = np.flatnonzero([value.size > 1 for value in self._text(newest).leaf_value])
        up_to_constant = self.link.kind == "softmax"
        together = [splits] if up_to_constant else [np.array([tree]) for tree in splits]
        together = [trees for trees in together if len(trees) > up_to_constant]
        for trees in together:
            tolerance = newest.tie
            if self.link.kind == "logistic":
                value = self.link.slope * self._text(newest).leaf_value[trees[0]]
                tolerance = 1e-7 * (1.0 + np.abs(value).max())
            seen = inbag & newest.known
            if newest.noise is not None:
                seen &= (newest.noise[trees] <= tolerance).all(axis=0)
            lost = int(np.count_nonzero(inbag)) - int(np.count_nonzero(seen))
            leaves = self._leaves(newest, trees, tolerance)
            if not bag_fits(newest.score[np.ix_(trees, np.flatnonzero(seen))], leaves, lost):
                raise InbagError(
                    f"the in-bag rows of tree {newest.tree} do not match the leaf counts that LightGBM stored, so no "
                    "out-of-bag vote can be trusted (bags drawn on a GPU, or parameters changed during training); "
                    "name a validation set: SizeCallback(validation='valid_0')"
                )
        self.proven += bool(together)


def rows_of(dataset: lgb.Dataset) -> Any:
    """The rows of a Dataset; None if it never had them, or dropped them when it was binned."""
    rows = dataset.data
    if rows is None:
        try:
            rows = dataset.get_data()
        except Exception:  # LightGBM raises this for a subset that is not binned yet
            return None
    if isinstance(rows, (str, Path)):  # a file that only LightGBM can read
        return None
    return rows if hasattr(rows, "shape") else pieces_of(rows)


def _refuse_several_machines(booster: lgb.Booster, parameters: dict[str, str]) -> None:
    """Raise ``ValueError`` if several machines train one forest, at the first tree on each of them."""
    machines = parameters.get("num_machines", "1")
    if machines != "1":
        # The error keeps the booster alive, and later trainings in this process would wait for its network.
        booster.free_network()
        raise ValueError(
            f"{machines} machines train this forest together, as lightgbm.dask has its workers do. SizeCallback "
            "would stop one of them and leave the others waiting for it: leave the callback out and take "
            "rfsize.dask.grow, or size the finished forest by rfsize.size"
        )


def _validation_set(booster: lgb.Booster, name: str) -> lgb.Dataset:
    names = list(booster.name_valid_sets)
    if name not in names:
        raise ValueError(
            f"validation names '{name}', but the training has {names or 'none'}; give a name from valid_names, or "
            "leave validation out to judge by the out-of-bag rows"
        )
    return booster.valid_sets[names.index(name)]
