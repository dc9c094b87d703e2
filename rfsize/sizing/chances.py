"""Whether the logarithmic loss may be infinite on rows like those at hand.

A leaf that holds rows of one class gives the others no probability. A row that all trees send to such leaves has an
infinite loss where it is of another class, and one such row is enough. If no row at hand is of that kind, others may be
all the same: where one or two of the trees asked give some rows their class a probability, and all others none, other
rows may well get none at all, as the species that were seen once tell how many were not seen (I. Good (1953). "The
population frequencies of species and the estimation of population parameters." Biometrika 40(3-4), 237-264).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.exceptions import InfiniteLossWarning, UndefinedMetricError
from rfsize.sizing.metrics import Metric
from rfsize.sizing.named_metrics import is_of_averages
from rfsize.sizing.words import metric_in_words
from rfsize.utils.typing import Int64s
from rfsize.utils.warn import Caution
from rfsize.utils.words import how_many
from rfsize.voting.averages import Averages
from rfsize.voting.blocks import N_FIRST, TreeBlocks

# Of so few trees a row's class may hang that others hang on none; and of so few that it is worth a word.
_HANGS, _NEAR = 2, 9
_ROWS_AT_ONCE = 10_000
_WAY_OUT = (
    "Take 'brier', which is finite, or train trees whose leaves hold more rows (min_samples_leaf): scikit-learn's "
    "forests average probabilities"
)


class Chances(NamedTuple):
    """From how many trees rows have a probability of their class.

    Attributes
    ----------
    n_rows : int
        Rows that count.
    hanging : int
        Rows that have it from one or two of the trees asked, and not from most.
    near : int
        Rows that have it from fewer than ten, and not from most.
    without : int
        Rows that get no probability at all of some class, their own or not.
    """

    n_rows: int
    hanging: int
    near: int
    without: int

    def doubt(self, name: str) -> str | None:
        """Why the loss may be infinite on other rows; None where that is not likely."""
        if self.hanging:
            return (
                f"the {name} may be infinite on other rows: on {self.hanging:,} of {how_many(self.n_rows, 'row')}, "
                f"only one or two of the trees asked give the row's class any probability. {_WAY_OUT}"
            )
        if self.near and self.without:
            return (
                f"the {name} may be infinite on other rows: on {how_many(self.without, 'row')} of {self.n_rows:,} "
                f"some class gets no probability at all, and on {how_many(self.near, 'row')} only a few of the "
                f"trees asked give the row's class any. {_WAY_OUT}"
            )
        return None


def cautions_of(judge: Metric, chances: Chances) -> tuple[Caution, ...]:
    """A warning where a metric may be infinite on other rows.

    Raises
    ------
    UndefinedMetricError
        If classes of rows hang on one or two trees, so that it may well be.
    """
    doubt = chances.doubt(metric_in_words(judge.name))
    if doubt is not None and chances.hanging:
        raise UndefinedMetricError(doubt)
    return () if doubt is None else (Caution(InfiniteLossWarning, doubt),)


def chances_in_blocks(judge: Metric, blocks: TreeBlocks) -> Chances:
    """From how many trees rows have a probability of their class, as far as the blocks tell."""
    blocks, found = blocks.laid_over(), []
    for some in _pieces(judge, len(blocks.rows)):
        is_first = np.arange(N_FIRST)[:, None] < blocks.n_first[some, None]
        views = (blocks.first[some], is_first), (blocks.total[some], blocks.asked[some])
        found.append(_counted(judge, blocks.rows[some], *views))
    return _added(found)


def chances_in_parts(judge: Metric, averages: Averages) -> Chances:
    """The same by parts of the forest, which of most forests are single trees."""
    found = []
    for some in _pieces(judge, len(averages.total)):
        rows = np.arange(some.start, some.stop) * averages.parts.every
        found.append(_counted(judge, rows, (averages.total[some], averages.asked_of[some])))
    return _added(found)


def _pieces(judge: Metric, n_rows: int) -> list[slice]:
    """Rows to be looked at together; none of a metric that is finite whatever single trees say."""
    if not is_of_averages(judge):
        return []
    return [slice(start, min(start + _ROWS_AT_ONCE, n_rows)) for start in range(0, n_rows, _ROWS_AT_ONCE)]


def _counted(judge: Metric, rows: Int64s, *views: tuple[NDArray[Any], NDArray[Any]]) -> Chances:
    """Of some rows, by one or several ways to part the trees, of which that counts which tells of most.

    Each has sums of the trees' probabilities, of shape (n_rows, n_parts, n_scores), and the trees asked.
    """
    counts, truth = judge.weight[rows] > 0.0, judge.truth[rows]
    giving = asked = np.zeros(len(rows), dtype=np.int64)
    without = np.zeros(len(rows), dtype=np.bool_)
    for share, of_trees in views:
        # One probability of two classes is that of the second.
        of_classes = np.concatenate([of_trees - share, share], axis=2) if share.shape[2] == 1 else share
        own = np.take_along_axis(of_classes, truth[:, None, None], axis=2)[:, :, 0]
        giving = np.maximum(giving, np.count_nonzero(own > 0.0, axis=1))
        asked = np.maximum(asked, np.count_nonzero(of_trees[:, :, 0], axis=1))
        without = np.asarray(np.any(np.max(of_classes, axis=1) <= 0.0, axis=1))
    counts &= asked > 0
    is_few = counts & (2 * giving < asked)
    hanging, near = (int(np.count_nonzero(is_few & (giving <= most))) for most in (_HANGS, _NEAR))
    return Chances(int(np.count_nonzero(counts)), hanging, near, int(np.count_nonzero(without & counts)))


def _added(found: list[Chances]) -> Chances:
    """Of the rows of all."""
    return Chances(*(sum(numbers) for numbers in zip(*found, strict=True))) if found else Chances(0, 0, 0, 0)
