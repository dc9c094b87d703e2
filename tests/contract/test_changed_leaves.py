"""Leaves that were changed after training, which counts of rows cannot tell: with the labels they are refused."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import rfsize
from helpers.models import X, model
from rfsize.exceptions import InbagError


@pytest.mark.parametrize(
    "kind", ["lightgbm", "lightgbm multiclass", "xgboost", "random forest", "extra-trees", "bagging"]
)
def test_other_labels_than_those_of_training_are_refused(kind: str) -> None:
    forest = model(kind)
    assert np.array_equal(rfsize.inbag(forest.model, X, forest.y), forest.inbag)
    with pytest.raises(InbagError):
        rfsize.inbag(forest.model, X, forest.y[::-1])


@pytest.mark.parametrize("kind", ["lightgbm", "lightgbm multiclass"])
def test_refitted_boosters_are_refused(kind: str) -> None:
    forest = model(kind)
    refitted = forest.model.refit(X, forest.y)
    for call in (rfsize.tree_outputs, rfsize.size):
        with pytest.raises(InbagError):
            call(refitted, X, forest.y, oob=True)


def test_one_leaf_that_was_set_is_refused() -> None:
    booster = model("lightgbm").model.__copy__()
    booster.set_leaf_output(4, 2, booster.get_leaf_output(4, 2) + 0.05)
    forest = copy.deepcopy(model("random forest").model)
    tree = forest.estimators_[3].tree_
    leaf = int(np.flatnonzero(tree.children_left == -1)[0])
    tree.value[leaf, 0] = tree.value[leaf, 0, ::-1].copy()
    for trained in (booster, forest):
        with pytest.raises(InbagError):
            rfsize.inbag(trained, X, model("lightgbm").y)
