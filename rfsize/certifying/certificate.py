"""What was seen on rows, by class, and what that certifies, by the bounds of Clopper and Pearson."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Floats
from rfsize.utils.words import in_percent

AVERAGES = ("micro", "macro")
COUNTS = ("rows", "disagreements", "trees")

_FAR = 10.0  # standard deviations


def tested(differing: NDArray[Any], rows: NDArray[Any], average: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Disagreements and rows of all that is bounded by itself."""
    if average == "micro":
        return differing.sum(axis=0, keepdims=True), rows.sum(keepdims=True)
    return differing[rows > 0], rows[rows > 0]


def bounds(differing: NDArray[Any], rows: NDArray[Any], confidence: float) -> Floats:
    """Clopper–Pearson upper bounds of the shares that differ, each at this confidence."""
    from scipy.stats import beta

    with np.errstate(invalid="ignore"):
        found = beta.ppf(confidence, np.asarray(differing) + 1, np.asarray(rows) - differing)
    return np.where(np.asarray(differing) >= rows, 1.0, found)


@lru_cache(maxsize=256)
def most_disagreements(rows: int, alpha: float, confidence: float) -> int:
    """The most disagreements among so many rows whose bound is 1 − α at most; −1 where not even none has it."""
    from scipy.stats import beta

    # At a confidence below a half bounds are below what was seen, but never by so much.
    expected = rows * (1.0 - alpha)
    few = np.arange(min(rows, int(expected + _FAR * (1.0 + math.sqrt(expected))) + 1))
    return int(np.count_nonzero(beta.ppf(confidence, few + 1, rows - few) <= 1.0 - alpha)) - 1


def fewest_rows(alpha: float, confidence: float) -> int:
    """The fewest rows that can certify α: αⁿ ≤ 1 − confidence."""
    rows = math.ceil(math.log(1.0 - confidence) / math.log(alpha))
    while most_disagreements(rows, alpha, confidence) < 0:  # where rounding decides
        rows += 1
    return rows


def finest_alpha(rows: int, confidence: float) -> float:
    """The largest α that so many rows can certify, with one digit of 1 − α."""
    smallest = -math.expm1(math.log(1.0 - confidence) / rows)
    step = 10.0 ** math.floor(math.log10(smallest))
    digits = round(-math.log10(step))
    alpha = round(1.0 - math.ceil(smallest / step) * step, digits)
    return alpha if fewest_rows(alpha, confidence) <= rows else round(alpha - step, digits)


class ClassOutcome(NamedTuple):
    """What happens to the rows that all trees give one class.

    Attributes
    ----------
    label
        The class, by its index where the table does not know the name.
    share : float
        Of all rows; NaN where that is not known.
    disagreement : float
        Share of the class's rows that get another label; NaN where it has none.
    trees : float
        Mean number of trees asked; NaN where the class has no rows.
    """

    label: Any
    share: float
    disagreement: float
    trees: float


@dataclass(frozen=True)
class ClassCounts:
    """What a table, or the first trees, did on rows, by the class that all trees give them; one entry without classes.

    Attributes
    ----------
    rows : tuple of int
        Rows of each class.
    disagreements : tuple of int
        Those of them that are answered otherwise.
    trees : tuple of int
        Trees asked for all of them together.
    """

    rows: tuple[int, ...]
    disagreements: tuple[int, ...]
    trees: tuple[int, ...]

    @classmethod
    def of(cls, group: NDArray[Any], differs: NDArray[Any], asked: NDArray[Any], n_classes: int) -> ClassCounts:
        """Counted from rows: their classes, whether each is answered otherwise, and the trees asked."""
        sums = [np.bincount(group, weights, n_classes) for weights in (None, differs, asked)]
        return cls.of_sums(*sums)

    @classmethod
    def of_sums(cls, rows: NDArray[Any], disagreements: NDArray[Any], trees: NDArray[Any]) -> ClassCounts:
        """From arrays of shape (n_classes,)."""
        return cls(*(tuple(map(int, sums)) for sums in (rows, disagreements, trees)))

    @property
    def disagreement(self) -> float:
        """Share of all rows that are answered otherwise."""
        return sum(self.disagreements) / sum(self.rows)

    @property
    def mean_trees(self) -> float:
        """Mean number of trees asked for a row."""
        return sum(self.trees) / sum(self.rows)

    def by_class(self, labels: Sequence[Any]) -> list[ClassOutcome]:
        """One outcome for each class."""
        total = sum(self.rows)
        return [
            ClassOutcome(
                label, rows / total, differing / rows if rows else math.nan, trees / rows if rows else math.nan
            )
            for label, rows, differing, trees in zip(labels, self.rows, self.disagreements, self.trees, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The three as plain lists."""
        return {name: list(getattr(self, name)) for name in COUNTS}


@dataclass(frozen=True)
class Certificate:
    """What a stop table, or the first trees of a forest, are certified to answer on rows like those looked at.

    It holds for one forest, its trees in their order, and rows drawn as these were, which must not have been trained
    on. With probability ``confidence`` over the choice of these rows, the share of all such rows that are answered
    unlike all trees answer them is at most 1 − α.

    Attributes
    ----------
    counts : ClassCounts
        What was seen on these rows.
    confidence : float
    average : {"micro", "macro"}
        Whether the bound is of the share of all rows, or of the share of each class that the forest predicts on them.
    forest : str or None
        SHA-256 of the leaves of the forest that it holds for, with which alone a table can be compiled; None where it
        is not known.
    """

    counts: ClassCounts
    confidence: float
    average: str = "micro"
    forest: str | None = None

    @property
    def rows(self) -> int:
        """Rows that it was certified on."""
        return sum(self.counts.rows)

    @property
    def disagreements(self) -> int:
        """Those of them that are answered unlike all trees answer them."""
        return sum(self.counts.disagreements)

    @property
    def bound(self) -> float:
        """Upper end of the exact (Clopper–Pearson) interval of the disagreement; with "macro" the worst class's."""
        differing, rows = np.array(self.counts.disagreements), np.array(self.counts.rows)
        return float(bounds(*tested(differing, rows, self.average), self.confidence).max())

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values; the bound follows from them."""
        more = {"confidence": self.confidence, "average": self.average, "forest": self.forest}
        return {**self.counts.to_dict(), **more}

    def __str__(self) -> str:
        of = "of each class's rows" if self.average == "macro" else "of the rows"
        return (
            f"certified at {in_percent(self.confidence)}: at most {in_percent(self.bound)} {of} differ "
            f"({self.disagreements:,} of {self.rows:,} did)"
        )

    __repr__ = __str__
