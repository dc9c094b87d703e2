"""What a forest predicts of rows by the averaged scores of the trees that were asked about each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.representative import RowsAsked
from rfsize.exceptions import FewVotesError, NotAForestError, NoVotesWarning
from rfsize.utils.typing import Floats
from rfsize.utils.warn import warn
from rfsize.voting.averages import Averages
from rfsize.voting.predictor import Predictor
from rfsize.voting.votes import Votes


class AveragedPredictions(ABC):
    """Predictions of a forest, once its trees have been asked; `TreeOutputs` tells what they said."""

    @property
    @abstractmethod
    def votes(self) -> Votes:
        """Votes for each class; `NotAForestError` of a regression forest."""

    @property
    @abstractmethod
    def averages(self) -> Averages:
        """Averaged scores of all rows."""

    @property
    @abstractmethod
    def asked_again(self) -> ForestOnRows:
        """The forest on the rows; ``ValueError`` where there is no model."""

    @property
    @abstractmethod
    def predictor(self) -> Predictor:
        """What the forest predicts from mean scores."""

    @abstractmethod
    def by_averages(self) -> RowsAsked:
        """How many trees each row was asked of."""

    @property
    def averaging_predictor(self) -> Predictor:
        """What the model predicts from mean scores; `NotAForestError` where it averages what is not read of members."""
        adapter = self.asked_again.adapter
        if not adapter.averages_scores and adapter.predict_obeys == "soft":
            raise NotAForestError(
                "the members of the ensemble are no trees, and only their votes are read, not the probabilities that "
                "predict averages: train it with oob_score=True, and take its own oob_decision_function_"
            )
        return self.predictor

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
        gives, predictor = self.asked_again.adapter.predict_gives, self.averaging_predictor
        if gives == "labels":
            return self.predict_labels(fill)
        predicted = predictor.predictions(self.averages.mean)
        if gives == "class numbers":
            predicted = predictor.labels(predicted).astype(np.float64)
        elif gives != "probabilities" or self.averages.mean.shape[1] == 1:
            predicted = predicted[:, -1]
        return self._filled(predicted, fill)

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
        predictor = self.averaging_predictor
        labels = self.votes.classes[predictor.labels(predictor.predictions(self.averages.mean))]
        is_asked = self.averages.is_asked
        self._warn_of_scores(None)
        if fill is not None:
            return np.where(is_asked, labels, fill)
        if not is_asked.all():
            raise FewVotesError(
                f"{self._unasked()}, and have no label: name one by fill=, such as fill=-1, or take "
                "predict_proba, which is NaN there"
            )
        return np.asarray(labels)

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
        predictor = self.averaging_predictor
        if not len(predictor.classes):
            raise ValueError("a regression forest predicts no probabilities: take predict()")
        return self._filled(predictor.predictions(self.averages.mean), fill)

    def _filled(self, predicted: NDArray[Any], fill: Any) -> NDArray[Any]:
        """Predictions, and on rows that no tree was asked about NaN, or what is to be there."""
        is_asked = self.averages.is_asked
        self._warn_of_scores(is_asked if fill is None else None)
        return np.where(
            is_asked if predicted.ndim == 1 else is_asked[:, None], predicted, np.nan if fill is None else fill
        )

    def _warn_of_scores(self, is_asked: NDArray[np.bool_] | None) -> None:
        """Warn where a score of the predictions would mislead, or rows are NaN since no tree ``is_asked``."""
        lack = self.by_averages().of_some_rows("how good the forest is on fresh rows")
        if lack is not None:
            warn(lack.message, NoVotesWarning)
        elif is_asked is not None and not is_asked.all():
            warn(
                f"{self._unasked()}, and have NaN for a prediction: leave them out, or train more trees, or with a "
                "smaller bagging fraction",
                NoVotesWarning,
            )

    def _unasked(self) -> str:
        """What to say of rows without a tree."""
        n_rows = np.count_nonzero(~self.averages.is_asked)
        return f"of {n_rows:,} of the training rows no tree may be asked, since each saw them or others of their groups"
