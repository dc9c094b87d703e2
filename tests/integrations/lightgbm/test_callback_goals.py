"""SizeCallback by what else than labels a forest predicts: probabilities, numbers, metrics."""

from __future__ import annotations

import math
import pickle
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from lightgbm import LGBMRegressor

import rfsize
from helpers.forests import LIGHTGBM, Data, train_lightgbm
from helpers.regressors import lightgbm, numbers
from helpers.reports import of_same_votes, same
from rfsize.counting.evidence import Evidence
from rfsize.sizing.report import report_of

ROWS = 500
OBJECTIVES = ("regression", "regression_l1", "huber", "quantile", "poisson")


def train(data: Data, y: np.ndarray, callback: Any, rounds: int = 1000, valid: bool = False, **params: Any) -> Any:
    dataset = lgb.Dataset(data.X[:ROWS], y[:ROWS], free_raw_data=False)
    valid_sets = [dataset.create_valid(data.X[ROWS:], y[ROWS:])] if valid else None
    settings = {**LIGHTGBM, "metric": "None", **params}
    return lgb.train(settings, dataset, rounds, valid_sets, ["fresh"] if valid else None, callbacks=[callback])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_regression(objective: str, data: Data) -> None:
    y = numbers(data)
    by: dict[str, Any] = {"metric": "scores", "tolerance": 0.06 * float(np.std(y[:ROWS]))}
    callback = rfsize.SizeCallback(**by)
    model = train(data, y, callback, objective=objective)
    report = callback.report_
    assert report.enough
    assert model.num_trees() == report._wanted
    params = {**LIGHTGBM, "objective": objective}
    dtrain = lgb.Dataset(data.X[:ROWS], y[:ROWS], free_raw_data=False)
    grown, expected = rfsize.grow(params, dtrain, **by)
    assert (report.n_trees, report.interval, report._wanted) == (expected.n_trees, expected.interval, expected._wanted)
    assert np.array_equal(model.predict(data.fresh), grown.predict(data.fresh))


@pytest.mark.parametrize(
    ("metric", "tolerance"), [("probabilities", 0.06), ("scores", 0.3), ("auc", 0.004), ("log_loss", 0.01)]
)
@pytest.mark.parametrize("validation", [None, "fresh"])
def test_two_classes(validation: str | None, metric: str, tolerance: float, data: Data) -> None:
    callback = rfsize.SizeCallback(metric=metric, tolerance=tolerance, validation=validation)
    model = train(data, data.y, callback, valid=validation is not None)
    report = callback.report_
    assert report.enough
    assert model.best_iteration in (0, report._wanted)
    assert report.source == ("oob" if validation is None else "validation set 'fresh'")
    whole = lgb.train(LIGHTGBM, lgb.Dataset(data.X[:ROWS], data.y[:ROWS]), report.available)
    by: dict[str, Any] = {"metric": metric, "tolerance": tolerance}
    if validation is None:
        expected = rfsize.size(whole, data.X[:ROWS], data.y[:ROWS], oob=True, **by)
    else:
        expected = rfsize.size(whole, data.X[ROWS:], data.y[ROWS:], **by)
    assert report.n_trees == pytest.approx(expected.n_trees, abs=1)
    assert pickle.loads(pickle.dumps(callback)).report_.to_dict() == report.to_dict()


@pytest.mark.parametrize(("metric", "tolerance"), [("scores", 0.12), ("rmse", 0.01), ("neg_mean_absolute_error", 0.01)])
def test_cross_validation(metric: str, tolerance: float, data: Data) -> None:
    y = numbers(data)
    callback = rfsize.SizeCallback(metric=metric, tolerance=tolerance)
    params = {**LIGHTGBM, "objective": "regression", "metric": "l2"}
    found = lgb.cv(
        params, lgb.Dataset(data.X, y), 1000, nfold=3, stratified=False, callbacks=[callback], return_cvbooster=True
    )
    report = callback.report_
    assert report.enough
    assert report.source == "cross-validation"
    assert found["cvbooster"].best_iteration == report._wanted
    assert len(found["valid l2-mean"]) == report._wanted


def test_metrics_in_cross_validation(data: Data) -> None:
    callback = rfsize.SizeCallback(metric="auc", tolerance=0.004)
    lgb.cv({**LIGHTGBM, "metric": "auc"}, lgb.Dataset(data.X, data.y), 1000, nfold=3, callbacks=[callback])
    whole = lgb.train(LIGHTGBM, lgb.Dataset(data.X[:1000], data.y[:1000]), callback.report_.available)
    alone = rfsize.size(whole, data.X[1000:], data.y[1000:], metric="auc", tolerance=0.004)
    assert callback.report_.enough
    assert 1 / 3 < callback.report_.loss_at(50).value / alone.loss_at(50).value < 3


