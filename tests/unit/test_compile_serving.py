"""Compiled forests in services: threads, processes, pickles, processors, and machines without the frameworks."""

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

import rfsize
from helpers.zoo import calibrated, model, rows_for

NAMES = ["lgb classifier", "xgb softprob", "extra-trees", "lgb poisson"]


def stopped(name: str, **options: Any) -> rfsize.CompiledForest:
    """With a table, so that rows leave at different trees."""
    of_numbers = {"metric": "scores", "tolerance": 0.5} if name == "lgb poisson" else {}
    of_shares = {"metric": "probabilities", "tolerance": 0.1} if name == "xgb softprob" else {}
    return rfsize.compile(model(name), calibrated(name, **of_numbers, **of_shares), **options)


@pytest.mark.parametrize("name", NAMES)
def test_threads_and_blocks_change_nothing(name: str) -> None:
    X = rows_for(name, 20_000)
    for make in (stopped, lambda name, **options: rfsize.compile(model(name), **options)):
        expected, trees = make(name, n_jobs=1).predict(X, return_trees=True)
        for n_jobs, rows in ((4, slice(0, 20_000)), (2, slice(5, 2060)), (3, slice(2000, 19_000))):
            actual, n_used = make(name, n_jobs=n_jobs).predict(X[rows], return_trees=True)
            assert np.array_equal(actual, expected[rows])
            assert np.array_equal(n_used, trees[rows])


@pytest.mark.parametrize("name", NAMES)
def test_sixteen_threads_share_one_forest(name: str) -> None:
    X = rows_for(name, 1500)
    expected, fast, wrong = stopped(name).predict(X), stopped(name), []  # which has not predicted yet

    def work(first: int) -> None:
        for row in range(first, 300, 16):
            if not np.array_equal(fast.predict(X[row : row + 1])[0], expected[row]):
                wrong.append(row)
        if not np.array_equal(fast.predict(X), expected):
            wrong.append(-1)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("name", NAMES)
def test_pickles_and_joblib(name: str) -> None:
    X, fast = rows_for(name, 1500), stopped(name)
    size = len(pickle.dumps(fast))
    expected = fast.predict(X)
    assert len(pickle.dumps(fast)) == size
    again = pickle.loads(pickle.dumps(fast))
    for rows in (slice(None), slice(1)):
        assert np.array_equal(again.predict(X[rows]), expected[rows])
    parts = Parallel(2, backend="threading")(delayed(fast.predict)(part) for part in np.array_split(X, 4))
    assert np.array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("name", NAMES)
def test_arrays_of_a_pickle_may_lie_anywhere(name: str) -> None:
    """A message between machines holds the arrays of a pickle wherever they come to lie, and nobody may write there."""
    fast, X, arrays = rfsize.compile(model(name)), rows_for(name, 50), []
    pickled = pickle.dumps(fast, protocol=5, buffer_callback=arrays.append)
    assert arrays
    sent = [memoryview(b"-" + array.raw())[1:] for array in arrays]
    assert np.array_equal(pickle.loads(pickled, buffers=sent).predict(X), fast.predict(X))


def _in_child(fast: Any, X: np.ndarray, result: Any) -> None:
    result.put((fast.predict(X), fast.predict(X[:1])))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_after_a_fork() -> None:
    X, fast = rows_for("lgb classifier", 9000), stopped("lgb classifier", n_jobs=2)
    expected = fast.predict(X)  # by threads, before the fork
    context = multiprocessing.get_context("fork")
    result = context.Queue()
    child = context.Process(target=_in_child, args=(fast, X, result))
    child.start()
    many, first = result.get(timeout=60)
    child.join()
    assert many.tolist() == expected.tolist()
    assert first.tolist() == expected[:1].tolist()


def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=variables)


def test_a_service_needs_no_framework(tmp_path: Path) -> None:
    X, fast = rows_for("lgb classifier", 600), stopped("lgb classifier")
    fast.save(tmp_path / "forest.rfsize")
    np.save(tmp_path / "rows.npy", X)
    code = (
        "import sys; sys.modules.update(lightgbm=None, xgboost=None, pandas=None, sklearn=None)\n"
        "import numpy as np, rfsize\n"
        "fast, rows = rfsize.load(sys.argv[1]), np.load(sys.argv[2])\n"
        "print(''.join(fast.predict(rows)), end='')"
    )
    done = run(code, str(tmp_path / "forest.rfsize"), str(tmp_path / "rows.npy"))
    assert done.stdout == "".join(fast.predict(X)), done.stderr


ON_A_LEVEL = """
import hashlib, sys, numpy as np, rfsize
from rfsize import _core
hashed, X = hashlib.sha256(), np.load(sys.argv[1])
for path in sys.argv[2:]:
    fast = rfsize.load(path, n_jobs=1)
    for n in (1, 70, 600, 2500):
        for answer in (fast.predict_proba(X[:n]), fast.predict_labels(X[:n]), fast.votes(X[:n]).counts):
            hashed.update(answer.tobytes())
print(_core.processor(), hashed.hexdigest())
"""


def test_processors_of_every_level_predict_alike(tmp_path: Path) -> None:
    X, y = rows_for("random forest", 2500), rows_for("random forest", 2500)[:, 0] > 0
    np.save(tmp_path / "rows.npy", X)
    for leaves in (5, 31, 600):
        forest = RandomForestClassifier(20, max_leaf_nodes=leaves, random_state=0).fit(X.round(9 - leaves // 75), y)
        rfsize.compile(forest).save(tmp_path / f"{leaves}.rfsize")
    rfsize.compile(model("xgb softprob")).save(tmp_path / "single.rfsize")
    files = [str(tmp_path / name) for name in ("rows.npy", "5.rfsize", "31.rfsize", "600.rfsize", "single.rfsize")]
    runs = {level: run(ON_A_LEVEL, *files, RFSIZE_PROCESSOR=level) for level in ("baseline", "v3", "v4")}
    answers = {level: done.stdout.split() for level, done in runs.items() if done.returncode == 0}
    assert "baseline" in answers, runs["baseline"].stderr
    assert [answer[0] for answer in answers.values()] == list(answers)
    assert len({answer[1] for answer in answers.values()}) == 1
    refused = [done.stderr for level, done in runs.items() if level not in answers]
    assert all("RFSIZE_PROCESSOR" in error for error in [*refused, run("import rfsize", RFSIZE_PROCESSOR="v9").stderr])
