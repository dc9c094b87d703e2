"""Evidence: what the trees of a forest say of rows, which estimates go by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import dependence_of, shrinking_of
from rfsize.adapters.registry import adapter_for
from rfsize.adapters.trainer import ForestInTraining
from rfsize.counting.forest_on_rows import ForestOnRows, Keeps
from rfsize.counting.representative import Kinds, RowsAsked
from rfsize.counting.training_rows import noting_training_rows
from rfsize.exceptions import NotAForestError
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import class_indices, one_per_row, refuse_unused, sample_weights, training_labels
from rfsize.utils.warn import Caution
from rfsize.utils.words import how_many
from rfsize.voting.averages import Averages
from rfsize.voting.blocks import TreeBlocks
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.links import Link, Predictor
from rfsize.voting.scores import Scores, in_proportion, scored_every
from rfsize.voting.votes import Votes

VOTINGS = ("auto", "hard", "soft")
_ALL: Any = slice(None)


@dataclass(frozen=True, eq=False, repr=False)
class Evidence:
    """What the trees of a forest say of rows, and what is known of both: all that estimates go by.

    It refers to the model and the rows, and a pickle holds neither: the trees cannot be asked again then.

    Attributes
    ----------
    n_rows, n_trees : int
        Rows, and trees of the forest.
    voted : Votes or None
        Votes; None of regression, whose trees cast none.
    scores : Scores or None
        Means and scatter of the trees' scores before the link; None where only votes are known.
    blocks : TreeBlocks or None
        What blocks of the trees say of some of the rows; None where single trees are not known.
    link : Link or None
        From mean scores to predictions; None where there are no scores.
    cut : float
        Mean score above which class 1 is predicted.
    predict_obeys : {"hard", "soft"} or None
        What the model's own ``predict`` goes by; None where that is not known.
    scored : slice or ndarray of int64
        Numbers of the rows that have scores.
    source : str
        Where it comes from: "oob", "rows given", "cross-validation" or, in training, the validation set.
    groups : Groups
        Rows that belong together.
    y, sample_weight : ndarray, shape (n_rows,), or None
        Labels or numbers of the rows, in the encoding of the model, and their weights in metrics.
    strata : ndarray of int64, shape (n_rows,), or None
        Number of the stratum of each row, where those are sized by themselves.
    noted : tuple of Caution
        What was noticed of the rows, such as that the forest was trained on them.
    forest : ForestOnRows or None
        What the trees may be asked again by.
    """

    n_rows: int
    n_trees: int
    voted: Votes | None = None
    scores: Scores | None = None
    blocks: TreeBlocks | None = None
    link: Link | None = None
    cut: float = 0.0
    predict_obeys: str | None = None
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
        """That of a finished forest, whose trees are asked."""
        adapter, tallied = forest.adapter, forest.tallied(keeps)
        classes, n_trees = adapter.classes, adapter.n_trees
        return cls(
            forest.n_rows,
            n_trees,
            voted=Votes(tallied.counts, classes, n_trees, threshold=forest.threshold) if len(classes) else None,
            scores=tallied.scores,
            blocks=tallied.blocks,
            link=adapter.link,
            cut=adapter.cut(forest.threshold),
            predict_obeys=adapter.obeyed_at(forest.threshold),
            scored=slice(None, None, scored_every(forest.n_rows, adapter.leaves.n_scores)),
            source=forest.source,
            groups=forest.groups,
            forest=forest,
            _averages=tallied.averages,
        )

    @classmethod
    def of_votes(cls, votes: Votes) -> Evidence:
        """That of votes that were counted elsewhere; ``ValueError`` where nothing tells how many trees there are."""
        votes.check_trees()
        source = "oob" if votes.is_out_of_bag else "rows given"
        return cls(len(votes), votes.n_trees, votes, source=source)

    @classmethod
    def in_training(cls, forest: ForestInTraining) -> Evidence:
        """That of a forest that takes more trees; ``InbagError`` where no training row can be out of bag."""
        forest.check_bags()
        found = forest.out_of_bag
        return cls(
            len(found.counts),
            forest.n_trees,
            Votes(found.counts, forest.classes, forest.n_trees) if found.counts.shape[1] else None,
            found.scores,
            found.blocks,
            link=forest.link,
            cut=forest.cut,
            predict_obeys=forest.predict_obeys,
            source="oob",
            groups=forest.groups,
        )

    @classmethod
    def of_batches(cls, batches: Sequence[Evidence]) -> Evidence:
        """That of one forest on the rows of all batches, which it was not trained on; it refers to no model.

        Raises
        ------
        ValueError
            If the forests differ, or how they were asked.
        """
        first = batches[0]
        for batch in batches:
            first._check_batch(batch)
        if len({batch.forest.adapter.digest for batch in batches if batch.forest is not None}) > 1:
            raise ValueError("concat joins outputs of one forest on batches of rows, and these are of several forests")
        n_rows = [batch.n_rows for batch in batches]
        starts = np.cumsum([0, *n_rows[:-1]])
        scored = [start + np.arange(batch.n_rows)[batch.scored] for start, batch in zip(starts, batches, strict=True)]
        kept = in_proportion([len(rows) for rows in scored], n_rows)

        def joined(name: str, join: Callable[[Any], Any]) -> Any:
            values = [getattr(batch, name) for batch in batches]
            return None if values[0] is None else join(values)

        def votes(voted: list[Votes]) -> Votes:
            counts = np.concatenate([one.counts for one in voted])
            return Votes(counts, first.classes, first.n_trees, threshold=voted[0].threshold)

        return replace(
            first,
            n_rows=sum(n_rows),
            voted=joined("voted", votes),
            scores=joined("scores", lambda scores: Scores.stacked(scores).take(kept)),
            scored=np.concatenate(scored)[kept],
            blocks=joined("blocks", lambda blocks: TreeBlocks.of_batches(blocks, n_rows)),
            y=joined("y", np.concatenate),
            sample_weight=joined("sample_weight", np.concatenate),
            noted=tuple(dict.fromkeys(caution for batch in batches for caution in batch.noted)),
            forest=None,
            _place=slice(None),
            _averages=None,
            _of_training=first._cautions,
        )

    def _check_batch(self, other: Evidence) -> None:
        """Raise ``ValueError`` where another batch holds no fresh rows, or its forest was asked in another way."""
        if other.source != "rows given" or other.groups.index is not None:
            raise ValueError(
                f"concat joins batches of rows that the forest was not trained on, found TreeOutputs({other}): out of "
                "bag and in cross-validation, give all training rows at once"
            )
        for name, value in self._asked_as.items():
            if (others := other._asked_as[name]) != value:
                raise ValueError(
                    f"concat joins outputs of one forest on batches of rows, but {name} is {value} in the first and "
                    f"{others} in another: make all of them from one forest, with the same arguments"
                )

    @property
    def _asked_as(self) -> dict[str, Any]:
        """What is the same of all batches of rows that one forest is asked about."""
        return {
            "n_trees": self.n_trees,
            "classes": self.classes.tolist(),
            "link": self.link,
            "cut": self.cut,
            "threshold": None if self.voted is None else self.voted.threshold,
            "predict_obeys": self.predict_obeys,
            "whether y is known": self.y is not None,
            "whether sample_weight is known": self.sample_weight is not None,
        }

    @classmethod
    def of_folds(
        cls, parts: Sequence[tuple[Int64s, Evidence]], classes: NDArray[Any], n_rows: int, groups: Groups = ALONE
    ) -> Evidence:
        """That of all rows, each by the forest of the fold that held it out.

        Parameters
        ----------
        parts : sequence of tuple
            For each fold the numbers of its rows, and what the trees of its forest say of them.
        classes : ndarray, shape (n_classes,)
            All classes, of which a forest may know some; empty for regression.
        n_rows : int
            Rows; those that no fold holds out have no votes.
        groups : Groups, optional
            Rows that belong together.

        Returns
        -------
        Evidence
            Scores, and blocks of trees, are those of forests that know all classes.
        """
        first = parts[0][1]
        found = cls(
            n_rows,
            first.n_trees,
            _votes_of_folds(parts, classes, n_rows) if len(classes) else None,
            predict_obeys=first.predict_obeys,
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
        # Rows that no fold holds out have the scores of no tree; where rows are many, folds score a part of theirs.
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
            Of a regression forest, whose trees cast no votes.
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
        """Memory that it takes, beside the model and the rows."""
        of_votes = 0 if self.voted is None else self.voted.counts.nbytes
        return of_votes + sum(0 if one is None else one.nbytes for one in (self.blocks, self.scores, self._averages))

    def __len__(self) -> int:
        return self.n_rows

    def __str__(self) -> str:
        what = f"{len(self.classes)} classes" if len(self.classes) else "regression"
        return f"{how_many(self.n_rows, 'row')} ({self.source}), {what}, {how_many(self.n_trees, 'tree')}"

    def __getstate__(self) -> dict[str, Any]:
        # Neither model nor rows; what is to be said of the training goes along.
        state = {**self.__dict__, "forest": None, "_of_training": self._cautions}
        state.pop("distinct", None)  # which are found again
        return state

    @property
    def predictor(self) -> Predictor:
        """What the forest predicts from mean scores; for outputs that have scores."""
        if self.forest is not None:
            return self.forest.predictor
        assert self.link is not None
        threshold = float(self.link.predicted(np.array(self.cut))) if len(self.classes) == 2 else 0.5
        return Predictor(self.classes, self.link, threshold)

    def cautions(self, *, of_labels: bool) -> tuple[Caution, ...]:
        """Warnings of what the training did to the forest: trees that are no independent draws, or count in part.

        Trees that count in part may leave labels as they are, at the threshold of the forest.
        """
        if self.forest is None:
            return self._of_training.get(of_labels, ())
        adapter, labels_at = self.forest.adapter, self.forest.threshold if of_labels else None
        return (*dependence_of(adapter), *shrinking_of(adapter, labels_at=labels_at))

    @property
    def _cautions(self) -> dict[bool, tuple[Caution, ...]]:
        return {of_labels: self.cautions(of_labels=of_labels) for of_labels in (True, False)}

    def voting(self, asked_for: str) -> str:
        """The rule of voting that is ``asked_for``: of "auto" that of the model's own ``predict``, where it is known.

        Of counted votes, only the votes are known.
        """
        if asked_for != "auto":
            return asked_for
        knows_scores = self.scores is not None and bool((self.scores.asked > 1).any())
        return "soft" if knows_scores and self.predict_obeys == "soft" else "hard"

    def with_truth(self, y: Any, sample_weight: Any = None) -> Evidence:
        """The same with labels or numbers of the rows, and their weights in metrics.

        Raises
        ------
        ValueError
            If they do not fit the rows and the classes, or there are weights alone.
        """
        if y is None:
            refuse_unused(
                "it weighs the rows in metrics, which compare predictions with y. Give y too, or leave sample_weight "
                "out",
                sample_weight=sample_weight,
            )
            return self
        training_labels(self.classes, y, self.n_rows)
        weight = None if sample_weight is None else sample_weights(sample_weight, self.n_rows)
        return replace(self, y=one_per_row(y, self.n_rows), sample_weight=weight)

    def noting(self, *cautions: Caution) -> Evidence:
        """The same with more that was noticed."""
        return replace(self, noted=(*self.noted, *cautions))

    @cached_property
    def distinct(self) -> Evidence:
        """The same of the rows that sizes go by: all, or where copies are groups the first of each."""
        once = self.groups.once
        return self if once is None else self.take(once)

    def take(self, rows: NDArray[np.bool_]) -> Evidence:
        """The same of some of the rows, a mask."""
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
        """How many votes, or of regression scores, each row has."""
        if self.voted is not None:
            return self._rows_asked(self.voted.asked, _ALL)
        assert self.scores is not None
        return self._rows_asked(self.scores.asked, self.scored)

    def by_averages(self) -> RowsAsked:
        """How many trees each row was asked of, on average over its scores."""
        return self._rows_asked(self.averages.asked.mean(axis=1), _ALL)

    def _rows_asked(self, asked: NDArray[Any], some: Any) -> RowsAsked:
        """Some of the rows with the trees asked about each."""
        groups, is_oob = self.groups.take(some), self.source == "oob"
        return RowsAsked(asked, self.n_trees, groups, is_oob, find_kinds=lambda: self._kinds(some))

    def _kinds(self, some: Any) -> Kinds | None:
        """What some of the rows are, by the truth, else by what all trees say, else by these trees."""
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
        """What the trees say of the same rows where others belong together, for which they are asked once more."""
        return Evidence.of(replace(self.asked_again, groups=groups)).with_truth(self.y, self.sample_weight)

    @cached_property
    def averages(self) -> Averages:
        """Averaged scores of all rows, and of parts of the forest, for which the trees may be asked once more."""
        return self._averages or self.asked_again.averages()

    @property
    def asked_again(self) -> ForestOnRows:
        """The forest on the rows, whose trees may be asked again; ``ValueError`` where there is no model."""
        if self.forest is None:
            raise ValueError(
                "the trees cannot be asked again, because these outputs refer to no model: they are counted "
                "Votes, of a forest in training, pickled, joined by concat, or made by cross-validation. Give "
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
    """What the trees of a forest say of rows, which may be those of training, with their truth."""
    y, sample_weight = forest.here(y), forest.here(sample_weight)
    seen = noting_training_rows(forest, y, sample_weight)
    found = Evidence.of(forest, keeps)
    if y is None and forest.bags is not None:
        sample_weight = None  # which the proof of the bags may take
    return found.with_truth(y, sample_weight).noting(*seen)


def asked_out_of_bag(model: Any, X: Any, y: Any = None, groups: Any = None) -> Evidence:
    """What the trees of a model say of the training rows that they did not see, with all that predictions take."""
    adapter = adapter_for(model, casts_votes=False)
    return asked(ForestOnRows.of(adapter, X, y, oob=True, groups=groups), y, keeps="all")