def test_training_goes_on_where_too_few_trees_tell_a_metric(data: Data) -> None:
    callback = rfsize.SizeCallback(min_trees=5, log_every=5, metric="auc", tolerance=0.05)
    train(data, data.y, callback)
    assert callback.report_.enough
    assert callback.report_.votes_per_row >= 20
    short = rfsize.SizeCallback(min_trees=5, metric="auc", tolerance=0.05)
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="are too few to measure what a metric loses"):
        assert train(data, data.y, short, rounds=20).num_trees() == 20
    assert short.report_ is None


@pytest.mark.parametrize(
    ("metric", "tolerance"), [("auc", 0.004), ("probabilities", 0.06), ("probabilities", 1e-3), ("labels", None)]
)
@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")
def test_trees_are_estimated_from_once(
    metric: str, tolerance: float | None, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def counted(outputs: Evidence, goal: Any) -> rfsize.Report:
        looks.append(outputs.n_trees)
        return report_of(outputs, goal)

    for looking in ("integrations.lightgbm.callback", "training.out_of_bag"):
        monkeypatch.setattr(f"rfsize.{looking}.report_of", counted)
    callback = rfsize.SizeCallback(metric=metric, tolerance=tolerance)
    train(data, data.y, callback, rounds=300)
    assert callback.report_ is not None
    assert looks == sorted(set(looks)) != []
    looks.clear()
    rfsize.grow(LIGHTGBM, lgb.Dataset(data.X, data.y), metric=metric, tolerance=tolerance, max_trees=300)
    assert looks == sorted(set(looks)) != []


def test_its_log_and_its_warning(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    callback = rfsize.SizeCallback(metric="scores", tolerance=1e-3, log_every=100)
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="scores are within"):
        train(data, numbers(data), callback, rounds=200, objective="regression")
    assert "[200] T*(scores within 0.001) = " in capsys.readouterr().out
    assert math.isfinite(callback.report_.n_trees)


def test_regressors_of_scikit_learns_kind(data: Data) -> None:
    callback = rfsize.SizeCallback(metric="scores", tolerance=0.12)
    model: LGBMRegressor = lightgbm(n_estimators=1000)
    model.fit(data.X, numbers(data), callbacks=[callback])
    assert callback.report_.enough
    assert model.booster_.num_trees() == callback.report_._wanted


@pytest.mark.parametrize(
    ("objective", "options", "message"),
    [
        ("regression", {"alpha": 0.9}, "cast no votes"),
        ("regression", {"metric": "probabilities", "tolerance": 0.1}, "is for classification"),
        ("regression", {"metric": "auc", "tolerance": 0.1}, "does not fit a regression forest: take one of rmse"),
        ("multiclass", {"metric": "scores", "tolerance": 0.1}, "of several classes is not known during training"),
    ],
)
def test_refusals_in_training(objective: str, options: dict[str, Any], message: str, data: Data) -> None:
    y = data.three if objective == "multiclass" else numbers(data)
    several = {"num_class": 3} if objective == "multiclass" else {}
    with pytest.raises(ValueError, match=message):
        train(data, y, rfsize.SizeCallback(**options), rounds=110, objective=objective, **several)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "scores"}, "needs a tolerance"),
        ({"metric": "labels", "tolerance": 0.1}, "tolerance is for"),
        ({"metric": "auc", "tolerance": 0.1, "alpha": 0.9}, "alpha would have no effect"),
        ({"metric": "near", "tolerance": 0.1}, "metric must be one of"),
    ],
)
def test_refusals_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rfsize.SizeCallback(**options)


def test_further_trees_leave_a_report_as_it_is(data: Data) -> None:
    callback = rfsize.SizeCallback(alpha=0.9999)
    seen = {}

    def look(env: Any) -> None:
        if env.iteration + 1 in (60, 150):
            seen[env.iteration + 1] = callback.report_

    with pytest.warns(rfsize.exceptions.NotConvergedWarning):
        lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 300, callbacks=[callback, look])
    for trees, report in seen.items():
        expected = rfsize.size(train_lightgbm(data.X, data.y, trees), data.X, alpha=0.9999, oob=True)
        assert same(of_same_votes(report), of_same_votes(expected))
        assert report.loss_at(20).value == pytest.approx(expected.loss_at(20).value, rel=1e-9)
        assert report.loss_at(20, "scores").value == pytest.approx(expected.loss_at(20, "scores").value, rel=1e-9)
