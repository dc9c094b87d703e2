"""Smaller forests made in several ways: their loss over the bytes of their files and the time of a row."""

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
    """In place of ``make`` after pickling: the model is gone."""


# One color for each way.
_COLORS = ("C2", "C1", "C0")


class Smaller(NamedTuple):
    """A smaller forest.

    Attributes
    ----------
    way : str
        How it was made, such as "first trees".
    n_trees : int
    lost : float
        The share of rows that it predicts differently from the whole forest.
    make : callable
        Returns the model; None after pickling.
    """

    way: str
    n_trees: int
    lost: float
    make: Callable[[], Any]


@dataclass(frozen=True, eq=False)
class Weighing:
    """Smaller forests compared with the whole forest.

    Attributes
    ----------
    forests : tuple of Smaller
        The smaller forests, way by way. The kept forest is the last one of its size.
    whole : Smaller
    n_kept : int
        Number of trees of the kept forest.
    level : float
        The share of rows that may get another prediction.
    axis : str
        What a picture calls the share of rows that stays the same.
    rows : rows of any kind
        Rows to time predictions on.
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
        """Bytes and time of each smaller forest, then of the whole forest."""
        models = (one.make() for one in (*self.forests, self.whole))
        return tuple(weight_of(adapter_for(one, casts_votes=False, may_be_shrunk=True), self.rows) for one in models)

    def without_models(self) -> Self:
        """The same bytes and times without the models and rows."""
        *forests, whole = (one._replace(make=_gone) for one in (*self.forests, self.whole))
        found = replace(self, forests=tuple(forests), whole=whole, rows=None)
        found.__dict__.update(weights=self.weights, n_timed=self.n_timed)
        return found

    @property
    def _kept(self) -> int:
        """The index of the kept forest."""
        return max(place for place, one in enumerate(self.forests) if one.n_trees == self.n_kept)

    @property
    def savings(self) -> Savings:
        """Bytes and time of the whole forest and of the kept forest."""
        return Savings(self.weights[-1], self.weights[self._kept], self.n_timed)

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Pictures of the loss over the bytes of the file, and over the time of a row."""
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
        """Draw the loss over the cost; a loss of 0 is left out, because the axis is logarithmic."""
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
