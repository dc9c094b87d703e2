"""Facts about the model for the page of a report: its kind and parameters."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

import numpy as np

from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.models.framework import framework_of
from rfsize.utils.words import how_many


def described(outputs: Evidence | None) -> tuple[tuple[str, str], ...]:
    """The model, its trees and its parameters; empty if the model is not at hand."""
    forest = None if outputs is None else outputs.forest
    if type(forest) is not ForestOnRows:
        return ()
    adapter = forest.adapter
    kind = type(adapter.booster).__name__ if adapter.wrapper is None else adapter.wrapper.kind
    n_classes = len(adapter.classes)
    of = f"{n_classes} classes" if n_classes else "regression"
    members = ("members", f"{adapter.n_trees:,}")
    if adapter.ensemble is not None:
        leaves = np.count_nonzero(adapter.ensemble.nodes.left == -1) / adapter.ensemble.tree_start.size
        members = ("trees", f"{adapter.n_trees:,}, of {leaves:,.0f} leaves on average")
    known = ", ".join(f"{name}={value}" for name, value in _parameters(adapter.booster).items())
    return (
        ("model", f"{kind} ({adapter.framework}), {of}, {how_many(adapter.n_features, 'column')}"),
        members,
        *((("parameters", known),) if known else ()),
    )


def _parameters(booster: Any) -> dict[str, Any]:
    """The training parameters that the model stores; for an estimator, only those that differ from the defaults."""
    if hasattr(booster, "get_params"):
        usual = inspect.signature(type(booster)).parameters
        given = booster.get_params(deep=False).items()
        return {name: value for name, value in given if name not in usual or usual[name].default is not value}
    framework = framework_of(booster)
    with suppress(ValueError):
        return {} if framework is None or framework.training is None else framework.training.params_of(booster)
    return {}
