"""Regression forests of every framework: sized by what they predict, and never by votes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from lightgbm import LGBMRegressor
from sklearn.ensemble import BaggingRegressor, ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from xgboost import XGBRegressor

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost
from helpers.outputs import votes_of

WANTED: dict[str, Any] = {"metric": "scores", "tolerance": 0.1}


def positive(data: Data) -> np.ndarray:
    return np.asarray(np.exp(0.4 * data.X[:, 0] + 0.3 * data.X[:, 1] * data.X[:, 2]))


def of_lightgbm(objective: str, trees: int = 60, **params: Any) -> Callable[[Data], Any]:
    return lambda data: train_lightgbm(data.X, positive(data), trees, objective=objective, **params)


def of_xgboost(objective: str, trees: int = 60, **params: Any) -> Callable[[Data], Any]:
    def train(data: Data) -> Any:
        y = positive(data)
        y = y / (1.0 + y) if objective == "reg:logistic" else np.round(3.0 * y) if "poisson" in objective else y
        return train_xgboost(data.X, y, trees, objective=objective, **params)

    return train


def of_sklearn(model: Any) -> Callable[[Data], Any]:
    return lambda data: model.fit(data.X, positive(data))


LIGHTGBM = {
    **{name: of_lightgbm(name) for name in ("regression", "regression_l1", "huber", "fair", "quantile", "mape")},
    **{name: of_lightgbm(name) for name in ("poisson", "gamma", "tweedie")},
    "root": of_lightgbm("regression", reg_sqrt=True),
    "LGBMRegressor": of_sklearn(
        LGBMRegressor(
            boosting_type="rf", n_estimators=60, subsample=0.6, subsample_freq=1, num_leaves=15, n_jobs=1, verbose=-1
        )
    ),
}
PROVABLE = {
    **{name: of_xgboost(name) for name in ("reg:squarederror", "reg:logistic", "count:poisson", "reg:absoluteerror")},
    "reg:quantileerror": of_xgboost("reg:quantileerror", quantile_alpha=0.3),
    "base_score": of_xgboost("reg:squarederror", base_score=2.5),
    "XGBRegressor": of_sklearn(
        XGBRegressor(n_estimators=1, num_parallel_tree=60, subsample=0.6, learning_rate=1.0, random_state=1)
    ),
}
UNPROVABLE = {
    name: of_xgboost(name) for name in ("reg:squaredlogerror", "reg:pseudohubererror", "reg:gamma", "reg:tweedie")
}
SKLEARN = {
    "random forest": of_sklearn(RandomForestRegressor(60, random_state=1, max_depth=7)),
    "extra-trees": of_sklearn(ExtraTreesRegressor(60, bootstrap=True, random_state=1)),
    "bagging": of_sklearn(BaggingRegressor(n_estimators=60, max_features=0.6, random_state=1)),
    "poisson": of_sklearn(RandomForestRegressor(60, criterion="poisson", random_state=1, max_depth=5)),
}


def predictions(model: Any, X: np.ndarray) -> np.ndarray:
    return np.asarray(model.predict(xgb.DMatrix(X) if isinstance(model, xgb.Booster) else X), dtype=np.float64)


@pytest.mark.parametrize("train", [*LIGHTGBM.values(), *PROVABLE.values(), *UNPROVABLE.values(), *SKLEARN.values()])
def test_sizes_what_the_model_predicts(train: Callable[[Data], Any], data: Data) -> None:
    model = train(data)
    report = rfsize.size(model, data.fresh, **WANTED)
    whole = predictions(model, data.fresh)
    assert np.allclose(report._answer._deviations._limit[:, 0, 0], whole, rtol=1e-5, atol=1e-5)
    small = predictions(rfsize.truncate(model, n_trees=20), data.fresh)
    # A third of the trees are the same; one forest may be off by much more or less than the mean forest.
    expected = report._answer._deviations.at(20).rms * np.sqrt(1.0 - 20.0 / 60.0)
    assert 0.5 < np.sqrt(np.mean((small - whole) ** 2)) / expected < 1.8


@pytest.mark.parametrize(
    "train", [LIGHTGBM["poisson"], LIGHTGBM["root"], LIGHTGBM["LGBMRegressor"], *PROVABLE.values(), *SKLEARN.values()]
)
def test_out_of_bag(train: Callable[[Data], Any], data: Data) -> None:
    model = train(data)
    report = rfsize.size(model, data.X, oob=True, **WANTED)
    assert report.source == "oob"
    assert 0.15 * 60 < report.votes_per_row < 0.45 * 60
    fresh = rfsize.size(model, data.fresh, **WANTED)
    assert 0.6 < report._answer._deviations.at(60).rms / fresh._answer._deviations.at(60).rms < 1.6


@pytest.mark.parametrize("train", UNPROVABLE.values())
def test_hessians_that_prove_nothing(train: Callable[[Data], Any], data: Data) -> None:
    with pytest.raises(rfsize.exceptions.InbagError, match="cannot prove the bags"):
        rfsize.size(train(data), data.X, oob=True, **WANTED)


def test_wrong_rows_are_found_out(data: Data) -> None:
    for train in (LIGHTGBM["regression"], PROVABLE["reg:squarederror"], SKLEARN["random forest"]):
        with pytest.raises(rfsize.exceptions.InbagError):
            rfsize.size(train(data), data.X[::-1], oob=True, **WANTED)


@pytest.mark.parametrize("train", [LIGHTGBM["regression"], PROVABLE["count:poisson"], SKLEARN["bagging"]])
def test_votes_are_refused(train: Callable[[Data], Any], data: Data) -> None:
    model = train(data)
    for call in (rfsize.size, rfsize.truncate):
        with pytest.raises(rfsize.exceptions.NotAForestError, match=r"cast no votes.*metric='scores'"):
            call(model, data.fresh, metric="labels")
        with pytest.raises(rfsize.exceptions.NotAForestError, match=r"cast no votes.*metric='scores'"):
            call(model, data.fresh, alpha=0.9)
        with pytest.raises(ValueError, match=r"give y \(the tolerance is then .* or metric='scores'"):
            call(model, data.fresh)
    with pytest.raises(ValueError, match="cast no votes: take scores"):
        votes_of(model, data.fresh)
    with pytest.raises(rfsize.exceptions.NotAForestError, match=r"cast no votes: use predict"):
        rfsize.compile(model).votes(data.fresh)
    with pytest.raises(ValueError, match="decides labels, and the forest predicts numbers: leave voting out"):
        rfsize.compile(model, voting="hard")
    with pytest.raises(ValueError, match="'probabilities' is for classification"):
        rfsize.size(model, data.fresh, metric="probabilities", tolerance=0.1)


@pytest.mark.parametrize("train", [LIGHTGBM["regression"], PROVABLE["reg:squarederror"], SKLEARN["random forest"]])
def test_numbers_are_sized_within_a_twentieth_of_the_spread_of_y_by_default(
    train: Callable[[Data], Any], data: Data
) -> None:
    model, y = train(data), positive(data)
    report = rfsize.size(model, data.X, y, oob=True)
    assert (report.goal.name, report.goal.level) == ("scores", 0.05 * np.std(y))
    expected = rfsize.size(model, data.X, y, oob=True, metric="scores", tolerance=report.goal.level)
    assert report.to_dict() == expected.to_dict()
    assert rfsize.size(model, data.X, y, oob=True, tolerance=0.2).goal.options == {"metric": "scores", "tolerance": 0.2}


@pytest.mark.parametrize("train", [LIGHTGBM["LGBMRegressor"], PROVABLE["XGBRegressor"], SKLEARN["random forest"]])
def test_truncate(train: Callable[[Data], Any], data: Data) -> None:
    model = train(data)
    before = predictions(model, data.fresh)
    tolerance = rfsize.size(model, data.fresh, **WANTED).loss_at(30).value
    report = rfsize.size(model, data.fresh, metric="scores", tolerance=tolerance)
    small = rfsize.truncate(model, data.fresh, metric="scores", tolerance=tolerance)
    assert type(small) is type(model)
    assert report.n_trees == rfsize.size(small, data.fresh, **WANTED).available <= 30
    assert np.array_equal(predictions(model, data.fresh), before)
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="scores are within"):
        rfsize.truncate(model, data.fresh, metric="scores", tolerance=1e-4)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (lambda data: train_lightgbm(data.X, data.y, 3, objective="cross_entropy_lambda"), "does not read"),
        (lambda data: train_xgboost(data.X, data.y, 3, objective="rank:pairwise"), "not read"),
        (lambda data: train_xgboost(data.X, data.y, 3, objective="binary:hinge"), "not read"),
        (lambda data: train_xgboost(data.X, data.y, 3, objective="binary:logitraw"), "binary:logistic"),
        (lambda data: train_xgboost(data.X, data.y, 3, rounds=2, objective="reg:squarederror"), "2 rounds"),
        (of_lightgbm("regression", 3, boosting="gbdt"), "gbdt"),
        (lambda data: GradientBoostingRegressor().fit(data.X, data.y), "cast no votes$"),
        (lambda data: BaggingRegressor(KNeighborsRegressor()).fit(data.X, data.X[:, :2]), "several numbers"),
        (
            lambda data: RandomForestRegressor(3).fit(data.X, data.X[:, :2]),
            r"several numbers .* for each column of y",
        ),
        (lambda data: train_xgboost(data.X, data.X[:, :2], 3, objective="reg:squarederror"), "several"),
    ],
)
def test_what_is_refused(train: Callable[[Data], Any], message: str, data: Data) -> None:
    with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
        rfsize.size(train(data), data.fresh, **WANTED)


def test_each_of_several_numbers_has_a_forest_of_its_own(data: Data) -> None:
    """As the refusal advises."""
    several = MultiOutputRegressor(RandomForestRegressor(30, random_state=0)).fit(data.X, data.X[:, :2])
    for forest in several.estimators_:
        assert rfsize.size(forest, data.X, oob=True, **WANTED).available == 30


def test_scale_pos_weight_is_for_classes(data: Data) -> None:
    model = train_xgboost(data.X, data.y, 12, objective="reg:squarederror", scale_pos_weight=3.0)
    with pytest.raises(rfsize.exceptions.InbagError, match="is for classes"):
        rfsize.size(model, data.X, oob=True, **WANTED)


def test_weights_of_the_training_rows(data: Data) -> None:
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=len(data.X))
    dtrain = xgb.DMatrix(data.X, positive(data), weight=weight)
    settings = {"objective": "reg:squarederror", "num_parallel_tree": 30, "subsample": 0.6, "eta": 1.0, "seed": 2}
    model = xgb.train(settings, dtrain, 1)
    assert rfsize.size(rfsize.tree_outputs(model, data.X, oob=True, sample_weight=weight), **WANTED).n_rows > 1400
    with pytest.raises(rfsize.exceptions.InbagError):
        rfsize.size(model, data.X, oob=True, **WANTED)


def test_a_file_is_enough(data: Data, tmp_path: Any) -> None:
    LIGHTGBM["regression"](data).save_model(tmp_path / "forest.txt")
    report = rfsize.size(lgb.Booster(model_file=tmp_path / "forest.txt"), data.X, oob=True, **WANTED)
    assert report.available == 60


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost", "sklearn"])
def test_what_is_for_classes_tells_a_regression_what_there_is(framework: str, data: Data) -> None:
    estimator: Any = {
        "lightgbm": LGBMRegressor(boosting_type="rf", subsample=0.6, subsample_freq=1, n_estimators=5, verbose=-1),
        "xgboost": XGBRegressor(n_estimators=1, num_parallel_tree=5, learning_rate=1, subsample=0.6),
        "sklearn": RandomForestRegressor(5),
    }[framework]
    y = data.X[:200, 0]
    with pytest.raises(rfsize.exceptions.NotAForestError, match=r"cast no votes.*metric='scores'"):
        rfsize.grow(estimator, data.X[:200], y, alpha=0.9)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="no probabilities: use predict"):
        rfsize.compile(estimator.fit(data.X[:200], y)).predict_proba(data.X)
    with pytest.raises(ValueError, match="y is missing: an estimator is trained on X and y"):
        rfsize.select_bagging_fraction(estimator, data.X[:200])
