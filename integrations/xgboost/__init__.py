"""XGBoost: forests of one round of ``num_parallel_tree``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from rfsize.exceptions import InbagError
from rfsize.integrations.xgboost.dmatrix import held_on_workers, holds_rows
from rfsize.integrations.xgboost.forest import XgboostForest, booster_of, tree_count_parameter
from rfsize.integrations.xgboost.independent import boosted
from rfsize.integrations.xgboost.merging import merged
from rfsize.integrations.xgboost.model_files import read_model
from rfsize.integrations.xgboost.model_json import VERSION, VOTING
from rfsize.integrations.xgboost.trainer import (
    XgboostTrainer,
    setting,
)
from rfsize.models.framework import CollectionOnWorkers, Framework

_CLASS_NAMES = "rfsize_class_names"  # attribute of a booster
_FIRST_WITH_ROWS_IN_LEAVES = (3, 2)  # of trees that score all classes

# Settings of a booster that also stand there under another name, or that must not be given to train more trees.
_OTHER_NAMES = {"reg_alpha", "learning_rate", "reg_lambda", "min_split_loss", "process_type", "updater", "updater_seq"}


class Xgboost(Framework):
    """The integration of XGBoost."""

    name = "XGBoost"
    file_kind = "an XGBoost JSON or UBJ model"
    file_ending = ".ubj"
    labels_are_indices = True

    def adapt(self, model: Any, *, casts_votes: bool = True) -> XgboostForest:
        return XgboostForest(model, casts_votes=casts_votes)

    def predictions(self, model: Any, X: Any) -> NDArray[Any]:
        forest = XgboostForest(model, casts_votes=False)
        # A booster takes rows only as a DMatrix.
        return super().predictions(model, forest.matrix(X) if forest.booster is model else X)

    def trainer(self, params: dict[str, Any], data: Any) -> XgboostTrainer:
        return XgboostTrainer(params, data)

    def params_of(self, model: Any) -> dict[str, Any]:
        booster = booster_of(model)
        XgboostForest(booster, casts_votes=False)
        learner = json.loads(booster.save_config())["learner"]
        grown = learner["gradient_booster"]["tree_train_param"]
        if float(grown["subsample"]) == 1.0:
            raise InbagError(
                "the model says subsample=1. Either it was trained without bagging, and no row is out of bag: train "
                "with a subsample below 1, such as 0.632. Or it was loaded from a file, which does not keep its "
                "settings: give those of its training, grow(params, dtrain, init_model=booster)"
            )
        settings = {**learner["learner_train_param"], **learner["gradient_booster"]["gbtree_train_param"], **grown}
        for name, content in learner["objective"].items():
            if name != "name":
                settings.update(content)
        settings = {name: setting(text) for name, text in settings.items() if name not in _OTHER_NAMES and text != ""}
        intercept = learner["learner_model_param"]
        if intercept["boost_from_average"] == "0":
            given = np.unique(np.atleast_1d(json.loads(intercept["base_score"])))
            settings["base_score"] = given.item() if given.size == 1 else intercept["base_score"]
        generic = learner["generic_param"]
        return settings | {
            "seed": int(generic["seed"]),
            "nthread": int(generic["nthread"]),
            "device": generic["device"],
        }

    def accepts(self, params: dict[str, Any]) -> bool:
        return "subsample" in params and params.keys().isdisjoint(("boosting", "boosting_type", "boost"))

    def deterministic_data(self, params: dict[str, Any], X: Any, y: Any, weight: Any) -> tuple[dict[str, Any], Any]:
        # Each thread sums up its own gradients. Unweighted classes have few different gradients, and all sums are exact
        # in double precision. Other sums are rounded, so that all machines need the same number of threads.
        is_exact = weight is None and str(params.get("objective")) in VOTING
        if not is_exact and params.keys().isdisjoint(("nthread", "n_jobs")):
            params = params | {"nthread": 1}
        return params, xgb.DMatrix(X, y, weight=weight, enable_categorical=True)

    def merged(self, boosters: Sequence[Any]) -> Any:
        return merged(boosters)

    def rows_of(self, data: Any) -> Any:
        return data if isinstance(data, xgb.DMatrix) and holds_rows(data) else None

    def missing_in(self, data: Any) -> float | None:
        told = getattr(data, "missing", None)
        return None if told is None or np.isnan(told) else float(told)

    def tree_count_parameters(self, estimator: Any) -> set[str]:
        return {tree_count_parameter(estimator)}

    def check_estimator(self, estimator: Any) -> None:
        rounds = estimator.get_num_boosting_rounds()
        if rounds > 1:
            raise boosted(f"the {type(estimator).__name__} would be boosted for {rounds} rounds", estimator)

    def with_fraction(self, estimator: Any, fraction: float, n_rows: int) -> Any:
        return estimator.set_params(subsample=fraction)

    def fraction_of(self, estimator: Any, n_rows: int) -> float | None:
        named = estimator.get_params().get("subsample")
        return float(named) if named is not None and 0.0 < named < 1.0 else None

    def held_on_workers(self, X: Any) -> CollectionOnWorkers | None:
        return held_on_workers(X)

    def recognises(self, content: bytes) -> bool:
        return content.startswith(b"{") and b"learner" in content

    def load(self, path: Path) -> Any:
        return read_model(path)

    def check_path(self, path: Path) -> None:
        if path.suffix not in {".json", ".ubj"}:
            raise ValueError(f"an XGBoost model is written to a .json or .ubj file, found {path}")

    def save(self, model: Any, path: Path) -> None:
        model.save_model(str(path))

    def class_names(self, model: Any, path: Path) -> str | None:
        return model.attr(_CLASS_NAMES)

    def keep_class_names(self, model: Any, path: Path, names: str) -> None:
        model.set_attr(**{_CLASS_NAMES: names})
        self.save(model, path)

    def forest_data(
        self, X: Any, y: Any, params: dict[str, Any], *, n_classes: int | None, is_binary: bool
    ) -> tuple[dict[str, Any], Any]:
        filled: dict[str, Any] = {}
        if is_binary:
            filled = {"objective": "binary:logistic"}
        elif n_classes is not None:
            filled = {"objective": "multi:softprob", "num_class": n_classes}
            if VERSION >= _FIRST_WITH_ROWS_IN_LEAVES:
                # One tree for all classes has one bag. With one tree and bag per class, a row loses a few more votes.
                filled["multi_strategy"] = "multi_output_tree"
        if "subsample" not in params:
            filled["subsample"] = 0.632
        return filled | params, xgb.DMatrix(X, y, enable_categorical=True)


framework = Xgboost()
