"""Pictures of a report."""

from __future__ import annotations

import math
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rfsize.estimation.base import Margins
from rfsize.estimation.curves import between
from rfsize.exceptions import NotConvergedWarning
from rfsize.reporting.words import most_changed
from rfsize.sizing.words import in_percent
from rfsize.utils.plotting import (
    draw_shares,
    faint,
    finish,
    ink,
    label_counts,
    label_sparsely,
    new_axes,
    percent,
)
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.warn import Caution
from rfsize.utils.words import how_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.sizing.goals.base import Answer, Goal


class Sized(Protocol):
    """What the picture of a report reads."""

    @property
    def goal(self) -> Goal: ...
    @property
    def answer(self) -> Answer: ...
    @property
    def n_trees(self) -> int | float: ...
    @property
    def available(self) -> int: ...
    @property
    def enough(self) -> bool: ...
    @property
    def interval(self) -> tuple[int | float, int | float]: ...
    @property
    def likely(self) -> str: ...
    @property
    def warnings(self) -> tuple[Caution, ...]: ...


_LINE = 70  # characters of a warning above a picture
_BINS = 25  # of the rows' distances from a tie
_SIZES, _INTERVALS = 60, 9  # at which losses are drawn, and their intervals


def plot_report(report: Sized, ax: Axes | None = None) -> Axes:
    """Draw the loss over the number of trees, and in a new figure what else tells of it; see `Report.plot`."""
    if ax is None:
        import matplotlib.pyplot as plt

        beside = report.answer.pictures()
        figure = plt.figure(figsize=(7.0 + 4.0 * len(beside), 4.8), layout="constrained")
        *others, ax = np.atleast_1d(figure.subplots(1, len(beside) + 1, width_ratios=(*(2 for _ in beside), 3)))
        for picture, other in zip(beside, others, strict=True):
            picture.draw(other)
    assert ax is not None
    _draw_loss(report, ax)
    _mark_size(report, ax)
    _finish(report, ax)
    return ax


def _draw_loss(report: Sized, ax: Axes) -> None:
    """The loss over the number of trees with its interval, and the level that T* reaches."""
    goal, answer, largest = report.goal, report.answer, _largest(report)
    sizes = _odd(np.geomspace(1.0, largest, _SIZES))
    losses = np.array([answer.value(int(size)) for size in sizes])
    ax.plot(sizes, losses, color="C0", label="expected loss" + ("" if losses.any() else ": 0"))
    some = _odd(np.geomspace(1.0, largest, _INTERVALS))
    found = [answer.loss(int(size)) for size in some]
    low, high = np.exp(between(sizes, some, np.log(np.maximum(np.array([one.interval for one in found]).T, 1e-12))))
    ax.fill_between(
        sizes,
        low,
        high,
        color="C0",
        alpha=0.15,
        linewidth=0.0,
        label="95 % interval of the loss",
    )
    if found[0].spread is not None:
        spread = [float(one.spread or 0.0) for one in found]
        ax.plot(some, spread, **faint(ax, "--"), label="from seed to seed (standard deviation)")
    if answer.measured:
        ax.plot(*np.array(answer.measured).T, "o", color="C2", label="quarters and halves of the trees", zorder=4)
    level = in_percent(goal.level) if goal.is_share else f"{goal.level:g}"
    ax.axhline(goal.level, **faint(ax, ":"), label=f"asked for: {level}")
    ax.set_ylabel(goal.axis)
    if losses.any():
        ax.set_yscale("log")
        lowest = min(losses[losses > 0.0].min(), goal.level)
        ax.set_ylim(0.5 * lowest, 2.0 * max(losses.max(), goal.level))
        label_sparsely(ax.yaxis, percent if goal.is_share else lambda off: f"{off:g}")


