"""Out of bag, no tree votes on a row of whose group it saw one: each framework, by one tree and row at a time."""

from __future__ import annotations

import math
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier
from xgboost import XGBClassifier

import reference.counting
import reference.groups
import rfsize
from helpers.copied import continuous, of_few_values, popular, twice
from helpers.xgboost_forests import class_margins
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.models.bags import Layout
from rfsize.models.framework import read_forest
from rfsize.utils.words import in_percent

N_ROWS = 300
FORESTS: dict[str, Any] = {
    "LightGBM": LGBMClassifier(
        boosting_type="rf", n_estimators=41, subsample=0.5, subsample_freq=1, colsample_bytree=0.6, n_jobs=1, verbose=-1
    ),
    "XGBoost": XGBClassifier(
        n_estimators=1, num_parallel_tree=41, learning_rate=1, subsample=0.5, colsample_bynode=0.5, n_jobs=1
    ),
    "random forest": RandomForestClassifier(41, max_samples=0.5, random_state=0),
    "neighbours": BaggingClassifier(KNeighborsClassifier(3), 41, max_samples=0.5, random_state=0),
}


@pytest.fixture(scope="module", params=FORESTS)
def model(request: pytest.FixtureRequest) -> Any:
    X, y = continuous(N_ROWS)
    return clone(FORESTS[request.param]).fit(X, y)


@pytest.fixture(scope="module")
def patients() -> list[str]:
    """Groups of one row to some six."""
    return [f"patient {number}" for number in np.random.default_rng(3).integers(0, 150, N_ROWS)]


def test_votes_are_of_trees_that_saw_no_row_of_the_group(model: Any, patients: list[str]) -> None:
    X, _ = continuous(N_ROWS)
    tree_labels, inbag = rfsize.tree_outputs(model, X).by_tree().T, rfsize.inbag(model, X)
    expected = reference.counting.votes(tree_labels, 2, reference.groups.spread(inbag, patients))
    assert np.array_equal(rfsize.tree_outputs(model, X, oob=True, groups=patients).votes.counts, expected)
    alone = reference.counting.votes(tree_labels, 2, inbag)
    assert np.array_equal(rfsize.tree_outputs(model, X, oob=True, groups="rows").votes.counts, alone)
    assert np.array_equal(rfsize.tree_outputs(model, X, oob=True).votes.counts, alone)
    assert (expected.sum(axis=1) < alone.sum(axis=1)).any()


def test_blocks_of_any_size_give_the_same_votes(
    model: Any, patients: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _ = continuous(N_ROWS)
    whole = rfsize.tree_outputs(model, X, oob=True, groups=patients).votes
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 37 * 41)
    assert rfsize.tree_outputs(model, X, oob=True, groups=patients).votes == whole


@pytest.mark.parametrize("framework", ["LightGBM", "XGBoost", "random forest"])
def test_several_classes(framework: str, patients: list[str]) -> None:
    X, _ = continuous(N_ROWS)
    y = np.digitize(X[:, 0] + X[:, 1], [-0.6, 0.6])
    model = clone(FORESTS[framework]).fit(X, y)
    votes = rfsize.tree_outputs(model, X, oob=True, groups=patients).votes
    if framework == "XGBoost":  # a bag for the tree of each class: as many votes as the class with the fewest trees
        expected = _votes_of_classes(model, X, patients)
    else:
        seen = reference.groups.spread(rfsize.inbag(model, X), patients)
        expected = reference.counting.votes(rfsize.tree_outputs(model, X).by_tree().T, 3, seen)
    assert np.array_equal(votes.counts, expected)


