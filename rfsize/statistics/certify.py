"""Certificates: exact binomial bounds on how often fewer trees, or a stop table, change the answer of all trees.

Rules are tested in a fixed sequence, from the most cautious to the least, each at the full confidence; testing stops
at the first that fails. Call a rule bad if it really disagrees on more than 1 − α. Some bad rule passes only if the
first bad rule passes, so the probability of an error is at most 1 − confidence: A. N. Angelopoulos, S. Bates, E. J.
Candès, M. I. Jordan, L. Lei (2021). "Learn then test: calibrating predictive algorithms to achieve risk control." arXiv
2110.01052. With "macro" a rule passes if the rows of each class pass at the full confidence. A bad rule has a bad
class, and this class passes with a probability of at most 1 − confidence (an intersection-union test). So the number of
classes needs no correction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats, Int64s, how_many, in_percent, printable
from rfsize.statistics.curve import TAIL, place_of

COUNTS = ("rows", "disagreements", "trees")

_FAR = 10.0  # standard deviations


def counts_to_bound(differing: NDArray[Any], rows: NDArray[Any], average: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Disagreements and rows to bound: of all classes together ("micro"), or of each class ("macro")."""
    if average == "micro":
        return differing.sum(axis=0, keepdims=True), rows.sum(keepdims=True)
    return differing, rows


def clopper_pearson(differing: NDArray[Any], rows: NDArray[Any], confidence: float) -> Floats:
    """Clopper-Pearson upper bounds of the shares of rows that differ, each at ``confidence``; 1 without rows."""
    from scipy.stats import beta

    with np.errstate(invalid="ignore"):
        bounds = beta.ppf(confidence, np.asarray(differing) + 1, np.asarray(rows) - differing)
    return np.where(np.asarray(differing) >= rows, 1.0, bounds)


@lru_cache(maxsize=256)
def most_disagreements(rows: int, alpha: float, confidence: float) -> int:
    """The most disagreements among ``rows`` rows that still certify α; −1 if even 0 disagreements do not."""
    # A bound at a confidence below one half is below the share that was seen, but never by _FAR standard deviations.
    expected = rows * (1.0 - alpha)
    few = np.arange(min(rows, int(expected + _FAR * (1.0 + math.sqrt(expected))) + 1))
    return int(np.count_nonzero(clopper_pearson(few, np.array(rows), confidence) <= 1.0 - alpha)) - 1


def fewest_rows(alpha: float, confidence: float) -> int:
    """The fewest rows that can certify α: αⁿ ≤ 1 − confidence."""
    rows = math.ceil(math.log(1.0 - confidence) / math.log(alpha))
    while most_disagreements(rows, alpha, confidence) < 0:  # rounding may make the formula too small
        rows += 1
    return rows


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
        Mean number of trees used; NaN if the class has no rows.
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
        Number of trees used, summed over the rows of the class.
    """

    rows: tuple[int, ...]
    disagreements: tuple[int, ...]
    trees: tuple[int, ...]

    @classmethod
    def of_sums(cls, rows: NDArray[Any], disagreements: NDArray[Any], trees: NDArray[Any]) -> ClassCounts:
        """From arrays of shape (n_classes,)."""
        return cls(*(tuple(map(int, sums)) for sums in (rows, disagreements, trees)))

    def by_class(self, labels: Sequence[Any]) -> list[ClassOutcome]:
        """One outcome for each class."""
        total, sums = sum(self.rows), zip(labels, self.rows, self.disagreements, self.trees, strict=True)
        return [
            ClassOutcome(label, rows / total, *(of_rows / rows if rows else math.nan for of_rows in of_class))
            for label, rows, *of_class in sums
        ]


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
        return float(clopper_pearson(*counts_to_bound(differing, rows, self.average), self.confidence).max())

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``json`` can write, without α."""
        counts = {name: list(getattr(self.counts, name)) for name in COUNTS}
        return {**counts, "confidence": self.confidence, "average": self.average, "forest": self.forest}

    def __str__(self) -> str:
        of = "of each class's rows" if self.average == "macro" else "of the rows"
        bound = f"at most {in_percent(self.bound)} {of} differ ({self.disagreements:,} of {self.rows:,} did)"
        return f"certified at {in_percent(self.confidence)}: {bound}"

    __repr__ = __str__


