"""The command line's compiled forests and predictions."""

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
from helpers.forests import Data, train_lightgbm


def _booster(path: Path) -> Any:
    return lgb.Booster(model_file=path) if path.suffix == ".txt" else xgb.Booster(model_file=path)


@pytest.mark.parametrize("rows", ["train.csv", "train.parquet", "parts", "features.csv.gz"])
@pytest.mark.parametrize("model", ["lgb.txt", "xgb.ubj"])
@pytest.mark.parametrize("output", ["out.csv", "out.parquet"])
def test_compile_with_a_table_and_predict(
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
    outputs = rfsize.tree_outputs(_booster(folder / model), pd.DataFrame(data.fresh, columns=NAMES))
    rfsize.StopTable.build(outputs.n_trees, alpha=0.95, prior=outputs).save(table)
    assert run(folder, "compile", model, "--table", table, "-o", fast) == 0
    assert run(folder, "predict", fast, rows, "-o", out, "--proba") == 0
    assert "1,500 rows" in capsys.readouterr().out
    written = pd.read_csv(out) if output == "out.csv" else pd.read_parquet(out)
    predictor = rfsize.load(fast)
    labels, asked = predictor.predict_labels(pd.DataFrame(data.X, columns=NAMES), return_trees=True)
    assert np.array_equal(written["label"], labels)
    assert np.array_equal(written["trees"], asked)
    np.testing.assert_allclose(written["p_1"], predictor.predict_proba(data.X)[:, 1], atol=1e-12)


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
    assert np.array_equal(pd.read_csv(tmp_path / "out.csv")["label"], booster.predict(table) > 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "lgb.txt", "--table", "odd.json", "-o", "new.npz"], ""),
        (["compile", "lgb.txt", "-o", "lgb.txt"], "is one of the files read"),
        (["predict", "lgb.txt", "parts", "-o", "parts/0.parquet"], "all files of which are read"),
        (["predict", "text.txt", "rows.parquet", "-o", "new.csv"], "not a forest file"),
        (["predict", "numbers.txt", "rows.parquet", "--proba", "-o", "new.csv"], "neither probabilities nor votes"),
        (["predict", "numbers.txt", "rows.parquet", "--voting", "hard", "-o", "new.csv"], "decides labels"),
        (["predict", "missing.npz", "rows.parquet", "-o", "new.csv"], "missing.npz"),
        (["predict", "lgb.txt", "wide.csv", "-o", "new.csv"], "the header has 8 names, but rows have 9 cells"),
        (["predict", "lgb.txt", "begins_wide.csv", "-o", "new.csv"], "rows have 9 cells"),
        (["predict", "lgb.txt", "ends_wide.csv", "-o", "new.csv"], "Expected 8 fields in line 4, saw 9"),
        (["predict", "lgb.txt", "indexed.csv", "-o", "new.csv"], "the header has 7 names, but rows have 8 cells"),
    ],
)
def test_bad_input_exits_with_2_and_one_line(
    arguments: list[str], message: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, *arguments) == 2
    assert message in only_line(capfd.readouterr().err)


def test_an_input_is_not_lost_for_its_name(folder: Path, tmp_path: Path) -> None:
    table = pd.read_csv(folder / "train.csv")
    table.to_csv(tmp_path / "out.partial.csv", index=False)
    assert run(folder, "predict", "lgb.txt", str(tmp_path / "out.partial.csv"), "-o", str(tmp_path / "out.csv")) == 0
    assert pd.read_csv(tmp_path / "out.partial.csv").equals(table)
    assert len(pd.read_csv(tmp_path / "out.csv")) == len(table)


