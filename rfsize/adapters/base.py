"""The interface through which rfsize reads a model of any framework.

An integration subclasses `Adapter` for its framework's models and `Bags` for its way of sampling rows.
All frameworks then share the code that counts votes and proves bags.
"""

from __future__ import annotations

import copy
import math
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.bags import FRESH_ROWS, Bags, Layout, WholeBags
from rfsize.adapters.columns import Categorical, Columns, rows_for
from rfsize.adapters.leaves import Answers, Leaves
from rfsize.adapters.trees import Conventions, TreeTable
from rfsize.exceptions import (
    InbagError,
    NotAForestError,
    SeedDependenceWarning,
    SharedBagsWarning,
    ShrunkenScoresWarning,
)
from rfsize.utils.typing import Bools, Floats, Int64s
from rfsize.utils.validation import share
from rfsize.utils.warn import Caution
from rfsize.voting.links import Link

PREDICTIONS = ("labels", "class numbers", "probabilities", "numbers")
"""Kinds of values that a model's own ``predict`` may return, see `Adapter.predict_gives`."""

# Takes the members' answers and returns the class index that each member votes for, shape (rows, n_members).
Voter = Callable[[Answers], NDArray[Any]]


class VoteWeights(NamedTuple):
    """The weight of each member's vote.

    The score of a class has two terms: the summed weights of the members that vote for the class, and ``against``
    times the summed weights of all other members. Their sum is divided by ``total``.

    Attributes
    ----------
    weight : ndarray of float64, shape (n_members,)
        Weight of each member, in the order in which the model sums them.
    against : float
        −1/(K − 1) for boosting with K classes (SAMME), 0 for a plain vote.
    total : float
        Divisor of the scores.
    """

    weight: Floats
    against: float
    total: float


class Shrinking(NamedTuple):
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


class Holder(NamedTuple):
    """The caller's model, which wraps a framework's forest.

    Attributes
    ----------
    kind : str
        Type of the caller's model, for messages.
    around : callable
        Wraps a smaller forest of the framework in a new model of the caller's type.
    threshold : float
        Probability of class 1 above which the caller's model predicts class 1.
    """

    kind: str
    around: Callable[[Any], Any]
    threshold: float = 0.5


