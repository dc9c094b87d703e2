"""The search that gives up fractions early, and the rules it goes by."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from helpers.forests import Data
from helpers.fraction_searches import ROWS, given, losses, search, standard_error
from rfsize.adapters.registry import integration_for
from rfsize.counting.evidence import Evidence
from rfsize.training.bagging_fraction import select_bagging_fraction
from rfsize.training.scoring import Comparison
from rfsize.training.successive_halving import cost, elimination_plan, preference, survivors


def compared(behind: list[float], error: list[float]) -> Comparison:
    return Comparison(np.array(behind), np.ones(len(behind)), np.array(behind), np.array(error), 100)


def test_one_se_takes_the_smallest_that_is_not_significantly_worse() -> None:
    found = compared([0.5, 0.2, 0.1, 0.0, 0.05, 0.6], [0.1, 0.2, 0.2, 0.0, 0.1, 0.1])
    assert preference(found, "best").tolist() == [3, 4, 2, 1, 0, 5]
    assert preference(found, "one-se").tolist() == [1, 2, 3, 4, 0, 5]
    assert preference(compared([0.15, 0.0], [0.1, 0.0]), "one-se").tolist() == [1, 0]
    assert preference(compared([0.0, 0.0], [0.0, 0.0]), "best")[0] == 0


def test_survivors_are_those_wanted_and_the_best_but_none_that_is_hopeless() -> None:
    found = compared([0.5, 0.2, 0.1, 0.0, 0.05, 0.6], [0.1, 0.2, 0.2, 0.0, 0.1, 0.1])
    assert survivors(found, "best", None, 3) == {3, 4, 2}
    assert survivors(found, "one-se", None, 3) == {3, 1, 2}
    assert survivors(found, "best", None, 6) == {1, 2, 3, 4}  # 0 and 5 are five and six standard errors behind
    assert survivors(found, "keep", 0, 3) == {3, 4, 0}
    assert survivors(found, "keep", 3, 2) == {3, 4}


def test_your_own_is_wanted_first_unless_another_is_better_by_more_than_the_standard_error() -> None:
    found = compared([0.5, 0.2, 0.1, 0.0], [0.1, 0.2, 0.2, 0.0])
    assert preference(found, "keep", 1).tolist() == [1, 3, 2, 0]
    assert preference(found, "keep", 0).tolist() == [3, 2, 1, 0]
    assert preference(found, "keep", None).tolist() == preference(found, "best").tolist()


@pytest.mark.parametrize("n_trees", [60, 200, 333, 1000])
def test_elimination_takes_at_most_a_third_of_the_trees(n_trees: int) -> None:
    for n_candidates in range(1, 60):
        plan = elimination_plan(n_candidates, n_trees)
        trees = [rung.n_trees for rung in plan]
        assert cost(plan) <= n_candidates * n_trees / 3
        assert plan[0].places == n_candidates
        assert trees == sorted(set(trees))
        assert trees[-1] <= n_trees
        assert all(after.places == (before.places + 1) // 2 for before, after in pairwise(plan))
    assert elimination_plan(12, 200) == [(12, 25), (6, 50), (3, 100), (2, 200)]


def test_elimination_does_what_it_says(framework: str, data: Data) -> None:
    fractions = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8)
    found = search(framework, data, fractions, n_trees=60, search="elimination", voting="hard")
    params, dtrain = given(framework, data.X[:ROWS], data.y[:ROWS])
    trainer = integration_for(dtrain).trainer(params, dtrain)
    forests = {fraction: trainer.start(fraction=fraction) for fraction in fractions}
    live, dropped, trees = list(fractions), {}, {}
    for rung, (n_trees, places) in enumerate([(9, 3), (18, 2), (36, 0)], start=1):
        for fraction in live:
            forests[fraction].add(n_trees - forests[fraction].n_trees)
            trees[fraction] = n_trees
        wrong = losses([Evidence.in_training(forests[fraction]).votes for fraction in live], data.y[:ROWS])
        order = np.argsort(wrong.mean(axis=1), kind="stable")
        best = live[order[0]]
        apart = wrong - wrong[order[0]]
        kept = [place for place in order[:places] if apart[place].mean() <= 3 * standard_error(apart[place])]
        if places:
            dropped |= {fraction: rung for place, fraction in enumerate(live) if place not in kept}
            live = [live[place] for place in sorted(kept)]
    assert found.curve["trees"].tolist() == [trees[fraction] for fraction in fractions]
    assert found.curve["dropped"].tolist() == [dropped.get(fraction, 0) for fraction in fractions]
    assert found.best == best
    assert found.trees_grown <= 60 * len(fractions) / 3


def test_hopeless_fractions_end_the_search_early(data: Data) -> None:
    """On labels without noise a tree of two dozen rows cannot keep up with one of hundreds."""
    X = data.X
    params, dtrain = given("xgboost", X, (X[:, 0] > 0) ^ (X[:, 1] > 0), max_depth=0)
    options = {"n_trees": 60, "search": "elimination"}
    found = select_bagging_fraction(params, dtrain, fractions=[0.01, 0.012, 0.014, 0.6], **options)
    assert found.best == 0.6
    assert found.curve["dropped"].tolist() == [1, 1, 1, 0]
