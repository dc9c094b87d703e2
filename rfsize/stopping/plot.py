"""The picture of a stop table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rfsize._util import how_many, in_percent
from rfsize.showing.plots import faint, finish, label_counts, label_sparsely, new_axes
from rfsize.showing.text import shortened
from rfsize.stopping.rules import Rule
from rfsize.stopping.scores import IntervalRule
from rfsize.stopping.spread import SpreadRule
from rfsize.stopping.votes import VoteRule, WeightedVote

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.stopping.table import StopTable

# More points than this cannot be told apart in a picture.
_MOST_POINTS = 300


def plot_table(table: StopTable, ax: Axes | None = None) -> Axes:
    """Draw when rows stop, and the certificate; see `StopTable.plot`."""
    ax = new_axes() if ax is None else ax
    names = [f"class {shortened(name)}" for name in table.class_labels]
    if isinstance(table.stops, VoteRule):
        _draw_votes(table.stops, table.n_trees, names, ax)
    else:
        _draw_bound(table.stops, table.n_trees, table.n_classes, ax)
    certificate = table.certificate
    trees = sum(outcome.share * outcome.trees for outcome in table.by_class() if outcome.share != 0.0)
    if not math.isnan(trees):
        known = "expected" if certificate is None else "measured"
        ax.axvline(trees, **faint(ax, "--"), label=f"{known}: {trees:,.1f} trees per row")
    if certificate is not None:
        of = "" if certificate.average == "micro" else " of each class"
        ax.plot([], [], " ", label=f"certified: at most {in_percent(certificate.bound)}{of} differ")
    ax.set_title(f"When to stop voting: α = {table.alpha!r}, {how_many(table.n_trees, 'tree')}")
    label_counts(ax.xaxis)
    finish(ax)
    return ax


def _draw_votes(rule: VoteRule, n_trees: int, names: list[str], ax: Axes) -> None:
    """The votes for class 1 that stop a row which gives all its other votes to class 0."""
    n_used = np.unique(np.linspace(1, n_trees, min(n_trees, _MOST_POINTS)).astype(np.int64))
    stops = np.full((2, len(n_used)), np.nan)
    for point, t in enumerate(n_used.tolist()):
        votes = np.zeros((t + 1, len(names)), dtype=np.int64)
        votes[:, 1] = np.arange(t + 1)
        votes[:, 0] = t - votes[:, 1]
        label = rule.labels(t, votes, n_trees)
        for index, nearest in enumerate((np.max, np.min)):
            if (label == index).any():
                stops[index, point] = nearest(np.flatnonzero(label == index))
    low, high = np.nan_to_num(stops[0], nan=0.0), np.where(np.isnan(stops[1]), n_used, stops[1])
    ax.fill_between(n_used, low, high, color="C0", alpha=0.15, linewidth=0.0, label="go on to the next tree")
    style = "o" if len(n_used) == 1 else "-"
    for index, color in ((1, "C1"), (0, "C2")):
        ax.plot(n_used, stops[index], style, clip_on=False, color=color, label=f"stop: {names[index]}")
    ax.plot(n_used, n_used / 2.0, **faint(ax, ":"), label="half of the votes")
    ax.set_xlim(n_used[0], max(n_used[0] + 1, n_used[-1]))
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("trees used")
    ax.set_ylabel(f"votes for {names[1]}", parse_math=False)
    label_counts(ax.yaxis)


def _draw_bound(rule: Rule, n_trees: int, n_classes: int, ax: Axes) -> None:
    """The lead, or the spread, that stops a row."""
    n_used = np.arange(1, n_trees)
    xlabel, label = "trees used", "stop: the first class is so far ahead"
    if isinstance(rule, IntervalRule):
        bound, ylabel = rule.margin[1:-1], "lead in the score so far" if rule.adds_up else "lead in the mean score"
    elif isinstance(rule, SpreadRule):
        left, what = np.sqrt(1.0 / n_used - 1.0 / n_trees), "standard deviation of the trees"
        if rule.remainder is not None:
            left, what = rule.remainder.left[:-1], "leaves, relative to those of other rows"
        bound = np.divide(rule.limit, left, out=np.full(left.shape, np.nan), where=left > 0.0)
        label, ylabel = "stop: scores spread by no more", f"{what},\nas {rule.metric}"
    else:
        assert isinstance(rule, WeightedVote)
        left = rule.remaining(n_classes)
        n_used, bound, xlabel = np.arange(len(left)), left / left[0], "members used, the heaviest first"
        label, ylabel = "stop: the remaining weight cannot change the outcome", "lead, share of the weight"
    points = np.unique(np.linspace(0, len(bound) - 1, min(len(bound), _MOST_POINTS)).astype(np.int64))
    ax.plot(n_used[points], bound[points], "o" if len(bound) == 1 else "-", color="C1", label=label)
    if isinstance(rule, IntervalRule) and bound.any():
        ax.set_yscale("log")
        label_sparsely(ax.yaxis, lambda lead: f"{lead:g}")
    else:
        ax.set_ylim(bottom=0.0)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
