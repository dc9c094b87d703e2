"""Pictures of a stop table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rfsize.reporting.words import most_changed
from rfsize.stopping.certificate import Certificate, ClassCounts, bounds
from rfsize.stopping.spread import SpreadStops
from rfsize.stopping.stops import (
    AverageStops,
    BinaryStops,
    LeaderStops,
    Stops,
    TernaryStops,
    WeightedStops,
    ternary_index,
)
from rfsize.utils.plotting import (
    draw_shares,
    faint,
    finish,
    label_counts,
    label_sparsely,
    new_axes,
    shortened,
)
from rfsize.utils.typing import Int64s
from rfsize.utils.words import how_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Table(Protocol):
    """What the picture of a stop table reads."""

    @property
    def n_trees(self) -> int: ...
    @property
    def alpha(self) -> float: ...
    @property
    def rule(self) -> str: ...
    @property
    def stops(self) -> Stops: ...
    @property
    def voting(self) -> str: ...
    @property
    def classes(self) -> tuple[Any, ...] | None: ...
    @property
    def counts(self) -> ClassCounts | None: ...
    @property
    def certificate(self) -> Certificate | None: ...
    def expected_trees(self) -> float: ...


# Of large forests not every number of trees is drawn: nobody could tell them apart.
_MOST_POINTS = 600


def plot_table(table: Table, ax: Axes | None = None) -> Axes:
    """Draw the votes at which voting stops, and what is certified; see `StopTable.plot`."""
    if ax is None and table.certificate is not None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(10.0, 4.8), layout="constrained")
        left, ax = figure.subplots(1, 2, width_ratios=(2, 3))
        draw_certificate(table, left)
    ax = new_axes() if ax is None else ax
    draw_stops(table, ax)
    return ax


def draw_certificate(table: Table, ax: Axes) -> None:
    """Rows that were answered unlike all trees up to what is certified of them, and what is allowed."""
    known = table.certificate
    assert known is not None
    counts = known.counts
    names = range(len(counts.rows)) if table.classes is None or len(counts.rows) == 1 else table.classes
    if known.average == "macro":
        found = [
            (name, differing / rows, float(bounds(np.array(differing), np.array(rows), known.confidence)))
            for name, differing, rows in zip(names, counts.disagreements, counts.rows, strict=True)
            if rows
        ]
    else:
        found = [("all rows", counts.disagreement, known.bound)]
    most, which = most_changed(found, lambda one: one[2])
    told, shares, ends = zip(*most, strict=True)
    ax.axvline(1.0 - table.alpha, **faint(ax, ":"), label=f"allowed: 1 − α = {1.0 - table.alpha:.3g}")
    draw_shares(ax, told, shares, ends, f"seen on {known.rows:,} rows, up to the bound ({known.confidence:.0%})")
    ax.set_xlim(right=max(ax.get_xlim()[1], 1.1 * (1.0 - table.alpha)))
    ax.set_xlabel("rows that differ from all trees")
    ax.set_title("What is certified" if known.average == "micro" else f"What is certified, {which}")
    finish(ax)


def draw_stops(table: Table, ax: Axes) -> None:
    """The votes, or scores, at which voting stops."""
    if isinstance(table.stops, BinaryStops):
        _draw_binary(table, table.stops, ax)
    elif isinstance(table.stops, TernaryStops):
        _draw_ternary(table, table.stops, ax)
    elif isinstance(table.stops, LeaderStops):
        _draw_leaders(table, table.stops, ax)
    elif isinstance(table.stops, WeightedStops):
        _draw_weighted(table.stops, ax)
    elif isinstance(table.stops, AverageStops):
        _draw_averages(table, table.stops, ax)
    else:
        _draw_spread(table, table.stops, ax)
    ax.set_title(f"When to stop voting: {table.rule} rule, α = {table.alpha!r}, {how_many(table.n_trees, 'tree')}")
    label_counts(ax.xaxis)
    if isinstance(table.stops, BinaryStops | TernaryStops | LeaderStops):
        label_counts(ax.yaxis)
    finish(ax)


def _numbers(first: int, last: int) -> Int64s:
    """Numbers of trees to draw at."""
    return np.unique(np.linspace(first, last, min(last - first + 1, _MOST_POINTS)).astype(np.int64))


def _classes(table: Table, n_classes: int) -> list[str]:
    """What to call the classes."""
    names = range(n_classes) if table.classes is None else table.classes
    return [f"class {shortened(name)}" for name in names]


def _draw_binary(table: Table, stops: BinaryStops, ax: Axes) -> None:
    asked = _numbers(0, table.n_trees)
    lower, upper = stops.lower[asked], stops.upper[asked]
    going = np.maximum(lower, 0), np.minimum(upper, asked)
    ax.fill_between(asked, *going, color="C0", alpha=0.15, linewidth=0.0, label="ask the next tree")
    can_1, can_0 = upper <= asked, lower >= 0
    class_0, class_1 = _classes(table, 2)
    ax.plot(asked[can_1], upper[can_1], color="C1", label=f"stop: {class_1}")
    ax.plot(asked[can_0], lower[can_0], color="C2", label=f"stop: {class_0}")
    ax.plot(asked, asked / 2.0, **faint(ax, ":"), label="half of the votes")
    _mark_expected(table, ax)
    ax.set_xlim(0, table.n_trees)
    ax.set_ylim(0, None)
    ax.set_xlabel("trees asked")
    ax.set_ylabel(f"votes for {class_1}", parse_math=False)


def _draw_ternary(table: Table, stops: TernaryStops, ax: Axes) -> None:
    """The leader's smallest stopping lead, over the ways in which the other two share the rest."""
    asked = np.arange(1, table.n_trees + 1)
    level, alone = (np.array([_smallest_lead(stops, t, share) for t in asked.tolist()]) for share in (0.5, 0.0))
    going = np.where(np.isnan(np.fmin(level, alone)), asked, np.fmin(level, alone))
    ax.fill_between(asked, 0.0, going, color="C0", alpha=0.15, linewidth=0.0, label="ask the next tree")
    ax.plot(asked, level, color="C1", label="stop: the other two share the rest")
    ax.plot(asked, alone, color="C2", label="stop: one of the others has no vote")
    _mark_expected(table, ax)
    ax.set_xlim(1, max(2, table.n_trees))
    ax.set_ylim(0, None)
    ax.set_xlabel("trees asked")
    ax.set_ylabel(f"lead of {_classes(table, 3)[0]} over the runner-up, votes", parse_math=False)


