"""Forests trained on the workers of a real cluster: the same whoever trains which block, and whoever is killed."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from helpers.blocks import grown_in_blocks
from helpers.forests import LIGHTGBM, XGBOOST, Data

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

import rfsize.dask  # noqa: E402
from rfsize.dask import clients, held  # noqa: E402
from rfsize.dask.growing import _TrainerOnWorker  # noqa: E402
from rfsize.dask.held import HeldOnWorkers  # noqa: E402
from rfsize.models.framework import framework_named  # noqa: E402

PARAMS = {"lightgbm": LIGHTGBM | {"deterministic": True, "force_col_wise": True}, "xgboost": XGBOOST}
# Two looks, of four blocks and of three, the last of which has five trees.
LOOKS = {"alpha": 0.999, "min_trees": 30, "max_trees": 55, "trees_per_block": 10}

pytestmark = pytest.mark.filterwarnings(
    "ignore::rfsize.exceptions.NotConvergedWarning", "ignore::rfsize.exceptions.LabelsOnlyWarning"
)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with cluster, distributed.Client(cluster) as client:
        yield client


def text(model: Any) -> str:
    return model.model_to_string() if isinstance(model, lgb.Booster) else model.save_raw("json").decode()


def matrix(framework: str, X: Any, y: Any, weight: Any = None) -> Any:
    if framework == "lightgbm":
        return lgb.Dataset(X, y, weight=weight, free_raw_data=False)
    return xgb.DMatrix(X, y, weight=weight)


@pytest.fixture(scope="module")
def undisturbed(client: Any, data: Data) -> Callable[[str], tuple[str, str]]:
    """The forest of each framework that two workers train, and what its report says."""
    found: dict[str, tuple[str, str]] = {}

    def of(framework: str) -> tuple[str, str]:
        if framework not in found:
            model, report = rfsize.dask.grow(client, PARAMS[framework], data.X, data.y, **LOOKS)
            found[framework] = text(model), str(report)
        return found[framework]

    return of


def test_it_is_what_grow_trains_in_blocks(undisturbed: Any, framework: str, data: Data) -> None:
    model, report = grown_in_blocks(PARAMS[framework], matrix(framework, data.X, data.y), **LOOKS)
    assert (text(model), str(report)) == undisturbed(framework)
    assert len(rfsize.inbag(model, data.X, data.y)) == 55


def test_whatever_the_workers_threads_and_chunks(undisturbed: Any, framework: str, data: Data) -> None:
    X, y = da.from_array(data.X, chunks=(400, 3)), da.from_array(data.y, chunks=700)
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=3, dashboard_address=":0") as client:
        model, report = rfsize.dask.grow(client, PARAMS[framework], X, y, **LOOKS)
    assert (text(model), str(report)) == undisturbed(framework)


def test_frames_keep_their_names(client: Any, framework: str, data: Data) -> None:
    frame = pd.DataFrame(data.X, columns=[f"x{place}" for place in range(8)])
    X, y = dd.from_pandas(frame, npartitions=3), dd.from_pandas(pd.Series(data.y), npartitions=2)
    few = {"alpha": 0.5, "min_trees": 10, "trees_per_block": 5}
    model = rfsize.dask.grow(client, PARAMS[framework], X, y, **few)[0]
    assert (model.feature_name() if framework == "lightgbm" else model.feature_names) == list(frame.columns)
    assert text(model) == text(rfsize.dask.grow(client, PARAMS[framework], frame, data.y, **few)[0])


def test_weights_and_numbers_whatever_the_threads(client: Any, framework: str, data: Data) -> None:
    objective = "regression" if framework == "lightgbm" else "reg:squarederror"
    params = {**PARAMS[framework], "objective": objective}
    goal = {"metric": "scores", "tolerance": 0.5, "min_trees": 10, "max_trees": 10, "trees_per_block": 5}
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, size=(12_000, 6)).astype(float)  # with many splits that are nearly as good as each other
    y, weight = np.exp(5 * rng.normal(size=len(X))), np.exp(3 * rng.normal(size=len(X)))
    first = rfsize.dask.grow(client, params, X, y, weight=weight, groups="rows", **goal)[0]
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=3, dashboard_address=":0") as threads:
        other = rfsize.dask.grow(threads, params, X, y, weight=weight, groups="rows", **goal)[0]
    assert text(first) == text(other)


def test_where_sums_are_rounded_xgboost_trains_with_as_many_threads_everywhere(data: Data) -> None:
    """It takes 100,000 rows for one more thread to change a tree."""
    ways = [(XGBOOST, None), (XGBOOST, data.y + 1.0), (XGBOOST | {"objective": "reg:squarederror"}, None)]
    found = [framework_named("xgboost").data_for_any_threads(params, data.X, data.y, weight) for params, weight in ways]
    assert [params.get("nthread") for params, _ in found] == [None, 1, 1]
    named, _ = framework_named("xgboost").data_for_any_threads(XGBOOST | {"n_jobs": 2}, data.X, data.y, data.y + 1.0)
    assert named == XGBOOST | {"n_jobs": 2}


def test_groups_and_copies(client: Any, framework: str, data: Data) -> None:
    X, y = np.repeat(data.X[:500], 2, axis=0), np.repeat(data.y[:500], 2)
    few = {"min_trees": 60, "max_trees": 60, "trees_per_block": 60, "alpha": 0.9}
    _, found = rfsize.dask.grow(client, PARAMS[framework], X, y, **few)
    _, expected = grown_in_blocks(PARAMS[framework], matrix(framework, X, y), **few)
    assert str(found) == str(expected)
    assert found.groups == "copies"


@pytest.fixture
def watch() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """To be run on workers: what begins to count what they make, and what tells it, and how much is left of it.

    Functions inside a function, which Dask sends as they are: this module cannot be imported there.
    """

    def begin(dask_worker: Any) -> None:
        make = dask_worker.make = getattr(dask_worker, "make", _TrainerOnWorker.__init__)
        dask_worker.made = 0

        def counted(self: Any, *arguments: Any) -> None:
            dask_worker.made += 1
            make(self, *arguments)

        _TrainerOnWorker.__init__ = counted  # type: ignore[method-assign]

    def end(dask_worker: Any) -> tuple[int, int]:
        gc.collect()
        kinds = (_TrainerOnWorker, lgb.Dataset, xgb.DMatrix)
        return dask_worker.made, sum(isinstance(one, kinds) for one in gc.get_objects())

    return begin, end


def test_each_worker_holds_the_rows_once(client: Any, watch: Any, framework: str, data: Data) -> None:
    begin, end = watch
    client.run(begin)
    rfsize.dask.grow(client, PARAMS[framework], da.from_array(data.X, chunks=(400, 8)), data.y, **LOOKS)
    assert list(client.run(end).values()) == [(1, 0), (1, 0)]


REFUSED: dict[str, tuple[type[ValueError], str, dict[str, Any]]] = {
    "no client": (ValueError, "give the distributed.Client", {"client": None}),
    "an estimator": (ValueError, "a LGBMClassifier; workers train", {"params": lgb.LGBMClassifier()}),
    "no dict": (ValueError, "must be the training parameters, a dict", {"params": "rf"}),
    "whose": (ValueError, "fit no framework", {"params": {"objective": "binary"}}),
    "boosting": (rfsize.exceptions.NotAForestError, "each tree corrects", {"params": LIGHTGBM | {"boosting": "gbdt"}}),
    "no bags": (rfsize.exceptions.InbagError, "no row is out of bag", {"params": XGBOOST | {"subsample": 1}}),
    "a Dataset": (ValueError, "lightgbm.basic.Dataset; give Dask", {"data": lgb.Dataset(np.ones((3, 2)))}),
    "one column": (ValueError, "as rows and features", {"data": np.ones(1500)}),
    "no labels": (ValueError, "label must hold .* found nothing", {"label": None}),
    "names": (ValueError, "label must hold .* found <U1", {"label": np.array(["a", "b"] * 750)}),
    "NaN": (ValueError, "label must hold one finite number", {"label": np.full(1500, np.nan)}),
    "few labels": (ValueError, "1,500 rows, 3 numbers", {"label": np.ones(3)}),
    "few weights": (ValueError, "weight must hold .* 1,500 rows, 3 numbers", {"weight": np.ones(3)}),
    "few labels of a frame": (
        ValueError,
        "label must hold one number per row of data: 1,500 rows, 3 numbers",
        {"label": np.ones(3), "data": dd.from_pandas(pd.DataFrame(np.ones((1500, 2))), npartitions=2)},
    ),
    "no rows": (ValueError, "no rows", {"data": np.ones((0, 3)), "label": np.ones(0)}),
    "other labels": (ValueError, "class indices 0 to 1", {"params": XGBOOST, "label": np.arange(1500)}),
    "no block": (ValueError, "trees_per_block must be", {"trees_per_block": 0}),
    "no goal": (ValueError, "needs a tolerance", {"metric": "auc"}),
    "a goal of labels": (
        rfsize.exceptions.NotAForestError,
        "cast no votes",
        {"params": LIGHTGBM | {"objective": "regression"}, "alpha": 0.9},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(client: Any, name: str, data: Data) -> None:
    error, says, given = REFUSED[name]
    arguments = {"client": client, "params": LIGHTGBM, "data": data.X, "label": data.y} | given
    with pytest.raises(error, match=says):
        rfsize.dask.grow(**arguments)


def test_a_closed_client_is_refused(data: Data) -> None:
    # With a scheduler of its own: while another client's tasks are cancelled, Dask may fail to connect a second one.
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0", set_as_default=False
    ) as closed:
        pass
    with pytest.raises(ValueError, match="the client is closed"):
        rfsize.dask.grow(closed, LIGHTGBM, data.X, data.y)


def test_a_killed_worker_costs_its_block(client: Any, undisturbed: Any, framework: str, data: Data) -> None:
    def be_killed_while_you_train() -> None:
        _TrainerOnWorker.trained = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]

    expected = undisturbed(framework)
    client.wait_for_workers(2)
    before = client.run(os.getpid)
    client.run(be_killed_while_you_train, workers=list(before)[:1])
    model, report = rfsize.dask.grow(client, PARAMS[framework], data.X, data.y, **LOOKS)
    assert (text(model), str(report)) == expected
    assert next(iter(before)) not in client.run(os.getpid)


def test_without_workers_it_says_so(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "SECONDS_WITHOUT_WORKERS", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(RuntimeError, match="no worker for"),
    ):
        rfsize.dask.grow(client, LIGHTGBM, da.from_array(data.X), da.from_array(data.y))


def test_when_all_workers_are_gone_it_says_so(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "SECONDS_WITHOUT_WORKERS", 0.5)
    cluster = distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0")
    monkeypatch.setattr(held._Shift, "_take", lambda self, *_: cluster.sync(cluster.workers[0].close))
    with (
        cluster,
        distributed.Client(cluster) as client,
        pytest.raises(RuntimeError, match="no worker that takes rows for"),
    ):
        rfsize.dask.grow(client, LIGHTGBM, data.X, data.y)


def test_work_that_kills_its_workers_is_given_up(client: Any) -> None:
    with (
        HeldOnWorkers(client, "deadly", lambda address: [], lambda threads: threads) as workers,
        pytest.raises(RuntimeError, match="4 workers were lost"),
    ):
        workers.once(lambda threads: os._exit(1))


def test_a_lost_scheduler_is_told(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    client = distributed.Client(processes=False, n_workers=1, dashboard_address=":0")
    monkeypatch.setattr(held._Shift, "_take", lambda self, *_: client.close())
    with pytest.raises(RuntimeError, match="connection to Dask's scheduler was lost"):
        rfsize.dask.grow(client, LIGHTGBM, data.X, data.y)
