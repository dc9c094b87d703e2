"""Forests that are grown, and fractions that are chosen, go by groups of rows as `rfsize.size` does."""

from __future__ import annotations

import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, StratifiedGroupKFold
from xgboost import XGBClassifier

import rfsize
from helpers.copied import continuous, of_few_values, popular, twice
from helpers.reports import of_same_votes, same
from rfsize.models.framework import framework_for

LIGHTGBM = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1, "num_leaves": 15}
LIGHTGBM |= {"feature_fraction": 0.7, "verbose": -1, "num_threads": 1, "seed": 1}
XGBOOST = {"objective": "binary:logistic", "subsample": 0.5, "colsample_bynode": 0.6, "nthread": 1, "seed": 1}
ESTIMATORS: dict[str, Any] = {
    "LightGBM": LGBMClassifier(
        boosting_type="rf", subsample=0.5, subsample_freq=1, colsample_bytree=0.7, n_jobs=1, random_state=1, verbose=-1
    ),
    "XGBoost": XGBClassifier(n_estimators=1, learning_rate=1, subsample=0.5, colsample_bynode=0.6, n_jobs=1),
    "random forest": RandomForestClassifier(max_samples=0.5, random_state=1),
}
SIZES = {"alpha": 0.9, "min_trees": 20, "max_trees": 60}
ALL = {"alpha": 0.9999, "min_trees": 110, "max_trees": 110}  # which are not enough, so that all are kept


@pytest.fixture(params=["LightGBM", "XGBoost"])
def framework(request: pytest.FixtureRequest) -> Any:
    """Parameters, and what makes training data."""
    return (LIGHTGBM, of_lightgbm) if request.param == "LightGBM" else (XGBOOST, xgb.DMatrix)


def of_lightgbm(X: np.ndarray, y: np.ndarray) -> lgb.Dataset:
    return lgb.Dataset(X, y, free_raw_data=False)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")
@pytest.mark.parametrize("groups", [None, "copies", "rows", "given"])
def test_a_forest_grows_to_the_size_that_its_groups_give(framework: Any, groups: Any) -> None:
    params, make = framework
    X, y = twice(*continuous(300))
    if groups == "given":
        groups = np.random.default_rng(0).permutation(len(X)) // 2
    booster, report = rfsize.grow(params, make(X, y), groups=groups, **ALL)
    expected = rfsize.size(booster, X, oob=True, alpha=0.9999, groups=groups)
    assert same(of_same_votes(report), of_same_votes(expected))
    assert (report.groups, report.copied) == (expected.groups, expected.copied)
    assert report.groups == {None: "copies", "copies": "copies", "rows": "rows"}.get(
        groups if isinstance(groups, str | None) else "", "given"
    )


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_estimators(kind: str) -> None:
    X, y = twice(*continuous(300))
    patients = np.random.default_rng(0).permutation(len(X)) // 2
    for groups in (None, patients):
        asked_for = {**ALL, "voting": "hard", "groups": groups}
        forest, report = rfsize.grow(ESTIMATORS[kind], X, y, **asked_for)
        assert report.groups == ("copies" if groups is None else "given")
        options = {"oob": True, "alpha": 0.9999, "voting": "hard", "groups": groups}
        assert of_same_votes(report) == of_same_votes(rfsize.size(forest, X, **options))
        more, report = rfsize.grow(forest, X, y, **asked_for | {"max_trees": 150})
        assert of_same_votes(report) == of_same_votes(rfsize.size(more, X, **options))


def test_groups_that_every_tree_sees() -> None:
    X, y = continuous(600)
    groups = np.arange(len(X)) // 12
    for data in (lgb.Dataset(X, y), lgb.Dataset(X, y, free_raw_data=False)):
        with pytest.raises(
            rfsize.exceptions.FewVotesError, match=r"110 trees would leave .* they belong to groups of up to 12 rows"
        ):
            rfsize.grow(LIGHTGBM, data, groups=groups, **ALL)
    with pytest.raises(
        rfsize.exceptions.FewVotesError, match=r"votes per row, from 30 trees, .* or give smaller fractions"
    ):
        rfsize.select_bagging_fraction(LIGHTGBM, lgb.Dataset(X, y), fractions=[0.5], n_trees=30, groups=groups)
    forest = RandomForestClassifier(max_samples=0.5, random_state=0)
    model = rfsize.RightSizedClassifier(forest, alpha=0.8, min_trees=20, max_trees=60).fit(X, y, groups=groups)
    assert "to groups of up to 12 rows" in model.oob_refusal_
    assert (model.report_.source, model.report_.groups) == ("cross-validation", "given")


