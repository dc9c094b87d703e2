"""Pictures of a report; matplotlib is imported only here, and only when one is asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.report import SizeReport


def plot_report(report: SizeReport, ax: Axes | None = None) -> Axes:
    """Draw disagreement over the number of trees; see `SizeReport.plot`."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter

    if ax is None:
        _, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    known = [size for size in (report.n_trees, *report.interval, report.available) if math.isfinite(size)]
    largest = 4.0 * max(known)
    sizes = np.unique(2 * (np.geomspace(1.0, largest, 80) // 2).astype(int) + 1)
    ax.plot(sizes, [1.0 - report.agreement(int(size)) for size in sizes], color="C0", label="mean disagreement")
    ax.axhline(1.0 - report.alpha, color="0.4", linewidth=1.0, linestyle=":", label=f"1 − α = {1.0 - report.alpha:.3g}")
    if math.isfinite(report.n_trees):
        low, high = report.interval
        ax.axvspan(low, min(high, largest), color="C0", alpha=0.15, linewidth=0.0, label="95 % interval")
        ax.axvline(report.n_trees, color="C0", linestyle="--", label=f"T*({report.alpha!r}) = {report.n_trees:,}")
    ax.axvline(report.available, color="C1", linestyle="-.", label=f"forest at hand: {report.available:,} trees")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(1.0, largest)
    ax.set_xlabel("trees in the forest")
    ax.set_ylabel("share of rows that differ\nfrom the infinite forest")
    ax.set_title("Forest is large enough" if report.converged else "Forest is too small")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda trees, _: f"{trees:,.0f}"))
    for axis_formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        axis_formatter(FuncFormatter(_percent))
    ax.grid(which="major", color="0.9")
    ax.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize="small")
    return ax


def _percent(share: float, _: int) -> str:
    """Label of a tick: only 1, 2 and 5 of each power of ten, so that the ticks do not crowd."""
    first_digit = f"{share:e}"[0]
    return f"{share:.3%}".rstrip("0%").rstrip(".") + " %" if first_digit in "125" else ""
