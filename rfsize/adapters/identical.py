"""Trees that are all the same: where nothing was sampled, more of them tell nothing that the first does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rfsize.exceptions import NotAForestError


def refuse_identical(trees: Iterable[Any], are_alike: Callable[[Any, Any], bool], train_with: str) -> None:
    """Raise `NotAForestError` where all trees, of which there are several, are alike.

    Of most forests the first two differ, and no others are looked at.

    Parameters
    ----------
    trees : iterable
        What each tree, or the trees that vote together, consist of.
    are_alike : callable
        Tells whether two of them are.
    train_with : str
        What makes a forest, for the message.
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
