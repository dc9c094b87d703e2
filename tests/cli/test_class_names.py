"""Labels in words, from the table that a forest is grown on to the one that is predicted."""

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
from helpers.command_line import only_line, run

WORDS = ["hög", 'a "quoted"\nname', "low"]


@pytest.fixture(scope="module")
def training(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    table = pd.read_csv(labelled / "train.csv").drop(columns=["sign", "size"])
    table["level"] = table["level"].map(dict(zip(["high", "middle", "low"], WORDS, strict=True)))
    table.to_csv(folder / "words.csv", index=False)
    numbers = table["level"].map({name: 10 * place + 7 for place, name in enumerate(WORDS)})
    table.assign(level=numbers).to_csv(folder / "numbers.csv", index=False)
    table.assign(level=np.where(table["level"] == "low", "yes", "no")).to_csv(folder / "two.csv", index=False)
    return folder


_ENDINGS = {"lightgbm": ["txt"], "xgboost": ["json", "ubj"]}
_MODELS = [(framework, ending) for framework, endings in _ENDINGS.items() for ending in endings]


def _grow(folder: Path, table: str, framework: str, output: Path, *options: str) -> int:
    training = ["--labels", "level", "--framework", framework, "--alpha", "0.8", "--min-trees", "30"]
    return run(folder, "grow", table, *training, "-o", str(output), *options)


def _own(framework: str, path: Path) -> Any:
    """The model as its framework reads it, without rfsize."""
    return lgb.Booster(model_file=path) if framework == "lightgbm" else xgb.Booster(model_file=path)


@pytest.mark.parametrize("table", ["words.csv", "numbers.csv", "two.csv"])
@pytest.mark.parametrize(("framework", "ending"), _MODELS)
def test_predictions_have_the_names_of_the_training(
    framework: str, ending: str, table: str, training: Path, tmp_path: Path
) -> None:
    model, small, fast = tmp_path / f"model.{ending}", tmp_path / f"small.{ending}", tmp_path / "fast.npz"
    out = tmp_path / "out.csv"
    assert _grow(training, table, framework, model) == 0
    rows = ["words.csv", "--drop", "level"]
    assert run(training, "truncate", str(model), *rows, "--alpha", "0.5", "-o", str(small)) in {0, 1}
    names = pd.read_csv(training / table)["level"]
    for given in (model, small):
        assert run(training, "compile", str(given), "--voting", "hard", "-o", str(fast)) == 0
        forest = rfsize.load(fast)
        assert forest.classes.tolist() == sorted(names.unique())
        assert run(training, "predict", str(fast), table, "-o", str(out), "--proba") == 0
        written = pd.read_csv(out)
        codes = rfsize.tree_outputs(
            _own(framework, given), pd.read_csv(training / table).drop(columns="level")
        ).votes.winner()
        assert np.array_equal(written["label"], np.array(sorted(names.unique()))[codes])
        assert list(written.columns[2:]) == [f"p_{name}" for name in sorted(names.unique())]


def test_models_of_named_classes_are_those_of_their_frameworks(training: Path, tmp_path: Path) -> None:
    for framework, ending in _MODELS:
        model, again = tmp_path / f"model.{ending}", tmp_path / f"again.{ending}"
        assert _grow(training, "words.csv", framework, model) == 0
        _own(framework, model).save_model(again)
        rows = pd.read_csv(training / "words.csv").drop(columns="level")
        votes = [rfsize.tree_outputs(_own(framework, path), rows).votes.counts for path in (model, again)]
        assert np.array_equal(*votes)


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_more_trees_are_of_the_same_classes(
    framework: str, training: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, more = (tmp_path / f"{name}.{_ENDINGS[framework][0]}" for name in ("model", "more"))
    seed = ["--seed", "3"]
    assert _grow(training, "words.csv", framework, model, *seed) == 0
    assert _grow(training, "words.csv", framework, more, *seed, "--model", str(model)) == 0
    capfd.readouterr()
    assert _grow(training, "numbers.csv", framework, more, *seed, "--model", str(model)) == 2
    assert "is a forest of the classes" in only_line(capfd.readouterr().err)


def test_bags_that_go_by_the_label_know_it_by_its_name(training: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.txt"
    params = [
        "--params",
        json.dumps({"pos_bagging_fraction": 0.7, "neg_bagging_fraction": 0.5, "bagging_fraction": 0.6}),
    ]
    assert _grow(training, "two.csv", "lightgbm", model, *params) == 0
    sized = ["two.csv", "--labels", "level", "--oob", "--alpha", "0.5"]
    assert run(training, "size", str(model), *sized) in {0, 1}


@pytest.fixture(scope="module")
def named(training: Path) -> bytes:
    """A forest of three classes whose file has their names."""
    model = training / "named.txt"
    assert _grow(training, "words.csv", "lightgbm", model) == 0
    return model.read_bytes()


@pytest.mark.parametrize(
    "names",
    [
        '["a", "b"]',
        '["a", "b", "b"]',
        '["a", "b", 3]',
        "[1, 2, NaN]",
        "[1, 2, 1e999]",
        f"[1, 2, 1{'0' * 5000}]",
        f"[1, 2, 1{'0' * 30}]",
        '["a", "b", "\\ud800"]',
        '[["a"], ["b"], ["c"]]',
        '{"a": 1, "b": 2, "c": 3}',
        "[null, null, null]",
        "[" * 100_000,
        "hello",
        "",
        json.dumps(["a" * 2_000_000, "b" * 2_000_000, "c"]),
    ],
)
def test_damaged_names_are_refused(
    names: str, named: bytes, training: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.txt"
    start = named.index(b"rfsize_class_names:") + len(b"rfsize_class_names:")
    model.write_bytes(named[:start] + names.encode() + named[named.index(b"\n", start) :])
    capfd.readouterr()
    assert run(training, "compile", str(model), "-o", str(tmp_path / "fast.npz")) == 2
    assert "which are not the names of 3 classes" in only_line(capfd.readouterr().err)
    forest = lgb.Booster(model_file=model)
    forest.save_model(model)
    assert run(training, "compile", str(model), "-o", str(tmp_path / "fast.npz")) == 0


def test_pickles_are_never_read(training: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, content in (("model.pkl", b""), ("model.joblib", b"\x78\x9c"), ("model", b"\x80\x04K\x01.")):
        (tmp_path / name).write_bytes(content)
        assert run(training, "size", str(tmp_path / name), "two.csv") == 2
        assert "is a pickle. rfsize reads no pickles" in (line := only_line(capfd.readouterr().err))
        assert "skops" in line
