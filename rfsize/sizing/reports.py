"""The report that a goal asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rfsize.adapters.registry import adapter_for
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.representative import FEWEST_VOTES, too_many_untold
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.sizing.base import Report
from rfsize.sizing.copies_warning import noting_copies
from rfsize.sizing.deviation_report import DeviationReport
from rfsize.sizing.goal import DeviationGoal, Goal, LabelGoal, MetricGoal
from rfsize.sizing.metric_report import MetricReport
from rfsize.sizing.size_report import SizeReport
from rfsize.voting.groups import Groups

# Rows of some kind must be known to quarters of the trees, all of them, to tell what a metric loses by fewer.
_FEWEST_FOR_METRICS = 40


def sized(outputs: TreeOutputs, goal: Goal, *, both: bool = True) -> Report:
    """The report on a finished forest, with all that is to be said of its rows and its training.

    Of labels by ``both`` rules of voting, or by that of the goal alone; raises as `report_for`.
    """
    report = report_for(goal, outputs, both=both).noting(*outputs.noted, *outputs.cautions(of_labels=goal.of_labels))

    def size_by(groups: Groups) -> Report:
        return report_for(goal, outputs.by_groups(groups), both=both)

    return noting_copies(report, outputs.groups, None if outputs.forest is None else size_by)


def report_for(goal: Goal, outputs: TreeOutputs, *, both: bool = True) -> Report:
    """What the trees' outputs say of a goal.

    Raises
    ------
    FewVotesError
        If rows of some kind have too few out-of-bag votes, or else as the report of the goal.
    """
    distinct = outputs.distinct
    if outputs.source == "oob":
        distinct = _by_votes(goal, distinct)
    found: SizeReport | DeviationReport | MetricReport
    if isinstance(goal, MetricGoal):
        found = MetricReport.of(distinct, goal)
    elif isinstance(goal, DeviationGoal):
        found = DeviationReport.of(distinct, goal)
    else:
        assert isinstance(goal, LabelGoal)
        found = SizeReport.of(distinct, goal, both=both)
    return replace(found, _report_of=lambda goal: report_for(goal, outputs))


def report_by(
    groups: Groups, model: Any, X: Any, y: Any, sample_weight: Any, *, goal: Goal, threshold: float = 0.5
) -> Report:
    """What the trees of a finished forest say of their training rows by other groups of these."""
    adapter = adapter_for(model, casts_votes=False)
    options: dict[str, Any] = {"sample_weight": sample_weight, "groups": "rows", "threshold": threshold}
    forest = ForestOnRows.of(adapter, X, y, oob=True, **options)
    return report_for(goal, TreeOutputs.of(replace(forest, groups=groups)).with_truth(y, sample_weight))


def _by_votes(goal: Goal, outputs: TreeOutputs) -> TreeOutputs:
    """Outputs out of bag, with strata where the number of votes depends on what a row is."""
    asked = outputs.by_votes()
    fewest = _FEWEST_FOR_METRICS if isinstance(goal, MetricGoal) else FEWEST_VOTES
    # Where rows of large groups have no votes, or none has any, the report says so.
    if asked.is_uneven or not too_many_untold(asked.n_without, len(asked.asked)):
        lack = asked.of_some_rows("how many trees are enough", fewest=fewest)
        if lack is not None:
            raise lack.error()
    strata = asked.strata if outputs.voted is not None else None
    return outputs if strata is None else replace(outputs, strata=strata)
