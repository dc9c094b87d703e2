"""A trained model of any framework, as rfsize reads it: `Model`, and `Forest` for trees that are independent draws.

A framework subclasses `Model` for every tree ensemble that it trains, and `Forest` where T*, out-of-bag votes and more
trees have a meaning.
"""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Bools, Caution, Floats, Int64s, share
from rfsize.exceptions import (
    ForestWarning,
    InbagError,
    NotAForestError,
)
from rfsize.models.bags import FRESH_ROWS, Bags, Layout, WholeBags
from rfsize.models.columns import Columns
from rfsize.models.ensemble import LeafIds, TreeEnsemble, partial_scores
from rfsize.models.link import Link
from rfsize.models.rows import Rows, open_rows, refuse_dmatrix

Output = Literal["labels", "class numbers", "probabilities", "numbers"]
OUTPUTS: tuple[Output, ...] = get_args(Output)
"""Kinds of values that a model's own ``predict`` may return, see `Model.output`."""

# Takes the leaves that rows reach and returns the class index that each tree votes for, shape (rows, n_trees).
LeafClass = Callable[[LeafIds], NDArray[Any]]


_Model = TypeVar("_Model", bound="Model")


class LearningRate(NamedTuple):
    """The effect of a learning rate other than 1 on a forest.

    Attributes
    ----------
    caveat : str
        What the learning rate scales, how that changes ensemble sizes, and which setting to train with.
    keeps_labels_at : float or None
        Threshold at which the labels equal those of a learning rate of 1; None if there is no such threshold.
    """

    caveat: str
    keeps_labels_at: float | None


class Wrapper(NamedTuple):
    """The caller's model, which wraps a framework's model.

    Attributes
    ----------
    kind : str
        Type of the caller's model, for messages.
    around : callable
        Wraps another model of the framework in a new model of the caller's type.
    threshold : float
        Probability of class 1 above which the caller's model predicts class 1.
    transform : callable or None
        For a pipeline: makes the rows of the framework's model from those that the caller's model takes.
    """

    kind: str
    around: Callable[[Any], Any]
    threshold: float = 0.5
    transform: Callable[[Any], Any] | None = None


