"""Checks of arguments."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.words import how_many


def share(name: str, value: float) -> float:
    """``value`` as a float strictly between 0 and 1, or a ``ValueError`` with its name."""
    if not isinstance(value, Real) or not 0.0 < value < 1.0:
        raise ValueError(f"{name} must be a number strictly between 0 and 1, found {value!r}")
    return float(value)


def positive(name: str, value: float) -> float:
    """``value`` as a finite float above 0, or a ``ValueError`` with its name."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be a positive number, found {value!r}")
    return float(value)


def whole(name: str, value: int, *, at_least: int, at_most: int | None = None) -> int:
    """``value`` as an int within bounds, or a ``ValueError`` with its name."""
    fits = isinstance(value, Integral) and not isinstance(value, bool) and value >= at_least
    if not fits or (at_most is not None and value > at_most):
        bounds = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        raise ValueError(f"{name} must be a whole number {bounds}, found {value!r}")
    return int(value)


def refuse_unused(reason: str, **options: Any) -> None:
    """Raise a ``ValueError`` that names the options that are not None, because they would have no effect.

    ``reason`` says why, and what to do.
    """
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ValueError(f"{' and '.join(given)} would have no effect: {reason}")


def refuse_option_as_labels(y: Any) -> None:
    """Raise ``ValueError`` if ``y`` is a number or a word, which is meant as ``alpha`` or ``metric``."""
    if isinstance(y, Real | str):
        option = "metric" if isinstance(y, str) else "alpha"
        raise ValueError(f"the third argument is y, the labels of the rows, found {y!r}: name it, as in {option}={y!r}")


def as_numbers(name: str, value: Any) -> Floats:
    """``value`` as an array of floats, or a ``ValueError`` with its name."""
    given = np.asarray(value)
    if given.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a number or an array of numbers, found {value!r}")
    return given.astype(np.float64)


def choice(name: str, value: Any, choices: Collection[str], advice: str = "", *, others: Collection[str] = ()) -> None:
    """Raise a ``ValueError`` if ``value`` is not one of the choices; the message names the nearest choice.

    ``others`` are further choices, too many to list in the message.
    """
    if isinstance(value, str) and value in choices:
        return
    meant = did_you_mean(value, [*choices, *others])
    raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, found {value!r}{meant}{advice}")


def did_you_mean(value: Any, choices: Collection[str]) -> str:
    """The words " (did you mean …?)" with the nearest choice; empty if no choice is near."""
    near = get_close_matches(value.lower(), choices, 1) if isinstance(value, str) else []
    return f" (did you mean {near[0]!r}?)" if near else ""


def one_per_row(y: Any, n_rows: int) -> NDArray[Any]:
    """Labels as an array of shape (n_rows,); ``ValueError`` if there is not one label for each row."""
    refuse_option_as_labels(y)
    labels = np.asarray(y).ravel()
    if labels.shape != (n_rows,):
        raise ValueError(f"y must hold one label per row of X: {n_rows} expected, {labels.size} found")
    return labels


def class_indices(classes: NDArray[Any], y: Any, n_rows: int) -> Int64s:
    """Index into ``classes`` of each training label; ``ValueError`` if the labels do not fit."""
    labels = one_per_row(y, n_rows)
    if len(classes) and classes.dtype.kind in "biuf" and labels.dtype.kind in "biuf":
        order = np.argsort(classes)
        place = order[np.minimum(np.searchsorted(classes, labels, sorter=order), len(classes) - 1)]
        if np.array_equal(classes[place], labels):
            return place.astype(np.int64)
    index_of = {label: index for index, label in enumerate(classes.tolist())}
    unknown = [label for label in dict.fromkeys(labels.tolist()) if label not in index_of]
    if unknown:
        raise ValueError(
            f"y holds labels that the model does not know: {unknown[:5]}; it knows {list(index_of)}. Give y as the "
            "model was trained on it, or leave y out where only the size for labels is asked"
        )
    return np.array([index_of[label] for label in labels.tolist()], dtype=np.int64)


def training_labels(classes: NDArray[Any], y: Any, n_rows: int) -> NDArray[Any]:
    """Training labels as indices into ``classes``; for a regression, which has no classes, as finite numbers."""
    if len(classes):
        return class_indices(classes, y, n_rows)
    given = one_per_row(y, n_rows)
    try:
        numbers = given.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.full(n_rows, np.nan)
    if not np.isfinite(numbers).all():
        raise ValueError(f"y must hold one finite number per row of X ({how_many(n_rows, 'row')})")
    return numbers


def sample_weights(sample_weight: Any, n_rows: int) -> Floats:
    """Sample weights as an array, 1 if none are given; ``ValueError`` if they do not fit."""
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weight = np.asarray(sample_weight, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        weight = np.full(n_rows, np.nan)
    if weight.shape != (n_rows,) or not (np.isfinite(weight) & (weight >= 0.0)).all():
        raise ValueError(
            f"sample_weight must hold one finite, non-negative number per row of X ({how_many(n_rows, 'row')})"
        )
    return weight


MAX_CLASSES = 10_000


def is_digest(value: Any) -> bool:
    """Whether a value is a SHA-256 hash in hexadecimal."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None
