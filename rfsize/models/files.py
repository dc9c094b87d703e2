"""Model files of a framework, as the command line reads and writes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar


class ModelFiles(ABC):
    """How the command line reads and writes models of a framework, and trains a forest from a table.

    Attributes
    ----------
    kind : str
        Kind of the framework's model files, for messages, such as "a LightGBM text model".
    ending : str
        How the names of the model files end.
    """

    kind: ClassVar[str]
    ending: ClassVar[str]

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
            "the command line cannot train forests of this framework: train one in Python, or name another framework"
        )