class Adapter(ABC):
    """A forest of one framework.

    Attributes
    ----------
    n_trees : int
        Number of members that vote.
    n_features : int
        Number of columns the forest was trained on.
    feature_names : list of str or None
        Names of these columns; None if the forest was trained without names.
    classes : ndarray, shape (n_classes,)
        Class labels in the caller's encoding; empty for regression.
    leaves : Leaves
        Scores of all leaves, and their masses (training rows or summed hessians).
    link : Link
        Turns mean raw scores into what the framework predicts.
    booster
        The framework's own model that holds the trees.
    shared_bags : str or None
        If trees share bags: how they share them, how that changes T* (the sufficient ensemble size), and what to do.
    seed_dependence : str or None
        If the predictions depend on the seed even in a forest of unlimited size: why, and what to do.
    shrinking : Shrinking or None
        If a learning rate scales the trees' scores: the effect on the forest.
    predict_obeys : {"soft", "hard"}
        Whether the model's own ``predict`` uses the averaged scores ("soft") or the majority vote ("hard").
    are_trees : bool
        Whether the members are trees. Only trees can be compiled, and only their leaves prove the bags.
    vote_weights : VoteWeights or None
        Weights of the votes, if the members have weights.
    holder : Holder or None
        The caller's own model, if that model wraps the framework's model.
    is_shrunk : bool
        Whether the trees were chosen or changed so that together they predict like a larger forest.
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
    shrinking: Shrinking | None = None
    predict_obeys: str = "soft"
    are_trees: bool = True
    vote_weights: VoteWeights | None = None
    holder: Holder | None = None
    is_shrunk: bool = False
    spaces_become_underscores: ClassVar[bool] = False  # in stored feature names
    reads_numbers_only: ClassVar[bool] = True  # so arrays must hold no text

    def leaf_index(self, X: Any) -> NDArray[Any]:
        """Leaf number, within its tree, that each row of a block reaches, shape (rows, n_members, n_outputs)."""
        raise NotAForestError(f"the members of this {self.framework} ensemble are no trees: rows reach no leaves")

    def answers(self, X: Any, inbag: Bools | None = None) -> Answers:
        """The members' answers on a block of rows.

        ``inbag``, shape (rows, n_members, 1), marks the rows that a member was trained on. The member may skip them.
        """
        return Answers(self.leaf_index(X) + self.leaves.offset, self.leaves)

    @abstractmethod
    def truncated(self, n_trees: int) -> Any:
        """A new booster or estimator, like the one that was adapted, with the first ``n_trees`` members."""

    def held_by(self, holder: Holder, classes: NDArray[Any]) -> Adapter:
        """The same forest inside the caller's model; ``classes`` are that model's labels, in class order."""
        found = copy.copy(self)
        found.holder, found.classes = holder, classes
        return found

    def model_of_first(self, n_trees: int) -> Any:
        """A new model of the caller's type with the first ``n_trees`` members."""
        return self._held(self.truncated(n_trees))

    def shrunk(self, members: Int64s, raw: NDArray[Any] | None = None) -> Any:
        """A new model of the caller's type with these members, in this order, marked as shrunk.

        ``raw``, in the shape of ``leaves.raw``, replaces the scores of the leaves.
        """
        return self._held(self.of_members(members, raw))

    def _held(self, forest: Any) -> Any:
        return forest if self.holder is None else self.holder.around(forest)

    @property
    def predict_gives(self) -> str:
        """Kind of values that the model's own ``predict`` returns, one of `PREDICTIONS`.

        "labels" are class labels. "class numbers" are 0, 1, … as floats. "probabilities" are those of class 1 if one
        score decides between two classes, else those of every class. "numbers" are the predictions of a regression.
        """
        return "labels" if self.classes.size else "numbers"

    # Capabilities that a framework may lack

    @property
    def refits(self) -> bool:
        """Whether the leaves can take new scores of any value."""
        return True

    def as_stored(self, raw: Floats, n_members: int) -> NDArray[Any]:
        """Leaf scores, in the shape of ``leaves.raw``, as a model of ``n_members`` members can store them."""
        return raw

    @property
    def n_bytes(self) -> int:
        """Size in bytes of the model that the framework saves."""
        return len(pickle.dumps(self.booster))

    def of_members(self, members: Int64s, raw: NDArray[Any] | None) -> Any:
        """The framework's model with these members, see `shrunk`; the caller's model is not put around it."""
        raise NotAForestError(
            f"rfsize cannot choose among the members of this {self.framework} ensemble: shrink a forest of trees, or "
            "cut this model with rfsize.truncate"
        )

    def bags(self, layout: Layout, y: Any, sample_weight: Any, seed: int | None, subsample: float | None) -> Bags:
        """The forest's bags (the rows each tree was trained on), not yet proven, for training rows in this ``layout``.

        The result is a `LaidOutBags` if the framework can train on several machines.
        """
        raise InbagError(
            f"rfsize does not know how {self.framework} draws its bags, so it cannot tell which rows are out of "
            f"bag: take {FRESH_ROWS}"
        )

    def likely_bags(self, layout: Layout, y: Any, sample_weight: Any) -> Bags | None:
        """Bags that can prove that rows are the training rows; None if the number of rows differs or no proof exists.

        ``layout`` tells on which machine each row lay.

        Raises
        ------
        ValueError
            If labels or weights do not fit the rows.
        """
        if not self.are_trees:
            return None
        drawn, n_rows = self.rows_in_bags, layout.n_rows
        if drawn.size and (drawn == n_rows).all():
            return WholeBags(n_rows, self.n_trees, self.mass_of_a_row[self._output_of_leaf])
        try:
            bags = self.bags(layout, y, sample_weight, None, None)
        except InbagError:
            return None
        bags.labels = None  # they would contradict leaves that were changed after training
        return bags if bags.fit and bags.need_proof else None

    def leading_bags(self, n_rows: int) -> Bags | None:
        """Bags of the first ``n_rows`` training rows, or of fewer, if they can be drawn without all rows; else None."""
        return None

    @property
    def mass_of_a_row(self) -> Floats:
        """What a training row adds to `Leaves.mass`, for the trees of each output; NaN where that is not known."""
        return np.ones(self.leaves.offset.shape[1])

    @property
    def rows_in_bags(self) -> Floats:
        """Number of training rows in the bag of each tree that has several leaves; NaN where that is not known."""
        leaves = self.leaves
        count = np.where(leaves.provable, leaves.mass, 0.0) / self.mass_of_a_row[self._output_of_leaf]
        return np.rint(np.bincount(leaves.tree_of_leaf(), weights=count)[np.bincount(leaves.tree_of_leaf()) > 1])

    @property
    def _output_of_leaf(self) -> Int64s:
        return self.leaves.tree_of_leaf() % self.leaves.offset.shape[1]

    @property
    def digest(self) -> str | None:
        """Hash that identifies the forest; None if there is none."""
        return self.leaves.digest

    def tree_table(self, threshold: float) -> TreeTable:
        """The forest's trees, for compiling; a tree of a two-class forest votes for class 1 above ``threshold``."""
        raise NotAForestError(f"rfsize cannot read the splits of {self.framework}'s trees, so it cannot compile them")

    @property
    def conventions(self) -> Conventions:
        """How the framework reads rows and turns scores into probabilities; compiled trees do the same."""
        raise NotAForestError(f"rfsize does not know how {self.framework} reads rows, so it cannot compile its trees")

    def read_as_missing(self, missing: float) -> None:
        """Treat ``missing`` as a missing value, like NaN; only for models that do not store the value themselves."""
        raise ValueError(
            f"missing={missing!r} is only for an xgboost.Booster, which does not store which value meant missing. "
            f"A model of {self.framework} knows it from the training: leave missing out"
        )

    def with_booster(self, booster: Any) -> Any:
        """A new model of the caller's type that holds ``booster``, a forest like this one but with other trees."""
        return booster

    def training_data(self, X: Any, label: Int64s, sample_weight: Any) -> Any:
        """An estimator's training rows, with class indices as labels, in the form that the framework trains on."""
        raise NotAForestError(
            f"rfsize cannot train more trees of {self.framework}; train a forest of another size, or truncate this one"
        )

    def truth(self, y: Any) -> Any:
        """Labels as the framework reads them, which may be fewer than the user's; ``ValueError`` if rows have none."""
        return y

    def check(self, X: Any) -> Any:
        """``X`` in a form that can be read in blocks of rows; ``ValueError`` if ``X`` does not fit the forest."""
        return rows_for(X, self.columns, check=self.check)

    @property
    def columns(self) -> Columns:
        """The columns of training."""
        return Columns(
            self.feature_names,
            self.n_features,
            self.categorical,
            spaces_become_underscores=self.spaces_become_underscores,
            numbers_only=self.reads_numbers_only,
        )

    @property
    def categorical(self) -> Categorical | None:
        """The features that were categorical at training; None leaves it to the members what columns may hold."""
        return None

    def checked_threshold(self, threshold: float | None) -> float:
        """``threshold`` as a float, by default the model's own; ``ValueError`` if the forest cannot use a threshold."""
        if threshold is None:
            return 0.5 if self.holder is None else self.holder.threshold
        scores_each_class = self.leaves.offset.shape[1] > 1 or self.leaves.score.ndim > 1
        return checked_threshold(threshold, casts_votes=self.classes.size > 0, scores_each_class=scores_each_class)

    def obeyed_at(self, threshold: float) -> str:
        """`predict_obeys` if the model predicts class 1 above ``threshold``."""
        return self.predict_obeys

    def cut(self, threshold: float) -> float:
        """Mean raw score above which the averaged scores predict class 1; for two classes only."""
        link = self.link
        return threshold if link.kind == "identity" else math.log(threshold / (1.0 - threshold)) / link.slope

    def voter(self, threshold: float) -> Voter:
        """Function from the members' answers to the class index each votes for; ties go to the lowest index."""
        if self.leaves.offset.shape[1] > 1:
            return lambda answers: self.leaves.score[answers.leaf].argmax(axis=2)
        vote = self.leaf_votes(threshold)
        return lambda answers: vote[answers.leaf[:, :, 0]]

    def leaf_votes(self, threshold: float) -> NDArray[Any]:
        """Class index that each leaf votes for, shape (n_leaves,); empty if several trees cast one vote together."""
        if self.leaves.score.ndim > 1:
            return self.leaves.score.argmax(axis=1)
        return self.leaves.score > threshold if self.leaves.offset.shape[1] == 1 else np.zeros(0)


