"""TreeOutputs: the votes and scores of a forest's trees on rows, counted once and used for several questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import (
    Bools,
    Caution,
    Floats,
    how_many,
    one_per_row,
    refuse_unused,
    sample_weights,
    training_labels,
    warn,
)
from rfsize.counting.count import Sums, count
from rfsize.counting.coverage import Coverage
from rfsize.counting.groups import NO_GROUPS, Groups
from rfsize.counting.part_sums import Means, Scores
from rfsize.counting.task import Task, tree_votes
from rfsize.counting.votes import Votes
from rfsize.exceptions import FewVotesError, ForestWarning, NotAForestError
from rfsize.models.link import Predictor

VOTINGS = ("auto", "hard", "soft")

_NUMBERS = "biuf"  # kinds of types


@dataclass(frozen=True, eq=False, repr=False)
class TreeOutputs:
    """The votes and scores of a forest's trees on rows.

    `rfsize.tree_outputs` returns them. Give them to `rfsize.size`, `truncate`, `oob_score` and `StopTable.build` in
    place of a model and rows. They refer to the model and the rows, but a pickle holds neither: you can size pickled
    outputs, but methods that send the rows down the trees again raise an error.

    Attributes
    ----------
    n_rows, n_trees : int
        Number of rows, and of trees in the forest.
    source : str
        Where the outputs come from: "oob", "rows given", "cross-validation" or, in training, the validation set.
    y, sample_weight : ndarray, shape (n_rows,), or None
        Labels or numbers of the rows, in the encoding of the model, and their weights in metrics; None if you did not
        give them.
    warnings : tuple
        Warnings about the forest and the rows, such as that the forest was trained on them.

    See Also
    --------
    tree_outputs : Ask the trees.
    size : See how many trees are enough.

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
    voted: Votes | None = None
    sums: Sums | None = None
    predictor: Predictor | None = None
    source: str = "rows given"
    groups: Groups = NO_GROUPS
    y: NDArray[Any] | None = None
    sample_weight: Floats | None = None
    warnings: tuple[Caution, ...] = ()
    task: Task | None = None

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
    def scores(self) -> Scores | None:
        """Mean and scatter of the trees' scores before the link function; None for `Votes` you counted yourself."""
        return None if self.sums is None else self.sums.scores

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels; empty for regression."""
        return np.zeros(0) if self.voted is None else self.voted.classes

    @property
    def nbytes(self) -> int:
        """Memory in bytes that the outputs take, without the model and the rows."""
        return self.votes.counts.nbytes if self.sums is None else self.sums.nbytes

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        what = f"{len(self.classes)} classes" if len(self.classes) else "regression"
        rows = f"{how_many(self.n_rows, 'row')} ({self.source})"
        return f"TreeOutputs({rows}, {what}, {how_many(self.n_trees, 'tree')})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "task": None}

    def with_truth(self, y: ArrayLike | None, sample_weight: ArrayLike | None = None) -> TreeOutputs:
        """Add the labels or numbers of the rows, if you know them only after the votes were counted.

        Parameters
        ----------
        y : array_like, shape (n_rows,)
            Labels or numbers in the encoding of the model, for metrics.
        sample_weight : array_like, shape (n_rows,), optional
            Weights of the rows in metrics. They need not be the training weights.

        Returns
        -------
        TreeOutputs
            The same outputs, with ``y`` and the weights; nothing is counted again.

        Raises
        ------
        ValueError
            If ``y`` or the weights do not fit the rows and the classes, or you give weights without ``y``.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> outputs = rfsize.tree_outputs(RandomForestClassifier(100, random_state=0).fit(X, y), X, oob=True)
        >>> weighed = outputs.with_truth(y, sample_weight=X[:, 0])
        >>> rfsize.oob_score(weighed).value != rfsize.oob_score(outputs, y=y).value
        True
        """
        if y is None:
            refuse_unused(
                "it weighs the rows in metrics, which compare predictions with y. Give y too, or leave it out",
                sample_weight=sample_weight,
            )
            return self
        if self.task is not None:
            y = self.task.forest.truth(y)
        training_labels(self.classes, y, self.n_rows)
        weight = None if sample_weight is None else sample_weights(sample_weight, self.n_rows)
        return replace(self, y=one_per_row(y, self.n_rows), sample_weight=weight)

    def by_tree(self) -> NDArray[np.int32]:
        """Return the vote of each tree on each row.

        Give the votes to `StopTable.apply`, `mcnemar_size` or `banfield_size`. These functions need rows that the
        forest was not trained on: they raise an error for the −1 of training rows.

        Returns
        -------
        ndarray of int32, shape (n_rows, n_trees)
            Index into the forest's classes, for each tree in order; −1 where the tree was trained on the row or another
            row of its group. In a multiclass forest of K classes, the K trees of one iteration cast one vote.

        Raises
        ------
        NotAForestError
            If the forest is for regression: its trees cast no votes.
        ValueError
            If the outputs no longer refer to a model.

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
        return tree_votes(task_of(self))

    def predict(self, fill: Any = None) -> NDArray[Any]:
        """Predict as the model's own ``predict`` does, with the trees that may vote on each row.

        Parameters
        ----------
        fill : scalar, optional
            Prediction for rows that no tree may vote on. By default these rows get NaN; if labels are predicted,
            they cause an error.

        Returns
        -------
        ndarray, shape (n_rows,) or (n_rows, n_classes)
            Labels, probabilities or numbers, as the model's ``predict`` gives them.

        Raises
        ------
        FewVotesError
            If labels are predicted, no tree may vote on some rows, and you gave no ``fill``.

        Warns
        -----
        ForestWarning
            If some rows have no prediction, or the rows with a prediction do not represent the others.
        """
        output = task_of(self).forest.output
        if output == "labels":
            return _labels(self, fill)
        predicted = _predicted(self)
        if output == "class numbers":
            predicted = predictor_of(self).labels(predicted).astype(np.float64)
        elif output != "probabilities" or means_of(self).mean.shape[1] == 1:
            predicted = predicted[:, -1]
        return _filled(self, predicted, fill)

    def predict_labels(self, fill: Any = None) -> NDArray[Any]:
        """Predict labels with the trees that may vote on each row, averaged as the model does.

        Parameters
        ----------
        fill : label, optional
            Label for rows that no tree may vote on. By default such rows cause an error.

        Returns
        -------
        ndarray, shape (n_rows,)
            Labels in the encoding of the model.

        Raises
        ------
        FewVotesError
            If no tree may vote on some rows, and you gave no ``fill``.
        NotAForestError
            If the forest is for regression.

        Warns
        -----
        ForestWarning
            If the rows with a label do not represent the others.
        """
        self.votes  # noqa: B018 - regression has none, and says so
        return _labels(self, fill)

    def predict_proba(self, fill: float | None = None) -> Floats:
        """Predict probabilities with the trees that may vote on each row, averaged as the model does.

        Parameters
        ----------
        fill : float, optional
            Probability for rows that no tree may vote on; NaN by default.

        Returns
        -------
        ndarray of float, shape (n_rows, n_classes)
            In the order of the model's classes.

        Raises
        ------
        ValueError
            If the forest is for regression, or the outputs no longer refer to a model.

        Warns
        -----
        ForestWarning
            As in `predict`.
        """
        if not len(self.classes):
            raise ValueError(
                "a regression forest predicts no probabilities: take outputs.predict(), or rfsize.oob_predict(model, X)"
            )
        return _filled(self, _predicted(self), fill)


