"""Counts the votes of a booster in training by walking down its new trees, from the rows themselves."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np

from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.leaves import asked_about
from rfsize.counting.scores import scored_every
from rfsize.counting.tallied import Tallied
from rfsize.counting.tally import out_of_bag
from rfsize.counting.votes import Votes
from rfsize.exceptions import InbagError
from rfsize.integrations.lightgbm.forest import LightGbmForest
from rfsize.integrations.lightgbm.training_rows import OTHER_ROWS, Training
from rfsize.utils import matrix
from rfsize.utils.typing import Int64s


class WalkedVotes:
    """Votes and scores of the trees of a booster in training, exactly as `rfsize.size` would count them.

    The trees are counted in blocks: all trees since the last count, whenever `outputs` is asked for. The bag of every
    tree is proven.

    Parameters
    ----------
    training : Training
    X
        The rows of ``training.dataset``.
    number : ndarray of int64, optional
        Which rows of ``X`` these are; all by default.
    score_all : bool
        Whether to keep the scores of all training rows, even with very many rows and classes.

    Attributes
    ----------
    trees : int
        Number of trees trained.
    tallied : Tallied
        What was counted so far.
    proven : bool
        Whether the bag of some tree was proven. Trees of one leaf prove nothing.

    Raises
    ------
    InbagError
        If the rows are not the training rows, in their order.
    ValueError
        If they do not fit the forest.
    """

    rows = slice(None)
    n_unsure = n_bounded = 0

    def __init__(self, training: Training, X: Any, *, number: Int64s | None = None, score_all: bool = False) -> None:
        self.training, self.trees, self.proven, self._score_all = training, 1, False, score_all
        first = new_trees(training.booster, 0, 1)
        X = first.check(X)
        self._X = X if number is None else matrix.pick(X, number)
        self.n_rows = self.n_read = training.n_rows
        self._link, self._cut, self._counted = first.link, first.raw_threshold(training.threshold), 1
        self.tallied = self._count(first, 0, 1)

    @classmethod
    def of_data(cls, training: Training, data: Any) -> WalkedVotes:
        """Votes on the rows that a user gave, which are those of the training, or of ``lgb.cv``.

        Raises
        ------
        InbagError
            If they are not the rows of the training, in its order.
        ValueError
            If there are more or fewer, or with other columns; or if the folds of ``lgb.cv`` hold other rows.
        """
        dataset, number = training.dataset, None
        if training.validation is not None:
            whole, held_out = dataset.reference, dataset.used_indices
            if whole is None or held_out is None:
                raise ValueError("fpreproc makes new rows for the folds, so data does not hold them: leave data out")
            dataset, number = whole, np.asarray(held_out)
        n_rows, n_given = dataset.num_data(), data.shape[0]
        if n_given != n_rows:
            raise ValueError(f"data must be the {n_rows:,} rows of the Dataset, in its order, found {n_given:,} rows")
        votes = cls(training, data, number=number)
        if training.validation is not None and not votes._predict_alike():
            raise ValueError("data are not the rows that lgb.cv trains on, in their order: LightGBM predicts otherwise")
        return votes

    def _predict_alike(self) -> bool:
        """Whether the first tree predicts on the rows what LightGBM says that it does."""
        scores = self.tallied.scores.mean
        predicted = self.training.predictions().T[:: scored_every(self.n_rows, scores.shape[1])]
        return np.allclose(self._link.predicted(scores), predicted, rtol=1e-4)

    def read(self) -> None:
        """Note that one more tree was trained."""
        self.trees += 1

    @property
    def n_votes(self) -> int:
        """Number of votes counted."""
        return int(self.tallied.counts.sum())

    @property
    def can_tell(self) -> bool:
        """Whether two trees were trained."""
        return self.trees > 1

    def count(self) -> None:
        """Count the trees trained since the last count."""
        # A finished training may have dropped the trees beyond the best iteration.
        trees = min(self.trees, self.training.booster.current_iteration())
        if trees > self._counted:
            more = self._count(new_trees(self.training.booster, self._counted, trees), self._counted, trees)
            self.tallied, self._counted = self.tallied.plus(more), trees

    def outputs(self, source: str) -> Evidence:
        """Votes and scores of all trees."""
        self.count()
        tallied, n_rows, trees = self.tallied, self.training.n_rows, self._counted
        return Evidence(
            n_rows,
            trees,
            Votes(tallied.counts, n_trees=trees, threshold=self.training.threshold) if tallied.counts.size else None,
            tallied.scores,
            tallied.blocks,
            link=self._link,
            cut=self._cut,
            voting="soft",
            scored=slice(None, None, scored_every(n_rows, tallied.scores.n_scores)),
            source=source,
            groups=self.training.groups,
        )

    def prove_newest(self) -> None:
        """Nothing: every bag is proven when its tree is counted."""

    def _count(self, adapter: LightGbmForest, start: int, stop: int) -> Tallied:
        training, bags = self.training, None
        if training.bags is not None:
            bags = training.bags.select(start, stop)
            bags.need_proof = bool(adapter.leaves.provable.any())
            self.proven |= bags.need_proof
        try:
            if self._score_all and bags is not None:
                ask = asked_about(adapter, self._X)
                return out_of_bag(adapter, bags, ask, training.threshold, training.groups)
            return ForestOnRows(adapter, self._X, bags, training.threshold, training.groups).tallied("outputs")
        except InbagError as error:
            raise InbagError(
                f"the leaves of trees {start} to {stop - 1} do not hold as many rows as LightGBM counted (rows other "
                "than those of the training, or in another order; bags drawn on a GPU; changed parameters): "
                f"give the training rows in their order as data, or {OTHER_ROWS}"
            ) from error


def new_trees(booster: lgb.Booster, start: int, stop: int) -> LightGbmForest:
    """Trees ``start`` to ``stop`` of a booster in training."""
    text = booster.model_to_string(start_iteration=start, num_iteration=stop - start)
    return LightGbmForest(lgb.Booster(model_str=text), casts_votes=False)
