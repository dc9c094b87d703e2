"""Every picture: of reports, out-of-bag scores, importances and bagging fractions.

Matplotlib is imported only when a picture is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from rfsize._util import how_many, in_percent
from rfsize.showing.text import axis_label, from_to, shortened, shown_warnings, verdict
from rfsize.showing.text_of_results import fraction_choice, importances_lines
from rfsize.statistics.certify import CertifiedCurve
from rfsize.statistics.curve import odd_sizes
from rfsize.statistics.metrics import label_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from rfsize.api.importance import Importances
    from rfsize.api.oob_score import OobScore
    from rfsize.api.report import Report
    from rfsize.training.bagging_fraction import FractionSearch

_LINE, _TITLE = 70, 60  # characters of a line of a warning above a picture, and of a title
_SIZES = 60  # at which losses are drawn
_DRAWN = 40  # most columns of importances that a figure has room for
_WIDE = 4.5  # inches of axes whose legend has two columns
_MOST_TICKS = 7  # large numbers of trees that a logarithmic axis has room for
_POWERS = 4  # of ten, between which a logarithmic axis has room for labels

# An estimate with its interval.
_MARK: dict[str, Any] = {"fmt": "o", "capsize": 4.0, "zorder": 4, "clip_on": False}


# Style


def new_axes(height: float = 4.6) -> Axes:
    """The axes of a new figure; ``ImportError`` says what to install if Matplotlib is missing."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ImportError(f"a picture needs Matplotlib ({error}): pip install rfsize[plot]") from error
    return plt.subplots(figsize=(7.0, height), layout="constrained")[1]


def ink(ax: Axes) -> Any:
    """The colour of the axis labels, which is visible on the background in any style."""
    return ax.xaxis.label.get_color()


def faint(ax: Axes, linestyle: str) -> dict[str, Any]:
    """The style of a reference line that curves are compared with."""
    return {"color": ink(ax), "alpha": 0.7, "linewidth": 1.0, "linestyle": linestyle}


def finished(ax: Axes) -> Axes:
    """The axes with a grid, and the legend below them, where it covers no curve."""
    ax.grid(which="major", color=ink(ax), alpha=0.15)
    ax.set_axisbelow(True)
    pad, n_columns = 4.5 if ax.get_xlabel() else 1.5, 2 if ax.bbox.width > _WIDE * ax.figure.dpi else 1
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "borderaxespad": pad}
    legend = ax.legend(**below, ncols=n_columns, frameon=False, fontsize="small")
    for text in legend.get_texts():
        text.set_parse_math(False)  # the text holds names of classes
    return ax


def over_trees(ax: Axes, n_trees: int, forest: str = "your forest") -> None:
    """Make the x-axis one of numbers of trees, logarithmic, with a line at the forest at hand."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    ax.axvline(n_trees, color="C1", linestyle="-.", label=f"{forest}: {how_many(n_trees, 'tree')}")
    ax.set(xscale="log", xlabel="trees in the forest")
    ax.xaxis.set_major_locator(LogLocator(numticks=_MOST_TICKS))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def label_sparsely(axis: Axis, text: Callable[[float], str]) -> None:
    """Label only 1, 2 and 5 of each power of ten of a logarithmic axis; with many powers only 1."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 10.0**_POWERS * low else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_formatter(NullFormatter())


# Reports


def plot_report(report: Report, ax: Axes | None = None) -> Axes:
    """Draw agreement or loss over the number of trees, with its 95 % interval, T* and your forest.

    Parameters
    ----------
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes. If the report is about a share of rows, the curve shows the share that changes, and the ticks name the
        share that stays the same.
    """
    ax = new_axes(height=4.8) if ax is None else ax
    draw_size(report, ax)
    lines = [line for warning in shown_warnings(report) for line in wrap(f"! {warning.text}", _LINE)]
    ax.set_title("\n".join([*lines, *wrap(verdict(report), _LINE)]), parse_math=False, fontsize="medium")
    return ax


def draw_size(report: Report, ax: Axes) -> None:
    """Draw the same without title and warnings."""
    sizes = [size for size in (report.n_trees, *report.interval, report.available) if math.isfinite(size)]
    largest = 4.0 * max(sizes) if report.certificate is None else report.available
    _draw_loss(report, ax, largest)
    if math.isfinite(report.n_trees):
        _mark_size(report, ax, largest)
    over_trees(ax, report.available, "grown" if report.criterion.is_training else "your forest")
    ax.set_xlim(1.0, max(2.0, largest))
    finished(ax)


