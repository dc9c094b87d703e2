"""Forests cut to as many first trees as a report says, or as fit into so many bytes."""

from __future__ import annotations

import pickle
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import rfsize
from helpers.trained import FRAMEWORKS, FRESH, TRUTH, model, n_trees_of, predicted
from helpers.warned import warned
from rfsize.exceptions import NotConvergedWarning


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("framework", "options"),
    [
        ("lightgbm", {"alpha": 0.85}),
        ("xgboost", {"metric": "brier", "tolerance": 0.01}),
        ("sklearn", {"metric": "probabilities", "tolerance": 0.1}),
    ],
)
def test_truncate_keeps_the_trees_of_the_report(framework: str, options: dict[str, Any]) -> None:
    outputs = rfsize.tree_outputs(model(framework), FRESH, TRUTH["two"])
    report = rfsize.size(outputs, **options)
    cut = [rfsize.truncate(model(framework), FRESH, TRUTH["two"], **options), rfsize.truncate(outputs, **options)]
    cut.append(rfsize.truncate(model(framework), n_trees=report))
    assert report.enough
    assert [n_trees_of(of) for of in cut] == [report.n_trees] * 3


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_forest_that_is_too_small_is_kept_whole(framework: str) -> None:
    for options in ({"alpha": 0.999}, {"metric": "probabilities", "tolerance": 1e-3}):
        with pytest.warns(NotConvergedWarning):
            small = rfsize.truncate(model(framework), FRESH, **options)
        assert small is not model(framework)
        assert np.array_equal(predicted(small, FRESH), predicted(model(framework), FRESH))


# Within so many bytes


def n_bytes(forest: Any) -> int:
    if isinstance(forest, lgb.Booster):
        return len(forest.model_to_string().encode())
    return len(forest.save_raw("ubj")) if isinstance(forest, xgb.Booster) else len(pickle.dumps(forest))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_largest_forest_within_bytes_is_kept(framework: str) -> None:
    forest = model(framework)
    for n_trees in (2, 13):
        most = n_bytes(rfsize.truncate(forest, n_trees=n_trees))
        cut = [rfsize.truncate(forest, max_bytes=budget) for budget in (most, most - 1)]
        assert [n_trees_of(of) for of in cut] == [n_trees, n_trees - 1]
    smallest = n_bytes(rfsize.truncate(forest, n_trees=1))
    with pytest.raises(ValueError, match=f"{smallest:,}"):
        rfsize.truncate(forest, max_bytes=smallest - 1)
    whole = n_bytes(rfsize.truncate(forest, n_trees=60))  # XGBoost's remembers its bags
    assert n_trees_of(rfsize.truncate(forest, max_bytes=whole)) == 60


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_bytes_that_cut_below_the_size_are_warned_of(framework: str) -> None:
    forest = model(framework)
    budget = n_bytes(rfsize.truncate(forest, n_trees=3))
    assert rfsize.size(forest, FRESH, alpha=0.93).n_trees > 3
    for alpha in (0.93, 0.9999):
        with pytest.warns(NotConvergedWarning):
            small = rfsize.truncate(forest, FRESH, alpha=alpha, max_bytes=budget)
        assert n_trees_of(small) == 3
    enough = 2 * n_bytes(forest)
    assert not warned(lambda: rfsize.truncate(forest, FRESH, alpha=0.93, max_bytes=enough), NotConvergedWarning)


def test_a_deep_cut_is_warned_of() -> None:
    forest = model("sklearn")
    budget = n_bytes(rfsize.truncate(forest, n_trees=3))
    with pytest.warns(NotConvergedWarning, match=f"{budget:,}"):
        rfsize.truncate(forest, max_bytes=budget)
    n_fits = n_bytes(rfsize.truncate(forest, n_trees=40))
    assert not warned(lambda: rfsize.truncate(forest, max_bytes=n_fits), NotConvergedWarning)
