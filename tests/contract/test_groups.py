"""Sizes where rows belong together: a group counts once, and only trees that saw none of its rows vote."""

from __future__ import annotations

from collections.abc import Callable
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
from helpers.warned import warned
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


FOREST = RandomForestClassifier(60, random_state=0)
COUNTS: dict[str, Callable[..., Any]] = {
    "out of bag": lambda rows, y, **given: rfsize.tree_outputs(FOREST.fit(rows, y), rows, y, oob=True, **given),
    "grow": lambda rows, y, **given: rfsize.grow(clone(FOREST), rows, y, alpha=0.9, max_trees=100, **given),
    "cross-validation": lambda rows, y, **given: rfsize.tree_outputs(clone(FOREST), rows, y, cv=3, **given),
    "oob_score": lambda rows, y, **given: rfsize.oob_score(FOREST.fit(rows, y), rows, y, **given),
}


@pytest.mark.parametrize("how", COUNTS)
def test_copies_are_named_with_both_remedies(how: str) -> None:
    (warning,) = warned(lambda: COUNTS[how](*copied(100)), ForestWarning)
    assert "50 %" in str(warning.message)
    for groups in ("copies", "rows"):
        assert f"groups='{groups}'" in str(warning.message)
        assert not warned(lambda groups=groups: COUNTS[how](*copied(100), groups=groups), ForestWarning)
    assert not warned(lambda: COUNTS[how](*copied(1)), ForestWarning)  # a few are no matter
