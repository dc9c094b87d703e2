"""Calibrates rules on rows: many factors λ are counted in one pass, and tested one after another.

The counts are those of the arithmetic that will run: sums in the precision and the order of the framework, bounds by
the operations of `IntervalRule.on`, and the labels and numbers that a compiled forest predicts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s, how_many
from rfsize.counting.task import Outputs, Read, Task, added_up
from rfsize.statistics.certify import Certificate, ClassCounts, RiskTarget, fewest_rows
from rfsize.stopping.rules import CHECK_EVERY, Rule, checked_trees, leads
from rfsize.stopping.scores import IntervalRule, SumScale, predicted_labels, predicted_numbers
from rfsize.stopping.spread import Remainder, SpreadRule, looks
from rfsize.stopping.votes import VoteRule, lossless_bounds, tallies
from rfsize.walking.layout import PackedForest

N_FACTORS = 2048
"""Number of factors λ that are tried. One is within 1 % of the next."""

# The smallest factor, relative to the range of the scores: below the scatter of the rows of any forest.
_SMALLEST = 1e-5

# In the spread of one row, the pooled spread counts as much as this many trees.
_PRIOR_TREES = 16.0

# Limits on the spread to try, relative to the tolerance.
_LIMITS = 1e-3, 1e2

# One row in this many sets the scale of a rule, up to the row of this number; these rows certify nothing.
_ROWS_PER_POOL, _LAST_OF_POOL = 10, 20_000

# The smallest scale of a lead, relative to the range of the scores.
_LEAST = 1e-6


@dataclass(frozen=True, eq=False)
class RuleFamily:
    """Rules of one shape and many factors: a row stops when a number leaves an interval.

    After t trees the interval reaches from origin + (low − m − origin) · share to origin + (high + m − origin) · share,
    with m = factor · scale.

    Attributes
    ----------
    factors : ndarray of float64, shape (n_rules,)
        Descending. They depend only on the forest. If rows chose them, they would be no fixed sequence to test.
    scale, share : ndarray of float64, shape (T,)
    n_classes : int
        1 for a regression.
    low, high : float
        −∞ as ``low`` leaves the upper bound alone.
    origin : float
    """

    factors: Floats
    scale: Floats
    share: Floats
    n_classes: int
    low: float = -math.inf
    high: float = 0.0
    origin: float = 0.0

    def count(self, number: Floats, differs: Bools, final: Int64s) -> Int64s:
        """What the rules do on rows.

        Parameters
        ----------
        number : ndarray of float64, shape (n, T)
            After 1, …, T trees; NaN where rows are not looked at. After the last, every row stops.
        differs : ndarray of bool, shape (n, T)
            Whether the answer would then differ from that of all trees.
        final : ndarray of int64, shape (n,)
            The class that all trees give.

        Returns
        -------
        ndarray of int64, shape (3, n_classes, n_rules)
            By the class that all trees give: number of rows, the same for every rule; of rows that differ from all
            trees; and of trees until the rows stop.
        """
        counts = np.zeros((3, self.n_classes, self.factors.size), dtype=np.int64)
        counts[0] = np.bincount(final, minlength=self.n_classes)[:, None]
        number, differs = np.ascontiguousarray(number, dtype=np.float64), np.ascontiguousarray(differs)
        # Those of a message to a worker may lie unaligned.
        factors, scale, share = (np.require(of, requirements="A") for of in (self.factors, self.scale, self.share))
        bounds = self.low, self.high, scale, share, self.origin
        _core.count_stops(number, differs, final, factors, *bounds, *counts[1:])
        return counts


def calibrated(trees: Task, target: RiskTarget, voting: str) -> tuple[Rule, Certificate]:
    """The rule that stops earliest among those that the rows certify, and its certificate.

    Raises
    ------
    ValueError
        If there are too few rows, or they certify no rule.
    """
    checked_trees(trees.forest.n_members)
    if target.metric != "labels":
        return _spread_rule(trees, target)
    return _vote_rule(trees, target) if voting == "hard" else _interval_rule(trees, target)


def _sets_scale(place: Int64s) -> Bools:
    """Mask of the rows that set the scale of a rule, by their numbers.

    The same rows must not certify: the rules to test must not depend on the rows that test them.
    """
    return np.asarray((place % _ROWS_PER_POOL == 0) & (place < _LAST_OF_POOL))


def _tested(
    trees: Task, target: RiskTarget, outputs: Outputs, family: RuleFamily, read: Read[Int64s], *, has_pool: bool
) -> tuple[int, Certificate]:
    """Index of the last rule that the rows certify, -1 if they certify none, and its certificate."""
    nothing: Any = partial(np.zeros, (3, family.n_classes, family.factors.size), np.int64)
    counts: Int64s = added_up(trees, outputs, read, nothing)
    rows, n_classes = counts[0, :, 0], trees.forest.classes.size
    total, needed = int(rows.sum()), fewest_rows(target.alpha, target.confidence)
    if has_pool and total < needed:
        given = min(-(-_ROWS_PER_POOL * needed // (_ROWS_PER_POOL - 1)), needed + _LAST_OF_POOL // _ROWS_PER_POOL)
        raise ValueError(
            f"one row in {_ROWS_PER_POOL} sets the scale, and the other {how_many(total, 'row')} cannot certify "
            f"alpha={target.alpha!r} with confidence {target.confidence!r}: give at least {given:,} rows, or a lower "
            "alpha or confidence"
        )
    target.check_rows(rows, trees.forest.classes.tolist() if n_classes else [0])
    chosen = target.fixed_sequence(counts[1], rows)
    return chosen, target.certificate(ClassCounts.of_sums(*counts[:, :, chosen]))


def margin_schedule(n_trees: int) -> Floats:
    """√((T − t)/(tT)) after 1, …, T trees: how far the remaining trees move a mean."""
    n_used = np.arange(1, n_trees + 1)
    return np.asarray(np.sqrt((n_trees - n_used) / (n_used * n_trees)))


def factors_for(width: float, schedule: Floats) -> Floats:
    """Factors λ for numbers of this range: the first stops no row before the last tree, the last stops all at once."""
    n_trees = len(schedule)
    largest = 1.01 * width / schedule[-2] if n_trees > 1 else width
    return np.geomspace(largest, largest * _SMALLEST / n_trees, N_FACTORS)


# Labels by scores


def _interval_rule(trees: Task, target: RiskTarget) -> tuple[IntervalRule, Certificate]:
    forest = PackedForest.of_model(trees.forest, trees.threshold)
    cut, has_cut = trees.cut, trees.forest.n_scores == 1
    scale = SumScale.of(forest, has_cut=has_cut)
    if forest.is_forest:
        assert trees.forest.ensemble is not None
        raw = trees.forest.ensemble.tree_scores[trees.forest.ensemble.nodes.left == -1]
        width, schedule = float(max(raw.max(), cut) - min(raw.min(), cut)) or 1.0, margin_schedule(forest.n_trees)
    else:
        reach = np.abs(forest.start).max() + np.cumsum(forest.largest, dtype=np.float64)
        width = 2.0 * (float(np.max(reach / scale.share)) + abs(cut)) or 1.0
        schedule = _lead_schedule(trees, forest, scale, width)
    factors = factors_for(width, schedule)
    low, high = (cut, cut) if forest.n_scores == 1 else (-math.inf, 0.0)
    family = RuleFamily(factors, schedule, scale.share, len(forest.classes), low, high, scale.origin)
    every = 1 if forest.is_forest else CHECK_EVERY
    read = partial(_exits_of_sums, forest=forest, family=family, drift=scale.drift, every=every)
    chosen, certificate = _tested(trees, target, "values", family, read, has_pool=not forest.is_forest)
    margin = np.append(np.inf, factors[chosen] * schedule)
    return IntervalRule(margin, cut if has_cut else None, not forest.is_forest, every), certificate


def _lead_schedule(trees: Task, forest: PackedForest, scale: SumScale, width: float) -> Floats:
    """How far the iterations after 1, …, T of a boosted model reduce a lead: a root mean square over rows.

    What raises a lead changes no label, and counts as 0. Where it rises from one iteration to the next, the later one
    counts for both.
    """
    read = partial(_lost_leads, forest=forest, share=scale.share, cut=trees.cut)
    lost = np.sqrt(np.concatenate(added_up(trees, "values", read, list)).mean(axis=0))
    schedule = np.maximum.accumulate(np.maximum(lost, _LEAST * width)[::-1])[::-1]
    return np.append(schedule[:-1], 0.0)


def _lost_leads(
    values: NDArray[Any], place: Int64s, *, forest: PackedForest, share: Floats, cut: float
) -> list[Floats]:
    """How far the iterations after 1, …, T reduce the lead of the first class over the second, squared."""
    score = _partial_scores(values[_sets_scale(place)], forest, share)
    if forest.n_scores == 1:  # the lead is that over the cut
        score = np.concatenate([np.full_like(score, cut), score], axis=2)
    leaders = np.argsort(score, axis=2)[:, :, -2:]
    lost = np.take_along_axis(score - score[:, -1:], leaders, axis=2)
    return [np.maximum(lost[:, :, 1] - lost[:, :, 0], 0.0) ** 2]


def _partial_scores(values: NDArray[Any], forest: PackedForest, share: Floats) -> Floats:
    """The scores that the first 1, …, T trees of a boosted model predict, shape (n, T, n_scores)."""
    sums, start = running_sums(values, forest), forest.start.astype(np.float64)
    return np.asarray(start + (sums - start) / share[:, None])


def _exits_of_sums(
    values: NDArray[Any], place: Int64s, *, forest: PackedForest, family: RuleFamily, drift: Floats, every: int
) -> Int64s:
    """What bounds on the sums of scores do, of boosted models on all rows but those that set the scale."""
    sums = running_sums(values if forest.is_forest else values[~_sets_scale(place)], forest)
    final, n_used = predicted_labels(forest, sums[:, -1].copy()), np.arange(1, sums.shape[1] + 1)
    if forest.n_scores == 1:
        number = sums[:, :, 0].astype(np.float64)
        label: NDArray[Any] = number > family.origin + (family.high - family.origin) * family.share
    else:
        label, number, _ = leads(sums - (1.0 - n_used / len(n_used))[:, None] * drift)
    number[:, n_used % every > 0] = np.nan
    return family.count(number, label != final[:, None], final)


def running_sums(values: NDArray[Any], forest: PackedForest) -> NDArray[np.floating]:
    """The sums of scores after 1, …, T trees as compiled loops add them up, shape (n, T, n_scores).

    At a threshold, of two shares that of class 1 alone is added up.
    """
    sums = np.empty((len(values), values.shape[1] + 1, forest.n_scores), dtype=forest.precision)
    sums[:, 0], sums[:, 1:] = forest.start, values[..., -forest.n_scores :]
    return np.cumsum(sums, axis=1, out=sums)[:, 1:]


# Labels by votes


def _vote_rule(trees: Task, target: RiskTarget) -> tuple[VoteRule, Certificate]:
    n_trees, n_classes = trees.forest.n_trees, trees.forest.classes.size
    schedule, n_used = margin_schedule(n_trees), np.arange(1, n_trees + 1)
    factors = factors_for(1.0, schedule)
    family = RuleFamily(factors, schedule, n_used.astype(np.float64), n_classes)
    read = partial(_exits_of_votes, family=family)
    chosen, certificate = _tested(trees, target, "votes", family, read, has_pool=False)
    margin = np.append(1, np.clip(np.ceil(factors[chosen] * schedule * n_used), 1, n_used + 1)).astype(np.int32)
    if n_classes > 2:
        return VoteRule(margin=margin), certificate
    low, high = lossless_bounds(n_trees)
    of_all, margin = np.arange(n_trees), margin[:-1]
    low[:-1] = np.maximum(low[:-1], np.floor_divide(of_all - margin, 2))
    high[:-1] = np.minimum(high[:-1], np.floor_divide(of_all + margin + 1, 2))
    return VoteRule(low, high), certificate


def _exits_of_votes(votes: NDArray[Any], _: Int64s, *, family: RuleFamily) -> Int64s:
    """What bounds on the lead in votes do, on rows that also stop where the remaining votes cannot change the label."""
    n_trees = votes.shape[1]
    label, votes_ahead, comes_first = leads(tallies(votes, family.n_classes))
    is_decided = votes_ahead + comes_first > n_trees - np.arange(1, n_trees + 1)
    final = label[:, -1].copy()
    return family.count(np.where(is_decided, np.inf, votes_ahead), label != final[:, None], final)


# Probabilities and numbers


def _spread_rule(trees: Task, target: RiskTarget) -> tuple[SpreadRule, Certificate]:
    """Take the pooled spread, or what boosted trees add, from one row in ten, and certify on the other rows."""
    forest = PackedForest.of_model(trees.forest, trees.threshold)
    n_classes = trees.forest.classes.size
    pooled = _pooled_spread(trees) if forest.is_forest else np.ones(trees.forest.n_scores)
    remainder = None if forest.is_forest else _remainder(trees, forest)
    of_target = trees.predictor.link_to(target.metric), target.metric, target.tolerance, remainder
    first = SpreadRule(0.0, pooled, _PRIOR_TREES, CHECK_EVERY, *of_target)
    limits = np.concatenate([[0.0], target.tolerance * np.geomspace(*_LIMITS, N_FACTORS - 1)])
    ones = np.ones(forest.n_trees)
    family = RuleFamily(-limits, ones, ones, max(1, n_classes))
    read = partial(_exits_of_spread, forest=forest, rule=first, family=family)
    chosen, certificate = _tested(trees, target, "values", family, read, has_pool=True)
    if chosen < 0:
        raise ValueError(
            f"even rows whose trees are all alike are off by more than tolerance={target.tolerance!r} too often for "
            f"alpha={target.alpha!r}: give a larger tolerance, more rows or a lower alpha"
        )
    return replace(first, limit=float(limits[chosen])), certificate


def _exits_of_spread(
    values: NDArray[Any], place: Int64s, *, forest: PackedForest, rule: SpreadRule, family: RuleFamily
) -> Int64s:
    """What each limit on the spread does, on all rows but those that gave the pooled spread."""
    added = values[~_sets_scale(place), :, -forest.n_scores :]
    n_rows, n_trees, _ = added.shape
    sums = running_sums(added, forest)
    total = sums[:, -1]
    final = predicted_labels(forest, total.copy()) if len(forest.classes) else np.zeros(n_rows, dtype=np.int64)
    start, share = forest.start.astype(np.float64), forest.shares * forest.divisor
    left, mean = looks(rule.on(forest), added, rule.every)
    number, differs = np.full((n_rows, n_trees), np.nan), np.zeros((n_rows, n_trees), dtype=np.bool_)
    after = np.arange(1, left.shape[1] + 1) * rule.every - 1
    goes_on = (share[after] != share[-1])[:, None]  # the sum that the loops leave then is that of the mean
    stopped = np.where(goes_on, start + (mean - start) * share[-1], sums[:, after]).astype(forest.precision)
    number[:, after] = -left
    with np.errstate(invalid="ignore"):  # a link far from the scores of any row
        off = np.abs(_numbers(rule, forest, stopped) - _numbers(rule, forest, total)[:, None]).max(axis=2)
    differs[:, after] = off > rule.tolerance
    return family.count(number, differs, final)


def _numbers(rule: SpreadRule, forest: PackedForest, total: NDArray[np.floating]) -> Floats:
    """What a rule predicts from sums of scores, shape (…, n_scores); shape (…, n_outputs)."""
    n_classes = len(forest.classes)
    if n_classes and rule.metric == "scores":
        return np.asarray(total / forest.divisor, dtype=np.float64)
    numbers = np.empty((*total.shape[:-1], max(1, n_classes)))
    with np.errstate(over="ignore", invalid="ignore"):
        predicted_numbers(forest, total.reshape(-1, total.shape[-1]).copy(), numbers.reshape(-1, numbers.shape[-1]))
    return numbers


def _pooled_spread(trees: Task) -> Floats:
    """Standard deviation of the scores around the mean of their row, from one row in ten; shape (n_scores,)."""
    squares = np.concatenate(added_up(trees, "scores", _squares, list))
    return np.asarray(np.sqrt(squares.sum(axis=0) / max(len(squares) * (trees.forest.n_trees - 1), 1)))


def _squares(scores: NDArray[Any], place: Int64s) -> list[Floats]:
    """The squared distances of scores from the mean of their row, for one row in ten.

    They are kept row by row, because the last bits of a sum would depend on the blocks of rows.
    """
    given = scores[_sets_scale(place)].astype(np.float64)
    mean = np.sum(given, axis=1, keepdims=True) / given.shape[1]
    return [np.sum((given - mean) ** 2, axis=1)]


def _remainder(trees: Task, forest: PackedForest) -> Remainder:
    """What the iterations of a boosted model change, from one row in ten."""
    read = partial(_changes, forest=forest)
    left, unit = np.sqrt(np.concatenate(added_up(trees, "values", read, list)).mean(axis=0))
    return Remainder(left, unit, forest.shares)


def _changes(values: NDArray[Any], place: Int64s, *, forest: PackedForest) -> list[Floats]:
    """What the iterations after 1, …, T, and what each, add to the scores of a row, squared, shape (n, 2, T)."""
    score = _partial_scores(values[_sets_scale(place)], forest, forest.shares * forest.divisor)
    added = np.diff(score * forest.shares[:, None], axis=1, prepend=0.0)
    return [np.stack([np.square(of).mean(axis=2) for of in (score[:, -1:] - score, added)], axis=1)]
