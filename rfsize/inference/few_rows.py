"""A few rows at a time: for those who ask for one, Python would take longer than the trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.inference.score_stops import ScoreStop
from rfsize.utils.typing import Floats
from rfsize.voting.links import LINKS
from rfsize.walking.layout import Forest

MOST = 16
"""Rows that are taken at once."""

_ALIGNED = 8  # bytes
_WHOLE = 2.0**53  # up to which double precision holds all whole numbers


class FewRows:
    """Predicts a few rows of plain arrays, which are checked as little as can be.

    Parameters
    ----------
    forest : Forest
        The trees; a copy is kept, in one piece of memory.
    """

    def __init__(self, forest: Forest) -> None:
        from rfsize.inference.few_kernels import predict_few

        conventions = forest.conventions
        width = forest.trees.value.shape[1]
        refuses = conventions.refuses_infinite, conventions.refuses_infinite and conventions.refuses_missing
        memory, place = _packed([*forest.trees, *forest.columns])
        whole = [forest.n_outputs, forest.n_columns, width, LINKS.index(conventions.link), forest.divisor, *refuses]
        number = [conventions.slope, forest.threshold, *map(float, conventions.reading)]
        self._kept = memory, place, np.array(whole, dtype=np.int64), np.array(number), forest.start
        self._predict, self._n_features = predict_few, forest.n_features
        self._names, self._has_categories = forest.feature_names, bool(conventions.categories)
        self._columns: Any = None

    def rows(self, X: Any) -> NDArray[np.float64] | None:
        """``X`` as `labels` and `predictions` take it, None where it is no array or frame of a few such rows."""
        if type(X) is not np.ndarray:
            X = self._numbers(X)
        if X is None or X.ndim != 2 or X.dtype.char not in "df" or not X.dtype.isnative:
            return None
        n_rows, n_features = X.shape
        if n_features != self._n_features or not 0 < n_rows <= MOST:
            return None
        return X if X.dtype.char == "d" and X.flags.carray else np.array(X, dtype=np.float64, order="C")

    def _numbers(self, frame: Any) -> NDArray[Any] | None:
        """The numbers of a DataFrame that has the columns of training; None of what takes more care."""
        columns: Any = getattr(frame, "columns", None)
        if self._has_categories or not hasattr(frame, "iloc") or len(frame) > MOST:
            return None
        if columns is not self._columns:
            if not columns.is_unique or (self._names is not None and list(columns) != self._names):
                return None
            self._columns = columns  # as most frames have them that follow
        numbers = np.asarray(frame)
        if numbers.dtype.char not in "df" or numbers.size == 0:
            return None
        # Larger whole numbers are rounded by some frameworks in their own way.
        return numbers if np.nanmax(np.abs(numbers), initial=0.0) < _WHOLE else None

    def labels(self, X: NDArray[np.float64], stop: Floats) -> NDArray[np.int64] | None:
        """Index of the label and trees asked, shape (2, n_rows); None where the framework refuses a row."""
        answer = np.empty((2, len(X)), dtype=np.int64)
        return answer if self._predict(X, *self._kept, stop, answer, _NOTHING) else None

    def predictions(self, X: NDArray[np.float64], stop: Floats, n_outputs: int) -> Floats | None:
        """What is predicted, shape (n_rows, n_outputs), by stops that no row meets; None as in `labels`."""
        answer, predicted = np.empty((2, len(X)), dtype=np.int64), np.empty((len(X), n_outputs))
        return predicted if self._predict(X, *self._kept, stop, answer, predicted) else None


_NOTHING = np.empty((0, 1))


def packed_stop(stop: ScoreStop) -> Floats:
    """Stops as one array."""
    return np.concatenate([[stop.first_look, stop.every], stop.low, stop.high, stop.needed, stop.drift])


def _packed(arrays: list[NDArray[Any]]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Arrays in one piece of memory, and the first byte and the end of each, shape (n, 2)."""
    sizes = np.array([array.nbytes for array in arrays])
    begins = np.append(0, np.cumsum(-(-sizes // _ALIGNED) * _ALIGNED))
    memory = np.zeros(begins[-1], dtype=np.uint8)
    for array, begin in zip(arrays, begins, strict=False):
        memory[begin : begin + array.nbytes] = np.ascontiguousarray(array).view(np.uint8).ravel()
    return memory, np.stack([begins[:-1], begins[:-1] + sizes], axis=1)
