"""XGBoost: boosted trees, and forests of one round of ``num_parallel_tree``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xgboost as xgb

from rfsize.integrations.xgboost.model import XgboostModel, read
from rfsize.integrations.xgboost.model_json import VERSION, reason
from rfsize.integrations.xgboost.training import XgboostTraining
from rfsize.models.framework import Framework, ModelFiles

_CLASS_NAMES = "rfsize_class_names"  # attribute of a booster
_FIRST_WITH_ROWS_IN_LEAVES = (3, 2)  # of trees that score all classes


class XgboostFiles(ModelFiles):
    """Boosters in JSON and UBJ."""

    kind = "an XGBoost JSON or UBJ model"

    def recognises(self, content: bytes) -> bool:
        return content.startswith(b"{") and b"learner" in content

    def load(self, path: Path) -> xgb.Booster:
        try:
            return xgb.Booster(model_file=path)
        except xgb.core.XGBoostError as error:
            raise ValueError(f"XGBoost {xgb.__version__} cannot read {path} ({reason(error)}): save it anew") from error

    def check_path(self, path: Path) -> None:
        if path.suffix not in {".json", ".ubj"}:
            raise ValueError(f"an XGBoost model is written to a .json or .ubj file, found {path}")

    def save(self, model: Any, path: Path) -> None:
        model.save_model(str(path))

    def class_names(self, model: Any, path: Path) -> str | None:
        names: str | None = model.attr(_CLASS_NAMES)
        return names

    def keep_class_names(self, model: Any, path: Path, names: str) -> None:
        model.set_attr(**{_CLASS_NAMES: names})
        self.save(model, path)

    def forest_data(
        self, X: Any, y: Any, params: dict[str, Any], *, n_classes: int | None, is_binary: bool
    ) -> tuple[dict[str, Any], Any]:
        filled: dict[str, Any] = {"subsample": 0.632}
        if is_binary:
            filled["objective"] = "binary:logistic"
        elif n_classes is not None:
            filled |= {"objective": "multi:softprob", "num_class": n_classes}
            if VERSION >= _FIRST_WITH_ROWS_IN_LEAVES:
                # One tree for all classes has one bag. With one tree and bag per class, a row loses a few more votes.
                filled["multi_strategy"] = "multi_output_tree"
        return filled | params, xgb.DMatrix(X, y, enable_categorical=True)


class Xgboost(Framework):
    """XGBoost, as rfsize reads its models."""

    name = "XGBoost"
    training = XgboostTraining()
    files = XgboostFiles()

    def read(self, model: Any) -> XgboostModel:
        return read(model)


framework = Xgboost()
