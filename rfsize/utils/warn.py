"""Warnings that point at the line of the caller."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rfsize.utils.words import as_arguments


@dataclass(frozen=True)
class Caution:
    """A warning that a result carries. The result prints the same words that Python warns with.

    Attributes
    ----------
    category : type
        The class of the Python warning.
    text : str
        What is wrong, and what to do.
    options : dict
        Arguments of the call that helps, if one call does: of `rfsize.size`, or of `rfsize.shrink` for its reports.
        Code is made from them and never from ``text``, which may hold names of strangers.
    spares_labels : bool
        Whether labels are as they would be without what the warning is about.
    """

    category: type[Warning]
    text: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    spares_labels: bool = False

    @classmethod
    def advising(cls, category: type[Warning], text: str, **options: Any) -> Caution:
        """A warning whose text ends with the advice to give these arguments."""
        return cls(category, f"{text} by {as_arguments(options)}", options)

    def to_dict(self) -> dict[str, str]:
        """Plain Python values that ``json`` can write."""
        return {"category": self.category.__name__, "text": self.text}


def give(cautions: Iterable[Caution], *, through: str | None = None) -> None:
    """Give all warnings; ``through`` as in `warn`."""
    for caution in cautions:
        warn(caution.text, caution.category, through=through)


def warn(message: str, category: type[Warning], *, through: str | None = None) -> None:
    """Warn at the first frame outside rfsize, and outside the package ``through`` if that package calls rfsize."""
    inside = {__name__.partition(".")[0], through}
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
