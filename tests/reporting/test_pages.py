"""Pages that can be sent: what they say, that they load nothing, and that no name breaks out of its place."""

from __future__ import annotations

import pickle
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from lightgbm import LGBMClassifier

import rfsize
from helpers.forests import Data
from helpers.pages import Page
from rfsize.reporting.result import Result
from rfsize.sizing.words import in_words, roughly
from rfsize.utils.words import in_percent

LARGEST = 300_000
ELSEWHERE = re.compile(r"https?:|//[a-z]|@import|@font-face|url\((?!#)")

COPY = files("rfsize.reporting").joinpath("templates", "copy.js").read_text(encoding="utf-8").rstrip()

KINDS = [
    *("enough", "too few", "xgboost", "votes", "probability", "regression", "metric", "score", "odd score"),
    *("fraction", "mcnemar", "banfield"),
]
REPORTS = KINDS[:7]


def html_of(result: Result, folder: Path, *others: Result) -> str:
    result.to_html(folder / "page.html", *others)
    return (folder / "page.html").read_text(encoding="utf-8")


def check_alone(html: str) -> None:
    """It loads nothing, runs nothing but the script that copies, and is small."""
    html = html.replace(COPY, "").replace("<script>\n</script>", "").replace("<script>\n\n</script>", "")
    page = Page(html)
    assert len(html.encode()) < LARGEST
    assert not {"script", "link", "iframe", "object", "img", "base"} & set(page.tags)
    links = [value or "" for name, value in page.attributes if name in ("href", "xlink:href", "src")]
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    styles = [value or "" for name, value in page.attributes if name in ("style", "class")]
    sheets = re.findall(r"<style.*?>(.*?)</style>", html, re.DOTALL)
    assert not [text for text in styles + sheets if ELSEWHERE.search(text)]


def test_all_on_one_page(results: dict[str, Result], tmp_path: Path) -> None:
    first, *others = (results[kind] for kind in ("enough", "odd score", "mcnemar", "fraction"))
    html = html_of(first, tmp_path, *others)
    check_alone(html)
    told = Page(html).text
    for result in (first, *others):
        account = result._account()
        assert account.title in told
        assert account.verdict in told
    assert told.count("How it was computed") == told.count("Apply it") == 1


def test_names_are_told_as_they_are(results: dict[str, Result], forest: Any, tmp_path: Path) -> None:
    html = html_of(results["enough"], tmp_path, results["odd score"], results["mcnemar"])
    told = Page(html)
    assert "img" not in told.tags
    assert told.tags.count("script") == 1  # which is ours
    for name in forest.classes_:
        assert name in told.text
    drawn = Page("".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL)))
    assert "Out of bag, </text><script>alert(3)</script> $x_{1 font: 9px #010203 is " in drawn.text


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_tells_size_interval_and_losses(kind: str, results: dict[str, Result], tmp_path: Path) -> None:
    report: Any = results[kind]
    html = html_of(report, tmp_path)
    check_alone(html)
    told = Page(html).text
    expected = [report.goal.title, in_words(report.n_trees), *map(in_words, report.interval), f"{report.available:,}"]
    for name in (report.goal.name, *report._beside):
        loss = report.loss_at(report.n_kept, name).value
        expected.append(in_percent(loss) if name == "labels" else f"{loss:.2g}")
    expected += [f"{report.n_rows:,}", "rfsize " + rfsize.__version__]
    assert [part for part in expected if part not in told] == []
    assert (f" to {report.goal.aim}" in told) == report.enough
    assert "not enough" in told or report.enough
    for note in report._answer.notes():
        assert note.rstrip(".") in told


