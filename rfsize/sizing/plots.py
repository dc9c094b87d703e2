"""Pictures of a report."""

from __future__ import annotations

import math
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rfsize.errors import NotConvergedWarning
from rfsize.estimation.base import Curves, Margins
from rfsize.estimation.deviation import Deviation
from rfsize.reporting.words import most_changed
from rfsize.sizing.loss import Loss
from rfsize.sizing.words import VOTED
from rfsize.utils.plotting import (
    draw_shares,
    faint,
    finish,
    ink,
    label_counts,
    label_sparsely,
    new_axes,
    percent,
)
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.warn import Caution
from rfsize.utils.words import how_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Sized(Protocol):
    """What the pictures of all kinds of report read."""

    @property
    def n_trees(self) -> int | float: ...
    @property
    def available(self) -> int: ...
    @property
    def converged(self) -> bool: ...
    @property
    def sure(self) -> float | None: ...
    @property
    def interval(self) -> tuple[int | float, int | float]: ...
    @property
    def is_bound(self) -> bool: ...
    @property
    def likely(self) -> str: ...
    @property
    def warnings(self) -> tuple[Caution, ...]: ...


class LabelReport(Sized, Protocol):
    """What the picture of a report about labels reads."""

    @property
    def alpha(self) -> float: ...
    @property
    def voting(self) -> str: ...
    @property
    def average(self) -> str: ...
    @property
    def n_kept(self) -> int: ...
    def agreement(self, n_trees: int) -> float: ...
    def agreement_by_class(self, n_trees: int) -> dict[Any, float]: ...
    def curves(self) -> Curves: ...
    def margins(self) -> Margins: ...


class PredictionReport(Sized, Protocol):
    """What the picture of a report about probabilities or scores reads."""

    @property
    def criterion(self) -> str: ...
    @property
    def tolerance(self) -> float: ...
    def deviation(self, n_trees: int) -> Deviation: ...


def plot_report(report: LabelReport, ax: Axes | None = None) -> Axes:
    """Draw how near to a tie the rows are, and disagreement over the number of trees; see `SizeReport.plot`."""
    if ax is None:
        import matplotlib.pyplot as plt

        beside = [draw_margins] if report.average == "micro" else [draw_margins, draw_classes]
        figure = plt.figure(figsize=(6.0 + 4.0 * len(beside), 4.8), layout="constrained")
        *others, ax = figure.subplots(1, len(beside) + 1, width_ratios=(*(2 for _ in beside), 3))
        for draw, other in zip(beside, others, strict=True):
            draw(report, other)
    _draw_disagreement(report, ax)
    return ax


_LINE = 70  # characters of a warning above a picture

# Bins of the rows' distances from a tie.
_BINS = 25


def draw_margins(report: LabelReport, ax: Axes) -> None:
    """Rows by their distance from a tie: those next to it are what large forests still change."""
    margins = report.margins()
    edges = np.linspace(min(margins.tie, margins.most), max(margins.tie, margins.most), _BINS + 1)
    values = np.clip(margins.values, edges[0], edges[-1])
    shares, _ = np.histogram(values, bins=edges, weights=margins.rows / margins.rows.sum())
    ax.stairs(shares, edges, fill=True, color="C0", alpha=0.35)
    ax.stairs(shares, edges, color="C0")
    ax.axvline(margins.tie, **faint(ax, "--"))
    ax.set_yscale("log")
    ax.set_xlim(margins.most, margins.tie)
    ax.set_xlabel(f"{margins.what}\n(ties at the right edge)")
    ax.set_ylabel(f"share of the rows, in {_BINS} bins")
    ax.set_title("How near to a tie the rows are")
    label_sparsely(ax.yaxis, percent)
    ax.grid(which="major", color=ink(ax), alpha=0.15)
    ax.set_axisbelow(True)


def draw_classes(report: LabelReport, ax: Axes) -> None:
    """Disagreement by class at the size to keep, which the macro average is the mean of."""
    agreement = report.agreement_by_class(report.n_kept)
    ax.axvline(1.0 - report.alpha, **faint(ax, ":"), label=f"1 − α = {1.0 - report.alpha:.3g}")
    draw_by_class({of: 1.0 - share for of, share in agreement.items()}, None, report.n_kept, ax)
    ax.set_xlim(right=max(ax.get_xlim()[1], 1.1 * (1.0 - report.alpha)))


def plot_by_class(changed: dict[Any, float], mean: float, n_trees: int, ax: Axes | None = None) -> Axes:
    """Draw labels that change by class; see `Price.plot`."""
    if ax is None:
        ax = new_axes()
    draw_by_class(changed, mean, n_trees, ax)
    return ax


