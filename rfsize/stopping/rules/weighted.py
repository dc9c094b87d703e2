"""Members with weights: rows stop when the remaining weight cannot change the label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize._util import Floats, Int64s
from rfsize.statistics.certify import ClassCounts, ClassOutcome
from rfsize.stopping.document import Fields, refuse
from rfsize.stopping.rules.base import Drawing
from rfsize.stopping.rules.votes import LabelsByVotes, VoteStops, ask_in_turn
from rfsize.stopping.terms import MAX_TREES, Terms
from rfsize.walking.c_text import array, part, real, smallest
from rfsize.walking.layout import PackedForest

MOST_WEIGHT = 1e300
"""The largest weight of a member, so that no sum of weights overflows."""

_ROUNDING = 1e-9  # allowed for a sum of weights, relative

_WEIGHTED = """    int leader, rival;
    double lead;
    two_leaders(votes, &leader, &rival);
    lead = votes[leader] - votes[rival];
    return lead > needed[asked] || (lead == needed[asked] && leader < rival) ? leader : -1;
"""

_WEIGH = """
/* The class of the largest weight of all members, added up in the model's own order. */
static int whole_label(const level *q)
{
    double of_class[CLASSES] = {0.0};
    int leader = 0;
    for (int own = 0; own < TREES; own++) {
        const int member = place_of[own], vote = vote_of(q, member);
        for (int k = 0; k < CLASSES; k++)
            of_class[k] += k == vote ? weight[member] : against[member];
    }
    for (int k = 0; k < CLASSES; k++) of_class[k] /= ALL_WEIGHT;
    for (int k = 1; k < CLASSES; k++)
        if (of_class[k] > of_class[leader]) leader = k;
    return leader;
}

