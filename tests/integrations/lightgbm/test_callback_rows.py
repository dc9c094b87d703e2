"""SizeCallback with the training rows and without, where a class is rare; and errors late in a training."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.metrics import make_scorer

import rfsize
from helpers.forests import LIGHTGBM, Data
from helpers.lightgbm_forests import SEVERAL
from helpers.reports import of_same_votes, same

RARE = {**LIGHTGBM, "min_data_in_leaf": 3}


@pytest.fixture(scope="module")
def rare() -> Data:
    """1.2 % positives; the third class of three is as rare."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2500, 8))
    latent = X[:, 0] + 0.3 * rng.normal(size=len(X))
    three = np.searchsorted(np.quantile(latent, [0.6, 0.988]), latent)
    return Data(X, (three == 2).astype(int), three, X[:0])


def settings(objective: str) -> dict[str, Any]:
    return RARE if objective == "binary" else {**RARE, "objective": objective, "num_class": 3}


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize("objective", ["binary", "multiclass", "multiclassova"])
@pytest.mark.parametrize("goal", [{"alpha": 0.995}, {"metric": "log_loss", "tolerance": 0.004}])
def test_a_rare_class_is_sized_without_its_rows(objective: str, goal: dict[str, Any], rare: Data) -> None:
    y = rare.y if objective == "binary" else rare.three
    callback = rfsize.SizeCallback(**goal, min_trees=120)
    lgb.train(settings(objective), lgb.Dataset(rare.X, y), 120, callbacks=[callback])
    whole = lgb.train(settings(objective), lgb.Dataset(rare.X, y), 120)
    low, high = rfsize.size(whole, rare.X, y, oob=True, **goal).interval
    assert low <= callback.report_.n_trees <= high
    # Probabilities of one score round to 1 where a softmax still tells classes apart.
    assert len(callback.report_.notes_on_rows) == (objective != "multiclass")
    assert set(callback.report_.notes_on_rows) <= set(callback.report_.to_dict()["notes"])


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize("objective", ["binary", "multiclass", "multiclassova"])
def test_with_its_rows_votes_are_those_of_the_finished_forest(objective: str, voting: str, rare: Data) -> None:
    y = rare.y if objective == "binary" else rare.three
    whole = lgb.train(settings(objective), lgb.Dataset(rare.X, y), 50)
    expected = rfsize.size(whole, rare.X, y, oob=True, alpha=0.9999, voting=voting)
    for keeps in (False, True):
        callback = rfsize.SizeCallback(0.9999, voting=voting, data=None if keeps else rare.X)
        dataset = lgb.Dataset(rare.X, y, free_raw_data=not keeps)
        lgb.train(settings(objective), dataset, 50, callbacks=[callback])
        assert same(of_same_votes(callback.report_), of_same_votes(expected))
        assert callback.report_.notes_on_rows == ()
        assert callback.report_.copied == 0.0


def test_votes_that_rounding_hides_are_not_sized_by(rare: Data) -> None:
    callback = rfsize.SizeCallback(0.9999, voting="hard")
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="data=X"):
        booster = lgb.train(RARE, lgb.Dataset(rare.X, rare.y), 120, callbacks=[callback])
    assert booster.num_trees() == 120
    assert callback.report_ is None


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
def test_estimators_take_their_rows(rare: Data) -> None:
    X = pd.DataFrame(rare.X, columns=list("abcdefgh")).assign(kind=pd.Categorical(rare.three % 2))
    options = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "random_state": 0, "n_jobs": 1}
    model = lgb.LGBMClassifier(n_estimators=60, verbose=-1, **options)
    callback = rfsize.SizeCallback(0.9999, data=X)
    model.fit(X, np.array(["no", "yes"])[rare.y], callbacks=[callback])
    expected = rfsize.size(model, X, oob=True, alpha=0.9999)
    assert callback.report_.n_trees == expected.n_trees
    assert callback.report_.interval == pytest.approx(expected.interval, rel=1e-3)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
