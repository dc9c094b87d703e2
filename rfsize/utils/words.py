"""How messages count things."""

from __future__ import annotations


def how_many(count: int | float, noun: str) -> str:
    """A number before its noun, such as ``1 tree`` or ``1,200 trees``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
