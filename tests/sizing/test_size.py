"""The main job, on LightGBM and XGBoost alike."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import Perceptron
from sklearn.neighbors import KNeighborsClassifier
from xgboost import XGBClassifier

import reference.majority
import rfsize
from helpers.forests import LIGHTGBM, TREES, Data
from helpers.outputs import votes_of
from helpers.reports import agreement
from rfsize import theory


def test_size_is_the_plug_in_estimate(booster: Any, data: Data) -> None:
    votes = rfsize.tree_outputs(booster, data.fresh).votes
    fractions = votes.fractions()[:, 1]
    report = rfsize.size(booster, data.fresh, alpha=0.95, voting="hard", method="plugin")
    assert report.n_trees == reference.majority.ensemble_size(0.95, fractions.tolist(), 401)
    assert agreement(report, 11) == pytest.approx(theory.mean_agreement(11, fractions))
    assert report.size_at(0.9) == theory.ensemble_size(0.9, fractions)
    assert (report.available, report.n_rows, report.source) == (TREES, len(data.fresh), "rows given")
    of_votes = rfsize.size(votes, alpha=0.95, method="plugin")
    assert str(of_votes).splitlines()[1] == str(report).splitlines()[1]
    # Counted votes do not tell that all rows share the trees.
    low, high = report.interval
    assert low <= of_votes.interval[0] <= of_votes.n_trees == report.n_trees <= of_votes.interval[1] <= high


def test_out_of_bag_size_drops_rows_without_votes(booster: Any, data: Data) -> None:
    votes = rfsize.tree_outputs(booster, data.X, oob=True).votes
    report = rfsize.size(booster, data.X, alpha=0.9, oob=True, voting="hard")
    voted = votes.asked > 0
    assert report.n_trees == theory.ensemble_size(0.9, votes.fractions()[voted, 1])
    assert report.n_rows == voted.sum()
    assert report.n_dropped == (~voted).sum()
    assert report.source == "oob"
    assert rfsize.size(votes, alpha=0.9).source == "oob"


def test_rows_at_one_half_are_explained() -> None:
    report = rfsize.size(rfsize.Votes([[5, 5], [10, 0]]), alpha=0.9, method="plugin")
    assert report.n_trees == math.inf
    assert not report.enough
    assert "exactly half" in str(report)
    assert report.to_dict()["n_trees"] is None
    assert report.reason is not None
    json.dumps(report.to_dict())


@pytest.fixture(params=["LGBMClassifier", "XGBClassifier"])
def classifier(request: pytest.FixtureRequest) -> Any:
    return {
        "LGBMClassifier": LGBMClassifier(
            boosting_type="rf", n_estimators=41, subsample=0.6, subsample_freq=1, random_state=1, n_jobs=1, verbose=-1
        ),
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
    assert (
        rfsize.tree_outputs(clone(small).fit(data.X, data.y), data.fresh).votes
        == rfsize.tree_outputs(small, data.fresh).votes
    )
    assert rfsize.size(model, data.X, alpha=0.9, oob=True).source == "oob"
    assert model.get_params() == parameters
    assert np.array_equal(model.predict_proba(data.fresh), before)


def test_many_threads_on_one_model(booster: Any, data: Data) -> None:
    expected = rfsize.tree_outputs(booster, data.X, oob=True).votes
    report = rfsize.size(booster, data.fresh).to_dict()
    with ThreadPoolExecutor(8) as pool:
        voted = [pool.submit(votes_of, booster, data.X, oob=True) for _ in range(16)]
        sized = [pool.submit(rfsize.size, booster, data.fresh) for _ in range(8)]
        assert all(task.result() == expected for task in voted)
        assert all(task.result().to_dict() == report for task in sized)


AVERAGING: dict[str, Any] = {
    "LightGBM": LGBMClassifier(
        boosting_type="rf", n_estimators=41, subsample=0.6, subsample_freq=1, random_state=1, n_jobs=1, verbose=-1
    ),
    "XGBoost": XGBClassifier(n_estimators=1, num_parallel_tree=41, subsample=0.6, random_state=1),
    "random forest": RandomForestClassifier(41, max_depth=4, random_state=1),
    "bagging of trees": BaggingClassifier(n_estimators=41, random_state=1),
    "neighbours": BaggingClassifier(KNeighborsClassifier(), n_estimators=41, random_state=1),
}
VOTING: dict[str, Any] = {
    "perceptron": BaggingClassifier(Perceptron(), n_estimators=41, max_features=0.7, random_state=1),
}


@pytest.mark.parametrize("kind", [*AVERAGING, *VOTING])
def test_the_labels_of_predict_are_sized_by_default(kind: str, data: Data) -> None:
    model = clone((AVERAGING | VOTING)[kind]).fit(data.X[:400], data.three[:400])
    voting = "soft" if kind in AVERAGING else "hard"
    report = rfsize.size(model, data.fresh, alpha=0.8)
    assert (report._answer.goal.voting, report._answer.voting) == (voting, voting)
    for asked_for in (voting, "auto"):
        assert rfsize.size(model, data.fresh, alpha=0.8, voting=asked_for).to_dict() == report.to_dict()
    assert rfsize.size(rfsize.tree_outputs(model, data.fresh), alpha=0.8).n_trees == report.n_trees
    assert (
        rfsize.tree_outputs(rfsize.truncate(model, data.fresh, alpha=0.8), data.fresh).votes.n_trees == report.n_trees
    )
    of_votes = rfsize.size(rfsize.tree_outputs(model, data.fresh).votes, alpha=0.8)
    assert (of_votes._answer.goal.voting, of_votes._answer.voting) == ("hard", None)
    assert (of_votes.n_trees == report.n_trees) == (voting == "hard")


@pytest.mark.parametrize("kind", [*AVERAGING, *VOTING])
def test_forests_grow_to_the_labels_of_predict_by_default(kind: str, data: Data) -> None:
    model, rows = clone((AVERAGING | VOTING)[kind]), (data.X[:400], data.three[:400])
    voting = "soft" if kind in AVERAGING else "hard"
    options = {"alpha": 0.85, "min_trees": 40}
    grown, report = rfsize.grow(model, *rows, **options)
    assert report._answer.goal.voting == voting
    assert rfsize.tree_outputs(grown, data.fresh).votes.n_trees == report._wanted
    assert rfsize.grow(model, *rows, voting=voting, **options)[1].to_dict() == report.to_dict()
    if kind in AVERAGING:
        assert rfsize.grow(model, *rows, voting="hard", **options)[1].n_trees != report.n_trees


def test_training_stops_at_the_labels_of_predict_by_default(data: Data) -> None:
    trees = {}
    for voting in ("auto", "soft", "hard"):
        callback = rfsize.SizeCallback(**({} if voting == "auto" else {"voting": voting}), alpha=0.97)
        trees[voting] = lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 400, callbacks=[callback]).num_trees()
        assert callback.report_._answer.goal.voting == ("hard" if voting == "hard" else "soft")
    assert trees["auto"] == trees["soft"] != trees["hard"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, data: rfsize.size(model), "X is missing"),
        (lambda model, data: rfsize.size(model, data.fresh[:, :3]), "3 columns, but the forest was trained on 8"),
        (lambda model, data: rfsize.size(model, data.fresh[0]), "reshape"),
        (lambda model, data: rfsize.size(model, data.fresh[:0]), "no rows"),
        (lambda model, data: rfsize.size(model, {"x0": 1.0}), "give a NumPy array"),
        (lambda model, data: rfsize.size(model, data.fresh, alpha=1.0), "strictly between 0 and 1"),
        (lambda model, data: rfsize.size(model, data.fresh, alpha=float("nan")), "strictly between 0 and 1"),
        (lambda model, data: rfsize.size(model, data.fresh, alpha="0.9"), "strictly between 0 and 1"),
        (
            lambda model, data: rfsize.size(rfsize.tree_outputs(model, data.fresh, threshold=0.0)),
            "strictly between 0 and 1",
        ),
        (lambda model, data: rfsize.size(model, data.fresh, voting="loud"), "voting must be one of"),
        (lambda model, data: rfsize.size(model, data.fresh, method="kernel"), "method must be one of"),
        (lambda model, data: rfsize.size(rfsize.Votes([[1, 2]]), data.fresh), "X would have no effect: counted Votes"),
        (lambda model, data: rfsize.size(rfsize.Votes([[1, 2]]), groups="rows"), "groups would have no effect"),
        (lambda model, data: rfsize.size(rfsize.Votes([[1, 2]]), y=[1]), "y would have no effect"),
        (
            lambda model, data: rfsize.size(rfsize.truncate(model, n_trees=1), data.fresh, voting="soft"),
            "has 1 tree; train more",
        ),
        (lambda model, data: rfsize.size(rfsize.Votes([[0, 0]])), "no row has a vote"),
    ],
)
def test_refusals(call: Any, message: str, booster: Any, data: Data) -> None:
    with pytest.raises(ValueError, match=message):
        call(booster, data)
