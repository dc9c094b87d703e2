"""``-``: tables from standard input and to standard output."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import rfsize
from helpers.command_line import only_line, run
from helpers.forests import Data

_LINE = "import sys; from rfsize.cli import main; sys.exit(main())"


def _piped(folder: Path, given: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """A call of the command line through real pipes."""
    return subprocess.run([sys.executable, "-c", _LINE, *arguments], input=given, cwd=folder, capture_output=True)


def _given(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("model", ["lgb.txt", "xgb.ubj"])
def test_predictions_through_pipes(model: str, folder: Path, data: Data) -> None:
    done = _piped(folder, (folder / "train.csv").read_bytes(), "predict", model, "-", "-o", "-", "--proba")
    assert done.returncode == 0, done.stderr
    assert b"wrote to standard output: 1,500 rows" in done.stderr
    written = pd.read_csv(io.BytesIO(done.stdout))
    expected = pd.DataFrame(data.X, columns=[f"f{index}" for index in range(8)])
    assert run(folder, "compile", model, "-o", str(folder / "piped.npz")) == 0
    assert np.array_equal(written["label"], rfsize.load(folder / "piped.npz").predict_labels(expected))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_said_to_be_written_without_a_size(folder: Path, tmp_path: Path) -> None:
    pipe, read = tmp_path / "forest.npz", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    done = _piped(folder, b"", "compile", "lgb.txt", "-o", str(pipe))
    reader.join(10)
    assert done.returncode == 0, done.stderr
    assert read[0].startswith(b"PK")
    assert done.stdout.decode().splitlines()[-1] == f"wrote {pipe}"


def test_parquet_through_pipes(folder: Path) -> None:
    parquet = ["--input-format", "parquet", "-o", "-", "--output-format", "parquet"]
    done = _piped(folder, (folder / "train.parquet").read_bytes(), "predict", "lgb.txt", "-", *parquet)
    assert done.returncode == 0, done.stderr
    written = pa.parquet.read_table(io.BytesIO(done.stdout))
    assert written.column_names == ["label", "trees"]
    assert written.num_rows == 1500


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell's pipes")
def test_a_reader_that_leaves_early_is_no_error(folder: Path) -> None:
    line = (
        f"{sys.executable} -c '{_LINE}' predict lgb.txt - -o - --proba < train.csv | head -n 1; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "label,trees,p_0,p_1\n"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("format_", "name"), [("csv", "train.csv"), ("parquet", "train.parquet"), ("csv.gz", "")])
def test_every_command_reads_rows_from_standard_input(
    format_: str,
    name: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    content = (folder / name).read_bytes() if name else gzip.compress((folder / "train.csv").read_bytes())
    options = ["--input-format", format_, "--labels", "target"]
    answers = []
    for given in (name or "train.csv", "-"):
        _given(monkeypatch, content)
        assert run(folder, "size", "lgb.txt", given, "--labels", "target", *(options if given == "-" else [])) in {0, 1}
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    small, grown = (["-o", str(tmp_path / name)] for name in ("small.txt", "grown.txt"))
    lightgbm = [*options, "--framework", "lightgbm", "--alpha", "0.8"]
    for command in (
        ["truncate", "lgb.txt", "-", *options, "--alpha", "0.9", *small],
        ["shrink", "lgb.txt", "rows.parquet", "--rows", "-", *options[:2], "--n-trees", "9", *small],
        ["grow", "-", *lightgbm, *grown],
        ["grow", name or "train.csv", *lightgbm, "--validation", "-", *grown],
    ):
        _given(monkeypatch, content)
        assert run(folder, *command) in {0, 1}, capsys.readouterr().err


def test_rows_to_validate_on_may_lack_the_label(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _given(monkeypatch, (folder / "train.csv").read_bytes().replace(b",target", b",other"))
    options = ["--framework", "lightgbm", "--alpha", "0.8", "-o", str(tmp_path / "grown.txt")]
    assert run(folder, "grow", "train.csv", "--labels", "target", "--validation", "-", *options) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["size", "-", "train.csv"], "- cannot stand for the model"),
        (["truncate", "lgb.txt", "train.csv", "-o", "-"], "- cannot stand for the output"),
        (["compile", "lgb.txt", "-o", "-"], "- cannot stand for the output"),
        (["compile", "lgb.txt", "--table", "-", "-o", "new.npz"], "- cannot stand for the table"),
        (["predict", "-", "train.csv", "-o", "new.csv"], "- cannot stand for the forest"),
        (
            ["grow", "train.csv", "--labels", "target", "--framework", "lightgbm", "-o", "-"],
            "- cannot stand for the output",
        ),
        (
            ["grow", "-", "--validation", "-", "--labels", "target", "--framework", "lightgbm", "-o", "new.txt"],
            "standard input can be read only once",
        ),
        (
            ["grow", "-", "--params", "-", "--labels", "target", "--framework", "lightgbm", "-o", "new.txt"],
            "- cannot stand for the params",
        ),
        (["size", "lgb.txt", "-", "--input-format", "parquet"], "Parquet"),
        (["size", "lgb.txt", "-", "--labels", "none"], "standard input has no column 'none'"),
    ],
)
def test_what_does_not_go_through_standard_streams(
    arguments: list[str],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    _given(monkeypatch, b"f0,f1\n1,2\n" if "none" in arguments else b"")
    assert run(folder, *arguments) == 2
    assert message in only_line(capfd.readouterr().err)
