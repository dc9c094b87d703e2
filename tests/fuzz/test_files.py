"""Damaged models and rows end in an error of rfsize's, or in an answer; in no crash, hang or foreign exception.

Each case runs in a child process and has a number, by which it can be drawn again. Models of LightGBM and XGBoost are
read by these, which crash on some damaged models; that a crash is theirs is read off the place where Python was.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rfsize
from helpers.damaged import damaged_bytes, damaged_text, damaged_values, pick
from helpers.models import FRESH, model
from rfsize.cli import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    pytest.mark.filterwarnings("ignore"),
]
CASES = int(os.environ.get("RFSIZE_FUZZ_CASES", "500"))
PATIENCE = 60  # seconds for a case
TABLE = pd.DataFrame(FRESH, columns=list("abcdef"))


def damaged_json(content: bytes, rng: np.random.Generator) -> bytes:
    document = json.loads(content)
    for _ in range(pick(rng, (1, 1, 2, 3))):
        document = damaged_values(document, rng)
    return json.dumps(document).encode()


def damaged_lines(content: bytes, rng: np.random.Generator) -> bytes:
    text = content.decode()
    for _ in range(pick(rng, (1, 1, 2, 3))):
        text = damaged_text(text, rng)
    return text.encode()


def use_model(path: Path) -> None:
    _run("size", str(path), "rows.csv", "--json")
    _run("truncate", str(path), "rows.csv", "-o", f"small{path.suffix}")
    _run("predict", str(path), "rows.csv", "-o", "out.csv")


def use_rows(path: Path) -> None:
    _run("predict", "forest.rfsize", str(path), "-o", "out.csv")


def _run(*arguments: str) -> None:
    if main(list(arguments)) not in {0, 1, 2}:
        raise AssertionError("another status")


OF_TEXT = (damaged_bytes, damaged_lines)
# A name of the file, how it is written, the ways to damage it, and what is done with it.
FORMATS: dict[str, tuple[str, Callable[[Path], Any], tuple[Any, ...], Callable[[Path], None]]] = {
    "LightGBM": ("model.txt", lambda path: model("lightgbm").model.save_model(path), OF_TEXT, use_model),
    "XGBoost": ("model.json", lambda path: model("xgboost").model.save_model(path), (damaged_json,), use_model),
    "XGBoost, UBJ": ("model.ubj", lambda path: model("xgboost").model.save_model(path), (damaged_bytes,), use_model),
    "CSV": ("rows.csv", lambda path: TABLE.to_csv(path, index=False), OF_TEXT, use_rows),
    "Parquet": ("rows.parquet", TABLE.to_parquet, (damaged_bytes,), use_rows),
}


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file, write, damages, use = FORMATS[name]
    TABLE.to_csv("rows.csv", index=False)
    rfsize.compile(model("lightgbm").model).save("forest.rfsize")
    write(Path(file))
    use(Path(file))
    whole, failures = Path(file).read_bytes(), []
    for number in range(CASES):
        rng = np.random.default_rng([number, len(name)])
        Path(file).write_bytes(pick(rng, damages)(whole, rng))
        outcome = _in_a_child(use, Path(file))
        if outcome:
            failures.append((number, outcome))
    assert failures == []


def _in_a_child(use: Callable[[Path], None], path: Path) -> str:
    """What went wrong; nothing if an error of rfsize's was raised, if it was read, or if a framework crashed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with open(os.devnull, "w") as nowhere, open("failure", "w") as failure:
                os.dup2(nowhere.fileno(), 1), os.dup2(nowhere.fileno(), 2)
                faulthandler.enable(failure, all_threads=False)
                signal.alarm(PATIENCE)
                try:
                    use(path)
                    status = 0
                except BaseException as error:
                    failure.write(repr(error)[:300])
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0:
        return ""
    last = [line for line in Path("failure").read_text().splitlines() if line.startswith('  File "')][:1]
    is_theirs = status < 0 and any(framework in line for line in last for framework in ("/lightgbm/", "/xgboost/"))
    return "" if is_theirs else f"status {status}: {Path('failure').read_text()[:300]}"
