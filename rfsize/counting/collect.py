"""Where `TreeOutputs` come from: a finished forest, a forest in training, or counted votes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rfsize.counting.count import count
from rfsize.counting.groups import warning_of_copies
from rfsize.counting.outputs import TreeOutputs
from rfsize.counting.sums import Sums
from rfsize.counting.task import Task
from rfsize.counting.training_rows import warning_of_training_rows
from rfsize.counting.votes import Votes
from rfsize.models.link import Predictor
from rfsize.models.model import dependence_of, learning_rate_of
from rfsize.models.training import ForestInTraining


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
