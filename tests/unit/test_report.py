"""Reports and other results: their numbers agree wherever they are read; they are stored, drawn and shown as pages."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
import sys
import unicodedata
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from lightgbm import Booster
from matplotlib import pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import rfsize
import rfsize.api.report
from helpers.pages import Page
from helpers.trained import FRAMEWORKS, FRESH, TRUTH, X, Y, model
from helpers.warned import warned
from rfsize.exceptions import LabelsOnlyWarning, NotConvergedWarning, RfsizeWarning

mpl.use("Agg")

NAMES = np.array(["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "a&amp;b'); __import__('os')  #"])
HOSTILE = np.array(["\x1b[2J\x1b]0;owned\x07", "a\rb\n<script>", "\u202etxt\u200b\x9bc"], dtype=object)


def oddly_named(y: Any, predicted: Any) -> float:
    return float(np.mean(np.argmax(predicted, axis=1) == 0))


oddly_named.__name__ = "</text><script>alert(3)</script> $x_{1 #010203"


@cache
def named(hostile: bool = False) -> tuple[RandomForestClassifier, np.ndarray]:
    y = (HOSTILE if hostile else NAMES)[Y["three"]]
    return RandomForestClassifier(60, min_samples_leaf=5, random_state=0).fit(X, y), y


@cache
def rare() -> tuple[RandomForestClassifier, np.ndarray, np.ndarray]:
    """A forest of which few trees settle most labels, and not those of class 1."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 6))
    y = (rng.random(1500) < 1.0 / (1.0 + np.exp(10.0 - 4.0 * rows[:, 0] - 2.0 * rows[:, 1] * rows[:, 2]))).astype(int)
    return RandomForestClassifier(60, min_samples_leaf=4, random_state=0).fit(rows, y), rows, y


def out_of_bag(framework: str = "lightgbm", task: str = "two") -> rfsize.TreeOutputs:
    return rfsize.tree_outputs(model(framework, task), X, Y[task], oob=True)


def many_votes() -> rfsize.Votes:
    rng = np.random.default_rng(4)
    return rfsize.Votes(np.stack([101 - (of := rng.binomial(101, rng.beta(0.5, 0.5, 400))), of], axis=1))


REPORTS: dict[str, Callable[[], rfsize.Report]] = {
    "labels": lambda: rfsize.size(out_of_bag("sklearn"), alpha=0.85),
    "too few trees": lambda: rfsize.size(out_of_bag(), alpha=0.999, average="macro"),
    "votes": lambda: rfsize.size(many_votes(), alpha=0.95),
    "three classes": lambda: rfsize.size(named()[0], X, named()[1], oob=True, alpha=0.8),
    "probabilities": lambda: rfsize.size(out_of_bag(), metric="probabilities", tolerance=0.08),
    "numbers": lambda: rfsize.size(out_of_bag("sklearn", "number"), metric="scores", tolerance=0.3),
    "metric": lambda: rfsize.size(out_of_bag("xgboost"), metric="auc", tolerance=0.02),
    "no metric": lambda: rfsize.size(out_of_bag(), metric="brier", tolerance=1e-5),
    "certified": lambda: rfsize.size(model("lightgbm"), FRESH, TRUTH["two"], target="model", alpha=0.8),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "shrunk": lambda: rfsize.shrink(model("lightgbm"), FRESH, n_trees=10)[1],
    "score": lambda: rfsize.oob_score(out_of_bag(), metric="auc"),
    "odd score": lambda: rfsize.oob_score(named()[0], X, named()[1], metric=oddly_named),
    "comparison": lambda: rfsize.compare(out_of_bag(), out_of_bag("xgboost"), metric="brier"),
    "importances": lambda: rfsize.oob_importance(out_of_bag(), metric="auc"),
    "importances sized": lambda: rfsize.oob_importance(out_of_bag(), metric="auc").size(top=3),
    "fraction": lambda: rfsize.select_bagging_fraction(
        RandomForestClassifier(random_state=0), X[:200], Y["two"][:200], fractions=[0.3, 0.5], n_trees=40
    ),
}


