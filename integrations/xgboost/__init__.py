"""XGBoost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.integration import Integration

if TYPE_CHECKING:
    from rfsize.integrations.xgboost.forest import XgboostForest
    from rfsize.integrations.xgboost.trainer import XgboostTrainer

CLASS_NAMES = "rfsize_class_names"  # attribute of a booster


class Xgboost(Integration):
    """Forests of XGBoost (``num_parallel_tree``); XGBoost itself is imported with the first model or data."""

    framework = "XGBoost"
    file_kind = "an XGBoost JSON or UBJ model"
    file_ending = ".ubj"
    labels_are_indices = True

    def adapt(self, model: Any, *, casts_votes: bool = True) -> XgboostForest:
        from rfsize.integrations.xgboost.forest import adapt

        return adapt(model, casts_votes=casts_votes)

    def predictions(self, model: Any, X: Any) -> NDArray[Any]:
        from rfsize.integrations.xgboost.forest import XgboostForest

        forest = XgboostForest(model, casts_votes=False)
        # A booster takes no rows but a DMatrix.
        return super().predictions(model, forest.matrix(X) if forest.booster is model else X)

    def trainer(self, params: dict[str, Any], data: Any) -> XgboostTrainer:
        from rfsize.integrations.xgboost.trainer import XgboostTrainer

        return XgboostTrainer(params, data)

    def parameters_of(self, model: Any) -> dict[str, Any]:
        from rfsize.integrations.xgboost.trainer import parameters_of

        return parameters_of(model)

    def takes(self, params: dict[str, Any]) -> bool:
        return "subsample" in params and params.keys().isdisjoint(("boosting", "boosting_type", "boost"))

    def data_for_any_threads(self, params: dict[str, Any], X: Any, y: Any, weight: Any) -> tuple[dict[str, Any], Any]:
        from rfsize.integrations.xgboost.trainer import data_for_any_threads

        return data_for_any_threads(params, X, y, weight)

    def merged(self, boosters: Sequence[Any]) -> Any:
        from rfsize.integrations.xgboost.merging import merged

        return merged(boosters)

    def labels_of(self, params: dict[str, Any], data: Any) -> NDArray[Any]:
        return np.asarray(data.get_label())

    def rows_of(self, data: Any) -> Any:
        from rfsize.integrations.xgboost.trainer import rows_of

        return rows_of(data)

    def missing_in(self, data: Any) -> float | None:
        told = getattr(data, "missing", None)
        return None if told is None or np.isnan(told) else float(told)

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
        from rfsize.integrations.xgboost.trainer import fold_votes

        return fold_votes(params, data, train, held_out, n_trees=n_trees, threshold=threshold)

    def tree_count_parameters(self, estimator: Any) -> set[str]:
        from rfsize.integrations.xgboost.forest import tree_count_parameter

        return {tree_count_parameter(estimator)}

    def check_estimator(self, estimator: Any) -> None:
        from rfsize.integrations.xgboost.forest import check_estimator

        check_estimator(estimator)

    def recognises(self, content: bytes) -> bool:
        return content.startswith(b"{") and b"learner" in content

    def load(self, path: Path) -> Any:
        from rfsize.integrations.xgboost.model_files import load

        return load(path)

    def check_path(self, path: Path) -> None:
        if path.suffix not in {".json", ".ubj"}:
            raise ValueError(f"an XGBoost model is written to a .json or .ubj file, found {path}")

    def save(self, model: Any, path: Path) -> None:
        model.save_model(str(path))

    def class_names(self, model: Any, path: Path) -> str | None:
        return model.attr(CLASS_NAMES)

    def keep_class_names(self, model: Any, path: Path, names: str) -> None:
        model.set_attr(**{CLASS_NAMES: names})
        self.save(model, path)

    def features_of(self, model: Any, X: Any) -> Any:
        from rfsize.integrations.xgboost.model_files import features_of

        return features_of(model, X)

    def forest_data(
        self, X: Any, y: Any, params: dict[str, Any], *, n_classes: int | None, is_binary: bool, bagged: bool
    ) -> tuple[dict[str, Any], Any]:
        from rfsize.integrations.xgboost.model_files import forest_data

        return forest_data(X, y, params, n_classes=n_classes, is_binary=is_binary, bagged=bagged)


integration = Xgboost()
