"""Whether the log loss may be infinite on rows like those at hand.

A leaf with rows of only one class gives the other classes no probability. If all trees send a row to such leaves and
the row is of another class, its log loss is infinite, and one such row is enough to make the mean infinite. Even if no
row at hand is of this kind, other rows may be. If some rows get a probability of their class from only one or two
trees, other rows are likely to get it from none, just as the species seen once tell how many species were not seen
(I. Good (1953). "The population frequencies of species and the estimation of population parameters." Biometrika
40(3-4), 237-264).
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

# If a row gets a probability of its class from this many trees at most: the loss of other rows may well be infinite;
# a warning is due.
_HANGS, _NEAR = 2, 9
_ROWS_AT_ONCE = 10_000
_WAY_OUT = (
    "Take 'brier', which is finite, or train trees whose leaves hold more rows (min_samples_leaf): scikit-learn's "
    "ensembles average probabilities"
)


class Chances(NamedTuple):
    """From how many trees the rows get a probability of their class.

    Attributes
    ----------
    n_rows : int
        Rows that count.
    hanging : int
        Rows that get it from only one or two of the trees asked, and from fewer than half.
    near : int
        Rows that get it from fewer than ten of the trees asked, and from fewer than half.
    without : int
        Rows that get no probability at all of some class, their own or another.
    """

    n_rows: int
    hanging: int
    near: int
    without: int

    def doubt(self, name: str) -> str | None:
        """Why the loss may be infinite on other rows; None if that is unlikely."""
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
    """A warning if a metric may be infinite on other rows.

    Raises
    ------
    UndefinedMetricError
        If some rows get a probability of their class from only one or two trees, so that infinity is likely.
    """
    doubt = chances.doubt(metric_in_words(judge.name))
    if doubt is not None and chances.hanging:
        raise UndefinedMetricError(doubt)
    return () if doubt is None else (Caution(InfiniteLossWarning, doubt),)


def chances_in_blocks(judge: Metric, blocks: TreeBlocks) -> Chances:
    """The chances by the first trees and by blocks of trees."""
    blocks, found = blocks.laid_over(), []
    for some in _pieces(judge, len(blocks.rows)):
        is_first = np.arange(N_FIRST)[:, None] < blocks.n_first[some, None]
        views = (blocks.first[some], is_first), (blocks.total[some], blocks.asked[some])
        found.append(_counted(judge, blocks.rows[some], *views))
    return _added(found)


def chances_in_parts(judge: Metric, averages: Averages) -> Chances:
    """The chances by parts of the forest; in most forests a part is a single tree."""
    found = []
    for some in _pieces(judge, len(averages.total)):
        rows = np.arange(some.start, some.stop) * averages.parts.every
        found.append(_counted(judge, rows, (averages.total[some], averages.asked_of[some])))
    return _added(found)


def _pieces(judge: Metric, n_rows: int) -> list[slice]:
    """Slices of rows to look at together; none if the metric is always finite."""
    if not is_of_averages(judge):
        return []
    return [slice(start, min(start + _ROWS_AT_ONCE, n_rows)) for start in range(0, n_rows, _ROWS_AT_ONCE)]


def _counted(judge: Metric, rows: Int64s, *views: tuple[NDArray[Any], NDArray[Any]]) -> Chances:
    """The chances of some rows, for one or several ways to divide the trees into parts; for each row the largest count.

    Each view holds the sums of the trees' probabilities, shape (n_rows, n_parts, n_scores), and the trees asked.
    """
    counts, truth = judge.weight[rows] > 0.0, judge.truth[rows]
    giving = asked = np.zeros(len(rows), dtype=np.int64)
    without = np.zeros(len(rows), dtype=np.bool_)
    for share, of_trees in views:
        # With two classes, a single probability belongs to the second class.
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
    """The chances of all rows together."""
    return Chances(*(sum(numbers) for numbers in zip(*found, strict=True))) if found else Chances(0, 0, 0, 0)
