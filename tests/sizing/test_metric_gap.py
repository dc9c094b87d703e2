"""What a metric will still move by, next to plain loops and to larger forests."""

from __future__ import annotations

import json
import pickle
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)
from sklearn.neighbors import KNeighborsClassifier
from tqdm.auto import tqdm

import reference.deviation
import reference.metrics
import rfsize
from helpers.forests import LIGHTGBM, Data, predict, train_lightgbm, train_xgboost
from rfsize.adapters.registry import adapter_for
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.estimation.base import REPLICATES, SEED
from rfsize.sizing import ranking
from rfsize.sizing.words import decimals


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    """Labels of the fresh rows; any will do."""
    return np.random.default_rng(5).integers(2, size=400)


def tree_scores(model: Any, X: np.ndarray) -> np.ndarray:
    adapter = adapter_for(model, casts_votes=False)
    return np.asarray(adapter.leaves.raw_scores(adapter.leaf_index(adapter.check(X)) + adapter.leaves.offset), float)


def weights_of(n_trees: int) -> np.ndarray:
    return np.random.default_rng(SEED).multinomial(n_trees, np.full(n_trees, 1.0 / n_trees), size=REPLICATES)


def probabilities(link: str, score: np.ndarray) -> np.ndarray:
    found = np.array([reference.deviation.predicted(link, row) for row in score])
    return np.hstack([1.0 - found, found]) if found.shape[1] == 1 else found


METRICS = {
    "logloss": reference.metrics.logloss,
    "brier": lambda y, p: np.mean(np.sum((p - np.eye(p.shape[1])[y]) ** 2, axis=1)) / (2 if p.shape[1] == 2 else 1),
    "average_precision": lambda y, p: reference.metrics.average_precision(y, p[:, 1].astype(np.float32)),
    "auc": lambda y, p: reference.metrics.auc(y, p[:, 1].astype(np.float32)),
    "accuracy": lambda y, p: reference.metrics.accuracy(y, p.argmax(axis=1)),
}


def test_metrics_told_once_more_are_scikit_learn_s() -> None:
    rng = np.random.default_rng(0)
    y, p, number = rng.integers(2, size=300), np.round(rng.uniform(0.01, 0.99, 300), 2), rng.normal(size=300)
    of_three, probability = rng.integers(3, size=300), rng.dirichlet(np.ones(3), 300)
    for ours, theirs, given in (
        (reference.metrics.auc, roc_auc_score, (y, p)),
        (reference.metrics.average_precision, average_precision_score, (y, p)),
        (reference.metrics.logloss, log_loss, (y, p)),
        (reference.metrics.logloss, log_loss, (of_three, probability)),
        (reference.metrics.accuracy, accuracy_score, (y, p > 0.5)),
        (reference.metrics.rmse, root_mean_squared_error, (p, number)),
        (reference.metrics.mae, mean_absolute_error, (p, number)),
        (reference.metrics.r2, r2_score, (p, number)),
    ):
        assert ours(*given) == pytest.approx(theirs(*given), rel=1e-12)


@pytest.mark.parametrize("oob", [False, True])
@pytest.mark.parametrize("metric", list(METRICS))
def test_two_classes(metric: str, oob: bool, data: Data) -> None:
    """The naive bootstrap walks through rows × replicates, so a few rows have to do."""
    X, y = data.X[:120], data.y[:120]
    model = train_lightgbm(X, y, 30, min_data_in_leaf=3)
    inbag = rfsize.inbag(model, X).T if oob else np.zeros((120, 30), dtype=bool)
    known = np.logical_not(inbag).sum(axis=1) > 1
    scores, may_vote, y = tree_scores(model, X)[known], np.logical_not(inbag)[known], y[known]
    expected = reference.deviation.metric_gap(
        scores,
        may_vote,
        weights_of(30),
        lambda score: METRICS[metric](y, probabilities("logistic", score)),
        (lambda score: (score[:, 0] > 0.0) == y) if metric == "accuracy" else None,
        most=np.inf if metric == "logloss" else 1.0,
    )
    found = rfsize.size(model, X, oob=oob, alpha=0.9).metric_gap(metric, data.y[:120])
    # A pair of rows that are nearly tied is 3e-4 of the area under the curve. Sums by parts are in single precision.
    off = {"auc": 3e-4, "average_precision": 1e-3}.get(metric, 1e-7)
    assert found.value == pytest.approx(expected[0], rel=1e-6, abs=off)
    assert found.change == pytest.approx(expected[1], rel=1e-6, abs=off)
    assert found.interval == pytest.approx(expected[2], rel=1e-6, abs=off)
    assert (found.source, found.n_rows) == ("oob" if oob else "rows given", known.sum())


