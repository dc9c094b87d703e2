"""Numbers and names in messages."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Any

# Control characters, characters that are invisible or change the writing direction, surrogates, and line ends.
_NOT_PRINTED = {"Cc", "Cf", "Cs", "Zl", "Zp"}


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
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode() if unicodedata.category(letter) in _NOT_PRINTED else letter
