"""Models in files: the numbers of the model in memory, and damage refused."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

import rfsize

from .conftest import FRESH, TABLE, WORDS, Y

skops = pytest.importorskip("skops.io")
Run = Callable[..., int]


def bagged(learner: Any, n_trees: int) -> BaggingClassifier:
    return BaggingClassifier(learner, n_trees, max_samples=0.5, max_features=0.7, random_state=0).fit(TABLE, WORDS[Y])


def test_models_of_scikit_learn_are_cut_and_predict(run: Run) -> None:
    trained = bagged(DecisionTreeClassifier(max_depth=4), 31)
    skops.dump(trained, "model.skops")
    assert run("truncate", "model.skops", "fresh.parquet", "--alpha", "0.8", "-o", "small.skops") == 0
    expected = rfsize.truncate(trained, FRESH, alpha=0.8)
    small = skops.load("small.skops", trusted=["sklearn.tree._tree.Tree"])
    assert small.predict(FRESH).tolist() == expected.predict(FRESH).tolist()
    assert run("predict", "small.skops", "fresh.parquet", "-o", "out.csv") == 0
    labels = rfsize.compile(expected).predict_labels(FRESH)
    assert pd.read_csv("out.csv")["label"].tolist() == labels.tolist()


@pytest.mark.parametrize(("name", "rest"), [("lgb.txt", 99), ("xgb.ubj", 0), ("model.skops", 0)])
def test_damaged_files_are_refused(name: str, rest: int, folder: Path, run: Run, line: Any) -> None:
    """Cut off in the middle, or with other bytes there."""
    skops.dump(bagged(DecisionTreeClassifier(max_depth=4), 9), "model.skops")
    whole = (folder / name if (folder / name).exists() else Path(name)).read_bytes()
    half = len(whole) // 2
    damaged = f"damaged{Path(name).suffix}"
    Path(damaged).write_bytes(whole[:half] + (b"?" * rest + whole[half + rest :] if rest else b""))
    assert run("size", damaged, "fresh.parquet", "--alpha", "0.8") == 2
    assert damaged in line()


def test_skops_files(run: Run, line: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    boosted = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=9, random_state=0).fit(TABLE, Y)
    skops.dump(boosted, "model.skops", compression=zipfile.ZIP_DEFLATED)
    assert run("predict", "model.skops", "fresh.parquet", "-o", "out.csv") == 0
    assert pd.read_csv("out.csv")["label"].tolist() == boosted.predict(FRESH).tolist()
    strange = bagged(make_pipeline(FunctionTransformer(validate=False), GaussianNB()), 3)
    strange.note = pd.read_csv
    skops.dump(strange, "model.skops")
    assert run("size", "model.skops", "fresh.parquet") == 2
    assert "pandas" in line()
    with zipfile.ZipFile("model.skops", "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * 100_000_000)
    assert run("size", "model.skops", "fresh.parquet") == 2
    assert "model.skops" in line()
    monkeypatch.setitem(sys.modules, "skops.io", None)
    skops.dump(boosted, "model.skops")
    assert run("size", "model.skops", "fresh.parquet") == 2
    assert "skops" in line()
