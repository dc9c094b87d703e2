"""Boosted models cut to the fewest first iterations that rows certify, against the frameworks' own predictions."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import dask.array as da
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from contract.test_boosted import SKLEARN, Boosted, trained
from distributed import Client
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.model_selection import FixedThresholdClassifier

import reference.certified
import rfsize
from rfsize.exceptions import LabelsOnlyWarning, NotAForestError

RNG = np.random.default_rng(5)
FRESH = RNG.normal(size=(700, 6)).astype(np.float32).astype(float)
FRESH[:, 2] = RNG.choice([0.0, 3.0, 7.0, 11.0, 40.0], 700)
ALPHA, SURE = 0.9, 0.9
MODEL: dict[str, Any] = {"target": "model", "alpha": ALPHA, "confidence": SURE}

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


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (
            lgb.LGBMClassifier(n_estimators=30, verbosity=-1, subsample=0.8, subsample_freq=1, random_state=0),
            "num_iteration",
        ),
        (xgb.XGBClassifier(n_estimators=30, max_depth=3, random_state=0), "iteration_range"),
        (GradientBoostingClassifier(n_estimators=30, random_state=0), "staged_predict_proba"),
        (HistGradientBoostingClassifier(max_iter=30, random_state=0), "staged_predict_proba"),
        (AdaBoostClassifier(n_estimators=30, random_state=0), "staged_predict_proba"),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
def test_probabilities(model: Any, name: str, n_classes: int) -> None:
    _, rows, y = SKLEARN["binary" if n_classes == 2 else "three, zero"]
    model.fit(rows, np.unique(y, return_inverse=True)[1])
    if name.startswith("staged"):
        probability = np.stack(list(getattr(model, name)(FRESH)), axis=1)
    else:
        range_of = {"num_iteration": lambda n: n, "iteration_range": lambda n: (0, n)}[name]
        probability = np.stack([model.predict_proba(FRESH, **{name: range_of(n)}) for n in range(1, 31)], axis=1)
    apart = np.abs(probability - probability[:, -1:]).max(axis=2)
    tolerance = float(np.quantile(apart[:, 20], 0.95))
    report = rfsize.size(model, FRESH, metric="probabilities", tolerance=tolerance, **MODEL)
    assert report.n_trees == fewest(apart > tolerance, model.predict(FRESH)) < 30


def stopped_early(model: Any) -> Any:
    _, rows, y = SKLEARN["three, zero"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # newer versions of LightGBM have another name for eval_set
        return model.fit(rows[:300], y[:300], eval_set=[(rows[300:], y[300:])])


@pytest.mark.parametrize(
    "model",
    [
        lgb.LGBMClassifier(n_estimators=200, verbosity=-1, early_stopping_round=3, learning_rate=0.3, random_state=0),
        xgb.XGBClassifier(n_estimators=200, early_stopping_rounds=3, random_state=0),
    ],
)
@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
def test_only_iterations_up_to_the_best_count(model: Any) -> None:
    stopped_early(model)
    report = rfsize.size(model, FRESH, **MODEL)
    best = model.best_iteration_ if isinstance(model, lgb.LGBMClassifier) else model.best_iteration + 1
    assert report.available == best < 200
    small = rfsize.truncate(model, n_trees=report)
    assert (small.predict(FRESH) != model.predict(FRESH)).sum() == report.certificate.disagreements


def test_threshold_of_a_wrapped_model() -> None:
    inside = GradientBoostingClassifier(n_estimators=40, random_state=0)
    model = FixedThresholdClassifier(inside, threshold=0.3, pos_label="yes").fit(*SKLEARN["binary"][1:])
    report = rfsize.size(model, FRESH, **MODEL)
    small = rfsize.truncate(model, n_trees=report)
    assert report.n_trees < 40
    assert (small.predict(FRESH) != model.predict(FRESH)).sum() == report.certificate.disagreements


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
def test_rows_on_workers() -> None:
    model = trained("lightgbm", "multiclass").native
    with Client(processes=False, dashboard_address=None):
        report = rfsize.size(model, da.from_array(FRESH, chunks=(200, -1)), **MODEL)
    assert report.to_dict() == rfsize.size(model, FRESH, **MODEL).to_dict()


@pytest.mark.parametrize("kind", [("lightgbm", "gbdt"), ("sklearn", "binary"), ("sklearn", "three by histogram")])
def test_training_rows_certify_nothing(kind: tuple[str, str]) -> None:
    boosted = trained(*kind)
    with pytest.raises(ValueError, match="trained on"):
        rfsize.truncate(boosted.native, boosted.rows, **MODEL)


# What a boosted model still has not


@pytest.mark.parametrize("kind", [("lightgbm", "gbdt"), ("xgboost", "softprob"), ("sklearn", "binary")], ids=": ".join)
def test_what_takes_a_forest_names_the_cut(kind: tuple[str, str]) -> None:
    model = trained(*kind).native
    calls = (
        lambda: rfsize.size(model, FRESH, alpha=ALPHA),
        lambda: rfsize.truncate(model, FRESH, oob=True, alpha=ALPHA),
        lambda: rfsize.tree_outputs(model, FRESH),
        lambda: rfsize.StopTable.calibrate(model, FRESH, alpha=ALPHA),
    )
    for call in calls:
        with pytest.raises(NotAForestError, match="target="):
            call()


def test_options_of_forests_are_refused() -> None:
    model = trained("lightgbm", "gbdt").native
    with pytest.raises(ValueError, match="out of bag"):
        rfsize.size(model, FRESH, oob=True, **MODEL)
    with pytest.raises(ValueError, match="voting"):
        rfsize.size(model, FRESH, voting="hard", **MODEL)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
def test_report_tells_nothing_of_a_limit() -> None:
    report = rfsize.size(trained("lightgbm", "gbdt").native, FRESH, **MODEL)
    assert (report.others, report.to_dict()["limit_n_trees"]) == ({}, None)
    with pytest.raises(NotAForestError):
        report.loss_at(3, "log_loss")
    assert pickle.loads(pickle.dumps(report)).to_dict() == report.to_dict()


def test_what_a_warning_advises_keeps_the_ranking() -> None:
    _, rows, y = SKLEARN["binary"]
    model = AdaBoostClassifier(n_estimators=60).fit(rows, y == "yes")
    report = rfsize.size(model, FRESH, FRESH[:, 0] + FRESH[:, 1] ** 2 > 1, target="model", alpha=0.8)
    with pytest.warns(LabelsOnlyWarning):
        rfsize.truncate(model, n_trees=report)
    offers = [dict(caution.options) for caution in report.warnings if caution.options.get("metric")]
    assert [offer["target"] for offer in offers] == ["model"]
    assert rfsize.size(model, FRESH, **offers[0], alpha=0.5).n_trees > report.n_trees
