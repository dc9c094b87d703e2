"""Out-of-bag votes of forests that the workers of a cluster trained together, each on bags of its own rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import reference.bagging
import reference.counting
import reference.scores
import rfsize
from helpers.forests import LIGHTGBM, XGBOOST, Data, only_tree, predict, raw_trees
from helpers.xgboost_forests import class_margins
from rfsize.counting.evidence import Evidence

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")
lightgbm_dask = pytest.importorskip("lightgbm.dask")
xgboost_dask = pytest.importorskip("xgboost.dask")

import rfsize.dask  # noqa: E402

TREES = 21
# Partitions of the 1500 rows and the workers that they lie on, so that the rows of each are no range of all.
LENGTHS, WORKERS = (500, 200, 700, 100), (0, 1, 0, 1)
LAYOUT = [[0, 2], [1, 3]]


def on_workers(client: Any, values: np.ndarray, lengths: Sequence[int], workers: Sequence[int]) -> Any:
    """A Dask array whose chunks lie on these workers."""
    addresses, ends = sorted(client.scheduler_info()["workers"]), np.cumsum(lengths)
    chunks = []
    for length, end, worker in zip(lengths, ends, workers, strict=True):
        part = values[end - length : end]
        future = client.scatter(part, workers=[addresses[worker]], hash=False)
        chunks.append(da.from_delayed(future, part.shape, part.dtype))
    return da.concatenate(chunks)


def xgboost_bags(model: Any, n_trees: int) -> np.ndarray:
    """Bags of all rows, (n_trees, n_rows), those of a worker's rows by their numbers there."""
    inbag, starts = np.zeros((n_trees, sum(LENGTHS)), dtype=bool), np.cumsum((0, *LENGTHS))
    for parts in LAYOUT:
        rows = np.concatenate([np.arange(starts[part], starts[part + 1]) for part in parts])
        inbag[:, rows] = reference.bagging.xgboost_inbag(model, len(rows), 3, 0.632, bynode=True, max_depth=5)
    return inbag


class Trained:
    """A forest of ``xgboost.dask``, and the rows that it was trained on."""

    def __init__(self, client: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None, **params: Any):
        self.X, self.y = (on_workers(client, values, LENGTHS, WORKERS) for values in (X, y))
        of_weights = {} if weight is None else {"weight": on_workers(client, weight, LENGTHS, WORKERS)}
        self.dtrain = xgboost_dask.DaskDMatrix(client, self.X, self.y, **of_weights)
        params = {**XGBOOST, "num_parallel_tree": TREES, **params}
        self.model = xgboost_dask.train(client, params, self.dtrain, num_boost_round=1)["booster"]


@pytest.fixture(scope="module")
def trained(client: Any, data: Data) -> Trained:
    return Trained(client, data.X, data.y)


@pytest.fixture(scope="module")
def trained_by_lightgbm(client: Any, data: Data) -> Any:
    """A forest of ``lightgbm.dask``, of 1100 and 400 rows on two workers, more than draw by one generator."""
    return train_lightgbm(client, data, (1100, 400), (0, 1))


def lightgbm_estimator(client: Any, **params: Any) -> Any:
    named = {"objective", "boosting", "bagging_freq", "bagging_fraction", "feature_fraction", "num_leaves", "verbose"}
    settings = {name: LIGHTGBM[name] for name in named}
    settings = {**settings, "n_estimators": TREES, "random_state": 3, **params}
    return lightgbm_dask.DaskLGBMClassifier(client=client, **settings)


def train_lightgbm(client: Any, data: Data, lengths: Sequence[int], workers: Sequence[int], **params: Any) -> Any:
    X, y = (on_workers(client, values, lengths, workers) for values in (data.X, data.y))
    return lightgbm_estimator(client, **params).fit(X, y)


