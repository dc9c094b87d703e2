"""Forests in training: what a framework provides so that rfsize can grow forests and choose bagging fractions.

A framework implements `Trainer` for its kind of training data and `ForestInTraining` for a forest that gets more
trees. Trees are only ever added. Each tree's out-of-bag outputs are kept: those on training rows it did not see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats, training_labels, whole
from rfsize.counting.groups import NO_GROUPS, Groups
from rfsize.counting.sums import Sums
from rfsize.exceptions import NotAForestError
from rfsize.models.model import Forest
from rfsize.models.rows import n_rows_of


class ForestInTraining(ABC):
    """A forest that can get more trees; a framework implements `train` and `booster`.

    Parameters
    ----------
    trainer : Trainer
        Knows the training rows and the kind of trees, and has the ``threshold`` and the ``groups``.

    Attributes
    ----------
    n_trees : int
        Number of trees so far. A multiclass forest counts iterations, each of which casts one vote.
    out_of_bag : rfsize.counting.sums.Sums
        Tally of the trees' outputs on training rows that they did not see; grows with the forest.
    link : Link
        Turns mean scores into what the forest predicts.
    threshold : float
        Probability above which a tree, or a forest of two classes, predicts class 1.
    groups : Groups
        Groups of training rows. A tree votes on a row only if it saw no row of the same group.
    classes : ndarray, shape (n_classes,), or None
        Class labels; None if they are 0 to K − 1.
    voting : {"soft", "hard"}
        Whether the model predicts by averaged scores ("soft") or by majority vote ("hard").
    """

    n_trees: int = 0
    classes: NDArray[Any] | None = None
    voting: str = "soft"

    def __init__(self, trainer: Trainer) -> None:
        self.link, self.threshold, self.groups = trainer.link, trainer.threshold, trainer.groups
        self.out_of_bag = Sums.nothing(len(trainer.label), len(trainer.classes), trainer.n_scores)

    def add(self, n_trees: int) -> None:
        """Train ``n_trees`` more trees, prove their bags, and add their out-of-bag outputs to the tally.

        Raises
        ------
        InbagError
            If the bags cannot be rebuilt and proven.
        """
        for n_more, outputs in self.train(whole("n_trees", n_trees, at_least=1)):
            self.n_trees, self.out_of_bag = self.n_trees + n_more, self.out_of_bag.plus(outputs)

    def train(self, n_trees: int) -> Iterator[tuple[int, Sums]]:
        """Train more trees; yields, for parts of them, their number and the tally of their out-of-bag outputs."""
        raise NotImplementedError

    @abstractmethod
    def booster(self) -> Any:
        """All trees so far as one new booster of the framework, which predicts the mean over these trees."""

    def check_bags(self) -> None:  # noqa: B027 - most frameworks have bags
        """Raise ``InbagError`` if no row can be out of bag."""


class Trainer(ABC):
    """A framework's parameters and training data, from which rfsize grows any number of forests.

    Attributes
    ----------
    forest : Forest
        A finished forest of such trees.
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
    n_scores : int
        Number of scores of a tree, or of the trees of one iteration.
    largest_fraction : float
        Largest bagging fraction that the framework can draw.
    threshold, groups
        Those of each `ForestInTraining`: by default 0.5, and each row by itself. Set them before the first forest.
    """

    threshold: float = 0.5
    groups: Groups = NO_GROUPS
    fraction: float
    seed: int
    largest_fraction: float = 1.0

    def __init__(self, forest: Forest, label: NDArray[Any], weight: Floats | None) -> None:
        self.forest, self.label, self.weight = forest, label, weight
        self.classes, self.link, self.n_scores = forest.classes, forest.link, forest.n_scores

    @abstractmethod
    def start(self, *, fraction: float | None = None, seed: int | None = None) -> ForestInTraining:
        """A forest without trees yet; ``fraction`` and ``seed`` override the parameters."""

    @abstractmethod
    def resume(self, model: Any) -> ForestInTraining:
        """A forest that begins with a copy of the model's trees and draws new bags for the trees it adds.

        Raises
        ------
        NotAForestError
            If the model is not a forest, or was not trained with these parameters and data.
        InbagError
            If the bags of the model's trees cannot be rebuilt and proven on the training data.
        """

    def start_after(self, number: int) -> ForestInTraining:
        """A forest without trees yet that follows ``number`` others with the same parameters and draws its own bags.

        For ``number`` 0 this is `start`. You can merge the forests of all numbers into one. Each forest draws the bags
        that `resume` draws when it adds trees to ``number`` merged forests.
        """
        raise ValueError(f"forests of {self.forest.framework} are not trained in blocks: rfsize.grow trains them")

    def left_out(self, fraction: float) -> float:
        """Expected share of the trees that do not see a row, at a bagging fraction."""
        return 1.0 - fraction

    def with_fraction(self, fraction: float) -> dict[str, Any]:
        """The parameters with another bagging fraction, for forests that are trained from parameters."""
        raise ValueError(f"forests of {self.forest.framework} are not trained from parameters: give an estimator")


class Training:
    """How a framework trains forests; an optional capability that it leaves out is refused.

    Attributes
    ----------
    labels_are_indices : bool
        Whether the framework's estimators accept only the labels 0 to K − 1.
    fraction_names : tuple of str
        Names of the parameters of estimators that may set the bagging fraction.
    """

    labels_are_indices: ClassVar[bool] = False
    fraction_names: ClassVar[tuple[str, ...]] = ()

    def trainer(self, params: dict[str, Any], data: Any) -> Trainer:
        """The trainer that grows forests with these parameters on these data.

        Raises
        ------
        NotAForestError
            If the parameters do not train a forest of independent trees.
        InbagError
            If the forest's bags (the rows each tree is trained on) could not be rebuilt.
        ValueError
            If the data are not of a type that the framework trains on.
        """
        raise ValueError(f"a {type(data).__name__} is nothing that rfsize can train on: give an estimator with X and y")

    def tree_count_names(self, estimator: Any) -> set[str]:
        """Names of the parameters that may set an estimator's number of trees."""
        return {"n_estimators"}

    def trainer_of(self, forest: Forest, X: Any, y: Any, sample_weight: Any) -> Trainer:
        """The trainer that grows more forests like a fitted estimator's, on the same rows.

        ``X`` (already checked), ``y`` and ``sample_weight`` are the arguments of the estimator's ``fit``.
        """
        data = forest.training_data(X, training_labels(forest.classes, y, n_rows_of(X)), sample_weight)
        trainer = self.trainer(self.params_of(forest.booster), data)
        trainer.classes = forest.classes
        return trainer

    def params_of(self, model: Any) -> dict[str, Any]:
        """The training parameters that a booster stores, to train more trees; ``ValueError`` if it stores none."""
        raise ValueError(f"a {type(model).__name__} stores no parameters: give the params, or an estimator")

    def accepts(self, params: dict[str, Any]) -> bool:
        """Whether these are parameters of the framework's forests; used if no training data name the framework."""
        return False

    def rows_of(self, data: Any) -> Any:
        """The rows in the training data, to look for copies; None if the data hold no readable rows.

        rfsize calls this method before it trains anything on the data.
        """
        return None

    def missing_in(self, data: Any) -> float | None:
        """Value that training data read as missing, besides NaN; None if models store that value themselves."""
        return None

    def check_estimator(self, estimator: Any) -> None:
        """Raise `NotAForestError` if an untrained estimator's parameters show that its trees will not be independent.

        `Framework.read` may still refuse the trained model of an estimator that passes this check.
        """

    def with_fraction(self, estimator: Any, fraction: float, n_rows: int) -> Any:
        """An estimator with this bagging fraction, to be fitted to ``n_rows`` rows.

        The fraction counts rows drawn without replacement. An estimator that draws with replacement gets the equivalent
        sample size.

        Raises
        ------
        InbagError
            If the estimator trains every tree on all rows, whatever the fraction.
        ValueError
            If the estimator cannot draw so many rows.
        """
        names = estimator.get_params().keys() & set(self.fraction_names)
        if not names:
            raise ValueError(f"rfsize does not know what a {type(estimator).__name__} calls its bagging fraction")
        return estimator.set_params(**dict.fromkeys(names, fraction))

    def fraction_of(self, estimator: Any, n_rows: int) -> float | None:
        """The bagging fraction of an estimator that is to be fitted to ``n_rows`` rows; None if it sets none.

        If the estimator draws rows with replacement, this is the equivalent fraction without replacement.
        """
        values = map(estimator.get_params().get, self.fraction_names)
        return next((float(value) for value in values if value is not None and 0.0 < value < 1.0), None)

    # On several machines

    def deterministic_data(self, params: dict[str, Any], X: Any, y: Any, weight: Any) -> tuple[dict[str, Any], Any]:
        """Parameters and training data, from rows in memory, that give the same forest with any number of threads."""
        raise ValueError("rfsize cannot train forests of this framework on workers: train here, with rfsize.grow")

    def merged(self, boosters: Sequence[Any]) -> Any:
        """One booster with the trees of all ``boosters``, in order; these differ only in their seeds."""
        raise ValueError("rfsize cannot train forests of this framework on workers: train here, with rfsize.grow")

    def held_on_workers(self, X: Any) -> CollectionOnWorkers | None:
        """The rows that the framework's own collection holds on Dask's workers; None for any other object.

        Raises
        ------
        ValueError
            If the collection holds something that changes every tree's vote.
        """
        return None


