"""Where `TreeOutputs` come from: a finished forest, a forest in training, or counted votes.

A warning says if the rows that are given as fresh rows are those of training.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from rfsize._util import Bools, Caution, Floats
from rfsize.counting.count import count
from rfsize.counting.groups import warning_of_copies
from rfsize.counting.outputs import TreeOutputs
from rfsize.counting.sums import Sums
from rfsize.counting.task import BagCheck, Task
from rfsize.counting.votes import Votes
from rfsize.exceptions import InbagError, TrainingRowsWarning
from rfsize.models.bags import Bags, Layout
from rfsize.models.ensemble import LeafIds, TreeEnsemble
from rfsize.models.link import Predictor
from rfsize.models.model import dependence_of, learning_rate_of
from rfsize.models.rows import Rows
from rfsize.models.training import ForestInTraining

# Fresh rows overfill some leaf long before all of them are counted, so leaves are checked after each part of the rows:
# number of parts, and fewest rows in a part.
_PARTS, _FEWEST_ROWS = 16, 512
# Rows whose leaves are compared: at least so many, and at most so many leaves. Then the number of standard errors
# beyond chance, and the smallest variance of a row's scores, as a share of their mean square.
_FEWEST_COMPARED, _CELLS_COMPARED, _BEYOND_CHANCE, _LEAST = 100, 4_000_000, 5.0, 1e-12


def collect_outputs(task: Task, *, means: bool = False, of_all: Task | None = None) -> TreeOutputs:
    """The outputs of a finished forest with ``y`` and weights, and a warning if the rows are the training rows.

    ``of_all`` is the task of all rows, if only some of them are counted.
    """
    of_rows = warning_of_training_rows(of_all or task)
    outputs = outputs_of(task, means=means).with_truth(task.y, task.sample_weight)
    return replace(outputs, warnings=(*of_rows, *outputs.warnings))


def outputs_of(task: Task, *, means: bool = False) -> TreeOutputs:
    """The outputs of a finished forest, with warnings about its training and about copies of rows.

    Raises
    ------
    InbagError
        If the bags cannot be proven.
    """
    forest, sums = task.forest, count(task, means=means)
    spares_labels = not learning_rate_of(forest, labels_at=task.threshold)
    learning_rate = (replace(caution, spares_labels=spares_labels) for caution in learning_rate_of(forest))
    warnings = (*dependence_of(forest), *learning_rate, *warning_of_copies(task.groups))
    source = "rows given" if task.bags is None else "oob"
    described: dict[str, Any] = {"source": source, "groups": task.groups, "warnings": warnings, "task": task}
    return outputs_of_sums(sums, forest.n_trees, task.predictor, **described)


def outputs_in_training(forest: ForestInTraining) -> TreeOutputs:
    """The outputs of a forest that is still growing; ``InbagError`` if no training row can be out of bag."""
    forest.check_bags()
    sums = forest.out_of_bag
    classes = np.arange(sums.counts.shape[1]) if forest.classes is None else forest.classes
    predictor = Predictor(classes, forest.link, forest.threshold, forest.voting)
    return outputs_of_sums(sums, forest.n_trees, predictor, source="oob", groups=forest.groups)


def outputs_of_sums(sums: Sums, n_trees: int, predictor: Predictor, **described: Any) -> TreeOutputs:
    """The outputs of trees that were counted; ``described`` are further fields of `TreeOutputs`."""
    votes = None
    if sums.counts.shape[1]:
        votes = Votes(sums.counts, predictor.classes, n_trees, threshold=predictor.threshold)
    return TreeOutputs(len(sums.counts), n_trees, votes, sums, predictor, **described)


def outputs_of_votes(votes: Votes) -> TreeOutputs:
    """Votes that were counted elsewhere; ``ValueError`` if they do not tell the number of trees."""
    votes.check_trees()
    return TreeOutputs(len(votes), votes.n_trees, votes, source="oob" if votes.is_out_of_bag else "rows given")


# Rows that are given as fresh rows, and are those of training


def warning_of_training_rows(task: Task) -> tuple[Caution, ...]:
    """A warning if the rows are the training rows in their order, or begin with them; empty if it cannot be known.

    Leaf counts prove that rows are all training rows, as they prove bags. The proof begins only if there are as many
    rows as training rows. It ends as soon as a leaf holds more rows than at training. The bags or the proof may depend
    on labels and weights of the rows; they are tried without and with those of the task. That rows begin with training
    rows is a matter of evidence, see `begin_with_training_rows`.
    """
    if _are_training_rows(task):
        what = f"are the {task.n_rows:,} rows that the forest was trained on, as its leaf counts prove"
    elif begin_with_training_rows(task):
        what = "begin with rows that the forest was trained on, in the order of training"
    else:
        return ()
    advice = "give rows that it was not trained on, or, if each bag left some out, all training rows with oob=True"
    text = f"X {what}, and trees agree on rows that they have seen: {advice}"
    return (Caution(TrainingRowsWarning, text),)


def refuse_training_rows(task: Task) -> None:
    """Raise ``ValueError`` if the rows for a certificate are the rows that the forest was trained on."""
    if _are_training_rows(task) or begin_with_training_rows(task):
        raise training_rows_error()


def training_rows_error() -> ValueError:
    """The error for a certificate on rows that the forest was trained on."""
    what = "X are rows that the forest was trained on, or begin with such rows"
    return ValueError(f"{what}, and training rows certify nothing for others: give fresh rows")


def _are_training_rows(task: Task) -> bool:
    """Whether bags that are drawn from the rows prove that they are the training rows; False if it cannot be known."""
    if task.bags is not None:
        return False
    layout = Layout.alone(task.n_rows) if isinstance(task.X, Rows) else task.X.layout(None)
    for given in ((None, None), (task.y, task.sample_weight))[: 1 + (task.y is not None)]:
        try:
            bags = task.forest.likely_bags(layout, *given)
        except ValueError:  # labels or weights differ from those of training, or bags cannot be drawn again
            continue
        if bags is not None and _proves(task, bags):
            return True
    return False


def _proves(task: Task, bags: Bags) -> bool:
    """Whether the leaf counts prove that the bags were drawn from these rows."""
    trees, check, most = task.forest.ensemble, BagCheck(task.forest, bags), max(_FEWEST_ROWS, -(-task.n_rows // _PARTS))
    assert trees is not None
    for _ in replace(task.walk, bags=bags).batches("rows", most_rows=most, check=check):
        if (bags.exceeded(trees, check.rebuilt) & trees.has_cover).any():
            return False
    with suppress(InbagError):
        check.conclude()
        return True
    return False


def begin_with_training_rows(task: Task) -> bool:
    """Whether rows begin with the first training rows, in the order of training.

    The bags of the first training rows are drawn again. On fresh rows they are independent of what the trees predict,
    so both statistics below are standard normal, whatever the rows. On training rows both grow:

    - Trees that saw a row predict it unlike the others. For each row, the squared difference of the two mean scores,
      divided by its variance over random bags of the same sizes, has a mean of 1. This tells most where leaves are
      small.
    - A leaf that holds more training rows than these rows lead one to expect holds more of them in its bag. This tells
      most where a tenth of the training rows or more is given.

    Not recognised are rows in another order or from another place of the training rows, a small part of many rows in
    large leaves, and rows of a forest whose bags cannot be drawn again: trained on several machines, by balanced
    bagging or without bagging, or loaded from a file of XGBoost, which keeps no seed. Nor are rows that are read piece
    by piece, which would be read twice.
    """
    ensemble = task.forest.ensemble
    if task.bags is not None or ensemble is None or not isinstance(task.X, Rows) or task.X.is_stream:
        return False
    most = max(_FEWEST_COMPARED, _CELLS_COMPARED // ensemble.tree_start.size)
    try:
        bags = task.forest.leading_bags(min(task.n_rows, most))
    except InbagError:  # the model does not tell how its bags were drawn
        return False
    n_rows = 0 if bags is None else min(task.n_rows, most, bags.n_rows)
    if bags is None or n_rows < _FEWEST_COMPARED:
        return False
    ratios, in_leaves = [], np.zeros((2, ensemble.cover.size))
    for batch in replace(task.walk, n_rows=n_rows).batches("rows"):
        inbag = bags.take(batch.rows.start, batch.rows.stop)
        ratios.append(_ratios(batch.leaves, inbag))
        leaf, drawn = batch.leaves.leaf.ravel(), np.broadcast_to(inbag, batch.leaves.leaf.shape).ravel()
        in_leaves += [np.bincount(leaf, weight, ensemble.cover.size) for weight in (None, drawn)]
    of_scores, of_leaves = _beyond_chance(np.concatenate(ratios)), _fullness(ensemble, *in_leaves)
    return max(of_scores, of_leaves, (of_scores + of_leaves) / math.sqrt(2.0)) > _BEYOND_CHANCE


def _ratios(leaves: LeafIds, inbag: Bools) -> Floats:
    """For each row, how far the trees that would have seen it differ from the others, squared, with a mean of 1."""
    scores = leaves.scores.astype(np.float64)  # the sums of nearly the same numbers cancel
    seen = np.broadcast_to(inbag, (*scores.shape[:2], inbag.shape[2]))
    n_in, n_trees = seen.sum(axis=1), scores.shape[1]
    of_seen = np.einsum("nts,nts->ns", scores, np.broadcast_to(seen, scores.shape))
    with np.errstate(all="ignore"):  # numbers too large to be squared are left out below
        variance = scores.var(axis=1, ddof=1) if n_trees > 1 else np.zeros(scores.shape[::2])
        apart = of_seen / n_in - (scores.sum(axis=1) - of_seen) / (n_trees - n_in)
        ratio = apart**2 / (variance * (1.0 / n_in + 1.0 / (n_trees - n_in)))
        known = np.isfinite(ratio) & (variance > _LEAST * np.square(scores).mean(axis=1))
    rows = known.any(axis=1)
    return np.asarray(np.where(known, ratio, 0.0)[rows].sum(axis=1) / known[rows].sum(axis=1))


def _beyond_chance(ratio: Floats) -> float:
    """How far trees that saw a row predict it unlike the others, in standard errors beyond chance."""
    if len(ratio) < _FEWEST_COMPARED or ratio.std() == 0.0:
        return 0.0
    return float((ratio.mean() - 1.0) / (ratio.std(ddof=1) / math.sqrt(len(ratio))))


def _fullness(trees: TreeEnsemble, reached: Floats, inbag: Floats) -> float:
    """How far bags fill the leaves that training filled, in standard errors beyond chance.

    ``reached`` counts the rows in each leaf, ``inbag`` those in the bag of its tree; both of shape (n_nodes,).
    """
    tree, cover = trees.tree_of_node, np.where(trees.has_cover, trees.cover, 0.0)
    rows, drawn, total = (np.bincount(tree, of_leaf)[tree] for of_leaf in (reached, inbag, cover))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = drawn / rows
        over = (drawn * cover / total - share * reached) / reached
    over = np.where((reached > 0.0) & np.isfinite(over), over, 0.0)
    # The bag of a tree is a random sample of the rows, so the variance is that of a multivariate hypergeometric.
    mean = np.bincount(tree, over * reached)[tree] / np.maximum(rows, 1.0)
    spread = np.square(over - mean) * reached * share * (1.0 - share) * rows / np.maximum(rows - 1.0, 1.0)
    variance = float(np.nansum(spread))
    gained = float(np.nansum(over * (inbag - share * reached)))
    return gained / math.sqrt(variance) if variance > 0.0 else 0.0
