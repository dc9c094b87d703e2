"""The models of several folds in one report, next to the answers for each model by itself."""

from __future__ import annotations

import json
import math
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

import rfsize
from helpers.forests import Data, train_xgboost
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.sizing.scores import FoldScores

FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
PARAMS = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1, "verbose": -1}


@pytest.fixture(scope="module")
def boosters(data: Data) -> Any:
    """As `lightgbm.cv` trains them by its own folds."""
    return lgb.cv(PARAMS, lgb.Dataset(data.X, data.y), 60, nfold=3, return_cvbooster=True)["cvbooster"]


def alone(models: Any, X: Any, y: Any, folds: Any, metric: str) -> tuple[list[Any], list[Any]]:
    """The score and the size of each model, asked by itself."""
    trained_on = [np.sort(train) for train, _ in folds]
    pairs = list(zip(models, trained_on, strict=True))
    return (
        [rfsize.oob_score(model, X[rows], y[rows], metric=metric).to_dict() for model, rows in pairs],
        [rfsize.size(model, X[rows], y[rows], oob=True).to_dict() for model, rows in pairs],
    )


def assert_as_alone(found: FoldScores, models: Any, X: Any, y: Any, folds: Any, metric: str) -> None:
    scores, sizes = alone(models, X, y, folds, metric)
    np.testing.assert_equal([one.to_dict() for one in found.scores], scores)
    np.testing.assert_equal([one.to_dict() for one in found.sizes], sizes)
    assert found.value == pytest.approx(np.mean([one["at_all_trees"] for one in scores]))
    assert found.n_trees == max(one["n_trees"] for one in sizes)


def test_a_cvbooster_is_scored_and_sized_as_its_boosters_are(boosters: Any, data: Data) -> None:
    found = rfsize.oob_score(boosters, data.X, data.y, metric="auc", cv=FOLDS)
    assert_as_alone(found, boosters.boosters, data.X, data.y, FOLDS.split(data.X, data.y), "auc")
    low, high = found.interval
    assert low < found.value < high


def test_a_list_of_scikit_learn_models_with_names_of_classes(data: Data) -> None:
    y = np.array(["no", "yes"])[data.y]
    folds = list(KFold(3).split(data.X))
    forest = RandomForestClassifier(60, random_state=0)
    models = [clone(forest).fit(data.X[train], y[train]) for train, _ in folds]
    found = rfsize.oob_score(models, data.X, y, cv=folds)
    assert_as_alone(found, models, data.X, y, folds, "accuracy")


def test_of_xgboost_and_by_a_number_of_folds(data: Data) -> None:
    folds = list(StratifiedKFold(2).split(data.X, data.y))
    models = [train_xgboost(data.X[train], data.y[train], 60) for train, _ in folds]
    assert_as_alone(rfsize.oob_score(models, data.X, data.y, cv=2), models, data.X, data.y, folds, "accuracy")


def test_of_numbers(data: Data) -> None:
    y = data.X[:, 0] + data.X[:, 1] ** 2
    folds = list(KFold(2).split(data.X))
    models = [RandomForestRegressor(60, random_state=0).fit(data.X[train], y[train]) for train, _ in folds]
    assert_as_alone(rfsize.oob_score(models, data.X, y, cv=folds), models, data.X, y, folds, "r2")


def test_the_tolerances_of_all_folds_are_shown(data: Data) -> None:
    y = data.X[:, 0]
    folds = list(KFold(2).split(data.X))
    models = [RandomForestRegressor(60, random_state=0).fit(data.X[train], y[train]) for train, _ in folds]
    found = rfsize.oob_score(models, data.X, y, cv=folds)
    low, high = sorted(0.05 * np.std(y[train]) for train, _ in folds)
    assert f"{low:.4g}" != f"{high:.4g}"
    assert f"by T*(scores within {low:.4g} to {high:.4g})" in str(found)


def test_groups_go_with_their_rows(data: Data) -> None:
    patient = np.arange(len(data.y)) // 2
    folds = list(GroupKFold(2).split(data.X, data.y, patient))
    models = [RandomForestClassifier(100, random_state=0).fit(data.X[train], data.y[train]) for train, _ in folds]
    found = rfsize.oob_score(models, data.X, data.y, cv=GroupKFold(2), groups=patient)
    for one, model, (train, _) in zip(found.scores, models, folds, strict=True):
        by_itself = rfsize.oob_score(model, data.X[train], data.y[train], groups=patient[train])
        np.testing.assert_equal(one.to_dict(), by_itself.to_dict())
    assert found.scores[0].groups == "given"


