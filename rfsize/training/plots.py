"""Pictures of a search for the bagging fraction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.plotting import finish, ink, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Search(Protocol):
    """What the picture of a search for the bagging fraction reads."""

    @property
    def best(self) -> float: ...
    @property
    def curve(self) -> NDArray[np.void]: ...
    @property
    def metric(self) -> str: ...
    @property
    def rule(self) -> str: ...
    @property
    def of_labels(self) -> bool: ...


def plot_bagging_fraction(search: Search, ax: Axes | None = None) -> Axes:
    """Draw the out-of-bag error over the bagging fraction; see `FractionSearch.plot`."""
    if ax is None:
        ax = new_axes()
    _draw_judgement(search, ax)
    which = "the best" if search.rule == "best" else "the smallest within 1 s.e. of the best"
    ax.set_title(f"Bagging fraction {search.best:.3f}: {which} of {len(search.curve)}")
    ax.set_xlabel("bagging fraction (rows drawn without replacement)")
    ax.axvline(search.best, color="C1", linewidth=1.0, linestyle="--", zorder=1)
    finish(ax)
    return ax


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
