"""When a forest in training is sized, and when its training ends."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NoReturn

import numpy as np
import pytest

import rfsize
from helpers.outputs import outputs_of
from rfsize.counting.scores import Scores
from rfsize.exceptions import FewVotesError
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.report import report_of
from rfsize.training.until_enough import UntilEnough


def report(n_trees: int, share: float, alpha: float, trees_voting: int = 40) -> rfsize.Report:
    """Of a forest whose trees vote for the second class with some probability."""
    rng = np.random.default_rng(0)
    score = rng.normal(rng.normal(size=(300, 1, 1)), 1.0, size=(300, trees_voting, 1))
    counts = rng.binomial(trees_voting, share, size=300)
    votes = rfsize.Votes(np.stack([trees_voting - counts, counts], axis=1))
    outputs = outputs_of(votes, Scores.of(score), cut=0.3, voting="soft")
    return report_of(replace(outputs, n_trees=n_trees, source="oob"), LabelGoal(alpha, "hard", method="plugin"))


def looked_at(n_trees: int, unlike: int, *, votes: int, average: str = "micro", n_rows: int = 1000) -> rfsize.Report:
    """Of a forest whose trees leave no doubt, but give so many rows, all of class 1, the other label than later."""
    first = np.where(np.arange(n_rows) < unlike, votes, np.where(np.arange(n_rows) < 900, 0, votes))
    counts = rfsize.Votes(np.stack([votes - first, first], axis=1))
    outputs = outputs_of(counts, Scores.of(np.zeros((n_rows, 2, 1))), cut=0.3, voting="hard")
    goal = LabelGoal(0.95, "hard", average, method="plugin", confidence=0.8)
    return report_of(replace(outputs, n_trees=n_trees, source="oob"), goal)


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


def after_two_looks(before: rfsize.Report, now: rfsize.Report) -> rfsize.Report:
    """The report of the second."""
    until = UntilEnough(before.available, 1000)
    until.look(before.available, lambda: before)
    until.next_look = now.available
    found = until.look(now.available, lambda: now)
    assert found is not None
    assert until.is_over
    return found


@pytest.mark.parametrize("unlike", [60, 100, 300])
@pytest.mark.parametrize(("trees", "votes"), [((60, 120), (22, 44)), ((100, 150), (100, 150))], ids=["oob", "given"])
def test_no_fewer_first_trees_are_kept_than_agree_with_all(
    unlike: int, trees: tuple[int, int], votes: tuple[int, int]
) -> None:
    before, now = (looked_at(trees[i], (unlike, 0)[i], votes=votes[i]) for i in (0, 1))
    assert now.n_kept == 1
    found = after_two_looks(before, now)
    kept = found.n_kept
    assert f"note: the first {kept} trees are kept: fewer would not give the labels of all {trees[1]}" in str(found)
    assert "trees are kept" not in str(now)
    # By the law that the share which differs from all T trees goes as √(1/t − 1/T), from votes to trees.
    scatter = unlike / 1000 / np.sqrt(1.0 / votes[0] - 1.0 / votes[1])
    enough = [t for t in range(1, trees[1] + 1, 2) if scatter * np.sqrt(1.0 / t - 1.0 / trees[1]) <= 0.05]
    assert kept == enough[0]
    assert 1 < kept < trees[1]


def test_where_labels_stayed_the_estimate_alone_decides() -> None:
    now = looked_at(120, 0, votes=44)
    assert after_two_looks(looked_at(60, 0, votes=22), now).n_kept == now.n_kept
    # As many votes as before tell nothing.
    assert after_two_looks(looked_at(60, 300, votes=44), now).n_kept == now.n_kept


def test_labels_that_changed_count_by_the_mean_of_the_classes_where_these_are_sized() -> None:
    """50 of the 900 rows of class 0 had another label before, and none of the 100 of class 1."""

    def kept(average: str) -> int:
        now = looked_at(120, 0, votes=44, average=average)
        before = looked_at(60, 50, votes=22, average=average)
        return after_two_looks(before, now).n_kept

    scatter = {"micro": 50 / 1000, "macro": (50 / 900 + 0 / 100) / 2}
    for average, changed in scatter.items():
        law = changed / np.sqrt(1.0 / 22 - 1.0 / 44)
        enough = [t for t in range(1, 121, 2) if law * np.sqrt(1.0 / t - 1.0 / 120) <= 0.05]
        assert kept(average) == enough[0]


@pytest.mark.parametrize("enough", [None, 201])
def test_votes_that_no_number_of_trees_gives_are_refused(enough: int | None) -> None:
    with pytest.raises(FewVotesError):
        UntilEnough(10, 100).look(10, partial(too_few, enough))


@pytest.mark.parametrize(("min_trees", "max_trees"), [(0, 10), (10, 0), (2.5, 10)])
def test_what_is_no_number_of_trees_is_refused(min_trees: int, max_trees: int) -> None:
    with pytest.raises(ValueError, match="_trees must be a whole number of at least 1"):
        UntilEnough(min_trees, max_trees)


def test_a_look_that_failed_is_put_off_to_twice_the_trees() -> None:
    until = UntilEnough(100, 300)
    until.put_off(40)
    assert until.next_look == 100
    until.put_off(100)
    assert until.next_look == 200
    until.put_off(200)
    assert until.next_look == 300