def test_other_folds_than_those_of_the_training_are_refused(boosters: Any, data: Data) -> None:
    with pytest.raises(InbagError, match=r"model 0 on the training rows of fold 0: .* in their order"):
        rfsize.oob_score(boosters, data.X, data.y, cv=StratifiedKFold(3, shuffle=True, random_state=1))
    swapped = [boosters.boosters[one] for one in (0, 2, 1)]
    with pytest.raises(InbagError, match="model 1 on the training rows of fold 1"):
        rfsize.oob_score(swapped, data.X, data.y, cv=FOLDS)


def test_folds_that_do_not_fit_the_models_are_refused(boosters: Any, data: Data) -> None:
    with pytest.raises(ValueError, match="there are 3 models and 4 folds: give as cv the folds"):
        rfsize.oob_score(boosters, data.X, data.y, cv=4)
    with pytest.raises(ValueError, match="cv missing: for several models give all rows"):
        rfsize.oob_score(boosters, data.X, data.y)
    for other in (boosters.boosters[0], {"cvbooster": boosters}, iter(boosters.boosters)):
        with pytest.raises(ValueError, match=f"model is a {type(other).__name__}: give a list of models"):
            rfsize.oob_score(other, data.X, data.y, cv=3)


def test_classifiers_are_not_averaged_with_regression_forests(data: Data) -> None:
    folds = list(KFold(2).split(data.X))
    kinds = (RandomForestClassifier, RandomForestRegressor)
    models = [
        kind(60, random_state=0).fit(data.X[rows], data.y[rows]) for kind, (rows, _) in zip(kinds, folds, strict=True)
    ]
    with pytest.raises(ValueError, match="model 0 is a classifier and model 1 a regression forest"):
        rfsize.oob_score(models, data.X, data.y, cv=folds)


def test_groups_that_the_folds_part_are_kept_out_of_bag(data: Data) -> None:
    twin = np.arange(len(data.y)) // 2
    folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(data.X, data.y))
    models = [RandomForestClassifier(100, random_state=0).fit(data.X[rows], data.y[rows]) for rows, _ in folds]
    found = rfsize.oob_score(models, data.X, data.y, cv=folds, groups=twin)
    for one, model, (rows, _) in zip(found.scores, models, folds, strict=True):
        by_itself = rfsize.oob_score(model, data.X[rows], data.y[rows], groups=twin[rows])
        np.testing.assert_equal(one.to_dict(), by_itself.to_dict())


@pytest.mark.parametrize("of_fold", [lambda pair: pair[0], lambda pair: pair[0][0], lambda pair: (*pair, pair[0])])
def test_folds_that_are_no_pairs_are_refused(of_fold: Any, boosters: Any, data: Data) -> None:
    folds = map(of_fold, FOLDS.split(data.X, data.y))
    with pytest.raises(ValueError, match="each fold in cv must be a pair of arrays"):
        rfsize.oob_score(boosters, data.X, data.y, cv=folds)


def test_the_report_is_printed_and_sent(boosters: Any, data: Data, tmp_path: Any) -> None:
    found = rfsize.oob_score(boosters, data.X, data.y, metric="auc", cv=FOLDS)
    heads, *lines, mean, verdict = str(found).splitlines()
    assert heads.split()[:3] == ["fold", "rows", "AUC"]
    assert [line.split()[0] for line in (*lines, mean)] == ["0", "1", "2", "mean"]
    enough = f"{found.n_trees:,} trees are enough" if math.isfinite(found.n_trees) else "do not tell"
    assert enough in verdict
    found.to_html(tmp_path / "folds.html")
    assert enough in (tmp_path / "folds.html").read_text(encoding="utf-8")
    assert json.loads(json.dumps(found.to_dict()))["metric"] == "auc"


def test_whoever_sizes_several_models_at_once_is_told_what_takes_them(boosters: Any, data: Data) -> None:
    for models in (boosters, boosters.boosters):
        with pytest.raises(NotAForestError, match=r"rfsize\.oob_score\(.*, X, y, cv=folds\), which scores"):
            rfsize.size(models, data.X, oob=True)
