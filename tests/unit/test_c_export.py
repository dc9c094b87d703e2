"""Forests in C: built by the system's compiler without a warning, and equal to the compiled forest in every answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import AdaBoostClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import rfsize
from helpers import models, zoo
from helpers.in_c import CC, InC
from helpers.zoo import KINDS, model, rows_for

pytestmark = [
    pytest.mark.skipif(CC is None, reason="no C compiler on this system"),
    pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning"),
]


def assert_same(fast: Any, X: np.ndarray, folder: Path) -> InC:
    X, in_c = np.ascontiguousarray(X, dtype=np.float64), InC(fast, folder)
    if not len(fast.classes):
        np.testing.assert_allclose(in_c.numbers(X), fast.predict(X), rtol=1e-6)
        return in_c
    expected, trees = fast.predict_labels(X, return_trees=True)
    label, n_used = in_c.labels(X)
    np.testing.assert_array_equal(fast.classes[label], expected)
    np.testing.assert_array_equal(n_used, trees)
    np.testing.assert_allclose(in_c.probabilities(X), fast.predict_proba(X), atol=1e-6)
    return in_c


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_forest(name: str, tmp_path: Path) -> None:
    assert_same(rfsize.compile(model(name)), rows_for(name, 1500), tmp_path)


@pytest.mark.parametrize("name", ["lgb binary", "lgb softmax", "xgb softprob", "random forest of three"])
@pytest.mark.parametrize("rule", ["calibrated", "hard", "built", "lossless"])
def test_every_rule_of_stopping(name: str, rule: str, tmp_path: Path) -> None:
    X, forest = rows_for(name, 1500), model(name)
    if rule == "calibrated":
        table = zoo.calibrated(name)
    elif rule != "hard":
        outputs = rfsize.tree_outputs(forest, rows_for(name, 5000)[3000:])
        table = rfsize.StopTable.build(zoo.TREES, alpha=1.0 if rule == "lossless" else 0.9, prior=outputs.votes)
    fast = rfsize.compile(forest, voting="hard") if rule == "hard" else rfsize.compile(forest, table)
    assert_same(fast, X, tmp_path)
    assert fast.predict_labels(X, return_trees=True)[1].mean() < zoo.TREES


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_a_threshold_and_a_value_for_missing(voting: Any, tmp_path: Path) -> None:
    X = np.where(np.abs(zoo.training()[0]) < 0.2, -999.0, zoo.training()[0])
    booster = zoo.xgboost("binary:logistic", zoo.classes_of(zoo.training()[1], 2), np.where(X == -999.0, np.nan, X))
    assert_same(rfsize.compile(booster, threshold=0.06, missing=-999.0, voting=voting), X, tmp_path)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_adaboost_where_rounding_decides(n_classes: int, tmp_path: Path) -> None:
    X, y = np.nan_to_num(zoo.training()[0]), zoo.classes_of(zoo.training()[1], n_classes)
    boosted = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=6, random_state=0).fit(X, y)
    boosted.estimator_weights_ = np.array([0.1, 0.3, 0.2, 0.3, 0.2, 0.1])
    label, _ = assert_same(rfsize.compile(boosted), X, tmp_path).labels(X)
    assert label.tolist() == boosted.predict(X).tolist()


def test_large_and_tiny_trees(tmp_path: Path) -> None:
    """More thresholds than a byte tells apart; single leaves; zeros that are missing; categories alone."""
    X, signal = zoo.training()
    dense, y = np.random.default_rng(0).normal(size=X.shape), zoo.classes_of(signal, 2)
    large = ExtraTreesClassifier(9, random_state=0).fit(dense, np.digitize(dense[:, 0], [0, 1]))
    assert_same(rfsize.compile(large), np.r_[dense, zoo.rows_for("random forest", 500)], tmp_path)
    rare = RandomForestClassifier(9, random_state=0).fit(dense, np.arange(len(X)) == 0)
    assert_same(rfsize.compile(rare), dense, tmp_path)
    gaps = models.model("random forest with gaps")
    assert_same(rfsize.compile(gaps.model), gaps.fresh, tmp_path)
    assert_same(rfsize.compile(zoo.lightgbm("binary", y, 5, min_data_in_leaf=10**6)), X, tmp_path)
    assert_same(rfsize.compile(zoo.lightgbm("binary", y, zero_as_missing=True)), X, tmp_path)
    codes = np.full_like(X, np.nan)
    codes[:, 3] = X[:, 3]
    booster = zoo.lightgbm("binary", (codes[:, 3] % 3 == 1).astype(int), 9, codes, feature_fraction=1.0)
    codes[:4, 3] = [np.nan, 400.0, -1.0, -0.3]
    assert_same(rfsize.compile(booster), codes, tmp_path)


@pytest.mark.parametrize("name", ["lgb regression", "lgb square roots"])
def test_sums_of_lightgbm_to_the_last_bit(name: str, tmp_path: Path) -> None:
    X = rows_for(name, 1500)
    np.testing.assert_array_equal(InC(rfsize.compile(model(name)), tmp_path).numbers(X), model(name).predict(X))


def test_rows_that_the_framework_refuses(tmp_path: Path) -> None:
    """They get the label -1, or no number."""
    X, y = np.nan_to_num(zoo.training()[0]), zoo.classes_of(zoo.training()[1], 2)
    forest = RandomForestClassifier(9, random_state=0).fit(X, y)
    numbers = RandomForestRegressor(9, random_state=0).fit(X, X[:, 0])
    rows = X[:5].copy()
    rows[1, 3], rows[2, 5] = np.inf, 1e300
    in_c = InC(rfsize.compile(forest), tmp_path)
    label, n_used = in_c.labels(rows)
    assert (label < 0).tolist() == (n_used == 0).tolist() == [False, True, True, False, False]
    assert np.isnan(in_c.probabilities(rows)).all(axis=1).tolist() == (label < 0).tolist()
    assert np.isnan(InC(rfsize.compile(numbers), tmp_path).numbers(rows)).tolist() == (label < 0).tolist()


def test_columns_and_categories_are_in_the_header(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"age": rng.normal(size=600), "home town": pd.Categorical(rng.choice(["Köln", "Rome", "Oslo"], 600))}
    )
    y = (X["home town"] == "Oslo") ^ (X["age"] > 1)
    forest = LGBMClassifier(boosting_type="rf", n_estimators=9, subsample=0.5, subsample_freq=1, verbose=-1).fit(X, y)
    in_c = InC(rfsize.compile(forest), tmp_path)
    header = in_c.source.read_text("ascii").split("*/")[0]
    names, categories = re.search(r"0 (age)$.*^ [*]   1 home.town: (.*?)$", header, re.MULTILINE | re.DOTALL).groups()
    number = {name.split()[1]: float(name.split()[0]) for name in categories.split(", ")}
    coded = (
        X["home town"].astype(str).map({"Köln": number[r"K\303\266ln"], "Rome": number["Rome"], "Oslo": number["Oslo"]})
    )
    rows = np.stack([X[names], coded], axis=1)
    assert forest.classes_[in_c.labels(rows)[0]].tolist() == forest.predict(X).tolist()


HOSTILE = [
    "*/ int main(void) { return system(0); } /*",
    '"; system("rm -rf ~"); "',
    "line\nbreak\r\tand \\ backslash\\",
    "??/ ??' ??=define",
    "\\u0041 %s $name ${name} {0}",
    "Köln 中 🌲 1",
    "7\x017",
]


def test_no_name_gets_into_the_code(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(700, 3)), columns=["*/ #include <x>", '"; system("', "??/"])
    fast = rfsize.compile(
        RandomForestClassifier(9, random_state=0).fit(frame, np.array(HOSTILE, dtype=object)[np.arange(700) % 7])
    )
    in_c = InC(fast, tmp_path)
    assert [in_c.class_label(index) for index in range(7)] == [label.encode() for label in fast.classes]
    assert in_c.class_label(-1) is None
    assert in_c.class_label(7) is None
    source = in_c.source.read_text("ascii")
    for fragment in ("system(", "include <x", "rm -rf", "??", "\\u", "${", "*/ int"):
        assert fragment not in source
    literals = source[source.index("class_label[] =") :].split("};")[0].splitlines()[1:]
    assert all(re.fullmatch(r'    "([A-Za-z0-9]|\\[0-7]{3})*",?', literal) for literal in literals)


def test_nothing_in_it_changes(tmp_path: Path) -> None:
    rfsize.compile(model("xgb softprob")).to_c(tmp_path / "forest.c")
    source = (tmp_path / "forest.c").read_text()
    data = [line for line in source.splitlines() if line.startswith("static") and "(" not in line]
    assert data
    assert all(line.startswith("static const ") for line in data)
    assert not re.search(r"\b(malloc|calloc|alloca|free)\b", source)


def test_refused_names_leave_no_file(tmp_path: Path) -> None:
    for name in ("", "1st", "a b", "x;y", "é", "_x", "a\n", None, 3):
        with pytest.raises(ValueError, match="name"):
            rfsize.compile(model("lgb binary")).to_c(tmp_path / "forest.c", name=name)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
