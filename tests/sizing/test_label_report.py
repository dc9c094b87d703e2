"""The report: interval, text, picture."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.outputs import outputs_of
from helpers.reports import agreement
from rfsize import theory
from rfsize.counting.scores import Scores
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.report import report_of
from rfsize.sizing.sentences import finding, headline
from rfsize.sizing.words import from_to
from rfsize.utils.words import in_percent


def votes_from(rng: np.random.Generator, n_rows: int, asked: int = 2001) -> rfsize.Votes:
    """Votes of rows whose fractions come from a Beta(0.5, 0.5), so that T*(0.95) is near 27."""
    for_class_1 = rng.binomial(asked, rng.beta(0.5, 0.5, size=n_rows))
    return rfsize.Votes(np.stack([asked - for_class_1, for_class_1], axis=1))


def test_interval_is_the_bootstrap_over_rows_a_quarter_wider() -> None:
    rng = np.random.default_rng(0)
    votes = votes_from(rng, 400)
    report = rfsize.size(votes, alpha=0.95, method="plugin")
    fractions = votes.fractions()[:, 1]
    replicates = [theory.ensemble_size(0.95, rng.choice(fractions, 400)) for _ in range(400)]
    middle = np.log(replicates).mean()
    low, high = np.exp(middle + 1.25 * (np.log(np.quantile(replicates, [0.025, 0.975])) - middle))
    assert report.interval[0] == pytest.approx(low, rel=0.1, abs=2)
    assert report.interval[1] == pytest.approx(high, rel=0.1, abs=2)
    assert report.interval == rfsize.size(votes, alpha=0.95, method="plugin").interval
    assert all(bound % 2 == 1 for bound in report.interval)


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    truth = theory.ensemble_size(0.95, (np.sin(np.linspace(0, np.pi / 2, 20_001)[:-1] + 1e-5)) ** 2)
    covered = 0
    for _ in range(100):
        low, high = rfsize.size(votes_from(rng, 500), alpha=0.95, method="plugin").interval
        covered += low <= truth <= high
    assert 87 <= covered <= 100


@pytest.mark.parametrize("n_rows", [49, 50])
def test_few_rows_of_a_class_are_named(n_rows: int) -> None:
    counts = [[3, 27], [14, 16]] * 200 + [[20, 10]] * n_rows
    told = "note: class 0 has only 49 rows"
    assert (told in str(rfsize.size(rfsize.Votes(counts), alpha=0.9))) == (n_rows == 49)


def test_interval_may_be_infinite() -> None:
    counts = np.array([[5, 5]] * 3 + [[0, 10]] * 97)
    low, high = rfsize.size(rfsize.Votes(counts), alpha=0.98, method="plugin").interval
    assert low <= high == math.inf


def test_unanimous_votes_need_one_tree() -> None:
    report = rfsize.size(rfsize.Votes([[0, 10], [10, 0]]), method="plugin")
    assert (report.n_trees, report.interval) == (1, (1, 1))
    assert report.enough
    assert agreement(report, 1) == 1.0


def test_too_few_votes_to_tell() -> None:
    report = rfsize.size(rfsize.Votes([[0, 9], [9, 0]]))
    assert not report.enough
    assert report.n_kept == 9
    assert "too few to tell" in str(report)
    assert (report.interval, report.upper(0.8)) == ((1, math.inf), math.inf)


@pytest.mark.parametrize("n_classes", [2, 3, 8])
def test_many_classes_take_more_votes(n_classes: int) -> None:
    fewest = {2: 10, 3: 16, 8: 30}[n_classes]
    rng = np.random.default_rng(0)
    pi = rng.dirichlet([0.2] * n_classes, 200)
    few, enough = (
        rfsize.size(rfsize.Votes(np.stack([rng.multinomial(asked, of_row) for of_row in pi])), alpha=0.6)
        for asked in (fewest - 1, fewest)
    )
    assert not few.enough
    assert few.interval == (1, math.inf)
    assert f"it takes at least {fewest}: train at least " in finding(few)
    assert enough.enough
    assert enough.interval[1] < math.inf


def test_a_pilot_of_many_classes_says_how_many_trees_it_takes() -> None:
    X, y = make_classification(300, 12, n_informative=6, n_classes=8, random_state=0)
    pilot = RandomForestClassifier(50, random_state=0).fit(X, y)
    report = rfsize.size(pilot, X, oob=True)
    assert (report.enough, report.interval) == (False, (1, math.inf))
    takes = re.search(r"it takes at least 30: train at least (\d+) trees", finding(report))
    assert takes is not None
    more = rfsize.size(RandomForestClassifier(int(takes[1]), random_state=0).fit(X, y), X, oob=True)
    assert more.votes_per_row >= 30
    assert 1 < more.interval[0] < more.interval[1] < math.inf


def test_text() -> None:
    report = rfsize.size(votes_from(np.random.default_rng(2), 500), alpha=0.95)
    first, second, *_, last = str(report).splitlines()
    assert str(report) == repr(report)
    low, high = report.interval
    assert first == f"{report.n_trees} of your 2,001 trees are enough (95 % interval {low} to {high})"
    assert second == f"  {in_percent(agreement(report, report.n_trees))} of labels equal those of an unlimited forest"
    assert last == "  from the 500 rows you gave, 2,001 votes each"
    assert headline(report) == f"T*(0.95) = {report.n_trees} ({low} to {high})"


def test_dictionary_is_json() -> None:
    report = rfsize.size(votes_from(np.random.default_rng(3), 500), alpha=0.95)
    values = json.loads(json.dumps(report.to_dict()))
    assert values["n_trees"] == report.n_trees
    assert values["interval"] == list(report.interval)
    assert values["enough"] is True


def soft_report(rng: np.random.Generator, n_rows: int, alpha: float, voting: str = "soft") -> rfsize.Report:
    """Averaged scores beside the votes; scores of a tree are normal."""
    votes = votes_from(rng, n_rows, asked=101)
    scores = Scores.of(rng.normal(rng.normal(size=(n_rows, 1, 1)), 1.0, size=(n_rows, 101, 1)))
    outputs = outputs_of(votes, scores, cut=0.0, voting="soft")
    return report_of(replace(outputs, n_trees=101, source="rows given"), LabelGoal(alpha, voting))


def test_the_rule_that_predict_obeys() -> None:
    report = soft_report(np.random.default_rng(5), 300, 0.95)
    assert (report._answer.goal.voting, report.to_dict()["voting"]) == ("soft", "soft")
    assert "majority vote" not in str(report)
    hard = soft_report(np.random.default_rng(5), 300, 0.95, "hard")
    assert hard.n_trees != report.n_trees
    assert "labels by majority vote; the model's own predict goes by averaged scores" in str(hard)


def many_class_votes(rng: np.random.Generator) -> rfsize.Votes:
    return rfsize.Votes(rng.multinomial(101, rng.dirichlet([0.6, 0.4, 0.3], size=300)))


PLOTTED = {
    "clear rows": lambda alpha: rfsize.size(rfsize.Votes([[101, 0]] * 400 + [[0, 101]] * 400), alpha=alpha),
    "two classes": lambda alpha: rfsize.size(votes_from(np.random.default_rng(4), 500, asked=101), alpha=alpha),
    "smooth": lambda alpha: rfsize.size(
        votes_from(np.random.default_rng(4), 500, asked=101), alpha=alpha, method="smooth"
    ),
    "many classes": lambda alpha: rfsize.size(many_class_votes(np.random.default_rng(6)), alpha=alpha),
    "averaged scores": lambda alpha: soft_report(np.random.default_rng(5), 300, alpha),
}


@pytest.mark.parametrize("kind", PLOTTED)
@pytest.mark.parametrize("alpha", [0.95, 0.9999])
def test_plot(alpha: float, kind: str, tmp_path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    report = PLOTTED[kind](alpha)
    axes = report.plot()
    axes.figure.savefig(tmp_path / "report.png")
    assert plt.imread(tmp_path / "report.png").std() > 0.05
    assert ("large enough" in axes.get_title()) == report.enough
    drawn = {line.get_label(): line.get_data() for line in axes.get_lines()}
    sizes, differ = next(line for name, line in drawn.items() if name.startswith("expected agreement"))
    assert differ == pytest.approx([report.loss_at(int(size)).value for size in sizes])
    assert set(drawn["your forest: 101 trees"][0]) == {101}
    assert axes.get_ylim()[1] < 1.0 - alpha < axes.get_ylim()[0]
    if math.isfinite(report.n_trees):
        marked = next(bar for bar in axes.containers if bar.get_label() == f"T* = {report.n_trees:,}, 95 % interval")
        assert marked.lines[0].get_xydata().tolist() == [[report.n_trees, pytest.approx(1.0 - alpha)]]
        ends = marked.lines[2][0].get_segments()[0][:, 0]
        assert ends == pytest.approx(np.minimum(report.interval, axes.get_xlim()[1]))
    assert len(axes.figure.axes) == 1
    written = [text.get_text() for text in axes.texts]
    assert written == ([f"T* = {report.n_trees:,}\n({from_to(report.interval)})"] if axes.containers else [])
    _, left = plt.subplots()
    report._answer.pictures()[0].draw(left)
    heights = left.patches[0].get_data().values
    assert heights.sum() == pytest.approx(1.0)
    margins = report._answer.estimate.margins()
    at_the_tie = np.abs(margins.values - margins.tie) <= abs(margins.most - margins.tie) / len(heights)
    share = margins.rows[at_the_tie].sum() / margins.rows.sum()
    assert heights[0 if margins.tie < margins.most else -1] == pytest.approx(share, abs=0.01)
    _, mine = plt.subplots()
    assert report.plot(ax=mine) is mine
    assert len(mine.figure.axes) == 1
    plt.close("all")


def test_a_soft_report_is_of_the_rows_with_two_scores() -> None:
    """Rows that one tree has scored have a vote, but no spread."""
    rng = np.random.default_rng(7)
    may_vote = rng.random((200, 20)) < 0.1
    score = rng.normal(size=(200, 20, 1))
    counts = np.stack([((score[:, :, 0] <= 0) & may_vote).sum(axis=1), ((score[:, :, 0] > 0) & may_vote).sum(axis=1)])
    outputs = outputs_of(rfsize.Votes(counts.T, n_trees=20), Scores.of(score, may_vote))
    asked = may_vote.sum(axis=1)
    soft = report_of(replace(outputs, n_trees=20, source="oob"), LabelGoal(0.9, "soft"))
    assert (soft.n_rows, soft.n_dropped) == ((asked > 1).sum(), (asked < 2).sum())
    assert soft.votes_per_row == pytest.approx(asked[asked > 1].mean())
    hard = report_of(replace(outputs, n_trees=20, source="oob"), LabelGoal(0.9, "hard"))
    assert (hard.n_rows, hard.votes_per_row) == ((asked > 0).sum(), pytest.approx(asked[asked > 0].mean()))


def test_infinite_scores_leave_the_votes_to_be_sized() -> None:
    scores = Scores.of(np.full((50, 20, 1), np.inf))
    outputs = outputs_of(rfsize.Votes([[5, 15]] * 50), scores)
    report = report_of(replace(outputs, n_trees=20, source="rows given"), LabelGoal(0.9, "hard"))
    assert report.enough
    assert report._beside == ()
    with pytest.raises(ValueError, match="must be finite"):
        report_of(replace(outputs, n_trees=20, source="rows given"), LabelGoal(0.9, "soft"))


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.99, "99 %"),
        (0.995, "99.5 %"),
        (0.99999, "99.999 %"),
        (0.9999995, "99.99995 %"),
        (1.0, "100 %"),
        (0.5, "50 %"),
        (0.1234567, "12.35 %"),
        (0.000021, "0.002 %"),
        (0.0, "0 %"),
    ],
)
def test_a_share_is_not_printed_as_all_or_none(share: float, words: str) -> None:
    assert in_percent(share) == words
