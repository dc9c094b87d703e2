"""Class labels of a stop table: how its file holds them, and whether they are those of a forest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.stopping.document import Fields, refuse
from rfsize.utils.files import short
from rfsize.utils.words import how_many

_LONGEST_NAME = 10_000  # characters of a class label in a file
_SHOWN = 5  # class labels in a message


def known_labels(classes: NDArray[Any]) -> tuple[Any, ...] | None:
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


class Scope(NamedTuple):
    """What a table is for, or a forest has.

    Attributes
    ----------
    n_trees : int
    n_classes : int
        1 of a regression.
    labels : tuple or None
        Class labels, where they are known.
    threshold : float or None
        Probability of class 1 above which it is predicted, where it is known; of two classes.
    """

    n_trees: int
    n_classes: int
    labels: tuple[Any, ...] | None
    threshold: float | None

    def check(self, forest: Scope) -> None:
        """Raise ``ValueError`` where a forest is another than that which a table of this scope is for."""
        if (self.n_trees, self.n_classes) != (forest.n_trees, forest.n_classes):
            trees = how_many(forest.n_trees, "tree")
            raise ValueError(
                f"the table is for {how_many(self.n_trees, 'tree')} and {_spoken(self.n_classes)}, the forest has "
                f"{trees} and {_spoken(forest.n_classes)}: make one for {trees}"
            )
        if not _same_classes(self.labels, forest.labels):
            raise ValueError(
                f"the table is for the classes {_shown(self.labels)}, the forest has {_shown(forest.labels)}: make a "
                "table from this forest"
            )
        own, other = self.threshold, forest.threshold
        if None not in (own, other) and own != other:
            raise ValueError(
                f"the table is for labels that are class 1 above a probability of {own:g}, and threshold is "
                f"{other:g}: leave threshold out, which takes that of the table, or make a table for it, by "
                f"StopTable.calibrate(..., threshold={other:g}) or from rfsize.tree_outputs(..., threshold={other:g})"
            )


def _same_classes(one: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> bool:
    """Whether class labels are equal, where both are known; a booster knows its classes by their numbers alone."""
    if one is None or other is None:
        return True
    numbers = tuple(range(len(one)))
    return one == other or numbers in (one, other)


def _spoken(n_classes: int) -> str:
    return f"{n_classes} classes" if n_classes > 1 else "no classes"


def _shown(classes: Any) -> str:
    return ", ".join(map(repr, classes[:_SHOWN])) + (", …" if len(classes) > _SHOWN else "")
