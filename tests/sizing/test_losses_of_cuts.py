"""A cut that is certified for its labels warns of what it loses beside them, measured on the same rows."""

from __future__ import annotations

import ast
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from xgboost import XGBRFClassifier

import rfsize
from rfsize.exceptions import LabelsOnlyWarning

ALPHA: dict[str, Any] = {"alpha": 0.97}
BAGS: dict[str, Any] = {"subsample": 0.6, "subsample_freq": 1, "verbose": -1}
RARE: dict[str, Any] = {
    "LightGBM": lambda: LGBMClassifier(boosting_type="rf", n_estimators=120, min_child_samples=60, n_jobs=1, **BAGS),
    "XGBoost": lambda: XGBRFClassifier(n_estimators=120, max_depth=5, min_child_weight=2, n_jobs=1),
    "scikit-learn": lambda: RandomForestClassifier(120, min_samples_leaf=4, random_state=0),
}


def rows(n: int, seed: int, rate: float = -4.2) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which few are of class 1, and none surely."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    chance = 1.0 / (1.0 + np.exp(-rate - X[:, 0] - 0.7 * X[:, 1] * X[:, 2] - 0.5 * X[:, 3]))
    return X, (rng.random(n) < chance).astype(int)


NEW, TRUTH = rows(4000, 1)


@pytest.fixture(scope="module", params=RARE)
def rare(request: pytest.FixtureRequest) -> Any:
    return RARE[request.param]().fit(*rows(2500, 0))


def told(call: Any) -> tuple[Any, list[str]]:
    """What a call returns, and its warnings about labels."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [str(one.message) for one in caught if issubclass(one.category, LabelsOnlyWarning)]


CUTS = {
    "truncate": lambda model, y: rfsize.truncate(model, NEW, y, target="forest", **ALPHA),
    "truncate by a report": lambda model, y: rfsize.truncate(
        model, n_trees=rfsize.size(model, NEW, y, target="forest", **ALPHA)
    ),
    "shrink": lambda model, y: rfsize.shrink(model, NEW, y, **ALPHA)[0],
    "shrink to a size": lambda model, y: rfsize.shrink(model, NEW, y, n_trees=2)[0],
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("y", [None, TRUTH], ids=["without labels", "with labels"])
def test_a_cut_for_labels_that_ruins_a_rare_class_warns(rare: Any, cut: str, y: Any) -> None:
    small, warned = told(lambda: CUTS[cut](rare, y))
    lost = roc_auc_score(TRUTH, rare.predict_proba(NEW)[:, 1]) - roc_auc_score(TRUTH, small.predict_proba(NEW)[:, 1])
    assert lost > 0.01
    assert any(("probabilities" if y is None else "AUC") in text for text in warned)


def test_the_loss_is_that_of_the_same_rows(rare: Any) -> None:
    small, _ = told(lambda: rfsize.truncate(rare, NEW, target="forest", **ALPHA))
    report = rfsize.size(rare, NEW, TRUTH, target="forest", **ALPHA)
    by_all, by_few = (roc_auc_score(TRUTH, model.predict_proba(NEW)[:, 1]) for model in (rare, small))
    (ranking,) = (one for one in report.warnings if one.options.get("metric") == "auc")
    assert f"{by_all - by_few:.2g}" in ranking.text
    assert f"! {ranking.text}" in str(report)
    assert pickle.loads(pickle.dumps(report)).warnings == report.warnings


@pytest.mark.filterwarnings("ignore")
def test_the_advice_works_as_written(rare: Any) -> None:
    for y in (None, TRUTH):
        report = rfsize.size(rare, NEW, y, target="forest", **ALPHA)
        _, of_shrunk = rfsize.shrink(rare, NEW, y, **ALPHA)
        for call, advising in ((rfsize.truncate, report), (lambda *a, **k: rfsize.shrink(*a, **k)[0], of_shrunk)):
            advice = [one for one in advising.warnings if "metric" in one.options]
            assert advice
            for one in advice:
                asked = ast.parse(f"f({one.text.rsplit(' by ', 1)[1]})", mode="eval").body.keywords  # type: ignore[attr-defined]
                assert {each.arg: ast.literal_eval(each.value) for each in asked} == dict(one.options)
                kept = call(rare, NEW, y, **one.options)
                lost = roc_auc_score(TRUTH, rare.predict_proba(NEW)[:, 1]) - roc_auc_score(
                    TRUTH, kept.predict_proba(NEW)[:, 1]
                )
                assert lost < 0.015


def test_a_cut_that_loses_little_warns_of_nothing() -> None:
    (X, y), (new, truth) = rows(2500, 0, rate=0.0), rows(3000, 1, rate=0.0)
    model = RandomForestClassifier(120, min_samples_leaf=4, random_state=0).fit(X, y)
    for options in ({}, {"target": "forest"}):
        assert told(lambda options=options: rfsize.truncate(model, new, alpha=0.9, **options))[1] == []
    assert told(lambda: rfsize.truncate(model, new, truth, target="forest", **ALPHA))[1] == []
    assert told(lambda: rfsize.truncate(model, new, metric="probabilities", tolerance=0.1, target="forest"))[1] == []
