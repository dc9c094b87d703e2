"""Pictures of a report."""

from __future__ import annotations

import math
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from rfsize._util import how_many, in_percent
from rfsize.estimation.intervals import between, odd_sizes
from rfsize.reporting.words import sentence
from rfsize.showing.plotting import faint, finish, label_counts, label_sparsely, new_axes
from rfsize.sizing.sentences import how_many_are_enough
from rfsize.sizing.sized_forest import SizedForest
from rfsize.sizing.words import from_to

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE = 70  # characters of a warning above a picture
_SIZES, _INTERVALS = 60, 9  # number of sizes at which losses, and their intervals, are drawn


def plot_report(report: SizedForest, ax: Axes | None = None) -> Axes:
    """Draw the agreement, or the loss, over the number of trees, below the warnings; see `Report.plot`."""
    ax = new_axes(height=4.8) if ax is None else ax
    draw_size(report, ax)
    _write_title(report, ax)
    return ax


def _write_title(report: SizedForest, ax: Axes) -> None:
    """Write the warnings and the result above the picture."""
    lines = [line for one in report._cautions for line in wrap(f"! {one.text}", _LINE)]
    drawn = ax.set_title("\n".join([*lines, _title(report)]))
    drawn.set_parse_math(False)
    if lines:
        drawn.set_fontsize("medium")


def draw_size(report: SizedForest, ax: Axes) -> None:
    """Draw the same without title and warnings."""
    _draw_loss(report, ax)
    _mark_size(report, ax)
    _finish(report, ax)


def _draw_loss(report: SizedForest, ax: Axes) -> None:
    """Draw the loss over the number of trees with its interval, and the level that T* reaches."""
    goal, answer, largest = report.goal, report._answer, _largest(report)
    if answer.largest is not None:
        largest = max(1, answer.largest - 1)  # with all trees the loss is 0
    sizes = odd_sizes(np.geomspace(1.0, largest, _SIZES))
    if answer.tried is not None:
        sizes = np.array([size for size in answer.tried if size <= largest])
    losses = np.array([answer.value(int(size)) for size in sizes])
    seen = _curve(report)
    ax.plot(sizes, losses, color="C0", label=seen + ("" if losses.any() else ": 0"))
    some = sizes if answer.largest is not None else odd_sizes(np.geomspace(1.0, largest, _INTERVALS))
    found = [answer.loss(int(size)) for size in some]
    low, high = np.exp(between(sizes, some, np.log(np.maximum(np.array([one.interval for one in found]).T, 1e-12))))
    ax.fill_between(
        sizes,
        low,
        high,
        color="C0",
        alpha=0.15,
        linewidth=0.0,
        label="its 95 % interval",
    )
    if found[0].spread is not None:
        spread = [float(one.spread or 0.0) for one in found]
        ax.plot(some, spread, **faint(ax, "--"), label="from seed to seed (standard deviation)")
    if answer.measured:
        ax.plot(*np.array(answer.measured).T, "o", color="C2", label="quarters and halves of the trees", zorder=4)
    level = in_percent(1.0 - goal.level) if goal.is_share else f"{goal.level:g}"
    ax.axhline(goal.level, **faint(ax, ":"), label=f"asked for: {level}")
    ax.set_ylabel(goal.agreement_axis)
    if losses.any():
        ax.set_yscale("log")
        lowest = min(losses[losses > 0.0].min(), goal.level)
        ax.set_ylim(0.5 * lowest, 2.0 * max(losses.max(), goal.level))
        label_sparsely(ax.yaxis, _agreement if goal.is_share else lambda off: f"{off:g}")
    if goal.is_share:
        ax.invert_yaxis()  # more rows agree higher up


def _curve(report: SizedForest) -> str:
    """What the legend calls the curve."""
    if report.certificate is not None:
        return "rows that agree, seen"
    return "expected agreement" if report.goal.is_share else "expected loss"


def _agreement(loss: float) -> str:
    """The tick label: for a share of rows that changes, the share that stays the same."""
    return in_percent(1.0 - loss)


def _largest(report: SizedForest) -> float:
    """The largest number of trees on the axis."""
    if report._answer.largest is not None:
        return report._answer.largest
    return 4.0 * max(size for size in (report.n_trees, *report.interval, report.available) if math.isfinite(size))


def _mark_size(report: SizedForest, ax: Axes) -> None:
    """Mark T* with its interval, at the level that it reaches, and the forest at hand."""
    if math.isfinite(report.n_trees):
        ends = np.minimum(report.interval, _largest(report))
        ax.errorbar(
            report.n_trees,
            report.goal.level,
            xerr=np.abs(ends - report.n_trees)[:, None],
            fmt="o",
            color="C3",
            capsize=4.0,
            label=f"{_of_size(report)} {report.n_trees:,}, 95 % interval",
            zorder=4,
            clip_on=False,
        )
        _write_size(report, ax)
    mark_forest(ax, report.available, "your forest" if report.goal.confidence is None else "grown")


def _write_size(report: SizedForest, ax: Axes) -> None:
    """Write T* and its interval next to the mark, on the empty side of the curve."""
    above = "over" if report.goal.is_share else "under"
    text = f"{_of_size(report)} {report.n_trees:,}\n({from_to(report.interval)})"
    is_far = math.log(max(report.n_trees, 1)) > 0.6 * math.log(max(2.0, _largest(report)))
    is_up = is_far == (above == "over")
    ax.annotate(
        text,
        (float(report.n_trees), report.goal.level),
        (-7.0 if is_far else 7.0, 9.0 if is_up else -9.0),
        textcoords="offset points",
        ha="right" if is_far else "left",
        va="bottom" if is_up else "top",
        zorder=5,
    )


def _title(report: SizedForest) -> str:
    """The title: the result; for a forest that is too small it is short, as the warnings say the rest."""
    if report.certificate is not None:
        return sentence(how_many_are_enough(report)).rstrip(".")
    return f"The forest is {report._likely}{'large enough' if report.enough else 'too small'}"


def _of_size(report: SizedForest) -> str:
    """What the size is, in a few words."""
    if report.certificate is not None:
        return "certified:"
    return "T* at most" if report._answer.is_bound else "T* ="


def mark_forest(ax: Axes, n_trees: int, what: str = "your forest") -> None:
    """Draw a line at the number of trees of the forest."""
    ax.axvline(n_trees, color="C1", linestyle="-.", label=f"{what}: {how_many(n_trees, 'tree')}")


def _finish(report: SizedForest, ax: Axes) -> None:
    """Set the logarithmic axis of trees, the grid and the legend."""
    ax.set_xscale("log")
    ax.set_xlim(1.0, max(2.0, _largest(report)))
    ax.set_xlabel("trees in the forest")
    label_counts(ax.xaxis)
    finish(ax)