def test_the_verdict_is_plain(results: dict[str, Result]) -> None:
    found: Any = results["enough"]
    low, high = found.interval
    assert found._account().verdict == (
        f"{found.n_trees} of your 60 trees are enough (95 % interval {low} to {high}) to give the labels of an "
        "unlimited forest on 90 % of rows."
    )
    found = results["too few"]
    low, high = found.interval
    assert found._account().verdict == (
        f"Your 61 trees are not enough: about {roughly(found.n_trees):,} are needed (95 % interval {roughly(low):,} to "
        f"{roughly(high):,})."
    )


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning")
@pytest.mark.parametrize("kind", ["enough", "too few"])
def test_its_code_runs(
    kind: str, results: dict[str, Result], forest: Any, params: Any, dtrain: Any, tmp_path: Path
) -> None:
    report: Any = results[kind]
    code = Page(html_of(report, tmp_path)).code
    assert code.startswith("import rfsize\n")
    done: dict[str, Any] = {"model": forest, "report": report, "params": params, "data": dtrain}
    code = code.replace("alpha=0.999", "alpha=0.9, max_trees=200")  # which take less long
    exec(code, done)
    if report.enough:
        assert len(done["small"].estimators_) == report.n_trees
        assert done["fast"].n_trees == report.n_trees
    else:
        assert "average='macro'" in code
        assert done["larger"].num_trees() > 0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_its_code_for_an_estimator_runs(data: Data) -> None:
    model = LGBMClassifier(boosting_type="rf", subsample=0.5, subsample_freq=1, n_estimators=10, verbose=-1)
    model.fit(data.X, data.y)
    code = rfsize.size(model, data.fresh, alpha=0.999)._account().code
    done: dict[str, Any] = {"rfsize": rfsize, "model": model, "X": data.X, "y": data.y}
    exec(code.replace("alpha=0.999", "alpha=0.99, max_trees=200"), done)
    assert done["larger"].n_estimators_ > 10


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning")
def test_what_was_grown_is_not_cut_again(params: Any, dtrain: Any) -> None:
    grown, report = rfsize.grow(params, dtrain, alpha=0.8)
    assert grown.num_trees() == report.n_kept < report.available
    assert (
        report._account().code == "fast = rfsize.compile(model)  # predicts what model.predict does, many times faster"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_notebooks_show_each(kind: str, results: dict[str, Result]) -> None:
    shown = results[kind]._repr_html_()
    assert shown is not None
    assert "<html" not in shown
    assert "body {" not in shown  # it leaves the notebook's own looks alone
    check_alone(shown)
    assert Page(shown).text.split("How it was computed")[0].count(results[kind]._account().verdict) == 1


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_without_what_draws_it(
    missing: str, results: dict[str, Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert results["score"]._repr_html_() is None
    with pytest.raises(ImportError, match=rf"needs {missing.capitalize()}: pip install rfsize\[report\]"):
        results["score"].to_html(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_told_leaves_the_file_alone(results: dict[str, Result], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(ValueError, match=r"takes results of rfsize.*found a list"):
        results["score"].to_html(path, [results["enough"]])  # type: ignore[arg-type]
    assert path.read_text() == "before"
    results["score"].to_html(str(path))
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [path]


def test_a_pickled_report_tells_what_it_knows(results: dict[str, Result], tmp_path: Path) -> None:
    report = results["enough"]
    assert isinstance(report, rfsize.Report)
    told = Page(html_of(pickle.loads(pickle.dumps(report)), tmp_path)).text
    assert report._account().verdict in told
    assert in_percent(report.loss_at(report.n_kept).value) in told


def test_pictures_are_those_of_the_page_in_any_style(results: dict[str, Result], tmp_path: Path) -> None:
    before = dict(mpl.rcParams), plt.get_fignums()
    plain = results["enough"]._repr_html_()
    assert (dict(mpl.rcParams), plt.get_fignums()) == before
    with plt.style.context(["dark_background", {"font.size": 30.0}]):
        drawn = results["enough"]._repr_html_()
    assert re.findall("<svg.*?</svg>", str(plain), re.DOTALL) == re.findall("<svg.*?</svg>", str(drawn), re.DOTALL)
    assert "currentColor" in str(plain)
    assert "var(--c0)" in str(plain)
    assert "#0102" not in str(plain)
