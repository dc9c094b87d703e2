"""Whether a stop table speaks of the labels that a forest gives."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from rfsize.stopping.scoring import known_labels
from rfsize.utils.words import how_many

_SHOWN = 5  # class labels in a message


class SpeaksOfLabels(Protocol):
    """What is compared of a stop table."""

    @property
    def n_trees(self) -> int: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def classes(self) -> tuple[Any, ...] | None: ...
    @property
    def threshold(self) -> float | None: ...


def check_labels(table: SpeaksOfLabels, n_trees: int, classes: NDArray[Any], threshold: float | None) -> None:
    """Raise ``ValueError`` where a table is for other trees, classes or labels above another threshold than a forest.

    Parameters
    ----------
    table : StopTable
    n_trees : int
        Trees of the forest.
    classes : ndarray, shape (n_classes,)
        Its class labels; empty for regression.
    threshold : float or None
        Probability of class 1 above which it predicts class 1; None where there are other than two classes.
    """
    n_classes = len(classes)
    if (table.n_trees, table.n_classes) != (n_trees, max(1, n_classes)):
        trees = how_many(n_trees, "tree")
        raise ValueError(
            f"the table is for {how_many(table.n_trees, 'tree')} and {_spoken(table.n_classes)}, the forest has "
            f"{trees} and {_spoken(n_classes)}: make one for {trees}"
        )
    if not _same_classes(table.classes, known_labels(classes)):
        raise ValueError(
            f"the table is for the classes {_shown(table.classes)}, the forest has {_shown(classes.tolist())}: make a "
            "table from this forest"
        )
    if None not in (table.threshold, threshold) and table.threshold != threshold:
        raise ValueError(
            f"the table is for labels that are class 1 above a probability of {table.threshold:g}, and threshold is "
            f"{threshold:g}: leave threshold out, which takes that of the table, or make a table for it, by "
            f"StopTable.calibrate(..., threshold={threshold:g}) or from rfsize.votes(..., threshold={threshold:g})"
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
