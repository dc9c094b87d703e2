"""Detect whether rows given as fresh rows are the rows that the forest was trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.bags import Bags
from rfsize.adapters.base import Adapter
from rfsize.counting.bag_proof import BagProof
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.leaves import asked_about
from rfsize.exceptions import InbagError, TrainingRowsWarning
from rfsize.utils import matrix
from rfsize.utils.typing import Bools, Floats
from rfsize.utils.warn import Caution

# Fresh rows overfill some leaf long before all of them are counted, so leaves are checked after each part of the rows:
# number of parts, and fewest rows in a part.
_PARTS, _FEWEST_ROWS = 16, 512
# Number of rows to compare the members of a bagging ensemble on, and number of standard errors beyond chance.
_ROWS_COMPARED, _BEYOND_CHANCE = 1000, 4.0


def noting_training_rows(forest: ForestOnRows, y: Any = None, sample_weight: Any = None) -> tuple[Caution, ...]:
    """A warning if the rows are all training rows in their order; empty if they are not, or it cannot be known.

    Leaf counts prove it, as they prove bags. The proof begins only if there are as many rows as training rows. It ends
    as soon as a leaf holds more rows than at training. If members are not trees, rfsize compares how much they agree on
    rows in and out of their bags.

    Parameters
    ----------
    forest : ForestOnRows
        The forest, and the rows to ask all its trees about.
    y, sample_weight : array_like, shape (n_rows,), optional
        Labels and weights of the rows, if known; the bags or the proof may depend on them.
    """
    bags = _proven_bags(forest, y, sample_weight)
    if bags is None:
        return (Caution(TrainingRowsWarning, _SEEMS.format(n=forest.n_rows)),) if _agree_more_in_bags(forest) else ()
    advice = "leave some rows out of each bag" if bags.hold_all else "give oob=True"
    found = (
        f"X are the {forest.n_rows:,} rows that the forest was trained on, as its leaf counts prove, and trees agree "
        f"on rows that they have seen: {advice}, or give rows that it was not trained on"
    )
    return (Caution(TrainingRowsWarning, found),)


_SEEMS = (
    "X seem to be the {n:,} rows that the ensemble was trained on. There are as many, and members agree more on rows "
    "of their bags than on others: give oob=True, or give rows that it was not trained on"
)


def _agree_more_in_bags(forest: ForestOnRows) -> bool:
    """Whether members that are not trees agree more on the rows of their bags than on other rows.

    No member has seen fresh rows. On fresh rows, the rebuilt bags therefore split the members at random.
    """
    adapter = forest.adapter
    if adapter.are_trees or forest.bags is not None:
        return False
    try:
        bags = adapter.bags(forest.layout, None, None, None, None)
    except InbagError:  # the rows are more or fewer than the training rows
        return False
    n_rows = min(forest.n_rows, _ROWS_COMPARED)
    raw, seen = adapter.answers(matrix.take(forest.X, 0, n_rows)).raw, bags.take(0, n_rows)
    enough = np.minimum(seen.sum(axis=1), (~seen).sum(axis=1))[:, 0] > 1
    gap = (_scatter(raw, ~seen) - _scatter(raw, seen))[enough]
    return gap.size > 1 and bool(gap.mean() > _BEYOND_CHANCE * gap.std(ddof=1) / np.sqrt(gap.size))


def _scatter(raw: NDArray[Any], of: Bools) -> Floats:
    """Variance of the scores of some members on each row, summed over classes."""
    n = np.maximum(of.sum(axis=1), 2)
    mean = np.sum(raw * of, axis=1) / n
    return np.asarray((((raw - mean[:, None]) ** 2 * of).sum(axis=1) / (n - 1)).sum(axis=1))


def _proven_bags(forest: ForestOnRows, y: Any, sample_weight: Any) -> Bags | None:
    """The bags that were drawn from the rows; None if the rows are not training rows, or it cannot be known."""
    if forest.bags is not None:
        return None
    adapter = forest.adapter
    for known in ((None, None), (y, sample_weight)):
        try:
            bags = adapter.likely_bags(forest.layout, *known)
        except ValueError:  # labels or weights differ from those of training
            continue
        if bags is not None and _proves(adapter, forest.X, bags):
            return bags
        if y is None and sample_weight is None:
            break
    return None


def refuse_training_rows(forest: ForestOnRows) -> None:
    """Raise ``ValueError`` if the rows for a certificate are the rows that the forest was trained on."""
    if _proven_bags(forest, None, None) is not None or _agree_more_in_bags(forest):
        raise trained_on(forest.n_rows)


def trained_on(n_rows: int) -> ValueError:
    """The error for a certificate on the rows that the forest was trained on."""
    return ValueError(
        f"X are the {n_rows:,} rows that the forest was trained on, and a certificate from training rows does not "
        "hold for other rows: give rows that it was not trained on"
    )


def _proves(adapter: Adapter, X: Any, bags: Bags) -> bool:
    """Whether the leaf counts prove that the bags were drawn from these rows."""
    proof, ask, n_rows = BagProof(adapter, bags), asked_about(adapter, X), matrix.n_rows(X)
    step = max(_FEWEST_ROWS, -(-n_rows // _PARTS))
    for first, last in matrix.blocks(n_rows, adapter.n_trees * adapter.leaves.n_scores, what="rows"):
        for start in range(first, last, step):
            stop = min(start + step, last)
            proof.add(start, stop, ask(start, stop, None).leaf, bags.take(start, stop))
            if (bags.exceeded(adapter.leaves, proof.sums[0]) & adapter.leaves.provable).any():
                return False
    try:
        proof.conclude()
    except InbagError:
        return False
    return True
