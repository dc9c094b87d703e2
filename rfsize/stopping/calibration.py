"""Stop tables calibrated on rows: one number, as bold as an exact bound on these rows allows.

See `rfsize.stopping.table.StopTable.calibrate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.stopping.certificate import Certificate, ClassCounts, boldest, check_rows
from rfsize.stopping.learning import best_shape
from rfsize.stopping.scoring import TreesOnRows
from rfsize.stopping.spread import PRIOR_TREES, TREES_BETWEEN_LOOKS, SpreadStops
from rfsize.stopping.stops import AverageStops, VoteStops, running_leads
from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.links import Link

# Rules tried: consecutive limits are within 1 %.
_RULES = 2048

# The boldest limit, relative to the width of the scores: less than any forest's rows scatter by.
_BOLDEST = 1e-5

# Rows from which on a part of them is learned on, of that part the most, and the leads that are held for it.
_ROWS_TO_LEARN, _MOST_LEARNING_ROWS = 10_000, 5000
_LEADS_HELD, _LEARNS_ONE_IN = 1 << 23, 3

# Limits of the spread that are tried, relative to the tolerance, and one row in how many tells the pooled spread.
_LIMITS_OF_SPREAD = 1e-3, 1e2
_ROWS_PER_POOL = 10


@dataclass(frozen=True)
class Wanted:
    """What a table is to keep.

    Attributes
    ----------
    alpha, confidence : float
    average : {"micro", "macro"}
    forest : str or None
        `Adapter.digest` of the forest.
    """

    alpha: float
    confidence: float
    average: str
    forest: str | None = None


@dataclass(frozen=True, eq=False)
class Tallies:
    """What rules, from cautious to bold, do on rows.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_classes,)
        By the class that all trees give.
    differing, trees : ndarray of int64, shape (n_classes, n_rules)
        Rows answered otherwise, and trees asked for all rows.
    """

    rows: Int64s
    differing: Int64s
    trees: Int64s

    @classmethod
    def nothing(cls, n_classes: int, n_rules: int) -> Tallies:
        """Of no rows."""
        differing, trees = np.zeros((2, n_classes, n_rules), dtype=np.int64)
        return cls(np.zeros(n_classes, dtype=np.int64), differing, trees)

    def __iadd__(self, other: Tallies) -> Tallies:
        for own, others in ((self.rows, other.rows), (self.differing, other.differing), (self.trees, other.trees)):
            own += others
        return self

    @classmethod
    def of(
        cls, evidence: Floats, differs: NDArray[np.bool_], group: Int64s, limits: Floats, scale: Floats, n_classes: int
    ) -> Tallies:
        """What rules do that stop a row where its evidence after t trees reaches limit · scale[t − 1].

        ``evidence`` and ``differs`` are of rows and trees, ``group`` the class that all trees give a row.
        """
        found = cls.nothing(n_classes, limits.size)
        found.rows[:] = np.bincount(group, minlength=n_classes)
        _core.count_stops(evidence, differs, group, limits, scale, found.differing, found.trees)
        return found

    def boldest(self, wanted: Wanted, labels: Sequence[Any]) -> int:
        """The boldest rule that is certified to keep what is wanted; −1 where none is."""
        check_rows(self.rows, labels, wanted.alpha, wanted.confidence, wanted.average)
        return boldest(self.differing, self.rows, wanted.alpha, wanted.confidence, wanted.average)

    def certificate(self, rule: int, wanted: Wanted) -> Certificate:
        """Of what one rule did."""
        counts = ClassCounts.of_sums(self.rows, self.differing[:, rule], self.trees[:, rule])
        return Certificate(counts, wanted.confidence, wanted.average, wanted.forest)


def average_stops(trees: TreesOnRows, wanted: Wanted, labels: Sequence[Any]) -> tuple[AverageStops, Certificate]:
    """The boldest stops on averaged scores that are certified.

    Where rows are many, some of them tell how the lead that stops should fall, and the others certify.
    """
    every, plain = _learning_rows(trees), needed_leads(1.0, trees.adapter.n_trees)[1:]
    shape = _learned_shape(trees, wanted, every, plain) if every else plain
    limits, n_classes = _limits(trees, shape), len(labels)
    read = partial(_tallied_leads, cut=trees.cut, every=every, limits=limits, shape=shape, n_classes=n_classes)
    tallies = trees.added_up("scores", read, partial(Tallies.nothing, n_classes, limits.size))
    rule = max(0, tallies.boldest(wanted, labels))  # the first asks all trees about every row
    stops = AverageStops(np.concatenate([[np.inf], limits[rule] * shape]), trees.cut)
    return stops, tallies.certificate(rule, wanted)


def _one_in(every: int, place: Int64s) -> NDArray[np.bool_]:
    """Which rows are one in so many of all; none where that is 0."""
    return place % every == 0 if every else np.zeros(len(place), dtype=np.bool_)


def _tallied_leads(
    scores: NDArray[Any], place: Int64s, *, cut: float, every: int, limits: Floats, shape: Floats, n_classes: int
) -> Tallies:
    """What rules on the lead do, on all rows but those that were learned on."""
    lead, label = running_leads(scores[~_one_in(every, place)], cut)
    final = label[:, -1].astype(np.int64)
    return Tallies.of(lead, label != final[:, None], final, limits, shape, n_classes)


def _learning_rows(trees: TreesOnRows) -> int:
    """One row in how many is learned on; 0 where rows are few."""
    n_rows = trees.rows.n_rows
    if n_rows < _ROWS_TO_LEARN:
        return 0
    return max(_LEARNS_ONE_IN, -(-n_rows // _MOST_LEARNING_ROWS), -(-n_rows * trees.adapter.n_trees // _LEADS_HELD))


def _leads(scores: NDArray[Any], place: Int64s, *, cut: float, every: int) -> list[tuple[Floats, NDArray[np.int32]]]:
    """Leads and labels of one row in so many."""
    return [running_leads(scores[_one_in(every, place)], cut)]


def _learned_shape(trees: TreesOnRows, wanted: Wanted, every: int, plain: Floats) -> Floats:
    """The shape of leads that asks fewest trees on the rows to learn on."""
    blocks: list[tuple[Any, Any]] = trees.added_up("scores", partial(_leads, cut=trees.cut, every=every), list)
    lead, label = (np.concatenate(part) for part in zip(*blocks, strict=True))
    one, differs = np.zeros(len(lead), dtype=np.int64), label != label[:, -1:]

    def price(shape: Floats) -> float:
        tallies = Tallies.of(lead, differs, one, _limits(trees, shape), shape, 1)
        most = (1.0 - wanted.alpha) * len(lead)
        return float(tallies.trees[0, tallies.differing[0] <= most].min())

    return best_shape(lead, label, plain, price)


def spread_stops(
    trees: TreesOnRows, wanted: Wanted, labels: Sequence[Any], metric: str, tolerance: float
) -> tuple[SpreadStops, Certificate]:
    """The boldest stops on predicted numbers that are certified.

    One row in ten tells the pooled spread, and no more: the sequence of rules must not know the rows that it is tried
    on.
    """
    n_classes = trees.adapter.classes.size
    link = trees.adapter.link if metric == "probabilities" or not n_classes else Link("identity")
    cautious = SpreadStops(0.0, _pooled_spread(trees), PRIOR_TREES, TREES_BETWEEN_LOOKS, link, metric, tolerance)
    limits = np.concatenate([[0.0], tolerance * np.geomspace(*_LIMITS_OF_SPREAD, _RULES - 1)])
    read = partial(_tallied_spread, cautious=cautious, cut=trees.cut, n_classes=n_classes, limits=limits)
    tallies = trees.added_up("scores", read, partial(Tallies.nothing, len(labels), limits.size))
    rule = tallies.boldest(wanted, labels)
    if rule < 0:
        raise ValueError(
            f"even rows whose trees are all alike are off by more than tolerance={tolerance!r} too often for "
            f"alpha={wanted.alpha!r}: give a larger tolerance, more rows or a lower alpha"
        )
    return replace(cautious, limit=float(limits[rule])), tallies.certificate(rule, wanted)


def _tallied_spread(
    scores: NDArray[Any], place: Int64s, *, cautious: SpreadStops, cut: float, n_classes: int, limits: Floats
) -> Tallies:
    """What rules on the spread do, on all rows but those that told the pooled one."""
    with np.errstate(over="ignore", invalid="ignore"):  # of a link that is far from any row's scores
        left, mean = cautious.left_to_change(scores[~_one_in(_ROWS_PER_POOL, place)])
        predicted = cautious.predictions(mean, n_classes)
        differs = np.abs(predicted - predicted[:, -1:]).max(axis=2) > cautious.tolerance
    always = np.ones(scores.shape[1])
    return Tallies.of(-left, differs, _labels_of(mean[:, -1], cut, n_classes), -limits, always, max(1, n_classes))


def _pooled_spread(trees: TreesOnRows) -> Floats:
    """Standard deviation of the scores around each row's mean, of one row in ten, shape (n_scores,)."""
    squares = np.concatenate(trees.added_up("scores", _squares, list))
    return np.sqrt(squares.sum(axis=0) / max(len(squares) * (trees.adapter.n_trees - 1), 1))