class CollectionOnWorkers(NamedTuple):
    """Rows that a framework's own distributed data object (collection) holds on Dask's workers.

    Attributes
    ----------
    parts : list of dask.delayed.Delayed
        The rows of each partition, in the order of the partitions.
    machines : list of list of int
        For each worker that holds rows, the numbers of its partitions, in the order in which the worker holds them.
    n_features : int
    missing : float
        Value that the collection reads as missing, besides NaN.
    """

    parts: list[Any]
    machines: list[list[int]]
    n_features: int
    missing: float


def trained_on(label: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Labels of training data as class indices, or numbers; ``ValueError`` if a class has no such index."""
    if n_classes and not np.isin(label, np.arange(n_classes)).all():
        raise ValueError(
            f"the labels of the training data must be the class indices 0 to {n_classes - 1}: encode them, or, if they "
            "are soft, between 0 and 1, train by lgb.train with rfsize.SizeCallback(alpha=0.99)"
        )
    return label.astype(np.int64 if n_classes else np.float64)


def refuse_differences(described: Sequence[dict[str, Any]]) -> None:
    """Raise `NotAForestError` if forests, each described by what they must have in common, are not alike."""
    first, *others = described
    for other in others:
        for name in {**first, **other}:
            if first.get(name) != other.get(name):
                both = f"'{str(first.get(name))[:60]}' and '{str(other.get(name))[:60]}'"
                raise NotAForestError(f"the forests differ in {name}, {both}: train them on the same data, alike")
