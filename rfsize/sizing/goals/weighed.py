"""Smaller forests made in several ways: what they lose, beside the bytes of their files and the time of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from rfsize.adapters.registry import adapter_for
from rfsize.reporting.account import Picture
from rfsize.sizing.described import Savings, Weight, weight_of
from rfsize.utils import matrix
from rfsize.utils.plotting import faint, finish, label_evenly, label_sparsely
from rfsize.utils.typing import Floats
from rfsize.utils.words import how_many, in_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _gone() -> None:
    """The model of a forest that was weighed before it was pickled."""


# Of the ways, in turn.
_COLORS = ("C2", "C1", "C0")


class Smaller(NamedTuple):
    """A smaller forest.

    Attributes
    ----------
    way : str
        How it was made, such as "first trees".
    n_trees : int
    lost : float
        The share of rows that it answers unlike the whole forest.
    make : callable
        Returns the model; after pickling it is gone.
    """

    way: str
    n_trees: int
    lost: float
    make: Callable[[], Any]


@dataclass(frozen=True, eq=False)
class Weighing:
    """Smaller forests beside the whole one.

    Attributes
    ----------
    forests : tuple of Smaller
        Way by way; the one that is kept is the last of its size.
    whole : Smaller
    n_kept : int
        Trees of the forest that is kept.
    level : float
        The share of rows that may be answered otherwise.
    axis : str
        What a picture calls the share of rows that stays.
    rows : rows of any kind
        To time predictions on.
    """

    forests: tuple[Smaller, ...]
    whole: Smaller
    n_kept: int
    level: float
    axis: str
    rows: Any

    @cached_property
    def n_timed(self) -> int:
        """Rows that are predicted together."""
        return matrix.n_rows(self.rows)

    @cached_property
    def weights(self) -> tuple[Weight, ...]:
        """What each of the smaller forests costs, and the whole one."""
        models = (one.make() for one in (*self.forests, self.whole))
        return tuple(weight_of(adapter_for(one, casts_votes=False, may_be_shrunk=True), self.rows) for one in models)

    def without_models(self) -> Self:
        """The same with what was weighed alone."""
        *forests, whole = (one._replace(make=_gone) for one in (*self.forests, self.whole))
        found = replace(self, forests=tuple(forests), whole=whole, rows=None)
        found.__dict__.update(weights=self.weights, n_timed=self.n_timed)
        return found

    @property
    def _kept(self) -> int:
        """The place of the forest that is kept."""
        return max(place for place, one in enumerate(self.forests) if one.n_trees == self.n_kept)

    @property
    def savings(self) -> Savings:
        """What the whole forest costs, and the one that is kept."""
        return Savings(self.weights[-1], self.weights[self._kept], self.n_timed)

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """What is lost over the bytes of a file, and over the time of a row."""
        return (
            Picture(f"{self.axis} over the bytes of the model's file".capitalize(), self._draw_bytes),
            Picture(f"{self.axis} over the time of a row".capitalize(), self._draw_time),
        )

    def _draw_bytes(self, ax: Axes) -> None:
        unit, size = ("MB", 1e6) if self.weights[-1].n_bytes >= 1e6 else ("kB", 1e3)
        ax.set_xlabel(f"file of the model, {unit}")
        self._draw([weight.n_bytes / size for weight in self.weights], ax)

    def _draw_time(self, ax: Axes) -> None:
        ax.set_xlabel(f"time of a row, µs ({how_many(self.n_timed, 'row')} at once)")
        self._draw([1e6 * weight.seconds for weight in self.weights], ax)

    def _draw(self, costs: Sequence[float], ax: Axes) -> None:
        """What is lost over what it costs; no loss stands nowhere on a logarithmic axis."""
        lost = [one.lost or np.nan for one in self.forests]
        for color, way in zip(_COLORS, dict.fromkeys(one.way for one in self.forests), strict=False):
            of_way = [place for place, one in enumerate(self.forests) if one.way == way]
            ax.plot([costs[of] for of in of_way], [lost[of] for of in of_way], ".-", color=color, label=way)
        kept = self._kept
        ring: dict[str, Any] = {"color": "C3", "markersize": 9.0, "fillstyle": "none", "zorder": 4}
        ax.plot(costs[kept], lost[kept], "o", label=f"kept: {how_many(self.n_kept, 'tree')}", **ring)
        ax.axhline(self.level, **faint(ax, ":"), label=f"certified: {in_percent(1.0 - self.level)}")
        whole = how_many(self.whole.n_trees, "tree")
        ax.axvline(costs[-1], **faint(ax, "-."), label=f"your forest: {whole}")
        self._finish(np.array([*lost, self.level]), ax)

    def _finish(self, levels: Floats, ax: Axes) -> None:
        ax.set_xscale("log")
        label_evenly(ax.xaxis)
        ax.set_ylabel(self.axis)
        ax.set_yscale("log")
        ax.set_ylim(2.0 * np.nanmax(levels), 0.5 * np.nanmin(levels))  # more rows agree higher up
        label_sparsely(ax.yaxis, lambda lost: in_percent(1.0 - lost))
        finish(ax)