def test_popular_rows_stand_alone() -> None:
    X, y = popular(600)
    asked_for = {"alpha": 0.9, "min_trees": 50, "max_trees": 100}
    with pytest.warns(rfsize.exceptions.CopiesWarning, match=r"groups='copies': .*groups='rows'"):
        _, report = rfsize.grow(RandomForestClassifier(random_state=0), X, y, **asked_for)
    assert report.enough
    assert report.groups == "rows"
    with pytest.raises(
        rfsize.exceptions.FewVotesError, match="or give groups='rows' if equal rows are different cases"
    ):
        rfsize.grow(RandomForestClassifier(random_state=0), X, y, groups="copies", **asked_for)
    callback = rfsize.SizeCallback(0.9, min_trees=20)
    with pytest.warns(rfsize.exceptions.CopiesWarning, match=r"groups='copies': .*groups='rows'"):
        trained(callback, X, y, free_raw_data=False)
    assert callback.report_.groups == "rows"
    with pytest.warns(rfsize.exceptions.CopiesWarning):
        model = rfsize.RightSizedClassifier(RandomForestClassifier(random_state=0), **asked_for).fit(X, y)
    assert (model.report_.source, model.report_.groups) == ("oob", "rows")


def test_rows_that_are_gone_are_not_compared() -> None:
    X, y = twice(*continuous(300))
    gone = lgb.Dataset(X, y, params=LIGHTGBM).construct()
    _, report = rfsize.grow(LIGHTGBM, gone, alpha=0.5)
    assert (report.groups, report.copied) == ("unknown", None)
    with pytest.raises(ValueError, match="the data do not hold them"):
        rfsize.grow(LIGHTGBM, gone, groups="copies")
    with pytest.raises(ValueError, match="every tree votes on the validation rows"):
        rfsize.grow(LIGHTGBM, gone, groups="rows", validation=X)[0]
    if tuple(int(part) for part in xgb.__version__.split(".")[:2]) >= (3, 1):
        _, report = rfsize.grow(XGBOOST, xgb.QuantileDMatrix(X, y), alpha=0.5)
        assert report.groups == "unknown"


