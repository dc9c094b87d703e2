"""A fast way for a few rows: for a single row, Python would take longer than the trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Floats, Int64s
from rfsize.stopping.on_forest import LabelsBySums
from rfsize.walking.layout import PackedForest

MOST = 16
"""The most rows that go this way."""

_WHOLE = 2.0**53  # double precision holds all whole numbers up to this


class FewRows:
    """Predicts a few rows of plain arrays, with as few checks as possible.

    Parameters
    ----------
    forest : PackedForest
        The trees.
    labels : LabelsBySums or None
        When rows stop, for labels by averaged scores. None for labels by votes and for regressions.
    """

    def __init__(self, forest: PackedForest, labels: LabelsBySums | None) -> None:
        conventions = forest.conventions
        refuses = conventions.refuses_infinite, conventions.refuses_infinite and conventions.refuses_missing
        start = forest.start.astype(np.float64)
        of_labels, predicting = forest.predicting(forest.label_link), forest.predicting(forest.compiled_link)
        self._native = _core.FewRows(forest.native, of_labels, predicting, start, forest.label_threshold, *refuses)
        self._labels = labels
        self._n_features, self._names = forest.n_features, forest.feature_names
        self._has_categories = bool(conventions.categories)
        self._codes_numbers = self._has_categories and conventions.codes_numbers
        self._columns: Any = None

    def _rows(self, X: Any) -> Floats | None:
        """``X`` in the form of the compiled code; None if it is not an array or frame of a few plain rows."""
        if self._codes_numbers:
            return None
        if type(X) is not np.ndarray:
            X = self._numbers(X)
        if X is None or X.ndim != 2 or X.dtype.char not in "df" or not X.dtype.isnative:
            return None
        n_rows, n_features = X.shape
        if n_features != self._n_features or not 0 < n_rows <= MOST:
            return None
        return X if X.dtype.char == "d" and X.flags.carray else np.array(X, dtype=np.float64, order="C")

    def _numbers(self, frame: Any) -> NDArray[Any] | None:
        """The numbers of a DataFrame with the columns of training; None if the frame needs more checks."""
        columns: Any = getattr(frame, "columns", None)
        if self._has_categories or columns is None or not hasattr(frame, "iloc") or len(frame) > MOST:
            return None
        if self._columns is None or not self._columns.equals(columns):
            if not columns.is_unique or (self._names is not None and list(columns) != self._names):
                return None
            self._columns = columns  # the next frames mostly have the same columns
        numbers = frame.to_numpy()  # np.asarray takes fifty times as long
        if numbers.dtype.char not in "df" or numbers.size == 0:
            return None
        # Some frameworks round larger whole numbers in their own way. The sum of squares takes half as long as the
        # maximum, and rules out such numbers for most rows. It tells nothing about rows with missing values.
        if np.vdot(numbers, numbers) < _WHOLE**2:
            return numbers
        return numbers if np.nanmax(np.abs(numbers), initial=0.0) < _WHOLE else None

    def labels(self, X: Any) -> Int64s | None:
        """Index of the label, and number of trees asked; shape (2, n_rows). None if ``X`` needs more checks."""
        rows = None if self._labels is None else self._rows(X)
        if self._labels is None or rows is None:
            return None
        answer = np.empty((2, len(rows)), dtype=np.int64)
        return answer if self._native.labels(self._labels.native, rows, answer) else None

    def predictions(self, X: Any, n_outputs: int) -> Floats | None:
        """What the compiled link predicts from all trees, shape (n_rows, n_outputs); None as in `labels`."""
        rows = self._rows(X)
        if rows is None:
            return None
        predicted = np.empty((len(rows), n_outputs))
        return predicted if self._native.predict(rows, predicted) else None
