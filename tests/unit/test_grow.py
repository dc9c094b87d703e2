"""Forests grown to size: where growth ends, by whatever it is to be enough for, out of bag and on validation rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Perceptron
from xgboost import XGBClassifier

import rfsize
from helpers.copied import continuous, twice
from helpers.rows import Batches, Slices
from helpers.trained import FRAMEWORKS, FRESH, TRUTH, X, Y, data_for, n_trees_of, params_for, predicted, train
from rfsize.exceptions import FewVotesError, LabelsOnlyWarning, NotConvergedWarning
from rfsize.training.stopping_rule import StoppingRule

BOOSTERS = ("lightgbm", "xgboost")
QUIET = pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
ESTIMATORS: dict[str, Any] = {
    "lightgbm": LGBMClassifier(
        boosting_type="rf", subsample=0.6, subsample_freq=1, num_leaves=15, n_jobs=1, random_state=1, verbose=-1
    ),
    "xgboost": XGBClassifier(n_estimators=1, learning_rate=1, subsample=0.6, max_depth=5, n_jobs=1, random_state=1),
    "sklearn": RandomForestClassifier(min_samples_leaf=5, random_state=1),
    "perceptrons": BaggingClassifier(Perceptron(), max_features=0.7, random_state=1),
}


def grown(framework: str, task: str = "two", **options: Any) -> tuple[Any, rfsize.Report]:
    return grown_on(framework, X, Y[task], **options)


def grown_on(framework: str, rows: np.ndarray, y: np.ndarray, **options: Any) -> tuple[Any, rfsize.Report]:
    """By parameters of LightGBM and XGBoost, or by an estimator."""
    if framework in BOOSTERS:
        return rfsize.grow(params_for(framework, y), data_for(framework, rows, y), **options)
    of_numbers = RandomForestRegressor(min_samples_leaf=5, random_state=3)
    return rfsize.grow(of_numbers if y.dtype.kind == "f" else ESTIMATORS[framework], rows, y, **options)


def assert_same(report: rfsize.Report, expected: rfsize.Report, rel: float = 1e-3) -> None:
    """But for last digits, in which sums of scores differ in training."""
    values, others = report.to_dict(), expected.to_dict()
    for name in ("n_trees", "interval", "votes_per_row"):
        assert values[name] == pytest.approx(others[name], rel=rel)
    for name in ("available", "source", "n_rows", "n_dropped", "groups", "copied"):
        assert values[name] == others[name]
    assert report.loss_at(20).value == pytest.approx(expected.loss_at(20).value, rel=rel, abs=1e-9)


# Where it ends

GOALS: list[tuple[str, str, dict[str, Any]]] = [
    *((framework, "two", {"alpha": 0.93}) for framework in (*FRAMEWORKS, "perceptrons")),
    ("lightgbm", "two", {"alpha": 0.93, "voting": "hard"}),
    ("lightgbm", "two", {"metric": "probabilities", "tolerance": 0.1}),
    ("xgboost", "number", {"metric": "scores", "tolerance": 0.2}),
    ("sklearn", "two", {"metric": "auc", "tolerance": 0.02}),
    ("lightgbm", "number", {"metric": "rmse", "tolerance": 0.02}),
    ("xgboost", "three", {"metric": "log_loss", "tolerance": 0.05}),
    ("sklearn", "three", {"alpha": 0.9, "average": "macro"}),
]


@QUIET
@pytest.mark.parametrize(("framework", "task", "goal"), GOALS)
def test_grown_forest_has_the_size_of_its_own_report(framework: str, task: str, goal: dict[str, Any]) -> None:
    forest, report = grown(framework, task, **goal)
    assert report.enough
    assert report.n_trees <= n_trees_of(forest) == report.n_kept <= report.available
    assert (report.criterion.confidence, report.source) == (0.8, "oob")


@QUIET
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_growth_goes_on_until_it_is_enough(framework: str) -> None:
    _, report = grown(framework, alpha=0.985, min_trees=20)
    assert report.enough
    assert report.available > 40


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_too_few_trees_are_warned_of(framework: str) -> None:
    with pytest.warns(NotConvergedWarning) as caught:
        forest, report = grown(framework, alpha=0.99, max_trees=30, min_trees=10)
    assert (n_trees_of(forest), report.enough, caught[0].filename) == (30, False, __file__)


@QUIET
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_trees_that_an_estimator_sets_are_the_most(framework: str) -> None:
    """Unless they are the default of its class, or it is fitted, or ``max_trees`` is given."""
    count = "num_parallel_tree" if framework == "xgboost" else "n_estimators"
    usual, limited = (clone(ESTIMATORS[framework]).set_params(**{count: n}) for n in (None, 70))
    usual = ESTIMATORS[framework] if framework != "xgboost" else usual
    of: dict[str, Any] = {"alpha": 0.9999, "voting": "hard", "min_trees": 50}
    forest, report = rfsize.grow(limited, X, Y["two"], **of)
    assert (n_trees_of(forest), report.enough) == (70, False)
    assert rfsize.grow(limited, X, Y["two"], **of | {"alpha": 0.7})[1].available == 50
    assert rfsize.grow(limited, X, Y["two"], **of, max_trees=90)[1].available == 90
    assert rfsize.grow(usual, X, Y["two"], **of | {"alpha": 0.99})[1].available > 100
    assert rfsize.grow(forest, X, Y["two"], **of | {"alpha": 0.98})[1].available > 70


@QUIET
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_surer_growth_keeps_more_trees(framework: str) -> None:
    reports = [grown(framework, alpha=0.97, confidence=sure, min_trees=120)[1] for sure in (0.5, 0.8, 0.95)]
    assert len({report.n_trees for report in reports}) == 1
    assert reports[0].n_kept == reports[0].n_trees < reports[1].n_kept < reports[2].n_kept
    assert reports[1].n_kept == reports[1].upper(0.8) <= reports[1].interval[1]


def test_what_would_be_unsure_is_warned_of() -> None:
    """The trees allowed are T*, but fewer than it takes to be sure."""
    with pytest.warns(NotConvergedWarning):
        forest, report = grown("lightgbm", alpha=0.98, confidence=0.999, min_trees=100, max_trees=100)
    assert report.n_trees <= 100 < report.upper(0.999)
    assert (report.enough, n_trees_of(forest)) == (False, 100)


def labels_seen(n_trees: int, votes: int, unlike: int, average: str = "micro") -> rfsize.Report:
    """Of trees that leave no doubt, but give so many rows, all of class 1, the other label than later."""
    rows = np.arange(1000)
    first = np.where(rows < unlike, votes, np.where(rows < 900, 0, votes))
    counts = rfsize.Votes(np.stack([votes - first, first], axis=1), n_trees=n_trees)
    report = rfsize.size(counts, alpha=0.95, method="plugin", average=average)
    return replace(report, criterion=replace(report.criterion, confidence=0.8))


@pytest.mark.parametrize("average", ["micro", "macro"])
@pytest.mark.parametrize("unlike", [50, 100, 300])
@pytest.mark.parametrize(("trees", "votes"), [((60, 120), (22, 44)), ((100, 150), (100, 150))], ids=["oob", "given"])
def test_first_trees_kept_agree_with_all(
    unlike: int, trees: tuple[int, int], votes: tuple[int, int], average: str
) -> None:
    """By the law that the share which differs from all T trees goes as √(1/t − 1/T), from votes to trees."""
    before, now = (labels_seen(trees[i], votes[i], (unlike, 0)[i], average) for i in (0, 1))
    rule = StoppingRule(trees[0], 1000)
    rule.update(trees[0], lambda: before)
    rule.next_size = trees[1]
    grown = rule.update(trees[1], lambda: now)
    changed = unlike / 1000 if average == "micro" else unlike / 900 / 2
    scatter = changed / np.sqrt(1.0 / votes[0] - 1.0 / votes[1])
    enough = [t for t in range(1, trees[1] + 1, 2) if scatter * np.sqrt(1.0 / t - 1.0 / trees[1]) <= 0.05]
    assert (now.n_kept, grown.n_kept, rule.done) == (1, enough[0], True)
    same = StoppingRule(trees[0], 1000)  # where no label changed, the estimate alone decides
    same.update(trees[0], lambda: now)
    same.next_size = trees[1]
    assert same.update(trees[1], lambda: now).n_kept == 1


def test_looks_come_at_the_size_or_at_twice_the_trees() -> None:
    rng = np.random.default_rng(0)

    def report(n_trees: int, share: float, alpha: float, votes: int = 40) -> rfsize.Report:
        of_1 = rng.binomial(votes, share, size=300)
        counts = rfsize.Votes(np.stack([votes - of_1, of_1], axis=1), n_trees=n_trees)
        return rfsize.size(counts, alpha=alpha, method="plugin")

    near, far, enough = report(40, 0.3, 0.98), report(40, 0.49, 0.999), report(40, 0.1, 0.9)
    few = report(12, 0.05, 0.6, votes=4)
    assert (far.n_trees > 80, few.enough, enough.enough) == (True, False, True)
    for of, next_size in ((near, min(near.n_trees, 80)), (far, 80), (few, 24)):
        rule = StoppingRule(1, 1000)
        assert rule.update(of.available, lambda of=of: of) is of
        assert (rule.next_size, rule.done) == (next_size, False)
    for of, allowed, done in ((enough, 1000, True), (far, 1000, False), (far, 60, False), (far, 40, True)):
        rule = StoppingRule(10, allowed)
        rule.update(40, lambda of=of: of)
        assert rule.done == done
    early = StoppingRule(100, 1000)  # before the next look nothing is decided
    early.update(40, lambda: enough)
    assert (early.next_size, early.done, StoppingRule(100, 60).next_size) == (100, False, 60)


# What it is to be enough for

WHOLE: dict[str, Any] = {"min_trees": 100, "max_trees": 100}
NEARLY_ALL: dict[str, Any] = {"alpha": 0.9999}
RARE, COPIED = (Y["number"] > 1.6).astype(int), twice(*continuous(250))
PAIRS = np.random.default_rng(0).permutation(500) // 2
OF_WHOLE: dict[str, tuple[np.ndarray, np.ndarray, dict[str, Any], dict[str, Any]]] = {
    "probabilities": (X, Y["two"], {"metric": "probabilities", "tolerance": 1e-4}, {}),
    "scores": (X, Y["number"], {"metric": "scores", "tolerance": 2e-4}, {}),
    "auc": (X, Y["two"], {"metric": "auc", "tolerance": 2e-5}, {}),
    "rmse": (X, Y["number"], {"metric": "rmse", "tolerance": 2e-5}, {}),
    "log_loss": (X, Y["three"], {"metric": "log_loss", "tolerance": 5e-5}, {}),
    "macro": (X, Y["three"], NEARLY_ALL | {"average": "macro"}, {}),
    "votes above a threshold": (X, RARE, NEARLY_ALL | {"voting": "hard"}, {"threshold": 0.1}),
    "scores above a threshold": (X, RARE, NEARLY_ALL, {"threshold": 0.1}),
    "probabilities above a threshold": (X, RARE, NEARLY_ALL, {"threshold": 0.1}),
    **{f"groups={groups}": (*COPIED, NEARLY_ALL, {"groups": groups}) for groups in ("copies", "rows", None)},
    "groups": (*COPIED, NEARLY_ALL, {"groups": PAIRS}),
}


@QUIET
@pytest.mark.parametrize(("name", "framework"), [*zip(OF_WHOLE, cycle(FRAMEWORKS), strict=False)])
def test_report_is_that_of_the_finished_forest(name: str, framework: str) -> None:
    rows, y, goal, options = OF_WHOLE[name]
    whole, report = grown_on(framework, rows, y, **goal, **options, **WHOLE)
    outputs = rfsize.tree_outputs(whole, rows, y, oob=True, **options)
    assert_same(report, rfsize.size(outputs, **goal), rel=0.03 if name == "log_loss" else 2e-3)


@QUIET
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("goal", [{"metric": "brier", "tolerance": 1e-5}, NEARLY_ALL], ids=str)
def test_validation_rows_size_the_forest(goal: dict[str, Any], framework: str) -> None:
    whole, report = grown(framework, **goal, **WHOLE, validation=(FRESH, TRUTH["two"]))
    assert_same(report, rfsize.size(whole, FRESH, TRUTH["two"], **goal))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_labels_that_mislead_are_warned_of(framework: str) -> None:
    rare = (np.random.default_rng(0).random(600) < 1.0 / (1.0 + np.exp(3.2 - 2.0 * X[:, 0]))).astype(int)
    with pytest.warns(LabelsOnlyWarning):
        grown_on(framework, X, rare, alpha=0.95)


@pytest.mark.parametrize("framework", ["lightgbm", "sklearn"])
def test_groups_that_every_tree_sees_are_refused(framework: str) -> None:
    groups = np.arange(len(X)) // np.repeat([1, 12], 300) + np.repeat([0, 1000], 300)  # half of the rows by twelve
    with pytest.raises(FewVotesError, match="groups"):
        grown(framework, groups=groups, max_trees=120)


@QUIET
@pytest.mark.parametrize("framework", BOOSTERS)
def test_a_forest_that_is_large_enough_keeps_its_trees(framework: str) -> None:
    forest = train(framework, X, Y["two"], 80)
    same, report = rfsize.grow(forest, data_for(framework, X, Y["two"]), alpha=0.7)
    assert report.n_trees < n_trees_of(same) == 80
    assert same is not forest
    assert predicted(same, FRESH) == pytest.approx(predicted(forest, FRESH), abs=1e-6)


# Rows in pieces


@QUIET
def test_rows_that_are_gone_are_not_compared() -> None:
    gone = xgb.QuantileDMatrix(X, Y["two"])
    _, report = rfsize.grow(params_for("xgboost", Y["two"]), gone, alpha=0.5)
    assert (report.groups, report.copied) == ("unknown", None)
    with pytest.raises(ValueError, match="groups"):
        rfsize.grow(params_for("xgboost", Y["two"]), gone, groups="copies")


@QUIET
@pytest.mark.parametrize("framework", BOOSTERS)
def test_growth_on_rows_in_pieces(framework: str, tmp_path: Any) -> None:
    """The forest of the same rows in memory, bags proven."""
    params = params_for(framework, Y["two"])
    if framework == "xgboost":
        parts = [np.array_split(values, 3) for values in (X, Y["two"])]
        rows: Any = Batches(parts[0], str(tmp_path / "cache"), label=parts[1])
        data, whole = xgb.ExtMemQuantileDMatrix(rows), xgb.QuantileDMatrix(X, Y["two"])
    else:
        rows = [Slices(part) for part in np.array_split(X, 3)]
        data, whole = lgb.Dataset(rows, Y["two"], free_raw_data=False), lgb.Dataset(X, Y["two"])
    grown, report = rfsize.grow(params, data, alpha=0.9, min_trees=40)
    expected = rfsize.grow(params, whole, alpha=0.9, min_trees=40)[0]
    assert report.source == "oob"
    assert np.array_equal(predicted(grown, X), predicted(expected, X))
    assert rfsize.tree_outputs(grown, rows, oob=True).votes == rfsize.tree_outputs(grown, X, oob=True).votes
