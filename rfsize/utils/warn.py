"""Warnings that point at the caller's own line."""

from __future__ import annotations

import sys
import warnings


def warn(message: str, category: type[Warning], *, through: str | None = None) -> None:
    """Warn at the first frame outside rfsize, and outside the package ``through`` where that is what calls rfsize."""
    inside = {__name__.partition(".")[0], through}
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
