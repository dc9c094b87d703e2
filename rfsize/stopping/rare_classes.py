"""What becomes of rare classes' rows by a stop table, in words and as a warning."""

from __future__ import annotations

from collections.abc import Callable

from rfsize.certifying.certificate import ClassOutcome
from rfsize.exceptions import RareClassWarning
from rfsize.utils.warn import warn
from rfsize.utils.words import in_percent

_RARE = 0.05  # a class of a smaller share of the labels is spoken of by itself
_MOST_LOST = 0.2  # a class that loses a larger share of its rows is warned of
_CLASSES_SAID = 5


def rare_classes_said(outcomes: list[ClassOutcome]) -> str:
    """What becomes of rare classes' rows, to go on a line with; empty where there are no such classes."""
    rare = [outcome for outcome in outcomes if outcome.share < _RARE and outcome.disagreement >= 0.0]
    if not rare:
        return ""
    each = [f"{outcome.label!r} ({in_percent(outcome.share)}) {in_percent(outcome.disagreement)}" for outcome in rare]
    more = f" and {len(each) - _CLASSES_SAID} more" if len(each) > _CLASSES_SAID else ""
    return f"; of rare classes' rows: {', '.join(each[:_CLASSES_SAID])}{more}"


def warn_of_lost_classes(outcomes: list[ClassOutcome], alpha: float, disagreement: Callable[[], float]) -> None:
    """Warn where classes lose a share `_MOST_LOST` of their rows, and twice what all may lose."""
    most = max(_MOST_LOST, 2.0 * (1.0 - alpha))
    lost = [
        f"{outcome.label!r} ({in_percent(outcome.share)} of the rows): {in_percent(outcome.disagreement)}"
        for outcome in outcomes
        if outcome.disagreement > most
    ]
    if lost:
        warn(
            f"the table answers {in_percent(disagreement())} of all rows otherwise than all trees, but of the rows "
            f"that they give to a class, {', '.join(lost[:_CLASSES_SAID])}; where these classes count, use "
            "StopTable.calibrate(..., average='macro'), which bounds each by itself, or a higher alpha",
            RareClassWarning,
        )
