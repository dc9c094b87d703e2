"""The style of all pictures; matplotlib is imported only where one is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


def new_axes(width: float = 7.0, height: float = 4.2) -> Axes:
    """The axes of a new figure."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def finish(ax: Axes, **legend: Any) -> None:
    """Grid and legend of finished axes."""
    ax.grid(which="major", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(**{"frameon": True, "framealpha": 0.9, "edgecolor": "none", "fontsize": "small", **legend})


def label_counts(axis: Axis) -> None:
    """Label a linear or logarithmic axis of trees with whole numbers."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda trees, _: f"{trees:,.0f}"))


def label_sparsely(axis: Axis, text: Callable[[float], str]) -> None:
    """Label only 1, 2 and 5 of each power of ten of a logarithmic axis, so that the ticks do not crowd."""
    from matplotlib.ticker import FuncFormatter

    formatter = FuncFormatter(lambda value, _: text(value) if f"{value:e}"[0] in "125" else "")
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(formatter)


def percent(share: float) -> str:
    """A share as a tick's label."""
    return f"{share:.3%}".rstrip("0%").rstrip(".") + " %"
