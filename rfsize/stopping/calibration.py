"""What calibrating a stop table on rows takes: a forest's trees asked about them, and rules from cautious to bold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.adapters.base import Adapter, shrinking_of
from rfsize.adapters.registry import adapter_for
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.training_rows import refuse_training_rows
from rfsize.stopping.certificate import Certificate, ClassCounts, Wanted
from rfsize.stopping.terms import Terms, checked_trees, labels_of
from rfsize.utils.pieces import PiecesElsewhere
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import choice, positive
from rfsize.utils.warn import give

TRIED = 2048
"""Rules on scores that are tried: consecutive limits are within 1 %."""

# "scores" of each tree alone, before the link, shape (rows, T, n_scores); or the class index of its "votes", (rows, T).
Outputs = Literal["scores", "votes"]

Total = TypeVar("Total")

# What is read of a block of outputs, and of the places of its rows among all.
Read = Callable[[NDArray[Any], Int64s], Total]

# Numbers for each row and score of a tree that calibration holds besides.
_CELLS = 6


@dataclass(frozen=True, eq=False)
class TreesOnRows:
    """A forest's trees asked about rows that it was not trained on, once or again."""

    rows: ForestOnRows

    @classmethod
    def of(
        cls, model: Any, X: Any, *, casts_votes: bool, threshold: float | None = None, missing: float | None = None
    ) -> TreesOnRows:
        """Of a model and rows, which are checked.

        Raises
        ------
        ValueError
            If the rows are those of training, or anything else does not fit.
        """
        adapter = adapter_for(model, casts_votes=casts_votes, missing=missing)
        rows = ForestOnRows.of(adapter, X, threshold=threshold)
        refuse_training_rows(rows)
        give(shrinking_of(rows.adapter, labels_at=rows.threshold if casts_votes else None))
        return cls(rows)

    @property
    def adapter(self) -> Adapter:
        """The forest."""
        return self.rows.adapter

    @property
    def threshold(self) -> float | None:
        """Probability above which class 1 is predicted; None of other than two classes."""
        return self.rows.threshold if self.adapter.classes.size == 2 else None

    @property
    def cut(self) -> float:
        """Mean score above which class 1 is predicted, of one score; 0 where there are several, or no classes."""
        adapter = self.adapter
        return adapter.cut(self.rows.threshold) if adapter.leaves.n_scores == 1 and adapter.classes.size else 0.0

    def terms(self, wanted: Wanted, rule: str) -> Terms:
        """What a table is for that a rule makes of these rows."""
        adapter = self.adapter
        at = self.threshold if wanted.metric == "labels" or wanted.average == "macro" else None
        labels, n_classes = labels_of(adapter.classes), max(1, adapter.classes.size)
        n_trees = checked_trees(adapter.n_trees)
        return Terms(n_trees, n_classes, wanted.alpha, rule, "forest", None, classes=labels, threshold=at)

    def added_up(self, outputs: Outputs, read: Read[Total], nothing: Callable[[], Total]) -> Total:
        """The sum of what is read of all blocks, in the order of their rows; ``nothing`` makes that of no block.

        Rows that lie elsewhere are read there, for which ``read`` and ``nothing`` must be pickled.
        """
        rows, total = self.rows, nothing()
        if not isinstance(rows.X, PiecesElsewhere):
            return self._added_to(total, outputs, read, 0)
        for part in rows.X.each(_read_there, rows.adapter, rows.threshold, outputs, read, nothing):
            total += part
        return total

    def _added_to(self, total: Any, outputs: Outputs, read: Read[Any], first: int) -> Any:
        adapter = self.adapter
        said = adapter.leaves.raw_scores if outputs == "scores" else adapter.voter(self.rows.threshold)

        def visit(rows: slice, leaf: NDArray[Any], _: Any) -> None:
            nonlocal total
            total += read(said(leaf), np.arange(first + rows.start, first + rows.stop))

        self.rows.visit(visit, what="scores of trees", cells=_CELLS * adapter.n_trees * adapter.leaves.n_scores)
        return total


