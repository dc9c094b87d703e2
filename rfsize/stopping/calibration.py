"""Stop tables calibrated on rows: one number, as bold as an exact bound on these rows allows.

See `rfsize.stopping.table.StopTable.calibrate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.stopping.certificate import Certificate, ClassCounts, boldest, check_rows
from rfsize.stopping.learning import best_shape
from rfsize.stopping.scoring import Gathering, TreesOnRows
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
    certified : bool
        Whether the rows were not trained on, so that their number bounds what fresh rows do.
    forest : str or None
        `Adapter.digest` of the forest.
    """

    alpha: float
    confidence: float
    average: str
    certified: bool
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

    def add(self, other: Tallies) -> None:
        """Add those of other rows."""
        for own, others in ((self.rows, other.rows), (self.differing, other.differing), (self.trees, other.trees)):
            own += others

    def counts(self, rule: int) -> ClassCounts:
        """What one rule does."""
        return ClassCounts.of_sums(self.rows, self.differing[:, rule], self.trees[:, rule])

    def chosen(self, wanted: Wanted, labels: Sequence[Any]) -> int:
        """The boldest rule that keeps what is wanted; −1 where none does."""
        if wanted.certified:
            check_rows(self.rows, labels, wanted.alpha, wanted.confidence, wanted.average)
            return boldest(self.differing, self.rows, wanted.alpha, wanted.confidence, wanted.average)
        differing, rows = self.differing, self.rows
        if wanted.average == "micro":
            differing, rows = differing.sum(axis=0, keepdims=True), rows.sum(keepdims=True)
        kept = (differing <= (1.0 - wanted.alpha) * rows[:, None]).all(axis=0)
        return int(kept.size if kept.all() else np.argmin(kept)) - 1

    def evidence(self, rule: int, wanted: Wanted) -> dict[str, Any]:
        """The fields of a table that say what its rule did."""
        counts = self.counts(rule)
        if not wanted.certified:
            return {"counts": counts}
        return {"certificate": Certificate(counts, wanted.confidence, wanted.average, wanted.forest)}


def average_stops(trees: TreesOnRows, wanted: Wanted, labels: Sequence[Any]) -> tuple[AverageStops, dict[str, Any]]:
    """The boldest stops on averaged scores that keep what is wanted, and what they did.

    Where rows are many, some of them tell how the lead that stops should fall, and the others certify.
    """
    every, plain = _learning_rows(trees, wanted), needed_leads(1.0, trees.adapter.n_trees)[1:]
    shape = _learned_shape(trees, wanted, every, plain) if every else plain
    limits = _limits(trees, shape)
    tallies, scale = Tallies.nothing(len(labels), limits.size), shape if wanted.certified else np.zeros(0)
    trees.scores(_LeadsTallied(trees.cut, every, limits, scale, tallies))
    rule = max(0, tallies.chosen(wanted, labels))  # the first asks all trees about every row
    return AverageStops(np.concatenate([[np.inf], limits[rule] * shape]), trees.cut), tallies.evidence(rule, wanted)


@dataclass(eq=False)
class _LeadsTallied(Gathering):
    """What rules on the lead do, on all rows but one in so many, which was learned on."""

    cut: float
    every: int
    limits: Floats
    scale: Floats
    tallies: Tallies

    def __call__(self, scores: NDArray[Any], number: Int64s) -> None:
        mine, tallies = ~self.chosen(self.every, len(scores)), self.tallies
        lead, label = running_leads(scores[mine], self.cut)
        number = number[mine]
        final = label[np.arange(len(label)), number - 1].astype(np.int64)
        tallies.rows[:] += np.bincount(final, minlength=tallies.rows.size)
        differs = label != final[:, None]
        _core.count_stops(lead, differs, number, final, self.limits, self.scale, tallies.differing, tallies.trees)

    def add(self, other: _LeadsTallied) -> None:
        self.tallies.add(other.tallies)


