"""Compare smaller forests with the whole forest: how many answers differ, and which smallest size rows certify."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s
from rfsize.certifying.certificate import Certificate, ClassCounts, tested
from rfsize.certifying.promise import Promise
from rfsize.certifying.trees_on_rows import TreesOnRows
from rfsize.counting.task import Task
from rfsize.models.link import Link, Predictor


@dataclass(frozen=True)
class Likeness:
    """Says whether fewer trees answer a row in the same way as all trees.

    Attributes
    ----------
    predictor : Predictor
        Turns mean scores into predictions.
    metric : {"labels", "probabilities", "scores"}
        What must be the same.
    tolerance : float
        How far apart probabilities or scores may be.
    """

    predictor: Predictor
    metric: str
    tolerance: float

    @classmethod
    def of(cls, task: Task, promise: Promise) -> Likeness:
        """The likeness that ``promise`` asks of a forest."""
        return cls(task.predictor, promise.metric, promise.tolerance)

    def classes(self, mean: Floats) -> Int64s:
        """Class index that mean scores of shape (…, n_scores) predict; 0 for a regression."""
        if not len(self.predictor.classes):
            return np.zeros(mean.shape[:-1], dtype=np.int64)
        return self.predictor.labels(self.predictor.predictions(mean))

    def differ(self, mean: Floats, whole: Floats) -> Bools:
        """Rows where ``mean`` gives another answer than ``whole``, the mean scores of all trees.

        Both have the shape (…, n_scores), and the mask has the shape (…).
        """
        if self.metric == "labels":
            return self.classes(mean) != self.classes(whole)
        apart = np.abs(self._numbers(mean) - self._numbers(whole)).max(axis=-1)
        return np.asarray(apart > self.tolerance)

    def _numbers(self, mean: Floats) -> Floats:
        """The numbers to compare: probabilities, or scores. The scores of a regressor are its predictions."""
        if self.metric == "probabilities":
            return self.predictor.predictions(mean)
        link = Link("identity") if len(self.predictor.classes) else self.predictor.link
        return np.asarray(link.predicted(mean))


@dataclass(frozen=True, eq=False)
class SizesTried(ABC):
    """How many rows smaller forests answer differently from the whole forest.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_classes,)
        Number of rows of each class, where the class is the one that all trees give. A regression has one entry.
    differing : ndarray of int64, shape (n_classes, n)
        How many of these rows each smaller forest answers differently.
    """

    rows: Int64s
    differing: Int64s

    @property
    @abstractmethod
    def available(self) -> int:
        """Number of trees in the whole forest."""

    @property
    @abstractmethod
    def sizes(self) -> Int64s:
        """Sizes to test one after another, from many trees to few."""

    @abstractmethod
    def at(self, n_trees: int) -> Int64s:
        """Rows of each class that ``n_trees`` trees answer differently; 0 for all trees or more."""

    def label_shares(self, classes: Sequence[Any]) -> dict[Any, float]:
        """Share of the rows to which all trees give each class."""
        return dict(zip(classes, (self.rows / self.rows.sum()).tolist(), strict=True))

    def share(self, n_trees: int, average: str) -> float:
        """Share of the rows that ``n_trees`` trees answer differently; with "macro" the largest share of a class."""
        differing, rows = tested(self.at(n_trees), self.rows, average)
        return float((differing / rows).max())

    def fewest(self, promise: Promise) -> int:
        """The fewest trees that the rows certify, which may be all trees."""
        differing = [self.at(int(size)) for size in self.sizes]
        last = promise.boldest(np.stack(differing, axis=1), self.rows) if differing else -1
        return self.available if last < 0 else int(self.sizes[last])

    def certificate(self, n_trees: int, promise: Promise) -> Certificate:
        """The certificate of ``n_trees`` trees."""
        return promise.certificate(ClassCounts.of_sums(self.rows, self.at(n_trees), n_trees * self.rows))

    def times(self, factor: float) -> Self:
        """The counts that ``factor`` times as many rows would show, if the shares stay the same."""
        rows, differing = (np.rint(factor * of).astype(np.int64) for of in (self.rows, self.differing))
        return replace(self, rows=rows, differing=differing)


# The expected loss grows by this factor from one size that is tried to the next. Larger steps would skip sizes that
# pass. Smaller steps would try more sizes, of which one may fail by chance.
_STEP = 1.05


@dataclass(frozen=True, eq=False)
class FirstTrees(SizesTried):
    """How many rows the first 1, …, T trees answer differently from all T trees.

    Attributes
    ----------
    differing : ndarray of int64, shape (n_classes, T)
        Number of rows of each class that the first 1, …, T trees answer differently.
    """

    @classmethod
    def nothing(cls, n_classes: int, n_trees: int) -> FirstTrees:
        """Counts without rows."""
        return cls(np.zeros(n_classes, dtype=np.int64), np.zeros((n_classes, n_trees), dtype=np.int64))

    @classmethod
    def of(cls, trees: TreesOnRows, promise: Promise, voting: str) -> FirstTrees:
        """Ask the trees about all rows, and count.

        Parameters
        ----------
        trees : TreesOnRows
            The trees, with the rows to ask about.
        promise : Promise
            What must stay the same.
        voting : {"hard", "soft"}
            Whether labels come from a majority vote or from averaged scores.
        """
        forest = trees.forest
        n_classes = max(1, forest.classes.size)
        nothing = partial(cls.nothing, n_classes, forest.n_trees)
        if promise.metric != "labels":
            likeness = Likeness.of(trees.rows, promise)
            return trees.added_up("scores", partial(_by_predictions, likeness=likeness), nothing)
        if voting == "hard":
            return trees.added_up("votes", partial(_by_votes, n_classes=n_classes), nothing)
        return trees.added_up("scores", partial(_by_averages, cut=trees.cut, n_classes=n_classes), nothing)

    @classmethod
    def counted(cls, differs: NDArray[np.bool_], group: Int64s, n_classes: int) -> FirstTrees:
        """Count from a mask of answers that differ, shape (n_rows, T), and the class that all trees give each row."""
        found = cls.nothing(n_classes, differs.shape[1])
        found.rows[:] = np.bincount(group, minlength=n_classes)
        for of in range(n_classes):
            found.differing[of] = np.count_nonzero(differs[group == of], axis=0)
        return found

    def __iadd__(self, other: FirstTrees) -> FirstTrees:
        np.add(self.rows, other.rows, out=self.rows)
        np.add(self.differing, other.differing, out=self.differing)
        return self

    @property
    def available(self) -> int:
        """Number of trees in the forest."""
        return self.differing.shape[1]

    @property
    def sizes(self) -> Int64s:
        return sizes_tried(self.available)

    def at(self, n_trees: int) -> Int64s:
        """Rows of each class that the first ``n_trees`` trees answer differently; 0 for all trees or more."""
        return self.differing[:, min(n_trees, self.available) - 1]


def sizes_tried(n_trees: int, step: float = _STEP) -> Int64s:
    """Sizes to try, from T − 1 trees down to a single tree. They depend only on the number T of trees and ``step``.

    The share of rows on which the first t trees disagree with all T is expected to be proportional to √(1/t − 1/T).
    Each next size makes it ``step`` times as large.
    """
    sizes = [n_trees - 1] if n_trees > 1 else []
    while sizes and sizes[-1] > 1:
        apart = 1.0 / sizes[-1] - 1.0 / n_trees
        next_size = math.ceil(1.0 / (step**2 * apart + 1.0 / n_trees))
        sizes.append(min(sizes[-1] - 1, next_size))
    return np.array(sizes, dtype=np.int64)


def running_leads(tree_scores: NDArray[Any], cut: float) -> tuple[Floats, NDArray[np.int32]]:
    """Leading class and its lead in the mean of the first 1, …, T trees, for scores of shape (n, T, n_scores)."""
    lead = np.empty(tree_scores.shape[:2])
    label = np.empty(tree_scores.shape[:2], dtype=np.int32)
    _core.running_leads(np.ascontiguousarray(tree_scores, dtype=np.float64), cut, lead, label)
    return lead, label


def _by_averages(scores: NDArray[Any], _: Int64s, *, cut: float, n_classes: int) -> FirstTrees:
    """Count rows with another label, where labels come from averaged scores."""
    return _by_labels(running_leads(scores, cut)[1], n_classes)


def _by_votes(votes: NDArray[Any], _: Int64s, *, n_classes: int) -> FirstTrees:
    """Count rows with another label, where labels come from the majority of ``votes``, shape (n, T)."""
    label = np.zeros(votes.shape, dtype=np.int32)
    most = np.zeros(votes.shape, dtype=np.int32)
    for of in range(n_classes):
        counted = np.cumsum(votes == of, axis=1, dtype=np.int32)
        ahead = counted > most  # not ≥: if classes tie, the lowest index wins
        label[ahead], most = of, np.maximum(most, counted)
    return _by_labels(label, n_classes)


def _by_labels(label: NDArray[np.int32], n_classes: int) -> FirstTrees:
    final = label[:, -1].astype(np.int64)
    return FirstTrees.counted(label != final[:, None], final, n_classes)


def _by_predictions(scores: NDArray[Any], _: Int64s, *, likeness: Likeness) -> FirstTrees:
    """Count rows where some output is farther off than the tolerance."""
    mean = np.cumsum(scores, axis=1, dtype=np.float64) / np.arange(1, scores.shape[1] + 1)[:, None]
    differs = likeness.differ(mean, mean[:, -1:])
    return FirstTrees.counted(differs, likeness.classes(mean[:, -1]), max(1, len(likeness.predictor.classes)))
