"""Values that mean missing, and categories: rows are read as they were at training."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xgboost as xgb

import rfsize
from helpers.models import LIGHTGBM, N_ROWS, ONE_ROUND, TWO, XGBOOST, X, frame, kept_in, model, own_predict
from rfsize.exceptions import InbagError, TrainingRowsWarning

pytestmark = pytest.mark.filterwarnings("ignore::rfsize.exceptions.TrainingRowsWarning")

FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda rows: rows,
    "single precision": lambda rows: rows.astype(np.float32),
    "whole numbers": lambda rows: np.nan_to_num(rows).astype(np.int64),
    "frame": lambda rows: pd.DataFrame(rows, columns=list("abcdef")),
    "sparse": lambda rows: sp.csr_matrix(np.nan_to_num(rows)),
    "Arrow": lambda rows: pa.table({name: rows[:, place] for place, name in enumerate("abcdef")}),
}
# Many zeros, some of them negative, and tenths and missing values.
ROWS, _draw = np.round(X), np.random.default_rng(1).random(X.shape)
for _value, _below in ((0.1, 0.2), (-0.0, 0.1), (np.nan, 0.05)):
    ROWS[_draw < _below] = _value


def trained(rows: Any, missing: float) -> tuple[xgb.Booster, np.ndarray]:
    data = xgb.DMatrix(rows, TWO, missing=missing)
    booster = xgb.train(XGBOOST, data, 1)
    return booster, booster.predict(data)


@pytest.mark.parametrize(
    ("form", "missing"), [*zip(2 * [*FORMS], 3 * [0.0, 2, 0.1, np.nan], strict=True), ("single precision", 0.1)]
)
def test_missing_value_of_a_booster(missing: float, form: str, tmp_path: Path) -> None:
    rows = FORMS[form](ROWS)
    booster, predicted = trained(rows, missing)
    fast = rfsize.compile(booster, missing=missing)
    fast.save(tmp_path / "forest.rfsize")
    for forest in (fast, rfsize.load(tmp_path / "forest.rfsize")):
        np.testing.assert_allclose(forest.predict_proba(rows)[:, 1], predicted, atol=1e-6)
    outputs = rfsize.tree_outputs(booster, rows, missing=missing)
    np.testing.assert_allclose(outputs.predict(), predicted, atol=1e-6)
    assert outputs.votes == fast.votes(rows)
    assert rfsize.tree_outputs(booster, rows, oob=True, missing=missing).source == "oob"


def test_bags_need_the_missing_value() -> None:
    booster, _ = trained(ROWS, 0.0)
    with pytest.raises(InbagError, match="missing="):
        rfsize.size(booster, ROWS, oob=True)
    outputs = rfsize.tree_outputs(booster, ROWS, oob=True, missing=0.0)
    assert len(rfsize.truncate(outputs, n_trees=7).get_dump()) == 7


@pytest.mark.parametrize("missing", [0.0, 0.1, -999.0])
def test_classifiers_keep_their_missing_value(missing: float) -> None:
    rows = np.where(X < -1.5, -999.0, ROWS)
    forest = xgb.XGBClassifier(**ONE_ROUND, missing=missing).fit(rows, TWO)
    np.testing.assert_array_equal(rfsize.compile(forest).predict_proba(rows), forest.predict_proba(rows))
    votes = rfsize.tree_outputs(forest, rows).votes
    assert rfsize.tree_outputs(forest, rows, missing=missing).votes == votes
    assert rfsize.tree_outputs(forest, xgb.DMatrix(rows, missing=missing)).votes == votes


def test_matrices_of_xgboost() -> None:
    booster, _ = trained(ROWS, 0.0)
    right = xgb.DMatrix(ROWS, missing=0.0)
    expected = rfsize.tree_outputs(booster, ROWS, missing=0.0).votes
    assert rfsize.tree_outputs(booster, right).votes == expected
    few = np.arange(50)
    assert rfsize.tree_outputs(booster, right.slice(few)).votes == expected.take(few)
    assert rfsize.tree_outputs(booster, right, oob=True).votes == (
        rfsize.tree_outputs(booster, ROWS, oob=True, missing=0.0).votes
    )
    forest = xgb.XGBClassifier(**ONE_ROUND, missing=0.0).fit(ROWS, TWO)
    with pytest.raises(ValueError, match="X is a DMatrix"):  # in which 0 is a number
        rfsize.tree_outputs(forest, xgb.DMatrix(ROWS))


def test_validation_rows_miss_what_training_rows_do() -> None:
    data = xgb.DMatrix(ROWS[:400], TWO[:400], missing=0.0)
    options: dict[str, Any] = {"metric": "scores", "tolerance": 1.0, "min_trees": 20, "max_trees": 20}
    params = {name: value for name, value in XGBOOST.items() if name != "num_parallel_tree"}
    fresh = (ROWS[400:], xgb.DMatrix(ROWS[400:], missing=0.0), xgb.DMatrix(ROWS[400:]))
    as_array, as_told, otherwise = (
        rfsize.grow(params, data, **options, validation=rows)[1].loss_at(5).value for rows in fresh
    )
    assert as_array == as_told != otherwise


def test_text_of_lightgbm_without_the_line_of_python() -> None:
    """As its command line, R and Spark write it."""
    forest = model("lightgbm")
    text = forest.model.model_to_string()
    head, separator, _ = text.rpartition("\npandas_categorical:")
    assert separator
    loaded = lgb.Booster(model_str=head + "\n")
    assert rfsize.tree_outputs(loaded, X, oob=True).votes == rfsize.tree_outputs(forest.model, X, oob=True).votes
    assert np.array_equal(rfsize.compile(loaded).predict(X), forest.model.predict(X))
    assert rfsize.truncate(loaded, n_trees=5).current_iteration() == 5


@pytest.mark.parametrize("trained_on", ["a binary Dataset", "codes"])
def test_categories_that_the_model_does_not_keep(trained_on: str, tmp_path: Path) -> None:
    """A frame with categories is refused; the codes of training are taken."""
    table = frame(X)[["a", "b"]].assign(b=lambda rows: rows["b"].cat.add_categories("t").fillna("t"))
    codes = table.assign(b=table["b"].cat.codes)
    data = lgb.Dataset(codes, TWO, categorical_feature=["b"])
    if trained_on == "a binary Dataset":
        lgb.Dataset(table, TWO).save_binary(tmp_path / "rows.bin")
        data = lgb.Dataset(tmp_path / "rows.bin")
    booster = lgb.train(LIGHTGBM | {"feature_fraction": 1.0}, data, 31)
    fast = rfsize.compile(booster)
    for rows in (table, table.assign(b=table["b"].astype(str))):
        for call in (fast.predict, lambda rows: rfsize.tree_outputs(booster, rows)):
            with pytest.raises(ValueError, match="'b'"):
                call(rows)
    assert np.array_equal(fast.predict(codes), booster.predict(codes))
    assert rfsize.inbag(booster, codes).shape == (31, N_ROWS)


keeps_categories = pytest.mark.skipif(
    not hasattr(xgb.Booster, "get_categories"), reason="XGBoost keeps no categories before 3.1"
)


@pytest.mark.parametrize("kind", ["lightgbm categories", pytest.param("xgboost categories", marks=keeps_categories)])
def test_numbers_in_place_of_categories_are_refused(kind: str) -> None:
    forest = model(kind)
    for wrong in (forest.fresh.assign(c=1.5), forest.fresh.assign(b=3)):
        for call in (rfsize.compile(forest.model).predict, lambda rows: rfsize.tree_outputs(forest.model, rows)):
            with pytest.raises(ValueError, match=r"'[bc]'"):
                call(wrong)


@pytest.mark.filterwarnings("default::rfsize.exceptions.TrainingRowsWarning")
def test_rows_without_names_are_taken_silently() -> None:
    """Scikit-learn warns at each prediction of a forest that was trained on names."""
    table = pd.DataFrame(X, columns=list("abcdef"))
    named = type(model("random forest").model)(20, random_state=0).fit(table, TWO)
    nameless = type(named)(20, random_state=0).fit(X, TWO)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", TrainingRowsWarning)
        for rows in (X, sp.csr_matrix(X)):
            assert rfsize.tree_outputs(named, rows).votes == rfsize.tree_outputs(nameless, rows).votes
        assert np.array_equal(rfsize.oob_predict(named, X, fill=0), rfsize.oob_predict(nameless, X, fill=0))


ODD = pd.DataFrame(X, columns=["Tree", "end of trees", "parameters", *"abc"])
PRUNED = {"updater": "grow_colmaker,prune", "gamma": 30.0, "tree_method": "exact", "colsample_bynode": 1}
CONTENTS: dict[str, Callable[[], Any]] = {
    "names like lines": lambda: lgb.train(LIGHTGBM, lgb.Dataset(ODD, TWO), 3),
    "trees of one leaf": lambda: lgb.train(LIGHTGBM | {"min_data_in_leaf": 500}, lgb.Dataset(ODD, TWO), 3),
    "pruned trees": lambda: xgb.train(XGBOOST | PRUNED, xgb.DMatrix(X, TWO), 1),
    "nothing learnt": lambda: xgb.train(XGBOOST | {"gamma": 1e9}, xgb.DMatrix(X, TWO), 1),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_models_of_every_content_are_read(content: str, tmp_path: Path) -> None:
    trained = CONTENTS[content]()
    rows, way = (ODD, "text") if isinstance(trained, lgb.Booster) else (X, "ubj")
    fast = rfsize.compile(kept_in(trained, way, tmp_path))
    np.testing.assert_array_equal(fast.predict(rows), own_predict(trained, rows))
