"""Models that somebody damaged, or wrote: what reading them runs into becomes an error of rfsize's own.

What can be checked is checked where it is read, and named; the rest ends here, so that no error is left over.
"""

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
LARGEST_SCORE = 1e300  # of a leaf: larger ones overflow where they are summed


@contextmanager
def damage_refused() -> Iterator[None]:
    """Turns what goes wrong inside into `NotAForestError`, but for what rfsize itself raises."""
    try:
        yield
    except (NotAForestError, InbagError):
        raise
    except DAMAGE as error:
        refuse(f"reading it raises {type(error).__name__}, {str(error)[:200]!r}", error)


def refuse(found: str, cause: Exception | None = None) -> NoReturn:
    """Raise `NotAForestError` for a damaged model, with what was found."""
    raise NotAForestError(f"the model is damaged: {found}; save the original model again, or train it again") from cause


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


def whole_numbers(found: Any, name: str, least: int, most: int) -> Int64s:
    """The same for many of them."""
    try:
        values = np.asarray(found, dtype=np.float64)
    except OverflowError:
        refuse(f"{name} holds a number of more than 64 bits")
    within = (values >= least) & (values <= most) & (values == np.floor(values))
    if values.ndim != 1 or not within.all():
        refuse(f"{name} holds something other than whole numbers from {least} to {most}")
    return values.astype(np.int64)


# What a value of a JSON document is to be, and the Python types that it then has; true and false count as 1 and 0.
WHOLE, NUMBER, TEXT = "whole number", "number", "text"
_TYPES: dict[str, set[type]] = {WHOLE: {int, bool}, NUMBER: {int, float, bool}, TEXT: {str}}


def check_form(found: Any, form: Any, name: str) -> None:
    """That a part of a JSON document has the form in which it is read, before it is.

    Parameters
    ----------
    found : Any
        The part.
    form : dict, list or str
        The keys that are read of an object and the form of each, a name ending in ``?`` where there need not be one;
        a list of the one form that each entry of a list has; or the kind of a value.
    name : str
        What the part is called.
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
    """What was found, in a few words whatever it is."""
    if isinstance(found, (dict, list)):
        return "an object" if isinstance(found, dict) else f"a list of {len(found)}"
    return repr(found)[:40] if not isinstance(found, int) or abs(found) < 1 << 64 else "a number of more than 64 bits"


def check_children(left: Int64s, right: Int64s, n_nodes: int, name: str) -> None:
    """That the children of the splits of a tree are nodes below its root, each the child of one: every walk ends."""
    children = np.concatenate([left, right])
    if children.size and not 1 <= children.min() <= children.max() < n_nodes:
        refuse(f"a split of {name} has a child that is not a node of the tree")
    if np.unique(children).size < children.size:
        refuse(f"two splits of {name} share a child, so it is not a tree")


_DEEPEST = 1 << 14  # frameworks look for the depth of a tree by calls within calls


def check_depth(left: Int64s, right: Int64s, name: str) -> None:
    """That a tree is not so deep that its framework runs out of stack; -1 stands for the children of a leaf."""
    if len(left) <= 2 * _DEEPEST:
        return
    level, depth = np.zeros(1, dtype=np.int64), 0
    while level.size:
        level = level[left[level] != -1]
        level = np.concatenate([left[level], right[level]])
        depth += 1
        if depth > _DEEPEST:
            refuse(f"{name} is more than {_DEEPEST:,} splits deep")
