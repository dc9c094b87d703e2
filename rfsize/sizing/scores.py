"""The results of `rfsize.oob_score`: the score of one forest, or the scores of the forests of several folds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfsize._util import Floats, Int64s, how_many
from rfsize.reporting.account import Account, Figure, Picture, Section
from rfsize.reporting.result import Result
from rfsize.showing.plotting import finish, label_counts, new_axes
from rfsize.sizing.page import SOURCES
from rfsize.sizing.plots import mark_forest
from rfsize.sizing.words import decimals, metric_in_words, rows_from

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Curve(NamedTuple):
    """The score over the number of trees.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n_sizes,)
        Numbers of first trees.
    values : ndarray of float64, shape (n_sizes,)
        The out-of-bag score of these trees, on the rows that at least one of them was not trained on; NaN if there are
        no such rows.
    """

    sizes: Int64s
    values: Floats


@dataclass(frozen=True, eq=False)
class OobScore(Result):
    """The result of `rfsize.oob_score`.

    Attributes
    ----------
    metric : str
        Name of the metric.
    value : float
        The metric of the out-of-bag predictions, those of `oob_predict_proba` or `oob_predict`.
    at_all_trees : float
        The metric to expect if all trees predict each row, as on fresh rows.
    interval : tuple of float
        95 % interval of the metric of your forest on fresh rows.
    curve : Curve
        The metric of the out-of-bag predictions of the first n trees, over n.
    available : int
        Number of trees of the forest.
    votes_per_row : float
        Mean number of trees that predicted a row.
    source : str
        "oob".
    groups : {"rows", "copies", "given", "unknown"}
        Which training rows belong together, as in `Report`.
    n_rows : int
        Rows that were scored.
    n_dropped : int
        Rows left out because every tree was trained on them.

    See Also
    --------
    oob_score : Compute the score.
    compare : Compare two forests by a metric.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> print(rfsize.oob_score(forest, X, y, metric="auc"))
    AUC 0.99... out of bag, with ... trees a row
    about 0.99... with all 100 trees; on fresh rows 0.9... to 0.99... (95 %)
    from 569 out-of-bag rows
    """

    metric: str
    value: float
    at_all_trees: float
    interval: tuple[float, float]
    curve: Curve
    available: int
    votes_per_row: float
    source: str
    groups: str
    n_rows: int
    n_dropped: int

    def to_dict(self) -> dict[str, Any]:
        """The score as plain Python values that ``json`` can write; undefined values of the curve become None."""
        values = [value if math.isfinite(value) else None for value in self.curve.values.tolist()]
        plain = {**self.__dict__, "interval": list(self.interval)}
        return {**plain, "curve": {"sizes": self.curve.sizes.tolist(), "values": values}}

    def plot(self, ax: Axes | None = None) -> Axes:
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
        if ax is None:
            ax = new_axes()
        sizes, values = self.curve
        ax.plot(sizes, values, color="C0", marker=".", label="out of bag, of the first trees")
        ax.errorbar(
            self.available,
            self.at_all_trees,
            yerr=np.abs(np.array(self.interval)[:, None] - self.at_all_trees),
            fmt="o",
            color="C3",
            capsize=4.0,
            label="all trees on fresh rows, 95 % interval",
            zorder=4,
            clip_on=False,
        )
        mark_forest(ax, self.available)
        first = sizes[np.isfinite(values)].min(initial=self.available)  # the last has a value
        if first < 0.1 * self.available:
            ax.set_xscale("log")
        ax.set_xlim(first, self.available + 0.5 * (self.available - first) + 1)
        ax.set_xlabel("trees in the forest")
        ax.set_ylabel(self._words)
        ax.set_title(f"Out of bag, {self._words} is {self.value:.4g}")
        label_counts(ax.xaxis)
        finish(ax)
        return ax

    def _account(self) -> Account:
        low, high = map(self._in_digits, self.interval)
        trees, name = how_many(self.available, "tree"), self._words
        asked = f"of {self.votes_per_row:.1f} trees a row"
        return Account(
            title="Out-of-bag score",
            verdict=f"On fresh rows the {name} of all {trees} is {low} to {high} (95 %).",
            figures=(
                Figure(f"{name}, out of bag", self._in_digits(self.value), asked),
                Figure(f"{name}, all trees", self._in_digits(self.at_all_trees), f"95 %: {low} to {high}"),
            ),
            sections=(Section("", pictures=(Picture(f"{name} over the number of trees", self.plot),)),),
            origin=(("rows", f"{how_many(self.n_rows, 'row')}, {SOURCES[self.source]}"),),
        )

    @property
    def _words(self) -> str:
        """What sentences call the metric."""
        return metric_in_words(self.metric)

    def _in_digits(self, value: float) -> str:
        """A value of the metric, with as many digits as the width of the interval allows."""
        return f"{value:.{decimals(self.interval)}f}"

    def __str__(self) -> str:
        dropped = f"; {self.n_dropped:,} left out, which every tree saw" if self.n_dropped else ""
        grouped = {"given": " in groups", "copies": " with copies in groups"}.get(self.groups, "")
        value, at_all, low, high = map(self._in_digits, (self.value, self.at_all_trees, *self.interval))
        return (
            f"{self._words} {value} out of bag, with {self.votes_per_row:.1f} trees a row\n"
            f"about {at_all} with all {how_many(self.available, 'tree')}; on fresh rows {low} to {high} (95 %)\n"
            f"from {rows_from(self.n_rows, self.source)}{grouped}{dropped}"
        )

    __repr__ = __str__
