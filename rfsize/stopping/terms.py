"""What a stop table is for: a forest with its labels, and what its rows are to keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.stopping.document import Fields, refuse
from rfsize.utils.files import short
from rfsize.utils.typing import Floats
from rfsize.utils.validation import whole
from rfsize.utils.words import how_many

MAX_TREES = 10_001
"""The largest forest that a table can be built for."""

TARGETS = ("forest", "limit")

_LONGEST_NAME = 10_000  # characters of a class label in a file
_SHOWN = 5  # class labels in a message


@dataclass(frozen=True, eq=False)
class Terms:
    """What a stop table is for: the first fields of `rfsize.StopTable`, where each is explained."""

    n_trees: int
    n_classes: int
    alpha: float
    rule: str
    target: str
    prior: Floats | None
    nominal: float | None = None
    classes: tuple[Any, ...] | None = None
    threshold: float | None = None

    @property
    def built_for(self) -> float:
        """The alpha that the stops were built with, which need not be the one that is certified of them."""
        return self.alpha if self.nominal is None else self.nominal

    @property
    def class_labels(self) -> tuple[bool | int | float | str, ...]:
        """Class labels, or the classes' numbers where the labels are not known."""
        return tuple(range(self.n_classes)) if self.classes is None else self.classes

    def check_labels(self, n_trees: int, classes: NDArray[Any], threshold: float | None) -> None:
        """Raise ``ValueError`` where the table is not for a forest's trees, classes and threshold."""
        n_classes, labels, trees = max(1, len(classes)), labels_of(classes), how_many(n_trees, "tree")
        if (self.n_trees, self.n_classes) != (n_trees, n_classes):
            raise ValueError(
                f"the table is for {how_many(self.n_trees, 'tree')} and {_spoken(self.n_classes)}, the forest has "
                f"{trees} and {_spoken(n_classes)}: make one for {trees}"
            )
        # A booster knows its classes by their numbers alone.
        is_known = self.classes is not None and labels is not None
        if is_known and self.classes != labels and tuple(range(n_classes)) not in (self.classes, labels):
            raise ValueError(
                f"the table is for the classes {_shown(self.classes)}, the forest has {_shown(labels)}: make a "
                "table from this forest"
            )
        if None not in (self.threshold, threshold) and self.threshold != threshold:
            raise ValueError(
                f"the table is for labels that are class 1 above a probability of {self.threshold:g}, and threshold is "
                f"{threshold:g}: leave threshold out, which takes that of the table, or make a table for it, by "
                f"StopTable.calibrate(..., threshold={threshold:g}) or from "
                f"rfsize.tree_outputs(..., threshold={threshold:g})"
            )


def checked_trees(n_trees: int) -> int:
    """The number of a forest's trees, where it is no larger than a table may be for."""
    try:
        return whole("n_trees", n_trees, at_least=1, at_most=MAX_TREES)
    except ValueError as error:
        raise ValueError(f"{error}; truncate a larger forest first (rfsize.truncate)") from None


def labels_of(classes: NDArray[Any]) -> tuple[Any, ...] | None:
    """Class labels as a table's file can hold them: numbers or text; None of others."""
    labels = tuple(classes.tolist())
    return labels if labels and all(type(label) in (bool, int, float, str) for label in labels) else None


def stored_labels(fields: Fields, n_classes: int) -> tuple[Any, ...] | None:
    """Labels of a file, checked; None where there are none."""
    value = fields["classes"]
    if value is None:
        return None
    if type(value) is not list or len(value) != n_classes:
        refuse(f"classes must be a list of {n_classes}, found {short(value)}")
    for label in value:
        fits = type(label) in (bool, int, float) or (type(label) is str and len(label) <= _LONGEST_NAME)
        if not fits or (type(label) is int and label.bit_length() > 64):
            refuse(f"classes must be numbers or text, found {short(label)}")
    if len(set(value)) != n_classes or not all(type(label) is str or np.isfinite(label) for label in value):
        refuse(f"classes must be different from each other and finite, found {short(value)}")
    return tuple(value)


def stored_threshold(fields: Fields, n_classes: int, *, is_needed: bool) -> float | None:
    """The threshold of a file's labels, checked; None where there is none."""
    value = fields["threshold"]
    if value is None and not is_needed:
        return None
    if n_classes != 2 or type(value) is not float or not 0.0 < value < 1.0:
        refuse(f"threshold must be a probability of two classes, or null, found {short(value)} of {n_classes} classes")
    return value


def _spoken(n_classes: int) -> str:
    return f"{n_classes} classes" if n_classes > 1 else "no classes"


def _shown(classes: Any) -> str:
    return ", ".join(map(repr, classes[:_SHOWN])) + (", …" if len(classes) > _SHOWN else "")
