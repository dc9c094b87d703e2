"""Stop tables on compiled forests, threads and processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.ensemble import RandomForestClassifier

import reference.counting
import reference.stopping
import rfsize
from helpers.forests import Data


def test_binary_tables(booster: Any, rows: np.ndarray, data: Data) -> None:
    table = rfsize.StopTable.build(61, prior=rfsize.tree_outputs(booster, data.fresh).votes, alpha=0.95)
    labels, asked = rfsize.compile(booster, table).predict_labels(rows, return_trees=True)
    expected, trees = table.apply(rfsize.tree_outputs(booster, rows).by_tree())
    assert np.array_equal(labels, expected)
    assert np.array_equal(asked, trees)
    assert asked.min() < asked.max()


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_tables_of_more_classes(framework: str, rows: np.ndarray, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue("lgb_multiclass" if framework == "lightgbm" else "xgb_multiclass")
    table = rfsize.StopTable.build(21, n_classes=3, alpha=0.9)
    labels, asked = rfsize.compile(model, table).predict_labels(rows, return_trees=True)
    expected, trees = table.apply(rfsize.tree_outputs(model, rows).by_tree())
    assert np.array_equal(labels, expected)
    assert np.array_equal(asked, trees)
    assert asked.min() < asked.max()


def test_a_lossless_table_changes_no_label(booster: Any, rows: np.ndarray) -> None:
    fast = rfsize.compile(booster, rfsize.StopTable.build(61, alpha=1.0))
    labels, asked = fast.predict_labels(rows, return_trees=True)
    assert np.array_equal(labels, rfsize.compile(booster, voting="hard").predict_labels(rows))
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
    labels, asked = fast.predict_labels(rows, return_trees=True)
    proba, votes = fast.predict_proba(rows), fast.votes(rows)
    for n_jobs, block in ((4, 4096), (2, 100), (1, 17), (3, 1)):
        monkeypatch.setattr("rfsize.walking.quantising._FEWEST_ROWS", block)
        monkeypatch.setattr("rfsize.walking.quantising._MOST_ROWS", block)
        fast.n_jobs = n_jobs
        some = rows[: 200 * block]
        again, trees = fast.predict_labels(some, return_trees=True)
        assert np.array_equal(again, labels[: len(some)])
        assert np.array_equal(trees, asked[: len(some)])
        assert np.array_equal(fast.predict_proba(some), proba[: len(some)])
        assert np.array_equal(fast.votes(some).counts, votes.counts[: len(some)])
    one_by_one = np.concatenate([fast.predict_labels(row[None]) for row in rows[:100]])
    assert np.array_equal(one_by_one, labels[:100])


def test_sixteen_threads_share_one_predictor(booster: Any, rows: np.ndarray) -> None:
    fast = rfsize.compile(booster, rfsize.StopTable.build(61))
    expected, wrong = fast.predict_labels(rows), []

    def work() -> None:
        for _ in range(3):
            if not np.array_equal(fast.predict_labels(rows), expected):
                wrong.append(threading.get_ident())

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_joblib_workers_and_pickles(booster: Any, rows: np.ndarray) -> None:
    fast = rfsize.compile(booster, rfsize.StopTable.build(61))
    expected = fast.predict_labels(rows)
    assert np.array_equal(pickle.loads(pickle.dumps(fast)).predict_labels(rows), expected)
    for backend in ("loky", "threading"):
        parts = Parallel(2, backend=backend)(delayed(fast.predict_labels)(part) for part in np.array_split(rows, 4))
        assert np.array_equal(np.concatenate(parts), expected)


def _in_child(fast: Any, rows: np.ndarray, result: Any) -> None:
    result.put(fast.predict_labels(rows))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_after_a_fork(booster: Any, rows: np.ndarray) -> None:
    fast = rfsize.compile(booster)
    expected = fast.predict_labels(rows)  # with threads, before the fork
    context = multiprocessing.get_context("fork")
    result = context.Queue()
    child = context.Process(target=_in_child, args=(fast, rows, result))
    child.start()
    assert np.array_equal(result.get(timeout=60), expected)
    child.join()


def test_a_service_needs_no_framework(booster: Any, rows: np.ndarray, tmp_path: Path) -> None:
    rfsize.compile(booster).save(tmp_path / "forest.npz")
    np.save(tmp_path / "rows.npy", rows)
    code = (
        "import sys; sys.modules.update(lightgbm=None, xgboost=None, pandas=None)\n"
        "import numpy as np, rfsize\n"
        f"fast, rows = rfsize.load({str(tmp_path / 'forest.npz')!r}), np.load({str(tmp_path / 'rows.npy')!r})\n"
        "print(fast.predict_labels(rows).sum())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(printed) == rfsize.compile(booster).predict_labels(rows).sum()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("n_trees", [1, 4, 31])
def test_trees_are_left_out_only_where_they_cannot_change_the_majority(
    n_trees: int, n_classes: int, data: Data, rows: np.ndarray
) -> None:
    y = np.digitize(data.X[:, 0] + data.X[:, 1], np.linspace(-1, 1, n_classes + 1)[1:-1])
    model = RandomForestClassifier(n_trees, max_depth=4, random_state=0).fit(data.X, y)
    fast, votes = rfsize.compile(model, voting="hard"), rfsize.tree_outputs(model, rows).by_tree()
    labels, asked = fast.predict_labels(rows, return_trees=True)
    assert np.array_equal(labels, rfsize.Votes(reference.counting.votes(votes.T, n_classes)).winner())
    for row in range(200):
        counts = [int((votes[row, : asked[row]] == k).sum()) for k in range(n_classes)]
        assert reference.stopping.settled(counts, n_trees - int(asked[row])) == labels[row]
        alone, trees = fast.predict_labels(rows[row : row + 1], return_trees=True)
        assert (alone[0], trees[0]) == (labels[row], asked[row])
    if n_trees == 31:
        assert asked.mean() < n_trees
