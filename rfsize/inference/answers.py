"""The answers of a compiled forest: labels, numbers and votes, block by block in several threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Floats, Int64s
from rfsize.inference.few_rows import FewRows
from rfsize.inference.rows import each_block, opened
from rfsize.models.link import Link
from rfsize.stopping.on_forest import LabelRule, LabelsBySums, lossless_on, majority_on, predicted_numbers
from rfsize.stopping.rules import Rule
from rfsize.walking.layout import PackedForest


def settling_labels(forest: PackedForest, stops: Rule | None, voting: str) -> LabelRule:
    """When labels are settled: by the stops of a table of labels, else when no remaining tree can change them."""
    if stops is not None and stops.metric == "labels":
        rule: LabelRule = stops.on(forest)
        return rule
    return lossless_on(forest) if voting == "soft" else majority_on(forest)


class Answers:
    """Answers of one forest.

    Parameters
    ----------
    forest : PackedForest
        The trees.
    n_jobs : int
        Number of threads.
    stops : Rule or None
        When rows stop, for labels or for numbers.
    voting : {"soft", "hard"}
        How trees make a label.
    """

    def __init__(self, forest: PackedForest, n_jobs: int, stops: Rule | None, voting: str) -> None:
        self._forest, self._n_jobs = forest, n_jobs
        self._n_predicted = max(1, len(forest.classes))
        self._numbers = stops.on(forest) if stops is not None and stops.metric != "labels" else None
        self._labels = settling_labels(forest, stops, voting)
        self._few = FewRows(forest, self._labels if isinstance(self._labels, LabelsBySums) else None)

    def labels(self, X: Any) -> tuple[Int64s, Int64s]:
        """Index of the label of each row, and number of trees that it asked."""
        few = self._few.labels(X)
        if few is not None:
            return few[0], few[1]
        rows, rule = opened(self._forest, X), self._labels
        index = np.full(rows.n_rows, -1, dtype=np.int64)
        n_used = np.full(len(index), self._forest.n_trees, dtype=np.int64)
        each_block(
            self._forest, rows, self._n_jobs, lambda block, place: rule.settle(block, index[place], n_used[place])
        )
        return index, n_used

    def numbers(self, X: Any) -> tuple[Floats, Int64s]:
        """Probabilities of all classes, shape (n_rows, n_classes), or numbers, shape (n_rows, 1), and trees asked."""
        few = self._few.predictions(X, self._n_predicted) if self._numbers is None else None
        if few is not None:
            n_used = np.empty(len(few), dtype=np.int64)
            n_used.fill(self._forest.n_trees)  # takes a sixth of the time of np.full, which matters for one row
            return self._probable(few), n_used
        rows = opened(self._forest, X)
        predicted = np.empty((rows.n_rows, self._n_predicted))
        n_used = np.full(len(predicted), self._forest.n_trees, dtype=np.int64)

        def work(block: _core.Rows, place: slice) -> None:
            total = np.tile(self._forest.start, (len(block), 1))
            if self._numbers is None:
                block.add_scores(total)
            else:
                self._numbers.settle(block, total, n_used[place])
            predicted_numbers(self._forest, total, predicted[place])

        each_block(self._forest, rows, self._n_jobs, work)
        return predicted, n_used

    def _probable(self, linked: Floats) -> Floats:
        """Predictions, from what the compiled link gives."""
        if not self._forest.links_by_scipy:
            return linked
        link = Link(self._forest.conventions.link, self._forest.conventions.slope)
        return link.predicted(linked.astype(self._forest.precision)).astype(np.float64)

    def counts(self, X: Any) -> NDArray[Any]:
        """Votes of all trees for each class, shape (n_rows, n_classes)."""
        forest, rows = self._forest, opened(self._forest, X)
        counts = np.zeros((rows.n_rows, len(forest.classes)), dtype=np.int32)
        each_block(forest, rows, self._n_jobs, lambda block, place: block.count(forest.alone, counts[place]))
        return counts
