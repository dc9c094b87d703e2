"""What a type checker tells those who use rfsize."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

DOWNSTREAM = """
from typing import Any

import lightgbm as lgb
import numpy as np
import rfsize
import xgboost as xgb
from numpy.typing import NDArray
from rfsize import CompiledForest, CompiledMean, Report, StopTable
from typing_extensions import assert_type

def downstream(booster: lgb.Booster, estimator: xgb.XGBRFClassifier, X: NDArray[np.float64]) -> None:
    report = assert_type(rfsize.size(booster, X), Report)
    assert_type(report.loss_at(3, "auc").value, float)
    assert_type(rfsize.truncate(booster, X), lgb.Booster)
    assert_type(rfsize.truncate(estimator, n_trees=9), xgb.XGBRFClassifier)
    assert_type(rfsize.grow({"objective": "binary"}, X), tuple[Any, Report])
    compiled = assert_type(rfsize.compile(booster, assert_type(StopTable.build(101), StopTable)), CompiledForest)
    assert_type(rfsize.load("forest.rfsize"), CompiledForest | CompiledMean)
    assert_type(compiled.predict(X), NDArray[Any])
    assert_type(compiled.predict(X, return_trees=True), tuple[NDArray[Any], NDArray[np.int64]])
    assert_type(compiled.predict_labels(X), NDArray[Any])
    assert_type(compiled.predict_proba(X), NDArray[np.floating[Any]])
    outputs = assert_type(rfsize.tree_outputs(booster, X), rfsize.TreeOutputs)
    assert_type(outputs.votes, rfsize.Votes)
    assert_type(rfsize.inbag(booster, X), NDArray[np.bool_])
    assert_type(rfsize.theory.fraction_without_replacement([1, 2]), NDArray[np.float64])
"""


@pytest.mark.slow
def test_downstream_code_is_told_the_types(tmp_path: Path) -> None:
    # An editable install maps rfsize.integrations to another folder, which type checkers do not follow.
    shutil.copytree(ROOT / "rfsize", tmp_path / "rfsize", ignore=shutil.ignore_patterns("integrations"))
    shutil.copytree(ROOT / "integrations", tmp_path / "rfsize" / "integrations")
    (tmp_path / "downstream.py").write_text(DOWNSTREAM, encoding="utf-8")
    settings = ["--strict", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    command = [sys.executable, "-m", "mypy", *settings, "downstream.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
