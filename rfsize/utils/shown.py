"""Small HTML tables that notebooks show in place of a line of text."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from rfsize.utils.words import printable


def shown(title: str, facts: Mapping[str, Any]) -> str:
    """An HTML table with a title and named facts. Everything is escaped, because class names can come from anyone."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align: left">{_text(name)}</th>'
        f'<td style="text-align: left">{_text(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f"<div><strong>{_text(title)}</strong><table>{rows}</table></div>"


def _text(value: Any) -> str:
    return escape(printable(value))
