"""Damaged or forged models: the code that reads them checks each part, and refuses what it finds by name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from rfsize.exceptions import InbagError, NotAForestError
from rfsize.utils.archive import DAMAGE
from rfsize.utils.typing import Int64s

MOST_FEATURES = 1 << 24
LARGEST_SCORE = 1e300  # of a leaf: sums of larger scores overflow


@contextmanager
def damage_refused() -> Iterator[None]:
    """Turn errors of a block that reads a file into `NotAForestError`; rfsize's own errors pass.

    Not for models in memory: their parts are checked by name, and any other error there is a fault of rfsize.
    """
    try:
        yield
    except (NotAForestError, InbagError):
        raise
    except DAMAGE as error:
        refuse(f"reading it raises {type(error).__name__}, {str(error)[:200]!r}", error)


def refuse(found: str, cause: Exception | None = None) -> NoReturn:
    """Raise `NotAForestError` for a damaged model; ``found`` says what is wrong."""
    raise NotAForestError(f"the model is damaged: {found}; save the original model again, or train it again") from cause


def number(found: Any, name: str, least: float, most: float) -> float:
    """Read a finite number from a model's text; ``least`` and ``most`` hold for every valid forest."""
    try:
        value = float(found)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not least <= value <= most:
        refuse(f"{name} is {str(found)[:40]!r}, not a number from {least:g} to {most:g}")
    return value


def whole_number(found: Any, name: str, least: int, most: int) -> int:
    """Read a whole number from a model's text, within bounds."""
    value = number(found, name, least, most)
    if not value.is_integer():
        refuse(f"{name} is {str(found)[:40]!r}, not a whole number")
    return int(value)


def whole_numbers(found: Any, name: str, least: int, most: int) -> Int64s:
    """Read an array of whole numbers from a model's text, within bounds."""
    try:
        values = np.asarray(found, dtype=np.float64)
    except OverflowError:
        refuse(f"{name} holds a number of more than 64 bits")
    within = (values >= least) & (values <= most) & (values == np.floor(values))
    if values.ndim != 1 or not within.all():
        refuse(f"{name} holds something other than whole numbers from {least} to {most}")
    return values.astype(np.int64)


# Kinds of values in a JSON document, and the Python types allowed for each kind; true and false count as 1 and 0.
WHOLE, NUMBER, TEXT = "whole number", "number", "text"
_TYPES: dict[str, set[type]] = {WHOLE: {int, bool}, NUMBER: {int, float, bool}, TEXT: {str}}


def check_form(found: Any, form: Any, name: str) -> None:
    """Check the form of a part of a JSON document before it is read.

    Parameters
    ----------
    found : Any
        The part.
    form : dict, list or str
        For an object, a dict from the keys that are read to their forms; a key that ends in ``?`` is optional. For a
        list, a list with the form of its entries. For a value, its kind.
    name : str
        Name of the part, for messages.
    """
    if isinstance(form, dict):
        _check_object(found, form, name)
    elif isinstance(form, list):
        _check_list(found, form[0], name)
    elif type(found) not in _TYPES[form]:
        refuse(f"{name} is {_short(found)}, expected a {form}")


def _check_object(found: Any, form: dict[str, Any], name: str) -> None:
    if not isinstance(found, dict):
        refuse(f"{name} is {_short(found)}, expected an object")
    for key, of_key in form.items():
        key, optional = key.removesuffix("?"), key.endswith("?")
        if key in found:
            check_form(found[key], of_key, f"{name}.{key}")
        elif not optional:
            refuse(f"{name} has no {key!r}")


def _check_list(found: Any, of_each: Any, name: str) -> None:
    kind = of_each if isinstance(of_each, str) else "object"
    if not isinstance(found, list):
        refuse(f"{name} is {_short(found)}, expected a list of {kind}s")
    if kind not in _TYPES:
        for index, entry in enumerate(found):
            check_form(entry, of_each, f"{name}[{index}]")
        return
    other = set(map(type, found)) - _TYPES[kind]  # all at once: there may be millions
    if other:
        refuse(f"{name} holds a {min(one.__name__ for one in other)}, expected only {kind}s")
    try:
        np.array(found, dtype={WHOLE: np.int64, NUMBER: np.float64}.get(kind))
    except OverflowError:
        refuse(f"{name} holds a number of more than 64 bits")


def _short(found: Any) -> str:
    """A short description of any found value."""
    if isinstance(found, (dict, list)):
        return "an object" if isinstance(found, dict) else f"a list of {len(found)}"
    return repr(found)[:40] if not isinstance(found, int) or abs(found) < 1 << 64 else "a number of more than 64 bits"


def check_children(left: Int64s, right: Int64s, n_nodes: int, name: str) -> None:
    """Check that each child is a node below the root and has one parent, so that every walk down the tree ends."""
    children = np.concatenate([left, right])
    if children.size and not 1 <= children.min() <= children.max() < n_nodes:
        refuse(f"a split of {name} has a child that is not a node of the tree")
    if np.unique(children).size < children.size:
        refuse(f"two splits of {name} share a child, so it is not a tree")


_DEEPEST = 1 << 14  # frameworks compute the depth of a tree by recursion


def check_depth(left: Int64s, right: Int64s, name: str) -> None:
    """Check that a tree is not so deep that its framework runs out of stack; the children of a leaf are -1."""
    if len(left) <= 2 * _DEEPEST:
        return
    level, depth = np.zeros(1, dtype=np.int64), 0
    while level.size:
        level = level[left[level] != -1]
        level = np.concatenate([left[level], right[level]])
        depth += 1
        if depth > _DEEPEST:
            refuse(f"{name} is more than {_DEEPEST:,} splits deep")
