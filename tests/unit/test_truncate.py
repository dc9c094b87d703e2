"""Forests cut to their first trees: by a size, by rows, by a report and by the bytes of their file."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from lightgbm import LGBMClassifier
from sklearn.base import clone
from xgboost import XGBClassifier

import rfsize
from helpers.trained import FRAMEWORKS, FRESH, TRUTH, X, Y, model, predicted, probabilities, tree_scores
from rfsize.exceptions import NotConvergedWarning


def n_trees_of(forest: Any) -> int:
    return rfsize.tree_outputs(forest, FRESH[:2]).n_trees


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("task", ["two", "three", "number"])
def test_truncate_keeps_the_first_trees(framework: str, task: str) -> None:
    forest = model(framework, task)
    before, small = predicted(forest, FRESH), rfsize.truncate(forest, n_trees=7)
    mean = tree_scores(forest, FRESH)[:, :7].mean(axis=1)
    expected = mean[:, 0] if task == "number" else probabilities(forest, mean)
    assert type(small) is type(forest)
    assert predicted(small, FRESH) == pytest.approx(expected, abs=1e-6)
    assert np.array_equal(predicted(forest, FRESH), before)
    assert np.array_equal(rfsize.inbag(small, X, Y[task]), rfsize.inbag(forest, X, Y[task])[:7])


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    "options", [{"alpha": 0.85}, {"metric": "brier", "tolerance": 0.01}, {"metric": "probabilities", "tolerance": 0.1}]
)
def test_truncate_keeps_as_many_trees_as_the_report_says(framework: str, options: dict[str, Any]) -> None:
    outputs = rfsize.tree_outputs(model(framework), FRESH, TRUTH["two"])
    report = rfsize.size(outputs, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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


@pytest.mark.parametrize(
    "estimator",
    [
        LGBMClassifier(boosting_type="rf", n_estimators=41, subsample=0.6, subsample_freq=1, n_jobs=1, verbose=-1),
        XGBClassifier(n_estimators=1, num_parallel_tree=41, learning_rate=1, subsample=0.6, n_jobs=1),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_fitted_classifiers_are_cut_and_fit_again(estimator: Any) -> None:
    forest = clone(estimator).fit(X, Y["two"])
    parameters, before = forest.get_params(), forest.predict_proba(FRESH)
    small = rfsize.truncate(forest, n_trees=11)
    assert (type(small), n_trees_of(small)) == (type(forest), 11)
    again = clone(small).fit(X, Y["two"])
    assert rfsize.tree_outputs(again, FRESH).votes == rfsize.tree_outputs(small, FRESH).votes
    assert forest.get_params() == parameters
    assert np.array_equal(forest.predict_proba(FRESH), before)


# Within so many bytes


def n_bytes(forest: Any) -> int:
    if isinstance(forest, lgb.Booster):
        return len(forest.model_to_string().encode())
    return len(forest.save_raw("ubj")) if isinstance(forest, xgb.Booster) else len(pickle.dumps(forest))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_largest_forest_within_so_many_bytes_is_kept(framework: str) -> None:
    forest = model(framework)
    for n_trees in (2, 13):
        most = n_bytes(rfsize.truncate(forest, n_trees=n_trees))
        cut = [rfsize.truncate(forest, max_bytes=budget) for budget in (most, most - 1)]
        assert [n_trees_of(of) for of in cut] == [n_trees, n_trees - 1]
    one = n_bytes(rfsize.truncate(forest, n_trees=1))
    with pytest.raises(ValueError, match=f"{one:,}"):
        rfsize.truncate(forest, max_bytes=one - 1)
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
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotConvergedWarning)
        rfsize.truncate(forest, FRESH, alpha=0.93, max_bytes=2 * n_bytes(forest))


def test_a_deep_cut_without_rows_offers_the_compiled_forest(tmp_path: Any) -> None:
    forest = model("sklearn")
    rfsize.compile(forest).save(tmp_path / "forest")
    with pytest.warns(NotConvergedWarning, match=f"{(tmp_path / 'forest').stat().st_size:,}"):
        rfsize.truncate(forest, max_bytes=n_bytes(rfsize.truncate(forest, n_trees=3)))
