"""Importances: the loss for each shuffled column, its interval, and which losses are more than noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import rankdata
from scipy.stats import t as student

from rfsize._util import Caution, Floats, Int64s, give, how_many, whole
from rfsize.estimation.intervals import TAIL
from rfsize.importance.goal import ImportanceGoal
from rfsize.importance.measured import Measured
from rfsize.reporting.account import Account, Grid, Picture, Section
from rfsize.reporting.result import Result
from rfsize.showing.plotting import finish, ink, new_axes, shortened
from rfsize.sizing.report import Report
from rfsize.sizing.words import decimals, metric_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PRINTED, _DRAWN = 20, 40  # most columns that a printed page and a figure have room for
_AT_ONCE = 256  # columns compared with all others in one step, which bounds the memory


class Importance(NamedTuple):
    """How much the forest loses when a column, or a set of columns, is shuffled.

    Attributes
    ----------
    name : str
        Name of the column or the set.
    value : float
        By how much the metric becomes worse when the column is shuffled.
    interval : tuple of float
        95 % interval of ``value``, for other rows and other seeds.
    rank : int
        Rank among all columns; the most important column has rank 1.
    rank_interval : tuple of int
        First and last rank that the column may have, at 95 % confidence.
    is_noise : bool
        Whether the interval reaches down to 0 or below, so that the column may not matter at all.
    """

    name: str
    value: float
    interval: tuple[float, float]
    rank: int
    rank_interval: tuple[int, int]
    is_noise: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values that ``json`` can write."""
        return {**self._asdict(), "interval": list(self.interval), "rank_interval": list(self.rank_interval)}