def _squares(scores: NDArray[Any], place: Int64s) -> list[Floats]:
    """The squared distances of scores from their row's mean, of one row in ten.

    They are kept row by row: their sum would depend on where blocks of rows end, in its last bits.
    """
    given = scores[_one_in(_ROWS_PER_POOL, place)].astype(np.float64)
    mean = np.sum(given, axis=1, keepdims=True) / given.shape[1]
    return [np.sum((given - mean) ** 2, axis=1)]


def _labels_of(mean: Floats, cut: float, n_classes: int) -> Int64s:
    """Class that mean scores give, 0 where there are none."""
    if not n_classes:
        return np.zeros(len(mean), dtype=np.int64)
    return mean.argmax(axis=1) if mean.shape[1] > 1 else (mean[:, 0] > cut).astype(np.int64)


def needed_leads(limit: float, n_trees: int) -> Floats:
    """λ·√((T − t)/(tT)): leads that stop, in units in which what the trees left may change is alike for all t."""
    asked = np.arange(1, n_trees + 1)
    return np.concatenate([[np.inf], limit * np.sqrt((n_trees - asked) / (asked * n_trees))])


def _limits(trees: TreesOnRows, shape: Floats) -> Floats:
    """Factors of a shape from one that no lead reaches before the last tree to one that stops at once.

    They depend on the forest and the shape alone: limits chosen by the rows would be no fixed sequence.
    """
    raw, n_trees = trees.adapter.leaves.raw, trees.adapter.n_trees
    raw = raw[np.isfinite(raw)]  # nodes that are no leaves have none
    width = float(max(raw.max(), trees.cut) - min(raw.min(), trees.cut)) or 1.0
    highest = 1.01 * width / shape[-2] if n_trees > 1 else width
    return np.geomspace(highest, highest * _BOLDEST / n_trees, _RULES)


