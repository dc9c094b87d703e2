"""The picture of importances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rfsize.showing.importance_text import importances_title
from rfsize.showing.plotting import finish, ink, new_axes, shortened
from rfsize.statistics.metrics import label_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.api.importance import Importances

_DRAWN = 40  # most columns that a figure has room for


def plot_importances(importances: Importances, ax: Axes | None) -> Axes:
    """Draw the importances as bars with their intervals; faint bars may be noise."""
    columns = importances.columns[:_DRAWN]
    if ax is None:
        ax = new_axes(height=1.6 + 0.22 * len(columns))
    place, value = np.arange(len(columns)), np.array([column.value for column in columns])
    is_noise = np.array([column.is_noise for column in columns])
    for mask, alpha, label in ((~is_noise, 0.9, "beyond noise"), (is_noise, 0.3, "may be noise")):
        if mask.any():
            ax.barh(place[mask], value[mask], color="C0", alpha=alpha, label=label)
    half_width = np.abs(np.array([column.interval for column in columns]).T - value)
    ax.errorbar(value, place, xerr=half_width, fmt="none", ecolor=ink(ax), elinewidth=1.0, label="95 % interval")
    ax.set_yticks(place, [shortened(column.name) for column in columns], parse_math=False)
    ax.margins(y=0.02)
    ax.invert_yaxis()
    ax.set_xlabel(f"loss of {label_of(importances.metric)} when the column is shuffled")
    ax.set_title(importances_title(importances))
    finish(ax)
    return ax
