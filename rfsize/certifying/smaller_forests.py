"""Smaller forests beside the whole one: how many rows they answer otherwise, and the smallest that rows certify."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.certifying.certificate import Certificate, ClassCounts, tested
from rfsize.certifying.promise import Promise
from rfsize.certifying.trees_on_rows import TreesOnRows
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.utils.typing import Bools, Floats, Int64s
from rfsize.voting.links import Link, Predictor


@dataclass(frozen=True)
class Likeness:
    """What of a row's mean scores must be as by all trees.

    Attributes
    ----------
    predictor : Predictor
        What the forest predicts from mean scores.
    metric : {"labels", "probabilities", "scores"}
    tolerance : float
        How far off probabilities or scores may be.
    """

    predictor: Predictor
    metric: str
    tolerance: float

    @classmethod
    def of(cls, rows: ForestOnRows, promise: Promise) -> Likeness:
        """What is promised of a forest."""
        return cls(rows.predictor, promise.metric, promise.tolerance)

    def classes(self, mean: Floats) -> Int64s:
        """Class index that mean scores of shape (…, n_scores) predict; 0 of a regression."""
        if not len(self.predictor.classes):
            return np.zeros(mean.shape[:-1], dtype=np.int64)
        return self.predictor.labels(self.predictor.predictions(mean))

    def differ(self, mean: Floats, whole: Floats) -> Bools:
        """Rows whose mean scores, shape (…, n_scores), answer unlike those of all trees, shape (…)."""
        if self.metric == "labels":
            return self.classes(mean) != self.classes(whole)
        apart = np.abs(self._numbers(mean) - self._numbers(whole)).max(axis=-1)
        return np.asarray(apart > self.tolerance)

    def _numbers(self, mean: Floats) -> Floats:
        """What is compared: probabilities, or scores, of a regressor as it predicts them."""
        if self.metric == "probabilities":
            return self.predictor.predictions(mean)
        link = Link("identity") if len(self.predictor.classes) else self.predictor.link
        return np.asarray(link.predicted(mean))


@dataclass(frozen=True, eq=False)
class SizesTried(ABC):
    """Rows that smaller forests answer unlike the whole forest.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_classes,)
        Rows by the class that all trees give them; one entry of regression.
    differing : ndarray of int64, shape (n_classes, n)
        Those of them that each smaller forest answers otherwise.
    """

    rows: Int64s
    differing: Int64s

    @property
    @abstractmethod
    def available(self) -> int:
        """Trees of the whole forest."""

    @property
    @abstractmethod
    def sizes(self) -> Int64s:
        """Sizes that are tested one after another, from many trees to few."""

    @abstractmethod
    def at(self, n_trees: int) -> Int64s:
        """Rows of each class that so many trees answer otherwise; none of all trees, or of more."""

    def share(self, n_trees: int, average: str) -> float:
        """Share of the rows that so many trees answer otherwise; with "macro" of the class where it is largest."""
        differing, rows = tested(self.at(n_trees), self.rows, average)
        return float((differing / rows).max())

    def fewest(self, promise: Promise) -> int:
        """The fewest trees that the rows certify; all trees where they certify no fewer."""
        differing = [self.at(int(size)) for size in self.sizes]
        last = promise.boldest(np.stack(differing, axis=1), self.rows) if differing else -1
        return self.available if last < 0 else int(self.sizes[last])

    def certificate(self, n_trees: int, promise: Promise) -> Certificate:
        """What the rows certify of so many trees."""
        return promise.certificate(ClassCounts.of_sums(self.rows, self.at(n_trees), n_trees * self.rows))

    def times(self, factor: float) -> Self:
        """What so many times the rows may show."""
        rows, differing = (np.rint(factor * of).astype(np.int64) for of in (self.rows, self.differing))
        return replace(self, rows=rows, differing=differing)


# From one size that is tried to the next, what few trees are expected to lose grows by this factor. Larger steps skip
# sizes that would pass, smaller ones meet more sizes that fail by chance.
_STEP = 1.05


@dataclass(frozen=True, eq=False)
class FirstTrees(SizesTried):
    """Rows that the first 1, …, T trees answer unlike all T trees.

    Attributes
    ----------
    differing : ndarray of int64, shape (n_classes, T)
        Of each class, rows that so many first trees answer otherwise.
    """

    @classmethod
    def nothing(cls, n_classes: int, n_trees: int) -> FirstTrees:
        """Of no rows."""
        return cls(np.zeros(n_classes, dtype=np.int64), np.zeros((n_classes, n_trees), dtype=np.int64))

    @classmethod
    def of(cls, trees: TreesOnRows, promise: Promise, voting: str) -> FirstTrees:
        """Of a forest, asked about all rows.

        Parameters
        ----------
        trees : TreesOnRows
        promise : Promise
        voting : {"hard", "soft"}
            What labels go by.
        """
        adapter = trees.adapter
        n_classes = max(1, adapter.classes.size)
        nothing = partial(cls.nothing, n_classes, adapter.n_trees)
        if promise.metric != "labels":
            likeness = Likeness.of(trees.rows, promise)
            return trees.added_up("scores", partial(_by_predictions, likeness=likeness), nothing)
        if voting == "hard":
            return trees.added_up("votes", partial(_by_votes, n_classes=n_classes), nothing)
        return trees.added_up("scores", partial(_by_averages, cut=trees.cut, n_classes=n_classes), nothing)

    @classmethod
    def counted(cls, differs: NDArray[np.bool_], group: Int64s, n_classes: int) -> FirstTrees:
        """Of rows that are known to differ, shape (n_rows, T), and the class that all trees give each."""
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
        """Trees of the forest."""
        return self.differing.shape[1]

    @property
    def sizes(self) -> Int64s:
        return sizes_tried(self.available)

    def at(self, n_trees: int) -> Int64s:
        """Rows of each class that so many first trees answer otherwise; none of all trees, or of more."""
        return self.differing[:, min(n_trees, self.available) - 1]


def sizes_tried(n_trees: int, step: float = _STEP) -> Int64s:
    """Sizes from all trees but one down to a single tree, which depend on nothing but the number of trees.

    The first t of T trees are expected to disagree with all T on a share of the rows that goes as √(1/t − 1/T).
    """
    sizes = [n_trees - 1] if n_trees > 1 else []
    while sizes and sizes[-1] > 1:
        apart = 1.0 / sizes[-1] - 1.0 / n_trees
        next_size = math.ceil(1.0 / (step**2 * apart + 1.0 / n_trees))
        sizes.append(min(sizes[-1] - 1, next_size))
    return np.array(sizes, dtype=np.int64)


def running_leads(tree_scores: NDArray[Any], cut: float) -> tuple[Floats, NDArray[np.int32]]:
    """Lead and first class in the mean of the first 1, …, T trees, for scores of shape (n, T, n_scores)."""
    lead = np.empty(tree_scores.shape[:2])
    label = np.empty(tree_scores.shape[:2], dtype=np.int32)
    _core.running_leads(np.ascontiguousarray(tree_scores, dtype=np.float64), cut, lead, label)
    return lead, label


def _by_averages(scores: NDArray[Any], _: Int64s, *, cut: float, n_classes: int) -> FirstTrees:
    """By the labels of averaged scores."""
    return _by_labels(running_leads(scores, cut)[1], n_classes)


def _by_votes(votes: NDArray[Any], _: Int64s, *, n_classes: int) -> FirstTrees:
    """By the majority of the votes, shape (n, T)."""
    label = np.zeros(votes.shape, dtype=np.int32)
    most = np.zeros(votes.shape, dtype=np.int32)
    for of in range(n_classes):
        counted = np.cumsum(votes == of, axis=1, dtype=np.int32)
        ahead = counted > most  # classes that tie go to the lowest
        label[ahead], most = of, np.maximum(most, counted)
    return _by_labels(label, n_classes)


def _by_labels(label: NDArray[np.int32], n_classes: int) -> FirstTrees:
    final = label[:, -1].astype(np.int64)
    return FirstTrees.counted(label != final[:, None], final, n_classes)


def _by_predictions(scores: NDArray[Any], _: Int64s, *, likeness: Likeness) -> FirstTrees:
    """By numbers that are farther off than the tolerance, in the output where they are farthest."""
    mean = np.cumsum(scores, axis=1, dtype=np.float64) / np.arange(1, scores.shape[1] + 1)[:, None]
    differs = likeness.differ(mean, mean[:, -1:])
    return FirstTrees.counted(differs, likeness.classes(mean[:, -1]), max(1, len(likeness.predictor.classes)))
