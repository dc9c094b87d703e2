"""Bagging over any learners of scikit-learn, whose members answer with probabilities, classes or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from rfsize.adapters.base import Voter
from rfsize.adapters.leaves import Answers, Leaves
from rfsize.adapters.trees import TreeTable
from rfsize.exceptions import NotAForestError
from rfsize.integrations.sklearn.ensemble import SklearnEnsemble, as_array, some_columns
from rfsize.utils.typing import Bools, Floats


class SklearnBagging(SklearnEnsemble):
    """Bagging over any learners.

    A member scores classes by its probabilities. A classifier without any scores the class that it predicts 1 and the
    others 0, so that averaged scores are shares of the votes, as scikit-learn's own ``predict_proba`` gives them.
    """

    are_trees = False
    reads_numbers_only = False

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._has_probabilities = hasattr(model.estimators_[0], "predict_proba")
        self.predict_obeys = "soft" if self._has_probabilities or not self.classes.size else "hard"
        self._n_scores = len(self.classes) if len(self.classes) > 2 else 1
        self.leaves = Leaves.nothing(self.n_trees, self._n_scores)

    @property
    def digest(self) -> str | None:
        return None

    def answers(self, X: Any, inbag: Bools | None = None) -> Answers:
        X = as_array(X)
        asked = np.ones((X.shape[0], self.n_trees), dtype=np.bool_) if inbag is None else ~inbag[:, :, 0]
        found = Parallel(n_jobs=self.booster.n_jobs)(
            delayed(self._scores)(member, some_columns(X[rows], features))
            for member, features, rows in zip(self.booster.estimators_, self._features, asked.T, strict=True)
            if rows.any()
        )
        scores = np.zeros((*asked.shape, self._n_scores))
        for member, of_member in zip(np.flatnonzero(asked.any(axis=0)), found, strict=True):
            scores[asked[:, member], member] = of_member
        return Answers.of_scores(scores)

    def voter(self, threshold: float) -> Voter:
        if self._n_scores > 1:
            return lambda answers: answers.raw.argmax(axis=2)
        return lambda answers: answers.raw[:, :, 0] > threshold

    def tree_table(self, threshold: float) -> TreeTable:
        raise NotAForestError(
            f"the members of the ensemble are no decision trees but {type(self.booster.estimators_[0]).__name__}s, "
            "which cannot be compiled"
        )

    def _scores(self, member: Any, X: Any) -> Floats:
        """What a member says of rows, shape (rows, n_scores)."""
        n_classes = len(self.classes)
        if not n_classes:
            return _one_number(member.predict(X))
        shares = np.zeros((X.shape[0], n_classes))
        if self._has_probabilities:
            # Of the classes in its bag, which may lack some.
            shares[:, np.asarray(member.classes_, dtype=np.intp)] = member.predict_proba(X)
        else:
            shares[np.arange(len(shares)), _class_indices(member.predict(X), n_classes)] = 1.0
        return shares if n_classes > 2 else shares[:, 1:]


def _one_number(predicted: NDArray[Any]) -> Floats:
    found = np.asarray(predicted, dtype=np.float64).reshape(len(predicted), -1)
    if found.shape[1] > 1:
        raise NotAForestError(several("numbers", "Regressor"))
    return found


def _class_indices(predicted: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    index = np.asarray(predicted).astype(np.int64)
    if index.min() < 0 or index.max() >= n_classes:
        raise ValueError(
            f"members of the ensemble predict {index.min()} to {index.max()}, which are not all indices of its "
            f"{n_classes} classes: let each member predict a class on every row"
        )
    return index


def several(what: str, kind: str) -> str:
    """The refusal of ensembles that predict several labels or numbers at once."""
    return (
        f"the ensemble predicts several {what} at once; train one for each column of y, as "
        f"sklearn.multioutput.MultiOutput{kind}(forest).fit(X, y) does, and give its estimators_ one by one"
    )