@pytest.mark.parametrize("metric", ["logloss", "brier", "accuracy", "callable"])
def test_several_classes(metric: str, lgb_multiclass: Any, xgb_multiclass: Any, data: Data) -> None:
    y = np.random.default_rng(6).integers(3, size=60)
    by_name = METRICS["logloss" if metric == "callable" else metric]
    for model in (lgb_multiclass, xgb_multiclass):
        scores = tree_scores(model, data.fresh[:60])
        expected = reference.deviation.metric_gap(
            scores,
            np.ones(scores.shape[:2], dtype=bool),
            weights_of(21),
            lambda score: by_name(y, probabilities("softmax", score)),
            (lambda score: score.argmax(axis=1) == y) if metric == "accuracy" else None,
        )
        report = rfsize.size(model, data.fresh[:60], criterion="probability", tolerance=0.1)
        found = report.metric_gap(log_loss if metric == "callable" else metric, y)
        assert (found.value, found.change, *found.interval) == pytest.approx(
            (expected[0], expected[1], *expected[2]), abs=1e-5
        )


@pytest.mark.parametrize("metric", ["rmse", "mae", "r2"])
def test_regression(metric: str, data: Data) -> None:
    X, y = data.X[:150], np.exp(data.X[:150, 0])
    few = rfsize.size(train_lightgbm(X, y, 20, objective="poisson"), X, oob=True, criterion="score", tolerance=0.1)
    with pytest.raises(rfsize.FewVotesError, match="votes per row, from 20 trees, are too few to tell how much"):
        few.metric_gap(metric, y)
    model = train_lightgbm(X, y, 40, objective="poisson")
    by_name = getattr(reference.metrics, metric)
    may_vote = np.logical_not(_out_of_bag(model, data.X[:150]).inbag().T)
    known = may_vote.sum(axis=1) > 1
    expected = reference.deviation.metric_gap(
        tree_scores(model, data.X[:150])[known],
        may_vote[known],
        weights_of(40),
        lambda score: by_name(y[known], np.exp(score[:, 0])),
    )
    report = rfsize.size(model, data.X[:150], oob=True, criterion="score", tolerance=0.1)
    found = report.metric_gap(metric, y)
    assert (found.value, found.change, *found.interval) == pytest.approx(
        (expected[0], expected[1], *expected[2]), rel=1e-6, abs=1e-7
    )


def _out_of_bag(model: Any, X: np.ndarray) -> ForestOnRows:
    return ForestOnRows.of(adapter_for(model, casts_votes=False), X, oob=True)


def test_value_is_the_metric_of_what_the_booster_predicts(booster: Any, data: Data, truth: np.ndarray) -> None:
    report, probability = rfsize.size(booster, data.fresh), predict(booster, data.fresh)
    assert report.metric_gap("logloss", truth).value == pytest.approx(log_loss(truth, probability), abs=1e-6)
    assert report.metric_gap("auc", truth).value == pytest.approx(roc_auc_score(truth, probability), abs=1e-6)
    assert report.metric_gap("accuracy", truth).value == np.mean((probability > 0.5) == truth)
    at_02 = rfsize.size(booster, data.fresh, threshold=0.2).metric_gap("accuracy", truth)
    assert at_02.value == np.mean((probability > 0.2) == truth)


def test_weights_are_repeated_rows(lgb_booster: Any, data: Data, truth: np.ndarray) -> None:
    weight = np.random.default_rng(1).integers(3, size=400)
    again = np.repeat(np.arange(400), weight)
    report, of_repeated = rfsize.size(lgb_booster, data.fresh), rfsize.size(lgb_booster, data.fresh[again])
    for metric in ("logloss", "auc"):
        found, expected = (
            report.metric_gap(metric, truth, sample_weight=weight),
            of_repeated.metric_gap(metric, truth[again]),
        )
        assert (found.value, found.change, *found.interval) == pytest.approx(
            (expected.value, expected.change, *expected.interval), abs=1e-4 if metric == "auc" else 1e-9
        )
    assert report.metric_gap("accuracy", truth, sample_weight=weight).value == pytest.approx(
        of_repeated.metric_gap("accuracy", truth[again]).value
    )


