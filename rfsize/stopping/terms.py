"""What a stop table is for: the size and the labels of a forest, and the share of rows that must agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rfsize._util import Floats, how_many, whole
from rfsize.counting.training_rows import TreesOnRows
from rfsize.statistics.certify import RiskTarget

MAX_TREES = 10_001
"""The largest forest that a table can be built for."""

_SHOWN = 5  # class labels in a message


@dataclass(frozen=True, eq=False)
class Terms:
    """The first fields of `rfsize.StopTable`, which explains them."""

    n_trees: int
    n_classes: int
    alpha: float
    prior: Floats | None = None
    nominal: float | None = None
    classes: tuple[Any, ...] | None = None
    threshold: float | None = None

    @classmethod
    def of_forest(cls, trees: TreesOnRows, promise: RiskTarget) -> Terms:
        """The terms of a table that is calibrated on rows of a forest."""
        adapter = trees.forest
        n_trees, n_classes = checked_trees(adapter.n_trees), max(1, adapter.classes.size)
        at = trees.threshold if promise.metric == "labels" or promise.average == "macro" else None
        labels = labels_of(adapter.classes)
        return cls(n_trees, n_classes, promise.alpha, classes=labels, threshold=at)

    @property
    def built_for(self) -> float:
        """The alpha that the stops were built with. The certified alpha can be another."""
        return self.alpha if self.nominal is None else self.nominal

    @property
    def class_labels(self) -> tuple[bool | int | float | str, ...]:
        """Class labels, or class indices if the labels are not known."""
        return tuple(range(self.n_classes)) if self.classes is None else self.classes

    def check_labels(self, n_trees: int, classes: NDArray[Any], threshold: float | None) -> None:
        """Raise ``ValueError`` if the table does not fit the trees, classes and threshold of a forest."""
        n_classes, labels, trees = max(1, len(classes)), labels_of(classes), how_many(n_trees, "tree")
        if (self.n_trees, self.n_classes) != (n_trees, n_classes):
            raise ValueError(
                f"the table is for {how_many(self.n_trees, 'tree')} and {_spoken(self.n_classes)}, the forest has "
                f"{trees} and {_spoken(n_classes)}: make one for {trees}"
            )
        # A booster stores no labels, only class indices.
        is_known = self.classes is not None and labels is not None
        if is_known and self.classes != labels and tuple(range(n_classes)) not in (self.classes, labels):
            raise ValueError(
                f"the table is for the classes {_shown(self.classes)}, the forest has {_shown(labels)}: make a "
                "table from this forest"
            )
        if None not in (self.threshold, threshold) and self.threshold != threshold:
            raise ValueError(
                f"the table was made for a threshold of {self.threshold:g}, found threshold={threshold:g}: leave "
                "threshold out, which takes that of the table, or make a table for it, by "
                f"StopTable.calibrate(..., threshold={threshold:g}) or from rfsize.tree_outputs(..., "
                f"threshold={threshold:g})"
            )


def checked_trees(n_trees: int) -> int:
    """Check that a forest is not too large for a table."""
    try:
        return whole("n_trees", n_trees, at_least=1, at_most=MAX_TREES)
    except ValueError as error:
        raise ValueError(f"{error}; truncate a larger forest first (rfsize.truncate)") from None


def labels_of(classes: NDArray[Any]) -> tuple[Any, ...] | None:
    """Class labels that the file of a table can hold, which are numbers or text; else None."""
    labels = tuple(classes.tolist())
    return labels if labels and all(type(label) in (bool, int, float, str) for label in labels) else None


def _spoken(n_classes: int) -> str:
    return f"{n_classes} classes" if n_classes > 1 else "no classes"


def _shown(classes: Any) -> str:
    return ", ".join(map(repr, classes[:_SHOWN])) + (", …" if len(classes) > _SHOWN else "")
