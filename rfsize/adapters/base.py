"""What rfsize asks of a model, whatever framework trained it.

An integration subclasses `Adapter` for its framework's models and `Bags` for its way of sampling rows;
counting votes and proving bags are then the same for all of them.
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

from rfsize.adapters.bags import Bags, Layout, WholeBags
from rfsize.adapters.columns import rows_for
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
"""What a model's own ``predict`` may give, see `Adapter.predict_gives`."""

# The class index that each member votes for by its answers, shape (rows, n_members).
Voter = Callable[[Answers], NDArray[Any]]


class VoteWeights(NamedTuple):
    """What the votes of members count.

    With all votes cast, a class scores the sum of the weights of the members that vote for it plus ``against`` times
    the weights of the others, over ``total``.

    Attributes
    ----------
    weight : ndarray of float64, shape (n_members,)
        By member, in the order in which the model sums them.
    against : float
        −1/(K − 1) in the boosting of K classes (SAMME), 0 in a plain vote.
    total : float
        What the scores are divided by.
    """

    weight: Floats
    against: float
    total: float


class Shrinking(NamedTuple):
    """What a learning rate other than 1 does to a forest.

    Attributes
    ----------
    caveat : str
        What is squeezed, what that does to sizes, and what to train with.
    keeps_labels_at : float or None
        Threshold at which labels are those of a learning rate of 1; None where there is none.
    """

    caveat: str
    keeps_labels_at: float | None


