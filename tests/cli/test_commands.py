"""Every command through files, as the library does it in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from rfsize.cli import main

from .conftest import FRESH, TABLE, WORDS, Y, train

Run = Callable[..., int]
PRINTED = pytest.CaptureFixture[str]
OOB = ["--oob", "--labels", "target"]


def load(path: Path) -> Any:
    return lgb.Booster(model_file=path) if path.suffix == ".txt" else xgb.Booster(model_file=path)


def n_trees(path: Path | str) -> int:
    return rfsize.tree_outputs(load(Path(path)), FRESH).n_trees


@pytest.mark.parametrize(
    ("model", "rows"),
    [("lgb.txt", "train.csv"), ("xgb.json", "train.parquet"), ("xgb.ubj", "parts"), ("lgb.txt", "train.csv.gz")],
)
def test_size(model: str, rows: str, folder: Path, run: Run, capsys: PRINTED) -> None:
    status = run("size", model, rows, "--labels", "target", "--alpha", "0.9", "--json")
    report = rfsize.size(load(folder / model), TABLE, Y, alpha=0.9)
    assert json.loads(capsys.readouterr().out) == report.to_dict()
    assert status == (0 if report.enough else 1)


OPTIONS: list[tuple[list[str], dict[str, Any]]] = [
    (["--voting", "soft"], {"voting": "soft"}),
    (["--method", "plugin"], {"method": "plugin"}),
    (["--average", "macro", "--alpha", "0.8"], {"average": "macro", "alpha": 0.8}),
    (["--metric", "probabilities", "--tolerance", "0.1"], {"metric": "probabilities", "tolerance": 0.1}),
    (["--metric", "scores", "--tolerance", "0.3"], {"metric": "scores", "tolerance": 0.3}),
    (["--target", "model", "--confidence", "0.9"], {"target": "model", "confidence": 0.9}),
    (["--threshold", "0.3"], {"threshold": 0.3}),
    ([*OOB, "--metric", "ROC_AUC", "--tolerance", "0.01"], {"oob": True, "metric": "auc", "tolerance": 0.01}),
    ([*OOB, "--groups", "rows", "--alpha", "0.8"], {"oob": True, "groups": "rows", "alpha": 0.8}),
    ([*OOB, "--groups", "id", "--alpha", "0.8"], {"oob": True, "groups": np.arange(600) // 2, "alpha": 0.8}),
]


@pytest.mark.parametrize(("options", "arguments"), OPTIONS, ids=range(len(OPTIONS)))
def test_options_of_sizes_and_cuts(
    options: list[str], arguments: dict[str, Any], folder: Path, run: Run, capsys: PRINTED
) -> None:
    arguments = {**arguments}
    table = (TABLE if "--oob" in options else FRESH).assign(id=lambda table: np.arange(len(table)) // 2)
    y = Y if "--labels" in options else None
    table.assign(target=0 if y is None else y).to_csv("rows.csv", index=False)
    drop = [column for column in ("id", "target") if column not in options]
    given = ["large.txt", "rows.csv", *options, *(["--drop", *drop] if drop else [])]
    model = load(folder / "large.txt")
    threshold = {name: arguments.pop(name) for name in ("threshold",) if name in arguments}
    sized = (
        [rfsize.tree_outputs(model, table[[*"abcde"]], y, **threshold)] if threshold else [model, table[[*"abcde"]], y]
    )
    report = rfsize.size(*sized, **arguments)
    status = 0 if report.enough else 1
    assert run("size", *given, "--json") == status
    assert json.loads(capsys.readouterr().out) == report.to_dict()
    assert run("truncate", *given, "-o", "small.txt") == status
    assert n_trees("small.txt") == report.n_kept


def test_columns_go_by_name(run: Run, capsys: PRINTED) -> None:
    """In any order, beside others, and with names that LightGBM alters."""
    table = TABLE.set_axis([f"x {name}" for name in TABLE], axis=1)
    train(table).save_model("model.txt")
    table.assign(id=range(600))[["id", *table.columns[::-1]]].to_csv("rows.csv", index=False)
    assert run("size", "model.txt", "rows.csv", "--oob", "--alpha", "0.8", "--json") == 0
    expected, printed = rfsize.size(train(), TABLE, oob=True, alpha=0.8), capsys.readouterr()
    assert json.loads(printed.out)["n_trees"] == expected.n_trees
    assert printed.err.count("'id'") == 1


def test_a_column_of_groups_goes_before_a_word(run: Run, capsys: PRINTED) -> None:
    TABLE.assign(rows=np.arange(600) // 2, target=Y).to_csv("rows.csv", index=False)
    run("size", "lgb.txt", "rows.csv", *OOB, "--alpha", "0.8", "--groups", "rows", "--json")
    assert json.loads(capsys.readouterr().out)["groups"] == "given"


@pytest.mark.parametrize(("model", "output"), [("lgb.txt", "small.txt"), ("xgb.json", "small.ubj")])
def test_shrink(model: str, output: str, folder: Path, run: Run, capsys: PRINTED) -> None:
    arguments = ["fresh.csv", "--drop", "id", "--rows", "train.parquet", "--alpha", "0.8", "-o", output]
    assert run("shrink", model, *arguments) == 0
    expected, report = rfsize.shrink(load(folder / model), FRESH, rows=TABLE, alpha=0.8)
    assert capsys.readouterr().out.startswith(str(report))
    labels = [rfsize.compile(forest).predict(FRESH).tolist() for forest in (load(Path(output)), expected)]
    assert labels[0] == labels[1]
    assert run("shrink", model, "fresh.csv", "--drop", "id", "--n-trees", "9", "-o", output) == 0
    assert rfsize.compile(load(Path(output))).n_trees == 9


def test_boosted_models_are_certified_cut_and_shrunk(folder: Path, run: Run, capsys: PRINTED) -> None:
    booster, truth = train(boosting="gbdt"), (FRESH["a"] + FRESH["b"] * FRESH["c"] > 0.3).astype(int)
    booster.save_model("gbdt.txt")
    FRESH.assign(target=truth).to_parquet("labelled.parquet")
    given = ["gbdt.txt", "labelled.parquet", "--labels", "target", "--alpha", "0.9"]
    assert run("size", *given, "--json") == 0
    report = rfsize.size(booster, FRESH, truth, alpha=0.9)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(report.to_dict()))
    assert run("truncate", *given, "-o", "small.txt") == 0
    assert load(Path("small.txt")).num_trees() == report.n_trees < 61
    assert run("shrink", *given, "--rows", str(folder / "train.csv"), "-o", "shrunk.txt") == 0
    shrunk = rfsize.shrink(booster, FRESH, rows=TABLE, alpha=0.9)[0]
    np.testing.assert_array_equal(load(Path("shrunk.txt")).predict(FRESH), shrunk.predict(FRESH))
    assert run("compile", "shrunk.txt", "-o", "shrunk.rfsize") == 0
    assert run("size", *given, "--oob") == 2
    assert run("size", *given[:4], "--metric", "auc", "--tolerance", "0.1") == 2


@pytest.mark.parametrize(("framework", "output"), [("lightgbm", "grown.txt"), ("xgboost", "grown.json")])
def test_grow(framework: str, output: str, folder: Path, run: Run, capsys: PRINTED) -> None:
    training = ["grow", "train.csv", "--labels", "target", "--framework", framework, "--params", "params.json"]
    training += ["--json", "--max-trees", "400", "-o"]
    for options in (["--alpha", "0.8"], ["--metric", "auc", "--tolerance", "0.02"]):
        assert run(*training, output, *options) == 0
        report = json.loads(capsys.readouterr().out)
        assert (n_trees(output), report["classes"]) == (report["n_kept"], [0, 1])
    assert run(*training, output, "--seed", "8", "--alpha", "0.8") == 0
    assert run(*training, output, "--max-trees", "30", "--alpha", "0.999") == 1


def test_grow_a_regression_of_a_frame(run: Run, capsys: PRINTED) -> None:
    TABLE.assign(town=np.where(Y, "Rom", "Ulm"), key=range(600), target=TABLE["a"]).to_csv("rows.csv", index=False)
    training = ["grow", "rows.csv", "--labels", "target", "--drop", "key", "--framework", "lightgbm", "-o", "grown.txt"]
    training += ["--params", '{"objective": "regression", "num_leaves": 15}']
    for by in (["--metric", "scores", "--tolerance", "0.2"], ["--metric", "rmse", "--tolerance", "0.05"]):
        assert run(*training, *by) == 0
    assert "town" in capsys.readouterr().out  # read as categories
    assert lgb.Booster(model_file="grown.txt").feature_name() == [*"abcde", "town"]


@pytest.mark.parametrize(
    ("model", "rows", "output"), [("lgb.txt", "train.csv.gz", "out.csv"), ("xgb.ubj", "parts", "out.parquet")]
)
def test_compile_and_predict(model: str, rows: str, output: str, folder: Path, run: Run, capsys: PRINTED) -> None:
    outputs = rfsize.tree_outputs(load(folder / model), FRESH)
    rfsize.StopTable.build(61, alpha=0.9, prior=outputs).save("table.json")
    assert run("compile", model, "--table", "table.json", "-o", "own.rfsize") == 0
    assert run("predict", "own.rfsize", rows, "--proba", "-o", output) == 0
    written = pd.read_csv(output) if output == "out.csv" else pd.read_parquet(output)
    fast = rfsize.load("own.rfsize")
    labels, n_used = fast.predict_labels(TABLE, return_trees=True)
    assert written["label"].tolist() == labels.tolist()
    assert written["trees"].tolist() == n_used.tolist()
    np.testing.assert_allclose(written[["p_0", "p_1"]], fast.predict_proba(TABLE), atol=1e-12)


@pytest.mark.parametrize("voting", [None, "soft", "hard"])
def test_what_labels_go_by(voting: str | None, folder: Path, run: Run) -> None:
    booster, options = load(folder / "lgb.txt"), [] if voting is None else ["--voting", voting]
    averages, majority = booster.predict(FRESH) > 0.5, rfsize.tree_outputs(booster, FRESH).votes.winner()
    expected = (majority if voting == "hard" else averages).astype(int).tolist()
    assert (averages != majority).any()
    assert run("compile", "lgb.txt", *options, "-o", "own.rfsize") == 0
    assert run("predict", "own.rfsize", "fresh.parquet", "-o", "out.csv") == 0
    assert pd.read_csv("out.csv")["label"].tolist() == expected


def test_predict_numbers_and_means(folder: Path, run: Run) -> None:
    for model in ("numbers.txt", "own.rfsize"):
        assert run("compile", "numbers.txt", "-o", "own.rfsize") == 0
        assert run("predict", model, "fresh.parquet", "-o", "out.csv") == 0
        np.testing.assert_allclose(pd.read_csv("out.csv")["prediction"], load(folder / "numbers.txt").predict(FRESH))
    models = [train(n_trees=trees, seed=trees) for trees in (5, 9)]
    rfsize.compile(models).save("mean.rfsize")
    assert run("predict", "mean.rfsize", "fresh.parquet", "--proba", "-o", "out.csv") == 0
    written, mean = pd.read_csv("out.csv"), np.mean([model.predict(FRESH) for model in models], axis=0)
    np.testing.assert_allclose(written["p_1"], mean, atol=1e-12)
    assert written["label"].tolist() == (mean > 0.5).astype(int).tolist()
    assert set(written["trees"]) == {14}


def test_categories_of_every_piece_are_coded_alike(run: Run) -> None:
    """Of more rows than are read at once, some pieces hold one category only."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=250_000), "way": np.repeat(["down", "up"], 125_000)})
    table["code"] = rng.integers(10, 13, 250_000)
    table = table.astype({"way": "category", "code": "category"})
    y = ((table["x"] > 0) == (table["way"] == "up")) & (table["code"] != 11)
    train(table[::100], y[::100], 21, min_data_per_group=5).save_model("model.txt")
    table.to_csv("rows.csv", index=False)
    assert run("predict", "model.txt", "rows.csv", "-o", "out.csv") == 0
    own = lgb.Booster(model_file="model.txt").predict(table) > 0.5
    assert pd.read_csv("out.csv")["label"].tolist() == own.astype(int).tolist()
    train(table[::100], y[::100], 21, bagging_fraction=0.4).save_model("model.txt")
    table[::100].to_csv("rows.csv", index=False)
    assert run("size", "model.txt", "rows.csv", "--oob", "--alpha", "0.5") == 0


