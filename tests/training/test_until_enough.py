"""When a forest in training is sized, and when its training ends."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NoReturn

import numpy as np
import pytest

import rfsize
from helpers.outputs import outputs_of
from rfsize.exceptions import FewVotesError
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.report import report_of
from rfsize.training.until_enough import UntilEnough
from rfsize.voting.scores import Scores


def report(n_trees: int, share: float, alpha: float, trees_voting: int = 40) -> rfsize.Report:
    """Of a forest whose trees vote for the second class with some probability."""
    rng = np.random.default_rng(0)
    score = rng.normal(rng.normal(size=(300, 1, 1)), 1.0, size=(300, trees_voting, 1))
    counts = rng.binomial(trees_voting, share, size=300)
    votes = rfsize.Votes(np.stack([trees_voting - counts, counts], axis=1))
    outputs = outputs_of(votes, Scores.of(score), cut=0.3, predict_obeys="soft")
    return report_of(replace(outputs, n_trees=n_trees, source="oob"), LabelGoal(alpha, "hard", "plugin"))


def too_few(enough: int | None) -> NoReturn:
    raise FewVotesError("too few votes", enough=enough)


def test_it_looks_again_at_the_size_or_at_twice_the_trees() -> None:
    near, far = report(40, 0.3, 0.98), report(40, 0.49, 0.999)
    # With too few votes to tell, the size may lie below the trees at hand.
    few = report(12, 0.05, 0.6, trees_voting=4)
    assert (near.n_trees > 40, far.n_trees > 80, few.n_trees <= 12, few.enough) == (True, True, True, False)
    for one, n_trees in ((near, min(near.n_trees, 80)), (far, 80), (few, 24)):
        until = UntilEnough(1, 1000)
        assert until.look(one.available, lambda one=one: one) is one
        assert (until.next_look, until.is_over) == (n_trees, False)


def test_it_ends_with_enough_trees_or_with_all_that_are_allowed() -> None:
    enough, far = report(40, 0.1, 0.9), report(40, 0.49, 0.999)
    assert enough.enough
    for one, allowed, is_over in ((enough, 1000, True), (far, 1000, False), (far, 60, False), (far, 40, True)):
        until = UntilEnough(10, allowed)
        until.look(40, lambda one=one: one)
        assert until.is_over == is_over
    assert UntilEnough(100, 60).next_look == 60


def test_before_the_next_look_nothing_is_decided() -> None:
    until, enough = UntilEnough(100, 1000), report(40, 0.1, 0.9)
    assert until.look(40, lambda: enough) is enough
    assert (until.next_look, until.is_over) == (100, False)


def test_too_few_votes_put_the_next_look_off() -> None:
    until = UntilEnough(10, 100)
    assert until.look(10, partial(too_few, 35)) is None
    assert (until.next_look, until.is_over) == (35, False)
    assert until.look(35, partial(too_few, 120)) is None
    assert until.next_look == 100
    with pytest.raises(FewVotesError):
        until.look(100, partial(too_few, 120))


@pytest.mark.parametrize("enough", [None, 201])
def test_votes_that_no_number_of_trees_gives_are_refused(enough: int | None) -> None:
    with pytest.raises(FewVotesError):
        UntilEnough(10, 100).look(10, partial(too_few, enough))


@pytest.mark.parametrize(("min_trees", "max_trees"), [(0, 10), (10, 0), (2.5, 10)])
def test_what_is_no_number_of_trees_is_refused(min_trees: int, max_trees: int) -> None:
    with pytest.raises(ValueError, match="_trees must be a whole number of at least 1"):
        UntilEnough(min_trees, max_trees)