def test_votes_of_xgboost(trained: Trained, data: Data) -> None:
    labels = np.stack([predict(only_tree(trained.model, tree), data.X) > 0.5 for tree in range(TREES)]).astype(int)
    expected = reference.counting.votes(labels, 2, xgboost_bags(trained.model, TREES))
    found = rfsize.tree_outputs(trained.model, trained.dtrain, oob=True).votes
    assert np.array_equal(found.counts, expected)
    assert (
        rfsize.tree_outputs(trained.model, rfsize.dask.rows(trained.X, layout=LAYOUT), trained.y, oob=True).votes
        == found
    )
    frame = dd.from_dask_array(trained.X)
    assert rfsize.tree_outputs(trained.model, rfsize.dask.rows(frame, layout=LAYOUT), oob=True).votes == found
    with pytest.raises(rfsize.exceptions.InbagError, match=r"give the DaskDMatrix of the training as X, or .*layout="):
        rfsize.tree_outputs(trained.model, data.X, oob=True)


def test_an_estimator_and_a_matrix_made_after_it(client: Any, trained: Trained, data: Data) -> None:
    names = {"learning_rate": 1, "random_state": 3, "n_estimators": 1, "num_parallel_tree": TREES}
    settings = {name: XGBOOST[name] for name in ("subsample", "colsample_bynode", "max_depth")}
    forest = xgboost_dask.DaskXGBClassifier(**names, **settings)
    forest.client = client
    forest.fit(trained.X, trained.y)
    dtrain = xgboost_dask.DaskQuantileDMatrix(client, trained.X, trained.y)
    found = rfsize.tree_outputs(forest, dtrain, data.y, oob=True).votes
    assert found == rfsize.tree_outputs(forest, trained.dtrain, oob=True).votes


def test_votes_of_several_classes(client: Any, data: Data) -> None:
    trained = Trained(client, data.X, data.three, objective="multi:softprob", num_class=3)
    per_tree = xgboost_bags(trained.model, 3 * TREES).reshape(3, TREES, -1)
    members = reference.scores.left_out(class_margins(trained.model, data.X, range(TREES)), per_tree)
    found = rfsize.tree_outputs(trained.model, trained.dtrain, data.three, oob=True).votes
    assert np.array_equal(found.counts, reference.scores.counts(members))


def test_votes_of_lightgbm(client: Any, trained_by_lightgbm: Any, data: Data) -> None:
    seed = int(trained_by_lightgbm.booster_.model_to_string().partition("[bagging_seed: ")[2].partition("]")[0])
    inbag = np.hstack([reference.bagging.lightgbm_inbag(TREES, n_rows, seed, 0.632) for n_rows in (1100, 400)])
    labels = (raw_trees(trained_by_lightgbm.booster_, data.X) > 0.5).astype(int)
    X = da.from_array(data.X, chunks=((1100, 400), 8))
    found = rfsize.tree_outputs(
        trained_by_lightgbm, rfsize.dask.rows(X, client=client, layout=[[0], [1]]), data.y, oob=True
    ).votes
    assert np.array_equal(found.counts, reference.counting.votes(labels, 2, inbag))


def test_a_worker_whose_bag_became_full_has_drawn_its_last(client: Any, data: Data) -> None:
    lengths = (1490, 10)
    model = train_lightgbm(client, data, lengths, (0, 1), bagging_fraction=0.9)
    X = da.from_array(data.X, chunks=(lengths, 8))
    with pytest.warns(rfsize.exceptions.SeedDependenceWarning):
        found = rfsize.tree_outputs(model, rfsize.dask.rows(X, client=client, layout=[[0], [1]]), oob=True).votes
    assert found.asked[:1490].mean() > 1.5 > found.asked[1490:].mean() + 0.5


def test_copies_and_all_that_is_counted(client: Any, data: Data) -> None:
    """What workers count is what this process does, which reads the rows of the same futures."""
    X, y = data.X.copy(), data.y.copy()
    X[600:680], y[600:680] = X[:80], y[:80]
    trained = Trained(client, X, y, num_parallel_tree=60)
    counted = rfsize.tree_outputs(trained.model, trained.dtrain, trained.y, oob=True)
    here = Evidence.of(counted._evidence.forest, "all").with_truth(y)
    assert counted._evidence.forest.groups.by == "copies"
    assert counted.votes == here.votes
    assert len(counted._evidence.distinct.votes.counts) == len(X) - 80
    for array in ("mean", "asked", "total", "asked_of"):
        assert np.array_equal(getattr(counted._evidence.averages, array), getattr(here.averages, array))
    assert np.array_equal(counted.scores.scatter, here.scores.scatter)
    size = rfsize.size(trained.model, trained.dtrain, trained.y, oob=True, alpha=0.9)
    assert str(size) == str(rfsize.size(rfsize.TreeOutputs(here), alpha=0.9))
    score = rfsize.oob_score(trained.model, trained.dtrain, trained.y, metric="auc")
    assert str(score) == str(rfsize.oob_score(rfsize.TreeOutputs(here), metric="auc"))


