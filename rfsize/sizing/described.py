"""Facts about the model for the page of a report: its kind and parameters."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

import numpy as np

from rfsize._util import how_many
from rfsize.counting.outputs import TreeOutputs
from rfsize.models.framework import framework_of


def described(outputs: TreeOutputs | None) -> tuple[tuple[str, str], ...]:
    """The model, its trees and its parameters; empty if the model is not at hand."""
    if outputs is None or outputs.task is None:
        return ()
    forest = outputs.task.forest
    kind = type(forest.booster).__name__ if forest.wrapper is None else forest.wrapper.kind
    n_classes = len(forest.classes)
    of = f"{n_classes} classes" if n_classes else "regression"
    members = ("members", f"{forest.n_trees:,}")
    if forest.ensemble is not None:
        leaves = np.count_nonzero(forest.ensemble.nodes.left == -1) / forest.ensemble.tree_start.size
        members = ("trees", f"{forest.n_trees:,}, of {leaves:,.0f} leaves on average")
    known = ", ".join(f"{name}={value}" for name, value in _parameters(forest.booster).items())
    return (
        ("model", f"{kind} ({forest.framework}), {of}, {how_many(forest.n_features, 'column')}"),
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
