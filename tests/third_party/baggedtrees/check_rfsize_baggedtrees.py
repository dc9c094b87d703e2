"""That rfsize is taught right: pytest runs this file where both distributions are installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import baggedtrees
import numpy as np
import pytest
import rfsize_baggedtrees
from baggedtrees import BaggedTrees

import rfsize
from rfsize.testing import check_framework

rng = np.random.default_rng(7)
X = rng.normal(size=(400, 6))
TWO = (X[:, 0] + X[:, 1] * X[:, 2] > 0.3).astype(int)
THREE = np.array(["ash", "elm", "oak"])[np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.7])]
FRESH = rng.normal(size=(50, 6))


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_rfsize_is_taught_right(y: np.ndarray) -> None:
    model = BaggedTrees(15).fit(X, y)
    answers = check_framework(rfsize_baggedtrees.framework, model, X, y)
    assert {part for part, answer in answers.items() if answer != "right"} == {"more trees"}


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_questions_are_answered(y: np.ndarray) -> None:
    model = BaggedTrees(31).fit(X, y)
    inbag = np.stack([model.bag(number, len(X)) for number in range(31)])
    assert np.array_equal(rfsize.inbag(model, X), inbag)
    assert rfsize.size(model, X, oob=True, alpha=0.9).source == "oob"
    small = rfsize.truncate(model, n_trees=5)
    assert (type(small), len(small.trees_), len(model.trees_)) == (BaggedTrees, 5, 31)
    fast = rfsize.compile(model)
    np.testing.assert_allclose(fast.predict_proba(FRESH), model.predict_proba(FRESH), atol=1e-12)
    votes = rfsize.tree_outputs(model, FRESH).votes
    assert rfsize.compile(model, voting="hard").predict_labels(FRESH).tolist() == votes.winner().tolist()
    with pytest.raises(ValueError, match="baggedtrees"):
        rfsize.grow(model, X, y)


def wrong_leaves(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    apply = BaggedTrees.apply
    monkeypatch.setattr(BaggedTrees, "apply", lambda self, X: apply(self, X)[:, ::-1])


def wrong_predictions(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    predict_proba = BaggedTrees.predict_proba
    monkeypatch.setattr(BaggedTrees, "predict_proba", lambda self, X: predict_proba(self, X) * 1.01)


def wrong_bags(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    model.seed = 1


def wrong_counts(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    model.trees_[3].n_rows = [count + 1 for count in model.trees_[3].n_rows]


def a_wrong_tree(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    model.trees_[2].left, model.trees_[2].right = model.trees_[2].right, model.trees_[2].left


def a_changed_model(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    """Truncation that takes the trees from the caller's own model."""

    def copied(forest: BaggedTrees) -> BaggedTrees:
        other = BaggedTrees()
        vars(other).update(vars(forest))
        forest.trees_ = forest.trees_[::-1][:-1] or forest.trees_
        return other

    monkeypatch.setattr(rfsize_baggedtrees.copy, "copy", copied)


def bags_of_two_axes(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    take = rfsize_baggedtrees.BaggedTreesBags.take
    monkeypatch.setattr(rfsize_baggedtrees.BaggedTreesBags, "take", lambda *rows: take(*rows)[:, :, 0])


def a_refusal_by_another_error(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    monkeypatch.setattr(
        rfsize_baggedtrees.BaggedTreesFramework,
        "read",
        lambda _, forest: rfsize_baggedtrees.BaggedTreesForest(forest),
    )


DAMAGES = (
    wrong_leaves,
    wrong_predictions,
    wrong_bags,
    wrong_counts,
    a_wrong_tree,
    a_changed_model,
    bags_of_two_axes,
    a_refusal_by_another_error,
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_wrong_is_found(damage: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    model = BaggedTrees(15).fit(X, TWO)
    damage(monkeypatch, model)
    with pytest.raises(AssertionError):
        check_framework(rfsize_baggedtrees.framework, model, X, TWO)


def test_names_in_place_of_probabilities_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = BaggedTrees(15).fit(X, THREE)
    names = model.predict(X)
    monkeypatch.setattr(BaggedTrees, "predict", lambda *_: names)
    monkeypatch.delattr(BaggedTrees, "predict_proba")
    with pytest.raises(AssertionError, match="predict_proba"):
        check_framework(rfsize_baggedtrees.framework, model, X, THREE)


def test_the_framework_is_none_of_rfsizes() -> None:
    assert not [name for name in vars(baggedtrees) if "rfsize" in name]
    with pytest.raises(AssertionError, match="entry point"):
        check_framework(rfsize_baggedtrees.framework, object(), X, TWO)
