"""Finding what teaches rfsize the framework that a model or training data come from."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter
from rfsize.adapters.trainer import TRAINERS, ForestInTraining, Trainer
from rfsize.errors import NotAForestError


def parameters_of(model: Any) -> dict[str, Any]:
    """The training parameters that a booster remembers, to train more trees like its own.

    Raises
    ------
    ValueError
        If it has forgotten them.
    """
    parameters: dict[str, Any] = _integration(model).parameters_of(model)
    return parameters


def trainer_for(params: dict[str, Any], dtrain: Any) -> Trainer:
    """The trainer of the framework that ``dtrain`` comes from.

    Raises
    ------
    NotAForestError
        If the parameters do not train a forest of independent trees.
    InbagError
        If its bags could not be rebuilt.
    ValueError
        If no integration knows the training data.
    """
    trainer: Trainer = _integration(dtrain).trainer(params, dtrain)
    return trainer


def resumed(adapter: Adapter, dtrain: Any, threshold: float) -> ForestInTraining:
    """A copy of a booster that takes more trees like its own; raises as `Trainer.resume` and `parameters_of`."""
    return trainer_for(parameters_of(adapter.booster), dtrain).resume(adapter.booster, threshold=threshold)


def labels_of(params: dict[str, Any], dtrain: Any) -> NDArray[Any]:
    """Labels of training data, shape (n_rows,); raises ``ValueError`` where no integration knows the data."""
    labels: NDArray[Any] = _integration(dtrain).labels_of(params, dtrain)
    return labels


def fold_votes(
    params: dict[str, Any],
    dtrain: Any,
    train: NDArray[np.int64],
    held_out: NDArray[np.int64],
    *,
    n_trees: int,
    threshold: float,
) -> NDArray[np.int32]:
    """Votes of a forest trained on some of the rows of ``dtrain`` on others, shape (held out rows, n_classes).

    Raises
    ------
    NotAForestError
        If the parameters do not train a forest of independent trees.
    ValueError
        If no integration knows the training data, or rows cannot be taken from them.
    """
    counts: NDArray[np.int32] = _integration(dtrain).fold_votes(
        params, dtrain, train, held_out, n_trees=n_trees, threshold=threshold
    )
    return counts


def _integration(thing: Any) -> Any:
    framework = framework_of(thing)
    if framework in TRAINERS:
        return importlib.import_module(TRAINERS[framework])
    raise ValueError(
        f"found a {type(thing).__module__}.{type(thing).__qualname__}; give a lightgbm.Dataset, or an "
        "xgboost.DMatrix or QuantileDMatrix"
    )


_INTEGRATIONS = {name: f"rfsize.integrations.{name}" for name in ("lightgbm", "xgboost", "sklearn")}


_WEIGHTED = {"sklearn": "rfsize.integrations.sklearn.adaboost"}


def framework_of(thing: Any) -> str | None:
    """Package of the framework that a model, data or estimator comes from; None where it comes from another."""
    packages = [base.__module__.partition(".")[0] for base in type(thing).__mro__]
    return next((package for package in packages if package in _INTEGRATIONS), None)


def adapter_for(model: Any, *, casts_votes: bool = True) -> Adapter:
    """The adapter of the framework that ``model`` comes from; an adapter is its own.

    With ``casts_votes=False`` regression forests have one too.

    Raises
    ------
    NotAForestError
        If no integration knows the model, or the model is not a forest.
    """
    if isinstance(model, Adapter):
        return model
    if isinstance(model, type):
        raise NotAForestError(f"model is the class {model.__name__}, not a trained model")
    framework = framework_of(model)
    if framework is not None:
        adapter: Adapter = importlib.import_module(_INTEGRATIONS[framework]).adapt(model, casts_votes=casts_votes)
        return adapter
    raise NotAForestError(
        f"model is a {type(model).__module__}.{type(model).__qualname__}; rfsize sizes a lightgbm.Booster, "
        "LGBMClassifier, xgboost.Booster, XGBRFClassifier or XGBClassifier, a RandomForestClassifier, "
        "ExtraTreesClassifier or BaggingClassifier, or counted rfsize.Votes"
    )


def weighted_adapter_for(model: Any) -> Adapter | None:
    """The adapter of an ensemble whose members have weights, which can be compiled, not sized; None for any other."""
    module = _WEIGHTED.get(framework_of(model) or "")
    if module is None:
        return None
    adapter: Adapter | None = importlib.import_module(module).adapt(model)
    return adapter
