"""The picture of a stop table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rfsize._util import how_many, in_percent
from rfsize.showing.plotting import (
    draw_shares,
    faint,
    finish,
    label_counts,
    label_sparsely,
    new_axes,
    pyplot,
    shortened,
)
from rfsize.showing.text import most_changed
from rfsize.statistics.certify import Certificate, clopper_pearson
from rfsize.stopping.rules import Curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.stopping.table import StopTable

# More points than this cannot be told apart in a picture.
_MOST_POINTS = 600


def plot_table(table: StopTable, ax: Axes | None = None) -> Axes:
    """Draw when rows stop, and the certificate; see `StopTable.plot`."""
    certificate = table.certificate
    if ax is None and certificate is not None:
        figure = pyplot().figure(figsize=(10.0, 4.8), layout="constrained")
        left, ax = figure.subplots(1, 2, width_ratios=(2, 3))
        _draw_certificate(table, certificate, left)
    ax = new_axes() if ax is None else ax
    curves = table.stops.curves(table.n_trees, [f"class {shortened(name)}" for name in table.class_labels])
    _draw(curves, ax)
    mean_trees = sum(outcome.share * outcome.trees for outcome in table.by_class() if outcome.share != 0.0)
    if not math.isnan(mean_trees):
        _mark_mean_trees(mean_trees, certificate, ax, on_axis=curves.of_trees)
    ax.set_title(f"When to stop voting: α = {table.alpha!r}, {how_many(table.n_trees, 'tree')}")
    label_counts(ax.xaxis)
    if curves.is_of_counts:
        label_counts(ax.yaxis)
    finish(ax)
    return ax


def _draw_certificate(table: StopTable, known: Certificate, ax: Axes) -> None:
    """Draw the share of rows that differ from all trees, its certified bound, and the share that α allows."""
    counts = known.counts
    if known.average == "macro":
        groups = [
            (name, differing / rows, float(clopper_pearson(np.array(differing), np.array(rows), known.confidence)))
            for name, differing, rows in zip(table.class_labels, counts.disagreements, counts.rows, strict=True)
            if rows
        ]
    else:
        groups = [("all rows", counts.disagreement, known.bound)]
    most, which = most_changed(groups, lambda group: group[2])
    shown, shares, ends = zip(*most, strict=True)
    ax.axvline(1.0 - table.alpha, **faint(ax, ":"), label=f"allowed: 1 − α = {1.0 - table.alpha:.3g}")
    seen = f"seen on {known.rows:,} rows, up to the bound ({in_percent(known.confidence)})"
    draw_shares(ax, shown, shares, ends, seen)
    ax.set_xlim(right=max(ax.get_xlim()[1], 1.1 * (1.0 - table.alpha)))
    ax.set_xlabel("rows that differ from all trees")
    ax.set_title("What is certified" if known.average == "micro" else f"What is certified, {which}")
    finish(ax)


def _draw(curves: Curves, ax: Axes) -> None:
    points = np.unique(np.linspace(0, len(curves.over) - 1, min(len(curves.over), _MOST_POINTS)).astype(np.int64))
    over, (low, high) = curves.over[points], curves.going
    ax.fill_between(over, low[points], high[points], color="C0", alpha=0.15, linewidth=0.0, label="ask the next tree")
    for label, curve in curves.stops.items():
        color = "C1" if len(ax.lines) == 0 else "C2"
        ax.plot(over, curve[points], "o" if len(over) == 1 else "-", clip_on=False, color=color, label=label)
    if curves.aside is not None:
        label, curve = curves.aside
        ax.plot(over, curve[points], **faint(ax, ":"), label=label)
    if curves.is_logarithmic:
        ax.set_yscale("log")
        label_sparsely(ax.yaxis, lambda lead: f"{lead:g}")
    else:
        ax.set_ylim(0.0, curves.top)
    if len(over):
        ax.set_xlim(over[0], max(over[0] + 1, over[-1]))
    ax.set_xlabel(curves.xlabel)
    ax.set_ylabel(curves.ylabel, parse_math=False)


def _mark_mean_trees(trees: float, certificate: Certificate | None, ax: Axes, *, on_axis: bool) -> None:
    label = f"{'expected' if certificate is None else 'measured'}: {trees:,.1f} trees per row"
    if on_axis:
        ax.axvline(trees, **faint(ax, "--"), label=label)
    else:
        ax.plot([], [], " ", label=label)
    if certificate is not None:
        of = "" if certificate.average == "micro" else " of each class"
        ax.plot([], [], " ", label=f"certified: at most {in_percent(certificate.bound)}{of} differ")
