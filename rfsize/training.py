"""Forests in training: what growing a forest, and choosing its bagging fraction, ask of a framework.

An integration implements `Trainer` for its kind of training data and `ForestInTraining` for a forest that takes
more trees; both only ever add trees, and keep what each of them says of the training rows that it did not see.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapter import Adapter, Bags, Proof, counted, framework_of, left_out
from rfsize.utils.matrix import blocks
from rfsize.voting.outputs import OutOfBag, Tally
from rfsize.voting.scores import Scores


def out_of_bag(
    adapter: Adapter,
    bags: Bags,
    leaf_index: Callable[[int, int], NDArray[Any]],
    n_classes: int,
    threshold: float = 0.5,
) -> OutOfBag:
    """What the trees of a finished forest say of its training rows, once their bags are proven.

    Parameters
    ----------
    adapter : Adapter
        The forest.
    bags : Bags
        Its bags.
    leaf_index : callable
        Leaves that rows ``start`` to ``stop`` reach, as `Adapter.leaf_index` gives them.
    n_classes : int
        0 where the trees cast no votes.
    threshold : float, default 0.5
        As in `rfsize.votes`.

    Raises
    ------
    InbagError
        If the proof fails.
    ValueError
        If a threshold is given for more than two classes.
    """
    proof, cast = Proof(adapter, bags), adapter.voter(adapter.checked_threshold(threshold))
    counts = np.zeros((bags.n_rows, n_classes), dtype=np.int32)
    scores = []
    for start, stop in blocks(bags.n_rows, adapter.n_trees * adapter.leaves.n_scores, what="out-of-bag votes"):
        leaf = leaf_index(start, stop) + adapter.leaves.offset
        leaf, may_vote = left_out(leaf, proof.add(start, stop, leaf))
        scores.append(Scores.of(adapter.leaves.raw_scores(leaf), may_vote))
        if n_classes:
            counts[start:stop] = counted(cast(leaf), n_classes, may_vote)
    proof.conclude()
    return OutOfBag(counts, Scores.stacked(scores))


class ForestInTraining(ABC):
    """A forest that takes more trees.

    Attributes
    ----------
    n_trees : int
        Trees so far (of a multiclass forest: iterations, each of which casts one vote).
    out_of_bag : OutOfBag
        What they say of the rows that they did not see; grows with the forest.
    cut : float
        Mean score above which those of two classes predict class 1.
    """

    n_trees: int
    out_of_bag: OutOfBag
    cut: float

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

    def tally(self) -> Tally:
        """Out-of-bag votes and scores, for classes 0 to K − 1.

        Raises
        ------
        InbagError
            If no row can be out of bag.
        """
        return self.out_of_bag.tally(self.n_trees, self.cut)


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
    """

    framework: str
    classes: NDArray[Any]
    label: NDArray[Any]
    weight: NDArray[np.float64] | None
    fraction: float
    seed: int

    @abstractmethod
    def start(
        self, *, fraction: float | None = None, seed: int | None = None, threshold: float = 0.5
    ) -> ForestInTraining:
        """A forest without trees, of another bagging fraction or seed where they are given.

        Its trees vote for class 1 above ``threshold``, as in `rfsize.votes`.
        """

    @abstractmethod
    def resume(self, model: Any, *, threshold: float = 0.5) -> ForestInTraining:
        """A forest that begins with a copy of the trees of ``model`` and draws other bags for those it adds.

        Raises
        ------
        NotAForestError
            If the model is no forest, or not one of these parameters and data.
        InbagError
            If the bags of its trees cannot be rebuilt and proven on the training data.
        """

    @abstractmethod
    def predictions(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the framework predicts from mean raw scores, shape (n_rows, n_outputs).

        Returns
        -------
        ndarray
            Probabilities, shape (n_rows, n_classes), or for regression numbers, shape (n_rows,).
        """


def parameters_of(model: Any) -> dict[str, Any]:
    """The training parameters that a booster remembers, to train more trees like its own.

    Raises
    ------
    ValueError
        If it has forgotten them.
    """
    parameters: dict[str, Any] = _integration(model).parameters_of(model)
    return parameters


_TRAINERS = {"lightgbm": "rfsize.integrations.lightgbm_training", "xgboost": "rfsize.integrations.xgboost_training"}


def trainer_for(params: dict[str, Any], dtrain: Any) -> Trainer:
    """The trainer of the framework that ``dtrain`` comes from.

    Raises
    ------
    NotAForestError
        If the parameters do not train a forest of independent trees.
    InbagError
        If its bags could not be rebuilt.
    ValueError
        If no integration knows the training data.
    """
    trainer: Trainer = _integration(dtrain).trainer(params, dtrain)
    return trainer


def resumed(adapter: Adapter, dtrain: Any, threshold: float) -> ForestInTraining:
    """A copy of a booster that takes more trees like its own; raises as `Trainer.resume` and `parameters_of`."""
    return trainer_for(parameters_of(adapter.booster), dtrain).resume(adapter.booster, threshold=threshold)


def labels_of(params: dict[str, Any], dtrain: Any) -> NDArray[Any]:
    """Labels of training data, shape (n_rows,); raises ``ValueError`` where no integration knows the data."""
    labels: NDArray[Any] = _integration(dtrain).labels_of(params, dtrain)
    return labels


def fold_votes(
    params: dict[str, Any],
    dtrain: Any,
    train: NDArray[np.int64],
    held_out: NDArray[np.int64],
    *,
    n_trees: int,
    threshold: float,
) -> NDArray[np.int32]:
    """Votes of a forest trained on some of the rows of ``dtrain`` on others, shape (held out rows, n_classes).

    Raises
    ------
    NotAForestError
        If the parameters do not train a forest of independent trees.
    ValueError
        If no integration knows the training data, or rows cannot be taken from them.
    """
    counts: NDArray[np.int32] = _integration(dtrain).fold_votes(
        params, dtrain, train, held_out, n_trees=n_trees, threshold=threshold
    )
    return counts


def _integration(thing: Any) -> Any:
    framework = framework_of(thing)
    if framework in _TRAINERS:
        return importlib.import_module(_TRAINERS[framework])
    raise ValueError(
        f"found a {type(thing).__module__}.{type(thing).__qualname__}; give a lightgbm.Dataset, or an "
        "xgboost.DMatrix or QuantileDMatrix"
    )
