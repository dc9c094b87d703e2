"""Detect whether rows given as fresh rows are the rows that the forest was trained on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rfsize.counting.bag_proof import BagProof
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.leaves import asked_about, trees_of
from rfsize.exceptions import InbagError, TrainingRowsWarning
from rfsize.models.bags import Bags
from rfsize.models.ensemble import LeafIds
from rfsize.models.model import Forest
from rfsize.utils import matrix
from rfsize.utils.pieces import Pieces
from rfsize.utils.typing import Bools, Floats
from rfsize.utils.warn import Caution

# Fresh rows overfill some leaf long before all of them are counted, so leaves are checked after each part of the rows:
# number of parts, and fewest rows in a part.
_PARTS, _FEWEST_ROWS = 16, 512
# Rows whose answers are compared: at least so many, and at most so many answers of trees. Then the number of standard
# errors beyond chance, and the smallest variance of a row's scores, as a share of their mean square.
_FEWEST_COMPARED, _CELLS_COMPARED, _BEYOND_CHANCE, _LEAST = 100, 4_000_000, 5.0, 1e-12


def noting_training_rows(forest: ForestOnRows, y: Any = None, sample_weight: Any = None) -> tuple[Caution, ...]:
    """A warning if the rows are the training rows in their order, or begin with them; empty if it cannot be known.

    Leaf counts prove that rows are all training rows, as they prove bags. The proof begins only if there are as many
    rows as training rows. It ends as soon as a leaf holds more rows than at training. That rows begin with training
    rows is a matter of evidence, see `begin_with_training_rows`.

    Parameters
    ----------
    forest : ForestOnRows
        The forest, and the rows to ask all its trees about.
    y, sample_weight : array_like, shape (n_rows,), optional
        Labels and weights of the rows, if known; the bags or the proof may depend on them.
    """
    bags = _proven_bags(forest, y, sample_weight)
    if bags is None:
        return (Caution(TrainingRowsWarning, _BEGIN),) if begin_with_training_rows(forest) else ()
    advice = "leave some rows out of each bag" if bags.hold_all else "give oob=True"
    found = (
        f"X are the {forest.n_rows:,} rows that the forest was trained on, as its leaf counts prove, and trees agree "
        f"on rows that they have seen: {advice}, or give rows that it was not trained on"
    )
    return (Caution(TrainingRowsWarning, found),)


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
    if _proven_bags(forest, None, None) is not None or begin_with_training_rows(forest):
        raise trained_on()


def trained_on() -> ValueError:
    """The error for a certificate on rows that the forest was trained on."""
    return ValueError(
        "X are rows that the forest was trained on, or begin with such rows, and a certificate from training rows does "
        "not hold for other rows: give rows that it was not trained on"
    )


_BEGIN = (
    "X begin with rows that the forest was trained on, in the order of training, and trees agree on rows that they "
    "have seen: give all training rows with oob=True, or rows that it was not trained on"
)


def begin_with_training_rows(forest: ForestOnRows) -> bool:
    """Whether rows begin with the first training rows, in the order of training.

    The bags of the first training rows are drawn again. On fresh rows they are independent of what the trees answer, so
    both statistics below are standard normal, whatever the rows. On training rows both grow:

    - Trees that saw a row answer it unlike the others. For each row, the squared difference of the two mean scores,
      divided by its variance over random bags of the same sizes, has a mean of 1. This tells most where leaves are
      small.
    - A leaf that holds more training rows than these rows lead one to expect holds more of them in its bag. This tells
      most where a tenth of the training rows or more is given.

    Not recognised are rows in another order or from another place of the training rows, a small part of many rows in
    large leaves, and rows of a forest whose bags cannot be drawn again: trained on several machines, by balanced
    bagging or without bagging, or loaded from a file of XGBoost, which keeps no seed. Nor are rows that are read piece
    by piece, which would be read twice.
    """
    adapter = forest.adapter
    if forest.bags is not None or adapter.ensemble is None or isinstance(forest.X, Pieces):
        return False
    most = max(_FEWEST_COMPARED, _CELLS_COMPARED // trees_of(adapter))
    try:
        bags = adapter.leading_bags(min(forest.n_rows, most))
    except InbagError:  # the model does not tell how its bags were drawn
        return False
    n_rows = 0 if bags is None else min(forest.n_rows, most, bags.n_rows)
    if bags is None or n_rows < _FEWEST_COMPARED:
        return False
    evidence = _Evidence(adapter)
    for start, stop in matrix.blocks(n_rows, trees_of(adapter), what="rows"):
        evidence.add(forest.ask(start, stop, None), bags.take(start, stop))
    of_scores, of_leaves = evidence.of_scores, evidence.of_leaves
    return max(of_scores, of_leaves, (of_scores + of_leaves) / math.sqrt(2.0)) > _BEYOND_CHANCE


class _Evidence:
    """Statistics of rows and rebuilt bags; see `begin_with_training_rows`."""

    def __init__(self, adapter: Forest) -> None:
        assert adapter.ensemble is not None
        self._trees, n_leaves = adapter.ensemble, adapter.ensemble.cover.size
        self._ratios: list[Floats] = []
        self._reached, self._inbag = np.zeros(n_leaves), np.zeros(n_leaves)

    def add(self, answers: LeafIds, inbag: Bools) -> None:
        """Add some rows, with the trees that would have seen them."""
        shape = answers.leaf.shape
        leaf, weight = answers.leaf.ravel(), np.broadcast_to(inbag, shape).ravel()
        self._reached += np.bincount(leaf, minlength=len(self._reached))
        self._inbag += np.bincount(leaf, weight, len(self._inbag))
        raw = answers.scores
        seen = np.broadcast_to(inbag, (*raw.shape[:2], inbag.shape[2]))
        n_in, n_trees = seen.sum(axis=1), raw.shape[1]
        of_seen = np.einsum("nts,nts->ns", raw, np.broadcast_to(seen, raw.shape).astype(np.float64))
        total = raw.sum(axis=1)
        with np.errstate(all="ignore"):  # numbers too large to be squared are left out below
            scatter = raw.var(axis=1, ddof=1) if n_trees > 1 else np.zeros(raw.shape[::2])
            apart = of_seen / n_in - (total - of_seen) / (n_trees - n_in)
            ratio = apart**2 / (scatter * (1.0 / n_in + 1.0 / (n_trees - n_in)))
            known = np.isfinite(ratio) & (scatter > _LEAST * np.square(raw).mean(axis=1))
        some = known.any(axis=1)
        self._ratios.append(np.where(known, ratio, 0.0)[some].sum(axis=1) / known[some].sum(axis=1))

    @property
    def of_scores(self) -> float:
        """How far trees that saw a row answer it unlike the others, in standard errors beyond chance."""
        ratio = np.concatenate(self._ratios)
        if len(ratio) < _FEWEST_COMPARED or ratio.std() == 0.0:
            return 0.0
        return float((ratio.mean() - 1.0) / (ratio.std(ddof=1) / math.sqrt(len(ratio))))

    @property
    def of_leaves(self) -> float:
        """How far bags fill the leaves that training filled, in standard errors beyond chance."""
        tree, cover = self._trees.tree_of_node, np.where(self._trees.has_cover, self._trees.cover, 0.0)
        rows, drawn, mass = (np.bincount(tree, of)[tree] for of in (self._reached, self._inbag, cover))
        with np.errstate(invalid="ignore", divide="ignore"):
            share = drawn / rows
            over = (drawn * cover / mass - share * self._reached) / self._reached
        over = np.where((self._reached > 0.0) & np.isfinite(over), over, 0.0)
        # The bag of a tree is a random sample of the rows, so the variance is that of a multivariate hypergeometric.
        mean = np.bincount(tree, over * self._reached)[tree] / np.maximum(rows, 1.0)
        spread = np.square(over - mean) * self._reached * share * (1.0 - share) * rows / np.maximum(rows - 1.0, 1.0)
        variance = float(np.nansum(spread))
        gained = float(np.nansum(over * (self._inbag - share * self._reached)))
        return gained / math.sqrt(variance) if variance > 0.0 else 0.0


def _proves(adapter: Forest, X: Any, bags: Bags) -> bool:
    """Whether the leaf counts prove that the bags were drawn from these rows."""
    proof, ask, n_rows = BagProof(adapter, bags), asked_about(adapter, X), matrix.n_rows(X)
    step, trees = max(_FEWEST_ROWS, -(-n_rows // _PARTS)), adapter.ensemble
    assert trees is not None
    for first, last in matrix.blocks(n_rows, adapter.n_trees * adapter.n_scores, what="rows"):
        for start in range(first, last, step):
            stop = min(start + step, last)
            proof.add(start, stop, ask(start, stop, None).leaf, bags.take(start, stop))
            if (bags.exceeded(trees, proof.sums[0]) & trees.has_cover).any():
                return False
    try:
        proof.conclude()
    except InbagError:
        return False
    return True
