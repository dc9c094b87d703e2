"""Names of classes and columns come from strangers, and neither a terminal nor a page obeys them."""

from __future__ import annotations

import ast
import html
import re
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import rfsize
from rfsize.cli import main

HOSTILE = ["\x1b[2J\x1b]0;owned\x07", "a\rb\n<script>", "\u202etxt\u200b\x9b\x00c"]


def is_plain(text: str) -> bool:
    return all(letter == "\n" or unicodedata.category(letter) not in {"Cc", "Cf", "Cs"} for letter in text)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    return X, np.array(HOSTILE, dtype=object)[np.digitize(X[:, 0] + rng.normal(size=900), [-0.8, 1.6])]


def test_reports_tables_and_warnings(rows: Any, tmp_path: Path) -> None:
    X, y = rows
    forest = RandomForestClassifier(101, max_depth=6, random_state=0).fit(X[:500], y[:500])
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        report = rfsize.size(forest, X[:500], y[:500], oob=True, alpha=0.9)
        of_classes = rfsize.size(forest, X[:500], y[:500], oob=True, alpha=0.9, average="macro")
        table = rfsize.StopTable.calibrate(forest, X[500:], alpha=0.9)
        results = (report, of_classes, rfsize.oob_score(forest, X[:500], y[:500]))
        rfsize.truncate(forest, X[:500], y[:500], oob=True, alpha=0.9)
    assert is_plain(repr(table))
    for result in results:
        assert is_plain(f"{result}\n{result!r}"), result
        result.to_html(tmp_path / "page.html")
        assert is_plain((tmp_path / "page.html").read_text("utf-8"))
    assert all(is_plain(str(one.message)) for one in given)
    assert r"\u202etxt" in str(of_classes)
    assert (tmp_path / "page.html").read_text("utf-8").count("<script>") == 1  # which is ours


def test_the_command_line(rows: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = rows
    table = pd.DataFrame(X, columns=["a", "b", "c", "\x1bc"]).assign(label=[str(name).replace("\0", "") for name in y])
    table.to_csv(tmp_path / "rows.csv", index=False, lineterminator="\n")
    grow = ["grow", str(tmp_path / "rows.csv"), "--labels", "label", "--framework", "lightgbm", "--max-trees", "30"]
    assert main([*grow, "--min-trees", "20", "-o", str(tmp_path / "model.txt")]) in (0, 1)
    assert main(["size", str(tmp_path / "model.txt"), str(tmp_path / "rows.csv"), "--labels", "\x1b[2J"]) == 2
    printed = capsys.readouterr()
    assert r"\x1b[2J" in printed.out
    assert is_plain(printed.out)
    assert is_plain(printed.err)


CODE = "a; size it by x='1'); __import__('os').system('id')  #"


def test_a_name_never_becomes_code(tmp_path: Path) -> None:
    """The lines that a page offers to copy hold the arguments that help, and nothing that a class is called."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = np.where(rng.random(3000) < 1.0 / (1.0 + np.exp(5.0 - 2.0 * X[:, 0])), CODE, "it\"'s")
    forest = RandomForestClassifier(101, min_samples_leaf=4, random_state=0).fit(X[:1500], y[:1500])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reports = [
            rfsize.size(forest, X[:1500], y[:1500], oob=True, alpha=0.95),
            rfsize.size(forest, X[1500:], alpha=0.95),
            rfsize.size(forest, X[1500:], y[1500:], alpha=0.95, target="forest"),
            rfsize.size(rfsize.tree_outputs(forest, X[1500:]).votes, alpha=0.95),
            rfsize.shrink(forest, X[1500:], alpha=0.95)[1],
        ]
    for report in reports:
        assert any(CODE in one.text and one.options for one in report.warnings)
        report.to_html(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text("utf-8")
        lines = [html.unescape(line) for line in re.findall(r"<(?:kbd|code)>(.*?)</(?:kbd|code)>", page, re.DOTALL)]
        assert len(lines) > 1
        for line in lines:
            assert "__import__" not in line
            called = [each.func for each in ast.walk(ast.parse(line)) if isinstance(each, ast.Call)]
            assert all(isinstance(each, ast.Attribute) and each.value.id == "rfsize" for each in called)
