"""Forests grown to size, on both frameworks alike."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from lightgbm import LGBMClassifier
from sklearn.pipeline import make_pipeline
from xgboost import XGBClassifier

import rfsize
from helpers.forests import LIGHTGBM, XGBOOST, Data, predict, train_lightgbm
from helpers.reports import as_sure, of_same_votes, same

FOREST = XGBClassifier(n_estimators=1, num_parallel_tree=80, learning_rate=1, subsample=0.8, colsample_bynode=0.8)


def params_of(framework: str) -> dict[str, Any]:
    return dict(LIGHTGBM if framework == "lightgbm" else XGBOOST)


def data_of(framework: str, X: Any, y: Any, **options: Any) -> Any:
    if framework == "lightgbm":
        return lgb.Dataset(X, y, free_raw_data=False, **options)
    return xgb.DMatrix(X, y, **options)


def test_the_grown_forest_has_the_size_of_its_own_report(framework: str, data: Data) -> None:
    params, dtrain = params_of(framework), data_of(framework, data.X, data.y)
    before = copy.deepcopy(params)
    booster, report = rfsize.grow(params, dtrain, alpha=0.97)
    assert params == before
    assert report.enough
    assert (
        report.n_trees <= rfsize.tree_outputs(booster, data.fresh).votes.n_trees == report._wanted <= report.available
    )
    assert report.source == "oob"
    # The first block is the forest that the framework itself trains.
    if framework == "xgboost":
        whole = xgb.train({**params, "num_parallel_tree": 100}, dtrain, 1)
    else:
        whole = train_lightgbm(data.X, data.y, 100)
    expected = as_sure(rfsize.size(whole, data.X, alpha=0.97, oob=True))
    assert report.available > 100 or same(as_sure(report), expected)
    small = rfsize.truncate(whole, n_trees=min(report._wanted, 100))
    if report._wanted <= 100:
        assert predict(booster, data.fresh) == pytest.approx(predict(small, data.fresh), abs=1e-6)


def test_it_grows_on_until_it_is_large_enough(framework: str, data: Data) -> None:
    booster, report = rfsize.grow(params_of(framework), data_of(framework, data.X, data.y), alpha=0.985, min_trees=20)
    assert report.enough
    assert report.available > 40
    assert rfsize.tree_outputs(booster, data.fresh).votes.n_trees == report._wanted
    if report._wanted == report.available:
        assert same(as_sure(report), as_sure(rfsize.size(booster, data.X, alpha=0.985, oob=True)))


def test_trees_double_while_their_votes_are_too_few_to_tell(framework: str, data: Data) -> None:
    """A third of 20 trees vote on a row, and it takes ten votes."""
    dtrain = data_of(framework, data.X, data.y)
    _, report = rfsize.grow(params_of(framework), dtrain, alpha=0.6, min_trees=5)
    assert report.n_trees < 20
    assert report.available == 40


def test_the_callback_and_growing_stop_at_the_same_size(data: Data) -> None:
    callback = rfsize.SizeCallback(alpha=0.97)
    by_callback = lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 1000, callbacks=[callback])
    grown, report = rfsize.grow(LIGHTGBM, lgb.Dataset(data.X, data.y), alpha=0.97)
    assert same(of_same_votes(callback.report_), of_same_votes(report))
    assert np.array_equal(grown.predict(data.fresh), by_callback.predict(data.fresh))


def test_averaged_scores_end_the_growth(framework: str, data: Data) -> None:
    options = {"alpha": 0.97, "voting": "soft"}
    booster, report = rfsize.grow(params_of(framework), data_of(framework, data.X, data.y), **options)
    assert report._answer.goal.voting == "soft"
    assert (
        report.n_trees <= rfsize.tree_outputs(booster, data.fresh).votes.n_trees == report._wanted <= report.available
    )
    if report._wanted == report.available:
        expected = rfsize.size(booster, data.X, oob=True, **options)
        assert expected.n_trees == report.n_trees
    rows = data_of(framework, data.X, data.y)
    _, on_fresh = rfsize.grow(params_of(framework), rows, **options, validation=data.fresh)
    assert (on_fresh._answer.goal.voting, on_fresh.source) == ("soft", "rows given")


def test_too_few_trees_are_warned_of(framework: str, data: Data) -> None:
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="30 trees"):
        booster = rfsize.grow(
            params_of(framework), data_of(framework, data.X, data.y), alpha=0.99, max_trees=30, min_trees=10
        )[0]
    assert rfsize.tree_outputs(booster, data.fresh).votes.n_trees == 30


def test_three_classes(framework: str, data: Data) -> None:
    objective = {"objective": "multiclass" if framework == "lightgbm" else "multi:softprob", "num_class": 3}
    params, dtrain = {**params_of(framework), **objective}, data_of(framework, data.X, data.three)
    booster, report = rfsize.grow(params, dtrain, alpha=0.95, validation=data.fresh)
    counted = rfsize.tree_outputs(booster, data.fresh).votes
    assert (report.source, report.goal.alpha) == ("rows given", 0.95)
    assert counted.n_trees == report._wanted
    assert len(counted.classes) == 3


def test_hopeless_out_of_bag_votes_are_refused_at_once(data: Data) -> None:
    params = {**XGBOOST, "subsample": 0.99}
    with pytest.raises(rfsize.exceptions.FewVotesError, match=r"500 trees would give it \d\.\d .*give validation rows"):
        rfsize.grow(params, xgb.DMatrix(data.X, data.y), max_trees=500)


def test_trees_of_each_class_of_xgboost_have_out_of_bag_votes(data: Data) -> None:
    params = {**XGBOOST, "objective": "multi:softprob", "num_class": 3}
    booster, report = rfsize.grow(params, xgb.DMatrix(data.X, data.three), alpha=0.9)
    assert report.source == "oob"
    assert report.votes_per_row > 0.25 * report.available
    assert rfsize.tree_outputs(booster, data.fresh).votes.n_trees == report.n_kept


def test_a_finished_forest_takes_more_trees(booster: Any, data: Data) -> None:
    framework = "lightgbm" if isinstance(booster, lgb.Booster) else "xgboost"
    before = predict(booster, data.fresh)
    more, report = rfsize.grow(booster, data_of(framework, data.X, data.y), alpha=0.985)
    assert np.array_equal(predict(booster, data.fresh), before)
    n_trees = rfsize.tree_outputs(more, data.fresh).votes.n_trees
    assert n_trees == report._wanted > 61
    first = rfsize.truncate(more, n_trees=61)
    assert predict(first, data.fresh) == pytest.approx(before, abs=1e-6)
    # Its bags can be rebuilt, and those of the new trees are others.
    inbag = rfsize.inbag(more, data.X)
    assert len(np.unique(np.packbits(inbag, axis=1), axis=0)) == n_trees
    assert np.array_equal(inbag[:61], rfsize.inbag(booster, data.X))


def test_a_forest_that_is_large_enough_keeps_its_trees(booster: Any, data: Data) -> None:
    framework = "lightgbm" if isinstance(booster, lgb.Booster) else "xgboost"
    same, report = rfsize.grow(booster, data_of(framework, data.X, data.y), alpha=0.9)
    assert report.n_trees < rfsize.tree_outputs(same, data.fresh).votes.n_trees == 61
    assert same is not booster
    assert predict(same, data.fresh) == pytest.approx(predict(booster, data.fresh), abs=1e-6)


def test_growing_twice_draws_new_bags(framework: str, data: Data) -> None:
    dtrain = data_of(framework, data.X, data.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
        model: Any = params_of(framework)
        for trees in (20, 40, 60):
            model = rfsize.grow(model, dtrain, alpha=0.9999, max_trees=trees, min_trees=20)[0]
    inbag = rfsize.inbag(model, data.X)
    assert len(np.unique(np.packbits(inbag, axis=1), axis=0)) == 60


@pytest.mark.parametrize(
    "estimator",
    [
        LGBMClassifier(
            boosting_type="rf", n_estimators=40, subsample=0.6, subsample_freq=1, random_state=1, n_jobs=1, verbose=-1
        ),
        XGBClassifier(n_estimators=1, num_parallel_tree=40, subsample=0.6, random_state=1),
    ],
    ids=["LGBMClassifier", "XGBClassifier"],
)
@pytest.mark.parametrize("fitted", [False, True])
def test_estimators_grow(estimator: Any, fitted: bool, data: Data) -> None:
    y = data.y if isinstance(estimator, XGBClassifier) else np.array(["no", "yes"])[data.y]
    given = estimator
    if fitted:
        given = copy.deepcopy(estimator).fit(data.X, data.y)
        y = data.y
    elif not isinstance(estimator, LGBMClassifier):
        y = data.y
    before = given.get_params()
    grown, report = rfsize.grow(given, data.X, y, alpha=0.98)
    assert type(grown) is type(given)
    assert given.get_params() == before
    assert rfsize.tree_outputs(grown, data.fresh).votes.n_trees == (max(report.n_kept, 40) if fitted else report.n_kept)
    assert set(grown.predict(data.fresh)) == set(np.unique(y))
    assert np.mean(grown.predict(data.X) == y) > 0.7
    assert rfsize.size(grown, data.X, oob=True).n_rows > 1000


def test_an_unfitted_estimator_may_end_with_fewer_trees(data: Data) -> None:
    grown, report = rfsize.grow(FOREST, data.X, data.y, alpha=0.9)
    assert grown.num_parallel_tree == rfsize.tree_outputs(grown, data.fresh).votes.n_trees == report._wanted < 80


def test_weights_of_an_estimator_are_those_of_all_its_trees(data: Data) -> None:
    weight = np.where(data.X[:, 0] > 0, 5.0, 0.5)
    model = LGBMClassifier(
        boosting_type="rf",
        n_estimators=20,
        subsample=0.6,
        subsample_freq=1,
        class_weight={0: 1.0, 1: 3.0},
        random_state=1,
        n_jobs=1,
        verbose=-1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
        grown = rfsize.grow(model, data.X, data.y, alpha=0.9999, max_trees=40, sample_weight=weight)[0]
    plain = model.set_params(n_estimators=400).fit(data.X, data.y, sample_weight=weight)
    share = rfsize.tree_outputs(grown, data.fresh).votes.fractions()[:, 1]
    new = 2.0 * share - rfsize.tree_outputs(rfsize.truncate(grown, n_trees=20), data.fresh).votes.fractions()[:, 1]
    assert np.mean(new - rfsize.tree_outputs(plain, data.fresh).votes.fractions()[:, 1]) == pytest.approx(0.0, abs=0.02)


def test_dependence_is_warned_of(data: Data) -> None:
    with pytest.warns(rfsize.exceptions.SharedBagsWarning, match="bagging_freq=1"):
        rfsize.grow({**LIGHTGBM, "bagging_freq": 2}, lgb.Dataset(data.X, data.y), alpha=0.9)
    with pytest.warns(rfsize.exceptions.SeedDependenceWarning, match="draws 2 of 8"):
        rfsize.grow({**LIGHTGBM, "feature_fraction": 0.25}, lgb.Dataset(data.X, data.y), alpha=0.9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, p, d, D: rfsize.grow(p, D.X, D.y)[0], "leave|an estimator|Dataset"),
        (lambda f, p, d, D: rfsize.grow(p, d, D.y)[0], "y and sample_weight are for an estimator"),
        (lambda f, p, d, D: rfsize.grow(p, d, alpha=1.0)[0], "strictly between"),
        (lambda f, p, d, D: rfsize.grow(p, d, voting="averaged")[0], "voting"),
        (lambda f, p, d, D: rfsize.grow(p, d, max_trees=0)[0], "max_trees must be a whole number"),
        (lambda f, p, d, D: rfsize.grow(p, d, min_trees=2.5)[0], "min_trees must be a whole number"),
        (lambda f, p, d, D: rfsize.grow({**p, "objective": REGRESSION[f]}, d, alpha=0.9)[0], "cast no votes"),
        (lambda f, p, d, D: rfsize.grow({**p, "subsample": 1.0, "bagging_fraction": 1.0}, d)[0], "bag"),
        (lambda f, p, d, D: rfsize.grow({**p, "boosting": "gbdt", "booster": "dart"}, d)[0], "independent trees"),
        (lambda f, p, d, D: rfsize.grow(FOREST, D.X)[0], "y is missing"),
        (lambda f, p, d, D: rfsize.grow(object(), d)[0], "give"),
        (lambda f, p, d, D: rfsize.grow(make_pipeline(FOREST), D.X, D.y)[0], "inside: pipeline"),
        (lambda f, p, d, D: rfsize.grow(FOREST, D.X, D.y, init_model=1)[0], "leave out init_model"),
    ],
)
def test_refusals(call: Any, message: str, framework: str, data: Data) -> None:
    params = params_of(framework)
    with pytest.raises(ValueError, match=message):
        call(framework, params, data_of(framework, data.X, data.y), data)


REGRESSION = {"lightgbm": "regression", "xgboost": "reg:squarederror"}
