"""Where the user names nothing, what the forest predicts decides what must stay the same, in every function alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers import lookup
from helpers.boosted import classifier
from helpers.trained import FRAMEWORKS, data_for, params_for, predicted, problem, train
from rfsize.cli import main
from rfsize.statistics.sampling_variance import pooled_variances

pytestmark = pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")

X, Y = problem(1000, 11)
FRESH, _ = problem(2000, 12)
NOISY = Y["number"] + 2.0 * np.random.default_rng(13).normal(size=1000)
TASKS = {
    "even": (np.median(NOISY) < NOISY).astype(int),
    "rare": (np.quantile(NOISY, 0.96) < NOISY).astype(int),
    "uneven": np.digitize(NOISY, np.quantile(NOISY, [0.5, 0.97])),
    "three": np.digitize(Y["number"], np.quantile(Y["number"], [0.3, 0.7])),
}
RARE_CLASS = {"rare": 1, "uneven": 2}


@cache
def forest(framework: str, task: str) -> Any:
    return train(framework, X, TASKS[task], 80)


def called_back(task: str, **options: Any) -> rfsize.Report:
    callback, y = rfsize.SizeCallback(min_trees=40, **options), TASKS[task]
    lgb.train(params_for("lightgbm", y), data_for("lightgbm", X, y), 60, callbacks=[callback])
    return callback.report_


def grown(framework: str, task: str, **options: Any) -> rfsize.Report:
    y, limits = TASKS[task], {"min_trees": 40, "max_trees": 60}
    if framework == "sklearn":
        return rfsize.grow(RandomForestClassifier(min_samples_leaf=5, random_state=3), X, y, **limits, **options)[1]
    return rfsize.grow(params_for(framework, y), data_for(framework, X, y), **limits, **options)[1]


def right_sized(task: str, **options: Any) -> rfsize.Report:
    model = RandomForestClassifier(min_samples_leaf=5, random_state=3)
    return rfsize.RightSizedClassifier(model, min_trees=40, max_trees=60, **options).fit(X, TASKS[task]).report_


WAYS: dict[str, Callable[..., rfsize.Report]] = {
    "out of bag": lambda task, **of: rfsize.size(forest("xgboost", task), X, oob=True, **of),
    "certified": lambda task, **of: rfsize.size(forest("sklearn", task), FRESH, target="model", **of),
    "shrunk": lambda task, **of: rfsize.shrink(forest("lightgbm", task), FRESH, **of)[1],
    "boosted": lambda task, **of: rfsize.size(classifier("LightGBM", 20, X, TASKS[task]), FRESH, **of),
    "outputs": lambda task, **of: rfsize.size(rfsize.tree_outputs(forest("sklearn", task), FRESH), **of),
    "called back": called_back,
    "right-sized": right_sized,
    **{f"grown, {framework}": partial(grown, framework) for framework in FRAMEWORKS},
}


@pytest.mark.parametrize("way", WAYS)
def test_labels_unless_a_class_gets_too_few_or_you_name_them(way: str) -> None:
    report = WAYS[way]("rare")
    assert (report.criterion.name, report.criterion.level > 0.0) == ("probabilities", True)
    first = str(report).splitlines()[0]
    assert first == report.to_dict()["why"]
    assert "label 1" in first
    assert report.criterion.tolerance == report.to_dict()["tolerance"]
    named = WAYS[way]("rare", alpha=0.9)
    assert (named.criterion.name, named.criterion.alpha, named.to_dict()["why"]) == ("labels", 0.9, None)
    even = WAYS[way]("even")
    assert (even.criterion.name, even.criterion.alpha) == ("labels", 0.99)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("task", TASKS)
def test_a_class_needs_half_of_its_mean_probability(framework: str, task: str) -> None:
    own = predicted(forest(framework, task), FRESH)
    share = np.bincount(own.argmax(axis=1), minlength=own.shape[1]) / len(own)
    lacks = (own.mean(axis=0) >= 0.01) & (share < 0.5 * own.mean(axis=0))
    report = rfsize.size(forest(framework, task), FRESH)
    assert np.flatnonzero(lacks).tolist() == ([RARE_CLASS[task]] if task in RARE_CLASS else [])
    assert report.criterion.name == ("probabilities" if lacks.any() else "labels")
    question: dict[str, Any] = {"alpha": 0.99}
    if lacks.any():
        question = {"metric": "probabilities", "tolerance": report.criterion.tolerance}
    named = rfsize.size(forest(framework, task), FRESH, **question)
    assert (report.n_trees, report.interval) == (named.n_trees, named.interval)


@pytest.mark.parametrize(("n_labels", "criterion"), [(48, "probabilities"), (52, "labels")])
def test_half_is_the_bound(n_labels: int, criterion: str) -> None:
    """Of 1,000 rows so many get the label of a class whose mean probability is 0.1."""
    rest = (100.0 - 0.6 * n_labels) / (1000 - n_labels)
    probability = np.tile([[0.9 - rest, 0.1, rest], [0.1, 0.9 - rest, rest]], (500, 1))
    probability[:n_labels] = 0.2, 0.2, 0.6
    forest = lookup.classifier(np.repeat(probability[:, None], 20, axis=1))
    assert rfsize.size(forest, lookup.rows_of(probability)).criterion.name == criterion


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_rows_are_ranked_by_a_rare_class(framework: str) -> None:
    for share in (0.02, 0.1):
        y = (X[:, 0] > np.quantile(X[:, 0], 1.0 - share)).astype(int)
        outputs = rfsize.tree_outputs(train(framework, X, y, 40), FRESH)
        probability = outputs.predict_proba()[:, 1]
        is_told = (probability > 0.5).mean() >= max(0.05, 0.5 * probability.mean())
        assert rfsize.size(outputs).criterion.name == ("labels" if is_told else "probabilities")


def test_a_class_that_is_hardly_there_does_not_count() -> None:
    y = np.where(np.arange(1000) < 6, 2, TASKS["even"])
    report = rfsize.size(train("sklearn", X, y, 40), FRESH)
    assert report.criterion.name == "labels"


def test_a_threshold_makes_labels_of_a_rare_class() -> None:
    outputs = rfsize.tree_outputs(forest("sklearn", "rare"), FRESH, threshold=0.06)
    assert rfsize.size(outputs).criterion.name == "labels"


def test_the_command_line_and_truncate_ask_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = forest("lightgbm", "rare")
    model.save_model(tmp_path / "model.txt")
    pd.DataFrame(FRESH).to_csv(tmp_path / "rows.csv", index=False)
    main(["size", str(tmp_path / "model.txt"), str(tmp_path / "rows.csv"), "--json"])
    report = rfsize.size(model, FRESH)
    assert json.loads(capsys.readouterr().out)["why"] == report.criterion.why
    assert rfsize.truncate(model, FRESH).num_trees() == report.n_kept
    assert rfsize.size(model, FRESH, metric="labels").criterion.name == "labels"


def test_counted_votes_have_labels_alone() -> None:
    assert rfsize.size(rfsize.Votes([[1, 99], [10, 90], [40, 60]] * 100)).criterion.name == "labels"


# The default tolerance

FEW, NUMBER = X[:250], Y["number"][:250]
OF_TASK = {"number": NUMBER, "two": (NUMBER > 0.3).astype(int)}


@cache
def large(framework: str, task: str) -> Any:
    return train(framework, FEW, OF_TASK[task], 800)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(("task", "options"), [("number", {}), ("two", {"metric": "probabilities"})])
def test_trees_bring_a_fiftieth_of_the_variance(framework: str, task: str, options: dict[str, str]) -> None:
    outputs = rfsize.tree_outputs(large(framework, task), FEW, oob=True)
    variances = pooled_variances(outputs)
    assert variances.is_known
    report = rfsize.size(outputs, **options)
    assert report.n_trees == pytest.approx(50.0 * variances.by_tree / variances.by_rows, rel=0.05)
    named = rfsize.size(outputs, metric=report.criterion.name, tolerance=report.criterion.tolerance)
    assert (named.n_trees, named.interval) == (report.n_trees, report.interval)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_training_ends_by_the_tolerance_of_the_finished_forest(framework: str) -> None:
    limits = {"min_trees": 800, "max_trees": 800}
    if framework == "sklearn":
        model, report = rfsize.grow(clone(large(framework, "number")), FEW, NUMBER, **limits)
    else:
        params = params_for(framework, NUMBER)
        model, report = rfsize.grow(params, data_for(framework, FEW, NUMBER), **limits)
    expected = rfsize.size(large(framework, "number"), FEW, NUMBER, oob=True)
    assert report.criterion.tolerance == pytest.approx(expected.criterion.tolerance, rel=0.01)
    assert rfsize.tree_outputs(model, FEW[:2]).n_trees == report.n_kept < 800


@pytest.mark.parametrize("data", [FEW, None], ids=["rows", "no rows"])
def test_a_callback_takes_the_spread_where_it_has_no_rows(data: Any) -> None:
    callback = rfsize.SizeCallback(data=data, min_trees=800)
    dataset = lgb.Dataset(FEW, NUMBER)
    lgb.train(params_for("lightgbm", NUMBER), dataset, 800, callbacks=[callback])
    by_variance = rfsize.size(large("lightgbm", "number"), FEW, NUMBER, oob=True).criterion.tolerance
    expected = 0.05 * NUMBER.std() if data is None else by_variance
    assert callback.report_.criterion.tolerance == pytest.approx(expected, rel=0.01)
