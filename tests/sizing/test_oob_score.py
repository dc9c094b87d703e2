"""Out-of-bag scores, next to scikit-learn's metrics of out-of-bag predictions, plain loops, and fresh rows."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binomtest, norm
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Perceptron
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    log_loss,
    make_scorer,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

import reference.predictions
import rfsize
from helpers.copied import continuous, of_few_values, twice
from helpers.forests import Data, train_lightgbm, train_xgboost
from helpers.lightgbm_forests import each_tree
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.sizing.named_metrics import metric_with_truth
from rfsize.sizing.oob_score import _interval, _wilson

matplotlib.use("agg")

ROWS = 400
OF_CLASSES: dict[str, Callable[..., float]] = {
    "accuracy": lambda y, p, w: accuracy_score(y, p.argmax(axis=1), sample_weight=w),
    "log_loss": lambda y, p, w: log_loss(y, p, sample_weight=w),
    "brier": lambda y, p, w: (
        np.average(np.sum((p - np.eye(p.shape[1])[y]) ** 2, axis=1), weights=w) / (2 if p.shape[1] == 2 else 1)
    ),
    "auc": lambda y, p, w: roc_auc_score(y, p[:, 1].astype(np.float32), sample_weight=w),
    "average_precision": lambda y, p, w: average_precision_score(y, p[:, 1].astype(np.float32), sample_weight=w),
}
OF_NUMBERS: dict[str, Callable[..., float]] = {
    "r2": lambda y, p, w: r2_score(y, p, sample_weight=w),
    "rmse": lambda y, p, w: root_mean_squared_error(y, p, sample_weight=w),
    "mae": lambda y, p, w: mean_absolute_error(y, p, sample_weight=w),
}


@pytest.fixture(scope="module")
def weight() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 4, ROWS).astype(float)


def trained(framework: str, X: np.ndarray, y: np.ndarray, n_classes: int, weight: np.ndarray | None = None) -> Any:
    if framework == "sklearn":
        if n_classes == 0:
            return RandomForestRegressor(60, random_state=0).fit(X, y, sample_weight=weight)
        return RandomForestClassifier(60, max_depth=2, random_state=0).fit(X, y, sample_weight=weight)
    several = {"num_class": n_classes} if n_classes > 2 else {}
    if framework == "lightgbm":
        objective = {0: "regression", 2: "binary"}.get(n_classes, "multiclass")
        return train_lightgbm(X, y, 60, {"weight": weight}, objective=objective, **several)
    import xgboost as xgb

    objective = {0: "reg:squarederror", 2: "binary:logistic"}.get(n_classes, "multi:softprob")
    settings = {"objective": objective, "num_parallel_tree": 60, "subsample": 0.6, "eta": 1, "max_depth": 4, "seed": 3}
    return xgb.train({**settings, **several}, xgb.DMatrix(X, y, weight=weight), 1)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NoVotesWarning")
@pytest.mark.parametrize("framework", ["lightgbm", "xgboost", "sklearn"])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_value_is_the_metric_of_the_predictions(
    framework: str, n_classes: int, weighted: bool, data: Data, weight: np.ndarray
) -> None:
    X = data.X[:ROWS]
    y = {0: data.X[:, 0] ** 2, 2: data.y, 3: data.three}[n_classes][:ROWS]
    sample_weight = weight if weighted else None
    model = trained(framework, X, y, n_classes, sample_weight)
    metrics = OF_CLASSES if n_classes else OF_NUMBERS
    counted = rfsize.tree_outputs(model, X, y, oob=True, sample_weight=sample_weight)
    predicted = counted.predict_proba() if n_classes else counted.predict()
    known = ~np.isnan(predicted.reshape(ROWS, -1)).any(axis=1)
    for metric, by_scikit_learn in metrics.items():
        if n_classes == 3 and metric in ("auc", "average_precision"):
            continue
        found = rfsize.oob_score(counted, metric=metric)
        expected = by_scikit_learn(y[known], predicted[known], None if sample_weight is None else weight[known])
        assert found.value == pytest.approx(expected, rel=1e-6, abs=1e-9), metric
        low, high = found.interval
        assert low < found.at_all_trees < high
        assert (found.n_rows, found.n_dropped) == (known.sum(), ROWS - known.sum())
        assert (found.curve.sizes[-1], found.curve.values[-1]) == (60, found.value)
        if sample_weight is None:
            assert rfsize.oob_score(model, X, y, metric=metric).to_dict() == found.to_dict()


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier])
def test_as_scikit_learn_classifiers(kind: Any, data: Data) -> None:
    model = kind(n_estimators=60, bootstrap=True, oob_score=True, random_state=0).fit(data.X, data.three)
    assert rfsize.oob_score(model, data.X, data.three).value == pytest.approx(model.oob_score_, abs=1e-12)


def test_as_scikit_learn_regressors(data: Data) -> None:
    model = RandomForestRegressor(60, oob_score=True, random_state=0).fit(data.X, data.X[:, 0])
    found = rfsize.oob_score(model, data.X, data.X[:, 0])
    assert (found.metric, found.value) == ("r2", pytest.approx(model.oob_score_, abs=1e-12))


def test_members_that_answer_with_labels(data: Data) -> None:
    model = BaggingClassifier(Perceptron(), 40, oob_score=True, random_state=0).fit(data.X, data.y)
    assert rfsize.oob_score(model, data.X, data.y).value == pytest.approx(model.oob_score_, abs=1e-12)


def test_threshold(lgb_booster: Any, data: Data) -> None:
    label = rfsize.oob_predict_proba(lgb_booster, data.X)[:, 1] > 0.2
    found = rfsize.oob_score(rfsize.tree_outputs(lgb_booster, data.X, data.y, oob=True, threshold=0.2))
    assert found.value == np.mean(label == data.y)


@pytest.mark.parametrize("metric", [*OF_CLASSES, *OF_NUMBERS])
def test_influence_is_the_slope_by_the_weight_of_a_row(metric: str, data: Data, weight: np.ndarray) -> None:
    rng, rows = np.random.default_rng(0), np.arange(ROWS)
    weight = weight + 0.5
    if metric in OF_CLASSES:
        y, model = data.y[:ROWS], RandomForestClassifier(3, random_state=0).fit(data.X[:ROWS], data.y[:ROWS])
        p = np.round(rng.uniform(0.01, 0.99, ROWS), 2)  # with ties
        predicted = np.stack([1.0 - p, p], axis=1)
    else:
        y, model = data.X[:ROWS, 0] + 2.0, RandomForestRegressor(3, random_state=0).fit(data.X[:ROWS], data.X[:ROWS, 0])
        predicted = (y + rng.normal(size=ROWS))[:, None]

    def judged(weight: np.ndarray) -> Any:
        return metric_with_truth(metric, forest.predictor, ROWS, y, weight)

    forest = ForestOnRows.of(rfsize.models.framework.read_forest(model, casts_votes=False), data.X[:ROWS])
    influence = judged(weight).influence(rows, predicted)
    for row in range(0, ROWS, 29):
        more, less = ((np.arange(ROWS) == row) * 1e-4 * side for side in (1.0, -1.0))
        slope = [judged(weight * (1.0 + by)).value(rows, predicted) for by in (more, less)]
        assert influence[row] == pytest.approx((slope[0] - slope[1]) / 2e-4, rel=1e-3, abs=1e-8)


def test_curve_is_that_of_the_first_trees(data: Data) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    model = train_lightgbm(X, y, 60)
    score, inbag = each_tree(model, X), rfsize.inbag(model, X)
    found = rfsize.oob_score(model, X, y, metric="log_loss")
    assert found.curve.sizes[0] == 1
    for size, value in zip(found.curve.sizes[::4], found.curve.values[::4], strict=True):
        mean = reference.predictions.mean_scores(score[:size], inbag[:size, :, None])[:, 0]
        known = ~np.isnan(mean)
        assert value == pytest.approx(log_loss(y[known], expit(mean[known])), rel=1e-6)


def test_rows_of_a_group_are_one_draw(data: Data) -> None:
    """Fifty rows, twelve times each, say no more than fifty rows, whatever the metric."""
    rng = np.random.default_rng(0)
    once = rng.permutation(np.repeat(np.arange(50), 12))
    X = data.X[:50][once] + 1e-3 * rng.normal(size=(600, 8))
    y = data.y[:50][once]
    model = RandomForestClassifier(300, max_samples=0.03, min_samples_leaf=3, random_state=0).fit(X, y)

    def brier(y: np.ndarray, p: np.ndarray) -> float:
        return float(np.mean((y - p) ** 2))

    for metric in ("accuracy", "auc", brier):
        grouped = rfsize.oob_score(model, X, y, metric=metric, groups=once)
        assert grouped.groups == "given"
        assert "in groups" in str(grouped)
        alone = rfsize.oob_score(model, X, y, metric=metric, groups="rows")
        length = [float(np.ptp(one.interval)) for one in (grouped, alone)]
        assert length[0] > 2.0 * length[1]


def test_copies_do_not_count_as_fresh_rows() -> None:
    X, y = twice(*continuous(400))
    model = RandomForestClassifier(200, random_state=0).fit(X, y)
    fresh, truth = continuous(20_000, seed=1)
    real = model.score(fresh, truth)
    found = rfsize.oob_score(model, X, y)
    assert found.groups == "copies"
    assert found.interval[0] < real < found.interval[1]
    assert rfsize.oob_score(model, X, y, groups="rows").interval[0] > real


def test_what_the_rows_do_not_tell_is_said_with_both_scores() -> None:
    X, y = twice(*of_few_values(150))
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 1 - y, y)
    model = RandomForestClassifier(301, max_samples=0.4, random_state=0).fit(X, y)
    by = {groups: rfsize.oob_score(model, X, y, metric="auc", groups=groups).value for groups in ("rows", "copies")}
    counted = rfsize.tree_outputs(model, X, y, oob=True)
    for given in ((model, X, y), (counted,)):
        with pytest.warns(rfsize.exceptions.CopiesWarning) as caught:
            found = rfsize.oob_score(*given, metric="auc")
        (warning,) = caught
        assert f"the AUC is {by['rows']:.4g}, which is assumed here" in str(warning.message)
        assert f"give groups='copies': the AUC is {by['copies']:.4g}." in str(warning.message)
        assert warning.filename == __file__
        assert found.value == by["rows"]


def test_callables_are_as_sure_as_names(lgb_booster: Any, data: Data) -> None:
    def brier(y: np.ndarray, p: np.ndarray) -> float:
        p.sort()  # a callable may alter what it is given
        y.sort()
        return float(np.mean((y - p) ** 2))

    def kept(y: np.ndarray, p: np.ndarray) -> float:
        return float(np.mean((y - p) ** 2))

    named = rfsize.oob_score(lgb_booster, data.X, data.y, metric="brier")
    given = rfsize.oob_score(lgb_booster, data.X, data.y, metric=kept)
    assert given.value == pytest.approx(named.value)
    assert given.curve.values == pytest.approx(named.curve.values, rel=1e-6)
    assert given.interval == pytest.approx(named.interval, rel=0.03)
    assert (given.metric, named.metric) == ("kept", "brier")
    rfsize.oob_score(lgb_booster, data.X, data.y, metric=brier)
    assert rfsize.oob_score(lgb_booster, data.X, data.y, metric=kept).to_dict() == given.to_dict()


@pytest.fixture(scope="module")
def beside_fresh_rows() -> tuple[np.ndarray, list[tuple[Any, np.ndarray, np.ndarray, np.ndarray]]]:
    """Labels of fresh rows; and forests with their rows, labels, and probabilities of the fresh rows."""
    rng = np.random.default_rng(3)

    def draw(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n_rows, 8))
        return X, (X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=n_rows) > 0.3).astype(int)

    fresh, truth = draw(20_000)
    trained = []
    for seed in range(25):
        X, y = draw(500)
        model = train_lightgbm(X, y, 60, seed=seed)
        p = model.predict(fresh)
        trained.append((model, X, y, np.stack([1.0 - p, p], axis=1)))
    return truth, trained


@pytest.mark.parametrize("metric", ["accuracy", "auc", "log_loss"])
def test_intervals_hold_the_metric_on_fresh_rows(metric: str, beside_fresh_rows: Any) -> None:
    """And their middle is nearer to it than the value, which is of fewer trees."""
    held, off = 0, []
    truth, trained = beside_fresh_rows
    for model, X, y, probability in trained:
        real = OF_CLASSES[metric](truth, probability, None)
        found = rfsize.oob_score(model, X, y, metric=metric)
        held += found.interval[0] < real < found.interval[1]
        off.append([found.value - real, found.at_all_trees - real])
    assert held >= 21
    by_value, by_middle = np.abs(np.mean(off, axis=0))
    assert by_middle < by_value


@pytest.mark.parametrize(
    ("span", "centre", "noise", "expected"),
    [
        ((0.0, 1.0), 0.5, 0.01, (0.4804, 0.5196)),
        ((0.0, 1.0), 1.0, 0.0, (0.9963, 1.0)),  # of a thousand rows
        ((0.0, np.inf), 2.0, 0.1, (1.8132, 2.2061)),
        ((-np.inf, 1.0), -1.0, 0.1, (-1.2061, -0.8132)),
        ((-np.inf, np.inf), 0.0, 1.0, (-1.9623, 1.9623)),
        ((0.0, np.inf), 0.0, 0.0, (0.0, 0.0)),
    ],
)
def test_intervals_keep_within_the_range(
    span: tuple[float, float], centre: float, noise: float, expected: tuple[float, float]
) -> None:
    assert _interval(span, centre, noise, 1000.0) == pytest.approx(expected, abs=2e-4)


def test_result(lgb_booster: Any, data: Data) -> None:
    found = rfsize.oob_score(lgb_booster, data.X, data.y, metric="auc")
    assert isinstance(found, rfsize.OobScore)
    values = json.loads(json.dumps(found.to_dict()))
    assert values["interval"] == list(found.interval)
    assert values["curve"]["sizes"] == found.curve.sizes.tolist()
    assert "with all 61 trees" in str(found) == repr(found)
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()


def test_picture(lgb_booster: Any, data: Data) -> None:
    found = rfsize.oob_score(lgb_booster, data.X, data.y, metric="auc")
    ax = found.plot()
    assert ax.get_ylabel() == "AUC"
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), found.curve.values)
    assert found.plot(ax) is ax


def test_one_tree_and_rows_that_it_saw(data: Data) -> None:
    model = train_lightgbm(data.X, data.y, 1)
    found = rfsize.oob_score(model, data.X, data.y)
    assert found.n_dropped == rfsize.inbag(model, data.X).sum()
    assert found.at_all_trees == found.value
    assert "left out, which every tree saw" in str(found)


def test_what_does_not_fit(lgb_booster: Any, lgb_multiclass: Any, xgb_multiclass: Any, data: Data) -> None:
    def score(model: Any = lgb_booster, X: Any = data.X, y: Any = data.y, **options: Any) -> None:
        rfsize.oob_score(model, X, y, **options)

    with pytest.raises(ValueError, match="y is missing"):
        score(y=None)
    with pytest.raises(ValueError, match="y is missing"):
        score(rfsize.tree_outputs(lgb_booster, data.X, oob=True), None, None)
    with pytest.raises(ValueError, match="of rows given, and an out-of-bag score takes"):
        score(rfsize.tree_outputs(lgb_booster, data.X, data.y), None, None)
    with pytest.raises(ValueError, match="X would have no effect: tree outputs already hold their rows"):
        score(rfsize.tree_outputs(lgb_booster, data.X, oob=True))
    with pytest.raises(ValueError, match="metric='r2' does not fit a classification forest: take one of log_loss"):
        score(metric="r2")
    for metric in ("auc", "average_precision"):
        with pytest.raises(ValueError, match=f"'{metric}' is for two classes"):
            score(lgb_multiclass, y=data.three, metric=metric)
    with pytest.raises(ValueError, match="one finite number"):
        score(metric=lambda y, p: np.nan)
    with pytest.raises(ValueError, match="0 on all rows"):
        score(
            rfsize.tree_outputs(lgb_booster, data.X, data.y, oob=True, sample_weight=np.zeros(len(data.X))), None, None
        )
    numbers = train_xgboost(data.X, np.r_[data.X[:-1, 0], 0.0], 40, objective="reg:squarederror")
    with pytest.raises(ValueError, match="y is the same on all rows"):
        score(rfsize.tree_outputs(numbers, data.X, oob=True), None, np.ones(len(data.X)))


def test_a_ranking_of_three_classes_is_had_by_the_scorer_that_the_message_names(data: Data) -> None:
    model = RandomForestClassifier(60, max_depth=4, random_state=0).fit(data.X, data.three)
    with pytest.raises(ValueError, match=r"'auc' is for two classes.*'roc_auc_ovr'"):
        rfsize.oob_score(model, data.X, data.three, metric="auc")
    found = rfsize.oob_score(model, data.X, data.three, metric="roc_auc_ovr")
    assert 0.5 < found.interval[0] < found.value < found.interval[1] < 1.0


def test_callables_weigh_the_rows_or_are_refused(lgb_booster: Any, data: Data) -> None:
    weight = np.random.default_rng(0).integers(1, 4, len(data.y)).astype(float)

    def brier(y: np.ndarray, p: np.ndarray, sample_weight: np.ndarray) -> float:
        return float(np.average((y - p) ** 2, weights=sample_weight))

    weighted = rfsize.tree_outputs(lgb_booster, data.X, data.y, oob=True, sample_weight=weight)
    assert rfsize.oob_score(weighted, metric=brier).value == pytest.approx(
        rfsize.oob_score(weighted, metric="brier").value
    )
    for metric in (lambda y, p: float(np.mean((y - p) ** 2)), make_scorer(lambda y, p: float(np.mean(y == p)))):
        with pytest.raises(ValueError, match="sample_weight"):
            rfsize.oob_score(weighted, metric=metric)


@pytest.mark.parametrize("n_ones", [2, 5])
def test_samples_without_a_rare_class_fail_no_callable(n_ones: int) -> None:
    """One sample in seven holds none of two rows; scikit-learn's AUC is NaN there, and others raise."""
    rng = np.random.default_rng(n_ones)
    X, y = rng.normal(size=(300, 4)), (np.arange(300) < n_ones).astype(int)
    counted = rfsize.tree_outputs(RandomForestClassifier(80, random_state=0).fit(X, y), X, y, oob=True)

    def divides(y: np.ndarray, p: np.ndarray) -> float:
        return float(p.sum()) / int(y.sum())

    def looks_up(y: np.ndarray, p: np.ndarray) -> float:
        return float(p.mean() + 0.0 * p[np.flatnonzero(y == 1)[0]])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric in (roc_auc_score, divides, looks_up):
            found = rfsize.oob_score(counted, metric=metric)
            assert math.isfinite(found.interval[0])
            assert found.interval[0] < found.interval[1]
    report = rfsize.size(counted, metric=make_scorer(roc_auc_score, response_method="predict_proba"), tolerance=0.2)
    assert report.loss_at(1).interval[1] > 0.0


