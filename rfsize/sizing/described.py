"""Facts about the model for the page of a report: its kind and parameters, and what a smaller forest saves."""

from __future__ import annotations

import inspect
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple

from rfsize.adapters.base import Adapter
from rfsize.adapters.registry import adapter_for, integration_for, integration_of
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.utils import matrix
from rfsize.utils.words import how_many

# How many rows are timed together, and how often; the fastest time counts, since nothing else disturbed it.
_TIMED, _TIMES = 1000, 3


class Weight(NamedTuple):
    """The size and the speed of a forest.

    Attributes
    ----------
    n_bytes : int
        Bytes of the model as its framework saves it.
    seconds : float
        Time that its own ``predict`` takes per row, in a batch.
    """

    n_bytes: int
    seconds: float


class Savings(NamedTuple):
    """Size and speed of the forest at hand and of the smaller one.

    Attributes
    ----------
    before, after : Weight
    n_rows : int
        Number of rows in the batch that was timed.
    """

    before: Weight
    after: Weight
    n_rows: int


def to_time(forest: ForestOnRows) -> Any:
    """Rows on which predictions are timed."""
    return matrix.take(forest.X, 0, min(forest.n_rows, _TIMED))


def savings(outputs: Evidence | None, n_trees: int) -> Savings | None:
    """What a cut to the first trees saves; None if the model or the rows are not in memory."""
    forest = None if outputs is None else outputs.forest
    if type(forest) is not ForestOnRows or n_trees >= forest.adapter.n_trees:
        return None
    rows = to_time(forest)
    small = adapter_for(forest.adapter.truncated(n_trees), casts_votes=False)
    return Savings(weight_of(forest.adapter, rows), weight_of(small, rows), matrix.n_rows(rows))


def weight_of(adapter: Adapter, rows: Any) -> Weight:
    """Size and speed of a forest; its own ``predict`` is timed on all rows together."""
    integration = integration_for(adapter.booster)
    times = []
    for _ in range(_TIMES):
        start = perf_counter()
        integration.predictions(adapter.booster, rows)
        times.append(perf_counter() - start)
    return Weight(adapter.n_bytes, min(times) / matrix.n_rows(rows))


def described(outputs: Evidence | None) -> tuple[tuple[str, str], ...]:
    """The model, its trees and its parameters; empty if the model is not at hand."""
    forest = None if outputs is None else outputs.forest
    if type(forest) is not ForestOnRows:
        return ()
    adapter = forest.adapter
    kind = type(adapter.booster).__name__ if adapter.holder is None else adapter.holder.kind
    n_classes = len(adapter.classes)
    of = f"{n_classes} classes" if n_classes else "regression"
    leaves = len(adapter.leaves.score) / adapter.leaves.offset.size
    trees = ("trees", f"{adapter.n_trees:,}, of {leaves:,.0f} leaves on average")
    known = ", ".join(f"{name}={value}" for name, value in _parameters(adapter.booster).items())
    return (
        ("model", f"{kind} ({adapter.framework}), {of}, {how_many(adapter.n_features, 'column')}"),
        trees if adapter.are_trees else ("members", f"{adapter.n_trees:,}"),
        *((("parameters", known),) if known else ()),
    )


def _parameters(booster: Any) -> dict[str, Any]:
    """The training parameters that the model stores; for an estimator, only those that differ from the defaults."""
    if hasattr(booster, "get_params"):
        usual = inspect.signature(type(booster)).parameters
        given = booster.get_params(deep=False).items()
        return {name: value for name, value in given if name not in usual or usual[name].default is not value}
    integration = integration_of(booster)
    with suppress(ValueError):
        return {} if integration is None else integration.parameters_of(booster)
    return {}
