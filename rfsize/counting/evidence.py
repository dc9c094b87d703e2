"""Evidence: the votes and scores of a forest's trees on rows, from which estimates are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.counting.averages import Averages
from rfsize.counting.blocks import TreeBlocks
from rfsize.counting.forest_on_rows import ForestOnRows, Keeps
from rfsize.counting.groups import ALONE, Groups
from rfsize.counting.representative import Kinds, RowsAsked
from rfsize.counting.scores import Scores, scored_every
from rfsize.counting.training_rows import noting_training_rows
from rfsize.counting.votes import Votes
from rfsize.exceptions import NotAForestError
from rfsize.models.framework import read_forest
from rfsize.models.link import Link, Predictor
from rfsize.models.model import dependence_of, learning_rate_of
from rfsize.models.training import ForestInTraining
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import class_indices, one_per_row, refuse_unused, sample_weights, training_labels
from rfsize.utils.warn import Caution
from rfsize.utils.words import how_many

VOTINGS = ("auto", "hard", "soft")
_ALL: Any = slice(None)


@dataclass(frozen=True, eq=False, repr=False)
class Evidence:
    """Votes and scores of a forest's trees on rows, with all else that estimates use.

    It refers to the model and the rows. A pickle holds neither, so its trees cannot be asked again.

    Attributes
    ----------
    n_rows, n_trees : int
        Number of rows, and of trees in the forest.
    voted : Votes or None
        Votes; None for regression, where trees cast no votes.
    scores : Scores or None
        Mean and scatter of the trees' scores before the link function; None if only votes are known.
    blocks : TreeBlocks or None
        Votes and scores of blocks of trees on some of the rows; None if single trees are not known.
    link : Link or None
        Turns mean scores into predictions; None if there are no scores.
    cut : float
        Mean score above which class 1 is predicted.
    model_voting : {"hard", "soft"} or None
        Rule of voting of the model's own ``predict``; None if it is not known.
    scored : slice or ndarray of int64
        Numbers of the rows that have scores.
    source : str
        Origin of the outputs: "oob", "rows given", "cross-validation" or, in training, the validation set.
    groups : Groups
        Rows that belong together.
    y, sample_weight : ndarray, shape (n_rows,), or None
        Labels or numbers of the rows, in the encoding of the model, and their weights in metrics.
    strata : ndarray of int64, shape (n_rows,), or None
        Number of each row's stratum, if each stratum is sized separately.
    noted : tuple of Caution
        Warnings about the rows, such as that the forest was trained on them.
    forest : ForestOnRows or None
        The forest and the rows, to ask the trees again.
    """

    n_rows: int
    n_trees: int
    voted: Votes | None = None
    scores: Scores | None = None
    blocks: TreeBlocks | None = None
    link: Link | None = None
    cut: float = 0.0
    model_voting: str | None = None
    scored: slice | Int64s = field(default_factory=lambda: slice(None))
    source: str = "rows given"
    groups: Groups = ALONE
    y: NDArray[Any] | None = None
    sample_weight: Floats | None = None
    strata: Int64s | None = None
    noted: tuple[Caution, ...] = ()
    forest: ForestOnRows | None = None
    _place: slice | Int64s = field(default_factory=lambda: slice(None))
    _averages: Averages | None = None
    _of_training: dict[bool, tuple[Caution, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, forest: ForestOnRows, keeps: Keeps = "outputs") -> Evidence:
        """Ask the trees of a finished forest."""
        adapter, tallied = forest.adapter, forest.tallied(keeps)
        classes, n_trees = adapter.classes, adapter.n_trees
        return cls(
            forest.n_rows,
            n_trees,
            voted=Votes(tallied.counts, classes, n_trees, threshold=forest.threshold) if len(classes) else None,
            scores=tallied.scores,
            blocks=tallied.blocks,
            link=adapter.link,
            cut=adapter.raw_threshold(forest.threshold),
            model_voting=adapter.voting_at(forest.threshold),
            scored=slice(None, None, scored_every(forest.n_rows, adapter.n_scores)),
            source=forest.source,
            groups=forest.groups,
            forest=forest,
            _averages=tallied.averages,
        )

    @classmethod
    def of_votes(cls, votes: Votes) -> Evidence:
        """Take votes that were counted elsewhere; ``ValueError`` if they do not tell the number of trees."""
        votes.check_trees()
        source = "oob" if votes.is_out_of_bag else "rows given"
        return cls(len(votes), votes.n_trees, votes, source=source)

    @classmethod
    def in_training(cls, forest: ForestInTraining) -> Evidence:
        """Take the outputs of a forest that is still growing; ``InbagError`` if no training row can be out of bag."""
        forest.check_bags()
        found = forest.out_of_bag
        return cls(
            len(found.counts),
            forest.n_trees,
            Votes(found.counts, forest.classes, forest.n_trees, threshold=forest.threshold)
            if found.counts.shape[1]
            else None,
            found.scores,
            found.blocks,
            link=forest.link,
            cut=forest.cut,
            model_voting=forest.voting,
            source="oob",
            groups=forest.groups,
        )

    @classmethod
    def of_folds(
        cls, parts: Sequence[tuple[Int64s, Evidence]], classes: NDArray[Any], n_rows: int, groups: Groups = ALONE
    ) -> Evidence:
        """Join the folds of a cross-validation: each row has the outputs of the forest that was trained without it.

        Parameters
        ----------
        parts : sequence of tuple
            For each fold the numbers of its held-out rows, and the outputs of its forest on them.
        classes : ndarray, shape (n_classes,)
            All classes, also those that some forests do not know; empty for regression.
        n_rows : int
            Number of all rows; rows that no fold holds out have no votes.
        groups : Groups, optional
            Rows that belong together.

        Returns
        -------
        Evidence
            Scores and blocks of trees come only from forests that know all classes.
        """
        first = parts[0][1]
        found = cls(
            n_rows,
            first.n_trees,
            _votes_of_folds(parts, classes, n_rows) if len(classes) else None,
            model_voting=first.model_voting,
            source="cross-validation",
            groups=groups,
            noted=first.noted,
            _of_training=first._cautions,
        )
        knowing_all = [(rows, one) for rows, one in parts if len(one.classes) == len(classes)]
        if not knowing_all or knowing_all[0][1].scores is None:
            return found
        order = np.concatenate([rows for rows, _ in knowing_all])
        number = np.concatenate([rows[one.scored] for rows, one in knowing_all])
        # Rows that no fold holds out count as scored by no tree. With many rows, each fold scores only some of its own.
        scored = np.delete(np.arange(n_rows), np.setdiff1d(order, number))
        of_forests = [one.scores for _, one in knowing_all if one.scores is not None]
        scores = Scores.nothing(len(scored), of_forests[0].n_scores)
        scores.put(np.searchsorted(scored, number), Scores.stacked(of_forests))
        blocks = TreeBlocks.of_forests(
            [one.blocks for _, one in knowing_all if one.blocks is not None], [len(rows) for rows, _ in knowing_all]
        )
        return replace(
            found,
            scores=scores,
            scored=slice(None) if len(scored) == n_rows else scored,
            blocks=replace(blocks, rows=order[blocks.rows]),
            link=knowing_all[0][1].link,
            cut=knowing_all[0][1].cut,
        )

    @property
    def votes(self) -> Votes:
        """Votes for each class, row by row.

        Raises
        ------
        NotAForestError
            If the forest is for regression: its trees cast no votes.
        """
        if self.voted is None:
            raise NotAForestError("the trees of a regression forest cast no votes: take scores, or predict()")
        return self.voted

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels; empty for regression."""
        return np.zeros(0) if self.voted is None else self.voted.classes

    @property
    def nbytes(self) -> int:
        """Memory in bytes, without the model and the rows."""
        of_votes = 0 if self.voted is None else self.voted.counts.nbytes
        return of_votes + sum(0 if one is None else one.nbytes for one in (self.blocks, self.scores, self._averages))

    def __len__(self) -> int:
        return self.n_rows

    def __str__(self) -> str:
        what = f"{len(self.classes)} classes" if len(self.classes) else "regression"
        return f"{how_many(self.n_rows, 'row')} ({self.source}), {what}, {how_many(self.n_trees, 'tree')}"

    def __getstate__(self) -> dict[str, Any]:
        # Leaves out the model and the rows, and keeps the warnings about the training.
        state = {**self.__dict__, "forest": None, "_of_training": self._cautions}
        for name in ("distinct", "_by_votes"):  # computed again on demand
            state.pop(name, None)
        return state

    @property
    def predictor(self) -> Predictor:
        """Turns mean scores into the forest's predictions; only for outputs that have scores."""
        if self.forest is not None:
            return self.forest.predictor
        assert self.link is not None
        threshold = float(self.link.predicted(np.array(self.cut))) if len(self.classes) == 2 else 0.5
        return Predictor(self.classes, self.link, threshold)

    def cautions(self, *, of_labels: bool) -> tuple[Caution, ...]:
        """Warnings about the training: trees that are not independent draws, or that were shrunk.

        Shrunk trees may leave labels unchanged at the forest's threshold; ``of_labels`` takes that into account.
        """
        if self.forest is None:
            return self._of_training.get(of_labels, ())
        adapter, labels_at = self.forest.adapter, self.forest.threshold if of_labels else None
        return (*dependence_of(adapter), *learning_rate_of(adapter, labels_at=labels_at))

    @property
    def _cautions(self) -> dict[bool, tuple[Caution, ...]]:
        return {of_labels: self.cautions(of_labels=of_labels) for of_labels in (True, False)}

    def voting(self, asked_for: str) -> str:
        """The rule of voting: as ``asked_for``, or for "auto" the rule of the model's own ``predict``.

        "auto" is "hard" if that rule or the scores are not known, as with counted votes.
        """
        if asked_for != "auto":
            return asked_for
        knows_scores = self.scores is not None and bool((self.scores.asked > 1).any())
        return "soft" if knows_scores and self.model_voting == "soft" else "hard"

    def with_truth(self, y: Any, sample_weight: Any = None) -> Evidence:
        """Return a copy with labels or numbers of the rows, and their weights in metrics.

        Raises
        ------
        ValueError
            If they do not fit the rows and the classes, or there are weights without ``y``.
        """
        if y is None:
            refuse_unused(
                "it weighs the rows in metrics, which compare predictions with y. Give y too, or leave sample_weight "
                "out",
                sample_weight=sample_weight,
            )
            return self
        if self.forest is not None:
            y = self.forest.adapter.truth(y)
        training_labels(self.classes, y, self.n_rows)
        weight = None if sample_weight is None else sample_weights(sample_weight, self.n_rows)
        return replace(self, y=one_per_row(y, self.n_rows), sample_weight=weight)

    def noting(self, *cautions: Caution) -> Evidence:
        """Return a copy with more warnings."""
        return replace(self, noted=(*self.noted, *cautions))

    @cached_property
    def distinct(self) -> Evidence:
        """The rows that sizes count: all rows, or the first row of each group if copies form groups."""
        once = self.groups.once
        return self if once is None else self.take(once)

    def take(self, rows: NDArray[np.bool_]) -> Evidence:
        """Select the rows of a mask."""
        number, here = np.arange(self.n_rows), np.cumsum(rows) - 1
        scored = number[self.scored]
        is_kept = rows[scored]
        return replace(
            self,
            n_rows=int(np.count_nonzero(rows)),
            voted=None if self.voted is None else self.voted.take(rows),
            scores=None if self.scores is None else self.scores.take(is_kept),
            scored=here[scored[is_kept]],
            blocks=None if self.blocks is None else self.blocks.take(rows),
            groups=self.groups.take(rows),
            y=None if self.y is None else self.y[rows],
            sample_weight=None if self.sample_weight is None else self.sample_weight[rows],
            strata=None if self.strata is None else self.strata[rows],
            _place=number[rows] if isinstance(self._place, slice) else self._place[rows],
            _averages=None,
        )

    def by_votes(self) -> RowsAsked:
        """The number of votes of each row, or of scores for regression."""
        return self._by_votes

    @cached_property
    def _by_votes(self) -> RowsAsked:
        """Kept, since to name the kinds of rows may ask all trees again."""
        if self.voted is not None:
            return self._rows_asked(self.voted.asked, _ALL)
        assert self.scores is not None
        return self._rows_asked(self.scores.asked, self.scored)

    def by_averages(self) -> RowsAsked:
        """The number of trees asked about each row, averaged over its scores."""
        return self._rows_asked(self.averages.asked.mean(axis=1), _ALL)

    def _rows_asked(self, asked: NDArray[Any], some: Any) -> RowsAsked:
        """Some of the rows, with the number of trees asked about each."""
        groups, is_oob = self.groups.take(some), self.source == "oob"
        return RowsAsked(asked, self.n_trees, groups, is_oob, find_kinds=lambda: self._kinds(some))

    def _kinds(self, some: Any) -> Kinds | None:
        """Kinds of some of the rows: by ``y`` if given, else by predictions of all trees, else of the trees asked."""
        if self.y is not None:
            y = self.y[some]
            return Kinds.of_labels(y) if len(self.classes) else Kinds.of_numbers(y.astype(np.float64))
        known = self
        if self.forest is not None:
            known = Evidence.of(replace(self.forest, bags=None, groups=ALONE))
            some = np.arange(known.n_rows)[self._place][some]
        if known.voted is not None:
            return Kinds.of_votes(known.voted.take(some))
        return None if known.scores is None else Kinds.of_scores(known.scores.take(some))

    def by_groups(self, groups: Groups) -> Evidence:
        """Ask the trees again about the same rows, with other groups."""
        return Evidence.of(replace(self.asked_again, groups=groups)).with_truth(self.y, self.sample_weight)

    @cached_property
    def averages(self) -> Averages:
        """Averaged scores of all rows, and of parts of the forest; may ask the trees again."""
        return self._averages or self.asked_again.averages()

    @property
    def asked_again(self) -> ForestOnRows:
        """The forest and the rows, to ask the trees again; ``ValueError`` if there is no model."""
        if self.forest is None:
            raise ValueError(
                "the trees cannot be asked again, because these outputs refer to no model: they are counted "
                "Votes, of a forest in training, pickled, or made by cross-validation. Give "
                "rfsize.tree_outputs(model, X, ...) of a trained model"
            )
        return self.forest


