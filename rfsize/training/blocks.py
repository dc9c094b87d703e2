"""Forests trained in blocks: each block has a fixed number of trees and its own seed, and the blocks are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import whole
from rfsize.counting.count import Sums
from rfsize.counting.groups import Groups
from rfsize.models.link import Link
from rfsize.models.training import ForestInTraining, Trainer


class Block(NamedTuple):
    """Trees that are trained together: the number of blocks before them in the forest, and the number of trees."""

    number: int
    n_trees: int


class TrainedBlock(NamedTuple):
    """A booster with the trees of a block, and their out-of-bag outputs."""

    booster: Any
    out_of_bag: Sums


@dataclass(frozen=True, eq=False)
class Beginning:
    """The properties that a forest has before it has trees.

    Attributes
    ----------
    classes, label, weight
        As in its `Trainer`.
    out_of_bag, link, threshold, groups
        As in a `ForestInTraining` without trees.
    """

    classes: NDArray[Any]
    label: NDArray[Any]
    weight: NDArray[np.float64] | None
    out_of_bag: Sums
    link: Link
    threshold: float
    groups: Groups

    @classmethod
    def of(cls, trainer: Trainer, threshold: float, groups: Groups) -> Beginning:
        """The beginning of the forests of a trainer."""
        if trainer.has_soft_labels:
            raise ValueError("the labels are soft, between 0 and 1, which rfsize.grow takes, on one machine")
        forest = trainer.start(threshold=threshold, groups=groups)
        rows = trainer.classes, trainer.label, trainer.weight
        return cls(*rows, forest.out_of_bag, forest.link, threshold, forest.groups)


def trained(trainer: Trainer, block: Block, threshold: float, groups: Groups) -> TrainedBlock:
    """Train a block, and prove its bags.

    Raises
    ------
    InbagError
        If the bags cannot be rebuilt and proven.
    """
    forest = trainer.start_after(block.number, threshold=threshold, groups=groups)
    forest.add(block.n_trees)
    return TrainedBlock(forest.booster(), forest.out_of_bag)


class ForestInBlocks(ForestInTraining):
    """A forest that takes its trees in blocks, which can be trained anywhere and in any order.

    Its trees depend only on ``trees_per_block`` and on how many trees each call of `add` added.

    Parameters
    ----------
    beginning : Beginning
        The properties of the forest without trees.
    train : callable
        Trains blocks, and returns them in their order.
    merge : callable
        Merges the boosters of all blocks into one.
    trees_per_block : int
        Number of trees in a block. The last block of each `add` can have fewer.
    """

    def __init__(
        self,
        beginning: Beginning,
        train: Callable[[Sequence[Block]], Iterable[TrainedBlock]],
        merge: Callable[[Sequence[Any]], Any],
        trees_per_block: int,
    ) -> None:
        self.n_trees = 0
        self.out_of_bag, self.link = beginning.out_of_bag, beginning.link
        self.threshold, self.groups = beginning.threshold, beginning.groups
        self._train, self._merge = train, merge
        self._most = whole("trees_per_block", trees_per_block, at_least=1)
        self._boosters: list[Any] = []

    def add(self, n_trees: int) -> None:
        full, rest = divmod(whole("n_trees", n_trees, at_least=1), self._most)
        sizes = [self._most] * full + [rest] * bool(rest)
        blocks = [Block(number, size) for number, size in enumerate(sizes, start=len(self._boosters))]
        # Added in the order of the blocks, because the last bits of a sum depend on the order.
        for booster, found in self._train(blocks):
            self._boosters.append(booster)
            self.out_of_bag = self.out_of_bag.plus(found)
        self.n_trees += n_trees

    def booster(self) -> Any:
        return self._merge(self._boosters)
