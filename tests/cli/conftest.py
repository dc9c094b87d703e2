"""Files as users of the command line have them, and calls of it in this process."""

from __future__ import annotations

import gzip
import subprocess
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

LIGHTGBM = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "num_leaves": 15}
LIGHTGBM |= {"verbose": -1, "num_threads": 1, "seed": 3}
XGBOOST = {"objective": "binary:logistic", "num_parallel_tree": 61, "subsample": 0.6, "eta": 1, "max_depth": 4}
XGBOOST |= {"nthread": 1, "seed": 3}

_rng = np.random.default_rng(7)
TABLE, FRESH = (pd.DataFrame(_rng.normal(size=(n_rows, 5)), columns=list("abcde")) for n_rows in (600, 400))
_signal = TABLE["a"] + TABLE["b"] * TABLE["c"] + 0.7 * _rng.normal(size=600)
Y, THREE = (_signal > 0.3).astype(int), np.digitize(_signal, [-0.5, 0.7])
WORDS = np.array(["hög", 'a "quoted"\nname', "low"])


def train(table: pd.DataFrame = TABLE, y: object = Y, n_trees: int = 61, **params: object) -> lgb.Booster:
    return lgb.train(LIGHTGBM | params, lgb.Dataset(table, y), n_trees)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and tables; tests write elsewhere."""
    folder = tmp_path_factory.mktemp("files")
    train().save_model(folder / "lgb.txt")
    train(n_trees=200, bagging_fraction=0.4).save_model(folder / "large.txt")
    train(y=_signal, objective="regression").save_model(folder / "numbers.txt")
    booster = xgb.train(XGBOOST, xgb.DMatrix(TABLE, Y), 1)
    for ending in ("json", "ubj"):
        booster.save_model(folder / f"xgb.{ending}")
    rfsize.compile(lgb.Booster(model_file=folder / "lgb.txt")).save(folder / "fast.rfsize")
    training = TABLE.assign(target=Y)
    training.to_csv(folder / "train.csv", index=False)
    training.to_parquet(folder / "train.parquet")
    (folder / "train.csv.gz").write_bytes(gzip.compress((folder / "train.csv").read_bytes()))
    (folder / "parts").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(600), 3)):
        training.iloc[rows].to_parquet(folder / "parts" / f"{number}.parquet")
    TABLE.assign(level=WORDS[THREE], code=10 * THREE + 7, size=_signal).to_csv(folder / "words.csv", index=False)
    FRESH.to_parquet(folder / "fresh.parquet")
    FRESH.assign(id=range(400)).to_csv(folder / "fresh.csv", index=False)
    broken = {"empty.csv": b"a,b,target\n", "text.txt": b"hello", "odd.json": b'{"learner": 3}', "list.json": b"[1]"}
    broken |= {"params.json": b'{"max_depth": 4, "seed": 5}', "pickled": b"\x80\x04K\x01."}
    for name in ("lgb.txt", "xgb.json", "train.csv.gz", "train.parquet"):
        whole = (folder / name).read_bytes()
        broken[f"half{name[name.index('.') :]}"] = whole[: len(whole) // 2]
    row, header = "1,2,3,4,5\n", "a,b,c,d,e\n"
    tables = {"wide": header + row + "1,2,3,4,5,\n", "indexed": "b,c,d,e\n" + row, "narrow": header + "1,2,3,4\n"}
    tables |= {"twice": "a,b,c,d,a\n" + row, "mixed": header + 600_000 * row + "1,2,3,4,?\n"}
    broken |= {f"{name}.csv": text.encode() for name, text in tables.items()}
    for name, content in broken.items():
        (folder / name).write_bytes(content)
    return folder


_READ: dict[tuple[Any, ...], subprocess.CompletedProcess[str]] = {}


@pytest.fixture(autouse=True)
def _a_child_reads_a_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child process that loads a model imports its framework, for seconds: the same bytes are read by one child."""
    start = subprocess.run

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if command[1] != "-c":
            return start(command, **options)
        *how, path = command
        key = (*how, Path(path).name, Path(path).read_bytes())
        if key not in _READ:
            _READ[key] = start(command, **options)
        return _READ[key]

    monkeypatch.setattr(subprocess, "run", run)


@pytest.fixture
def run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command line, where files are read from `folder` or, if they are not there, from a folder of the test."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> int:
        outputs = {place + 1 for place, name in enumerate(arguments) if name in {"-o", "--html"}}
        return main(
            [
                str(folder / name) if place not in outputs and (folder / name).exists() and name else name
                for place, name in enumerate(arguments)
            ]
        )

    return run


@pytest.fixture
def line(capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """The one line in which rfsize refuses."""

    def line() -> str:
        lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("rfsize: ")]
        (line,) = [line for line in lines if not line.startswith("rfsize: warning: ")]
        return line

    return line
