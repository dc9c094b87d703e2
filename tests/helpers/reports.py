"""What reports say, whatever they know of copies: a Dataset may have given up its rows."""

from __future__ import annotations

from typing import Any


def of_same_votes(report: Any) -> dict[str, Any]:
    """A report without what it says of copies."""
    return {name: value for name, value in report.to_dict().items() if name not in {"copied", "groups"}}