@pytest.mark.parametrize(("framework", "ending", "labels"), [("lightgbm", "txt", "code"), ("xgboost", "json", "level")])
def test_names_of_classes_stay(framework: str, ending: str, labels: str, run: Run) -> None:
    """From the table that a forest is grown on to the one that is predicted, in files that the framework reads."""
    rest = ["--drop", "size", *({"level", "code"} - {labels})]
    given = ["words.csv", "--labels", labels, *rest]
    model, small = f"model.{ending}", f"small.{ending}"
    growing = ["grow", *given, "--framework", framework, "--alpha", "0.8", "--min-trees", "30", "--seed", "3"]
    assert run(*growing, "-o", model) == 0
    assert run("truncate", model, *given, "--alpha", "0.5", "-o", small) in {0, 1}
    names = sorted(WORDS if labels == "level" else (7, 17, 27))
    for path in (model, small):
        assert run("compile", path, "--voting", "hard", "-o", "own.rfsize") == 0
        assert rfsize.load("own.rfsize").classes.tolist() == names
        assert run("predict", "own.rfsize", "words.csv", "--proba", "-o", "out.csv") == 0
        written, own = pd.read_csv("out.csv"), rfsize.tree_outputs(load(Path(path)), TABLE).votes.winner()
        assert written["label"].tolist() == np.array(names)[own].tolist()
        assert list(written.columns[2:]) == [f"p_{name}" for name in names]


