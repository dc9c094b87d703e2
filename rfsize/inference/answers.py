"""The answers of a compiled forest: labels, numbers and votes, block by block in several threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.inference.rows import PlainRows, each_block, opened
from rfsize.models.link import Link
from rfsize.stopping.rules import Rule
from rfsize.stopping.scores import LabelsBySums, lossless_on
from rfsize.stopping.votes import LabelsByVotes, majority_on
from rfsize.walking.layout import PackedForest
from rfsize.walking.leaves import rows_in_one_call


def settling_labels(forest: PackedForest, stops: Rule | None, voting: str) -> LabelsBySums | LabelsByVotes:
    """When labels are settled: by the stops of a table of labels, else when no remaining tree can change them."""
    if stops is not None and stops.metric == "labels":
        rule: LabelsBySums | LabelsByVotes = stops.on(forest)
        return rule
    return lossless_on(forest) if voting == "soft" else majority_on(forest)


@dataclass(frozen=True, eq=False)
class Answer:
    """What one method of a compiled forest answers.

    Attributes
    ----------
    few : _core.ForestPredictor
        Answers a few rows of a plain array in one call; None for all others.
    plain : PlainRows
        Reads other few rows as such an array.
    many : callable
        Takes rows of any kind; returns the answers, and how many trees each row used.
    """

    few: _core.ForestPredictor
    plain: PlainRows
    many: Callable[[Any], tuple[NDArray[Any], NDArray[np.int64]]]

    def of(self, X: Any, return_trees: bool) -> Any:
        """The answers for rows of any kind, with ``return_trees`` also how many trees each row used."""
        rows = self.plain.read(X)
        few = None if rows is None else self.few.predict(rows, return_trees, of_frame=True)
        if few is not None:
            return few
        answers, n_used = self.many(X)
        return (answers, n_used) if return_trees else answers


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
        self._forest, self._n_jobs, self._stops, self._voting = forest, n_jobs, stops, voting

    @cached_property
    def predicted(self) -> Answer:
        """What the model's own ``predict`` gives."""
        forest = self._forest
        if forest.output == "labels":
            return self.labels
        if forest.output == "class numbers":
            return self._labelled(lambda index: index.astype(forest.precision))
        return self._numbered(forest.n_scores if forest.predicts_each_class else 1)

    @cached_property
    def labels(self) -> Answer:
        """Class labels."""
        return self._labelled(self._forest.classes.__getitem__)

    @cached_property
    def probabilities(self) -> Answer:
        """The probability of each class."""
        return self._numbered(len(self._forest.classes))

    def counts(self, X: Any) -> NDArray[np.int32]:
        """Votes of all trees for each class, shape (n_rows, n_classes)."""
        forest, rows = self._forest, opened(self._forest, X)
        counts = np.zeros((rows.n_rows, len(forest.classes)), dtype=np.int32)
        count = self.labels.few.count
        each_block(forest, rows, self._n_jobs, lambda block, place: count(block, counts[place]))
        return counts

    def _labelled(self, named: Callable[[NDArray[Any]], NDArray[Any]]) -> Answer:
        forest, rule = self._forest, settling_labels(self._forest, self._stops, self._voting)
        return self._answer(forest.label_link, rule.native, len(forest.classes), np.dtype(np.int64), (), named)

    def _numbered(self, n_columns: int) -> Answer:
        """Numbers in so many columns."""
        forest, stops = self._forest, self._stops
        rule = stops.on(forest) if stops is not None and stops.metric != "labels" else None
        link = Link(forest.conventions.link, forest.conventions.slope)
        linked = link.predicted if forest.links_by_scipy else None
        return self._answer(forest.compiled_link, rule, n_columns, forest.precision, (n_columns,), linked)

    def _answer(
        self, link: str, rule: Any, n_columns: int, dtype: np.dtype[Any], of_row: tuple[int, ...], finish: Any
    ) -> Answer:
        """Answers of ``of_row`` for each row, by a rule of stopping or by all trees; ``finish`` is their last step."""
        forest, reading, most_rows = self._forest, self._forest.conventions.reading, rows_in_one_call(self._forest)
        predictor = _core.ForestPredictor(
            forest.native,
            forest.predicting(link),
            start=forest.start.astype(np.float64),
            threshold=forest.label_threshold,
            refuses_infinite=reading.refuses_infinite,
            refuses_missing=reading.refuses_missing,
            codes_numbers=forest.conventions.codes_numbers,
            most_rows=most_rows,
            n_columns=n_columns,
            finish=finish,
            rule=rule,
        )

        def many(X: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
            rows = opened(forest, X)
            answers, n_used = np.empty((rows.n_rows, *of_row), dtype), np.empty(rows.n_rows, dtype=np.int64)
            fill = predictor.fill
            each_block(forest, rows, self._n_jobs, lambda block, place: fill(block, answers[place], n_used[place]))
            answers = answers[:, 0] if of_row == (1,) else answers
            return answers if finish is None else finish(answers), n_used

        return Answer(predictor, PlainRows(forest, most_rows), many)
