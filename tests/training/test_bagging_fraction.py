"""Choosing the bagging fraction: against plain training and plain arithmetic, with both frameworks."""

from __future__ import annotations

import json
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, make_scorer, roc_auc_score

import rfsize
from helpers.forests import LIGHTGBM, Data, train_lightgbm, train_xgboost
from helpers.fraction_searches import (
    GRID,
    ROWS,
    TREES,
    XGBOOST,
    accuracy,
    given,
    losses,
    search,
    standard_error,
)
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.training.bagging_fraction import select_bagging_fraction

ONE_TREE_FOR_ALL_CLASSES = tuple(map(int, xgb.__version__.split(".")[:2])) >= (3, 2)


def plain_forest(framework: str, data: Data, fraction: float) -> Any:
    """A forest trained by the framework alone."""
    X, y = data.X[:ROWS], data.y[:ROWS]
    if framework == "lightgbm":
        return train_lightgbm(X, y, TREES, bagging_fraction=fraction)
    return train_xgboost(X, y, TREES, subsample=fraction)


def apart_of_halves(forests: list[Any], data: Data) -> np.ndarray:
    """How much more the even trees of each forest err than the odd ones, by majority vote."""
    wrong, voted = [], []
    for forest in forests:
        votes = rfsize.tree_outputs(forest, data.X[:ROWS], oob=True).by_tree()
        for half in (votes[:, ::2], votes[:, 1::2]):
            counts = np.stack([(half == of).sum(axis=1) for of in (0, 1)], axis=1)
            wrong.append(counts.argmax(axis=1) != data.y[:ROWS])
            voted.append(counts.sum(axis=1) > 0)
    errors = np.array(wrong)[:, np.all(voted, axis=0)].mean(axis=1)
    return errors[::2] - errors[1::2]


def test_your_own_fraction_stays_unless_another_is_better_by_more_than_noise(framework: str, data: Data) -> None:
    named = "bagging_fraction" if framework == "lightgbm" else "subsample"
    for own in (0.2, 0.45, 0.5):
        params, dtrain = given(framework, data.X[:ROWS], data.y[:ROWS], **{named: own})
        found = select_bagging_fraction(params, dtrain, fractions=GRID, n_trees=TREES)
        assert found.curve["fraction"].tolist() == sorted({*GRID, own})
        at = found.curve[found.curve["fraction"] == own][0]
        is_noise = at["difference"] <= at["difference_se"]
        least = found.curve["fraction"][found.curve["difference"].argmin()]
        assert (found.own, found.best) == (own, own if is_noise else least)
        assert found.params[named] == found.best
        assert ("keep your fraction" if is_noise else "take fraction") in str(found)


def test_a_fraction_that_is_far_worse_does_not_stay(data: Data) -> None:
    """On labels without noise a tree of a few rows cannot keep up with one of hundreds."""
    params, dtrain = given("xgboost", data.X, (data.X[:, 0] > 0) ^ (data.X[:, 1] > 0), max_depth=0, subsample=0.01)
    options = {"fractions": [0.02, 0.5], "n_trees": 60}
    found = select_bagging_fraction(params, dtrain, **options)
    assert found.best == 0.5
    assert "take fraction 0.500" in str(found)
    assert "the best error is at 0.500, at the end" in str(found)


def test_where_no_fraction_is_named_the_best_is_chosen(data: Data) -> None:
    found = select_bagging_fraction(*given("xgboost", data.X[:ROWS], data.y[:ROWS]), fractions=GRID, n_trees=TREES)
    assert found.own is None
    assert found.best == found.curve["fraction"][found.curve["difference"].argmin()]


def test_differences_scatter_from_seed_to_seed_as_their_noise_says(data: Data) -> None:
    found = [search("xgboost", data, [0.2, 0.5], seed=seed).curve for seed in range(24)]
    scatter = np.std([np.subtract(*curve["error"]) for curve in found], ddof=1)
    rows = [np.subtract(*losses_of(data, seed)) for seed in range(6)]
    of_rows = np.mean([standard_error(row) for row in rows])
    claimed = np.sqrt(np.mean([curve["difference_se"].max() ** 2 for curve in found]))
    by_trees = np.sqrt(max(0.0, claimed**2 - of_rows**2))
    assert 0.6 * by_trees < scatter < 1.6 * by_trees


