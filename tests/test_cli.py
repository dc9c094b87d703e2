"""The command line, in the same process and with real files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from conftest import Data, train_lightgbm, train_xgboost

import rfsize
from rfsize.cli import main

NAMES = [f"f{index}" for index in range(8)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, data: Data) -> Path:
    """Models and tables as users have them on disk."""
    folder = tmp_path_factory.mktemp("files")
    table = pd.DataFrame(data.X, columns=NAMES)
    train_lightgbm(table, data.y).save_model(folder / "lgb.txt")
    model = train_xgboost(table, data.y)
    model.save_model(folder / "xgb.json")
    model.save_model(folder / "xgb.ubj")
    table.assign(target=data.y).to_csv(folder / "train.csv", index=False)
    table.assign(target=data.y).to_parquet(folder / "train.parquet")
    table.to_csv(folder / "features.csv.gz", index=False)
    np.save(folder / "rows.npy", data.fresh)
    np.savez(folder / "train.npz", X=data.X, y=data.y)
    np.savez(folder / "two.npz", a=data.X, b=data.y)
    np.save(folder / "objects.npy", np.array([{}]), allow_pickle=True)
    (folder / "half.txt").write_text((folder / "lgb.txt").read_text()[:3000])
    (folder / "half.json").write_text((folder / "xgb.json").read_text()[:3000])
    (folder / "odd.json").write_text('{"learner": 3}')
    (folder / "text.txt").write_text("hello")
    (folder / "empty.npy").write_bytes(b"")
    for name in ("train.npz", "features.csv.gz"):
        whole = (folder / name).read_bytes()
        (folder / f"cut.{name.partition('.')[2]}").write_bytes(whole[: len(whole) // 2])
    shutil.copy(folder / "train.npz", folder / "archive.npy")
    return folder


def run(folder: Path, *arguments: str) -> int:
    return main([str(folder / part) if (folder / part).exists() else part for part in arguments])


@pytest.mark.parametrize("rows", ["train.csv", "train.parquet"])
@pytest.mark.parametrize("model", ["lgb.txt", "xgb.json", "xgb.ubj"])
def test_size(model: str, rows: str, folder: Path, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "size", model, rows, "--alpha", "0.9", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    booster = lgb.Booster(model_file=folder / model) if model == "lgb.txt" else xgb.Booster(model_file=folder / model)
    assert printed == rfsize.size(booster, pd.DataFrame(data.X, columns=NAMES), alpha=0.9).to_dict()


def test_size_from_arrays_and_out_of_bag(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "size", "lgb.txt", "train.npz", "--oob", "--alpha", "0.9") == 0
    assert "(oob)" in capsys.readouterr().out
    told = ["--seed", "3", "--subsample", "0.632"]
    assert run(folder, "size", "xgb.ubj", "features.csv.gz", "--oob", "--alpha", "0.9", *told) == 0


def test_named_target_is_no_feature(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "size", "lgb.txt", "train.csv", "--target", "target", "--alpha", "0.9") == 0
    assert run(folder, "size", "lgb.txt", "train.npz", "--target", "y", "--alpha", "0.9") == 0


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


def test_a_small_forest_exits_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "size", "lgb.txt", "rows.npy", "--alpha", "0.985") == 1
    assert "not enough" in capsys.readouterr().out


@pytest.mark.parametrize(("model", "output"), [("lgb.txt", "small.txt"), ("xgb.json", "small.json")])
def test_truncate(
    model: str, output: str, folder: Path, tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / output
    assert run(folder, "truncate", model, "rows.npy", "--alpha", "0.9", "-o", str(small)) == 0
    assert "bytes before" in capsys.readouterr().out
    load: Any = lgb.Booster if model == "lgb.txt" else xgb.Booster
    expected = rfsize.size(load(model_file=folder / model), data.fresh, alpha=0.9).n_trees
    assert rfsize.votes(load(model_file=small), data.fresh).n_trees == expected


def test_truncate_keeps_a_small_forest_whole(folder: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.txt"
    assert run(folder, "truncate", "lgb.txt", "rows.npy", "--alpha", "0.985", "-o", str(small)) == 1
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
        assert "give their integer codes" in capsys.readouterr().err
    else:
        assert status in (0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["size", "missing.txt", "rows.npy"], "missing.txt"),
        (["size", "text.txt", "rows.npy"], "neither a LightGBM text model nor"),
        (["size", "half.txt", "rows.npy"], "breaks off"),
        (["size", "half.json", "rows.npy"], ""),
        (["size", "odd.json", "rows.npy"], ""),
        (["size", "lgb.txt", "missing.csv"], "missing.csv"),
        (["size", "lgb.txt", "text.txt"], "not a known kind of table"),
        (["size", "lgb.txt", "train.csv", "--target", "label"], "no column 'label'"),
        (["size", "lgb.txt", "train.npz", "--target", "label"], "no array 'label'"),
        (["size", "lgb.txt", "rows.npy", "--target", "label"], "without column names"),
        (["size", "lgb.txt", "two.npz"], "one array X"),
        (["size", "lgb.txt", "objects.npy"], "allow_pickle"),
        (["size", "lgb.txt", "rows.npy", "--oob"], "order of training"),
        (["size", "lgb.txt", "rows.npy", "--alpha", "2"], "strictly between"),
        (["size", "xgb.json", "train.npz", "--oob"], "give seed= and subsample="),
        (["truncate", "lgb.txt", "rows.npy", "-o", "lgb.txt"], "is one of the files read"),
        (["truncate", "lgb.txt", "train.csv", "-o", "train.csv"], "is one of the files read"),
        (["size", "lgb.txt", "empty.npy"], "could not be read"),
        (["size", "lgb.txt", "cut.npz"], "could not be read"),
        (["size", "lgb.txt", "cut.csv.gz"], "could not be read"),
        (["size", "lgb.txt", "archive.npy"], "name it .npz"),
        (["truncate", "lgb.txt", "rows.npy", "-o", "new.json"], "written as text"),
        (["truncate", "xgb.json", "rows.npy", "-o", "new.txt"], "written to a .json or .ubj"),
        (["truncate", "lgb.txt", "rows.npy", "--alpha", "0.9", "-o", "no/such/folder.txt"], ""),
    ],
)
def test_bad_input_exits_with_2_and_one_line(
    arguments: list[str], message: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, *arguments) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("rfsize: ")]
    assert len(lines) == 1
    assert message in lines[0]


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert rfsize.__version__ in capsys.readouterr().out


def test_demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("rfsize.demo._TREES", 200)
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert "LightGBM" in printed
    assert "XGBoost" in printed
    assert "MB" in printed


# ---------------------------------------------------------------------------------------------------------
# Tables, compiled forests and predictions


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
    monkeypatch.setattr("rfsize.files._ROWS_PER_PIECE", 400)
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
    monkeypatch.setattr("rfsize.files._ROWS_PER_PIECE", 100)
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
        (["predict", "lgb.txt", "rows.npy", "-o", "new.csv"], "no forest file"),
        (["predict", "missing.npz", "rows.npy", "-o", "new.csv"], "missing.npz"),
    ],
)
def test_bad_input_of_tables_and_forests(
    arguments: list[str], message: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    test_bad_input_exits_with_2_and_one_line(arguments, message, folder, capfd)


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


# ---------------------------------------------------------------------------------------------------------
# Choosing the bagging fraction


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory, data: Data) -> Path:
    """Training tables as users have them: with labels in words, numbers, and one missing."""
    folder = tmp_path_factory.mktemp("training")
    table = pd.DataFrame(data.X[:300], columns=NAMES)
    words = np.array(["low", "middle", "high"])[data.three[:300]]
    table.assign(level=words, sign=data.y[:300], size=data.X[:300, 0] ** 2).to_csv(folder / "train.csv", index=False)
    table.assign(level=[None, *words[1:]]).to_csv(folder / "missing.csv", index=False)
    table.assign(level="low").to_csv(folder / "constant.csv", index=False)
    table.assign(sign=data.y[:300]).to_csv(folder / "two.csv", index=False)
    (folder / "params.json").write_text('{"max_depth": 4, "seed": 5}')
    (folder / "list.json").write_text("[1]")
    return folder


SHORT = ("--n-trees", "30", "--fractions", "0.6", "0.3", "--alpha", "0.8")


@pytest.mark.parametrize(("framework", "output"), [("lightgbm", "best.txt"), ("xgboost", "best.ubj")])
def test_fraction(
    framework: str, output: str, labelled: Path, tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    best = tmp_path / output
    arguments = ["two.csv", "--target", "sign", "--framework", framework, *SHORT, "--params", "params.json"]
    assert run(labelled, "fraction", *arguments, "-o", str(best)) == 0
    printed = capsys.readouterr().out
    assert "is the best of 2" in printed
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
        dtrain, model = lgb.Dataset(X, y), lgb.Booster(model_file=best)
    else:
        params = {"objective": "binary:logistic", "max_depth": 4, "seed": 5}
        dtrain, model = xgb.DMatrix(X, y), xgb.Booster(model_file=best)
    found = rfsize.sampling.select_bagging_fraction(params, dtrain, [0.3, 0.6], n_trees=30, alpha=0.8)
    assert [row["error"] for row in document["curve"]] == found.curve["error"].tolist()
    assert rfsize.votes(model, data.fresh) == rfsize.votes(found.booster, data.fresh)


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_fraction_of_labels_in_words(
    framework: str, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if framework == "xgboost" and tuple(map(int, xgb.__version__.split(".")[:2])) < (3, 2):
        pytest.skip("trees that score all classes tell too little to prove bags")
    table = pd.read_csv(labelled / "train.csv").drop(columns=["sign", "size"])
    table.to_csv(tmp_path / "rows.csv", index=False)
    arguments = ["--target", "level", "--framework", framework, "--search", "elimination", "--rule", "one-se"]
    resumed = ["--resume", str(tmp_path / "search")]
    assert run(tmp_path, "fraction", "rows.csv", *arguments, *SHORT, *resumed, "--seed", "1") == 0
    first = capsys.readouterr().out
    assert first.startswith("classes: 0 = high, 1 = low, 2 = middle\n")
    assert "the smallest within one standard error of the best of 2" in first
    assert run(tmp_path, "fraction", "rows.csv", *arguments, *SHORT, *resumed, "--seed", "1") == 0
    assert capsys.readouterr().out == first


def test_fraction_of_numbers(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a column of words among the features."""
    objective = ["--params", '{"objective": "reg:squarederror"}', "--scoring", "r2"]
    arguments = ["train.csv", "--target", "size", "--framework", "xgboost", *objective, *SHORT[:5]]
    assert run(labelled, "fraction", *arguments) == 0
    printed = capsys.readouterr().out
    assert "score" in printed
    assert "classes" not in printed


