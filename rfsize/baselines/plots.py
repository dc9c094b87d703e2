"""Pictures of what the older rules found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.baselines.banfield import BanfieldSize
    from rfsize.baselines.mcnemar import McNemarSize


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
