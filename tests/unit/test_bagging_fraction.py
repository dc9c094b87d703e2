"""Choosing the bagging fraction: against forests that are trained plainly, and plain arithmetic of their votes."""

from __future__ import annotations

import json
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import sklearn
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer

import reference.metrics
import rfsize
from helpers.copied import continuous, twice
from helpers.trained import X as ALL
from helpers.trained import Y as TASKS
from helpers.trained import data_for, params_for, probabilities, train, tree_scores

BOOSTERS = ("lightgbm", "xgboost")
GRID, TREES = (0.2, 0.45, 0.7), 40
X, Y = ALL[:300], {name: y[:300] for name, y in TASKS.items()}
NAMED = {"lightgbm": "bagging_fraction", "xgboost": "subsample"}
DRAWS_MORE = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9)


def search(framework: str, fractions: Any = GRID, task: str = "two", **options: Any) -> rfsize.FractionSearch:
    options = {"n_trees": TREES, "rule": "best", "progress": False, **options}
    params, weight = params_for(framework, Y[task]), options.pop("weight", None)
    params.pop(NAMED[framework])
    params |= options.pop("params", {})
    data = data_for(framework, X, Y[task], weight)
    return rfsize.select_bagging_fraction(params, data, fractions=fractions, **options)


def plain(framework: str, fraction: float, task: str = "two", **params: Any) -> rfsize.TreeOutputs:
    """Out of bag, of a forest that the framework alone has trained."""
    weight = params.pop("weight", None)
    forest = train(framework, X, Y[task], TREES, weight=weight, **{NAMED[framework]: fraction}, **params)
    return rfsize.tree_outputs(forest, X, Y[task], oob=True, sample_weight=weight)


def standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


@pytest.mark.parametrize("framework", BOOSTERS)
@pytest.mark.parametrize("task", ["two", "three"])
def test_curve_is_that_of_forests_trained_plainly(framework: str, task: str) -> None:
    found = search(framework, [0.7, 0.2, 0.45], task, voting="hard")  # in any order
    outputs = [plain(framework, fraction, task) for fraction in GRID]
    voted = np.all([of.votes.n_votes > 0 for of in outputs], axis=0)
    wrong = np.array([(of.votes.winner() != Y[task])[voted] for of in outputs], dtype=float)
    best = wrong.mean(axis=1).argmin()
    assert (found.curve["fraction"].tolist(), found.best) == (list(GRID), GRID[best])
    assert (found.n_rows, found.n_dropped) == (voted.sum(), (~voted).sum())
    np.testing.assert_allclose(found.curve["error"], wrong.mean(axis=1))
    np.testing.assert_allclose(found.curve["standard_error"], [standard_error(row) for row in wrong])
    np.testing.assert_allclose(found.curve["difference"], (wrong - wrong[best]).mean(axis=1), atol=1e-12)
    assert ((found.curve["trees"] == TREES).all(), found.trees_grown) == (True, 3 * TREES)


@pytest.mark.parametrize("framework", BOOSTERS)
def test_noise_of_differences_is_of_rows_and_trees(framework: str) -> None:
    """What even trees err more than odd ones scatters from fraction to fraction by twice what all trees do."""
    found = search(framework, voting="hard")
    outputs = [plain(framework, fraction) for fraction in GRID]
    voted = np.all([of.votes.n_votes > 0 for of in outputs], axis=0)
    wrong = np.array([(of.votes.winner() != Y["two"])[voted] for of in outputs], dtype=float)
    halves, voted = [], []
    for of in outputs:
        for half in (of.by_tree()[:, ::2], of.by_tree()[:, 1::2]):
            counts = np.stack([(half == label).sum(axis=1) for label in (0, 1)], axis=1)
            halves.append(counts.argmax(axis=1) != Y["two"])
            voted.append(counts.sum(axis=1) > 0)
    errors = np.array(halves)[:, np.all(voted, axis=0)].mean(axis=1)
    over_trees = np.var(errors[::2] - errors[1::2], ddof=1) / 2.0
    best = found.curve["difference"].argmin()
    over_rows = np.array([standard_error(row - wrong[best]) for row in wrong])
    expected = np.where(np.arange(3) == best, 0.0, np.sqrt(over_rows**2 + over_trees))
    np.testing.assert_allclose(found.curve["difference_se"], expected)


def test_noise_is_that_of_other_seeds() -> None:
    found = [search("xgboost", [0.2, 0.5], voting="hard", seed=seed).curve for seed in range(20)]
    scatter = np.std([np.subtract(*curve["error"]) for curve in found], ddof=1)
    claimed = np.sqrt(np.mean([curve["difference_se"].max() ** 2 for curve in found]))
    assert 0.3 < scatter / claimed < 1.1  # of which the rows, the same for all seeds, make a part