def test_cross_validation_takes_all_rows(data: Data) -> None:
    sizes = []
    for options in ({}, {"data": data.X}):
        callback = rfsize.SizeCallback(0.9, min_trees=40, **options)
        lgb.cv(LIGHTGBM, lgb.Dataset(data.X, data.y), 300, nfold=3, callbacks=[callback])
        sizes.append((callback.report_.n_trees, callback.report_.available, callback.report_.n_rows))
    assert sizes[0] == sizes[1]
    callback = rfsize.SizeCallback(0.9, data=data.X[::-1])
    with pytest.raises(ValueError, match="data are not the rows"):
        lgb.cv(LIGHTGBM, lgb.Dataset(data.X, data.y), 300, nfold=3, callbacks=[callback])


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (lambda X: X[:-1], ValueError),
        (lambda X: X[:, :-1], ValueError),
        (lambda X: X[::-1], rfsize.exceptions.InbagError),
    ],
)
def test_other_rows_are_refused_at_the_first_tree(rows: Any, error: type[Exception], data: Data) -> None:
    trees: list[int] = []
    callback = rfsize.SizeCallback(0.9, data=rows(data.X))
    with pytest.raises(error):
        lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 5, callbacks=[lambda env: trees.append(1), callback])
    assert len(trees) == 1


def test_data_is_refused_where_it_says_nothing(data: Data) -> None:
    with pytest.raises(ValueError, match=r"data .*validation="):
        rfsize.SizeCallback(data=data.X, validation="valid_0")
    for given in (lgb.Dataset(data.X, data.y), data.X.tolist(), "rows.csv"):
        with pytest.raises(ValueError, match="data must be"):
            rfsize.SizeCallback(data=given)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning")
@pytest.mark.parametrize(("goal", "n_read"), [({"alpha": 0.97}, 104), ({"metric": "auc", "tolerance": 0.02}, 120)])
def test_many_rows_are_drawn_once_and_metrics_take_every_tree(goal: dict[str, Any], n_read: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(21_000, 5))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)
    params = {**LIGHTGBM, "num_leaves": 7}
    callback = rfsize.SizeCallback(**goal, min_trees=120)
    lgb.train(params, lgb.Dataset(X, y), 120, callbacks=[callback])
    report = callback.report_
    assert report.n_rows + report.n_dropped == 20_000
    assert report.votes_per_row == pytest.approx(n_read * 0.368, rel=0.02)
    assert len(report.notes_on_rows) == 1
    low, high = rfsize.size(lgb.train(params, lgb.Dataset(X, y), 120), X, y, oob=True, **goal).interval
    assert low <= report.n_trees <= high


def failing_scorer(error: BaseException) -> Any:
    """A scorer that fails after the first tree."""
    looks: list[int] = []

    def accuracy(y: np.ndarray, predicted: np.ndarray) -> float:
        looks.append(len(y))
        if len(looks) > 1:
            raise error
        return float(np.mean((predicted > 0.5) == y))

    return make_scorer(accuracy, response_method="predict_proba")


@pytest.mark.parametrize("error", [TypeError("of the user"), ValueError("of the user"), KeyError("of the user")])
def test_no_error_of_an_estimate_ends_a_training(error: Exception, data: Data) -> None:
    callback = rfsize.SizeCallback(metric=failing_scorer(error), tolerance=0.001, min_trees=20)
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="of the user"):
        booster = lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 60, callbacks=[callback])
    assert booster.num_trees() == 60


def test_an_interrupt_ends_a_training(data: Data) -> None:
    callback = rfsize.SizeCallback(metric=failing_scorer(KeyboardInterrupt()), tolerance=0.001, min_trees=20)
    with pytest.raises(KeyboardInterrupt):
        lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 60, callbacks=[callback])


@pytest.mark.parametrize("gives_data", [False, True])
def test_changed_bags_are_told_at_the_end(gives_data: bool, data: Data) -> None:
    change = lgb.reset_parameter(bagging_fraction=[0.632] * 50 + [0.55] * 70)
    callback = rfsize.SizeCallback(alpha=0.9999, data=data.X if gives_data else None)
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match=r"changed.*SizeCallback\(validation="):
        booster = lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 120, callbacks=[callback, change])
    assert booster.num_trees() == 120