def _read_there(
    first: int, X: Any, adapter: Adapter, threshold: float, outputs: Outputs, read: Read[Any], nothing: Any
) -> Any:
    """Where rows lie: the sum over a piece of them, of which the first has this number."""
    there = TreesOnRows(ForestOnRows(adapter, adapter.check(X), None, threshold))
    return there._added_to(nothing(), outputs, read, first)


def one_in(every: int, place: Int64s) -> NDArray[np.bool_]:
    """Which rows are one in so many of all; none where that is 0."""
    return place % every == 0 if every else np.zeros(len(place), dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Tallies:
    """What rules, from cautious to bold, do on rows.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_classes,)
        By the class that all trees give.
    differing, trees : ndarray of int64, shape (n_classes, n_rules)
        Rows answered otherwise, and trees asked for all rows.
    """

    rows: Int64s
    differing: Int64s
    trees: Int64s

    @classmethod
    def nothing(cls, n_classes: int, n_rules: int) -> Tallies:
        """Of no rows."""
        differing, trees = np.zeros((2, n_classes, n_rules), dtype=np.int64)
        return cls(np.zeros(n_classes, dtype=np.int64), differing, trees)

    def __iadd__(self, other: Tallies) -> Tallies:
        for own, others in ((self.rows, other.rows), (self.differing, other.differing), (self.trees, other.trees)):
            own += others
        return self

    @classmethod
    def of(
        cls, evidence: Floats, differs: NDArray[np.bool_], group: Int64s, limits: Floats, scale: Floats, n_classes: int
    ) -> Tallies:
        """What rules do that stop a row where its evidence after t trees reaches limit · scale[t − 1].

        ``evidence`` and ``differs`` are of rows and trees, ``group`` the class that all trees give a row.
        """
        found = cls.nothing(n_classes, limits.size)
        found.rows[:] = np.bincount(group, minlength=n_classes)
        _core.count_stops(evidence, differs, group, limits, scale, found.differing, found.trees)
        return found

    def boldest(self, wanted: Wanted, labels: Sequence[Any]) -> int:
        """The boldest rule that is certified to keep what is wanted; −1 where none is."""
        wanted.check_rows(self.rows, labels)
        return wanted.boldest(self.differing, self.rows)

    def certificate(self, rule: int, wanted: Wanted) -> Certificate:
        """Of what one rule did."""
        return wanted.certificate(ClassCounts.of_sums(self.rows, self.differing[:, rule], self.trees[:, rule]))


def checked_tolerance(metric: str, tolerance: float | None, voting: str) -> float:
    """How far predictions may be off, 0 for labels; ``ValueError`` where that does not go with the metric."""
    choice("metric", metric, ("labels", "probabilities", "scores"))
    if metric == "labels":
        if tolerance is not None:
            raise ValueError(
                "tolerance is for metric='probabilities' or 'scores'; labels agree on a share alpha of the rows: leave "
                "it out"
            )
        return 0.0
    if voting != "auto":
        raise ValueError(
            f"voting={voting!r} says what labels go by, and metric={metric!r} goes by scores, not by votes: leave "
            "voting at 'auto'"
        )
    if tolerance is None:
        raise ValueError(f"metric={metric!r} needs a tolerance: how far off a prediction may be")
    return positive("tolerance", tolerance)


def check_scores(averages_scores: bool, n_classes: int, metric: str, average: str) -> None:
    """Raise ``ValueError`` where an ensemble has no scores that are averaged, or no classes that are asked for."""
    if not averages_scores:
        raise ValueError(
            "the members of this ensemble have no scores that are averaged: use metric='labels' with voting='hard' "
            "or 'auto'"
        )
    if metric == "probabilities" and not n_classes:
        raise ValueError("metric='probabilities' is for classification; a regression forest has metric='scores'")
    if average == "macro" and not n_classes:
        raise ValueError("average='macro' is over classes, and the forest predicts numbers: leave average out")
