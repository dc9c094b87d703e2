"""What is counted is told in the singular where it is one."""

from __future__ import annotations

import math
import re
from typing import Any

import lightgbm as lgb
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.forests import LIGHTGBM
from rfsize.utils.words import how_many, printable

ONE_OF_MANY = re.compile(r"(?<![\d.,])1 (\w+ )?(trees|rows|votes|members)\b|\b1 (of the [\d,]+ trees )?are\b")
ONE_VOTE = rfsize.Votes([[0, 1]] * 3)
SETTLED = rfsize.Votes([[0, 10], [10, 0]])


def test_control_characters_are_not_obeyed() -> None:
    assert printable("Köln 中\xa0🌲 $x$") == "Köln 中\xa0🌲 $x$"
    assert printable("a\x1b[2J\nb\x00\x9b\u202e\u2028\ud800\x7f") == r"a\x1b[2J\nb\x00\x9b\u202e\u2028\ud800\x7f"
    assert printable(3) == "3"


def test_how_many() -> None:
    assert [how_many(count, "tree") for count in (0, 1, 1.0, 1200, math.inf)] == [
        "0 trees",
        "1 tree",
        "1.0 tree",
        "1,200 trees",
        "inf trees",
    ]


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning")
def test_one_of_a_kind_is_told_in_the_singular() -> None:
    X = np.linspace(0.0, 1.0, 200)[:, None]
    y = (X[:, 0] > 0.5).astype(int)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    alone = RandomForestClassifier(1, random_state=0).fit(X, y)
    grown, report = rfsize.grow(LIGHTGBM, lgb.Dataset(X, y), alpha=0.9)
    assert (grown.num_trees(), report.n_trees) == (1, 1)
    results = [
        report,
        rfsize.size(ONE_VOTE),
        rfsize.size(SETTLED, method="plugin"),
        rfsize.size(forest, X[:1], alpha=0.9),
        rfsize.size(forest, X, metric="probabilities", tolerance=0.1),
        rfsize.size(forest, X, y, metric="accuracy", tolerance=0.1),
        rfsize.StopTable.build(1),
        rfsize.StopTable.lossless([1.0]),
        rfsize.compile(alone),
        rfsize.tree_outputs(alone, X[:1]),
        ONE_VOTE.take(slice(1)),
    ]
    drawn = results[1].plot().get_legend_handles_labels()[1]
    told = [*map(str, results), str(report._account()), str(results[3]._account()), str(drawn)]
    plt.close("all")
    assert [text for text in told if ONE_OF_MANY.search(text)] == []
    assert report._account().verdict.startswith("1 of the 100 trees grown is enough (")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (lambda: rfsize.compile(stump(), rfsize.StopTable.build(3)), "the forest has 1 tree and 2 classes"),
        (lambda: rfsize.StopTable.calibrate(stump(), np.zeros((1, 1))), "1 row cannot certify"),
    ],
)
def test_refusals(said: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        said()


def stump() -> RandomForestClassifier:
    return RandomForestClassifier(1, random_state=0).fit([[0.0], [1.0]], [0, 1])
