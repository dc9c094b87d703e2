"""What every report lists beside its own loss: labels, probabilities, and metrics where the truth is known."""

from __future__ import annotations

import json
import pickle
import warnings
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
    """Print, page, dictionary and `loss_at` tell one number, and so does the report about that metric."""
    model = trained(framework, data.X, data.y)
    report = rfsize.size(model, data.X, data.y, oob=True, alpha=0.9)
    assert report._beside == ("probabilities", "log_loss", "auc")
    said = report.to_dict()["beside"]
    starts = "  against an unlimited forest: ", "  ! "
    printed = [line for line in str(report).splitlines() if line.startswith(starts)]
    for metric in report._beside:
        own = rfsize.size(model, data.X, data.y, oob=True, metric=metric, tolerance=0.05)
        assert report.loss_at(31, metric) == own.loss_at(31)
        assert own.loss_at(31, "labels") == report.loss_at(31)
        now = own.loss_at(report.n_kept)
        assert said[metric] == now.to_dict()
        assert sum(line.count(f"{now.value:.2g}") for line in printed) == 1
    assert json.loads(json.dumps(report.to_dict()))["beside"].keys() == set(report._beside)


def test_a_picture_of_classes(data: Data) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    report = rfsize.size(trained("random forest", data.X, data.y), data.X, oob=True, alpha=0.9, average="macro")
    _, ax = plt.subplots()
    report._answer.pictures()[1].draw(ax)
    by_class = ax.containers[0].lines[0].get_xdata()
    assert by_class == pytest.approx(sorted(report.loss_at(report.n_kept).by_class.values(), reverse=True))
    plt.close("all")


def test_what_is_beside_does_not_depend_on_the_rule_of_voting(lgb_booster: Any, data: Data) -> None:
    soft, hard = (rfsize.size(lgb_booster, data.fresh, alpha=0.9, voting=voting) for voting in ("soft", "hard"))
    assert hard.loss_at(21, "probabilities") == soft.loss_at(21, "probabilities")


def test_regression(data: Data) -> None:
    y = data.X[:, 0] + data.X[:, 1] ** 2
    model = RandomForestRegressor(100, random_state=0).fit(data.X, y)
    report = rfsize.size(model, data.X, y, oob=True, metric="scores", tolerance=0.1)
    by_metric = rfsize.size(model, data.X, y, oob=True, metric="rmse", tolerance=0.1)
    assert (report._beside, by_metric._beside) == (("rmse",), ("scores",))
    assert report.loss_at(25, "rmse") == by_metric.loss_at(25)
    assert by_metric.loss_at(25, "scores") == report.loss_at(25)


def test_votes_alone(lgb_booster: Any, data: Data) -> None:
    report = rfsize.size(rfsize.tree_outputs(lgb_booster, data.fresh).votes, alpha=0.9)
    assert report._beside == ()
    assert "against an unlimited forest" not in str(report)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="counted Votes"):
        report.loss_at(10, "probabilities")


def test_trees_too_few_to_tell_of_metrics_leave_them_out(data: Data) -> None:
    report = rfsize.size(train_lightgbm(data.X, data.y, 30), data.X, data.y, oob=True, alpha=0.8)
    assert report._beside == ("probabilities",)


def test_metrics_without_a_value_are_left_out(data: Data) -> None:
    forest = RandomForestClassifier(60, random_state=0).fit(data.X, data.y)  # of pure leaves
    assert rfsize.size(forest, data.X, data.y, oob=True, alpha=0.8)._beside == ("probabilities", "brier", "auc")
    of_one_class = np.zeros(len(data.fresh), dtype=int)
    assert "auc" not in rfsize.size(forest, data.fresh, of_one_class, alpha=0.8)._beside
    with pytest.raises(ValueError, match="labels that the model does not know"):
        rfsize.size(forest, data.fresh, of_one_class + 7, alpha=0.8)


def test_a_pickle_knows_what_the_report_lists(lgb_booster: Any, data: Data) -> None:
    report = rfsize.size(lgb_booster, data.X, data.y, oob=True, alpha=0.9)
    again = pickle.loads(pickle.dumps(report))
    assert again.to_dict() == report.to_dict()
    assert str(again) == str(report)
    assert again.loss_at(7, "auc") == report.loss_at(7, "auc")
    with pytest.raises(ValueError, match="knows only the loss of labels, probabilities"):
        again.loss_at(7, "accuracy")
    with pytest.raises(ValueError, match="n_trees must be"):
        report.loss_at(0)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_labels_that_mislead_are_warned_of(framework: str) -> None:
    X, y = rare(6000)
    model = trained(framework, X, y)
    with pytest.warns(
        rfsize.exceptions.LabelsOnlyWarning, match=r"ranking suffers: AUC −.*metric='auc', tolerance=0.001"
    ) as told:
        small = rfsize.truncate(model, X, y, oob=True, alpha=0.98)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", rfsize.exceptions.LabelsOnlyWarning)
        rfsize.truncate(model, X, y, oob=True, metric="auc", tolerance=0.05)
        rfsize.truncate(model, n_trees=5)
    assert rfsize.tree_outputs(small, X).votes.n_trees < 100


def test_growing_warns(data: Data) -> None:
    X, y = rare(6000)
    dataset = lgb.Dataset(X, y, free_raw_data=False)
    with pytest.warns(rfsize.exceptions.LabelsOnlyWarning, match="AUC −"):
        rfsize.grow(PARAMETERS, dataset, alpha=0.98)
    forest = RandomForestClassifier(min_samples_leaf=10, random_state=0)
    with pytest.warns(rfsize.exceptions.LabelsOnlyWarning, match="AUC −"):
        rfsize.RightSizedClassifier(forest, alpha=0.98).fit(X, y)
    with pytest.warns(rfsize.exceptions.LabelsOnlyWarning, match="AUC −"):
        rfsize.RightSizedClassifier(forest, alpha=0.98, cv=3).fit(X, y)
    with pytest.warns(rfsize.exceptions.LabelsOnlyWarning, match="AUC −"):
        lgb.train(PARAMETERS, dataset, 1000, callbacks=[rfsize.SizeCallback(alpha=0.98)])


def test_classes_that_labels_leave_out_are_named_without_labels() -> None:
    X, y = rare(6000)
    model = RandomForestClassifier(100, min_samples_leaf=100, random_state=0).fit(X, y)
    with pytest.warns(
        rfsize.exceptions.LabelsOnlyWarning, match="class 1 gets 0 % of the labels, and its mean probability is"
    ) as told:
        rfsize.truncate(model, X, oob=True)
    assert "macro" not in str(told[0].message)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_balanced_classes_are_quiet(framework: str, data: Data) -> None:
    model = trained(framework, data.X, data.y, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rfsize.exceptions.LabelsOnlyWarning)
        rfsize.truncate(model, data.X, data.y, oob=True, alpha=0.97)
