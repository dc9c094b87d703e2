"""What every report tells of a size: labels that change, how far off probabilities are, and what metrics lose."""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost

FRAMEWORKS = ["lightgbm", "xgboost", "random forest"]
PARAMETERS = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1, "verbose": -1}


def trained(framework: str, X: np.ndarray, y: np.ndarray, n_trees: int = 100) -> Any:
    if framework == "random forest":
        return RandomForestClassifier(n_trees, min_samples_leaf=10, random_state=0).fit(X, y)
    return (train_lightgbm if framework == "lightgbm" else train_xgboost)(X, y, n_trees)


def rare(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which one in twenty or so is of class 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 8))
    return X, (rng.random(n_rows) < 1.0 / (1.0 + np.exp(3.8 - 1.3 * X[:, 0] - X[:, 1] * X[:, 2]))).astype(int)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_it_is_what_other_reports_say(framework: str, data: Data) -> None:
    model = trained(framework, data.X, data.y)
    report = rfsize.size(model, data.X, data.y, oob=True, alpha=0.9)
    price = report.price(31)
    assert price.n_trees == 31
    assert price.labels == pytest.approx(1.0 - report.agreement(31), rel=1e-12)
    by_class = report.agreement_by_class(31)
    assert price.by_class == pytest.approx({of: 1.0 - share for of, share in by_class.items()}, rel=1e-12)
    deviations = rfsize.size(model, data.X, oob=True, criterion="probability", tolerance=0.05)
    assert price.rms == pytest.approx(deviations.deviation(31).rms, rel=1e-12)
    assert replace(deviations.price(31), metrics={}) == replace(price, metrics={})
    assert deviations.price(31).metrics == {}
    for metric in ("auc", "logloss"):
        found = rfsize.size(model, data.X, data.y, oob=True, criterion=metric, tolerance=0.01)
        assert price.metrics[metric] == found.loss_at(31).value
        own = found.price(31)
        assert replace(own, metrics={}) == replace(price, metrics={})
        assert own.metrics == {**price.metrics, metric: found.loss_at(31).value}
    assert report.price() == report.price(report.n_kept)
    assert str(report.price()) in str(report)
    assert json.loads(json.dumps(report.to_dict()))["price"]["metrics"].keys() == {"auc", "logloss"}


def test_plot(data: Data) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    report = rfsize.size(trained("random forest", data.X, data.y), data.X, oob=True, alpha=0.9, average="macro")
    price = report.price(31)
    _, mine = plt.subplots()
    assert price.plot(mine) is mine
    drawn = mine.containers[0].lines[0].get_xdata()
    assert list(drawn) == sorted((price.by_class or {}).values(), reverse=True)
    by_class = report.plot().figure.axes[1].containers[0].lines[0].get_xdata()
    agreement = report.agreement_by_class(report.n_kept)
    assert by_class == pytest.approx(sorted((1.0 - share for share in agreement.values()), reverse=True))
    plt.close("all")
    regression = RandomForestRegressor(20, random_state=0).fit(data.X, data.X[:, 0])
    numbers = rfsize.size(regression, data.X, oob=True, criterion="score", tolerance=0.1).price()
    with pytest.raises(ValueError, match="no labels to draw by class"):
        numbers.plot()


def test_the_other_rule_of_voting_has_the_price_of_predict(lgb_booster: Any, data: Data) -> None:
    soft, hard = (rfsize.size(lgb_booster, data.fresh, alpha=0.9, voting=voting) for voting in ("soft", "hard"))
    assert hard.price(21) == soft.price(21)
    assert hard.other.price(21) == soft.price(21)


def test_regression(data: Data) -> None:
    y = data.X[:, 0] + data.X[:, 1] ** 2
    model = RandomForestRegressor(100, random_state=0).fit(data.X, y)
    report = rfsize.size(model, data.X, y, oob=True, criterion="score", tolerance=0.1)
    price = report.price(25)
    assert price.labels is price.by_class is None
    assert price.rms == pytest.approx(report.deviation(25).rms, rel=1e-12)
    by_metric = rfsize.size(model, data.X, y, oob=True, criterion="rmse", tolerance=0.1)
    assert price.metrics == {"rmse": by_metric.loss_at(25).value}
    assert "predictions are off by" in str(price)