def _learning_rows(trees: TreesOnRows, wanted: Wanted) -> int:
    """One row in how many is learned on; 0 where rows are few."""
    n_rows = trees.rows.n_rows
    if not wanted.certified or n_rows < _ROWS_TO_LEARN:
        return 0
    return max(_LEARNS_ONE_IN, -(-n_rows // _MOST_LEARNING_ROWS), -(-n_rows * trees.adapter.n_trees // _LEADS_HELD))


@dataclass(eq=False)
class _Leads(Gathering):
    """Leads and labels of one row in so many."""

    cut: float
    every: int
    blocks: list[tuple[Floats, NDArray[np.int32]]] = field(default_factory=list)

    def __call__(self, scores: NDArray[Any], _: Int64s) -> None:
        self.blocks.append(running_leads(scores[self.chosen(self.every, len(scores))], self.cut))

    def add(self, other: _Leads) -> None:
        self.blocks += other.blocks


def _learned_shape(trees: TreesOnRows, wanted: Wanted, every: int, plain: Floats) -> Floats:
    """The shape of leads that asks fewest trees on the rows to learn on."""
    leads = _Leads(trees.cut, every)
    trees.scores(leads)
    lead, label = (np.concatenate(part) for part in zip(*leads.blocks, strict=True))
    number, one = np.full(len(lead), trees.adapter.n_trees), np.zeros(len(lead), dtype=np.int64)
    differs = label != label[:, -1:]

    def price(shape: Floats) -> float:
        limits = _limits(trees, shape)
        tallies = Tallies.nothing(1, limits.size)
        _core.count_stops(lead, differs, number, one, limits, shape, tallies.differing, tallies.trees)
        most = (1.0 - wanted.alpha) * len(lead)
        return float(tallies.trees[0, tallies.differing[0] <= most].min())

    return best_shape(lead, label, plain, price)


def spread_stops(
    trees: TreesOnRows, wanted: Wanted, labels: Sequence[Any], criterion: str, tolerance: float
) -> tuple[SpreadStops, dict[str, Any]]:
    """The boldest stops on predicted numbers that keep what is wanted, and what they did.

    One row in ten tells the pooled spread, and no more: the sequence of rules must not know the rows that it is tried
    on.
    """
    link = trees.adapter.link if criterion == "probability" or not trees.adapter.classes.size else Link("identity")
    cautious = SpreadStops(0.0, _pooled_spread(trees), PRIOR_TREES, TREES_BETWEEN_LOOKS, link, criterion, tolerance)
    limits = np.concatenate([[0.0], tolerance * np.geomspace(*_LIMITS_OF_SPREAD, _RULES - 1)])
    tallies = Tallies.nothing(len(labels), limits.size)
    trees.scores(_SpreadTallied(cautious, trees.cut, trees.adapter.classes.size, limits, tallies))
    rule = tallies.chosen(wanted, labels)
    if rule < 0:
        raise ValueError(
            f"even rows whose trees are all alike are off by more than tolerance={tolerance!r} too often for "
            f"alpha={wanted.alpha!r}: give a larger tolerance, more rows or a lower alpha"
        )
    return replace(cautious, limit=float(limits[rule])), tallies.evidence(rule, wanted)


@dataclass(eq=False)
class _SpreadTallied(Gathering):
    """What rules on the spread do, on all rows but those that told the pooled one."""

    cautious: SpreadStops
    cut: float
    n_classes: int
    limits: Floats
    tallies: Tallies

    def __call__(self, scores: NDArray[Any], number: Int64s) -> None:
        mine, cautious, tallies = ~self.chosen(_ROWS_PER_POOL, len(scores)), self.cautious, self.tallies
        scores, number = scores[mine], number[mine]
        with np.errstate(over="ignore", invalid="ignore"):  # of a link that is far from any row's scores
            left, mean = cautious.left_to_change(scores, number)
            last = np.arange(len(number)), number - 1
            predicted = cautious.predictions(mean, self.n_classes)
            differs = np.abs(predicted - predicted[last][:, None]).max(axis=2) > cautious.tolerance
        final = _labels_of(mean[last], self.cut, self.n_classes)
        tallies.rows[:] += np.bincount(final, minlength=tallies.rows.size)
        always = np.ones(scores.shape[1])
        _core.count_stops(-left, differs, number, final, -self.limits, always, tallies.differing, tallies.trees)

    def add(self, other: _SpreadTallied) -> None:
        self.tallies.add(other.tallies)


def _pooled_spread(trees: TreesOnRows) -> Floats:
    """Standard deviation of the scores around each row's mean, shape (n_scores,)."""
    pool = _Pool()
    trees.scores(pool)
    return np.sqrt(np.concatenate(pool.squares).sum(axis=0) / max(pool.degrees, 1))


@dataclass(eq=False)
class _Pool(Gathering):
    """The squared distances of scores from their row's mean, of one row in ten, and how many of them are free.

    They are kept row by row: their sum would depend on where blocks of rows end, in its last bits.
    """

    squares: list[Floats] = field(default_factory=list)
    degrees: int = 0

    def __call__(self, scores: NDArray[Any], number: Int64s) -> None:
        pool = self.chosen(_ROWS_PER_POOL, len(scores))
        given, n = scores[pool].astype(np.float64), number[pool][:, None, None]
        own = np.arange(given.shape[1])[:, None] < n
        mean = np.sum(given, axis=1, keepdims=True, where=own) / n
        self.squares.append(np.sum((given - mean) ** 2, axis=1, where=own))
        self.degrees += int((n - 1).sum())

    def add(self, other: _Pool) -> None:
        self.squares += other.squares
        self.degrees += other.degrees


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
        held = _HeldVotes(every, np.uint8 if n_classes <= 256 else np.uint16 if n_classes <= 65_536 else np.uint32)
        trees.votes(held)
        votes = np.concatenate(held.blocks)
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


@dataclass(eq=False)
class _HeldVotes(Gathering):
    """The votes on one row in so many, in few bytes."""

    every: int
    dtype: type[np.unsignedinteger[Any]]
    blocks: list[NDArray[Any]] = field(default_factory=list)

    def __call__(self, votes: NDArray[Any], _: Int64s) -> None:
        self.blocks.append(votes[self.chosen(self.every, len(votes))].astype(self.dtype))

    def add(self, other: _HeldVotes) -> None:
        self.blocks += other.blocks


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
