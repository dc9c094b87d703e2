"""What to say where rows have copies, and nothing tells whether a tree that saw a copy may vote."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

from rfsize.exceptions import CopiesWarning, FewVotesError
from rfsize.sizing.report import Report
from rfsize.sizing.words import in_words
from rfsize.utils.warn import Caution
from rfsize.voting.groups import Groups


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
    low, high = report.interval
    if low <= other <= high:
        return report
    found = f"is {in_words(other)}" if math.isfinite(other) else f"cannot be told, because {why}"
    text = (
        f"{groups.copied:.1%} of the training rows have a copy, and the rows do not tell whether fresh rows would too. "
        "Where rows come again by nature, as those of few values and popular ones do, T* is "
        f"{in_words(report.n_trees)}, which is what counts here; where rows were repeated or oversampled before the "
        f"training, it {found}. Say which it is: groups='rows' for the first, groups='copies' for the second"
    )
    return report._noting(Caution(CopiesWarning, text))