class Model(ABC):
    """A trained tree ensemble of one framework: all that compiling, cutting and certifying need.

    Attributes
    ----------
    framework : str
        Name of the framework, for messages.
    booster
        The framework's own model that holds the trees.
    ensemble : TreeEnsemble or None
        The trees as arrays; None for a bagging ensemble over learners that are no trees.
    n_trees : int
        Number of iterations; one iteration adds one tree, or one for each class. For models that XGBoost boosted with
        ``num_parallel_tree`` it is a round, of so many trees (of each class), as ``iteration_range`` counts.
    n_features : int
        Number of columns the model was trained on.
    feature_names : list of str or None
        Names of these columns; None if the model was trained without names.
    classes : ndarray, shape (n_classes,)
        Class labels in the caller's encoding; empty for regression.
    link : Link
        Turns raw scores into what the framework predicts.
    output : {"labels", "class numbers", "probabilities", "numbers"}
        What the model's own ``predict`` returns. "class numbers" are 0, 1, … as floats. "probabilities" are those of
        class 1 if one score decides between two classes, else those of every class.
    wrapper : Wrapper or None
        The caller's own model, if that model wraps the framework's model.
    is_pruned : bool
        Whether `rfsize.shrink` chose or changed the trees, so that together they predict like a larger model.
    refits : bool
        Whether leaves can take new scores of any value.
    given_missing : float or None
        The value that means missing beside NaN, if the user had to give it to `read_model`.
    voting : {"soft", "hard"}
        Whether the model's own ``predict`` uses the averaged or summed scores ("soft") or the majority vote ("hard").
    why_no_forest : str
        For a model that is no `Forest`: why its trees are not independent draws, and what to do.
    """

    framework: ClassVar[str]
    booster: Any
    ensemble: TreeEnsemble | None = None
    wrapper: Wrapper | None = None
    is_pruned: bool = False
    refits: bool = True
    given_missing: float | None = None
    voting: str = "soft"
    why_no_forest: str = "the model's trees are not independent draws"

    @abstractmethod
    def apply(self, X: Any) -> NDArray[np.int64]:
        """Node of `ensemble` that each row reaches in each tree, by the framework itself.

        ``X`` is a batch of rows as `Rows` reads them: numbers, encoded as at training.

        Returns
        -------
        ndarray of int64, shape (n_rows, n_trees, parallel_trees * trees_per_iteration)
        """

    @abstractmethod
    def first(self, n_trees: int) -> Any:
        """A new model of the framework, of the same type, with the first ``n_trees`` iterations."""

    def with_booster(self, booster: Any) -> Any:
        """A new model of the framework that holds ``booster``, which has other trees and is otherwise like this."""
        return booster

    def select(self, trees: Int64s, leaf_values: NDArray[Any] | None = None) -> Any:
        """A new model of the framework with these iterations, in this order, marked as pruned.

        ``leaf_values``, in the shape of `TreeNodes.value`, replaces what the leaves of all iterations add.
        """
        raise NotAForestError(f"rfsize cannot choose trees of {self.framework}: cut the model with rfsize.truncate")

    @property
    def n_bytes(self) -> int:
        """Size in bytes of the model that the framework saves."""
        return len(pickle.dumps(self.booster))

    @property
    def _arrays(self) -> TreeEnsemble:
        assert self.ensemble is not None
        return self.ensemble

    @property
    def n_trees(self) -> int:
        return self._arrays.n_trees

    @property
    def n_members(self) -> int:
        """Number of trees after which a row may stop; those that grew in parallel count singly."""
        return self.n_trees * (1 if self.ensemble is None else self.ensemble.parallel_trees)

    @property
    def n_features(self) -> int:
        return self._arrays.n_features

    @property
    def n_scores(self) -> int:
        """Number of scores of a tree, or of the trees of one iteration."""
        return self._arrays.n_scores

    @property
    def feature_names(self) -> list[str] | None:
        return self._arrays.feature_names

    @property
    def classes(self) -> NDArray[Any]:
        return self._arrays.classes

    @property
    def link(self) -> Link:
        return self._arrays.link

    @property
    def digest(self) -> str | None:
        """Hash that identifies the trees; None if there is none."""
        return None if self.ensemble is None else self.ensemble.digest

    @property
    def columns(self) -> Columns:
        """The columns of training."""
        return self._arrays.columns

    @property
    def output(self) -> Output:
        return "labels" if self.classes.size else "numbers"

    def likely_bags(self, layout: Layout, y: Any, sample_weight: Any) -> Bags | None:
        """Bags that can prove that rows are the training rows; None if the number of rows differs or no proof exists.

        ``layout`` tells on which machine each row lay.

        Raises
        ------
        ValueError
            If labels or weights do not fit the rows.
        """
        if self.ensemble is None:
            return None
        drawn, n_rows = self.rows_in_bags, layout.n_rows
        if not drawn.size or (drawn != n_rows).any():
            return None
        return WholeBags(n_rows, self.n_trees, self.row_cover[self.ensemble.output_of_node])

    def leaf_class(self, threshold: float) -> LeafClass:
        """Function from the leaves that rows reach to the class index of each vote; ties go to the lowest index."""
        if self.ensemble is None or self.ensemble.trees_per_iteration > 1:
            if self.n_scores > 1:
                return lambda leaves: leaves.scores.argmax(axis=2)
            return lambda leaves: leaves.scores[:, :, 0] > threshold
        vote = self.ensemble.votes(threshold)
        return lambda leaves: vote[leaves.leaf[:, :, 0]]

    def leaf_values(self, leaves: LeafIds) -> NDArray[np.floating[Any]]:
        """The values that the framework adds up, in its precision, shape (n_rows, n_members, n_scores)."""
        if self.ensemble is None:
            return leaves.scores
        return self.ensemble.nodes.value[leaves.leaf].reshape(len(leaves.leaf), self.n_members, -1)

    def partial_scores(self, leaves: LeafIds) -> NDArray[np.floating[Any]]:
        """Raw scores that the first 1, …, T iterations predict, shape (n_rows, n_trees, n_scores)."""
        if self.ensemble is None or isinstance(self, Forest):
            n_trees = np.arange(1, self.n_trees + 1)
            return np.asarray(np.cumsum(leaves.scores, axis=1, dtype=np.float64) / n_trees[:, None])
        return partial_scores(self.ensemble, leaves.leaf)

    def leading_bags(self, n_rows: int) -> Bags | None:
        """Bags of the first ``n_rows`` training rows, or of fewer, if they can be drawn without all rows; else None.

        Raises
        ------
        InbagError
            If the bags cannot be rebuilt.
        """
        return None

    @property
    def row_cover(self) -> Floats:
        """What a training row adds to the cover of a leaf, for the trees of each output; NaN where it is not known."""
        return np.ones(self._arrays.trees_per_iteration)

    @property
    def rows_in_bags(self) -> Floats:
        """Number of training rows in the bag of each tree that has several leaves; NaN where that is not known."""
        trees = self._arrays
        count = np.where(trees.has_cover, trees.cover, 0.0) / self.row_cover[trees.output_of_node]
        return np.rint(np.bincount(trees.tree_of_node, weights=count)[trees.nodes.n_nodes > 1])

    def open(self, X: Any) -> Rows:
        """The rows of ``X`` with the columns of training; ``ValueError`` if they do not fit the model."""
        X = self.own_rows(X)
        refuse_dmatrix(X)
        return open_rows(X, self.columns)

    def own_rows(self, X: Any) -> Any:
        """The rows that the framework's model takes, from those that the caller's model takes; `Rows` are such rows."""
        return X if self.transform is None or isinstance(X, Rows) else self.transform(X)

    @property
    def transform(self) -> Callable[[Any], Any] | None:
        """For the last step of a pipeline: makes its rows from those of the pipeline."""
        return None if self.wrapper is None else self.wrapper.transform

    def refuse_steps(self, why: str) -> None:
        """Raise `NotAForestError` for the last step of a pipeline, for this reason."""
        if self.transform is not None:
            raise NotAForestError(f"{why}: give pipeline[-1], and as rows pipeline[:-1].transform(X)")

    def native_rows(self, X: Any) -> Any:
        """Rows in the form that the model's own ``predict`` takes."""
        return X

    def truth(self, y: Any) -> Any:
        """Labels as the framework reads them, which may be fewer than the user's; ``ValueError`` if rows have none."""
        return y

    def wrapped(self, native: Any) -> Any:
        """A new model of the caller's type around another model of the framework."""
        return native if self.wrapper is None else self.wrapper.around(native)

    def read_as_missing(self, missing: float) -> None:
        """Treat ``missing`` as a missing value, like NaN; only for models that do not store the value themselves."""
        raise ValueError(f"missing={missing!r} is only for an xgboost.Booster, which does not store it: leave it out")

    def checked_threshold(self, threshold: float | None) -> float:
        """``threshold`` as a float, by default the model's own; ``ValueError`` if the model cannot use a threshold."""
        if threshold is None:
            return 0.5 if self.wrapper is None else self.wrapper.threshold
        return checked_threshold(threshold, n_classes=len(self.classes))

    def voting_at(self, threshold: float) -> str:
        """`voting` if the model predicts class 1 above ``threshold``."""
        return self.voting

    def raw_threshold(self, threshold: float) -> float:
        """Raw score above which the model predicts class 1; for two classes only."""
        conventions = None if self.ensemble is None else self.ensemble.conventions
        if conventions is not None and conventions.labels_of_scores and threshold == 0.5:
            return conventions.cut
        return self.link.score_at(threshold)


