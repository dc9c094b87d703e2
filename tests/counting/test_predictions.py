"""Out-of-bag predictions, next to scikit-learn's own and to plain loops over trees and rows."""

from __future__ import annotations

import ast
import pickle
import re
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import reference.groups
import reference.predictions
import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost
from helpers.lightgbm_forests import each_tree
from helpers.xgboost_forests import class_margins
from rfsize.models.bags import Layout
from rfsize.models.framework import read_forest

ROWS = 300
NAMES = np.array(["ash", "elm", "oak"])
# XGBoost adds its leaves in single precision.
SINGLE = 3e-6


@pytest.fixture
def weight() -> np.ndarray:
    return np.random.default_rng(1).integers(1, 4, ROWS).astype(float)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "kind",
    [
        RandomForestClassifier(60),
        RandomForestClassifier(60, max_samples=0.4, min_samples_leaf=4),
        ExtraTreesClassifier(60, bootstrap=True),
        BaggingClassifier(n_estimators=60),
        BaggingClassifier(n_estimators=60, max_samples=0.4, max_features=0.5),
    ],
    ids=repr,
)
def test_as_scikit_learn_classifiers(kind: Any, n_classes: int, data: Data, weight: np.ndarray) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS] if n_classes == 2 else NAMES[data.three[:ROWS]]
    for sample_weight in (None, weight):
        model = clone(kind).set_params(oob_score=True, random_state=2).fit(X, y, sample_weight=sample_weight)
        found = rfsize.oob_predict_proba(model, X)
        np.testing.assert_allclose(found, model.oob_decision_function_, atol=1e-12)
        assert np.mean(rfsize.oob_predict(model, X) == y) == model.oob_score_
        given = rfsize.tree_outputs(model, X, y, oob=True, sample_weight=sample_weight).predict_proba()
        np.testing.assert_array_equal(given, found)


@pytest.mark.parametrize(
    "kind",
    [
        RandomForestRegressor(60),
        RandomForestRegressor(60, max_samples=0.4),
        ExtraTreesRegressor(60, bootstrap=True),
        BaggingRegressor(n_estimators=60),
    ],
    ids=repr,
)
def test_as_scikit_learn_regressors(kind: Any, data: Data, weight: np.ndarray) -> None:
    X, y = data.X[:ROWS], data.X[:ROWS, 0] ** 2
    for sample_weight in (None, weight):
        model = clone(kind).set_params(oob_score=True, random_state=2).fit(X, y, sample_weight=sample_weight)
        np.testing.assert_allclose(rfsize.oob_predict(model, X), model.oob_prediction_, rtol=1e-12)


def test_members_that_answer_with_labels(data: Data) -> None:
    model = BaggingClassifier(Perceptron(), 40, oob_score=True, random_state=0).fit(data.X[:ROWS], data.three[:ROWS])
    found = rfsize.oob_predict_proba(model, data.X[:ROWS])
    np.testing.assert_allclose(found, model.oob_decision_function_, atol=1e-12)
    counted = rfsize.tree_outputs(model, data.X[:ROWS], oob=True)
    np.testing.assert_array_equal(counted.predict_proba(), found)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "member", [KNeighborsClassifier(), LogisticRegression(), GaussianNB(), lgb.LGBMClassifier(verbose=-1)]
)
def test_members_that_answer_with_probabilities(member: Any, n_classes: int, data: Data) -> None:
    y = data.y[:ROWS] if n_classes == 2 else np.array(["a", "b", "c"])[data.three[:ROWS]]
    model = BaggingClassifier(member, 40, max_features=0.7, oob_score=True, random_state=0).fit(data.X[:ROWS], y)
    found = rfsize.oob_predict_proba(model, data.X[:ROWS])
    np.testing.assert_allclose(found, model.oob_decision_function_, atol=1e-12)
    assert rfsize.oob_score(model, data.X[:ROWS], y, metric="accuracy").value == pytest.approx(model.oob_score_)
    fresh = rfsize.tree_outputs(model, data.fresh)
    of_classes = model.predict_proba(data.fresh)
    np.testing.assert_allclose(fresh.predict_proba(), of_classes, atol=1e-12)
    first, second = np.sort(of_classes, axis=1)[:, :-3:-1].T
    told_apart = first - second > 1e-12
    assert np.array_equal(fresh.predict()[told_apart], model.predict(data.fresh)[told_apart])
    alone = [
        one.predict_proba(data.fresh[:, columns]).argmax(axis=1)
        for one, columns in zip(model.estimators_, model.estimators_features_, strict=True)
    ]
    assert np.array_equal(fresh.by_tree(), np.stack(alone, axis=1))


