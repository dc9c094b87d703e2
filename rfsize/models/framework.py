"""The door for frameworks: `Framework`, found by the entry point group ``rfsize.frameworks``, and `read_model`.

Name the entry point like the top-level package of the framework's models::

    [project.entry-points."rfsize.frameworks"]
    lightgbm = "rfsize.integrations.lightgbm:framework"

`rfsize.testing.check_framework` tests a framework.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from rfsize._util import whole
from rfsize.exceptions import NotAForestError, RfsizeError
from rfsize.models.ensemble import repeats_one_tree
from rfsize.models.model import Forest, Model
from rfsize.models.training import Training

GROUP = "rfsize.frameworks"


class ModelFiles(ABC):
    """How the command line reads and writes models of a framework, and trains a forest from a table.

    Attributes
    ----------
    kind : str
        Kind of the framework's model files, for messages, such as "a LightGBM text model".
    """

    kind: ClassVar[str]

    @abstractmethod
    def recognises(self, content: bytes) -> bool:
        """Whether a file that holds ``content`` is a model of the framework."""

    @abstractmethod
    def load(self, path: Path) -> Any:
        """Read a model file that `recognises` accepts; ``ValueError`` if the framework cannot read it."""

    def check_path(self, path: Path) -> None:  # noqa: B027 - most names fit
        """Raise ``ValueError`` if the name of a file does not fit the format that models are written in."""

    @abstractmethod
    def save(self, model: Any, path: Path) -> None:
        """Write a model in the framework's own format."""

    def class_names(self, model: Any, path: Path) -> str | None:
        """The names that `keep_class_names` stored with the model at ``path``, not checked; None if there are none."""
        return None

    def keep_class_names(self, model: Any, path: Path, names: str) -> None:
        """Store ``names``, one line of JSON, with a model that `save` wrote, in a place that the framework ignores."""
        raise ValueError("models of this framework keep no class names: give labels as numbers")

    def forest_data(
        self, X: Any, y: Any, params: dict[str, Any], *, n_classes: int | None, is_binary: bool
    ) -> tuple[dict[str, Any], Any]:
        """Parameters and training data of a forest; fills in parameters that the table determines.

        If ``params`` names no bagging fraction, it is 0.632.

        Parameters
        ----------
        X : DataFrame
            The table.
        y : ndarray, shape (n_rows,)
            Labels, as class indices where there are classes.
        params : dict
            The user's parameters; they override the ones filled in.
        n_classes : int or None
            Number of classes; None if the objective reads labels as numbers.
        is_binary : bool
            Whether there are two classes, and ``params`` names no multiclass objective.
        """
        raise ValueError("rfsize trains no forest of this framework from a table: train one in Python")


class Framework(ABC):
    """What rfsize needs from a framework; implement `read`, all else is optional.

    rfsize imports the module of a framework when it meets the first model or data of the framework. The command line
    and training on workers import the modules of all installed frameworks.

    Attributes
    ----------
    name : str
        Name of the framework, for messages.
    training : Training or None
        How forests are trained, for `rfsize.grow` and bagging fractions; None if rfsize cannot train them.
    files : ModelFiles or None
        How models are read from files and written, for the command line; None if it cannot.
    """

    name: ClassVar[str]
    training: Training | None = None
    files: ModelFiles | None = None

    @abstractmethod
    def read(self, model: Any) -> Model:
        """A trained model: a `Forest` if its trees are independent draws, else a `Model`.

        Raises
        ------
        NotAForestError
            If the object is no trained tree ensemble, or one that rfsize cannot read.
        """


@cache
def _entries() -> EntryPoints:
    """Entry points, each named like the top-level package of a framework's models."""
    entries = entry_points(group=GROUP)
    if not entries:
        raise ImportError(f"rfsize is installed without its entry points ({GROUP}): install it again with pip")
    return entries


def framework_names() -> list[str]:
    """Names of the top-level packages of the frameworks that rfsize knows."""
    return sorted(_entries().names)


@cache
def framework_named(name: str) -> Framework:
    """The framework with the top-level package ``name``.

    Raises
    ------
    ImportError
        If the framework's module cannot be imported, holds no `Framework`, or if there are two.
    ValueError
        If there is no framework of that name.
    """
    entries = list(_entries().select(name=name))
    if not entries:
        raise ValueError(f"rfsize knows no framework {name!r}; it knows {', '.join(framework_names())}")
    brought = " and ".join(f"{entry.value} of {entry.dist and entry.dist.name}" for entry in entries)
    if len(entries) > 1:
        raise ImportError(f"several distributions bring {name} to rfsize, {brought}: uninstall all but one")
    try:
        framework = entries[0].load()
    except Exception as error:  # another author's module may raise anything
        raise ImportError(f"{brought} cannot be imported ({error!r}): repair it, or install {name}") from error
    if not isinstance(framework, Framework):
        raise ImportError(f"{brought} is a {type(framework).__qualname__} and no rfsize.models.framework.Framework")
    return framework


