"""The class that adds a framework to rfsize: `Integration`, found by the entry point group ``rfsize.integrations``.

Name the entry point like the top-level package of the framework's models::

    [project.entry-points."rfsize.integrations"]
    lightgbm = "rfsize.integrations.lightgbm:integration"

`rfsize.testing.check_integration` tests an integration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter
from rfsize.adapters.trainer import Trainer
from rfsize.utils.matrix import n_rows
from rfsize.utils.validation import training_labels


class CollectionOnWorkers(NamedTuple):
    """Rows that a framework's own distributed data object (collection) holds on Dask's workers.

    Attributes
    ----------
    parts : list of dask.delayed.Delayed
        The rows of each partition, in the order of the partitions.
    machines : list of list of int
        For each worker that holds rows, the numbers of its partitions, in the order in which the worker holds them.
    n_features : int
    missing : float
        Value that the collection reads as missing, besides NaN.
    """

    parts: list[Any]
    machines: list[list[int]]
    n_features: int
    missing: float


class Integration(ABC):
    """What rfsize needs from a framework; implement `adapt`, all other methods are optional.

    An optional capability that you leave out is refused or absent. rfsize imports the module of an integration when it
    meets the first model or data of the framework. The command line and training on workers import the modules of all
    installed frameworks.

    Attributes
    ----------
    framework : str
        Name of the framework, for messages.
    file_kind : str or None
        Kind of the framework's model files, for messages, such as "a LightGBM text model"; None if rfsize reads none.
    file_ending : str
        How the names of the model files end.
    labels_are_indices : bool
        Whether the framework's estimators accept only the labels 0 to K − 1.
    default_n_jobs : int
        Threads that the framework's estimators use if ``n_jobs`` is not set; -1 for one per core.
    """

    framework: ClassVar[str]
    file_kind: ClassVar[str | None] = None
    file_ending: ClassVar[str] = ""
    labels_are_indices: ClassVar[bool] = False
    default_n_jobs: ClassVar[int] = -1

    @abstractmethod
    def adapt(self, model: Any, *, casts_votes: bool = True) -> Adapter:
        """The adapter of a trained model; regression forests need ``casts_votes=False``.

        Raises
        ------
        NotAForestError
            If the model is not a forest of independent trees, or ``casts_votes`` is true and its trees cast no votes.
        """

    def weighted(self, model: Any) -> Adapter | None:
        """The adapter of an ensemble with weighted members (`Adapter.vote_weights`); None for any other model.

        You can compile such an ensemble, but rfsize cannot tell how many members are enough.
        """
        return None

    def predictions(self, model: Any, X: Any) -> NDArray[Any]:
        """The framework's own predictions, which checks compare with those of rfsize.

        Returns
        -------
        ndarray
            Class probabilities, shape (n_rows, n_classes). For two classes, shape (n_rows,) is also allowed, with the
            probabilities of the second class. For a regression forest, numbers of shape (n_rows,).
        """
        return np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X))

    def several_in(self, model: Any) -> list[Any] | None:
        """The models that one object holds, such as one for each fold; None if the object is itself a model."""
        return None

    # Training

    def trainer(self, params: dict[str, Any], data: Any) -> Trainer:
        """The trainer that grows forests with these parameters on these data.

        Raises
        ------
        NotAForestError
            If the parameters do not train a forest of independent trees.
        InbagError
            If the forest's bags (the rows each tree is trained on) could not be rebuilt.
        ValueError
            If the data are not of a type that the framework trains on.
        """
        raise no_training_data(data)

    def parameters_of(self, model: Any) -> dict[str, Any]:
        """The training parameters that a booster stores, to train more trees like the booster's own.

        Raises
        ------
        ValueError
            If the booster does not store them.
        """
        raise no_training_data(model)

    def takes(self, params: dict[str, Any]) -> bool:
        """Whether these are parameters of the framework's forests; asked if no training data name the framework."""
        return False

    def data_for_any_threads(self, params: dict[str, Any], X: Any, y: Any, weight: Any) -> tuple[dict[str, Any], Any]:
        """Parameters and training data, from rows in memory, that give the same forest with any number of threads.

        Unless the parameters name a number of threads, the number is that of the available OpenMP threads.
        """
        raise self._no_blocks()

    def merged(self, boosters: Sequence[Any]) -> Any:
        """One booster with the trees of all ``boosters``, in order; these differ only in their seeds."""
        raise self._no_blocks()

    def rows_of(self, data: Any) -> Any:
        """The rows in the training data, to search for duplicates; None if the data hold no readable rows.

        rfsize calls this method before it trains anything on the data.
        """
        return None

    def missing_in(self, data: Any) -> float | None:
        """Value that training data read as missing, besides NaN; None if models store that value themselves."""
        return None

    # Estimators

    def tree_count_parameters(self, estimator: Any) -> set[str]:
        """Names of the parameters that may set an estimator's number of trees."""
        return {"n_estimators"}

    def check_estimator(self, estimator: Any) -> None:  # noqa: B027
        """Refuse an untrained estimator if its parameters show that its trees will not be independent.

        `adapt` may still refuse the trained model of an estimator that passes this check.

        Raises
        ------
        NotAForestError
            If the estimator would not train a forest of independent trees.
        """

    def with_fraction(self, estimator: Any, fraction: float, n_rows: int) -> Any:
        """An estimator with this bagging fraction, to be fitted to ``n_rows`` rows.

        The fraction counts rows drawn without replacement. An estimator that draws with replacement gets the equivalent
        sample size.

        Raises
        ------
        InbagError
            If the estimator trains every tree on all rows, whatever the fraction.
        ValueError
            If the estimator cannot draw so many rows.
        """
        raise ValueError(f"rfsize does not know what {self.framework} calls the bagging fraction of its estimators")

    def fraction_of(self, estimator: Any, n_rows: int) -> float | None:
        """The bagging fraction of an estimator that is to be fitted to ``n_rows`` rows; None if it sets none.

        If the estimator draws rows with replacement, this is the equivalent fraction without replacement.
        """
        return None

    def trainer_of(self, adapter: Adapter, X: Any, y: Any, sample_weight: Any) -> Trainer:
        """The trainer that grows more forests like a fitted estimator's, on the same rows.

        ``X`` (already checked), ``y`` and ``sample_weight`` are the arguments of the estimator's ``fit``.
        """
        label = training_labels(adapter.classes, y, n_rows(X))
        data = adapter.training_data(X, label, sample_weight)
        trainer = self.trainer(self.parameters_of(adapter.booster), data)
        trainer.classes = adapter.classes
        return trainer

    # Rows on workers

    def held_on_workers(self, X: Any) -> CollectionOnWorkers | None:
        """The rows that the framework's own collection holds on Dask's workers; None for any other object.

        Raises
        ------
        ValueError
            If the collection holds something that changes every tree's vote.
        """
        return None

    # The command line

    def recognises(self, content: bytes) -> bool:
        """Whether a file that holds ``content`` is a model of the framework."""
        return False

    def load(self, path: Path) -> Any:
        """Read a model file that `recognises` accepts; ``ValueError`` if the file is damaged."""
        raise self._no_files()

    def check_path(self, path: Path) -> None:
        """Raise ``ValueError`` if the name of a file does not fit the format that models are written in."""
        raise self._no_files()

    def save(self, model: Any, path: Path) -> None:
        """Write a booster in the framework's own format."""
        raise self._no_files()

    def class_names(self, model: Any, path: Path) -> str | None:
        """The names that `keep_class_names` stored with the model at ``path``, not checked; None if there are none."""
        return None

    def keep_class_names(self, model: Any, path: Path, names: str) -> None:
        """Store ``names``, one line of JSON, with a model that `save` wrote, in a place that the framework ignores."""
        raise self._no_files()

    def objective_of(self, params: dict[str, Any]) -> str | None:
        """The objective that the parameters name; None if they name none."""
        return params.get("objective")

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
        raise ValueError(
            f"the command line cannot train {self.framework} forests: train one in Python and give it to "
            "rfsize.grow, or name another framework"
        )

    def _no_blocks(self) -> ValueError:
        return ValueError(
            f"rfsize cannot train {self.framework} forests on workers: train in this process, with rfsize.grow"
        )

    def _no_files(self) -> ValueError:
        return ValueError(f"the command line cannot read or write models of {self.framework}: use rfsize in Python")


def no_training_data(thing: Any) -> ValueError:
    """The error for an object that rfsize cannot train a forest on."""
    return ValueError(
        f"found a {type(thing).__module__}.{type(thing).__qualname__}; give a lightgbm.Dataset, or an "
        "xgboost.DMatrix or QuantileDMatrix"
    )
