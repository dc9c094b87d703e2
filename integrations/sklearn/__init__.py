"""Scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rfsize.adapters.base import Adapter
from rfsize.adapters.integration import Integration
from rfsize.utils.matrix import n_rows
from rfsize.utils.validation import training_labels
from rfsize.voting.groups import ALONE, Groups

if TYPE_CHECKING:
    from rfsize.integrations.sklearn.adaboost import BoostedTrees
    from rfsize.integrations.sklearn.warm_start import SklearnInTraining


class ScikitLearn(Integration):
    """Random forests, extremely randomised trees and bagging; AdaBoost, to compile it."""

    framework = "scikit-learn"
    file_kind = "a scikit-learn model in a skops file"
    file_ending = ".skops"
    default_n_jobs = 1

    def adapt(self, model: Any, *, casts_votes: bool = True) -> Adapter:
        from rfsize.integrations.sklearn.kinds import adapt

        return adapt(model, casts_votes=casts_votes)

    def weighted(self, model: Any) -> BoostedTrees | None:
        from rfsize.integrations.sklearn.adaboost import adapt

        return adapt(model)

    def in_training(
        self, adapter: Any, X: Any, y: Any, sample_weight: Any, threshold: float, groups: Groups = ALONE
    ) -> SklearnInTraining:
        from rfsize.integrations.sklearn.warm_start import SklearnInTraining

        label = training_labels(adapter.classes, y, n_rows(X))
        return SklearnInTraining(adapter, X, y, label, sample_weight, threshold, groups)

    def recognises(self, content: bytes) -> bool:
        return content.startswith(b"PK") and b"schema.json" in content

    def load(self, path: Path) -> Any:
        from rfsize.integrations.sklearn.model_files import load

        return load(path)

    def check_path(self, path: Path) -> None:
        if path.suffix != ".skops":
            raise ValueError(f"a scikit-learn model is written to a .skops file, found {path}")

    def save(self, model: Any, path: Path) -> None:
        from rfsize.integrations.sklearn.model_files import save

        save(model, path)


integration = ScikitLearn()
