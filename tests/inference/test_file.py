"""Saved forests: what survives, and what is refused."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rfsize
from helpers.compiled_forests import REGRESSORS
from helpers.forests import Data, predict, train_lightgbm, train_xgboost


@pytest.mark.parametrize("name", ["lgb_booster", "xgb_booster", "lgb_multiclass", "xgb_multiclass"])
def test_a_file_holds_everything(name: str, rows: np.ndarray, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(name)
    classes = 3 if "multiclass" in name else 2
    trees = rfsize.tree_outputs(model, rows[:10]).votes.n_trees
    for table in (None, rfsize.StopTable.build(trees, n_classes=classes, alpha=0.95)):
        fast = rfsize.compile(model, table)
        fast.save(tmp_path / "forest.npz")
        again = rfsize.load(tmp_path / "forest.npz")
        assert np.array_equal(again.predict(rows), fast.predict(rows))
        assert np.array_equal(again.predict_labels(rows), fast.predict_labels(rows))
        assert np.array_equal(again.predict_proba(rows), fast.predict_proba(rows))
        assert again.votes(rows) == fast.votes(rows)
        assert again.table == table
        assert repr(again.forest.conventions) == repr(fast.forest.conventions)
        assert repr(again) == repr(fast)


def assert_same_predictions(again: Any, fast: Any, rows: np.ndarray) -> None:
    for X in (rows, rows[:3]):
        for one, other in zip(again.predict(X, return_trees=True), fast.predict(X, return_trees=True), strict=True):
            assert np.array_equal(one, other)
        if len(fast.classes):
            labels = (of.predict_labels(X, return_trees=True) for of in (again, fast))
            assert all(np.array_equal(*both) for both in zip(*labels, strict=True))
            assert np.array_equal(again.predict_proba(X), fast.predict_proba(X))
    assert again.table == fast.table
    assert again.voting == fast.voting
    assert again.forest.threshold == fast.forest.threshold
    assert again.forest.trees.value.dtype == fast.forest.trees.value.dtype
    assert repr(again) == repr(fast)


def fresh(rows: np.ndarray) -> np.ndarray:
    return np.random.default_rng(22).normal(size=(2000, rows.shape[1]))


@pytest.mark.parametrize("table", ["none", "labels", "probabilities"])
@pytest.mark.parametrize("threshold", [0.3, 0.5])
def test_averaged_scores_and_their_tables(
    table: Any, threshold: float, booster: Any, rows: np.ndarray, tmp_path: Path
) -> None:
    settings = {"tolerance": 0.05} if table == "probabilities" else {"threshold": threshold}
    stops = (
        None
        if table == "none"
        else rfsize.StopTable.calibrate(booster, fresh(rows), alpha=0.9, metric=table, **settings)
    )
    fast = rfsize.compile(booster, stops, threshold=threshold)
    fast.save(tmp_path / "forest.npz")
    assert_same_predictions(rfsize.load(tmp_path / "forest.npz"), fast, rows)


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_what_labels_go_by(voting: Any, lgb_multiclass: Any, rows: np.ndarray, tmp_path: Path) -> None:
    fast = rfsize.compile(lgb_multiclass, voting=voting)
    fast.save(tmp_path / "forest.npz")
    assert_same_predictions(rfsize.load(tmp_path / "forest.npz"), fast, rows)


@pytest.mark.parametrize("name", ["lgb regression", "lgb square roots", "xgb poisson", "random forest regression"])
@pytest.mark.parametrize("with_table", [False, True])
def test_regression_forests(with_table: bool, name: str, data: Data, rows: np.ndarray, tmp_path: Path) -> None:
    model = REGRESSORS[name](data)
    calibrate = rfsize.StopTable.calibrate
    table = calibrate(model, fresh(rows), alpha=0.9, metric="scores", tolerance=0.3) if with_table else None
    fast = rfsize.compile(model, table)
    fast.save(tmp_path / "forest.npz")
    assert_same_predictions(rfsize.load(tmp_path / "forest.npz"), fast, rows)


@pytest.fixture(scope="module")
def saved(lgb_booster: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "forest.npz"
    rfsize.compile(lgb_booster, rfsize.StopTable.build(61)).save(path)
    return path.read_bytes()


@settings(max_examples=300)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
def test_a_damaged_file_is_refused(
    saved: bytes, rows: np.ndarray, tmp_path_factory: pytest.TempPathFactory, place: float, bit: int, cut: bool
) -> None:
    at = int(place * len(saved))
    content = bytearray(saved)
    content[at] ^= 1 << bit
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(content[:at] if cut else content)
    try:
        fast = rfsize.load(path)
    except (rfsize.exceptions.ForestFileError, rfsize.exceptions.TableError):
        return
    # What is left is the padding and the dates of the archive.
    path.write_bytes(saved)
    assert np.array_equal(fast.predict(rows[:50]), rfsize.load(path).predict(rows[:50]))


BY_BYTES = {"trees.nodes": "<u8", "columns.cuts": "<f8"}


def by_bytes(numbers: np.ndarray) -> np.ndarray:
    """The first bytes of all numbers, then their second bytes, …, as files hold them."""
    content = numbers.tobytes()
    return np.frombuffer(b"".join(content[place::8] for place in range(8)), dtype=np.uint8)


def numbers_of(content: np.ndarray, dtype: str) -> np.ndarray:
    """What `by_bytes` was given."""
    size = len(content) // 8
    return np.frombuffer(b"".join(content[place::size].tobytes() for place in range(size)), dtype=dtype)


def rewritten(saved: bytes, path: Path, **changes: Any) -> Path:
    """The file with some arrays changed, as someone would who wants to be read."""
    with np.load(io.BytesIO(saved)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for name, change in changes.items():
        name = name.replace("__", ".")
        if name == "metadata":
            metadata = json.loads(arrays["metadata"].tobytes())
            change(metadata)
            arrays["metadata"] = np.frombuffer(json.dumps(metadata).encode(), dtype=np.uint8)
        elif name in BY_BYTES:
            found = change(numbers_of(arrays[name], BY_BYTES[name]).copy())
            arrays[name] = by_bytes(found) if found.dtype == BY_BYTES[name] and found.ndim == 1 else found
        else:
            arrays[name] = change(arrays[name].copy())
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_two_classes_of_a_softmax(framework: str, data: Data, rows: np.ndarray, tmp_path: Path) -> None:
    if framework == "lightgbm":
        model = train_lightgbm(data.X, data.y, 15, objective="multiclass", num_class=2)
    else:
        model = train_xgboost(data.X, data.y, 15, objective="multi:softprob", num_class=2)
    rfsize.compile(model).save(tmp_path / "fast.npz")
    fast = rfsize.load(tmp_path / "fast.npz")
    assert fast.votes(rows) == rfsize.tree_outputs(model, rows).votes
    assert fast.predict_proba(rows) == pytest.approx(predict(model, rows), abs=1e-6)


def put(index: Any, value: Any) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array[index] = value
        return array

    return change


LEFT, COLUMN = np.uint64(1 << 36), np.uint64(1 << 16)


@pytest.mark.parametrize(
    "changes",
    [
        {"trees__nodes": lambda nodes: np.where(nodes == nodes[0], nodes + LEFT, nodes)},
        {"trees__nodes": lambda nodes: np.where(nodes == nodes[0], nodes - LEFT, nodes)},
        {"trees__nodes": lambda nodes: np.where(nodes == nodes[0], nodes + COLUMN * np.uint64(1000), nodes)},
        {"trees__nodes": lambda nodes: np.where(nodes == nodes[0], nodes | np.uint64(0xFFFE), nodes)},
        {"trees__nodes": lambda nodes: np.where(nodes == nodes[0], nodes | np.uint64(0xFFFF), nodes)},
        {"trees__nodes": lambda nodes: np.where(nodes == nodes[0], nodes | np.uint64(1 << 35), nodes)},
        {"trees__nodes": lambda nodes: nodes[:-1]},
        {"trees__nodes": lambda nodes: by_bytes(nodes)[:-1]},
        {"trees__nodes": lambda nodes: nodes.astype(np.int64)},
        {"trees__nodes": lambda nodes: nodes.reshape(1, -1)},
        {"trees__value": put(-1, np.nan)},
        {"trees__value": lambda value: value[:-1]},
        {"trees__value": lambda value: np.tile(value, 2)},
        {"trees__value": lambda value: np.tile(value, 3)},
        {"trees__value": lambda value: value[:0]},
        {"trees__vote": put(-1, 2)},
        {"trees__vote": lambda vote: vote[:-1]},
        {"trees__tree_start": put(1, 2)},
        {"trees__tree_start": put(-1, 10**12)},
        {"trees__tree_start": put(slice(1, 3), [2**63 - 1, -2])},
        {"trees__tree_start": lambda start: start[:1]},
        {"trees__bits": lambda bits: np.zeros(3, np.uint32)},
        {"columns__feature": put(0, -1)},
        {"columns__feature": put(-1, 8)},
        {"columns__feature": lambda feature: feature[::-1].copy()},
        {"columns__cuts": put(0, np.nan)},
        {"columns__cuts": lambda cuts: cuts[::-1].copy()},
        {"columns__cuts": lambda cuts: cuts[:-1]},
        {"columns__cut_start": put(1, -5)},
        {"columns__start": put(1, 0)},
        {"columns__start": put(slice(1, 3), [2**63 - 1, -2])},
        {"columns__cut_start": put(slice(1, 3), [2**63 - 1, -2])},
        {"columns__missing": put(0, 6)},
        {"columns__missing": put(0, 5)},
        {"columns__base": put(0, -1)},
        {"columns__base": put(0, 10**9)},
        {"classes": lambda classes: classes[:1]},
        {"classes": lambda classes: np.zeros(2)},
        {"classes": lambda classes: np.full(2, np.nan)},
        {"classes": lambda classes: classes.astype(complex)},
        {"metadata": lambda metadata: metadata.update(version=3)},
        {"metadata": lambda metadata: metadata.update(format="other")},
        {"metadata": lambda metadata: metadata.update(n_outputs=3)},
        {"metadata": lambda metadata: metadata.update(n_outputs=True)},
        {"metadata": lambda metadata: metadata.update(n_features=10**30)},
        {"metadata": lambda metadata: metadata.update(n_features=2)},
        {"metadata": lambda metadata: metadata.update(feature_names=["a"])},
        {"metadata": lambda metadata: metadata.update(feature_names=[1] * 8)},
        {"metadata": lambda metadata: metadata.pop("table")},
        {"metadata": lambda metadata: metadata.update(table=3)},
        {"metadata": lambda metadata: metadata.update(table=rfsize.StopTable.build(31).to_dict())},
        {"metadata": lambda metadata: metadata["conventions"].update(link="none")},
        {"metadata": lambda metadata: metadata["conventions"].update(slope="nan")},
        {"metadata": lambda metadata: metadata["conventions"].update(slope=1)},
        {"metadata": lambda metadata: metadata["conventions"].update(absent_is_missing=0)},
        {"metadata": lambda metadata: metadata["conventions"].update(categories=[[{}]])},
        {"metadata": lambda metadata: metadata["conventions"].update(categories=[[1]], category_features=[99])},
        {"metadata": lambda metadata: metadata["conventions"].update(category_features=[1])},
        {"extra": lambda array: array},
    ],
)
def test_a_hostile_file_is_refused(changes: dict[str, Any], saved: bytes, tmp_path: Path) -> None:
    if "extra" in changes:
        with np.load(io.BytesIO(saved)) as archive:
            np.savez(tmp_path / "forest.npz", extra=np.zeros(1), **archive)
        path = tmp_path / "forest.npz"
    else:
        path = rewritten(saved, tmp_path / "forest.npz", **changes)
    with pytest.raises((rfsize.exceptions.ForestFileError, rfsize.exceptions.TableError)):
        rfsize.load(path)


def test_nodes_and_thresholds_are_written_by_bytes(saved: bytes, tmp_path: Path) -> None:
    (tmp_path / "forest.npz").write_bytes(saved)
    forest = rfsize.load(tmp_path / "forest.npz").forest
    with np.load(tmp_path / "forest.npz") as archive:
        assert np.array_equal(archive["trees.nodes"], by_bytes(forest.trees.nodes))
        assert np.array_equal(archive["columns.cuts"], by_bytes(forest.columns.cuts))
        assert np.array_equal(numbers_of(archive["trees.nodes"], "<u8"), forest.trees.nodes)


def test_files_are_deflated_and_need_not_be(saved: bytes, rows: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "deflated.npz").write_bytes(saved)
    stored = rewritten(saved, tmp_path / "stored.npz")
    assert len(saved) < 0.5 * stored.stat().st_size
    assert_same_predictions(rfsize.load(stored), rfsize.load(tmp_path / "deflated.npz"), rows)


def test_a_file_that_claims_a_huge_array_is_refused(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "forest.npz"
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "trees.nodes.npy":
                header = io.BytesIO()
                np.lib.format.write_array_header_1_0(
                    header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 50,)}
                )
                content = header.getvalue()
            new.writestr(name, content)
    with pytest.raises(rfsize.exceptions.ForestFileError, match="not of the size it claims"):
        rfsize.load(path)


def test_other_files_are_refused(tmp_path: Path, lgb_booster: Any) -> None:
    path = tmp_path / "forest.npz"
    path.write_text("hello")
    with pytest.raises(rfsize.exceptions.ForestFileError, match="not a forest file"):
        rfsize.load(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(rfsize.exceptions.ForestFileError, match="other arrays"):
        rfsize.load(path)
    with pytest.raises(OSError, match="No such file"):
        rfsize.load(tmp_path / "none.npz")
    with pytest.raises(OSError, match="No such file"):
        rfsize.compile(lgb_booster).save(tmp_path / "none" / "forest.npz")
    fast = rfsize.compile(lgb_booster)
    object.__setattr__(fast.forest, "classes", np.array([None, 1], dtype=object))
    with pytest.raises(ValueError, match="numbers or text"):
        fast.save(path)
