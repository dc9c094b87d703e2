"""Metrics: how much worse a forest's metric is expected to be than that of an unlimited forest, as an `Estimate`."""

from __future__ import annotations

import math

import numpy as np

from rfsize._util import how_many
from rfsize.counting.coverage import FEWEST_VOTES
from rfsize.counting.outputs import TreeOutputs, sums_of
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import (
    SIZES,
    Estimate,
    LossCurve,
    is_brief,
    problem_of_votes,
)
from rfsize.statistics.metric_loss import MetricLoss, metric_loss
from rfsize.statistics.metrics import Metric, clipped_rows, clipping_warnings
from rfsize.statistics.named_metrics import check_direction, metric_of
from rfsize.statistics.subforests import mean_of_subforests

# With fewer rows outside the largest class, a note says how many there are. With fewer than _FEWEST_RANKED, out-of-bag
# rows do not tell what a ranking loses: each is predicted by trees that lack one row of its class, itself.
_FEW_ROWS, _FEWEST_RANKED = 100, 50

# Replicates at even steps of probability, so that T* has the quantiles of the loss.
_PROBABILITIES = np.arange(1, 200) / 200.0


def estimate_metric(outputs: TreeOutputs, criterion: Criterion, *, interval: bool = True) -> Estimate:
    """The loss of the metric, measured on smaller forests of the trees at hand.

    If the loss is not significant, the curve and T* are its upper bound (95 %), and the replicates below the median
    are 0.

    Parameters
    ----------
    outputs : TreeOutputs
        The trees' outputs on distinct rows.
    criterion : Criterion
        Of a metric. Without a tolerance, only the curve is estimated.
    interval : bool, default True
        Whether the interval is wanted too.

    Raises
    ------
    NotAForestError
        If only votes are known.
    FewVotesError
        If too few trees predicted a row.
    ValueError
        If ``y`` is missing, if the metric is no number, or if it is unknown whether larger is better.
    """
    metric = metric_of(criterion.metric, outputs)
    check_direction(metric)
    blocks = sums_of(outputs).blocks
    in_brief = is_brief(criterion, len(blocks.rows)) or not interval
    loss = metric_loss(outputs, metric, of_seeds=interval, in_brief=in_brief)
    n_without = int(np.count_nonzero((blocks.n_scored.sum(axis=1) == 0).any(axis=1)))
    votes_problem, lacks = problem_of_votes(outputs, loss.votes_per_row, n_without, len(blocks.rows), FEWEST_VOTES)
    problem, n_trees = problem_of(loss, metric, outputs), math.inf
    if criterion.tolerance is not None and not (lacks or problem):
        n_trees = loss.size(criterion.tolerance, loss.central)
    n_kept = int(min(n_trees, outputs.n_trees))
    clipped = None if criterion.tolerance is None else clipped_rows(metric)  # beside another loss it gives no warnings
    share = 0.0 if clipped is None else mean_of_subforests(outputs, clipped, n_kept)
    return Estimate(
        LossCurve(SIZES, loss.loss(SIZES, loss.central), loss.loss(SIZES, _PROBABILITIES if interval else [])),
        n_trees,
        n_rows=loss.n_rows,
        n_dropped=loss.n_dropped,
        votes_per_row=loss.votes_per_row,
        problem=votes_problem or problem,
        is_bound=not loss.is_significant and 1 < n_trees < math.inf,
        notes=_notes(loss, metric, outputs),
        warnings=clipping_warnings(share, n_kept),
        details=loss,
    )


def problem_of(loss: MetricLoss, metric: Metric, outputs: TreeOutputs) -> str | None:
    """Why the trees at hand do not tell how many are enough, and what to do; None if they do."""
    n_few = few_rows(metric, outputs)
    if metric.is_ranking and outputs.source == "oob" and n_few is not None and n_few < _FEWEST_RANKED:
        few = f"{how_many(n_few, 'row')} outside the largest class are fewer than {_FEWEST_RANKED}, too few"
        return f"{few} to size the {metric.label} out of bag: give validation rows, or take metric='brier'"
    if loss.is_reversed:
        worse = f"on these rows the {metric.label} gets worse with more trees, so they tell no size"
        return f"{worse}: give more rows, or validation rows"
    if loss.tree_factor_needed == 1.0:
        return None
    enough = outputs.n_trees * loss.tree_factor_needed
    unit = 10.0 ** (math.floor(math.log10(enough)) - 1)
    more = f"train at least {int(math.ceil(enough / unit) * unit):,} trees"
    return f"the {metric.label} still improves too much with each tree to estimate its limit: {more}"


def _notes(loss: MetricLoss, metric: Metric, outputs: TreeOutputs) -> tuple[str, ...]:
    notes, n_few = [], few_rows(metric, outputs)
    if not loss.is_significant:
        bound = "so this size is an upper bound (95 %); more rows may lower it"
        notes.append(f"half of the trees lose too little {metric.label} to measure, {bound}")
    if n_few is not None:
        more = f"so a smaller forest may lose more {metric.label} than this report says"
        notes.append(f"{how_many(n_few, 'row')} outside the largest class are few, {more}: give at least {_FEW_ROWS}")
    return tuple(notes)


def few_rows(metric: Metric, outputs: TreeOutputs) -> int | None:
    """The number of rows (or groups) outside the largest class, if it is small; otherwise None."""
    if not len(outputs.classes):
        return None
    rows = sums_of(outputs).blocks.rows
    rows = rows[metric.weight[rows] > 0.0]
    _, label, counts = np.unique(np.asarray(outputs.y)[rows], return_inverse=True, return_counts=True)
    n_others = len(np.unique(outputs.groups.units_of(rows[label != counts.argmax()])))
    return n_others if n_others < _FEW_ROWS else None
