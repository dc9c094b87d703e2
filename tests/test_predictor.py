"""Stop tables on compiled forests, threads and processes, and the file."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import naive
import numpy as np
import pytest
from conftest import Data, predict, train_lightgbm, train_xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import Parallel, delayed
from sklearn.ensemble import RandomForestClassifier

import rfsize


@pytest.fixture(scope="module")
def rows(data: Data) -> np.ndarray:
    """Enough rows for several blocks and threads."""
    return np.random.default_rng(11).normal(size=(9001, data.X.shape[1]))


@pytest.mark.parametrize("rule", ["threshold", "optimal", "robust"])
def test_binary_tables(rule: Any, booster: Any, rows: np.ndarray, data: Data) -> None:
    table = rfsize.StopTable.build(61, prior=rfsize.votes(booster, data.fresh), rule=rule, alpha=0.95)
    labels, asked = rfsize.compile(booster, table).predict(rows, return_trees=True)
    expected, trees = table.apply(rfsize.tree_votes(booster, rows))
    assert np.array_equal(labels, expected)
    assert np.array_equal(asked, trees)
    assert asked.min() < asked.max()


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("kind", ["ternary", "leaders"])
def test_tables_of_more_classes(
    kind: str, framework: str, rows: np.ndarray, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = request.getfixturevalue("lgb_multiclass" if framework == "lightgbm" else "xgb_multiclass")
    if kind == "leaders":
        monkeypatch.setattr("rfsize.stop_rules.MAX_TERNARY", 0)
        monkeypatch.setattr("rfsize.stop_table.MAX_TERNARY", 0)
    table = rfsize.StopTable.build(21, n_classes=3, alpha=0.9)
    assert table.kind == kind
    labels, asked = rfsize.compile(model, table).predict(rows, return_trees=True)
    expected, trees = table.apply(rfsize.tree_votes(model, rows))
    assert np.array_equal(labels, expected)
    assert np.array_equal(asked, trees)
    assert asked.min() < asked.max()


def test_a_lossless_table_changes_no_label(booster: Any, rows: np.ndarray) -> None:
    fast = rfsize.compile(booster, rfsize.StopTable.build(61, alpha=1.0))
    labels, asked = fast.predict(rows, return_trees=True)
    assert np.array_equal(labels, rfsize.compile(booster).predict(rows))
    assert asked.max() <= 61
    assert asked.mean() < 50


def test_a_table_for_another_forest_is_refused(booster: Any) -> None:
    with pytest.raises(ValueError, match="the table is for 31 trees and 2 classes, the forest has 61"):
        rfsize.compile(booster, rfsize.StopTable.build(31))
    with pytest.raises(ValueError, match="3 classes"):
        rfsize.compile(booster, rfsize.StopTable.build(61, n_classes=3))


def test_neither_threads_nor_blocks_change_anything(
    booster: Any, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = rfsize.compile(booster, rfsize.StopTable.build(61), n_jobs=1)
    labels, asked = fast.predict(rows, return_trees=True)
    proba, votes = fast.predict_proba(rows), fast.votes(rows)
    for n_jobs, block in ((4, 4096), (2, 100), (1, 17), (3, 1)):
        monkeypatch.setattr("rfsize.predictor._FEWEST_ROWS", block)
        monkeypatch.setattr("rfsize.predictor._MOST_ROWS", block)
        fast.n_jobs = n_jobs
        some = rows[: 200 * block]
        again, trees = fast.predict(some, return_trees=True)
        assert np.array_equal(again, labels[: len(some)])
        assert np.array_equal(trees, asked[: len(some)])
        assert np.array_equal(fast.predict_proba(some), proba[: len(some)])
        assert np.array_equal(fast.votes(some).counts, votes.counts[: len(some)])
    one_by_one = np.concatenate([fast.predict(row[None]) for row in rows[:100]])
    assert np.array_equal(one_by_one, labels[:100])


def test_sixteen_threads_share_one_predictor(booster: Any, rows: np.ndarray) -> None:
    fast = rfsize.compile(booster, rfsize.StopTable.build(61))
    expected, wrong = fast.predict(rows), []

    def work() -> None:
        for _ in range(3):
            if not np.array_equal(fast.predict(rows), expected):
                wrong.append(threading.get_ident())

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_joblib_workers_and_pickles(booster: Any, rows: np.ndarray) -> None:
    fast = rfsize.compile(booster, rfsize.StopTable.build(61))
    expected = fast.predict(rows)
    assert np.array_equal(pickle.loads(pickle.dumps(fast)).predict(rows), expected)
    for backend in ("loky", "threading"):
        parts = Parallel(2, backend=backend)(delayed(fast.predict)(part) for part in np.array_split(rows, 4))
        assert np.array_equal(np.concatenate(parts), expected)


def _in_child(fast: Any, rows: np.ndarray, result: Any) -> None:
    result.put(fast.predict(rows))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_after_a_fork(booster: Any, rows: np.ndarray) -> None:
    fast = rfsize.compile(booster)
    expected = fast.predict(rows)  # with threads, before the fork
    context = multiprocessing.get_context("fork")
    result = context.Queue()
    child = context.Process(target=_in_child, args=(fast, rows, result))
    child.start()
    assert np.array_equal(result.get(timeout=60), expected)
    child.join()


# ---------------------------------------------------------------------------------------------------------
# The file


@pytest.mark.parametrize("name", ["lgb_booster", "xgb_booster", "lgb_multiclass", "xgb_multiclass"])
def test_a_file_holds_everything(name: str, rows: np.ndarray, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(name)
    classes = 3 if "multiclass" in name else 2
    trees = rfsize.votes(model, rows[:10]).n_trees
    for table in (None, rfsize.StopTable.build(trees, n_classes=classes, alpha=0.95)):
        fast = rfsize.compile(model, table)
        fast.save(tmp_path / "forest.npz")
        again = rfsize.load(tmp_path / "forest.npz")
        assert np.array_equal(again.predict(rows), fast.predict(rows))
        assert np.array_equal(again.predict_proba(rows), fast.predict_proba(rows))
        assert again.votes(rows) == fast.votes(rows)
        assert again.table == table
        assert repr(again.forest.conventions) == repr(fast.forest.conventions)
        assert repr(again) == repr(fast)
    assert not (tmp_path / "forest.npz.partial").exists()


def test_a_service_needs_no_framework(booster: Any, rows: np.ndarray, tmp_path: Path) -> None:
    rfsize.compile(booster).save(tmp_path / "forest.npz")
    np.save(tmp_path / "rows.npy", rows)
    code = (
        "import sys; sys.modules.update(lightgbm=None, xgboost=None, pandas=None)\n"
        "import numpy as np, rfsize\n"
        f"print(rfsize.load({str(tmp_path / 'forest.npz')!r}).predict(np.load({str(tmp_path / 'rows.npy')!r})).sum())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(printed) == rfsize.compile(booster).predict(rows).sum()


@pytest.mark.skipif(sys.platform == "win32", reason="folders are write-protected otherwise on Windows")
def test_no_folder_can_be_written(booster: Any, rows: np.ndarray, tmp_path: Path) -> None:
    """numba finds no place for its files: compiled code is then not kept, and everything works."""
    rfsize.compile(booster).save(tmp_path / "forest.npz")
    np.save(tmp_path / "rows.npy", rows[:50])
    # The locators of numba's cache ask whether a folder can be written; the tests may run as one who always can.
    code = (
        "import numba.core.caching as caching\n"
        "caching._CacheLocator.ensure_cache_path = lambda self: (_ for _ in ()).throw(OSError('read-only'))\n"
        "import numpy as np, rfsize\n"
        f"print(rfsize.load({str(tmp_path / 'forest.npz')!r}).predict(np.load({str(tmp_path / 'rows.npy')!r})).sum())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(printed) == rfsize.compile(booster).predict(rows[:50]).sum()


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
    except (rfsize.ForestFileError, rfsize.TableError):
        return
    # What is left is the padding and the dates of the archive.
    path.write_bytes(saved)
    assert np.array_equal(fast.predict(rows[:50]), rfsize.load(path).predict(rows[:50]))


def rewritten(saved: bytes, path: Path, compress: bool = False, **changes: Any) -> Path:
    """The file with some arrays changed, as someone would who wants to be read."""
    with np.load(io.BytesIO(saved)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for name, change in changes.items():
        name = name.replace("__", ".")
        if name == "metadata":
            metadata = json.loads(arrays["metadata"].tobytes())
            change(metadata)
            arrays["metadata"] = np.frombuffer(json.dumps(metadata).encode(), dtype=np.uint8)
        else:
            arrays[name] = change(arrays[name].copy())
    (np.savez_compressed if compress else np.savez)(path, **arrays)
    return path


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_two_classes_of_a_softmax(framework: str, data: Data, rows: np.ndarray, tmp_path: Path) -> None:
    if framework == "lightgbm":
        model = train_lightgbm(data.X, data.y, 15, objective="multiclass", num_class=2)
    else:
        model = train_xgboost(data.X, data.y, 15, objective="multi:softprob", num_class=2)
    rfsize.compile(model).save(tmp_path / "fast.npz")
    fast = rfsize.load(tmp_path / "fast.npz")
    assert fast.votes(rows) == rfsize.votes(model, rows)
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
        {"metadata": lambda metadata: metadata.update(version=1)},
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
        {"compress": True},
    ],
)
def test_a_hostile_file_is_refused(changes: dict[str, Any], saved: bytes, tmp_path: Path) -> None:
    if "extra" in changes:
        with np.load(io.BytesIO(saved)) as archive:
            np.savez(tmp_path / "forest.npz", extra=np.zeros(1), **archive)
        path = tmp_path / "forest.npz"
    else:
        path = rewritten(saved, tmp_path / "forest.npz", **changes)
    with pytest.raises((rfsize.ForestFileError, rfsize.TableError)):
        rfsize.load(path)


def test_a_file_that_claims_a_huge_array_is_refused(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "forest.npz"
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "trees.nodes.npy":
                header = io.BytesIO()
                np.lib.format.write_array_header_1_0(
                    header, {"descr": "<u8", "fortran_order": False, "shape": (1 << 50,)}
                )
                content = header.getvalue()
            new.writestr(name, content)
    with pytest.raises(rfsize.ForestFileError, match="not of the size it claims"):
        rfsize.load(path)


def test_other_files_are_refused(tmp_path: Path, lgb_booster: Any) -> None:
    path = tmp_path / "forest.npz"
    path.write_text("hello")
    with pytest.raises(rfsize.ForestFileError, match="no forest file"):
        rfsize.load(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(rfsize.ForestFileError, match="other arrays"):
        rfsize.load(path)
    with pytest.raises(OSError, match="No such file"):
        rfsize.load(tmp_path / "none.npz")
    with pytest.raises(OSError, match="No such file"):
        rfsize.compile(lgb_booster).save(tmp_path / "none" / "forest.npz")
    fast = rfsize.compile(lgb_booster)
    object.__setattr__(fast.forest, "classes", np.array([None, 1], dtype=object))
    with pytest.raises(ValueError, match="numbers or text"):
        fast.save(path)


def test_compiled_code_is_not_kept_among_the_sources(booster: Any, tmp_path: Path) -> None:
    """pip would leave it behind, and Python take the folder for a package."""
    rfsize.compile(booster).save(tmp_path / "forest.npz")
    code = (
        "import numpy as np, rfsize, rfsize.kernels as kernels\n"
        f"rfsize.load({str(tmp_path / 'forest.npz')!r}).predict(np.zeros((3, 8)))\n"
        "print(kernels.decide._cache._cache_path)"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    kept = Path(run.stdout.strip())
    assert (tmp_path / "rfsize") in kept.parents
    assert any(kept.glob("*.nbi"))


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("n_trees", [1, 4, 31])
def test_trees_are_left_out_only_where_they_cannot_change_the_majority(
    n_trees: int, n_classes: int, data: Data, rows: np.ndarray
) -> None:
    y = np.digitize(data.X[:, 0] + data.X[:, 1], np.linspace(-1, 1, n_classes + 1)[1:-1])
    model = RandomForestClassifier(n_trees, max_depth=4, random_state=0).fit(data.X, y)
    fast, votes = rfsize.compile(model), rfsize.tree_votes(model, rows)
    labels, asked = fast.predict(rows, return_trees=True)
    assert np.array_equal(labels, rfsize.Votes(naive.votes(votes.T, n_classes)).winner())
    for row in range(200):
        counts = [int((votes[row, : asked[row]] == k).sum()) for k in range(n_classes)]
        assert naive.settled(counts, n_trees - int(asked[row])) == labels[row]
        alone, trees = fast.predict(rows[row : row + 1], return_trees=True)
        assert (alone[0], trees[0]) == (labels[row], asked[row])
    if n_trees == 31:
        assert asked.mean() < n_trees
