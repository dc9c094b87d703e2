"""Scikit-learn's models in skops files, on the command line."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

import rfsize
from helpers.command_line import only_line, run

skops = pytest.importorskip("skops.io")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = np.where(X["a"] + X["b"] > rng.normal(size=200), "yes", "no")
    path = tmp_path_factory.mktemp("skops") / "rows.csv"
    X.assign(y=y).to_csv(path, index=False)
    return path


def _fitted(model: Any, table: Path) -> Any:
    rows = pd.read_csv(table)
    return model.fit(rows[["a", "b", "c"]], rows["y"])


FORESTS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(30, max_depth=3, random_state=0),
    "extra": lambda: ExtraTreesClassifier(30, max_depth=3, bootstrap=True, random_state=np.random.RandomState(0)),
    "bagging": lambda: BaggingClassifier(DecisionTreeClassifier(max_depth=3), 30, max_features=2, random_state=0),
}


@pytest.mark.parametrize("kind", FORESTS)
def test_all_that_the_command_line_does(kind: str, table: Path, tmp_path: Path) -> None:
    model, rows = _fitted(FORESTS[kind](), table), pd.read_csv(table)[["c", "b", "a"]]
    whole, small, stops, fast, out = (
        str(tmp_path / name) for name in ("whole.skops", "small.skops", "stops.json", "fast.npz", "out.csv")
    )
    skops.dump(model, whole)
    rows.to_csv(tmp_path / "rows.csv", index=False)  # columns in another order
    assert run(tmp_path, "size", whole, "rows.csv", "--alpha", "0.9") in {0, 1}
    assert run(tmp_path, "size", whole, str(table), "--labels", "y", "--oob", "--alpha", "0.9") in {0, 1}
    assert run(tmp_path, "truncate", whole, "rows.csv", "--alpha", "0.8", "-o", small) in {0, 1}
    kept = skops.load(small, trusted=["sklearn.tree._tree.Tree"])
    expected = rfsize.truncate(model, n_trees=len(kept.estimators_))
    assert np.array_equal(
        rfsize.tree_outputs(kept, rows[["a", "b", "c"]]).votes.counts,
        rfsize.tree_outputs(expected, rows[["a", "b", "c"]]).votes.counts,
    )
    rfsize.StopTable.build(30, alpha=0.9).save(stops)
    assert run(tmp_path, "compile", whole, "--table", stops, "-o", fast) == 0
    labels = rfsize.compile(model).predict(rows[["a", "b", "c"]])
    assert set(labels) == {"yes", "no"}
    for forest in (whole, small, fast):
        assert run(tmp_path, "predict", forest, "rows.csv", "-o", out) == 0
        written = pd.read_csv(out)["label"]
        if forest == whole:
            assert np.array_equal(written, labels)


def test_boosting_and_regression(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    boosted = _fitted(AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=9, random_state=0), table)
    skops.dump(boosted, tmp_path / "boosted.skops")
    assert run(tmp_path, "predict", "boosted.skops", str(table), "-o", str(tmp_path / "out.csv")) == 0
    rows = pd.read_csv(table)
    assert np.array_equal(pd.read_csv(tmp_path / "out.csv")["label"], boosted.predict(rows[["a", "b", "c"]]))
    forest = RandomForestRegressor(20, max_depth=3, random_state=0).fit(rows[["b", "c"]], rows["a"])
    skops.dump(forest, tmp_path / "regression.skops")
    sized = ["size", "regression.skops", str(table), "--metric", "scores", "--tolerance", "0.2"]
    assert run(tmp_path, *sized) in {0, 1}
    capfd.readouterr()
    assert run(tmp_path, "truncate", "regression.skops", str(table), "-o", str(tmp_path / "small.txt")) == 2
    assert "written to a .skops file" in only_line(capfd.readouterr().err)


def test_compressed_files_are_read(table: Path, tmp_path: Path) -> None:
    skops.dump(_fitted(FORESTS["forest"](), table), tmp_path / "model.skops", compression=zipfile.ZIP_DEFLATED)
    assert run(tmp_path, "size", "model.skops", str(table), "--alpha", "0.8") in {0, 1}


def test_types_of_others_are_named_and_refused(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    learner = make_pipeline(FunctionTransformer(only_line, validate=False), GaussianNB())
    learner.set_params(functiontransformer__func=None)
    model = _fitted(BaggingClassifier(learner, 3, random_state=0), table)
    model.note = only_line  # a function of somebody's
    skops.dump(model, tmp_path / "model.skops")
    assert run(tmp_path, "size", "model.skops", str(table)) == 2
    assert "helpers.command_line.only_line" in only_line(capfd.readouterr().err)


def _members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _refused(path: Path, members: dict[str, bytes], table: Path, capfd: pytest.CaptureFixture[str]) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    capfd.readouterr()
    assert run(path.parent, "size", path.name, str(table)) == 2
    return only_line(capfd.readouterr().err)


def test_damaged_files_are_refused(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.skops"
    skops.dump(_fitted(FORESTS["forest"](), table), path)
    members = _members(path)
    for broken in (
        {"schema.json": b"{}"},
        {"schema.json": b"["},
        {"schema.json": b"[" * 100_000},
    ):
        assert "is a skops file that cannot be read" in _refused(path, members | broken, table, capfd)


def test_without_skops_the_way_out_is_named(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    skops.dump(_fitted(FORESTS["forest"](), table), tmp_path / "model.skops")
    monkeypatch.setitem(__import__("sys").modules, "skops.io", None)
    assert run(tmp_path, "size", "model.skops", str(table)) == 2
    assert "pip install rfsize[skops]" in only_line(capfd.readouterr().err)
