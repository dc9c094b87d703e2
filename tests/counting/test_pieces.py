"""Rows that are read piece by piece: every answer is that of the same rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import xgboost as xgb
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.forests import Data
from rfsize.utils.matrix import as_rows, pick, take
from rfsize.utils.pieces import Pieces, pieces_of

NAMES = [f"x{place}" for place in range(8)]


class Slices(lgb.Sequence):
    """A Sequence that counts the rows read of it."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.read, self.batch_size = rows, 0, 97

    def __getitem__(self, index: Any) -> np.ndarray:
        found = self.rows[index]
        self.read += len(found) if found.ndim == 2 else 0
        return found

    def __len__(self) -> int:
        return len(self.rows)


class Batches(xgb.DataIter):
    """A DataIter that counts how often it is begun."""

    def __init__(self, batches: list[Any]) -> None:
        self.batches, self.place, self.begun = batches, 0, 0
        super().__init__()

    def next(self, input_data: Callable[..., Any]) -> bool:
        if self.place == len(self.batches):
            return False
        input_data(data=self.batches[self.place], label=np.zeros(1))
        self.place += 1
        return True

    def reset(self) -> None:
        self.place, self.begun = 0, self.begun + 1


def folder_of(X: np.ndarray, folder: Path) -> Path:
    """Three files with row groups of 61 rows."""
    for number, part in enumerate(np.array_split(X, 3)):
        pa.parquet.write_table(pa.table(dict(zip(NAMES, part.T, strict=True))), folder / f"{number}.parquet", 61)
    return folder


def memory_map(X: np.ndarray, folder: Path) -> Any:
    np.save(folder / "rows.npy", X)
    return np.load(folder / "rows.npy", mmap_mode="r")


SOURCES: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "a Sequence": lambda X, _: Slices(X),
    "Sequences": lambda X, _: [Slices(part) for part in np.array_split(X, 4)],
    "a Parquet folder": folder_of,
    "its name": lambda X, folder: str(folder_of(X, folder)),
    "a Parquet file": lambda X, folder: folder_of(X, folder) / "0.parquet",
    "a dataset": lambda X, folder: pyarrow.dataset.dataset(folder_of(X, folder)),
    "arrays": lambda X, _: Batches(np.array_split(X, 7)),
    "frames": lambda X, _: Batches([pd.DataFrame(part, columns=NAMES) for part in np.array_split(X, 7)]),
    "sparse": lambda X, _: Batches([sparse.csr_matrix(part) for part in np.array_split(X, 7)]),
    "a memory map": memory_map,
}


@pytest.fixture(params=SOURCES)
def pieces(request: pytest.FixtureRequest, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("rfsize.utils.pieces._CELLS", 8 * 53)
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 1 << 15)
    return SOURCES[request.param](data.X, tmp_path)


def in_memory(source: Any, data: Data) -> np.ndarray:
    return np.array_split(data.X, 3)[0] if isinstance(source, Path) and source.is_file() else data.X


def test_votes_and_sizes(booster: Any, data: Data, pieces: Any) -> None:
    X = in_memory(pieces, data)
    assert rfsize.tree_outputs(booster, pieces).votes == rfsize.tree_outputs(booster, X).votes
    report, expected = (rfsize.size(booster, rows, alpha=0.9) for rows in (pieces, X))
    assert (report.n_trees, report.interval, report.loss_at(5)) == (
        expected.n_trees,
        expected.interval,
        expected.loss_at(5),
    )


