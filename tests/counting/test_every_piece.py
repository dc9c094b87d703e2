"""Every piece of rows is checked as the same rows are alone, by every function, of all three frameworks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import rfsize
from helpers.command_line import only_line, run
from helpers.forests import Data, train_lightgbm, train_xgboost

NAMES = [f"f{place}" for place in range(8)]
FORESTS: dict[str, Callable[[Any, Any], Any]] = {
    "lightgbm": lambda X, y: train_lightgbm(X, y, 15),
    "xgboost": lambda X, y: train_xgboost(X, y, 15),
    "sklearn": lambda X, y: RandomForestClassifier(15, max_depth=4, random_state=0).fit(X, y),
}
FILES = {"lightgbm": "model.txt", "xgboost": "model.json"}
ASKED: dict[str, Callable[[Any, Any], Any]] = {
    "size": lambda model, X: rfsize.size(model, X, alpha=0.8),
    "truncate": lambda model, X: rfsize.truncate(model, X, alpha=0.8),
    "predict": lambda model, X: rfsize.compile(model).predict(X),
    "calibrate": lambda model, X: rfsize.StopTable.calibrate(model, X, alpha=0.8),
    "oob": lambda model, X: rfsize.tree_outputs(model, X, oob=True),
}


class Batches(xgb.DataIter):
    """Tables, as XGBoost takes them in batches."""

    def __init__(self, batches: list[Any]) -> None:
        super().__init__()
        self._batches, self._next = batches, 0

    def next(self, take: Any) -> bool:
        if self._next == len(self._batches):
            return False
        take(data=self._batches[self._next])
        self._next += 1
        return True

    def reset(self) -> None:
        self._next = 0


class Slices(lgb.Sequence):
    """An array, as LightGBM takes it in parts."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.batch_size = rows, 97

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)


def written(parts: list[pd.DataFrame], folder: Path) -> Path:
    for number, part in enumerate(parts):
        part.to_parquet(folder / f"{number}.parquet")
    return folder


SOURCES: dict[str, Callable[[list[pd.DataFrame], Path], Any]] = {
    "a Parquet folder": written,
    "a dataset": lambda parts, folder: pyarrow.dataset.dataset(written(parts, folder)),
    "a DataIter": lambda parts, _: Batches(parts),
    "a list of frames": lambda parts, _: parts,
    "a list of Arrow tables": lambda parts, _: [pa.Table.from_pandas(part, preserve_index=False) for part in parts],
    "a list of Polars frames": lambda parts, _: [polars.from_pandas(part) for part in parts],
}


@pytest.fixture(scope="module", params=FORESTS)
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def rows(data: Data) -> pd.DataFrame:
    return pd.DataFrame(data.X[:600], columns=NAMES)


@pytest.fixture(scope="module")
def model(framework: str, rows: pd.DataFrame, data: Data) -> Any:
    return FORESTS[framework](rows, data.y[:600])


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("lacking", [0, 1])
def test_a_piece_without_a_feature(lacking: int, source: str, model: Any, rows: pd.DataFrame, tmp_path: Path) -> None:
    parts = [rows[:300], rows[300:]]
    parts[lacking] = parts[lacking].drop(columns="f3")
    X = SOURCES[source](parts, tmp_path)
    for ask in ASKED.values():
        with pytest.raises(ValueError, match=r"missing \['f3'\]"):
            ask(model, X)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.filterwarnings("ignore::rfsize.exceptions.TrainingRowsWarning")
def test_pieces_with_more_columns_and_in_another_order(
    source: str, model: Any, rows: pd.DataFrame, tmp_path: Path
) -> None:
    more = rows[300:][NAMES[::-1]].assign(id=0.0)
    X = SOURCES[source]([rows[:300], more[:100], more[100:]], tmp_path)
    with pytest.warns(rfsize.exceptions.UnknownColumnsWarning) as caught:
        labels = rfsize.compile(model).predict(X)
    assert len(caught) == 1
    assert np.array_equal(labels, rfsize.compile(model).predict(rows))
    with pytest.warns(rfsize.exceptions.UnknownColumnsWarning):
        votes = rfsize.tree_outputs(model, X).votes
    assert votes == rfsize.tree_outputs(model, rows).votes