def test_fraction_of_a_forest_that_stays_too_small(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "two.csv",
        "--target",
        "sign",
        "--framework",
        "xgboost",
        *SHORT,
        "--alpha",
        "0.99",
        "--max-trees",
        "30",
    ]
    assert run(labelled, "fraction", *arguments) == 1
    assert "not enough" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["two.csv", "--target", "label"], "no column 'label'"),
        (["missing.csv", "--target", "level"], "1 rows have no label"),
        (["constant.csv", "--target", "level"], "nothing to learn"),
        (["train.csv", "--target", "size"], "reg:squarederror"),
        (["two.csv", "--target", "sign", "--params", "list.json"], "must be a JSON object"),
        (["two.csv", "--target", "sign", "--params", "{1"], "not JSON"),
        (["two.csv", "--target", "sign", "--params", "no.json"], "no.json"),
        (["two.csv", "--target", "sign", "--fractions", "2"], "strictly between"),
        (["two.csv", "--target", "sign", "--scoring", "acc"], "get_scorer_names"),
        (["two.csv", "--target", "sign", "-o", "model.txt"], "written to a .json or .ubj"),
        (["two.csv", "--target", "sign", "-o", "two.csv"], "is one of the files read"),
        (["two.csv", "--target", "sign", "--resume", "params.json"], "cannot be taken up"),
        (["train.csv", "--target", "level", "--params", '{"objective": "binary:logistic"}'], "classes 0 to 1"),
    ],
)
def test_bad_input_to_fraction_exits_with_2_and_one_line(
    arguments: list[str], message: str, labelled: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(labelled, "fraction", *arguments, "--framework", "xgboost", "--n-trees", "10") == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("rfsize: ")]
    assert len(lines) == 1
    assert message in lines[0]