@dataclass(frozen=True)
class RiskTarget:
    """What must stay the same if fewer trees answer a row, and how rows certify it.

    Attributes
    ----------
    alpha : float
        Share of the rows whose answer must stay the same.
    confidence : float
        Probability that the promise holds.
    average : {"micro", "macro"}
        Whether ``alpha`` is a share of all rows, or of the rows of each class.
    forest : str or None
        `Forest.digest` of the forest.
    metric : {"labels", "probabilities", "scores"}
        What must stay the same.
    tolerance : float
        How far probabilities or scores may move.
    """

    alpha: float
    confidence: float
    average: str
    forest: str | None = None
    metric: str = "labels"
    tolerance: float = 0.0

    def check_rows(self, rows: Int64s, labels: Sequence[Any]) -> None:
        """Raise ``ValueError`` if there are too few rows to certify anything, and say how many it takes."""
        needed, total = fewest_rows(self.alpha, self.confidence), int(rows.sum())
        of = f"alpha={self.alpha!r} with confidence {self.confidence!r}"
        if total < needed:
            advice = f"give at least {needed:,} rows, or ask for a lower alpha or confidence"
            raise ValueError(f"{how_many(total, 'row')} cannot certify {of}, even if none of them disagrees: {advice}")
        if self.average == "macro" and rows.min() < needed:
            has = f"class {printable(labels[int(rows.argmin())])} to {rows.min():,} of {total:,} rows"
            raise ValueError(
                f"average='macro' takes {needed:,} rows of each class for {of}, and the forest gives {has}: give more "
                "such rows, or take average='micro', which bounds the share of all rows"
            )

    def fixed_sequence(self, differing: NDArray[Any], rows: Int64s) -> int:
        """Index of the least cautious certified rule, see this module; −1 if no rule is certified.

        Parameters
        ----------
        differing : ndarray of int, shape (n_classes, n_rules)
            How many rows of each class each rule answers differently. Rules are in order, from cautious to bold.
        rows : ndarray of int64, shape (n_classes,)
            Number of rows of each class.
        """
        differing, rows = counts_to_bound(differing, rows, self.average)
        most = np.array([most_disagreements(int(n), self.alpha, self.confidence) for n in rows])
        passed = (differing <= most[:, None]).all(axis=0)
        return int(passed.size if passed.all() else np.argmin(passed)) - 1

    def certificate(self, counts: ClassCounts) -> Certificate:
        """The certificate of the chosen rule, from its counts."""
        return Certificate(counts, self.alpha, self.confidence, self.average, self.forest)


@dataclass(frozen=True, eq=False)
class CertifiedCurve:
    """The share of rows that smaller forests answer differently from all trees, over their size.

    With "macro" the share of the class in which it is largest.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n,)
        Sizes of the smaller forests, ascending.
    rows : ndarray of int64, shape (n_classes,)
        Number of rows of each class, where the class is the one that all trees give. A regression has one entry.
    differing : ndarray of int64, shape (n_classes, n)
        How many of these rows each smaller forest answers differently.
    n_trees : int
        Number of trees in the whole forest.
    tested : ndarray of int64, shape (n_tests,)
        Sizes to test one after another, from many trees to few.
    target : RiskTarget
        What must stay the same.
    classes : list
        Labels of the classes; none for a regression.
    """

    sizes: Int64s
    rows: Int64s
    differing: Int64s
    n_trees: int
    tested: Int64s
    target: RiskTarget
    classes: list[Any]

    def differing_at(self, n_trees: int) -> Int64s:
        """Rows of each class that ``n_trees`` trees answer differently; 0 for all trees or more.

        Raises
        ------
        ValueError
            If the size was not tried.
        """
        if n_trees >= self.n_trees:
            return np.zeros_like(self.rows)
        return np.asarray(self.differing[:, place_of(self.sizes, n_trees)])

    def at(self, n_trees: int) -> float:
        """See `Curve.at`."""
        differing, rows = counts_to_bound(self.differing_at(n_trees), self.rows, self.target.average)
        return float((differing / rows).max())

    def interval(self, n_trees: int) -> tuple[float, float]:
        """The Clopper-Pearson interval, of all rows or of the worst class; for all trees it is zero."""
        if n_trees >= self.n_trees:
            return 0.0, 0.0
        differing, rows = counts_to_bound(self.differing_at(n_trees), self.rows, self.target.average)
        worst = int(np.argmax(differing / rows))
        n_differing, n_rows = differing[worst], rows[worst]
        low = 1.0 - clopper_pearson(n_rows - n_differing, n_rows, 1.0 - TAIL)
        return float(low), float(clopper_pearson(n_differing, n_rows, 1.0 - TAIL))

    def size(self, level: float) -> int:
        """The fewest certified trees for another share of the rows; ``ValueError`` if the rows are too few."""
        target = replace(self.target, alpha=1.0 - level)
        target.check_rows(self.rows, self.classes)
        return self.fewest(target)

    def size_quantile(self, level: float, share: float) -> int:
        """The fewest trees that are certified at a confidence of ``share``."""
        return self.fewest(replace(self.target, alpha=1.0 - level, confidence=share))

    def fewest(self, target: RiskTarget) -> int:
        """The fewest trees that the rows certify, which may be all trees."""
        if not len(self.tested):
            return self.n_trees
        differing = np.stack([self.differing_at(int(size)) for size in self.tested], axis=1)
        last = target.fixed_sequence(differing, self.rows)
        return self.n_trees if last < 0 else int(self.tested[last])

    def certificate(self, n_trees: int) -> Certificate:
        """The certificate of ``n_trees`` trees."""
        counts = ClassCounts.of_sums(self.rows, self.differing_at(n_trees), n_trees * self.rows)
        return self.target.certificate(counts)

    def by_class(self, n_trees: int) -> dict[Any, float]:
        """Share of each class's rows that forests of ``n_trees`` trees answer differently; empty for a regression."""
        by_class = zip(self.classes, self.differing_at(n_trees).tolist(), self.rows.tolist(), strict=False)
        return {label: differing / rows for label, differing, rows in by_class if rows}

    @property
    def label_shares(self) -> dict[Any, float]:
        """Share of the rows to which all trees give each class; empty for a regression."""
        return dict(zip(self.classes, (self.rows / self.rows.sum()).tolist(), strict=False))
