"""What the trees of a finished forest say of the training rows that they did not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter, Bags
from rfsize.counting.walk import out_of_bag_members, visit_leaves, votes_by_class
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.outputs import OutOfBag
from rfsize.voting.scores import Scores


def out_of_bag(
    adapter: Adapter,
    bags: Bags,
    leaf_index: Callable[[int, int], NDArray[Any]],
    n_classes: int,
    threshold: float = 0.5,
    groups: Groups = ALONE,
) -> OutOfBag:
    """What the trees of a finished forest say of its training rows, once their bags are proven.

    Parameters
    ----------
    adapter : Adapter
        The forest.
    bags : Bags
        Its bags.
    leaf_index : callable
        Leaves that rows ``start`` to ``stop`` reach, as `Adapter.leaf_index` gives them.
    n_classes : int
        0 where the trees cast no votes.
    threshold : float, default 0.5
        As in `rfsize.votes`.
    groups : Groups, optional
        Rows that belong together.

    Raises
    ------
    InbagError
        If the proof fails.
    ValueError
        If a threshold is given for more than two classes.
    """
    cast = adapter.voter(adapter.checked_threshold(threshold))
    counts = np.zeros((bags.n_rows, n_classes), dtype=np.int32)
    scores: list[Scores] = []

    def count(rows: slice, leaf: NDArray[Any], inbag: NDArray[np.bool_] | None) -> None:
        leaf, may_vote = out_of_bag_members(leaf, inbag)
        scores.append(Scores.of(adapter.leaves.raw_scores(leaf), may_vote))
        if n_classes:
            counts[rows] = votes_by_class(cast(leaf), n_classes, may_vote)

    def leaves(start: int, stop: int) -> NDArray[Any]:
        return leaf_index(start, stop) + adapter.leaves.offset

    visit_leaves(adapter, bags, bags.n_rows, leaves, count, what="out-of-bag votes", groups=groups)
    return OutOfBag(counts, Scores.stacked(scores))