def _votes_of_classes(model: Any, X: np.ndarray, groups: list[str]) -> np.ndarray:
    """Of each class, the first tree that saw none of the group votes with the first of the others, and so on."""
    margin = class_margins(model.get_booster(), X, range(41))
    inbag = read_forest(model).bags(Layout.alone(len(X)), None, None, None, None).take(0, len(X))
    seen = np.stack([reference.groups.spread(inbag[:, :, k].T, groups) for k in range(3)], axis=2)
    counts = np.zeros((len(X), 3), dtype=int)
    for row in range(len(X)):
        of_class = [[margin[tree, row, k] for tree in range(41) if not seen[tree, row, k]] for k in range(3)]
        for scores in zip(*of_class, strict=False):
            counts[row, int(np.argmax(scores))] += 1
    return counts


def test_scores_are_of_the_same_trees(patients: list[str]) -> None:
    X, _ = continuous(N_ROWS)
    model = RandomForestRegressor(41, random_state=0).fit(X, X[:, 0])
    adapter = read_forest(model, casts_votes=False)
    seen = reference.groups.spread(rfsize.inbag(adapter, X), patients)
    each = np.array([tree.predict(X) for tree in model.estimators_])
    scores = Evidence.of(ForestOnRows.of(adapter, X, oob=True, groups=patients)).scores
    assert scores is not None
    assert scores.asked.tolist() == (~seen).sum(axis=0).tolist()
    for row in np.flatnonzero(scores.asked):
        of_row = each[~seen[:, row], row]
        assert scores.mean[row, 0] == pytest.approx(of_row.mean())
        assert scores.scatter[row, 0] == pytest.approx(np.sum((of_row - of_row.mean()) ** 2))
    report = rfsize.size(model, X, oob=True, metric="scores", tolerance=0.1, groups=patients)
    assert report.votes_per_row == scores.asked[scores.asked > 1].mean()
    assert "by groups: no tree votes on a row of a group that it was trained on" in str(report)


@pytest.mark.parametrize("kind", ["LightGBM", "XGBoost", "random forest"])
def test_copies_of_continuous_features_count_once(kind: str) -> None:
    X, y = twice(*continuous(N_ROWS))
    model = clone(FORESTS[kind]).fit(X, y)
    report = rfsize.size(model, X, oob=True, alpha=0.9, voting="hard")
    assert (report.groups, report.copied, report.n_rows + report.n_dropped) == ("copies", 1.0, N_ROWS)
    assert "100 % of the rows occur more than once: equal rows count as one" in str(report)
    named = rfsize.size(model, X, oob=True, alpha=0.9, voting="hard", groups="copies")
    assert report.to_dict() == named.to_dict()
    group = reference.groups.of_copies(X.tolist())
    seen = reference.groups.spread(rfsize.inbag(model, X), group)
    counts = reference.counting.votes(rfsize.tree_outputs(model, X).by_tree().T, 2, seen)
    assert np.array_equal(rfsize.tree_outputs(model, X, oob=True).votes.counts, counts)
    once = rfsize.Votes(counts[reference.groups.first_of_each(group)], n_trees=41)
    assert report.n_trees == rfsize.size(once, alpha=0.9).n_trees
    assert report.votes_per_row == once.asked[once.asked > 0].mean()
    soft = rfsize.size(model, X, oob=True, alpha=0.9)
    assert soft._answer.goal.voting == "soft"
    assert soft.votes_per_row == once.asked[once.asked > 1].mean()
    deviation = rfsize.size(model, X, oob=True, metric="probabilities", tolerance=0.1)
    assert (deviation.n_rows, deviation.groups, deviation.copied) == (soft.n_rows, "copies", 1.0)
    assert len(rfsize.tree_outputs(rfsize.truncate(model, X, oob=True, alpha=0.5), X).votes) == 2 * N_ROWS
    alone = rfsize.size(model, X, oob=True, alpha=0.9, groups="rows")
    assert (alone.groups, alone.copied, alone.n_rows + alone.n_dropped) == ("rows", None, 2 * N_ROWS)
    assert "copy" not in str(alone)