def test_bins_of_scores_cost_nothing(lgb_booster: Any, data: Data, truth: np.ndarray) -> None:
    """The area under the curve by bins, which rows that are nearly tied share, and by sorting each replicate."""
    report = rfsize.size(lgb_booster, data.fresh)
    for metric, by_sorting in (("auc", roc_auc_score), ("average_precision", average_precision_score)):
        binned, sorted_ = report.metric_gap(metric, truth), report.metric_gap(by_sorting, truth)
        assert binned.value == pytest.approx(sorted_.value, abs=1e-5)
        assert (binned.change, *binned.interval) == pytest.approx((sorted_.change, *sorted_.interval), abs=1e-4)


def test_bins_are_off_by_the_pairs_that_share_one_at_most() -> None:
    rng = np.random.default_rng(0)
    for score in (rng.normal(size=2000), rng.exponential(size=2000) ** 3, rng.integers(3, size=2000) / 7.0, np.ones(9)):
        y, weight = rng.integers(2, size=len(score)) == 1, rng.random(len(score))
        replicates = np.stack([score, score + 0.3 * rng.normal(size=len(score)), 5.0 * score])
        bins = ranking.Bins(3, score)
        bins.add(replicates[:, ::2], y[::2], weight[::2])
        bins.add(replicates[:, 1::2], y[1::2], weight[1::2])
        assert bins.low.sum(axis=1) == pytest.approx(np.full(3, weight[~y].sum()))
        shared = np.sum(bins.low * bins.high, axis=1) / (2.0 * weight[y].sum() * weight[~y].sum())
        exact = [roc_auc_score(y, one, sample_weight=weight) for one in replicates]
        assert (np.abs(ranking.auc(bins.low, bins.high) - exact) <= shared + 1e-12).all()


