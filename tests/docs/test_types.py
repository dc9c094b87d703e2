"""What a type checker tells those who use rfsize."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Beside each `reveal_type`, what it must say, module names left out; arrays are printed otherwise by every NumPy.
DOWNSTREAM = """
from typing import Any

import lightgbm as lgb
import numpy as np
import rfsize
import xgboost as xgb
from numpy.typing import NDArray
from typing_extensions import assert_type

def downstream(
    booster: lgb.Booster, estimator: xgb.XGBRFClassifier, X: NDArray[np.float64], y: NDArray[np.int64], flag: bool
) -> None:
    report = rfsize.size(booster, X)
    reveal_type(report)                                                         # Report
    assert_type(report.loss_at(3, "auc").value, float)
    reveal_type(rfsize.truncate(booster, X))                                    # Booster
    reveal_type(rfsize.truncate(estimator, n_trees=9))                          # XGBRFClassifier
    reveal_type(rfsize.grow({"objective": "binary"}, X))                        # tuple[Any, Report]
    reveal_type(rfsize.StopTable.build(101))                                    # StopTable
    compiled = rfsize.compile(booster, rfsize.StopTable.build(101))
    reveal_type(compiled)                                                       # CompiledForest
    reveal_type(rfsize.load("forest.rfsize"))                                      # CompiledForest | CompiledMean
    assert_type(compiled.predict(X), NDArray[Any])
    assert_type(compiled.predict(X, return_trees=True), tuple[NDArray[Any], NDArray[np.int64]])
    assert_type(compiled.predict_labels(X, return_trees=True), tuple[NDArray[Any], NDArray[np.int64]])
    assert_type(compiled.predict_proba(X), NDArray[np.floating[Any]])
    reveal_type(rfsize.tree_outputs(booster, X))                                # TreeOutputs
    reveal_type(rfsize.tree_outputs(booster, X).votes)                          # Votes
    assert_type(rfsize.inbag(booster, X), NDArray[np.bool_])
    reveal_type(rfsize.theory.ratio_with_replacement(0.5))                      # float
    assert_type(rfsize.theory.fraction_without_replacement([1, 2]), NDArray[np.float64])
    reveal_type(rfsize.SizeCallback())                                          # SizeCallback
    reveal_type(rfsize.RightSizedClassifier(estimator))                         # RightSizedClassifier
"""


@pytest.mark.slow
def test_downstream_code_is_told_the_types(tmp_path: Path) -> None:
    # An editable install maps rfsize.integrations to another folder, which type checkers do not follow.
    shutil.copytree(ROOT / "rfsize", tmp_path / "rfsize", ignore=shutil.ignore_patterns("integrations"))
    shutil.copytree(ROOT / "integrations", tmp_path / "rfsize" / "integrations")
    (tmp_path / "downstream.py").write_text(DOWNSTREAM, encoding="utf-8")
    settings = ["--strict", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports", "--no-pretty"]
    command = [sys.executable, "-m", "mypy", *settings, "downstream.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    types = re.findall(r'^downstream\.py:(\d+): note: Revealed type is "(.*)"$', done.stdout, re.MULTILINE)
    expected = [
        (str(number), line.rpartition("# ")[2])
        for number, line in enumerate(DOWNSTREAM.splitlines(), start=1)
        if "reveal_type(" in line
    ]
    assert [(number, re.sub(r"\b\w+\.", "", revealed)) for number, revealed in types] == expected
