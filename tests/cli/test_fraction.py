"""The command line's choice of the bagging fraction."""

from __future__ import annotations

import json
from pathlib import Path

import lightgbm as lgb
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from helpers.command_line import NAMES, only_line, run
from helpers.forests import Data

SHORT = ("--n-trees", "30", "--fractions", "0.6", "0.3")


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_fraction(framework: str, labelled: Path, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["two.csv", "--labels", "sign", "--framework", framework, *SHORT, "--params", "params.json"]
    assert run(labelled, "fraction", *arguments) == 0
    printed = capsys.readouterr().out
    assert "has the best error of 2" in printed
    assert "classes" not in printed
    assert run(labelled, "fraction", *arguments, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["classes"] == [0, 1]
    X, y = pd.DataFrame(data.X[:300], columns=NAMES), data.y[:300]
    if framework == "lightgbm":
        params = {
            "objective": "binary",
            "boosting": "rf",
            "bagging_freq": 1,
            "verbosity": -1,
            "max_depth": 4,
            "seed": 5,
        }
        dtrain = lgb.Dataset(X, y)
    else:
        params = {"objective": "binary:logistic", "max_depth": 4, "seed": 5}
        dtrain = xgb.DMatrix(X, y)
    found = rfsize.training.bagging_fraction.select_bagging_fraction(
        params, dtrain, fractions=[0.3, 0.6], n_trees=30, rule="best"
    )
    assert [row["error"] for row in document["curve"]] == found.curve["error"].tolist()


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_fraction_of_labels_in_words(
    framework: str, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if framework == "xgboost" and tuple(map(int, xgb.__version__.split(".")[:2])) < (3, 2):
        pytest.skip("trees that score all classes tell too little to prove bags")
    table = pd.read_csv(labelled / "train.csv").drop(columns=["sign", "size"])
    table.to_csv(tmp_path / "rows.csv", index=False)
    arguments = ["--labels", "level", "--framework", framework, "--rule", "best"]
    assert run(tmp_path, "fraction", "rows.csv", *arguments, *SHORT, "--seed", "1") == 0
    assert capsys.readouterr().out.startswith("classes: 0 = high, 1 = low, 2 = middle\n")


def test_fraction_of_numbers(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a column of words among the features."""
    objective = ["--params", '{"objective": "reg:squarederror"}', "--metric", "r2"]
    arguments = ["train.csv", "--labels", "size", "--framework", "xgboost", *objective, *SHORT]
    assert run(labelled, "fraction", *arguments) == 0
    printed = capsys.readouterr().out
    assert "score" in printed
    assert "classes" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["two.csv", "--labels", "label"], "no column 'label'"),
        (["missing.csv", "--labels", "level"], "no label on 1 row: leave such rows out"),
        (["constant.csv", "--labels", "level"], "nothing to learn"),
        (["train.csv", "--labels", "size"], "reg:squarederror"),
        (["two.csv", "--labels", "sign", "--params", "list.json"], "must be a JSON object"),
        (["two.csv", "--labels", "sign", "--params", "{1"], "not JSON"),
        (["two.csv", "--labels", "sign", "--params", "no.json"], "no.json"),
        (["two.csv", "--labels", "sign", "--fractions", "2"], "strictly between"),
        (["two.csv", "--labels", "sign", "--metric", "acc"], "get_scorer_names"),
        (["train.csv", "--labels", "level", "--params", '{"objective": "binary:logistic"}'], "class indices 0 to 1"),
    ],
)
def test_bad_input_to_fraction_exits_with_2_and_one_line(
    arguments: list[str], message: str, labelled: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(labelled, "fraction", *arguments, "--framework", "xgboost", "--n-trees", "10") == 2
    assert message in only_line(capfd.readouterr().err)
