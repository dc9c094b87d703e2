"""Boosted models cut to the fewest first iterations that rows certify, against the frameworks' own predictions."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from contract.test_boosted import SKLEARN, THREE, WHOLE, Boosted, trained
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

import reference.certified
import reference.shrinking
import rfsize
from helpers.boosted import CLASSIFIERS, by_first_iterations, classifier
from rfsize.exceptions import LabelsOnlyWarning, NotAForestError


def rows_like_those_of_training(n_rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, 6)).astype(np.float32).astype(float)
    rows[:, 2] = rng.choice([0.0, 3.0, 7.0, 11.0, 40.0], n_rows)
    return rows


FRESH = rows_like_those_of_training(700, 5)
ALPHA, SURE = 0.9, 0.9
MODEL: dict[str, Any] = {"alpha": ALPHA, "confidence": SURE}

LABELS = [("lightgbm", name) for name in ("gbdt", "dart", "goss", "multiclass", "one-vs-all", "one-hot")]
LABELS += [("xgboost", name) for name in ("gbtree", "dart", "dart of trees", "parallel trees", "base_score", "hinge")]
LABELS += [("xgboost", name) for name in ("softprob", "softprob of trees", "softmax dart", "vectors")]
LABELS += [("sklearn", name) for name, (model, _, _) in SKLEARN.items() if hasattr(model, "predict_proba")]
NUMBERS = [("lightgbm", "poisson"), ("lightgbm", "square root"), ("xgboost", "squared error"), ("xgboost", "gamma")]
NUMBERS += [("sklearn", "huber"), ("sklearn", "absolute"), ("sklearn", "gamma")]


def label_of(prediction: np.ndarray) -> np.ndarray:
    """Labels as the frameworks' classifiers make them of a booster's probabilities."""
    if prediction.ndim == 2:
        return prediction.argmax(axis=1)
    return (prediction > 0.5).astype(int) if prediction.dtype.kind == "f" and prediction.max() <= 1.0 else prediction


def fewest(differs: np.ndarray, group: np.ndarray, alpha: float = ALPHA) -> int:
    return reference.certified.fewest(differs, group, alpha, SURE, "micro")


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize("kind", LABELS, ids=": ".join)
def test_labels(kind: tuple[str, str]) -> None:
    boosted = trained(*kind)
    label = np.stack([label_of(boosted.predict(FRESH, n)) for n in range(1, boosted.model.n_trees + 1)], axis=1)
    differs = label != label[:, -1:]
    report = rfsize.size(boosted.native, FRESH, **MODEL)
    n_trees = int(report.n_trees)
    assert n_trees == fewest(differs, label[:, -1])
    assert (report.certificate.disagreements, report.certificate.rows) == (differs[:, n_trees - 1].sum(), len(FRESH))
    assert [report.loss_at(n).value for n in (1, 3)] == pytest.approx(differs[:, [0, 2]].mean(axis=0).tolist())
    small = Boosted(boosted.framework, rfsize.truncate(boosted.native, FRESH, **MODEL), FRESH, boosted.params)
    assert type(small.native) is type(boosted.native)
    np.testing.assert_array_equal(label_of(small.predict(FRESH)), label[:, n_trees - 1])


@pytest.mark.parametrize("kind", NUMBERS, ids=": ".join)
def test_numbers(kind: tuple[str, str]) -> None:
    boosted = trained(*kind)
    predicted = np.stack([boosted.predict(FRESH, n) for n in range(1, boosted.model.n_trees + 1)], axis=1)
    apart = np.abs(predicted - predicted[:, -1:])
    tolerance = float(np.quantile(apart[:, 5], ALPHA + 0.04))
    report = rfsize.size(boosted.native, FRESH, metric="scores", tolerance=tolerance, **MODEL)
    assert report.n_trees == fewest(apart > tolerance, np.zeros(len(FRESH), dtype=int)) < boosted.model.n_trees


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
def test_probabilities(name: str, n_classes: int) -> None:
    model = classifier(name, 30, *SKLEARN["binary" if n_classes == 2 else "three, zero"][1:])
    probability = by_first_iterations(model, FRESH, 30)
    apart = np.abs(probability - probability[:, -1:]).max(axis=2)
    tolerance = float(np.quantile(apart[:, 20], 0.95))
    report = rfsize.size(model, FRESH, metric="probabilities", tolerance=tolerance, **MODEL)
    assert report.n_trees == fewest(apart > tolerance, model.predict(FRESH)) < 30


# Shrunken models


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize("kind", [kind for kind in LABELS + NUMBERS if "adaboost" not in kind[1]], ids=": ".join)
def test_shrunken_model_keeps_what_is_certified(kind: tuple[str, str]) -> None:
    boosted = trained(*kind)
    rows = FRESH[:400]
    before = boosted.predict(rows)
    small, report = rfsize.shrink(boosted.native, rows, rows=FRESH[400:], n_trees=3)
    np.testing.assert_array_equal(boosted.predict(rows), before)
    assert type(small) is type(boosted.native)
    assert report.n_trees == 3 <= report.estimate.details.n_refitted
    predicted, certifies = Boosted(boosted.framework, small, rows, boosted.params).predict(rows), np.arange(400) % 5 > 0
    of_labels = report.to_dict()["metric"] == "labels"
    apart = label_of(predicted) != label_of(before) if of_labels else np.abs(predicted - before)
    differ = apart > report.to_dict().get("tolerance", 0.0)
    assert np.count_nonzero(differ[certifies]) == report.certificate.disagreements
    np.testing.assert_array_equal(rfsize.compile(small).predict(rows), predicted)


@pytest.mark.parametrize(
    "kind", [("lightgbm", "multiclass"), ("xgboost", "gbtree"), ("sklearn", "binary")], ids=": ".join
)
def test_refitted_leaves_come_nearer_to_all_trees(kind: tuple[str, str]) -> None:
    boosted, rows = trained(*kind), rows_like_those_of_training(1500, 6)
    small, _ = rfsize.shrink(boosted.native, FRESH[:300], rows=rows, n_trees=4)
    whole, first = (
        Boosted(boosted.framework, model, rows, boosted.params).raw(FRESH) for model in (boosted.native, small)
    )
    cut = Boosted(boosted.framework, rfsize.truncate(boosted.native, n_trees=4), rows, boosted.params).raw(FRESH)
    assert np.square(first - whole).sum() < 0.7 * np.square(cut - whole).sum()


@pytest.mark.parametrize("kind", [("lightgbm", "gbdt"), ("xgboost", "gbtree")], ids=": ".join)
def test_leaves_are_refitted_by_weighted_least_squares(kind: tuple[str, str]) -> None:
    """But for the end of the search, which comes early; rows that look as some that certify take no part."""
    shuffled = np.random.default_rng(6).permuted(FRESH, axis=0)
    boosted, rows, size = trained(*kind), np.concatenate([FRESH[350:], shuffled]), 4
    leaf, certify = (boosted.model.apply(of)[:, :, 0] for of in (rows, FRESH[:350]))
    rows = rows[~(leaf[:, None] == certify).all(axis=2).any(axis=1)]
    models = (boosted.native, rfsize.truncate(boosted.native, n_trees=size))
    whole, first = (Boosted(boosted.framework, model, rows).raw(rows)[:, 0] for model in models)
    slope = 1.0 / np.cosh(whole / 2.0) ** 2
    leaf, fresh_leaf = (boosted.model.apply(of)[:, :size, 0] for of in (rows, FRESH))
    weight = np.sqrt(slope / slope.max())
    change = reference.shrinking.least_squares(leaf, whole - first, weight, fresh_leaf)
    small, _ = rfsize.shrink(boosted.native, FRESH[:350], rows=rows, n_trees=size)
    refitted, cut = (Boosted(boosted.framework, model, rows).raw(FRESH)[:, 0] for model in (small, models[1]))
    error = refitted - cut - change
    assert np.sqrt(np.mean(error**2)) < 0.15 * np.sqrt(np.mean(change**2))


@pytest.mark.parametrize("kind", [LABELS[0], LABELS[4], ("xgboost", "softprob")], ids=": ".join)
def test_shrunken_models_are_saved_and_explained(kind: tuple[str, str], tmp_path: Path) -> None:
    boosted = trained(*kind)
    small, _ = rfsize.shrink(boosted.native, FRESH, n_trees=3)
    small.save_model(tmp_path / "small.json")
    stored = type(small)(model_file=tmp_path / "small.json")
    loaded = Boosted(boosted.framework, stored, FRESH, boosted.params)
    np.testing.assert_array_equal(loaded.predict(FRESH), Boosted(boosted.framework, small, FRESH).predict(FRESH))
    if boosted.framework == "xgboost":
        explained = stored.predict(xgb.DMatrix(FRESH), pred_contribs=True)
    else:
        explained = stored.predict(FRESH, pred_contrib=True)
    by_score = explained.reshape(len(FRESH), -1, FRESH.shape[1] + 1).sum(axis=2)
    np.testing.assert_allclose(by_score, loaded.raw(FRESH), atol=1e-5)


def test_shrunken_models_are_models_of_their_own() -> None:
    model = lgb.LGBMClassifier(n_estimators=40, verbosity=-1, random_state=0).fit(WHOLE, THREE)
    truth = np.digitize(FRESH[:, 0] + FRESH[:, 1] ** 2, (0.5, 1.5))
    small, report = rfsize.shrink(model, FRESH, truth, n_trees=9)
    with pytest.raises(ValueError, match="shrink"):
        rfsize.truncate(model, n_trees=report)
    assert rfsize.truncate(small, n_trees=4).n_estimators == 4
    assert rfsize.size(small, FRESH, **MODEL).available == 9
    assert report.others.keys() == {"accuracy", "log_loss"}


# What a boosted model still has not


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
def test_report_tells_nothing_of_a_limit() -> None:
    report = rfsize.size(trained("lightgbm", "gbdt").native, FRESH, **MODEL)
    assert report.others == {}
    assert report.to_dict()["target"] == "model"
    with pytest.raises(NotAForestError):
        report.loss_at(3, "probabilities")
    with pytest.raises(ValueError, match=r"\by\b"):
        report.loss_at(3, "log_loss")
    assert pickle.loads(pickle.dumps(report)).to_dict() == report.to_dict()


# What metrics lose


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_metrics_lose_what_the_same_rows_say(n_classes: int) -> None:
    _, rows, y = SKLEARN["binary" if n_classes == 2 else "three, zero"]
    model = lgb.LGBMClassifier(n_estimators=40, verbosity=-1, random_state=0).fit(rows, y)
    truth = model.classes_[(np.digitize(FRESH[:, 0] + FRESH[:, 1] ** 2, (0.5, 1.5) if n_classes == 3 else (1.0,)))]
    report = rfsize.size(model, FRESH, truth, **MODEL)
    small = rfsize.truncate(model, n_trees=report)
    by_few, by_all = small.predict_proba(FRESH), model.predict_proba(FRESH)
    lost = {"accuracy": accuracy_score(truth, model.predict(FRESH)) - accuracy_score(truth, small.predict(FRESH))}
    lost["log_loss"] = log_loss(truth, by_few) - log_loss(truth, by_all)
    lost |= {} if n_classes == 3 else {"auc": roc_auc_score(truth, by_all[:, 1]) - roc_auc_score(truth, by_few[:, 1])}
    assert report.others.keys() == lost.keys()
    at_hand = {metric: report.loss_at(int(report.n_trees), metric).value for metric in lost}
    assert at_hand == pytest.approx(lost, abs=1e-3)  # probabilities near 1 tie in single precision, for the AUC
    assert at_hand["log_loss"] == pytest.approx(lost["log_loss"], abs=1e-9)
    first = model.predict_proba(FRESH, num_iteration=3)
    assert report.loss_at(3, "log_loss").value == pytest.approx(log_loss(truth, first) - log_loss(truth, by_all))
    assert report.loss_at(40, "log_loss").value == 0.0
    stored = pickle.loads(pickle.dumps(report))
    assert {metric: stored.loss_at(int(report.n_trees), metric).value for metric in lost} == at_hand
    with pytest.raises(ValueError, match="trees"):
        stored.loss_at(int(report.n_trees) + 1, "log_loss")


def test_scores_of_a_scorer() -> None:
    model = xgb.XGBClassifier(n_estimators=30, max_depth=3, random_state=0).fit(WHOLE, THREE)
    truth = np.digitize(FRESH[:, 0] + FRESH[:, 1] ** 2, (0.5, 1.5))
    lost = rfsize.size(model, FRESH, truth, **MODEL).loss_at(5, "roc_auc_ovr")
    first, whole = model.predict_proba(FRESH, iteration_range=(0, 5)), model.predict_proba(FRESH)
    scores = [roc_auc_score(truth, predicted, multi_class="ovr") for predicted in (first, whole)]
    assert lost.value == pytest.approx(scores[1] - scores[0])
    assert 0.0 < np.ptp(lost.interval) < 0.1


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize("kind", NUMBERS, ids=": ".join)
@pytest.mark.parametrize("has_truth", [False, True])
def test_default_tolerance_of_numbers(kind: tuple[str, str], has_truth: bool) -> None:
    boosted, truth = trained(*kind), FRESH[:, 0] if has_truth else None
    by_all, report = boosted.predict(FRESH), rfsize.size(boosted.native, FRESH, truth, **MODEL)
    tolerance = report.to_dict()["tolerance"]
    assert tolerance == pytest.approx(0.05 * np.std(FRESH[:, 0] if has_truth else by_all), rel=0.05)
    small = Boosted(boosted.framework, rfsize.truncate(boosted.native, n_trees=report), FRESH, boosted.params)
    apart = np.abs(small.predict(FRESH) - by_all)
    assert np.count_nonzero(apart > tolerance) == report.certificate.disagreements


def test_a_regressor_loses_root_mean_squared_error() -> None:
    model = lgb.LGBMRegressor(n_estimators=60, verbosity=-1, random_state=0).fit(WHOLE, WHOLE[:, 0] + WHOLE[:, 1])
    report = rfsize.size(model, FRESH, FRESH[:, 0], metric="scores", tolerance=0.3, **MODEL)
    errors = [
        np.sqrt(np.mean((model.predict(FRESH, num_iteration=n) - FRESH[:, 0]) ** 2)) for n in (report.n_trees, 60)
    ]
    assert report.n_trees < 60
    assert report.others.keys() == {"rmse"}
    assert report.loss_at(report.n_trees, "rmse").value == pytest.approx(errors[0] - errors[1])


def test_default_tolerance_of_probabilities() -> None:
    model = GradientBoostingClassifier(n_estimators=40, random_state=0).fit(*SKLEARN["binary"][1:])
    report = rfsize.size(model, FRESH, metric="probabilities", **MODEL)
    assert report.to_dict()["tolerance"] == pytest.approx(0.05 * model.predict_proba(FRESH)[:, 1].std(), rel=0.05)


def test_what_a_warning_advises_keeps_the_ranking() -> None:
    _, rows, y = SKLEARN["binary"]
    model = AdaBoostClassifier(n_estimators=60, random_state=0).fit(rows, y == "yes")
    report = rfsize.size(model, FRESH, FRESH[:, 0] + FRESH[:, 1] ** 2 > 1, alpha=0.8)
    with pytest.warns(LabelsOnlyWarning):
        rfsize.truncate(model, n_trees=report)
    offers = [dict(caution.options) for caution in report.warnings if caution.options.get("metric")]
    assert [offer["target"] for offer in offers] == ["model"]
    assert rfsize.size(model, FRESH, **offers[0], alpha=0.5).n_trees > report.n_trees
