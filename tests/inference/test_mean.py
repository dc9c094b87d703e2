"""Several forests compiled together, beside the mean of what the frameworks predict."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import KFold

import rfsize
from helpers.compiled_forests import LIGHTGBM, XGBOOST
from helpers.forests import LIGHTGBM as LIGHTGBM_PARAMS
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.exceptions import ForestFileError, NotAForestError

FOLDS = 5


def by_folds(train: Any, X: np.ndarray, y: np.ndarray) -> list[Any]:
    """A model of each fold's training rows; every other one has fewer trees."""
    folds = KFold(FOLDS, shuffle=True, random_state=0).split(X)
    return [train(X[rows], y[rows], trees=11 + number % 2) for number, (rows, _) in enumerate(folds)]


def lightgbm_numbers(X: Any, y: Any, trees: int) -> Any:
    return train_lightgbm(X, X[:, 0] + X[:, 1], trees, objective="regression")


def xgboost_numbers(X: Any, y: Any, trees: int) -> Any:
    return train_xgboost(X, np.abs(X[:, 0]) + 0.1, trees, objective="reg:gamma")


def sklearn_numbers(X: Any, y: Any, trees: int) -> Any:
    return RandomForestRegressor(trees, max_depth=6, random_state=0).fit(X, X[:, 0])


NUMBERS = {
    "lightgbm": train_lightgbm,
    "xgboost": train_xgboost,
    "lightgbm, regression": lightgbm_numbers,
    "xgboost, regression of an exponential": xgboost_numbers,
    "sklearn, regression": sklearn_numbers,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_mean_of_what_predict_gives_is_equal(name: str, data: Data, tmp_path: Path) -> None:
    models = by_folds(NUMBERS[name], data.X, data.y)
    fast = rfsize.compile(models)
    rows = [xgb.DMatrix(data.fresh) if isinstance(one, xgb.Booster) else data.fresh for one in models]
    by_hand = np.mean([one.predict(X) for one, X in zip(models, rows, strict=True)], axis=0)
    found = fast.predict(data.fresh)
    assert found.dtype == by_hand.dtype
    if "exponential" in name or name == "xgboost":  # exponentials of the C library, to the last bit of single precision
        np.testing.assert_allclose(found, by_hand, rtol=3e-7)
    else:
        np.testing.assert_array_equal(found, by_hand)
    fast.save(tmp_path / "mean.npz")
    for again in (rfsize.load(tmp_path / "mean.npz"), pickle.loads(pickle.dumps(fast))):
        np.testing.assert_array_equal(again.predict(data.fresh), found)
        assert repr(again) == repr(fast)


def test_the_mean_of_probabilities_is_not_that_of_scores(data: Data) -> None:
    """Folds whose link is no identity: the probability of the mean score is another number."""
    models = by_folds(train_lightgbm, data.X, data.y)
    raw = np.mean([one.predict(data.fresh, raw_score=True) for one in models], axis=0)
    assert np.abs(rfsize.compile(models).predict(data.fresh) - 1.0 / (1.0 + np.exp(-raw))).max() > 1e-4


CLASSIFIERS = {
    "lightgbm": lgb.LGBMClassifier(**LIGHTGBM),
    "xgboost": xgb.XGBClassifier(**XGBOOST),
    "sklearn": RandomForestClassifier(21, min_samples_leaf=3, random_state=0),
}


@pytest.mark.parametrize("framework", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_vote_by_mean_probabilities(framework: str, n_classes: int, data: Data) -> None:
    y = data.y.astype(int) if n_classes == 2 else data.three.astype(int)
    models = by_folds(lambda X, y, trees: clone(CLASSIFIERS[framework]).fit(X, y), data.X, y)
    fast = rfsize.compile(models)
    by_hand = np.mean([one.predict_proba(data.fresh) for one in models], axis=0)
    np.testing.assert_allclose(fast.predict_proba(data.fresh), by_hand, rtol=3e-7, atol=1e-15)
    labels = np.unique(y)[by_hand.argmax(axis=1)]
    assert fast.predict(data.fresh).tolist() == labels.tolist() == fast.predict_labels(data.fresh).tolist()
    if n_classes == 2:
        above = rfsize.compile(models, threshold=0.2).predict(data.fresh)
        assert above.tolist() == (by_hand[:, 1] > 0.2).astype(int).tolist()


def test_a_cvbooster_is_its_folds(data: Data) -> None:
    params = {**LIGHTGBM_PARAMS, "num_threads": 1}
    found = lgb.cv(params, lgb.Dataset(data.X, data.y), 15, nfold=3, return_cvbooster=True)["cvbooster"]
    fast = rfsize.compile(found)
    np.testing.assert_array_equal(fast.predict(data.fresh), np.mean(found.predict(data.fresh), axis=0))
    assert (len(fast.forests), fast.n_trees) == (3, 45)


def test_frameworks_may_be_mixed(data: Data) -> None:
    X, y = data.X, data.y.astype(int)
    models = [clone(one).fit(X, y) for one in CLASSIFIERS.values()]
    by_hand = np.mean([one.predict_proba(data.fresh) for one in models], axis=0)
    np.testing.assert_allclose(rfsize.compile(models).predict_proba(data.fresh), by_hand, rtol=3e-7)


class TestRefusals:
    def test_what_has_no_mean(self, data: Data) -> None:
        X, y = data.X, data.y
        booster = train_lightgbm(X, y, 5)
        for others, what in (
            ([train_lightgbm(X, data.three, 5, objective="multiclass", num_class=3)], "the class labels"),
            ([train_lightgbm(X[:, :4], y, 5)], "the number of features"),
            ([RandomForestClassifier(5, random_state=0).fit(X, y)], "what predict gives"),
            ([lightgbm_numbers(X, y, 5)], "the class labels"),
        ):
            with pytest.raises(ValueError, match=f"forests 0 and 1 cannot be averaged: {what} of the first is"):
                rfsize.compile([booster, *others])
        with pytest.raises(ValueError, match="two forests or more, found 1"):
            rfsize.compile([booster])
        with pytest.raises(NotAForestError):
            rfsize.compile([booster, "model"])

    def test_what_one_forest_alone_can_do(self, data: Data) -> None:
        two = [train_lightgbm(data.X, data.y, 5)] * 2
        with pytest.raises(ValueError, match="a stop table is for the trees of one forest"):
            rfsize.compile(two, rfsize.StopTable.build(5))  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="voting='hard' decides the labels of one forest"):
            rfsize.compile(two, voting="hard")
        numbers = rfsize.compile([lightgbm_numbers(data.X, data.y, 5)] * 2)
        for ask in (numbers.predict_proba, numbers.predict_labels):
            with pytest.raises(NotAForestError, match="predict numbers, and no"):
                ask(data.fresh)

    def test_damaged_files(self, data: Data, tmp_path: Path) -> None:
        path = tmp_path / "mean.npz"
        rfsize.compile([train_lightgbm(data.X, data.y, trees) for trees in (5, 6)]).save(path)
        with np.load(path) as file:
            arrays = dict(file)
        sizes = arrays["sizes"]
        for damaged in (
            {"sizes": sizes + 1},
            {"sizes": np.array([sizes.sum()])},
            {"sizes": np.array([0, sizes.sum()])},
            {"sizes": np.array([-1, sizes.sum() + 1])},
            {"sizes": sizes[::-1].copy()},
            {"sizes": np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).max])},
            {"sizes": sizes[:0], "forests": arrays["forests"][:0]},
        ):
            np.savez(path, **{**arrays, **damaged})
            with pytest.raises(ForestFileError, match="damaged"):
                rfsize.load(path)
