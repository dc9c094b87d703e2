"""TreeOutputs: what the trees of a forest say of rows, which everything else goes by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import dependence_of, shrinking_of
from rfsize.adapters.trainer import ForestInTraining
from rfsize.counting.forest_on_rows import ForestOnRows, Keeps
from rfsize.counting.predictions import Predictions
from rfsize.counting.representative import Kinds, RowsAsked
from rfsize.exceptions import NotAForestError
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import one_per_row, refuse_unused, sample_weights, training_labels
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
class TreeOutputs:
    """What the trees of a forest say of rows: their votes and scores, and those of blocks of trees.

    `rfsize.tree_outputs` makes them; `rfsize.size`, `truncate`, `oob_score` and `StopTable.build` take them in place of
    a model and rows. They refer to the model and the rows, and a pickle of them holds neither: it can be sized, and the
    trees cannot be asked again.

    Attributes
    ----------
    n_rows, n_trees : int
        Rows, and trees of the forest.
    source : str
        Where they come from: "oob", "rows given", "cross-validation" or, in training, the validation set.
    scores : Scores or None
        Means and scatter of the trees' scores before the link; None where members are no trees.
    blocks : TreeBlocks or None
        What blocks of the trees say of some of the rows; None where single trees are not known.
    groups : Groups
        Rows that belong together.
    y, sample_weight : ndarray, shape (n_rows,), or None
        Labels or numbers of the rows, in the encoding of the model, and their weights in metrics.
    noted : tuple of Caution
        What was noticed of the rows, such as that the forest was trained on them.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> outputs = rfsize.tree_outputs(forest, X, y, oob=True)
    >>> outputs
    TreeOutputs(569 rows (oob), 2 classes, 100 trees)
    >>> report = rfsize.size(outputs, alpha=0.95)
    >>> len(rfsize.truncate(outputs, alpha=0.95).estimators_) == report.n_trees
    True
    """

    n_rows: int
    n_trees: int
    _voted: Votes | None = None
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
    def of(cls, forest: ForestOnRows, keeps: Keeps = "outputs") -> TreeOutputs:
        """Those of a finished forest, whose trees are asked."""
        adapter, tallied = forest.adapter, forest.tallied(keeps)
        classes, n_trees = adapter.classes, adapter.n_trees
        found = cls(
            forest.n_rows,
            n_trees,
            _voted=Votes(tallied.counts, classes, n_trees, threshold=forest.threshold) if len(classes) else None,
            blocks=tallied.blocks,
            predict_obeys=adapter.predict_obeys,
            source=forest.source,
            groups=forest.groups,
            forest=forest,
            _averages=tallied.averages,
        )
        if not adapter.averages_scores:
            return found
        scored = slice(None, None, scored_every(forest.n_rows, adapter.leaves.n_scores))
        cut = adapter.cut(forest.threshold)
        return replace(found, scores=tallied.scores, scored=scored, link=adapter.link, cut=cut)

    @classmethod
    def of_votes(cls, votes: Votes) -> TreeOutputs:
        """Those of votes that were counted elsewhere; ``ValueError`` where nothing tells how many trees there are."""
        votes.check_trees()
        source = "oob" if votes.is_out_of_bag else "rows given"
        return cls(len(votes), votes.n_trees, votes, source=source)

    @classmethod
    def in_training(cls, forest: ForestInTraining) -> TreeOutputs:
        """Those of a forest that takes more trees; ``InbagError`` where no training row can be out of bag."""
        forest.check_bags()
        found = forest.out_of_bag
        return cls(
            len(found.counts),
            forest.n_trees,
            Votes(found.counts, forest.classes, forest.n_trees) if found.counts.shape[1] else None,
            found.scores if forest.averages_scores else None,
            found.blocks,
            link=forest.link,
            cut=forest.cut,
            predict_obeys=forest.predict_obeys,
            source="oob",
            groups=forest.groups,
        )

    @property
    def votes(self) -> Votes:
        """Votes for each class, row by row.

        Raises
        ------
        NotAForestError
            Of a regression forest, whose trees cast no votes.
        """
        if self._voted is None:
            raise NotAForestError("the trees of a regression forest cast no votes: take scores, or predict()")
        return self._voted

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels; empty for regression."""
        return np.zeros(0) if self._voted is None else self._voted.classes

    @property
    def nbytes(self) -> int:
        """Memory that they take, beside the model and the rows."""
        of_votes = 0 if self._voted is None else self._voted.counts.nbytes
        return of_votes + sum(0 if one is None else one.nbytes for one in (self.blocks, self.scores, self._averages))

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        what = f"{len(self.classes)} classes" if len(self.classes) else "regression"
        return f"TreeOutputs({how_many(self.n_rows, 'row')} ({self.source}), {what}, {how_many(self.n_trees, 'tree')})"

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

    def trained_as(self, other: TreeOutputs) -> TreeOutputs:
        """The same, which refer to no model, with what is to be said of the training of others."""
        return replace(self, noted=other.noted, _of_training=other._cautions)

    def voting(self, asked_for: str) -> str:
        """The rule of voting that is ``asked_for``: of "auto" that of the model's own ``predict``, where it is known.

        Of counted votes, and of members that are no trees, only the votes are known.
        """
        if asked_for != "auto":
            return asked_for
        knows_scores = self.scores is not None and bool((self.scores.asked > 1).any())
        return "soft" if knows_scores and self.predict_obeys == "soft" else "hard"

    def with_truth(self, y: Any, sample_weight: Any = None) -> TreeOutputs:
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

    def noting(self, *cautions: Caution) -> TreeOutputs:
        """The same with more that was noticed."""
        return replace(self, noted=(*self.noted, *cautions))

    @cached_property
    def distinct(self) -> TreeOutputs:
        """The same of the rows that sizes go by: all, or where copies are groups the first of each."""
        once = self.groups.once
        return self if once is None else self.take(once)

    def take(self, rows: NDArray[np.bool_]) -> TreeOutputs:
        """The same of some of the rows, a mask."""
        number, here = np.arange(self.n_rows), np.cumsum(rows) - 1
        scored = number[self.scored]
        is_kept = rows[scored]
        return replace(
            self,
            n_rows=int(np.count_nonzero(rows)),
            _voted=None if self._voted is None else self._voted.take(rows),
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

    def concat(self, *others: TreeOutputs) -> TreeOutputs:
        """What the trees of one forest say of the rows of all, batch after batch.

        Parameters
        ----------
        *others : TreeOutputs
            Of the same forest, on further rows that it was not trained on.

        Returns
        -------
        TreeOutputs
            Of all rows; they refer to no model.

        Raises
        ------
        ValueError
            If the forests differ, or how they are asked, or some have labels or weights alone; or if outputs are out of
            bag or of cross-validation, which hold all training rows.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X[:1000], y[:1000])
        >>> batches = [rfsize.tree_outputs(forest, X[rows], y[rows]) for rows in (slice(1000, 1500), slice(1500, None))]
        >>> outputs = batches[0].concat(*batches[1:])
        >>> outputs
        TreeOutputs(797 rows (rows given), 10 classes, 50 trees)
        >>> rfsize.size(outputs, alpha=0.9).n_trees == rfsize.size(forest, X[1000:], alpha=0.9).n_trees
        True
        """
        parts = [self, *others]
        _check_batches(parts)
        n_rows = [part.n_rows for part in parts]
        first = np.cumsum([0, *n_rows[:-1]])
        scored = [start + np.arange(part.n_rows)[part.scored] for start, part in zip(first, parts, strict=True)]
        kept = in_proportion([len(rows) for rows in scored], n_rows)

        def joined(name: str, join: Callable[[Any], Any]) -> Any:
            values = [getattr(part, name) for part in parts]
            return None if values[0] is None else join(values)

        def votes(voted: list[Votes]) -> Votes:
            counts = np.concatenate([one.counts for one in voted])
            return Votes(counts, self.classes, self.n_trees, threshold=voted[0].threshold)

        return replace(
            self,
            n_rows=sum(n_rows),
            _voted=joined("_voted", votes),
            scores=joined("scores", lambda scores: Scores.stacked(scores).take(kept)),
            scored=np.concatenate(scored)[kept],
            blocks=joined("blocks", lambda blocks: TreeBlocks.of_batches(blocks, n_rows)),
            y=joined("y", np.concatenate),
            sample_weight=joined("sample_weight", np.concatenate),
            noted=tuple(dict.fromkeys(caution for part in parts for caution in part.noted)),
            forest=None,
            _place=slice(None),
            _averages=None,
            _of_training=self._cautions,
        )

    def by_votes(self) -> RowsAsked:
        """How many votes, or of regression scores, each row has."""
        if self._voted is not None:
            return self._rows_asked(self._voted.asked, _ALL)
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
        outputs = self
        if self.forest is not None:
            outputs = TreeOutputs.of(replace(self.forest, bags=None, groups=ALONE))
            some = np.arange(outputs.n_rows)[self._place][some]
        if outputs._voted is not None:
            return Kinds.of_votes(outputs._voted.take(some))
        return None if outputs.scores is None else Kinds.of_scores(outputs.scores.take(some))

    @cached_property
    def averages(self) -> Averages:
        """Averaged scores of all rows, and of parts of the forest, for which the trees may be asked once more."""
        return self._averages or self.asked_again.averages()

    @property
    def asked_again(self) -> ForestOnRows:
        """The forest on the rows, whose trees may be asked again; ``ValueError`` where there is no model."""
        if self.forest is None:
            raise ValueError(
                "the trees cannot be asked again: counted Votes, forests in training, and outputs that were pickled, "
                "joined by concat or made by cross-validation refer to no model. Take rfsize.tree_outputs(model, X, "
                "...) of a trained one"
            )
        return self.forest

    def by_tree(self) -> NDArray[np.int32]:
        """The vote of each tree on each row.

        `StopTable.apply`, `mcnemar_size` and `banfield_size` take the votes of all trees, on rows that the forest was
        not trained on; of training rows they refuse the −1.

        Returns
        -------
        ndarray of int32, shape (n_rows, n_trees)
            Index into the forest's classes, the trees in their order, or −1 where a tree was trained on the row or
            another of its group; of a multiclass forest, a vote of the K trees of one iteration.

        Raises
        ------
        NotAForestError
            Of a regression forest, whose trees cast no votes.
        ValueError
            If the outputs refer to no model.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> outputs = rfsize.tree_outputs(forest, X, oob=True)
        >>> by_tree = outputs.by_tree()
        >>> by_tree.shape
        (569, 50)
        >>> (by_tree == 1).sum(axis=1).tolist() == outputs.votes.counts[:, 1].tolist()
        True
        """
        self.votes  # noqa: B018 - regression has none, and says so
        return self.asked_again.tree_votes()

    @property
    def averaging_predictor(self) -> Predictor:
        """What the model predicts from mean scores; `NotAForestError` where it averages what is not read of members."""
        forest = self.asked_again
        if not forest.adapter.averages_scores and forest.adapter.predict_obeys == "soft":
            raise NotAForestError(
                "the members of the ensemble are no trees, and only their votes are read, not the probabilities that "
                "predict averages: train it with oob_score=True, and take its own oob_decision_function_"
            )
        return forest.predictor

    def predict(self, fill: Any = None) -> NDArray[Any]:
        """What the model's own ``predict`` gives, by the trees that were asked about each row.

        Parameters
        ----------
        fill : scalar, optional
            What rows get that no tree was asked about. By default it is NaN, and where labels are predicted such rows
            are refused.

        Returns
        -------
        ndarray, shape (n_rows,) or (n_rows, n_classes)
            Labels, probabilities or numbers, as ``predict`` of the model gives them.

        Raises
        ------
        FewVotesError
            If labels are predicted, no tree was asked about some rows, and ``fill`` does not name their label.
        NotAForestError
            If the model averages probabilities of members that are no trees.

        Warns
        -----
        NoVotesWarning
            If rows have no prediction, or those that have tell nothing of the others.
        """
        return self._predictions.given_as(self.asked_again.adapter.predict_gives, fill)

    def predict_labels(self, fill: Any = None) -> NDArray[Any]:
        """Labels by the trees that were asked about each row, averaged as the model does.

        Parameters
        ----------
        fill : label, optional
            What rows get that no tree was asked about; by default such rows are refused.

        Returns
        -------
        ndarray, shape (n_rows,)
            Labels in the encoding of the model.

        Raises
        ------
        FewVotesError
            If no tree was asked about some rows, and ``fill`` does not name their label.
        NotAForestError
            Of a regression forest; or if the model averages probabilities of members that are no trees.

        Warns
        -----
        NoVotesWarning
            If the rows that have labels tell nothing of the others.
        """
        self.votes  # noqa: B018 - regression has none, and says so
        return self._predictions.labels(fill)

    def predict_proba(self, fill: float | None = None) -> Floats:
        """Probabilities by the trees that were asked about each row, averaged as the model does.

        Parameters
        ----------
        fill : float, optional
            What rows get that no tree was asked about; NaN by default.

        Returns
        -------
        ndarray of float, shape (n_rows, n_classes)
            In the order of the model's classes.

        Raises
        ------
        NotAForestError
            If the model averages probabilities of members that are no trees.
        ValueError
            Of a regression forest, or where the outputs refer to no model.

        Warns
        -----
        NoVotesWarning
            As of `predict`.
        """
        if not len(self.classes):
            raise ValueError("a regression forest predicts no probabilities: take predict()")
        return self._predictions.probabilities(fill)

    @property
    def _predictions(self) -> Predictions:
        return Predictions(self.averaging_predictor, self.averages, self.by_averages())


def _check_batches(parts: list[TreeOutputs]) -> None:
    """Raise ``ValueError`` where these are not outputs of one forest on batches of fresh rows."""
    for part in parts:
        if not isinstance(part, TreeOutputs):
            raise ValueError(f"concat takes tree outputs, found {type(part).__name__}: give what tree_outputs returns")
        if part.source != "rows given" or part.groups.index is not None:
            raise ValueError(
                f"concat joins batches of rows that the forest was not trained on, found {part}: out of bag and in "
                "cross-validation, ask about all training rows at once"
            )
        for name, value in _asked_as(parts[0]).items():
            other = _asked_as(part)[name]
            if other != value:
                raise ValueError(
                    f"concat joins what one forest says of batches of rows, but {name} is {value} of the first and "
                    f"{other} of another: ask one forest about all batches, in the same way"
                )
    if len({part.forest.adapter.digest for part in parts if part.forest is not None}) > 1:
        raise ValueError("concat joins what one forest says of batches of rows, and these are of several forests")


def _asked_as(outputs: TreeOutputs) -> dict[str, Any]:
    """What is the same of all batches of rows that one forest is asked about."""
    return {
        "n_trees": outputs.n_trees,
        "classes": outputs.classes.tolist(),
        "link": outputs.link,
        "cut": outputs.cut,
        "threshold": None if outputs._voted is None else outputs._voted.threshold,
        "predict_obeys": outputs.predict_obeys,
        "whether y is known": outputs.y is not None,
        "whether sample_weight is known": outputs.sample_weight is not None,
    }
