"""``rfsize report``: what it computes, and the page that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from helpers.command_line import NAMES, run
from helpers.forests import Data
from helpers.pages import Page
from rfsize.cli.main import main

OUT_OF_BAG = {
    "lgb.txt": ["--oob", "--labels", "target"],
    "xgb.json": ["--oob", "--labels", "target", "--seed", "3", "--subsample", "0.632"],
}


@pytest.mark.parametrize("model", OUT_OF_BAG)
def test_a_page_of_training_rows(model: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    given = [model, "train.csv", *OUT_OF_BAG[model], "--alpha", "0.9"]
    assert run(folder, "size", *given) == 0
    said = capsys.readouterr().out.splitlines()
    assert run(folder, "report", *given, "--score", "auc", "-o", str(page)) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == said[:3]
    assert printed[-1] == f"wrote {page}: {page.stat().st_size:,} bytes"
    told = Page(page.read_text(encoding="utf-8")).text
    assert "Size of the forest, T*(0.9)" in told
    assert "On fresh rows the AUC of all 61 trees is" in told
    assert "treeslabelsprobabilitieslog lossAUC" in told


def test_a_page_of_other_rows(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert run(folder, "report", "lgb.txt", "rows.npy", "--alpha", "0.95", "-o", str(page)) == 0
    told = Page(page.read_text(encoding="utf-8")).text
    assert "On fresh rows" not in told
    assert run(folder, "report", "lgb.txt", "rows.npy", "--alpha", "0.999", "-o", str(page)) == 1
    told = Page(page.read_text(encoding="utf-8")).text
    assert "Your 61 trees are not enough" in told


def test_a_page_by_a_criterion(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, train = tmp_path / "page.html", ["train.csv", "--oob", "--labels", "target"]
    by = ["--metric", "auc", "--tolerance", "0.01"]
    assert run(folder, "report", "lgb.txt", *train, *by, "-o", str(page)) == 0
    told = Page(page.read_text(encoding="utf-8")).text
    assert "to keep the AUC within 0.01 of an unlimited forest" in told
    assert "On fresh rows the AUC" in told
    by = ["--metric", "probabilities", "--tolerance", "0.1"]
    assert run(folder, "report", "lgb.txt", "rows.npy", *by, "--alpha", "0.9", "-o", str(page)) == 2
    assert "alpha would have no effect" in capsys.readouterr().err


def test_names_of_classes(tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["<i>no</i>", "yes"]
    table = pd.DataFrame(data.X, columns=NAMES).assign(sign=[names[label] for label in data.y])
    table[:1000].to_csv(tmp_path / "train.csv", index=False)
    table[1000:].to_csv(tmp_path / "unseen.csv", index=False)
    forest = ["grow", "train.csv", "--labels", "sign", "--framework", "lightgbm", "--alpha", "0.98"]
    assert run(tmp_path, *forest, "-o", str(tmp_path / "lgb.txt")) == 0
    given = ["lgb.txt", "train.csv", "--oob", "--labels", "sign", "--alpha", "0.95"]
    page = tmp_path / "page.html"
    assert run(tmp_path, "size", *given, "--json") in (0, 1)
    size = json.loads(capsys.readouterr().out.partition("bytes\n")[2])["n_trees"]
    assert run(tmp_path, "report", *given, "-o", str(page)) in (0, 1)
    assert capsys.readouterr().out.startswith(f"{size} of your 149 trees are enough (")
    told = Page(page.read_text(encoding="utf-8"))
    assert "<i>no</i>" in told.text
    assert "log loss" in told.text
    assert "i" not in told.tags


def test_nothing_that_was_read_is_written_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(folder / "lgb.txt")
    assert main(["report", model, str(folder / "rows.npy"), "-o", model]) == 2
    assert "is one of the files read" in capsys.readouterr().err
