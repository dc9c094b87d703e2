"""Identical trees: if training sampled nothing, more trees add no information to the first one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rfsize.exceptions import NotAForestError


def refuse_identical(trees: Iterable[Any], are_alike: Callable[[Any, Any], bool], train_with: str) -> None:
    """Raise `NotAForestError` if a forest of several trees holds the same tree every time.

    In most forests the first two trees differ, and no further tree is read.

    Parameters
    ----------
    trees : iterable
        Content of each tree, or of each set of trees that cast one vote together.
    are_alike : callable
        Tells whether two entries of ``trees`` are the same.
    train_with : str
        Parameters that make trees differ, for the message.
    """
    each, n_trees = iter(trees), 1
    first = next(each)
    for other in each:
        if not are_alike(first, other):
            return
        n_trees += 1
    if n_trees > 1:
        raise NotAForestError(
            f"all {n_trees} trees of the forest are identical, because training sampled neither rows nor columns. "
            f"Their votes say nothing about other forests. Train with {train_with}"
        )