def test_members_that_answer_with_numbers(data: Data) -> None:
    model = BaggingRegressor(KNeighborsRegressor(), 40, oob_score=True, random_state=0)
    model.fit(data.X[:ROWS], data.X[:ROWS, 0])
    np.testing.assert_allclose(rfsize.oob_predict(model, data.X[:ROWS]), model.oob_prediction_, atol=1e-12)
    found = rfsize.oob_score(model, data.X[:ROWS], data.X[:ROWS, 0], metric="r2")
    assert found.value == pytest.approx(model.oob_score_)


def test_members_that_know_some_of_the_classes(data: Data) -> None:
    """A bag may lack the rare class, whose probability is 0 then."""
    y = np.where(np.arange(ROWS) < 1, "rare", NAMES[data.y[:ROWS]])
    model = BaggingClassifier(KNeighborsClassifier(), 30, random_state=0).fit(data.X[:ROWS], y)
    assert len({len(one.classes_) for one in model.estimators_}) == 2
    found = rfsize.tree_outputs(model, data.fresh).predict_proba()
    np.testing.assert_allclose(found, model.predict_proba(data.fresh), atol=1e-12)


class Alone(ClassifierMixin, BaseEstimator):
    """A learner that knows two classes even where its bag has one, as boosting does."""

    def fit(self, X: Any, y: Any) -> Alone:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile([1.0, 0.0], (len(X), 1))

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), self.classes_[0])


def test_columns_beyond_the_classes_of_a_bag_are_left_out(data: Data) -> None:
    y = (np.arange(ROWS) == 0).astype(int)
    model = BaggingClassifier(Alone(), 20, random_state=0).fit(data.X[:ROWS], y)
    assert {len(one.classes_) for one in model.estimators_} == {1, 2}
    found = rfsize.tree_outputs(model, data.fresh).predict_proba()
    np.testing.assert_allclose(found, model.predict_proba(data.fresh), atol=1e-12)


def test_regressors_do_not_vote(data: Data) -> None:
    model = BaggingClassifier(Ridge(), 5, random_state=0).fit(data.X[:ROWS], data.y[:ROWS])
    with pytest.raises(ValueError, match=r"members of the ensemble predict -?0\.\d+ to .* not all indices"):
        rfsize.tree_outputs(model, data.fresh)


def test_bags_of_regressions_are_told(data: Data) -> None:
    model = BaggingRegressor(KNeighborsRegressor(), 10, random_state=0).fit(data.X[:ROWS], data.X[:ROWS, 0])
    expected = [np.isin(np.arange(ROWS), samples) for samples in model.estimators_samples_]
    assert np.array_equal(rfsize.inbag(model, data.X[:ROWS]), expected)


def test_members_are_asked_about_rows_out_of_their_bags_alone(data: Data) -> None:
    asked: list[int] = []

    class Counting(KNeighborsClassifier):
        def predict_proba(self, X: Any) -> Any:
            asked.append(len(X))
            return super().predict_proba(X)

    model = BaggingClassifier(Counting(), 10, random_state=0).fit(data.X[:ROWS], data.y[:ROWS])
    outputs = rfsize.tree_outputs(model, data.X[:ROWS], oob=True)
    assert sum(asked) == outputs.votes.asked.sum() == ROWS * 10 - rfsize.inbag(model, data.X[:ROWS]).sum()


def seen_by(model: Any, n_rows: int, sample_weight: Any = None) -> np.ndarray:
    """Whether each tree saw each row, (n_trees, n_rows, n_bags)."""
    bags = read_forest(model, casts_votes=False).bags(Layout.alone(n_rows), None, sample_weight, None, None)
    return bags.take(0, n_rows).transpose(1, 0, 2)


def own_predict(model: Any, X: np.ndarray) -> np.ndarray:
    import xgboost as xgb

    return np.asarray(model.predict(xgb.DMatrix(X)))


