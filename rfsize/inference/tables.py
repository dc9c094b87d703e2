"""Checks that a stop table fits a forest."""

from __future__ import annotations

from rfsize._util import how_many
from rfsize.stopping.table import StopTable, labels_of
from rfsize.walking.layout import PackedForest

_BY = {"soft": "averaged scores", "hard": "votes"}


def check_fit(table: StopTable, forest: PackedForest, voting: str) -> None:
    """Raise ``ValueError`` if a table does not fit a forest, or its way of voting."""
    misfit = _misfit(table, forest, voting)
    if misfit is not None:
        raise ValueError(f"the table is {misfit}")
    table.stops.on(forest)


def _misfit(table: StopTable, forest: PackedForest, voting: str) -> str | None:
    """What does not fit, and what to do; None if all fits."""
    n_classes, labels = max(1, len(forest.classes)), labels_of(forest.classes)
    if table.stops.adds_up == forest.is_forest:
        known, here = ("boosted", "independent") if forest.is_forest else ("independent", "boosted")
        return f"for {known} trees, and the trees of this model are {here}: {_anew()}"
    if (table.n_trees, table.n_classes) != (forest.n_trees, n_classes):
        own = _spoken(forest.n_trees, n_classes)
        return f"for {_spoken(table.n_trees, table.n_classes)}, and the forest has {own}: {_anew()}"
    # A booster stores no labels, only class indices.
    if table.classes != labels and not {None, tuple(range(n_classes))} & {table.classes, labels}:
        return f"for the classes {table.classes!s:.100}, and the forest has {labels!s:.100}: {_anew()}"
    if n_classes == 2 and table.threshold not in (None, forest.threshold):
        above = f"threshold={forest.threshold!r}"
        return f"for threshold={table.threshold!r}, found {above}: leave threshold out, or {_anew(above)}"
    certified = None if table.certificate is None else table.certificate.forest
    if None not in (certified, forest.digest) and certified != forest.digest:
        return f"certified for another forest with as many trees: {_anew()}"
    if forest.is_pruned and table.alpha < 1.0 and table.certificate is None:
        return f"for independent trees, and rfsize.shrink chose the trees of this forest: {_anew()}"
    if forest.classes.size and table.metric == "scores":
        instead = _anew("metric='probabilities'", "tolerance=…")
        return f"for scores, and a compiled classifier gives probabilities: {instead}"
    if table.voting != voting:
        leave_out = f"leave voting out, or {_anew(f'voting={voting!r}')}"
        return f"for labels by {_BY[table.voting]}, and labels are to go by {_BY[voting]}: {leave_out}"
    return None


def _spoken(n_trees: int, n_classes: int) -> str:
    classes = f"{n_classes} classes" if n_classes > 1 else "no classes"
    return f"{how_many(n_trees, 'tree')} and {classes}"


def _anew(*options: str) -> str:
    """What to do, as a call with options to copy."""
    return f"make a table for this model, StopTable.calibrate({', '.join(('model', 'X', *options))})"
