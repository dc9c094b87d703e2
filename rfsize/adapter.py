"""What rfsize asks of a model, whatever framework trained it.

An integration subclasses `Adapter` for its framework's models and `Bags` for its way of sampling rows;
counting votes and proving bags are then the same for all of them.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rfsize.errors import InbagError, NotAForestError
from rfsize.trees import Conventions, TreeTable
from rfsize.utils import matrix
from rfsize.utils.validation import share
from rfsize.voting.links import Link
from rfsize.voting.outputs import Tally
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes

if TYPE_CHECKING:
    from rfsize.stopping.table import StopTable

_INTEGRATIONS = {name: f"rfsize.integrations.{name}" for name in ("lightgbm", "xgboost", "sklearn")}
_WEIGHTED = {"sklearn": "rfsize.integrations.sklearn_boosting"}

# Numbers that the scatter of scores may hold, for which of many rows and classes a part of the rows do.
_SCORES_HELD = 1 << 25

# The votes, shape (rows, n_members), of members whose leaves are given as indices into the table.
Voter = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Leaves:
    """The leaves of all trees in one flat table.

    A *member* is what casts one vote: one tree, or the K trees of one iteration of a multiclass forest,
    each of which scores one class. A member that is no tree has a leaf for each class that it may answer.

    Attributes
    ----------
    offset : ndarray of int64, shape (n_members, n_outputs)
        Where each tree's leaves begin in the table; ``n_outputs`` is 1 for two classes, else K.
    score : ndarray of float, shape (n_leaves,) or (n_leaves, n_classes)
        What the leaf's tree predicts alone: for two classes the probability of class 1, else the score
        of its class, or of every class where one tree scores all of them.
    raw : ndarray of float, same shape
        The score before the link.
    mass : ndarray of float, shape (n_leaves,)
        The training rows that the model says reached the leaf: their number, or their summed hessian.
    provable : ndarray of bool, shape (n_leaves,)
        Whether ``mass`` can be compared with rebuilt bags.
    """

    offset: NDArray[np.int64]
    score: NDArray[np.floating[Any]]
    raw: NDArray[np.floating[Any]]
    mass: NDArray[np.float64]
    provable: NDArray[np.bool_]

    @property
    def n_scores(self) -> int:
        """Scores of a member: 1, or one for each class."""
        return self.raw.shape[1] if self.raw.ndim > 1 else self.offset.shape[1]

    def raw_scores(self, leaf: NDArray[Any]) -> NDArray[np.floating[Any]]:
        """Scores before the link of the leaves that rows reach, shape (n_rows, n_members, n_scores)."""
        return self.raw[leaf[:, :, 0]] if self.raw.ndim > 1 else self.raw[leaf]

    def tree_of_leaf(self) -> NDArray[np.int64]:
        """Flat index (member-major) of the tree that each leaf belongs to."""
        order = np.argsort(self.offset, axis=None)
        ends = np.append(self.offset.ravel()[order][1:], len(self.score))
        return np.repeat(order, ends - self.offset.ravel()[order])


class Bags(ABC):
    """The in-bag rows of every member, rebuilt from the model's own seed.

    Attributes
    ----------
    n_rows : int
        Training rows.
    need_proof : bool
        Whether the framework does not itself say which rows were in the bags.
    """

    n_rows: int
    need_proof: bool = True

    @abstractmethod
    def take(self, start: int, stop: int) -> NDArray[np.bool_]:
        """In-bag mask of rows ``start`` to ``stop``, shape (rows, n_members, n_outputs or 1)."""

    @abstractmethod
    def row_mass(self, start: int, stop: int) -> NDArray[np.float64]:
        """What each row adds to `Leaves.mass` where it is in the bag, shape (rows, n_members or 1, n_outputs or 1)."""

    @abstractmethod
    def contradicted(self, leaves: Leaves, rebuilt: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Leaves whose stored mass differs from the mass of the rebuilt bags, shape (n_leaves,)."""

    @property
    @abstractmethod
    def advice(self) -> str:
        """What a failed proof may mean for this framework and what to do, as a clause."""


