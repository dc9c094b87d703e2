"""Out-of-bag votes are read where they stand for those on fresh rows, and refused by whatever reads them elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.fixes import parse_version

import reference.representative
import rfsize
from helpers.reports import agreement
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.groups import Groups
from rfsize.counting.representative import Kinds, RowsAsked
from rfsize.models.framework import read_forest

# Before, bags were drawn evenly whatever the weights.
draws_by_weight = pytest.mark.skipif(parse_version(sklearn.__version__) < parse_version("1.9"), reason="even bags")
N_ROWS = 500
UNEVEN = r"the 40 rows of class 1 have 0\.\d out-of-bag votes on average.* not drawn evenly.*'balanced_subsample'"


def rare(share: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which so many are of class 1."""
    X = np.random.default_rng(4).normal(size=(N_ROWS, 5))
    signal = X[:, 0] + X[:, 1] * X[:, 2]
    return X, (signal > np.quantile(signal, 1.0 - share)).astype(int)


@pytest.fixture(scope="module")
def forest() -> tuple[Any, np.ndarray, np.ndarray]:
    """One whose bags hold nearly every row of the rare class."""
    X, y = rare(0.08)
    weighted = RandomForestClassifier(80, min_samples_leaf=3, class_weight="balanced", random_state=0)
    return weighted.fit(X, y), X, y


READERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "size": lambda model, X, y: rfsize.size(model, X, y, oob=True),
    "size by probability": lambda model, X, y: rfsize.size(
        model, X, y, oob=True, metric="probabilities", tolerance=0.1
    ),
    "size by auc": lambda model, X, y: rfsize.size(model, X, y, oob=True, metric="auc", tolerance=0.01),
    "what was counted": lambda model, X, y: rfsize.size(rfsize.tree_outputs(model, X, y, oob=True)),
    "build": lambda model, X, y: rfsize.StopTable.build(80, prior=rfsize.tree_outputs(model, X, y, oob=True)),
    "truncate": lambda model, X, y: rfsize.truncate(model, X, y, oob=True),
    "accuracy": lambda model, X, y: rfsize.oob_score(model, X, y),
    "auc": lambda model, X, y: rfsize.oob_score(rfsize.tree_outputs(model, X, y, oob=True), metric="auc"),
    "grow": lambda model, X, y: rfsize.grow(model, X, y, max_trees=200)[0],
}


@draws_by_weight
@pytest.mark.parametrize("reader", READERS)
def test_bags_drawn_by_class_weight_are_refused(reader: str, forest: tuple[Any, np.ndarray, np.ndarray]) -> None:
    with pytest.raises(rfsize.exceptions.FewVotesError, match=UNEVEN):
        READERS[reader](*forest)


@draws_by_weight
def test_labels_that_are_not_known_are_those_of_all_trees(forest: tuple[Any, np.ndarray, np.ndarray]) -> None:
    model, X, _ = forest
    with pytest.raises(
        rfsize.exceptions.FewVotesError, match=r"rows that the forest gives class 1 have \d+\.\d out-of-bag votes"
    ):
        rfsize.size(model, X, oob=True)
    with pytest.raises(
        rfsize.exceptions.FewVotesError, match=r"rows \(\d\.\d+ %\) have no out-of-bag votes, and not by"
    ):
        rfsize.size(rfsize.tree_outputs(model, X, oob=True).votes)
    with pytest.raises(rfsize.exceptions.FewVotesError, match="cannot tell where voting may stop"):
        rfsize.StopTable.build(80, prior=rfsize.tree_outputs(model, X, oob=True).votes)


@draws_by_weight
def test_predictions_say_what_a_score_of_them_would_not_tell(forest: tuple[Any, np.ndarray, np.ndarray]) -> None:
    model, X, y = forest
    with pytest.warns(rfsize.exceptions.NoVotesWarning, match=UNEVEN):
        rfsize.oob_predict_proba(model, X, y)
    with pytest.warns(rfsize.exceptions.NoVotesWarning, match=UNEVEN):
        rfsize.tree_outputs(model, X, y, oob=True).predict(fill=0)


@draws_by_weight
def test_an_estimator_turns_to_cross_validation(forest: tuple[Any, np.ndarray, np.ndarray]) -> None:
    model, X, y = forest
    sized = rfsize.RightSizedClassifier(model, alpha=0.8, min_trees=20, max_trees=40).fit(X, y)
    assert sized.report_.source == "cross-validation"
    assert "of class 1" in sized.oob_refusal_