def test_no_row_that_two_trees_left_out(data: Data) -> None:
    X, y = data.X[:40], data.y[:40]
    model = BaggingClassifier(n_estimators=2, max_samples=0.95, bootstrap=False, random_state=0).fit(X, y)
    with pytest.raises(rfsize.exceptions.FewVotesError, match=r"^1\.0 votes per row, from 2 trees, are too few"):
        rfsize.oob_score(model, X, y)


def test_groups_that_leave_one_unit(data: Data) -> None:
    model = RandomForestClassifier(1, max_samples=2, random_state=6).fit(data.X[:40], data.y[:40])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(
            rfsize.exceptions.FewVotesError, match="all rows outside the bags of the trees are of one group"
        ):
            rfsize.oob_score(model, data.X[:40], data.y[:40], groups=_but_one(model, data.X[:40]))


def _but_one(model: Any, X: np.ndarray) -> np.ndarray:
    """One group of rows that no tree saw, and one of all that one did."""
    return rfsize.inbag(model, X).any(axis=0).astype(int)


@pytest.mark.parametrize(("right", "rows"), [(1, 40), (30, 40), (39, 40), (970, 1000)])
def test_a_share_has_wilsons_interval(right: int, rows: int) -> None:
    share = right / rows
    low, high = _wilson(share, math.sqrt(share * (1.0 - share) / rows), norm.ppf(0.975), rows - 1.0)
    expected = binomtest(right, rows).proportion_ci(0.95, method="wilson")
    assert (low, high) == pytest.approx((expected.low, expected.high))


def test_rows_without_weight_make_no_interval_narrower(data: Data) -> None:
    forest = RandomForestClassifier(100, random_state=0).fit(data.X, data.y)
    outputs = rfsize.tree_outputs(forest, data.X, data.y, oob=True)
    weight = np.zeros(len(data.y))
    weight[np.flatnonzero(outputs.predict_labels(fill=-1) == data.y)[:20]] = 1.0
    score = rfsize.oob_score(outputs.with_truth(data.y, weight))
    assert score.value == 1.0
    assert score.interval[0] < 0.9
