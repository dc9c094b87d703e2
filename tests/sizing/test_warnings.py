"""A report says first what is wrong and what suffers, wherever it is read; what cuts a forest warns of the same."""

from __future__ import annotations

import copy
import json
import pickle
import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from lightgbm import Booster, LGBMClassifier
from matplotlib import pyplot as plt
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import rfsize
from helpers.forests import Data
from helpers.reports import agreement_by_class
from rfsize.sizing.sentences import finding, headline
from rfsize.utils.warn import Caution

mpl.use("Agg")


@cache
def rare() -> tuple[RandomForestClassifier, np.ndarray, np.ndarray]:
    """A forest of which few trees settle most labels, and not those of class 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = (rng.random(3000) < 1.0 / (1.0 + np.exp(10.0 - 4.0 * X[:, 0] - 2.0 * X[:, 1] * X[:, 2]))).astype(int)
    return RandomForestClassifier(60, min_samples_leaf=4, random_state=0).fit(X, y), X, y


def given(call: Any) -> list[tuple[type[Warning], str]]:
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(one.category, str(one.message)) for one in caught]


def test_what_suffers_comes_first_wherever_it_is_read(tmp_path: Path) -> None:
    model, X, y = rare()
    report = rfsize.size(model, X, y, oob=True, alpha=0.98)
    assert report.enough
    changing, probabilities, ranking = report.warnings[:3]
    changed = 1.0 - agreement_by_class(report, report.n_kept)[1]
    assert changed > 0.08
    assert {one.category for one in report.warnings[:3]} == {rfsize.exceptions.LabelsOnlyWarning}
    share = report._answer.label_shares[1]
    expected = f"class 1 (predicted on {100 * share:.2g} % of rows): {100 * changed:.2g} % of its labels still"
    assert changing.text.startswith(expected)
    lost = report.loss_at(report.n_kept, "brier").value
    assert probabilities.text.startswith(f"probabilities suffer: Brier score +{lost:.2g} (all trees: ")
    assert ranking.text.startswith("ranking suffers: AUC −")

    lines = str(report).splitlines()
    assert lines[2:5] == [f"  ! {one.text}" for one in (changing, probabilities, ranking)]
    values = json.loads(json.dumps(report.to_dict()))
    assert next(iter(values)) == "warnings"
    assert values["warnings"][0]["text"] == changing.text
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'class="good"' not in page
    assert page.index("! Class 1 (") < page.index('class="figures"')
    title = " ".join(report.plot().get_title().split())
    assert title.startswith(f"! {changing.text} ! {probabilities.text}")
    assert pickle.loads(pickle.dumps(report)).warnings == report.warnings


def test_a_ranking_of_which_no_more_than_a_bound_is_known_is_named_too() -> None:
    """Halves of the trees tell no loss of the AUC from none; sub-forests may tell that of fewer trees all the same."""
    model, X, y = rare()
    report = rfsize.size(model, X, y, oob=True, alpha=0.98)
    kept, known = report.n_kept, report._answer_to("auc").lost
    lost, measured = report.loss_at(kept, "auc").value, float(known.loss(kept, 0.05))
    assert not known.is_significant
    assert 0.05 < measured < lost
    said = f"ranking suffers: AUC −{measured:.2g} to −{lost:.2g}; size it by"
    assert report.warnings[2].text.startswith(said)
    with pytest.warns(rfsize.exceptions.LabelsOnlyWarning, match=said):
        rfsize.truncate(model, X, y, oob=True, alpha=0.98)


def test_a_ranking_that_may_suffer_is_said_to() -> None:
    X = np.random.default_rng(405).normal(size=(400, 8))
    chance = 1.0 / (1.0 + np.exp(5.0 - 2.5 * X[:, 0] - 1.5 * X[:, 1] * X[:, 2] - X[:, 3]))
    y = (np.random.default_rng(0).random(400) < chance).astype(int)
    model = RandomForestClassifier(200, max_features=3, min_samples_leaf=3, random_state=0).fit(X, y)
    report = rfsize.size(model, X, y, oob=True, alpha=0.97)
    kept, known = report.n_kept, report._answer_to("auc").lost
    lost = report.loss_at(kept, "auc").value
    assert not known.is_significant
    assert float(known.loss(kept, 0.05)) < 0.005
    assert lost > 0.01
    said = f"ranking may suffer: AUC −{lost:.2g} at most; size it by"
    assert sum(one.text.startswith(said) for one in report.warnings) == 1


def test_a_forest_of_which_nothing_suffers_is_praised(data: Data, booster: Any, tmp_path: Path) -> None:
    report = rfsize.size(booster, data.fresh, alpha=0.9)
    assert (report.warnings, report._likely) == ((), "")
    assert "!" not in str(report)
    assert " trees are enough (" in str(report).splitlines()[0]
    report.to_html(tmp_path / "page.html")
    assert 'class="good"' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_truncate_warns_of_what_the_report_says() -> None:
    model, X, y = rare()
    report = rfsize.size(model, X, y, oob=True, alpha=0.98)
    said = [(one.category, one.text) for one in report.warnings]
    assert len(said) > 1
    assert given(lambda: rfsize.truncate(model, n_trees=report)) == said
    assert given(lambda: rfsize.truncate(model, X, y, oob=True, alpha=0.98)) == said
    assert given(lambda: rfsize.truncate(model, n_trees=int(report.n_trees))) == []
    with pytest.warns(rfsize.exceptions.LabelsOnlyWarning) as told:
        small = rfsize.truncate(model, n_trees=report)
    assert told[0].filename == __file__
    assert len(small.estimators_) == report.n_trees


def test_a_report_of_another_forest_is_refused() -> None:
    model, X, y = rare()
    report = rfsize.size(model, X, y, oob=True, alpha=0.98)
    with pytest.raises(ValueError, match="report of a forest of 60 trees, and the model has 20"):
        rfsize.truncate(rfsize.truncate(model, n_trees=20), n_trees=report)
    with pytest.raises(ValueError, match="alpha would have no effect"):
        rfsize.truncate(model, n_trees=report, alpha=0.9)


def test_a_forest_that_is_too_small_says_so_once() -> None:
    model, X, _ = rare()
    report = rfsize.size(model, X, oob=True, alpha=0.9999)
    assert report.warnings == (Caution(rfsize.exceptions.NotConvergedWarning, finding(report)),)
    assert " ".join(str(report).split()).count(finding(report).split(". ", 1)[1]) == 1
    with pytest.warns(rfsize.exceptions.NotConvergedWarning):
        assert len(rfsize.truncate(model, n_trees=report).estimators_) == 60


def test_enough_is_probably_where_the_interval_crosses_the_trees_at_hand() -> None:
    votes, words = rfsize.Votes([[k, 100 - k] for k in range(101)] * 3), set()
    for alpha in (0.5, 0.9, 0.95, 0.96, 0.965, 0.97, 0.975, 0.98, 0.99, 0.999):
        report = rfsize.size(votes, alpha=alpha)
        low, high = report.interval
        crosses = low <= report.available < high
        assert report._likely == ("probably " if crosses else "")
        word = f"{report._likely}{'enough' if report.enough else 'not enough'}"
        assert re.search(rf" (is|are) {word}\b", str(report).splitlines()[0])
        words.add(word)
    assert words == {"enough", "probably enough", "probably not enough", "not enough"}


def test_a_size_that_is_only_a_bound_is_called_one(data: Data) -> None:
    model = RandomForestClassifier(100, min_samples_leaf=5, random_state=0).fit(data.X, data.y)
    report = rfsize.size(model, data.X, data.y, oob=True, metric="accuracy", tolerance=1e-4)
    assert report._answer.is_bound
    assert headline(report) == f"T*(accuracy within 0.0001) is at most {report.n_trees:,}"
    assert f"up to {report.n_trees:,}" in str(report).splitlines()[0]
    assert f"at most {report.n_trees:,}" in [one.value for one in report._account().figures]


@pytest.mark.parametrize("framework", ["random forest", "LightGBM"])
def test_few_rows_that_leave_the_size_open_say_so(framework: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6))
    y = (X[:, 0] + rng.normal(size=1500) > 0).astype(int)
    bags: dict[str, Any] = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "verbose": -1, "n_jobs": 1}
    models = {"random forest": RandomForestClassifier(300, random_state=0), "LightGBM": LGBMClassifier(**bags)}
    model = models[framework].set_params(n_estimators=300).fit(X[:500], y[:500])
    report = rfsize.size(model, X[500:510], alpha=0.9)
    assert report.enough
    low, high = report.interval
    assert high > 4 * low
    with pytest.warns(rfsize.exceptions.OpenSizeWarning, match="10 rows"):
        rfsize.truncate(model, X[500:510], alpha=0.9)
    assert "10 rows" in str(report).split("!")[1]
    assert report.warnings[0].category is rfsize.exceptions.OpenSizeWarning
    many = rfsize.size(model, X[500:], alpha=0.9)
    assert many.interval[1] < min(300, 4 * many.interval[0])
    assert given(lambda: rfsize.truncate(model, X[500:], alpha=0.9)) == []
    beyond = rfsize.size(model, X[500:], alpha=1.0 - many.loss_at(290).value)
    assert beyond.enough
    assert beyond.available < beyond.interval[1] < 4 * beyond.interval[0]
    assert beyond.warnings[0].category is rfsize.exceptions.OpenSizeWarning


def test_a_number_as_third_argument_is_refused_by_name() -> None:
    model, X, _ = rare()
    for call in (rfsize.size, rfsize.truncate, rfsize.shrink):
        for number in (0.95, np.float64(0.9), 1):
            with pytest.raises(ValueError, match="alpha="):
                call(model, X, number)


def test_showing_a_report_asks_no_tree(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """Printing, pickling, copying and drawing read what `size` computed: nothing is cut, timed or predicted."""
    model = RandomForestClassifier(40, random_state=0).fit(data.X, data.y)
    compiled = rfsize.compile(model)
    bags: dict[str, Any] = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "verbose": -1, "n_jobs": 1}
    booster = LGBMClassifier(n_estimators=40, **bags).fit(data.X, data.y)
    reports = [
        rfsize.size(model, data.X, data.y, oob=True, alpha=0.9),
        rfsize.size(model, data.fresh, data.fresh[:, 0] > 0, alpha=0.9, target="forest"),
        rfsize.size(booster, data.fresh, alpha=0.9),
        rfsize.size(compiled, data.fresh, alpha=0.9),
        rfsize.shrink(model, data.fresh, data.fresh[:, 0] > 0, n_trees=5)[1],
    ]

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a tree was asked, or a model was made")

    for kind, names in {
        DecisionTreeClassifier: ("apply", "predict_proba"),
        RandomForestClassifier: ("apply", "predict", "predict_proba", "__deepcopy__"),
        Booster: ("predict", "model_to_string", "__deepcopy__"),
    }.items():
        for name in names:
            monkeypatch.setattr(kind, name, refuse, raising=False)
    for report in reports:
        shown = str(report)
        assert str(pickle.loads(pickle.dumps(report))) == str(copy.copy(report)) == shown
        assert copy.copy(report).loss_at(5).value == report.loss_at(5).value
        assert "<svg" in report._repr_html_()
        report.plot()
    plt.close("all")
