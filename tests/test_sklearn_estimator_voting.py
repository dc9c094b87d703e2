"""Which T* a `RightSizedClassifier` is of, and whose votes it is from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from xgboost import XGBClassifier

import reference.blocks
import reference.counting
import rfsize
from helpers.classifiers import lightgbm, xgboost
from helpers.forests import Data
from helpers.outputs import outputs_of
from rfsize import RightSizedClassifier
from rfsize.counting.blocks import TreeBlocks
from rfsize.counting.scores import Scores
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.report import report_of


def test_it_is_sized_by_the_rule_that_predict_goes_by(data: Data) -> None:
    forest = RandomForestClassifier(max_depth=4, random_state=1)
    sizes = {}
    for given, voting in (("auto", "soft"), ("soft", "soft"), ("hard", "hard")):
        report = RightSizedClassifier(forest, alpha=0.95, voting=given).fit(data.X, data.y).report_
        assert (report._answer.goal.voting, report._answer.voting) == (voting, "soft")
        sizes[voting] = report.n_trees
    assert sizes["hard"] != sizes["soft"]
    with pytest.raises(ValueError, match="voting must be"):
        RightSizedClassifier(forest, voting="averaged").fit(data.X, data.y)
    others = BaggingClassifier(LogisticRegression(), max_samples=0.5, random_state=1)
    assert RightSizedClassifier(others, alpha=0.9).fit(data.X, data.y).report_._answer.goal.voting == "soft"


def test_cross_validated_scores_are_those_of_trees_that_did_not_see_the_row(data: Data) -> None:
    forest = RandomForestClassifier(max_depth=4, random_state=1)
    model = RightSizedClassifier(forest, alpha=0.9, cv=3, min_trees=25).fit(data.X, data.three)
    trees = model.report_.available
    alone = np.zeros((trees, len(data.X), 3))
    folds, blocks = list(StratifiedKFold(3).split(data.X, data.three)), []
    for train, held_out in folds:
        part = clone(forest).set_params(n_estimators=trees).fit(data.X[train], data.three[train])
        alone[:, held_out] = [tree.predict_proba(data.X[held_out]) for tree in part.estimators_]
        blocks.append(blocks_of(alone[:, held_out]))
    votes = rfsize.Votes(reference.counting.votes(alone.argmax(axis=2), 3, np.zeros(alone.shape[:2], dtype=bool)))
    together = TreeBlocks.of_forests(blocks, [len(held_out) for _, held_out in folds])
    together.rows = np.concatenate([held_out for _, held_out in folds])[together.rows]
    told = outputs_of(votes, Scores.of(alone.transpose(1, 0, 2)), blocks=together)
    expected = report_of(replace(told, n_trees=trees, source=""), LabelGoal(0.9, "soft"))
    assert model.report_.n_trees == expected.n_trees
    assert model.report_.interval == expected.interval
    # Forests that lack a class tell no scores that could be compared.
    y = np.where(np.arange(300) == 7, -1, data.y[:300])
    lacking = RightSizedClassifier(forest, alpha=0.8, cv=2, min_trees=15)
    with pytest.warns(UserWarning, match="only 1 member"):
        report = lacking.fit(data.X[:300], y).report_
    assert (report.n_rows, report.n_dropped) == (150, 150)
    with pytest.warns(UserWarning, match="only 1 member"):
        assert lacking.set_params(voting="hard").fit(data.X[:300], y).report_.n_rows == 300


def test_what_cannot_be_out_of_bag_is_cross_validated_and_says_so(data: Data) -> None:
    for no_bagging in (lightgbm(subsample=1.0, subsample_freq=0), xgboost(subsample=1.0)):
        model = RightSizedClassifier(no_bagging, alpha=0.9).fit(data.X, data.y)
        assert model.report_.source == "cross-validation"
        assert "no row is out of bag" in model.oob_refusal_
    large_bags = xgboost(subsample=0.95)
    three = RightSizedClassifier(large_bags, alpha=0.9, max_trees=100, min_trees=30).fit(data.X, data.three)
    assert three.report_.source == "cross-validation"
    assert "too few to size a forest by" in three.oob_refusal_
    # The next fit forgets it.
    assert three.set_params(estimator=xgboost(), max_trees=200).fit(data.X, data.three).oob_refusal_ is None


@pytest.mark.parametrize(
    ("forest", "name"),
    [
        (RandomForestClassifier(), "n_estimators"),
        (XGBClassifier(n_estimators=1, num_parallel_tree=10), "num_parallel_tree"),
        (LGBMClassifier(boosting_type="rf"), "n_estimators"),
    ],
    ids=["scikit-learn", "xgboost", "lightgbm"],
)
def test_a_search_over_the_number_of_trees_is_refused(forest: Any, name: str, data: Data) -> None:
    model = rfsize.RightSizedClassifier(forest)
    search = GridSearchCV(model, {f"estimator__{name}": [10, 20]}, error_score="raise")
    with pytest.raises(
        ValueError, match=f"estimator__{name} would have no effect: the number of trees is what fit finds"
    ):
        search.fit(data.X[:100], data.y[:100])
    assert model.set_params(alpha=0.9, estimator__max_depth=3).estimator.max_depth == 3


def blocks_of(score: np.ndarray) -> TreeBlocks:
    """Of scores of each tree alone, (n_trees, n_rows, n_classes), that are asked of all rows."""
    n_trees, n_rows, n_classes = score.shape
    seen = np.zeros((n_trees, n_rows), dtype=bool)
    parts = reference.blocks.of_shared_bags(score.argmax(axis=2), score, seen, n_classes)
    counts = parts["votes"].sum(axis=1, dtype=np.int32)
    return TreeBlocks(np.arange(n_rows), counts, Scores.of(score.transpose(1, 0, 2)), n_trees=n_trees, **parts)
