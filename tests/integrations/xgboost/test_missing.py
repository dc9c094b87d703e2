"""The value that means missing, which a booster does not keep of its DMatrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xgboost as xgb

import rfsize
from helpers.forests import XGBOOST, Data
from helpers.outputs import votes_of
from helpers.reports import agreement
from rfsize.cli import main

KINDS = {
    "array": lambda X: X,
    "single precision": lambda X: X.astype(np.float32),
    "whole numbers": lambda X: np.nan_to_num(X).astype(np.int64),
    "frame": lambda X: pd.DataFrame(X, columns=list("abcdefgh")),
    "sparse": lambda X: sp.csr_matrix(np.nan_to_num(X)),
    "arrow": lambda X: pa.table({name: X[:, column] for column, name in enumerate("abcdefgh")}),
}


@pytest.fixture(scope="module")
def rows(data: Data) -> np.ndarray:
    """Rows with many zeros, some of them negative, and tenths and missing values."""
    rows, draw = np.round(data.X), np.random.default_rng(1).random(data.X.shape)
    for value, below in ((0.1, 0.2), (-0.0, 0.1), (np.nan, 0.05)):
        rows[draw < below] = value
    return rows


def trained(rows: Any, y: np.ndarray, missing: float, trees: int = 15) -> tuple[xgb.Booster, np.ndarray]:
    dtrain = xgb.DMatrix(rows, y, missing=missing)
    booster = xgb.train({**XGBOOST, "num_parallel_tree": trees}, dtrain, 1)
    return booster, booster.predict(dtrain)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [0.0, 2, 0.1, np.nan])
def test_rows_are_read_as_at_training(missing: float, kind: str, rows: np.ndarray, data: Data, tmp_path: Path) -> None:
    given = KINDS[kind](rows)
    booster, predicted = trained(given, data.y, missing)
    fast = rfsize.compile(booster, missing=missing)
    fast.save(tmp_path / "forest.rfsize")
    for forest in (fast, rfsize.load(tmp_path / "forest.rfsize")):
        assert forest.predict_proba(given)[:, 1] == pytest.approx(predicted, abs=1e-6)
    votes = rfsize.tree_outputs(booster, given, missing=missing).votes
    assert votes == fast.votes(given)
    labels = rfsize.tree_outputs(booster, given, missing=missing).by_tree()
    assert np.array_equal(labels.sum(axis=1), votes.counts[:, 1])
    assert rfsize.inbag(booster, given, missing=missing).shape == labels.T.shape


def test_a_classifiers_own_marker_need_be_no_single_precision_number(rows: np.ndarray, data: Data) -> None:
    model = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=15, subsample=0.8, missing=0.1).fit(rows, data.y)
    assert rfsize.compile(model).predict_proba(rows) == pytest.approx(model.predict_proba(rows), abs=1e-6)


def test_sizes_out_of_bag_need_it(rows: np.ndarray, data: Data) -> None:
    booster, _ = trained(rows, data.y, 0.0, 61)
    outputs = rfsize.tree_outputs(booster, rows, oob=True, missing=0.0)
    report = rfsize.size(outputs, alpha=0.8)
    assert report.n_rows > 0
    assert len(rfsize.truncate(outputs, alpha=0.8).get_dump()) == report.n_kept
    assert rfsize.size(outputs, metric="scores", tolerance=1.0).source == "oob"
    with pytest.raises(rfsize.exceptions.InbagError, match="missing="):
        rfsize.size(booster, rows, alpha=0.8, oob=True)


def test_what_keeps_its_own_refuses_another(rows: np.ndarray, data: Data, lgb_booster: Any) -> None:
    model = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=15, subsample=0.8, missing=0.0).fit(rows, data.y)
    assert rfsize.tree_outputs(model, rows, missing=0.0).votes == rfsize.tree_outputs(model, rows).votes
    for call in (votes_of, rfsize.inbag, rfsize.tree_outputs):
        with pytest.raises(ValueError, match=r"fitted with missing=0\.0"):
            call(model, rows, missing=2)
        with pytest.raises(ValueError, match=r"is only for an xgboost\.Booster.*LightGBM"):
            call(lgb_booster, data.X, missing=0.0)
    with pytest.raises(ValueError, match="fitted with missing"):
        rfsize.compile(model, missing=np.nan)


def test_a_dmatrix_in_which_what_is_missing_is_a_number(rows: np.ndarray, data: Data) -> None:
    options = {"num_parallel_tree": 15, "subsample": 0.8, "missing": 0.0}
    model = xgb.XGBClassifier(n_estimators=1, **options).fit(rows, data.y)
    right = xgb.DMatrix(rows, missing=0.0)
    expected = rfsize.tree_outputs(model, rows).votes
    assert rfsize.tree_outputs(model, right).votes == expected
    some = np.arange(50)
    assert rfsize.tree_outputs(model, right.slice(some)).votes == expected.take(
        some
    )  # though a slice forgets what is missing
    for ask in (votes_of, rfsize.size, rfsize.truncate):
        with pytest.raises(ValueError, match=r"X is a DMatrix in which 0 is a number, .*make it as xgboost\.DMatrix"):
            ask(model, xgb.DMatrix(rows))


def test_validation_rows_miss_what_training_rows_do(rows: np.ndarray, data: Data) -> None:
    params = {"objective": "binary:logistic", "subsample": 0.632, "colsample_bynode": 0.5, "seed": 3, "nthread": 1}
    dtrain = xgb.DMatrix(rows[:400], data.y[:400], missing=0.0)
    options = {"alpha": 0.7, "min_trees": 20, "max_trees": 20}
    reports = [
        rfsize.grow(params, dtrain, **options, validation=fresh)[1]
        for fresh in (rows[400:], xgb.DMatrix(rows[400:], missing=0.0), xgb.DMatrix(rows[400:]))
    ]
    as_array, as_told, otherwise = (agreement(report, 5) for report in reports)
    assert as_array == as_told != otherwise


def test_misplaced_markers_are_refused(rows: np.ndarray, data: Data) -> None:
    booster, _ = trained(rows, data.y, 0.0)
    with pytest.raises(ValueError, match="made with its own missing value"):
        rfsize.tree_outputs(booster, xgb.DMatrix(rows), missing=0.0)
    with pytest.raises(ValueError, match="missing must be a number"):
        rfsize.tree_outputs(booster, rows, missing="none")
    with pytest.raises(ValueError, match="rfsize sizes a"):
        rfsize.tree_outputs(rfsize.tree_outputs(booster, rows, missing=0.0), rows, missing=0.0)


def test_the_command_line_takes_it(
    rows: np.ndarray, data: Data, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    booster, _ = trained(rows, data.y, 0.0, 61)
    model, table, forest = (str(tmp_path / name) for name in ("forest.ubj", "rows.parquet", "fast.rfsize"))
    booster.save_model(model)
    pd.DataFrame(rows).add_prefix("f").to_parquet(table)
    bags = ["--oob", "--seed", "3", "--subsample", "0.632"]
    assert main(["size", model, table, *bags, "--missing", "0", "--alpha", "0.8"]) == 0
    assert main(["size", model, table, *bags, "--alpha", "0.8"]) == 2
    assert "missing" in capsys.readouterr().err
    assert main(["compile", model, "--missing", "0", "-o", forest]) == 0
    assert rfsize.load(forest).votes(rows) == rfsize.tree_outputs(booster, rows, missing=0.0).votes