def task_of(outputs: TreeOutputs) -> Task:
    """The forest and the rows, to send these down the trees again; ``ValueError`` if there is no model."""
    if outputs.task is None:
        raise ValueError(
            "these outputs refer to no model: they are counted Votes, of a forest in training, pickled, or made by "
            "cross-validation. Give rfsize.tree_outputs(model, X, ...) of a trained model"
        )
    return outputs.task


def predictor_of(outputs: TreeOutputs) -> Predictor:
    """Turns mean scores into the forest's predictions; only for outputs that have scores."""
    assert outputs.predictor is not None
    return outputs.predictor


def sums_of(outputs: TreeOutputs) -> Sums:
    """Votes, scores and sums over parts of the forest; only for outputs that have scores."""
    assert outputs.sums is not None
    return outputs.sums


def means_of(outputs: TreeOutputs) -> Means:
    """Mean scores of all rows; may count again."""
    means = sums_of(outputs).means or count(task_of(outputs), means=True).means
    assert means is not None
    return means


def with_warnings(outputs: TreeOutputs, *cautions: Caution) -> TreeOutputs:
    """The outputs with more warnings, which come first."""
    return replace(outputs, warnings=(*cautions, *outputs.warnings)) if cautions else outputs


def warnings_for(outputs: TreeOutputs, *, of_labels: bool) -> tuple[Caution, ...]:
    """The warnings that matter for a question, which may be about labels only."""
    return tuple(caution for caution in outputs.warnings if not (of_labels and caution.spares_labels))


def voting_of(outputs: TreeOutputs, voting: str) -> str:
    """The rule of voting; "auto" is the rule of the model's own ``predict``, or "hard" if scores are not known."""
    if voting != "auto":
        return voting
    knows_scores = outputs.scores is not None and bool((outputs.scores.asked > 1).any())
    return "soft" if knows_scores and predictor_of(outputs).voting == "soft" else "hard"


def take(outputs: TreeOutputs, rows: Bools) -> TreeOutputs:
    """The outputs on the rows of a mask."""
    return replace(
        outputs,
        n_rows=int(np.count_nonzero(rows)),
        voted=None if outputs.voted is None else outputs.voted.take(rows),
        sums=None if outputs.sums is None else outputs.sums.take(rows),
        groups=outputs.groups.take(rows),
        y=None if outputs.y is None else outputs.y[rows],
        sample_weight=None if outputs.sample_weight is None else outputs.sample_weight[rows],
        task=None,
    )