def _draw_loss(report: Report, ax: Axes, largest: float) -> None:
    """Draw the loss over the number of trees with its interval, and the level that T* reaches."""
    criterion, curve, details = report.criterion, report.estimate.curve, report.estimate.details
    name = "expected agreement" if criterion.is_share else "expected loss"
    sizes = odd_sizes(np.geomspace(1.0, largest, _SIZES))
    if isinstance(curve, CertifiedCurve):
        name = "rows that agree, seen"
        known = curve.sizes[curve.sizes < report.available]  # with all trees the loss is 0
        sizes = known[np.isin(known, sizes)] if len(known) > _SIZES else known
    losses = np.array([curve.at(int(size)) for size in sizes])
    ax.plot(sizes, losses, color="C0", label=name if losses.any() else f"{name}: 0")
    intervals = np.array([curve.interval(int(size)) for size in sizes]).reshape(-1, 2)
    ax.fill_between(sizes, *intervals.T, color="C0", alpha=0.15, linewidth=0.0, label="its 95 % interval")
    if criterion.kind == "metric" and details is not None:
        spread = details.seed_sd / np.sqrt(sizes)
        ax.plot(sizes, spread, **faint(ax, "--"), label="from seed to seed (standard deviation)")
    level = in_percent(1.0 - criterion.level) if criterion.is_share else f"{criterion.level:g}"
    ax.axhline(criterion.level, **faint(ax, ":"), label=f"asked for: {level}")
    ax.set_ylabel(axis_label(criterion))
    if losses.any():
        ends = (*losses[losses > 0.0], criterion.level)
        ax.set(yscale="log", ylim=(0.5 * min(ends), 2.0 * max(ends)))
        label_sparsely(ax.yaxis, lambda loss: in_percent(1.0 - loss) if criterion.is_share else f"{loss:g}")
    if criterion.is_share:
        ax.invert_yaxis()  # more rows agree higher up


def _mark_size(report: Report, ax: Axes, largest: float) -> None:
    """Mark T* with its interval, at the level that it reaches."""
    what = "T* at most" if report.estimate.is_bound else "T* ="
    size = f"{what if report.certificate is None else 'certified:'} {report.n_trees:,} ({from_to(report.interval)})"
    ends = np.abs(np.minimum(report.interval, largest) - report.n_trees)[:, None]
    ax.errorbar(float(report.n_trees), report.criterion.level, xerr=ends, color="C3", label=size, **_MARK)


# Scores, importances and fractions


def plot_score(score: OobScore, ax: Axes | None = None) -> Axes:
    """Draw the curve over the number of trees, and the interval of the whole forest.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> ax = rfsize.oob_score(forest, X, y).plot()
    >>> ax.figure.savefig("score.png")
    """
    ax = new_axes() if ax is None else ax
    name, n_trees, (sizes, values) = label_of(score.metric), score.available, score.curve
    ax.plot(sizes, values, color="C0", marker=".", label="out of bag, of the first trees")
    ends = np.abs(np.array(score.interval)[:, None] - score.at_all_trees)
    label = "all trees on fresh rows, 95 % interval"
    ax.errorbar(n_trees, score.at_all_trees, yerr=ends, color="C3", label=label, **_MARK)
    over_trees(ax, n_trees)
    ax.set(ylabel=name, title=f"Out of bag, {name} is {score.value:.4g}")
    return finished(ax)


def plot_importances(importances: Importances, ax: Axes | None = None) -> Axes:
    """Draw the importances as bars with their intervals; faint bars may be noise.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> ax = rfsize.oob_importance(forest, X, y).plot()
    >>> ax.figure.savefig("importances.png")
    """
    columns = importances.columns[:_DRAWN]
    ax = new_axes(height=1.6 + 0.22 * len(columns)) if ax is None else ax
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
    loss = f"loss of {label_of(importances.metric)} when the column is shuffled"
    ax.set(xlabel=loss, title=importances_lines(importances)[0])
    return finished(ax)


def plot_fractions(search: FractionSearch, ax: Axes | None = None) -> Axes:
    """Draw the out-of-bag curve with its standard errors, and the chosen fraction.

    Parameters
    ----------
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    from matplotlib.ticker import PercentFormatter

    ax, curve = new_axes() if ax is None else ax, search.curve
    points, label = (curve["fraction"], curve[search.metric]), f"out-of-bag {search.metric} ± standard error"
    ax.errorbar(*points, curve["standard_error"], fmt="o-", color="C0", capsize=2.5, label=label)
    chosen = curve[curve["fraction"] == search.best]
    ax.plot(chosen["fraction"], chosen[search.metric], "D", color="C1", zorder=5, label="chosen")
    ax.set_title("\n".join(wrap(fraction_choice(search), _TITLE)))
    ax.set(xlabel="bagging fraction (rows drawn without replacement)", ylabel=f"out-of-bag {search.metric}")
    if search.of_labels and search.metric == "error":
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    return finished(ax)
