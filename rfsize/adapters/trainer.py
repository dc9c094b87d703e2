"""Forests in training: what growing a forest, and choosing its bagging fraction, ask of a framework.

An integration implements `Trainer` for its kind of training data and `ForestInTraining` for a forest that takes
more trees; both only ever add trees, and keep what each of them says of the training rows that it did not see.
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
    """A forest that takes more trees.

    Attributes
    ----------
    n_trees : int
        Trees so far (of a multiclass forest: iterations, each of which casts one vote).
    out_of_bag : Tallied
        What they say of the rows that they did not see; grows with the forest.
    link : Link
        From mean scores to what the forest predicts.
    cut : float
        Mean score above which those of two classes predict class 1.
    groups : Groups
        Training rows that belong together, of which trees that vote on one saw none.
    classes : ndarray, shape (n_classes,), or None
        What the classes are called, where it is not 0 to K − 1.
    predict_obeys : {"soft", "hard"}
        Whether the model predicts by averaged scores, or by the majority of the votes.
    """

    n_trees: int
    out_of_bag: Tallied
    link: Link
    cut: float
    groups: Groups
    classes: NDArray[Any] | None = None
    predict_obeys: str = "soft"

    @abstractmethod
    def add(self, n_trees: int) -> None:
        """Train so many more trees, prove their bags, and add up what they say.

        Raises
        ------
        InbagError
            If the bags cannot be rebuilt and proven.
        """

    @abstractmethod
    def booster(self) -> Any:
        """All trees so far as one new booster of the framework; it predicts the mean of all of them."""

    def check_bags(self) -> None:  # noqa: B027 - most frameworks have bags
        """Raise ``InbagError`` where no row can be out of bag."""


class Trainer(ABC):
    """A framework's parameters and training data, from which any number of forests are grown.

    Attributes
    ----------
    classes : ndarray, shape (n_classes,)
        Class labels as the framework encodes them, 0 to K − 1; empty for regression.
    label : ndarray, shape (n_rows,)
        Training labels: class indices, or numbers for regression.
    weight : ndarray of float64, shape (n_rows,), or None
        Sample weights, where the training data have any.
    fraction : float
        Bagging fraction that the parameters name.
    seed : int
        Seed that the parameters name, or the framework's own.
    link : Link
        From mean scores to what the framework predicts.
    largest_fraction : float
        Beyond which bags are not drawn.
    """

    framework: str
    classes: NDArray[Any]
    label: NDArray[Any]
    weight: Floats | None
    fraction: float
    seed: int
    link: Link
    largest_fraction: float = 1.0

    @abstractmethod
    def start(
        self, *, fraction: float | None = None, seed: int | None = None, threshold: float = 0.5, groups: Groups = ALONE
    ) -> ForestInTraining:
        """A forest without trees, of another bagging fraction or seed where they are given.

        Its trees vote for class 1 above ``threshold``, as in `rfsize.tree_outputs`, and not on rows of whose group they
        saw one.
        """

    def with_fraction(self, fraction: float) -> dict[str, Any]:
        """The parameters with another bagging fraction; of forests that are trained from parameters."""
        raise ValueError(f"forests of {self.framework} are not trained from parameters: give an estimator")

    def start_after(self, number: int, *, threshold: float = 0.5, groups: Groups = ALONE) -> ForestInTraining:
        """The forest without trees that comes after ``number`` others of these parameters, with bags of its own.

        After none it is that of `start`. Forests of all numbers may be merged into one; each draws what `resume` draws
        where it adds to so many that are merged.
        """
        raise ValueError(f"forests of {self.framework} are not trained in blocks: rfsize.grow trains them")

    @abstractmethod
    def resume(self, model: Any, *, threshold: float = 0.5, groups: Groups = ALONE) -> ForestInTraining:
        """A forest that begins with a copy of the trees of ``model`` and draws other bags for those it adds.

        Raises
        ------
        NotAForestError
            If the model is no forest, or not one of these parameters and data.
        InbagError
            If the bags of its trees cannot be rebuilt and proven on the training data.
        """


def trained_on(label: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Labels of training data as class indices, or as numbers where there are no classes.

    Raises
    ------
    ValueError
        If they are no class indices.
    """
    strange = np.setdiff1d(label, np.arange(n_classes)) if n_classes else label[:0]
    if strange.size:
        raise ValueError(f"the labels must be the class indices 0 to {n_classes - 1}, found {strange[:5].tolist()}")
    return label.astype(np.int64 if n_classes else np.float64)


def trees_to_train(chosen: Any, parameter: str) -> int:
    """The number of trees that each fold's forest is to have, which ``parameter`` tells; ``ValueError`` if it does not.

    Defaults of the frameworks, such as one tree, are not what anybody has chosen.
    """
    if chosen is None:
        raise ValueError(
            f"the forest of each fold needs a number of trees: set {parameter}, such as "
            f"{parameter.partition(' ')[0]}=200"
        )
    return whole(parameter, chosen, at_least=1)
