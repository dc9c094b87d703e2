"""SizeCallback stops LightGBM's training at the size that the finished forest's own out-of-bag votes give."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.metrics import make_scorer

import rfsize
from helpers.models import FRESH, LIGHTGBM, N_ROWS, NAMES, NUMBER, THREE, TWO, WEIGHT, WRAPPER, X
from rfsize.exceptions import ForestWarning, NotConvergedWarning

pytestmark = pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning")
FIRST = {"alpha": 0.95, "min_trees": 40}  # looks once where 40 trees are trained, at all of them


def train(
    callback: Any, y: Any = TWO, rounds: int = 400, params: Any = None, X: Any = X, **options: Any
) -> lgb.Booster:
    dataset = options.pop("dataset", {})
    callbacks = [callback, *options.pop("callbacks", [])]
    return lgb.train(LIGHTGBM | (params or {}), lgb.Dataset(X, y, **dataset), rounds, callbacks=callbacks, **options)


def assert_same(actual: rfsize.Report, expected: rfsize.Report, rtol: float = 1e-3) -> None:
    assert actual.n_trees == pytest.approx(expected.n_trees, rel=rtol)
    np.testing.assert_allclose(actual.interval, expected.interval, rtol=rtol)
    assert np.isfinite(expected.n_trees)
    facts = [
        (report.estimate.n_rows, report.available, report.source, report.estimate.votes_per_row)
        for report in (actual, expected)
    ]
    assert facts[0] == facts[1]


@pytest.mark.parametrize("options", [{"alpha": 0.95}, {"alpha": 0.95, "voting": "hard"}], ids=str)
def test_training_stops_in_time(options: dict[str, Any]) -> None:
    callback = rfsize.SizeCallback(**options, min_trees=40)
    booster = train(callback)
    report = callback.report_
    assert report.enough
    assert report.n_trees <= booster.num_trees() == report.n_kept <= report.available < 400
    whole = lgb.train(LIGHTGBM, lgb.Dataset(X, TWO), report.available)
    assert_same(report, rfsize.size(whole, X, oob=True, **options))
    assert np.array_equal(booster.predict(FRESH), whole.predict(FRESH, num_iteration=booster.num_trees()))
    for twin in (pickle.loads(pickle.dumps(callback)), copy.deepcopy(callback)):
        assert twin.report_.to_dict() == report.to_dict()


PATIENTS = np.random.default_rng(0).integers(0, 200, N_ROWS)
MANY = np.random.default_rng(6).normal(size=(600, 6))
MANY_SCORES = MANY @ np.random.default_rng(7).normal(size=(6, 6)) + np.random.default_rng(8).normal(size=(600, 6))
SEVERAL = {"objective": "multiclass", "num_class": 3}
TRAININGS: dict[str, dict[str, Any]] = {
    "binary": {},
    "sigmoid": {"params": {"sigmoid": 1 / 3}},
    "cross entropy": {"params": {"objective": "cross_entropy"}},
    "pos/neg": {"params": {"pos_bagging_fraction": 0.7, "neg_bagging_fraction": 0.5, "scale_pos_weight": 2.0}},
    "weights": {"dataset": {"weight": WEIGHT}},
    "trees of one leaf": {
        "params": {"feature_fraction": 0.1, "min_gain_to_split": 30.0},
        "y": (X[:, 0] > 1.2).astype(int),
    },
    "a fraction that six digits do not tell": {"params": {"bagging_fraction": 0.12347412109375 - 1e-9}},
    "an alias": {"params": {"bagging_fraction": 0.7, "sub_row": 0.5}},
    "three classes": {"params": SEVERAL, "y": THREE},
    "three against all": {"params": SEVERAL | {"objective": "multiclassova"}, "y": THREE},
    "large trees": {"params": SEVERAL | {"min_data_in_leaf": 2, "num_leaves": 60, "bagging_fraction": 0.3}, "y": THREE},
    "six classes": {"params": SEVERAL | {"num_class": 6, "num_leaves": 5}, "X": MANY, "y": MANY_SCORES.argmax(axis=1)},
    "unbalanced": {"params": SEVERAL | {"extra_trees": True, "is_unbalance": True}, "y": THREE},
    "a low threshold": {"options": {"threshold": 0.3}},
    "a threshold": {"options": {"threshold": 0.45}},
    "groups": {"params": {"bagging_fraction": 0.3}, "options": {"groups": PATIENTS}},
}


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize(
    ("name", "voting", "has_data"),
    # Of trees of one leaf, many rows have exactly half of the votes.
    [(name, "soft" if name == "trees of one leaf" else "hard", place % 3 == 0) for place, name in enumerate(TRAININGS)]
    + [(name, "soft", has_data) for name in ("binary", "three classes") for has_data in (False, True)],
)
def test_votes_read_in_training_are_the_forests(name: str, voting: str, has_data: bool) -> None:
    training = {**TRAININGS[name]}
    rows, y, options = training.get("X", X), training.get("y", TWO), training.pop("options", {})
    whole = train(lambda _: None, rounds=40, **training)
    expected = rfsize.size(rfsize.tree_outputs(whole, rows, y, oob=True, **options), alpha=0.95, voting=voting)
    callback = rfsize.SizeCallback(**FIRST, **options, voting=voting, data=rows if has_data else None)
    train(callback, rounds=40, **training)
    assert_same(callback.report_, expected)


GOALS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "probabilities": ({}, {"metric": "probabilities", "tolerance": 0.06}),
    "scores": ({}, {"metric": "scores", "tolerance": 0.3}),
    "auc": ({}, {"metric": "auc", "tolerance": 0.01}),
    "log loss": ({}, {"metric": "log_loss", "tolerance": 0.02}),
    "numbers": ({"objective": "regression"}, {"metric": "scores", "tolerance": 0.1}),
    "medians": ({"objective": "regression_l1"}, {"metric": "scores", "tolerance": 0.1}),
    "quantiles": ({"objective": "quantile"}, {"metric": "scores", "tolerance": 0.1}),
    "counts": ({"objective": "poisson"}, {"metric": "scores", "tolerance": 0.1}),
    "roots": ({"objective": "regression", "reg_sqrt": True}, {"metric": "scores", "tolerance": 0.1}),
    "rmse": ({"objective": "regression"}, {"metric": "rmse", "tolerance": 0.05}),
}


@pytest.mark.parametrize("name", GOALS)
def test_goals_of_all_kinds(name: str) -> None:
    """As `grow`, which walks down the trees on the rows."""
    params, goal = GOALS[name]
    y = THREE if name == "counts" else NUMBER if params else TWO
    callback = rfsize.SizeCallback(**goal, min_trees=60)
    booster = train(callback, y, params=params | {"metric": "None"})
    grown, report = rfsize.grow(LIGHTGBM | params, lgb.Dataset(X, y, free_raw_data=False), **goal, min_trees=60)
    assert callback.report_.enough
    assert_same(callback.report_, report)
    assert np.array_equal(booster.predict(FRESH), grown.predict(FRESH))


@pytest.mark.parametrize(
    ("classes", "goal"), [(2, {"alpha": 0.95}), (2, {"metric": "auc", "tolerance": 0.02}), (3, {"alpha": 0.9})]
)
def test_validation_set(classes: int, goal: dict[str, Any]) -> None:
    y, params = (TWO, {}) if classes == 2 else (THREE, SEVERAL)
    dataset = lgb.Dataset(X[:300], y[:300])
    valid = [dataset.create_valid(X[:50], y[:50]), dataset.create_valid(X[300:], y[300:])]
    callback = rfsize.SizeCallback(**goal, validation="mine", min_trees=40)
    booster = lgb.train(LIGHTGBM | params, dataset, 400, valid, ["other", "mine"], callbacks=[callback])
    report = callback.report_
    assert booster.current_iteration() == report.n_kept
    assert "mine" in report.source
    whole = lgb.train(LIGHTGBM | params, lgb.Dataset(X[:300], y[:300]), report.available)
    assert report.n_trees == pytest.approx(rfsize.size(whole, X[300:], y[300:], **goal).n_trees, abs=1)


@pytest.mark.parametrize(("classes", "options"), [(2, {}), (3, {}), (3, {"validation": "valid"})])
def test_cross_validation(classes: int, options: dict[str, Any]) -> None:
    """Each fold's forest votes on the rows held out; all stop at the size that these votes give together."""
    y, params = (TWO, {}) if classes == 2 else (THREE, SEVERAL)
    parts = np.array_split(np.random.default_rng(0).permutation(N_ROWS), classes)  # as many folds
    folds = [(np.sort(np.setdiff1d(np.arange(N_ROWS), part)), np.sort(part)) for part in parts]
    callback = rfsize.SizeCallback(alpha=0.9, min_trees=40, voting="hard", **options)
    dataset = lgb.Dataset(X, y, free_raw_data=False)
    result = lgb.cv(
        LIGHTGBM | params,
        dataset,
        300,
        folds=folds,
        callbacks=[callback],
        return_cvbooster=True,
        eval_train_metric=True,
    )
    report, boosters = callback.report_, result["cvbooster"].boosters
    assert (report.source, report.enough) == ("cross-validation", True)
    assert result["cvbooster"].best_iteration == report.n_kept <= report.available < 300
    counts = np.zeros((N_ROWS, classes), dtype=int)
    for (_, held_out), booster in zip(folds, boosters, strict=True):
        booster.best_iteration = -1
        counts[held_out] = rfsize.tree_outputs(booster, X[held_out]).votes.counts
    assert report.n_trees == rfsize.size(rfsize.Votes(counts), alpha=0.9).n_trees