def test_forests_of_one_machine(client: Any, booster: Any, data: Data) -> None:
    """Their rows need no layout, and may lie anywhere; groups of rows are of several workers."""
    X = on_workers(client, data.X, LENGTHS, WORKERS)
    patients = np.arange(len(data.X)) % 400
    for options in ({}, {"groups": patients}, {"groups": "rows"}):
        found = rfsize.tree_outputs(booster, X, data.y, oob=True, **options)
        expected = rfsize.tree_outputs(booster, data.X, data.y, oob=True, **options)
        assert found.votes == expected.votes
        assert str(rfsize.size(found, alpha=0.9)) == str(rfsize.size(expected, alpha=0.9))
        assert rfsize.tree_outputs(booster, X, oob=True, **options).votes == found.votes


def test_weights_and_files(client: Any, trained: Trained, data: Data) -> None:
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(data.X))
    weighted = Trained(client, data.X, data.y, weight)
    found = rfsize.tree_outputs(weighted.model, weighted.dtrain, oob=True, sample_weight=weight).votes
    assert np.array_equal(found.asked, TREES - xgboost_bags(weighted.model, TREES).sum(axis=0))
    with pytest.raises(rfsize.exceptions.InbagError, match="sample_weight="):
        rfsize.tree_outputs(weighted.model, weighted.dtrain, oob=True)
    loaded = type(trained.model)()
    loaded.load_model(trained.model.save_raw("ubj"))
    told = {"seed": 3, "subsample": 0.632}
    expected = rfsize.tree_outputs(trained.model, trained.dtrain, oob=True).votes
    assert rfsize.tree_outputs(loaded, trained.dtrain, oob=True, **told).votes == expected


def test_missing_values_of_a_matrix(client: Any, data: Data) -> None:
    X = np.where(data.X < -1.0, -9.0, data.X)
    rows, y = (on_workers(client, values, LENGTHS, WORKERS) for values in (X, data.y))
    dtrain = xgboost_dask.DaskDMatrix(client, rows, y, missing=-9.0)
    params = {**XGBOOST, "num_parallel_tree": TREES}
    model = xgboost_dask.train(client, params, dtrain, num_boost_round=1)["booster"]
    found = rfsize.tree_outputs(model, dtrain, oob=True).votes
    assert rfsize.tree_outputs(model, rfsize.dask.rows(rows, layout=LAYOUT), oob=True, missing=-9.0).votes == found
    assert rfsize.tree_outputs(model, dtrain).votes == rfsize.tree_outputs(model, X, missing=-9.0).votes
    with pytest.raises(ValueError, match="leave missing out"):
        rfsize.tree_outputs(model, dtrain, missing=-9.0)


@pytest.mark.parametrize("layout", [None, [[0, 1], [2, 3]], [[2, 0], [1, 3]], [[0, 2], [3, 1]], [[0], [1], [2], [3]]])
def test_other_layouts_of_xgboost_are_refused(layout: Any, trained: Trained) -> None:
    with pytest.raises(rfsize.exceptions.InbagError, match="could not be proven"):
        rfsize.tree_outputs(trained.model, rfsize.dask.rows(trained.X, layout=layout), oob=True)


def test_other_layouts_of_lightgbm_are_refused(client: Any, trained_by_lightgbm: Any, data: Data) -> None:
    X = da.from_array(data.X, chunks=((1100, 100, 300), 8))
    for layout, message in (
        (None, "several machines .* laid out for 1"),
        ([[0], [1], [2]], "several machines .* laid out for 3"),
        ([[0], [2, 1]], "could not be proven"),
        ([[0, 1], [2]], "do not have the sizes|could not be proven"),
    ):
        with pytest.raises(rfsize.exceptions.InbagError, match=message):
            rfsize.tree_outputs(trained_by_lightgbm, rfsize.dask.rows(X, client=client, layout=layout), oob=True)
    found = rfsize.tree_outputs(
        trained_by_lightgbm, rfsize.dask.rows(X, client=client, layout=[[1, 2], [0]]), oob=True
    ).votes
    assert len(found.counts) == len(data.X)


