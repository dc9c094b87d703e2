"""Several forests compiled together predict the mean of what their frameworks predict."""

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

import rfsize
from helpers import zoo
from helpers.damaged import file_of, parts_of
from rfsize.exceptions import FileError

X, SIGNAL = np.nan_to_num(zoo.training()[0]), zoo.training()[1]
Y, FRESH = zoo.classes_of(SIGNAL, 2), np.nan_to_num(zoo.fresh_rows(300))
FOLDS: dict[str, Any] = {  # from a slice of rows, and a number of trees
    "lightgbm": lambda rows, trees: zoo.lightgbm("binary", Y[rows], trees, X[rows]),
    "xgboost": lambda rows, trees: zoo.xgboost("binary:logistic", Y[rows], X[rows], num_parallel_tree=trees),
    "lightgbm, regression": lambda rows, trees: zoo.lightgbm("regression", SIGNAL[rows], trees, X[rows]),
    "xgboost, gamma": lambda rows, trees: zoo.xgboost(
        "reg:gamma", np.exp(SIGNAL[rows]), X[rows], num_parallel_tree=trees
    ),
    "scikit-learn, regression": lambda rows, trees: RandomForestRegressor(trees, random_state=0).fit(
        X[rows], SIGNAL[rows]
    ),
}


def of_folds(train: Any) -> list[Any]:
    return [train(slice(fold, None, 3), 11 + fold % 2) for fold in range(3)]


@pytest.mark.parametrize("name", FOLDS)
def test_predict_is_the_mean_of_predictions(name: str, tmp_path: Path) -> None:
    models = of_folds(FOLDS[name])
    fast = rfsize.compile(models)
    own = np.mean([zoo.own_predict(forest, FRESH) for forest in models], axis=0)
    actual = fast.predict(FRESH)
    assert (actual.dtype, fast.n_trees) == (own.dtype, 34)
    np.testing.assert_allclose(actual, own, rtol=3e-7 if name.startswith("xgboost") else 0)
    fast.save(tmp_path / "mean.rfsize")
    for again in (rfsize.load(tmp_path / "mean.rfsize"), pickle.loads(pickle.dumps(fast))):
        np.testing.assert_array_equal(again.predict(FRESH), actual)
    with pytest.raises(ValueError, match="several forests"):
        rfsize.load(tmp_path / "mean.rfsize", mmap=True)


CLASSIFIERS = {
    "lightgbm": lgb.LGBMClassifier(**zoo.WRAPPER),
    "xgboost": xgb.XGBClassifier(**zoo.ONE_ROUND),
    "scikit-learn": RandomForestClassifier(21, min_samples_leaf=3, random_state=0),
}


@pytest.mark.parametrize("framework", [*CLASSIFIERS, "all three"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_vote_by_mean_probabilities(framework: str, n_classes: int) -> None:
    y, kinds = zoo.classes_of(SIGNAL, n_classes), [*CLASSIFIERS.values()]
    if framework != "all three":
        kinds = [CLASSIFIERS[framework]] * 3
    models = [clone(kind).fit(X[fold::3], y[fold::3]) for fold, kind in enumerate(kinds)]
    fast, own = rfsize.compile(models), np.mean([forest.predict_proba(FRESH) for forest in models], axis=0)
    np.testing.assert_allclose(fast.predict_proba(FRESH), own, rtol=3e-7, atol=1e-15)
    assert fast.predict(FRESH).tolist() == own.argmax(axis=1).tolist() == fast.predict_labels(FRESH).tolist()


@pytest.mark.parametrize("threshold", [0.2, 0.7])
def test_mean_probabilities_above_a_threshold(threshold: float) -> None:
    models = [clone(kind).fit(X[fold::3], Y[fold::3]) for fold, kind in enumerate(CLASSIFIERS.values())]
    share = np.mean([forest.predict_proba(FRESH)[:, 1] for forest in models], axis=0)
    assert rfsize.compile(models, threshold=threshold).predict(FRESH).tolist() == (share > threshold).tolist()


def test_files_of_other_sizes_are_refused(tmp_path: Path) -> None:
    path, huge = tmp_path / "mean.rfsize", np.iinfo(np.int64).max
    rfsize.compile(of_folds(FOLDS["lightgbm"])).save(path)
    content = path.read_bytes()
    text, arrays = parts_of(content)
    own, whole = arrays["sizes"], arrays["sizes"].sum()
    for sizes in ([whole], [0, whole], [-1, whole + 1], [huge, huge, huge], own[::-1], own + 1, []):
        path.write_bytes(file_of(text, {**arrays, "sizes": np.array(sizes, dtype=np.int64)}, content))
        with pytest.raises(FileError):
            rfsize.load(path)
    nested = np.frombuffer(content, dtype=np.uint8)
    path.write_bytes(file_of(text, {"sizes": np.array([nested.size] * 2), "forests": np.tile(nested, 2)}, content))
    with pytest.raises(FileError):
        rfsize.load(path)