def test_cross_validation_needs_no_bags() -> None:
    """Whole queries are sampled, whose bags cannot be rebuilt."""
    rows = np.arange(N_ROWS)
    folds = [(rows[rows // 100 != part], rows[rows // 100 == part]) for part in range(5)]
    callback = rfsize.SizeCallback(alpha=0.9, min_trees=40)
    dataset = lgb.Dataset(X, TWO, group=np.full(N_ROWS // 5, 5))
    lgb.cv(LIGHTGBM | {"bagging_by_query": True}, dataset, 300, folds=folds, callbacks=[callback])
    assert callback.report_.enough


def test_estimators_and_a_second_training() -> None:
    callback = rfsize.SizeCallback(alpha=0.9, min_trees=40)
    estimator = lgb.LGBMClassifier(**(WRAPPER | {"n_estimators": 400}))
    sizes = []
    for _ in range(2):
        estimator.fit(X, NAMES[TWO], callbacks=[callback])
        sizes.append((estimator.booster_.num_trees(), callback.report_.n_kept))
    assert sizes[0] == sizes[1]
    assert sizes[0][0] == sizes[0][1] < 400
    assert set(estimator.predict(FRESH)) == set(NAMES[:2])
    regressor = lgb.LGBMRegressor(**(WRAPPER | {"n_estimators": 400}))
    callback = rfsize.SizeCallback(metric="scores", tolerance=0.2, min_trees=40)
    assert regressor.fit(X, NUMBER, callbacks=[callback]).booster_.num_trees() == callback.report_.n_kept


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")
def test_early_stopping_beside_it() -> None:
    dataset = lgb.Dataset(X, TWO)
    valid = dataset.create_valid(FRESH, np.zeros(len(FRESH)))
    callback, stop = rfsize.SizeCallback(alpha=0.999, min_trees=40), lgb.early_stopping(3, verbose=False)
    booster = lgb.train(LIGHTGBM, dataset, 300, valid_sets=[valid], callbacks=[callback, stop])
    assert booster.num_trees() < callback.report_.available < 100


def test_parameters_that_change() -> None:
    others = lgb.reset_parameter(sub_feature=[0.6] * 50 + [0.9] * 350)
    callback = rfsize.SizeCallback(alpha=0.9, min_trees=60)
    params = {name: value for name, value in LIGHTGBM.items() if name != "feature_fraction"}
    booster = lgb.train(params, lgb.Dataset(X, TWO), 400, callbacks=[callback, others])
    assert booster.num_trees() == callback.report_.n_kept
    bags = lgb.reset_parameter(bagging_fraction=[0.632] * 30 + [0.55] * 40)
    for given in ({}, {"data": X}):
        with pytest.warns(NotConvergedWarning, match="validation="):
            assert (
                train(rfsize.SizeCallback(0.9999, min_trees=40, **given), rounds=70, callbacks=[bags]).num_trees() == 70
            )


def test_too_few_trees_warn() -> None:
    callback = rfsize.SizeCallback(alpha=0.99)
    with pytest.warns(NotConvergedWarning, match="30 trees"):
        assert train(callback, rounds=30).num_trees() == 30
    assert not callback.report_.enough
    short = rfsize.SizeCallback(min_trees=5, metric="auc", tolerance=0.05)
    with pytest.warns(NotConvergedWarning):
        assert train(short, rounds=20).num_trees() == 20
    assert short.report_ is None


def test_few_votes_stop_no_training() -> None:
    """After one tree every row is unanimous."""
    callback = rfsize.SizeCallback(alpha=0.95, min_trees=1)
    assert train(callback).num_trees() == callback.report_.n_kept > 1
    assert callback.report_.estimate.votes_per_row >= 10


def test_log(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(NotConvergedWarning):
        train(rfsize.SizeCallback(alpha=0.9999, log_every=20, min_trees=40), rounds=80)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:5] for line in lines] == ["[20] ", "[40] ", "[60] ", "[80] "]


def test_dependent_trees_warn() -> None:
    with pytest.warns(ForestWarning, match="bagging_freq"):
        train(rfsize.SizeCallback(alpha=0.8), params={"bagging_freq": 2})
    with pytest.warns(ForestWarning, match="feature_fraction"):
        train(rfsize.SizeCallback(alpha=0.8), params={"feature_fraction": 2 / 6})


def failing(error: BaseException) -> Any:
    """A scorer that fails after its first call."""
    calls: list[int] = []

    def accuracy(y: np.ndarray, predicted: np.ndarray) -> float:
        calls.append(len(y))
        if len(calls) > 1:
            raise error
        return float(np.mean((predicted > 0.5) == y))

    return make_scorer(accuracy, response_method="predict_proba")


@pytest.mark.parametrize("error", [TypeError("of the user"), KeyError("of the user")])
def test_no_error_after_the_first_tree_ends_a_training(error: Exception) -> None:
    callback = rfsize.SizeCallback(metric=failing(error), tolerance=0.001, min_trees=20)
    with pytest.warns(NotConvergedWarning, match="of the user"):
        assert train(callback, rounds=60).num_trees() == 60


def test_an_interrupt_ends_a_training() -> None:
    with pytest.raises(KeyboardInterrupt):
        train(rfsize.SizeCallback(metric=failing(KeyboardInterrupt()), tolerance=0.001, min_trees=20), rounds=60)


@pytest.fixture(scope="module")
def rare() -> tuple[np.ndarray, np.ndarray]:
    """1.2 % positives, whose scores round to probabilities of 1."""
    rows = np.random.default_rng(5).normal(size=(2500, 6))
    latent = rows[:, 0] + 0.3 * np.random.default_rng(6).normal(size=len(rows))
    return rows, (latent > np.quantile(latent, 0.988)).astype(int)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
def test_a_rare_class_is_sized_with_its_rows(rare: tuple[np.ndarray, np.ndarray]) -> None:
    rows, y = rare
    params = {"min_data_in_leaf": 3}
    whole = train(lambda _: None, y, 60, params, rows)
    expected = rfsize.size(whole, rows, y, oob=True, alpha=0.95, voting="hard")
    for given, kept in (({"data": rows}, {}), ({}, {"free_raw_data": False})):
        callback = rfsize.SizeCallback(alpha=0.95, min_trees=60, voting="hard", **given)
        train(callback, y, 60, params, rows, dataset=kept)
        assert_same(callback.report_, expected)
        assert callback.report_.notes_on_rows == ()
    # Without them, the averaged scores are sized by what rounding leaves, and the report says so.
    callback = rfsize.SizeCallback(alpha=0.995, min_trees=60)
    train(callback, y, 60, params, rows)
    low, high = rfsize.size(whole, rows, y, oob=True, alpha=0.995).interval
    assert low <= callback.report_.n_trees <= high
    assert len(callback.report_.notes_on_rows) == 1


def test_votes_that_rounding_hides_are_not_sized_by(rare: tuple[np.ndarray, np.ndarray]) -> None:
    callback = rfsize.SizeCallback(0.9999, voting="hard")
    with pytest.warns(NotConvergedWarning, match="data=X"):
        assert train(callback, rare[1], 120, {"min_data_in_leaf": 3}, rare[0]).num_trees() == 120
    assert callback.report_ is None


@pytest.mark.parametrize("rows", [lambda rows: rows[:-1], lambda rows: rows[:, :-1], lambda rows: rows[::-1]])
def test_other_rows_are_refused_at_the_first_tree(rows: Callable[[Any], Any]) -> None:
    trees: list[int] = []
    with pytest.raises(ValueError, match=r"data|columns"):
        train(rfsize.SizeCallback(0.9, data=rows(X)), rounds=5, callbacks=[lambda env: trees.append(1)])
    assert len(trees) <= 1


def test_many_rows_are_drawn_once() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(21_000, 6))
    y = (rows[:, 0] + rng.normal(size=len(rows)) > 0).astype(int)
    callback = rfsize.SizeCallback(alpha=0.8, min_trees=30)
    train(callback, y, 30, X=rows)
    assert callback.report_.estimate.n_rows + callback.report_.estimate.n_dropped == 20_000
