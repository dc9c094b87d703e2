"""Models in files, as the command line takes them: the numbers of the model in memory, and damage refused."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

import rfsize
from helpers.command_line import only_line, run
from helpers.models import FRESH, LIGHTGBM, NAMES, TWO, XGBOOST, X, frame, model, own_predict

skops = pytest.importorskip("skops.io")
TABLE, ROWS = (pd.DataFrame(rows, columns=list("abcdef")) for rows in (X, FRESH))
TRUSTED = ["sklearn.tree._tree.Tree"]


def saved(kind: str, trained: Any, folder: Path) -> Path:
    path = folder / {"lightgbm": "model.txt", "json": "model.json", "ubj": "model.ubj"}.get(kind, "model.skops")
    trained.save_model(path) if hasattr(trained, "save_model") else skops.dump(trained, path)
    return path


def loaded(path: Path) -> Any:
    if path.suffix == ".skops":
        return skops.load(path, trusted=TRUSTED)
    return (lgb if path.suffix == ".txt" else xgb).Booster(model_file=path)


TRAINED: dict[str, Callable[[], Any]] = {
    "lightgbm": lambda: lgb.train(LIGHTGBM, lgb.Dataset(TABLE, TWO), 31),
    "ubj": lambda: xgb.train(XGBOOST, xgb.DMatrix(TABLE, TWO), 1),
    "random forest": lambda: clone(model("random forest").model).fit(TABLE, NAMES[TWO]),
    "bagging": lambda: clone(model("bagging").model).fit(TABLE, NAMES[TWO]),
}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    ROWS[list("fedcba")].to_parquet(tmp_path / "rows.parquet")
    return tmp_path


@pytest.mark.parametrize("kind", ["ubj", "random forest", "bagging"])
def test_command_line_reads_and_writes_models(kind: str, tables: Path) -> None:
    trained = TRAINED[kind]()
    path = saved(kind, trained, tables)
    small = path.with_stem("small")
    assert run(tables, "truncate", path.name, "rows.parquet", "--alpha", "0.8", "-o", str(small)) == 0
    expected = rfsize.truncate(trained, ROWS, alpha=0.8)
    assert np.array_equal(own_predict(loaded(small), ROWS), own_predict(expected, ROWS))
    assert run(tables, "predict", small.name, "rows.parquet", "-o", str(tables / "out.csv")) == 0
    labels = rfsize.compile(expected).predict_labels(ROWS)
    assert pd.read_csv(tables / "out.csv")["label"].tolist() == labels.tolist()


ODD = pd.DataFrame(X, columns=["Tree", "end of trees", "parameters", *"abc"])
PRUNED = {"updater": "grow_colmaker,prune", "gamma": 30.0, "tree_method": "exact", "colsample_bynode": 1}
CONTENTS: dict[str, Callable[[], Any]] = {
    "names like lines": lambda: lgb.train(LIGHTGBM, lgb.Dataset(ODD, TWO), 3),
    "trees of one leaf": lambda: lgb.train(LIGHTGBM | {"min_data_in_leaf": 500}, lgb.Dataset(ODD, TWO), 3),
    "pruned trees": lambda: xgb.train(XGBOOST | PRUNED, xgb.DMatrix(X, TWO), 1),
    "nothing learnt": lambda: xgb.train(XGBOOST | {"gamma": 1e9}, xgb.DMatrix(X, TWO), 1),
    "categories": lambda: model("xgboost categories").model,
    "sets of categories": lambda: model("lightgbm categories").model,
}


@pytest.mark.parametrize("content", CONTENTS)
def test_models_of_every_content_are_read(content: str, tmp_path: Path) -> None:
    trained = CONTENTS[content]()
    rows = frame(X) if "categories" in content else ODD if isinstance(trained, lgb.Booster) else X
    path = saved("lightgbm" if isinstance(trained, lgb.Booster) else "ubj", trained, tmp_path)
    assert run(tmp_path, "compile", path.name, "-o", str(tmp_path / "fast.rfsize")) == 0
    np.testing.assert_array_equal(rfsize.load(tmp_path / "fast.rfsize").predict(rows), own_predict(trained, rows))


@pytest.mark.parametrize(("kind", "rest"), [("lightgbm", 99), ("ubj", None), ("bagging", 99), ("bagging", None)])
def test_damaged_files_are_refused(kind: str, rest: Any, tables: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Cut off in the middle, or with other bytes there."""
    path = saved(kind, TRAINED[kind](), tables)
    whole = path.read_bytes()
    half = len(whole) // 2
    path.write_bytes(whole[:half] + (b"?" * rest + whole[half + rest :] if rest else b""))
    assert run(tables, "size", path.name, "rows.parquet", "--alpha", "0.8") == 2
    assert path.name in only_line(capfd.readouterr().err)


def test_boosted_files_are_certified_but_not_sized_out_of_bag(tables: Path, capfd: pytest.CaptureFixture[str]) -> None:
    params = {"objective": "binary", "verbose": -1}
    saved("lightgbm", lgb.train(params, lgb.Dataset(TABLE, TWO), 3), tables)
    assert run(tables, "size", "model.txt", "rows.parquet", "--alpha", "0.8") == 0
    assert "certified" in capfd.readouterr().out
    assert run(tables, "size", "model.txt", "rows.parquet", "--oob") == 2
    assert "rfsize.compile" in only_line(capfd.readouterr().err)


def test_skops_files(tables: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    boosted = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=9, random_state=0).fit(TABLE, TWO)
    skops.dump(boosted, tables / "model.skops", compression=zipfile.ZIP_DEFLATED)
    assert run(tables, "predict", "model.skops", "rows.parquet", "-o", str(tables / "out.csv")) == 0
    assert pd.read_csv(tables / "out.csv")["label"].tolist() == boosted.predict(ROWS).tolist()
    learner = make_pipeline(FunctionTransformer(validate=False), GaussianNB())
    strange = BaggingClassifier(learner, 3, random_state=0).fit(TABLE, TWO)
    strange.note = only_line  # a function of somebody's
    skops.dump(strange, tables / "model.skops")
    assert run(tables, "size", "model.skops", "rows.parquet") == 2
    assert "helpers.command_line.only_line" in only_line(capfd.readouterr().err)
    with zipfile.ZipFile(tables / "model.skops", "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * 100_000_000)
    assert run(tables, "size", "model.skops", "rows.parquet") == 2
    monkeypatch.setitem(__import__("sys").modules, "skops.io", None)
    skops.dump(boosted, tables / "model.skops")
    assert run(tables, "size", "model.skops", "rows.parquet") == 2
    assert "skops" in capfd.readouterr().err
