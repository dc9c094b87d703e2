"""Smaller forests of several sizes beside the whole one, and the smallest that rows certify."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from rfsize.certifying.bound import tested
from rfsize.certifying.certificate import Certificate, ClassCounts
from rfsize.certifying.promise import Promise
from rfsize.utils.typing import Int64s


@dataclass(frozen=True, eq=False)
class SizesTried(ABC):
    """Rows that smaller forests answer unlike the whole forest.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_classes,)
        Rows by the class that all trees give them; one entry of regression.
    differing : ndarray of int64, shape (n_classes, n)
        Those of them that each smaller forest answers otherwise.
    """

    rows: Int64s
    differing: Int64s

    @property
    @abstractmethod
    def available(self) -> int:
        """Trees of the whole forest."""

    @property
    @abstractmethod
    def sizes(self) -> Int64s:
        """Sizes that are tested one after another, from many trees to few."""

    @abstractmethod
    def at(self, n_trees: int) -> Int64s:
        """Rows of each class that so many trees answer otherwise; none of all trees, or of more."""

    def share(self, n_trees: int, average: str) -> float:
        """Share of the rows that so many trees answer otherwise; with "macro" of the class where it is largest."""
        differing, rows = tested(self.at(n_trees), self.rows, average)
        return float((differing / rows).max())

    def fewest(self, promise: Promise) -> int:
        """The fewest trees that the rows certify; all trees where they certify no fewer."""
        differing = [self.at(int(size)) for size in self.sizes]
        last = promise.boldest(np.stack(differing, axis=1), self.rows) if differing else -1
        return self.available if last < 0 else int(self.sizes[last])

    def certificate(self, n_trees: int, promise: Promise) -> Certificate:
        """What the rows certify of so many trees."""
        return promise.certificate(ClassCounts.of_sums(self.rows, self.at(n_trees), n_trees * self.rows))

    def times(self, factor: float) -> Self:
        """What so many times the rows may show."""
        rows, differing = (np.rint(factor * of).astype(np.int64) for of in (self.rows, self.differing))
        return replace(self, rows=rows, differing=differing)