def distinct(outputs: TreeOutputs) -> TreeOutputs:
    """The rows that sizes count: all rows, or the first row of each group if copies form groups."""
    once = outputs.groups.once
    return outputs if once is None else take(outputs, once)


def coverage(outputs: TreeOutputs) -> Coverage:
    """The number of votes of each row, or of scores for regression."""
    if outputs.voted is not None:
        return _coverage(outputs, outputs.voted.asked)
    assert outputs.scores is not None
    scores = outputs.scores
    return _coverage(outputs, scores.asked, slice(None) if scores.rows is None else scores.rows)


def coverage_of_means(outputs: TreeOutputs) -> Coverage:
    """The number of trees that score each row, averaged over its scores."""
    return _coverage(outputs, means_of(outputs).n_votes.mean(axis=1))


def _coverage(outputs: TreeOutputs, n_votes: NDArray[Any], rows: Any = slice(None)) -> Coverage:
    y = None if outputs.y is None else outputs.y[rows]
    is_oob, of_classes = outputs.source == "oob", len(outputs.classes) > 0
    return Coverage(n_votes, outputs.n_trees, outputs.groups.take(rows), is_oob, y, of_classes)


# Predictions


def _predicted(outputs: TreeOutputs) -> Floats:
    """Predictions for all rows; meaningless for rows that no tree may vote on."""
    return predictor_of(outputs).predictions(means_of(outputs).mean)


def _labels(outputs: TreeOutputs, fill: Any) -> NDArray[Any]:
    """Predicted labels; `FewVotesError` if some rows have no label and ``fill`` is None."""
    predictor, is_known = predictor_of(outputs), means_of(outputs).is_known
    labels = predictor.classes[predictor.labels(_predicted(outputs))]
    _warn_of_scores(outputs, None)
    if fill is not None:
        return with_fill(labels, is_known, fill)
    if not is_known.all():
        raise FewVotesError(
            f"{_without_votes(is_known)}. They have no label: choose one by fill=, such as fill={_free(labels)!r}, or "
            "take outputs.predict_proba() or rfsize.oob_predict_proba(model, X), which give NaN for them"
        )
    return np.asarray(labels)


def _filled(outputs: TreeOutputs, predicted: NDArray[Any], fill: Any) -> NDArray[Any]:
    """Predictions, with ``fill`` (or NaN if that is None) for rows that no tree may vote on."""
    is_known = means_of(outputs).is_known
    _warn_of_scores(outputs, is_known if fill is None else None)
    mask = is_known if predicted.ndim == 1 else is_known[:, None]
    return with_fill(predicted, mask, np.nan if fill is None else fill)


def _warn_of_scores(outputs: TreeOutputs, is_known: Bools | None) -> None:
    """Warn if a score of the predictions would mislead, or if ``is_known`` shows rows that will be NaN."""
    problem = coverage_of_means(outputs).problem_of_some("how good the forest is on fresh rows")
    if problem is not None:
        warn(problem.message, ForestWarning)
    elif is_known is not None and not is_known.all():
        warn(
            f"{_without_votes(is_known)}. Their prediction is NaN: leave them out, or train more trees, or train with "
            "a smaller bagging fraction",
            ForestWarning,
        )


def _without_votes(is_known: Bools) -> str:
    """First half of the messages about rows that no tree may vote on."""
    n_rows = np.count_nonzero(~is_known)
    return f"{n_rows:,} of the training rows have no out-of-bag tree: every tree saw them or a row of their group"


def with_fill(predicted: NDArray[Any], mask: Bools, fill: Any) -> NDArray[Any]:
    """Predictions where ``mask`` is set, and ``fill`` elsewhere, in a type that holds both.

    Raises
    ------
    ValueError
        If ``fill`` is no number where numbers are predicted, no word where words are, or fits no type with them.
    """
    if predicted.dtype == object:
        return np.where(mask, predicted, np.array(fill, dtype=object))
    value, are_numbers = np.asarray(fill), predicted.dtype.kind in _NUMBERS
    if value.ndim or value.dtype.kind not in (_NUMBERS if are_numbers else predicted.dtype.kind):
        raise ValueError(
            f"fill must be a {'number' if are_numbers else 'word'}, as the predictions are, found {fill!r}: give one, "
            f"such as fill={_free(predicted)!r}"
        )
    if not are_numbers:
        return np.where(mask, predicted, value)
    wide = np.result_type(predicted.dtype, np.min_scalar_type(fill))
    if wide.kind == "f" and predicted.dtype.kind + value.dtype.kind in ("ui", "iu"):
        raise ValueError(f"no integer type holds labels of {predicted.dtype} and fill={fill!r}: give another number")
    return np.where(mask, predicted.astype(wide), value.astype(wide))


def _free(labels: NDArray[Any]) -> Any:
    """A value that is none of the labels."""
    if labels.dtype.kind in _NUMBERS:
        return -1 if not (labels == -1).any() else int(labels.min()) - 1
    return "unknown"