def _odd(sizes: Floats) -> Int64s:
    """Odd sizes near these: a majority of an even number of votes may be a tie."""
    return np.unique(2 * (sizes // 2).astype(np.int64) + 1)


def draw_margins(margins: Margins, ax: Axes) -> None:
    """Rows by their distance from a tie: those next to it are what large forests still change."""
    edges = np.linspace(min(margins.tie, margins.most), max(margins.tie, margins.most), _BINS + 1)
    values = np.clip(margins.values, edges[0], edges[-1])
    shares, _ = np.histogram(values, bins=edges, weights=margins.rows / margins.rows.sum())
    ax.stairs(shares, edges, fill=True, color="C0", alpha=0.35)
    ax.stairs(shares, edges, color="C0")
    ax.axvline(margins.tie, **faint(ax, "--"))
    ax.set_yscale("log")
    ax.set_xlim(margins.most, margins.tie)
    ax.set_xlabel(f"{margins.what}\n(ties at the right edge)")
    ax.set_ylabel(f"share of the rows, in {_BINS} bins")
    ax.set_title("How near to a tie the rows are")
    label_sparsely(ax.yaxis, percent)
    ax.grid(which="major", color=ink(ax), alpha=0.15)
    ax.set_axisbelow(True)


def draw_by_class(changed: dict[Any, float], level: float, n_trees: int, ax: Axes) -> None:
    """Shares of the labels that change, of the classes that change most, and what may change on average."""
    most, which = most_changed(changed, lambda of: changed[of])
    draw_shares(ax, most, [changed[of] for of in most], None, which)
    ax.axvline(level, **faint(ax, ":"), label=f"asked for: {in_percent(level)}")
    ax.set_xlim(right=max(ax.get_xlim()[1], 1.1 * level))
    ax.set_xlabel("labels that still change")
    ax.set_title(f"By class, with {how_many(n_trees, 'tree')}")
    finish(ax)


def _largest(report: Sized) -> float:
    """Trees up to which is drawn."""
    return 4.0 * max(size for size in (report.n_trees, *report.interval, report.available) if math.isfinite(size))


def _mark_size(report: Sized, ax: Axes) -> None:
    """T* with its interval, at the level that it is the smallest forest to reach, and the forest at hand."""
    if math.isfinite(report.n_trees):
        ends = np.minimum(report.interval, _largest(report))
        ax.errorbar(
            report.n_trees,
            report.goal.level,
            xerr=np.abs(ends - report.n_trees)[:, None],
            fmt="o",
            color="C3",
            capsize=4.0,
            label=f"T* {'at most' if report.answer.is_bound else '='} {report.n_trees:,}, 95 % interval",
            zorder=4,
            clip_on=False,
        )
    _mark_forest(ax, report.available, "your forest" if report.goal.confidence is None else "grown")


def _mark_forest(ax: Axes, n_trees: int, what: str = "your forest") -> None:
    """A line at the trees of the forest."""
    ax.axvline(n_trees, color="C1", linestyle="-.", label=f"{what}: {how_many(n_trees, 'tree')}")


def _finish(report: Sized, ax: Axes) -> None:
    """Title, logarithmic axis of trees, grid and legend."""
    ax.set_xscale("log")
    ax.set_xlim(1.0, _largest(report))
    ax.set_xlabel("trees in the forest")
    title = f"The forest is {report.likely}{'large enough' if report.enough else 'too small'}"
    # Of a forest that is too small, the title says it.
    said = [f"! {one.text}" for one in report.warnings if one.category is not NotConvergedWarning]
    lines = [line for text in said for line in wrap(text, _LINE)]
    drawn = ax.set_title("\n".join([*lines, title]), parse_math=False)
    if lines:
        drawn.set_fontsize("medium")
    label_counts(ax.xaxis)
    finish(ax)


class Score(Protocol):
    """What the picture of a score reads, and its account."""

    @property
    def metric(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def at_all_trees(self) -> float: ...
    @property
    def interval(self) -> tuple[float, float]: ...
    @property
    def curve(self) -> tuple[Int64s, Floats]: ...
    @property
    def available(self) -> int: ...
    @property
    def votes_per_row(self) -> float: ...
    @property
    def source(self) -> str: ...
    @property
    def n_rows(self) -> int: ...


def plot_score(score: Score, ax: Axes | None = None) -> Axes:
    """Draw a score over the number of trees; see `OobScore.plot`."""
    if ax is None:
        ax = new_axes()
    sizes, values = score.curve
    ax.plot(sizes, values, color="C0", marker=".", label="out of bag, of the first trees")
    low, high = score.interval
    ax.errorbar(
        score.available,
        score.at_all_trees,
        yerr=np.abs(np.array([[low], [high]]) - score.at_all_trees),
        fmt="o",
        color="C3",
        capsize=4.0,
        label="all trees on fresh rows, 95 % interval",
        zorder=4,
        clip_on=False,
    )
    _mark_forest(ax, score.available)
    first = sizes[np.isfinite(values)].min(initial=score.available)  # the last has a value
    if first < 0.1 * score.available:
        ax.set_xscale("log")
    ax.set_xlim(first, score.available + 0.5 * (score.available - first) + 1)
    ax.set_xlabel("trees in the forest")
    ax.set_ylabel(score.metric)
    ax.set_title(f"Out of bag, {score.metric} is {score.value:.4g}")
    label_counts(ax.xaxis)
    finish(ax)
    return ax
