"""Forests in blocks: of a fixed number of trees each, trained apart from seeds of their own, and merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.trainer import ForestInTraining, Trainer
from rfsize.utils.validation import whole
from rfsize.voting.groups import Groups
from rfsize.voting.links import Link
from rfsize.voting.tallied import Tallied


class Block(NamedTuple):
    """Trees that are trained together: how many blocks come before them in the forest, and how many they are."""

    number: int
    n_trees: int


class TrainedBlock(NamedTuple):
    """A booster of the trees of a block, and what they say of the rows that they did not see."""

    booster: Any
    out_of_bag: Tallied


@dataclass(frozen=True, eq=False)
class Beginning:
    """What is known of a forest before it has trees.

    Attributes
    ----------
    classes, label, weight
        Those of its `Trainer`.
    out_of_bag, link, cut, groups
        Those of the `ForestInTraining` that has no trees.
    """

    classes: NDArray[Any]
    label: NDArray[Any]
    weight: NDArray[np.float64] | None
    out_of_bag: Tallied
    link: Link
    cut: float
    groups: Groups

    @classmethod
    def of(cls, trainer: Trainer, threshold: float, groups: Groups) -> Beginning:
        """That of a trainer's forests."""
        forest = trainer.start(threshold=threshold, groups=groups)
        rows = trainer.classes, trainer.label, trainer.weight
        return cls(*rows, forest.out_of_bag, forest.link, forest.cut, forest.groups)


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
    """A forest that takes its trees in blocks, which may be trained anywhere and in any order.

    Which trees it has depends on nothing but `trees_per_block` and how many trees were added at a time.

    Parameters
    ----------
    beginning : Beginning
        What is known of it.
    train : callable
        Trains blocks, and returns them in their order.
    merge : callable
        Makes one booster of those of all blocks.
    trees_per_block : int
        Trees of a block, of which the last one that is added at a time may have fewer.
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
        self.cut, self.groups = beginning.cut, beginning.groups
        self._train, self._merge = train, merge
        self._most = whole("trees_per_block", trees_per_block, at_least=1)
        self._boosters: list[Any] = []

    def add(self, n_trees: int) -> None:
        full, rest = divmod(whole("n_trees", n_trees, at_least=1), self._most)
        sizes = [self._most] * full + [rest] * bool(rest)
        blocks = [Block(number, size) for number, size in enumerate(sizes, start=len(self._boosters))]
        # In the order of the blocks, because sums of scores depend on theirs in the last bits.
        for booster, found in self._train(blocks):
            self._boosters.append(booster)
            self.out_of_bag = self.out_of_bag.plus(found)
        self.n_trees += n_trees

    def booster(self) -> Any:
        return self._merge(self._boosters)