LINKS: dict[str, Any] = {
    "binary": expit,
    "multiclass": lambda score: softmax(score, axis=1),
    "multiclassova": expit,
    "regression": lambda score: score,
    "poisson": np.exp,
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", LINKS)
def test_lightgbm(objective: str, weighted: bool, data: Data, weight: np.ndarray) -> None:
    X = data.X[:ROWS]
    several = objective.startswith("multiclass")
    y = {"binary": data.y, "regression": data.X[:, 0], "poisson": data.three}.get(objective, data.three)[:ROWS]
    params = {"num_class": 3} if several else {}
    sample_weight = weight if weighted else None
    model = train_lightgbm(X, y, 40, {"weight": sample_weight}, objective=objective, **params)
    score = reference.predictions.mean_scores(each_tree(model, X), seen_by(model, ROWS))
    expected = LINKS[objective](score)
    if objective in ("regression", "poisson"):
        np.testing.assert_allclose(rfsize.oob_predict(model, X), expected[:, 0], rtol=1e-12)
        return
    found = rfsize.oob_predict_proba(model, X)
    np.testing.assert_allclose(found, expected if several else np.hstack([1.0 - expected, expected]), atol=1e-12)
    # As a Booster's own predict.
    np.testing.assert_array_equal(rfsize.oob_predict(model, X), found if several else found[:, 1])
    assert rfsize.oob_predict(model, X).shape == model.predict(X).shape
    if several:
        with pytest.raises(
            ValueError, match=r"^threshold=0\.2 is for forests that predict the probability of one class"
        ):
            rfsize.tree_outputs(model, X, oob=True, threshold=0.2)
    else:
        labels = rfsize.tree_outputs(model, X, oob=True, threshold=0.2).predict_labels()
        assert labels.tolist() == (found[:, 1] > 0.2).tolist()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_of_an_estimator(n_classes: int, data: Data) -> None:
    X, y = data.X[:ROWS], NAMES[(data.y if n_classes == 2 else data.three)[:ROWS]]
    settings = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "n_jobs": 1, "verbose": -1}
    model = lgb.LGBMClassifier(n_estimators=40, **settings).fit(X, y)
    found = rfsize.oob_predict_proba(model, X)
    assert rfsize.oob_predict(model, X).tolist() == model.classes_[found.argmax(axis=1)].tolist()
    if n_classes == 2:
        above = rfsize.tree_outputs(model, X, oob=True, threshold=0.2).predict()
        assert above.tolist() == model.classes_[(found[:, 1] > 0.2).astype(int)].tolist()


def test_labels_of_softmax(data: Data) -> None:
    model = train_xgboost(data.X, data.three, 40, objective="multi:softmax", num_class=3)
    with pytest.warns(rfsize.exceptions.NoVotesWarning):
        found, share = rfsize.oob_predict(model, data.X), rfsize.oob_predict_proba(model, data.X)
    known = ~np.isnan(share).any(axis=1)
    assert found.dtype == np.float64
    assert np.isnan(found).tolist() == (~known).tolist()
    assert found[known].tolist() == share[known].argmax(axis=1).tolist()


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NoVotesWarning")  # XGBoost puts two rows into every bag
@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob", "reg:squarederror", "count:poisson"])
def test_xgboost(objective: str, data: Data, weight: np.ndarray) -> None:
    import xgboost as xgb

    X = data.X[:ROWS]
    several, regression = objective.startswith("multi"), objective.startswith(("reg", "count"))
    y = (data.X[:, 0] if objective.startswith("reg") else data.three if not objective.startswith("bin") else data.y)[
        :ROWS
    ]
    params = {"num_class": 3} if several else {}
    settings = {"objective": objective, "num_parallel_tree": 40, "subsample": 0.6, "eta": 1, "max_depth": 4, "seed": 3}
    sample_weight = weight if objective == "reg:squarederror" else None
    model = xgb.train({**settings, **params}, xgb.DMatrix(X, y, weight=sample_weight), 1)
    score = margins(model, X, 3 if several else 1)
    seen = seen_by(model, ROWS, sample_weight)
    assert seen.shape[2] == (3 if several else 1)
    mean = reference.predictions.mean_scores(score, seen)
    if regression:
        found = rfsize.tree_outputs(model, X, oob=True, sample_weight=sample_weight).predict()
        link = np.exp if objective == "count:poisson" else np.asarray
        np.testing.assert_allclose(found, link(mean[:, 0]), rtol=SINGLE, atol=SINGLE)
        return
    expected = softmax(mean, axis=1) if several else np.hstack([expit(-mean), expit(mean)])
    found = rfsize.oob_predict_proba(model, X)
    np.testing.assert_allclose(found, expected, atol=SINGLE)
    assert np.isnan(found).any(axis=1).tolist() == seen.all(axis=0).any(axis=1).tolist()
    known = ~np.isnan(expected).any(axis=1)
    np.testing.assert_array_equal(rfsize.oob_predict(model, X), found if several else found[:, 1])
    filled = rfsize.oob_predict(model, X, fill=-1)
    assert filled.shape == own_predict(model, X).shape
    np.testing.assert_array_equal(filled.reshape(ROWS, -1)[:, -1], np.where(known, found[:, -1], -1.0))


