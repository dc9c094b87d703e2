"""The command line, in the same process and with real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from helpers.command_line import NAMES, only_line, run
from helpers.forests import Data, train_lightgbm, train_xgboost
from helpers.pages import Page
from rfsize.cli.main import main


@pytest.mark.parametrize("rows", ["train.csv", "train.parquet", "parts"])
@pytest.mark.parametrize("model", ["lgb.txt", "xgb.json", "xgb.ubj"])
def test_size(model: str, rows: str, folder: Path, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "size", model, rows, "--alpha", "0.9", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    booster = lgb.Booster(model_file=folder / model) if model == "lgb.txt" else xgb.Booster(model_file=folder / model)
    assert printed == rfsize.size(booster, pd.DataFrame(data.X, columns=NAMES), alpha=0.9).to_dict()


def test_size_out_of_bag(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "size", "lgb.txt", "train.parquet", "--labels", "target", "--oob", "--alpha", "0.9") == 0
    assert "from 1,500 out-of-bag rows" in capsys.readouterr().out
    told = ["--seed", "3", "--subsample", "0.632"]
    assert run(folder, "size", "xgb.ubj", "features.csv.gz", "--oob", "--alpha", "0.9", *told) == 0


def test_certified_for_the_forest_at_hand(
    folder: Path, tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    pd.DataFrame(data.fresh, columns=NAMES).to_csv(folder / "fresh.csv", index=False)
    asked = ["--target", "forest", "--confidence", "0.9", "--alpha", "0.9"]
    assert run(folder, "size", "lgb.txt", "fresh.csv", *asked, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    goal = {"alpha": 0.9, "target": "forest", "confidence": 0.9}
    booster = lgb.Booster(model_file=folder / "lgb.txt")
    assert printed == rfsize.size(booster, pd.DataFrame(data.fresh, columns=NAMES), **goal).to_dict()
    small = tmp_path / "small.txt"
    assert run(folder, "truncate", "lgb.txt", "fresh.csv", *asked, "-o", str(small)) == 0
    assert "certified, 90 % sure" in capsys.readouterr().out
    assert lgb.Booster(model_file=small).num_trees() == printed["n_trees"]


def test_named_target_is_no_feature(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "size", "lgb.txt", "train.csv", "--labels", "target", "--alpha", "0.9") == 0
    assert run(folder, "size", "lgb.txt", "train.parquet", "--labels", "target", "--alpha", "0.9") == 0


def test_columns_are_found_by_name(tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame(data.X, columns=[f"f {index}" for index in range(8)])
    train_lightgbm(table, data.y).save_model(tmp_path / "lgb.txt")
    train_xgboost(table, data.y).save_model(tmp_path / "xgb.ubj")
    table.assign(target=data.y, id=range(len(table)))[["id", *table.columns[::-1], "target"]].to_csv(
        tmp_path / "rows.csv", index=False
    )
    assert run(tmp_path, "size", "lgb.txt", "rows.csv", "--oob", "--alpha", "0.9") == 0
    told = ["--seed", "3", "--subsample", "0.632"]
    assert run(tmp_path, "size", "xgb.ubj", "rows.csv", "--oob", "--alpha", "0.9", *told) == 0


def test_a_page(folder: Path, tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    page, own = tmp_path / "page.html", tmp_path / "own.html"
    assert run(folder, "size", "lgb.txt", "rows.parquet", "--alpha", "0.9", "--html", str(page)) == 0
    booster = lgb.Booster(model_file=folder / "lgb.txt")
    report = rfsize.size(booster, pd.DataFrame(data.fresh, columns=NAMES), alpha=0.9)
    assert capsys.readouterr().out.startswith(str(report))
    report.to_html(own)
    headings = [Page(path.read_text(encoding="utf-8")).text.splitlines()[:20] for path in (page, own)]
    assert "T*(0.9)" in page.read_text(encoding="utf-8")
    assert headings[0] == headings[1]


def test_a_small_forest_exits_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "size", "lgb.txt", "rows.parquet", "--alpha", "0.985") == 1
    assert "not enough" in capsys.readouterr().out


@pytest.mark.parametrize(("model", "output"), [("lgb.txt", "small.txt"), ("xgb.json", "small.json")])
def test_truncate(
    model: str, output: str, folder: Path, tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / output
    assert run(folder, "truncate", model, "rows.parquet", "--alpha", "0.9", "-o", str(small)) == 0
    assert "bytes before" in capsys.readouterr().out
    load: Any = lgb.Booster if model == "lgb.txt" else xgb.Booster
    expected = rfsize.size(load(model_file=folder / model), data.fresh, alpha=0.9).n_trees
    assert rfsize.tree_outputs(load(model_file=small), data.fresh).votes.n_trees == expected


def test_truncate_keeps_a_small_forest_whole(folder: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.txt"
    assert run(folder, "truncate", "lgb.txt", "rows.parquet", "--alpha", "0.985", "-o", str(small)) == 1
    assert lgb.Booster(model_file=small).num_trees() == 61


def test_categories_in_a_csv(tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame(data.X, columns=NAMES)
    table["f2"] = pd.Categorical(np.where(data.X[:, 2] > 0, "up", "down"))
    table.to_csv(tmp_path / "rows.csv", index=False)
    train_lightgbm(table, data.y, 21).save_model(tmp_path / "lgb.txt")
    model = train_xgboost(table, data.y, 21, tree_method="hist")
    model.save_model(tmp_path / "xgb.ubj")
    assert run(tmp_path, "size", "lgb.txt", "rows.csv", "--alpha", "0.9", "--oob") in (0, 1)
    told = ["--oob", "--seed", "3", "--subsample", "0.632"]
    status = run(tmp_path, "size", "xgb.ubj", "rows.csv", "--alpha", "0.9", *told)
    if tuple(int(part) for part in xgb.__version__.split(".")[:2]) < (3, 1):
        assert status == 2
        assert "give the codes of training" in capsys.readouterr().err
    else:
        assert status in (0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["size", "missing.txt", "rows.parquet"], "missing.txt"),
        (["size", "text.txt", "rows.parquet"], "neither a LightGBM text model nor"),
        (["size", "half.txt", "rows.parquet"], "breaks off"),
        (["size", "half.json", "rows.parquet"], ""),
        (["size", "odd.json", "rows.parquet"], ""),
        (["size", "lgb.txt", "missing.csv"], "missing.csv"),
        (["size", "lgb.txt", "text.txt"], "not a known kind of table"),
        (["size", "lgb.txt", "rows.npy"], "not a known kind of table"),
        (["size", "lgb.txt", "train.csv", "--html", "lgb.txt"], "is one of the files read"),
        (["size", "lgb.txt", "train.csv", "--labels", "label"], "no column 'label'"),
        (["size", "lgb.txt", "train.csv", "--drop", "F_0"], "did you mean 'f0'?"),
        (["size", "lgb.txt", "rows.parquet", "--oob"], "order of training"),
        (["size", "lgb.txt", "rows.parquet", "--alpha", "2"], "strictly between"),
        (["size", "xgb.json", "train.parquet", "--labels", "target", "--oob"], "subsample="),
        (["truncate", "lgb.txt", "rows.parquet", "-o", "lgb.txt"], "is one of the files read"),
        (["truncate", "lgb.txt", "train.csv", "-o", "train.csv"], "is one of the files read"),
        (["size", "lgb.txt", "cut.parquet"], "neither a Parquet file"),
        (["size", "lgb.txt", "cut.csv.gz"], "could not be read"),
        (["size", "lgb.txt", "wide.csv"], "the header has 8 names, but rows have 9 cells"),
        (["size", "lgb.txt", "begins_wide.csv"], "rows have 9 cells"),
        (["size", "lgb.txt", "ends_wide.csv"], "Expected 8 fields in line 4, saw 9"),
        (["size", "lgb.txt", "indexed.csv"], "the header has 7 names, but rows have 8 cells"),
        (["truncate", "lgb.txt", "rows.parquet", "-o", "new.json"], "written as text"),
        (["truncate", "xgb.json", "rows.parquet", "-o", "new.txt"], "written to a .json or .ubj"),
        (["truncate", "lgb.txt", "rows.parquet", "--alpha", "0.9", "-o", "no/such/folder.txt"], ""),
    ],
)
def test_bad_input_exits_with_2_and_one_line(
    arguments: list[str], message: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, *arguments) == 2
    assert message in only_line(capfd.readouterr().err)


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert rfsize.__version__ in capsys.readouterr().out
