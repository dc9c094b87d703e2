"""Sizes a forest in training from its out-of-bag votes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize._util import how_many, in_percent
from rfsize.counting.collect import outputs_in_training
from rfsize.counting.coverage import FEW_OUT_OF_BAG, FEWEST_VOTES, Coverage, by_nature_advice, too_many_without_votes
from rfsize.counting.outputs import coverage, distinct
from rfsize.exceptions import FewVotesError
from rfsize.models.training import ForestInTraining
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.report import Report, report_of

Truth = tuple[Any, Any]
"""Labels or numbers of the training rows, with the class labels of the forest, and the weights of the rows or None."""


def out_of_bag_report(forest: ForestInTraining, goal: Goal, truth: Truth, max_trees: int) -> Report:
    """The estimate from out-of-bag votes.

    Raises
    ------
    FewVotesError
        If there are too few votes, or ``max_trees`` trees would not give the training rows enough votes.
    """
    outputs = outputs_in_training(forest).with_truth(*truth)
    votes = coverage(distinct(outputs))
    _refuse_groups_that_are_always_seen(votes, max(max_trees, forest.n_trees))
    share_of_votes = votes.n_votes.mean() / forest.n_trees
    expected = share_of_votes * max(max_trees, forest.n_trees)
    # If only the trees so far are too few, the report says how many trees have enough votes.
    if share_of_votes < FEW_OUT_OF_BAG and expected < FEWEST_VOTES:
        raise FewVotesError(
            f"a training row is out of bag for only {in_percent(share_of_votes)} of the trees, so "
            f"{how_many(max_trees, 'tree')} would give it {expected:.1f} votes, too few to size a forest by: train "
            "with a smaller bagging fraction, give validation rows, which the forest is not trained on, or allow "
            "more trees"
        )
    return report_of(outputs, goal)


def _refuse_groups_that_are_always_seen(votes: Coverage, max_trees: int) -> None:
    """Raise `FewVotesError` if so many rows in large groups would get no votes that no T* can be estimated."""
    sizes = votes.groups.sizes
    if sizes is None or not votes.n_votes.any():
        return
    smallest = sizes.min()
    left_out = (votes.n_votes[sizes == smallest].mean() / votes.n_trees) ** (1.0 / smallest)
    without = float(np.sum((1.0 - left_out**sizes) ** max_trees))
    if too_many_without_votes(round(without), len(sizes)):
        raise FewVotesError(
            f"even {how_many(max_trees, 'tree')} would leave {in_percent(without / len(sizes))} of the rows without "
            f"out-of-bag votes, since they belong to groups of up to {sizes.max()} rows, of which every tree sees "
            "some: train with a smaller bagging fraction, or on each row once with weights for its copies, or give "
            f"validation rows, which the forest is not trained on{by_nature_advice(votes.groups.by)}"
        )
