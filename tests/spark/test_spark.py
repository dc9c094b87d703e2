"""Predictions on a real local Spark session: those of the same rows in memory."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import rfsize
from helpers.forests import Data

pyspark = pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java, and there is none", allow_module_level=True)

import rfsize.spark  # noqa: E402

NAMES = [f"x{place}" for place in range(8)]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        session = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "101").getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="module")
def rows(spark: Any, data: Data) -> Any:
    return spark.createDataFrame(pd.DataFrame(data.X, columns=NAMES).assign(number=np.arange(len(data.X))))


def column(rows: Any, udf: Any) -> list[Any]:
    found = rows.withColumn("found", udf(*NAMES)).select("number", "found").orderBy("number").collect()
    return [row.found for row in found]


def test_predictions(rows: Any, booster: Any, data: Data) -> None:
    table = rfsize.StopTable.build(rfsize.compile(booster).n_trees, alpha=0.9)
    for fast in (rfsize.compile(booster), rfsize.compile(booster, table)):
        shares, trees = fast.predict(data.X, return_trees=True)
        assert column(rows, rfsize.spark.predict_udf(fast)) == shares.tolist()
        both = column(rows, rfsize.spark.predict_udf(fast, "prediction and trees"))
        assert [tuple(one) for one in both] == list(zip(shares.tolist(), trees.tolist(), strict=True))
        assert column(rows, rfsize.spark.predict_udf(fast, "label")) == fast.predict_labels(data.X).tolist()
    fast = rfsize.compile(booster)
    assert column(rows, rfsize.spark.predict_udf(fast, "probability")) == fast.predict_proba(data.X).tolist()


def test_labels_of_any_kind(rows: Any, data: Data) -> None:
    frame = pd.DataFrame(data.X, columns=NAMES)
    for y in (np.where(data.y, "yes", "no"), data.y.astype(bool), data.y / 2.0):
        if y.dtype.kind == "f":
            fast = rfsize.compile(RandomForestRegressor(10, random_state=0).fit(frame, y))
            for output in ("label", "probability"):
                with pytest.raises(ValueError, match="is for classes"):
                    rfsize.spark.predict_udf(fast, output)
        else:
            fast = rfsize.compile(RandomForestClassifier(10, random_state=0).fit(frame, y))
        assert column(rows, rfsize.spark.predict_udf(fast)) == fast.predict(frame).tolist()


def test_probabilities_of_each_class(rows: Any, xgb_multiclass: Any, data: Data) -> None:
    fast = rfsize.compile(xgb_multiclass)
    expected = fast.predict(data.X).tolist()
    assert column(rows, rfsize.spark.predict_udf(fast)) == expected
    both = column(rows, rfsize.spark.predict_udf(fast, "prediction and trees"))
    assert [one.prediction for one in both] == expected


def test_what_is_refused(rows: Any, booster: Any) -> None:
    with pytest.raises(ValueError, match=r"give rfsize\.compile"):
        rfsize.spark.predict_udf(booster)
    fast = rfsize.compile(booster)
    with pytest.raises(ValueError, match="output"):
        rfsize.spark.predict_udf(fast, "labels")
    with pytest.raises(pyspark.errors.PythonException, match="7 columns"):
        rows.withColumn("found", rfsize.spark.predict_udf(fast)(*NAMES[:7])).collect()
