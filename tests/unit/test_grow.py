"""Forests grown to size: where growth ends, by whatever it is to be enough for, out of bag and on validation rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
from helpers.trained import FRAMEWORKS, FRESH, TRUTH, X, Y, data_for, params_for, predicted, train
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
    """By parameters of LightGBM and XGBoost, or by an estimator."""
    if framework in BOOSTERS:
        return rfsize.grow(params_for(framework, Y[task]), data_for(framework, X, Y[task]), **options)
    if task == "number":
        return rfsize.grow(RandomForestRegressor(min_samples_leaf=5, random_state=3), X, Y[task], **options)
    return rfsize.grow(ESTIMATORS[framework], X, Y[task], **options)


def n_trees_of(forest: Any) -> int:
    return rfsize.tree_outputs(forest, FRESH[:2]).n_trees


def assert_same(report: rfsize.Report, expected: rfsize.Report, rel: float = 1e-3) -> None:
    """But for last digits, in which sums of scores differ in training."""
    values, others = report.to_dict(), expected.to_dict()
    for name in ("n_trees", "interval", "votes_per_row"):
        assert values[name] == pytest.approx(others[name], rel=rel)
    for name in ("available", "source", "n_rows", "n_dropped", "groups", "copied"):
        assert values[name] == others[name]
    assert report.loss_at(20).value == pytest.approx(expected.loss_at(20).value, rel=rel, abs=1e-9)


# Where it ends


@QUIET
@pytest.mark.parametrize(
    ("framework", "options"),
    [*((of, {"alpha": 0.93}) for of in (*FRAMEWORKS, "perceptrons")), ("lightgbm", {"alpha": 0.93, "voting": "hard"})],
)
def test_grown_forest_has_the_size_of_its_own_report(framework: str, options: dict[str, Any]) -> None:
    forest, report = grown(framework, **options)
    assert report.enough
    assert report.n_trees <= n_trees_of(forest) == report.n_kept <= report.available
    assert (report.criterion.confidence, report.source) == (0.8, "oob")
    rule = "hard" if framework == "perceptrons" else options.get("voting", "soft")
    assert report.to_dict()["voting"] == rule


@QUIET
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_growth_goes_on_until_it_is_enough(framework: str) -> None:
    _, report = grown(framework, alpha=0.985, min_trees=20)
    assert report.enough
    assert report.available > 40
    n_trees = report.available
    whole, of_whole = grown(framework, alpha=0.99999, min_trees=n_trees, max_trees=n_trees)
    assert_same(of_whole, rfsize.size(whole, X, oob=True, alpha=0.99999))


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


def test_too_few_votes_put_the_next_size_off() -> None:
    def too_few(enough: int | None) -> Callable[[], rfsize.Report]:
        def look() -> rfsize.Report:
            raise FewVotesError("too few votes", enough=enough)

        return look

    rule = StoppingRule(10, 100)
    assert (rule.update(10, too_few(35)), rule.next_size, rule.done) == (None, 35, False)
    assert (rule.update(35, too_few(120)), rule.next_size) == (None, 100)
    for n_trees, enough in ((100, 120), (10, None), (10, 201)):
        with pytest.raises(FewVotesError):
            StoppingRule(10, 100).update(n_trees, too_few(enough))


# What it is to be enough for

GOALS = {
    "probabilities": ("two", {"metric": "probabilities", "tolerance": 0.1}),
    "scores": ("number", {"metric": "scores", "tolerance": 0.2}),
    "auc": ("two", {"metric": "auc", "tolerance": 0.02}),
    "rmse": ("number", {"metric": "rmse", "tolerance": 0.02}),
    "log_loss": ("three", {"metric": "log_loss", "tolerance": 0.05}),
    "labels": ("three", {"alpha": 0.9, "average": "macro"}),
}


@QUIET
@pytest.mark.parametrize(("framework", "name"), [*zip(2 * FRAMEWORKS, GOALS, strict=True)])
def test_report_is_that_of_the_finished_forest(framework: str, name: str) -> None:
    task, goal = GOALS[name]
    forest, report = grown(framework, task, min_trees=60, **goal)
    assert report.enough
    assert n_trees_of(forest) == report.n_kept
    hard = {key: 1e-3 * value if key == "tolerance" else value for key, value in goal.items()}
    hard |= {"alpha": 0.9999} if "alpha" in goal else {}
    whole, early = grown(framework, task, min_trees=60, max_trees=60, **hard)
    finished = rfsize.size(whole, X, Y[task], oob=True, **hard)
    assert_same(early, finished, rel=0.03 if name == "log_loss" else 2e-3)


@QUIET
@pytest.mark.parametrize(
    ("framework", "goal"),
    [*((of, {"metric": "brier", "tolerance": 0.01}) for of in FRAMEWORKS), ("lightgbm", {"alpha": 0.9})],
)
def test_validation_rows_size_the_forest(framework: str, goal: dict[str, Any]) -> None:
    forest, report = grown(framework, **goal, min_trees=60, validation=(FRESH, TRUTH["two"]))
    assert (report.source, report.estimate.n_rows, report.enough) == ("rows given", len(FRESH), True)
    whole = train(framework, X, Y["two"], 60) if framework in BOOSTERS else None
    if whole is not None and report.available == 60:
        assert_same(report, rfsize.size(whole, FRESH, TRUTH["two"], **goal))
    assert n_trees_of(forest) == report.n_kept


@QUIET
@pytest.mark.parametrize(("framework", "voting"), [*zip(FRAMEWORKS, ("hard", "soft", "soft"), strict=True)])
def test_growth_to_the_size_of_a_threshold(framework: str, voting: str) -> None:
    of: dict[str, Any] = {"alpha": 0.9, "voting": voting}
    rare = (Y["number"] > 1.6).astype(int)
    if framework in BOOSTERS:
        forest: Any = params_for(framework, rare)
        grown = rfsize.grow(forest, data_for(framework, X, rare), **of, threshold=0.1, min_trees=60, max_trees=60)[1]
        whole = train(framework, X, rare, 60)
    else:
        forest = ESTIMATORS["sklearn"]
        grown = rfsize.grow(forest, X, rare, **of, threshold=0.1, min_trees=60, max_trees=60)[1]
        whole = clone(forest).set_params(n_estimators=60).fit(X, rare)
    assert_same(grown, rfsize.size(rfsize.tree_outputs(whole, X, rare, oob=True, threshold=0.1), **of))


@QUIET
@pytest.mark.parametrize("framework", BOOSTERS)
def test_a_forest_that_is_large_enough_keeps_its_trees(framework: str) -> None:
    forest = train(framework, X, Y["two"], 80)
    same, report = rfsize.grow(forest, data_for(framework, X, Y["two"]), alpha=0.7)
    assert report.n_trees < n_trees_of(same) == 80
    assert same is not forest
    assert predicted(same, FRESH) == pytest.approx(predicted(forest, FRESH), abs=1e-6)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_labels_that_mislead_are_warned_of(framework: str) -> None:
    rare = (np.random.default_rng(0).random(600) < 1.0 / (1.0 + np.exp(3.2 - 2.0 * X[:, 0]))).astype(int)
    if framework in BOOSTERS:
        arguments: Any = (params_for(framework, rare), data_for(framework, X, rare))
    else:
        arguments = (ESTIMATORS[framework], X, rare)
    with pytest.warns(LabelsOnlyWarning):
        rfsize.grow(*arguments, alpha=0.95)


# Groups of rows, and rows in pieces


@QUIET
@pytest.mark.parametrize(
    ("framework", "groups"), [*zip(FRAMEWORKS, ("copies", "rows", "given"), strict=True), ("sklearn", None)]
)
def test_growth_by_groups_of_rows(framework: str, groups: Any) -> None:
    rows, y = twice(*continuous(250))
    expected = "rows" if groups is None else groups if isinstance(groups, str) else "given"
    groups = np.random.default_rng(0).permutation(len(rows)) // 2 if groups == "given" else groups
    of = {"alpha": 0.9999, "min_trees": 100, "max_trees": 100, "groups": groups}
    if framework in BOOSTERS:
        forest, report = rfsize.grow(params_for(framework, y), data_for(framework, rows, y), **of)
    else:
        forest, report = rfsize.grow(ESTIMATORS[framework], rows, y, **of)
    assert report.groups == expected
    assert_same(report, rfsize.size(forest, rows, oob=True, alpha=0.9999, groups=groups))


def test_groups_that_every_tree_sees_are_refused() -> None:
    groups = np.arange(len(X)) // np.repeat([1, 12], 300) + np.repeat([0, 1000], 300)  # half of the rows by twelve
    for arguments in (
        (params_for("lightgbm", Y["two"]), data_for("lightgbm", X, Y["two"])),
        (ESTIMATORS["sklearn"], X, Y["two"]),
    ):
        with pytest.raises(FewVotesError, match="groups"):
            rfsize.grow(*arguments, groups=groups, max_trees=120)


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
