"""The picture of an out-of-bag score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rfsize.showing.plots import mark_forest
from rfsize.showing.plotting import finish, label_counts, new_axes
from rfsize.statistics.metrics import label_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.api.oob_score import OobScore


def plot_score(score: OobScore, ax: Axes | None) -> Axes:
    """Draw the curve over the number of trees, and the interval of the whole forest."""
    ax = new_axes() if ax is None else ax
    name, n_trees, (sizes, values) = label_of(score.metric), score.available, score.curve
    ax.plot(sizes, values, color="C0", marker=".", label="out of bag, of the first trees")
    ax.errorbar(
        n_trees,
        score.at_all_trees,
        yerr=np.abs(np.array(score.interval)[:, None] - score.at_all_trees),
        fmt="o",
        color="C3",
        capsize=4.0,
        label="all trees on fresh rows, 95 % interval",
        zorder=4,
        clip_on=False,
    )
    mark_forest(ax, n_trees)
    first = sizes[np.isfinite(values)].min(initial=n_trees)  # the last has a value
    if first < 0.1 * n_trees:
        ax.set_xscale("log")
    ax.set_xlim(first, n_trees + 0.5 * (n_trees - first) + 1)
    ax.set(xlabel="trees in the forest", ylabel=name, title=f"Out of bag, {name} is {score.value:.4g}")
    label_counts(ax.xaxis)
    finish(ax)
    return ax
