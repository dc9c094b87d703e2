"""rfsize.utils.plotting"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rfsize.stops import BinaryStops, LeaderStops, TernaryStops, WeightedStops, ternary_index
from rfsize.utils.plotting import _percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.baselines import BanfieldSize, McNemarSize
    from rfsize.deviation_report import DeviationReport
    from rfsize.report import SizeReport
    from rfsize.sampling import FractionSearch
    from rfsize.stop_table import StopTable


_FREE_CORNER: dict[str, Any] = {
    "binary": "upper left",
    "ternary": "lower center",
    "leaders": "upper left",
    "weighted": "upper right",
}


def plot_report(report: SizeReport, ax: Axes | None = None) -> Axes:
    """Draw how near to a tie the rows are, and disagreement over the number of trees; see `SizeReport.plot`."""
    import matplotlib.pyplot as plt

    if ax is None:
        figure = plt.figure(figsize=(10.0, 4.2), layout="constrained")
        left, ax = figure.subplots(1, 2, width_ratios=(2, 3))
        _draw_margins(report, left)
    _draw_disagreement(report, ax)
    return ax


# Bins of the rows' distances from a tie.
_BINS = 25


def _draw_margins(report: SizeReport, ax: Axes) -> None:
    """Rows by their distance from a tie: those next to it are what large forests still change."""
    from matplotlib.ticker import FuncFormatter

    margins = report.margins()
    edges = np.linspace(min(margins.tie, margins.most), max(margins.tie, margins.most), _BINS + 1)
    values = np.clip(margins.values, edges[0], edges[-1])
    shares, _ = np.histogram(values, bins=edges, weights=margins.rows / margins.rows.sum())
    ax.stairs(shares, edges, fill=True, color="C0", alpha=0.35)
    ax.stairs(shares, edges, color="C0")
    ax.axvline(margins.tie, color="0.2", linestyle="--", linewidth=1.0)
    ax.set_yscale("log")
    ax.set_xlim(margins.most, margins.tie)
    ax.set_xlabel(f"{margins.what}\n(ties at the right edge)")
    ax.set_ylabel(f"share of the rows, in {_BINS} bins")
    ax.set_title("How near to a tie the rows are")
    for axis_formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        axis_formatter(FuncFormatter(_percent))
    ax.grid(which="major", color="0.9")
    ax.set_axisbelow(True)


def _draw_disagreement(report: SizeReport, ax: Axes) -> None:
    """Disagreement over the number of trees with its interval and its law, T*(α), and the forest at hand."""
    from matplotlib.ticker import FuncFormatter

    known = [size for size in (report.n_trees, *report.interval, report.available) if math.isfinite(size)]
    largest = 4.0 * max(known)
    sizes = np.unique(2 * (np.geomspace(1.0, largest, 80) // 2).astype(int) + 1)
    differ = np.array([1.0 - report.agreement(int(size)) for size in sizes])
    ax.plot(sizes, differ, color="C0", label=f"mean disagreement, {report.voting} votes")
    curves = report.curves()
    low, high = np.quantile(curves.disagreement, (0.025, 0.975), axis=0)
    ax.fill_between(curves.sizes, low, high, color="C0", alpha=0.15, linewidth=0.0, label="95 % interval")
    settled = report.n_trees if math.isfinite(report.n_trees) else report.available
    law = (1.0 - report.agreement(int(settled))) * np.sqrt(settled / sizes)
    ax.plot(sizes, law, color="0.4", linewidth=1.0, linestyle="--", label="law of large forests, ∝ 1/√T")
    ax.axhline(1.0 - report.alpha, color="0.4", linewidth=1.0, linestyle=":", label=f"1 − α = {1.0 - report.alpha:.3g}")
    if math.isfinite(report.n_trees):
        ends = np.minimum(report.interval, largest)
        ax.errorbar(
            report.n_trees,
            1.0 - report.alpha,
            xerr=np.abs(ends - report.n_trees)[:, None],
            fmt="o",
            color="C3",
            capsize=4.0,
            label=f"T*({report.alpha!r}) = {report.n_trees:,}",
            zorder=4,
        )
    ax.axvline(report.available, color="C1", linestyle="-.", label=f"forest at hand: {report.available:,} trees")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(1.0, largest)
    ax.set_ylim(0.5 * min(differ[-1], 1.0 - report.alpha) + 1e-9, min(1.0, 2.0 * differ[0]))
    ax.set_xlabel("trees in the forest")
    ax.set_ylabel("rows that differ from the infinite forest")
    ax.set_title("The forest is large enough" if report.converged else "The forest is too small")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda trees, _: f"{trees:,.0f}"))
    for axis_formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        axis_formatter(FuncFormatter(_percent))
    ax.grid(which="major", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize="small", loc="lower left")


def plot_deviation(report: DeviationReport, ax: Axes | None = None) -> Axes:
    """Draw deviations over the number of trees; see `DeviationReport.plot`."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter

    if ax is None:
        _, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    known = [size for size in (report.n_trees, *report.interval, report.available) if math.isfinite(size)]
    largest = 4.0 * max(known)
    sizes = np.unique(np.geomspace(1.0, largest, 40).astype(int))
    found = [report.deviation(int(size)) for size in sizes]
    p95, rms = [one.p95 for one in found], [one.rms for one in found]
    # Logarithms leave a line of zeros out, and its name says that it is one.
    ax.plot(sizes, p95, color="C2", label="95th percentile over rows" + ("" if any(p95) else ": 0"))
    ax.plot(sizes, rms, color="C0", label="root mean square" + ("" if any(rms) else ": 0"))
    ax.axhline(report.tolerance, color="0.4", linewidth=1.0, linestyle=":", label=f"tolerance = {report.tolerance!r}")
    if math.isfinite(report.n_trees):
        low, high = report.interval
        ax.axvspan(low, min(high, largest), color="C0", alpha=0.15, linewidth=0.0, label="95 % interval")
        ax.axvline(report.n_trees, color="C0", linestyle="--", label=f"T* = {report.n_trees:,}")
    ax.axvline(report.available, color="C1", linestyle="-.", label=f"forest at hand: {report.available:,} trees")
    ax.set_xscale("log")
    ax.set_xlim(1.0, largest)
    ax.set_xlabel("trees in the forest")
    ax.set_ylabel(f"deviation of the {report.criterion}\nfrom the infinite forest")
    ax.set_title("Forest is large enough" if report.converged else "Forest is too small")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda trees, _: f"{trees:,.0f}"))
    if any(rms):
        ax.set_yscale("log")
        for axis_formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
            axis_formatter(FuncFormatter(lambda off, _: f"{off:g}" if f"{off:e}"[0] in "125" else ""))
    ax.grid(which="major", color="0.9")
    ax.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize="small")
    return ax