def losses_of(data: Data, seed: int) -> np.ndarray:
    X, y = data.X[:ROWS], data.y[:ROWS]
    forests = [train_xgboost(X, y, TREES, subsample=fraction, seed=seed) for fraction in (0.2, 0.5)]
    outputs = [rfsize.tree_outputs(forest, X, oob=True) for forest in forests]
    asked = np.all([one.votes.asked > 0 for one in outputs], axis=0)
    return np.array([(one.predict_labels(fill=-1) != y)[asked] for one in outputs], dtype=float)


def test_averaged_scores_are_judged(framework: str, data: Data) -> None:
    """Of the trees that did not see a row, the label of the mean probability, as the framework averages."""
    found = search(framework, data, [0.3, 0.5], voting="soft")
    X, y = data.X[:ROWS], data.y[:ROWS]
    for row in found.curve:
        model = plain_forest(framework, data, row["fraction"])
        told = Evidence.of(ForestOnRows.of(model, X, oob=True))
        wrong = (told.scores.mean[:, 0] > told.cut) != y
        assert row["error"] == pytest.approx(wrong[told.scores.asked > 0].mean(), abs=2.0 / ROWS)
    by_default = search(framework, data, [0.3, 0.5])
    assert by_default.curve["error"].tolist() == found.curve["error"].tolist()
    hard = search(framework, data, [0.3, 0.5], voting="hard")
    assert hard.curve["error"].tolist() != found.curve["error"].tolist()
    with pytest.raises(ValueError, match="voting"):
        search(framework, data, [0.3, 0.5], voting="averaged")


# ---------------------------------------------------------------------------------------------------------
# The full grid


def test_the_curve_is_that_of_forests_trained_plainly(framework: str, data: Data) -> None:
    found = search(framework, data, [0.7, 0.2, 0.45], voting="hard")  # in any order
    forests = [plain_forest(framework, data, fraction) for fraction in GRID]
    counted = [rfsize.tree_outputs(forest, data.X[:ROWS], oob=True).votes for forest in forests]
    wrong = losses(counted, data.y[:ROWS])
    best = wrong.mean(axis=1).argmin()
    assert found.curve["fraction"].tolist() == list(GRID)
    assert found.best == GRID[best]
    assert (found.n_rows, found.n_dropped) == (wrong.shape[1], ROWS - wrong.shape[1])
    np.testing.assert_allclose(found.curve["error"], wrong.mean(axis=1))
    np.testing.assert_allclose(found.curve["standard_error"], [standard_error(row) for row in wrong])
    np.testing.assert_allclose(found.curve["difference"], (wrong - wrong[best]).mean(axis=1), atol=1e-12)
    over_rows = np.array([standard_error(row - wrong[best]) for row in wrong])
    over_trees = np.sqrt(2.0 * np.var(apart_of_halves(forests, data), ddof=1) / 4.0)
    expected = np.where(np.arange(3) == best, 0.0, np.hypot(over_rows, over_trees))
    np.testing.assert_allclose(found.curve["difference_se"], expected)
    assert (found.curve["trees"] == TREES).all()
    assert found.trees_grown == TREES * len(GRID)


def test_a_forest_of_the_best_fraction_is_grown_from_its_parameters(framework: str, data: Data) -> None:
    _, dtrain = given(framework, data.X[:ROWS], data.y[:ROWS])
    found = search(framework, data)
    booster, report = rfsize.grow(found.params, dtrain, alpha=0.9)
    assert report.enough
    counted = rfsize.tree_outputs(booster, data.X[:ROWS], oob=True).votes
    assert np.mean(counted.asked) / counted.n_trees == pytest.approx(1.0 - found.best, abs=0.05)


def test_neither_parameters_nor_data_are_changed(framework: str, data: Data) -> None:
    params, dtrain = given(framework, data.X[:ROWS], data.y[:ROWS])
    before = dict(params)
    first = select_bagging_fraction(params, dtrain, fractions=GRID, n_trees=TREES, rule="best")
    assert params == before
    again = select_bagging_fraction(params, dtrain, fractions=GRID, n_trees=TREES, rule="best")
    assert str(first) == str(again)


