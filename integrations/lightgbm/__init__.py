"""LightGBM: models of every boosting, and forests of ``boosting="rf"``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lightgbm as lgb

from rfsize.integrations.lightgbm.model import LightGbmModel, read
from rfsize.integrations.lightgbm.training import LightGbmTraining, value_of
from rfsize.models.framework import Framework, ModelFiles

_CLASS_NAMES = b"\nrfsize_class_names:"


class LightGbmFiles(ModelFiles):
    """LightGBM's text models, and forests that the command line trains."""

    kind = "a LightGBM text model"

    def recognises(self, content: bytes) -> bool:
        return content.startswith((b"tree\n", b"tree\r\n"))

    def load(self, path: Path) -> Any:
        # LightGBM would read on beyond the end, and take zeros for what is no number.
        head, end, _ = path.read_bytes().partition(b"\nend of trees\n")
        if not end or re.search(rb"[^\w=+\-. \n]", head.partition(b"\nTree=")[2]):
            raise ValueError(f"{path} is damaged, or breaks off before the end of its trees: save the model again")
        try:
            return lgb.Booster(model_file=str(path))
        except (lgb.basic.LightGBMError, ValueError) as error:  # a ValueError comes from the parameters, which are JSON
            raise ValueError(f"LightGBM cannot read {path} ({error}): save the model again") from error

    def check_path(self, path: Path) -> None:
        if path.suffix in {".json", ".ubj"}:
            raise ValueError(f"a LightGBM model is written as text: name a .txt file, found {path}")

    def save(self, model: Any, path: Path) -> None:
        model.save_model(str(path))

    def class_names(self, model: Any, path: Path) -> str | None:
        _, note, rest = path.read_bytes().rpartition(_CLASS_NAMES)
        return rest.partition(b"\n")[0].strip().decode("ascii", errors="replace") if note else None

    def keep_class_names(self, model: Any, path: Path, names: str) -> None:
        # The line goes after the parameters, where LightGBM reads only the categories below.
        text = path.read_bytes()
        end = text.rfind(b"\npandas_categorical:")
        path.write_bytes(text[:end] + _CLASS_NAMES + names.encode("ascii") + text[end:])

    def forest_data(
        self, X: Any, y: Any, params: dict[str, Any], *, n_classes: int | None, is_binary: bool
    ) -> tuple[dict[str, Any], Any]:
        filled: dict[str, Any] = {"boosting": "rf", "bagging_freq": 1, "verbosity": -1}
        if n_classes is not None:
            filled |= {"objective": "binary"} if is_binary else {"objective": "multiclass", "num_class": n_classes}
        if all(value_of(params, f"{kind}bagging_fraction", None) is None for kind in ("", "pos_", "neg_")):
            filled["bagging_fraction"] = 0.632
        return filled | params, lgb.Dataset(X, y, free_raw_data=False)


class LightGbm(Framework):
    """The framework LightGBM."""

    name = "LightGBM"
    training = LightGbmTraining()
    files = LightGbmFiles()

    def read(self, model: Any) -> LightGbmModel:
        return read(model)


framework = LightGbm()
