"""The report that a goal asks for."""

from __future__ import annotations

from typing import Any

from rfsize.sizing.base import Report
from rfsize.sizing.deviation_report import DeviationReport
from rfsize.sizing.goal import DeviationGoal, Goal, LabelGoal, MetricGoal
from rfsize.sizing.metric_report import MetricReport
from rfsize.sizing.size_report import SizeReport
from rfsize.sizing.truth import Truth
from rfsize.voting.outputs import TreeOutputs


def report_for(goal: Goal, outputs: TreeOutputs, *, truth: Truth | None = None, both: bool = True, **of: Any) -> Report:
    """What the trees' outputs say of a goal; further arguments as in `SizeReport.of`."""
    if truth is not None:
        truth.check(outputs)
    if isinstance(goal, MetricGoal):
        return MetricReport.of(outputs, goal, truth=truth, **of)
    if isinstance(goal, DeviationGoal):
        return DeviationReport.of(outputs, goal, truth=truth, **of)
    assert isinstance(goal, LabelGoal)
    return SizeReport.of(outputs, goal, truth=truth, both=both, **of)