class Forest(Model):
    """A forest whose trees are independent draws: T*, out-of-bag votes and more trees have a meaning.

    Attributes
    ----------
    shared_bags : str or None
        If trees share bags: how they share them, how that changes T*, and what to do.
    seed_dependence : str or None
        If the predictions depend on the seed even in a forest of unlimited size: why, and what to do.
    learning_rate : LearningRate or None
        If a learning rate scales the trees' scores: the effect on the forest.
    has_bags_by_class : bool
        Whether the trees of each class have bags of their own.
    sampled_by : str
        Parameters by which training samples rows or columns, so that trees differ, for messages.
    """

    shared_bags: str | None = None
    seed_dependence: str | None = None
    learning_rate: LearningRate | None = None
    has_bags_by_class: bool = False
    sampled_by: ClassVar[str] = "a part of the rows or columns for each tree"

    def tree_scores(self, X: Any, inbag: Bools | None = None) -> Floats:
        """Scores of members that are no trees, shape (n_rows, n_trees, n_scores).

        ``inbag``, shape (n_rows, n_trees, 1), marks the rows that a member was trained on; it may skip them.
        """
        raise NotImplementedError

    def bags(self, layout: Layout, y: Any, sample_weight: Any, seed: int | None, subsample: float | None) -> Bags:
        """The forest's bags (the rows each tree was trained on), not yet proven, for training rows in this ``layout``.

        The result is a `LaidOutBags` if the framework can train on several machines.
        """
        raise InbagError(f"rfsize does not know how {self.framework} draws its bags: take {FRESH_ROWS}")

    def likely_bags(self, layout: Layout, y: Any, sample_weight: Any) -> Bags | None:
        """See `Model.likely_bags`.

        Raises
        ------
        InbagError
            If the bags cannot be rebuilt.
        """
        if (whole := super().likely_bags(layout, y, sample_weight)) is not None or self.ensemble is None:
            return whole
        bags = self.bags(layout, y, sample_weight, None, None)
        return bags if bags.fit and bags.need_proof else None

    def training_data(self, X: Any, label: Int64s, sample_weight: Any) -> Any:
        """An estimator's training rows, with class indices as labels, in the form that the framework trains on."""
        raise NotAForestError(f"rfsize cannot train more trees of {self.framework}: train a forest of another size")


