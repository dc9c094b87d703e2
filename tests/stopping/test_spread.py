"""Tables for probabilities and scores: where they stop, what their certificate is of, and what their files may say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMRegressor
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

import rfsize
from helpers.forests import predict, train_lightgbm, train_xgboost
from rfsize.certifying.trees_on_rows import TreesOnRows
from rfsize.exceptions import TableError
from rfsize.models.link import LINKS, Link
from rfsize.stopping.document import checksum
from rfsize.stopping.rules.spread import SpreadStops

X = np.random.default_rng(0).normal(size=(6000, 5))
NUMBER = 3 * X[:, 0] + X[:, 1] * X[:, 2] + np.random.default_rng(1).normal(size=6000)
LABEL = (NUMBER > 1).astype(int)
THREE = np.digitize(NUMBER, [-2, 2])
TRAIN, REST, FRESH = slice(0, 1500), slice(1500, 3500), slice(3500, None)
RF: dict[str, Any] = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "verbose": -1, "n_estimators": 61}


def settled(scores: list[list[float]], stops: SpreadStops) -> tuple[list[float], int]:
    """Mean score and trees asked of one row, by a plain loop."""
    n_trees, n_scores = len(scores), len(scores[0])
    for t in range(1, n_trees):
        mean = [sum(one[k] for one in scores[:t]) / t for k in range(n_scores)]
        steep = stops.link.steepness(np.array(mean))
        worst = 0.0
        for k in range(n_scores):
            squares = sum((one[k] - mean[k]) ** 2 for one in scores[:t])
            variance = (stops.weight * stops.pooled[k] ** 2 + squares) / (stops.weight + t - 1)
            worst = max(worst, np.sqrt(variance) * steep[k] * np.sqrt(1 / t - 1 / n_trees))
        if worst <= stops.limit:
            return mean, t
    return [sum(one[k] for one in scores) / n_trees for k in range(n_scores)], n_trees


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 9), st.sampled_from([1, 3]), st.sampled_from(LINKS))
def test_rows_stop_where_a_plain_loop_stops(seed: int, n_trees: int, n_scores: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(5, n_trees, n_scores))
    pooled = rng.gamma(2.0, 0.5, n_scores)
    stops = SpreadStops(float(rng.gamma(1.0, 0.3)), pooled, 2.0, 1, Link(kind, 1.5), "scores", 0.1)
    predicted, asked = stops.answers_of_block(scores, n_scores)
    for row, one in enumerate(scores.tolist()):
        mean, trees = settled(one, stops)
        assert asked[row] == trees
        assert predicted[row] == pytest.approx(stops.link.predicted(np.array(mean)))


def scores_of(model: Any, some: np.ndarray = X[FRESH]) -> np.ndarray:
    rows = TreesOnRows.of(model, some, casts_votes=False)
    return np.concatenate(rows.added_up("scores", lambda scores, _: [scores], list))


def regressors() -> dict[str, Any]:
    return {
        "lightgbm": LGBMRegressor(**RF).fit(X[TRAIN], NUMBER[TRAIN]),
        "xgboost": train_xgboost(X[TRAIN], NUMBER[TRAIN], objective="reg:squarederror"),
        "extra-trees": ExtraTreesRegressor(61, min_samples_leaf=3, random_state=0).fit(X[TRAIN], NUMBER[TRAIN]),
    }


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "extra-trees"])
def test_regressions(name: str) -> None:
    model = regressors()[name]
    table = rfsize.StopTable.calibrate(model, X[REST], alpha=0.97, metric="scores", tolerance=0.5)
    assert (table.kind, table.metric, table.n_classes, table.promise) == ("spread", "scores", 1, "certified")
    assert table.certificate is not None
    assert table.certificate.rows == 1800
    assert table.certificate.bound <= 0.03
    assert isinstance(table.stops, SpreadStops)
    spread = scores_of(model, X[REST][::10]).var(axis=1, ddof=1, dtype=float)
    assert table.stops.pooled == pytest.approx(np.sqrt(spread.mean(axis=0)))
    assert (table.stops.weight, table.stops.every) == (16.0, 8)
    predicted, asked = table.apply(scores_of(model))
    of_all = predict(model, X[FRESH]) if name == "xgboost" else model.predict(X[FRESH])
    assert 1 < asked.mean() < 50
    assert (np.abs(predicted[:, 0] - of_all) > 0.5).mean() < 0.045
    assert "no classes, spread, alpha=0.97, metric='scores', tolerance=0.5" in repr(table)
    assert rfsize.StopTable.from_dict(json.loads(json.dumps(table.to_dict()))) == table


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities(n_classes: int) -> None:
    y = LABEL if n_classes == 2 else THREE
    forest = RandomForestClassifier(61, min_samples_leaf=3, random_state=0).fit(X[TRAIN], y[TRAIN])
    table = rfsize.StopTable.calibrate(forest, X[REST], alpha=0.97, metric="probabilities", tolerance=0.1)
    predicted, asked = table.apply(scores_of(forest))
    assert predicted.shape == (2500, n_classes)
    assert 1 < asked.mean() < 55
    assert (np.abs(predicted - forest.predict_proba(X[FRESH])).max(axis=1) > 0.1).mean() < 0.045
    assert table.certificate is not None
    shares = np.bincount(forest.predict(X[REST][np.arange(2000) % 10 > 0]), minlength=n_classes)
    assert table.certificate.counts.rows == tuple(shares.tolist())
    macro = rfsize.StopTable.calibrate(
        forest, X[REST], alpha=0.9, metric="probabilities", tolerance=0.1, average="macro"
    )
    assert all(outcome.disagreement < 0.1 for outcome in macro.by_class())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "probabilities"}, "needs a tolerance"),
        ({"metric": "scores", "tolerance": -1.0}, "tolerance must be"),
        ({"metric": "labels", "tolerance": 0.1}, "leave it out"),
        ({"metric": "auc", "tolerance": 0.1}, "metric must be one of"),
        ({"metric": "scores", "tolerance": 0.1, "voting": "hard"}, "not votes"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    forest = train_lightgbm(X[TRAIN], LABEL[TRAIN], trees=5)
    with pytest.raises(ValueError, match=message):
        rfsize.StopTable.calibrate(forest, X[REST], **options)


def test_regressions_have_no_probabilities() -> None:
    model = LGBMRegressor(**RF).fit(X[TRAIN], NUMBER[TRAIN])
    with pytest.raises(ValueError, match="is for classification"):
        rfsize.StopTable.calibrate(model, X[REST], metric="probabilities", tolerance=0.1)


FORGERIES: list[tuple[dict[str, Any], str]] = [
    ({"limit": -1.0}, "limit and pooled"),
    ({"pooled": [-1.0]}, "limit and pooled"),
    ({"pooled": [1.0, 1.0, 1.0]}, "one number for each score"),
    ({"pooled": []}, "one number for each score"),
    ({"weight": 0.5}, "weight"),
    ({"slope": 0.0}, "slope"),
    ({"slope": -1.0}, "slope"),
    ({"slope": "1"}, "type float"),
    ({"tolerance": 0.0}, "tolerance"),
    ({"link": "cube"}, "link"),
    ({"metric": "labels"}, "metric"),
    ({"extra": 1.0}, "keys"),
]


@pytest.mark.parametrize(("changes", "message"), FORGERIES, ids=range(len(FORGERIES)))
def test_forged_tables_are_refused(changes: dict[str, Any], message: str) -> None:
    forest = train_lightgbm(X[TRAIN], LABEL[TRAIN], trees=5)
    table = rfsize.StopTable.calibrate(forest, X[REST], alpha=0.9, metric="probabilities", tolerance=0.1)
    document = table.to_dict()
    document["stops"] = {**document["stops"], **changes}
    rest = {key: value for key, value in document.items() if key != "checksum"}
    with pytest.raises(TableError, match=message):
        rfsize.StopTable.from_dict({**rest, "checksum": checksum(rest)})


def test_labels_need_classes() -> None:
    document = {**rfsize.StopTable.build(5).to_dict(), "n_classes": 1}
    rest = {key: value for key, value in document.items() if key != "checksum"}
    with pytest.raises(TableError, match="kind must be one of spread"):
        rfsize.StopTable.from_dict({**rest, "checksum": checksum(rest)})


def test_plots_show_what_is_certified() -> None:
    forest = train_lightgbm(X[TRAIN], LABEL[TRAIN], trees=41)
    labels = rfsize.StopTable.calibrate(forest, X[REST], alpha=0.95)
    numbers = rfsize.StopTable.calibrate(forest, X[REST], alpha=0.95, metric="probabilities", tolerance=0.1)
    votes = rfsize.StopTable.build(41, alpha=0.95).certified(forest, X[REST])
    expected = rfsize.StopTable.build(41, alpha=0.95)
    for table in (labels, numbers, votes, expected):
        texts = [text.get_text() for text in table.plot().get_legend().get_texts()]
        assert any("certified: at most" in text for text in texts) == (table.promise == "certified")
        assert any("trees per row" in text for text in texts)


def test_where_no_limit_is_certified_rows_stop_only_where_nothing_is_left_to_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rfsize.stopping.rules.spread._LIMITS", (1e6, 1e9))  # which stop every row at once
    forest = RandomForestClassifier(61, min_samples_leaf=3, random_state=0).fit(X[TRAIN], LABEL[TRAIN])
    table = rfsize.StopTable.calibrate(forest, X[REST], alpha=0.99, metric="probabilities", tolerance=1e-3)
    assert isinstance(table.stops, SpreadStops)
    assert table.stops.limit == 0.0
    assert table.certificate is not None
    assert sum(table.certificate.counts.disagreements) == 0
    assert sum(table.certificate.counts.trees) == 61 * 1800


def test_large_numbers_stop_where_small_ones_do() -> None:
    """The spread of the trees does not depend on where zero lies: time stamps stop like hours."""
    far = 2.0**31
    forest = RandomForestRegressor(61, min_samples_leaf=3, random_state=0).fit(X[TRAIN], NUMBER[TRAIN] + far)
    table = rfsize.StopTable.calibrate(forest, X[REST], alpha=0.95, metric="scores", tolerance=0.2)
    scores = np.stack([tree.predict(X[REST]) for tree in forest.estimators_], axis=1)
    asked = table.apply(scores)[1]
    assert len(np.unique(asked)) > 1
    assert np.mean(table.apply(scores - far)[1] == asked) > 0.999
    assert np.mean(rfsize.compile(forest, table).predict(X[REST], return_trees=True)[1] == asked) > 0.999