@pytest.mark.parametrize("class_weight", [None, "balanced_subsample"])
def test_even_bags_of_a_rare_class_are_read(class_weight: str | None) -> None:
    X, y = rare(0.08)
    model = RandomForestClassifier(80, min_samples_leaf=3, class_weight=class_weight, random_state=0).fit(X, y)
    assert rfsize.size(model, X, y, oob=True, alpha=0.9).n_dropped == 0
    assert rfsize.oob_score(model, X, y, metric="auc").n_rows == N_ROWS
    forest = ForestOnRows.of(read_forest(model), X, y, oob=True)
    assert Evidence.of(forest).with_truth(y).by_averages().strata is None


@draws_by_weight
def test_uneven_rows_with_votes_are_estimated_by_strata() -> None:
    X, y = rare(0.3)
    model = RandomForestClassifier(150, min_samples_leaf=3, class_weight="balanced", random_state=0).fit(X, y)
    report = rfsize.size(model, X, y, oob=True, alpha=0.9, voting="hard")
    votes = rfsize.tree_outputs(model, X, oob=True).votes
    strata = reference.representative.strata(votes.asked.tolist(), 50)
    assert len(strata) > 1
    parts = [(rows, rfsize.size(votes.take(rows), alpha=0.9)) for rows in map(list, strata)]
    for n_trees in (5, 51):
        expected = sum(len(rows) * agreement(part, n_trees) for rows, part in parts) / N_ROWS
        assert agreement(report, n_trees) == pytest.approx(expected)


def test_out_of_bag_counts_are_not_taken_to_be_of_as_many_trees_as_the_most_asked_row() -> None:
    X, y = rare(0.3)
    votes = rfsize.tree_outputs(RandomForestClassifier(80, random_state=0).fit(X, y), X, oob=True).votes
    of_too_few = rfsize.Votes(votes.counts, n_trees=int(votes.asked.max()))
    assert RowsAsked(votes.asked, of_too_few.n_trees).is_uneven  # though bags of 80 trees were drawn evenly
    assert not RowsAsked(votes.asked, 80).is_uneven
    unknown = rfsize.Votes(votes.counts)
    for read in (rfsize.size, lambda votes: rfsize.StopTable.build(80, prior=votes)):
        for some in (unknown, unknown.take(slice(100)), unknown.concat(unknown), unknown.merge(votes)):
            with pytest.raises(ValueError, match=r"rows have \d+ to \d+ votes, .* give rfsize.Votes\(counts, n_trees="):
                read(some)
        read(rfsize.Votes(votes.counts, n_trees=80))
        read(rfsize.Votes(votes.counts, n_trees=80).concat(votes).take(slice(100)))


def test_rows_of_no_fold_are_not_out_of_bag() -> None:
    X, y = rare(0.3)
    folds = [(np.arange(200), np.arange(200, 300))]
    outputs = rfsize.tree_outputs(RandomForestClassifier(30, max_depth=5, random_state=0), X, y, cv=folds)
    for counted, source in ((outputs, "cross-validation"), (outputs.votes, "rows given")):
        report = rfsize.size(counted, alpha=0.9)
        assert (report.source, report.n_rows, report.n_dropped) == (source, 100, 400)
        assert rfsize.StopTable.build(30, prior=counted).n_trees == 30


@pytest.mark.parametrize("seed", range(5))
def test_a_few_votes_of_even_bags_are_a_prior(seed: int) -> None:
    X, y = rare(0.3)
    counted = rfsize.tree_outputs(RandomForestClassifier(11, random_state=seed).fit(X, y), X, y, oob=True)
    assert counted.votes.asked.mean() < 10
    assert rfsize.StopTable.build(11, prior=counted).expected_trees() < 11


