"""Rows that belong together, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import lightgbm as lgb
import pandas as pd
import pytest

import rfsize
from helpers.command_line import NAMES, only_line, run
from helpers.copied import continuous, twice
from helpers.forests import train_lightgbm


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of patients, each row twice, and a forest of them."""
    folder = tmp_path_factory.mktemp("groups")
    X, y = twice(*continuous(200))
    table = pd.DataFrame(X, columns=NAMES)
    train_lightgbm(table, y, bagging_fraction=0.5).save_model(folder / "lgb.txt")
    table.assign(patient=[f"p{row // 2}" for row in range(400)], sick=y).to_csv(folder / "rows.csv", index=False)
    return folder


def test_sizes_go_by_groups(grouped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.read_csv(grouped / "rows.csv")
    booster = lgb.Booster(model_file=grouped / "lgb.txt")
    told = ["--oob", "--labels", "sick", "--alpha", "0.8", "--json"]
    for option, groups in (("patient", table["patient"]), ("copies", "copies"), ("rows", "rows")):
        drop = [] if option == "patient" else ["--drop", "patient"]
        assert run(grouped, "size", "lgb.txt", "rows.csv", *told, *drop, "--groups", option) in (0, 1)
        printed = json.loads(capsys.readouterr().out)
        y = table["sick"]
        assert printed == rfsize.size(booster, table[NAMES], y, oob=True, alpha=0.8, groups=groups).to_dict()
    assert run(grouped, "size", "lgb.txt", "rows.csv", *told, "--drop", "patient") in (0, 1)
    assert json.loads(capsys.readouterr().out)["groups"] == "copies"


def test_a_column_goes_before_a_word(grouped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.read_csv(grouped / "rows.csv").rename(columns={"patient": "rows"}).to_csv(grouped / "named.csv", index=False)
    told = ["--oob", "--labels", "sick", "--alpha", "0.8", "--json", "--groups", "rows"]
    assert run(grouped, "size", "lgb.txt", "named.csv", *told) in (0, 1)
    assert json.loads(capsys.readouterr().out)["groups"] == "given"


def test_training(grouped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["--labels", "sick", "--framework", "lightgbm", "--groups", "patient", "--json"]
    more = ["--alpha", "0.8", "--max-trees", "60", "-o", str(grouped / "grown.txt")]
    assert run(grouped, "grow", "rows.csv", *told, *more) in (0, 1)
    printed = capsys.readouterr().out
    assert json.loads(printed[printed.index("{") :])["groups"] == "given"


def test_refusals(grouped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["--labels", "sick", "--drop", "patient"]
    assert run(grouped, "size", "lgb.txt", "rows.csv", *told, "--oob", "--groups", "person") == 2
    assert "has no column 'person' of groups; it has ['f0'" in only_line(capsys.readouterr().err)
    assert run(grouped, "size", "lgb.txt", "rows.csv", *told, "--groups", "copies") == 2
    assert "leave groups out, or give the training rows with oob=True" in only_line(capsys.readouterr().err)
