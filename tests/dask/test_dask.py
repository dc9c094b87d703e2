"""Rows on the workers of a real cluster of processes: every answer is that of the same rows in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

import rfsize.dask  # noqa: E402

NAMES = [f"x{place}" for place in range(8)]


def collections(X: np.ndarray) -> dict[str, Any]:
    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=4)
    return {
        "one chunk": da.from_array(X, chunks=(len(X), 8)),
        "uneven chunks": da.from_array(X, chunks=((1, 299, len(X) - 300), (3, 5))),
        "chunks of unknown size": frame.to_dask_array(),
        "a DataFrame": frame,
        "an empty partition": dd.concat(
            [frame.partitions[:1], frame.partitions[1:2].query("x0 > 99"), frame.partitions[1:]]
        ),
    }


def test_counts_are_those_in_memory(client: Any, booster: Any, data: Data) -> None:
    expected = rfsize.tree_outputs(booster, data.X, data.y)
    printed = str(rfsize.size(expected, alpha=0.9))
    for name, X in collections(data.X).items():
        found = rfsize.tree_outputs(booster, rfsize.dask.rows(X, client=client), data.y)
        assert found.votes == expected.votes, name
        for of in (found, expected):
            assert of._evidence.averages is not None
        for array in ("mean", "asked", "total", "asked_of"):
            assert np.array_equal(
                getattr(found._evidence.averages, array), getattr(expected._evidence.averages, array)
            ), name
        for array in ("rows", "counts", "votes", "total", "squares", "asked"):
            assert np.array_equal(getattr(found._evidence.blocks, array), getattr(expected._evidence.blocks, array))
        assert str(rfsize.size(found, alpha=0.9)) == printed, name


@dataclass(frozen=True, eq=False)
class InParts(ForestOnRows):
    """A forest on rows that were counted in parts."""

    parts: Any = ()

    def tallied(self, keeps: Any) -> Any:
        return self.joined(self.parts)


def test_where_a_part_of_the_rows_is_scored(
    client: Any, lgb_multiclass: Any, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers do not know of what is patched here: parts are counted in this process."""
    from rfsize.models.framework import read_forest

    monkeypatch.setattr("rfsize.counting.scores._HELD", 2000)
    monkeypatch.setattr("rfsize.counting.averages._SUMS", 9000)
    monkeypatch.setattr("rfsize.counting.blocks._ROWS", 170)
    adapter = read_forest(lgb_multiclass, casts_votes=False)
    whole = ForestOnRows.of(adapter, data.X)
    expected, cuts = Evidence.of(whole, "all"), [0, 1, 7, 400, 401, len(data.X)]
    assert expected.averages is not None
    assert expected.averages.parts.every > 1
    parts = [
        whole.part(range(start, stop), "all").tallied(adapter, data.X[start:stop]) for start, stop in pairwise(cuts)
    ]
    found = Evidence.of(InParts(adapter, data.X, parts=parts), "all")
    assert found.averages is not None
    for array in ("mean", "asked", "total", "asked_of"):
        assert np.array_equal(getattr(found.averages, array), getattr(expected.averages, array))
    assert np.array_equal(found.scores.scatter, expected.scores.scatter)
    assert np.array_equal(found.blocks.rows, expected.blocks.rows)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "sklearn"])
def test_every_partition_is_checked(client: Any, kind: str, data: Data) -> None:
    """Dask itself does not compare the columns of partitions with those that a collection states."""
    train = {"lightgbm": train_lightgbm, "xgboost": train_xgboost, "sklearn": _forest}[kind]
    frame = pd.DataFrame(data.X[:600], columns=NAMES)
    model = train(frame, data.y[:600], 15)
    halves = [frame[:300], frame[300:]]

    def collection(second: pd.DataFrame) -> Any:
        return dd.from_map(lambda part: part, [halves[0], second], meta=frame[:0])

    turned = collection(halves[1][NAMES[::-1]])
    expected = rfsize.tree_outputs(model, frame)
    assert rfsize.tree_outputs(model, rfsize.dask.rows(turned, client=client)).votes == expected.votes
    own = rfsize.dask.predict(rfsize.compile(model), turned).compute()
    assert np.array_equal(own, rfsize.compile(model).predict(frame))
    for second, message in (
        (halves[1].drop(columns="x3"), r"missing \['x3'\]"),
        (halves[1].assign(x3="?"), "hold no numbers"),
    ):
        X = collection(second)
        with pytest.raises(ValueError, match=message):
            rfsize.size(model, rfsize.dask.rows(X, client=client), alpha=0.8)
        with pytest.raises(ValueError, match=message):
            rfsize.StopTable.calibrate(model, rfsize.dask.rows(X, client=client), alpha=0.8)
        with pytest.raises(ValueError, match=message):
            rfsize.dask.predict(rfsize.compile(model), X).compute()