@draws_by_weight
def test_numbers_with_weights() -> None:
    X, _ = rare(0.5)
    y, weight = X[:, 0], np.where(X[:, 0] > 0.9, 8.0, 0.5)
    model = RandomForestRegressor(60, random_state=0).fit(X, y, sample_weight=weight)
    with pytest.raises(rfsize.exceptions.FewVotesError, match="rows in the highest fifth of y have"):
        rfsize.oob_score(model, X, y)
    with pytest.raises(rfsize.exceptions.FewVotesError, match="rows in the highest fifth of the predictions have"):
        rfsize.size(model, X, oob=True, metric="scores", tolerance=0.1)
    sized = rfsize.RightSizedRegressor(model, tolerance=0.2, max_trees=60, min_trees=20)
    assert sized.fit(X, y, sample_weight=weight).report_.source == "cross-validation"


@draws_by_weight
def test_bagging_with_weights() -> None:
    X, y = rare(0.1)
    model = BaggingClassifier(DecisionTreeClassifier(max_depth=4), 60, random_state=0)
    model.fit(X, y, sample_weight=np.where(y == 1, 9.0, 1.0))
    with pytest.raises(rfsize.exceptions.FewVotesError, match="of class 1 have"):
        rfsize.oob_score(model, X, y)


def test_a_bagging_fraction_for_each_class() -> None:
    X, y = rare(0.1)
    params = {"boosting": "rf", "objective": "binary", "bagging_freq": 1, "feature_fraction": 0.6, "verbose": -1}
    fractions = {"pos_bagging_fraction": 0.95, "neg_bagging_fraction": 0.3, "num_threads": 1}
    model = lgb.train({**params, **fractions}, lgb.Dataset(X, y), 60)
    with pytest.raises(rfsize.exceptions.FewVotesError, match="of class 1 have"):
        rfsize.size(model, X, y, oob=True)


@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_a_few_votes_are_refused_and_the_trees_told_are_enough(metric: str) -> None:
    X, y = rare(0.5)
    make = RandomForestClassifier(random_state=0)
    with pytest.raises(
        rfsize.exceptions.FewVotesError, match=r"votes per row, from 15 trees, are too few to tell the"
    ) as refused:
        rfsize.oob_score(make.set_params(n_estimators=15).fit(X, y), X, y, metric=metric)
    enough = refused.value.enough
    assert f"train at least {enough} trees" in str(refused.value)
    found = rfsize.oob_score(make.set_params(n_estimators=enough).fit(X, y), X, y, metric=metric)
    assert 10 <= found.votes_per_row < 15
    groups = np.arange(N_ROWS) // 2
    with pytest.raises(rfsize.exceptions.FewVotesError, match="are too few to tell") as refused:
        rfsize.oob_score(make, X, y, metric=metric, groups=groups)
    enough = refused.value.enough
    assert rfsize.oob_score(make.set_params(n_estimators=enough).fit(X, y), X, y, groups=groups).votes_per_row >= 10


def test_a_tree_by_itself_is_scored() -> None:
    X, y = rare(0.5)
    assert rfsize.oob_score(RandomForestClassifier(1, random_state=0).fit(X, y), X, y).votes_per_row == 1.0


def test_rows_of_large_groups_of_one_class() -> None:
    X, y = rare(0.2)
    groups = np.where(y == 1, np.arange(N_ROWS) // 20, 1000 + np.arange(N_ROWS))
    model = RandomForestClassifier(60, random_state=0, max_samples=0.5).fit(X, y)
    with pytest.raises(rfsize.exceptions.FewVotesError, match=r"of class 1 have .* they belong to large groups"):
        rfsize.oob_score(model, X, y, groups=groups)


@given(
    st.lists(st.integers(0, 60), min_size=3, max_size=60),
    st.lists(st.integers(1, 3), min_size=60, max_size=60),
)
def test_dispersion(asked: list[int], sizes: list[int]) -> None:
    rows = RowsAsked(np.array(asked), 60, Groups(sizes=np.array(sizes[: len(asked)])))
    assert rows.is_uneven == reference.representative.is_uneven(asked, sizes[: len(asked)], 60)


@pytest.mark.parametrize("seed", range(20))
def test_chance_is_even_and_a_few_odd_rows_are_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked = rng.binomial(100, 0.37, size=1000)
    asked[:2] = 0  # as XGBoost's
    assert not RowsAsked(asked, 100).is_uneven
    assert RowsAsked(asked, 100).lack("it") is None
    asked[:20] = 0
    rows = RowsAsked(asked, 100, find_kinds=lambda: Kinds.of_labels((np.arange(1000) < 25).astype(int)))
    assert rows.is_uneven
    assert rows.lack("it").of_some_rows
