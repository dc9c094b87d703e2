"""Columns are found by the names of training, whatever the rows are kept in; others are left out with a word."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost

NAMES = [f"f{place}" for place in range(8)]
CATEGORIES_ARE_KEPT = tuple(int(part) for part in xgb.__version__.split(".")[:2]) >= (3, 1)


class Batches(xgb.DataIter):
    """A frame, as XGBoost takes it in batches."""

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__()
        self._batches, self._next = [frame.iloc[:100], frame.iloc[100:]], 0

    def next(self, take: Any) -> bool:
        if self._next == len(self._batches):
            return False
        take(data=self._batches[self._next])
        self._next += 1
        return True

    def reset(self) -> None:
        self._next = 0


def parquet(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_parquet(folder / "rows.parquet", index=False, row_group_size=50)
    return folder / "rows.parquet"


KINDS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "DataFrame": lambda frame, _: frame,
    "Parquet": parquet,
    "Arrow": lambda frame, _: pa.Table.from_pandas(frame),
    "Polars": lambda frame, _: polars.from_pandas(frame),
    "batches": lambda frame, _: Batches(frame),
}
FORESTS: dict[str, Callable[[Any, Any], Any]] = {
    "LightGBM": lambda X, y: train_lightgbm(X, y, 11),
    "XGBoost": lambda X, y: train_xgboost(X, y, 11),
    "scikit-learn": lambda X, y: RandomForestClassifier(11, max_depth=4, random_state=0).fit(X, y),
}


def _taken(kind: str, model: Any) -> str:
    """The kind, or another where scikit-learn takes none of it."""
    return "DataFrame" if kind == "Arrow" and isinstance(model, RandomForestClassifier) else kind


@pytest.fixture(scope="module", params=FORESTS)
def train(request: pytest.FixtureRequest) -> Any:
    return FORESTS[request.param]


@pytest.fixture(scope="module")
def named(train: Any, data: Data) -> Any:
    return train(pd.DataFrame(data.X, columns=NAMES), data.y)


@pytest.fixture(scope="module")
def rows(data: Data) -> pd.DataFrame:
    return pd.DataFrame(data.fresh, columns=NAMES)


@pytest.mark.parametrize("kind", KINDS)
def test_by_name(kind: str, named: Any, rows: pd.DataFrame, tmp_path: Path) -> None:
    fast, give = rfsize.compile(named), KINDS[_taken(kind, named)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        turned = give(rows[NAMES[::-1]], tmp_path)
        assert np.array_equal(fast.predict(turned), fast.predict(rows))
        assert rfsize.tree_outputs(named, turned).votes == rfsize.tree_outputs(named, rows).votes
    when = np.arange(len(rows)).astype("datetime64[D]").astype("datetime64[ns]")
    more = give(rows.assign(when=when)[["when", *NAMES[::-1]]].assign(id=0), tmp_path)
    left_out = r"the columns \['when', 'id'\] of X are left out"
    with pytest.warns(rfsize.exceptions.UnknownColumnsWarning, match=left_out):
        assert np.array_equal(fast.predict(more), fast.predict(rows))
    with pytest.warns(rfsize.exceptions.UnknownColumnsWarning, match=left_out):
        assert rfsize.tree_outputs(named, more).votes == rfsize.tree_outputs(named, rows).votes
    for ask in (fast.predict, lambda X: rfsize.tree_outputs(named, X).votes):
        with pytest.raises(ValueError, match=r"missing \['f2', 'f5'\], unknown \['id'\]"):
            ask(give(rows.drop(columns=["f5", "f2"]).assign(id=0), tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_a_forest_without_names_goes_by_place(
    kind: str, train: Any, data: Data, rows: pd.DataFrame, tmp_path: Path
) -> None:
    model = train(data.X, data.y)
    fast, give = rfsize.compile(model), KINDS[_taken(kind, model)]
    assert np.array_equal(fast.predict(give(rows, tmp_path)), fast.predict(data.fresh))
    for ask in (fast.predict, lambda X: rfsize.tree_outputs(model, X).votes):
        with pytest.raises(ValueError, match=r"9 columns, but .* trained on 8 features, whose names it does not know"):
            ask(give(rows.assign(id=0.0), tmp_path))


@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
def test_categories_in_files(train: Any, data: Data, tmp_path: Path) -> None:
    if train is train_xgboost and not CATEGORIES_ARE_KEPT:
        pytest.skip("this XGBoost does not know the categories of training")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(data.X[:400], columns=NAMES).assign(letter=pd.Categorical(rng.choice(list("pqrs"), 400)))
    model = train(table, (data.y[:400] > 0) ^ (table["letter"] == "q"), 11)
    table["flag"], table["when"] = rng.choice([True, False, None], 400), datetime(2000, 1, 1)
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, part in enumerate((table.iloc[:150], table.iloc[150:])):
        # Each file has categories of its own, in another order.
        letters = part["letter"].astype(str).astype(pd.CategoricalDtype(list(["srqp", "qrs"][number])))
        part.assign(letter=letters).to_parquet(folder / f"{number}.parquet", row_group_size=60)
    known = table.iloc[:, :9].assign(letter=table["letter"].where((np.arange(400) < 150) | (table["letter"] != "p")))
    with pytest.warns(rfsize.exceptions.UnknownColumnsWarning):
        assert rfsize.tree_outputs(model, folder).votes == rfsize.tree_outputs(model, known).votes
    with pytest.warns(rfsize.exceptions.UnknownColumnsWarning):
        assert np.array_equal(rfsize.compile(model).predict(folder), rfsize.compile(model).predict(known))


@pytest.mark.skipif(not hasattr(polars, "Float16"), reason="this Polars has no half precision")
def test_half_precision_of_polars(named: Any, rows: pd.DataFrame) -> None:
    half = rows.astype(np.float16)
    frame = polars.DataFrame({name: half[name].astype(np.float32).to_numpy() for name in NAMES}).cast(polars.Float16)
    assert rfsize.tree_outputs(named, frame).votes == rfsize.tree_outputs(named, half.astype(np.float32)).votes
    assert np.array_equal(rfsize.compile(named).predict(frame), rfsize.compile(named).predict(half.astype(np.float64)))
