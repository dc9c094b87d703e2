"""Forests in C: compiled by the system's compiler, without a warning, and compared with the compiled forest."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from inference.test_compile import labels as some_labels
from inference.test_compile import wild
from lightgbm import LGBMRegressor
from sklearn.ensemble import AdaBoostClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost
from helpers.regressors import KINDS, numbers
from helpers.regressors import lightgbm as lightgbm_regressor
from helpers.regressors import xgboost as xgboost_regressor

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(CC is None, reason="no C compiler is installed")
pytestmark = needs_compiler

TREES = 25
FLAGS = ("-O2", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")


class InC:
    """A compiled forest, written as C, compiled and loaded."""

    def __init__(self, fast: rfsize.CompiledForest, folder: Path) -> None:
        # A library that is loaded once is not loaded again from another file of its name.
        folder = Path(tempfile.mkdtemp(dir=folder))
        self.source, library = folder / "forest.c", folder / "forest.so"
        fast.to_c(self.source, name="some")
        built = [str(CC), *FLAGS, "-shared", "-fPIC", str(self.source), "-o", str(library), "-lm"]
        done = subprocess.run(built, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self._library, self._n_classes = ctypes.CDLL(str(library)), len(fast.classes)

    def labels(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        label, asked = np.empty(len(X), dtype=np.intc), np.empty(len(X), dtype=np.intc)
        self._call("some_predict_label_many", _pointer(X), ctypes.c_size_t(len(X)), _pointer(label), _pointer(asked))
        alone = [self._library.some_predict_label(_pointer(row)) for row in X[:5]]
        assert alone == label[:5].tolist()
        return label, asked

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        found = np.empty((len(X), self._n_classes))
        self._call("some_predict_proba_many", _pointer(X), ctypes.c_size_t(len(X)), _pointer(found))
        one = np.empty(self._n_classes)
        self._call("some_predict_proba", _pointer(X[:1]), _pointer(one))
        np.testing.assert_array_equal(one, found[0])
        return found

    def numbers(self, X: np.ndarray) -> np.ndarray:
        found = np.empty(len(X))
        self._call("some_predict_many", _pointer(X), ctypes.c_size_t(len(X)), _pointer(found))
        self._library.some_predict.restype = ctypes.c_double
        np.testing.assert_array_equal(self._library.some_predict(_pointer(X[:1])), found[0])
        return found

    def class_label(self, index: int) -> bytes | None:
        self._library.some_class_label.restype = ctypes.c_char_p
        return self._library.some_class_label(index)

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, name)
        function.restype = None
        function(*arguments)


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return array.ctypes.data_as(ctypes.c_void_p)


def compare(fast: rfsize.CompiledForest, X: np.ndarray, folder: Path) -> InC:
    """Labels, trees asked and probabilities, or numbers."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    in_c = InC(fast, folder)
    if not fast.classes.size:
        np.testing.assert_allclose(in_c.numbers(X), fast.predict(X), rtol=1e-6)
        return in_c
    expected, trees = fast.predict_labels(X, return_trees=True)
    label, asked = in_c.labels(X)
    np.testing.assert_array_equal(fast.classes[label], expected)
    np.testing.assert_array_equal(asked, trees)
    np.testing.assert_allclose(in_c.probabilities(X), fast.predict_proba(X), atol=1e-6)
    return in_c


def around_cuts(fast: rfsize.CompiledForest, rows: int) -> np.ndarray:
    """Rows of thresholds, and of the numbers next to them in single and double precision."""
    rng, columns = np.random.default_rng(4), fast.forest.columns
    X = np.zeros((rows, fast.forest.n_features))
    for entry, feature in enumerate(columns.feature):
        cuts = np.clip(columns.cuts[columns.cut_start[entry] : columns.cut_start[entry + 1]], -3e38, 3e38)
        cut = rng.choice(cuts, rows)
        single = cut.astype(np.float32)
        near = [cut, np.nextafter(cut, math.inf), np.nextafter(cut, -math.inf), np.nextafter(single, np.float32(9e9))]
        X[:, feature] = np.choose(rng.integers(0, 4, rows), near)
    return np.clip(X, -3e38, 3e38)


def lightgbm_with_everything(n_classes: int, **params: Any) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    X = wild(rng, 900, infinite=True)
    objective = {"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": n_classes}
    settings = {"num_leaves": 24, "min_data_in_leaf": 3, "min_data_per_group": 5, "cat_smooth": 1.0, **objective}
    dataset = {"categorical_feature": [3], "params": {"verbose": -1}}
    booster = train_lightgbm(X, some_labels(rng, X, n_classes), TREES, dataset=dataset, **{**settings, **params})
    fresh = wild(rng, 1500, infinite=True)
    fresh[:20, 3] = rng.choice([-1.0, -0.5, 0.5, 39.9, 41.0, 1e6, 3e9, 1e300, -np.inf, np.inf], 20)
    return booster, fresh


