"""Checks of arguments, words of messages, warnings, progress bars and threads. This module knows nothing of forests."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from tqdm import TqdmWarning

with warnings.catch_warnings():
    # In a notebook without ipywidgets the bars are text. tqdm warns of that at import, but it is harmless.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_Result = TypeVar("_Result")


# Words


def how_many(count: int | float, noun: str) -> str:
    """A number before its noun, such as ``1 tree`` or ``1,200 trees``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def in_percent(share: float) -> str:
    """A share such as "99 %" or "99.03 %", with at most two decimals, or more if it is close to 0 or 100 %."""
    away = min(share, 1.0 - share)
    decimals = 2 if away <= 0.0 else min(max(2, math.ceil(round(-math.log10(away), 6)) - 2), 10)
    return f"{round(100.0 * share, decimals):.{decimals}f}".rstrip("0").rstrip(".") + " %"


def as_arguments(options: Mapping[str, Any]) -> str:
    """Arguments as a user would type them, such as ``metric='auc', tolerance=0.001``; a scorer is only named so."""
    return ", ".join(f"{name}={'scorer' if callable(value) else repr(value)}" for name, value in options.items())


def printable(name: Any) -> str:
    """The name of a class or a column, made safe for a terminal or a page: control characters are escaped.

    Names come from models and files, which can come from anyone.
    """
    text = str(name)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


# Arguments


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


def whole(name: str, value: int, *, at_least: int, at_most: int | None = None, advice: str = "") -> int:
    """``value`` as an int within bounds, or a ``ValueError`` with its name and the advice."""
    fits = isinstance(value, Integral) and not isinstance(value, bool) and value >= at_least
    if not fits or (at_most is not None and value > at_most):
        bounds = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        raise ValueError(f"{name} must be a whole number {bounds}, found {value!r}{advice}")
    return int(value)


def refuse_unused(reason: str, advice: str = "", /, **options: Any) -> None:
    """Raise a ``ValueError`` that names the options that are not None, because they would have no effect.

    ``reason`` says why, and ``advice`` what else to do than to leave them out.
    """
    given = [name for name, value in options.items() if value is not None]
    if given:
        them = "it" if len(given) == 1 else "them"
        raise ValueError(f"{' and '.join(given)} would have no effect: {reason}. Leave {them} out{advice}")


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
    return class_indices(classes, y, n_rows) if len(classes) else _finite("y", one_per_row(y, n_rows), n_rows)


def sample_weights(sample_weight: Any, n_rows: int) -> Floats:
    """Sample weights as an array, 1 if none are given; ``ValueError`` if they do not fit."""
    weight = np.ones(n_rows) if sample_weight is None else _finite("sample_weight", sample_weight, n_rows)
    if (weight < 0.0).any():
        raise ValueError("sample_weight has negative numbers: weights are 0 or more")
    return weight


def _finite(name: str, values: Any, n_rows: int) -> Floats:
    """One finite number for each row, or a ``ValueError`` with its name."""
    try:
        numbers = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    if numbers.shape != (n_rows,) or not np.isfinite(numbers).all():
        raise ValueError(f"{name} must hold one finite number per row of X ({how_many(n_rows, 'row')})")
    return numbers


MAX_CLASSES = 10_000


def is_digest(value: Any) -> bool:
    """Whether a value is a SHA-256 hash in hexadecimal."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


# Warnings


@dataclass(frozen=True)
class Caution:
    """A warning that a result carries. The result prints the same words that Python warns with.

    Attributes
    ----------
    category : type
        The class of the Python warning.
    text : str
        What is wrong, and what to do.
    options : dict
        Arguments of the call that helps, if one call does: of `rfsize.size`, or of `rfsize.shrink` for its reports.
    spares_labels : bool
        Whether labels are as they would be without what the warning is about.
    """

    category: type[Warning]
    text: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    spares_labels: bool = False

    @classmethod
    def advising(cls, category: type[Warning], text: str, **options: Any) -> Caution:
        """A warning whose text ends with the advice to give these arguments."""
        return cls(category, f"{text} by {as_arguments(options)}", options)

    def to_dict(self) -> dict[str, str]:
        """Plain Python values that ``json`` can write."""
        return {"category": self.category.__name__, "text": self.text}


def give(cautions: Iterable[Caution], *, through: str | None = None) -> None:
    """Give all warnings; ``through`` as in `warn`."""
    for caution in cautions:
        warn(caution.text, caution.category, through=through)


def warn(message: str, category: type[Warning], *, through: str | None = None) -> None:
    """Warn at the first frame outside rfsize, and outside the package ``through`` if that package calls rfsize."""
    inside = {__name__.partition(".")[0], through}
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


# Threads and progress


def each_range(work: Callable[[int, int], _Result], rows: int, step: int, *, n_jobs: int = -1) -> list[_Result]:
    """The results of ``work(start, stop)`` for every ``step`` rows, in order; ``n_jobs=-1`` is one thread per core."""
    starts = range(0, rows, step)
    threads = min(effective_threads(n_jobs), len(starts)) if len(starts) > 1 else 1
    if threads == 1:
        return [work(start, min(start + step, rows)) for start in starts]
    # The threads end with the call, because a lasting pool would be dead after a fork.
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda start: work(start, min(start + step, rows)), starts))


def check_threads(n_jobs: Any) -> None:
    """Raise ``ValueError`` if ``n_jobs`` is no number of threads, as joblib takes them."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be a number of threads, or -1 for one thread per core, found {n_jobs!r}")


def effective_threads(n_jobs: int) -> int:
    """Number of threads for ``n_jobs``; -1 means one per core."""
    # joblib knows the cores of a container, and starts no more threads in its own workers.
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


_SECONDS_BEFORE = 2.0


def progress_bar(what: str, total: int | None, unit: str, **options: Any) -> Any:
    """A progress bar that appears only if the work takes long, and disappears at the end.

    ``options`` are further options of tqdm.
    """
    return tqdm(desc=what, total=total, unit=f" {unit}", delay=_SECONDS_BEFORE, leave=False, **options)


def rows_bar(what: str, n_rows: int | None) -> Any:
    """A progress bar over rows, counted in thousands or millions."""
    return progress_bar(what, n_rows, "rows", unit_scale=True)


# The most cells of (rows × trees) in memory while votes are counted: some hundred megabytes. Memory of larger arrays
# would go back to the system after each block.
CELLS_PER_BLOCK = 1 << 21


def blocks(rows: int, n_trees: int, *, what: str, most_rows: int | None = None) -> Iterator[tuple[int, int]]:
    """Ranges of rows, small enough to hold one number per row and tree, with a progress bar if it takes long."""
    step = max(1, min(CELLS_PER_BLOCK // max(1, n_trees), rows if most_rows is None else most_rows))
    with rows_bar(what, rows) as bar:
        for start in range(0, rows, step):
            stop = min(rows, start + step)
            yield start, stop
            bar.update(stop - start)