@pytest.mark.parametrize("framework", BOOSTERS)
def test_averaged_scores_are_judged(framework: str) -> None:
    """The label of the mean score of the trees that did not see a row, as the framework averages."""
    soft, hard, default = (search(framework, [0.3, 0.5], **of) for of in ({"voting": "soft"}, {"voting": "hard"}, {}))
    for row in soft.curve:
        outputs = plain(framework, row["fraction"])
        known = outputs.votes.n_votes > 0
        wrong = outputs.predict_proba(fill=0.5).argmax(axis=1) != Y["two"]
        assert row["error"] == pytest.approx(wrong[known].mean(), abs=2.0 / len(X))
    assert default.curve["error"].tolist() == soft.curve["error"].tolist() != hard.curve["error"].tolist()


@pytest.mark.parametrize("framework", BOOSTERS)
def test_own_fraction_stays_unless_another_is_clearly_better(framework: str) -> None:
    for own in (0.2, 0.5):
        found = search(framework, rule="keep", params={NAMED[framework]: own})
        assert found.curve["fraction"].tolist() == sorted({*GRID, own})
        at = found.curve[found.curve["fraction"] == own][0]
        least = found.curve["fraction"][found.curve["difference"].argmin()]
        kept = own if at["difference"] <= at["difference_se"] else least
        assert (found.own, found.best, found.params[NAMED[framework]]) == (own, kept, kept)
    assert search(framework, rule="keep").own is None


def test_a_fraction_that_is_far_worse_does_not_stay() -> None:
    """On labels without noise a tree of a few rows cannot keep up with one of hundreds."""
    y = ((ALL[:, 0] > 0) ^ (ALL[:, 1] > 0)).astype(int)
    params = {**params_for("xgboost", y), "max_depth": 0, "subsample": 0.02}
    of = {"fractions": [0.03, 0.5], "n_trees": 60, "progress": False}
    found = rfsize.select_bagging_fraction(params, data_for("xgboost", ALL, y), **of)
    assert (found.own, found.best) == (0.02, 0.5)


@pytest.mark.parametrize("framework", BOOSTERS)
def test_weights_count(framework: str) -> None:
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    found = search(framework, voting="hard", weight=weight)
    outputs = [plain(framework, fraction, weight=weight) for fraction in GRID]
    voted = np.all([of.votes.n_votes > 0 for of in outputs], axis=0)
    expected = [np.average((of.votes.winner() != Y["two"])[voted], weights=weight[voted]) for of in outputs]
    np.testing.assert_allclose(found.curve["error"], expected)


@pytest.mark.parametrize("framework", BOOSTERS)
def test_found_parameters_grow_a_forest(framework: str) -> None:
    params, data = params_for(framework, Y["two"]), data_for(framework, X, Y["two"])
    before, of = dict(params), {"fractions": GRID, "n_trees": TREES, "rule": "best", "progress": False}
    found, again = (rfsize.select_bagging_fraction(params, data, **of) for _ in range(2))
    assert (params, str(again)) == (before, str(found))
    forest, report = rfsize.grow(found.params, data, alpha=0.8)
    assert report.enough
    share = rfsize.tree_outputs(forest, X, oob=True).votes.n_votes.mean() / report.n_kept
    assert share == pytest.approx(1.0 - found.best, abs=0.05)


def test_another_seed_is_another_search() -> None:
    found = [search("lightgbm", seed=seed).curve["error"].tolist() for seed in (3, 3, 4)]
    assert found[0] == found[1] != found[2]


# Scorers and numbers


@pytest.mark.parametrize("framework", BOOSTERS)
def test_accuracy_is_one_minus_the_error(framework: str) -> None:
    by_error, by_score = search(framework), search(framework, metric=make_scorer(reference.metrics.accuracy))
    np.testing.assert_allclose(by_score.curve["score"], 1.0 - by_error.curve["error"])
    np.testing.assert_allclose(by_score.curve["difference"], by_error.curve["difference"], atol=1e-12)
    np.testing.assert_allclose(by_score.curve["standard_error"], by_error.curve["standard_error"], rtol=0.3)
    others = by_error.curve["difference"] > 0
    ratio = by_score.curve["difference_se"][others] / by_error.curve["difference_se"][others]
    assert ((ratio > 0.6) & (ratio < 1.6)).all()
    assert (by_score.best, by_error.metric, by_score.metric) == (by_error.best, "error", "score")


