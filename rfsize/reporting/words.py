"""How pages print what reports say."""

from __future__ import annotations


def sentence(text: str) -> str:
    """A remark as a sentence of its own."""
    return text[:1].upper() + text[1:].rstrip(".") + "."
