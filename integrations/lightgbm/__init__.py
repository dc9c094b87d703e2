"""LightGBM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.integration import Integration

if TYPE_CHECKING:
    from rfsize.integrations.lightgbm.forest import LightGbmForest
    from rfsize.integrations.lightgbm.trainer import LightGbmTrainer


class LightGbm(Integration):
    """Forests of LightGBM (``boosting="rf"``); LightGBM itself is imported with the first model or data."""

    framework = "LightGBM"
    file_kind = "a LightGBM text model"
    file_ending = ".txt"

    def adapt(self, model: Any, *, casts_votes: bool = True) -> LightGbmForest:
        from rfsize.integrations.lightgbm.forest import adapt

        return adapt(model, casts_votes=casts_votes)

    def trainer(self, params: dict[str, Any], data: Any) -> LightGbmTrainer:
        from rfsize.integrations.lightgbm.trainer import LightGbmTrainer

        return LightGbmTrainer(params, data)

    def parameters_of(self, model: Any) -> dict[str, Any]:
        from rfsize.integrations.lightgbm.trainer import parameters_of

        return parameters_of(model)

    def takes(self, params: dict[str, Any]) -> bool:
        return not params.keys().isdisjoint(("boosting", "boosting_type", "boost"))

    def data_for_any_threads(self, params: dict[str, Any], X: Any, y: Any, weight: Any) -> tuple[dict[str, Any], Any]:
        from rfsize.integrations.lightgbm.trainer import data_for_any_threads

        return data_for_any_threads(params, X, y, weight)

    def merged(self, boosters: Sequence[Any]) -> Any:
        from rfsize.integrations.lightgbm.merging import merged

        return merged(boosters)

    def labels_of(self, params: dict[str, Any], data: Any) -> NDArray[Any]:
        from rfsize.integrations.lightgbm.trainer import labels_of

        return labels_of(params, data)

    def rows_of(self, data: Any) -> Any:
        from rfsize.integrations.lightgbm.training_votes import rows_of

        return rows_of(data)

    def fold_votes(
        self,
        params: dict[str, Any],
        data: Any,
        train: NDArray[np.int64],
        held_out: NDArray[np.int64],
        *,
        n_trees: int,
        threshold: float,
    ) -> NDArray[np.int32]:
        from rfsize.integrations.lightgbm.trainer import fold_votes

        return fold_votes(params, data, train, held_out, n_trees=n_trees, threshold=threshold)

    def tree_count_parameters(self, estimator: Any) -> set[str]:
        from rfsize.integrations.lightgbm.parameters import TREE_COUNT_NAMES

        return TREE_COUNT_NAMES

    def recognises(self, content: bytes) -> bool:
        return content.startswith((b"tree\n", b"tree\r\n"))

    def load(self, path: Path) -> Any:
        from rfsize.integrations.lightgbm.model_files import load

        return load(path)

    def check_path(self, path: Path) -> None:
        if path.suffix in {".json", ".ubj"}:
            raise ValueError(f"a LightGBM model is written as text, to a .txt file for instance, found {path}")

    def save(self, model: Any, path: Path) -> None:
        model.save_model(str(path))

    def class_names(self, model: Any, path: Path) -> str | None:
        from rfsize.integrations.lightgbm.model_files import class_names

        return class_names(path)

    def keep_class_names(self, model: Any, path: Path, names: str) -> None:
        from rfsize.integrations.lightgbm.model_files import keep_class_names

        keep_class_names(path, names)

    def objective_of(self, params: dict[str, Any]) -> str | None:
        names = ("objective", "objective_type", "app", "application", "loss")
        return next((str(params[name]) for name in names if name in params), None)

    def forest_data(
        self, X: Any, y: Any, params: dict[str, Any], *, n_classes: int | None, is_binary: bool, bagged: bool
    ) -> tuple[dict[str, Any], Any]:
        from rfsize.integrations.lightgbm.model_files import forest_data

        return forest_data(X, y, params, n_classes=n_classes, is_binary=is_binary, bagged=bagged)


integration = LightGbm()
