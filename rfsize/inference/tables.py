"""Checks that a stop table fits a forest."""

from __future__ import annotations

from typing import Any

from rfsize._util import how_many
from rfsize.models.model import Forest, Model
from rfsize.stopping.table import StopTable, labels_of
from rfsize.stopping.votes import WeightedVote
from rfsize.walking.layout import PackedForest

_MOST_SHOWN = 5  # class labels in a message


def check_table(model: Model, table: StopTable | None) -> None:
    """Raise ``ValueError`` if ``table`` is no table for the trees of a forest."""
    if not isinstance(table, StopTable | None):
        raise ValueError(f"table is a {type(table).__name__}: give a StopTable, such as StopTable.calibrate(model, X)")
    if table is not None and isinstance(model, Forest) and isinstance(table.stops, WeightedVote):
        raise ValueError(
            "the table is for members with weights, but the trees of a forest count alike: use StopTable.calibrate "
            "or StopTable.build"
        )


def check_fit(table: StopTable, forest: PackedForest, voting: str) -> None:
    """Raise ``ValueError`` if a table does not fit a forest, or its way of voting."""
    n_classes = len(forest.classes)
    if table.stops.adds_up == forest.is_forest:
        known, here = ("boosted", "independent") if forest.is_forest else ("independent", "boosted")
        raise ValueError(
            f"the table is for {known} trees, and the trees of this model are {here}: make a table for it by "
            "StopTable.calibrate(model, X)"
        )
    _check_size(table, forest)
    certified = None if table.certificate is None else table.certificate.forest
    if None not in (certified, forest.digest) and certified != forest.digest:
        raise ValueError(
            "the table is certified for another forest with as many trees: make a table for this forest, "
            "StopTable.calibrate(model, X)"
        )
    if forest.is_pruned and table.alpha < 1.0 and table.certificate is None:
        raise ValueError(
            "the table is for independent trees, and rfsize.shrink chose the trees of this forest: make a table "
            "for it by StopTable.calibrate(model, X), or with alpha=1"
        )
    if n_classes and table.metric == "scores":
        raise ValueError(
            "the table was calibrated for scores, and a compiled classifier gives probabilities: make one by "
            "StopTable.calibrate(model, X, metric='probabilities', tolerance=…)"
        )
    if table.voting != voting:
        by = {"soft": "averaged scores", "hard": "votes"}
        raise ValueError(
            f"the table is of {by[table.voting]}, but labels are to go by {by[voting]}: leave voting out, or make a "
            f"table by StopTable.{'calibrate' if voting == 'soft' else 'build'}"
        )
    table.stops.on(forest)


def _check_size(table: StopTable, forest: PackedForest) -> None:
    """Raise ``ValueError`` if a table is for another number of trees, other classes or another threshold."""
    n_classes, labels, trees = max(1, len(forest.classes)), labels_of(forest.classes), how_many(forest.n_trees, "tree")
    if (table.n_trees, table.n_classes) != (forest.n_trees, n_classes):
        raise ValueError(
            f"the table is for {how_many(table.n_trees, 'tree')} and {_spoken(table.n_classes)}, the forest has "
            f"{trees} and {_spoken(n_classes)}: make one for {trees}"
        )
    # A booster stores no labels, only class indices.
    is_known = table.classes is not None and labels is not None
    if is_known and table.classes != labels and tuple(range(n_classes)) not in (table.classes, labels):
        raise ValueError(
            f"the table is for the classes {_shown(table.classes)}, the forest has {_shown(labels)}: make a table from "
            "this forest"
        )
    if n_classes == 2 and table.threshold not in (None, forest.threshold):
        raise ValueError(
            f"the table was made for a threshold of {table.threshold:g}, found threshold={forest.threshold:g}: leave "
            "threshold out, which takes that of the table, or make a table for it, by "
            f"StopTable.calibrate(..., threshold={forest.threshold:g}) or from rfsize.tree_outputs(..., "
            f"threshold={forest.threshold:g})"
        )


def _spoken(n_classes: int) -> str:
    return f"{n_classes} classes" if n_classes > 1 else "no classes"


def _shown(classes: Any) -> str:
    return ", ".join(map(repr, classes[:_MOST_SHOWN])) + (", …" if len(classes) > _MOST_SHOWN else "")