def margins(model: Any, X: np.ndarray, n_classes: int) -> np.ndarray:
    """Margins by each tree alone, (n_trees, n_rows, n_scores)."""
    import xgboost as xgb

    if n_classes > 1:
        return class_margins(model, X, range(40))
    value = model.trees_to_dataframe().set_index(["Tree", "Node"])["Gain"].to_dict()
    leaf = model.predict(xgb.DMatrix(X), pred_leaf=True).astype(int)
    leaves = np.array([[value[tree, node] for tree, node in enumerate(row)] for row in leaf])
    base = np.mean(model.predict(xgb.DMatrix(X), output_margin=True) - leaves.sum(axis=1))
    return (base + leaves.shape[1] * leaves).T[:, :, None]


def test_groups(data: Data) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    group = (np.arange(ROWS) // 2).tolist()
    model = train_lightgbm(X, y, 60, bagging_fraction=0.4)
    seen = reference.groups.spread(seen_by(model, ROWS)[:, :, 0], group)[:, :, None]
    expected = expit(reference.predictions.mean_scores(each_tree(model, X), seen))[:, 0]
    found = rfsize.oob_predict_proba(model, X, groups=group)[:, 1]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert not np.allclose(found, rfsize.oob_predict_proba(model, X)[:, 1])


def test_what_was_counted_gives_the_same(lgb_booster: Any, xgb_multiclass: Any, data: Data) -> None:
    for model in (lgb_booster, xgb_multiclass):
        counted = rfsize.tree_outputs(model, data.X, oob=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rfsize.exceptions.NoVotesWarning)
            of_counted, of_model = counted.predict_proba(), rfsize.oob_predict_proba(model, data.X)
        np.testing.assert_array_equal(of_counted, of_model)
    numbers = RandomForestRegressor(30, random_state=0).fit(data.X, data.X[:, 0])
    counted = rfsize.tree_outputs(numbers, data.X, oob=True)
    np.testing.assert_array_equal(counted.predict(), rfsize.oob_predict(numbers, data.X))


def test_blocks_of_any_size_give_the_same(lgb_multiclass: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rfsize.oob_predict_proba(lgb_multiclass, data.X)
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 37 * 63)
    np.testing.assert_array_equal(rfsize.oob_predict_proba(lgb_multiclass, data.X), whole)


def test_rows_that_every_tree_saw(data: Data) -> None:
    X = data.X[:ROWS]
    model = RandomForestClassifier(3, random_state=0).fit(X, data.y[:ROWS])
    unasked = rfsize.inbag(model, X).all(axis=0)
    n_unasked = int(unasked.sum())
    with pytest.warns(
        rfsize.exceptions.NoVotesWarning, match=f"^{n_unasked} of the training rows have no out-of-bag tree"
    ) as caught:
        found = rfsize.oob_predict_proba(model, X)
    assert caught[0].filename == __file__
    assert np.isnan(found).all(axis=1).tolist() == unasked.tolist()
    with pytest.raises(rfsize.exceptions.FewVotesError, match=f"{n_unasked} of the training rows .* have no label"):
        rfsize.oob_predict(model, X)
    label = rfsize.oob_predict(model, X, fill=-1)
    assert label.tolist() == np.where(unasked, -1, found.argmax(axis=1)).tolist()
    numbers = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    with pytest.warns(rfsize.exceptions.NoVotesWarning):
        assert np.isnan(rfsize.oob_predict(numbers, X)).tolist() == unasked.tolist()
    assert (rfsize.oob_predict(numbers, X, fill=1e9) == 1e9).tolist() == unasked.tolist()
    for call in (rfsize.oob_predict, rfsize.oob_predict_proba):
        with pytest.raises(ValueError, match="fill must be"):
            call(numbers if call is rfsize.oob_predict else model, X, fill="none")


FILLS: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {
    "uint8": (np.array([0, 255], np.uint8), (0, -1, 300, 0.25), ("none", [1, 2])),
    "int64": (np.array([-1, 1]), (1, -2, 0.25), ("none",)),
    "bool": (np.array([False, True]), (True, -1), ("none",)),
    "words": (np.array(["no", "yes"]), ("no", "a long word"), (-1, b"no")),
    "objects": (np.array(["no", "yes"], dtype=object), ("no", "a long word", -1), ()),
}


@pytest.mark.parametrize("kind", FILLS)
@pytest.mark.filterwarnings("ignore")
def test_a_fill_is_what_you_gave(data: Data, kind: str) -> None:
    """Labels of any type stay as they are, and so does the fill; one of another kind is refused."""
    labels, fills, refused = FILLS[kind]
    X, y = data.X[:ROWS], labels[data.y[:ROWS]]
    model = RandomForestClassifier(3, random_state=0).fit(X, y)
    unasked = rfsize.inbag(model, X).all(axis=0)
    with pytest.raises(rfsize.exceptions.FewVotesError) as error:
        rfsize.oob_predict(model, X)
    advised = ast.literal_eval(re.search(r"fill=(\S+),", str(error.value))[1])
    assert advised not in labels.tolist()
    expected = np.where(unasked, None, rfsize.oob_predict(model, X, fill=labels[0]).astype(object))
    for fill in (*fills, advised):
        found = rfsize.oob_predict(model, X, fill=fill)
        assert found.tolist() == [fill if label is None else label for label in expected]
    for fill in refused:
        with pytest.raises(ValueError, match="fill must be"):
            rfsize.oob_predict(model, X, fill=fill)


def test_a_class_whose_trees_all_saw_the_row_leaves_none(data: Data) -> None:
    model = train_xgboost(data.X, data.three, 4, objective="multi:softprob", num_class=3)
    seen = seen_by(model, len(data.X))
    with pytest.warns(rfsize.exceptions.NoVotesWarning):
        found = rfsize.oob_predict_proba(model, data.X)
    assert np.isnan(found).any(axis=1).tolist() == seen.all(axis=0).any(axis=1).tolist()


def test_what_does_not_fit(lgb_booster: Any, data: Data) -> None:
    for predict in (rfsize.oob_predict, rfsize.oob_predict_proba):
        with pytest.raises(rfsize.exceptions.InbagError):
            predict(lgb_booster, data.X[::-1])
        with pytest.raises(rfsize.exceptions.NotAForestError):
            predict(lgb.train({"verbose": -1}, lgb.Dataset(data.X, data.y), 3), data.X)
    numbers = RandomForestRegressor(3).fit(data.X, data.X[:, 0])
    counted = rfsize.tree_outputs(numbers, data.X, oob=True)
    with pytest.raises(ValueError, match=r"predicts no probabilities"):
        counted.predict_proba()
    with pytest.raises(ValueError, match="the trees cannot be asked again"):
        pickle.loads(pickle.dumps(rfsize.tree_outputs(lgb_booster, data.X[:9]))).by_tree()


@pytest.mark.parametrize("kind", ["predict", "predict_proba", "predict_labels"])
def test_rows_that_are_given_are_predicted_by_all_trees(kind: str, lgb_booster: Any, data: Data) -> None:
    model = lgb.LGBMClassifier(
        n_estimators=30, boosting_type="rf", subsample=0.6, subsample_freq=1, n_jobs=1, verbose=-1
    ).fit(data.X, NAMES[data.y])
    own = model.predict_proba if kind == "predict_proba" else model.predict
    found = getattr(rfsize.tree_outputs(model, data.fresh), kind)()
    if kind == "predict_proba":
        np.testing.assert_allclose(found, own(data.fresh), rtol=1e-12)
    else:
        assert found.tolist() == own(data.fresh).tolist()
