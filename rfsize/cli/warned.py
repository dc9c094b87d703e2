"""Warnings of the command line: a line each, and once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rfsize.sizing.report import Report
from rfsize.utils.words import printable


@contextmanager
def each_warning_once() -> Iterator[Callable[[Report], None]]:
    """Hold warnings back until the end, and then print what is wrong, unless a report says it that this is told of."""
    said: set[str] = set()
    caught: list[warnings.WarningMessage] = []
    format_before = warnings.formatwarning
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # it is for the filters outside to say what becomes of those that are given
            yield lambda report: said.update(one.text for one in report.warnings)
    finally:
        # Without the line of Python that comes upon it.
        warnings.formatwarning = lambda message, *_, **__: f"rfsize: warning: {printable(str(message))}\n"
        for one in caught:
            if str(one.message) not in said:
                said.add(str(one.message))
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        warnings.formatwarning = format_before