def test_another_seed_is_another_search(framework: str, data: Data) -> None:
    found = search(framework, data).curve["error"].tolist()
    assert search(framework, data, seed=3).curve["error"].tolist() == found
    assert search(framework, data, seed=4).curve["error"].tolist() != found


def test_weights_count(framework: str, data: Data) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    weight = np.random.default_rng(0).integers(1, 4, ROWS)
    params, dtrain = given(framework, X, y, weight)
    found = select_bagging_fraction(params, dtrain, fractions=GRID, n_trees=TREES, rule="best", voting="hard")
    if framework == "lightgbm":
        forests = [train_lightgbm(X, y, TREES, {"weight": weight}, bagging_fraction=fraction) for fraction in GRID]
    else:
        told = [{**params, "subsample": fraction, "num_parallel_tree": TREES, "eta": 1} for fraction in GRID]
        forests = [xgb.train(each, dtrain, 1) for each in told]
    counted = [rfsize.tree_outputs(forest, X, oob=True, sample_weight=weight).votes for forest in forests]
    voted = np.all([votes.asked > 0 for votes in counted], axis=0)
    expected = [np.average((votes.winner() != y)[voted], weights=weight[voted]) for votes in counted]
    np.testing.assert_allclose(found.curve["error"], expected)


# ---------------------------------------------------------------------------------------------------------
# Scorers


def test_accuracy_is_one_minus_the_error(framework: str, data: Data) -> None:
    by_error, by_accuracy = search(framework, data), search(framework, data, metric="accuracy")
    np.testing.assert_allclose(by_accuracy.curve["score"], 1.0 - by_error.curve["error"])
    np.testing.assert_allclose(by_accuracy.curve["difference"], by_error.curve["difference"], atol=1e-12)
    np.testing.assert_allclose(by_accuracy.curve["standard_error"], by_error.curve["standard_error"], rtol=0.3)
    others = by_error.curve["difference"] > 0
    ratio = by_accuracy.curve["difference_se"][others] / by_error.curve["difference_se"][others]
    assert ((ratio > 0.7) & (ratio < 1.4)).all()
    assert by_accuracy.best == by_error.best
    assert by_accuracy.metric == "score"


@pytest.mark.parametrize(
    ("metric", "expected"), [("roc_auc", roc_auc_score), ("neg_log_loss", lambda y, p: -log_loss(y, p))]
)
def test_scorers_see_the_probabilities_of_the_unseeing_trees(
    framework: str, metric: str, expected: Any, data: Data
) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    found = search(framework, data, [0.5], metric=metric)
    if framework == "lightgbm":
        model = train_lightgbm(X, y, TREES, bagging_fraction=0.5)
        raw = np.array(
            [model.predict(X, raw_score=True, start_iteration=tree, num_iteration=1) for tree in range(TREES)]
        )
    else:
        model = train_xgboost(X, y, TREES, subsample=0.5)
        trees = json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
        leaf = model.predict(xgb.DMatrix(X), pred_leaf=True).astype(int)
        intercept = float(json.loads(model.save_config())["learner"]["learner_model_param"]["base_score"].strip("[]"))
        scores = [np.array(tree["split_conditions"])[leaf[:, place]] for place, tree in enumerate(trees)]
        raw = np.log(intercept / (1 - intercept)) + TREES * np.array(scores)
    unseen = ~rfsize.inbag(model, X)
    voted = unseen.any(axis=0)
    mean = (raw * unseen).sum(axis=0)[voted] / unseen.sum(axis=0)[voted]
    assert found.curve["score"][0] == pytest.approx(expected(y[voted], 1.0 / (1.0 + np.exp(-mean))), rel=1e-5)


def test_own_scorers(framework: str, data: Data) -> None:
    brier = make_scorer(brier_score_loss, response_method="predict_proba", greater_is_better=False)
    assert (search(framework, data, metric=brier).curve["score"] < 0.0).all()

    def share_of_class_1(estimator: Any, X: Any, y: Any) -> float:
        assert set(estimator.classes_) == {0, 1}
        assert len(X) == len(y)
        return float(np.mean(estimator.predict(X)))

    found = search(framework, data, metric=share_of_class_1)
    assert found.best == found.curve["fraction"][found.curve["score"].argmax()]