def xgboost_with_everything(n_classes: int, **params: Any) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    X = wild(rng, 900, infinite=False)
    objective = (
        {"objective": "binary:logistic"} if n_classes == 2 else {"objective": "multi:softprob", "num_class": n_classes}
    )
    settings = {
        "num_parallel_tree": TREES,
        "subsample": 0.6,
        "eta": 1,
        "max_depth": 6,
        "max_cat_to_onehot": 4,
        **objective,
    }
    rows = xgb.DMatrix(X, some_labels(rng, X, n_classes), feature_types=TYPES, enable_categorical=True)
    booster = xgb.train({**settings, "tree_method": "hist", "base_score": 0.3, **params}, rows, 1)
    fresh = wild(rng, 1500, infinite=False)
    fresh[:20, 3] = rng.choice([-1.0, -0.5, 0.5, 39.9, 41.0, 1e6, 2.0**24, 3e9, 1e30], 20)
    return booster, fresh


def scikit_learn_with_everything(n_classes: int, **params: Any) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    X = wild(rng, 900, infinite=False)
    names = np.array(["ash", "elm", "oak", "yew", "fir", "bay", "box"])
    forest = RandomForestClassifier(TREES, min_samples_leaf=2, random_state=0, **params)
    return forest.fit(X, names[some_labels(rng, X, n_classes)]), wild(rng, 1500, infinite=False)


TYPES = ["float", "float", "float", "c", "float", "float"]
WITH_EVERYTHING: dict[str, Callable[..., tuple[Any, np.ndarray]]] = {
    "lightgbm": lightgbm_with_everything,
    "xgboost": xgboost_with_everything,
    "scikit-learn": scikit_learn_with_everything,
}


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("framework", WITH_EVERYTHING)
def test_averaged_scores(framework: str, n_classes: int, tmp_path: Path) -> None:
    model, X = WITH_EVERYTHING[framework](n_classes)
    fast = rfsize.compile(model)
    compare(fast, X, tmp_path)
    compare(fast, around_cuts(fast, 1500), tmp_path)
    rows = xgb.DMatrix(X, feature_types=TYPES, enable_categorical=True) if framework == "xgboost" else X
    table = rfsize.StopTable.calibrate(model, rows, alpha=0.9)
    stopped = rfsize.compile(model, table)
    compare(stopped, X, tmp_path)
    assert stopped.predict_labels(X, return_trees=True)[1].mean() < fast.predict_labels(X, return_trees=True)[1].mean()


@pytest.mark.parametrize("kind", ["none", "binary", "leaders", "lossless leaders"])
@pytest.mark.parametrize("framework", WITH_EVERYTHING)
def test_votes(framework: str, kind: str, tmp_path: Path) -> None:
    n_classes = {"binary": 2, "none": 2}.get(kind, 5)
    model, X = WITH_EVERYTHING[framework](n_classes)
    if kind.endswith(("none", "lossless leaders")):
        fast = rfsize.compile(model, voting="hard")
    else:
        table = rfsize.StopTable.build(TREES, alpha=0.9, prior=rfsize.compile(model).votes(X))
        assert table.kind == kind
        fast = rfsize.compile(model, table)
    compare(fast, X, tmp_path)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("depth", [1, 3])
def test_weighted_votes(depth: int, n_classes: int, data: Data, tmp_path: Path) -> None:
    X, y = data.X[:300], data.y[:300] if n_classes == 2 else data.three[:300]
    boosted = AdaBoostClassifier(DecisionTreeClassifier(max_depth=depth), n_estimators=31, random_state=0).fit(X, y)
    fast = rfsize.compile(boosted)
    in_c = compare(fast, data.fresh, tmp_path)
    np.testing.assert_array_equal(in_c.labels(data.fresh)[0], boosted.predict(data.fresh))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_level_weights_are_decided_by_the_sum_in_the_models_own_order(
    n_classes: int, data: Data, tmp_path: Path
) -> None:
    y = data.y if n_classes == 2 else data.three
    boosted = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=6, random_state=0)
    boosted.fit(data.X[:300], y[:300])
    boosted.estimator_weights_ = np.array([0.1, 0.3, 0.2, 0.3, 0.2, 0.1])
    fast = rfsize.compile(boosted)
    in_c = compare(fast, data.fresh, tmp_path)
    label, asked = in_c.labels(data.fresh)
    np.testing.assert_array_equal(label, boosted.predict(data.fresh))
    assert (asked == 6).any()