def _forest(X: Any, y: Any, n_trees: int) -> Any:
    return RandomForestClassifier(n_trees, max_depth=4, random_state=0).fit(X, y)


@pytest.mark.parametrize("goal", [{"alpha": 0.9}, {"metric": "auc", "tolerance": 0.01}])
def test_sizes(client: Any, lgb_booster: Any, data: Data, goal: dict[str, Any]) -> None:
    for X in collections(data.X).values():
        found = rfsize.size(lgb_booster, rfsize.dask.rows(X, client=client), da.from_array(data.y, chunks=500), **goal)
        assert str(found) == str(rfsize.size(lgb_booster, data.X, data.y, **goal))


def test_forests_are_cut(client: Any, lgb_booster: Any, data: Data) -> None:
    small = rfsize.truncate(
        lgb_booster, rfsize.dask.rows(da.from_array(data.X, chunks=(333, 8)), client=client), alpha=0.9
    )
    assert small.model_to_string() == rfsize.truncate(lgb_booster, data.X, alpha=0.9).model_to_string()
    with pytest.warns(rfsize.exceptions.NotConvergedWarning):
        rfsize.truncate(
            lgb_booster, rfsize.dask.rows(da.from_array(data.X, chunks=(333, 8)), client=client), alpha=0.999
        )


@pytest.mark.parametrize("max_rows", [700, "auto"])
def test_sizes_of_rows_drawn(client: Any, lgb_booster: Any, data: Data, max_rows: Any) -> None:
    expected = rfsize.size(lgb_booster, data.X, alpha=0.9, max_rows=max_rows)
    for X in collections(data.X).values():
        found = rfsize.size(lgb_booster, rfsize.dask.rows(X, client=client), alpha=0.9, max_rows=max_rows)
        assert str(found) == str(expected)


def test_votes_and_thresholds(client: Any, booster: Any, data: Data) -> None:
    X = da.from_array(data.X, chunks=(333, 8))
    found = rfsize.tree_outputs(booster, rfsize.dask.rows(X, client=client), threshold=0.3).votes
    assert found == rfsize.tree_outputs(booster, data.X, threshold=0.3).votes


def test_what_is_asked_again_is_read_here(client: Any, booster: Any, data: Data) -> None:
    counted = rfsize.tree_outputs(
        booster, rfsize.dask.rows(da.from_array(data.X, chunks=(333, 8)), client=client), data.y
    )
    assert np.array_equal(counted._evidence.forest.tree_votes(), rfsize.tree_outputs(booster, data.X).by_tree())


def test_forests_that_were_trained_on_workers(client: Any, data: Data) -> None:
    from lightgbm.dask import DaskLGBMClassifier
    from xgboost.dask import DaskXGBClassifier

    bags = {"subsample": 0.632, "n_jobs": 1}
    lightgbm = DaskLGBMClassifier(
        client=client, boosting_type="rf", n_estimators=30, subsample_freq=1, colsample_bytree=0.7, verbose=-1, **bags
    )
    xgboost = DaskXGBClassifier(n_estimators=1, num_parallel_tree=30, learning_rate=1, colsample_bynode=0.5, **bags)
    xgboost.client = client
    X, y = da.from_array(data.X, chunks=(750, 8)), da.from_array(data.y, chunks=750)
    for model in (lightgbm, xgboost):
        model.fit(X, y)
        assert (
            rfsize.tree_outputs(model, rfsize.dask.rows(X, client=client)).votes
            == rfsize.tree_outputs(model, data.X).votes
        )
        labels = rfsize.dask.predict(rfsize.compile(model), X).compute()
        assert np.array_equal(labels, model.predict(X).compute())


def test_workers_hold_the_blocks_alone_that_they_work_on(client: Any) -> None:
    rng, width = np.random.default_rng(0), 200
    X = rng.normal(size=(300, width))
    forest = RandomForestClassifier(5, random_state=0).fit(X, X[:, 0] > 0)

    def rows(n_blocks: int) -> Any:
        return da.random.default_rng(0).normal(size=(4000 * n_blocks, width), chunks=(4000, -1))

    def most_held(dask_worker: Any) -> int:
        return getrusage(RUSAGE_SELF).ru_maxrss * 1024

    rfsize.tree_outputs(forest, rfsize.dask.rows(rows(6), client=client))  # so that all is loaded and compiled
    before = client.run(most_held)
    rfsize.tree_outputs(forest, rfsize.dask.rows(rows(50), client=client))
    grown = [after - before[worker] for worker, after in client.run(most_held).items()]
    assert max(grown) < 12 * rows(1).nbytes < rows(25).nbytes


