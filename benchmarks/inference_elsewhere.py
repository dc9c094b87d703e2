"""Predicts with a tool of another environment; `inference.py` starts this file with that environment's Python.

Each tool has its own environment:

    pip install lleaves "llvmlite<0.45"
    pip install scikit-learn-intelex lightgbm xgboost
    pip install nvforest-cu12

Without arguments it prints the tools that the environment has. Otherwise each line of the standard input is a question
in JSON and gets one line of answer: the seconds of the calls, or the file of the predictions.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from inference_timing import seconds_of

Predict = Callable[[np.ndarray], np.ndarray]

# Tool: its module and its distribution.
TOOLS = {
    "lleaves": ("lleaves", "lleaves"),
    "oneDAL": ("daal4py", "scikit-learn-intelex"),
    "nvForest": ("nvforest", "nvforest-cu12"),
}


def lleaves_predict(model: Path, n_classes: int, threads: int) -> Predict:
    import lleaves

    if model.suffix != ".txt":
        raise ValueError("it takes models of LightGBM only")
    forest = lleaves.Model(model_file=str(model))
    forest.compile(cache=model.with_suffix(".lleaves"))
    return lambda X: forest.predict(X, n_jobs=threads)


def onedal_predict(model: Path, n_classes: int, threads: int) -> Predict:
    import daal4py

    booster: Any
    if model.suffix == ".txt":
        import lightgbm

        booster = lightgbm.Booster(model_file=model)
    else:
        import xgboost

        booster = xgboost.Booster(model_file=model)
    daal4py.daalinit(threads)
    forest = daal4py.mb.convert_model(booster)
    return forest.predict_proba if n_classes else forest.predict


def nvforest_predict(model: Path, n_classes: int, threads: int) -> Predict:
    import nvforest

    kind = "lightgbm" if model.suffix == ".txt" else "xgboost_ubj"
    forest = nvforest.load_model(model, device="cpu", model_type=kind)
    return forest.predict_proba if n_classes else forest.predict


MAKERS = {"lleaves": lleaves_predict, "oneDAL": onedal_predict, "nvForest": nvforest_predict}


def scores(predicted: Any, n_classes: int) -> np.ndarray:
    """Numbers, or probabilities of class 1, or with more than two classes of each class."""
    found = np.asarray(predicted)
    found = found.reshape(len(found), -1)
    return found if n_classes > 2 else found[:, -1]


def serve(tool: str, model: Path, rows: Path, n_classes: int, threads: int) -> None:
    """Answer questions until there are none."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of tools goes to standard error
    try:
        predict = MAKERS[tool](model, n_classes, threads)
        X = np.load(rows)
        X = X if model.suffix == ".txt" else X.astype(np.float32)  # as XGBoost reads them
        predict(X[:1000])
    except Exception as error:
        print(json.dumps({"refused": f"{type(error).__name__}: {error}".splitlines()[0]}), file=answers)
        return
    print(json.dumps({"version": importlib.metadata.version(TOOLS[tool][1])}), file=answers)
    for line in sys.stdin:
        question = json.loads(line)
        if "predict" in question:
            np.save(question["predict"], scores(predict(X[: question["n_rows"]]), n_classes))
            found: Any = question["predict"]
        else:
            found = seconds_of(predict, X, question["n_rows"], question["starts"])
        print(json.dumps(found), file=answers)


def main() -> None:
    if len(sys.argv) == 1:
        print(json.dumps([tool for tool, (module, _) in TOOLS.items() if importlib.util.find_spec(module)]))
    else:
        tool, model, rows, n_classes, threads = sys.argv[1:]
        serve(tool, Path(model), Path(rows), int(n_classes), int(threads))


if __name__ == "__main__":
    main()
