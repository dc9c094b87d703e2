"""Rows on the workers of a real cluster: every answer is that of the same rows in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import reference.bagging
import reference.counting
import rfsize
from helpers.models import (
    FRESH,
    LIGHTGBM,
    N_ROWS,
    NAMES,
    NUMBER,
    SEED,
    THREE,
    TWO,
    WEIGHT,
    XGBOOST,
    Forest,
    X,
    model,
    own_predict,
)  # fmt: skip
from rfsize.exceptions import InbagError

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
lightgbm_dask = pytest.importorskip("lightgbm.dask")
xgboost_dask = pytest.importorskip("xgboost.dask")

import rfsize.dask  # noqa: E402

TABLE = pd.DataFrame(FRESH, columns=list("abcdef"))
FORMS: dict[str, Callable[[], Any]] = {
    "uneven chunks": lambda: da.from_array(FRESH, chunks=((1, 49, 100), (2, 4))),
    "chunks of unknown size": lambda: dd.from_pandas(TABLE, npartitions=3).to_dask_array(),
    "a frame": lambda: dd.from_pandas(TABLE, npartitions=3),
    "an empty partition": lambda: dd.concat(
        [dd.from_pandas(TABLE[:50], npartitions=1).query("a > 99"), dd.from_pandas(TABLE, npartitions=2)]
    ),
}


def there(rows: Any, client: Any, **options: Any) -> Any:
    return rfsize.dask.rows(rows, client=client, **options)


@pytest.mark.parametrize(
    ("kind", "form"),
    [*(("lightgbm", form) for form in FORMS), ("xgboost softprob", "a frame"), ("random forest", "uneven chunks"),
     ("random forest regressor", "a frame")],
)  # fmt: skip
def test_outputs_and_predictions(kind: str, form: str, client: Any) -> None:
    trained, rows = model(kind).model, FORMS[form]()
    actual, expected = rfsize.tree_outputs(trained, there(rows, client)), rfsize.tree_outputs(trained, FRESH)
    assert np.array_equal(actual.scores.mean, expected.scores.mean)
    assert np.array_equal(actual.scores.covariance(0, 0), expected.scores.covariance(0, 0))
    fast = rfsize.compile(trained)
    methods = ["predict"] if model(kind).n_classes == 0 else ["predict", "predict_labels", "predict_proba"]
    for method in methods:
        lazy, own = getattr(rfsize.dask, method)(fast, rows), getattr(fast, method)(FRESH)
        computed = lazy.compute()
        assert np.array_equal(np.asarray(computed), own)
        assert np.asarray(computed).dtype == np.asarray(lazy._meta).dtype == own.dtype


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "random forest"])
def test_votes_sizes_and_cuts(kind: str, client: Any) -> None:
    trained, rows = model(kind).model, da.from_array(FRESH, chunks=(60, 6))
    by_tree = rfsize.tree_outputs(trained, there(rows, client), threshold=0.3)
    expected = rfsize.tree_outputs(trained, FRESH, threshold=0.3)
    assert by_tree.votes == expected.votes
    assert np.array_equal(by_tree.by_tree(), expected.by_tree())
    y = da.from_array(TWO[:150], chunks=70)
    for options in ({"alpha": 0.8}, {"alpha": 0.8, "max_rows": 100}, {"metric": "scores", "tolerance": 0.5}):
        actual = rfsize.size(trained, there(rows, client), y, **options)
        expected = rfsize.size(trained, FRESH, TWO[:150], **options)
        assert (actual.n_trees, actual.interval) == (expected.n_trees, expected.interval)
        assert actual.estimate.n_rows == expected.estimate.n_rows
    small = rfsize.truncate(trained, there(rows, client), alpha=0.8)
    assert np.array_equal(own_predict(small, FRESH), own_predict(rfsize.truncate(trained, FRESH, alpha=0.8), FRESH))


@pytest.mark.parametrize(
    "goal", [{"alpha": 0.8}, {"alpha": 0.8, "voting": "hard"}, {"metric": "probabilities", "tolerance": 0.2}], ids=str
)
def test_certified_tables(goal: dict[str, Any], client: Any) -> None:
    rows = np.random.default_rng(3).normal(size=(1200, 6))
    chunks = da.from_array(rows, chunks=((1, 499, 7, 693), 6))
    actual = rfsize.StopTable.calibrate(model("lightgbm").model, there(chunks, client), **goal)
    expected = rfsize.StopTable.calibrate(model("lightgbm").model, rows, **goal)
    assert actual.to_dict() == expected.to_dict()
    assert actual.certificate == expected.certificate


def test_frames_keep_index_divisions_and_names_of_classes() -> None:
    fast = rfsize.compile(model("random forest of names").model)
    rows = dd.from_pandas(TABLE.set_index(np.arange(150) * 3), npartitions=3)
    labels, shares = rfsize.dask.predict(fast, rows), rfsize.dask.predict_proba(fast, rows)
    assert labels.divisions == shares.divisions == rows.divisions
    assert labels.compute(scheduler="sync").index.tolist() == [*range(0, 450, 3)]
    assert list(shares.columns) == NAMES.tolist()
    blocks = da.from_array(FRESH, chunks=(40, -1)).map_blocks(sparse.csr_matrix)
    assert np.array_equal(rfsize.dask.predict(fast, blocks).compute(scheduler="sync"), fast.predict(FRESH))


def test_every_partition_is_checked(client: Any) -> None:
    """Dask itself compares neither columns nor lengths with those that a collection states."""
    trained = lgb.train(LIGHTGBM, lgb.Dataset(pd.DataFrame(X, columns=list("abcdef")), TWO), 15)
    halves = [TABLE[:70], TABLE[70:]]
    turned = dd.from_map(lambda part: part, [halves[0], halves[1][list("fedcba")]], meta=TABLE[:0])
    assert np.array_equal(rfsize.dask.predict(rfsize.compile(trained), turned).compute(), trained.predict(TABLE))
    short = da.from_delayed(dask.delayed(FRESH[:3]), shape=(5, 6), dtype=float)
    wrong: list[tuple[Any, str]] = [
        (dd.from_map(lambda part: part, [halves[0], halves[1].drop(columns="c")], meta=TABLE[:0]), r"\['c'\]"),
        (dd.from_map(lambda part: part, [halves[0], halves[1].assign(c="?")], meta=TABLE[:0]), "'c'"),
        (da.concatenate([short, da.from_array(FRESH[3:])]), "3 rows"),
    ]
    for rows, named in wrong:
        with pytest.raises(ValueError, match=named):
            rfsize.tree_outputs(trained, there(rows, client))
    for rows, named in wrong[:2]:
        with pytest.raises(ValueError, match=named):
            rfsize.dask.predict(rfsize.compile(trained), rows).compute()


LENGTHS, WORKERS, LAYOUT = (200, 60, 200, 40), (0, 1, 0, 1), [[0, 2], [1, 3]]


def on_workers(client: Any, values: np.ndarray, lengths: Sequence[int] = LENGTHS, workers: Any = WORKERS) -> Any:
    """A Dask array whose chunks lie on these workers."""
    addresses, ends, chunks = sorted(client.scheduler_info()["workers"]), np.cumsum(lengths), []
    for length, end, worker in zip(lengths, ends, workers, strict=True):
        part = values[end - length : end]
        future = client.scatter(part, workers=[addresses[worker]], hash=False)
        chunks.append(da.from_delayed(future, part.shape, part.dtype))
    return da.concatenate(chunks)


@pytest.mark.parametrize(
    "options", [{}, {"groups": np.arange(N_ROWS) % 130}, {"groups": "copies"}], ids=["", "given", "copies"]
)
@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_forests_of_one_machine_out_of_bag(kind: str, options: dict[str, Any], client: Any) -> None:
    """Their rows may lie anywhere, and groups of rows on several workers."""
    trained = model(kind).model
    actual = rfsize.tree_outputs(trained, on_workers(client, X), TWO, oob=True, **options)
    expected = rfsize.tree_outputs(trained, X, TWO, oob=True, **options)
    assert actual.votes == expected.votes
    assert rfsize.size(actual, alpha=0.8).interval == rfsize.size(expected, alpha=0.8).interval


def xgboost_inbag(booster: Any) -> np.ndarray:
    """Each worker draws over its own rows, all by the same seeds."""
    starts, parts = np.cumsum((0, *LENGTHS)), []
    for of_worker in LAYOUT:
        rows = np.concatenate([np.arange(starts[part], starts[part + 1]) for part in of_worker])
        parts.append((rows, reference.bagging.xgboost_inbag(booster, len(rows), SEED, 0.632, bynode=True, max_depth=4)))
    inbag = np.zeros((len(parts[0][1]), N_ROWS), dtype=bool)
    for rows, of_rows in parts:
        inbag[:, rows] = of_rows
    return inbag


@pytest.mark.parametrize("weighted", [False, True])
def test_xgboost_of_several_machines(weighted: bool, client: Any) -> None:
    rows, y = on_workers(client, X), on_workers(client, TWO)
    of_rows = {"weight": on_workers(client, WEIGHT)} if weighted else {}
    matrix = xgboost_dask.DaskDMatrix(client, rows, y, **of_rows)
    booster = xgboost_dask.train(client, XGBOOST, matrix, num_boost_round=1)["booster"]
    given = {"sample_weight": WEIGHT} if weighted else {}
    labels = Forest("xgboost", booster, X, TWO).tree_labels(X)
    counts = reference.counting.votes(labels, 2, xgboost_inbag(booster))
    for source in (matrix, there(rows, client, layout=LAYOUT)):
        assert np.array_equal(rfsize.tree_outputs(booster, source, TWO, oob=True, **given).votes.counts, counts)
    for layout in (None, [[0, 1], [2, 3]], [[2, 0], [1, 3]]):
        with pytest.raises(InbagError):
            rfsize.tree_outputs(booster, there(rows, client, layout=layout), oob=True, **given)
    with pytest.raises(InbagError):
        rfsize.tree_outputs(booster, X, oob=True, **given)
    with pytest.raises(ValueError, match="partitions"):
        rfsize.tree_outputs(booster, there(rows, client, layout=[[0, 1, 2]]), oob=True, **given)


def test_lightgbm_of_several_machines(client: Any) -> None:
    lengths = (380, 120)
    names = {"objective", "boosting", "bagging_freq", "bagging_fraction", "bagging_seed", "feature_fraction", "verbose"}
    settings = {name: LIGHTGBM[name] for name in names} | {"n_estimators": 15, "num_leaves": 7, "random_state": 3}
    estimator = lightgbm_dask.DaskLGBMClassifier(client=client, **settings)
    trained = estimator.fit(*(on_workers(client, values, lengths, (0, 1)) for values in (X, TWO)))
    inbag = np.hstack([reference.bagging.lightgbm_inbag(15, length, SEED, 0.632) for length in lengths])
    labels = Forest("lightgbm", trained.booster_, X, TWO).tree_labels(X)
    rows = da.from_array(X, chunks=(lengths, 6))
    actual = rfsize.tree_outputs(trained, there(rows, client, layout=[[0], [1]]), TWO, oob=True).votes
    assert np.array_equal(actual.counts, reference.counting.votes(labels, 2, inbag))
    for layout in (None, [[0, 1]]):
        with pytest.raises(InbagError):
            rfsize.tree_outputs(trained, there(rows, client, layout=layout), oob=True)
    with pytest.raises(ValueError, match=r"rfsize\.dask\.grow"):  # before one worker waits for another
        estimator.fit(
            *(on_workers(client, values, lengths, (0, 1)) for values in (X, TWO)), callbacks=[rfsize.SizeCallback(0.9)]
        )


# Two looks, at four blocks and at seven, the last of which has five trees.
LOOKS = {"alpha": 0.9999, "voting": "hard", "min_trees": 30, "max_trees": 55, "trees_per_block": 10}
PARAMS = {"lightgbm": LIGHTGBM | {"deterministic": True, "force_col_wise": True}}
PARAMS |= {"xgboost": {name: value for name, value in XGBOOST.items() if name != "num_parallel_tree"}}


def text(booster: Any) -> str:
    return booster.model_to_string() if isinstance(booster, lgb.Booster) else booster.save_raw("json").decode()


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize("framework", PARAMS)
def test_grown_forest_is_the_same_whoever_trains(framework: str, client: Any, tmp_path: Path) -> None:
    """Whatever the workers, threads and chunks, and though a worker dies as it takes its rows."""
    flag = tmp_path / "died"

    def die_once(block: Any) -> Any:
        if block.size:
            with suppress(FileExistsError):  # one worker alone dies, if two take rows at once
                flag.touch(exist_ok=False)
                os._exit(1)
        return block

    booster, report = rfsize.dask.grow(client, PARAMS[framework], X, TWO, **LOOKS)
    bags = rfsize.inbag(booster, X, TWO)
    assert len(np.unique(bags, axis=0)) == len(bags) == report.available == 55
    scores = Forest(framework, booster, X, TWO, link=model(framework).link).tree_scores(FRESH)
    np.testing.assert_allclose(
        model(framework).predicted(scores.mean(axis=0)),
        Forest(framework, booster, X, TWO).predict_proba(FRESH),
        atol=3e-6,
    )
    deadly = da.from_array(X, chunks=(210, 6)).map_blocks(die_once, dtype=float, meta=np.empty((0, 6)))
    again, _ = rfsize.dask.grow(client, PARAMS[framework], deadly, TWO, **LOOKS)
    assert flag.exists()
    chunks = da.from_array(X, chunks=(130, 3)), da.from_array(TWO, chunks=200)
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=3, dashboard_address=":0") as threads:
        alone, _ = rfsize.dask.grow(threads, PARAMS[framework], *chunks, **LOOKS)
    assert text(booster) == text(again) == text(alone)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize("framework", PARAMS)
def test_grown_on_frames_with_weights_and_groups(framework: str, client: Any) -> None:
    frame, groups = pd.DataFrame(X, columns=list("abcdef")), np.arange(N_ROWS) // 2
    few = {"alpha": 0.5, "min_trees": 40, "trees_per_block": 20, "groups": groups}
    rows, y = dd.from_pandas(frame, npartitions=3), dd.from_pandas(pd.Series(TWO), npartitions=2)
    params = PARAMS[framework] | ({"bagging_fraction": 0.4} if framework == "lightgbm" else {"subsample": 0.4})
    booster, report = rfsize.dask.grow(client, params, rows, y, weight=WEIGHT, **few)
    assert (booster.feature_name() if framework == "lightgbm" else booster.feature_names) == list("abcdef")
    assert report.groups == "given"
    assert rfsize.tree_outputs(booster, frame, TWO, oob=True, sample_weight=WEIGHT).n_trees == report.n_kept
    assert text(booster) == text(rfsize.dask.grow(client, params, frame, TWO, weight=WEIGHT, **few)[0])


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no collection": (lambda client: rfsize.tree_outputs(model("lightgbm").model, there(FRESH, client)), "X"),
    "no rows": (lambda client: rfsize.tree_outputs(model("lightgbm").model, there(da.ones((0, 6)), client)), "no rows"),
    "columns": (lambda client: rfsize.tree_outputs(model("lightgbm").model, there(da.ones((3, 5)), client)), "columns"),
    "no forest": (lambda client: rfsize.dask.predict(model("lightgbm").model, da.ones((3, 6))), "rfsize.compile"),
    "labels of numbers": (
        lambda client: rfsize.dask.predict_labels(rfsize.compile(model("lightgbm regression").model), da.ones((3, 6))),
        "labels",
    ),
    "no client": (lambda client: rfsize.dask.grow(None, LIGHTGBM, X, TWO), "Client"),
    "an estimator": (lambda client: rfsize.dask.grow(client, lgb.LGBMClassifier(), X, TWO), "params|LGBMClassifier"),
    "boosting": (lambda client: rfsize.dask.grow(client, LIGHTGBM | {"boosting": "gbdt"}, X, TWO), "boosting="),
    "no bags": (lambda client: rfsize.dask.grow(client, XGBOOST | {"subsample": 1}, X, TWO), "subsample"),
    "a Dataset": (lambda client: rfsize.dask.grow(client, LIGHTGBM, lgb.Dataset(X), TWO), "Dataset"),
    "no labels": (lambda client: rfsize.dask.grow(client, LIGHTGBM, X, None), "label"),
    "words": (lambda client: rfsize.dask.grow(client, LIGHTGBM, X, NAMES[THREE]), "label"),
    "few labels": (lambda client: rfsize.dask.grow(client, LIGHTGBM, X, TWO[:3]), "label"),
    "few weights": (lambda client: rfsize.dask.grow(client, LIGHTGBM, X, TWO, weight=WEIGHT[:3]), "weight"),
    "no blocks": (lambda client: rfsize.dask.grow(client, LIGHTGBM, X, TWO, trees_per_block=0), "trees_per_block"),
    "votes of numbers": (
        lambda client: rfsize.dask.grow(client, LIGHTGBM | {"objective": "regression"}, X, NUMBER, alpha=0.9), "votes"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, client: Any) -> None:
    call, named = REFUSED[name]
    with pytest.raises(ValueError, match=named):
        call(client)


def test_closed_client_is_refused() -> None:
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0", set_as_default=False
    ) as closed:
        pass
    with pytest.raises(ValueError, match="client"):
        rfsize.dask.grow(closed, LIGHTGBM, X, TWO)


@pytest.mark.parametrize("form", FORMS)
def test_a_compiled_forest_names_the_function_for_rows_on_workers(form: str) -> None:
    with pytest.raises(ValueError, match=r"rfsize\.dask\.predict"):
        rfsize.compile(model("lightgbm").model).predict(FORMS[form]())