class Holder(NamedTuple):
    """The caller's model around a framework's forest.

    Attributes
    ----------
    kind : str
        Its type, for messages.
    around : callable
        Makes a new model of the caller's type of a smaller forest of the framework.
    table : StopTable or None
        By which the caller's model stops asking trees.
    threshold : float
        Probability of class 1 above which the caller's model says class 1.
    """

    kind: str
    around: Callable[[Any], Any]
    table: Any = None
    threshold: float = 0.5


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
    shrinking : Shrinking or None
        Where trees count less, or more, than what they learnt.
    predict_obeys : {"soft", "hard"}
        Whether the model's own ``predict`` goes by the averaged scores or the majority of the votes.
    are_trees : bool
        Whether the members are trees: these can be compiled, and their leaves prove the bags.
    vote_weights : VoteWeights or None
        Where members have weights: what each vote counts.
    holder : Holder or None
        The caller's own model, where the framework's is a part of it.
    is_shrunk : bool
        Whether its trees were chosen or changed to answer together as more trees do.
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
    spaces_become_underscores: ClassVar[bool] = False  # in the names that the framework stores
    reads_numbers_only: ClassVar[bool] = True  # and no text in arrays

    def leaf_index(self, X: Any) -> NDArray[Any]:
        """Leaf that each row of a block reaches, shape (rows, n_members, n_outputs), counted per tree."""
        raise NotAForestError(f"the members of this {self.framework} ensemble are no trees: rows reach no leaves")

    def answers(self, X: Any, inbag: Bools | None = None) -> Answers:
        """What the members answer on a block of rows.

        With ``inbag``, shape (rows, n_members, 1), members that saw a row need not be asked about it.
        """
        return Answers(self.leaf_index(X) + self.leaves.offset, self.leaves)

    @abstractmethod
    def truncated(self, n_trees: int) -> Any:
        """A new model of the caller's type, of the first ``n_trees`` members."""

    def held_by(self, holder: Holder, classes: NDArray[Any]) -> Adapter:
        """The same forest as the caller's model has it, whose labels stand for the classes in their order."""
        found = copy.copy(self)
        found.holder, found.classes = holder, classes
        return found

    def model_of_first(self, n_trees: int) -> Any:
        """A new model of the caller's type, of the first ``n_trees`` members."""
        return self._held(self.truncated(n_trees))

    def shrunk(self, members: Int64s, raw: NDArray[Any] | None = None) -> Any:
        """A new model of the caller's type of some members in this order, which says of itself that it is shrunk.

        ``raw``, of the shape of ``leaves.raw``, has other scores for their leaves.
        """
        return self._held(self.of_members(members, raw))

    def _held(self, forest: Any) -> Any:
        return forest if self.holder is None else self.holder.around(forest)

    @property
    def predict_gives(self) -> str:
        """What the model's own ``predict`` gives, one of `PREDICTIONS`.

        "labels" of classes; "class numbers", which are 0, 1, … as floats; "probabilities", of class 1 where one score
        tells two classes, else of every class; or the "numbers" of a regression.
        """
        return "labels" if self.classes.size else "numbers"

    # Capabilities that a framework may not have

    @property
    def refits(self) -> bool:
        """Whether leaves can be given any scores."""
        return True

    def as_stored(self, raw: Floats, n_members: int) -> NDArray[Any]:
        """The scores of leaves, of the shape of ``leaves.raw``, as a model of so many members can hold them."""
        return raw

    @property
    def n_bytes(self) -> int:
        """Bytes of the model as its framework saves it."""
        return len(pickle.dumps(self.booster))

    def of_members(self, members: Int64s, raw: NDArray[Any] | None) -> Any:
        """See `shrunk`; of the framework's model alone."""
        raise NotAForestError(
            f"rfsize cannot choose among the members of this {self.framework} ensemble: shrink a forest of trees, or "
            "cut this model with rfsize.truncate"
        )

    def bags(self, layout: Layout, y: Any, sample_weight: Any, seed: int | None, subsample: float | None) -> Bags:
        """The forest's bags over training rows that lay as ``layout`` tells, not yet proven.

        They are `LaidOutBags` where rows may have lain on several machines.
        """
        raise InbagError(
            f"rfsize does not know how {self.framework} draws its bags, so it cannot tell which rows are out of "
            "bag: give validation rows and leave oob=False"
        )

    def likely_bags(self, layout: Layout, y: Any, sample_weight: Any) -> Bags | None:
        """Bags that prove rows to be those of training, if they are; None where these were more or less, or none can.

        ``layout`` tells where the rows lay.

        Raises
        ------
        ValueError
            If labels or weights do not fit.
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
        bags.labels = None  # which leaves that were changed after training contradict
        return bags if bags.fit and bags.need_proof else None

    @property
    def mass_of_a_row(self) -> Floats:
        """What a training row adds to `Leaves.mass` of the trees of each output; NaN where that is not known."""
        return np.ones(self.leaves.offset.shape[1])

    @property
    def rows_in_bags(self) -> Floats:
        """Training rows in the bag of each tree that has several leaves, NaN where that is not known."""
        leaves = self.leaves
        count = np.where(leaves.provable, leaves.mass, 0.0) / self.mass_of_a_row[self._output_of_leaf]
        return np.rint(np.bincount(leaves.tree_of_leaf(), weights=count)[np.bincount(leaves.tree_of_leaf()) > 1])

    @property
    def _output_of_leaf(self) -> Int64s:
        return self.leaves.tree_of_leaf() % self.leaves.offset.shape[1]

    @property
    def digest(self) -> str | None:
        """By which the forest is told from others; None where it is not known."""
        return self.leaves.digest

    def tree_table(self, threshold: float) -> TreeTable:
        """The forest's trees, for compiling them; a two-class tree votes for class 1 above ``threshold``."""
        raise NotAForestError(f"rfsize cannot read the splits of {self.framework}'s trees, so it cannot compile them")

    @property
    def conventions(self) -> Conventions:
        """How the framework reads rows and turns scores into probabilities, for compiling its trees."""
        raise NotAForestError(f"rfsize does not know how {self.framework} reads rows, so it cannot compile its trees")

    def read_as_missing(self, missing: float) -> None:
        """Take a value of the rows for missing, besides NaN; only where the model does not keep which it was."""
        raise ValueError(
            f"missing={missing!r} is only for an xgboost.Booster, which does not store which value meant missing. "
            f"A model of {self.framework} knows it from the training: leave missing out"
        )

    def with_booster(self, booster: Any) -> Any:
        """A new model of the caller's type that holds ``booster``, a forest like this one of other trees."""
        return booster

    def training_data(self, X: Any, label: Int64s, sample_weight: Any) -> Any:
        """Rows that an estimator was fitted on, with class indices, as the framework's trainer takes them."""
        raise NotAForestError(
            f"rfsize cannot train more trees of {self.framework}; train a forest of another size, or truncate this one"
        )

    def check(self, X: Any) -> Any:
        """``X`` ready to be taken in blocks; raises ``ValueError`` where it does not fit the forest."""
        return rows_for(
            X,
            self.feature_names,
            self.n_features,
            spaces_become_underscores=self.spaces_become_underscores,
            numbers_only=self.reads_numbers_only,
        )

    def checked_threshold(self, threshold: float | None) -> float:
        """``threshold`` as a float, by default the model's own; raises ``ValueError`` where it does not apply."""
        if threshold is None:
            return 0.5 if self.holder is None else self.holder.threshold
        scores_each_class = self.leaves.offset.shape[1] > 1 or self.leaves.score.ndim > 1
        return checked_threshold(threshold, casts_votes=self.classes.size > 0, scores_each_class=scores_each_class)

    def obeyed_at(self, threshold: float) -> str:
        """`predict_obeys` of a model that says class 1 above ``threshold``."""
        return self.predict_obeys

    def cut(self, threshold: float) -> float:
        """Mean raw score above which averaged scores predict class 1; two classes only."""
        link = self.link
        return threshold if link.kind == "identity" else math.log(threshold / (1.0 - threshold)) / link.slope

    def voter(self, threshold: float) -> Voter:
        """What tells the class index that each member votes for by its answers; ties go to the lowest."""
        if self.leaves.offset.shape[1] > 1:
            return lambda answers: self.leaves.score[answers.leaf].argmax(axis=2)
        vote = self.leaf_votes(threshold)
        return lambda answers: vote[answers.leaf[:, :, 0]]

    def leaf_votes(self, threshold: float) -> NDArray[Any]:
        """Class index that each leaf votes for, shape (n_leaves,); empty where several trees vote together."""
        if self.leaves.score.ndim > 1:
            return self.leaves.score.argmax(axis=1)
        return self.leaves.score > threshold if self.leaves.offset.shape[1] == 1 else np.zeros(0)


def checked_threshold(threshold: float, *, casts_votes: bool, scores_each_class: bool) -> float:
    """``threshold`` as a float; raises ``ValueError`` where it is no probability or does not apply to a forest."""
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
    """Warnings of a forest whose trees are no independent draws."""
    return dependence(adapter.shared_bags, adapter.seed_dependence)


def dependence(shared_bags: str | None, seed_dependence: str | None) -> tuple[Caution, ...]:
    """The same, from what is said of it."""
    caveats = ((SharedBagsWarning, shared_bags), (SeedDependenceWarning, seed_dependence))
    return tuple(Caution(category, caveat) for category, caveat in caveats if caveat is not None)


def shrinking_of(adapter: Adapter, *, labels_at: float | None = None) -> tuple[Caution, ...]:
    """Warning of a learning rate that moves what is asked for: labels at a threshold, or without one, all else."""
    found = adapter.shrinking
    if found is None or (labels_at is not None and found.keeps_labels_at == labels_at):
        return ()
    return (Caution(ShrunkenScoresWarning, found.caveat),)
