"""Pictures of a report on the size of a forest."""

from __future__ import annotations

import math
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from rfsize._util import how_many, in_percent
from rfsize.showing.plotting import (
    draw_shares,
    faint,
    finish,
    ink,
    label_counts,
    label_sparsely,
    new_axes,
    percent,
)
from rfsize.showing.text import (
    agreement_axis,
    from_to,
    how_likely,
    how_many_are_enough,
    keeps_all,
    most_changed,
    sentence,
    shown_warnings,
)
from rfsize.statistics.certify import CertifiedCurve
from rfsize.statistics.curve import odd_sizes
from rfsize.statistics.labels import Distances

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.api.report import Report

_LINE = 70  # characters of a warning above a picture
_SIZES = 60  # at which losses are drawn


def plot_report(report: Report, ax: Axes | None = None) -> Axes:
    """Draw the agreement, or the loss, over the number of trees, below the warnings; see `Report.plot`."""
    ax = new_axes(height=4.8) if ax is None else ax
    draw_size(report, ax)
    lines = [line for warning in shown_warnings(report) for line in wrap(f"! {warning.text}", _LINE)]
    drawn = ax.set_title("\n".join([*lines, _title(report)]))
    drawn.set_parse_math(False)
    if lines:
        drawn.set_fontsize("medium")
    return ax


def draw_size(report: Report, ax: Axes) -> None:
    """Draw the same without title and warnings."""
    _draw_loss(report, ax)
    _mark_size(report, ax)
    ax.set_xscale("log")
    ax.set_xlim(1.0, max(2.0, _largest(report)))
    ax.set_xlabel("trees in the forest")
    label_counts(ax.xaxis)
    finish(ax)


def _draw_loss(report: Report, ax: Axes) -> None:
    """Draw the loss over the number of trees with its interval, and the level that T* reaches."""
    criterion, curve, details = report.criterion, report.estimate.curve, report.estimate.details
    sizes = odd_sizes(np.geomspace(1.0, _largest(report), _SIZES))
    if isinstance(curve, CertifiedCurve):
        known = curve.counts.sizes[curve.counts.sizes < report.available]  # with all trees the loss is 0
        sizes = known[np.isin(known, sizes)] if len(known) > _SIZES else known
    losses = np.array([curve.at(int(size)) for size in sizes])
    ax.plot(sizes, losses, color="C0", label=_curve(report) + ("" if losses.any() else ": 0"))
    intervals = np.array([curve.interval(int(size)) for size in sizes]).reshape(-1, 2)
    ax.fill_between(sizes, *intervals.T, color="C0", alpha=0.15, linewidth=0.0, label="its 95 % interval")
    if criterion.kind == "metric" and details is not None:
        spread = details.seed_sd / np.sqrt(sizes)
        ax.plot(sizes, spread, **faint(ax, "--"), label="from seed to seed (standard deviation)")
        ax.plot(*np.array(details.measured).T, "o", color="C2", label="quarters and halves of the trees", zorder=4)
    level = in_percent(1.0 - criterion.level) if criterion.is_share else f"{criterion.level:g}"
    ax.axhline(criterion.level, **faint(ax, ":"), label=f"asked for: {level}")
    ax.set_ylabel(agreement_axis(criterion))
    if losses.any():
        ax.set_yscale("log")
        lowest = min(losses[losses > 0.0].min(), criterion.level)
        ax.set_ylim(0.5 * lowest, 2.0 * max(losses.max(), criterion.level))
        label_sparsely(ax.yaxis, _agreement if criterion.is_share else lambda loss: f"{loss:g}")
    if criterion.is_share:
        ax.invert_yaxis()  # more rows agree higher up


def _curve(report: Report) -> str:
    """What the legend calls the curve."""
    if report.certificate is not None:
        return "rows that agree, seen"
    return "expected agreement" if report.criterion.is_share else "expected loss"


def _agreement(loss: float) -> str:
    """The tick label: for a share of rows that changes, the share that stays the same."""
    return in_percent(1.0 - loss)