NAMES_OF_CLASSES = [
    '["a", "b"]',
    '["a", "b", "b"]',
    '{"a": 3}',
    '["a", "b", "\\ud800"]',
    f"[1, 2, 1{'0' * 5000}]",
    "[" * 100_000,
]


def test_damaged_names_of_classes(run: Run, line: Any) -> None:
    training = ["words.csv", "--labels", "level", "--drop", "size", "code", "--framework", "lightgbm"]
    assert run("grow", *training, "--alpha", "0.7", "--min-trees", "20", "-o", "model.txt") == 0
    whole = Path("model.txt").read_bytes()
    start = whole.index(b"rfsize_class_names:") + len(b"rfsize_class_names:")
    for names in NAMES_OF_CLASSES:
        Path("named.txt").write_bytes(whole[:start] + names.encode() + whole[whole.index(b"\n", start) :])
        assert run("compile", "named.txt", "-o", "own.rfsize") == 2
        assert "names" in line()
    lgb.Booster(model_file="named.txt").save_model("named.txt")  # which forgets them
    assert run("compile", "named.txt", "-o", "own.rfsize") == 0


def test_a_page(folder: Path, run: Run, capsys: PRINTED) -> None:
    assert run("size", "lgb.txt", "fresh.parquet", "--alpha", "0.8", "--html", "page.html") == 0
    report = rfsize.size(load(folder / "lgb.txt"), FRESH, alpha=0.8)
    assert capsys.readouterr().out.startswith(str(report))
    assert "</html>" in Path("page.html").read_text("utf-8")


