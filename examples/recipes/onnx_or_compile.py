"""ONNX: how exact converted models are, beside compiled ones."""
# Needs: onnxmltools onnxruntime skl2onnx lightgbm xgboost-cpu

import tempfile
from pathlib import Path

import numpy as np
import onnxmltools
import onnxruntime
import skl2onnx
from lightgbm import LGBMClassifier, LGBMRegressor
from onnxmltools.convert.common.data_types import FloatTensorType
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import rfsize

pixels, digit = load_digits(return_X_y=True)
pixels += np.random.default_rng(0).normal(scale=0.1, size=pixels.shape)  # with all digits of double precision
is_high = (digit >= 5).astype(int)  # the converters know no boolean labels
patients, progression = load_diabetes(return_X_y=True)
bags = {"subsample": 0.632, "colsample_bytree": 0.3, "random_state": 0}
lightgbm = {"boosting_type": "rf", "n_estimators": 300, "subsample_freq": 1, "verbose": -1, **bags}
xgboost = {"n_estimators": 1, "num_parallel_tree": 300, "learning_rate": 1, **bags}
MODELS = {
    "LightGBM forest": (LGBMClassifier(**lightgbm), pixels, is_high),
    "LightGBM forest, regression": (LGBMRegressor(**lightgbm), patients, progression),
    "LightGBM boosted": (LGBMClassifier(n_estimators=300, random_state=0, verbose=-1), pixels, is_high),
    "XGBoost forest": (XGBClassifier(**xgboost), pixels, is_high),
    "XGBoost forest, 10 classes": (XGBClassifier(**xgboost), pixels, digit),
    "XGBoost boosted": (XGBClassifier(n_estimators=300, random_state=0), pixels, is_high),
    "scikit-learn forest": (RandomForestClassifier(300, random_state=0), pixels, is_high),
}


def to_onnx(model, X):
    """The model's bytes in ONNX."""
    rows = [("X", FloatTensorType([None, X.shape[1]]))]
    if isinstance(model, RandomForestClassifier):
        return skl2onnx.to_onnx(model, X[:1].astype(np.float32), options={"zipmap": False}).SerializeToString()
    if isinstance(model, XGBClassifier):
        return onnxmltools.convert_xgboost(model, initial_types=rows).SerializeToString()
    return onnxmltools.convert_lightgbm(model, initial_types=rows, zipmap=False).SerializeToString()


def run_onnx(graph, X):
    """Probabilities, or numbers of a regression."""
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X.astype(np.float32)})[-1]


onnxruntime.set_default_logger_severity(4)
print("| model | ONNX is off by | ONNX, kB | compiled is off by | compiled, kB |\n|---|---|---|---|---|")
for title, (model, X, y) in MODELS.items():
    X_train, X_new, y_train, _ = train_test_split(X, y, test_size=0.3, random_state=0)
    model.fit(X_train, y_train)
    predict = "predict_proba" if hasattr(model, "classes_") else "predict"
    expected = getattr(model, predict)(X_new)
    graph = to_onnx(model, X)
    try:
        off = f"{np.abs(run_onnx(graph, X_new).reshape(expected.shape) - expected).max():.1g}"
    except Fail:
        off = "is not read"
    fast = rfsize.compile(model)
    assert (getattr(fast, predict)(X_new) == expected).all()
    with tempfile.TemporaryDirectory() as folder:
        fast.save(path := Path(folder, "forest.rfsize"))
        print(f"| {title} | {off} | {len(graph) / 1e3:.0f} | 0 | {path.stat().st_size / 1e3:.0f} |")