@pytest.mark.parametrize(
    "model",
    [
        *(kind for name, kind in KINDS.items() if name != "neighbours"),
        lightgbm_regressor(objective="poisson"),
        lightgbm_regressor(reg_sqrt=True),
        xgboost_regressor(objective="reg:gamma", num_parallel_tree=20),
        xgboost_regressor(objective="reg:logistic", num_parallel_tree=20),
    ],
)
def test_regression(model: Any, data: Data, tmp_path: Path) -> None:
    y = numbers(data)
    if getattr(model, "objective", None) == "reg:logistic":
        y = y / (1.0 + y)
    fast = rfsize.compile(model.fit(data.X, y))
    compare(fast, data.fresh, tmp_path)
    compare(fast, around_cuts(fast, 500), tmp_path)


def test_one_against_all_and_vectors_in_the_leaves(data: Data, tmp_path: Path) -> None:
    own = train_lightgbm(data.X, data.three, 15, objective="multiclassova", num_class=3)
    compare(rfsize.compile(own), data.fresh, tmp_path)
    vectors = {"objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree"}
    own = train_xgboost(data.X, data.three, 15, tree_method="hist", **vectors)
    for voting in ("soft", "hard"):
        compare(rfsize.compile(own, voting=voting), data.fresh, tmp_path)


def test_another_threshold_and_value_for_missing(data: Data, tmp_path: Path) -> None:
    X = np.where(np.abs(data.X) < 0.2, -999.0, data.X)
    booster = train_xgboost(np.where(X == -999.0, np.nan, X), data.y, 25)
    for voting in ("soft", "hard"):
        fast = rfsize.compile(booster, threshold=0.06, missing=-999.0, voting=voting)
        compare(fast, X, tmp_path)


def test_zeros_that_are_missing(tmp_path: Path) -> None:
    model, X = lightgbm_with_everything(2, zero_as_missing=True)
    compare(rfsize.compile(model), X, tmp_path)


def test_sums_that_begin_apart(tmp_path: Path) -> None:
    model, X = xgboost_with_everything(5)
    rows = xgb.DMatrix(X, feature_types=TYPES, enable_categorical=True)
    table, forest = rfsize.StopTable.calibrate(model, rows, alpha=0.9), rfsize.compile(model).forest
    apart = replace(forest, conventions=replace(forest.conventions, start=(0.5, -0.5, 0.25, 0.0, 1.5)))
    compare(rfsize.CompiledForest(apart, table), X, tmp_path)


def test_trees_of_single_leaves(data: Data, tmp_path: Path) -> None:
    compare(rfsize.compile(train_lightgbm(data.X, data.y, 5, min_data_in_leaf=10**6)), data.fresh, tmp_path)
    few = np.zeros_like(data.X[:40])
    few[0] = 5.0
    some = RandomForestClassifier(9, random_state=0).fit(few, np.arange(40) == 0)
    splits = {tree.tree_.node_count for tree in some.estimators_}
    assert 1 in splits
    assert len(splits) > 1
    compare(rfsize.compile(some), data.fresh, tmp_path)


