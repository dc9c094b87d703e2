"""What is counted once answers as the model and its rows do."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier

import rfsize
from helpers.copied import continuous, of_few_values, twice
from helpers.forests import Data, predict, train_lightgbm, train_xgboost
from helpers.reports import as_sure, same

SEVERAL = {"num_class": 3}

FORESTS: dict[str, Callable[[Data], tuple[Any, np.ndarray]]] = {
    "LightGBM": lambda data: (train_lightgbm(data.X, data.y), data.y),
    "LightGBM, three classes": lambda data: (
        train_lightgbm(data.X, data.three, 31, objective="multiclass", **SEVERAL),
        data.three,
    ),
    "XGBoost": lambda data: (train_xgboost(data.X, data.y), data.y),
    "XGBoost, three classes": lambda data: (
        train_xgboost(data.X, data.three, 31, objective="multi:softprob", **SEVERAL),
        data.three,
    ),
    "scikit-learn": lambda data: (
        RandomForestClassifier(40, max_depth=4, random_state=0).fit(data.X, data.y),
        data.y,
    ),
    "scikit-learn, three classes": lambda data: (
        RandomForestClassifier(40, max_depth=4, random_state=0).fit(data.X, data.three),
        data.three,
    ),
}


@pytest.fixture(scope="module", params=FORESTS)
def forest(request: pytest.FixtureRequest, data: Data) -> tuple[Any, np.ndarray]:
    return FORESTS[request.param](data)


@pytest.fixture(scope="module", params=[True, False], ids=["oob", "rows given"])
def case(request: pytest.FixtureRequest, forest: tuple[Any, np.ndarray], data: Data) -> tuple[Any, dict[str, Any], Any]:
    """A model, what it is asked about, and what was counted of it."""
    model, y = forest
    given = {"X": data.X, "y": y, "oob": True} if request.param else {"X": data.fresh}
    labels = y if request.param else np.arange(len(data.fresh)) % len(np.unique(y))
    counted = rfsize.count(model, given["X"], labels, oob=request.param)
    return model, given, counted


Case = tuple[Any, dict[str, Any], rfsize.Counted]


def test_reports_on_labels(case: Case) -> None:
    model, given, counted = case
    voting, estimator = ("soft", "smooth") if given.get("oob") else ("hard", "plugin")
    options: dict[str, Any] = {"alpha": 0.9, "voting": voting, "estimator": estimator}
    report, expected = rfsize.size(counted, **options), rfsize.size(model, **given, **options)
    assert as_sure(report) == as_sure(expected)
    assert as_sure(report.other) == as_sure(expected.other)
    assert report.sure is None


@pytest.mark.parametrize("criterion", ["probability", "score"])
def test_reports_on_deviations(criterion: str, case: Case) -> None:
    model, given, counted = case
    options: dict[str, Any] = {"criterion": criterion, "tolerance": 0.05}
    report, expected = rfsize.size(counted, **options), rfsize.size(model, **given, **options)
    assert same(report.to_dict(), expected.to_dict())


def test_votes_and_what_it_says_of_itself(case: Case) -> None:
    model, given, counted = case
    votes = rfsize.votes(model, **given)
    assert counted.votes == votes
    assert (counted.n_rows, counted.n_trees) == (len(given["X"]), votes.n_trees)
    assert np.array_equal(counted.classes, votes.classes)
    assert counted.source == ("oob" if given.get("oob") else "rows given")
    rows = f"{len(given['X']):,} rows ({counted.source})"
    assert repr(counted) == f"Counted({rows}, {len(votes.classes)} classes, {votes.n_trees} trees)"


def test_it_is_pickled(case: Case) -> None:
    _, _, counted = case
    again = pickle.loads(pickle.dumps(counted))
    assert again.votes == counted.votes
    assert same(rfsize.size(again, alpha=0.9).to_dict(), rfsize.size(counted, alpha=0.9).to_dict())
    assert np.array_equal(again.forest.tree_votes(), counted.forest.tree_votes())


def test_it_is_cut_to_size(case: Case, data: Data) -> None:
    model, given, counted = case
    for options in ({"alpha": 0.85}, {"criterion": "probability", "tolerance": 0.1}, {"n_trees": 7}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rfsize.NotConvergedWarning)
            rows = {} if "n_trees" in options else given
            found, expected = rfsize.truncate(counted, **options), rfsize.truncate(model, **rows, **options)
        assert type(found) is type(model)
        assert np.array_equal(predict(found, data.fresh), predict(expected, data.fresh))
    with pytest.warns(rfsize.NotConvergedWarning):
        assert rfsize.votes(rfsize.truncate(counted, alpha=0.9999), data.fresh).n_trees == counted.n_trees


def test_it_is_a_prior_of_stop_tables(case: Case) -> None:
    model, given, counted = case
    options: dict[str, Any] = {"alpha": 0.95}
    table = rfsize.StopTable.build(counted.n_trees, prior=counted, **options)
    assert table == rfsize.StopTable.build(counted.n_trees, prior=rfsize.votes(model, **given), **options)


@pytest.mark.parametrize("metric", ["logloss", "accuracy"])
def test_a_metric_asks_no_tree_again(metric: str, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    model, given, counted = case
    expected = rfsize.size(model, **given, alpha=0.9).metric_gap(metric, counted.y)
    monkeypatch.setattr("rfsize.counting.forest_on_rows.visit_leaves", _asked)
    monkeypatch.setattr(type(counted.forest.adapter), "leaf_index", _asked)
    for report in (rfsize.size(counted, alpha=0.9), rfsize.size(counted, criterion="score", tolerance=0.1)):
        assert report.metric_gap(metric) == expected
        assert report.metric_gap(metric, counted.y) == expected
    assert rfsize.size(counted, alpha=0.9).metric_gap(metric, (np.asarray(counted.y) + 1) % 2) != expected
    with pytest.raises(AssertionError, match="trees were asked"):
        rfsize.size(model, **given, alpha=0.9)


def _asked(*_: Any, **__: Any) -> None:
    raise AssertionError("the trees were asked")


def test_thresholds_and_weights(data: Data) -> None:
    weight = 1.0 + data.y
    model = train_lightgbm(data.X, data.y, dataset={"weight": weight})
    counted = rfsize.count(model, data.X, data.y, oob=True, threshold=0.3, sample_weight=weight)
    expected = rfsize.size(model, data.X, data.y, oob=True, threshold=0.3, sample_weight=weight, alpha=0.9)
    assert rfsize.size(counted, alpha=0.9).to_dict() == expected.to_dict()
    assert counted.sample_weight is weight


@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
@pytest.mark.parametrize("groups", [None, "copies", "rows", "given"])
def test_rows_that_belong_together(train: Any, groups: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = continuous(300)
    often = np.random.default_rng(1).permutation(np.repeat(np.arange(300), np.where(np.arange(300) < 60, 6, 1)))
    X, y = X[often], y[often]
    if groups == "given":
        groups = np.random.default_rng(0).permutation(len(X)) // 2
    model = train(X, y, 61)
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 61 * 70)
    counted = rfsize.count(model, X, y, oob=True, groups=groups)
    for options in ({"alpha": 0.9}, {"alpha": 0.9, "voting": "soft"}):
        assert (
            rfsize.size(counted, **options).to_dict()
            == rfsize.size(model, X, y, oob=True, groups=groups, **options).to_dict()
        )
    for criterion in ("probability", "score"):
        options = {"criterion": criterion, "tolerance": 0.05}
        expected = rfsize.size(model, X, y, oob=True, groups=groups, **options)
        assert same(rfsize.size(counted, **options).to_dict(), expected.to_dict())
    assert counted.n_rows == 600
    assert len(counted.votes) == (300 if counted.forest.groups.by == "copies" else 600)


def test_copies_that_decide_are_warned_of() -> None:
    X, y = twice(*of_few_values(150))
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 1 - y, y)
    model = RandomForestClassifier(300, max_samples=0.5, random_state=1).fit(X, y)
    counted = rfsize.count(model, X, y, oob=True)
    with pytest.warns(rfsize.CopiesWarning) as expected:
        rfsize.size(model, X, oob=True, alpha=0.97)
    with pytest.warns(rfsize.CopiesWarning) as found:
        rfsize.size(counted, alpha=0.97)
    assert str(found[0].message) == str(expected[0].message)
    assert found[0].filename == __file__


@pytest.mark.parametrize("framework", ["LightGBM", "XGBoost", "scikit-learn"])
def test_regression(framework: str, data: Data) -> None:
    y = data.X[:, 0] + data.X[:, 1] * data.X[:, 2]
    model = {
        "LightGBM": lambda: train_lightgbm(data.X, y, objective="regression"),
        "XGBoost": lambda: train_xgboost(data.X, y, objective="reg:squarederror"),
        "scikit-learn": lambda: RandomForestRegressor(40, random_state=0).fit(data.X, y),
    }[framework]()
    counted = rfsize.count(model, data.X, y, oob=True)
    assert repr(counted) == f"Counted(1,500 rows (oob), regression, {counted.n_trees} trees)"
    assert len(counted.classes) == 0
    options: dict[str, Any] = {"criterion": "score", "tolerance": 0.1}
    report, expected = rfsize.size(counted, **options), rfsize.size(model, data.X, oob=True, **options)
    assert same(report.to_dict(), expected.to_dict())
    assert report.metric_gap("rmse") == expected.metric_gap("rmse", y)
    small = rfsize.truncate(counted, criterion="score", tolerance=0.5)
    assert np.array_equal(
        predict_numbers(small, data.fresh),
        predict_numbers(rfsize.truncate(model, data.X, oob=True, criterion="score", tolerance=0.5), data.fresh),
    )
    with pytest.raises(rfsize.NotAForestError, match=r"regression forest cast no votes.*by criterion='score'"):
        rfsize.size(counted, alpha=0.9)
    with pytest.raises(ValueError, match="regression forest cast no votes: ask for scores"):
        counted.votes  # noqa: B018
    with pytest.raises(ValueError, match="regression forest cast no votes: ask for scores"):
        rfsize.StopTable.build(10, prior=counted)
    assert counted.nbytes > 0


def predict_numbers(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict(X) if isinstance(model, RandomForestRegressor) else predict(model, X)


def test_members_that_are_no_trees_have_votes_alone(data: Data) -> None:
    model = BaggingClassifier(KNeighborsClassifier(), 30, max_samples=0.5, random_state=0).fit(data.X, data.y)
    counted = rfsize.count(model, data.X, data.y, oob=True)
    report = rfsize.size(counted, alpha=0.9)
    assert as_sure(report) == as_sure(rfsize.size(model, data.X, oob=True, alpha=0.9))
    assert counted.nbytes > 0
    with pytest.raises(ValueError, match="members of the ensemble are no trees"):
        report.metric_gap("accuracy")
    with pytest.raises(rfsize.NotAForestError, match="members of the ensemble are no trees"):
        rfsize.size(counted, criterion="score", tolerance=0.1)


@pytest.mark.parametrize(
    "beside",
    [
        *({"X": 1}, {"oob": True}, {"threshold": 0.5}, {"groups": "rows"}),
        *({"seed": 3}, {"subsample": 0.5}, {"missing": -1.0}),
    ],
    ids=str,
)
def test_what_was_counted_is_taken_as_it_is(beside: dict[str, Any], case: Case, data: Data) -> None:
    counted = case[2]
    given = {"X": data.X} if "X" in beside else beside
    with pytest.raises(ValueError, match=r"what rfsize\.count counted are sized as they are: leave out X, oob, thr"):
        rfsize.size(counted, **given)
    with pytest.raises(ValueError, match="leave out X, oob, thr"):
        rfsize.truncate(counted, alpha=0.9, **given)
    if "threshold" not in beside:
        with pytest.raises(ValueError, match="leave out X, oob, thr"):
            rfsize.size(counted, criterion="score", tolerance=0.1, **given)


def test_the_truth_may_be_told_later(lgb_booster: Any, data: Data) -> None:
    weight = 1.0 + data.y
    by: dict[str, Any] = {"criterion": "logloss", "tolerance": 0.01}
    later = rfsize.count(lgb_booster, data.X, oob=True)
    with pytest.raises(ValueError, match="y is missing"):
        rfsize.size(later, **by)
    at_once = rfsize.size(rfsize.count(lgb_booster, data.X, data.y, oob=True), **by)
    assert rfsize.size(later, y=data.y, **by).to_dict() == at_once.to_dict()
    assert rfsize.size(later, y=data.y, sample_weight=weight, **by).value != at_once.value


def test_a_metric_needs_the_truth(lgb_booster: Any, data: Data) -> None:
    counted = rfsize.count(lgb_booster, data.X, oob=True)
    report = rfsize.size(counted, alpha=0.9)
    with pytest.raises(ValueError, match="y is missing: a metric needs the truth of the rows; give it here, or before"):
        report.metric_gap("accuracy")
    assert report.metric_gap("accuracy", data.y).value > 0.7


def test_counting_refuses_what_votes_refuse(lgb_booster: Any, data: Data) -> None:
    with pytest.raises(ValueError, match="groups say on which training rows"):
        rfsize.count(lgb_booster, data.X, groups="rows")
    with pytest.raises(rfsize.InbagError, match="rows"):
        rfsize.count(lgb_booster, data.X[:100], oob=True)
    with pytest.raises(ValueError, match="threshold"):
        rfsize.count(lgb_booster, data.X, threshold=2.0)


def test_memory_that_it_holds(case: Case) -> None:
    """All arrays that can be reached, each once, but for the model and the rows."""
    told = case[2].told
    held = arrays_in([told.outputs, told.outputs.votes.counts, told.averages])
    # The rest are labels of classes, and where parts of the forest end.
    assert sum(held.values()) - 1000 <= case[2].nbytes <= sum(held.values())


def arrays_in(one: Any) -> dict[int, int]:
    """Bytes of arrays in an object and its attributes, by where they are."""
    if isinstance(one, np.ndarray):
        return {one.__array_interface__["data"][0]: one.nbytes} if one.size else {}
    inner = one if isinstance(one, list) else list(vars(one).values()) if hasattr(one, "__dict__") else []
    found: dict[int, int] = {}
    for each in inner:
        found |= arrays_in(each)
    return found
