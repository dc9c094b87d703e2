"""The command line's stop tables, compiled forests and predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rfsize
from helpers.command_line import NAMES, only_line, run
from helpers.forests import Data, train_lightgbm


@pytest.mark.parametrize("rows", ["train.csv", "train.parquet", "train.npz", "features.csv.gz"])
@pytest.mark.parametrize("model", ["lgb.txt", "xgb.ubj"])
@pytest.mark.parametrize("output", ["out.csv", "out.parquet"])
def test_table_compile_predict(
    model: str,
    rows: str,
    output: str,
    folder: Path,
    tmp_path: Path,
    data: Data,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("rfsize.cli.predictions._ROWS_PER_PIECE", 400)
    table, fast, out = (str(tmp_path / name) for name in ("table.json", "fast.npz", output))
    assert run(folder, "table", model, "rows.npy", "--alpha", "0.95", "--rule", "optimal", "-o", table) == 0
    assert "on DATA, with the trees in their order" in capsys.readouterr().out
    assert run(folder, "compile", model, "--table", table, "-o", fast) == 0
    assert run(folder, "predict", fast, rows, "-o", out, "--proba") == 0
    assert "1,500 rows" in capsys.readouterr().out
    written = pd.read_csv(out) if output == "out.csv" else pd.read_parquet(out)
    predictor = rfsize.load(fast)
    labels, asked = predictor.predict(pd.DataFrame(data.X, columns=NAMES), return_trees=True)
    assert np.array_equal(written["label"], labels)
    assert np.array_equal(written["trees"], asked)
    np.testing.assert_allclose(written["p_1"], predictor.predict_proba(data.X)[:, 1], atol=1e-12)


def test_rows_of_training_say_nothing_of_a_tables_order(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "table", "lgb.txt", "train.npz", "--oob", "-o", str(tmp_path / "table.json")) == 0
    assert "on DATA" not in capsys.readouterr().out
    assert rfsize.StopTable.load(tmp_path / "table.json").prior is not None


def test_predict_codes_categories_of_every_piece_alike(
    tmp_path: Path, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rfsize.cli.predictions._ROWS_PER_PIECE", 100)
    table = pd.DataFrame(data.X, columns=NAMES)
    table["f2"] = pd.Categorical(np.where(data.X[:, 2] > 0, "up", "down"))
    table["f3"] = pd.Categorical((data.X[:, 3] * 2).astype(int))
    table = table.sort_values("f2")  # so that some pieces hold one category only
    booster = train_lightgbm(table, data.y, 21, min_data_per_group=5)
    booster.save_model(tmp_path / "lgb.txt")
    table.to_csv(tmp_path / "rows.csv", index=False)
    assert run(tmp_path, "compile", "lgb.txt", "-o", str(tmp_path / "fast.npz")) == 0
    assert run(tmp_path, "predict", "fast.npz", "rows.csv", "-o", str(tmp_path / "out.csv")) == 0
    expected = rfsize.votes(booster, table).winner()
    assert np.array_equal(pd.read_csv(tmp_path / "out.csv")["label"], expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "lgb.txt", "--table", "odd.json", "-o", "new.npz"], ""),
        (["compile", "lgb.txt", "-o", "lgb.txt"], "is one of the files read"),
        (["table", "lgb.txt", "rows.npy", "--alpha", "2", "-o", "new.json"], "at most 1"),
        (["table", "lgb.txt", "rows.npy", "-o", "rows.npy"], "is one of the files read"),
        (["predict", "text.txt", "rows.npy", "-o", "new.csv"], "no forest file"),
        (["predict", "missing.npz", "rows.npy", "-o", "new.csv"], "missing.npz"),
    ],
)
def test_bad_input_exits_with_2_and_one_line(
    arguments: list[str], message: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, *arguments) == 2
    assert message in only_line(capfd.readouterr().err)


def test_bad_predictions_leave_nothing_behind(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fast = str(tmp_path / "fast.npz")
    assert run(folder, "compile", "lgb.txt", "-o", fast) == 0
    for rows, output, message in (
        ("rows.npy", "out.txt", "written to a .csv or .parquet"),
        ("cut.csv.gz", "out.csv", "could not be read"),
        ("text.txt", "out.csv", "not a known kind of table"),
    ):
        assert run(folder, "predict", fast, rows, "-o", str(tmp_path / output)) == 2
        assert message in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["fast.npz"]
