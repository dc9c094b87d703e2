"""Bagging over any scikit-learn learner; members predict probabilities, classes or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from rfsize.exceptions import NotAForestError
from rfsize.integrations.sklearn.ensemble import SklearnEnsemble, as_array, some_columns
from rfsize.models.ensemble import TreeNodes
from rfsize.models.leaves import Answers, Leaves
from rfsize.models.model import Voter
from rfsize.utils.typing import Bools, Floats

_ROUNDING = 1e-3  # of probabilities in single precision


class SklearnBagging(SklearnEnsemble):
    """Bagging over any learner.

    A member's scores are its class probabilities. A classifier without probabilities scores 1 for the class that it
    predicts and 0 for the others. The averaged scores are then vote fractions, as in scikit-learn's own
    ``predict_proba``. At a threshold other than 0.5, these vote fractions decide the labels.
    """

    are_trees = False
    reads_numbers_only = False

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        has_votes_only = self.classes.size > 0 and not hasattr(model.estimators_[0], "predict_proba")
        self.voting = "hard" if has_votes_only else "soft"
        self._n_scores = len(self.classes) if len(self.classes) > 2 else 1
        self.leaves = Leaves.nothing(self.n_trees, self._n_scores)

    @property
    def digest(self) -> str | None:
        # Learners may change when they are asked: scikit-learn's search trees count their calls.
        return None

    def answers(self, X: Any, inbag: Bools | None = None) -> Answers:
        X = as_array(X)
        asked = np.ones((X.shape[0], self.n_trees), dtype=np.bool_) if inbag is None else ~inbag[:, :, 0]
        found = Parallel(n_jobs=self.booster.n_jobs)(
            delayed(_scores)(member, some_columns(X[rows], features), len(self.classes))
            for member, features, rows in zip(self.booster.estimators_, self._features, asked.T, strict=True)
            if rows.any()
        )
        scores = np.zeros((*asked.shape, self._n_scores))
        for member, of_member in zip(np.flatnonzero(asked.any(axis=0)), found, strict=True):
            scores[asked[:, member], member] = of_member
        return Answers.of_scores(scores)

    def voting_at(self, threshold: float) -> str:
        return self.voting if threshold == 0.5 else "soft"

    def voter(self, threshold: float) -> Voter:
        if self._n_scores > 1:
            return lambda answers: answers.raw.argmax(axis=2)
        return lambda answers: answers.raw[:, :, 0] > threshold

    def tree_table(self, threshold: float) -> TreeNodes:
        raise NotAForestError(
            f"the members of the ensemble are no decision trees but {type(self.booster.estimators_[0]).__name__}s, "
            "which cannot be compiled: cut the ensemble with rfsize.truncate"
        )


def _scores(member: Any, X: Any, n_classes: int) -> Floats:
    """A member's scores, shape (rows, n_scores); a function, so that workers receive only the member."""
    if not n_classes:
        return _one_number(member.predict(X))
    shares = np.zeros((X.shape[0], n_classes))
    if hasattr(member, "predict_proba"):
        # The member's bag may lack classes. Like scikit-learn, ignore columns beyond the classes in the bag.
        known = np.asarray(member.classes_, dtype=np.intp)
        shares[:, known] = member.predict_proba(X)[:, : len(known)]
        _check_probabilities(shares)
    else:
        shares[np.arange(len(shares)), _class_indices(member.predict(X), n_classes)] = 1.0
    return shares if n_classes > 2 else shares[:, 1:]


def _check_probabilities(shares: Floats) -> None:
    """Raise ``ValueError`` if the probabilities of some row do not sum to 1."""
    wrong = shares.sum(axis=1)[~np.isclose(shares.sum(axis=1), 1.0, atol=_ROUNDING)]
    if wrong.size:
        raise ValueError(
            f"predict_proba of a member gives probabilities that sum to {wrong[0]:.4g} on some rows, and 1 is "
            "expected: take a member whose probabilities sum to 1, such as CalibratedClassifierCV around this one"
        )


def _one_number(predicted: NDArray[Any]) -> Floats:
    found = np.asarray(predicted, dtype=np.float64).reshape(len(predicted), -1)
    if found.shape[1] > 1:
        raise NotAForestError(several("numbers", "Regressor"))
    return found


def _class_indices(predicted: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    index = np.asarray(predicted).astype(np.int64)
    if index.min() < 0 or index.max() >= n_classes or np.any(index != predicted):
        raise ValueError(
            f"members of the ensemble predict {np.min(predicted)} to {np.max(predicted)}, which are not all indices of "
            f"its {n_classes} classes: let each member predict a class on every row"
        )
    return index


def several(what: str, kind: str) -> str:
    """The message that refuses ensembles which predict several labels or numbers at once."""
    return (
        f"the ensemble predicts several {what} at once; train one for each column of y, as "
        f"sklearn.multioutput.MultiOutput{kind}(forest).fit(X, y) does, and give its estimators_ one by one"
    )
