"""When rows stop for probabilities and numbers: by the spread of their own scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Floats, Int64s
from rfsize.models.link import LINKS, Link
from rfsize.stopping.rules import Rule
from rfsize.walking.layout import PackedForest


class Remainder(NamedTuple):
    """What the iterations of a boosted model change, over rows; each an array of float64 of shape (T,).

    Attributes
    ----------
    left
        Root mean square of what the iterations after the first 1, …, T add to a score.
    unit
        Root mean square of what each iteration adds; the base counts with the first.
    share
        See `PackedForest.shares`.
    """

    left: Floats
    unit: Floats
    share: Floats


@dataclass(frozen=True, eq=False)
class SpreadRule(Rule):
    """Stop when the remaining trees can change little, judged by the spread of the trees so far.

    Scores are those of single trees, before the link. After t of T trees, m is the mean score. The variance s² around m
    includes the ``pooled`` variance with the weight of ``weight`` trees:
    s² = (weight · pooled² + Σ(x − m)²)/(weight + t − 1). A row stops when s · √(1/t − 1/T), times the steepness of the
    link at m, is at most ``limit`` for every output. The prediction is the link of m.

    Of boosted trees, m is the partial score, each x is in units of what its iteration adds, and s is multiplied by what
    the remaining iterations add, both as root mean squares over rows. So rows whose leaves are large for their
    iteration go on: regressions took a sixth fewer trees than by the same number of trees for all rows.

    Attributes
    ----------
    limit : float
        At least 0.
    pooled : ndarray of float64, shape (n_scores,)
        Standard deviation of one tree's scores around the row's mean, over rows.
    weight : float
        At least 1.
    every : int
        Number of trees between two checks of a row, because a check takes as long as a few trees.
    link : Link
        From mean scores to the predictions that the tolerance is about.
    metric : {"probabilities", "scores"}
        What the table predicts.
    tolerance : float
        How far a prediction may be from that of all trees. With several outputs, the largest distance counts.
    remainder : Remainder or None
        What boosted trees add; ``pooled`` is then 1 for every score.
    """

    kind = "spread"
    voting = "soft"

    limit: float
    pooled: Floats
    weight: float
    every: int
    link: Link
    metric: str
    tolerance: float
    remainder: Remainder | None = None

    @property
    def adds_up(self) -> bool:  # type: ignore[override]
        return self.remainder is not None

    def answers(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        n_rows, n_trees, n_scores = outputs.shape
        values = outputs.astype(np.float64)
        whole, divisor = np.cumsum(values, axis=1)[:, -1:] / n_trees, float(n_trees)
        if self.remainder is not None:
            whole, divisor = values[:, -1:], 1.0
            values = np.diff(values * self.remainder.share[:, None], axis=1, prepend=0.0)
        left, mean = looks(self.native(n_trees, divisor, np.zeros(n_scores)), values, self.every)
        look = np.insert(left <= self.limit, left.shape[1], True, axis=1).argmax(axis=1)
        mean = np.concatenate([mean, whole], axis=1)[np.arange(n_rows), look]
        n_used = np.minimum((look + 1) * self.every, n_trees)
        return self.link.predictions(mean, n_classes if self.metric == "probabilities" else 0), n_used

    def native(self, n_trees: int, divisor: float, start: Floats) -> _core.SpreadStop:
        """The rule for trees whose values are added to ``start``, and their sum divided."""
        # A forest of two classes can add up both scores while the table has one; both scores have the same spread.
        pooled, link = np.resize(self.pooled, len(start)), LINKS.index(self.link.kind)
        if self.remainder is None:
            n_used = np.arange(1, n_trees + 1)
            left, share = np.sqrt(1.0 / n_used - 1.0 / n_trees), n_used / n_trees
            offset, per = np.zeros_like(start), np.full(n_trees, n_trees / divisor)
        else:
            offset, (left, unit, share) = start, self.remainder
            per = np.divide(1.0, unit * divisor, out=np.zeros_like(unit), where=unit > 0.0)
        of_rule = self.limit, self.every, pooled, self.weight, link, self.link.slope
        return _core.SpreadStop(*of_rule, start, offset, per, left, share * divisor)

    def on(self, forest: PackedForest) -> _core.SpreadStop:
        """The rule on rows of a forest; ``ValueError`` if its trees have another number of scores."""
        of_two = len(forest.classes) == 2 and self.pooled.size <= 2
        if self.pooled.size != forest.n_scores and not of_two:
            raise ValueError(
                f"the table is for {self.pooled.size} scores of a tree, and the forest has {forest.n_scores}: make a "
                "table from this forest, StopTable.calibrate(model, X)"
            )
        return self.native(forest.n_trees, forest.divisor, forest.start.astype(np.float64))

    def to_dict(self) -> dict[str, Any]:
        known = vars(self) | {"link": self.link.kind, "slope": self.link.slope}
        names = "limit", "pooled", "weight", "every", "link", "slope", "metric", "tolerance"
        content = {} if self.remainder is None else self.remainder._asdict()
        content |= {name: known[name] for name in names}
        return {name: np.asarray(value).tolist() for name, value in content.items()}


def looks(rule: _core.SpreadStop, values: NDArray[Any], every: int) -> tuple[Floats, Floats]:
    """What a spread rule compares with its limit, shape (n, n_looks), and mean scores, shape (n, n_looks, n_scores).

    ``values`` are what the trees add to the sums, shape (n, T, n_scores). Rows are looked at after
    ``every`` trees each, but not after the last.
    """
    n_rows, n_trees, n_scores = values.shape
    left = np.empty((n_rows, (n_trees - 1) // every))
    mean = np.empty((*left.shape, n_scores))
    rule.looks(np.ascontiguousarray(values, dtype=np.float64), left, mean)
    return left, mean
