"""The account of a stop table, for its HTML page, and its pictures."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rfsize.certifying.certificate import Certificate, ClassOutcome, bounds
from rfsize.reporting.account import Account, Figure, Grid, Picture, Section
from rfsize.reporting.words import most_changed
from rfsize.stopping.rules.base import Drawing, Figures, Stops
from rfsize.stopping.terms import Terms
from rfsize.utils.plotting import draw_shares, faint, finish, label_counts, label_sparsely, new_axes, pyplot, shortened
from rfsize.utils.words import how_many, in_percent, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CODE = """# each row asks only as many trees as it needs
table = rfsize.StopTable.load("table.json")  # what table.save("table.json") wrote
fast = rfsize.compile(model, table)"""

# More points than this cannot be told apart in a picture.
_MOST_POINTS = 600

PROMISES = {
    "certified": "certified for this forest, with its trees in their order, on rows like those of the certificate",
    "expected": "expected on average over forests like this one",
}


class Shown(NamedTuple):
    """The parts of a stop table that its page and its pictures show."""

    terms: Terms
    stops: Stops
    certificate: Certificate | None
    figures: Figures
    by_class: list[ClassOutcome]


def table_account(table: Shown) -> Account:
    """The account of a stop table."""
    alike = table.stops.counts_alike
    return Account(
        title="Stop table",
        verdict=_verdict(table),
        figures=_figures(table) if alike else (),
        sections=(Section("", (), _pictures(table), _by_class(table)),),
        code=_CODE if alike else "",
        origin=_origin(table),
    )


def _verdict(table: Shown) -> str:
    if not table.stops.counts_alike:
        members = how_many(table.terms.n_trees, "weighted member")
        return f"Of {members}, rows ask as many as settle the outcome, and no label changes."
    asked = f"Rows ask {table.figures.trees:,.1f} of the {how_many(table.terms.n_trees, 'tree')} on average"
    other = table.stops.differs
    if table.certificate is None:
        return f"{asked}, and {in_percent(table.figures.disagreement)} of them are expected to {other}."
    of = "them" if table.certificate.average == "micro" else "each class's rows"
    sure = f"certified with {in_percent(table.certificate.confidence)} confidence"
    return f"{asked}, and at most {in_percent(table.certificate.bound)} of {of} {other}: {sure}."


def _figures(table: Shown) -> tuple[Figure, ...]:
    found = [Figure("trees asked per row", f"{table.figures.trees:,.1f}", f"of {table.terms.n_trees:,}")]
    if table.certificate is None:
        return (*found, Figure("rows that differ", in_percent(table.figures.disagreement), "expected"))
    known = table.certificate
    of = "" if known.average == "micro" else "of each class, "
    return (
        *found,
        Figure("rows that differed", f"{known.disagreements:,}", f"of {known.rows:,}"),
        Figure("certified: at most", in_percent(known.bound), f"{of}with {in_percent(known.confidence)} confidence"),
    )


def _pictures(table: Shown) -> tuple[Picture, ...]:
    stops = Picture("When a row stops asking trees", partial(draw_stops, table))
    if table.certificate is None:
        return (stops,)
    return stops, Picture("Rows that differ, and the certified bound", partial(draw_certificate, table))


def _by_class(table: Shown) -> tuple[Grid, ...]:
    known = [outcome for outcome in table.by_class if not math.isnan(outcome.trees)]
    if len(known) < 2:
        return ()
    most, title = most_changed(known, lambda outcome: outcome.disagreement)
    rows = tuple(
        (printable(one.label), in_percent(one.share), in_percent(one.disagreement), f"{one.trees:,.1f}") for one in most
    )
    return (Grid(("class", "share of the rows", "rows that differ", "trees asked"), rows, title=title.capitalize()),)


def _origin(table: Shown) -> tuple[tuple[str, str], ...]:
    by = "averaged scores" if table.stops.voting == "soft" else "votes"
    certificate = () if table.certificate is None else (("certificate", str(table.certificate)),)
    promise = PROMISES["expected" if table.certificate is None else "certified"]
    promised = "promise", "nothing changes" if table.terms.alpha == 1.0 else promise
    return (("rule", f"{table.terms.rule}, α = {table.terms.alpha!r}, {by}"), *certificate, promised)


def plot_table(table: Shown, ax: Axes | None = None) -> Axes:
    """Draw when rows stop, and the certificate; see `StopTable.plot`."""
    if ax is None and table.certificate is not None:
        figure = pyplot().figure(figsize=(10.0, 4.8), layout="constrained")
        left, ax = figure.subplots(1, 2, width_ratios=(2, 3))
        draw_certificate(table, left)
    ax = new_axes() if ax is None else ax
    draw_stops(table, ax)
    return ax


def draw_certificate(table: Shown, ax: Axes) -> None:
    """Draw the share of rows that differ from all trees, its certified bound, and the share that α allows."""
    known = table.certificate
    assert known is not None
    counts = known.counts
    if known.average == "macro":
        found = [
            (name, differing / rows, float(bounds(np.array(differing), np.array(rows), known.confidence)))
            for name, differing, rows in zip(table.terms.class_labels, counts.disagreements, counts.rows, strict=True)
            if rows
        ]
    else:
        found = [("all rows", counts.disagreement, known.bound)]
    most, which = most_changed(found, lambda one: one[2])
    shown, shares, ends = zip(*most, strict=True)
    ax.axvline(1.0 - table.terms.alpha, **faint(ax, ":"), label=f"allowed: 1 − α = {1.0 - table.terms.alpha:.3g}")
    seen = f"seen on {known.rows:,} rows, up to the bound ({in_percent(known.confidence)})"
    draw_shares(ax, shown, shares, ends, seen)
    ax.set_xlim(right=max(ax.get_xlim()[1], 1.1 * (1.0 - table.terms.alpha)))
    ax.set_xlabel("rows that differ from all trees")
    ax.set_title("What is certified" if known.average == "micro" else f"What is certified, {which}")
    finish(ax)


def draw_stops(table: Shown, ax: Axes) -> None:
    """Draw the votes or scores at which a row stops."""
    terms = table.terms
    found = table.stops.drawing(terms.n_trees, [f"class {shortened(name)}" for name in terms.class_labels])
    _draw(found, ax)
    if table.stops.counts_alike:
        _mark_expected(table, ax, on_axis=found.of_trees)
    ax.set_title(f"When to stop voting: {terms.rule} rule, α = {terms.alpha!r}, {how_many(terms.n_trees, 'tree')}")
    label_counts(ax.xaxis)
    if table.stops.voting == "hard" and table.stops.counts_alike:
        label_counts(ax.yaxis)
    finish(ax)


def _draw(found: Drawing, ax: Axes) -> None:
    some = np.unique(np.linspace(0, len(found.over) - 1, min(len(found.over), _MOST_POINTS)).astype(np.int64))
    over, (low, high) = found.over[some], found.going
    ax.fill_between(over, low[some], high[some], color="C0", alpha=0.15, linewidth=0.0, label="ask the next tree")
    for label, curve in found.stops.items():
        color = "C1" if len(ax.lines) == 0 else "C2"
        ax.plot(over, curve[some], "o" if len(over) == 1 else "-", clip_on=False, color=color, label=label)
    if found.aside is not None:
        label, curve = found.aside
        ax.plot(over, curve[some], **faint(ax, ":"), label=label)
    if found.is_logarithmic:
        ax.set_yscale("log")
        label_sparsely(ax.yaxis, lambda lead: f"{lead:g}")
    else:
        ax.set_ylim(0.0, found.highest)
    if len(over):
        ax.set_xlim(over[0], max(over[0] + 1, over[-1]))
    ax.set_xlabel(found.xlabel)
    ax.set_ylabel(found.ylabel, parse_math=False)


def _mark_expected(table: Shown, ax: Axes, *, on_axis: bool) -> None:
    trees = table.figures.trees
    label = f"{'expected' if table.stops.is_computed else 'measured'}: {trees:,.1f} trees per row"
    if on_axis:
        ax.axvline(trees, **faint(ax, "--"), label=label)
    else:
        ax.plot([], [], " ", label=label)
    if table.certificate is not None:
        of = "" if table.certificate.average == "micro" else " of each class"
        ax.plot([], [], " ", label=f"certified: at most {in_percent(table.certificate.bound)}{of} differ")
