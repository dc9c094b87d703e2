"""Choosing the bagging fraction: against forests that are trained plainly, and plain arithmetic of their votes."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import sklearn
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer

import reference.metrics
import rfsize
from helpers.trained import X as ALL
from helpers.trained import Y as TASKS
from helpers.trained import data_for, params_for, probabilities, train, tree_scores
from rfsize.training.bagging_fraction import expected_gains

BOOSTERS = pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
GRID, TREES = (0.2, 0.45, 0.7), 40
X, Y = ALL[:300], {name: y[:300] for name, y in TASKS.items()}
NAMED = {"lightgbm": "bagging_fraction", "xgboost": "subsample"}
DRAWS_MORE = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9)
OPTIONS: dict[str, Any] = {"n_trees": TREES, "rule": "best"}


def search(framework: str, fractions: Any = GRID, task: str = "two", **options: Any) -> rfsize.FractionSearch:
    params = {name: value for name, value in params_for(framework, Y[task]).items() if name != NAMED[framework]}
    params |= options.pop("params", {})
    data = data_for(framework, X, Y[task], options.pop("weight", None))
    return rfsize.select_bagging_fraction(params, data, fractions=fractions, **OPTIONS | options)


def search_estimator(estimator: Any, y: Any, fractions: Any = (0.2, 0.4), **options: Any) -> rfsize.FractionSearch:
    return rfsize.select_bagging_fraction(estimator, X, y, fractions=fractions, **OPTIONS | options)


def plain(framework: str, task: str = "two", fractions: Any = GRID, weight: Any = None) -> list[rfsize.TreeOutputs]:
    """Out of bag, of forests that the framework alone has trained."""
    forests = (train(framework, X, Y[task], TREES, weight=weight, **{NAMED[framework]: of}) for of in fractions)
    return [rfsize.tree_outputs(forest, X, Y[task], oob=True, sample_weight=weight) for forest in forests]


def common(outputs: list[rfsize.TreeOutputs]) -> np.ndarray:
    return np.all([of.votes.n_votes > 0 for of in outputs], axis=0)


def wrong(outputs: list[rfsize.TreeOutputs], task: str = "two") -> np.ndarray:
    """Whether the labels of the mean scores are wrong, of each forest on the rows of all."""
    return np.array([(of.predict_labels(fill=0) != Y[task])[common(outputs)] for of in outputs], dtype=float)


def standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


@BOOSTERS
@pytest.mark.parametrize("task", ["two", "three"])
def test_curve_is_that_of_plain_forests(framework: str, task: str) -> None:
    """But for a label or two, because last digits of sums of scores differ in training."""
    result, outputs = search(framework, [0.7, 0.2, 0.45], task), plain(framework, task)  # in any order
    losses, voted = wrong(outputs, task), common(outputs)
    best, few = GRID.index(result.best), 3.0 / len(X)
    assert (result.curve["fraction"].tolist(), best) == (list(GRID), result.curve["error"].argmin())
    assert (result.n_rows, result.n_dropped) == (voted.sum(), (~voted).sum())
    np.testing.assert_allclose(result.curve["error"], losses.mean(axis=1), atol=few)
    np.testing.assert_allclose(result.curve["standard_error"], [standard_error(row) for row in losses], rtol=0.02)
    np.testing.assert_allclose(result.curve["difference"], (losses - losses[best]).mean(axis=1), atol=2.0 * few)
    assert (result.curve["trees"] == TREES).all()


@BOOSTERS
def test_noise_is_of_rows_and_trees(framework: str) -> None:
    """Rows are paired; trees add no more than the jackknife over twenty parts, of which rows have some on their own."""
    result, outputs = search(framework), plain(framework)
    losses, of_trees = wrong(outputs), []
    for fraction in GRID:
        forest, errors = train(framework, X, Y["two"], TREES, **{NAMED[framework]: fraction}), []
        scores, unseen = tree_scores(forest, X), ~rfsize.inbag(forest, X).T[:, :, None]
        for part in range(20):
            kept = unseen & (np.arange(TREES) % 20 != part)[:, None]
            known = kept.any(axis=1)[:, 0]
            mean = (scores * kept).sum(axis=1)[known] / kept.sum(axis=1)[known]
            errors.append(np.mean(probabilities(forest, mean).argmax(axis=1) != Y["two"][known]))
        of_trees.append(19.0 * np.var(errors))
    best = int(result.curve["difference"].argmin())
    of_rows = np.array([standard_error(row - losses[best]) for row in losses])
    largest = np.where(np.arange(3) == best, 0.0, np.sqrt(of_rows**2 + np.array(of_trees) + of_trees[best]))
    errors = result.curve["difference_se"]
    assert (of_rows <= errors + 1e-12).all()
    assert (errors <= 1.05 * largest).all()


@BOOSTERS
def test_own_fraction_stays_unless_another_gains(framework: str) -> None:
    for own in (0.2, 0.5):
        result = search(framework, rule="keep", params={NAMED[framework]: own})
        assert result.curve["fraction"].tolist() == sorted({*GRID, own})
        at = result.curve[result.curve["fraction"] == own][0]
        assert (result.own, result.params[NAMED[framework]]) == (own, result.best)
        assert (result.gain > 0.0) == (result.best != own)
        assert result.gain <= at["difference"]
    assert (search(framework, rule="keep").own, search(framework).gain) == (None, None)


def test_expected_gains_do_not_suffer_from_the_choice() -> None:
    """Gains that walk away from 0: the fraction that seems best gains what is expected, and less than measured."""
    rng, fractions, own = np.random.default_rng(0), np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), 4
    away = np.log(rfsize.theory.ratio_with_replacement(fractions))
    away -= away[own]
    step = np.sqrt(np.diff(away))
    noise = 0.5 + 0.5 * np.eye(6)
    records = []
    for scale in rng.choice([0.0, 0.5, 1.0, 2.0, 4.0], 3000, p=np.array([256, 64, 16, 4, 1]) / 341):
        walk = np.concatenate([[0.0], np.cumsum(step * rng.normal(size=5))])
        gain = scale * (walk - walk[own])
        measured = gain + rng.multivariate_normal(np.zeros(6), noise)
        expected, error = expected_gains(fractions, -measured, noise, own)
        chosen = int(expected.argmax())
        records.append([expected[chosen], gain[chosen], measured[chosen] - measured[own], error[chosen]])
    expected, real, measured, error = np.array(records).T
    assert expected.mean() == pytest.approx(real.mean(), abs=0.05)
    assert measured.mean() > real.mean() + 0.2
    assert np.mean((expected - real) ** 2) == pytest.approx(np.mean(error**2), rel=0.4)


def test_far_worse_fraction_does_not_stay() -> None:
    """On labels without noise a tree of a few rows cannot keep up with one of hundreds."""
    y = ((ALL[:, 0] > 0) ^ (ALL[:, 1] > 0)).astype(int)
    params, of = {**params_for("xgboost", y), "max_depth": 0, "subsample": 0.02}, {"n_trees": 60}
    result = rfsize.select_bagging_fraction(params, data_for("xgboost", ALL, y), fractions=[0.03, 0.5], **of)
    assert (result.own, result.best) == (0.02, 0.5)


@BOOSTERS
def test_weights_count(framework: str) -> None:
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    outputs = plain(framework, weight=weight)
    expected = np.average(wrong(outputs), axis=1, weights=weight[common(outputs)])
    np.testing.assert_allclose(search(framework, weight=weight).curve["error"], expected)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning")
@BOOSTERS
def test_parameters_of_the_result_grow_a_forest(framework: str) -> None:
    params, data = params_for(framework, Y["two"]), data_for(framework, X, Y["two"])
    before = dict(params)
    result = rfsize.select_bagging_fraction(params, data, fractions=GRID, **OPTIONS)
    forest, report = rfsize.grow(result.params, data, alpha=0.8)
    assert (params, report.enough) == (before, True)
    share = rfsize.tree_outputs(forest, X, oob=True).votes.n_votes.mean() / report.n_kept
    assert share == pytest.approx(1.0 - result.best, abs=0.05)
    of_seeds = [search(framework, seed=seed).curve["error"].tolist() for seed in (3, 3, 4)]
    assert of_seeds[0] == of_seeds[1] != of_seeds[2]


# Scorers and numbers


@BOOSTERS
def test_accuracy_is_one_minus_the_error(framework: str) -> None:
    by_error, by_score = search(framework), search(framework, metric=make_scorer(reference.metrics.accuracy))
    np.testing.assert_allclose(by_score.curve["score"], 1.0 - by_error.curve["error"])
    np.testing.assert_allclose(by_score.curve["difference"], by_error.curve["difference"], atol=1e-12)
    np.testing.assert_allclose(by_score.curve["standard_error"], by_error.curve["standard_error"], rtol=0.3)
    others = by_error.curve["difference"] > 0
    ratio = by_score.curve["difference_se"][others] / by_error.curve["difference_se"][others]
    assert ((ratio > 0.6) & (ratio < 1.6)).all()
    assert (by_score.best, by_error.metric, by_score.metric) == (by_error.best, "error", "score")


@BOOSTERS
def test_scorers_see_out_of_bag_probabilities(framework: str) -> None:
    forest = train(framework, X, Y["two"], TREES, **{NAMED[framework]: 0.5})
    unseen = ~rfsize.inbag(forest, X).T[:, :, None]
    known = unseen.any(axis=1)[:, 0]
    mean = (tree_scores(forest, X) * unseen).sum(axis=1)[known] / unseen.sum(axis=1)[known]
    expected = -reference.metrics.logloss(Y["two"][known], probabilities(forest, mean)[:, 1])
    assert search(framework, [0.5], metric="neg_log_loss").curve["score"][0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.ForestWarning")
@BOOSTERS
def test_numbers_by_squared_error(framework: str) -> None:
    result, predicted = search(framework, task="number"), [of.predict() for of in plain(framework, "number")]
    known = ~np.isnan(predicted).any(axis=0)
    expected = [np.mean((of - Y["number"])[known] ** 2) for of in predicted]
    np.testing.assert_allclose(result.curve["error"], expected, rtol=1e-5)
    scored = search(framework, task="number", metric="neg_mean_squared_error")
    np.testing.assert_allclose(-scored.curve["score"], result.curve["error"])
    assert (scored.best, result.of_labels) == (result.best, False)


# Estimators


@BOOSTERS
def test_estimators_are_searched_as_their_parameters(framework: str) -> None:
    params = {**params_for(framework, Y["two"]), "n_jobs": 1}
    params.pop(NAMED[framework])
    params.pop("boosting", None)
    estimator: Any = lgb.LGBMClassifier(boosting_type="rf", **params) if framework == "lightgbm" else None
    estimator = estimator or xgb.XGBClassifier(n_estimators=1, learning_rate=1, num_parallel_tree=9, **params)
    result, expected = search_estimator(estimator, Y["two"]), search(framework, [0.2, 0.4])
    assert result.curve["error"].tolist() == pytest.approx(expected.curve["error"].tolist(), abs=1e-12)
    assert (result.best, result.n_rows) == (expected.best, expected.n_rows)
    assert result.params.get_params()["subsample"] == result.best


@pytest.mark.parametrize("bootstrap", [True, False])
def test_ensembles_of_scikit_learn(bootstrap: bool) -> None:
    """Rows that are drawn with replacement are as many as the fraction is worth."""
    names = np.array(["no", "yes"])[Y["two"]]
    forest: Any = RandomForestClassifier(max_depth=5, random_state=7)
    forest = forest if bootstrap else BaggingClassifier(bootstrap=False, random_state=7)
    result = search_estimator(forest, names)
    rows = {0.2: 75, 0.4: 200} if bootstrap else {0.2: 60, 0.4: 120}
    fitted = [clone(forest).set_params(n_estimators=TREES, max_samples=n).fit(X, names) for n in rows.values()]
    outputs = [rfsize.tree_outputs(of, X, names, oob=True) for of in fitted]
    losses = [(of.predict_labels(fill="none") != names)[common(outputs)].mean() for of in outputs]
    assert result.curve["error"].tolist() == pytest.approx(losses, abs=1e-12)
    assert (result.n_rows, result.params.max_samples) == (common(outputs).sum(), rows[result.best])
    with pytest.raises(NotFittedError):
        result.params.predict(X)


LIGHTGBM = {"boosting_type": "rf", "subsample_freq": 1, "n_jobs": 1, "verbose": -1}
XGBOOST = {"n_estimators": 1, "num_parallel_tree": 5, "learning_rate": 1, "n_jobs": 1}


@pytest.mark.parametrize(
    ("estimator", "own"),
    [
        (RandomForestClassifier(), 0.5),
        (RandomForestClassifier(max_samples=75), 0.2),
        (RandomForestClassifier(max_samples=0.25), 0.2),
        (BaggingClassifier(bootstrap=False, max_samples=0.25), 0.25),
        (lgb.LGBMClassifier(**LIGHTGBM, subsample=0.25), 0.25),
        (lgb.LGBMClassifier(**LIGHTGBM, bagging_fraction=0.25), 0.25),
        (xgb.XGBClassifier(**XGBOOST, subsample=0.25), 0.25),
        (xgb.XGBClassifier(**XGBOOST), None),
    ],
    ids=lambda of: type(of).__name__,
)
def test_fraction_that_an_estimator_names(estimator: Any, own: float | None) -> None:
    assert search_estimator(estimator, Y["two"], [0.4], rule="keep").own == (own and pytest.approx(own))


def test_default_grid_is_that_of_the_paper() -> None:
    """From 0.1 to 1.2 draws with replacement for each row; before 1.9, scikit-learn draws no more than all rows."""
    forest = RandomForestClassifier(max_depth=3, random_state=0)
    fractions = search_estimator(forest, Y["two"], None, n_trees=50).curve["fraction"]
    ratios = rfsize.theory.ratio_with_replacement(fractions)
    assert ratios.tolist() == pytest.approx((np.arange(1, 13 if DRAWS_MORE else 11) / 10).tolist())


def test_fractions_with_too_few_votes_are_left_out() -> None:
    """Of a row in the bag of nearly all trees, 40 trees say next to nothing."""
    result = search_estimator(
        BaggingClassifier(max_samples=0.95, bootstrap=False, random_state=0), Y["two"], rule="keep"
    )
    assert (result.left_out, result.curve["fraction"].tolist()) == ((0.95,), [0.2, 0.4])
    assert result.best in (0.2, 0.4)
