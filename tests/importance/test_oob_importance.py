"""Importances next to framework predictions on permuted rows, and to scikit-learn's on fresh rows."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from scipy.sparse import csr_matrix
from scipy.special import expit, softmax
from scipy.stats import spearmanr
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.inspection import permutation_importance
from sklearn.metrics import log_loss, make_scorer, roc_auc_score, root_mean_squared_error
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import reference.importances as naive
import rfsize
from helpers.compiled_forests import tree_scores
from helpers.forests import Data, only_tree, predict, train_lightgbm, train_xgboost
from rfsize.importance import permuted
from rfsize.importance.importances import Importances

ALONE = [[column] for column in range(8)]


def values(importances: Importances, names: list[str] | None = None) -> np.ndarray:
    """Those of all columns in their own order."""
    return np.array([importances[name].value for name in names or [f"x{column}" for column in range(8)]])


def bags_of(model: Any, X: Any) -> np.ndarray:
    """In-bag masks of trees, (n_trees, n_rows)."""
    return rfsize.tree_outputs(model, X, oob=True, groups="rows")._evidence.asked_again.seen()[:, :, 0].T


def wrong(predicted: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((predicted > 0.5) != y).astype(float)


def squared(predicted: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (predicted - y) ** 2


def one_tree(model: Any, tree: int, X: Any) -> np.ndarray:
    """What one tree of a booster predicts by the framework."""
    if isinstance(model, lgb.Booster):
        return model.predict(X, start_iteration=tree, num_iteration=1)
    return predict(alone(model, tree), X)


alone = cache(only_tree)


class TestTreeByTree:
    @pytest.mark.parametrize(("metric", "loss"), [(None, wrong), ("brier", squared)])
    def test_two_classes(self, booster: Any, data: Data, metric: str | None, loss: Any) -> None:
        found = rfsize.oob_importance(booster, data.X, data.y, metric=metric)
        bags = rfsize.inbag(booster, data.X)
        by_tree = naive.of_trees(lambda tree, X: one_tree(booster, tree, X), loss, data.X, data.y, bags, ALONE)
        assert found.of == "trees"
        assert values(found) == pytest.approx(by_tree.mean(axis=0), abs=1e-6)
        assert np.sqrt(found._measured.of_trees) == pytest.approx(by_tree.std(axis=0, ddof=1) / len(bags) ** 0.5, 1e-3)

    def test_several_classes_of_one_tree(self, data: Data) -> None:
        forest = RandomForestClassifier(31, min_samples_leaf=5, random_state=0).fit(data.X, data.three)
        found = rfsize.oob_importance(forest, data.X, data.three)
        bags = rfsize.inbag(forest, data.X)

        def label(tree: int, X: Any) -> np.ndarray:
            return forest.estimators_[tree].predict(X)

        by_tree = naive.of_trees(label, lambda one, y: (one != y).astype(float), data.X, data.three, bags, ALONE)
        assert values(found) == pytest.approx(by_tree.mean(axis=0), abs=1e-12)
        right = [np.mean(label(tree, data.X[~seen]) == data.three[~seen]) for tree, seen in enumerate(bags)]
        assert found.score == pytest.approx(np.mean(right))

    @pytest.mark.parametrize("metric", ["r2", "mae"])
    def test_numbers(self, framework: str, data: Data, metric: str) -> None:
        y = data.X[:, 0] * 3.0 + data.y
        train, objective = (
            (train_lightgbm, "regression") if framework == "lightgbm" else (train_xgboost, "reg:squarederror")
        )
        model = train(data.X, y, objective=objective)
        found = rfsize.oob_importance(model, data.X, y, metric=metric)

        def loss(predicted: np.ndarray, y_of: np.ndarray) -> np.ndarray:
            return (predicted - y_of) ** 2 / y.var() if metric == "r2" else np.abs(predicted - y_of)

        bags = bags_of(model, data.X)
        by_tree = naive.of_trees(lambda tree, X: one_tree(model, tree, X), loss, data.X, y, bags, ALONE)
        assert values(found) == pytest.approx(by_tree.mean(axis=0), abs=1e-5)
        assert found.columns[0].name == "x0"

    def test_weights(self, data: Data) -> None:
        forest = RandomForestRegressor(31, min_samples_leaf=5, random_state=0).fit(data.X[:300], data.X[:300, 0])
        weight = np.random.default_rng(0).integers(1, 4, 300).astype(float)
        y = data.X[:300, 0]
        outputs = rfsize.tree_outputs(forest, data.X[:300], oob=True).with_truth(y, weight)
        found = rfsize.oob_importance(outputs, metric="mae", columns=[0, 1])

        def number(tree: int, X: Any) -> np.ndarray:
            return forest.estimators_[tree].predict(X)

        bags = bags_of(forest, data.X[:300])
        sets = [[0], [1]]
        by_tree = naive.of_trees(number, lambda one, y: np.abs(one - y), data.X[:300], y, bags, sets, weight)
        assert values(found, ["x0", "x1"]) == pytest.approx(by_tree.mean(axis=0))

    def test_missing_values_categories_and_sets(self, framework: str, data: Data) -> None:
        rng = np.random.default_rng(4)
        numbers = data.X[:, :4].copy()
        numbers[rng.random(numbers.shape) < 0.2] = np.nan
        X = pd.DataFrame(numbers, columns=["a", "b", "c", "d"])
        X["kind"] = pd.Categorical(rng.integers(0, 12, len(X)))
        y = ((data.X[:, 0] + X["kind"].cat.codes % 3 + rng.normal(size=len(X))) > 1).astype(int).to_numpy()
        model = (train_lightgbm if framework == "lightgbm" else train_xgboost)(X, y)
        sets = {"pair": ["a", "kind"], "b": "b", "rest": ["c", "d"]}
        found = rfsize.oob_importance(model, X, y, columns=sets)
        by_tree = naive.of_trees(
            lambda tree, some: one_tree(model, tree, some), wrong, X, y, rfsize.inbag(model, X), [[0, 4], [1], [2, 3]]
        )
        assert values(found, list(sets)) == pytest.approx(by_tree.mean(axis=0), abs=1e-12)

    def test_trees_of_some_columns(self, data: Data) -> None:
        X, y = data.X[:400], data.y[:400]
        trees = DecisionTreeClassifier(max_depth=4)
        bagging = BaggingClassifier(trees, 31, max_features=0.5, random_state=0).fit(X, y)

        def label(tree: int, rows: Any) -> np.ndarray:
            return bagging.estimators_[tree].predict(rows[:, bagging.estimators_features_[tree]])

        by_tree = naive.of_trees(label, wrong, X, y, bags_of(bagging, X), ALONE)
        assert values(rfsize.oob_importance(bagging, X, y)) == pytest.approx(by_tree.mean(axis=0), abs=1e-12)

    def test_sparse_rows(self, data: Data) -> None:
        X = np.where(data.X[:500] > 0.0, data.X[:500], 0.0)
        model = train_lightgbm(csr_matrix(X), data.y[:500])
        sparse, dense = (rfsize.oob_importance(model, rows, data.y[:500]) for rows in (csr_matrix(X), X))
        assert sparse.columns == dense.columns

    def test_groups_are_out_of_bag_together_and_one_draw(self, data: Data) -> None:
        X, y = data.X[:400], data.y[:400]
        forest = RandomForestClassifier(90, random_state=0).fit(X, y)
        patient = np.arange(400) // 2
        found, alone = (rfsize.oob_importance(forest, X, y, groups=groups) for groups in (patient, "rows"))
        bags = rfsize.inbag(forest, X)
        seen = (bags.reshape(90, 200, 2).any(axis=2)).repeat(2, axis=1)
        by_tree = naive.of_trees(lambda tree, X: forest.estimators_[tree].predict(X), wrong, X, y, seen, ALONE)
        assert values(found) == pytest.approx(by_tree.mean(axis=0), abs=1e-12)
        assert found.votes_per_row < 0.7 * alone.votes_per_row


class TestWholeForest:
    @pytest.mark.parametrize("metric", ["auc", "log_loss", "scorer"])
    def test_two_classes(self, booster: Any, data: Data, metric: str) -> None:
        scorer = make_scorer(roc_auc_score, response_method="predict_proba")
        found = rfsize.oob_importance(booster, data.X, data.y, metric=scorer if metric == "scorer" else metric)
        seen = rfsize.inbag(booster, data.X).T[:, :, None]

        def worse(y: np.ndarray, mean: np.ndarray) -> float:
            return log_loss(y, expit(mean[:, 0])) if metric == "log_loss" else -roc_auc_score(y, mean[:, 0])

        lost = naive.of_forest(lambda X: tree_scores(booster, X), worse, data.X, data.y, seen, ALONE)
        assert found.of == "forest"
        assert values(found) == pytest.approx(lost, abs=1e-5)

    def test_classes_with_trees_of_their_own(self, framework: str, data: Data) -> None:
        if framework == "lightgbm":
            model = train_lightgbm(data.X, data.three, 31, objective="multiclass", num_class=3)
        else:
            model = train_xgboost(data.X, data.three, 31, objective="multi:softprob", num_class=3)
        outputs = rfsize.tree_outputs(model, data.X, data.three, oob=True)
        found = rfsize.oob_importance(outputs)
        seen = outputs._evidence.asked_again.seen()

        def worse(y: np.ndarray, mean: np.ndarray) -> float:
            return float(np.mean(softmax(mean, axis=1).argmax(axis=1) != y))

        lost = naive.of_forest(lambda X: tree_scores(model, X), worse, data.X, data.three, seen, ALONE)
        assert found.of == "forest"
        assert values(found) == pytest.approx(lost, abs=1e-12)

    def test_numbers(self, data: Data) -> None:
        y = data.X[:, 0] + data.y
        forest = RandomForestRegressor(30, min_samples_leaf=4, random_state=0).fit(data.X, y)
        found = rfsize.oob_importance(forest, data.X, y, metric="rmse")
        seen = bags_of(forest, data.X).T[:, :, None]

        def worse(y: np.ndarray, mean: np.ndarray) -> float:
            return root_mean_squared_error(y, mean[:, 0])

        lost = naive.of_forest(lambda X: tree_scores(forest, X), worse, data.X, y, seen, ALONE)
        assert values(found) == pytest.approx(lost)


def test_near_what_scikit_learn_finds_on_fresh_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = X @ np.array([4.0, 3.0, 2.0, 1.0, 0.0, 0.0]) + rng.normal(size=3000)
    forest = RandomForestRegressor(100, min_samples_leaf=5, random_state=0).fit(X[:1000], y[:1000])
    theirs = permutation_importance(forest, X[1000:], y[1000:], n_repeats=5, random_state=0).importances_mean
    ours = rfsize.oob_importance(forest, X[:1000], y[:1000], metric="rmse")
    ranks = values(ours, [f"x{column}" for column in range(6)])
    assert spearmanr(ranks[:4], theirs[:4]).statistic == 1.0
    by_tree = rfsize.oob_importance(forest, X[:1000], y[:1000])
    for column in range(4):
        # A row may ask a third of the trees, and single trees lean on a column somewhat otherwise than all do.
        assert by_tree[f"x{column}"].value == pytest.approx(theirs[column], rel=0.25)
        assert not by_tree[f"x{column}"].is_noise
    assert [by_tree[name].rank for name in ("x0", "x1", "x2", "x3")] == [1, 2, 3, 4]


@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_nothing_depends_on_threads_or_parts(
    booster: Any, data: Data, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = rfsize.tree_outputs(booster, data.X, data.y, oob=True)
    found = []
    for threads, cells in ((1, 1 << 24), (3, 1 << 24), (2, 1)):
        monkeypatch.setattr(permuted, "effective_threads", lambda _, threads=threads: threads)
        monkeypatch.setattr(permuted, "_CELLS", cells)
        found.append(rfsize.oob_importance(outputs, metric=metric))
    assert found[0].columns == found[1].columns == found[2].columns


def test_columns_that_no_tree_tests_lose_nothing(data: Data) -> None:
    X = np.column_stack([data.X[:500, :2], np.zeros(500)])
    forest = RandomForestClassifier(40, max_depth=3, random_state=0).fit(X, data.y[:500])
    none = rfsize.oob_importance(forest, X, data.y[:500])["x2"]
    assert (none.value, none.interval, none.is_noise) == (0.0, (0.0, 0.0), True)


def test_intervals_and_ranks_hold_the_truth_and_noise_is_called_so() -> None:
    rng = np.random.default_rng(5)
    slopes = np.array([2.0, 1.0, 0.5, 0.0, 0.0, 0.0])
    told, of_noise, first = [], [], []
    for seed in range(12):
        X = rng.normal(size=(400, 6))
        y = X @ slopes + rng.normal(size=400)
        forest = RandomForestRegressor(60, min_samples_leaf=5, random_state=seed).fit(X, y)
        found = rfsize.oob_importance(forest, X, y)
        told += [not found[f"x{column}"].is_noise for column in range(3)]
        of_noise += [found[f"x{column}"].is_noise for column in range(3, 6)]
        first.append(found["x0"].rank_interval == (1, 1))
        assert all(one.rank_interval[0] <= one.rank <= one.rank_interval[1] for one in found.columns)
    assert np.mean(told) > 0.9
    assert np.mean(of_noise) > 0.8
    assert np.mean(first) > 0.9


@pytest.fixture(scope="module")
def found(data: Data) -> Importances:
    """Of columns that have names."""
    X = pd.DataFrame(data.X[:500], columns=list("abcdefgh"))
    forest = RandomForestClassifier(60, random_state=0).fit(X, data.y[:500])
    return rfsize.oob_importance(forest, X, data.y[:500])


@pytest.fixture(scope="module")
def forest(data: Data) -> RandomForestClassifier:
    return RandomForestClassifier(40, random_state=0).fit(data.X[:300], data.y[:300])


class TestNoiseOfRows:
    def test_tree_by_tree(self, data: Data) -> None:
        X, y = data.X[:200], data.y[:200]
        forest = RandomForestClassifier(31, max_depth=4, random_state=0).fit(X, y)
        found = rfsize.oob_importance(forest, X, y, columns=["x3", "x0"])
        for place, column in enumerate((3, 0)):
            pairs = []
            for tree, seen in enumerate(bags_of(forest, X)):
                rows = np.flatnonzero(~seen)
                predict_one = forest.estimators_[tree].predict
                after = predict_one(naive.permuted(X, rows, [column], tree, 2, place)) != y[rows]
                added = (after.astype(float) - (predict_one(X[rows]) != y[rows])) / (31 * len(rows))
                pairs.append(list(zip(rows, naive.donors(rows, tree, 2, place), added, strict=True)))
            own = sum(added**2 for tree in pairs for _, _, added in tree)
            expected = max(naive.noise_of_pairs(pairs, 200) - own, 0.0)
            assert found._measured.of_rows[place] == pytest.approx(expected)

    def test_of_the_whole_forest(self, data: Data) -> None:
        X, y = data.X[:300], data.X[:300, 0] + data.y[:300]
        forest = RandomForestRegressor(60, min_samples_leaf=4, random_state=0).fit(X, y)
        weightless = make_scorer(root_mean_squared_error, greater_is_better=False)
        scores = {}
        for name, metric in (("rmse", "rmse"), ("scorer", weightless)):
            scores[name] = np.sqrt(rfsize.oob_importance(forest, X, y, metric=metric, columns=["x0"])._measured.of_rows)
        every = np.arange(300)
        asked = ~rfsize.tree_outputs(forest, X, oob=True)._evidence.asked_again.seen()[:, :, 0]

        def mean(rows: np.ndarray) -> np.ndarray:
            return (tree_scores(forest, rows)[:, :, 0] * asked).sum(axis=1) / asked.sum(axis=1)

        before, after = ((mean(rows) - y) ** 2 for rows in (X, naive.permuted(X, every, [0], 0, 1, 0)))
        added = [(one - one.mean()) / (2.0 * np.sqrt(one.mean()) * 300) for one in (before, after)]
        pairs = [list(zip(every, naive.donors(every, 0, 1, 0), added[1] - added[0], strict=True))]
        assert scores["rmse"][0] == pytest.approx(np.sqrt(naive.noise_of_pairs(pairs, 300)))
        # A scorer is tried without parts of the rows, which tells nothing of the donors.
        assert 0.3 < scores["scorer"][0] / scores["rmse"][0] < 2.0


class TestResult:
    def test_names_and_order(self, found: Importances) -> None:
        assert sorted(one.name for one in found.columns) == list("abcdefgh")
        assert [one.rank for one in found.columns] == list(range(1, 9))
        assert list(pd.DataFrame(found.columns)["value"]) == sorted((one.value for one in found.columns), reverse=True)
        with pytest.raises(KeyError, match="'z' was not permuted"):
            found["z"]

    def test_names_are_those_of_the_rows(self, data: Data) -> None:
        X = pd.DataFrame(data.X[:500], columns=[f"column {number}" for number in range(8)])
        model = train_lightgbm(X, data.y[:500])
        found = rfsize.oob_importance(model, X[X.columns[::-1]], data.y[:500], columns=["column 0", "column 5"])
        assert sorted(one.name for one in found.columns) == ["column 0", "column 5"]
        as_array = rfsize.oob_importance(model, data.X[:500], data.y[:500], columns=[0, 5])
        assert found["column 0"].value == as_array["column_0"].value

    def test_it_prints(self, found: Importances) -> None:
        first, _, *rows = str(found).splitlines()
        assert first.startswith("out of bag, the accuracy of a tree on average is 0.")
        assert rows[0].split()[0] == found.columns[0].name
        assert f"{sum(not one.is_noise for one in found.columns)} of 8 columns matter beyond noise" in str(found)
        assert rows[-1].startswith("from 500 out-of-bag rows")
        assert [row[0] == "~" for row in rows[:8]] == [one.is_noise for one in found.columns]

    def test_it_is_plain_and_drawn(self, found: Importances) -> None:
        plain = json.loads(json.dumps(found.to_dict()))
        assert plain["columns"][0]["name"] == found.columns[0].name
        assert plain["of"] == "trees"
        ax = found.plot()
        assert [label.get_text() for label in ax.get_yticklabels()] == [one.name for one in found.columns]
        faint = {bar.get_alpha() for bar in ax.patches}
        assert faint == ({0.9, 0.3} if any(one.is_noise for one in found.columns) else {0.9})
        assert "beyond noise" in found._repr_html_()


class TestRefusals:
    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (["x8"], "columns has 'x8', which is no column"),
            ([8], "columns has 8, which is no column: the forest has 8 columns, 'x0' to 'x7'"),
            ([-1], "columns has -1, which is no column"),
            ([True], "columns has True, which is no column"),
            (["x0", 0], "columns names the same column twice"),
            ({"a": [0, 1], "b": [1]}, "column 'x1' is in two sets, 'a' and 'b'"),
            ({"a": []}, "columns has a set 'a' that is empty"),
            ([], "columns names nothing to shuffle"),
        ],
    )
    def test_columns(self, forest: Any, data: Data, columns: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            rfsize.oob_importance(forest, data.X[:300], data.y[:300], columns=columns)

    def test_truth(self, forest: Any, data: Data) -> None:
        with pytest.raises(ValueError, match="y is missing"):
            rfsize.oob_importance(forest, data.X[:300])
        regressor = RandomForestRegressor(40, random_state=0).fit(data.X[:300], data.X[:300, 0])
        y = data.X[:300, 0].copy()
        y[3] = np.nan
        with pytest.raises(ValueError, match="y must hold one finite number per row"):
            rfsize.oob_importance(regressor, data.X[:300], y)
        with pytest.raises(ValueError, match="metric"):
            rfsize.oob_importance(regressor, data.X[:300], data.X[:300, 0], metric="accuracy")

    def test_rows(self, forest: Any, data: Data) -> None:
        with pytest.raises(rfsize.exceptions.InbagError):
            rfsize.oob_importance(forest, data.X[300:600], data.y[300:600])
        fresh = rfsize.tree_outputs(forest, data.X[300:600], data.y[300:600])
        with pytest.raises(ValueError, match="these outputs are of rows given"):
            rfsize.oob_importance(fresh)

    def test_forests(self, forest: Any, data: Data) -> None:
        X, y = data.X[:300], data.y[:300]
        few = RandomForestClassifier(12, random_state=0).fit(X, y)
        with pytest.raises(rfsize.exceptions.FewVotesError):
            rfsize.oob_importance(few, X, y)
        neighbours = BaggingClassifier(KNeighborsClassifier(), 40, random_state=0).fit(X, y)
        with pytest.raises(rfsize.exceptions.NotAForestError):
            rfsize.oob_importance(neighbours, X, y)
        small, _ = rfsize.shrink(forest, data.X[300:1200], n_trees=20)
        with pytest.raises(rfsize.exceptions.NotAForestError, match=r"rfsize\.shrink made this model"):
            rfsize.oob_importance(small, X, y)

    def test_a_callable_that_does_not_say_what_is_better(self, forest: Any, data: Data) -> None:
        with pytest.raises(ValueError, match="does not say whether larger values are better"):
            rfsize.oob_importance(forest, data.X[:300], data.y[:300], metric=lambda y, p: float(np.mean(p)))


def test_the_model_stays_as_it_is(data: Data) -> None:
    booster = train_xgboost(data.X, data.y)
    before = booster.predict(xgb.DMatrix(data.X))
    rows = data.X.copy()
    rfsize.oob_importance(booster, rows, data.y)
    assert np.array_equal(rows, data.X)
    assert np.array_equal(booster.predict(xgb.DMatrix(data.X)), before)
