"""Certificates: answers that differ on rows, counted by class, and the Clopper–Pearson bounds that they imply."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats, in_percent

AVERAGES = ("micro", "macro")
COUNTS = ("rows", "disagreements", "trees")

_FAR = 10.0  # standard deviations


def tested(differing: NDArray[Any], rows: NDArray[Any], average: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Disagreements and rows to bound: of all classes together ("micro"), or of each class ("macro")."""
    if average == "micro":
        return differing.sum(axis=0, keepdims=True), rows.sum(keepdims=True)
    return differing, rows


def bounds(differing: NDArray[Any], rows: NDArray[Any], confidence: float) -> Floats:
    """Clopper–Pearson upper bounds of the shares of rows that differ, each at ``confidence``; 1 without rows."""
    from scipy.stats import beta

    with np.errstate(invalid="ignore"):
        found = beta.ppf(confidence, np.asarray(differing) + 1, np.asarray(rows) - differing)
    return np.where(np.asarray(differing) >= rows, 1.0, found)


@lru_cache(maxsize=256)
def most_disagreements(rows: int, alpha: float, confidence: float) -> int:
    """The most disagreements among ``rows`` rows that still certify α; −1 if even 0 disagreements do not."""
    from scipy.stats import beta

    # A bound at a confidence below one half is below the share that was seen, but never by _FAR standard deviations.
    expected = rows * (1.0 - alpha)
    few = np.arange(min(rows, int(expected + _FAR * (1.0 + math.sqrt(expected))) + 1))
    return int(np.count_nonzero(beta.ppf(confidence, few + 1, rows - few) <= 1.0 - alpha)) - 1


def fewest_rows(alpha: float, confidence: float) -> int:
    """The fewest rows that can certify α: αⁿ ≤ 1 − confidence."""
    rows = math.ceil(math.log(1.0 - confidence) / math.log(alpha))
    while most_disagreements(rows, alpha, confidence) < 0:  # rounding may make the formula too small
        rows += 1
    return rows


def finest_alpha(rows: int, confidence: float) -> float:
    """The largest α that ``rows`` rows can certify, with 1 − α rounded up to one digit."""
    smallest = -math.expm1(math.log(1.0 - confidence) / rows)
    step = 10.0 ** math.floor(math.log10(smallest))
    digits = round(-math.log10(step))
    alpha = round(1.0 - math.ceil(smallest / step) * step, digits)
    return alpha if fewest_rows(alpha, confidence) <= rows else round(alpha - step, digits)


class ClassOutcome(NamedTuple):
    """The outcome for the rows of one class, where the class is the one that all trees give.

    Attributes
    ----------
    label
        Label of the class, or its index if the label is not known.
    share : float
        Share of all rows that are of this class; NaN if not known.
    disagreement : float
        Share of the class's rows that get another label; NaN if the class has no rows.
    trees : float
        Mean number of trees asked; NaN if the class has no rows.
    """

    label: Any
    share: float
    disagreement: float
    trees: float


@dataclass(frozen=True)
class ClassCounts:
    """Counts of how a stop table, or fewer trees, answered rows, by the class that all trees give the rows.

    A regression has a single entry.

    Attributes
    ----------
    rows : tuple of int
        Number of rows of each class.
    disagreements : tuple of int
        How many of these rows get another answer than from all trees.
    trees : tuple of int
        Number of trees asked, summed over the rows of the class.
    """

    rows: tuple[int, ...]
    disagreements: tuple[int, ...]
    trees: tuple[int, ...]

    @classmethod
    def of(cls, group: NDArray[Any], differs: NDArray[Any], asked: NDArray[Any], n_classes: int) -> ClassCounts:
        """Count rows, given the class of each row, whether its answer differs, and the trees that it asked."""
        sums = [np.bincount(group, weights, n_classes) for weights in (None, differs, asked)]
        return cls.of_sums(*sums)

    @classmethod
    def of_sums(cls, rows: NDArray[Any], disagreements: NDArray[Any], trees: NDArray[Any]) -> ClassCounts:
        """From arrays of shape (n_classes,)."""
        return cls(*(tuple(map(int, sums)) for sums in (rows, disagreements, trees)))

    @property
    def disagreement(self) -> float:
        """Share of all rows that get another answer than from all trees."""
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
        """The three counts as plain lists."""
        return {name: list(getattr(self, name)) for name in COUNTS}


@dataclass(frozen=True)
class Certificate:
    """A bound on how often a stop table, or fewer trees, answer a row differently from all trees.

    The certificate comes from a sample of rows that the forest was not trained on. It holds for this forest, with its
    trees in this order, and for rows drawn in the same way as the sample. With probability ``confidence`` over the
    choice of the sample, the share of such rows that get another answer than from all trees is at most 1 − α.

    Attributes
    ----------
    counts : ClassCounts
        Counts on the sample.
    alpha : float
        Share of the rows that agree.
    confidence : float
        Probability that the bound holds.
    average : {"micro", "macro"}
        "micro" bounds the share of all rows. "macro" bounds the share of the rows of each predicted class.
    forest : str or None
        SHA-256 of the leaves of the forest that the certificate holds for; None if not known. A stop table with this
        certificate compiles only with this forest.
    """

    counts: ClassCounts
    alpha: float
    confidence: float
    average: str = "micro"
    forest: str | None = None

    @property
    def rows(self) -> int:
        """Number of rows in the sample."""
        return sum(self.counts.rows)

    @property
    def disagreements(self) -> int:
        """How many rows of the sample get another answer than from all trees."""
        return sum(self.counts.disagreements)

    @property
    def bound(self) -> float:
        """The largest share of rows that may differ, 1 − α; with "macro" of the rows of each class."""
        return round(1.0 - self.alpha, 12)

    @property
    def exact_bound(self) -> float:
        """Clopper–Pearson bound of the disagreement, as if the rule had been fixed before these rows were seen.

        It is at most `bound`. The certificate does not claim it, because the rule was chosen on these rows.
        """
        differing, rows = np.array(self.counts.disagreements), np.array(self.counts.rows)
        return float(bounds(*tested(differing, rows, self.average), self.confidence).max())

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``json`` can write, without α."""
        more = {"confidence": self.confidence, "average": self.average, "forest": self.forest}
        return {**self.counts.to_dict(), **more}

    def __str__(self) -> str:
        of = "of each class's rows" if self.average == "macro" else "of the rows"
        return (
            f"certified at {in_percent(self.confidence)}: at most {in_percent(self.bound)} {of} differ "
            f"({self.disagreements:,} of {self.rows:,} did)"
        )

    __repr__ = __str__
