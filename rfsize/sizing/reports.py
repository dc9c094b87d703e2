"""The report that a goal asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rfsize.counting.counted import Counted
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.representative import FEWEST_VOTES, RowsAsked, too_many_untold
from rfsize.sizing.base import Report
from rfsize.sizing.deviation_report import DeviationReport
from rfsize.sizing.goal import DeviationGoal, Goal, LabelGoal, MetricGoal
from rfsize.sizing.metric_report import MetricReport
from rfsize.sizing.size_report import SizeReport
from rfsize.sizing.truth import Truth
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.outputs import TreeOutputs

# Rows of some kind must be known to quarters of the trees, all of them, to tell what a metric loses by fewer.
_FEWEST_FOR_METRICS = 40


def report_for(
    goal: Goal,
    outputs: TreeOutputs,
    *,
    available: int,
    source: str,
    truth: Truth | None = None,
    rows: ForestOnRows | Counted | None = None,
    groups: Groups = ALONE,
    both: bool = True,
) -> Report:
    """What the trees' outputs say of a goal; arguments as in `SizeReport.of`.

    Raises
    ------
    FewVotesError
        If rows of some kind have too few out-of-bag votes, or else as the report of the goal.
    """
    if truth is not None:
        truth.check(outputs)
    if source == "oob":
        outputs = _by_votes(goal, outputs, available, truth, rows, groups)
    of: dict[str, Any] = {"available": available, "source": source, "truth": truth, "rows": rows, "groups": groups}
    if isinstance(goal, MetricGoal):
        return MetricReport.of(outputs, goal, **of)
    if isinstance(goal, DeviationGoal):
        return DeviationReport.of(outputs, goal, **of)
    assert isinstance(goal, LabelGoal)
    return SizeReport.of(outputs, goal, both=both, **of)


def _by_votes(
    goal: Goal,
    outputs: TreeOutputs,
    n_trees: int,
    truth: Truth | None,
    rows: ForestOnRows | Counted | None,
    groups: Groups,
) -> TreeOutputs:
    """Outputs out of bag, with strata where the number of votes depends on what a row is."""
    forest = rows.forest if isinstance(rows, Counted) else rows
    asked = RowsAsked.by_outputs(outputs, n_trees, groups, None if truth is None else truth.y, forest)
    fewest = _FEWEST_FOR_METRICS if isinstance(goal, MetricGoal) else FEWEST_VOTES
    # Where rows of large groups have no votes, or none has any, the report says so.
    if asked.is_uneven or not too_many_untold(asked.n_without, len(asked.asked)):
        lack = asked.of_some_rows("how many trees are enough", fewest=fewest)
        if lack is not None:
            raise lack.error()
    strata = asked.strata if outputs.votes is not None else None
    return outputs if strata is None else replace(outputs, strata=strata)
