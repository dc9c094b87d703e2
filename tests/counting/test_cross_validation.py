"""Outputs by cross-validation, of estimators of the three frameworks."""

from __future__ import annotations

import pickle
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from xgboost import XGBClassifier, XGBRegressor

import rfsize
from helpers.forests import LIGHTGBM, Data
from helpers.reports import same
from rfsize.counting.blocks import N_BLOCKS

CLASSIFIERS: dict[str, Any] = {
    "LightGBM": LGBMClassifier(
        n_estimators=12, boosting_type="rf", subsample=0.6, subsample_freq=1, colsample_bytree=0.6, verbose=-1
    ),
    "XGBoost": XGBClassifier(
        n_estimators=1, num_parallel_tree=12, learning_rate=1, subsample=0.6, colsample_bynode=0.6, max_depth=4
    ),
    "scikit-learn": RandomForestClassifier(12, max_depth=5, random_state=0),
}


@pytest.fixture(params=["LightGBM", "XGBoost"])
def estimator(request: pytest.FixtureRequest) -> Any:
    return CLASSIFIERS[request.param]


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("classes", [2, 3])
def test_estimators_predict_what_scikit_learn_cross_validates(kind: str, classes: int, data: Data) -> None:
    label = data.y if classes == 2 else data.three
    is_told_by_name = kind != "XGBoost"
    y = np.array(["no", "yes", "maybe"])[label] if is_told_by_name else label
    outputs = rfsize.tree_outputs(CLASSIFIERS[kind], data.X, y, cv=4)
    expected = cross_val_predict(CLASSIFIERS[kind], data.X, y, cv=4, method="predict_proba")
    assert outputs.classes.tolist() == np.unique(y).tolist()
    assert outputs._evidence.predictor.predictions(outputs.scores.mean) == pytest.approx(expected, abs=1e-5)
    if kind == "scikit-learn":
        for train, held_out in StratifiedKFold(4).split(data.X, y):
            forest = RandomForestClassifier(12, max_depth=5, random_state=0).fit(data.X[train], y[train])
            votes = np.array([tree.predict(data.X[held_out]) for tree in forest.estimators_]).astype(int)
            expected = [np.bincount(of_row, minlength=classes).tolist() for of_row in votes.T]
            assert outputs.votes.counts[held_out].tolist() == expected


@pytest.mark.parametrize(
    "forest",
    [
        RandomForestRegressor(30, max_depth=5, random_state=0),
        XGBRegressor(n_estimators=1, num_parallel_tree=30, learning_rate=1, subsample=0.6, random_state=0),
        LGBMRegressor(n_estimators=30, boosting_type="rf", subsample=0.6, subsample_freq=1, verbose=-1),
    ],
)
def test_numbers(forest: Any, data: Data) -> None:
    y = data.X[:, 0] + data.X[:, 1] * data.X[:, 2]
    outputs = rfsize.tree_outputs(forest, data.X, y, cv=3)
    assert outputs.scores.mean[:, 0] == pytest.approx(cross_val_predict(forest, data.X, y, cv=3), abs=1e-5)
    assert repr(outputs) == "TreeOutputs(1,500 rows (cross-validation), regression, 30 trees)"
    for options in ({"metric": "scores", "tolerance": 0.2}, {"metric": "rmse", "tolerance": 0.05}):
        assert 1 <= rfsize.size(outputs, **options).n_trees < 500


def test_they_size_as_outputs_out_of_bag_do(estimator: Any, data: Data) -> None:
    count = "num_parallel_tree" if isinstance(estimator, XGBClassifier) else "n_estimators"
    estimator = clone(estimator).set_params(**{count: 100})
    outputs = rfsize.tree_outputs(estimator, data.X, data.y, cv=5)
    report = rfsize.size(outputs, alpha=0.95)
    assert (report.source, report.n_rows, report.available) == ("cross-validation", 1500, 100)
    assert report.enough
    assert 5 < report.n_trees < 60
    assert rfsize.size(outputs, alpha=0.95, voting="hard").n_trees > 5
    assert rfsize.size(outputs, metric="auc", tolerance=0.01).n_trees < 100
    assert rfsize.size(outputs, metric="probabilities", tolerance=0.05).n_trees < 100
    assert rfsize.size(outputs, metric="scores", tolerance=0.2).n_trees < 1000
    assert rfsize.StopTable.build(100, prior=outputs).expected_trees() < 50
    with pytest.raises(ValueError, match=r"trees cannot be asked again, .*cross-validation"):
        rfsize.truncate(outputs, alpha=0.95)


