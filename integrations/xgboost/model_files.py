"""XGBoost's models and training data from files, for the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xgboost as xgb

from rfsize.utils import matrix

_FIRST_THAT_KEEPS_CATEGORIES = (3, 1)


def load(path: Path) -> xgb.Booster:
    """A booster from JSON or UBJ."""
    booster = xgb.Booster()
    booster.load_model(bytearray(path.read_bytes()))
    return booster


def features_of(model: xgb.Booster, X: Any) -> Any:
    """The columns of a table that a booster was trained on; ``ValueError`` where its categories have been forgotten."""
    if not hasattr(X, "columns"):
        return X
    names = model.feature_names
    if names is not None:
        X = matrix.select(X, names)
    texts = list(X.select_dtypes(include="category").columns)
    if texts and tuple(int(part) for part in xgb.__version__.split(".")[:2]) < _FIRST_THAT_KEEPS_CATEGORIES:
        raise ValueError(
            f"the columns {texts} hold categories, which models of XGBoost {xgb.__version__} do not keep; give their "
            "integer codes, or use XGBoost 3.1 or later"
        )
    return X.to_numpy() if names is None and not texts else X


def forest_data(
    X: Any, y: Any, given: dict[str, Any], *, n_classes: int | None, is_binary: bool, bagged: bool
) -> tuple[dict[str, Any], xgb.DMatrix]:
    """Parameters and DMatrix of a forest; see `Integration.forest_data`."""
    params: dict[str, Any] = {}
    if is_binary:
        params = {"objective": "binary:logistic"}
    elif n_classes is not None:
        # One tree for all classes has one bag; of trees with bags of their own, a few more votes are lost.
        params = {"objective": "multi:softprob", "num_class": n_classes, "multi_strategy": "multi_output_tree"}
    if bagged and "subsample" not in given:
        params["subsample"] = 0.632
    return params | given, xgb.DMatrix(X, y, enable_categorical=True)
