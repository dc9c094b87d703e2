"""Agreement averaged over the classes, so that a rare one counts."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier

import reference.majority
import rfsize
from helpers.outputs import outputs_of
from helpers.reports import agreement, agreement_by_class
from rfsize.counting.scores import Scores
from rfsize.sizing.goals.label_rows import _most_voted
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.report import report_of
from rfsize.sizing.sentences import finding, headline
from rfsize.theory import multiclass


def two_classes(for_class_1: np.ndarray, asked: np.ndarray | int, **options: Any) -> rfsize.Votes:
    return rfsize.Votes(np.stack([asked - for_class_1, for_class_1], axis=1), **options)


def rare(n_rows: int, asked: int, seed: int) -> tuple[np.ndarray, rfsize.Votes]:
    """Vote fractions, above 1/2 on one row in 24, and votes drawn with them."""
    rng = np.random.default_rng(seed)
    pi = rng.beta(0.2, 2.0, n_rows)
    return pi, two_classes(rng.binomial(asked, pi), asked)


def test_it_is_the_mean_over_classes_of_direct_sums() -> None:
    votes = two_classes(np.array([0, 3, 9, 20, 44] * 6 + [52, 71, 101]), 101)
    report = rfsize.size(votes, average="macro", alpha=0.9, method="plugin")
    pi = votes.fractions()[:, 1].tolist()
    by_class = [[one for one in pi if one < 0.5], [one for one in pi if one > 0.5]]

    def expected(n_trees: int) -> list[float]:
        return [1.0 - np.mean([reference.majority.disagreement(n_trees, one) for one in each]) for each in by_class]

    for n_trees in (1, 7, 41):
        assert agreement_by_class(report, n_trees) == pytest.approx(dict(enumerate(expected(n_trees))))
        assert agreement(report, n_trees) == pytest.approx(np.mean(expected(n_trees)))
    enough = [np.mean(expected(n_trees)) >= 0.9 for n_trees in range(1, int(report.n_trees) + 1, 2)]
    assert enough == [False] * (len(enough) - 1) + [True]
    assert report.n_trees > rfsize.size(votes, alpha=0.9, method="plugin").n_trees


counts = st.integers(2, 4).flatmap(
    lambda n_classes: st.lists(
        st.lists(st.integers(0, 9), min_size=n_classes, max_size=n_classes), min_size=1, max_size=30
    ).filter(lambda rows: any(map(any, rows)))
)


@given(counts, st.integers(0, 40).map(lambda half: 2 * half + 1))
@settings(max_examples=60, deadline=None)
def test_any_votes(counts: list[list[int]], n_trees: int) -> None:
    votes = rfsize.Votes(counts, n_trees=max(map(sum, counts)))
    micro, macro = (rfsize.size(votes, alpha=0.9, method="plugin", average=of) for of in ("micro", "macro"))
    by_class, shares = agreement_by_class(macro, n_trees), macro._answer.label_shares
    assert by_class == agreement_by_class(micro, n_trees)
    assert list(shares) == list(range(len(counts[0])))
    assert by_class.keys() == {of for of, share in shares.items() if share > 0.0}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert agreement(macro, n_trees) == pytest.approx(np.mean(list(by_class.values())))
    # Each row is of one class.
    assert agreement(micro, n_trees) == pytest.approx(sum(shares[of] * by_class[of] for of in by_class))
    low, high = macro.interval
    assert low <= macro.n_trees <= high


@given(counts)
@settings(max_examples=60, deadline=None)
def test_tied_classes_take_turns(counts: list[list[int]]) -> None:
    given_rows = np.array(counts * 12, dtype=np.int32)
    leader = _most_voted(given_rows)
    assert (given_rows[np.arange(len(given_rows)), leader] == given_rows.max(axis=1)).all()
    tied = (given_rows == given_rows.max()).all(axis=1)
    if tied.any():
        times = np.bincount(leader[tied], minlength=given_rows.shape[1])
        assert times.max() - times.min() <= 12
    shuffled = np.random.default_rng(0).permutation(len(given_rows))
    assert (np.bincount(_most_voted(given_rows[shuffled])) == np.bincount(leader)).all()


def test_several_classes_against_direct_sums() -> None:
    rng = np.random.default_rng(0)
    votes = rfsize.Votes(rng.multinomial(101, rng.dirichlet([1.0, 0.6, 0.1], size=400)))
    report = rfsize.size(votes, average="macro", alpha=0.9, method="plugin")
    agrees = multiclass.agreement(31, votes.fractions())
    leader = _most_voted(votes.counts)
    expected = {of: agrees[leader == of].mean() for of in range(3)}
    assert agreement_by_class(report, 31) == pytest.approx(expected)
    assert agreement(report, 31) == pytest.approx(np.mean(list(expected.values())))


@pytest.mark.parametrize("asked", [37, 100])
def test_few_votes_of_rows_whose_fractions_are_known(asked: int) -> None:
    truth, _ = rare(200_000, 1, 9)
    size, found, held = 51, [], 0
    differ = 1.0 - (rfsize.theory.agreement(size, np.minimum(truth, 1.0 - truth)))
    expected = 1.0 - np.mean([differ[truth <= 0.5].mean(), differ[truth > 0.5].mean()])
    for seed in range(6):
        report = rfsize.size(rare(8000, asked, seed)[1], average="macro", alpha=expected)
        found.append(1.0 - agreement(report, size))
        low, high = report.interval
        held += low <= size <= high
    assert np.mean(found) == pytest.approx(1.0 - expected, rel=0.1)
    assert held >= 4


@pytest.mark.parametrize("n_scores", [1, 3])
def test_averaged_scores_against_direct_sums(n_scores: int) -> None:
    rng = np.random.default_rng(1)
    score = rng.normal(rng.normal(-0.4, 0.5, size=(500, 1, n_scores)), 1.0, size=(500, 60, n_scores))
    scores, cut = Scores.of(score), 0.1
    votes = rfsize.Votes(np.tile([60, 0, 0][: max(2, n_scores)], (500, 1)))
    outputs = outputs_of(votes, scores, cut=cut, voting="soft")
    goal = LabelGoal(0.9, "soft", "macro", method="plugin")
    report = report_of(replace(outputs, n_trees=60, source="rows given"), goal)
    mean = score.mean(axis=1)
    leader = (mean[:, 0] > cut).astype(int) if n_scores == 1 else mean.argmax(axis=1)
    agrees = np.ones(500)
    for row in range(500):
        if n_scores == 1:
            over = [score[row, :, 0] - cut if leader[row] else cut - score[row, :, 0]]
        else:
            over = [score[row, :, leader[row]] - score[row, :, of] for of in range(3) if of != leader[row]]
        agrees[row] = np.prod([norm.cdf(math.sqrt(21) * one.mean() / one.std(ddof=1)) for one in over])
    expected = {of: agrees[leader == of].mean() for of in range(max(2, n_scores))}
    assert agreement_by_class(report, 21) == pytest.approx(expected, rel=1e-5)
    assert agreement(report, 21) == pytest.approx(np.mean(list(expected.values())), rel=1e-5)
    by_votes = report_of(replace(outputs, n_trees=60, source="rows given"), replace(goal, voting="hard"))
    assert agreement_by_class(by_votes, 21) == {0: 1.0}  # which are all for class 0


def test_what_it_says() -> None:
    votes = two_classes(np.repeat([5, 38, 70], [970, 10, 20]), 101, classes=["stays", "leaves"])
    report = rfsize.size(votes, average="macro", alpha=0.95, method="plugin")
    assert headline(report).startswith(f"T*(0.95, macro) = {report.n_trees} (")
    assert "of an unlimited forest, averaged over the classes" in str(report)
    assert "few rows get these classes, so their labels are uncertain: leaves (20)" in str(report)
    values = json.loads(json.dumps(report.to_dict()))
    assert values["average"] == "macro"
    assert values["label_shares"] == {"stays": 0.98, "leaves": 0.02}
    assert values["loss"]["by_class"] == pytest.approx(report._answer.by_class(report.n_kept))
    micro = rfsize.size(votes, alpha=0.95, method="plugin")
    assert "few rows" not in str(micro)
    assert "size them by average='macro'" in str(micro)
    asked = [one.call for one in micro._account().cautions]
    assert "report = rfsize.size(model, X, y, alpha=0.95, average='macro')" in asked
    few = rfsize.size(votes, average="macro", alpha=0.9999, method="plugin")
    assert "averaged over the classes; for 99.99 %, train more" in finding(few)


def test_classes_that_no_row_is_given_are_left_out() -> None:
    votes = rfsize.Votes([[60, 30, 11], [20, 70, 11]] * 100, classes=["a", "b", "c"])
    report = rfsize.size(votes, average="macro", alpha=0.9)
    assert list(agreement_by_class(report, 9)) == ["a", "b"]
    assert report._answer.label_shares == {"a": 0.5, "b": 0.5, "c": 0.0}


def test_a_class_that_never_converges() -> None:
    votes = two_classes(np.repeat([5, 50], [900, 40]), 100)
    assert rfsize.size(votes, alpha=0.95, method="plugin").n_trees < math.inf
    report = rfsize.size(votes, alpha=0.95, method="plugin", average="macro")
    assert report.n_trees == math.inf
    assert "one class never converges" in str(report.reason)


def test_a_pickle_knows_both_averages() -> None:
    report = rfsize.size(rare(500, 50, 0)[1], alpha=0.95)
    again = pickle.loads(pickle.dumps(report))
    assert again.to_dict() == report.to_dict()
    assert again.loss_at(9) == report.loss_at(9)
    assert again.interval == report.interval


@pytest.mark.parametrize("average", ["weighted", None, 1])
def test_other_averages_are_refused(average: Any) -> None:
    with pytest.raises(ValueError, match="average must be one of 'micro', 'macro'"):
        LabelGoal(average=average)


def problem(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Class 1 is one row in thirty, and has a column that tells of it."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < 1 / 30).astype(np.int64)
    X = rng.normal(size=(n_rows, 5))
    X[:, :2] += 1.6 * y[:, None]
    return X, y


X, Y = problem(2500, 0)
FRESH, _ = problem(3000, 1)
N_TREES = 100


def lightgbm(n_trees: int, seed: int, X: np.ndarray = X, y: np.ndarray = Y) -> Any:
    params = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "seed": seed, "verbose": -1}
    params |= {"objective": "multiclass", "num_class": 3} if y.max() > 1 else {"objective": "binary"}
    return lgb.train({**params, "num_threads": 1}, lgb.Dataset(X, y), n_trees)


def xgboost(n_trees: int, seed: int, X: np.ndarray = X, y: np.ndarray = Y) -> Any:
    params = {"num_parallel_tree": n_trees, "learning_rate": 1.0, "subsample": 0.6, "seed": seed, "nthread": 1}
    params |= {"objective": "multi:softprob", "num_class": 3} if y.max() > 1 else {"objective": "binary:logistic"}
    return xgb.train({**params, "max_depth": 6}, xgb.DMatrix(X, y), 1)


def random_forest(n_trees: int, seed: int, X: np.ndarray = X, y: np.ndarray = Y) -> Any:
    return RandomForestClassifier(n_trees, min_samples_leaf=3, random_state=seed).fit(X, y)


FOREST: dict[str, Callable[..., Any]] = {"LightGBM": lightgbm, "XGBoost": xgboost, "random forest": random_forest}


@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize("framework", FOREST)
def test_forests_with_a_rare_class(framework: str, voting: str) -> None:
    model = FOREST[framework](N_TREES, 0)
    options: dict[str, Any] = {"voting": voting, "alpha": 0.98}
    large = rfsize.size(FOREST[framework](300, 1), FRESH, **options, average="macro", method="plugin")
    for rows in ({"X": X, "oob": True}, {"X": FRESH}):
        report = rfsize.size(model, **rows, **options, average="macro")
        micro = rfsize.size(model, **rows, **options)
        assert report.n_trees > micro.n_trees
        assert agreement(report, 15) == pytest.approx(agreement(large, 15), abs=0.06)  # of some 100 rows of class 1
        assert agreement_by_class(report, 15)[1] < agreement(report, 15) < agreement_by_class(report, 15)[0]
        low, high = report.interval
        assert low < report.n_trees < high
    assert 0.005 < report._answer.label_shares[1] < 0.08


@pytest.mark.parametrize("framework", FOREST)
def test_it_truncates(framework: str) -> None:
    model = FOREST[framework](N_TREES, 0)
    counted = rfsize.tree_outputs(model, X, Y, oob=True)
    report = rfsize.size(counted, alpha=0.93, average="macro")
    assert report.enough
    small = rfsize.truncate(counted, alpha=0.93, average="macro")
    assert rfsize.tree_outputs(small, FRESH).votes.n_trees == report.n_kept
    with pytest.raises(ValueError, match="average would have no effect"):
        rfsize.truncate(model, n_trees=3, average="macro")


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_a_threshold_moves_what_is_rare(voting: str) -> None:
    model = lightgbm(N_TREES, 0)
    found = [
        rfsize.size(rfsize.tree_outputs(model, X, oob=True, threshold=at), voting=voting, average="macro")
        for at in (0.1, 0.5)
    ]
    low, middle = (report._answer.label_shares[1] for report in found)
    assert low > 1.3 * middle
    assert found[0].n_trees != found[1].n_trees


@pytest.mark.parametrize("framework", FOREST)
def test_three_classes(framework: str) -> None:
    y = np.where((Y == 0) & (X[:, 2] > 0.5), 2, Y)
    model = FOREST[framework](N_TREES, 0, X, y)
    for voting in ("hard", "soft"):
        report = rfsize.size(model, X, oob=True, voting=voting, average="macro", alpha=0.9)
        by_class = agreement_by_class(report, 9)
        assert min(by_class, key=lambda of: by_class[of]) == 1
        assert agreement(report, 9) == pytest.approx(np.mean(list(by_class.values())))
        low, high = report.interval
        assert low <= report.n_trees <= high


def test_the_noise_that_rows_share_counts() -> None:
    model = lightgbm(N_TREES, 0)
    report = rfsize.size(model, FRESH, voting="hard", alpha=0.98, average="macro")
    of_rows = rfsize.size(rfsize.tree_outputs(model, FRESH).votes, voting="hard", alpha=0.98, average="macro")
    assert report.n_trees == of_rows.n_trees
    assert np.ptp(np.log(report.interval)) > np.ptp(np.log(of_rows.interval))


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_a_class_without_rows_whose_noise_is_looked_at(voting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfsize.counting.blocks._ROWS", 7)
    report = rfsize.size(lightgbm(N_TREES, 0), FRESH, voting=voting, alpha=0.98, average="macro")
    low, high = report.interval
    assert low <= report.n_trees <= high


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_groups_of_rows(voting: str) -> None:
    groups = np.where(np.arange(len(X)) < 1200, np.arange(len(X)) // 3, np.arange(len(X)))
    options: dict[str, Any] = {"oob": True, "voting": voting, "alpha": 0.98}
    model = lightgbm(N_TREES, 0)
    report = rfsize.size(model, X, groups=groups, average="macro", **options)
    micro = rfsize.size(model, X, groups=groups, **options)
    by_class, shares = agreement_by_class(report, 15), report._answer.label_shares
    assert agreement(report, 15) == pytest.approx(np.mean(list(by_class.values())))
    # Strata of few rows are put together within the classes, other than over all rows.
    assert agreement(micro, 15) == pytest.approx(sum(shares[of] * by_class[of] for of in by_class), abs=0.01)
    low, high = report.interval
    assert low < report.n_trees < high


def test_only_labels_have_it() -> None:
    with pytest.raises(ValueError, match="average would have no effect"):
        rfsize.size(lightgbm(10, 0), FRESH, metric="scores", tolerance=0.1, average="macro")
