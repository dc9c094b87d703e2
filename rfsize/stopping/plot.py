"""The picture of a stop table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rfsize._util import how_many, in_percent
from rfsize.showing.plots import (
    draw_shares,
    faint,
    finish,
    label_counts,
    label_sparsely,
    new_axes,
    pyplot,
)
from rfsize.showing.text import most_changed, shortened
from rfsize.statistics.certify import Certificate, clopper_pearson
from rfsize.stopping.rules.base import Drawing, Stops
from rfsize.stopping.terms import Terms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More points than this cannot be told apart in a picture.
_MOST_POINTS = 600


def plot_table(
    terms: Terms, stops: Stops, certificate: Certificate | None, mean_trees: float, ax: Axes | None = None
) -> Axes:
    """Draw when rows stop, and the certificate; see `StopTable.plot`."""
    if ax is None and certificate is not None:
        figure = pyplot().figure(figsize=(10.0, 4.8), layout="constrained")
        left, ax = figure.subplots(1, 2, width_ratios=(2, 3))
        _draw_certificate(terms, certificate, left)
    ax = new_axes() if ax is None else ax
    drawing = stops.drawing(terms.n_trees, [f"class {shortened(name)}" for name in terms.class_labels])
    _draw(drawing, ax)
    if not math.isnan(mean_trees):
        _mark_mean_trees(mean_trees, certificate, ax, on_axis=drawing.of_trees)
    ax.set_title(f"When to stop voting: α = {terms.alpha!r}, {how_many(terms.n_trees, 'tree')}")
    label_counts(ax.xaxis)
    if stops.voting == "hard" and stops.counts_alike:
        label_counts(ax.yaxis)
    finish(ax)
    return ax


def _draw_certificate(terms: Terms, known: Certificate, ax: Axes) -> None:
    """Draw the share of rows that differ from all trees, its certified bound, and the share that α allows."""
    counts = known.counts
    if known.average == "macro":
        groups = [
            (name, differing / rows, float(clopper_pearson(np.array(differing), np.array(rows), known.confidence)))
            for name, differing, rows in zip(terms.class_labels, counts.disagreements, counts.rows, strict=True)
            if rows
        ]
    else:
        groups = [("all rows", counts.disagreement, known.bound)]
    most, which = most_changed(groups, lambda group: group[2])
    shown, shares, ends = zip(*most, strict=True)
    ax.axvline(1.0 - terms.alpha, **faint(ax, ":"), label=f"allowed: 1 − α = {1.0 - terms.alpha:.3g}")
    seen = f"seen on {known.rows:,} rows, up to the bound ({in_percent(known.confidence)})"
    draw_shares(ax, shown, shares, ends, seen)
    ax.set_xlim(right=max(ax.get_xlim()[1], 1.1 * (1.0 - terms.alpha)))
    ax.set_xlabel("rows that differ from all trees")
    ax.set_title("What is certified" if known.average == "micro" else f"What is certified, {which}")
    finish(ax)


def _draw(drawing: Drawing, ax: Axes) -> None:
    points = np.unique(np.linspace(0, len(drawing.over) - 1, min(len(drawing.over), _MOST_POINTS)).astype(np.int64))
    over, (low, high) = drawing.over[points], drawing.going
    ax.fill_between(over, low[points], high[points], color="C0", alpha=0.15, linewidth=0.0, label="ask the next tree")
    for label, curve in drawing.stops.items():
        color = "C1" if len(ax.lines) == 0 else "C2"
        ax.plot(over, curve[points], "o" if len(over) == 1 else "-", clip_on=False, color=color, label=label)
    if drawing.aside is not None:
        label, curve = drawing.aside
        ax.plot(over, curve[points], **faint(ax, ":"), label=label)
    if drawing.is_logarithmic:
        ax.set_yscale("log")
        label_sparsely(ax.yaxis, lambda lead: f"{lead:g}")
    else:
        ax.set_ylim(0.0, drawing.highest)
    if len(over):
        ax.set_xlim(over[0], max(over[0] + 1, over[-1]))
    ax.set_xlabel(drawing.xlabel)
    ax.set_ylabel(drawing.ylabel, parse_math=False)


def _mark_mean_trees(trees: float, certificate: Certificate | None, ax: Axes, *, on_axis: bool) -> None:
    label = f"{'expected' if certificate is None else 'measured'}: {trees:,.1f} trees per row"
    if on_axis:
        ax.axvline(trees, **faint(ax, "--"), label=label)
    else:
        ax.plot([], [], " ", label=label)
    if certificate is not None:
        of = "" if certificate.average == "micro" else " of each class"
        ax.plot([], [], " ", label=f"certified: at most {in_percent(certificate.bound)}{of} differ")