# ---------------------------------------------------------------------------------------------------------
# Growing a forest


@pytest.mark.parametrize(("framework", "output"), [("lightgbm", "grown.txt"), ("xgboost", "grown.json")])
def test_grow(
    framework: str, output: str, labelled: Path, tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    read = lgb.Booster if framework == "lightgbm" else xgb.Booster
    training = ["two.csv", "--target", "sign", "--framework", framework, "--params", "params.json", "--seed", "8"]
    grown, more = tmp_path / output, tmp_path / f"more-{output}"
    assert run(labelled, "grow", *training, "--alpha", "0.9", "-o", str(grown)) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("T*(0.9) = ")
    assert "(oob)" in printed
    model = read(model_file=grown)
    assert f"T*(0.9) = {rfsize.votes(model, data.fresh).n_trees} " in printed
    assert run(labelled, "grow", *training, "--alpha", "0.97", "--model", str(grown), "-o", str(more), "--json") == 0
    report = json.loads(capsys.readouterr().out)
    larger = read(model_file=more)
    assert rfsize.votes(larger, data.fresh).n_trees == report["n_trees"]
    assert report["classes"] == [0, 1]
    kept = rfsize.truncate(larger, n_trees=rfsize.votes(model, data.fresh).n_trees)
    assert np.array_equal(rfsize.votes(kept, data.fresh).counts, rfsize.votes(model, data.fresh).counts)


def test_grow_on_validation_rows(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the label's column or without it, in any order of columns."""
    table = pd.read_csv(labelled / "two.csv")
    fresh = tmp_path / "fresh.csv"
    for columns in (table.columns[::-1], table.columns[:-1]):
        table[columns].to_csv(fresh, index=False)
        options = ["--validation", str(fresh), "--alpha", "0.9", "-o", str(tmp_path / "grown.txt")]
        assert run(labelled, "grow", "two.csv", "--target", "sign", "--framework", "lightgbm", *options) == 0
        assert "300 rows (rows given), 100 votes each" in capsys.readouterr().out


def test_bad_input_to_grow(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = ["two.csv", "--target", "sign", "--framework", "xgboost"]
    for options, message in (
        (["-o", str(tmp_path / "grown.txt")], "written to a .json or .ubj"),
        (["-o", str(tmp_path / "grown.json"), "--validation", "none.csv"], "No such file"),
        (["-o", str(tmp_path / "grown.json"), "--params", '{"subsample": 1}'], "subsample"),
        (["-o", str(tmp_path / "grown.json"), "--alpha", "2"], "strictly between"),
    ):
        assert run(labelled, "grow", *training, *options) == 2
        assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    options = ["--max-trees", "30", "--alpha", "0.999", "-o", str(tmp_path / "small.json")]
    assert run(labelled, "grow", *training, *options) == 1
    assert "not enough" in capsys.readouterr().out


def test_labels_in_words_do_not_matter_to_bags(labelled: Path, tmp_path: Path) -> None:
    table = pd.read_csv(labelled / "two.csv")
    table["sign"] = np.where(table["sign"] > 0, "plus", "minus")
    table.to_csv(tmp_path / "words.csv", index=False)
    training, model = ["words.csv", "--target", "sign"], tmp_path / "forest.txt"
    assert run(tmp_path, "grow", *training, "--framework", "lightgbm", "--alpha", "0.8", "-o", str(model)) == 0
    assert run(tmp_path, "size", str(model), *training, "--oob", "--alpha", "0.5") in {0, 1}


def test_a_table_without_rows(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.csv").write_text("a,b,sign\n")
    options = ["empty.csv", "--target", "sign", "--framework", "xgboost", "-o", str(tmp_path / "forest.json")]
    assert run(tmp_path, "grow", *options) == 2
    assert "no rows" in capsys.readouterr().err
