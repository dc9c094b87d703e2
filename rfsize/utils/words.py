"""How messages count things."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

# Control characters, what turns the direction of writing or cannot be seen, halves of pairs, and ends of lines.
_NOT_PRINTED = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def how_many(count: int | float, noun: str) -> str:
    """A number before its noun, such as ``1 tree`` or ``1,200 trees``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def in_percent(share: float) -> str:
    """A share such as "99 %" or "99.03 %": with two decimals at most, or as many as tell it from 0 and 100 %."""
    away = min(share, 1.0 - share)
    decimals = 2 if away <= 0.0 else min(max(2, math.ceil(round(-math.log10(away), 6)) - 2), 10)
    return f"{round(100.0 * share, decimals):.{decimals}f}".rstrip("0").rstrip(".") + " %"


def printable(name: Any) -> str:
    """A name that others chose, of a class or a column, as text that a terminal or a page prints and does not obey.

    It comes from a model or a file, which anyone may have written: control characters stand as Python escapes them.
    """
    text = str(name)
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode() if unicodedata.category(letter) in _NOT_PRINTED else letter
