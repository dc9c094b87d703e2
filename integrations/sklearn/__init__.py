"""Scikit-learn: random forests, extremely randomised trees, bagging, AdaBoost and gradient boosting."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from sklearn.pipeline import Pipeline

from rfsize.exceptions import NotAForestError
from rfsize.integrations.sklearn.boosting import BOOSTED, read_boosted
from rfsize.integrations.sklearn.model import (
    FORESTS,
    THRESHOLD_CLASSIFIERS,
    at_the_end_of,
    inside_threshold_classifier,
    read_forest,
    why_unread,
)
from rfsize.integrations.sklearn.training import SklearnTraining
from rfsize.models.framework import Framework, ModelFiles
from rfsize.models.model import Model

# What skops loads only if told to trust it, of scikit-learn's forests, bagging and boosting.
_TRUSTED = [
    "functools.partial",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
    "sklearn.utils.validation.check_array",
]


class SkopsFiles(ModelFiles):
    """Scikit-learn models in skops files, which hold no code; rfsize never reads pickles."""

    kind = "a scikit-learn model in a skops file"

    def recognises(self, content: bytes) -> bool:
        return content.startswith(b"PK") and b"schema.json" in content

    def load(self, path: Path) -> Any:
        skops = _skops()
        try:
            unknown = sorted(set(skops.get_untrusted_types(file=path)) - set(_TRUSTED))
            if not unknown:
                return skops.load(path, trusted=_TRUSTED)
        except Exception as error:  # of skops, zipfile, NumPy or scikit-learn
            raise ValueError(f"skops cannot read {path} ({error!r:.200}): write it by skops.io.dump again") from error
        raise ValueError(f"{path} holds types beyond scikit-learn's, {', '.join(unknown)[:300]}: use it in Python")

    def check_path(self, path: Path) -> None:
        if path.suffix != ".skops":
            raise ValueError(f"a scikit-learn model is written to a .skops file, not to {path}: rename it")

    def save(self, model: Any, path: Path) -> None:
        _skops().dump(model, path)


def _skops() -> ModuleType:
    try:
        import skops.io
    except ImportError:
        raise ImportError("models of scikit-learn are read and written by skops: pip install rfsize[skops]") from None
    return skops.io


class ScikitLearn(Framework):
    """scikit-learn, as rfsize reads its models."""

    name = "scikit-learn"
    training = SklearnTraining()
    files = SkopsFiles()

    def read(self, model: Any) -> Model:
        if isinstance(model, Pipeline):
            return at_the_end_of(model)
        if isinstance(model, THRESHOLD_CLASSIFIERS):
            return inside_threshold_classifier(model)
        if isinstance(model, FORESTS):
            return read_forest(model)
        if isinstance(model, BOOSTED):
            return read_boosted(model)
        raise NotAForestError(why_unread(model))


framework = ScikitLearn()
