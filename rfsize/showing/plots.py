"""Pictures of reports, out-of-bag scores and importances."""

from __future__ import annotations

import math
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from rfsize._util import how_many, in_percent
from rfsize.showing.importance_text import importances_title
from rfsize.showing.plotting import (
    draw_shares,
    faint,
    finish,
    ink,
    label_counts,
    label_sparsely,
    new_axes,
    percent,
    shortened,
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
from rfsize.statistics.metrics import label_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.api.importance import Importances
    from rfsize.api.oob_score import OobScore
    from rfsize.api.report import Report

_LINE = 70  # characters of a warning above a picture
_SIZES = 60  # at which losses are drawn
_DRAWN = 40  # most columns of importances that a figure has room for


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


def plot_score(score: OobScore, ax: Axes | None) -> Axes:
    """Draw the curve over the number of trees, and the interval of the whole forest."""
    ax = new_axes() if ax is None else ax
    name, n_trees, (sizes, values) = label_of(score.metric), score.available, score.curve
    ax.plot(sizes, values, color="C0", marker=".", label="out of bag, of the first trees")
    ax.errorbar(
        n_trees,
        score.at_all_trees,
        yerr=np.abs(np.array(score.interval)[:, None] - score.at_all_trees),
        fmt="o",
        color="C3",
        capsize=4.0,
        label="all trees on fresh rows, 95 % interval",
        zorder=4,
        clip_on=False,
    )
    mark_forest(ax, n_trees)
    first = sizes[np.isfinite(values)].min(initial=n_trees)  # the last has a value
    if first < 0.1 * n_trees:
        ax.set_xscale("log")
    ax.set_xlim(first, n_trees + 0.5 * (n_trees - first) + 1)
    ax.set(xlabel="trees in the forest", ylabel=name, title=f"Out of bag, {name} is {score.value:.4g}")
    label_counts(ax.xaxis)
    finish(ax)
    return ax


def plot_importances(importances: Importances, ax: Axes | None) -> Axes:
    """Draw the importances as bars with their intervals; faint bars may be noise."""
    columns = importances.columns[:_DRAWN]
    if ax is None:
        ax = new_axes(height=1.6 + 0.22 * len(columns))
    place, value = np.arange(len(columns)), np.array([column.value for column in columns])
    is_noise = np.array([column.is_noise for column in columns])
    for mask, alpha, label in ((~is_noise, 0.9, "beyond noise"), (is_noise, 0.3, "may be noise")):
        if mask.any():
            ax.barh(place[mask], value[mask], color="C0", alpha=alpha, label=label)
    half_width = np.abs(np.array([column.interval for column in columns]).T - value)
    ax.errorbar(value, place, xerr=half_width, fmt="none", ecolor=ink(ax), elinewidth=1.0, label="95 % interval")
    ax.set_yticks(place, [shortened(column.name) for column in columns], parse_math=False)
    ax.margins(y=0.02)
    ax.invert_yaxis()
    ax.set_xlabel(f"loss of {label_of(importances.metric)} when the column is shuffled")
    ax.set_title(importances_title(importances))
    finish(ax)
    return ax
