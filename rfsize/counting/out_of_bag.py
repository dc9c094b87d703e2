"""What the trees of a finished forest say of the training rows that they did not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter, Bags
from rfsize.counting.bag_proof import BagProof
from rfsize.counting.walk import out_of_bag_members, votes_by_class
from rfsize.utils.matrix import blocks
from rfsize.voting.outputs import OutOfBag
from rfsize.voting.scores import Scores


def out_of_bag(
    adapter: Adapter,
    bags: Bags,
    leaf_index: Callable[[int, int], NDArray[Any]],
    n_classes: int,
    threshold: float = 0.5,
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

    Raises
    ------
    InbagError
        If the proof fails.
    ValueError
        If a threshold is given for more than two classes.
    """
    proof, cast = BagProof(adapter, bags), adapter.voter(adapter.checked_threshold(threshold))
    counts = np.zeros((bags.n_rows, n_classes), dtype=np.int32)
    scores = []
    for start, stop in blocks(bags.n_rows, adapter.n_trees * adapter.leaves.n_scores, what="out-of-bag votes"):
        leaf = leaf_index(start, stop) + adapter.leaves.offset
        leaf, may_vote = out_of_bag_members(leaf, proof.add(start, stop, leaf))
        scores.append(Scores.of(adapter.leaves.raw_scores(leaf), may_vote))
        if n_classes:
            counts[start:stop] = votes_by_class(cast(leaf), n_classes, may_vote)
    proof.conclude()
    return OutOfBag(counts, Scores.stacked(scores))