def test_size_is_that_of_fresh_rows() -> None:
    X, y = twice(*continuous(1500))
    model = RandomForestClassifier(300, random_state=0).fit(X, y)
    truth = rfsize.size(model, continuous(20_000, seed=1)[0], alpha=0.97).n_trees
    low, high = rfsize.size(model, X, oob=True, alpha=0.97).interval
    assert low <= truth <= high
    assert rfsize.size(model, X, oob=True, alpha=0.97, groups="rows").interval[1] < low


def test_rows_of_few_values_count_as_they_did() -> None:
    X, y = of_few_values(800)
    model = RandomForestClassifier(41, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rfsize.exceptions.CopiesWarning)
        report = rfsize.size(model, X, oob=True, alpha=0.9)
    alone = rfsize.size(model, X, oob=True, alpha=0.9, groups="rows")
    assert (report.n_trees, report.n_rows, report.votes_per_row) == (alone.n_trees, 800, alone.votes_per_row)
    assert report.groups == "rows"
    assert f"{in_percent(report.copied)} of the rows occur more than once; each counts as a row" in str(report)


def test_what_the_rows_do_not_tell_is_said_with_both_sizes() -> None:
    X, y = twice(*of_few_values(150))
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 1 - y, y)
    model = RandomForestClassifier(301, max_samples=0.4, random_state=0).fit(X, y)
    by = {groups: rfsize.size(model, X, oob=True, alpha=0.95, groups=groups).n_trees for groups in ("rows", "copies")}
    with pytest.warns(rfsize.exceptions.CopiesWarning) as caught:
        report = rfsize.size(model, X, oob=True, alpha=0.95)
    (warning,) = caught
    assert f"T* is {by['rows']}, which is assumed here" in str(warning.message)
    assert f"give groups='copies': T* is {by['copies']}." in str(warning.message)
    assert warning.filename == __file__
    assert report.n_trees == by["rows"]
    with pytest.warns(rfsize.exceptions.CopiesWarning):
        rfsize.size(model, X, oob=True, metric="probabilities", tolerance=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rfsize.exceptions.CopiesWarning)
        for groups in ("rows", "copies", np.arange(len(X))):
            rfsize.size(model, X, oob=True, alpha=0.95, groups=groups)


def test_popular_rows_stand_alone_with_a_warning() -> None:
    X, y = popular(1000)
    model = RandomForestClassifier(101, random_state=0).fit(X, y)
    alone = rfsize.size(model, X, oob=True, alpha=0.9, groups="rows")
    assert np.isfinite(alone.n_trees)
    assert rfsize.size(model, X, oob=True, alpha=0.9, groups="copies").n_trees == np.inf
    with pytest.warns(rfsize.exceptions.CopiesWarning, match=r"groups='copies': T\* cannot be known.*groups='rows'"):
        report = rfsize.size(model, X, oob=True, alpha=0.9)
    assert (report.n_trees, report.groups) == (alone.n_trees, "rows")


def test_copies_that_every_tree_saw() -> None:
    X, y = continuous(60)
    X, y = np.repeat(X, 12, axis=0), np.repeat(y, 12)
    model = RandomForestClassifier(15, random_state=0).fit(X, y)
    with pytest.raises(
        rfsize.exceptions.FewVotesError, match=r"every tree saw every row, or another of its group.* give groups='rows'"
    ):
        rfsize.size(model, X, oob=True)
    assert rfsize.size(model, X, oob=True, groups="rows").n_rows > 0


