"""Checks that a stop table fits a forest."""

from __future__ import annotations

from rfsize.models.model import Forest, Model
from rfsize.stopping.table import StopTable
from rfsize.walking.layout import PackedForest


def check_table(model: Model, table: StopTable | None) -> None:
    """Raise ``ValueError`` if ``table`` is no table for the trees of a forest."""
    if not isinstance(table, StopTable | None):
        raise ValueError(f"table is a {type(table).__name__}: give a StopTable, such as StopTable.calibrate(model, X)")
    if table is None:
        return
    if not isinstance(model, Forest):
        raise ValueError("the table is for independent trees, and the trees of this model are boosted: leave table out")
    if not table.stops.counts_alike:
        raise ValueError(
            "the table is for members with weights, but the trees of a forest count alike: use StopTable.calibrate "
            "or StopTable.build"
        )


def check_fit(table: StopTable, forest: PackedForest, voting: str) -> None:
    """Raise ``ValueError`` if a table does not fit a forest, or its way of voting."""
    n_classes = len(forest.classes)
    table.check_labels(forest.n_trees, forest.classes, forest.threshold if n_classes == 2 else None)
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
    table.stops.check_forest(forest)
