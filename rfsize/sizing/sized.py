"""The report on a forest, with all that is to be said of its rows and its training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rfsize.adapters.registry import adapter_for
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.sizing.copies_warning import noting_copies
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.report import Report, report_of
from rfsize.voting.groups import Groups


def sized(outputs: TreeOutputs, goal: Goal) -> Report:
    """The report on a finished forest; raises as `report_of`."""
    report = report_of(outputs, goal)
    report = report._noting(*outputs.noted, *outputs.cautions(of_labels=report.goal.of_labels))

    def size_by(groups: Groups) -> Report:
        return report_of(outputs.by_groups(groups), goal)

    return noting_copies(report, outputs.groups, None if outputs.forest is None else size_by)


def report_by(
    groups: Groups, model: Any, X: Any, y: Any, sample_weight: Any, *, goal: Goal, threshold: float = 0.5
) -> Report:
    """What the trees of a finished forest say of their training rows by other groups of these."""
    adapter = adapter_for(model, casts_votes=False)
    options: dict[str, Any] = {"sample_weight": sample_weight, "groups": "rows", "threshold": threshold}
    forest = ForestOnRows.of(adapter, X, y, oob=True, **options)
    return report_of(TreeOutputs.of(replace(forest, groups=groups)).with_truth(y, sample_weight), goal)
