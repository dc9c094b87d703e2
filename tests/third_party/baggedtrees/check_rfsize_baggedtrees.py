"""That rfsize is taught right: pytest runs this file where both distributions are installed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import rfsize_baggedtrees
from baggedtrees import BaggedTrees
from rfsize_baggedtrees import BaggedTreesBags, BaggedTreesForest, BaggedTreesFramework

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
    assert set(answers.values()) == {"right"}


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


APPLY, PREDICT, TAKE = BaggedTrees.apply, BaggedTrees.predict_proba, BaggedTreesBags.take


def swap_sides(_: pytest.MonkeyPatch, model: BaggedTrees) -> None:
    model.trees_[2].left, model.trees_[2].right = model.trees_[2].right, model.trees_[2].left


def truncate_the_callers_own(patch: pytest.MonkeyPatch, _: BaggedTrees) -> None:
    def copied(forest: BaggedTrees) -> BaggedTrees:
        other = BaggedTrees()
        vars(other).update(vars(forest))
        forest.trees_ = forest.trees_[::-1][:-1] or forest.trees_
        return other

    patch.setattr(rfsize_baggedtrees.copy, "copy", copied)


DAMAGES: dict[str, Callable[[pytest.MonkeyPatch, BaggedTrees], None]] = {
    "leaves": lambda patch, _: patch.setattr(BaggedTrees, "apply", lambda self, X: APPLY(self, X)[:, ::-1]),
    "predictions": lambda patch, _: patch.setattr(
        BaggedTrees, "predict_proba", lambda self, X: PREDICT(self, X) * 1.01
    ),
    "bags": lambda patch, model: patch.setattr(model, "seed", 1),
    "counts": lambda patch, model: patch.setattr(model.trees_[3], "n_rows", [9] * len(model.trees_[3].n_rows)),
    "a tree": swap_sides,
    "a model that changes": truncate_the_callers_own,
    "bags of two axes": lambda patch, _: patch.setattr(BaggedTreesBags, "take", lambda *rows: TAKE(*rows)[:, :, 0]),
    "another error": lambda patch, _: patch.setattr(BaggedTreesFramework, "read", lambda _, of: BaggedTreesForest(of)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_wrong_is_found(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = BaggedTrees(15).fit(X, TWO)
    DAMAGES[damage](monkeypatch, model)
    with pytest.raises(AssertionError):
        check_framework(rfsize_baggedtrees.framework, model, X, TWO)


def test_names_in_place_of_probabilities_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = BaggedTrees(15).fit(X, THREE)
    names = model.predict(X)
    monkeypatch.setattr(BaggedTrees, "predict", lambda *_: names)
    monkeypatch.delattr(BaggedTrees, "predict_proba")
    with pytest.raises(AssertionError, match="predict_proba"):
        check_framework(rfsize_baggedtrees.framework, model, X, THREE)


def test_an_object_of_no_framework_has_no_entry_point() -> None:
    with pytest.raises(AssertionError, match="entry point"):
        check_framework(rfsize_baggedtrees.framework, object(), X, TWO)
