"""LightGBM: forests of ``boosting="rf"``."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightgbm as lgb

from rfsize.integrations.lightgbm.forest import LightGbmForest, booster_of
from rfsize.integrations.lightgbm.merging import merged
from rfsize.integrations.lightgbm.model_text import ForestText
from rfsize.integrations.lightgbm.parameters import IGNORED, NOT_OF_TRAINING, TREE_COUNT_NAMES, value_of, without
from rfsize.integrations.lightgbm.text_form import check_text, check_trees
from rfsize.integrations.lightgbm.trainer import LightGbmTrainer
from rfsize.integrations.lightgbm.training_rows import rows_of
from rfsize.models.damage import damage_refused, refuse
from rfsize.models.framework import Framework

_CLASS_NAMES = b"\nrfsize_class_names:"


class LightGbm(Framework):
    """The integration of LightGBM."""

    name = "LightGBM"
    file_kind = "a LightGBM text model"
    file_ending = ".txt"

    def adapt(self, model: Any, *, casts_votes: bool = True) -> LightGbmForest:
        return LightGbmForest(model, casts_votes=casts_votes)

    def trainer(self, params: dict[str, Any], data: Any) -> LightGbmTrainer:
        return LightGbmTrainer(params, data)

    def params_of(self, model: Any) -> dict[str, Any]:
        booster = booster_of(model)
        # LightGBM 4.3 does not read the parameters when it loads a model from a string. The string has six digits.
        params = copy.deepcopy(booster.params or booster._get_loaded_param())
        if not params:
            raise ValueError(
                "the LightGBM model does not say how it was trained (its text has no parameters); give the params"
            )
        return without(params, *IGNORED, *NOT_OF_TRAINING)

    def accepts(self, params: dict[str, Any]) -> bool:
        return not params.keys().isdisjoint(("boosting", "boosting_type", "boost"))

    def deterministic_data(self, params: dict[str, Any], X: Any, y: Any, weight: Any) -> tuple[dict[str, Any], Any]:
        # Otherwise each thread adds up the gradients of its own rows, and the rounding depends on the threads.
        one_sum = {"deterministic": True, "force_col_wise": True}
        return without(params, *one_sum, "force_row_wise") | one_sum, lgb.Dataset(X, y, weight=weight)

    def models_in(self, model: Any) -> list[Any] | None:
        return list(model.boosters) if isinstance(model, lgb.CVBooster) else None

    def merged(self, boosters: Sequence[Any]) -> Any:
        return merged(boosters)

    def rows_of(self, data: Any) -> Any:
        return rows_of(data) if isinstance(data, lgb.Dataset) else None

    def tree_count_parameters(self, estimator: Any) -> set[str]:
        return TREE_COUNT_NAMES

    def with_fraction(self, estimator: Any, fraction: float, n_rows: int) -> Any:
        return estimator.set_params(**dict.fromkeys(_fractions(estimator), fraction))

    def fraction_of(self, estimator: Any, n_rows: int) -> float | None:
        named = [float(value) for value in _fractions(estimator).values() if 0.0 < float(value) < 1.0]
        return named[0] if named else None

    def recognises(self, content: bytes) -> bool:
        return content.startswith((b"tree\n", b"tree\r\n"))

    def load(self, path: Path) -> Any:
        # LightGBM reads most damaged files without an error, and later reads and writes beyond its arrays. So it gets
        # only files that rfsize found to be whole, and to be forests.
        with damage_refused():
            text = check_text(path.read_bytes())
            check_trees(ForestText.read(text, casts_votes=False))
        try:
            return lgb.Booster(model_str=text)
        except (lgb.basic.LightGBMError, ValueError) as error:  # a ValueError comes from the parameters, which are JSON
            refuse(f"LightGBM cannot read it ({error})", error)

    def check_path(self, path: Path) -> None:
        if path.suffix in {".json", ".ubj"}:
            raise ValueError(f"a LightGBM model is written as text, to a .txt file for instance, found {path}")

    def save(self, model: Any, path: Path) -> None:
        model.save_model(str(path))

    def class_names(self, model: Any, path: Path) -> str | None:
        _, found, rest = path.read_bytes().rpartition(_CLASS_NAMES)
        return rest.partition(b"\n")[0].strip().decode("ascii", errors="replace") if found else None

    def keep_class_names(self, model: Any, path: Path, names: str) -> None:
        # The line goes after the parameters, where LightGBM reads only the categories below.
        text = path.read_bytes()
        end = text.rfind(b"\npandas_categorical:")
        path.write_bytes(text[:end] + _CLASS_NAMES + names.encode("ascii") + text[end:])

    def objective_of(self, params: dict[str, Any]) -> str | None:
        names = ("objective", "objective_type", "app", "application", "loss")
        return next((str(params[name]) for name in names if name in params), None)

    def forest_data(
        self, X: Any, y: Any, params: dict[str, Any], *, n_classes: int | None, is_binary: bool
    ) -> tuple[dict[str, Any], Any]:
        filled: dict[str, Any] = {"boosting": "rf", "bagging_freq": 1, "verbosity": -1}
        if n_classes is not None:
            filled |= {"objective": "binary"} if is_binary else {"objective": "multiclass", "num_class": n_classes}
        if all(value_of(params, f"{kind}bagging_fraction", None) is None for kind in ("", "pos_", "neg_")):
            filled["bagging_fraction"] = 0.632
        return filled | params, lgb.Dataset(X, y, free_raw_data=False)


framework = LightGbm()


def _fractions(estimator: Any) -> dict[str, Any]:
    """The parameters of an estimator that name its bagging fraction."""
    given = estimator.get_params()
    return {name: given[name] for name in ("bagging_fraction", "bagging", "sub_row", "subsample") if name in given}