def not_with_these(estimator: Any, X: Any, y: Any) -> float:
    raise RuntimeError("scored")


def always_nan(estimator: Any, X: Any, y: Any) -> float:
    return float("nan")


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (accuracy_score, r"make_scorer\(accuracy_score\)"),
        (lambda y_true, y_pred: 0.0, "make_scorer"),
        ("acuracy", "get_scorer_names"),
        (["accuracy"], "name of a scikit-learn scorer"),
        (3, "name of a scikit-learn scorer"),
        (lambda estimator, X: 0.0, "called as scorer"),
        (always_nan, "gives nan"),
        ("neg_mean_gamma_deviance", "cannot judge"),
    ],
)
def test_what_is_no_scorer_is_refused(metric: Any, message: str, data: Data) -> None:
    with pytest.raises(ValueError, match=message):
        search("xgboost", data, metric=metric)


def test_a_scorer_that_takes_no_weights_is_refused_where_there_are_any(data: Data) -> None:
    params, dtrain = given("xgboost", data.X[:ROWS], data.y[:ROWS], np.ones(ROWS))
    with pytest.raises(ValueError, match="with sample weights"):
        select_bagging_fraction(params, dtrain, fractions=GRID, metric=lambda estimator, X, y: 0.0)


def test_a_search_of_one_fraction(framework: str, data: Data) -> None:
    assert search(framework, data, [0.4]).best == 0.4


# ---------------------------------------------------------------------------------------------------------
# More classes, and numbers


def many(framework: str, data: Data) -> tuple[dict[str, Any], Any]:
    objective = {"objective": "multiclass"} if framework == "lightgbm" else {"objective": "multi:softprob"}
    one_bag = {} if framework == "lightgbm" else {"multi_strategy": "multi_output_tree"}
    return given(framework, data.X[:ROWS], data.three[:ROWS], num_class=3, **objective, **one_bag)


def test_three_classes(framework: str, data: Data) -> None:
    if framework == "xgboost" and not ONE_TREE_FOR_ALL_CLASSES:
        pytest.skip("trees that score all classes tell too little to prove bags")
    params, dtrain = many(framework, data)
    found = select_bagging_fraction(params, dtrain, fractions=GRID, n_trees=TREES, rule="best", voting="hard")
    if framework == "lightgbm":
        forests = [
            lgb.train({**params, "bagging_fraction": r}, lgb.Dataset(data.X[:ROWS], data.three[:ROWS]), TREES)
            for r in GRID
        ]
    else:
        forests = [xgb.train({**params, "subsample": r, "num_parallel_tree": TREES, "eta": 1}, dtrain, 1) for r in GRID]
    wrong = losses(
        [rfsize.tree_outputs(forest, data.X[:ROWS], oob=True).votes for forest in forests], data.three[:ROWS]
    )
    np.testing.assert_allclose(found.curve["error"], wrong.mean(axis=1))
    scored = select_bagging_fraction(params, dtrain, fractions=[0.5], n_trees=TREES, rule="best", metric="roc_auc_ovr")
    assert scored.curve["score"][0] > 0.6


def test_a_bag_for_each_class(data: Data) -> None:
    params, dtrain = many("xgboost", data)
    del params["multi_strategy"]
    found = select_bagging_fraction(params, dtrain, fractions=GRID, n_trees=TREES, rule="best", voting="hard")
    forests = [xgb.train({**params, "subsample": r, "num_parallel_tree": TREES, "eta": 1}, dtrain, 1) for r in GRID]
    wrong = losses(
        [rfsize.tree_outputs(forest, data.X[:ROWS], oob=True).votes for forest in forests], data.three[:ROWS]
    )
    np.testing.assert_allclose(found.curve["error"], wrong.mean(axis=1))
    many_classes = {**params, "num_class": 24, "max_depth": 2}
    with pytest.raises(ValueError, match="multi_output_tree"):
        select_bagging_fraction(
            many_classes, xgb.DMatrix(data.X[:ROWS], np.arange(ROWS) % 24), fractions=[0.9], n_trees=105
        )


