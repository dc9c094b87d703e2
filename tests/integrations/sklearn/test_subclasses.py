"""Forests of other packages, which subclass scikit-learn's: cut or refused by name, and their bags are not guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import rfsize
from helpers.forests import Data
from rfsize.exceptions import InbagError, NotAForestError

_LEARNT = ("classes_", "n_classes_", "n_features_in_", "n_outputs_")


class Resampled(RandomForestClassifier):
    """As imbalanced-learn's `BalancedRandomForestClassifier`: a sampler for each tree, and nothing about the bags."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Resampled:
        own = RandomForestClassifier(**self.get_params()).fit(X, y, sample_weight)
        for name in (*_LEARNT, "estimators_"):
            setattr(self, name, getattr(own, name))
        self.samplers_ = [np.zeros(1000) for _ in self.estimators_]
        return self


class View(RandomForestClassifier):
    """As Intel's forests: another model predicts, and the list of trees is made from it each time."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> View:
        self._other = RandomForestClassifier(**self.get_params()).fit(X, y, sample_weight)
        for name in (*_LEARNT, "_n_samples", "_n_samples_bootstrap"):
            setattr(self, name, getattr(self._other, name))
        return self

    @property
    def estimators_(self) -> list[Any]:
        return list(self._other.estimators_)

    def predict_proba(self, X: Any) -> Any:
        return self._other.predict_proba(X)


class Unweighted(BaggingClassifier):
    """A learner whose fit takes no weights, and which has the older form of tags without their end."""

    def fit(self, X: Any, y: Any) -> Unweighted:
        super().fit(X, y)
        return self

    def _more_tags(self) -> Any:
        return super()._more_tags()


ALL = {"resampled": Resampled, "view": View}
OUT_OF_BAG: dict[str, Callable[[Any, Any, Any], Any]] = {
    "tree_outputs": lambda model, X, y: rfsize.tree_outputs(model, X, y, oob=True),
    "size": lambda model, X, y: rfsize.size(model, X, y, oob=True),
    "oob_score": rfsize.oob_score,
    "oob_predict": lambda model, X, y: rfsize.oob_predict(model, X),
    "inbag": lambda model, X, y: rfsize.inbag(model, X),
    "importance": rfsize.oob_importance,
    "grow": lambda model, X, y: rfsize.grow(model, X, y, max_trees=150),
    "fraction": lambda model, X, y: rfsize.select_bagging_fraction(model, X, y, fractions=[0.2], n_trees=20),
}


@pytest.fixture(params=ALL)
def model(request: pytest.FixtureRequest, data: Data) -> Any:
    return ALL[request.param](40, random_state=0).fit(data.X, data.y)


@pytest.mark.parametrize("of", OUT_OF_BAG.values(), ids=OUT_OF_BAG)
def test_unknown_bags_are_refused_by_name(of: Callable[[Any, Any, Any], Any], model: Any, data: Data) -> None:
    with pytest.raises(InbagError, match=type(model).__name__):
        of(model, data.X, data.y)


def test_rows_that_were_not_trained_on_need_no_bags(model: Any, data: Data) -> None:
    fast = rfsize.compile(model)
    assert fast.predict_proba(data.fresh).tolist() == model.predict_proba(data.fresh).tolist()
    assert rfsize.tree_outputs(model, data.fresh).votes == fast.votes(data.fresh)
    assert rfsize.size(model, data.fresh, alpha=0.9).n_trees >= 1
    assert rfsize.StopTable.calibrate(model, data.fresh, alpha=0.9).n_trees == 40


def test_right_sized_by_cross_validation(model: Any, data: Data) -> None:
    sized = rfsize.RightSizedClassifier(type(model)(random_state=0), alpha=0.8, max_trees=150).fit(data.X, data.y)
    assert sized.score(data.X, data.y) > 0.8


def test_a_list_of_trees_is_cut_with_what_belongs_to_each_tree(data: Data) -> None:
    model = Resampled(40, random_state=0).fit(data.X, data.y)
    small = rfsize.truncate(model, n_trees=5)
    assert type(small) is Resampled
    assert len(small.estimators_) == len(small.samplers_) == small.n_estimators == 5
    first = np.mean([tree.predict_proba(data.fresh) for tree in model.estimators_[:5]], axis=0)
    assert np.allclose(small.predict_proba(data.fresh), first)
    assert len(model.estimators_) == len(model.samplers_) == 40


@pytest.mark.parametrize(
    "cut",
    [
        lambda model, X: rfsize.truncate(model, n_trees=5),
        lambda model, X: rfsize.truncate(model, X, alpha=0.9),
        lambda model, X: rfsize.truncate(model, max_bytes=10_000_000),
        lambda model, X: rfsize.shrink(model, X, n_trees=5),
    ],
)
def test_a_view_of_trees_is_not_cut_in_name_only(cut: Callable[[Any, Any], Any], data: Data) -> None:
    with pytest.raises(NotAForestError, match="View"):
        cut(View(40, random_state=0).fit(data.X, data.y), data.fresh)


def test_an_estimator_that_takes_no_weights(data: Data) -> None:
    model = Unweighted(DecisionTreeClassifier(), 20, random_state=0)
    assert rfsize.tree_outputs(model, data.X, data.y, cv=3).n_trees == 20
    assert rfsize.RightSizedClassifier(model, alpha=0.8, max_trees=120).fit(data.X, data.y).n_trees_ >= 1
