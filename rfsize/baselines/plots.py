"""Pictures of what the older rules found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.plotting import faint, finish, ink, legend_below, new_axes
from rfsize.utils.words import how_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PairsOfSizes(Protocol):
    """What the picture of McNemar's tests reads."""

    @property
    def n_trees(self) -> int: ...
    @property
    def sizes(self) -> NDArray[np.int64]: ...
    @property
    def p_values(self) -> NDArray[np.float64]: ...
    @property
    def level(self) -> float: ...
    @property
    def n_rows(self) -> int: ...


class SmoothedAccuracy(Protocol):
    """What the picture of the smoothed accuracy reads."""

    @property
    def n_trees(self) -> int: ...
    @property
    def converged(self) -> bool: ...
    @property
    def accuracy(self) -> NDArray[np.float64]: ...
    @property
    def smoothed(self) -> NDArray[np.float64]: ...
    @property
    def batch(self) -> int: ...
    @property
    def grown(self) -> int: ...


def plot_mcnemar(found: PairsOfSizes, ax: Axes | None = None) -> Axes:
    """Draw which sizes differ significantly; see `McNemarSize.plot`."""
    from matplotlib.patches import Patch

    if ax is None:
        ax = new_axes(5.6, 5.6)
    step = found.sizes[0]
    edges = (found.sizes[0] - step / 2.0, found.sizes[-1] + step / 2.0)
    ax.imshow(
        found.p_values < found.level, cmap="Greys", vmin=0.0, vmax=1.0, origin="lower", extent=2 * edges, aspect="equal"
    )
    chosen = ax.axvline(found.n_trees, color="C1", linestyle="--", label=f"m* = {how_many(found.n_trees, 'tree')}")
    dark = Patch(facecolor="0.0", edgecolor=ink(ax), label=f"differ significantly, p < {found.level!r}")
    bright = Patch(facecolor="1.0", edgecolor=ink(ax), label="do not differ")
    ax.grid(visible=False)  # which a style may draw over it
    ax.set_xlabel("trees, m")
    ax.set_ylabel("trees, n")
    ax.set_title(f"McNemar's test of all pairs of sizes, {found.n_rows:,} rows")
    legend_below(ax, [dark, bright, chosen])
    return ax


def plot_banfield(found: SmoothedAccuracy, ax: Axes | None = None) -> Axes:
    """Draw raw and smoothed accuracy over the number of trees; see `BanfieldSize.plot`."""
    from matplotlib.ticker import PercentFormatter

    if ax is None:
        ax = new_axes()
    trees = np.arange(1, len(found.accuracy) + 1)
    ax.plot(trees, found.accuracy, color="C0", alpha=0.5, linewidth=1.0, label="accuracy")
    ax.plot(trees, found.smoothed, color="C0", label="smoothed")
    ax.axvline(found.n_trees, color="C1", linestyle="--", label=f"chosen: {found.n_trees:,} trees")
    ends = "stopped" if found.converged else "ran out"
    ax.axvline(found.grown, **faint(ax, ":"), label=f"{ends} after {found.grown:,} trees")
    ax.set_xlim(1, max(2, len(found.accuracy), found.grown))
    ax.set_xlabel("trees")
    ax.set_ylabel("accuracy")
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    ax.set_title(f"Smoothed accuracy in batches of {found.batch:,} trees")
    finish(ax)
    return ax