# Nominal disagreements of tables of votes that are tried, relative to 1 − α: four for each doubling.
_NOMINAL = 2.0 ** np.arange(-6.0, 6.75, 0.25)

# Votes that are held: of more rows × trees, evenly spaced rows.
_VOTES_HELD = 1 << 28
_BLOCK = 2_000_000


@dataclass(frozen=True, eq=False)
class VotesOnRows:
    """The vote of each tree on rows, and the majority of all.

    Attributes
    ----------
    votes : ndarray of unsigned int, shape (n, T)
    winner : ndarray of int64, shape (n,)
    n_classes : int
    """

    votes: NDArray[Any]
    winner: Int64s
    n_classes: int

    @classmethod
    def of(cls, trees: TreesOnRows) -> VotesOnRows:
        """Of a forest; of very many rows, of some from the first to the last."""
        n_rows, n_trees, n_classes = trees.rows.n_rows, trees.adapter.n_trees, trees.adapter.classes.size
        every = 1 + n_rows * n_trees // _VOTES_HELD
        read = partial(_some_votes, every=every, dtype=np.min_scalar_type(n_classes - 1))
        votes = np.concatenate(trees.added_up("votes", read, list))
        winner = np.concatenate([_majority(votes[rows], n_classes) for rows in _row_blocks(votes, n_classes)])
        return cls(votes, winner, n_classes)

    def parts(self, every: int) -> tuple[VotesOnRows, VotesOnRows]:
        """One row in so many, and the others."""
        one = np.arange(len(self.votes)) % every == 0
        first, others = (VotesOnRows(self.votes[some], self.winner[some], self.n_classes) for some in (one, ~one))
        return first, others

    def counts(self) -> NDArray[np.int64]:
        """Votes for each class, shape (n, n_classes)."""
        return np.stack([(self.votes == index).sum(axis=1) for index in range(self.n_classes)], axis=1)

    def outcome(self, stops: VoteStops) -> ClassCounts:
        """What stops do on these rows."""
        settled = [stops.settle(self.votes[rows], self.n_classes) for rows in _row_blocks(self.votes, 1)]
        labels, asked = (np.concatenate(part) for part in zip(*settled, strict=True))
        return ClassCounts.of(self.winner, labels != self.winner, asked, self.n_classes)