# --------------------------------------------------------------------------------------------------------- real calls


def called(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "rfsize", *arguments], cwd=folder, capture_output=True, check=False)


def test_warnings_and_refusals_are_lines(folder: Path) -> None:
    train(bagging_freq=2).save_model(folder / "shared.txt")
    arguments = ["size", "shared.txt", "train.csv", "--alpha", "0.8"]
    done = called(folder, *arguments)
    (warned,) = done.stderr.decode().splitlines()
    assert warned.startswith("rfsize: warning: ")
    assert "'target'" in warned
    assert done.stdout.count(b"bagging_freq=2") == 1  # which the report says, and no warning
    done = called(folder, *arguments[:3], "--metric", "rmse", "--tolerance", "0.1")
    *_, refused = done.stderr.decode().splitlines()
    assert done.returncode == 2
    assert "rmse" in refused


@pytest.mark.parametrize(("arguments", "status"), [(["--version"], 0), ([], 2), (["size", "--metric", "acurracy"], 2)])
def test_calls_that_argparse_ends(arguments: list[str], status: int, capsys: PRINTED) -> None:
    with pytest.raises(SystemExit, match=str(status)):
        main(arguments)
    printed = capsys.readouterr()
    assert rfsize.__version__ in printed.out or "usage" in printed.err


