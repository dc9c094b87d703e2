"""Bagging over any classifiers of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from rfsize.adapters.leaves import Leaves
from rfsize.adapters.trees import TreeTable
from rfsize.exceptions import NotAForestError
from rfsize.integrations.sklearn.ensemble import SklearnEnsemble, as_array, some_columns


class SklearnBagging(SklearnEnsemble):
    """Bagging over any classifiers: a member answers with a class."""

    are_trees = False
    averages_scores = False
    reads_numbers_only = False

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        # Scikit-learn averages the members' probabilities where these have any.
        self.predict_obeys = "soft" if hasattr(model.estimators_[0], "predict_proba") else "hard"
        n_classes = len(self.classes)
        # All members share one leaf for each class.
        self.leaves = Leaves(
            offset=np.zeros((self.n_trees, 1), dtype=np.int64),
            score=np.eye(n_classes),
            raw=np.eye(n_classes),
            mass=np.zeros(n_classes),
            provable=np.zeros(n_classes, dtype=np.bool_),
        )

    def leaf_index(self, X: Any) -> NDArray[Any]:
        X = as_array(X)
        answers = Parallel(n_jobs=self.booster.n_jobs)(
            delayed(member.predict)(some_columns(X, features))
            for member, features in zip(self.booster.estimators_, self._features, strict=True)
        )
        index, n_classes = np.stack(answers, axis=1).astype(np.int64)[:, :, None], len(self.classes)
        if index.min() < 0 or index.max() >= n_classes:
            raise ValueError(
                f"members of the ensemble predict {index.min()} to {index.max()}, which are not all indices of its "
                f"{n_classes} classes: let each member predict a class on every row"
            )
        return index

    def tree_table(self, threshold: float) -> TreeTable:
        raise NotAForestError(_no_trees(self.booster))


def _no_trees(model: Any) -> str:
    member = type(model.estimators_[0]).__name__
    return f"the members of the ensemble are no decision trees but {member}s, which cannot be compiled"