def test_rows_without_votes_leave_the_size_untold() -> None:
    X, y = continuous(400)
    rare = np.flatnonzero(y == 1)[:30]
    X, y = np.concatenate([X, *[X[rare]] * 9]), np.concatenate([y, *[y[rare]] * 9])
    model = RandomForestClassifier(101, random_state=0).fit(X, y)
    for metric in ({"alpha": 0.9}, {"voting": "soft", "alpha": 0.9}, {"metric": "scores", "tolerance": 0.9}):
        report = rfsize.size(model, X, oob=True, **metric)
        assert (report.n_trees, report.interval, report.enough) == (np.inf, (1, np.inf), False)
        assert report.n_rows + report.n_dropped == 400
        assert report.reason.startswith(f"{in_percent(report.n_dropped / 400)} of the rows have no out-of-bag votes")
        assert "these rows may be the ones that take most trees: give validation rows" in str(report)
        assert "or give groups='rows' if equal rows are different cases" in str(report)
    assert rfsize.size(model, X, oob=True, alpha=0.5).size_at(0.8) == np.inf
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="rows have no out-of-bag votes"):
        assert len(rfsize.truncate(model, X, oob=True, alpha=0.5).estimators_) == 101


@pytest.mark.parametrize("metric", ["labels", "probabilities", "auc"])
def test_sizes_of_groups_are_known_where_rows_have_votes(metric: str, patients: list[str]) -> None:
    X, y = continuous(N_ROWS)
    model = RandomForestClassifier(101, max_samples=0.3, random_state=0).fit(X, y)
    level = {"alpha": 0.8} if metric == "labels" else {"tolerance": 0.2}
    report = rfsize.size(model, X, y, oob=True, groups=patients, metric=metric, **level)
    assert report.groups == "given"
    assert math.isfinite(report.n_trees)


def test_rows_that_no_tree_leaves_out_by_chance_leave_the_size_known() -> None:
    X, y = continuous(400)
    model = RandomForestClassifier(7, random_state=0).fit(X, y)
    report = rfsize.size(model, X, oob=True, groups="rows", metric="probabilities", tolerance=0.3)
    assert report.n_dropped > 0.1 * 400  # of which one score, or none, is known
    assert math.isfinite(report.n_trees)


def test_metrics_go_by_the_same_trees(patients: list[str]) -> None:
    X, y = continuous(N_ROWS)
    model = RandomForestClassifier(101, max_samples=0.5, random_state=0).fit(X, y)
    seen = reference.groups.spread(rfsize.inbag(model, X), patients)
    grouped, alone = (
        rfsize.size(model, X, y, oob=True, groups=groups, metric="auc", tolerance=0.01) for groups in (patients, "rows")
    )
    assert grouped.votes_per_row == pytest.approx((~seen).sum(axis=0).mean(), rel=0.02)
    assert grouped.loss_at(5) != alone.loss_at(5)


def test_refusals(model: Any, patients: list[str]) -> None:
    X, _ = continuous(N_ROWS)
    with pytest.raises(ValueError, match="groups say on which training rows a tree may not vote, and oob=False"):
        rfsize.tree_outputs(model, X, groups=patients)
    with pytest.raises(ValueError, match="leave groups out, or give the training rows with oob=True"):
        rfsize.size(model, X, groups="copies")
    with pytest.raises(ValueError, match="one label for each of the 300 training rows"):
        rfsize.size(model, X, oob=True, groups=patients[1:])
    with pytest.raises(ValueError, match="groups would have no effect: counted Votes already hold their rows"):
        rfsize.size(rfsize.tree_outputs(model, X).votes, groups=patients)
    with pytest.raises(ValueError, match="groups would have no effect: n_trees sets the size"):
        rfsize.truncate(model, n_trees=3, groups=patients)


def test_xgboost_and_lightgbm_data() -> None:
    X, y = twice(*continuous(N_ROWS))
    booster = xgb.train(
        {"objective": "binary:logistic", "subsample": 0.5, "num_parallel_tree": 31}, xgb.DMatrix(X, y), 1
    )
    assert rfsize.size(booster, xgb.DMatrix(X), oob=True).to_dict() == rfsize.size(booster, X, oob=True).to_dict()
    params = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1, "verbose": -1}
    booster = lgb.train(params, lgb.Dataset(X, y), 31)
    assert rfsize.size(booster, X, oob=True).groups == "copies"