@pytest.mark.slow
@pytest.mark.parametrize("missing", [[], ["lightgbm", "xgboost"]], ids=str)
def test_demo(missing: list[str], monkeypatch: pytest.MonkeyPatch, capsys: PRINTED) -> None:
    for package in missing:
        monkeypatch.setitem(sys.modules, package, None)
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert [extra for extra in ("lightgbm", "xgboost") if f"[{extra}]" in printed] == missing


# ------------------------------------------------------------------------------------------------------------- errors

GROW = ["grow", "train.csv", "--labels", "target", "--framework", "lightgbm"]
REFUSED: list[tuple[list[str], str]] = [
    *((["size", name, "fresh.parquet"], name) for name in ("missing.txt", "text.txt", "half.json")),
    (["size", "odd.json", "fresh.parquet"], ""),
    (["size", "pickled", "fresh.parquet"], "skops"),
    *((["size", "lgb.txt", name], name) for name in ("text.txt", "rows.npy", "half.parquet", "half.csv.gz")),
    *((["size", "lgb.txt", f"{name}.csv"], name) for name in ("missing", "wide", "indexed", "narrow", "twice")),
    (["size", "lgb.txt", "train.csv", "--oob", "--metric", "auc", "--tolerance", "0.1"], "--labels"),
    (["size", "lgb.txt", "train.csv", "--labels", "label"], "'label'"),
    (["size", "lgb.txt", "train.csv", "--drop", "A_"], "'a'"),
    (["size", "lgb.txt", "fresh.parquet", "--alpha", "2"], "alpha"),
    (["size", "lgb.txt", "fresh.parquet", "--groups", "person"], "'person'"),
    (["size", "xgb.json", "train.parquet", *OOB], "subsample="),
    (["size", "lgb.txt", "train.csv", "--html", "lgb.txt"], "lgb.txt"),
    *((["truncate", "lgb.txt", "train.csv", "-o", name], name) for name in ("lgb.txt", "train.csv", "new.json")),
    (["truncate", "xgb.json", "fresh.parquet", "-o", "new.txt"], "new.txt"),
    (["truncate", "lgb.txt", "fresh.parquet", "--alpha", "0.8", "-o", "no/such/folder.txt"], "no/such"),
    (["shrink", "lgb.txt", "fresh.parquet", "-o", "small.json"], "small.json"),
    ([*GROW, "-o", "grown.json"], "grown.json"),
    ([*GROW, "-o", "grown.txt", "--params", "list.json"], "JSON"),
    ([*GROW, "-o", "grown.txt", "--metric", "rmse", "--tolerance", "0.1"], "rmse"),
    ([*GROW, "-o", "grown.txt", "--drop", "kee"], "'kee'"),
    (["grow", "empty.csv", *GROW[2:], "-o", "grown.txt"], "0 rows"),
    (["compile", "lgb.txt", "--table", "odd.json", "-o", "new.rfsize"], "table"),
    (["compile", "lgb.txt", "-o", "lgb.txt"], "lgb.txt"),
    (["predict", "text.txt", "fresh.parquet", "-o", "new.csv"], "text.txt"),
    (["predict", "lgb.txt", "fresh.parquet", "-o", "new.txt"], "new.txt"),
    (["predict", "numbers.txt", "fresh.parquet", "--proba", "-o", "new.csv"], "probabilities"),
    *((["predict", "fast.rfsize", name, "-o", "new.csv"], name) for name in ("half.csv.gz", "wide.csv", "mixed.csv")),
]


@pytest.mark.parametrize(("arguments", "names"), REFUSED, ids=range(len(REFUSED)))
def test_bad_input_exits_with_2_and_a_line(
    arguments: list[str], names: str, folder: Path, tmp_path: Path, line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is written."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    monkeypatch.chdir(tmp_path)
    assert main([str(folder / name) if (folder / name).exists() else name for name in arguments]) == 2
    assert names in line()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert not list(tmp_path.iterdir())
