"""What the trees of a finished forest say of the training rows that they did not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.bags import Bags
from rfsize.adapters.base import Adapter
from rfsize.counting.bag_proof import BagProof
from rfsize.counting.tally import Tally
from rfsize.counting.walk import SeenByGroup, visit_leaves
from rfsize.voting.blocks import rows_in_blocks
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.tallied import Tallied


def out_of_bag(
    adapter: Adapter,
    bags: Bags,
    leaf_index: Callable[[int, int], NDArray[Any]],
    threshold: float = 0.5,
    groups: Groups = ALONE,
) -> Tallied:
    """What the trees of a finished forest say of its training rows, once their bags are proven.

    Parameters
    ----------
    adapter : Adapter
        The forest.
    bags : Bags
        Its bags.
    leaf_index : callable
        Leaves that rows ``start`` to ``stop`` reach, as `Adapter.leaf_index` gives them.
    threshold : float, default 0.5
        As in `rfsize.tree_outputs`.
    groups : Groups, optional
        Rows that belong together.

    Raises
    ------
    InbagError
        If the proof fails.
    ValueError
        If a threshold is given for more than two classes.
    """
    in_blocks = np.zeros(bags.n_rows, dtype=np.bool_)
    in_blocks[rows_in_blocks(bags.n_rows, len(adapter.classes), adapter.leaves.n_scores)] = True
    scored = np.ones(bags.n_rows, dtype=np.bool_)
    tally = Tally(adapter, bags.n_rows, adapter.checked_threshold(threshold), scored=scored, in_blocks=in_blocks)

    def leaves(start: int, stop: int) -> NDArray[Any]:
        return leaf_index(start, stop) + adapter.leaves.offset

    proof, seen = BagProof(adapter, bags), SeenByGroup.of(bags, groups)
    visit_leaves(adapter, bags.n_rows, leaves, tally.add, what="out-of-bag votes", proof=proof, seen=seen)
    proof.conclude()
    return tally.result
