"""The search for the best of several bagging fractions: how far each forest is trained, and which are dropped.

Trees are trained in rungs. After each rung, the candidates are compared with the same number of trees and on the same
rows. The full grid is a single rung. With equal numbers of trees, large fractions have fewer out-of-bag votes, but
small fractions gain more from the trees to come, and the two effects nearly cancel. Three other ways were tried, and
were no better: equal numbers of votes, smoothing over neighbouring fractions, and extrapolation to more trees.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.trainer import ForestInTraining, Trainer
from rfsize.counting.representative import Kinds, RowsAsked
from rfsize.exceptions import FewVotesError
from rfsize.training.checkpoint import SearchFile, State
from rfsize.utils.words import in_percent
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.tallied import Tallied

if TYPE_CHECKING:
    from rfsize.training.scoring import Comparison, Judge

# The most trees of a search by elimination, as a share of the trees of the full grid.
_SHARE_OF_GRID = 1.0 / 3.0

# With fewer trees, out-of-bag errors say next to nothing.
_FEWEST_TREES = 5

# A forest is at a disadvantage if its rows have less than this share of the votes that its fraction should leave.
_FAIR_SHARE = 0.5

# A fraction this many paired standard errors behind the best is hopeless, however many places are left.
_HOPELESS = 3.0


class Rung(NamedTuple):
    """The most candidates that take part, and the number of trees that each has at the end of the rung."""

    places: int
    n_trees: int


def grid_plan(n_candidates: int, n_trees: int) -> list[Rung]:
    """Train all candidates to the end."""
    return [Rung(n_candidates, n_trees)]


def elimination_plan(n_candidates: int, n_trees: int) -> list[Rung]:
    """Half of the candidates and twice the trees at each rung, with at most a third of the trees of the full grid.

    Raises
    ------
    ValueError
        If the first rung would have too few trees to compare candidates.
    """
    budget = int(n_candidates * n_trees * _SHARE_OF_GRID)
    first = n_trees
    while first > 0 and cost(_halving(n_candidates, first, n_trees)) > budget:
        first -= 1
    if first < _FEWEST_TREES:
        raise ValueError(
            f"n_trees={n_trees} is too small to eliminate {n_candidates} fractions: the first comparison would be "
            f"between forests of {first} trees, and takes at least {_FEWEST_TREES}. Give more trees, fewer "
            "fractions, or search='full'"
        )
    return _halving(n_candidates, first, n_trees)


def _halving(n_candidates: int, first: int, most: int) -> list[Rung]:
    plan = [Rung(n_candidates, first)]
    while plan[-1].places > 2 and plan[-1].n_trees < most:
        plan.append(Rung((plan[-1].places + 1) // 2, min(2 * plan[-1].n_trees, most)))
    return plan


def cost(plan: Sequence[Rung]) -> int:
    """The most trees that a search trains."""
    before = [0, *(rung.n_trees for rung in plan)]
    return sum(rung.places * (rung.n_trees - trees) for rung, trees in zip(plan, before, strict=False))


class Candidate:
    """A fraction on trial, and its forest, trained in steps. A stored forest is trained again only if needed."""

    def __init__(
        self, trainer: Trainer, fraction: float, seed: int | None, file: SearchFile, groups: Groups = ALONE
    ) -> None:
        self.fraction = fraction
        self.n_trees = 0
        self.seconds = 0.0
        self.out_of_bag: Tallied
        self._trainer = trainer
        self._seed = seed
        self._file = file
        self.groups = groups
        self._steps: list[int] = []
        self._forest: ForestInTraining | None = None
        self._taken = 0  # steps that the forest has taken

    def grow_to(self, n_trees: int) -> None:
        """Train up to ``n_trees`` trees, or take their votes from the file."""
        self._steps.append(n_trees - self.n_trees)
        self.n_trees = n_trees
        state = self._file.get(self.fraction, self._steps)
        if state is None:
            started = time.perf_counter()
            out_of_bag = self.forest().out_of_bag
            state = State(out_of_bag, self.seconds + time.perf_counter() - started)
            self._file.put(self.fraction, self._steps, state)
        self.out_of_bag, self.seconds = state
        self._check_votes()

    def check_votes_to_come(self, n_trees: int) -> None:
        """Raise `FewVotesError` if this number of trees gives rows too few votes to compare fractions."""
        trainer = self._trainer

        def kinds() -> Kinds | None:
            return Kinds.of_labels(trainer.label) if len(trainer.classes) else None

        rows = RowsAsked(n_trees * self._left_out, n_trees, self.groups, find_kinds=kinds)
        lack = rows.lack(f"how good the bagging fraction {self.fraction:g} is")
        if lack is not None:
            raise FewVotesError(f"{lack.message}; or give smaller fractions", enough=lack.enough)

    @property
    def _left_out(self) -> NDArray[np.float64]:
        """For each row, the expected share of trees that see no row of its group; shape (n_rows,)."""
        sizes = self.groups.sizes
        return np.asarray((1.0 - self.fraction) ** (np.ones(len(self._trainer.label)) if sizes is None else sizes))

    def _check_votes(self) -> None:
        share, expected = float(self.out_of_bag.scores.asked.mean()) / self.n_trees, float(self._left_out.mean())
        if share < _FAIR_SHARE * expected:
            raise ValueError(
                f"at fraction {self.fraction:g} only {in_percent(share)} of the votes are out of bag, instead of "
                f"{in_percent(expected)}. XGBoost draws a bag for the tree of each class, and the class with the "
                "fewest out-of-bag trees decides how many votes a row has: grow more trees (n_trees), or with "
                "multi_strategy='multi_output_tree', from XGBoost 3.2 on, one tree and bag for all classes"
            )

    def forest(self) -> ForestInTraining:
        """The forest itself. It is trained step by step, because the sizes of the steps decide its seeds."""
        if self._forest is None:
            self._forest = self._trainer.start(fraction=self.fraction, seed=self._seed, groups=self.groups)
        for step in self._steps[self._taken :]:
            self._forest.add(step)
            self._taken += 1
        return self._forest


class Verdict(NamedTuple):
    """The result of a candidate at its last comparison.

    Attributes
    ----------
    value, value_se, behind, behind_se : float
        As in `rfsize.training.scoring.Comparison`.
    dropped : int
        Rung after which the candidate was dropped, counted from 1; 0 if it stayed to the end.
    """

    value: float
    value_se: float
    behind: float
    behind_se: float
    dropped: int


class Outcome(NamedTuple):
    """The result of a search: place of the chosen candidate, verdict on each, and number of rows compared last."""

    chosen: int
    verdicts: list[Verdict]
    n_rows: int


def run(
    candidates: Sequence[Candidate], judge: Judge, plan: Sequence[Rung], rule: str, own: int | None, bar: Any
) -> Outcome:
    """Train candidates, in ascending order of their fractions, rung by rung, and choose one.

    Parameters
    ----------
    rule : {"keep", "best", "one-se"}
        How to choose.
    own : int or None
        Place of your own fraction, which stays to the end.
    bar : tqdm
        Progress, in trees.
    """
    verdicts: dict[int, Verdict] = {}
    live = list(range(len(candidates)))
    for number, rung in enumerate(plan, start=1):
        for place in live:
            bar.set_postfix_str(f"fraction {candidates[place].fraction:.3f}", refresh=False)
            before = candidates[place].n_trees
            candidates[place].grow_to(rung.n_trees)
            bar.update(rung.n_trees - before)
        found = judge.compare([candidates[place].out_of_bag for place in live])
        last = number == len(plan)
        own_now = live.index(own) if own in live else None
        kept = set(range(len(live))) if last else survivors(found, rule, own_now, plan[number].places)
        numbers = np.stack([found.value, found.value_se, found.behind, found.behind_se], axis=1).tolist()
        for index, place in enumerate(live):
            verdicts[place] = Verdict._make([*numbers[index], 0 if index in kept else number])
        chosen = live[preference(found, rule, own_now)[0]]
        live = [place for index, place in enumerate(live) if index in kept]
        if len(live) == 1:
            break
    return Outcome(chosen, [verdicts[place] for place in range(len(candidates))], found.n_rows)


def preference(found: Comparison, rule: str, own: int | None = None) -> NDArray[np.int64]:
    """Places of the candidates, best first by the rule. Of equal candidates the smaller fraction comes first."""
    by_value = np.argsort(found.behind, kind="stable")
    admissible = found.behind <= found.behind_se
    if rule == "one-se":
        return np.concatenate([np.flatnonzero(admissible), by_value[~admissible[by_value]]])
    if rule == "keep" and own is not None and admissible[own]:
        return np.append(own, by_value[by_value != own])
    return by_value


def survivors(found: Comparison, rule: str, own: int | None, places: int) -> set[int]:
    """Candidates that go on: the first by `preference` that are not hopeless, and always the best and your own."""
    hopeful = found.behind <= _HOPELESS * found.behind_se
    references = {int(found.behind.argmin())} | (set() if own is None else {own})
    wanted = [int(place) for place in preference(found, rule, own) if hopeful[place] and place not in references]
    return references | set(wanted[: max(0, places - len(references))])
