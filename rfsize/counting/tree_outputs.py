"""TreeOutputs: the votes and scores of a forest's trees, computed once and used for several questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.counting.evidence import Evidence
from rfsize.counting.scores import Scores
from rfsize.counting.votes import Votes
from rfsize.exceptions import FewVotesError, NoVotesWarning
from rfsize.utils.typing import Bools, Floats
from rfsize.utils.warn import warn

_NUMBERS = "biuf"  # kinds of types


@dataclass(frozen=True, eq=False, repr=False)
class TreeOutputs:
    """The votes and scores of a forest's trees on rows.

    `rfsize.tree_outputs` returns them. Give them to `rfsize.size`, `truncate`, `oob_score` and `StopTable.build` in
    place of a model and rows. They refer to the model and the rows, but a pickle holds neither: you can size pickled
    outputs, but methods that ask the trees again raise an error.

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

    _evidence: Evidence

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._evidence.n_rows

    @property
    def n_trees(self) -> int:
        """Number of trees in the forest."""
        return self._evidence.n_trees

    @property
    def source(self) -> str:
        """Where the outputs come from: "oob", "rows given" or "cross-validation"."""
        return self._evidence.source

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels; empty for regression."""
        return self._evidence.classes

    @property
    def votes(self) -> Votes:
        """Votes for each class, row by row.

        Raises
        ------
        NotAForestError
            If the forest is for regression: its trees cast no votes.
        """
        return self._evidence.votes

    @property
    def scores(self) -> Scores | None:
        """Mean and scatter of the trees' scores before the link function; None for `Votes` you counted yourself."""
        return self._evidence.scores

    @property
    def y(self) -> NDArray[Any] | None:
        """Labels or numbers of the rows, in the encoding of the model; None if you did not give them."""
        return self._evidence.y

    @property
    def nbytes(self) -> int:
        """Memory in bytes that the outputs take, without the model and the rows."""
        return self._evidence.nbytes

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"TreeOutputs({self._evidence})"

    def with_truth(self, y: ArrayLike | None, sample_weight: ArrayLike | None = None) -> TreeOutputs:
        """Add the labels or numbers of the rows, if you know them only after the trees were asked.

        Parameters
        ----------
        y : array_like, shape (n_rows,)
            Labels or numbers in the encoding of the model, for metrics.
        sample_weight : array_like, shape (n_rows,), optional
            Weights of the rows in metrics. They need not be the training weights.

        Returns
        -------
        TreeOutputs
            The same outputs, with ``y`` and the weights; the trees are not asked again.

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
        return TreeOutputs(self._evidence.with_truth(y, sample_weight))

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
        return self._evidence.asked_again.tree_votes()

    def predict(self, fill: Any = None) -> NDArray[Any]:
        """Predict as the model's own ``predict`` does, with the trees that were asked about each row.

        Parameters
        ----------
        fill : scalar, optional
            Prediction for rows that no tree was asked about. By default these rows get NaN; if labels are predicted,
            they cause an error.

        Returns
        -------
        ndarray, shape (n_rows,) or (n_rows, n_classes)
            Labels, probabilities or numbers, as the model's ``predict`` gives them.

        Raises
        ------
        FewVotesError
            If labels are predicted, no tree was asked about some rows, and you gave no ``fill``.

        Warns
        -----
        NoVotesWarning
            If some rows have no prediction, or the rows with a prediction do not represent the others.
        """
        kind = self._evidence.asked_again.adapter.output
        if kind == "labels":
            return self._labels(fill)
        predictor, predicted = self._evidence.asked_again.predictor, self._predicted
        if kind == "class numbers":
            predicted = predictor.labels(predicted).astype(np.float64)
        elif kind != "probabilities" or self._evidence.averages.mean.shape[1] == 1:
            predicted = predicted[:, -1]
        return self._filled(predicted, fill)

    def predict_labels(self, fill: Any = None) -> NDArray[Any]:
        """Predict labels with the trees that were asked about each row, averaged as the model does.

        Parameters
        ----------
        fill : label, optional
            Label for rows that no tree was asked about. By default such rows cause an error.

        Returns
        -------
        ndarray, shape (n_rows,)
            Labels in the encoding of the model.

        Raises
        ------
        FewVotesError
            If no tree was asked about some rows, and you gave no ``fill``.
        NotAForestError
            If the forest is for regression.

        Warns
        -----
        NoVotesWarning
            If the rows with a label do not represent the others.
        """
        self.votes  # noqa: B018 - regression has none, and says so
        return self._labels(fill)

    def predict_proba(self, fill: float | None = None) -> Floats:
        """Predict probabilities with the trees that were asked about each row, averaged as the model does.

        Parameters
        ----------
        fill : float, optional
            Probability for rows that no tree was asked about; NaN by default.

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
        NoVotesWarning
            As in `predict`.
        """
        if not len(self.classes):
            raise ValueError(
                "a regression forest predicts no probabilities: take outputs.predict(), or rfsize.oob_predict(model, X)"
            )
        return self._filled(self._predicted, fill)

    @property
    def _predicted(self) -> Floats:
        """Predictions for all rows; meaningless for rows that no tree was asked about."""
        return self._evidence.asked_again.predictor.predictions(self._evidence.averages.mean)

    def _labels(self, fill: Any) -> NDArray[Any]:
        """Predicted labels; `FewVotesError` if some rows have no label and ``fill`` is None."""
        predictor, is_asked = self._evidence.asked_again.predictor, self._evidence.averages.is_asked
        labels = predictor.classes[predictor.labels(self._predicted)]
        self._warn_of_scores(None)
        if fill is not None:
            return with_fill(labels, is_asked, fill)
        if not is_asked.all():
            raise FewVotesError(
                f"{self._unasked}. They have no label: choose one by fill=, such as fill={_free(labels)!r}, or take "
                "outputs.predict_proba() or rfsize.oob_predict_proba(model, X), which give NaN for them"
            )
        return np.asarray(labels)

    def _filled(self, predicted: NDArray[Any], fill: Any) -> NDArray[Any]:
        """Predictions, with ``fill`` (or NaN if that is None) for rows that no tree was asked about."""
        is_asked = self._evidence.averages.is_asked
        self._warn_of_scores(is_asked if fill is None else None)
        mask = is_asked if predicted.ndim == 1 else is_asked[:, None]
        return with_fill(predicted, mask, np.nan if fill is None else fill)

    def _warn_of_scores(self, is_asked: Bools | None) -> None:
        """Warn if a score of the predictions would mislead, or if ``is_asked`` shows rows that will be NaN."""
        lack = self._evidence.by_averages().of_some_rows("how good the forest is on fresh rows")
        if lack is not None:
            warn(lack.message, NoVotesWarning)
        elif is_asked is not None and not is_asked.all():
            warn(
                f"{self._unasked}. Their prediction is NaN: leave them out, or train more trees, or train with a "
                "smaller bagging fraction",
                NoVotesWarning,
            )

    @property
    def _unasked(self) -> str:
        """First half of the messages about rows that no tree was asked about."""
        n_rows = np.count_nonzero(~self._evidence.averages.is_asked)
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