@dataclass(frozen=True, eq=False)
class Importances(Result):
    """The answer of `rfsize.oob_importance`.

    Attributes
    ----------
    columns : tuple of Importance
        Importances of the columns, the most important first. ``pandas.DataFrame(importances.columns)`` makes a table.
    metric : str
        Name of the metric.
    of : {"trees", "forest"}
        Whether the loss is the mean over single trees, or that of the whole forest's averaged predictions.
    score : float
        The metric out of bag with no column shuffled.
    available : int
        Number of trees in the forest.
    n_rows : int
        Number of rows that were used.
    votes_per_row : float
        Trees asked about a row, on average.
    groups : {"rows", "copies", "given", "unknown"}
        Which training rows belong together, as in `Report`.
    copied : float or None
        Share of the training rows that have a copy; None if rfsize did not look for copies.

    See Also
    --------
    oob_importance : Compute importances.
    Report : What ``size`` returns.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> importances = rfsize.oob_importance(forest, X, y)
    >>> importances["worst area"].is_noise
    False
    >>> importances.columns[0].rank
    1
    """

    columns: tuple[Importance, ...]
    metric: str
    of: str
    score: float
    available: int
    n_rows: int
    votes_per_row: float
    groups: str
    copied: float | None
    _measured: Measured
    _cautions: tuple[Caution, ...] = ()

    def __getitem__(self, name: str) -> Importance:
        """The importance of a column or a set by its name; ``KeyError`` if there is no such name."""
        for one in self.columns:
            if one.name == name:
                return one
        raise KeyError(f"{name!r} was not permuted: see [one.name for one in importances.columns]")

    def size(self, *, top: int | None = None, alpha: float = 0.95) -> Report:
        """How many trees you need until importances hardly depend on the seed.

        rfsize trains nothing again. The trees of a forest are independent draws, so the losses of its single trees show
        how much the importances of two forests of any size would differ.

        Parameters
        ----------
        top : int, optional
            Compare which columns are among the ``top`` most important, whatever their order. By default the order of
            all columns is compared.
        alpha : float, default 0.95
            How alike two forests of different seeds must be, on average: Spearman's rank correlation of their
            importances. With ``top``, the share of the ``top`` columns that both have in common.

        Returns
        -------
        Report
            As `rfsize.size` returns: T* with a 95 % interval, and whether your forest has enough trees.
            ``report.loss_at(n).value`` is 1 minus how alike two forests of n trees are.

        Raises
        ------
        ValueError
            If ``top`` is not at least 1 and below the number of columns, if ``alpha`` is not a share, or if there is
            only one column.

        Warns
        -----
        ForestWarning
            If the trees are not independent draws.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
        >>> importances = rfsize.oob_importance(forest, X, y)
        >>> report = importances.size(top=10, alpha=0.8)
        >>> report.loss_at(10).value > report.loss_at(1000).value
        True
        """
        if len(self.columns) < 2:
            raise ValueError("one column has no order: give at least two columns or sets")
        if top is not None:
            top = whole("top", top, at_least=1, at_most=len(self.columns) - 1)
        goal = ImportanceGoal(of=self._measured, alpha=alpha, top=top)
        give(self._cautions)
        return Report(goal, self.available, "oob", self.copied, self.groups, self._cautions, goal.answered(), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values that ``json`` can write."""
        plain = {name: value for name, value in self.__dict__.items() if not name.startswith("_")}
        return {**plain, "columns": [one.to_dict() for one in self.columns]}

    def plot(self, ax: Axes | None = None) -> Axes:
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
        shown = self.columns[:_DRAWN]
        if ax is None:
            ax = new_axes(height=1.6 + 0.22 * len(shown))
        place, value = np.arange(len(shown)), np.array([one.value for one in shown])
        is_noise = np.array([one.is_noise for one in shown])
        for some, alpha, label in ((~is_noise, 0.9, "beyond noise"), (is_noise, 0.3, "may be noise")):
            if some.any():
                ax.barh(place[some], value[some], color="C0", alpha=alpha, label=label)
        off = np.abs(np.array([one.interval for one in shown]).T - value)
        ax.errorbar(value, place, xerr=off, fmt="none", ecolor=ink(ax), elinewidth=1.0, label="95 % interval")
        ax.set_yticks(place, [shortened(one.name) for one in shown], parse_math=False)
        ax.margins(y=0.02)
        ax.invert_yaxis()
        ax.set_xlabel(f"loss of {self._words} when the column is shuffled")
        ax.set_title(self._title)
        finish(ax)
        return ax

    def _account(self) -> Account:
        heads = ("rank", "column", f"loss of {self._words}", "95 % interval", "ranks it may have")
        rows = tuple((str(one.rank), *self._cells(one)) for one in self.columns[:_DRAWN])
        return Account(
            title="Importances of columns, out of bag",
            verdict=f"{self._title}.",
            sections=(
                Section("", (f"{self._measure[0].upper()}{self._measure[1:]}.",)),
                Section("From the most important on", pictures=(Picture("importances", self.plot),)),
                Section("In numbers", grids=(Grid(heads, rows),)),
            ),
            origin=(
                ("rows", f"{how_many(self.n_rows, 'row')}, out of bag"),
                ("trees asked of a row", f"{self.votes_per_row:,.1f} of {self.available:,} on average"),
            ),
        )

    @property
    def _words(self) -> str:
        return metric_in_words(self.metric)

    @property
    def _title(self) -> str:
        told = sum(not one.is_noise for one in self.columns)
        return f"{told} of {how_many(len(self.columns), 'column')} {'matters' if told == 1 else 'matter'} beyond noise"

    @property
    def _measure(self) -> str:
        """One sentence on the metric and on what a loss is."""
        who = "a tree on average" if self.of == "trees" else "the whole forest"
        return (
            f"out of bag, the {self._words} of {who} is {self.score:.4g}; "
            "loss: how much worse it becomes when the column is shuffled"
        )

    def _cells(self, one: Importance) -> tuple[str, str, str, str]:
        digits, (low, high), (first, last) = decimals(one.interval), one.interval, one.rank_interval
        value = f"{one.value:.{digits}f}", f"{low:.{digits}f} to {high:.{digits}f}"
        return (shortened(one.name), *value, str(first) if first == last else f"{first} to {last}")

    def __str__(self) -> str:
        rows = [("", "loss", "95 % interval", "ranks"), *map(self._cells, self.columns[:_PRINTED])]
        wide = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        marks = [" ", *("~" if one.is_noise else " " for one in self.columns)]
        table = [
            f"{mark}  {name:{wide[0]}}  {value:>{wide[1]}}  {interval:>{wide[2]}}  {ranks:>{wide[3]}}"
            for mark, (name, value, interval, ranks) in zip(marks, rows, strict=False)
        ]
        more = len(self.columns) - _PRINTED
        lines = [self._measure, *table, *([f"   and {how_many(more, 'more column')}"] if more > 0 else [])]
        noise = "" if not any(one.is_noise for one in self.columns) else "; ~ may be noise"
        asked, trees = how_many(self.n_rows, "out-of-bag row"), how_many(self.available, "tree")
        votes = f"from {asked}, {self.votes_per_row:.1f} of {trees} each"
        return "\n".join([*lines, f"{self._title}{noise}", votes])

    __repr__ = __str__


def columns_of(names: tuple[str, ...], measured: Measured) -> tuple[Importance, ...]:
    """The importance of each set with its intervals, the most important first."""
    value, off, is_noise = measured.value, measured.off, measured.is_noise
    rank, lowest, highest = rankdata(-value, "min").astype(np.int64), *_ranks_between(measured)
    found = [
        Importance(
            names[place],
            float(value[place]),
            (float(value[place] - off[place]), float(value[place] + off[place])),
            int(rank[place]),
            (int(lowest[place]), int(highest[place])),
            bool(is_noise[place]),
        )
        for place in np.argsort(-value, kind="stable")
    ]
    return tuple(found)


def _ranks_between(measured: Measured) -> tuple[Int64s, Int64s]:
    """The first and the last rank that each column may have.

    They follow from how many columns are surely more important, and how many surely less. Bonferroni's bound covers all
    comparisons of one column: M. Mogstad, J. Romano, A. Shaikh, D. Wilhelm (2024). "Inference for ranks with
    applications to mobility across neighbourhoods and academic achievement across countries." Review of Economic
    Studies 91(1), 476-518.
    """
    value, parts = measured.value, measured.of_parts - measured.of_parts.mean(axis=0)
    n_parts, n_columns = parts.shape
    wide = float(student.ppf(1.0 - TAIL / max(1, n_columns - 1), n_parts - 1.0))
    variance = measured.of_rows + measured.of_trees
    above, below = np.zeros(n_columns, dtype=np.int64), np.zeros(n_columns, dtype=np.int64)
    for first in range(0, n_columns, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        together = parts[:, some].T @ parts / (n_parts * (n_parts - 1.0))
        off = wide * np.sqrt(np.maximum(variance[some, None] + variance - 2.0 * together, 0.0))
        lead: Floats = value - value[some, None]
        above[some], below[some] = (lead > off).sum(axis=1), (-lead > off).sum(axis=1)
    return above + 1, n_columns - below