@cache
def result(kind: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (REPORTS | OTHERS)[kind]()


def page_of(of: Any, folder: Any, *others: Any) -> str:
    of.to_html(folder / "page.html", *others)
    return (folder / "page.html").read_text(encoding="utf-8")


# Numbers agree


def finite(size: float) -> float | None:
    return size if math.isfinite(size) else None


@pytest.mark.parametrize("kind", REPORTS)
def test_numbers_of_a_report_agree(kind: str) -> None:
    report = result(kind)
    values = json.loads(json.dumps(report.to_dict()))
    level = values.get("tolerance") if values["metric"] != "labels" else values["alpha"]
    assert values["n_trees"] == finite(report.n_trees) == finite(report.size_at(level))
    assert values["interval"] == [finite(end) for end in report.interval]
    assert report.interval[0] <= report.n_trees <= report.interval[1]
    assert values["enough"] == report.enough == (report.n_trees <= report.available)
    assert values["n_kept"] == report.n_kept == (report.n_trees if report.enough else report.available)
    assert (values["reason"] is None) == math.isfinite(report.n_trees)
    loss = report.loss_at(report.n_kept)
    assert (values["loss"]["value"], values["loss"]["interval"]) == (loss.value, list(loss.interval))
    for name, of_metric in values["others"].items():
        assert of_metric["value"] == report.loss_at(report.n_kept, name).value
        assert pickle.loads(pickle.dumps(report)).loss_at(7, name) == report.loss_at(7, name)
    assert [warning["text"] for warning in values["warnings"]] == [caution.text for caution in report.warnings]
    for name in ("available", "source", "groups", "copied"):
        assert values[name] == getattr(report, name)
    for name in ("n_rows", "n_dropped", "votes_per_row"):
        assert values[name] == getattr(report.estimate, name)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_reports_tell_one_loss_of_each_metric(framework: str) -> None:
    labels = rfsize.size(out_of_bag(framework), alpha=0.8)
    others = labels.to_dict()["others"]
    assert {"probabilities", "auc"} < set(others) <= {"probabilities", "auc", "log_loss", "brier"}
    for metric, loss in others.items():
        report = rfsize.size(out_of_bag(framework), metric=metric, tolerance=0.05)
        assert report.loss_at(31) == labels.loss_at(31, metric)
        assert report.loss_at(31, "labels") == labels.loss_at(31)
        assert report.loss_at(labels.n_kept).to_dict() == loss


def test_other_losses_are_those_that_can_be_told() -> None:
    scores, rmse = result("numbers"), rfsize.size(out_of_bag("sklearn", "number"), metric="rmse", tolerance=0.1)
    few = rfsize.size(model("lightgbm", n_trees=30), X, Y["two"], oob=True, alpha=0.6)
    of_one_class = rfsize.size(model("lightgbm"), FRESH, np.zeros(len(FRESH), dtype=int), alpha=0.8)
    reports = (scores, rmse, few, rfsize.size(model("lightgbm"), FRESH, alpha=0.8), result("votes"))
    names = [set(report.to_dict()["others"]) for report in reports]
    assert names == [{"rmse"}, {"scores"}, {"probabilities"}, {"probabilities"}, set()]
    assert "auc" not in of_one_class.to_dict()["others"]
    assert scores.loss_at(25, "rmse") == rmse.loss_at(25)
    assert rmse.loss_at(25, "scores") == scores.loss_at(25)


@pytest.mark.parametrize("kind", [*REPORTS, *OTHERS])
def test_showing_storing_and_copying_compute_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither estimators nor trees are called."""
    original = result(kind)
    shown, values = str(original), original.to_dict() if hasattr(original, "to_dict") else {}
    json.dumps(values, allow_nan=False)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something was estimated, predicted, or made")

    monkeypatch.setattr(rfsize.api.report, "estimate_labels", refuse)
    for name in rfsize.api.report.ESTIMATORS:
        monkeypatch.setitem(rfsize.api.report.ESTIMATORS, name, refuse)
    for predictor, names in {
        DecisionTreeClassifier: ("apply", "predict_proba"),
        RandomForestClassifier: ("apply", "predict", "predict_proba", "__deepcopy__"),
        Booster: ("predict", "__deepcopy__"),
        rfsize.CompiledForest: ("predict", "votes", "predict_proba"),
    }.items():
        for name in names:
            monkeypatch.setattr(predictor, name, refuse, raising=False)
    for same in (pickle.loads(pickle.dumps(original)), copy.copy(original), original):
        assert str(same) == repr(same) == shown
        assert (same.to_dict() if values else {}) == values
    page = original._repr_html_()
    assert "<html" not in page
    assert_alone(page)
    _, ax = plt.subplots()
    assert kind == "comparison" or original.plot(ax) is ax
    ax.figure.draw_without_rendering()  # names are no formulas, which would be refused
    plt.close("all")


# Warnings


def given(call: Callable[[], Any]) -> list[tuple[type[Warning], str, str]]:
    return [(warning.category, str(warning.message), warning.filename) for warning in warned(call, RfsizeWarning)]


def test_a_cut_warns_of_what_the_report_warns_of() -> None:
    forest, rows, y = rare()
    report = rfsize.size(forest, rows, y, oob=True, alpha=0.98)
    assert {caution.category for caution in report.warnings} == {LabelsOnlyWarning}
    assert any(caution.options.get("average") == "macro" for caution in report.warnings)
    assert any(caution.options.get("metric") == "auc" for caution in report.warnings)
    expected = [(caution.category, caution.text, __file__) for caution in report.warnings]
    assert given(lambda: rfsize.truncate(forest, n_trees=report)) == expected
    assert given(lambda: rfsize.truncate(forest, rows, y, oob=True, alpha=0.98)) == expected
    assert given(lambda: rfsize.truncate(forest, n_trees=int(report.n_trees))) == []
    assert report.loss_at(report.n_kept).by_class[1] > 0.05
    assert report.loss_at(report.n_kept, "auc").value > 0.01


def test_classes_without_labels_are_warned_of() -> None:
    _, rows, y = rare()
    forest = RandomForestClassifier(60, min_samples_leaf=100, random_state=0).fit(rows, y)
    report = rfsize.size(forest, rows, oob=True, metric="labels")
    warned = [caution for caution in report.warnings if caution.category is LabelsOnlyWarning]
    assert any(caution.options.get("metric") == "probabilities" for caution in warned)


def test_few_rows_leave_the_size_open() -> None:
    forest = model("sklearn", n_trees=200)
    few, many = rfsize.size(forest, FRESH[:10], alpha=0.97), rfsize.size(forest, FRESH, alpha=0.97)
    assert [caution.category for caution in few.warnings] == [NotConvergedWarning]
    assert few.interval[1] > 4 * few.interval[0]
    assert many.warnings == ()
    assert many.interval[1] < 4 * many.interval[0]
    beyond = rfsize.size(forest, FRESH, alpha=1.0 - many.loss_at(190).value)
    assert (beyond.enough, beyond.available < beyond.interval[1] < 4 * beyond.interval[0]) == (True, True)
    assert NotConvergedWarning in [caution.category for caution in beyond.warnings]


# Pictures


@pytest.mark.parametrize("kind", REPORTS)
def test_picture_shows_loss_size_and_forest(kind: str) -> None:
    report = result(kind)
    ax = report.plot()
    sizes, losses = ax.get_lines()[0].get_data()
    assert losses == pytest.approx([report.loss_at(int(size)).value for size in sizes])
    assert any(set(np.atleast_1d(line.get_xdata())) == {report.available} for line in ax.get_lines())
    level = report.criterion.level
    assert any(np.all(np.atleast_1d(line.get_ydata()) == level) for line in ax.get_lines()[1:])
    marks = [bar.lines[0].get_xydata().tolist() for bar in ax.containers]
    assert marks == ([[[report.n_trees, pytest.approx(level)]]] if math.isfinite(report.n_trees) else [])
    ends = [bar.lines[2][0].get_segments()[0][:, 0] for bar in ax.containers]
    for of in ends:
        assert of == pytest.approx(np.minimum(report.interval, ax.get_xlim()[1]))
    _, mine = plt.subplots()
    assert report.plot(ax=mine) is mine
    plt.close("all")


def test_a_picture_needs_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    results = [result("labels"), result("score"), result("fraction")]
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    for shown in results:
        with pytest.raises(ImportError, match="plot"):
            shown.plot()


# Pages

ELSEWHERE = re.compile(r"https?:|//[a-z]|@import|@font-face|url\((?!#)")


def assert_alone(html: str) -> Page:
    """It loads nothing, and no name opens a tag."""
    page = Page(html)
    assert not {"link", "iframe", "object", "img", "base"} & set(page.tags)
    assert page.tags.count("script") <= 1  # which is ours
    links = [value or "" for name, value in page.attributes if name in ("href", "xlink:href", "src")]
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    styles = [value or "" for name, value in page.attributes if name in ("style", "class")]
    sheets = re.findall(r"<style.*?>(.*?)</style>", html, re.DOTALL)
    assert not [text for text in styles + sheets if ELSEWHERE.search(text)]
    return page


@pytest.mark.parametrize("kind", ["labels", "too few trees", "votes", "metric", "certified"])
def test_page_of_a_report_tells_its_numbers(kind: str, tmp_path: Any) -> None:
    report = result(kind)
    page = assert_alone(page_of(report, tmp_path))
    expected = [f"{report.estimate.n_rows:,}", f"{report.available:,}", rfsize.__version__]
    expected += [f"{report.n_trees:,}"] if report.n_trees < 1000 else []
    assert [number for number in expected if number not in page.text] == []
    assert "svg" in page.tags


def test_several_results_on_one_page_with_their_names(tmp_path: Any) -> None:
    """As they are, in text and pictures, and never as code."""
    first, *others = (result(kind) for kind in ("three classes", "odd score", "comparison", "fraction"))
    html = page_of(first, tmp_path, *others)
    page = assert_alone(html)
    assert all(name in page.text for name in NAMES)
    assert "</text><script>alert(3)</script>" in Page("".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))).text
    assert "__import__" not in page.code
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.filterwarnings("ignore")
def test_its_code_runs(tmp_path: Any) -> None:
    forest, rows, y = rare()
    report = rfsize.size(forest, rows, y, oob=True, metric="probabilities", tolerance=0.1)
    done: dict[str, Any] = {"model": forest, "report": report, "X": rows, "y": y}
    code = Page(page_of(report, tmp_path)).code
    compile(code, "page", "exec")
    exec(code, done)
    assert any(hasattr(of, "estimators_") and len(of.estimators_) == report.n_trees for of in done.values())


def is_plain(text: str) -> bool:
    return all(letter == "\n" or unicodedata.category(letter) not in {"Cc", "Cf", "Cs"} for letter in text)


def test_control_characters_reach_no_terminal(tmp_path: Any) -> None:
    forest, y = named(hostile=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = [
            rfsize.size(forest, X, y, oob=True, alpha=0.8, average="macro"),
            rfsize.oob_score(forest, X, y),
            rfsize.StopTable.calibrate(forest, FRESH, alpha=0.6),
        ]
        rfsize.truncate(forest, X, y, oob=True, alpha=0.7)
    assert all(is_plain(f"{of}\n{of!r}") for of in results)
    assert all(is_plain(page_of(of, tmp_path)) for of in results[:2])
    assert all(is_plain(str(warning.message)) for warning in caught)


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_without_what_draws_a_page(missing: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of = result("score")
    monkeypatch.setitem(sys.modules, missing, None)
    assert of._repr_html_() is None
    with pytest.raises(ImportError, match="report"):
        of.to_html(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_pictures_of_a_page_leave_matplotlib_as_it_is() -> None:
    before = dict(mpl.rcParams), plt.get_fignums()
    plain = result("labels")._repr_html_()
    assert (dict(mpl.rcParams), plt.get_fignums()) == before
    with plt.style.context(["dark_background", {"font.size": 30.0}]):
        drawn = result("labels")._repr_html_()
    svgs = [re.findall("<svg.*?</svg>", html, re.DOTALL) for html in (plain, drawn)]
    assert svgs[0] == svgs[1]


@pytest.mark.parametrize("metric", ["accuracy", "f1_micro"])
def test_a_size_for_a_metric_of_labels_warns_as_one_for_labels(metric: str) -> None:
    kinds = {"n_classes": 3, "weights": [0.8, 0.16], "n_clusters_per_class": 1, "class_sep": 0.8, "flip_y": 0.1}
    X, y = make_classification(900, 8, n_informative=5, **kinds, random_state=0)
    forest = RandomForestClassifier(60, max_features=1, random_state=0).fit(X[:400], y[:400])
    report = rfsize.size(forest, X[400:], y[400:], metric=metric, tolerance=0.2)
    advised = [warning.options["metric"] for warning in report.warnings if warning.category is LabelsOnlyWarning]
    assert "brier" in advised
    assert report.enough
    assert report.n_trees < 10
    assert not report.page().code  # a warning says to size it otherwise
