"""Pictures of a search for the bagging fraction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.plotting import finish, label_sparsely, new_axes

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
    import matplotlib.pyplot as plt

    if ax is not None:
        panels = [ax]
    elif search.report is None:
        panels = [new_axes()]
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
        finish(panel)
    return panels[0]


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
        ax.errorbar(
            dropped["fraction"], dropped[search.metric], error, fmt=".", color="0.6", elinewidth=1.0, label=label
        )
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
    ax.set_ylim(top=top)
    assert search.report is not None
    label = f"{search.report.target}, 95 % interval"
    ax.errorbar(
        curve["fraction"], curve["size"], lengths, fmt="s", color="C2", markersize=4, elinewidth=1.0, label=label
    )
    ax.set_ylabel("trees")
    label_sparsely(ax.yaxis, lambda trees: f"{trees:,.0f}")