class Adapter(ABC):
    """A forest of one framework.

    Attributes
    ----------
    n_trees : int
        Members that vote.
    n_features : int
        Columns the forest was trained on.
    feature_names : list of str or None
        Their names, None where it was trained without.
    classes : ndarray, shape (n_classes,)
        Class labels in the caller's encoding; empty for regression.
    leaves : Leaves
        Scores and masses of all leaves.
    link : Link
        From mean raw scores to what the framework predicts.
    booster
        The framework's own model that holds the trees.
    shared_bags : str or None
        Where trees share bags: how, what it does to T*, and what to do.
    seed_dependence : str or None
        Where forests of other seeds predict otherwise however many trees they have: why, and what to do.
    predict_obeys : {"soft", "hard"}
        Whether the model's own ``predict`` goes by the averaged scores or the majority of the votes.
    averages_scores : bool
        Whether the model predicts the link of its averaged raw scores; where it does not, these are its members' votes.
    table : StopTable or None
        Where members have weights, the table that these make.
    """

    framework: ClassVar[str]
    n_trees: int
    n_features: int
    feature_names: list[str] | None
    classes: NDArray[Any]
    leaves: Leaves
    link: Link
    booster: Any
    shared_bags: str | None = None
    seed_dependence: str | None = None
    predict_obeys: str = "soft"
    averages_scores: bool = True
    table: StopTable | None = None
    spaces_become_underscores: ClassVar[bool] = False  # in the names that the framework stores

    @abstractmethod
    def leaf_index(self, X: Any) -> NDArray[Any]:
        """Leaf that each row of a block reaches, shape (rows, n_members, n_outputs), counted per tree."""

    @abstractmethod
    def bags(self, n_rows: int, y: Any, sample_weight: Any, seed: int | None, subsample: float | None) -> Bags:
        """The forest's bags over ``n_rows`` training rows, not yet proven."""

    @abstractmethod
    def tree_table(self, threshold: float) -> TreeTable:
        """The forest's trees, for compiling them; a two-class tree votes for class 1 above ``threshold``."""

    @property
    @abstractmethod
    def conventions(self) -> Conventions:
        """How the framework reads rows and turns scores into probabilities."""

    @abstractmethod
    def truncated(self, n_trees: int) -> Any:
        """A new model of the caller's type, of the first ``n_trees`` members."""

    @abstractmethod
    def with_booster(self, booster: Any) -> Any:
        """A new model of the caller's type that holds ``booster``, a forest like this one of other trees."""

    @abstractmethod
    def in_training(self, X: Any, y: Any, sample_weight: Any, threshold: float) -> Any:
        """A copy of an estimator's forest that takes more trees, a `rfsize.training.ForestInTraining`.

        ``X``, which has been checked, ``y`` and ``sample_weight`` are those that its ``fit`` took; ``threshold`` has
        been checked too.

        Raises
        ------
        InbagError
            If the bags of its trees cannot be rebuilt and proven on them.
        """

    def check(self, X: Any) -> Any:
        """``X`` ready to be taken in blocks; raises ``ValueError`` where it does not fit the forest."""
        X = matrix.as_rows(X)
        underscores = self.spaces_become_underscores
        matrix.check_columns(X, self.feature_names, self.n_features, spaces_become_underscores=underscores)
        return X

    def checked_threshold(self, threshold: float) -> float:
        """``threshold`` as a float; raises ``ValueError`` where it is no probability or does not apply."""
        threshold = share("threshold", threshold)
        if threshold != 0.5 and (self.leaves.offset.shape[1] > 1 or self.leaves.score.ndim > 1):
            raise ValueError(
                f"threshold={threshold:g} is for the probability of one class, but each vote of this forest is the "
                "highest of one score per class; leave threshold at 0.5"
            )
        return threshold

    def cut(self, threshold: float) -> float:
        """Mean raw score above which averaged scores predict class 1; two classes only."""
        link = self.link
        return threshold if link.kind == "identity" else math.log(threshold / (1.0 - threshold)) / link.slope

    def voter(self, threshold: float) -> Voter:
        """What tells the class index that each member votes for from its leaves; ties go to the lowest."""
        if self.leaves.offset.shape[1] > 1:
            return lambda leaf: self.leaves.score[leaf].argmax(axis=2)
        vote = self.leaf_votes(threshold)
        return lambda leaf: vote[leaf[:, :, 0]]

    def leaf_votes(self, threshold: float) -> NDArray[Any]:
        """Class index that each leaf votes for, shape (n_leaves,); empty where several trees vote together."""
        if self.leaves.score.ndim > 1:
            return self.leaves.score.argmax(axis=1)
        return self.leaves.score > threshold if self.leaves.offset.shape[1] == 1 else np.zeros(0)


def framework_of(thing: Any) -> str | None:
    """Package of the framework that a model, data or estimator comes from; None where it comes from another."""
    packages = [base.__module__.partition(".")[0] for base in type(thing).__mro__]
    return next((package for package in packages if package in _INTEGRATIONS), None)