def draw_by_class(changed: dict[Any, float], mean: float | None, n_trees: int, ax: Axes) -> None:
    """Shares of the labels that change, of the classes that change most, and of all rows where that is given."""
    most, which = most_changed(changed, lambda of: changed[of])
    shares = [changed[of] for of in most]
    draw_shares(ax, most, shares, None, which)
    if mean is not None:
        ax.axvline(mean, **faint(ax, "--"), label=f"all rows: {percent(mean)}")
    ax.set_xlabel("rows that differ from the infinite forest")
    ax.set_title(f"Labels that still change with {how_many(n_trees, 'tree')}")
    finish(ax)


def _draw_disagreement(report: LabelReport, ax: Axes) -> None:
    """Disagreement over the number of trees with its interval and its law, T*(α), and the forest at hand."""
    largest = _largest(report)
    sizes = np.unique(2 * (np.geomspace(1.0, largest, 80) // 2).astype(int) + 1)
    differ = np.array([1.0 - report.agreement(int(size)) for size in sizes])
    ax.plot(sizes, differ, color="C0", label=f"mean, by {VOTED[report.voting]}")
    curves = report.curves()
    low, high = np.quantile(curves.disagreement, (0.025, 0.975), axis=0)
    ax.fill_between(curves.sizes, low, high, color="C0", alpha=0.15, linewidth=0.0, label="95 % interval of the mean")
    settled = report.n_trees if math.isfinite(report.n_trees) else report.available
    law = (1.0 - report.agreement(int(settled))) * np.sqrt(settled / sizes)
    ax.plot(sizes, law, **faint(ax, "--"), label="law of large forests, as 1/√T")
    ax.axhline(1.0 - report.alpha, **faint(ax, ":"), label=f"1 − α = {1.0 - report.alpha:.3g}")
    _mark_size(report, 1.0 - report.alpha, ax)
    ax.set_yscale("log")
    drawn = (differ[0], differ[-1], 1.0 - report.alpha)
    ax.set_ylim(0.5 * min(drawn) + 1e-9, min(1.0, 2.0 * max(drawn)))
    mean = "" if report.average == "micro" else ", mean of classes"
    ax.set_ylabel(f"rows that differ from the\ninfinite forest{mean}")
    label_sparsely(ax.yaxis, percent)
    _finish(report, ax)


def _largest(report: Sized) -> float:
    """Trees up to which is drawn."""
    return 4.0 * max(size for size in (report.n_trees, *report.interval, report.available) if math.isfinite(size))


def _mark_size(report: Sized, level: float, ax: Axes) -> None:
    """T* with its interval, at the level that it is the smallest forest to reach, and the forest at hand."""
    if math.isfinite(report.n_trees):
        ends = np.minimum(report.interval, _largest(report))
        ax.errorbar(
            report.n_trees,
            level,
            xerr=np.abs(ends - report.n_trees)[:, None],
            fmt="o",
            color="C3",
            capsize=4.0,
            label=f"T* {'at most' if report.is_bound else '='} {report.n_trees:,}, 95 % interval",
            zorder=4,
            clip_on=False,
        )
    _mark_forest(ax, report.available, report.sure)


def _mark_forest(ax: Axes, n_trees: int, sure: float | None = None) -> None:
    """A line at the trees at hand, or those that were grown where it had to be ``sure`` that they are enough."""
    what = "forest at hand" if sure is None else "grown"
    ax.axvline(n_trees, color="C1", linestyle="-.", label=f"{what}: {how_many(n_trees, 'tree')}")


def _finish(report: Sized, ax: Axes) -> None:
    """Title, logarithmic axis of trees, grid and legend."""
    ax.set_xscale("log")
    ax.set_xlim(1.0, _largest(report))
    ax.set_xlabel("trees in the forest")
    title = f"The forest is {report.likely}{'large enough' if report.converged else 'too small'}"
    # Of a forest that is too small, the title says it.
    said = [f"! {one.text}" for one in report.warnings if one.category is not NotConvergedWarning]
    lines = [line for text in said for line in wrap(text, _LINE)]
    drawn = ax.set_title("\n".join([*lines, title]), parse_math=False)
    if lines:
        drawn.set_fontsize("medium")
    label_counts(ax.xaxis)
    finish(ax)


def plot_deviation(report: PredictionReport, ax: Axes | None = None) -> Axes:
    """Draw deviations over the number of trees; see `DeviationReport.plot`."""
    if ax is None:
        ax = new_axes()
    sizes = np.unique(np.geomspace(1.0, _largest(report), 40).astype(int))
    found = [report.deviation(int(size)) for size in sizes]
    p95, rms = [one.p95 for one in found], [one.rms for one in found]
    # Logarithms leave a line of zeros out, and its name says that it is one.
    ax.plot(sizes, p95, color="C2", label="95th percentile over rows" + ("" if any(p95) else ": 0"))
    ax.plot(sizes, rms, color="C0", label="root mean square" + ("" if any(rms) else ": 0"))
    ax.axhline(report.tolerance, **faint(ax, ":"), label=f"tolerance = {report.tolerance!r}")
    _mark_size(report, report.tolerance, ax)
    ax.set_ylabel(f"deviation of the {report.criterion}\nfrom the infinite forest")
    if any(rms):
        ax.set_yscale("log")
        label_sparsely(ax.yaxis, lambda off: f"{off:g}")
    _finish(report, ax)
    return ax


class MetricLossReport(Sized, Protocol):
    """What the picture of a report about a metric reads."""

    @property
    def criterion(self) -> str: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def parts(self) -> tuple[tuple[float, float], ...]: ...
    def loss_at(self, n_trees: int) -> Loss: ...


def plot_loss(report: MetricLossReport, ax: Axes | None = None) -> Axes:
    """Draw the expected loss over the number of trees; see `MetricReport.plot`."""
    if ax is None:
        ax = new_axes()
    sizes = np.unique(np.geomspace(1.0, _largest(report), 80).astype(int))
    losses = [report.loss_at(int(size)) for size in sizes]
    law, spread = [one.value for one in losses], np.array([one.spread for one in losses], dtype=np.float64)
    low, high = np.array([one.interval for one in losses]).T
    ax.plot(sizes, law, color="C0", label="expected loss" + ("" if any(law) else ": 0"))
    ax.fill_between(sizes, low, high, color="C0", alpha=0.15, linewidth=0.0, label="95 % interval of the loss")
    ax.plot(sizes, spread, **faint(ax, "--"), label="from seed to seed (standard deviation)")
    asked, lost = np.array(report.parts).T
    # They are measured against all trees at hand, of which the rest is the law's.
    whole = 2.0 * asked[0]
    behind = float(np.interp(whole, sizes, law))
    ax.plot(asked, lost + behind, "o", color="C2", label="quarters and halves of the trees at hand", zorder=4)
    ax.axhline(report.tolerance, **faint(ax, ":"), label=f"tolerance = {report.tolerance!r}")
    _mark_size(report, report.tolerance, ax)
    ax.set_ylabel(f"{report.criterion}: expected loss\nagainst the infinite forest")
    if any(law):
        ax.set_yscale("log")
        label_sparsely(ax.yaxis, lambda off: f"{off:g}")
    _finish(report, ax)
    return ax


class Score(Protocol):
    """What the picture of a score reads, and its account."""

    @property
    def metric(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def at_all_trees(self) -> float: ...
    @property
    def interval(self) -> tuple[float, float]: ...
    @property
    def curve(self) -> tuple[Int64s, Floats]: ...
    @property
    def available(self) -> int: ...
    @property
    def votes_per_row(self) -> float: ...
    @property
    def source(self) -> str: ...
    @property
    def n_rows(self) -> int: ...


def plot_score(score: Score, ax: Axes | None = None) -> Axes:
    """Draw a score over the number of trees; see `OobScore.plot`."""
    if ax is None:
        ax = new_axes()
    sizes, values = score.curve
    ax.plot(sizes, values, color="C0", marker=".", label="out of bag, of the first trees")
    low, high = score.interval
    ax.errorbar(
        score.available,
        score.at_all_trees,
        yerr=np.abs(np.array([[low], [high]]) - score.at_all_trees),
        fmt="o",
        color="C3",
        capsize=4.0,
        label="all trees on fresh rows, 95 % interval",
        zorder=4,
        clip_on=False,
    )
    _mark_forest(ax, score.available)
    first = sizes[np.isfinite(values)].min(initial=score.available)  # the last has a value
    if first < 0.1 * score.available:
        ax.set_xscale("log")
    ax.set_xlim(first, score.available + 0.5 * (score.available - first) + 1)
    ax.set_xlabel("trees in the forest")
    ax.set_ylabel(score.metric)
    ax.set_title(f"Out of bag, {score.metric} is {score.value:.4g}")
    label_counts(ax.xaxis)
    finish(ax)
    return ax