def test_regression(framework: str, data: Data) -> None:
    X = data.X[:ROWS]
    y = X[:, 0] + X[:, 1] * X[:, 2]
    objective = "regression" if framework == "lightgbm" else "reg:squarederror"
    params, dtrain = given(framework, X, y, objective=objective)
    found = select_bagging_fraction(params, dtrain, fractions=GRID, n_trees=TREES, rule="best")
    scored = select_bagging_fraction(
        params, dtrain, fractions=GRID, n_trees=TREES, rule="best", metric="neg_mean_squared_error"
    )
    np.testing.assert_allclose(-scored.curve["score"], found.curve["error"])
    assert scored.best == found.best
    # Trees that did not see a row predict it about as well as they predict other rows.
    unseen = data.X[ROWS:]
    booster, _ = rfsize.grow(found.params, dtrain)
    predicted = booster.predict(unseen if framework == "lightgbm" else xgb.DMatrix(unseen))
    held_out = np.mean((predicted - unseen[:, 0] - unseen[:, 1] * unseen[:, 2]) ** 2)
    assert found.curve["error"].min() == pytest.approx(held_out, rel=0.4)
    with pytest.raises(ValueError, match="cannot judge"):
        select_bagging_fraction(params, dtrain, fractions=GRID, metric="roc_auc")


def test_a_choice_within_noise_says_so(data: Data) -> None:
    params, dtrain = given("lightgbm", data.X[:ROWS], data.y[:ROWS])
    found = select_bagging_fraction(params, dtrain, fractions=[0.08, 0.45, 0.5], n_trees=TREES, rule="best")
    others = found.curve[found.curve["fraction"] != found.best]
    level = others[others["difference"] - 1.96 * others["difference_se"] <= 0]["fraction"]
    assert 0.08 not in level
    assert len(level) == 1
    assert f"fraction {found.best:.3f} has the best error of 3; 1 other may be as good, within noise" in str(found)


# ---------------------------------------------------------------------------------------------------------
# Careless input, and what is printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fractions": []}, "at least one number"),
        ({"fractions": 0.5}, "list"),
        ({"fractions": [0.5, 1.0]}, "strictly between 0 and 1"),
        ({"fractions": [0.0]}, "strictly between 0 and 1"),
        ({"fractions": [float("nan")]}, "strictly between 0 and 1"),
        ({"fractions": ["half"]}, "numbers"),
        ({"fractions": [0.5, 0.2, 0.5]}, "twice"),
        ({"n_trees": 1}, "n_trees"),
        ({"n_trees": 2.5}, "n_trees"),
        ({"rule": "1se"}, "rule must be one of"),
        ({"seed": -1}, "seed"),
    ],
)
def test_careless_options_are_refused(options: dict[str, Any], message: str, data: Data) -> None:
    with pytest.raises(ValueError, match=message):
        search("xgboost", data, **options)


def test_data_of_no_framework_are_refused(data: Data) -> None:
    with pytest.raises(ValueError, match=r"lightgbm\.Dataset"):
        select_bagging_fraction(LIGHTGBM, data.X)
    with pytest.raises(ValueError, match="label"):
        select_bagging_fraction(XGBOOST, xgb.DMatrix(data.X))


def test_what_is_printed_and_written(data: Data) -> None:
    found = search("xgboost", data, (0.1, 0.2, 0.45, 0.7), n_trees=60)
    assert f"*   {found.best:.3f}" in str(found)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["best"] == found.best
    assert [row["fraction"] for row in document["curve"]] == [0.1, 0.2, 0.45, 0.7]
    frame = found.to_frame()
    assert frame["error"].tolist() == found.curve["error"].tolist()


@pytest.mark.parametrize("options", [{}, {"metric": accuracy}])
def test_plot(options: dict[str, Any], data: Data) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = search("xgboost", data, **options)
    axes = found.plot()
    assert f"{found.best:.3f}" in axes.get_title()
    assert found.metric in axes.get_ylabel()
    assert len(axes.figure.axes) == 1
    points = np.sort(np.concatenate([line.get_xdata() for line in axes.lines if line.get_label() == "chosen"]))
    assert points.tolist() == [found.best]
    own = plt.figure().subplots()
    assert found.plot(own) is own
    plt.close("all")
