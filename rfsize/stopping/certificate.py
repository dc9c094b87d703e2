"""What a stop table was seen to do on rows, by class, and what that certifies: an exact binomial bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.exceptions import RareClassWarning
from rfsize.stopping.document import Fields, refuse
from rfsize.utils.files import short
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import is_digest
from rfsize.utils.warn import warn
from rfsize.utils.words import how_many

AVERAGES = ("micro", "macro")

_COUNTS = ("rows", "disagreements", "trees")
_MOST_ROWS = 2**53
_ROUNDING = 1e-9

_RARE = 0.05  # a class of a smaller share of the labels is spoken of by itself
_MOST_LOST = 0.2  # a class that loses a larger share of its rows is warned of
_CLASSES_SAID = 5


class ClassOutcome(NamedTuple):
    """What a stop table does to the rows that all trees give one class.

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


def rare_classes_said(outcomes: list[ClassOutcome]) -> str:
    """What becomes of rare classes' rows, to go on a line with; empty where there are no such classes."""
    rare = [outcome for outcome in outcomes if outcome.share < _RARE and outcome.disagreement >= 0.0]
    if not rare:
        return ""
    each = [f"{outcome.label!r} ({outcome.share:.2%}) {outcome.disagreement:.1%}" for outcome in rare]
    more = f" and {len(each) - _CLASSES_SAID} more" if len(each) > _CLASSES_SAID else ""
    return f"; of rare classes' rows: {', '.join(each[:_CLASSES_SAID])}{more}"


def warn_of_lost_classes(outcomes: list[ClassOutcome], alpha: float, disagreement: Callable[[], float]) -> None:
    """Warn where classes lose a share `_MOST_LOST` of their rows, and twice what all may lose."""
    most = max(_MOST_LOST, 2.0 * (1.0 - alpha))
    lost = [
        f"{outcome.label!r} ({outcome.share:.2%} of the rows): {outcome.disagreement:.0%}"
        for outcome in outcomes
        if outcome.disagreement > most
    ]
    if lost:
        warn(
            f"the table answers {disagreement():.2%} of all rows otherwise than all trees, but of the rows that they "
            f"give to a class, {', '.join(lost[:_CLASSES_SAID])}; where these classes count, use "
            "StopTable.calibrate(..., average='macro'), which bounds each by itself, or a higher alpha",
            RareClassWarning,
        )


