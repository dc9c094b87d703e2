"""What teaches rfsize a framework: one `Integration`, found by the entry point group ``rfsize.integrations``.

The entry point is named like the top-level package that the framework's models come from::

    [project.entry-points."rfsize.integrations"]
    lightgbm = "rfsize.integrations.lightgbm:integration"

`rfsize.testing.check_integration` tells whether an integration is right.
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
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import training_labels


class CollectionOnWorkers(NamedTuple):
    """Rows that a framework's own collection holds on Dask's workers.

    Attributes
    ----------
    parts : list of dask.delayed.Delayed
        The rows of each partition, in their order.
    machines : list of list of int
        For each worker that they lay on, the numbers of its partitions in the order in which it holds them.
    n_features : int
    missing : float
        What the collection was told to take for missing, besides NaN.
    """

    parts: list[Any]
    machines: list[list[int]]
    n_features: int
    missing: float


class Integration(ABC):
    """What rfsize asks of a framework; `adapt` must be there, all else is a capability that is refused by default.

    The module that holds an integration is imported with the first model or data of the framework; the command line and
    training on workers import those of all frameworks that are installed.

    Attributes
    ----------
    framework : str
        Its name, for messages.
    file_kind : str or None
        What its model files are, for messages, such as "a LightGBM text model"; None where none are read.
    file_ending : str
        How the names of its model files end.
    labels_are_indices : bool
        Whether its estimators take no labels but 0 to K − 1.
    default_n_jobs : int
        Threads that its estimators use where ``n_jobs`` says nothing; -1 for one per core.
    """

    framework: ClassVar[str]
    file_kind: ClassVar[str | None] = None
    file_ending: ClassVar[str] = ""
    labels_are_indices: ClassVar[bool] = False
    default_n_jobs: ClassVar[int] = -1

    @abstractmethod
    def adapt(self, model: Any, *, casts_votes: bool = True) -> Adapter:
        """The adapter of a trained model; with ``casts_votes=False`` regression forests have one too.

        Raises
        ------
        NotAForestError
            If the model is not a forest of independent trees, or is one whose trees cast no votes.
        """

    def weighted(self, model: Any) -> Adapter | None:
        """The adapter of an ensemble whose members have weights, with `Adapter.vote_weights`; None for any other.

        It can be compiled, not sized.
        """
        return None

    def predictions(self, model: Any, X: Any) -> NDArray[Any]:
        """What the framework itself predicts, to check the rest by.

        Returns
        -------
        ndarray
            Class probabilities, shape (n_rows, n_classes) or of two classes (n_rows,) for the second; numbers, shape
            (n_rows,), of a regression forest.
        """
        return np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X))

    def several_in(self, model: Any) -> list[Any] | None:
        """The models that one object keeps side by side, such as those of folds; None where it is a model itself."""
        return None

    # Training

    def trainer(self, params: dict[str, Any], data: Any) -> Trainer:
        """What grows forests of these parameters and data.

        Raises
        ------
        NotAForestError
            If the parameters do not train a forest of independent trees.
        InbagError
            If its bags could not be rebuilt.
        ValueError
            If the data are of a kind that no forest is grown from.
        """
        raise no_training_data(data)

    def parameters_of(self, model: Any) -> dict[str, Any]:
        """The training parameters that a booster remembers, to train more trees like its own.

        Raises
        ------
        ValueError
            If it has forgotten them, or never knew.
        """
        raise no_training_data(model)

    def takes(self, params: dict[str, Any]) -> bool:
        """Whether parameters are those of its forests, where no training data tell."""
        return False

    def data_for_any_threads(self, params: dict[str, Any], X: Any, y: Any, weight: Any) -> tuple[dict[str, Any], Any]:
        """Parameters and training data, from rows in memory, of forests that are equal whatever the number of threads.

        That number is left to the threads of OpenMP that there are, unless the parameters name one.
        """
        raise self._no_blocks()

    def merged(self, boosters: Sequence[Any]) -> Any:
        """One booster of all trees of forests of the same data and parameters, each of other seeds, in their order."""
        raise self._no_blocks()

    def truth_of(self, params: dict[str, Any], data: Any) -> tuple[NDArray[Any], Floats | None]:
        """Labels of training data, shape (n_rows,), and their weights, where they have any.

        Labels are class indices, int64, or where the parameters train no classes numbers.
        """
        raise no_training_data(data)

    def rows_of(self, data: Any) -> Any:
        """The rows that training data hold, to look for copies among them; None where they hold none that can be read.

        Asked before anything is trained on the data.
        """
        return None

    def missing_in(self, data: Any) -> float | None:
        """What training data take for missing besides NaN, where a model of them does not keep it."""
        return None

    def held_out_outputs(
        self, params: dict[str, Any], data: Any, train: Int64s, held_out: Int64s, *, threshold: float
    ) -> Any:
        """What a forest that is trained on some of the rows of ``data`` says of others, as `Evidence` on these.

        It has as many trees as the parameters tell, see `rfsize.adapters.trainer.trees_to_train`.

        Raises
        ------
        NotAForestError
            If the parameters do not train a forest of independent trees.
        ValueError
            If rows cannot be taken from the data, the parameters do not tell the number of trees, or the threshold does
            not fit.
        """
        raise no_training_data(data)

    # Estimators

    def tree_count_parameters(self, estimator: Any) -> set[str]:
        """Names under which an estimator may have been told its number of trees."""
        return {"n_estimators"}

    def check_estimator(self, estimator: Any) -> None:  # noqa: B027
        """Refuse, before it is trained, an estimator whose parameters tell that its trees are not independent.

        What this lets pass, `adapt` may still refuse.

        Raises
        ------
        NotAForestError
            If the estimator would train no forest of independent trees.
        """

    def with_fraction(self, estimator: Any, fraction: float, n_rows: int) -> Any:
        """An estimator that is to be fitted to so many rows, which takes this bagging fraction.

        The fraction is of rows drawn without replacement; where it draws with replacement, it takes what that is worth.

        Raises
        ------
        InbagError
            If its trees are trained on all rows whatever the fraction.
        ValueError
            If it cannot draw so many rows.
        """
        raise ValueError(f"rfsize does not know what {self.framework} calls the bagging fraction of its estimators")

    def fraction_of(self, estimator: Any, n_rows: int) -> float | None:
        """The bagging fraction of an estimator that is to be fitted to so many rows; None where it names none.

        Of rows drawn with replacement, the fraction that draws without replacement are worth.
        """
        return None

    def trainer_of(self, adapter: Adapter, X: Any, y: Any, sample_weight: Any) -> Trainer:
        """What grows forests like that of an estimator, on the rows that it was fitted to.

        ``X``, which has been checked, ``y`` and ``sample_weight`` are those that its ``fit`` took.
        """
        label = training_labels(adapter.classes, y, n_rows(X))
        data = adapter.training_data(X, label, sample_weight)
        trainer = self.trainer(self.parameters_of(adapter.booster), data)
        trainer.classes = adapter.classes
        return trainer

    # Rows on workers

    def held_on_workers(self, X: Any) -> CollectionOnWorkers | None:
        """The rows that a collection of the framework's own holds on Dask's workers, None of anything else.

        Raises
        ------
        ValueError
            If the collection holds what moves every tree's vote.
        """
        return None

    # The command line

    def demo_forest(self, n_trees: int) -> Any:
        """A classifier of so many trees that ``rfsize demo`` fits to 64 pixels of digits, None where it shows none.

        It is one of scikit-learn's kind, with bags and a parameter ``n_jobs``.
        """
        return None

    def recognises(self, content: bytes) -> bool:
        """Whether a file that holds ``content`` is a model of the framework."""
        return False

    def load(self, path: Path) -> Any:
        """Read a model that `recognises` knows; ``ValueError`` where it is damaged."""
        raise self._no_files()

    def check_path(self, path: Path) -> None:
        """Raise ``ValueError`` where a file's name does not go with the format that models are written in."""
        raise self._no_files()

    def save(self, model: Any, path: Path) -> None:
        """Write a booster as the framework does."""
        raise self._no_files()

    def class_names(self, model: Any, path: Path) -> str | None:
        """What `keep_class_names` left with a model that was read from ``path``, None where nothing; not checked."""
        return None

    def keep_class_names(self, model: Any, path: Path, names: str) -> None:
        """Leave ``names``, JSON of one line, with a model that `save` wrote, where the framework reads over them."""
        raise self._no_files()

    def features_of(self, model: Any, X: Any) -> Any:
        """The columns of a table that ``model`` was trained on, found by name where both have names.

        Raises
        ------
        ValueError
            If a text column would be coded otherwise than at training.
        """
        return X

    def objective_of(self, params: dict[str, Any]) -> str | None:
        """The objective that parameters name, None where they name none."""
        return params.get("objective")

    def forest_data(
        self, X: Any, y: Any, params: dict[str, Any], *, n_classes: int | None, is_binary: bool, bagged: bool
    ) -> tuple[dict[str, Any], Any]:
        """Parameters and training data of a forest, from a table and from parameters that may leave out what it tells.

        Parameters
        ----------
        X : DataFrame or ndarray
            The table.
        y : ndarray, shape (n_rows,)
            Labels, as class indices where there are classes.
        params : dict
            What the user named; it goes before what is filled in.
        n_classes : int or None
            Number of classes; None where the objective takes labels as numbers.
        is_binary : bool
            Whether there are two classes, and no objective of several is named.
        bagged : bool
            Whether to fill in a bagging fraction of 0.632 where none is named.
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
    """What to say of a thing that no forest is grown from."""
    return ValueError(
        f"found a {type(thing).__module__}.{type(thing).__qualname__}; give a lightgbm.Dataset, or an "
        "xgboost.DMatrix or QuantileDMatrix"
    )
