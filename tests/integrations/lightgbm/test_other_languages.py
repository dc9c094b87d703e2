"""Models of LightGBM that Python did not write, and models that do not keep the names of their categories."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from lightgbm.basic import _LIB

import rfsize
from helpers.command_line import NAMES, run
from helpers.forests import LIGHTGBM, Data, train_lightgbm


def saved_by_c(booster: lgb.Booster, path: Path) -> None:
    """Write what LightGBM's command line, R and Spark write: the file of its C function."""
    none, whole = ctypes.c_int(0), ctypes.c_int(-1)
    assert _LIB.LGBM_BoosterSaveModel(booster._handle, none, whole, none, str(path).encode()) == 0


def test_files_without_the_line_of_python(data: Data, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame(data.X, columns=NAMES)
    booster = train_lightgbm(table, data.y, 31)
    booster.save_model(tmp_path / "python.txt")
    saved_by_c(booster, tmp_path / "other.txt")
    assert b"pandas_categorical" not in (tmp_path / "other.txt").read_bytes()
    table.assign(y=data.y).to_parquet(tmp_path / "rows.parquet")
    options = ["--labels", "y", "--oob", "--alpha", "0.8"]
    printed = []
    for name in ("python", "other"):
        model, out, small = f"{name}.txt", str(tmp_path / f"{name}.csv"), str(tmp_path / f"small_{name}.txt")
        assert run(tmp_path, "size", model, "rows.parquet", *options) == 0
        printed.append(capsys.readouterr().out)
        assert run(tmp_path, "predict", model, "rows.parquet", "--voting", "soft", "-o", out) == 0
        assert run(tmp_path, "truncate", model, "rows.parquet", *options, "-o", small) == 0
        capsys.readouterr()
    assert printed[0] == printed[1]
    assert np.array_equal(pd.read_csv(tmp_path / "other.csv")["label"], booster.predict(table) > 0.5)
    cut = [lgb.Booster(model_file=tmp_path / f"small_{name}.txt").predict(table) for name in ("python", "other")]
    assert np.array_equal(*cut)
    again = lgb.Booster(model_file=tmp_path / "other.txt")
    assert rfsize.tree_outputs(again, table, oob=True).votes == rfsize.tree_outputs(booster, table, oob=True).votes


ASKED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "size": lambda model, X, _: rfsize.size(model, X, alpha=0.8),
    "oob_score": rfsize.oob_score,
    "compile": lambda model, X, _: rfsize.compile(model).predict(X),
    "calibrate": lambda model, X, _: rfsize.StopTable.calibrate(model, X, alpha=0.8),
}


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.TrainingRowsWarning")
@pytest.mark.parametrize("trained_on", ["a binary Dataset", "codes"])
def test_categories_that_the_model_does_not_keep(trained_on: str, tmp_path: Path) -> None:
    """A frame with categories is refused by every function; the codes of training are taken by each."""
    rng = np.random.default_rng(0)
    word = np.array(["x", "y", "z"])[rng.integers(0, 3, 900)]
    table = pd.DataFrame({"a": rng.normal(size=900), "c": pd.Categorical(word)})
    codes, y = table.assign(c=table.c.cat.codes), (table.a + 2 * (word == "x") > 1).astype(int)
    if trained_on == "codes":
        training = lgb.Dataset(codes, y, categorical_feature=["c"])
    else:
        lgb.Dataset(table, y).save_binary(tmp_path / "rows.bin")
        training = lgb.Dataset(tmp_path / "rows.bin")
    booster = lgb.train({**LIGHTGBM, "seed": 3}, training, 40)
    assert not booster.pandas_categorical
    path = tmp_path / "fast.rfsize"
    rfsize.compile(booster).save(path)
    others = table[table.c != "x"].assign(c=lambda rows: rows.c.cat.remove_unused_categories())
    for X in (table, table.assign(c=word), others):
        for ask in ASKED.values():
            with pytest.raises(ValueError, match=r"\['c'\] were categorical at training.* give the codes"):
                ask(booster, X, y[: len(X)])
        with pytest.raises(ValueError, match=r"\['c'\] were categorical at training"):
            rfsize.load(path).predict(X)
    assert np.array_equal(rfsize.compile(booster).predict(codes), booster.predict(codes))
    assert rfsize.oob_score(booster, codes, y).value > 0.5
    assert rfsize.size(booster, codes, alpha=0.8).n_trees >= 1