def plot_table(table: StopTable, ax: Axes | None = None) -> Axes:
    """Draw the votes at which voting stops; see `StopTable.plot`."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    if isinstance(table.stops, BinaryStops):
        _draw_binary(table, table.stops, ax)
    elif isinstance(table.stops, TernaryStops):
        _draw_ternary(table, table.stops, ax)
    elif isinstance(table.stops, LeaderStops):
        _draw_leaders(table, table.stops, ax)
    else:
        _draw_weighted(table.stops, ax)
    ax.set_title(f"When to stop voting: {table.rule} rule, α = {table.alpha!r}, {table.n_trees:,} trees")
    ax.grid(which="major", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(
        frameon=True,
        framealpha=0.9,
        edgecolor="none",
        fontsize="small",
        loc=_FREE_CORNER[table.kind],
    )
    return ax


def _draw_binary(table: StopTable, stops: BinaryStops, ax: Axes) -> None:
    asked = np.arange(table.n_trees + 1)
    lower, upper = np.maximum(stops.lower, 0), np.minimum(stops.upper, asked)
    ax.fill_between(asked, lower, upper, color="C0", alpha=0.15, linewidth=0.0, label="ask the next tree")
    can_1, can_0 = stops.upper <= asked, stops.lower >= 0
    ax.plot(asked[can_1], stops.upper[can_1], color="C1", label="stop: class 1")
    ax.plot(asked[can_0], stops.lower[can_0], color="C2", label="stop: class 0")
    ax.plot(asked, asked / 2.0, color="0.4", linewidth=1.0, linestyle=":", label="half of the votes")
    _mark_expected(table, ax)
    ax.set_xlim(0, table.n_trees)
    ax.set_ylim(0, None)
    ax.set_xlabel("trees asked")
    ax.set_ylabel("votes for class 1")


def _draw_ternary(table: StopTable, stops: TernaryStops, ax: Axes) -> None:
    """The leader's smallest stopping lead, over the ways in which the other two share the rest."""
    asked = np.arange(1, table.n_trees + 1)
    level, alone = (np.array([_smallest_lead(stops, t, share) for t in asked.tolist()]) for share in (0.5, 0.0))
    going = np.where(np.isnan(np.fmin(level, alone)), asked, np.fmin(level, alone))
    ax.fill_between(asked, 0.0, going, color="C0", alpha=0.15, linewidth=0.0, label="ask the next tree")
    ax.plot(asked, level, color="C1", label="stop: the other two share the rest")
    ax.plot(asked, alone, color="C2", label="stop: one of the others has no vote")
    _mark_expected(table, ax)
    ax.set_xlim(0, table.n_trees)
    ax.set_ylim(0, None)
    ax.set_xlabel("trees asked")
    ax.set_ylabel("lead of class 0 over the runner-up, votes")


