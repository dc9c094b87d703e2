"""Models that somebody damaged, or wrote: what reading them runs into becomes an error of rfsize's own.

What can be checked is checked where it is read, and named; the rest ends here, so that no error is left over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rfsize.errors import InbagError, NotAForestError

MOST_FEATURES = 1 << 24
LARGEST_SCORE = 1e300  # of a leaf: larger ones overflow where they are summed

# A MemoryError is a size that no file of a forest justifies; endless depth is a RecursionError, a RuntimeError.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


@contextmanager
def damage_refused() -> Iterator[None]:
    """Turns what goes wrong inside into `NotAForestError`, but for what rfsize itself raises."""
    try:
        yield
    except (NotAForestError, InbagError):
        raise
    except _DAMAGE as error:
        refuse(f"reading it ends in a {type(error).__name__}, {str(error)[:200]!r}", error)


def refuse(found: str, cause: Exception | None = None) -> NoReturn:
    """Raise `NotAForestError` for a damaged model, with what was found."""
    raise NotAForestError(
        f"the model is damaged: {found}; save it again where it is whole, or train it again"
    ) from cause


def number(found: Any, name: str, least: float, most: float) -> float:
    """A finite number of a model from its text, within bounds that every forest keeps."""
    try:
        value = float(found)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not least <= value <= most:
        refuse(f"{name} is {str(found)[:40]!r}, not a number from {least:g} to {most:g}")
    return value


def whole_number(found: Any, name: str, least: int, most: int) -> int:
    """The same for a whole number."""
    value = number(found, name, least, most)
    if not value.is_integer():
        refuse(f"{name} is {str(found)[:40]!r}, not a whole number")
    return int(value)


def whole_numbers(found: Any, name: str, least: int, most: int) -> NDArray[np.int64]:
    """The same for many of them."""
    values = np.asarray(found, dtype=np.float64)
    within = (values >= least) & (values <= most) & (values == np.floor(values))
    if values.ndim != 1 or not within.all():
        refuse(f"{name} holds what is not a whole number from {least} to {most}")
    return values.astype(np.int64)


def check_children(left: NDArray[np.int64], right: NDArray[np.int64], n_nodes: int) -> None:
    """That the children of the splits of a tree are nodes below its root, each the child of one: every walk ends."""
    children = np.concatenate([left, right])
    if children.size and not 1 <= children.min() <= children.max() < n_nodes:
        refuse("a split of a tree has a child that is no node of it")
    if np.unique(children).size < children.size:
        refuse("two splits of a tree share a child, so that it is no tree")
