"""Forests grown on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from helpers.command_line import NAMES, run
from helpers.forests import Data
from rfsize.cli.main import main


@pytest.mark.parametrize(("framework", "output"), [("lightgbm", "grown.txt"), ("xgboost", "grown.json")])
def test_grow(
    framework: str, output: str, labelled: Path, tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    read = lgb.Booster if framework == "lightgbm" else xgb.Booster
    training = ["two.csv", "--labels", "sign", "--framework", framework, "--params", "params.json", "--seed", "8"]
    grown, more = tmp_path / output, tmp_path / f"more-{output}"
    assert run(labelled, "grow", *training, "--alpha", "0.9", "-o", str(grown)) == 0
    printed = capsys.readouterr().out
    assert "out-of-bag rows" in printed
    model = read(model_file=grown)
    assert printed.startswith(f"{rfsize.tree_outputs(model, data.fresh).n_trees} of the 100 trees grown are enough")
    assert run(labelled, "grow", *training, "--alpha", "0.97", "--model", str(grown), "-o", str(more), "--json") == 0
    report = json.loads(capsys.readouterr().out)
    larger = read(model_file=more)
    assert rfsize.tree_outputs(larger, data.fresh).votes.n_trees == report["n_kept"] >= report["n_trees"]
    assert report["classes"] == [0, 1]
    kept = rfsize.truncate(larger, n_trees=rfsize.tree_outputs(model, data.fresh).votes.n_trees)
    assert np.array_equal(
        rfsize.tree_outputs(kept, data.fresh).votes.counts, rfsize.tree_outputs(model, data.fresh).votes.counts
    )


def test_grow_on_validation_rows(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the label's column or without it, in any order of columns."""
    table = pd.read_csv(labelled / "two.csv")
    fresh = tmp_path / "fresh.csv"
    for columns in (table.columns[::-1], table.columns[:-1]):
        table[columns].to_csv(fresh, index=False)
        options = ["--validation", str(fresh), "--alpha", "0.9", "-o", str(tmp_path / "grown.txt")]
        assert run(labelled, "grow", "two.csv", "--labels", "sign", "--framework", "lightgbm", *options) == 0
        assert "from the 300 rows you gave, 100 votes each" in capsys.readouterr().out


def test_bad_input_to_grow(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = ["two.csv", "--labels", "sign", "--framework", "xgboost"]
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
    training, model = ["words.csv", "--labels", "sign"], tmp_path / "forest.txt"
    assert run(tmp_path, "grow", *training, "--framework", "lightgbm", "--alpha", "0.8", "-o", str(model)) == 0
    assert run(tmp_path, "size", str(model), *training, "--oob", "--alpha", "0.5") in {0, 1}


def test_a_table_without_rows(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.csv").write_text("a,b,sign\n")
    options = ["empty.csv", "--labels", "sign", "--framework", "xgboost", "-o", str(tmp_path / "forest.json")]
    assert run(tmp_path, "grow", *options) == 2
    assert "no rows" in capsys.readouterr().err


def test_columns_that_are_no_features_and_those_that_are_text(
    tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.DataFrame(data.X[:300], columns=[f"x{index}" for index in range(data.X.shape[1])])
    table = table.assign(key=np.arange(300), town=np.where(data.X[:300, 0] > 0, "Rom", "Ulm"), label=data.y[:300])
    table.to_csv(tmp_path / "train.csv", index=False)
    out = tmp_path / "grown.txt"
    options = ["--labels", "label", "--framework", "lightgbm", "--alpha", "0.8", "--min-trees", "20", "-o", str(out)]
    assert main(["grow", str(tmp_path / "train.csv"), *options, "--drop", "key", "--voting", "soft"]) == 0
    assert "columns read as categories: town" in capsys.readouterr().out
    names = lgb.Booster(model_file=out).feature_name()
    assert "key" not in names
    assert "town" in names
    assert main(["grow", str(tmp_path / "train.csv"), *options, "--drop", "kee"]) == 2
    assert "has no columns ['kee'] to drop" in capsys.readouterr().err


def test_whoever_reads_the_output_may_stop_reading(tmp_path: Path, lgb_booster: Any, data: Data) -> None:
    lgb_booster.save_model(tmp_path / "model.txt")
    pd.DataFrame(data.fresh, columns=NAMES).to_parquet(tmp_path / "rows.parquet")
    code = "import sys; from rfsize.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "size", "model.txt", "rows.parquet", "--alpha", "0.8", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        error = process.stderr.read().decode()
    assert process.returncode == 0
    assert "BrokenPipe" not in error
    assert "Traceback" not in error