def _smallest_lead(stops: TernaryStops, asked: int, share: float) -> float:
    """Smallest lead of class 0 that stops, class 2 having ``share`` of the rivals' votes; NaN where none does."""
    for n_0 in range((asked + 2) // 3, asked + 1):
        n_2 = int(share * (asked - n_0))
        n_1 = asked - n_0 - n_2
        if n_0 >= n_1 and stops.decision[ternary_index(asked, n_0, n_1)] == 0:
            return float(n_0 - n_1)
    return math.nan


def _draw_leaders(table: StopTable, stops: LeaderStops, ax: Axes) -> None:
    both = np.arange(table.n_trees + 1)
    can = stops.upper <= both
    ax.fill_between(both, both / 2.0, np.minimum(stops.upper, both), color="C0", alpha=0.15, linewidth=0.0)
    ax.plot(both[can], stops.upper[can], color="C1", label="stop: the leader wins")
    ax.plot(both, both / 2.0, color="0.4", linewidth=1.0, linestyle=":", label="both level")
    ax.fill_between([], [], color="C0", alpha=0.15, linewidth=0.0, label="ask the next tree")
    ax.plot([], [], " ", label=f"measured: {table.expected_trees():,.1f} trees per row")
    ax.set_xlim(0, table.n_trees)
    ax.set_ylim(0, None)
    ax.set_xlabel("votes of the two leading classes")
    ax.set_ylabel("votes of the leader")


def _draw_weighted(stops: WeightedStops, ax: Axes) -> None:
    """The lead that is needed as a share of all weight; no row has a lead larger than what it has asked."""
    asked = np.arange(stops.most_asked + 1)
    needed = stops.needed[asked] / stops.needed[0]
    ax.fill_between(asked, 0.0, needed, color="C0", alpha=0.15, linewidth=0.0, label="ask the next member")
    ax.plot(asked, needed, color="C1", label="stop: the remaining weight cannot change the outcome")
    ax.plot(asked, 1.0 - needed, color="0.4", linewidth=1.0, linestyle=":", label="lead where all agree")
    ax.set_xlim(0, stops.most_asked)
    ax.set_ylim(0.0, 1.0)
    ax.set_xlabel("members asked, the heaviest first")
    ax.set_ylabel("lead over the runner-up, share of the weight")


def _mark_expected(table: StopTable, ax: Axes) -> None:
    trees = table.expected_trees()
    ax.axvline(trees, color="0.2", linewidth=1.0, linestyle="--", label=f"expected: {trees:,.1f} trees per row")


def plot_bagging_fraction(search: FractionSearch, ax: Axes | None = None) -> Axes:
    """Draw out-of-bag error and T* over the bagging fraction; see `FractionSearch.plot`."""
    import matplotlib.pyplot as plt

    if ax is not None:
        panels = [ax]
    elif search.report is None:
        panels = [plt.subplots(figsize=(7.0, 4.2), layout="constrained")[1]]
    else:
        figure = plt.figure(figsize=(7.0, 5.4), layout="constrained")
        panels = list(figure.subplots(2, 1, sharex=True, height_ratios=(3, 2)))
        _draw_sizes(search, panels[1])
    _draw_judgement(search, panels[0])
    panels[-1].set_xlabel("bagging fraction (rows drawn without replacement)")
    which = "the best" if search.rule == "best" else "the smallest within 1 s.e. of the best"
    panels[0].set_title(f"Bagging fraction {search.best:.3f}: {which} of {len(search.curve)}")
    for panel in panels:
        panel.axvline(search.best, color="C1", linewidth=1.0, linestyle="--", zorder=1)
        panel.grid(which="major", color="0.9")
        panel.set_axisbelow(True)
        panel.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize="small")
    return panels[0]