def test_callables_are_tried_on_as_many_rows_as_fit(
    lgb_booster: Any, data: Data, truth: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, sizes = rfsize.size(lgb_booster, data.fresh), []

    def brier(y: np.ndarray, predicted: np.ndarray) -> float:
        sizes.append(len(y))
        return float(np.mean((y - predicted) ** 2))

    whole = report.metric_gap(brier, truth)
    monkeypatch.setattr("rfsize.sizing.metrics.GivenMetric._CELLS_HELD", 201 * 2 * 100)
    some = report.metric_gap(brier, truth)
    assert sorted(set(sizes)) == [100, 400]
    assert (some.value, some.n_rows) == (pytest.approx(whole.value), 400)
    assert whole.interval[0] < some.change < whole.interval[1]


def test_trees_and_draws_show_their_progress(
    lgb_booster: Any, data: Data, truth: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    class Recorded(tqdm):  # type: ignore[type-arg]
        def __init__(self, **options: Any) -> None:
            shown.append(options["desc"])
            super().__init__(**options)

    report = rfsize.size(lgb_booster, data.fresh)
    of_counted = rfsize.size(rfsize.count(lgb_booster, data.fresh, truth))
    monkeypatch.setattr("rfsize.utils.progress.tqdm", Recorded)
    report.metric_gap("auc", truth)
    assert shown == ["scores", "metric"]
    of_counted.metric_gap("auc")
    assert shown == ["scores", "metric", "metric"]


def test_the_truth_that_was_given_before_is_remembered(lgb_booster: Any, data: Data, truth: np.ndarray) -> None:
    expected = rfsize.size(lgb_booster, data.fresh).metric_gap("auc", truth)
    counted = rfsize.count(lgb_booster, data.fresh)
    for report in (rfsize.size(lgb_booster, data.fresh, truth), rfsize.size(counted, y=truth)):
        assert report.metric_gap("auc") == expected
        assert report.metric_gap("auc", 1 - truth).value == pytest.approx(1.0 - expected.value, abs=0.02)
    some = rfsize.size(lgb_booster, data.fresh, truth, max_rows=200)
    assert some.metric_gap("auc").n_rows == 200


def test_callables(lgb_booster: Any, data: Data, truth: np.ndarray) -> None:
    names = np.array(["no", "yes"])[truth]

    def brier(y: np.ndarray, predicted: np.ndarray) -> float:
        assert predicted.shape == (400,)
        return float(np.mean(((y == "yes") - predicted) ** 2))

    found = rfsize.size(lgb_booster, data.fresh).metric_gap(brier, names)
    assert found.metric == "brier"
    probability = lgb_booster.predict(data.fresh)
    assert found.value == pytest.approx(np.mean((truth - probability) ** 2), abs=1e-6)
    assert found.interval[0] < found.change < found.interval[1]


def test_change_to_a_large_forest(data: Data) -> None:
    """Intervals of forests of 40 trees cover the change to 1500 trees, from the rows themselves and out of bag."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(800, 8))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=800) > 0.3).astype(int)
    limit = log_loss(y, train_lightgbm(data.X, data.y, 1500, seed=99).predict(X))
    covered, changes, predicted = {"rows": 0, "oob": 0}, [], []
    for seed in range(20):
        model = train_lightgbm(data.X, data.y, 40, seed=seed)
        change = limit - log_loss(y, model.predict(X))
        gaps = {
            "rows": rfsize.size(model, X).metric_gap("logloss", y),
            "oob": rfsize.size(model, data.X, oob=True).metric_gap("logloss", data.y),
        }
        for source, gap in gaps.items():
            covered[source] += gap.interval[0] <= change <= gap.interval[1]
        changes.append(change)
        predicted.append([gap.change for gap in gaps.values()])
    assert min(covered.values()) >= 16
    assert np.mean(predicted, axis=0) == pytest.approx(np.full(2, np.mean(changes)), abs=np.std(changes))
    assert np.mean(changes) < 0.0


def test_scikit_learn_and_labels_of_any_kind(data: Data, truth: np.ndarray) -> None:
    names = np.array(["no", "yes"])
    forest = RandomForestClassifier(40, random_state=0).fit(data.X, names[data.y])
    found = rfsize.size(forest, data.fresh).metric_gap("auc", names[truth])
    assert found.value == pytest.approx(roc_auc_score(truth, forest.predict_proba(data.fresh)[:, 1]), abs=1e-6)
    numbers = RandomForestRegressor(40, random_state=0).fit(data.X, data.X[:, 0])
    report = rfsize.size(numbers, data.X, oob=True, criterion="score", tolerance=0.1)
    assert report.metric_gap("rmse", data.X[:, 0]).change < 0.0


def test_result(lgb_booster: Any, data: Data, truth: np.ndarray) -> None:
    found = rfsize.size(lgb_booster, data.fresh).metric_gap("logloss", truth)
    assert isinstance(found, rfsize.MetricGap)
    values = json.loads(json.dumps(found.to_dict()))
    assert values["limit"] == found.limit == found.value + found.change
    assert values["interval"] == list(found.interval)
    assert "61 trees" in str(found) == repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


def test_reports_without_a_model(lgb_booster: Any, data: Data, truth: np.ndarray) -> None:
    callback = rfsize.SizeCallback(alpha=0.8)
    lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 200, callbacks=[callback])
    report = rfsize.size(lgb_booster, data.fresh)
    stored = pickle.dumps(report)
    assert b"lightgbm" not in stored
    reports = [rfsize.size(rfsize.votes(lgb_booster, data.fresh)), pickle.loads(stored), callback.report_]
    for without in reports:
        with pytest.raises(ValueError, match=r"take rfsize.size\(model"):
            without.metric_gap("logloss", truth)


@pytest.mark.parametrize(
    ("metric", "change", "message"),
    [
        ("rmse", {}, "metric must be one of 'logloss'"),
        (3, {}, "metric must be one of"),
        ("logloss", {"y": np.zeros(3)}, "one label per row"),
        ("logloss", {"y": np.full(400, 7)}, "labels that the model does not know"),
        ("auc", {"y": np.zeros(400)}, "one only"),
        ("logloss", {"sample_weight": np.full(400, -1.0)}, "non-negative"),
        ("logloss", {"sample_weight": np.zeros(400)}, "0 on all rows"),
        (log_loss, {"sample_weight": np.ones(400)}, "metrics that rfsize knows by name"),
        (log_loss, {"y": np.zeros(3)}, "one value per row"),
        (lambda y, p: p, {}, "one finite number"),
        (lambda y, p: np.nan, {}, "one finite number"),
        (lambda y, p: 1j, {}, "one finite number"),
        (lambda y, p: {}, {}, "one finite number"),
        (lambda y, p: "x", {}, "one finite number"),
        (lambda y, p: "0.5", {}, "one finite number"),
        (lambda y, p: 10**400, {}, "one finite number"),
        (lambda y, p: 1e308 * p.mean(), {}, "one finite number"),
        ("auc", {"sample_weight": np.zeros(400)}, "0 on all rows"),
    ],
)
def test_what_does_not_fit(
    metric: Any, change: dict[str, Any], message: str, lgb_booster: Any, data: Data, truth: np.ndarray
) -> None:
    with pytest.raises(ValueError, match=message):
        rfsize.size(lgb_booster, data.fresh).metric_gap(metric, **{"y": truth, **change})


def test_what_the_forest_cannot_have(xgb_multiclass: Any, data: Data) -> None:
    with pytest.raises(ValueError, match="'auc' is for two classes"):
        rfsize.size(xgb_multiclass, data.X).metric_gap("auc", data.three)
    numbers = train_xgboost(data.X, data.X[:, 0], 12, objective="reg:squarederror")
    report = rfsize.size(numbers, data.fresh, criterion="score", tolerance=0.1)
    with pytest.raises(ValueError, match="'rmse', 'mae', 'r2'"):
        report.metric_gap("logloss", np.zeros(400))
    with pytest.raises(ValueError, match="one finite number per row"):
        report.metric_gap("rmse", np.full(400, np.nan))
    neighbours = BaggingClassifier(KNeighborsClassifier(), 12).fit(data.X, data.y)
    with pytest.raises(ValueError, match="only their votes are read"):
        rfsize.size(neighbours, data.fresh).metric_gap("accuracy", np.zeros(400))


def test_auc_of_classes_that_weigh_nothing(lgb_booster: Any, data: Data, truth: np.ndarray) -> None:
    report = rfsize.size(lgb_booster, data.fresh)
    for weight in (truth, 1 - truth):
        with pytest.raises(ValueError, match="hold one only"):
            report.metric_gap("auc", truth, sample_weight=weight)


def test_callables_may_alter_what_they_are_given(lgb_booster: Any, data: Data, truth: np.ndarray) -> None:
    def brier(y: np.ndarray, predicted: np.ndarray) -> float:
        return float(np.mean((y - predicted) ** 2))

    def careless(y: np.ndarray, predicted: np.ndarray) -> float:
        found = brier(y, predicted)
        y.sort()
        predicted.sort()
        return found

    report, before = rfsize.size(lgb_booster, data.fresh), truth.copy()
    plain, altering = (report.metric_gap(metric, truth).to_dict() for metric in (brier, careless))
    assert {**altering, "metric": "brier"} == plain
    assert np.array_equal(truth, before)


@pytest.fixture(scope="module")
def pure(data: Data) -> RandomForestClassifier:
    """A forest whose leaves are pure, so that draws of its trees predict exactly 0 and 1."""
    return RandomForestClassifier(60, random_state=0, max_features=None).fit(data.X, data.y)


@pytest.mark.parametrize("several", [False, True])
def test_callables_are_given_probabilities(several: bool, pure: Any, data: Data) -> None:
    model = RandomForestClassifier(40, random_state=0).fit(data.X, data.three) if several else pure

    def checked(y: np.ndarray, predicted: np.ndarray) -> float:
        assert predicted.min() >= 0.0
        assert predicted.max() <= 1.0
        if several:
            assert np.allclose(predicted.sum(axis=1), 1.0)
        return float(predicted.mean())

    rfsize.size(model, data.X, oob=True).metric_gap(checked, data.y)


def of_class(probability: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y == 1, probability, 1.0 - probability)


@pytest.mark.parametrize("oob", [False, True])
def test_logloss_of_averages_is_taken_to_second_order(oob: bool, pure: Any, data: Data) -> None:
    """The mean change is that of -log p by the variance of p, and no constant has a part in it."""
    X, y = (data.X, data.y) if oob else (data.fresh, pure.predict(data.fresh))
    scores = np.stack([of_class(tree.predict_proba(X)[:, 1], y) for tree in pure.estimators_])
    asked = np.logical_not(rfsize.inbag(pure, X)) if oob else np.ones(scores.shape, dtype=bool)
    n = asked.sum(axis=0)
    p = (scores * asked).sum(axis=0) / n
    known = np.count_nonzero(scores * asked, axis=0) > 2  # of others the loss may be infinite on the next row
    variance = ((scores - p) ** 2 * asked).sum(axis=0) / (n - 1) / n
    change = -0.5 * variance[known] / p[known] ** 2
    found = rfsize.size(pure, X, oob=oob).metric_gap("logloss", y, sample_weight=known.astype(float))
    claimed = (found.interval[1] - found.interval[0]) / 3.92
    assert found.change == pytest.approx(np.mean(change * n[known] / 60.0), abs=0.25 * claimed)
    now = -np.log(p[known]) + change * (1.0 - n[known] / 60.0)
    assert found.value == pytest.approx(np.mean(now), abs=0.25 * claimed)
    assert 0.0 < found.limit < found.value + found.interval[1]


def test_logloss_where_no_tree_gives_the_class_any_probability(pure: Any, data: Data) -> None:
    certain = np.ptp([tree.predict(data.fresh) for tree in pure.estimators_], axis=0) == 0.0
    wrong = certain & (np.cumsum(certain) <= 3)
    y = np.where(wrong, 1 - pure.predict(data.fresh), pure.predict(data.fresh))
    report = rfsize.size(pure, data.fresh)
    with pytest.raises(ValueError, match="infinite: no tree asked about 3 of the rows"):
        report.metric_gap("logloss", y)
    assert report.metric_gap("logloss", y, sample_weight=1.0 - wrong).value > 0.0
    assert report.metric_gap("auc", y).limit <= 1.0


@pytest.mark.parametrize("metric", ["accuracy", "auc", "logloss", "rmse"])
def test_nothing_leaves_the_range_of_the_metric(metric: str, pure: Any, data: Data) -> None:
    """Rows that the forest at hand has all right say that other forests of as many trees have not."""
    model: Any = pure
    options: dict[str, Any] = {}
    if metric == "rmse":
        model = RandomForestRegressor(30, random_state=0).fit(data.X, data.X[:, 0])
        options = {"criterion": "score", "tolerance": 0.1}
    found = rfsize.size(model, data.fresh, **options).metric_gap(metric, model.predict(data.fresh))
    for value in (found.value, found.limit, *(found.value + end for end in found.interval)):
        assert value >= 0.0
        assert value <= (1.0 if metric in ("accuracy", "auc") else np.inf)
    if metric != "accuracy":
        return
    large = clone(pure).set_params(n_estimators=150, random_state=1).fit(data.X, data.y)
    real = accuracy_score(model.predict(data.fresh), large.predict(data.fresh))
    assert found.change == 0.0
    assert real < found.value
    assert found.interval[0] <= real - found.value <= found.interval[1]


def test_rows_that_no_draw_changes_leave_some_that_may_be(data: Data) -> None:
    """Labels far from any tie: the change is 0, and the interval says how little so many rows can tell."""
    far = data.X[np.abs(data.X[:, 0]) > 1.5]
    y = (far[:, 0] > 0).astype(int)
    found = rfsize.size(RandomForestClassifier(30, random_state=0, max_features=None).fit(far, y), far).metric_gap(
        "accuracy", y
    )
    assert (found.value, found.change) == (1.0, 0.0)
    assert found.interval == pytest.approx((-(1.0 - 0.05 ** (1.0 / len(far))), 0.0))
    wrong = np.where(np.arange(len(y)) < 5, 1 - y, y)
    found = rfsize.size(RandomForestClassifier(30, random_state=0, max_features=None).fit(far, y), far).metric_gap(
        "accuracy", wrong
    )
    low, high = found.interval
    assert low < found.change == 0.0 < high


@pytest.mark.parametrize(
    ("interval", "worth"), [((0.9, 0.95), 4), ((50.0, 70.0), 1), ((0.0, 4000.0), 0), ((1.0, 1.0), 8), ((0.5, 0.7), 3)]
)
def test_numbers_have_the_decimals_that_they_are_worth(interval: tuple[float, float], worth: int) -> None:
    assert decimals(interval) == worth
