"""Warnings of the command line: a line each, and once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rfsize.sizing.base import Report
from rfsize.utils.words import printable


@contextmanager
def in_one_line() -> Iterator[None]:
    """Print warnings as what is wrong, without the line of Python that comes upon it."""
    format_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"rfsize: warning: {printable(str(message))}\n"
    try:
        yield
    finally:
        warnings.formatwarning = format_before


@contextmanager
def not_said_twice() -> Iterator[Callable[[Report], None]]:
    """Hold warnings back until the end, and then give those which no report says that this is told of."""
    said: set[str] = set()
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # it is for the filters outside to say what becomes of those that are given
            yield lambda report: said.update(one.text for one in report.warnings)
    finally:
        for one in caught:
            if str(one.message) not in said:
                said.add(str(one.message))
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