def test_each_forest_has_blocks_of_its_own(data: Data) -> None:
    outputs = rfsize.tree_outputs(CLASSIFIERS["scikit-learn"], data.X, data.y, cv=3)
    blocks = outputs._evidence.blocks
    assert blocks.total.shape[1] == 3 * N_BLOCKS
    fold = np.zeros(len(data.y), dtype=int)
    for number, (_, held_out) in enumerate(StratifiedKFold(3).split(data.X, data.y)):
        fold[held_out] = number
    of_forest = blocks.asked[:, :, 0].reshape(-1, 3, N_BLOCKS).sum(axis=2)
    assert of_forest.tolist() == (12 * np.eye(3, dtype=int)[fold[blocks.rows]]).tolist()
    assert blocks.total.sum(axis=1) / 12 == pytest.approx(outputs.scores.mean[blocks.rows])
    assert blocks.counts.tolist() == outputs.votes.counts[blocks.rows].tolist()


def test_pickles_hold_what_is_said_of_the_training(data: Data) -> None:
    shared = clone(CLASSIFIERS["LightGBM"]).set_params(subsample_freq=2)
    with pytest.warns(rfsize.exceptions.SharedBagsWarning):
        outputs = rfsize.tree_outputs(shared, data.X, data.y, cv=2)
    slow = clone(CLASSIFIERS["XGBoost"]).set_params(learning_rate=0.3, base_score=0.4)
    with pytest.warns(rfsize.exceptions.ShrunkenScoresWarning):
        slow_outputs = rfsize.tree_outputs(slow, data.X, data.y, cv=2)
    for found, category in (
        (outputs, rfsize.exceptions.SharedBagsWarning),
        (slow_outputs, rfsize.exceptions.ShrunkenScoresWarning),
    ):
        with pytest.warns(category):
            expected = rfsize.size(found, alpha=0.8)
        with pytest.warns(category):
            report = rfsize.size(pickle.loads(pickle.dumps(found)), alpha=0.8)
        assert same(report.to_dict(), expected.to_dict())


def test_forests_without_bags_and_of_more_classes(data: Data) -> None:
    outputs = rfsize.tree_outputs(ExtraTreesClassifier(30, random_state=0), data.X, data.three, cv=5)
    assert np.mean(outputs.votes.winner() == data.three) > 0.55


def test_members_that_are_no_trees(data: Data) -> None:
    ensemble = BaggingClassifier(KNeighborsClassifier(), 12, random_state=0)
    outputs = rfsize.tree_outputs(ensemble, data.X[:300], data.y[:300], cv=3)
    assert (outputs.votes.asked == 12).all()
    held_out = cross_val_predict(ensemble, data.X[:300], data.y[:300], cv=3, method="predict_proba")
    np.testing.assert_allclose(outputs.scores.mean[:, 0], held_out[:, 1], atol=1e-12)
    assert rfsize.size(outputs, alpha=0.7).n_trees > 0


def test_a_class_that_a_forest_does_not_know(data: Data) -> None:
    y = np.where(np.arange(1500) < 10, 7, data.y)
    folds = [(np.arange(10, 1500), np.arange(10)), (np.arange(700), np.arange(700, 1500))]
    outputs = rfsize.tree_outputs(CLASSIFIERS["LightGBM"], data.X, y, cv=folds)
    assert outputs.classes.tolist() == [0, 1, 7]
    assert (outputs.votes.counts[:10, 2] == 0).all()
    assert outputs.votes.asked.tolist() == np.repeat([12, 0, 12], [10, 690, 800]).tolist()
    assert outputs.scores.asked.tolist() == np.repeat([0, 0, 12], [10, 690, 800]).tolist()


def test_threshold_moves_the_votes(estimator: Any, data: Data) -> None:
    low, high = (rfsize.tree_outputs(estimator, data.X, data.y, cv=3, threshold=threshold) for threshold in (0.2, 0.8))
    assert low.votes.counts[:, 1].sum() > 1.2 * high.votes.counts[:, 1].sum()
    assert low._evidence.predictor.threshold == pytest.approx(0.2)
    assert low.votes.threshold == 0.2


def test_weights_train_and_weigh(data: Data) -> None:
    weight = np.where(data.y == 1, 5.0, 1.0)
    plain = rfsize.tree_outputs(CLASSIFIERS["scikit-learn"], data.X, data.y, cv=3)
    outputs = rfsize.tree_outputs(CLASSIFIERS["scikit-learn"], data.X, data.y, cv=3, sample_weight=weight)
    assert outputs.votes.counts[:, 1].sum() > 1.2 * plain.votes.counts[:, 1].sum()
    assert outputs._evidence.sample_weight.tolist() == weight.tolist()