def _votes_of_folds(parts: Sequence[tuple[Int64s, Evidence]], classes: NDArray[Any], n_rows: int) -> Votes:
    counts = np.zeros((n_rows, len(classes)), dtype=np.int32)
    for rows, one in parts:
        counts[rows[:, None], class_indices(classes, one.classes, len(one.classes))] = one.votes.counts
    first = parts[0][1]
    return Votes(counts, classes, first.n_trees, threshold=first.votes.threshold)


def asked(forest: ForestOnRows, y: Any = None, sample_weight: Any = None, *, keeps: Keeps = "outputs") -> Evidence:
    """Ask the trees about rows, add ``y`` and weights, and note a warning if the rows are the training rows."""
    y, sample_weight = forest.here(y), forest.here(sample_weight)
    seen = noting_training_rows(forest, y, sample_weight)
    found = Evidence.of(forest, keeps)
    if y is None and forest.bags is not None:
        sample_weight = None  # given only for the proof of the bags
    return found.with_truth(y, sample_weight).noting(*seen)


def asked_out_of_bag(model: Any, X: Any, y: Any = None, groups: Any = None) -> Evidence:
    """Ask a model's trees about the training rows that they did not see, and keep all that predictions need."""
    adapter = read_forest(model)
    return asked(ForestOnRows.of(adapter, X, y, oob=True, groups=groups), y, keeps="all")