def _largest(report: Report) -> float:
    """The largest number of trees on the axis."""
    if report.certificate is not None:
        return report.available
    return 4.0 * max(size for size in (report.n_trees, *report.interval, report.available) if math.isfinite(size))


def _mark_size(report: Report, ax: Axes) -> None:
    """Mark T* with its interval, at the level that it reaches, and the forest at hand."""
    if math.isfinite(report.n_trees):
        ends = np.minimum(report.interval, _largest(report))
        ax.errorbar(
            report.n_trees,
            report.criterion.level,
            xerr=np.abs(ends - report.n_trees)[:, None],
            fmt="o",
            color="C3",
            capsize=4.0,
            label=f"{_what_size(report)} {report.n_trees:,}, 95 % interval",
            zorder=4,
            clip_on=False,
        )
        _write_size(report, ax)
    mark_forest(ax, report.available, "grown" if report.criterion.is_training else "your forest")


def _write_size(report: Report, ax: Axes) -> None:
    """Write T* and its interval next to the mark, on the empty side of the curve."""
    text = f"{_what_size(report)} {report.n_trees:,}\n({from_to(report.interval)})"
    is_far = math.log(max(report.n_trees, 1)) > 0.6 * math.log(max(2.0, _largest(report)))
    is_up = is_far == report.criterion.is_share
    ax.annotate(
        text,
        (float(report.n_trees), report.criterion.level),
        (-7.0 if is_far else 7.0, 9.0 if is_up else -9.0),
        textcoords="offset points",
        ha="right" if is_far else "left",
        va="bottom" if is_up else "top",
        zorder=5,
    )


def _title(report: Report) -> str:
    """The title: the result; for a forest that is too small it is short, as the warnings say the rest."""
    if report.certificate is not None or keeps_all(report):
        return sentence(how_many_are_enough(report)).rstrip(".")
    return f"The forest is {how_likely(report)}{'large enough' if report.enough else 'too small'}"


def _what_size(report: Report) -> str:
    """What the size is, in a few words."""
    if report.certificate is not None:
        return "certified:"
    return "T* at most" if report.estimate.is_bound else "T* ="


def mark_forest(ax: Axes, n_trees: int, what: str = "your forest") -> None:
    """Draw a line at the number of trees of the forest."""
    ax.axvline(n_trees, color="C1", linestyle="-.", label=f"{what}: {how_many(n_trees, 'tree')}")


def draw_distances(distances: Distances, ax: Axes) -> None:
    """Draw the rows by their distance from a tie: large forests change only rows next to it."""
    edges, what = distances.edges, "vote fraction of the losing class"
    if not distances.of_votes:
        what = f"margin of the leading class, up to {edges[-1]:g}"
    ax.stairs(distances.shares, edges, fill=True, color="C0", alpha=0.35)
    ax.stairs(distances.shares, edges, color="C0")
    tie = edges[-1] if distances.of_votes else edges[0]
    ax.axvline(tie, **faint(ax, "--"))
    ax.set_yscale("log")
    ax.set_xlim(edges[0] + edges[-1] - tie, tie)
    ax.set_xlabel(f"{what}\n(ties at the right edge)")
    ax.set_ylabel(f"share of the rows, in {len(distances.shares)} bins")
    ax.set_title("How near to a tie the rows are")
    label_sparsely(ax.yaxis, percent)
    ax.grid(which="major", color=ink(ax), alpha=0.15)
    ax.set_axisbelow(True)


def draw_by_class(report: Report, ax: Axes) -> None:
    """Draw the share of labels that change, for the classes that change most, and the share that may on average."""
    n_trees, level = int(report.n_trees), report.criterion.level
    by_class = report.estimate.details.by_class
    most, which = most_changed(by_class, lambda label: by_class[label].at(n_trees))
    draw_shares(ax, most, [by_class[label].at(n_trees) for label in most], None, which)
    ax.axvline(level, **faint(ax, ":"), label=f"asked for: {in_percent(level)}")
    ax.set_xlim(right=max(ax.get_xlim()[1], 1.1 * level))
    ax.set_xlabel("labels that still change")
    ax.set_title(f"By class, with {how_many(n_trees, 'tree')}")
    finish(ax)
