"""Which rows each tree was trained on, as a framework draws them; proven by `counting.bag_proof`."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod

import numpy as np

from rfsize.adapters.layout import Layout
from rfsize.adapters.leaf_labels import LeafLabels
from rfsize.adapters.leaves import Leaves
from rfsize.utils.typing import Bools, Floats


class Bags(ABC):
    """The in-bag rows of every member, rebuilt from the model's own seed.

    Attributes
    ----------
    n_rows : int
        Training rows.
    need_proof : bool
        Whether the framework does not itself say which rows were in the bags.
    labels : LeafLabels or None
        What the labels of training make of the leaves, where they were given and that is simple to say.
    fit : bool
        Whether the bags are as large as the model says, where a quick look tells.
    hold_all : bool
        Whether each bag holds all rows.
    """

    n_rows: int
    need_proof: bool = True
    labels: LeafLabels | None = None
    fit: bool = True
    hold_all: bool = False

    @abstractmethod
    def take(self, start: int, stop: int) -> Bools:
        """In-bag mask of rows ``start`` to ``stop``, shape (rows, n_members, n_outputs or 1)."""

    @abstractmethod
    def row_mass(self, start: int, stop: int) -> Floats:
        """What each row adds to `Leaves.mass` where it is in the bag, shape (rows, n_members or 1, n_outputs or 1)."""

    @abstractmethod
    def contradicted(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        """Leaves whose stored mass differs from the mass of the rebuilt bags, shape (n_leaves,)."""

    def exceeded(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        """Leaves in which the rows so far have more mass than all rows had at training, shape (n_leaves,)."""
        return np.asarray(rebuilt > leaves.mass)

    @property
    @abstractmethod
    def advice(self) -> str:
        """What a failed proof may mean for this framework and what to do, as a clause."""


class WholeBags(Bags):
    """Bags of trees that were all trained on all rows.

    Parameters
    ----------
    n_rows, n_members : int
    unit : ndarray of float64, shape (n_leaves,)
        What a row adds to the mass of each leaf.
    """

    hold_all = True

    def __init__(self, n_rows: int, n_members: int, unit: Floats) -> None:
        self.n_rows, self._n_members, self._unit = n_rows, n_members, unit

    def take(self, start: int, stop: int) -> Bools:
        return np.ones((stop - start, self._n_members, 1), dtype=np.bool_)

    def row_mass(self, start: int, stop: int) -> Floats:
        return np.ones((stop - start, 1, 1))

    def contradicted(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        return np.asarray(np.rint(leaves.mass / self._unit) != rebuilt)

    def exceeded(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        return np.asarray(rebuilt > np.rint(leaves.mass / self._unit))

    @property
    def advice(self) -> str:
        return "Give the training rows."


class LaidOutBags(Bags):
    """Bags that each machine drew over its own rows, by the numbers that these have there.

    Attributes
    ----------
    layout : Layout
        Where the rows lay; of a forest that one machine trained, all of them in their order.
    """

    layout: Layout

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Training rows."""
        return self.layout.n_rows

    def part(self, start: int, stop: int) -> LaidOutBags:
        """The bags of rows ``start`` to ``stop`` alone, to be taken elsewhere; only all rows together prove them."""
        part = copy.copy(self)
        part.layout = self.layout.part(start, stop)
        part.labels = None if self.labels is None else self.labels.part(start, stop)
        return part