def test_votes_alone(lgb_booster: Any, data: Data) -> None:
    price = rfsize.size(rfsize.tree_outputs(lgb_booster, data.fresh).votes, alpha=0.9).price()
    assert price.labels > 0.0
    assert price.rms is None
    assert price.metrics == {}


def test_trees_too_few_to_tell_of_metrics_leave_them_out(data: Data) -> None:
    report = rfsize.size(train_lightgbm(data.X, data.y, 30), data.X, data.y, oob=True, alpha=0.8)
    assert report.price().metrics == {}


def test_metrics_without_a_value_are_left_out(data: Data) -> None:
    forest = RandomForestClassifier(60, random_state=0).fit(data.X, data.y)  # of pure leaves
    assert rfsize.size(forest, data.X, data.y, oob=True, alpha=0.8).price().metrics.keys() == {"brier", "auc"}
    of_one_class = np.zeros(len(data.fresh), dtype=int)
    assert rfsize.size(forest, data.fresh, of_one_class, alpha=0.8).price().metrics.keys() == {"brier"}
    with pytest.raises(ValueError, match="labels that the model does not know"):
        rfsize.size(forest, data.fresh, of_one_class + 7, alpha=0.8)


def test_a_pickle_knows_its_own_price(lgb_booster: Any, data: Data) -> None:
    report = rfsize.size(lgb_booster, data.X, data.y, oob=True, alpha=0.9)
    again = pickle.loads(pickle.dumps(report))
    assert again.price() == report.price()
    assert str(again) == str(report)
    with pytest.raises(ValueError, match="pickled, and knows the price of"):
        again.price(7)
    with pytest.raises(ValueError, match="n_trees must be"):
        report.price(0)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_labels_that_mislead_are_warned_of(framework: str) -> None:
    X, y = rare(6000)
    model = trained(framework, X, y)
    with pytest.warns(
        rfsize.LabelsOnlyWarning, match=r"ranking suffers: AUC -.*criterion='auc', tolerance=0.001"
    ) as told:
        small = rfsize.truncate(model, X, y, oob=True, alpha=0.98)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", rfsize.LabelsOnlyWarning)
        rfsize.truncate(model, X, y, oob=True, criterion="auc", tolerance=0.05)
        rfsize.truncate(model, n_trees=5)
    assert rfsize.tree_outputs(small, X).votes.n_trees < 100


def test_growing_warns(data: Data) -> None:
    X, y = rare(6000)
    dataset = lgb.Dataset(X, y, free_raw_data=False)
    with pytest.warns(rfsize.LabelsOnlyWarning, match="AUC -"):
        rfsize.grow(PARAMETERS, dataset, alpha=0.98)
    forest = RandomForestClassifier(min_samples_leaf=10, random_state=0)
    with pytest.warns(rfsize.LabelsOnlyWarning, match="AUC -"):
        rfsize.RightSizedClassifier(forest, alpha=0.98).fit(X, y)
    with pytest.warns(rfsize.LabelsOnlyWarning, match="AUC -"):
        rfsize.RightSizedClassifier(forest, alpha=0.98, votes="cv", cv=3).fit(X, y)
    with pytest.warns(rfsize.LabelsOnlyWarning, match="AUC -"):
        lgb.train(PARAMETERS, dataset, 1000, callbacks=[rfsize.SizeCallback(alpha=0.98)])


def test_classes_that_labels_leave_out_are_named_without_labels() -> None:
    X, y = rare(6000)
    model = RandomForestClassifier(100, min_samples_leaf=100, random_state=0).fit(X, y)
    with pytest.warns(
        rfsize.LabelsOnlyWarning, match="class 1 gets 0.00% of the labels; its mean probability is"
    ) as told:
        rfsize.truncate(model, X, oob=True)
    assert "macro" not in str(told[0].message)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_balanced_classes_are_quiet(framework: str, data: Data) -> None:
    model = trained(framework, data.X, data.y, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rfsize.LabelsOnlyWarning)
        rfsize.truncate(model, data.X, data.y, oob=True, alpha=0.97)