@dataclass(frozen=True)
class ClassCounts:
    """What a stop table did on rows, by the class that all trees give them; one entry where there are no classes.

    Attributes
    ----------
    rows : tuple of int
        Rows of each class.
    disagreements : tuple of int
        Those of them that the table answers otherwise.
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
        return {name: list(getattr(self, name)) for name in _COUNTS}

    @classmethod
    def from_fields(cls, fields: Fields, name: str, n_trees: int, n_classes: int) -> ClassCounts | None:
        """What `to_dict` gave, checked; None where there are none."""
        return None if fields[name] is None else _checked_counts(fields.within(name, _COUNTS, name), n_trees, n_classes)


@dataclass(frozen=True)
class Certificate:
    """What a stop table is certified to do on rows like those that it was certified on, with this forest.

    It holds for one forest, its trees in their order, and rows drawn as these were, which must not have been trained
    on. With probability ``confidence`` over the choice of these rows, the share of all such rows that the table
    answers unlike all trees is at most 1 − α.

    Attributes
    ----------
    counts : ClassCounts
        What the table did on these rows.
    confidence : float
    average : {"micro", "macro"}
        Whether the bound is of the share of all rows, or of the share of each class that the forest predicts on them.
    forest : str or None
        SHA-256 of the leaves of the forest that it holds for, with which alone the table can be compiled; None where it
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
        """Those of them that the table answers unlike all trees."""
        return sum(self.counts.disagreements)

    @property
    def bound(self) -> float:
        """Upper end of the exact (Clopper–Pearson) interval of the disagreement; with "macro" the worst class's."""
        differing, rows = np.array(self.counts.disagreements), np.array(self.counts.rows)
        return float(bounds(*_tested(differing, rows, self.average), self.confidence).max())

    def check_kept(self, alpha: float) -> None:
        """``TableError`` where its bound is above what a table of a file promises."""
        if alpha == 1.0:
            refuse("no number of rows certifies an alpha of 1")
        if not self.bound <= (1.0 - alpha) * (1.0 + _ROUNDING):
            refuse(f"the certificate's bound is {self.bound:.4%}, but alpha={alpha!r} promises {1.0 - alpha:.4%}")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values; the bound follows from them."""
        more = {"confidence": self.confidence, "average": self.average, "forest": self.forest}
        return {**self.counts.to_dict(), **more}

    @classmethod
    def from_fields(cls, fields: Fields, name: str, n_trees: int, n_classes: int) -> Certificate | None:
        """What `to_dict` gave, checked; None where there is none."""
        if fields[name] is None:
            return None
        own = fields.within(name, (*_COUNTS, "confidence", "average", "forest"), name)
        counts = _checked_counts(own, n_trees, n_classes)
        confidence, forest = own["confidence"], own["forest"]
        if type(confidence) is not float or not 0.0 < confidence < 1.0:
            refuse(f"confidence must be a fraction above 0 and below 1, found {short(confidence)}")
        if forest is not None and not is_digest(forest):
            refuse(f"forest must be the SHA-256 of a forest's leaves or null, found {short(forest)}")
        return cls(counts, confidence, own.choice("average", AVERAGES), forest)

    def __str__(self) -> str:
        of = "of each class's rows" if self.average == "macro" else "of the rows"
        return (
            f"certified at {self.confidence:.0%}: at most {self.bound:.2%} {of} differ ({self.disagreements:,} of "
            f"{self.rows:,} did)"
        )

    __repr__ = __str__


def _checked_counts(fields: Fields, n_trees: int, n_classes: int) -> ClassCounts:
    rows, disagreements, trees = (fields.numbers(name, int, n_classes) for name in _COUNTS)
    if not ((rows >= 0) & (rows <= _MOST_ROWS // (n_trees * n_classes))).all() or not rows.any():
        refuse("rows must be at least 0 for each class, and not all be 0")
    if not ((disagreements >= 0) & (disagreements <= rows)).all():
        refuse("disagreements must lie between 0 and the rows of each class")
    if not ((trees >= rows) & (trees <= rows * n_trees)).all():
        refuse(f"trees must be those asked for the rows of each class, 1 to {n_trees} for each row")
    return ClassCounts.of_sums(rows, disagreements, trees)


def _tested(differing: NDArray[Any], rows: NDArray[Any], average: str) -> tuple[NDArray[Any], NDArray[Any]]:
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
    """The most disagreements among so many rows that certify α; −1 where not even none does."""
    from scipy.stats import beta

    # Beyond the expected number no bound is below it.
    few = np.arange(min(rows, int(rows * (1.0 - alpha)) + 1))
    return int(np.count_nonzero(beta.ppf(confidence, few + 1, rows - few) <= 1.0 - alpha)) - 1


def fewest_rows(alpha: float, confidence: float) -> int:
    """The fewest rows that can certify α: αⁿ ≤ 1 − confidence."""
    rows = math.ceil(math.log(1.0 - confidence) / math.log(alpha))
    while most_disagreements(rows, alpha, confidence) < 0:  # where rounding decides
        rows += 1
    return rows


@dataclass(frozen=True)
class Wanted:
    """What a table is to keep, and how it is found out whether rules keep it.

    Attributes
    ----------
    alpha, confidence : float
    average : {"micro", "macro"}
    forest : str or None
        `Adapter.digest` of the forest.
    metric : {"labels", "probabilities", "scores"}
    tolerance : float
        How far off probabilities or scores may be.
    """

    alpha: float
    confidence: float
    average: str
    forest: str | None = None
    metric: str = "labels"
    tolerance: float = 0.0

    def check_rows(self, rows: Int64s, labels: Sequence[Any]) -> None:
        """Raise ``ValueError`` with how many it would take where too few rows of a class certify anything."""
        needed, total = fewest_rows(self.alpha, self.confidence), int(rows.sum())
        of = f"alpha={self.alpha!r} with confidence {self.confidence!r}"
        if total < needed:
            raise ValueError(
                f"{how_many(total, 'row')} cannot certify {of}, even if none of them disagrees: give at least "
                f"{needed:,} rows, or ask for a lower alpha or confidence"
            )
        rarest = int(np.argmin(np.where(rows > 0, rows, total + 1)))
        found = int(rows[rarest])
        if self.average == "macro" and found < needed:
            raise ValueError(
                f"average='macro' bounds each class by itself, and the forest gives class {labels[rarest]!r} to "
                f"{found:,} of {total:,} rows, where {of} takes {needed:,} of each class: give about "
                f"{math.ceil(needed * total / found):,} rows like these, or leave average='micro'"
            )

    def boldest(self, differing: NDArray[Any], rows: Int64s) -> int:
        """The boldest rule that is certified, by fixed-sequence testing (Angelopoulos et al. 2021, "Learn then test").

        Rules are tested from the most cautious on, each at the full confidence, and the first that fails ends it: the
        chance that any rule is passed which really disagrees on more than 1 − α is at most that of the first such rule.
        With "macro" a rule passes if each class's rows pass by themselves at that confidence. A rule that is bad has a
        class that is, and that class passes with a chance of at most 1 − confidence (an intersection–union test), so
        that no correction for the number of classes is needed.

        Parameters
        ----------
        differing : ndarray of int, shape (n_classes, n_rules)
            Rows that each rule, from cautious to bold, answers otherwise.
        rows : ndarray of int64, shape (n_classes,)

        Returns
        -------
        int
            Its number; −1 where none is.
        """
        differing, rows = _tested(differing, rows, self.average)
        most = np.array([most_disagreements(int(n), self.alpha, self.confidence) for n in rows])
        passed = (differing <= most[:, None]).all(axis=0)
        return int(passed.size if passed.all() else np.argmin(passed)) - 1

    def certificate(self, counts: ClassCounts) -> Certificate:
        """Of what the rule did that was chosen."""
        return Certificate(counts, self.confidence, self.average, self.forest)
