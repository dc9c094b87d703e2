"""Checks that a stop table fits a forest."""

from __future__ import annotations

from rfsize.adapters.base import Adapter
from rfsize.stopping.rules.weighted import WeightedStops
from rfsize.stopping.table import StopTable
from rfsize.walking.layout import Forest


def checked_table(adapter: Adapter, given: StopTable | None) -> StopTable | None:
    """The table to compile a forest with. Members with weights get the table of their own weights.

    Raises
    ------
    ValueError
        If the given table is none, has weights and the forest has none, or the weights differ.
    """
    weights = adapter.vote_weights
    if not isinstance(given, StopTable | None):
        raise ValueError(f"table is a {type(given).__name__}: give a StopTable, such as StopTable.calibrate(model, X)")
    if weights is None:
        if given is not None and not given.stops.counts_alike:
            raise ValueError(
                "the table is for members with weights, but the trees of a forest count alike: use StopTable.calibrate "
                "or StopTable.build"
            )
        return given
    stops = WeightedStops(weights.weight, weights.against, weights.total)
    own = StopTable.of(stops.terms(len(adapter.classes)), stops)
    if given is not None and given != own:
        raise ValueError(
            "the trees are boosted, and the table is for independent trees, or for other weights: leave table out"
        )
    return own


def check_fit(table: StopTable, forest: Forest, voting: str) -> None:
    """Raise ``ValueError`` if a table does not fit a forest, or its way of voting."""
    n_classes = len(forest.classes)
    table.check_labels(forest.n_trees, forest.classes, forest.threshold if n_classes == 2 else None)
    certified = None if table.certificate is None else table.certificate.forest
    if None not in (certified, forest.digest) and certified != forest.digest:
        raise ValueError(
            "the table is certified for another forest with as many trees: make a table for this forest, "
            "StopTable.calibrate(model, X)"
        )
    if forest.is_shrunk and table.alpha < 1.0 and table.certificate is None:
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