def test_files_of_other_columns_for_a_forest_without_names(framework: str, data: Data, tmp_path: Path) -> None:
    model, rows = FORESTS[framework](data.X, data.y), pd.DataFrame(data.X[:600], columns=NAMES)
    for second in (rows[300:].assign(id=0.0), rows[300:].drop(columns="f3"), rows[300:].add_prefix("g")):
        X = written([rows[:300], second], tmp_path)
        for ask in ASKED.values():
            with pytest.raises(ValueError, match="only some files of X have the columns"):
                ask(model, X)


@pytest.mark.parametrize("source", SOURCES)
def test_words_in_a_column_of_numbers(source: str, model: Any, rows: pd.DataFrame, tmp_path: Path) -> None:
    words = rows.assign(f3=rows.f3.astype(str).where(rows.index % 200 > 0, "?"))
    alone: list[Any] = [words, words.assign(f3=words.f3.astype("category")), polars.from_pandas(words)]
    for X in [*alone, SOURCES[source]([words[:300], words[300:]], tmp_path)]:
        for ask in ASKED.values():
            with pytest.raises(ValueError, match=r"\['f3'\].* hold no numbers"):
                ask(model, X)


@pytest.mark.parametrize("framework", FILES)
def test_the_command_line(
    framework: str, rows: pd.DataFrame, data: Data, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    booster, rows = FORESTS[framework](rows, data.y[:600]), pd.DataFrame(data.fresh, columns=NAMES)
    booster.save_model(tmp_path / FILES[framework])
    rows.assign(f3=rows.f3.where(rows.index % 200 > 0)).to_csv(tmp_path / "words.csv", index=False, na_rep="?")
    (tmp_path / "lacking").mkdir()
    written([rows[:200], rows[200:].drop(columns="f3")], tmp_path / "lacking")
    (tmp_path / "turned").mkdir()
    written([rows[:200].set_index("f0"), rows[200:][NAMES[::-1]][::2]], tmp_path / "turned")
    size, small, out = ["--alpha", "0.8"], str(tmp_path / f"small_{FILES[framework]}"), str(tmp_path / "out.csv")
    for command, options in (
        ("size", size),
        ("truncate", [*size, "-o", small]),
        ("shrink", ["--n-trees", "5", "-o", small]),
        ("predict", ["-o", out]),
    ):
        for table, message in (("words.csv", "hold no numbers"), ("lacking", "missing ['f3']")):
            assert run(tmp_path, command, FILES[framework], table, *options) == 2
            assert message in only_line(capfd.readouterr().err)
        assert run(tmp_path, command, FILES[framework], "turned", *options) in (0, 1)
    labels = pd.read_csv(out)["label"]
    assert np.array_equal(labels, booster.predict(_given(booster, pd.concat([rows[:200], rows[200:][::2]]))) > 0.5)


def _given(booster: Any, rows: pd.DataFrame) -> Any:
    return xgb.DMatrix(rows) if isinstance(booster, xgb.Booster) else rows


def test_pieces_of_other_widths(framework: str, data: Data) -> None:
    model = FORESTS[framework](data.X, data.y)
    narrow = data.fresh[:, :7]
    sources: list[Any] = [
        [Slices(data.fresh), Slices(narrow)],
        Batches([data.fresh, narrow]),
        [data.fresh, narrow],
        [data.fresh, pd.DataFrame(narrow)],
    ]
    for X in sources:
        for ask in (ASKED["size"], ASKED["predict"]):
            with pytest.raises(ValueError, match="X has 7 columns, but the forest was trained on 8 features"):
                ask(model, X)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.TrainingRowsWarning")
def test_a_list_of_batches(framework: str, data: Data) -> None:
    """Tables of whatever kind are the rows that they hold together."""
    model = FORESTS[framework](data.X, data.y)
    batches = np.array_split(data.X, 4)
    for kind in (list, tuple):
        X = kind(batches)
        assert rfsize.tree_outputs(model, X).votes == rfsize.tree_outputs(model, data.X).votes
        assert rfsize.tree_outputs(model, X, oob=True).votes == rfsize.tree_outputs(model, data.X, oob=True).votes
        assert np.array_equal(rfsize.compile(model).predict(X), rfsize.compile(model).predict(data.X))
    for wrong in ([data.X, data.X[:0]], [data.X, data.X[0]]):
        with pytest.raises(ValueError, match="X "):
            rfsize.size(model, wrong)


def test_types_of_files(tmp_path: Path, model: Any, rows: pd.DataFrame) -> None:
    """Whole numbers in one file and fractions in another are numbers; words in another are told by name."""
    whole = rows.assign(f3=np.round(rows.f3))
    X = written([whole[:300].astype({"f3": np.int32}), whole[300:].assign(f3=rows.f3[300:])], tmp_path)
    expected = pd.concat([whole[:300], rows[300:]])
    assert np.array_equal(rfsize.compile(model).predict(X), rfsize.compile(model).predict(expected))
    rows[300:].assign(f3="word").to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="f3"):
        rfsize.compile(model).predict(X)