def test_bad_predictions_leave_nothing_behind(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fast = str(tmp_path / "fast.npz")
    assert run(folder, "compile", "lgb.txt", "-o", fast) == 0
    for rows, output, message in (
        ("rows.parquet", "out.txt", "written to a .csv or .parquet"),
        ("cut.csv.gz", "out.csv", "could not be read"),
        ("text.txt", "out.csv", "not a known kind of table"),
    ):
        assert run(folder, "predict", fast, rows, "-o", str(tmp_path / output)) == 2
        assert message in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["fast.npz"]


@pytest.mark.parametrize("through", ["model", "compiled forest"])
def test_numbers_of_a_regression_forest(through: str, folder: Path, tmp_path: Path, data: Data) -> None:
    forest, out = "numbers.txt", str(tmp_path / "out.csv")
    if through == "compiled forest":
        forest = str(tmp_path / "fast.npz")
        assert run(folder, "compile", "numbers.txt", "-o", forest) == 0
        assert run(folder, "predict", forest, "rows.parquet", "-o", out, "--voting", "hard") == 2
    assert run(folder, "predict", forest, "rows.parquet", "-o", out) == 0
    written = pd.read_csv(out)
    assert written.columns.tolist() == ["prediction", "trees"]
    expected = lgb.Booster(model_file=folder / "numbers.txt").predict(data.fresh)
    np.testing.assert_allclose(written["prediction"], expected, rtol=1e-12)


@pytest.mark.parametrize("voting", [None, "soft", "hard"])
def test_what_labels_go_by(voting: str | None, folder: Path, tmp_path: Path, data: Data) -> None:
    asked = [] if voting is None else ["--voting", voting]
    fast, out = str(tmp_path / "fast.npz"), str(tmp_path / "out.csv")
    booster = lgb.Booster(model_file=folder / "lgb.txt")
    averages = (booster.predict(data.fresh) > 0.5).astype(int)
    majority = rfsize.tree_outputs(booster, data.fresh).votes.counts.argmax(axis=1)
    assert (averages != majority).any()
    expected = majority if voting == "hard" else averages
    assert run(folder, "predict", "lgb.txt", "rows.parquet", *asked, "-o", out) == 0
    assert np.array_equal(pd.read_csv(out)["label"], expected)
    assert run(folder, "compile", "lgb.txt", *asked, "-o", fast) == 0
    assert run(folder, "predict", fast, "rows.parquet", "-o", out) == 0
    assert np.array_equal(pd.read_csv(out)["label"], expected)
    assert run(folder, "predict", fast, "rows.parquet", "--voting", "hard", "-o", out) == 0
    assert np.array_equal(pd.read_csv(out)["label"], majority)


@pytest.mark.parametrize("model", ["lgb.txt", "xgb.ubj"])
@pytest.mark.parametrize("voting", ["auto", "hard"])
def test_a_certified_table(model: str, voting: str, folder: Path, tmp_path: Path, data: Data) -> None:
    table, fast, out = (str(tmp_path / name) for name in ("table.json", "fast.npz", "out.csv"))
    booster = _booster(folder / model)
    calibrated = rfsize.StopTable.calibrate(booster, data.fresh, alpha=0.9, confidence=0.9, voting=voting)
    calibrated.save(table)
    assert run(folder, "compile", model, "--table", table, "-o", fast) == 0
    assert run(folder, "predict", fast, "rows.parquet", "-o", out) == 0
    assert np.array_equal(pd.read_csv(out)["label"], rfsize.compile(booster, calibrated).predict_labels(data.fresh))


def test_the_mean_of_several_forests(
    folder: Path, tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.DataFrame(data.X, columns=NAMES)
    models = [train_lightgbm(table, data.y, trees, seed=trees) for trees in (5, 9)]
    rfsize.compile(models).save(tmp_path / "mean.npz")
    fast, out = str(tmp_path / "mean.npz"), tmp_path / "out.csv"
    assert run(folder, "predict", fast, "train.csv", "-o", str(out), "--proba") == 0
    assert "14.0 of 14 trees asked per row" in capsys.readouterr().out
    written, mean = pd.read_csv(out), np.mean([one.predict(table) for one in models], axis=0)
    np.testing.assert_allclose(written["p_1"], mean, atol=1e-12)
    assert written["label"].tolist() == (mean > 0.5).astype(int).tolist()
    assert set(written["trees"]) == {14}
    assert run(folder, "predict", fast, "train.csv", "-o", str(tmp_path / "no.csv"), "--voting", "hard") != 0
    assert "leave out --voting" in only_line(capsys.readouterr().err)
    numbers = [train_lightgbm(table, data.X[:, 0], 5, objective="regression", seed=seed) for seed in (1, 2)]
    rfsize.compile(numbers).save(tmp_path / "mean.npz")
    assert run(folder, "predict", fast, "train.csv", "-o", str(out)) == 0
    of_numbers = np.mean([one.predict(table) for one in numbers], axis=0)
    np.testing.assert_allclose(pd.read_csv(out)["prediction"], of_numbers, atol=1e-12)
