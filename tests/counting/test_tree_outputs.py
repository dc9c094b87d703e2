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
    counted = rfsize.tree_outputs(model, given["X"], labels, oob=request.param)
    return model, given, counted


Case = tuple[Any, dict[str, Any], rfsize.TreeOutputs]


def test_reports_on_labels(case: Case) -> None:
    model, given, counted = case
    voting, method = ("soft", "smooth") if given.get("oob") else ("hard", "plugin")
    options: dict[str, Any] = {"alpha": 0.9, "voting": voting, "method": method}
    report, expected = rfsize.size(counted, **options), rfsize.size(model, **given, **options)
    assert as_sure(report) == as_sure(expected)
    assert report.goal.confidence is None


@pytest.mark.parametrize("metric", ["probabilities", "scores"])
def test_reports_on_deviations(metric: str, case: Case) -> None:
    model, given, counted = case
    options: dict[str, Any] = {"metric": metric, "tolerance": 0.05}
    report, expected = rfsize.size(counted, **options), rfsize.size(model, **given, **options)
    assert same(report.to_dict(), expected.to_dict())


def test_votes_and_what_it_says_of_itself(case: Case) -> None:
    model, given, counted = case
    votes = rfsize.tree_outputs(model, **given).votes
    assert counted.votes == votes
    assert (counted.n_rows, counted.n_trees) == (len(given["X"]), votes.n_trees)
    assert np.array_equal(counted.classes, votes.classes)
    assert counted.source == ("oob" if given.get("oob") else "rows given")
    rows = f"{len(given['X']):,} rows ({counted.source})"
    assert repr(counted) == f"TreeOutputs({rows}, {len(votes.classes)} classes, {votes.n_trees} trees)"


def test_it_is_pickled(case: Case) -> None:
    _, _, counted = case
    again = pickle.loads(pickle.dumps(counted))
    assert again.votes == counted.votes
    assert same(rfsize.size(again, alpha=0.9).to_dict(), rfsize.size(counted, alpha=0.9).to_dict())
    with pytest.raises(ValueError, match="the trees cannot be asked again"):
        again.by_tree()


