"""The style of all pictures. Matplotlib is imported only when a picture is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfsize._util import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


def pyplot() -> Any:
    """The module `matplotlib.pyplot`.

    Raises
    ------
    ImportError
        If Matplotlib is missing; the message says what to install.
    """
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ImportError(f"a picture needs Matplotlib ({error}): pip install rfsize[plot]") from error
    return plt


def new_axes(width: float = 7.0, height: float = 4.6) -> Axes:
    """The axes of a new figure."""
    return pyplot().subplots(figsize=(width, height), layout="constrained")[1]


def ink(ax: Axes) -> Any:
    """The colour of the axis labels, which is visible on the background in any style."""
    return ax.xaxis.label.get_color()


def faint(ax: Axes, linestyle: str) -> dict[str, Any]:
    """The style of a reference line that curves are compared with."""
    return {"color": ink(ax), "alpha": 0.7, "linewidth": 1.0, "linestyle": linestyle}


def finish(ax: Axes) -> None:
    """Add grid and legend to finished axes."""
    ax.grid(which="major", color=ink(ax), alpha=0.15)
    ax.set_axisbelow(True)
    legend_below(ax)


# Legends: the size of letters, their mean width, and the space of a line beside its label.
_SMALL, _WIDE, _HANDLE = 0.833, 0.5, 3.0
# Labels and margins make axes this many times wider.
_BESIDE = 1.3


def legend_below(ax: Axes, handles: list[Any] | None = None) -> None:
    """Put the legend below the axes, so that it covers no curve; ``layout="constrained"`` makes room for it."""
    import matplotlib as mpl
    from matplotlib.transforms import ScaledTranslation

    handles = ax.get_legend_handles_labels()[0] if handles is None else handles
    letter, figure = mpl.rcParams["font.size"], ax.figure
    below = ScaledTranslation(0.0, -letter * (4.0 if ax.get_xlabel() else 1.0) / 72.0, figure.dpi_scale_trans)
    longest = max(len(str(handle.get_label())) for handle in handles)
    room = min(1.0, _BESIDE * ax.get_position().width) * 72.0 * figure.bbox.width / figure.dpi
    fits_twice = 2.0 * letter * _SMALL * (_WIDE * longest + _HANDLE) < room
    legend = ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + below,
        ncols=2 if fits_twice else 1,
        frameon=False,
        fontsize=letter * _SMALL,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)  # the text holds names of classes


def label_counts(axis: Axis) -> None:
    """Label a linear or logarithmic axis of trees with whole numbers."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    if axis.get_scale() == "linear":
        axis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))

    def label(trees: float, _: Any) -> str:
        low, high = axis.get_view_interval()
        is_crowded = axis.get_scale() == "log" and high > 10.0**_MANY_POWERS * low
        return "" if is_crowded and round(np.log10(max(trees, 1.0))) % 2 else f"{trees:,.0f}"

    axis.set_major_formatter(FuncFormatter(label))
    axis.set_minor_formatter(NullFormatter())


# With more powers of ten, a logarithmic axis has no room for labels between them.
_POWERS = 4
# With still more, it has room for only every other power of large numbers.
_MANY_POWERS = 5


def label_sparsely(axis: Axis, text: Callable[[float], str]) -> None:
    """Label only 1, 2 and 5 of each power of ten of a logarithmic axis; with many powers only 1."""
    from matplotlib.ticker import FuncFormatter

    def label(value: float, _: Any) -> str:
        low, high = axis.get_view_interval()
        said = "125" if high < 10.0**_POWERS * low else "1"
        return text(value) if f"{value:e}"[0] in said else ""

    formatter = FuncFormatter(label)
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(formatter)


# The most letters of a name beside the axes.
_NAME = 24


def shortened(name: Any) -> str:
    """A name cut to the space beside the axes."""
    shown = printable(name)
    return shown if len(shown) <= _NAME else shown[: _NAME - 1] + "…"


def draw_shares(
    ax: Axes, names: Sequence[Any], shares: Sequence[float], ends: Sequence[float] | None, label: str
) -> None:
    """Draw shares of named groups, one below the other, each with a line to its upper end if ends are given."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    rows = range(len(names), 0, -1)
    lines = None if ends is None else np.array([np.zeros(len(names)), np.subtract(ends, shares)])
    style: dict[str, Any] = {"fmt": "o", "color": "C0", "capsize": 4.0, "zorder": 4, "clip_on": False}
    ax.errorbar(shares, rows, xerr=lines, label=label, **style)
    # Names come from the user's data, and must not be parsed as formulas.
    ax.set_yticks(rows, [shortened(name) for name in names], parse_math=False)
    ax.set_ylim(0.5, len(names) + 0.5)
    ax.set_xlim(0.0, 1.1 * max([*(shares if ends is None else ends), 1e-3]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: percent(share)))
    ax.xaxis.set_major_locator(MaxNLocator(5))


def percent(share: float) -> str:
    """The label of a tick for a share."""
    return f"{100.0 * share:.3g} %"
