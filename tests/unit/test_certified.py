"""Forests cut to the fewest first trees that rows certify to answer as all trees do."""

from __future__ import annotations

import json
import math
import pickle
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

import reference.certified
import rfsize
from helpers.lookup import by_scores, regressor, rows_of
from helpers.trained import FRAMEWORKS, X, Y, model, predicted, problem, train
from rfsize.exceptions import LabelsOnlyWarning, NotConvergedWarning

FRESH, TRUTH = problem(2500, 8)
FOREST: dict[str, Any] = {"target": "model"}


@pytest.fixture(scope="module")
def trees() -> RandomForestClassifier:
    return RandomForestClassifier(100, random_state=0).fit(X, Y["two"])


# As restated, for tables of scores that no framework wrote


def first_differ(score: np.ndarray, metric: str, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Whether the first 1, 2, … trees answer otherwise than all, and the class that all give."""
    mean = np.cumsum(score, axis=1) / np.arange(1, score.shape[1] + 1).reshape(-1, *[1] * (score.ndim - 2))
    if metric == "labels":
        label = mean.argmax(axis=2)
    elif metric == "votes":
        votes = (score.argmax(axis=2)[:, :, None] == np.arange(score.shape[2])).astype(float)
        label = np.cumsum(votes, axis=1).argmax(axis=2)
    else:
        apart = np.abs(mean - mean[:, -1:]).reshape(*score.shape[:2], -1).max(axis=2)
        classes = mean[:, -1].argmax(axis=1) if score.ndim == 3 else np.zeros(len(score), dtype=int)
        return apart > tolerance, classes
    return label != label[:, -1:], label[:, -1]


@settings(max_examples=15)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 30),
    st.integers(2, 4),
    st.sampled_from(["labels", "votes", "probabilities", "scores"]),
    st.sampled_from(["micro", "macro"]),
    st.sampled_from([(0.8, 0.6), (0.7, 0.9)]),
)
@pytest.mark.filterwarnings("ignore")
def test_fewest_trees_are_as_restated(
    seed: int, n_trees: int, n_classes: int, metric: str, average: str, sure: tuple[float, float]
) -> None:
    rng = np.random.default_rng(seed)
    score = 2.0 * rng.normal(size=(200, 1, n_classes)) + rng.normal(size=(200, n_trees, n_classes))
    options: dict[str, Any] = {"alpha": sure[0], "confidence": sure[1], "average": average}
    if metric == "scores":
        score, options["average"] = score[:, :, 0], "micro"
        model = regressor(score)
    else:
        model = by_scores(score)
        score = np.stack([tree.predict_proba(rows_of(score)) for tree in model.estimators_], axis=1)
        options |= {"voting": "hard" if metric == "votes" else "soft"} if metric in ("labels", "votes") else {}
    if metric in ("probabilities", "scores"):
        options |= {"metric": metric, "tolerance": 0.15 if metric == "scores" else 0.02}
    differs, group = first_differ(score, metric, options.get("tolerance", 0.0))
    fewest = reference.certified.fewest(differs, group, *sure, options["average"])
    smallest = math.log(1.0 - sure[1]) / math.log(sure[0])
    assume(options["average"] == "micro" or min(np.bincount(group, minlength=n_classes)) >= smallest)
    report = rfsize.size(model, rows_of(score), **FOREST, **options)
    assert report.n_trees == fewest
    assert report.certificate.disagreements == differs[:, fewest - 1].sum()
    assert report.certificate.counts.rows == tuple(np.bincount(group, minlength=1 if metric == "scores" else n_classes))
    of_rows = report.loss_at(max(1, n_trees // 2)).value
    half = differs[:, max(1, n_trees // 2) - 1]
    by_class = [half[group == of].mean() for of in np.unique(group)]
    assert of_rows == pytest.approx(half.mean() if options["average"] == "micro" else max(by_class))


# Of each framework


@pytest.mark.parametrize(("framework", "task"), [*zip(FRAMEWORKS, ("two", "three", "two"), strict=True)])
def test_labels_are_those_of_the_frameworks(framework: str, task: str) -> None:
    forest = model(framework, task)
    report = rfsize.size(forest, FRESH, **FOREST, alpha=0.9, confidence=0.9)
    small = rfsize.truncate(forest, n_trees=report)
    label = predicted(forest, FRESH).argmax(axis=1)
    differs = predicted(small, FRESH).argmax(axis=1) != label
    assert type(small) is type(forest)
    assert (report.certificate.disagreements, report.certificate.rows) == (differs.sum(), len(FRESH))
    assert report.certificate.bound <= 0.1
    assert report.loss_at(int(report.n_trees)).value == pytest.approx(differs.mean())
    assert report.n_trees < report.available == 60
    direct = rfsize.truncate(forest, FRESH, **FOREST, alpha=0.9, confidence=0.9)
    assert np.array_equal(predicted(direct, FRESH), predicted(small, FRESH))


# What the report knows


def test_surer_takes_more_trees(trees: Any) -> None:
    report = rfsize.size(trees, FRESH, **FOREST, alpha=0.95)
    assert report.interval[0] <= report.upper(0.5) <= report.n_trees <= report.interval[1]
    assert report.upper(0.95) == report.n_trees
    assert report.upper(0.8) == rfsize.size(trees, FRESH, **FOREST, alpha=0.95, confidence=0.8).n_trees
    assert report.size_at(0.9) == rfsize.size(trees, FRESH, **FOREST, alpha=0.9).n_trees < report.n_trees
    assert 1 <= report.upper(1e-6) <= report.upper(0.5)
    assert report.loss_at(100) == report.loss_at(1000)
    assert report.loss_at(100).interval == (0.0, 0.0)
    assert report.loss_at(99).interval[1] > 0.0


def test_report_of_a_certificate_in_plain_values(trees: Any) -> None:
    report = rfsize.size(trees, FRESH, TRUTH["two"], **FOREST, alpha=0.95)
    limit, values = rfsize.size(trees, FRESH, alpha=0.95), json.loads(json.dumps(report.to_dict()))
    assert values["certificate"]["bound"] == report.certificate.bound
    assert (values["target"], values["confidence"]) == ("model", 0.95)
    assert report.loss_at(50, "labels") == limit.loss_at(50)
    again = pickle.loads(pickle.dumps(report))
    assert (again.to_dict(), again.certificate) == (report.to_dict(), report.certificate)


def test_outputs_are_taken_at_their_threshold(trees: Any) -> None:
    outputs = rfsize.tree_outputs(trees, FRESH, threshold=0.3)
    report = rfsize.size(outputs, **FOREST, alpha=0.95)
    small = rfsize.truncate(outputs, **FOREST, alpha=0.95)
    labels = [forest.predict_proba(FRESH)[:, 1] > 0.3 for forest in (small, trees)]
    assert report.certificate.disagreements == (labels[0] != labels[1]).sum()


def test_rows_that_certify_nothing_keep_all_trees(trees: Any) -> None:
    near_ties = np.argsort(np.abs(trees.predict_proba(FRESH)[:, 1] - 0.5))[:300]
    with pytest.warns(NotConvergedWarning):
        report = rfsize.size(trees, FRESH[near_ties], **FOREST)
    assert report.n_trees == report.n_kept == 100
    with pytest.warns(NotConvergedWarning):
        assert len(rfsize.truncate(trees, FRESH[near_ties], **FOREST).estimators_) == 100
    single = RandomForestClassifier(1, random_state=0).fit(X, Y["two"])
    with pytest.warns(NotConvergedWarning):
        assert rfsize.size(single, FRESH, **FOREST, alpha=0.5).n_trees == 1


def test_report_belongs_to_its_forest(trees: Any, tmp_path: Any) -> None:
    report = rfsize.size(trees, FRESH, **FOREST, alpha=0.9)
    other = RandomForestClassifier(100, random_state=1).fit(X, Y["two"])
    for of in (report, pickle.loads(pickle.dumps(report))):
        with pytest.raises(ValueError, match="report"):
            rfsize.truncate(other, n_trees=of)
        again = rfsize.truncate(pickle.loads(pickle.dumps(trees)), n_trees=of)
        assert len(again.estimators_) == report.n_trees
    for framework, load in (("lightgbm", lgb.Booster), ("xgboost", xgb.Booster)):
        report = rfsize.size(model(framework), FRESH, **FOREST, alpha=0.9)
        model(framework).save_model(tmp_path / "model.json")
        small = rfsize.truncate(load(model_file=tmp_path / "model.json"), n_trees=report)
        expected = rfsize.truncate(model(framework), n_trees=report)
        assert np.array_equal(predicted(small, FRESH), predicted(expected, FRESH))
    table = rfsize.StopTable.calibrate(trees, FRESH, alpha=0.95)
    assert rfsize.size(trees, FRESH, **FOREST, alpha=0.95).certificate.forest == table.certificate.forest


# What labels do not tell


def rare_rows(n_rows: int, seed: int, rate: float = -4.2) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which few are of class 1, and none surely."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, 6))
    odds = rate + rows[:, 0] + 0.7 * rows[:, 1] * rows[:, 2] + 0.5 * rows[:, 3]
    return rows, (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-odds))).astype(int)


NEW, LABEL = rare_rows(2000, 1)


@cache
def of_a_rare_class(framework: str) -> Any:
    few = {"lightgbm": {"min_data_in_leaf": 60}, "xgboost": {"min_child_weight": 2}}.get(framework, {})
    return train(framework, *rare_rows(2000, 0), 80, **few)


def auc(forest: Any) -> float:
    return roc_auc_score(LABEL, predicted(forest, NEW)[:, 1])


@pytest.mark.parametrize(
    ("framework", "cut"), [*((framework, rfsize.truncate) for framework in FRAMEWORKS), ("lightgbm", rfsize.shrink)]
)
@pytest.mark.parametrize("y", [None, LABEL], ids=["without labels", "with labels"])
def test_a_cut_that_ruins_a_rare_class_warns(framework: str, cut: Any, y: Any) -> None:
    forest, options = of_a_rare_class(framework), FOREST if cut is rfsize.truncate else {}
    with pytest.warns(LabelsOnlyWarning):
        small = cut(forest, NEW, y, alpha=0.97, **options)
    small = small[0] if isinstance(small, tuple) else small
    assert auc(forest) - auc(small) > 0.01


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("framework", ["lightgbm", "sklearn"])
def test_what_such_a_warning_offers_keeps_the_ranking(framework: str) -> None:
    forest = of_a_rare_class(framework)
    for y in (None, LABEL):
        report = rfsize.size(forest, NEW, y, **FOREST, alpha=0.97)
        offers = [dict(caution.options) for caution in report.warnings if caution.options.get("metric")]
        kept = [rfsize.truncate(forest, NEW, LABEL, **options) for options in offers]
        assert offers
        assert all(auc(forest) - auc(small) < 0.015 for small in kept)
        assert pickle.loads(pickle.dumps(report)).warnings == report.warnings
