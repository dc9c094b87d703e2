"""Training rows given as fresh ones are noticed; out-of-bag votes that do not stand for fresh rows are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import sklearn
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.fixes import parse_version
from xgboost import XGBClassifier

import reference.representative
import rfsize
from helpers.models import KINDS, LIGHTGBM, N_ROWS, NO_TREES, ONE_ROUND, TWO, WRAPPER, X, model
from helpers.warned import warned
from rfsize.exceptions import FewVotesError, ForestWarning, TrainingRowsWarning

# Their bags go by labels or weights.
UNTOLD = ("lightgbm pos/neg", "xgboost weights")


def is_noticed(trained: Any, rows: Any, *of_rows: Any) -> bool:
    caught = warned(lambda: rfsize.tree_outputs(trained, rows, *of_rows), TrainingRowsWarning)
    files = [warning.filename for warning in caught]
    assert files in ([], [__file__])
    return bool(files)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in (*NO_TREES, *UNTOLD)])
def test_training_rows_are_noticed(kind: str) -> None:
    forest = model(kind)
    assert is_noticed(forest.model, forest.X)
    assert not is_noticed(forest.model, forest.fresh)
    assert not is_noticed(forest.model, forest.X[::-1])
    assert not is_noticed(forest.model, forest.X[1:])


@pytest.mark.parametrize("seed", range(4))
def test_fresh_rows_on_which_single_precision_trees_hardly_differ_are_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 1000)
    rows = rng.normal(size=(1000, 8)) + 2.5 * np.eye(8)[y]
    leaves = {"max_depth": 0, "max_leaves": 63, "grow_policy": "lossguide", "min_child_weight": 0, "reg_lambda": 0}
    forest = XGBClassifier(**(ONE_ROUND | leaves | {"num_parallel_tree": 101, "seed": seed})).fit(rows[:300], y[:300])
    assert not is_noticed(forest, rows[300:])


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost softprob", "random forest", "random forest regressor"])
def test_rows_that_begin_with_training_rows(kind: str) -> None:
    forest = model(kind)
    goal: dict[str, Any] = {"metric": "scores", "tolerance": 1.0, "alpha": 0.9}
    for rows in (forest.X[:300], np.concatenate([forest.X, forest.fresh])):
        assert is_noticed(forest.model, rows)
        with pytest.raises(ValueError, match="X are"):
            rfsize.StopTable.calibrate(forest.model, rows, **goal)


@pytest.mark.parametrize(
    "trained",
    [
        lambda: lgb.train(LIGHTGBM | {"bagging_freq": 0, "bagging_fraction": 1.0}, lgb.Dataset(X, TWO), 20),
        lambda: XGBClassifier(**(ONE_ROUND | {"subsample": 1.0})).fit(X, TWO),
        lambda: ExtraTreesClassifier(20, random_state=0).fit(X, TWO),
    ],
    ids=["lightgbm", "xgboost", "extra-trees"],
)
def test_training_rows_without_bags_are_noticed(trained: Callable[[], Any]) -> None:
    assert is_noticed(trained(), X)
    assert not is_noticed(trained(), model("lightgbm").fresh)


def test_labels_and_weights_help() -> None:
    assert not is_noticed(model("lightgbm pos/neg").model, X)
    for kind in UNTOLD:
        forest = model(kind)
        with pytest.warns(TrainingRowsWarning):
            rfsize.tree_outputs(forest.model, X, TWO, sample_weight=forest.weight)
        assert not is_noticed(forest.model, forest.fresh, TWO[: len(forest.fresh)])


def test_fresh_rows_are_not_taken_for_training_rows() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(int(rng.integers(100, 800)), 5))
        y = (rows[:, 0] + rng.normal(size=len(rows)) > 0).astype(int)
        n_trees, fresh = int(rng.integers(2, 30)), rng.normal(size=(int(rng.integers(100, 900)), 5))
        for trained in (
            lgb.LGBMClassifier(**(WRAPPER | {"n_estimators": n_trees, "min_child_samples": 1})).fit(rows, y),
            XGBClassifier(**(ONE_ROUND | {"num_parallel_tree": n_trees})).fit(rows, y),
            RandomForestClassifier(n_trees, min_samples_leaf=int(rng.integers(1, 9)), random_state=seed).fit(rows, y),
        ):
            assert not is_noticed(trained, fresh)
            assert not is_noticed(trained, rows[::-1])


QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "size": lambda trained, rows: rfsize.size(trained, rows, alpha=0.8),
    "size of some rows": lambda trained, rows: rfsize.size(trained, rows, alpha=0.8, max_rows=200),
    "truncate": lambda trained, rows: rfsize.truncate(trained, rows, alpha=0.8),
}


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning")
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "random forest"])
def test_questions_about_training_rows_warn_once(kind: str, question: str) -> None:
    with pytest.warns(TrainingRowsWarning) as caught:
        result = QUESTIONS[question](model(kind).model, X)
    of_rows = [warning for warning in caught if warning.category is TrainingRowsWarning]
    assert len(of_rows) == 1
    reports = [result] if isinstance(result, rfsize.Report) else []
    assert [report.warnings[0].category for report in reports] == [TrainingRowsWarning] * len(reports)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning")
def test_size_of_outputs_repeats_no_warning() -> None:
    with pytest.warns(TrainingRowsWarning):
        outputs = rfsize.tree_outputs(model("lightgbm").model, X)
    assert not warned(lambda: rfsize.size(outputs, alpha=0.8), TrainingRowsWarning)
    assert rfsize.size(outputs, alpha=0.8).warnings[0].category is TrainingRowsWarning


# From 1.9 on, scikit-learn draws bags in proportion to class weights.
draws_by_weight = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="scikit-learn draws bags by weight since 1.9"
)


def rare(share: float) -> np.ndarray:
    """Labels of which so many are 1."""
    signal = X[:, 0] + X[:, 1] * X[:, 2]
    return (signal > np.quantile(signal, 1.0 - share)).astype(int)


@pytest.fixture(scope="module")
def uneven() -> tuple[Any, np.ndarray]:
    """A forest whose bags hold nearly every row of the rare class, and its labels."""
    y = rare(0.08)
    return RandomForestClassifier(80, min_samples_leaf=3, class_weight="balanced", random_state=0).fit(X, y), y


READERS: dict[str, Callable[[Any, Any], Any]] = {
    "size without y": lambda forest, y: rfsize.size(forest, X, oob=True),
    "size by auc": lambda forest, y: rfsize.size(forest, X, y, oob=True, metric="auc", tolerance=0.01),
    "size of votes": lambda forest, y: rfsize.size(rfsize.tree_outputs(forest, X, y, oob=True).votes),
    "stop table": lambda forest, y: rfsize.StopTable.build(80, prior=rfsize.tree_outputs(forest, X, y, oob=True)),
    "score": lambda forest, y: rfsize.oob_score(forest, X, y),
    "grow": lambda forest, y: rfsize.grow(forest, X, y, max_trees=200),
}


@draws_by_weight
@pytest.mark.parametrize("reader", READERS)
def test_uneven_bags_are_refused(reader: str, uneven: tuple[Any, np.ndarray]) -> None:
    with pytest.raises(FewVotesError):
        READERS[reader](*uneven)


@draws_by_weight
def test_predictions_by_uneven_bags_warn(uneven: tuple[Any, np.ndarray]) -> None:
    forest, y = uneven
    with pytest.warns(ForestWarning, match="class 1"):
        rfsize.oob_predict_proba(forest, X, y)
    with pytest.warns(ForestWarning, match="class 1"):
        rfsize.tree_outputs(forest, X, y, oob=True).predict(fill=0)


RARE, UNCOMMON = rare(0.1), rare(0.2)
BAGGING = BaggingClassifier(DecisionTreeClassifier(max_depth=4), 60, random_state=0)
FRACTIONS = LIGHTGBM | {"pos_bagging_fraction": 0.95, "neg_bagging_fraction": 0.3}
HALF = RandomForestClassifier(60, random_state=0, max_samples=0.5)
LARGE_GROUPS = np.where(UNCOMMON == 1, np.arange(N_ROWS) // 20, 1000 + np.arange(N_ROWS))
OTHERS: dict[str, Callable[[], Any]] = {
    "bagging": lambda: rfsize.oob_score(BAGGING.fit(X, RARE, sample_weight=1.0 + 8.0 * RARE), X, RARE),
    "a fraction for each class": lambda: rfsize.size(lgb.train(FRACTIONS, lgb.Dataset(X, RARE), 60), X, RARE, oob=True),
    "large groups": lambda: rfsize.oob_score(HALF.fit(X, UNCOMMON), X, UNCOMMON, groups=LARGE_GROUPS),
}


@draws_by_weight
@pytest.mark.parametrize("case", OTHERS)
def test_other_uneven_bags_are_refused(case: str) -> None:
    with pytest.raises(FewVotesError):
        OTHERS[case]()


@pytest.mark.parametrize("class_weight", [None, "balanced_subsample"])
def test_even_bags_of_a_rare_class_are_read(class_weight: str | None) -> None:
    y = rare(0.08)
    forest = RandomForestClassifier(80, min_samples_leaf=3, class_weight=class_weight, random_state=0).fit(X, y)
    assert rfsize.size(forest, X, y, oob=True, alpha=0.9).estimate.n_dropped == 0
    assert rfsize.oob_score(forest, X, y, metric="auc").n_rows == N_ROWS


@draws_by_weight
def test_uneven_rows_with_votes_are_sized_by_strata() -> None:
    y = rare(0.3)
    forest = RandomForestClassifier(150, min_samples_leaf=3, class_weight="balanced", random_state=0).fit(X, y)
    votes = rfsize.tree_outputs(forest, X, oob=True).votes
    report = rfsize.size(forest, X, y, oob=True, alpha=0.9, voting="hard")
    strata = [list(rows) for rows in reference.representative.strata(votes.n_votes.tolist(), 50)]
    assert len(strata) > 1
    parts = [(len(rows), rfsize.size(votes.take(rows), alpha=0.9)) for rows in strata]
    for n_trees in (5, 51):
        expected = sum(n_rows * part.loss_at(n_trees).value for n_rows, part in parts) / N_ROWS
        assert report.loss_at(n_trees).value == pytest.approx(expected)


def test_votes_out_of_bag_need_the_number_of_trees() -> None:
    """As many as the most asked row has are too few, though their bags were drawn evenly."""
    votes = rfsize.tree_outputs(RandomForestClassifier(80, random_state=0).fit(X, TWO), X, oob=True).votes
    unknown = rfsize.Votes(votes.counts)
    for read in (rfsize.size, lambda votes: rfsize.StopTable.build(80, prior=votes)):
        for given in (unknown, unknown.take(slice(100))):
            with pytest.raises(ValueError, match="n_trees="):
                read(given)
        read(rfsize.Votes(votes.counts, n_trees=80).take(slice(100)))


@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_few_votes_are_refused_and_enough_trees_named(metric: str) -> None:
    forest, groups = RandomForestClassifier(15, random_state=0), np.arange(N_ROWS) // 2
    for options in ({}, {"groups": groups}):
        with pytest.raises(FewVotesError) as refused:
            rfsize.oob_score(forest.set_params(n_estimators=15).fit(X, TWO), X, TWO, metric=metric, **options)
        forest.set_params(n_estimators=refused.value.enough).fit(X, TWO)
        assert rfsize.oob_score(forest, X, TWO, metric=metric, **options).votes_per_row >= 10
