"""Sizes where rows belong together: a group counts once, and only trees that saw none of its rows vote."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier

import reference.counting
import reference.groups
import rfsize
from helpers.copied import continuous
from helpers.models import N_ROWS, TWO, X, model
from rfsize.exceptions import ForestWarning, NotConvergedWarning


@pytest.mark.parametrize("kind", ["LGBMClassifier", "XGBClassifier", "random forest"])
def test_copies_count_once(kind: str) -> None:
    order = np.random.default_rng(1).permutation(2 * N_ROWS) % N_ROWS
    rows, y = X[order], TWO[order]
    fraction = "max_samples" if kind == "random forest" else "subsample"
    trained = clone(model(kind).model).set_params(**{fraction: 0.3}).fit(rows, y)
    group = reference.groups.of_copies(rows.tolist())
    seen = reference.groups.spread(rfsize.inbag(trained, rows), group)
    counts = reference.counting.votes(rfsize.tree_outputs(trained, rows[::-1]).by_tree()[::-1].T, 2, seen)
    once = rfsize.Votes(counts[reference.groups.first_of_each(group)], n_trees=31)
    goal: dict[str, Any] = {"alpha": 0.8, "voting": "hard"}
    report = rfsize.size(trained, rows, oob=True, groups="copies", **goal)
    assert (report.groups, report.copied, report.estimate.n_rows + report.estimate.n_dropped) == ("copies", 1.0, N_ROWS)
    assert report.n_trees == rfsize.size(once, alpha=0.8).n_trees
    assert report.estimate.votes_per_row == once.n_votes[once.n_votes > 0].mean()
    alone = rfsize.size(trained, rows, oob=True, groups="rows", **goal)
    assert (alone.groups, alone.estimate.n_rows + alone.estimate.n_dropped) == ("rows", 2 * N_ROWS)
    outputs = rfsize.tree_outputs(trained, rows, oob=True, groups="copies")
    assert rfsize.size(outputs, **goal).interval == report.interval
    assert len(outputs.votes) == 2 * N_ROWS


def test_rows_without_votes_leave_the_size_untold() -> None:
    rows, y = continuous(400)
    rare = np.flatnonzero(y == 1)[:30]
    rows, y = np.concatenate([rows, *[rows[rare]] * 9]), np.concatenate([y, *[y[rare]] * 9])
    trained = RandomForestClassifier(101, random_state=0).fit(rows, y)
    given: dict[str, Any] = {"oob": True, "groups": "copies"}
    for goal in ({"alpha": 0.9}, {"alpha": 0.9, "voting": "soft"}, {"metric": "scores", "tolerance": 0.9}):
        report = rfsize.size(trained, rows, **given, **goal)
        assert (report.n_trees, report.interval, report.enough) == (np.inf, (1, np.inf), False)
        assert report.estimate.n_rows + report.estimate.n_dropped == 400
    with pytest.warns(NotConvergedWarning):
        assert len(rfsize.truncate(trained, rows, alpha=0.5, **given).estimators_) == 101


# Copies are named with what can be done about them


def copied(n_copies: int) -> tuple[np.ndarray, np.ndarray]:
    rows, y = continuous(300)
    return np.concatenate([rows, rows[:n_copies]]), np.concatenate([y, y[:n_copies]])


def copies_warnings(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in given if warning.category is ForestWarning]


@pytest.mark.parametrize("groups", ["copies", "rows"])
def test_copies_are_named_with_both_remedies(groups: str) -> None:
    rows, y = copied(100)
    forest = RandomForestClassifier(60, random_state=0).fit(rows, y)
    (text,) = copies_warnings(lambda: rfsize.tree_outputs(forest, rows, y, oob=True))
    assert f"groups='{groups}'" in text
    assert "50 %" in text
    assert not copies_warnings(lambda: rfsize.tree_outputs(forest, rows, y, oob=True, groups=groups))


def test_a_few_copies_are_no_matter() -> None:
    rows, y = copied(1)
    forest = RandomForestClassifier(60, random_state=0).fit(rows, y)
    assert not copies_warnings(lambda: rfsize.tree_outputs(forest, rows, y, oob=True))


@pytest.mark.parametrize(
    "how",
    [
        lambda rows, y: rfsize.grow(RandomForestClassifier(random_state=0), rows, y, alpha=0.9, max_trees=100),
        lambda rows, y: rfsize.tree_outputs(RandomForestClassifier(20, random_state=0), rows, y, cv=3),
        lambda rows, y: rfsize.oob_score(RandomForestClassifier(60, random_state=0).fit(rows, y), rows, y),
    ],
    ids=["grow", "cross-validation", "oob_score"],
)
def test_copies_are_told_of(how: Any) -> None:
    assert copies_warnings(lambda: how(*copied(100)))