def test_it_is_cut_to_size(case: Case, data: Data) -> None:
    model, given, counted = case
    for options in ({"alpha": 0.85}, {"metric": "probabilities", "tolerance": 0.1}, {"n_trees": 7}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
            rows = {} if "n_trees" in options else given
            found, expected = rfsize.truncate(counted, **options), rfsize.truncate(model, **rows, **options)
        assert type(found) is type(model)
        assert np.array_equal(predict(found, data.fresh), predict(expected, data.fresh))
    with pytest.warns(rfsize.exceptions.NotConvergedWarning):
        assert rfsize.tree_outputs(rfsize.truncate(counted, alpha=0.9999), data.fresh).votes.n_trees == counted.n_trees


def test_it_is_a_prior_of_stop_tables(case: Case) -> None:
    model, given, counted = case
    options: dict[str, Any] = {"alpha": 0.95}
    table = rfsize.StopTable.build(counted.n_trees, prior=counted, **options)
    assert table == rfsize.StopTable.build(counted.n_trees, prior=rfsize.tree_outputs(model, **given).votes, **options)


@pytest.mark.parametrize("metric", ["brier", "accuracy"])
def test_a_metric_asks_no_tree_again(metric: str, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    model, given, counted = case
    if counted.votes.asked.mean() < 20:
        with pytest.raises(rfsize.exceptions.FewVotesError, match="are too few to measure what a metric loses"):
            rfsize.size(counted, alpha=0.9).loss_at(5, metric)
        return
    expected = rfsize.size(counted, metric=metric, tolerance=0.01).loss_at(5)
    monkeypatch.setattr("rfsize.counting.forest_on_rows.visit_answers", _asked)
    monkeypatch.setattr(type(counted._evidence.forest.adapter), "leaf_index", _asked)
    for report in (rfsize.size(counted, alpha=0.9), rfsize.size(counted, metric="scores", tolerance=0.1)):
        assert report.loss_at(5, metric) == expected
    otherwise = counted.with_truth((np.asarray(counted.y) + 1) % 2)
    assert rfsize.size(otherwise, alpha=0.9).loss_at(5, metric) != expected
    with pytest.raises(AssertionError, match="trees were asked"):
        rfsize.size(model, **given, alpha=0.9)


def _asked(*_: Any, **__: Any) -> None:
    raise AssertionError("the trees were asked")


def test_thresholds_and_weights(data: Data) -> None:
    weight = 1.0 + data.y
    model = train_lightgbm(data.X, data.y, dataset={"weight": weight})
    counted = rfsize.tree_outputs(model, data.X, data.y, oob=True, threshold=0.3, sample_weight=weight)
    expected = rfsize.size(
        rfsize.tree_outputs(model, data.X, data.y, oob=True, threshold=0.3, sample_weight=weight), alpha=0.9
    )
    assert rfsize.size(counted, alpha=0.9).to_dict() == expected.to_dict()
    assert counted._evidence.sample_weight.tolist() == weight.tolist()


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
    counted = rfsize.tree_outputs(model, X, y, oob=True, groups=groups)
    for options in ({"alpha": 0.9}, {"alpha": 0.9, "voting": "soft"}):
        assert (
            rfsize.size(counted, **options).to_dict()
            == rfsize.size(model, X, y, oob=True, groups=groups, **options).to_dict()
        )
    for metric in ("probabilities", "scores"):
        options = {"metric": metric, "tolerance": 0.05}
        expected = rfsize.size(model, X, y, oob=True, groups=groups, **options)
        assert same(rfsize.size(counted, **options).to_dict(), expected.to_dict())
    assert counted.n_rows == 600
    assert len(counted.votes) == 600
    assert len(counted._evidence.distinct.votes) == (300 if counted._evidence.groups.by == "copies" else 600)


def test_copies_that_decide_are_warned_of() -> None:
    X, y = twice(*of_few_values(150))
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 1 - y, y)
    model = RandomForestClassifier(300, max_samples=0.5, random_state=1).fit(X, y)
    counted = rfsize.tree_outputs(model, X, y, oob=True)
    with pytest.warns(rfsize.exceptions.CopiesWarning) as expected:
        rfsize.size(model, X, oob=True, alpha=0.97)
    with pytest.warns(rfsize.exceptions.CopiesWarning) as found:
        rfsize.size(counted, alpha=0.97)
    assert str(found[0].message) == str(expected[0].message)
    assert found[0].filename == __file__
    with pytest.warns(rfsize.exceptions.CopiesWarning, match="refer to no model whose trees could be asked again"):
        again = rfsize.size(pickle.loads(pickle.dumps(counted)), alpha=0.97)
    assert again.n_trees == rfsize.size(counted, alpha=0.97).n_trees


def test_outputs_are_no_model(lgb_booster: Any, data: Data) -> None:
    outputs = rfsize.tree_outputs(lgb_booster, data.fresh)
    for take in (rfsize.compile, lambda found: rfsize.tree_outputs(found, data.fresh)):
        with pytest.raises(rfsize.exceptions.NotAForestError, match="TreeOutputs"):
            take(outputs)


def test_few_trees_asked_about_fresh_rows_are_no_matter_of_bags(data: Data) -> None:
    outputs = rfsize.tree_outputs(train_lightgbm(data.X, data.y, 5), data.fresh)
    for found in (outputs, pickle.loads(pickle.dumps(outputs))):
        assert not found._evidence.by_votes().oob


@pytest.mark.parametrize("framework", ["LightGBM", "XGBoost", "scikit-learn"])
def test_regression(framework: str, data: Data) -> None:
    y = data.X[:, 0] + data.X[:, 1] * data.X[:, 2]
    model = {
        "LightGBM": lambda: train_lightgbm(data.X, y, objective="regression"),
        "XGBoost": lambda: train_xgboost(data.X, y, objective="reg:squarederror"),
        "scikit-learn": lambda: RandomForestRegressor(40, random_state=0).fit(data.X, y),
    }[framework]()
    counted = rfsize.tree_outputs(model, data.X, y, oob=True)
    assert repr(counted) == f"TreeOutputs(1,500 rows (oob), regression, {counted.n_trees} trees)"
    assert len(counted.classes) == 0
    options: dict[str, Any] = {"metric": "scores", "tolerance": 0.1}
    report, expected = rfsize.size(counted, **options), rfsize.size(model, data.X, oob=True, **options)
    assert same(report.to_dict(), expected.to_dict())
    if framework != "scikit-learn":
        by_rmse = rfsize.size(model, data.X, y, oob=True, metric="rmse", tolerance=0.1)
        assert report.loss_at(5, "rmse") == by_rmse.loss_at(5)
    small = rfsize.truncate(counted, metric="scores", tolerance=0.5)
    assert np.array_equal(
        predict_numbers(small, data.fresh),
        predict_numbers(rfsize.truncate(model, data.X, oob=True, metric="scores", tolerance=0.5), data.fresh),
    )
    with pytest.raises(rfsize.exceptions.NotAForestError, match=r"regression forest cast no votes.*metric='scores'"):
        rfsize.size(counted, alpha=0.9)
    with pytest.raises(ValueError, match="regression forest cast no votes: take scores"):
        counted.votes  # noqa: B018
    with pytest.raises(ValueError, match="regression forest cast no votes: take scores"):
        rfsize.StopTable.build(10, prior=counted)
    assert counted.nbytes > 0


def predict_numbers(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict(X) if isinstance(model, RandomForestRegressor) else predict(model, X)


def test_members_that_are_no_trees(data: Data) -> None:
    model = BaggingClassifier(KNeighborsClassifier(), 60, max_samples=0.5, random_state=0).fit(data.X, data.y)
    counted = rfsize.tree_outputs(model, data.X, data.y, oob=True)
    report = rfsize.size(counted, alpha=0.9)
    assert as_sure(report) == as_sure(rfsize.size(model, data.X, data.y, oob=True, alpha=0.9))
    assert counted.nbytes > 0
    assert report.loss_at(5, "accuracy").value > 0.0
    assert rfsize.size(counted, metric="probabilities", tolerance=0.1).n_trees > 1
    assert dict(report._account().origin)["members"] == "60"


@pytest.mark.parametrize(
    "beside",
    [
        *({"X": 1}, {"oob": True}, {"groups": "rows"}),
    ],
    ids=str,
)
def test_what_was_counted_is_taken_as_it_is(beside: dict[str, Any], case: Case, data: Data) -> None:
    counted = case[2]
    given = {"X": data.X} if "X" in beside else beside
    (name,) = given
    refused = f"^{name} would have no effect: tree outputs already hold their rows"
    with pytest.raises(ValueError, match=refused):
        rfsize.size(counted, **given)
    with pytest.raises(ValueError, match=refused):
        rfsize.truncate(counted, alpha=0.9, **given)
    with pytest.raises(ValueError, match=refused):
        rfsize.size(counted, metric="scores", tolerance=0.1, **given)


def test_the_truth_may_be_told_later(lgb_booster: Any, data: Data) -> None:
    by: dict[str, Any] = {"metric": "log_loss", "tolerance": 0.01}
    later = rfsize.tree_outputs(lgb_booster, data.X, oob=True)
    with pytest.raises(ValueError, match="y is missing"):
        rfsize.size(later, **by)
    at_once = rfsize.size(rfsize.tree_outputs(lgb_booster, data.X, data.y, oob=True), **by)
    assert rfsize.size(later, y=data.y, **by).to_dict() == at_once.to_dict()


def test_a_metric_needs_the_truth(lgb_booster: Any, data: Data) -> None:
    counted = rfsize.tree_outputs(lgb_booster, data.X, oob=True)
    report = rfsize.size(counted, alpha=0.9)
    with pytest.raises(ValueError, match="y is missing: metric 'accuracy' needs the truth of the rows"):
        report.loss_at(5, "accuracy")
    assert 0.0 < rfsize.size(counted, y=data.y, alpha=0.9).loss_at(5, "accuracy").value < 0.3
    with pytest.raises(ValueError, match="this report no longer has its trees"):
        pickle.loads(pickle.dumps(report)).loss_at(5, "accuracy")


def test_counting_refuses_what_votes_refuse(lgb_booster: Any, data: Data) -> None:
    with pytest.raises(ValueError, match="groups say on which training rows"):
        rfsize.tree_outputs(lgb_booster, data.X, groups="rows")
    with pytest.raises(rfsize.exceptions.InbagError, match="rows"):
        rfsize.tree_outputs(lgb_booster, data.X[:100], oob=True)
    with pytest.raises(ValueError, match="threshold"):
        rfsize.tree_outputs(lgb_booster, data.X, threshold=2.0)


def test_memory_that_it_holds(case: Case) -> None:
    """All arrays that can be reached, each once, but for the model and the rows."""
    outputs = case[2]
    held = arrays_in([outputs.votes.counts, outputs.scores, outputs._evidence.blocks, outputs._evidence.averages])
    # The rest are labels of classes, and where parts of the forest end.
    assert sum(held.values()) - 1000 <= outputs.nbytes <= sum(held.values())


def arrays_in(one: Any) -> dict[int, int]:
    """Bytes of arrays in an object and its attributes, by where they are."""
    if isinstance(one, np.ndarray):
        return {one.__array_interface__["data"][0]: one.nbytes} if one.size else {}
    inner = one if isinstance(one, list) else list(vars(one).values()) if hasattr(one, "__dict__") else []
    found: dict[int, int] = {}
    for each in inner:
        found |= arrays_in(each)
    return found


def test_outputs_show_what_users_ask_and_not_what_estimates_do() -> None:
    shown = {name for name in dir(rfsize.TreeOutputs) if not name.startswith("_")}
    of_rows = {"n_rows", "n_trees", "source", "classes", "votes", "scores", "y", "nbytes"}
    assert shown == of_rows | {"by_tree", "predict", "predict_labels", "predict_proba", "with_truth"}