def adapter_for(model: Any, *, casts_votes: bool = True) -> Adapter:
    """The adapter of the framework that ``model`` comes from; an adapter is its own.

    With ``casts_votes=False`` regression forests have one too.

    Raises
    ------
    NotAForestError
        If no integration knows the model, or the model is not a forest.
    """
    if isinstance(model, Adapter):
        return model
    if isinstance(model, type):
        raise NotAForestError(f"model is the class {model.__name__}, not a trained model")
    framework = framework_of(model)
    if framework is not None:
        adapter: Adapter = importlib.import_module(_INTEGRATIONS[framework]).adapt(model, casts_votes=casts_votes)
        return adapter
    raise NotAForestError(
        f"model is a {type(model).__module__}.{type(model).__qualname__}; rfsize sizes a lightgbm.Booster, "
        "LGBMClassifier, xgboost.Booster, XGBRFClassifier or XGBClassifier, a RandomForestClassifier, "
        "ExtraTreesClassifier or BaggingClassifier, or counted rfsize.Votes"
    )


def weighted_adapter_for(model: Any) -> Adapter | None:
    """The adapter of an ensemble whose members have weights, which can be compiled, not sized; None for any other."""
    module = _WEIGHTED.get(framework_of(model) or "")
    if module is None:
        return None
    adapter: Adapter | None = importlib.import_module(module).adapt(model)
    return adapter


def count_votes(adapter: Adapter, X: Any, threshold: float, bags: Bags | None = None) -> Votes:
    """Votes of all members on every row; with ``bags``, only of those that did not train on the row.

    The rows go through in blocks, so memory grows with the rows but not with rows × trees (only bags of scikit-learn
    take a byte for each row and member). The bags are proven in the same pass, and no vote is returned where the
    proof fails. ``X`` has been checked.
    """
    return _counted_in_blocks(adapter, X, threshold, bags, None)


def tally(adapter: Adapter, X: Any, threshold: float, bags: Bags | None = None) -> Tally:
    """Votes of all members on every row, and their scores, of many rows and classes on a part of the rows.

    See `count_votes`.
    """
    if not adapter.averages_scores:
        return Tally(count_votes(adapter, X, threshold, bags), predict_obeys=adapter.predict_obeys)
    scores: list[Scores] = []
    votes = _counted_in_blocks(adapter, X, threshold, bags, scores)
    return Tally(votes, Scores.stacked(scores), adapter.cut(threshold), adapter.predict_obeys)


def _counted_in_blocks(
    adapter: Adapter, X: Any, threshold: float, bags: Bags | None, scores: list[Scores] | None
) -> Votes:
    """Votes; the scores of each block of rows are appended where they are asked for."""
    n_classes, cast = len(adapter.classes), adapter.voter(threshold)
    counts = np.zeros((matrix.n_rows(X), n_classes), dtype=np.int32)
    every = 1 + len(counts) * adapter.leaves.n_scores**2 // _SCORES_HELD
    for rows, leaf, inbag in walked(adapter, X, bags, what="votes"):
        leaf, may_vote = left_out(leaf, inbag)
        counts[rows] = counted(cast(leaf), n_classes, may_vote)
        if scores is not None:
            part = slice(-rows.start % every, None, every)
            raw = adapter.leaves.raw_scores(leaf[part])
            scores.append(Scores.of(raw, None if may_vote is None else may_vote[part]))
    return Votes(counts, adapter.classes, adapter.n_trees)


def walked(
    adapter: Adapter, X: Any, bags: Bags | None, *, what: str, cells: int = 0
) -> Iterator[tuple[slice, NDArray[Any], NDArray[np.bool_] | None]]:
    """Blocks of rows, the leaves that they reach, and with ``bags`` which trees were trained on them.

    The leaves, shape (rows, n_members, n_outputs), are indices into the table of all leaves; in-bag masks have that
    shape too, or 1 in place of n_outputs where the trees of a member share a bag. The proof of the bags is
    concluded after the last block, and nothing may be made of the rows before. ``cells`` are numbers that the caller
    holds for each row besides.

    Raises
    ------
    InbagError
        If the bags cannot be proven.
    """
    proof = None if bags is None else Proof(adapter, bags)
    per_row = adapter.n_trees * adapter.leaves.n_scores + cells
    for start, stop in matrix.blocks(matrix.n_rows(X), per_row, what=what):
        leaf = adapter.leaf_index(matrix.take(X, start, stop)) + adapter.leaves.offset
        yield slice(start, stop), leaf, None if proof is None else proof.add(start, stop, leaf)
    if proof is not None:
        proof.conclude()


def cast_votes(adapter: Adapter, X: Any, threshold: float) -> NDArray[np.int32]:
    """Class index that each member votes for on each row, shape (rows, n_members). ``X`` has been checked."""
    cast = adapter.voter(threshold)
    labels = np.empty((matrix.n_rows(X), adapter.n_trees), dtype=np.int32)
    for start, stop in matrix.blocks(len(labels), adapter.leaves.offset.size, what="votes"):
        labels[start:stop] = cast(adapter.leaf_index(matrix.take(X, start, stop)) + adapter.leaves.offset)
    return labels


