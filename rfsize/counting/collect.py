"""Where outputs come from: a finished forest, a forest in training, counted votes, or folds of a cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Int64s, class_indices
from rfsize.counting.count import Sums, count
from rfsize.counting.duplicates import warning_of_copies
from rfsize.counting.groups import NO_GROUPS, Groups
from rfsize.counting.outputs import TreeOutputs, with_warnings
from rfsize.counting.part_sums import PartSums, Scores
from rfsize.counting.task import Task, brought_here
from rfsize.counting.training_rows import warning_of_training_rows
from rfsize.counting.votes import Votes
from rfsize.models.link import Predictor
from rfsize.models.model import dependence_of, learning_rate_of
from rfsize.models.training import ForestInTraining


def outputs_of(task: Task, *, means: bool = False) -> TreeOutputs:
    """The outputs of a finished forest, with warnings about its training and about copies of rows.

    Raises
    ------
    InbagError
        If the bags cannot be proven.
    """
    forest, threshold, sums = task.forest, task.threshold, count(task, means=means)
    classes, spares_labels = forest.classes, not learning_rate_of(forest, labels_at=threshold)
    learning_rate = (replace(caution, spares_labels=spares_labels) for caution in learning_rate_of(forest))
    return TreeOutputs(
        task.n_rows,
        forest.n_trees,
        Votes(sums.counts, classes, forest.n_trees, threshold=threshold) if len(classes) else None,
        sums,
        predictor=task.predictor,
        source=task.source,
        groups=task.groups,
        warnings=(*dependence_of(forest), *learning_rate, *warning_of_copies(task.groups)),
        task=task,
    )


def collect_outputs(task: Task, y: Any = None, sample_weight: Any = None, *, means: bool = False) -> TreeOutputs:
    """The outputs of a finished forest with ``y`` and weights, and a warning if the rows are the training rows."""
    y, sample_weight = brought_here(task.X, y), brought_here(task.X, sample_weight)
    of_rows = warning_of_training_rows(task, y, sample_weight)
    outputs = outputs_of(task, means=means)
    if y is None and task.bags is not None:
        sample_weight = None  # given only for the proof of the bags
    return with_warnings(outputs.with_truth(y, sample_weight), *of_rows)


def outputs_of_votes(votes: Votes) -> TreeOutputs:
    """Votes that were counted elsewhere; ``ValueError`` if they do not tell the number of trees."""
    votes.check_trees()
    return TreeOutputs(len(votes), votes.n_trees, votes, source="oob" if votes.is_out_of_bag else "rows given")


def outputs_in_training(forest: ForestInTraining) -> TreeOutputs:
    """The outputs of a forest that is still growing; ``InbagError`` if no training row can be out of bag."""
    forest.check_bags()
    sums, n_trees, threshold = forest.out_of_bag, forest.n_trees, forest.threshold
    votes = Votes(sums.counts, forest.classes, n_trees, threshold=threshold) if sums.counts.shape[1] else None
    return TreeOutputs(
        len(sums.counts),
        n_trees,
        votes,
        sums,
        predictor=Predictor(np.zeros(0) if votes is None else votes.classes, forest.link, threshold, forest.voting),
        source="oob",
        groups=forest.groups,
    )


def outputs_of_folds(
    parts: Sequence[tuple[Int64s, TreeOutputs]], classes: NDArray[Any], n_rows: int, groups: Groups = NO_GROUPS
) -> TreeOutputs:
    """Join the folds of a cross-validation: each row has the outputs of the forest that was trained without it.

    Parameters
    ----------
    parts : sequence of tuple
        For each fold the numbers of its held-out rows, and the outputs of its forest on them.
    classes : ndarray, shape (n_classes,)
        All classes, also those that some forests do not know; empty for regression.
    n_rows : int
        Number of all rows; rows that no fold holds out have no votes.
    groups : Groups, optional
        Rows that belong together.

    Returns
    -------
    TreeOutputs
        Scores and parts of the forests come only from forests that know all classes.
    """
    of_folds = dict.fromkeys(caution for _, fold in parts for caution in fold.warnings)
    knowing_all = [(rows, fold) for rows, fold in parts if len(fold.classes) == len(classes)]
    first = (knowing_all or parts)[0][1]
    predictor = None if first.predictor is None else replace(first.predictor, classes=classes)
    outputs = TreeOutputs(
        n_rows,
        first.n_trees,
        _votes_of_folds(parts, classes, n_rows) if len(classes) else None,
        predictor=predictor,
        source="cross-validation",
        groups=groups,
        warnings=(*of_folds, *warning_of_copies(groups)),
    )
    sums = [fold.sums for _, fold in knowing_all if fold.sums is not None]
    if not sums:
        return outputs
    numbers = [rows for rows, _ in knowing_all]
    # Rows that no fold holds out count as scored by no tree. With many rows, each fold scores only some of its own.
    number = np.concatenate([rows[fold.scores.number] for rows, fold in zip(numbers, sums, strict=True)])
    scored = np.delete(np.arange(n_rows), np.setdiff1d(np.concatenate(numbers), number))
    scores = Scores.stacked([fold.scores for fold in sums]).placed(np.searchsorted(scored, number), len(scored))
    scores = replace(scores, rows=None if len(scored) == n_rows else scored)
    part_sums = PartSums.of_forests([fold.parts for fold in sums], numbers)
    counts = np.zeros((n_rows, 0), dtype=np.int32) if outputs.voted is None else outputs.voted.counts
    return replace(outputs, sums=Sums(counts, scores, part_sums))


def _votes_of_folds(parts: Sequence[tuple[Int64s, TreeOutputs]], classes: NDArray[Any], n_rows: int) -> Votes:
    counts = np.zeros((n_rows, len(classes)), dtype=np.int32)
    for rows, fold in parts:
        counts[rows[:, None], class_indices(classes, fold.classes, len(fold.classes))] = fold.votes.counts
    first = parts[0][1]
    return Votes(counts, classes, first.n_trees, threshold=first.votes.threshold)
