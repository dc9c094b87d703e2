"""``rfsize shrink``: the model that it writes, and what reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from helpers.command_line import NAMES, only_line, run
from helpers.forests import Data


@pytest.fixture(scope="module")
def rows(folder: Path, data: Data) -> Path:
    """Rows that no forest was trained on, with a column that is no feature."""
    path = folder / "unseen.csv"
    pd.DataFrame(data.fresh, columns=NAMES).assign(id=range(len(data.fresh))).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(("model", "output"), [("lgb.txt", "small.txt"), ("xgb.json", "small.ubj")])
def test_the_model_is_that_of_the_library(
    model: str, output: str, folder: Path, rows: Path, tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / output
    asked = ["unseen.csv", "--drop", "id", "--rows", "train.parquet", "--alpha", "0.9", "-o", str(small)]
    assert run(folder, "shrink", model, *asked) == 0
    printed = capsys.readouterr().out
    load: Any = lgb.Booster if model == "lgb.txt" else xgb.Booster
    whole = load(model_file=folder / model)
    unseen = pd.DataFrame(data.fresh, columns=NAMES)
    expected, report = rfsize.shrink(whole, unseen, rows=data.X, alpha=0.9)
    assert printed.startswith(str(report))
    assert "bytes before" in printed
    found = [rfsize.compile(one).predict(unseen) for one in (load(model_file=small), expected)]
    np.testing.assert_array_equal(*found)


def test_sizes_of_your_own(folder: Path, rows: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.txt"
    asked = ["shrink", "lgb.txt", "unseen.csv", "--drop", "id", "-o", str(small)]
    assert run(folder, *asked, "--n-trees", "9") == 0
    assert lgb.Booster(model_file=small).num_trees() == 9


def test_names_of_classes_stay(folder: Path, tmp_path: Path, data: Data, capfd: pytest.CaptureFixture[str]) -> None:
    names = np.array(["no", "yes"])
    table = pd.DataFrame(data.X, columns=NAMES).assign(sign=names[data.y])
    table[:900].to_csv(tmp_path / "train.csv", index=False)
    table[900:].to_csv(tmp_path / "unseen.csv", index=False)
    grown, small = (str(tmp_path / name) for name in ("grown.txt", "small.txt"))
    forest = ["grow", "train.csv", "--labels", "sign", "--framework", "lightgbm", "--alpha", "0.95", "-o", grown]
    assert run(tmp_path, *forest) == 0
    given = ["unseen.csv", "--labels", "sign", "--rows", "train.csv", "--alpha", "0.9"]
    assert run(tmp_path, "shrink", grown, *given, "-o", small) == 0
    assert "AUC" in capfd.readouterr().out
    fast, out = (str(tmp_path / name) for name in ("fast.npz", "out.csv"))
    of_rows = ["unseen.csv", "--labels", "sign"]
    assert run(tmp_path, "compile", small, "-o", fast) == 0
    assert run(tmp_path, "predict", fast, "unseen.csv", "-o", out) == 0
    assert set(pd.read_csv(out)["label"]) == set(names)
    capfd.readouterr()
    for command in (["size"], ["truncate", "-o", grown], ["shrink", "-o", grown]):
        assert run(tmp_path, command[0], small, *of_rows, *command[1:]) == 2
        assert "rfsize.shrink made this model" in only_line(capfd.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "train.csv", "-o", "train.csv"], "is one of the files read"),
        (["-o", "small.json"], "written as text"),
        (["--rows", "rows.parquet", "-o", "small.txt"], "all rows= are in X too"),
        (["--n-trees", "5", "--alpha", "0.9", "-o", "small.txt"], "alpha"),
        (["--rows", "missing.csv", "-o", "small.txt"], "missing.csv"),
    ],
)
def test_bad_input_exits_with_2_and_one_line(
    arguments: list[str], message: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "shrink", "lgb.txt", "rows.parquet", *arguments) == 2
    assert message in only_line(capfd.readouterr().err)
