"""The answers of a compiled forest: labels, numbers and votes, block by block in several threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Floats, Int64s
from rfsize.inference.rows import PlainRows, each_block, opened
from rfsize.models.link import Link
from rfsize.stopping.rules import Rule
from rfsize.stopping.scores import LabelsBySums, lossless_on
from rfsize.stopping.votes import LabelsByVotes, majority_on
from rfsize.walking.layout import PackedForest
from rfsize.walking.leaves import rows_in_one_call

# The answers for rows of any kind, and how many trees each row used.
Many = Callable[[Any], tuple[NDArray[Any], Int64s]]
# The last step of few and of many answers.
Finish = Callable[[Any], NDArray[Any]]


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
    few : _core.FewRows
        Answers a few rows of a plain array in one call; None for all others.
    few_read : _core.FewRows
        The same for rows that ``plain`` has read. It differs where numbers of arrays are categories, which have codes.
    plain : PlainRows
        Reads other few rows as such an array.
    many : callable
        Takes rows of any kind; returns the answers, and how many trees each row used.
    """

    few: _core.FewRows
    few_read: _core.FewRows
    plain: PlainRows
    many: Many

    def of(self, X: Any, return_trees: bool) -> Any:
        """The answers for rows of any kind, with ``return_trees`` also how many trees each row used."""
        rows = self.plain.read(X)
        few = None if rows is None else self.few_read.predict(rows, return_trees, of_frame=True)
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

    def _labelled(self, named: Finish) -> Answer:
        forest, rule = self._forest, settling_labels(self._forest, self._stops, self._voting)

        def many(X: Any) -> tuple[NDArray[Any], Int64s]:
            index, n_used = self._filled(X, np.int64(-1), (), rule.settle)
            return named(index), n_used

        return self._answer(forest.label_link, len(forest.classes), named, many, rows_in_one_call(forest), rule.native)

    def _numbered(self, n_columns: int) -> Answer:
        """Numbers in so many columns; 1 is the last of all classes alone."""
        forest, stops = self._forest, self._stops
        rule = stops.on(forest) if stops is not None and stops.metric != "labels" else None
        predicting = forest.predicting(forest.compiled_link)
        link = Link(forest.conventions.link, forest.conventions.slope)
        linked = link.predicted if forest.links_by_scipy else None

        def work(block: _core.Rows, numbers: Floats, n_used: Int64s) -> None:
            total = np.tile(forest.start, (len(block), 1))
            if rule is None:
                block.add_scores(total)
            else:
                rule.settle(block, total, n_used)
            predicting.predict(total, numbers)

        def many(X: Any) -> tuple[NDArray[Any], Int64s]:
            numbers, n_used = self._filled(X, 0.0, (max(1, len(forest.classes)),), work)
            wanted = numbers[:, -1] if n_columns == 1 else numbers
            answers = wanted.astype(forest.precision, order="C", copy=n_columns == 1)
            return answers if linked is None else linked(answers), n_used

        most_rows = rows_in_one_call(forest) if rule is None else 0
        return self._answer(forest.compiled_link, n_columns, linked, many, most_rows)

    def _answer(
        self, link: str, n_columns: int, finish: Finish | None, many: Many, most_rows: int, rule: Any = None
    ) -> Answer:
        forest, reading = self._forest, self._forest.conventions.reading
        few = partial(
            _core.FewRows,
            forest.native,
            forest.predicting(link),
            start=forest.start.astype(np.float64),
            threshold=forest.label_threshold,
            refuses_infinite=reading.refuses_infinite,
            refuses_missing=reading.refuses_missing,
            n_columns=n_columns,
            finish=finish,
            rule=rule,
        )
        read = few(most_rows=most_rows)
        few_given = few(most_rows=0) if forest.conventions.codes_numbers else read
        return Answer(few_given, read, PlainRows(forest, most_rows), many)

    def counts(self, X: Any) -> NDArray[Any]:
        """Votes of all trees for each class, shape (n_rows, n_classes)."""
        alone, shape = self._forest.alone, (len(self._forest.classes),)
        return self._filled(X, np.int32(0), shape, lambda block, counts, _: block.count(alone, counts))[0]

    def _filled(
        self, X: Any, fill: Any, shape: tuple[int, ...], work: Callable[[_core.Rows, Any, Int64s], None]
    ) -> tuple[NDArray[Any], Int64s]:
        """An array with a row of ``shape`` for each row of X, and how many trees each used; ``work`` fills both."""
        forest, rows = self._forest, opened(self._forest, X)
        answers, n_used = np.full((rows.n_rows, *shape), fill), np.full(rows.n_rows, forest.n_trees, dtype=np.int64)
        each_block(forest, rows, self._n_jobs, lambda block, place: work(block, answers[place], n_used[place]))
        return answers, n_used