def test_regressions(client: Any, data: Data) -> None:
    forest = RandomForestRegressor(30, random_state=0).fit(data.X[:300], data.X[:300, 0])
    fresh = data.X[300:]
    X = da.from_array(fresh, chunks=(333, 8))
    goal = {"metric": "scores", "tolerance": 0.2}
    assert str(rfsize.size(forest, rfsize.dask.rows(X, client=client), **goal)) == str(
        rfsize.size(forest, fresh, **goal)
    )
    fast = rfsize.compile(forest)
    assert np.array_equal(rfsize.dask.predict(fast, X).compute(), fast.predict(fresh))
    with pytest.raises(ValueError, match="no probabilities"):
        rfsize.dask.predict_proba(fast, X)
    with pytest.raises(ValueError, match="no labels"):
        rfsize.dask.predict_labels(fast, X)


@pytest.mark.parametrize("model", ["lgb_multiclass", "xgb_booster"])
def test_predictions(client: Any, model: str, data: Data, request: pytest.FixtureRequest) -> None:
    fast = rfsize.compile(request.getfixturevalue(model))
    for name, X in collections(data.X).items():
        for method in ("predict", "predict_labels", "predict_proba"):
            found, expected = getattr(rfsize.dask, method)(fast, X), getattr(fast, method)(data.X)
            computed = found.compute()
            assert np.array_equal(np.asarray(computed), expected), (name, method)
            assert np.asarray(computed).dtype == np.asarray(found._meta).dtype == expected.dtype
            assert type(computed) is type(found._meta)


def test_predictions_of_sparse_blocks(data: Data) -> None:
    fast = rfsize.compile(RandomForestClassifier(10, random_state=0).fit(data.X, data.y))
    X = da.from_array(data.X, chunks=(400, -1)).map_blocks(sparse.csr_matrix)
    assert np.array_equal(rfsize.dask.predict(fast, X).compute(scheduler="sync"), fast.predict(data.X))
    assert np.array_equal(rfsize.dask.predict_proba(fast, X).compute(scheduler="sync"), fast.predict_proba(data.X))


def of_other_rows(X: np.ndarray, said: float, rows: int) -> da.Array:
    """An array whose first block has other rows than it says, or says nothing of them."""
    first = da.from_delayed(dask.delayed(X[:rows]), shape=(said, X.shape[1]), dtype=X.dtype)
    return da.concatenate([first, da.from_array(X[rows:])])


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_blocks_that_are_not_as_the_array_says(rows: int, client: Any, data: Data) -> None:
    model = RandomForestClassifier(10, random_state=0).fit(data.X, data.y)
    fast, X = rfsize.compile(model), of_other_rows(data.X, 5, rows)
    for ask in (
        lambda: rfsize.dask.predict(fast, X).compute(),
        lambda: rfsize.dask.predict_proba(fast, X).compute(),
        lambda: rfsize.tree_outputs(model, rfsize.dask.rows(X, client=client)).votes,
    ):
        with pytest.raises(ValueError, match=r"a chunk or partition of X has \d rows?, and the collection says 5"):
            ask()
    known = of_other_rows(data.X, math.nan, rows)
    assert np.array_equal(rfsize.dask.predict(fast, known).compute(), fast.predict(data.X))


def test_index_and_divisions_are_kept(client: Any, data: Data) -> None:
    forest = RandomForestClassifier(10, random_state=0).fit(data.X, np.where(data.y, "yes", "no"))
    frame = pd.DataFrame(data.X, columns=NAMES, index=np.arange(len(data.X)) * 3)
    X, fast = dd.from_pandas(frame, npartitions=3), rfsize.compile(forest)
    labels, shares = rfsize.dask.predict(fast, X), rfsize.dask.predict_proba(fast, X)
    assert labels.divisions == shares.divisions == X.divisions
    assert labels.compute().index.equals(frame.index)
    assert labels.compute().tolist() == fast.predict(data.X).tolist()
    assert list(shares.columns) == ["no", "yes"]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((3, 8)), "takes Dask arrays and DataFrames"),
        (da.ones(8), "two dimensions"),
        (da.ones((0, 8)), "no rows"),
        (da.ones((3, 7)), "7 columns"),
    ],
)
def test_what_is_refused(client: Any, booster: Any, X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rfsize.tree_outputs(booster, rfsize.dask.rows(X, client=client))


def test_what_is_no_compiled_forest_is_refused(booster: Any) -> None:
    with pytest.raises(ValueError, match=r"give rfsize\.compile"):
        rfsize.dask.predict(booster, da.ones((3, 8)))


def test_without_a_client(booster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_client() -> Any:
        raise ValueError("No clients found")

    monkeypatch.setattr(distributed, "default_client", no_client)
    with pytest.raises(ValueError, match="there is no Dask client"):
        rfsize.tree_outputs(booster, da.ones((3, 8)))