@pytest.mark.parametrize("framework", BOOSTERS)
def test_scorers_see_the_probabilities_of_the_unseeing_trees(framework: str) -> None:
    forest = train(framework, X, Y["two"], TREES, **{NAMED[framework]: 0.5})
    unseen = ~rfsize.inbag(forest, X).T[:, :, None]
    known = unseen.any(axis=1)[:, 0]
    mean = (tree_scores(forest, X) * unseen).sum(axis=1)[known] / unseen.sum(axis=1)[known]
    expected = -reference.metrics.logloss(Y["two"][known], probabilities(forest, mean)[:, 1])
    assert search(framework, [0.5], metric="neg_log_loss").curve["score"][0] == pytest.approx(expected, rel=1e-5)


def test_own_scorers_see_the_labels_that_were_given() -> None:
    def share_of_yes(estimator: Any, rows: Any, y: Any) -> float:
        assert (set(estimator.classes_), len(rows)) == ({"no", "yes"}, len(y))
        return float(np.mean(estimator.predict(rows) == "yes"))

    of = {"fractions": [0.2, 0.4], "n_trees": TREES, "rule": "best", "progress": False}
    names = np.array(["no", "yes"])[Y["two"]]
    forest = RandomForestClassifier(max_depth=5, random_state=7)
    found = rfsize.select_bagging_fraction(forest, X, names, metric=share_of_yes, **of)
    assert found.best == found.curve["fraction"][found.curve["score"].argmax()]


@pytest.mark.parametrize("framework", BOOSTERS)
def test_numbers_are_judged_by_squares(framework: str) -> None:
    found = search(framework, task="number")
    outputs = [plain(framework, fraction, "number") for fraction in GRID]
    known = np.all([~np.isnan(of.predict()) for of in outputs], axis=0)
    expected = [np.mean((of.predict() - Y["number"])[known] ** 2) for of in outputs]
    np.testing.assert_allclose(found.curve["error"], expected, rtol=1e-5)
    scored = search(framework, task="number", metric="neg_mean_squared_error")
    np.testing.assert_allclose(-scored.curve["score"], found.curve["error"])
    assert (scored.best, found.of_labels) == (found.best, False)


def test_each_class_of_xgboost_draws_its_bag() -> None:
    found = search("xgboost", [0.5], "three", voting="hard")
    outputs = plain("xgboost", 0.5, "three")
    voted = outputs.votes.n_votes > 0
    assert found.curve["error"][0] == pytest.approx((outputs.votes.winner() != Y["three"])[voted].mean())


@pytest.mark.parametrize("framework", BOOSTERS)
def test_copies_are_out_of_bag_together(framework: str) -> None:
    """A row that was seen as its copy is known by heart."""
    rows, y = twice(*continuous(250))
    of = {"fractions": [0.3, 0.5], "n_trees": 50, "progress": False, "voting": "hard", "rule": "best"}
    params, data = params_for(framework, y), data_for(framework, rows, y)
    together = rfsize.select_bagging_fraction(params, data, groups="copies", **of)
    alone = rfsize.select_bagging_fraction(params, data, groups="rows", **of)
    assert (together.curve["error"] > alone.curve["error"] + 0.01).all()


# Estimators

OF: dict[str, Any] = {"fractions": [0.2, 0.4], "n_trees": TREES, "rule": "best", "progress": False}


@pytest.mark.parametrize("framework", BOOSTERS)
def test_estimators_of_boosters_are_searched_as_their_parameters(framework: str) -> None:
    params = {**params_for(framework, Y["two"]), "n_jobs": 1}
    params.pop(NAMED[framework])
    if framework == "lightgbm":
        params.pop("boosting")
        estimator: Any = lgb.LGBMClassifier(boosting_type="rf", **params)
    else:
        estimator = xgb.XGBClassifier(n_estimators=1, learning_rate=1, num_parallel_tree=9, **params)
    found = rfsize.select_bagging_fraction(estimator, X, Y["two"], **OF)
    expected = search(framework, [0.2, 0.4])
    assert found.curve["error"].tolist() == pytest.approx(expected.curve["error"].tolist(), abs=1e-12)
    assert (found.best, found.n_rows) == (expected.best, expected.n_rows)
    assert found.params.get_params()["subsample"] == found.best


