"""Forests in training: what a framework provides so that rfsize can grow forests and choose bagging fractions.

An integration implements `Trainer` for its kind of training data and `ForestInTraining` for a forest that gets more
trees. Trees are only ever added. Each tree's out-of-bag outputs are kept: those on training rows it did not see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Floats
from rfsize.utils.validation import whole
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.links import Link
from rfsize.voting.tallied import Tallied


class ForestInTraining(ABC):
    """A forest that can get more trees.

    Attributes
    ----------
    n_trees : int
        Number of trees so far. A multiclass forest counts iterations, each of which casts one vote.
    out_of_bag : Tallied
        Tally of the trees' outputs on training rows that they did not see; grows with the forest.
    link : Link
        Turns mean scores into what the forest predicts.
    threshold : float
        Probability above which a tree, or a forest of two classes, predicts class 1.
    cut : float
        Mean score above which a forest of two classes predicts class 1.
    groups : Groups
        Groups of training rows. A tree votes on a row only if it saw no row of the same group.
    classes : ndarray, shape (n_classes,), or None
        Class labels; None if they are 0 to K − 1.
    predict_obeys : {"soft", "hard"}
        Whether the model predicts by averaged scores ("soft") or by majority vote ("hard").
    """

    n_trees: int
    out_of_bag: Tallied
    link: Link
    threshold: float
    cut: float
    groups: Groups
    classes: NDArray[Any] | None = None
    predict_obeys: str = "soft"

    @abstractmethod
    def add(self, n_trees: int) -> None:
        """Train ``n_trees`` more trees, prove their bags, and add their out-of-bag outputs to the tally.

        Raises
        ------
        InbagError
            If the bags cannot be rebuilt and proven.
        """

    @abstractmethod
    def booster(self) -> Any:
        """All trees so far as one new booster of the framework, which predicts the mean over these trees."""

    def check_bags(self) -> None:  # noqa: B027 - most frameworks have bags
        """Raise ``InbagError`` if no row can be out of bag."""


class Trainer(ABC):
    """A framework's parameters and training data, from which rfsize grows any number of forests.

    Attributes
    ----------
    classes : ndarray, shape (n_classes,)
        Class labels as the framework encodes them, 0 to K − 1; empty for regression.
    label : ndarray, shape (n_rows,)
        Training labels: class indices, or numbers for regression.
    weight : ndarray of float64, shape (n_rows,), or None
        Sample weights; None if the training data have none.
    fraction : float
        Bagging fraction in the parameters.
    seed : int
        Seed in the parameters, or the framework's default.
    link : Link
        Turns mean scores into what the framework predicts.
    largest_fraction : float
        Largest bagging fraction that the framework can draw.
    has_soft_labels : bool
        Whether ``label`` holds probabilities of class 1 in place of class indices, so that no metric compares with it.
    """

    framework: str
    classes: NDArray[Any]
    label: NDArray[Any]
    weight: Floats | None
    fraction: float
    seed: int
    link: Link
    largest_fraction: float = 1.0
    has_soft_labels: bool = False

    @abstractmethod
    def start(
        self, *, fraction: float | None = None, seed: int | None = None, threshold: float = 0.5, groups: Groups = ALONE
    ) -> ForestInTraining:
        """A forest without trees yet; ``fraction`` and ``seed`` override the parameters.

        A tree votes for class 1 above ``threshold``, as in `rfsize.tree_outputs`. A tree does not vote on a row if it
        saw any row of the same group.
        """

    def left_out(self, fraction: float) -> float:
        """Expected share of the trees that do not see a row, at a bagging fraction."""
        return 1.0 - fraction

    def with_fraction(self, fraction: float) -> dict[str, Any]:
        """The parameters with another bagging fraction, for forests that are trained from parameters."""
        raise ValueError(f"forests of {self.framework} are not trained from parameters: give an estimator")

    def start_after(self, number: int, *, threshold: float = 0.5, groups: Groups = ALONE) -> ForestInTraining:
        """A forest without trees yet that follows ``number`` others with the same parameters and draws its own bags.

        For ``number`` 0 this is `start`. You can merge the forests of all numbers into one. Each forest draws the bags
        that `resume` draws when it adds trees to ``number`` merged forests.
        """
        raise ValueError(f"forests of {self.framework} are not trained in blocks: rfsize.grow trains them")

    @abstractmethod
    def resume(self, model: Any, *, threshold: float = 0.5, groups: Groups = ALONE) -> ForestInTraining:
        """A forest that begins with a copy of the model's trees and draws new bags for the trees it adds.

        Raises
        ------
        NotAForestError
            If the model is not a forest, or was not trained with these parameters and data.
        InbagError
            If the bags of the model's trees cannot be rebuilt and proven on the training data.
        """


def trained_on(label: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Labels of training data as class indices, or as numbers for regression.

    Raises
    ------
    ValueError
        If a label of a classification is not a class index.
    """
    strange = np.setdiff1d(label, np.arange(n_classes)) if n_classes else label[:0]
    if strange.size:
        raise ValueError(f"the labels must be the class indices 0 to {n_classes - 1}, found {strange[:5].tolist()}")
    return label.astype(np.int64 if n_classes else np.float64)


def trees_to_train(chosen: Any, parameter: str) -> int:
    """The number of trees of each fold's forest, as set by ``parameter``; ``ValueError`` if it is not set.

    The frameworks' defaults, such as one tree, do not count: nobody chose them.
    """
    if chosen is None:
        raise ValueError(
            f"the forest of each fold needs a number of trees: set {parameter}, such as "
            f"{parameter.partition(' ')[0]}=200"
        )
    return whole(parameter, chosen, at_least=1)
