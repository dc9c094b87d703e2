"""The answers of a compiled forest: labels, numbers and votes, block by block in several threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.inference.rows import PlainRows, each_block, opened
from rfsize.stopping.rules import Rule
from rfsize.stopping.scores import LabelsBySums, lossless_on
from rfsize.stopping.votes import LabelsByVotes, majority_on
from rfsize.walking.layout import PackedForest
from rfsize.walking.leaves import rows_in_one_call

# The last step of an answer.
Finish = Callable[[NDArray[Any]], NDArray[Any]]


def settling_labels(forest: PackedForest, stops: Rule | None, voting: str) -> LabelsBySums | LabelsByVotes:
    """When labels are settled: by the stops of a table of labels, else when no remaining tree can change them."""
    if stops is not None and stops.metric == "labels":
        return stops.on(forest)
    return lossless_on(forest) if voting == "soft" else majority_on(forest)


class Answer:
    """What one method of a compiled forest answers.

    Parameters
    ----------
    forest : PackedForest
        The trees.
    n_jobs : int
        Number of threads.
    link : str
        What compiled code makes of the sums of scores.
    rule : _core.ScoreStop, _core.VoteStop, _core.SpreadStop or None
        When rows stop; None if every row uses all trees.
    n_columns : int
        Number of classes, if the rule gives labels. Otherwise the number of columns of the answers; one column is an
        array of shape (n_rows,).
    finish : callable, optional
        Makes the answers from class indices or from numbers.

    Attributes
    ----------
    few : _core.ForestPredictor
        Answers a few rows of a plain array in one call; None for all others. The methods of a compiled forest ask it
        themselves, because a single row would take 5 % longer by a call between.
    """

    def __init__(
        self, forest: PackedForest, n_jobs: int, link: str, rule: Any, n_columns: int, finish: Finish | None = None
    ) -> None:
        most_rows = rows_in_one_call(forest)
        self._forest, self._n_jobs, self._finish = forest, n_jobs, finish
        is_label = rule is not None and not isinstance(rule, _core.SpreadStop)
        self._of_row = () if is_label else (n_columns,)
        self._dtype = np.dtype(np.int64) if is_label else forest.precision
        self._plain = PlainRows(forest, most_rows)
        self.few = _core.ForestPredictor(
            forest.native,
            forest.predicting(link),
            start=forest.start.astype(np.float64),
            threshold=forest.label_threshold,
            codes_numbers=forest.conventions.codes_numbers,
            most_rows=most_rows,
            n_columns=n_columns,
            finish=finish,
            rule=rule,
        )

    @classmethod
    def labels(
        cls, forest: PackedForest, n_jobs: int, stops: Rule | None, voting: str, named: Finish | None = None
    ) -> Answer:
        """Class labels, or what ``named`` makes of their indices."""
        rule = settling_labels(forest, stops, voting).native
        return cls(forest, n_jobs, forest.label_link, rule, len(forest.classes), named or forest.classes.__getitem__)

    @classmethod
    def numbers(cls, forest: PackedForest, n_jobs: int, stops: Rule | None, n_columns: int) -> Answer:
        """Probabilities, or the numbers of a regression."""
        rule = stops.on(forest) if stops is not None and stops.metric != "labels" else None
        finish = None if forest.link_by_scipy is None else forest.link_by_scipy.predicted
        return cls(forest, n_jobs, forest.compiled_link, rule, n_columns, finish)

    def of(self, X: Any, return_trees: bool) -> Any:
        """What ``few`` does not answer, with ``return_trees`` also how many trees each row used."""
        if (plain := self._plain.read(X)) is not None:
            few = self.few.predict(plain, return_trees, of_frame=True)
            if few is not None:
                return few
        rows, fill = opened(self._forest, X), self.few.fill
        answers, n_used = np.empty((rows.n_rows, *self._of_row), self._dtype), np.empty(rows.n_rows, dtype=np.int64)
        each_block(self._forest, rows, self._n_jobs, lambda block, at: fill(block, answers[at], n_used[at]))
        answers = answers[:, 0] if self._of_row == (1,) else answers
        answers = answers if self._finish is None else self._finish(answers)
        return (answers, n_used) if return_trees else answers

    def votes(self, X: Any) -> NDArray[np.int32]:
        """Votes of all trees for each class, shape (n_rows, n_classes)."""
        rows, count = opened(self._forest, X), self.few.count
        counts = np.zeros((rows.n_rows, len(self._forest.classes)), dtype=np.int32)
        each_block(self._forest, rows, self._n_jobs, lambda block, at: count(block, counts[at]))
        return counts