def test_the_index_of_a_file(tmp_path: Path, model: Any, rows: pd.DataFrame) -> None:
    """An index that has a name is a column; one without is none, even for a forest without names."""
    rows.set_index("f2").to_parquet(tmp_path / "named.parquet")
    rows[::2].to_parquet(tmp_path / "unnamed.parquet")
    fast = rfsize.compile(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(fast.predict(tmp_path / "named.parquet"), fast.predict(rows))
        assert np.array_equal(fast.predict(tmp_path / "unnamed.parquet"), fast.predict(rows[::2]))


@pytest.mark.parametrize("n_features", [4, 30])
def test_one_row_as_a_series(n_features: int) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, n_features))).add_prefix("f")
    model = RandomForestClassifier(5, random_state=0).fit(X, X.f0 > 0)
    fast = rfsize.compile(model)
    for ask in (fast.predict, fast.predict_proba, lambda row: rfsize.size(model, row)):
        with pytest.raises(ValueError, match=r"X\.iloc\[\[0\]\]"):
            ask(X.iloc[0])
    assert fast.predict(X.iloc[[0]]) == model.predict(X.iloc[[0]])


def test_arrow_tables_and_scikit_learn(data: Data) -> None:
    rows = pa.table(dict(zip(NAMES, data.X.T, strict=True)))
    frame = rows.to_pandas()
    model = RandomForestClassifier(40, max_depth=4, random_state=0).fit(frame, data.y)
    assert rfsize.tree_outputs(model, rows, oob=True).votes == rfsize.tree_outputs(model, frame, oob=True).votes
    first, second = (rfsize.oob_score(model, X, data.y) for X in (rows, frame))
    assert (first.value, first.interval) == (second.value, second.interval)
    cut = [rfsize.truncate(model, X, oob=True, alpha=0.8) for X in (rows, frame)]
    assert len(cut[0].estimators_) == len(cut[1].estimators_)
    assert np.array_equal(rfsize.compile(model).predict(rows), model.predict(frame))
    goal: dict[str, Any] = {"alpha": 0.8, "max_trees": 150}
    estimator = RandomForestClassifier(max_depth=4, random_state=0)
    grown = [rfsize.grow(estimator, X, data.y, **goal)[0] for X in (rows, frame)]
    assert np.array_equal(*(forest.predict_proba(frame) for forest in grown))
    sized = [rfsize.RightSizedClassifier(estimator, **goal).fit(X, data.y) for X in (rows, frame)]
    assert sized[0].n_trees_ == sized[1].n_trees_
    assert np.array_equal(sized[0].predict(rows), sized[1].predict(frame))
    train, _ = train_test_split(np.arange(len(frame)), random_state=0)
    small, _ = rfsize.shrink(model, rows.take(train), n_trees=5)
    expected, _ = rfsize.shrink(model, frame.iloc[train], n_trees=5)
    assert np.array_equal(small.predict_proba(frame), expected.predict_proba(frame))