def boosted(what: str, forest: str) -> str:
    """Why a boosted model has no T*, and what works: ``forest`` says how to train a forest."""
    return (
        f"{what}, where each tree corrects the ones before it, so it has no T* and no bags: cut it with "
        "rfsize.truncate(model, X_new) or rfsize.shrink(model, X_new), predict faster with rfsize.compile(model), stop "
        f"early with rfsize.StopTable.calibrate(model, X_new), or {forest}"
    )


def first_trees(model: Model, n_trees: int) -> Any:
    """A new model of the caller's type with the first ``n_trees`` iterations."""
    return model.wrapped(model.first(n_trees))


def wrapped_by(model: _Model, wrapper: Wrapper, classes: NDArray[Any]) -> _Model:
    """The same model inside the caller's model; ``classes`` are that model's labels, in class order."""
    inside = with_classes(model, classes)
    inside.wrapper = wrapper
    return inside


def with_classes(model: _Model, classes: NDArray[Any]) -> _Model:
    """The same model with other class labels, in class order."""
    renamed = copy.copy(model)
    if model.ensemble is None:
        vars(renamed)["classes"] = classes
    else:
        renamed.ensemble = replace(model.ensemble, classes=classes)
    return renamed


def checked_threshold(threshold: float, *, n_classes: int) -> float:
    """``threshold`` as a float; ``ValueError`` if it is no probability or the model cannot use a threshold."""
    threshold = share("threshold", threshold)
    if threshold != 0.5 and not n_classes:
        raise ValueError(f"threshold={threshold:g} decides labels, and the model predicts numbers: leave threshold out")
    if threshold != 0.5 and n_classes > 2:
        raise ValueError(f"threshold={threshold:g} is for two classes, and there are {n_classes}: leave it at 0.5")
    return threshold


def dependence_of(forest: Model) -> tuple[Caution, ...]:
    """Warnings about a forest whose trees are not independent draws."""
    caveats = (forest.shared_bags, forest.seed_dependence) if isinstance(forest, Forest) else ()
    return tuple(Caution(ForestWarning, caveat) for caveat in caveats if caveat is not None)


def learning_rate_of(forest: Model, *, labels_at: float | None = None) -> tuple[Caution, ...]:
    """Warning about a learning rate; none if you ask only for labels and the labels at ``labels_at`` stay the same."""
    rate = forest.learning_rate if isinstance(forest, Forest) else None
    if rate is None or (labels_at is not None and rate.keeps_labels_at == labels_at):
        return ()
    return (Caution(ForestWarning, rate.caveat),)