def test_leaf_counts_that_workers_estimated_are_refused(client: Any, data: Data) -> None:
    """With ``tree_learner="voting"`` LightGBM's leaf counts are not those of the rows of all workers."""
    model = train_lightgbm(client, data, (1100, 400), (0, 1), tree_learner="voting", n_estimators=200, top_k=1)
    X = da.from_array(data.X, chunks=((1100, 400), 8))
    with pytest.raises(rfsize.exceptions.InbagError, match="could not be proven"):
        rfsize.tree_outputs(model, rfsize.dask.rows(X, client=client, layout=[[0], [1]]), oob=True)


def test_what_is_refused(client: Any, trained: Trained, lgb_booster: Any, data: Data) -> None:
    model, dtrain, X = trained.model, trained.dtrain, trained.X
    for layout in ([[0, 1, 2]], [[0, 1], [1, 2, 3]], [[0, 1, 2, 4]], [[0, 1, 2, 3.0]], [0, 1, 2, 3], 4):
        with pytest.raises(ValueError, match="Each of the 4 partitions must be named once"):
            rfsize.tree_outputs(model, rfsize.dask.rows(X, layout=layout), oob=True)
    for options, message in (
        ({"layout": LAYOUT}, "leave (it|groups) out, or give the training rows with oob=True"),
        ({"groups": "rows"}, "leave (it|groups) out, or give the training rows with oob=True"),
        ({"layout": LAYOUT, "oob": True}, "leave layout out"),
    ):
        there = rfsize.dask.rows(dtrain, layout=options.pop("layout", None))
        with pytest.raises(ValueError, match=message):
            rfsize.tree_outputs(model, there, **options)
    with pytest.raises(rfsize.exceptions.InbagError, match="one machine trained the forest, and layout names 2"):
        rfsize.tree_outputs(lgb_booster, rfsize.dask.rows(X, layout=LAYOUT), oob=True)
    with pytest.raises(
        rfsize.exceptions.InbagError, match="the leaves differ from what their bags and the labels y give"
    ):
        rfsize.tree_outputs(model, dtrain, 1 - data.y, oob=True)
    forest = RandomForestClassifier(5).fit(data.X, data.y)
    with pytest.raises(rfsize.exceptions.InbagError, match="which rows each worker of scikit-learn trains on"):
        rfsize.tree_outputs(forest, rfsize.dask.rows(X, client=client), oob=True)
    margin = on_workers(client, np.ones(len(data.X)), LENGTHS, WORKERS)
    with pytest.raises(ValueError, match="base_margin"):
        rfsize.tree_outputs(model, xgboost_dask.DaskDMatrix(client, X, trained.y, base_margin=margin))


@pytest.mark.parametrize("validation", [None, "valid_0"])
def test_a_size_callback_is_refused_before_one_worker_waits_for_another(
    client: Any, data: Data, validation: Any
) -> None:
    X, y = (on_workers(client, values, (1100, 400), (0, 1)) for values in (data.X, data.y))
    callbacks = [rfsize.SizeCallback(alpha=0.9, validation=validation)]
    with pytest.raises(ValueError, match=r"2 machines train .* take rfsize\.dask\.grow"):
        lightgbm_estimator(client).fit(X, y, callbacks=callbacks, eval_set=[(X, y)])
    # The workers train on, together and alone.
    assert lightgbm_estimator(client).fit(X, y).booster_.num_trees() == TREES
    X, y = (on_workers(client, values, (1100, 400), (1, 1)) for values in (data.X, data.y))
    alone = lightgbm_estimator(client, n_estimators=400).fit(X, y, callbacks=[rfsize.SizeCallback(alpha=0.8)])
    assert alone.booster_.num_trees() < 400
