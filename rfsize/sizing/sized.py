"""The report on a forest, with all that is to be said of its rows and its training."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rfsize.adapters.registry import adapter_for
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.exceptions import CopiesWarning, FewVotesError
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.report import Report, report_of
from rfsize.sizing.words import in_words
from rfsize.utils.warn import Caution
from rfsize.utils.words import in_percent
from rfsize.voting.groups import Groups


def sized(outputs: Evidence, goal: Goal) -> Report:
    """The report on a finished forest; raises as `report_of`."""
    report = report_of(outputs, goal)
    report = report._noting(*outputs.noted, *outputs.cautions(of_labels=report.goal.of_labels))

    def size_by(groups: Groups) -> Report:
        return report_of(asked_by(groups, outputs.asked_again, outputs.y, outputs.sample_weight), goal)

    return noting_copies(report, outputs.groups, None if outputs.forest is None else size_by)


def report_by(
    groups: Groups, model: Any, X: Any, y: Any, sample_weight: Any, *, goal: Goal, threshold: float = 0.5
) -> Report:
    """What the trees of a finished forest say of their training rows by other groups of these."""
    adapter = adapter_for(model, casts_votes=False)
    options: dict[str, Any] = {"sample_weight": sample_weight, "groups": "rows", "threshold": threshold}
    forest = ForestOnRows.of(adapter, X, y, oob=True, **options)
    return report_of(asked_by(groups, forest, y, sample_weight), goal)


def asked_by(groups: Groups, forest: ForestOnRows, y: Any, sample_weight: Any) -> Evidence:
    """What the trees say of the same rows where others belong together."""
    return Evidence.of(replace(forest, groups=groups)).with_truth(y, sample_weight)


def noting_copies(report: Report, groups: Groups, size_by: Callable[[Groups], Report] | None) -> Report:
    """The report, with a warning where it is not clear whether copies belong together, and the size depends on it.

    Parameters
    ----------
    report : Report
        Of rows that stand alone.
    groups : Groups
        By which it was made.
    size_by : callable or None
        Makes the report by other groups; None where the trees cannot be asked again.
    """
    if groups.of_copies is None:
        return report
    other, why = math.inf, "these outputs refer to no model whose trees could be asked again"
    if size_by is not None:
        why = "too few trees saw none of a row's copies"
        with suppress(FewVotesError):
            other = size_by(groups.of_copies).n_trees
    found = f"is {in_words(other)}" if math.isfinite(other) else f"cannot be told, because {why}"
    return report._noting(*copies_caution(groups, "T*", in_words(report.n_trees), report.interval, other, found))


def copies_caution(
    groups: Groups, what: str, value: str, interval: tuple[float, float], other: float, found: str
) -> tuple[Caution, ...]:
    """What to say where ``other``, which counts if copies belong together, is not in the interval; else nothing."""
    low, high = interval
    if groups.copied is None or low <= other <= high:
        return ()
    text = (
        f"{in_percent(groups.copied)} of the training rows have a copy, and the rows do not tell whether fresh rows "
        f"would too. Where rows come again by nature, as those of few values and popular ones do, {what} is {value}, "
        f"which is what counts here; where rows were repeated or oversampled before the training, it {found}. Say "
        "which it is: groups='rows' for the first, groups='copies' for the second"
    )
    return (Caution(CopiesWarning, text),)
