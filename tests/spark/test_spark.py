"""Predictions on a real local Spark session: those of the same rows in memory."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rfsize
from helpers.models import X, model

pyspark = pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java, and there is none", allow_module_level=True)

NAMES = list("abcdef")


@pytest.fixture(scope="module")
def rows() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        session = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "101").getOrCreate()
        yield session.createDataFrame(pd.DataFrame(X, columns=NAMES).assign(number=np.arange(len(X)))).cache()
        session.stop()


def column(rows: Any, *arguments: Any) -> list[Any]:
    udf = rfsize.spark.predict_udf(*arguments)
    found = rows.withColumn("found", udf(*NAMES)).select("number", "found").orderBy("number").collect()
    return [row.found for row in found]


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost softprob", "random forest of names", "random forest regressor"])
def test_predictions(kind: str, rows: Any) -> None:
    """Probabilities, those of each class, labels in words, and numbers."""
    fast = rfsize.compile(model(kind).model)
    assert column(rows, fast) == fast.predict(X).tolist()


def test_labels_and_probabilities_by_a_table(rows: Any) -> None:
    forest = model("random forest").model
    table = rfsize.StopTable.build(rfsize.compile(forest).n_trees, alpha=0.9)
    fast = rfsize.compile(forest, table)
    assert column(rows, fast, "label") == fast.predict_labels(X).tolist()
    assert column(rows, fast, "probability") == fast.predict_proba(X).tolist()
    assert column(rows, fast) == fast.predict(X).tolist()


def test_what_is_refused(rows: Any) -> None:
    fast, numbers = (rfsize.compile(model(kind).model) for kind in ("lightgbm", "random forest regressor"))
    for arguments, names in (
        ((model("lightgbm").model,), r"rfsize\.compile"),
        ((fast, "labels"), "output"),
        ((numbers, "label"), "classes"),
        ((numbers, "probability"), "classes"),
    ):
        with pytest.raises(ValueError, match=names):
            rfsize.spark.predict_udf(*arguments)
    with pytest.raises(pyspark.errors.PythonException, match="5 columns"):
        rows.withColumn("found", rfsize.spark.predict_udf(fast)(*NAMES[:5])).collect()
