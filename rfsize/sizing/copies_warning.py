"""What to say where rows have copies, and nothing tells whether a tree that saw a copy may vote."""

from __future__ import annotations

import math
from collections.abc import Callable

from rfsize.errors import CopiesWarning, FewVotesError
from rfsize.sizing.base import Report
from rfsize.sizing.words import in_words
from rfsize.utils.warn import Caution
from rfsize.voting.groups import Groups


def noting_copies(report: Report, groups: Groups, size_by: Callable[[Groups], Report]) -> Report:
    """The report, with a warning where it is not clear whether copies belong together, and the size depends on it.

    Parameters
    ----------
    report : Report
        Of rows that stand alone.
    groups : Groups
        By which it was made.
    size_by : callable
        Makes the report by other groups.
    """
    if groups.of_copies is None:
        return report
    try:
        other = size_by(groups.of_copies).n_trees
    except FewVotesError:
        other = math.inf
    low, high = report.interval
    if low <= other <= high:
        return report
    if math.isfinite(other):
        found = f"is {in_words(other)}"
    else:
        found = "cannot be told, because too few trees saw none of a row's copies"
    text = (
        f"{groups.copied:.1%} of the training rows have a copy, and the rows do not tell whether fresh rows would too. "
        "Where rows come again by nature, as those of few values and popular ones do, T* is "
        f"{in_words(report.n_trees)}, which is what counts here; where rows were repeated or oversampled before the "
        f"training, it {found}. Say which it is: groups='rows' for the first, groups='copies' for the second"
    )
    return report.noting(Caution(CopiesWarning, text))
