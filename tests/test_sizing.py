"""The main job, on both frameworks alike."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import naive
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import TREES, Data, predict, raw_trees, train_lightgbm, train_xgboost
from lightgbm import LGBMClassifier
from scipy import sparse
from sklearn.base import clone
from xgboost import XGBClassifier, XGBRFClassifier

import rfsize
from rfsize import theory


@pytest.fixture(scope="module")
def tree_labels(booster: Any, data: Data) -> np.ndarray:
    return (raw_trees(booster, data.X) > 0.5).astype(int)


def test_votes_are_what_each_tree_alone_predicts(booster: Any, data: Data, tree_labels: np.ndarray) -> None:
    votes = rfsize.votes(booster, data.X)
    assert np.array_equal(votes.counts, naive.votes(tree_labels, 2))
    assert votes.n_trees == TREES
    assert (votes.asked == TREES).all()


@pytest.mark.parametrize("threshold", [0.2, 0.8])
def test_threshold_moves_the_votes(booster: Any, data: Data, threshold: float) -> None:
    labels = (raw_trees(booster, data.fresh) > threshold).astype(int)
    assert np.array_equal(rfsize.votes(booster, data.fresh, threshold=threshold).counts, naive.votes(labels, 2))


def test_out_of_bag_votes(booster: Any, data: Data, tree_labels: np.ndarray) -> None:
    inbag = rfsize.inbag(booster, data.X)
    assert inbag.shape == (TREES, len(data.X))
    assert inbag.dtype == bool
    votes = rfsize.votes(booster, data.X, oob=True)
    assert np.array_equal(votes.counts, naive.votes(tree_labels, 2, inbag))
    assert votes.n_trees == TREES


def test_blocks_of_any_size_give_the_same_votes(booster: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, inbag = rfsize.votes(booster, data.X, oob=True), rfsize.inbag(booster, data.X)
    monkeypatch.setattr("rfsize.rows.CELLS_PER_BLOCK", 37 * TREES)
    assert rfsize.votes(booster, data.X, oob=True) == whole
    assert np.array_equal(rfsize.inbag(booster, data.X), inbag)


def test_slow_counting_shows_its_progress(
    booster: Any, data: Data, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rfsize.votes(booster, data.X)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("rfsize.rows.CELLS_PER_BLOCK", 100 * TREES)
    monkeypatch.setattr("rfsize.rows.SECONDS_BEFORE_PROGRESS", 0.0)
    rfsize.votes(booster, data.X)
    assert "votes" in capsys.readouterr().err


def test_size_is_the_plug_in_estimate(booster: Any, data: Data) -> None:
    votes = rfsize.votes(booster, data.fresh)
    fractions = votes.fractions()[:, 1]
    report = rfsize.size(booster, data.fresh, alpha=0.95, estimator="plugin")
    assert report.n_trees == naive.ensemble_size(0.95, fractions.tolist(), 401)
    assert report.agreement(11) == pytest.approx(theory.mean_agreement(11, fractions))
    assert report.size_at(0.9) == theory.ensemble_size(0.9, fractions)
    assert (report.available, report.n_rows, report.source) == (TREES, len(data.fresh), "rows given")
    assert str(rfsize.size(votes, alpha=0.95, estimator="plugin")).splitlines()[:2] == str(report).splitlines()[:2]


def test_out_of_bag_size_drops_rows_without_votes(booster: Any, data: Data) -> None:
    votes = rfsize.votes(booster, data.X, oob=True)
    report = rfsize.size(booster, data.X, alpha=0.9, oob=True)
    voted = votes.asked > 0
    assert report.n_trees == theory.ensemble_size(0.9, votes.fractions()[voted, 1])
    assert report.n_rows == voted.sum()
    assert report.n_dropped == (~voted).sum()
    assert report.source == "oob"
    assert rfsize.size(votes, alpha=0.9).source == "oob"


def test_truncated_forest_is_the_mean_of_its_first_trees(booster: Any, data: Data) -> None:
    before = predict(booster, data.fresh)
    small = rfsize.truncate(booster, data.fresh, alpha=0.9)
    kept = rfsize.size(booster, data.fresh, alpha=0.9).n_trees
    assert type(small) is type(booster)
    assert rfsize.votes(small, data.fresh).n_trees == kept < TREES
    logits = np.log(1 / raw_trees(booster, data.fresh)[:kept] - 1)
    assert predict(small, data.fresh) == pytest.approx(1 / (1 + np.exp(logits.mean(axis=0))), abs=1e-6)
    assert np.array_equal(predict(booster, data.fresh), before)


def test_truncated_forest_votes_as_the_first_trees_of_the_large_one(booster: Any, data: Data) -> None:
    small = rfsize.truncate(booster, n_trees=7)
    labels = (raw_trees(booster, data.fresh)[:7] > 0.5).astype(int)
    assert np.array_equal(rfsize.votes(small, data.fresh).counts, naive.votes(labels, 2))


def test_truncated_forest_still_gives_out_of_bag_votes(booster: Any, data: Data) -> None:
    small = rfsize.truncate(booster, n_trees=20)
    assert np.array_equal(rfsize.inbag(small, data.X), rfsize.inbag(booster, data.X)[:20])


def test_a_forest_that_is_too_small_is_kept_whole_with_a_warning(booster: Any, data: Data) -> None:
    report = rfsize.size(booster, data.fresh, alpha=0.985)
    assert not report.converged
    with pytest.warns(rfsize.NotConvergedWarning, match=f"{report.n_trees:,} are needed"):
        small = rfsize.truncate(booster, data.fresh, alpha=0.985)
    assert small is not booster
    assert np.array_equal(predict(small, data.fresh), predict(booster, data.fresh))


def test_a_forest_of_one_tree_is_not_enough(booster: Any, data: Data) -> None:
    small = rfsize.truncate(booster, n_trees=1)
    assert not rfsize.size(small, data.fresh, alpha=0.9).converged
    with pytest.warns(rfsize.NotConvergedWarning, match="too few to tell"):
        rfsize.truncate(small, data.fresh, alpha=0.9)


def test_rows_at_one_half_are_explained() -> None:
    report = rfsize.size(rfsize.Votes([[5, 5], [10, 0]]), alpha=0.9, estimator="plugin")
    assert report.n_trees == math.inf
    assert not report.converged
    assert "exactly half" in str(report)
    assert report.to_dict()["n_trees"] is None
    assert report.reason is not None
    json.dumps(report.to_dict())


@pytest.fixture(params=["LGBMClassifier", "XGBRFClassifier", "XGBClassifier"])
def classifier(request: pytest.FixtureRequest) -> Any:
    return {
        "LGBMClassifier": LGBMClassifier(
            boosting_type="rf", n_estimators=41, subsample=0.6, subsample_freq=1, random_state=1, verbose=-1
        ),
        "XGBRFClassifier": XGBRFClassifier(n_estimators=41, random_state=1),
        "XGBClassifier": XGBClassifier(n_estimators=1, num_parallel_tree=41, subsample=0.6, random_state=1),
    }[request.param]


def test_fitted_classifiers(classifier: Any, data: Data) -> None:
    model = classifier.fit(data.X, data.y)
    parameters = model.get_params()
    before = model.predict_proba(data.fresh)
    small = rfsize.truncate(model, n_trees=11)
    assert type(small) is type(model)
    assert rfsize.size(small, data.fresh, alpha=0.6).available == 11
    assert small.predict(data.fresh).shape == (len(data.fresh),)
    assert rfsize.votes(clone(small).fit(data.X, data.y), data.fresh) == rfsize.votes(small, data.fresh)
    assert rfsize.size(model, data.X, alpha=0.9, oob=True).source == "oob"
    assert model.get_params() == parameters
    assert np.array_equal(model.predict_proba(data.fresh), before)


def test_labels_of_any_kind(data: Data) -> None:
    names = np.array(["no", "yes"])[data.y]
    model = LGBMClassifier(boosting_type="rf", n_estimators=11, subsample=0.6, subsample_freq=1, verbose=-1)
    votes = rfsize.votes(model.fit(data.X, names), data.fresh)
    assert votes.classes.tolist() == ["no", "yes"]
    assert set(votes.winner().tolist()) == {"no", "yes"}


def test_many_threads_on_one_model(booster: Any, data: Data) -> None:
    expected = rfsize.votes(booster, data.X, oob=True)
    report = rfsize.size(booster, data.fresh).to_dict()
    with ThreadPoolExecutor(8) as pool:
        voted = [pool.submit(rfsize.votes, booster, data.X, oob=True) for _ in range(16)]
        sized = [pool.submit(rfsize.size, booster, data.fresh) for _ in range(16)]
        assert all(task.result() == expected for task in voted)
        assert all(task.result().to_dict() == report for task in sized)


@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
def test_shared_bags_warn(train: Any, data: Data) -> None:
    shared = {"bagging_freq": 3} if train is train_lightgbm else {"tree_method": "approx"}
    model = train(data.X, data.y, 12, **shared)
    with pytest.warns(rfsize.SharedBagsWarning, match="not independent"):
        rfsize.size(model, data.fresh, alpha=0.8)


def frame(X: np.ndarray) -> pd.DataFrame:
    """The features with two of them as categories, one of numbers and one of words."""
    table = pd.DataFrame(X, columns=[f"f {index}" if index == 4 else f"f{index}" for index in range(X.shape[1])])
    table["f1"] = pd.Categorical(np.digitize(X[:, 1], [-1, 0, 1]), categories=range(4))
    table["f2"] = pd.Categorical(np.where(X[:, 2] > 0, "up", "down"), categories=["down", "up"])
    return table


@pytest.mark.filterwarnings("ignore:Found whitespace")
@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
def test_data_frames_with_categories(train: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    table, fresh = frame(data.X), frame(data.fresh)
    model = train(table, data.y, 21, **({"tree_method": "hist"} if train is train_xgboost else {}))
    labels = rfsize.votes(model, fresh)
    alone = rfsize.truncate(model, n_trees=1)
    assert np.array_equal(rfsize.votes(alone, fresh).counts[:, 1], predict(alone, fresh) > 0.5)
    monkeypatch.setattr("rfsize.rows.CELLS_PER_BLOCK", 21 * 50)
    assert rfsize.votes(model, fresh) == labels
    assert rfsize.inbag(model, table).mean() == pytest.approx(0.632, abs=0.02)
    for wrong, message in [
        (fresh[fresh.columns[::-1]], "another order"),
        (fresh.rename(columns={"f0": "g0"}), r"missing \['f0'\], unknown \['g0'\]"),
        (fresh.rename(columns={"f0": "f3"}), "same name"),
    ]:
        with pytest.raises(ValueError, match=message):
            rfsize.votes(model, wrong)


def test_other_kinds_of_matrices(booster: Any, data: Data) -> None:
    expected = rfsize.votes(booster, data.fresh)
    dense = np.asfortranarray(data.fresh)
    assert rfsize.votes(booster, dense) == expected
    assert rfsize.votes(booster, data.fresh.tolist()) == expected
    assert rfsize.votes(booster, sparse.csr_matrix(data.fresh)) == expected
    assert rfsize.votes(booster, sparse.csc_array(data.fresh)) == expected
    assert len(rfsize.votes(booster, data.fresh[:1])) == 1


@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
def test_arrow_tables(train: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    named = pd.DataFrame(data.X, columns=["format", *"bcdefgh"])
    model = train(named, data.y, 21)
    expected = rfsize.votes(model, named, oob=True)
    assert rfsize.votes(model, pa.Table.from_pandas(named), oob=True) == expected
    monkeypatch.setattr("rfsize.rows.CELLS_PER_BLOCK", 21 * 50)
    assert rfsize.votes(model, pa.Table.from_pandas(named), oob=True) == expected
    with pytest.raises(ValueError, match="another order"):
        rfsize.votes(model, pa.Table.from_pandas(named[named.columns[::-1]]))
    words = pa.table({name: pa.array(["a", "b"]).dictionary_encode() for name in named.columns})
    with pytest.raises(ValueError, match="to_pandas"):
        rfsize.votes(model, words)


def test_missing_values(booster: Any, data: Data) -> None:
    X = data.fresh.copy()
    X[::3, 0] = np.nan
    labels = (raw_trees(booster, X) > 0.5).astype(int)
    assert np.array_equal(rfsize.votes(booster, X).counts, naive.votes(labels, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, data: rfsize.size(model), "X is missing"),
        (lambda model, data: rfsize.votes(model, None), "X is missing"),
        (lambda model, data: rfsize.size(model, data.fresh[:, :3]), "3 columns, but the forest was trained on 8"),
        (lambda model, data: rfsize.size(model, data.fresh[0]), "reshape"),
        (lambda model, data: rfsize.size(model, data.fresh[:0]), "no rows"),
        (lambda model, data: rfsize.size(model, "rows.csv"), "give a NumPy array"),
        (lambda model, data: rfsize.size(model, data.fresh, alpha=1.0), "strictly between 0 and 1"),
        (lambda model, data: rfsize.size(model, data.fresh, alpha=None), "strictly between 0 and 1"),
        (lambda model, data: rfsize.size(model, data.fresh, alpha="0.9"), "strictly between 0 and 1"),
        (lambda model, data: rfsize.size(model, data.fresh, threshold=0.0), "strictly between 0 and 1"),
        (lambda model, data: rfsize.size(model, data.fresh, voting="loud"), "voting must be one of"),
        (lambda model, data: rfsize.size(model, data.fresh, estimator="kernel"), "estimator must be one of"),
        (lambda model, data: rfsize.size(rfsize.Votes([[1, 2]]), data.fresh), "leave out X"),
        (lambda model, data: rfsize.size(rfsize.Votes([[1, 2]]), threshold=0.4), "leave out X, oob, threshold"),
        (lambda model, data: rfsize.size(rfsize.Votes([[1, 2]]), seed=3), "sample_weight, seed, subsample"),
        (
            lambda model, data: rfsize.size(rfsize.truncate(model, n_trees=1), data.fresh, voting="soft"),
            "has 1 tree; train more",
        ),
        (lambda model, data: rfsize.size(rfsize.Votes([[0, 0]])), "no row has a vote"),
        (lambda model, data: rfsize.truncate(model, n_trees=0), "from 1 to 61"),
        (lambda model, data: rfsize.truncate(model, n_trees=62), "from 1 to 61"),
        (lambda model, data: rfsize.truncate(model, n_trees=2.5), "from 1 to 61"),
        (lambda model, data: rfsize.truncate(model, n_trees=True), "from 1 to 61"),
        (lambda model, data: rfsize.truncate(model, data.fresh, n_trees=5), "not both"),
        (lambda model, data: rfsize.truncate(rfsize.Votes([[1, 2]])), "cuts a model"),
        (lambda model, data: rfsize.inbag(model, data.fresh), "the order of training"),
        (lambda model, data: rfsize.inbag(model, data.X[::-1]), "could not be proven"),
        (lambda model, data: rfsize.votes(model, data.X + 1.0, oob=True), "could not be proven"),
        (lambda model, data: rfsize.size(object()), "rfsize sizes a"),
        (lambda model, data: rfsize.size(type(model), data.X), "not a trained model"),
        (lambda model, data: rfsize.size(None, data.X), "rfsize sizes a"),
    ],
)
def test_refusals(call: Any, message: str, booster: Any, data: Data) -> None:
    with pytest.raises(ValueError, match=message):
        call(booster, data)
