"""Helpers for the text of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

_Class = TypeVar("_Class")

# Most classes that a page lists.
_CLASSES_SAID = 12


def sentence(text: str) -> str:
    """Make a sentence of a remark: start with a capital, and end with a period."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def most_changed(classes: Iterable[_Class], change: Callable[[_Class], float]) -> tuple[list[_Class], str]:
    """The classes that change most, as many as there is room for, and a heading for them."""
    known = sorted(classes, key=change, reverse=True)
    some = known[:_CLASSES_SAID]
    of_many = "" if len(some) == len(known) else f", the {len(some)} of {len(known)} that change most"
    return some, f"by class{of_many}"