@pytest.mark.parametrize("bootstrap", [True, False])
def test_ensembles_of_scikit_learn_are_judged_as_fitted_at_once(bootstrap: bool) -> None:
    """Rows that are drawn with replacement are as many as the fraction is worth."""
    names = np.array(["no", "yes"])[Y["two"]]
    forest: Any = RandomForestClassifier(max_depth=5, random_state=7)
    forest = forest if bootstrap else BaggingClassifier(bootstrap=False, random_state=7)
    found = rfsize.select_bagging_fraction(forest, X, names, **OF)
    rows = {0.2: 75, 0.4: 200} if bootstrap else {0.2: 60, 0.4: 120}
    fitted = [clone(forest).set_params(n_estimators=TREES, max_samples=n).fit(X, names) for n in rows.values()]
    outputs = [rfsize.tree_outputs(of, X, names, oob=True) for of in fitted]
    common = np.all([of.votes.n_votes > 0 for of in outputs], axis=0)
    wrong = [(of.predict_labels(fill="none") != names)[common].mean() for of in outputs]
    assert found.curve["error"].tolist() == pytest.approx(wrong, abs=1e-12)
    assert (found.n_rows, found.params.max_samples) == (common.sum(), rows[found.best])
    with pytest.raises(NotFittedError):
        found.params.predict(X)


@pytest.mark.parametrize(
    ("estimator", "own"),
    [
        (RandomForestClassifier(), 0.5),
        (RandomForestClassifier(max_samples=75), 0.2),
        (RandomForestClassifier(max_samples=0.25), 0.2),
        (BaggingClassifier(bootstrap=False, max_samples=0.25), 0.25),
        (lgb.LGBMClassifier(boosting_type="rf", subsample=0.25, subsample_freq=1, n_jobs=1, verbose=-1), 0.25),
        (lgb.LGBMClassifier(boosting_type="rf", bagging_fraction=0.25, subsample_freq=1, n_jobs=1, verbose=-1), 0.25),
        (xgb.XGBClassifier(n_estimators=1, num_parallel_tree=5, subsample=0.25, learning_rate=1, n_jobs=1), 0.25),
        (xgb.XGBClassifier(n_estimators=1, num_parallel_tree=5, learning_rate=1, n_jobs=1), None),
    ],
    ids=lambda of: type(of).__name__,
)
def test_fraction_that_an_estimator_names(estimator: Any, own: float | None) -> None:
    found = rfsize.select_bagging_fraction(estimator, X, Y["two"], **{**OF, "rule": "keep", "fractions": [0.4]})
    assert found.own == (None if own is None else pytest.approx(own))


def test_default_grid_is_that_of_the_paper() -> None:
    """From 0.1 to 1.2 draws with replacement for each row; before 1.9, scikit-learn draws no more than all rows."""
    of = {"n_trees": 50, "progress": False}
    found = rfsize.select_bagging_fraction(RandomForestClassifier(max_depth=3, random_state=0), X, Y["two"], **of)
    ratios = rfsize.theory.ratio_with_replacement(found.curve["fraction"])
    assert ratios.tolist() == pytest.approx((np.arange(1, 13 if DRAWS_MORE else 11) / 10).tolist())


def test_fractions_with_too_few_votes_are_left_out() -> None:
    """Of a row in the bag of nearly all trees, 40 trees say next to nothing."""
    forest = BaggingClassifier(max_samples=0.95, bootstrap=False, random_state=0)
    found = rfsize.select_bagging_fraction(forest, X, Y["two"], **{**OF, "rule": "keep"})
    assert (found.left_out, found.curve["fraction"].tolist()) == ((0.95,), [0.2, 0.4])
    assert found.best in (0.2, 0.4)
    assert found.to_dict()["left_out"] == [0.95]


def test_bagging_over_other_learners() -> None:
    bagging = BaggingClassifier(LogisticRegression(), max_features=0.5, random_state=0)
    found = rfsize.select_bagging_fraction(bagging, X, Y["two"], **OF)
    for row in found.curve:
        n_rows = round(rfsize.theory.ratio_with_replacement(row["fraction"]) * len(X))
        fitted = clone(bagging).set_params(n_estimators=TREES, max_samples=n_rows, oob_score=True).fit(X, Y["two"])
        assert row["error"] == pytest.approx(1.0 - fitted.oob_score_, abs=1e-12)
    numbers = rfsize.select_bagging_fraction(RandomForestRegressor(max_depth=4, random_state=0), X, Y["number"], **OF)
    assert (numbers.curve["error"] < np.var(Y["number"])).all()


def test_result_is_stored_and_drawn() -> None:
    found = search("xgboost", (0.2, 0.45, 0.7))
    stored = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (stored["best"], [row["fraction"] for row in stored["curve"]]) == (found.best, [0.2, 0.45, 0.7])
    assert found.to_frame()["error"].tolist() == found.curve["error"].tolist()
    ax = found.plot()
    drawn = [line.get_xydata() for line in ax.lines if len(line.get_xdata()) == 3]
    assert any(np.allclose(of, np.stack([found.curve["fraction"], found.curve["error"]], axis=1)) for of in drawn)
    assert found.plot(ax) is ax
