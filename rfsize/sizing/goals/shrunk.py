"""Shrinking: how few trees, chosen and refitted, predict like all trees of the forest, certified on rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from rfsize._util import Caution, Int64s, in_percent
from rfsize.certifying.promise import Promise
from rfsize.certifying.smaller_forests import SizesTried
from rfsize.estimation.intervals import TAIL
from rfsize.sizing.goals.base import Answer
from rfsize.sizing.goals.certified import CertifiedAnswer, CertifiedGoal
from rfsize.sizing.goals.named import any_goal
from rfsize.sizing.metrics import Metric
from rfsize.sizing.paired import PairedLoss


@dataclass(frozen=True, eq=False)
class ShrunkSizes(SizesTried):
    """Rows that shrunken forests of several sizes predict differently from the whole forest.

    Attributes
    ----------
    tried : ndarray of int64, shape (n,)
        Sizes, from large to small.
    whole : int
        Number of trees of the whole forest.
    """

    tried: Int64s
    whole: int

    @classmethod
    def of(cls, rows: Int64s, differing: Sequence[Int64s], tried: Sequence[int], whole: int) -> Self:
        """From the rows that each size predicts differently."""
        return cls(rows, np.stack(differing, axis=1), np.array(tried, dtype=np.int64), whole)

    @property
    def available(self) -> int:
        return self.whole

    @property
    def sizes(self) -> Int64s:
        return self.tried

    def at(self, n_trees: int) -> Int64s:
        """The differing rows at a size; ``ValueError`` for a size that was not tried."""
        if n_trees >= self.whole:
            return np.zeros_like(self.rows)
        return self.differing[:, place_of(n_trees, self.tried)]

    @property
    def all(self) -> tuple[int, ...]:
        """All sizes whose differing rows are known, from small to large."""
        return *self.tried[::-1].tolist(), self.whole


def place_of(n_trees: int, tried: Int64s) -> int:
    """The index of a size among the sizes tried; ``ValueError`` if it was not tried."""
    found = np.flatnonzero(tried == n_trees)
    if not found.size:
        raise ValueError(
            f"the report knows shrunken forests of {', '.join(map(str, tried.tolist()))} trees, found {n_trees}: "
            f"rfsize.shrink(..., n_trees={n_trees}) makes this one"
        )
    return int(found[0])


@dataclass(frozen=True)
class ShrunkGoal(CertifiedGoal):
    """Keep the labels, probabilities or scores of all trees, with a few trees chosen for that.

    Attributes
    ----------
    n_trees : int or None
        The number of chosen trees, if the user gave it. A certificate then bounds their loss at the given ``alpha``.
    """

    n_trees: int | None = None

    made_by = "rfsize.shrink(model, X)[0]"
    call = "small, report = rfsize.shrink(model, X, {options})"
    certifier = "rfsize.shrink"
    of_metrics = "give it to rfsize.truncate"

    @property
    def title(self) -> str:
        return f"chosen trees that answer {in_percent(self.alpha)} of rows as all do"

    @property
    def options(self) -> dict[str, Any]:
        of_goal = {name: value for name, value in super().options.items() if name != "target"}
        return of_goal if self.n_trees is None else {**of_goal, "n_trees": self.n_trees}

    def keeping(self, metric: str, tolerance: float) -> dict[str, Any]:
        """The arguments that keep the probabilities, and with them what metrics measure."""
        return {"metric": "probabilities", "tolerance": tolerance}


class ShrunkAnswer(CertifiedAnswer):
    """How many rows the shrunken forests predict differently, and how few trees are certified."""

    goal: ShrunkGoal
    against = "all of your trees"

    def __init__(
        self,
        goal: ShrunkGoal,
        promise: Promise,
        sizes: ShrunkSizes,
        classes: list[Any],
        labels_by: str,
        harms: Sequence[Caution],
        refits_below: int,
    ) -> None:
        self._refits_below = refits_below
        super().__init__(goal, promise, sizes, classes, None, labels_by, harms)
        self.tried = sizes.all
        if goal.n_trees is not None:
            self.n_trees, self.are = goal.n_trees, "kept"
            self.certificate = sizes.certificate(goal.n_trees, promise)
            self.cautions = ()

    def which(self, kept: int, trees: str) -> str:
        how = "chosen and refitted" if kept <= self._refits_below else "chosen but not refitted"
        return f"{kept:,} of {trees}, {how},"

    def notes(self) -> list[str]:
        return [] if self.goal.n_trees is not None else super().notes()


class PairedAnswer(Answer):
    """How much a metric loses in the shrunken forests tried, against the whole forest on the same rows."""

    against = "all of your trees"
    fewest_votes = 0

    def __init__(self, metric: Metric, sizes: ShrunkSizes, lost: Sequence[PairedLoss]) -> None:
        self.goal = any_goal(metric.name)
        self._sizes, self._lost = sizes, lost
        self.n_rows, self.n_dropped, self.lacks_votes = len(metric.truth), 0, False
        self.n_trees, self.votes_per_row = sizes.whole, float(sizes.whole)
        self.tried = sizes.all

    def _of(self, n_trees: int) -> PairedLoss:
        if n_trees >= self._sizes.whole:
            return PairedLoss(0.0, 0.0)
        return self._lost[place_of(n_trees, self._sizes.tried)]

    def size_at(self, level: float) -> int:
        """The smallest size tried that loses no more than ``level``."""
        return min(size for size in self._sizes.all if self.value(size) <= level)

    def quantile(self, share_below: float) -> int:
        return self._sizes.whole

    def value(self, n_trees: int) -> float:
        return self._of(n_trees).lost

    def interval(self, n_trees: int) -> tuple[float, float]:
        from scipy.special import ndtri

        lost, error = self._of(n_trees)
        return lost - float(ndtri(1.0 - TAIL)) * error, lost + float(ndtri(1.0 - TAIL)) * error

    def said(self, n_trees: int) -> str:
        low, high = self.interval(n_trees)
        return f"{self.in_short(n_trees)} ({low:.2g} to {high:.2g} worse)"

    def in_short(self, n_trees: int) -> str:
        return self._of(n_trees).in_short(self.goal.name)
