"""Find the integration of the framework that a model, an estimator or training data come from."""

from __future__ import annotations

from functools import cache
from importlib.metadata import Distribution, EntryPoint, distributions
from importlib.util import find_spec
from typing import Any

from rfsize.adapters.base import Adapter
from rfsize.adapters.integration import Integration, no_training_data
from rfsize.exceptions import NotAForestError
from rfsize.utils.warn import warn

GROUP = "rfsize.integrations"


@cache
def _entries() -> dict[str, list[EntryPoint]]:
    """Entry points, keyed by the top-level package of the framework's models."""
    found: dict[str, list[EntryPoint]] = {}
    # Look at all distributions: an old rfsize.egg-info in the working folder would hide the installed one.
    for distribution in distributions():
        for entry in _of_group(distribution):
            if all(entry.value != other.value for other in found.setdefault(entry.name, [])):
                found[entry.name].append(entry)
    if not found:
        raise ImportError(f"rfsize is installed without its entry points ({GROUP}): install it again with pip")
    return found


def _of_group(distribution: Distribution) -> list[EntryPoint]:
    try:
        return list(distribution.entry_points.select(group=GROUP))
    except (TypeError, ValueError, AttributeError) as error:
        warn(
            f"the entry points of the distribution {distribution.metadata['Name']!r} cannot be read ({error}), so "
            "rfsize does not know whether it integrates a framework: repair or uninstall it",
            RuntimeWarning,
        )
        return []


def integration_names() -> list[str]:
    """Names of the top-level packages of the frameworks that rfsize knows."""
    return sorted(_entries())


@cache
def integration_named(name: str) -> Integration:
    """The integration of the framework with the top-level package ``name``.

    Raises
    ------
    ImportError
        If the integration cannot be imported, is not an `Integration`, or if there are two.
    ValueError
        If there is no integration of that name.
    """
    if name not in _entries():
        raise ValueError(f"rfsize knows no framework {name!r}; it knows {', '.join(integration_names())}")
    entry, *others = _entries()[name]
    if others:
        both = " and ".join(f"{one.value} of {_distribution_name(one)}" for one in (entry, *others))
        raise ImportError(f"two distributions integrate {name}, {both}: uninstall one of the two")
    try:
        integration = entry.load()
    except Exception as error:  # another author's module may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise ImportError(f"models of {name!r} need {name}, which is not installed: install it with pip") from error
        raise ImportError(
            f"the integration of {name!r}, {entry.value} of {_distribution_name(entry)}, cannot be imported "
            f"({type(error).__name__}: {error}): repair or uninstall it"
        ) from error
    if not isinstance(integration, Integration):
        raise ImportError(
            f"the integration of {name!r}, {entry.value} of {_distribution_name(entry)}, is a "
            f"{type(integration).__qualname__}: its entry point must name an object whose class derives from "
            "rfsize.adapters.integration.Integration"
        )
    return integration


def _distribution_name(entry: EntryPoint) -> str:
    return "an unknown distribution" if entry.dist is None else str(entry.dist.metadata["Name"])


def integration_of(thing: Any) -> Integration | None:
    """The integration of a framework's model, data, estimator or exception; None for any other object."""
    known = _entries()
    packages = (base.__module__.partition(".")[0] for base in type(thing).__mro__)
    name = next((package for package in packages if package in known), None)
    return None if name is None else integration_named(name)


def integration_for(thing: Any) -> Integration:
    """The integration of the framework of training data, or of a model that gets more trees.

    Raises
    ------
    ValueError
        If no integration knows the object.
    """
    integration = integration_of(thing)
    if integration is None:
        raise no_training_data(thing)
    return integration


def name_of_taker(params: dict[str, Any]) -> str:
    """The top-level package of the framework that these parameters belong to.

    Raises
    ------
    ValueError
        If no integration knows the parameters, or several do.
    """
    installed = filter(find_spec, integration_names())
    takers = [name for name in installed if integration_named(name).takes(params)]
    if len(takers) != 1:
        raise ValueError(
            f"the parameters fit {'no framework' if not takers else ' and '.join(takers)}: for a LightGBM forest give "
            "boosting='rf', for an XGBoost forest a subsample below 1"
        )
    return takers[0]


def adapter_for(
    model: Any, *, casts_votes: bool = True, missing: float | None = None, may_be_shrunk: bool = False
) -> Adapter:
    """The adapter of ``model``; an adapter is returned as it is.

    Regression forests need ``casts_votes=False``. If ``missing`` is given, the adapter treats that value as missing.

    Raises
    ------
    NotAForestError
        If no integration knows the model, or if the model is not a forest. Also if the model is shrunk, unless
        ``may_be_shrunk`` is true.
    ValueError
        If ``missing`` is given for a model that knows from training which value means missing.
    """
    adapter = _adapter_of(model, casts_votes=casts_votes)
    if adapter.is_shrunk and adapter is not model and not may_be_shrunk:
        raise NotAForestError(
            "rfsize.shrink made this model. It chose the trees for their common mean, so they are not independent "
            "draws: give the forest that was shrunk"
        )
    if missing is not None:
        adapter.read_as_missing(missing)
    return adapter


def _adapter_of(model: Any, *, casts_votes: bool) -> Adapter:
    if isinstance(model, Adapter):
        return model
    own = getattr(model, "adapter", None)  # rfsize's own models: compiled forests, right-sized estimators
    if isinstance(own, Adapter):
        if casts_votes and not own.classes.size:
            raise NotAForestError(
                f"the {type(model).__name__} is a regression forest, whose trees cast no votes: size its "
                "predictions, with metric='scores' and a tolerance"
            )
        return own
    if isinstance(model, (list, tuple)):
        raise NotAForestError(
            f"model is a {type(model).__name__}: give one model at a time, or all of them to rfsize.compile, which "
            "averages what they predict"
        )
    if isinstance(model, type):
        raise NotAForestError(f"model is the class {model.__name__}, not a trained model")
    integration = integration_of(model)
    if integration is not None:
        return integration.adapt(model, casts_votes=casts_votes)
    raise NotAForestError(
        f"model is a {type(model).__module__}.{type(model).__qualname__}; rfsize sizes a lightgbm.Booster, "
        "LGBMClassifier, xgboost.Booster or XGBClassifier, a RandomForestClassifier, ExtraTreesClassifier or "
        "BaggingClassifier, or counted rfsize.Votes"
    )


def weighted_adapter_for(model: Any) -> Adapter | None:
    """The adapter of an ensemble with weighted members, which can be compiled but not sized; None for other models."""
    integration = integration_of(model)
    return None if integration is None else integration.weighted(model)


def several_in(model: Any) -> list[Any] | None:
    """The models in a list, or in a framework's object that holds the models of several folds; None for one model."""
    if isinstance(model, (list, tuple)):
        return list(model)
    integration = integration_of(model)
    return None if integration is None else integration.several_in(model)
