"""Pictures of a search for the bagging fraction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.plotting import finish, ink, label_sparsely, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Sized(Protocol):
    """What it reads of the report on the chosen fraction's forest."""

    @property
    def target(self) -> str: ...


class Search(Protocol):
    """What the picture of a search for the bagging fraction reads."""

    @property
    def best(self) -> float: ...
    @property
    def curve(self) -> NDArray[np.void]: ...
    @property
    def report(self) -> Sized | None: ...
    @property
    def metric(self) -> str: ...
    @property
    def rule(self) -> str: ...
    @property
    def of_labels(self) -> bool: ...


def plot_bagging_fraction(search: Search, ax: Axes | None = None) -> Axes:
    """Draw out-of-bag error and T* over the bagging fraction; see `FractionSearch.plot`."""
    if ax is not None or search.report is None:
        ax = new_axes() if ax is None else ax
        ax.set_xlabel(_ACROSS)
    else:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(7.0, 6.4), layout="constrained")
        ax, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        plot_sizes(search, below)
    _draw_judgement(search, ax)
    which = "the best" if search.rule == "best" else "the smallest within 1 s.e. of the best"
    ax.set_title(f"Bagging fraction {search.best:.3f}: {which} of {len(search.curve)}")
    _mark_best(search, ax)
    return ax


def plot_sizes(search: Search, ax: Axes) -> None:
    """Draw T* over the bagging fraction."""
    _draw_sizes(search, ax)
    ax.set_xlabel(_ACROSS)
    _mark_best(search, ax)


_ACROSS = "bagging fraction (rows drawn without replacement)"


def _mark_best(search: Search, ax: Axes) -> None:
    ax.axvline(search.best, color="C1", linewidth=1.0, linestyle="--", zorder=1)
    finish(ax)


def _draw_judgement(search: Search, ax: Axes) -> None:
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
        style: dict[str, Any] = {"fmt": ".", "color": ink(ax), "alpha": 0.5, "elinewidth": 1.0}
        ax.errorbar(dropped["fraction"], dropped[search.metric], error, **style, label=label)
    chosen = stayed[stayed["fraction"] == search.best]
    ax.plot(chosen["fraction"], chosen[search.metric], "D", color="C1", zorder=5, label="chosen")
    ax.set_ylabel(f"out-of-bag {search.metric}")
    if search.of_labels and search.metric == "error":
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))


def _draw_sizes(search: Search, ax: Axes) -> None:
    """T* where it is known; an interval without an upper end runs off the panel."""

    curve = search.curve[np.isfinite(search.curve["size"])]
    high = curve["size_high"]
    top = 2.0 * max([1.0, *curve["size"], *high[np.isfinite(high)]])
    lengths = [curve["size"] - curve["size_low"], np.where(np.isfinite(high), high, 2.0 * top) - curve["size"]]
    ax.set_yscale("log")
    ax.set_ylim(0.5 * min([top, *curve["size_low"]]), top)
    assert search.report is not None
    label = f"{search.report.target}, 95 % interval"
    ax.errorbar(
        curve["fraction"], curve["size"], lengths, fmt="s", color="C2", markersize=4, elinewidth=1.0, label=label
    )
    ax.set_ylabel("trees")
    label_sparsely(ax.yaxis, lambda trees: f"{trees:,.0f}")