def test_large_trees_of_many_thresholds(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forest = ExtraTreesClassifier(9, random_state=0).fit(data.X, data.three)
    fast = rfsize.compile(forest)
    assert "uint16_t level" in compare(fast, data.fresh, tmp_path).source.read_text()
    monkeypatch.setattr("rfsize.walking.layout.RANKS_PER_COLUMN", 100)
    several = rfsize.compile(forest)
    assert several.forest.columns.base.max() > 0
    compare(several, data.fresh, tmp_path)


@pytest.mark.parametrize("values", [2, 400])
def test_only_categories(values: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, values, (2000, 2)).astype(float)
    y = (X[:, 0] % 7 + X[:, 1] % 3 > 3).astype(int) if values > 2 else (X[:, 0] != X[:, 1]).astype(int)
    dataset = {"categorical_feature": [0, 1], "params": {"verbose": -1}}
    settings = {"min_data_per_group": 1, "min_data_in_leaf": 1, "cat_smooth": 0.1, "feature_fraction": 1.0}
    booster = train_lightgbm(X, y, 9, dataset=dataset, **settings)
    rows = np.concatenate([X, [[np.nan, 1.0], [values, 0.0], [-1.0, -0.3]]])
    compare(rfsize.compile(booster), rows, tmp_path)


def test_rows_that_the_framework_refuses(data: Data, tmp_path: Path) -> None:
    forest = RandomForestClassifier(9, random_state=0).fit(data.X, data.y)
    trees = RandomForestRegressor(9, random_state=0).fit(data.X, data.X[:, 0])
    boosted = AdaBoostClassifier(DecisionTreeClassifier(), n_estimators=5, random_state=0).fit(data.X, data.y)
    rows = data.fresh[:5].copy()
    rows[1, 3], rows[2, 7], rows[3, 0] = math.inf, 1e300, math.nan
    in_c = InC(rfsize.compile(forest), tmp_path)
    label, asked = in_c.labels(rows)
    assert label.tolist() == [label[0], -1, -1, label[3], label[4]]
    assert (asked == 0).tolist() == np.isnan(in_c.probabilities(rows)).all(axis=1).tolist() == (label < 0).tolist()
    refused = InC(rfsize.compile(boosted), tmp_path).labels(rows)[0] < 0
    assert refused.tolist() == [False, True, True, takes_no_missing(boosted, rows[3:4]), False]
    number = InC(rfsize.compile(trees), tmp_path).numbers(rows)
    assert np.isnan(number).tolist() == [False, True, True, False, False]


def takes_no_missing(model: Any, rows: np.ndarray) -> bool:
    try:
        model.predict(rows)
    except ValueError:
        return True
    return False


HOSTILE = [
    "*/ int main(void) { return system(0); } /*",
    '"; system("rm -rf ~"); "',
    "line\nbreak\r\tand \\ backslash\\",
    "??/ ??' ??=define",
    "\\u0041 %s $name ${name} {0}",
    "Köln 中 🌲 1",
    "7\x017",
]


def test_nothing_of_a_name_gets_into_the_code(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    forest = RandomForestClassifier(9, random_state=0).fit(X, np.array(HOSTILE, dtype=object)[np.arange(700) % 7])
    fast = rfsize.compile(forest)
    names = ["*/ #include </etc/passwd>", '"; system("', "??/"]
    conventions = replace(fast.forest.conventions, framework="*/ system(")
    hostile = replace(fast.forest, feature_names=names, conventions=conventions)
    in_c = InC(rfsize.CompiledForest(hostile), tmp_path)
    for index, label in enumerate(fast.classes):
        assert in_c.class_label(index) == label.encode()
    assert in_c.class_label(-1) is None
    assert in_c.class_label(7) is None
    source = in_c.source.read_text("ascii")
    for fragment in ("system(", "include </", "rm -rf", "??", "\\u", "${", "*/ int"):
        assert fragment not in source
    literals = source[source.index("class_label[] =") :].split("};")[0].splitlines()[1:]
    assert len(literals) == 7
    assert all(re.fullmatch(r'    "([A-Za-z0-9]|\\[0-7]{3})*",?', literal) for literal in literals)


@pytest.mark.parametrize("name", ["", "1st", "a b", "int", "while", "x;y", "é", "_x", "a\n", 'x"', None, 3])
def test_names_that_are_none_are_refused(name: Any, booster: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name must be a C identifier"):
        rfsize.compile(booster).to_c(tmp_path / "forest.c", name=name)
    assert not list(tmp_path.iterdir())


def test_what_is_not_written_is_refused(data: Data, tmp_path: Path) -> None:
    forest = RandomForestClassifier(9, random_state=0).fit(data.X[:200], np.where(data.y[:200] > 0, "x" * 5000, "y"))
    with pytest.raises(ValueError, match="a class label takes 5,000 bytes"):
        rfsize.compile(forest).to_c(tmp_path / "forest.c")
    labels = np.array(["a\0b", "a\0c"], dtype=object)[data.y[:200]]
    with pytest.raises(ValueError, match=r"class label 'a\\x00b' holds a NUL"):
        rfsize.compile(RandomForestClassifier(9).fit(data.X[:200], labels)).to_c(tmp_path / "forest.c")
    assert not list(tmp_path.iterdir())


def test_nothing_in_it_changes(booster: Any, tmp_path: Path) -> None:
    rfsize.compile(booster).to_c(tmp_path / "forest.c")
    source = (tmp_path / "forest.c").read_text()
    data_of_file = [line for line in source.splitlines() if line.startswith("static") and "(" not in line]
    assert data_of_file
    assert all(line.startswith("static const ") for line in data_of_file)
    assert not re.search(r"\b(malloc|calloc|alloca|free)\b", source)


def test_a_gradient_that_lightgbm_sums_is_summed_to_the_last_bit(data: Data, tmp_path: Path) -> None:
    regressor = LGBMRegressor(
        boosting_type="rf", n_estimators=101, subsample=0.6, subsample_freq=1, verbose=-1, n_jobs=1, random_state=0
    ).fit(data.X, data.X[:, 0])
    in_c = InC(rfsize.compile(regressor), tmp_path)
    np.testing.assert_array_equal(in_c.numbers(data.fresh), regressor.predict(data.fresh))