def test_files_of_other_types_and_columns_told_by_folders(
    lgb_booster: Any, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of another type in a file, or told by its folder, are read as in the others."""
    monkeypatch.setattr("rfsize.utils.pieces._CELLS", 8 * 53)
    frame = pd.DataFrame(data.X, columns=NAMES).assign(x7=lambda rows: (rows.x6 > 0).astype(float))
    half, large = frame.x7 > 0, tmp_path / "large"
    for value, part in frame.groupby("x7"):
        (large / f"x7={value}").mkdir(parents=True)
        kept = part.drop(columns="x7").astype({"x0": np.float32}) if value else part.drop(columns="x7")
        kept.to_parquet(large / f"x7={value}" / "rows.parquet")
    schema = pa.schema([(name, pa.float64()) for name in NAMES])
    rows = pyarrow.dataset.dataset(large, schema=schema, partitioning="hive")
    frame.loc[half, "x0"] = frame.x0[half].astype(np.float32)
    expected = pd.concat([frame[~half], frame[half]])
    assert rfsize.tree_outputs(lgb_booster, rows).votes == rfsize.tree_outputs(lgb_booster, expected.to_numpy()).votes


def test_out_of_bag(xgb_booster: Any, data: Data, pieces: Any) -> None:
    if len(in_memory(pieces, data)) < len(data.X):
        with pytest.raises(rfsize.exceptions.InbagError):
            rfsize.tree_outputs(xgb_booster, pieces, oob=True)
        return
    assert (
        rfsize.tree_outputs(xgb_booster, pieces, oob=True).votes
        == rfsize.tree_outputs(xgb_booster, data.X, oob=True).votes
    )
    found, expected = (rfsize.oob_score(xgb_booster, X, data.y, metric="auc") for X in (pieces, data.X))
    assert (found.value, found.interval) == (expected.value, expected.interval)


def test_predictions(lgb_booster: Any, data: Data, pieces: Any) -> None:
    fast, X = rfsize.compile(lgb_booster), in_memory(pieces, data)
    assert np.array_equal(fast.predict(pieces), fast.predict(X))
    assert np.array_equal(fast.predict_proba(pieces), fast.predict_proba(X))


def test_leaves_are_walked_to_and_compared(
    lgb_booster: Any, data: Data, pieces: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With compiled loops, as of many rows; what these say of a piece is believed where the framework says so too."""
    X = in_memory(pieces, data)
    expected = rfsize.tree_outputs(lgb_booster, X).votes
    monkeypatch.setattr("rfsize.counting.leaves.CELLS_WORTH_A_LAYOUT", 0)
    assert rfsize.tree_outputs(lgb_booster, pieces).votes == expected
    monkeypatch.setattr("rfsize.counting.leaves.CompiledWalk.leaf_index", lambda *_: np.zeros(1))
    assert rfsize.tree_outputs(lgb_booster, pieces).votes == expected


def test_scikit_learn(data: Data, pieces: Any) -> None:
    forest = RandomForestClassifier(20, random_state=0).fit(data.X, data.y)
    assert rfsize.tree_outputs(forest, pieces).votes == rfsize.tree_outputs(forest, in_memory(pieces, data)).votes


def test_columns_of_files_are_found_by_name(data: Data, tmp_path: Path) -> None:
    frame = pd.DataFrame(data.X, columns=NAMES)
    forest = RandomForestClassifier(20, random_state=0).fit(frame, data.y)
    frame.assign(label=data.y)[["label", *NAMES[::-1]]].to_parquet(tmp_path / "rows.parquet")
    path = tmp_path / "rows.parquet"
    assert rfsize.tree_outputs(forest, path).votes == rfsize.tree_outputs(forest, frame).votes
    assert rfsize.compile(forest).predict(path).tolist() == forest.predict(frame).tolist()
    frame.drop(columns="x3").to_parquet(path)
    with pytest.raises(ValueError, match=r"missing \['x3'\]"):
        rfsize.tree_outputs(forest, path)


def test_copies_are_found(data: Data, tmp_path: Path) -> None:
    X = np.repeat(data.X[:300], 2, axis=0)
    forest = RandomForestClassifier(40, random_state=0).fit(X, np.repeat(data.y[:300], 2))
    for name, source in SOURCES.items():
        if name not in ("a Parquet file", "its name"):
            folder = tmp_path / name
            folder.mkdir()
            votes = rfsize.tree_outputs(forest, source(X, folder), oob=True).votes
            assert votes == rfsize.tree_outputs(forest, X, oob=True, groups="copies").votes


def test_text_is_the_same_in_all_pieces() -> None:
    """Copies are told by values, wherever these first come up."""
    from rfsize.counting.copies import copies

    text = ["a", "b", "b", None, "c", "a"]
    frame = pd.DataFrame({"word": pd.Series(text, dtype=object), "number": 0.0})
    batches = Batches([frame.iloc[:2], frame.iloc[2:4], frame.iloc[4:]])
    assert copies(as_rows(batches)).index.tolist() == copies(frame).index.tolist()  # type: ignore[union-attr]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_any_rows_are_read(lengths: list[int], draw: st.DataObject) -> None:
    X = np.arange(2.0 * sum(lengths)).reshape(-1, 2)
    pieces = as_rows([Slices(part) for part in np.split(X, np.cumsum(lengths)[:-1])])
    for _ in range(5):
        start = draw.draw(st.integers(0, len(X) - 1))
        stop = draw.draw(st.integers(start + 1, len(X)))
        assert np.array_equal(take(pieces, start, stop), X[start:stop])
        some = np.array(sorted(draw.draw(st.sets(st.integers(0, len(X) - 1), min_size=1))))
        assert np.array_equal(pick(pieces, some), X[some])


def test_each_row_is_read_once(lgb_booster: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfsize.utils.pieces._CELLS", 8 * 53)
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 1 << 15)
    monkeypatch.setattr("rfsize.counting.leaves.CELLS_WORTH_A_LAYOUT", 0)
    rows = Slices(data.fresh)
    for ask in (rfsize.size, rfsize.tree_outputs, lambda model, X: rfsize.compile(model).predict(X)):
        rows.read = 0
        ask(lgb_booster, rows)
        assert rows.read == len(data.fresh)
    batches = Batches(np.array_split(data.fresh, 7))
    rfsize.size(lgb_booster, batches)
    assert batches.begun == 2  # once to know how many rows there are


def test_rows_as_many_as_those_of_training_are_read_again_until_they_are_seen_to_be_others(
    lgb_booster: Any, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rfsize.utils.pieces._CELLS", 8 * 53)
    monkeypatch.setattr("rfsize.counting.training_rows._FEWEST_ROWS", 53)
    rows = Slices(data.X)
    with pytest.warns(rfsize.exceptions.TrainingRowsWarning):
        rfsize.size(lgb_booster, rows)
    assert rows.read == 2 * len(data.X)
    others = Slices(data.X * 3.0)
    rfsize.size(lgb_booster, others)
    assert len(data.X) < others.read < 1.7 * len(data.X)


def test_a_source_must_give_the_same_rows_again(lgb_booster: Any, data: Data) -> None:
    source = Batches(np.array_split(data.X, 7))
    rows: Pieces = as_rows(source)
    source.batches = source.batches[:5]
    with pytest.raises(ValueError, match="7 batches when it was first read, and now 5"):
        rfsize.tree_outputs(lgb_booster, rows)
    source.batches = [data.X[:10]] * 7
    with pytest.raises(ValueError, match="has shape"):
        rfsize.tree_outputs(lgb_booster, as_rows(rows))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Batches([]), "gives no batch"),
        ([Slices(np.ones((3, 2))), Slices(np.ones((0, 2)))], "none that is empty"),
        (Batches([np.ones((3, 8)), pd.DataFrame(np.ones((3, 8)))]), "and the pieces before it have"),
        (Batches([np.ones((3, 8)), np.ones((3, 7))]), "7 columns"),
        ("nowhere", "nowhere, which does not exist"),
        (__file__, "neither a Parquet file nor a folder of them"),
    ],
)
def test_what_is_refused(lgb_booster: Any, source: Any, message: str) -> None:
    with pytest.raises((ValueError, OSError), match=message):
        rfsize.tree_outputs(lgb_booster, source)


def test_categories_must_be_those_of_the_first_piece(lgb_booster: Any) -> None:
    frame = pd.DataFrame({name: pd.Categorical(["a", "b"]) if name == "x0" else [0.0, 1.0] for name in NAMES})
    other = frame.assign(x0=pd.Categorical(["c", "b"]))
    with pytest.raises(ValueError, match="same categories"):
        as_rows(Batches([frame, other])).read(0, 4)


def test_columns_named_as_what_sources_offer_are_columns(data: Data) -> None:
    names = ["next", "reset", "batch_size", "get_fragments", *map(str, range(data.X.shape[1] - 4))]
    frame = pd.DataFrame(data.X, columns=names)
    assert pieces_of(frame) is None
    named, plain = (RandomForestClassifier(3, random_state=0).fit(X, data.y) for X in (frame, data.X))
    assert rfsize.tree_outputs(named, frame).votes == rfsize.tree_outputs(plain, data.X).votes