def _smallest_lead(stops: TernaryStops, asked: int, share: float) -> float:
    """Smallest lead of class 0 that stops, class 2 having ``share`` of the rivals' votes; NaN where none does."""
    for n_0 in range((asked + 2) // 3, asked + 1):
        n_2 = int(share * (asked - n_0))
        n_1 = asked - n_0 - n_2
        if n_0 >= n_1 and stops.decision[ternary_index(asked, n_0, n_1)] == 0:
            return float(n_0 - n_1)
    return math.nan


def _draw_leaders(table: Table, stops: LeaderStops, ax: Axes) -> None:
    both = _numbers(0, table.n_trees)
    upper = stops.upper[both]
    can = upper <= both
    going = both / 2.0, np.minimum(upper, both)
    ax.fill_between(both, *going, color="C0", alpha=0.15, linewidth=0.0, label="ask the next tree")
    ax.plot(both[can], upper[can], color="C1", label="stop: the leader wins")
    ax.plot(both, both / 2.0, **faint(ax, ":"), label="both level")
    ax.plot([], [], " ", label=f"measured: {table.expected_trees():,.1f} trees per row")
    ax.set_xlim(0, table.n_trees)
    ax.set_ylim(0, None)
    ax.set_xlabel("votes of the two leading classes")
    ax.set_ylabel("votes of the leader")


def _draw_weighted(stops: WeightedStops, ax: Axes) -> None:
    """The lead that is needed as a share of all weight; no row has a lead larger than what it has asked."""
    asked = _numbers(0, stops.most_asked)
    needed = stops.needed[asked] / stops.needed[0]
    ax.fill_between(asked, 0.0, needed, color="C0", alpha=0.15, linewidth=0.0, label="ask the next member")
    ax.plot(asked, needed, color="C1", label="stop: the remaining weight cannot change the outcome")
    ax.plot(asked, 1.0 - needed, **faint(ax, ":"), label="lead where all agree")
    ax.set_xlim(0, stops.most_asked)
    ax.set_ylim(0.0, 1.0)
    ax.set_xlabel("members asked, the heaviest first")
    ax.set_ylabel("lead over the runner-up,\nshare of the weight")


def _draw_averages(table: Table, stops: AverageStops, ax: Axes) -> None:
    """Needed leads run from beyond any lead to 0: a logarithmic axis shows them."""
    asked = _numbers(1, table.n_trees - 1)
    needed = stops.needed[asked]
    if needed.any():
        ax.set_yscale("log")
        label_sparsely(ax.yaxis, lambda lead: f"{lead:g}")
    ax.plot(asked, needed, _style(asked), clip_on=False, color="C1", label="stop: the first class is so far ahead")
    lowest = needed[needed > 0.0].min(initial=1.0)
    ax.fill_between(asked, lowest, needed, color="C0", alpha=0.15, linewidth=0.0, label="ask the next tree")
    _mark_expected(table, ax)
    ax.set_xlim(1, max(2, table.n_trees))
    ax.set_xlabel("trees asked")
    ax.set_ylabel("lead in the mean score")


def _style(asked: Int64s) -> str:
    """A line, or a mark where there is only one number of trees to stop at."""
    return "o" if len(asked) == 1 else "-"


def _draw_spread(table: Table, stops: SpreadStops, ax: Axes) -> None:
    """How far the scores of the trees asked may spread, in units of what is predicted."""
    asked = _numbers(1, table.n_trees - 1)
    most = stops.limit / np.sqrt(1.0 / asked - 1.0 / table.n_trees)
    ax.plot(asked, most, _style(asked), clip_on=False, color="C1", label="stop: scores spread by no more")
    ax.fill_between(
        asked, most, most.max(initial=0.0), color="C0", alpha=0.15, linewidth=0.0, label="ask the next tree"
    )
    _mark_expected(table, ax)
    ax.set_xlim(1, max(2, table.n_trees))
    ax.set_ylim(0, None)
    ax.set_xlabel("trees asked")
    ax.set_ylabel(f"standard deviation of the trees,\nas {stops.metric}")


def _mark_expected(table: Table, ax: Axes) -> None:
    trees = table.expected_trees()
    how = "expected" if table.counts is None and table.voting == "hard" else "measured"
    ax.axvline(trees, **faint(ax, "--"), label=f"{how}: {trees:,.1f} trees per row")
    if table.certificate is not None:
        of = "" if table.certificate.average == "micro" else " of each class"
        ax.plot([], [], " ", label=f"certified: at most {table.certificate.bound:.2%}{of} differ")
