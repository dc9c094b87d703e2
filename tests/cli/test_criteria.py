"""The command line's choices of what to size: labels by votes or scores, probabilities, scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lightgbm as lgb
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from helpers.command_line import NAMES, run
from helpers.forests import Data, train_lightgbm


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--voting", "soft", "--alpha", "0.9"], {"voting": "soft", "alpha": 0.9}),
        (["--method", "plugin", "--alpha", "0.9"], {"method": "plugin", "alpha": 0.9}),
        (["--metric", "probabilities", "--tolerance", "0.1"], {"metric": "probabilities", "tolerance": 0.1}),
        (["--metric", "scores", "--tolerance", "0.3"], {"metric": "scores", "tolerance": 0.3}),
    ],
)
@pytest.mark.parametrize("model", ["lgb.txt", "xgb.json"])
def test_criteria(
    model: str,
    options: list[str],
    expected: dict[str, Any],
    folder: Path,
    tmp_path: Path,
    data: Data,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = run(folder, "size", model, "rows.parquet", *options, "--json")
    printed = json.loads(capsys.readouterr().out)
    booster = lgb.Booster(model_file=folder / model) if model == "lgb.txt" else xgb.Booster(model_file=folder / model)
    report = rfsize.size(booster, data.fresh, **expected)
    assert printed == report.to_dict()
    assert status == (0 if report.enough else 1)
    small = tmp_path / model
    assert run(folder, "truncate", model, "rows.parquet", *options, "-o", str(small)) == status
    load: Any = lgb.Booster if model == "lgb.txt" else xgb.Booster
    assert rfsize.tree_outputs(load(model_file=small), data.fresh).votes.n_trees == report.n_kept


def test_metrics_by_all_of_their_names(tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame(data.X, columns=NAMES).assign(target=data.y)
    table.to_csv(tmp_path / "train.csv", index=False)
    train_lightgbm(table[list(NAMES)], data.y, 60).save_model(tmp_path / "model.txt")
    sizing = ["size", "model.txt", "train.csv", "--labels", "target", "--oob", "--tolerance", "0.01", "--metric"]
    assert run(tmp_path, *sizing, "ROC_AUC") == run(tmp_path, *sizing, "auc")
    lines = capsys.readouterr().out.splitlines()
    one, other = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    assert one == other
    assert "AUC" in one[1]
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path, *sizing, "acurracy")
    assert "did you mean 'accuracy'?" in capsys.readouterr().err


def test_regression(tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame(data.X, columns=NAMES)
    train_lightgbm(table, data.X[:, 0], 40, objective="regression").save_model(tmp_path / "lgb.txt")
    table.assign(target=data.X[:, 0]).to_csv(tmp_path / "train.csv", index=False)
    wanted = ["--oob", "--labels", "target", "--metric", "scores"]
    assert run(tmp_path, "size", "lgb.txt", "train.csv", *wanted, "--tolerance", "0.5") == 0
    assert "scores are within 0." in capsys.readouterr().out
    assert run(tmp_path, "size", "lgb.txt", "train.csv", *wanted, "--tolerance", "0.001") == 1
    for options, message in [
        (["--alpha", "0.9"], "metric='scores', with a tolerance"),
        (["--metric", "scores"], "needs a tolerance"),
        (["--metric", "scores", "--tolerance", "0.1", "--alpha", "0.9"], "alpha would have no effect"),
    ]:
        assert run(tmp_path, "size", "lgb.txt", "train.csv", "--labels", "target", *options) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(("framework", "output"), [("lightgbm", "grown.txt"), ("xgboost", "grown.json")])
def test_growing_by_a_metric(
    framework: str, output: str, tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.DataFrame(data.X, columns=NAMES).assign(sign=[("no", "yes")[label] for label in data.y])
    table[:1000].to_csv(tmp_path / "train.csv", index=False)
    table[1000:].to_csv(tmp_path / "fresh.csv", index=False)
    training = ["grow", "train.csv", "--labels", "sign", "--framework", framework, "-o", str(tmp_path / output)]
    by = ["--metric", "auc", "--tolerance", "0.005"]
    load: Any = lgb.Booster if framework == "lightgbm" else xgb.Booster
    for options, source in [([], "out-of-bag rows"), (["--validation", "fresh.csv"], "the 500 rows you gave")]:
        assert run(tmp_path, *training, *by, *options) == 0
        printed = capsys.readouterr().out
        assert "AUC is expected to be" in printed
        assert source in printed
        assert run(tmp_path, *training, *by, *options, "--json") == 0
        report = json.loads(capsys.readouterr().out)
        assert rfsize.tree_outputs(load(model_file=tmp_path / output), data.fresh).votes.n_trees == report["n_kept"]
    table[1000:].drop(columns="sign").to_csv(tmp_path / "fresh.csv", index=False)
    for options, message in [
        ([*by, "--validation", "fresh.csv"], "has no column 'sign'"),
        (["--metric", "auc"], "needs a tolerance"),
        ([*by, "--alpha", "0.9"], "alpha would have no effect"),
        (["--metric", "rmse", "--tolerance", "0.1"], "metric='rmse' does not fit a classification forest"),
    ]:
        assert run(tmp_path, *training, *options) == 2
        assert message in capsys.readouterr().err


def test_growing_a_regression(tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame(data.X, columns=NAMES).assign(target=data.X[:, 0] + data.X[:, 1])
    table.to_csv(tmp_path / "train.csv", index=False)
    training = ["grow", "train.csv", "--labels", "target", "--framework", "lightgbm", "--params"]
    training += ['{"objective": "regression", "num_leaves": 15}', "-o", str(tmp_path / "grown.txt")]
    for by in (["--metric", "scores", "--tolerance", "0.1"], ["--metric", "rmse", "--tolerance", "0.01"]):
        assert run(tmp_path, *training, *by) == 0
        assert {"scores": "scores are within", "rmse": "RMSE is expected to be"}[by[1]] in capsys.readouterr().out
    assert run(tmp_path, *training, "--alpha", "0.9") == 2
    assert "metric='scores', with a tolerance" in capsys.readouterr().err


def test_a_metric_on_other_rows_than_those_of_training(
    tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.DataFrame(data.X, columns=NAMES).assign(target=data.y)
    booster = train_lightgbm(table[list(NAMES)][:1000], data.y[:1000], 60)
    booster.save_model(tmp_path / "model.txt")
    table[1000:].to_csv(tmp_path / "fresh.csv", index=False)
    wanted = ["--metric", "auc", "--tolerance", "0.01", "--json"]
    assert run(tmp_path, "size", "model.txt", "fresh.csv", "--labels", "target", *wanted) in (0, 1)
    report = rfsize.size(booster, table[list(NAMES)][1000:], table["target"][1000:], metric="auc", tolerance=0.01)
    assert json.loads(capsys.readouterr().out) == report.to_dict()