def checked_threshold(threshold: float, *, casts_votes: bool, scores_each_class: bool) -> float:
    """``threshold`` as a float; ``ValueError`` if it is no probability or the forest cannot use a threshold."""
    threshold = share("threshold", threshold)
    if threshold != 0.5 and not casts_votes:
        raise ValueError(
            f"threshold={threshold:g} decides labels, and the forest predicts numbers: leave threshold out"
        )
    if threshold != 0.5 and scores_each_class:
        raise ValueError(
            f"threshold={threshold:g} is for forests that predict the probability of one class. This forest has a "
            "score for each class, and a tree votes for the highest: leave threshold at 0.5"
        )
    return threshold


def dependence_of(adapter: Adapter) -> tuple[Caution, ...]:
    """Warnings about a forest whose trees are not independent draws."""
    return dependence(adapter.shared_bags, adapter.seed_dependence)


def dependence(shared_bags: str | None, seed_dependence: str | None) -> tuple[Caution, ...]:
    """Warnings with the texts of `Adapter.shared_bags` and `Adapter.seed_dependence`."""
    caveats = ((SharedBagsWarning, shared_bags), (SeedDependenceWarning, seed_dependence))
    return tuple(Caution(category, caveat) for category, caveat in caveats if caveat is not None)


def shrinking_of(adapter: Adapter, *, labels_at: float | None = None) -> tuple[Caution, ...]:
    """Warning about a learning rate; none if you ask only for labels and the labels at ``labels_at`` stay the same."""
    found = adapter.shrinking
    if found is None or (labels_at is not None and found.keeps_labels_at == labels_at):
        return ()
    return (Caution(ShrunkenScoresWarning, found.caveat),)