def _draw_judgement(search: FractionSearch, ax: Axes) -> None:
    """The out-of-bag curve; what was dropped early was judged with fewer trees, so it is not joined to the rest."""
    from matplotlib.ticker import PercentFormatter

    early = search.curve["dropped"] > 0
    stayed, dropped = search.curve[~early], search.curve[early]
    line = "none" if early.any() else "-"
    ax.errorbar(
        stayed["fraction"],
        stayed[search.metric],
        stayed["standard_error"],
        fmt="o",
        color="C0",
        linestyle=line,
        elinewidth=1.0,
        capsize=2.5,
        label=f"out-of-bag {search.metric} ± standard error",
    )
    if early.any():
        label = f"{search.metric} of fewer trees, when dropped"
        error = dropped["standard_error"]
        ax.errorbar(
            dropped["fraction"], dropped[search.metric], error, fmt=".", color="0.6", elinewidth=1.0, label=label
        )
    chosen = stayed[stayed["fraction"] == search.best]
    ax.plot(chosen["fraction"], chosen[search.metric], "D", color="C1", zorder=5, label="chosen")
    ax.set_ylabel(f"out-of-bag {search.metric}")
    if search.report is not None and search.metric == "error":
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))


def _draw_sizes(search: FractionSearch, ax: Axes) -> None:
    """T* where it is known; an interval without an upper end runs off the panel."""
    from matplotlib.ticker import FuncFormatter

    curve = search.curve[np.isfinite(search.curve["size"])]
    high = curve["size_high"]
    top = 2.0 * max([1.0, *curve["size"], *high[np.isfinite(high)]])
    lengths = [curve["size"] - curve["size_low"], np.where(np.isfinite(high), high, 2.0 * top) - curve["size"]]
    ax.set_yscale("log")
    ax.set_ylim(top=top)
    label = f"T*({search.alpha!r}), 95 % interval"
    ax.errorbar(
        curve["fraction"], curve["size"], lengths, fmt="s", color="C2", markersize=4, elinewidth=1.0, label=label
    )
    ax.set_ylabel("trees")
    for axis_formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        axis_formatter(FuncFormatter(lambda trees, _: f"{trees:,.0f}" if f"{trees:e}"[0] in "125" else ""))


def plot_mcnemar(found: McNemarSize, ax: Axes | None = None) -> Axes:
    """Draw which sizes differ significantly; see `McNemarSize.plot`."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    if ax is None:
        _, ax = plt.subplots(figsize=(5.6, 5.6), layout="constrained")
    step = found.sizes[0]
    edges = (found.sizes[0] - step / 2.0, found.sizes[-1] + step / 2.0)
    ax.imshow(
        found.p_values < found.level, cmap="Greys", vmin=0.0, vmax=1.0, origin="lower", extent=2 * edges, aspect="equal"
    )
    chosen = ax.axvline(found.n_trees, color="C1", linestyle="--", label=f"m* = {found.n_trees:,} trees")
    dark = Patch(facecolor="0.0", label=f"differ significantly, p < {found.level!r}")
    bright = Patch(facecolor="1.0", edgecolor="0.6", label="do not differ")
    ax.set_xlabel("trees, m")
    ax.set_ylabel("trees, n")
    ax.set_title(f"McNemar's test of all pairs of sizes, {found.n_rows:,} rows")
    ax.legend(handles=[dark, bright, chosen], frameon=True, framealpha=0.9, edgecolor="0.8", fontsize="small")
    return ax


def plot_banfield(found: BanfieldSize, ax: Axes | None = None) -> Axes:
    """Draw raw and smoothed accuracy over the number of trees; see `BanfieldSize.plot`."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import PercentFormatter

    if ax is None:
        _, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    trees = np.arange(1, len(found.accuracy) + 1)
    ax.plot(trees, found.accuracy, color="C0", alpha=0.4, linewidth=1.0, label="accuracy")
    ax.plot(trees, found.smoothed, color="C0", label="smoothed")
    ax.axvline(found.n_trees, color="C1", linestyle="--", label=f"chosen: {found.n_trees:,} trees")
    ends = "stopped" if found.converged else "ran out"
    ax.axvline(found.grown, color="0.4", linestyle=":", label=f"{ends} after {found.grown:,} trees")
    ax.set_xlabel("trees")
    ax.set_ylabel("accuracy")
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    ax.set_title(f"Smoothed accuracy in batches of {found.batch:,} trees")
    ax.grid(which="major", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize="small", loc="lower right")
    return ax