static int label_of(const level *q, int *asked)
{
    tally votes[CLASSES] = {0.0};
    for (int member = 0; member < TREES; member++) {
        votes[vote_of(q, member)] += weight[member];
        *asked = member + 1;
        if (*asked >= FIRST_LOOK) {
            const int label = answer(*asked, votes);
            if (label >= 0) return label;
        }
    }
    return whole_label(q);
}
"""


@dataclass(frozen=True, eq=False)
class WeightedStops(VoteStops):
    """Ask the heaviest members first, and stop when the remaining weight cannot change the label.

    The score of a class is the total weight of the members that vote for it, plus ``against`` times the weight of
    the others, divided by ``total``. The highest score wins, and a tie goes to the lowest class index. Scores are
    summed in the order of the model and in double precision, so that labels equal those of
    ``AdaBoostClassifier.predict`` even if its rounding decides.

    Attributes
    ----------
    weights : ndarray of float, shape (T,)
        Weight of each member, at least 0. Members of weight 0 are never asked.
    against : float
        −1/(K − 1) in the boosting of K classes (SAMME, Zhu et al. 2009), 0 in a plain vote.
    total : float
        Divisor of the scores: the sum of the weights as the model rounds it. It is larger if the model also keeps
        weights of members that it lost.
    """

    kind = "weighted"
    stored = ("weights", "against", "total")
    counts_alike = False

    weights: Floats
    against: float
    total: float

    @classmethod
    def of(cls, weights: Floats, n_classes: int) -> WeightedStops:
        """Stops for checked weights. If all weights are equal, votes are counted, which does not round."""
        if np.ptp(weights[weights > 0.0]) == 0.0:
            return cls((weights > 0.0).astype(np.float64), 0.0, float(np.count_nonzero(weights)))
        return cls(weights, -1 / (n_classes - 1), float(weights.sum()))

    @cached_property
    def order(self) -> Int64s:
        """The order in which members are asked: by descending weight, then by index."""
        return np.argsort(-self.weights, kind="stable").astype(np.int64)

    @property
    def most_asked(self) -> int:
        """Number of members with a weight above 0."""
        return int(np.count_nonzero(self.weights))

    @cached_property
    def worth(self) -> Floats:
        """What a vote adds to its class, and to each other class; shape (2, T)."""
        return np.stack([self.weights, self.against * self.weights])

    @cached_property
    def needed(self) -> Floats:
        """Lead over the second class that settles a row after 0, …, T members: the remaining weight plus `slack`."""
        remaining = np.cumsum(self.weights[self.order][::-1])[::-1]
        return np.append(remaining, 0.0) + self.slack

    @cached_property
    def slack(self) -> float:
        """The most that rounding can change a lead.

        Let n weights sum to W, and u be the unit roundoff. The sums of two classes in the order of the model err by
        less than (2n + 1)uW together. The division by ``total`` hides differences of at most 2uW. The tallies in order
        of weight and the remaining weight err by less than (n + 2)uW. Together that is (3n + 5)uW; (4n + 16)uW also
        covers the terms of higher order, and the smallest normal number covers underflow. Weights that are multiples of
        1/4096 and not too large add up exactly.
        """
        if self.total <= 2.0**36 and not np.any(self.worth * 4096.0 % 1.0):
            return 0.0
        double = np.finfo(np.float64)
        return float((2 * self.weights.size + 8) * double.eps * self.weights.sum() + double.tiny)

    def answers_of_block(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        order = self.order[: self.most_asked]

        def settles(n_used: int, comes_first: NDArray[np.bool_], most: Floats, next_most: Floats) -> NDArray[np.bool_]:
            lead, needed = most - next_most, self.needed[n_used]
            return (lead > needed) | ((lead == needed) & comes_first)

        labels, n_used = ask_in_turn(outputs[:, order], self.weights[order], n_classes, settles)
        level = labels < 0
        labels[level] = self.winner(outputs[level], n_classes)
        return labels, n_used

    def winner(self, tree_votes: NDArray[Any], n_classes: int) -> Int64s:
        """Class with the highest score of all members, summed in the order of the model."""
        scores = np.zeros((len(tree_votes), n_classes))
        for member, (worth, against) in enumerate(self.worth.T):
            scores += np.where(tree_votes[:, member, None] == np.arange(n_classes), worth, against)
        return (scores / self.total).argmax(axis=1)

    def by_class(self, terms: Terms, seen: ClassCounts | None) -> list[ClassOutcome]:
        return [ClassOutcome(label, np.nan, 0.0, np.nan) for label in terms.class_labels]

    def to_dict(self) -> dict[str, Any]:
        return {"weights": self.weights.tolist(), "against": self.against, "total": self.total}

    @classmethod
    def from_fields(cls, fields: Fields, n_trees: int, n_classes: int) -> WeightedStops:
        weights = fields.numbers("weights", float, n_trees)
        against, total = fields.real("against"), fields.real("total")
        if not ((weights >= 0.0) & (weights <= MOST_WEIGHT)).all() or not weights.any():
            range_of_weights = f"{weights.min():g} to {weights.max():g}"
            refuse(f"weights must lie between 0 and {MOST_WEIGHT:g}, and not all be 0, found {range_of_weights}")
        least = weights.sum()
        if against not in (0.0, -1 / (n_classes - 1)):
            refuse(f"against must be 0 or -1/(number of classes - 1), found {against!r}")
        # The total may include lost members, but must not be so large that the scores underflow.
        if not 1.0 - _ROUNDING <= total / least <= 1e6:
            refuse(f"total must be at least the sum of the weights, {least:g}, and at most 1e6 of it, found {total:g}")
        return cls(weights, against, total)

    def terms(self, n_classes: int) -> Terms:
        """The terms of a table with these stops."""
        return Terms(self.weights.size, n_classes, 1.0)

    def on(self, forest: PackedForest, every: int = 1) -> LabelsByVotes:
        return _LabelsByWeights(self, forest, every)

    def native(self, every: int) -> _core.VoteStop:
        return _core.WeightedStop(self.weights[self.order], self.needed)

    def drawing(self, n_trees: int, classes: list[str]) -> Drawing:
        """The lead that stops a row, as a share of all weight, with the largest lead that a row can have."""
        n_used = np.arange(self.most_asked + 1)
        needed = self.needed[n_used] / self.needed[0]
        stops = {"stop: the remaining weight cannot change the outcome": needed}
        words = "members asked, the heaviest first", "lead over the runner-up,\nshare of the weight"
        return Drawing(n_used, (0.0 * needed, needed), stops, *words, ("lead where all agree", 1.0 - needed), 1.0)


@dataclass(frozen=True, eq=False)
class _LabelsByWeights(LabelsByVotes):
    """Weighted stops on rows of a forest, whose members lie in the order in which they are asked."""

    stops: WeightedStops

    @property
    def native(self) -> None:
        return None  # NumPy settles rows that the weights leave level

    def settle(self, rows: _core.Rows, answer: Int64s, n_used: Int64s) -> None:
        super().settle(rows, answer, n_used)
        level = np.flatnonzero(answer < 0)
        if level.size:
            votes = np.empty((level.size, self.forest.n_trees), dtype=np.int64)
            rows.take(level).cast(self.forest.alone, votes)
            in_own_order = np.empty_like(votes)
            in_own_order[:, self.stops.order] = votes
            answer[level] = self.stops.winner(in_own_order, len(self.forest.classes))

    def label_in_c(self) -> str:
        stops, n_trees = self.stops, self.forest.n_trees
        worth = stops.worth[:, stops.order]
        looks = 2.0 * stops.needed <= stops.needed[0]
        parts = [
            "typedef double tally;\n",
            f"enum {{ FIRST_LOOK = {int(looks.argmax()) if looks.any() else n_trees + 1} }};\n",
            f"static const double ALL_WEIGHT = {real(stops.total)};\n",
            array("weight", worth[0]),
            array("against", worth[1]),
            array("needed", stops.needed),
            array("place_of", np.argsort(stops.order), smallest(n_trees)),
            part("two_leaders"),
            part("answer_by_votes", body=_WEIGHTED),
        ]
        return "".join(parts) + _WEIGH


def checked_weights(weights: ArrayLike) -> Floats:
    """Check the weights of a vote, and return them as an array; ``ValueError`` if they are invalid."""
    given = np.asarray(weights)
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        raise ValueError(
            f"weights must be numbers, one per member: found shape {given.shape}, dtype {given.dtype}; give an array "
            "of shape (n_members,)"
        )
    if not 1 <= given.size <= MAX_TREES:
        raise ValueError(f"weights must be those of 1 to {MAX_TREES} members, found {given.size}")
    given = given.astype(np.float64)
    if not np.isfinite(given).all():
        raise ValueError("weights must be finite, found NaN or infinity; leave out members that have no weight")
    if (given < 0.0).any():
        raise ValueError(
            f"weights must be at least 0, found {given.min():g}: a member of negative weight votes against its own "
            "class; leave it out, or of two classes turn its votes and its sign round"
        )
    if not given.any():
        raise ValueError(
            "weights are all 0, so that there is no vote; for a plain majority use StopTable.build(n_trees, alpha=1)"
        )
    if given.max() > MOST_WEIGHT:
        raise ValueError(f"weights must be at most {MOST_WEIGHT:g}, found {given.max():g}; divide all of them by that")
    return given
