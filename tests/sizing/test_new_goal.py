"""A new goal is one class, and one entry in the list of goals: all that a report does with it follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import rfsize
from helpers.forests import Data
from rfsize import theory
from rfsize.counting.evidence import Evidence
from rfsize.reporting.account import Grid
from rfsize.sizing.goals import named
from rfsize.sizing.goals.base import Answer, GoalWithin
from rfsize.utils.warn import Caution


@dataclass(frozen=True)
class BiggestError(GoalWithin):
    """The standard error of the row on which the trees scatter most."""

    names = ("biggest_error",)

    @classmethod
    def beside(cls, outputs: Evidence) -> tuple[str, ...]:
        return cls.names

    @property
    def aim(self) -> str:
        return f"leave no row further off than {self.level_in_words}"

    @property
    def axis(self) -> str:
        return "biggest standard error"

    def answer(self, outputs: Evidence) -> BiggestErrorAnswer:
        return BiggestErrorAnswer(self, outputs)


class BiggestErrorAnswer(Answer):
    def __init__(self, goal: BiggestError, outputs: Evidence) -> None:
        assert outputs.scores is not None
        self.goal, self.lacks_votes = goal, False
        self.variance = float(outputs.scores.covariance(0, 0).max())
        self.n_rows, self.n_dropped = len(outputs.scores), 0
        self.votes_per_row = float(outputs.scores.asked.mean())
        self.n_trees = self.size_at(goal.level)
        self.cautions = (Caution(UserWarning, "one row decides"),)

    def size_at(self, level: float) -> int | float:
        return theory.smallest_size(self.value, level)

    def quantile(self, share_below: float) -> int | float:
        return self.n_trees

    def value(self, n_trees: int) -> float:
        return math.sqrt(self.variance / n_trees)

    def interval(self, n_trees: int) -> tuple[float, float]:
        return self.value(n_trees), self.value(n_trees)

    def said(self, n_trees: int) -> str:
        return f"no row is further off than {self.value(n_trees):.2g}"

    def in_short(self, n_trees: int) -> str:
        return f"biggest error {self.value(n_trees):.2g}"

    def grids(self, n_trees: int) -> tuple[Grid, ...]:
        return (Grid(("biggest variance",), ((f"{self.variance:.3g}",),)),)


@pytest.fixture
def forest(data: Data, monkeypatch: pytest.MonkeyPatch) -> RandomForestRegressor:
    monkeypatch.setattr(named, "GOALS", (*named.GOALS, BiggestError))
    return RandomForestRegressor(60, min_samples_leaf=5, random_state=0).fit(data.X, data.X[:, 0] + data.y)


def test_a_report_says_all_of_it(forest: RandomForestRegressor, data: Data, tmp_path: Path) -> None:
    by_tree = np.stack([tree.predict(data.fresh) for tree in forest.estimators_])
    biggest = by_tree.var(axis=0, ddof=1).max()
    with pytest.warns(UserWarning, match="one row decides"):
        report = rfsize.size(forest, data.fresh, metric="biggest_error", tolerance=0.3)
    assert report.n_trees == math.ceil(biggest / 0.3**2)
    assert report.size_at(0.1) == math.ceil(biggest / 0.1**2)
    assert report.loss_at(40).value == pytest.approx(math.sqrt(biggest / 40.0))
    kept = math.sqrt(biggest / report.n_kept)
    assert f"no row is further off than {kept:.2g}\n  ! one row decides\n" in str(report)
    assert report.to_dict()["metric"] == "biggest_error"
    assert report.plot().get_ylabel() == "biggest standard error"
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "to leave no row further off than 0.3." in page
    assert "biggest variance" in page


def test_reports_about_others_list_it(forest: RandomForestRegressor, data: Data) -> None:
    report = rfsize.size(forest, data.fresh, metric="scores", tolerance=0.3)
    assert (
        f"against an unlimited forest: biggest error {report.loss_at(report.n_kept, 'biggest_error').value:.2g}"
        in str(report)
    )
