"""What is done about training rows that occur more than once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import rfsize
from rfsize.exceptions import ForestWarning


def rows(n_copies: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(int)
    return np.concatenate([X, X[:n_copies]]), np.concatenate([y, y[:n_copies]])


def copies_warnings(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in given if warning.category is ForestWarning]


@pytest.mark.parametrize("groups", ["copies", "rows"])
def test_copies_are_named_with_both_remedies(groups: str) -> None:
    X, y = rows(100)
    forest = RandomForestClassifier(60, random_state=0).fit(X, y)
    (text,) = copies_warnings(lambda: rfsize.tree_outputs(forest, X, y, oob=True))
    assert f"groups='{groups}'" in text
    assert "50 %" in text
    assert not copies_warnings(lambda: rfsize.tree_outputs(forest, X, y, oob=True, groups=groups))


def test_a_few_copies_are_no_matter() -> None:
    X, y = rows(1)
    forest = RandomForestClassifier(60, random_state=0).fit(X, y)
    assert not copies_warnings(lambda: rfsize.tree_outputs(forest, X, y, oob=True))


@pytest.mark.parametrize(
    "how",
    [
        lambda X, y: rfsize.grow(RandomForestClassifier(random_state=0), X, y, alpha=0.9, max_trees=100),
        lambda X, y: rfsize.tree_outputs(RandomForestClassifier(20, random_state=0), X, y, cv=3),
        lambda X, y: rfsize.oob_score(RandomForestClassifier(60, random_state=0).fit(X, y), X, y),
    ],
    ids=["grow", "cross-validation", "oob_score"],
)
def test_copies_are_told_of(how: Any) -> None:
    assert copies_warnings(lambda: how(*rows(100)))