def framework_of(thing: Any) -> Framework | None:
    """The framework of a model, data, estimator or exception; None for any other object."""
    packages = (base.__module__.partition(".")[0] for base in type(thing).__mro__)
    name = next((package for package in packages if package in _entries().names), None)
    return None if name is None else framework_named(name)


def training_of(thing: Any) -> Training:
    """How the framework of training data, parameters' data, an estimator or a model trains forests.

    Raises
    ------
    ValueError
        If no framework knows the object, or the framework trains nothing.
    """
    framework = framework_of(thing)
    if framework is None or framework.training is None:
        raise ValueError(
            f"rfsize cannot train on a {type(thing).__module__}.{type(thing).__qualname__}: give a lightgbm.Dataset, "
            "an xgboost.DMatrix, or an estimator with X and y"
        )
    return framework.training


def training_named(name: str) -> Training:
    """How the framework with the top-level package ``name`` trains forests; ``ValueError`` if rfsize cannot."""
    training = framework_named(name).training
    if training is None:
        raise ValueError(f"rfsize cannot train forests of {name}: name another framework")
    return training


def framework_of_params(params: dict[str, Any]) -> str:
    """The top-level package of the framework that these parameters belong to.

    Raises
    ------
    ValueError
        If no framework knows the parameters, or several do.
    """
    trainings = {name: framework_named(name).training for name in filter(find_spec, framework_names())}
    takers = [name for name, training in trainings.items() if training is not None and training.accepts(params)]
    if len(takers) != 1:
        raise ValueError(f"params fit {takers or 'no framework'}: give boosting='rf', or a subsample below 1, not both")
    return takers[0]


def read_model(model: Any, *, missing: float | None = None) -> Model:
    """Read a trained tree ensemble of any framework; what was read already is returned as it is.

    ``missing`` is a value that means missing, besides NaN, for models that do not store it.

    Raises
    ------
    NotAForestError
        If no framework knows the model, or rfsize cannot read it.
    ValueError
        If ``missing`` is given for a model that knows from training which value means missing.
    """
    read = _read(model)
    if missing is not None:
        read.read_as_missing(missing)
    return read


def read_forest(model: Any, *, missing: float | None = None) -> Forest:
    """Read a forest, whose trees are independent draws, as `read_model` does.

    Raises
    ------
    NotAForestError
        If the model is no forest, all its trees are identical, or `rfsize.shrink` chose them.
    """
    forest = read_to_cut(model, missing=missing)
    if not isinstance(forest, Forest):
        raise NotAForestError(forest.why_no_forest)
    return forest


def read_to_cut(model: Any, *, missing: float | None = None) -> Model:
    """Read boosted trees as `read_model` does, or a forest as `read_forest` does."""
    forest = read_model(model, missing=missing)
    if not isinstance(forest, Forest):
        return forest
    if forest.ensemble is not None and repeats_one_tree(forest.ensemble):
        raise NotAForestError(f"all trees are identical, for nothing was sampled: train with {forest.sampled_by}")
    if forest.is_pruned and forest is not model:
        raise NotAForestError("rfsize.shrink chose these trees, so they have no T*: give the forest that was shrunk")
    return forest


def _read(model: Any) -> Model:
    if isinstance(model, Model):
        return model
    own = getattr(model, "as_model", None)  # of right-sized estimators
    if isinstance(own, Model):
        return own
    if isinstance(model, (list, tuple)):
        raise NotAForestError(f"model is a {type(model).__name__}: give one, or rfsize.compile(models) to average them")
    if isinstance(model, type):
        raise NotAForestError(f"model is the class {model.__name__}: give a trained model")
    framework = framework_of(model)
    if framework is None:
        raise NotAForestError(
            f"model is a {type(model).__module__}.{type(model).__qualname__}, which rfsize does not read: give a tree "
            "ensemble of LightGBM, XGBoost or scikit-learn"
        )
    return framework.read(model)


@contextmanager
def reading(versions: str) -> Iterator[None]:
    """Turn errors of the code that reads a model into `NotAForestError`; rfsize's own errors pass.

    ``versions`` are the framework and its versions whose models it reads.
    """
    try:
        yield
    except RfsizeError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise NotAForestError(f"this is no model of {versions} ({error!r:.200}): save it by one of these") from error


def most_trees_within(max_bytes: int, forest: Model) -> int:
    """The largest number of first trees whose file has at most ``max_bytes``; ``ValueError`` if one tree takes more."""
    whole("max_bytes", max_bytes, at_least=1)

    def n_bytes(n_trees: int) -> int:
        return read_model(forest.first(n_trees)).n_bytes

    n_fitting = bisect_right(range(1, forest.n_trees + 1), max_bytes, key=n_bytes)
    if not n_fitting:
        raise ValueError(f"a file of one tree has {n_bytes(1):,} bytes, more than max_bytes={max_bytes:,}: allow more")
    return n_fitting