class InTwo(xgb.DataIter):
    """Rows in two pieces, which XGBoost keeps in external memory."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self.pieces = list(zip(np.array_split(X, 2), np.array_split(y, 2), strict=True))
        self.place = 0
        super().__init__()

    def next(self, input_data: Any) -> bool:
        if self.place == len(self.pieces):
            return False
        X, y = self.pieces[self.place]
        input_data(data=X, label=y)
        self.place += 1
        return True

    def reset(self) -> None:
        self.place = 0


def test_rows_in_external_memory_are_not_compared() -> None:
    X, y = twice(*continuous(300))
    booster, report = rfsize.grow(XGBOOST, xgb.DMatrix(InTwo(X, y)), alpha=0.5)
    assert report.groups == "unknown"
    with pytest.raises(ValueError, match=r"rows in external memory \(DMatrix\), of which"):
        rfsize.size(booster, xgb.DMatrix(InTwo(X, y)), oob=True)


def trained(callback: Any, X: Any, y: Any, **dataset: Any) -> lgb.Booster:
    return lgb.train(LIGHTGBM, lgb.Dataset(X, y, **dataset), 60, callbacks=[callback])


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")
@pytest.mark.parametrize("groups", [None, "copies", "rows", "given"])
def test_the_callback_stops_at_the_size_that_groups_give(groups: Any) -> None:
    X, y = twice(*continuous(300))
    if groups == "given":
        groups = np.random.default_rng(0).permutation(len(X)) // 2
    callback = rfsize.SizeCallback(0.9999, min_trees=20, groups=groups)
    booster = trained(callback, X, y, free_raw_data=False)
    expected = rfsize.size(booster, X, oob=True, alpha=0.9999, groups=groups)
    assert callback.report_.available == booster.num_trees() == 60
    assert same(of_same_votes(callback.report_), of_same_votes(expected))
    assert (callback.report_.groups, callback.report_.copied) == (expected.groups, expected.copied)


def test_the_callback_says_where_it_could_not_look() -> None:
    X, y = twice(*continuous(300))
    callback = rfsize.SizeCallback(0.6, min_trees=20)
    trained(callback, X, y)
    assert callback.report_.groups == "unknown"
    with pytest.raises(ValueError, match="free_raw_data=False"):
        trained(rfsize.SizeCallback(groups="copies"), X, y)
    with pytest.raises(ValueError, match="groups would have no effect"):
        rfsize.SizeCallback(groups="rows", validation="valid_0")
    with pytest.raises(ValueError, match=r"folds=GroupKFold\(\).split\(X, y, groups\)"):
        lgb.cv(LIGHTGBM, lgb.Dataset(X, y), 30, callbacks=[rfsize.SizeCallback(groups=np.arange(len(X)))])


def unclear() -> tuple[np.ndarray, np.ndarray]:
    """Rows of few values, each twice, and labels of much noise."""
    X, y = twice(*of_few_values(150))
    return X, np.where(np.random.default_rng(0).random(len(y)) < 0.3, 1 - y, y)


def test_what_the_rows_do_not_tell_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = unclear()
    # Of few rows intervals are wide, and may hold both sizes.
    monkeypatch.setattr("rfsize.estimation.shared_trees._UNFOLLOWED", 0.0)
    sizes = {"alpha": 0.97, "max_trees": 600}
    grown = {
        "LightGBM": lambda: rfsize.grow({**LIGHTGBM, "min_data_in_leaf": 2}, lgb.Dataset(X, y), **sizes)[0],
        "XGBoost": lambda: rfsize.grow({**XGBOOST, "min_child_weight": 0}, xgb.DMatrix(X, y), **sizes)[0],
        "random forest": lambda: rfsize.grow(ESTIMATORS["random forest"], X, y, **sizes)[0],
        "callback": lambda: lgb.train(
            {**LIGHTGBM, "min_data_in_leaf": 2},
            lgb.Dataset(X, y, free_raw_data=False),
            600,
            callbacks=[rfsize.SizeCallback(0.97)],
        ),
    }
    for name, call in grown.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        found = [warning for warning in caught if issubclass(warning.category, rfsize.exceptions.CopiesWarning)]
        assert len(found) == 1, name
        assert found[0].filename == __file__, name


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")
def test_the_bagging_fraction_is_judged_by_the_same_trees(framework: Any) -> None:
    params, make = framework
    X, y = twice(*continuous(300))
    options = {"fractions": [0.3, 0.5], "n_trees": 44, "progress": False}
    options |= {"voting": "hard"}
    found = rfsize.select_bagging_fraction(params, make(X, y), **options)
    alone = rfsize.select_bagging_fraction(params, make(X, y), groups="rows", **options)
    # A row that was seen as its copy is known by heart.
    assert (found.curve["error"] > alone.curve["error"] + 0.015).all()
    dtrain = make(X, y)
    forest = framework_for(dtrain).trainer(params, dtrain).start(fraction=found.best)
    forest.add(44)
    expected = rfsize.tree_outputs(forest.booster(), X, y, oob=True, groups="copies").votes.winner() != y
    assert found.curve["error"][found.curve["fraction"] == found.best] == pytest.approx(expected.mean(), abs=0.01)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_folds_of_an_estimator_hold_out_whole_groups(kind: str) -> None:
    X, y = twice(*continuous(300))
    forest = ESTIMATORS[kind]
    if kind == "XGBoost":
        forest = clone(forest).set_params(num_parallel_tree=10)
    found = rfsize.tree_outputs(forest, X, y, cv=3)
    copies = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    given = rfsize.tree_outputs(forest, X, y, cv=3, groups=copies)
    assert (found._evidence.groups.by, given._evidence.groups.by) == ("copies", "given")
    assert np.bincount(copies).tolist() == [2] * 300
    alone = rfsize.tree_outputs(forest, X, y, cv=3, groups="rows")
    assert np.mean(alone.votes.winner() == y) > np.mean(found.votes.winner() == y) + 0.02


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_estimator(kind: str) -> None:
    X, y = twice(*continuous(300))
    model = rfsize.RightSizedClassifier(ESTIMATORS[kind], voting="hard", **ALL)
    assert model.fit(X, y).report_.groups == "copies"
    patients = np.random.default_rng(0).permutation(len(X)) // 2
    model.fit(X, y, groups=patients)
    options = {"oob": True, "groups": patients}
    of_votes = rfsize.size(model.estimator_, X, alpha=0.9999, voting="hard", **options)
    assert of_same_votes(model.report_) == of_same_votes(of_votes)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")
def test_the_estimator_by_cross_validation() -> None:
    X, y = twice(*continuous(200))
    forest = RandomForestClassifier(random_state=1)
    model = rfsize.RightSizedClassifier(forest, cv=3, **SIZES).fit(X, y)
    assert (model.report_.groups, model.report_.n_rows) == ("copies", 200)
    patients = np.random.default_rng(0).integers(0, 60, len(X))
    by_groups = rfsize.RightSizedClassifier(forest, cv=StratifiedGroupKFold(3), **SIZES)
    assert by_groups.fit(X, y, groups=patients).report_.groups == "given"
    careless = rfsize.RightSizedClassifier(forest, cv=list(GroupShuffleSplit(1).split(X, y, np.arange(400))))
    with pytest.raises(ValueError, match="others of the same group"):
        careless.fit(X, y, groups=patients)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")
def test_groups_are_routed() -> None:
    from sklearn import config_context
    from sklearn.model_selection import cross_validate

    X, y = continuous(200)
    patients = np.random.default_rng(0).integers(0, 60, len(X))
    model = rfsize.RightSizedClassifier(RandomForestClassifier(random_state=1), **SIZES)
    with config_context(enable_metadata_routing=True):
        asked = model.set_fit_request(groups=True)
        found = cross_validate(asked, X, y, params={"groups": patients}, cv=GroupKFold(2), return_estimator=True)
        assert {one.report_.groups for one in found["estimator"]} == {"given"}
        not_asked = model.set_fit_request(groups=False)
        found = cross_validate(not_asked, X, y, params={"groups": patients}, cv=GroupKFold(2), return_estimator=True)
        assert {one.report_.groups for one in found["estimator"]} == {"rows"}