def test_a_splitter_and_folds_of_ones_own(estimator: Any, data: Data) -> None:
    splitter = KFold(3, shuffle=True, random_state=0)
    by_splitter = rfsize.tree_outputs(estimator, data.X, data.y, cv=splitter)
    folds = list(splitter.split(data.X))
    assert rfsize.tree_outputs(estimator, data.X, data.y, cv=folds).votes == by_splitter.votes
    rows = np.arange(1500)
    folds = [(rows[500:], rows[:400]), (rows[:1000], rows[:999:-1])]
    outputs = rfsize.tree_outputs(estimator, data.X, data.y, cv=iter(folds))
    assert (
        outputs.votes.asked.tolist()
        == outputs.scores.asked.tolist()
        == np.repeat([12, 0, 12], [400, 600, 500]).tolist()
    )


def test_rows_in_parts_are_scored_where_their_forest_scores_them(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many rows and classes a part is scored, which here are few."""
    whole = rfsize.tree_outputs(CLASSIFIERS["scikit-learn"], data.X, data.three, cv=4)
    monkeypatch.setattr("rfsize.counting.scores._HELD", 1000)
    outputs = rfsize.tree_outputs(CLASSIFIERS["scikit-learn"], data.X, data.three, cv=4)
    scored = np.arange(1500)[outputs._evidence.scored]
    assert 300 < len(scored) == len(outputs.scores) < 500
    assert outputs.scores.mean.tolist() == whole.scores.mean[scored].tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": 1}, "cv must be a whole number of at least 2"),
        ({"cv": 1501}, "n_splits=1501 greater than the number of samples"),
        ({"cv": True}, "cv must be"),
        ({"cv": 3, "threshold": 1.0}, "threshold must be"),
        ({"cv": []}, "no folds"),
        ({"cv": [(np.arange(10), np.arange(9, 20))]}, "hold out"),
        (
            {"cv": [(np.arange(10), np.arange(20, 30)), (np.arange(10), np.arange(25, 40))]},
            "hold out each row at most once",
        ),
        ({"cv": [(np.arange(10), np.array([1500]))]}, "from 0 to 1499"),
        ({"cv": [(np.arange(10), np.array([20, 20]))]}, "each once"),
        ({"cv": [(np.arange(10), np.zeros(1500, dtype=bool))]}, "row indices"),
    ],
)
def test_refusals(estimator: Any, data: Data, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rfsize.tree_outputs(estimator, data.X, data.y, **options)


@pytest.mark.filterwarnings("ignore:.*num_parallel_tree")
def test_other_models_and_parameters_are_refused(data: Data, lgb_booster: Any) -> None:
    with pytest.raises(ValueError, match="set num_parallel_tree"):
        rfsize.tree_outputs(XGBClassifier(n_estimators=1, subsample=0.6), data.X, data.y, cv=3)
    parameters = {**LIGHTGBM, "num_iterations": 15}
    for model in (lgb_booster, parameters, LogisticRegression(), rfsize.RightSizedClassifier(CLASSIFIERS["XGBoost"])):
        with pytest.raises(rfsize.exceptions.NotAForestError, match="cv trains a forest for each fold"):
            rfsize.tree_outputs(model, data.X, data.y, cv=3)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="boosted for 20 rounds"):
        rfsize.tree_outputs(XGBClassifier(n_estimators=20), data.X, data.y, cv=3)
    with pytest.raises(ValueError, match=r"threshold=0\.3 decides labels, and the forest predicts numbers"):
        rfsize.tree_outputs(RandomForestRegressor(5), data.X, data.X[:, 0], cv=3, threshold=0.3)


def test_rows_that_no_estimator_is_fitted_on_are_refused(data: Data) -> None:
    forest = CLASSIFIERS["scikit-learn"]
    with pytest.raises(ValueError, match="training requires y"):
        rfsize.tree_outputs(forest, data.X, cv=3)
    for X in (xgb.DMatrix(data.X), [lgb_sequence(data.X)]):
        with pytest.raises(ValueError, match=f"X is a {type(X).__name__}, and cv fits an estimator on rows in memory"):
            rfsize.tree_outputs(forest, X, data.y, cv=3)
    with pytest.raises(ValueError, match="one class only"):
        rfsize.tree_outputs(forest, data.X, np.zeros(1500), cv=3)
    with pytest.raises(ValueError, match="outside one fold all rows are of the class"):
        rfsize.tree_outputs(forest, data.X, np.arange(1500) < 100, cv=[(np.arange(200, 1500), np.arange(200))])


def lgb_sequence(X: np.ndarray) -> lgb.Sequence:
    class Rows(lgb.Sequence):
        batch_size = 100

        def __getitem__(self, index: Any) -> np.ndarray:
            return X[index]

        def __len__(self) -> int:
            return len(X)

    return Rows()