def left_out(leaf: NDArray[Any], inbag: NDArray[np.bool_] | None) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Leaves of members that left the row out of their bags, and which members did; None where all may vote.

    Where the trees of each class have bags of their own (XGBoost), so few members have left a row out with all of their
    trees that hardly any vote would remain. But such trees are drawn independently, so that any trees that left the row
    out, one of each class, make as good a member as those of one iteration: the first of each vote together, then the
    second of each, as far as the class with the fewest goes.

    Parameters
    ----------
    leaf : ndarray of int, shape (n_rows, n_members, n_outputs)
        Leaves that the rows reach.
    inbag : ndarray of bool, shape (n_rows, n_members, n_outputs or 1), or None
        Whether the tree was trained on the row.

    Returns
    -------
    leaf : ndarray of int, shape (n_rows, n_members, n_outputs)
        Leaves, member by member.
    may_vote : ndarray of bool, shape (n_rows, n_members), or None
        Whether the member left the row out.
    """
    if inbag is None:
        return leaf, None
    if inbag.shape[2] == 1:
        return leaf, np.logical_not(inbag[:, :, 0])
    order = np.argsort(inbag.view(np.uint8), axis=1, kind="stable")
    complete = inbag.shape[1] - inbag.sum(axis=1).max(axis=1)
    return np.take_along_axis(leaf, order, axis=1), np.arange(inbag.shape[1]) < complete[:, None]


def counted(vote: NDArray[Any], n_classes: int, may_vote: NDArray[np.bool_] | None) -> NDArray[np.int32]:
    """Votes for each class, shape (rows, n_classes), of the members that may vote on the row."""
    counts = np.empty((len(vote), n_classes), dtype=np.int32)
    for index in range(1, n_classes):
        counts[:, index] = np.sum(vote == index, axis=1, where=True if may_vote is None else may_vote)
    asked = vote.shape[1] if may_vote is None else may_vote.sum(axis=1)
    counts[:, 0] = asked - counts[:, 1:].sum(axis=1)
    return counts


def proven_inbag(adapter: Adapter, X: Any, bags: Bags) -> NDArray[np.bool_]:
    """In-bag mask of shape (n_members, n_rows); raises `InbagError` where the proof fails."""
    mask = np.zeros((adapter.n_trees, matrix.n_rows(X)), dtype=np.bool_)
    proof = Proof(adapter, bags)
    for start, stop in matrix.blocks(mask.shape[1], adapter.leaves.offset.size, what="in-bag rows"):
        leaf = adapter.leaf_index(matrix.take(X, start, stop)) + adapter.leaves.offset
        mask[:, start:stop] = proof.add(start, stop, leaf).any(axis=2).T
    proof.conclude()
    return mask


class Proof:
    """Compares, leaf by leaf, the rows of the rebuilt bags with what the model stored at training."""

    def __init__(self, adapter: Adapter, bags: Bags) -> None:
        self._adapter = adapter
        self._bags = bags
        self._rebuilt = np.zeros(len(adapter.leaves.score))

    def add(self, start: int, stop: int, leaf: NDArray[Any]) -> NDArray[np.bool_]:
        """Count a block of rows by leaf and return its in-bag mask."""
        inbag = self._bags.take(start, stop)
        if not self._bags.need_proof:
            return inbag
        seen = np.broadcast_to(inbag, leaf.shape)
        mass = np.broadcast_to(self._bags.row_mass(start, stop), leaf.shape)
        self._rebuilt += np.bincount(leaf[seen], weights=mass[seen], minlength=self._rebuilt.size)
        return inbag

    def conclude(self) -> None:
        if not self._bags.need_proof:
            return
        leaves = self._adapter.leaves
        if not leaves.provable.any():
            raise InbagError(
                "no tree has more than one leaf, so no leaf count can prove which rows were in the bags; give "
                "validation rows instead of oob=True"
            )
        wrong = self._bags.contradicted(leaves, self._rebuilt) & leaves.provable
        if wrong.any():
            trees = np.unique(leaves.tree_of_leaf()[wrong])
            first = int(trees[0]) // leaves.offset.shape[1]
            raise InbagError(
                f"the in-bag rows could not be proven: in {trees.size} of {leaves.offset.size} trees, the first of "
                f"them tree {first}, the rebuilt bag does not match the leaf counts that {self._adapter.framework} "
                f"stored. {self._bags.advice} Otherwise give validation rows and leave oob=False"
            )
