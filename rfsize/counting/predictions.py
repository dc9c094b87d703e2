"""Predictions of rows by the trees that may vote on them, and what rows get that no tree may vote on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Bools, warn
from rfsize.counting.coverage import Coverage
from rfsize.exceptions import FewVotesError, ForestWarning
from rfsize.models.link import Predictor

_NUMBERS = "biuf"  # kinds of types


def check_fill(predicted: NDArray[Any], fill: Any) -> None:
    """Raise ``ValueError`` if no type holds both ``fill`` and predictions such as these."""
    if fill is not None:
        _with_fill(predicted, np.ones(predicted.shape, dtype=np.bool_), fill)


def filled_labels(
    predictor: Predictor, predicted: NDArray[Any], is_known: Bools, votes: Coverage, fill: Any
) -> NDArray[Any]:
    """Labels of predictions, shape (n_rows, n_classes); `FewVotesError` if rows have none and ``fill`` is None."""
    labels = predictor.classes[predictor.labels(predicted)]
    _warn_of_coverage(votes)
    if fill is not None:
        return _with_fill(labels, is_known, fill)
    if not is_known.all():
        raise FewVotesError(f"{_without_votes(is_known)}: choose a label, such as fill={_unused(labels)!r}, for them")
    return np.asarray(labels)


def filled(predicted: NDArray[Any], is_known: Bools, votes: Coverage, fill: Any) -> NDArray[Any]:
    """Predictions, with ``fill`` (or NaN if that is None) for rows that no tree may vote on."""
    if not _warn_of_coverage(votes) and fill is None and not is_known.all():
        warn(f"{_without_votes(is_known)}: their prediction is NaN. Leave them out, or train more trees", ForestWarning)
    mask = is_known if predicted.ndim == 1 else is_known[:, None]
    return _with_fill(predicted, mask, np.nan if fill is None else fill)


def _warn_of_coverage(votes: Coverage) -> bool:
    """Warn, and return whether you do, if a score of the predictions would mislead."""
    problem = votes.problem_of_some("how good the forest is on fresh rows")
    if problem is not None:
        warn(str(problem), ForestWarning)
    return problem is not None


def _without_votes(is_known: Bools) -> str:
    """First half of the messages about rows that no tree may vote on."""
    n_rows = np.count_nonzero(~is_known)
    return f"{n_rows:,} of the training rows have no out-of-bag tree, as every tree saw them or a row of their group"


def _with_fill(predicted: NDArray[Any], mask: Bools, fill: Any) -> NDArray[Any]:
    """Predictions where ``mask`` is set, and ``fill`` elsewhere; ``ValueError`` if no type holds both."""
    if predicted.dtype == object:
        return np.where(mask, predicted, np.array(fill, dtype=object))
    value, are_numbers = np.asarray(fill), predicted.dtype.kind in _NUMBERS
    wide = np.result_type(predicted.dtype, np.min_scalar_type(fill)) if are_numbers else predicted.dtype
    fits = value.ndim == 0 and value.dtype.kind in (_NUMBERS if are_numbers else predicted.dtype.kind)
    # No integer type holds, for example, large unsigned labels and -1.
    if not fits or (wide.kind == "f" and predicted.dtype.kind + value.dtype.kind in ("ui", "iu")):
        kind = "number" if are_numbers else "word"
        raise ValueError(f"fill={fill!r} is no {kind} that fits {predicted.dtype}: give {_unused(predicted)!r}")
    return np.where(mask, predicted.astype(wide) if are_numbers else predicted, value)


def _unused(labels: NDArray[Any]) -> Any:
    """A value that is none of the labels."""
    if labels.dtype.kind not in _NUMBERS:
        return "unknown"
    return int(labels.max()) + 1 if labels.dtype.kind == "u" else int(min(labels.min(), 0)) - 1