def _some_votes(votes: NDArray[Any], place: Int64s, *, every: int, dtype: np.dtype[Any]) -> list[NDArray[Any]]:
    """The votes on one row in so many, in few bytes."""
    return [votes[_one_in(every, place)].astype(dtype)]


def _row_blocks(votes: NDArray[Any], n_classes: int) -> list[slice]:
    step = max(1, _BLOCK // max(votes.shape[1], n_classes))
    return [slice(start, start + step) for start in range(0, max(len(votes), 1), step)]


def _majority(votes: NDArray[Any], n_classes: int) -> Int64s:
    """Class with the most votes, the lowest index where they tie."""
    place = np.arange(len(votes))[:, None] * n_classes + votes
    counts = np.bincount(place.ravel(), minlength=len(votes) * n_classes)
    return counts.reshape(len(votes), n_classes).argmax(axis=1)


def certified_votes(
    rows: VotesOnRows, wanted: Wanted, labels: Sequence[Any], build: Callable[[float], VoteStops]
) -> tuple[float, VoteStops, Certificate]:
    """The boldest stops on votes that are certified, of a sequence of nominal α, and the nominal α.

    The first is the lossless table, which is right about every row; each is built only if those before have passed.
    """
    sizes = np.bincount(rows.winner, minlength=rows.n_classes).astype(np.int64)
    check_rows(sizes, labels, wanted.alpha, wanted.confidence, wanted.average)
    nominal = [alpha for alpha in 1.0 - (1.0 - wanted.alpha) * _NOMINAL if alpha > 0.0]
    best, stops = 1.0, build(1.0)
    counts = rows.outcome(stops)
    for alpha in nominal:
        bolder = build(float(alpha))
        found = rows.outcome(bolder)
        differing = np.array(found.disagreements)[:, None]
        if boldest(differing, sizes, wanted.alpha, wanted.confidence, wanted.average) < 0:
            break
        best, stops, counts = float(alpha), bolder, found
    return best, stops, Certificate(counts, wanted.confidence, wanted.average, wanted.forest)