SOFT = {**LIGHTGBM, "objective": "cross_entropy"}


def test_soft_labels_are_sized_without_metrics(data: Data) -> None:
    y = 0.1 + 0.8 * data.y
    booster, grown = rfsize.grow(SOFT, lgb.Dataset(data.X, y), alpha=0.95)
    callback = rfsize.SizeCallback(alpha=0.95)
    stopped = lgb.train(SOFT, lgb.Dataset(data.X, y), 1000, callbacks=[callback])
    assert same(of_same_votes(callback.report_), of_same_votes(grown))
    assert stopped.num_trees() == booster.num_trees() == grown.n_kept
    _, by_probabilities = rfsize.grow(SOFT, lgb.Dataset(data.X, y), metric="probabilities", tolerance=0.1)
    assert by_probabilities.enough
    by_metric = {"metric": "log_loss", "tolerance": 0.01}
    calls = (
        lambda: rfsize.grow(SOFT, lgb.Dataset(data.X, y), **by_metric),
        lambda: lgb.train(SOFT, lgb.Dataset(data.X, y), 9, callbacks=[rfsize.SizeCallback(**by_metric)]),
        lambda: rfsize.oob_score(stopped, data.X, y),
        lambda: rfsize.select_bagging_fraction(SOFT, lgb.Dataset(data.X, y)),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"labels are soft|soft labels"):
            call()


@pytest.mark.parametrize("labels", [(-1, 1), (0, 2)])
def test_labels_are_read_by_their_sign(labels: tuple[int, int], data: Data) -> None:
    goal = {"metric": "auc", "tolerance": 0.01}

    def outcomes(y: np.ndarray) -> tuple[Any, ...]:
        callback = rfsize.SizeCallback(**goal)
        lgb.train(LIGHTGBM, lgb.Dataset(data.X, y), 400, callbacks=[callback])
        _, grown = rfsize.grow(LIGHTGBM, lgb.Dataset(data.X, y), **goal)
        score = rfsize.oob_score(lgb.train(LIGHTGBM, lgb.Dataset(data.X, y), 60), data.X, y, metric="auc")
        return callback.report_.n_trees, grown.n_trees, score.value

    assert outcomes(np.array(labels)[data.y]) == outcomes(data.y)


def test_xgboost_is_told_what_works(data: Data) -> None:
    with pytest.raises(ValueError, match=r"rfsize\.grow\(params, dtrain\)"):
        xgb.train({}, xgb.DMatrix(data.X, data.y), 1, callbacks=[rfsize.SizeCallback(0.99)])


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize("params", [{"pos_bagging_fraction": 0.8, "neg_bagging_fraction": 0.5}, SEVERAL])
def test_walked_bags_of_every_kind_are_proven(params: dict[str, Any], data: Data) -> None:
    params = {**LIGHTGBM, **params}
    y = data.three if "num_class" in params else data.y
    groups = np.arange(len(y)) // 2
    callback = rfsize.SizeCallback(0.9999, data=data.X, groups=groups, min_trees=150)
    booster = lgb.train(params, lgb.Dataset(data.X, y), 200, callbacks=[callback])
    expected = rfsize.size(booster, data.X, y, oob=True, groups=groups, alpha=0.9999)
    assert same(of_same_votes(callback.report_), of_same_votes(expected))


def test_a_regressor_takes_the_usual_tolerance(data: Data) -> None:
    y = data.X[:, 0] + data.X[:, 1]
    callback = rfsize.SizeCallback()
    lgb.train({**LIGHTGBM, "objective": "regression"}, lgb.Dataset(data.X, y), 1000, callbacks=[callback])
    assert callback.report_.enough
    assert callback.report_.goal.level == pytest.approx(0.05 * np.std(y), rel=0.01)
