"""One definition of log loss: scikit-learn's, clipped, for every question."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import log_loss

import rfsize
from rfsize.exceptions import ClippedLossWarning

N_ROWS, N_TREES = 400, 80
PURE = {
    "random forest": RandomForestClassifier(N_TREES, random_state=0),
    "extra-trees": ExtraTreesClassifier(N_TREES, bootstrap=True, random_state=0),
}


def rows(seed: int, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 5))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=N_ROWS), np.linspace(-0.7, 0.7, n_classes - 1))
    # Where nearly all rows are of the last class, three are of the first.
    X[:60, 0], y[:60], y[:3] = 3.0, n_classes - 1, 0
    return X, y


@pytest.fixture(scope="module", params=[(kind, n_classes) for kind in PURE for n_classes in (2, 3)], ids=str)
def pure(request: pytest.FixtureRequest) -> tuple[Any, np.ndarray, np.ndarray]:
    """A forest of pure leaves that gives some out-of-bag rows no probability of their class, and its rows."""
    kind, n_classes = request.param
    X, y = rows(n_classes, n_classes)
    return PURE[kind].fit(X, y), X, y


def test_it_is_scikit_learns_for_every_question(pure: tuple[Any, np.ndarray, np.ndarray]) -> None:
    model, X, y = pure
    outputs = rfsize.tree_outputs(model, X, y, oob=True)
    probability = outputs.predict_proba()
    expected = log_loss(y, probability)
    assert probability[np.arange(N_ROWS), y].min() == 0.0
    with pytest.warns(ClippedLossWarning):
        score = rfsize.oob_score(outputs, metric="log_loss")
    assert score.value == pytest.approx(expected, rel=1e-12)
    assert score.interval[0] < score.at_all_trees < score.interval[1] < np.inf
    assert rfsize.oob_score(outputs, metric="neg_log_loss").value == score.value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert rfsize.compare(outputs, outputs, metric="log_loss").values == pytest.approx([expected] * 2, rel=1e-12)
        assert rfsize.oob_importance(outputs, metric="log_loss").score == pytest.approx(expected, rel=1e-6)
    fresh, truth = rows(50 + len(model.classes_), len(model.classes_))
    given = rfsize.tree_outputs(model, fresh, truth)
    report = rfsize.size(given, metric="log_loss", tolerance=0.1)
    assert report.to_dict()["value"] == pytest.approx(log_loss(truth, model.predict_proba(fresh)), rel=1e-9)
    small = rfsize.size(given, metric="log_loss", tolerance=2.0)
    assert small.n_trees < 20
    assert ClippedLossWarning in [one.category for one in small.warnings]
    labels = rfsize.size(given, alpha=0.9)
    assert labels.loss_at(3, "log_loss").value == report.loss_at(3).value


def test_forests_of_a_few_trees_lose_what_scikit_learn_says(pure: tuple[Any, np.ndarray, np.ndarray]) -> None:
    """Forests of three and of all trees, on fresh rows."""
    model, *_ = pure
    fresh, truth = rows(100 + len(model.classes_), len(model.classes_))
    report = rfsize.size(model, fresh, truth, metric="log_loss", tolerance=0.1)
    each = np.array([tree.predict_proba(fresh) for tree in model.estimators_])
    of_three = [log_loss(truth, each[start : start + 3].mean(axis=0)) for start in range(0, N_TREES - 2, 3)]
    lost = np.mean(of_three) - log_loss(truth, each.mean(axis=0))
    low, high = report.loss_at(3).interval
    assert low < lost + report.loss_at(N_TREES).value < high
    few = report._answer.lost.measured[2]
    assert (few.n_trees, few.loss) == (3.0, pytest.approx(lost, rel=0.15))


def test_nothing_is_said_where_no_probability_is_clipped() -> None:
    X, y = rows(0)
    for model in (
        LGBMClassifier(boosting_type="rf", n_estimators=60, subsample=0.6, subsample_freq=1, verbose=-1, n_jobs=1),
        RandomForestClassifier(60, min_samples_leaf=60, random_state=0),
    ):
        outputs = rfsize.tree_outputs(model.fit(X, y), X, y, oob=True)
        report = rfsize.size(outputs, metric="log_loss", tolerance=0.05)
        assert ClippedLossWarning not in [one.category for one in report.warnings]
        with warnings.catch_warnings():
            warnings.simplefilter("error", ClippedLossWarning)
            rfsize.oob_score(outputs, metric="log_loss")


def test_a_small_forest_is_warned_of_where_the_whole_one_clips_nothing() -> None:
    X, y = rows(7)
    model = RandomForestClassifier(200, min_samples_leaf=8, random_state=0).fit(X, y)
    outputs = rfsize.tree_outputs(model, X, y, oob=True)
    assert outputs.predict_proba()[np.arange(N_ROWS), y].min() > 0.0
    few, many = (rfsize.size(outputs, metric="log_loss", tolerance=tolerance) for tolerance in (0.3, 0.003))
    assert few.n_trees < 6
    assert ClippedLossWarning in [one.category for one in few.warnings]
    assert ClippedLossWarning not in [one.category for one in many.warnings]
