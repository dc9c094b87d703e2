"""FractionSearch: the result of a search for the bagging fraction, as text, HTML page and picture."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import how_many
from rfsize.reporting.account import Account, Figure, Grid, Picture, Remark, Section
from rfsize.reporting.result import Result
from rfsize.reporting.words import sentence
from rfsize.showing.plotting import finish, new_axes
from rfsize.theory.sampling_ratio import ratio_with_replacement

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


_LINE = 60  # characters of a title
_SE = 1.96  # standard errors on either side of a 95 % interval


@dataclass(frozen=True, eq=False)
class FractionSearch(Result):
    """The result of `select_bagging_fraction`.

    Attributes
    ----------
    best : float
        The chosen fraction.
    curve : structured ndarray, shape (n_fractions,)
        One row per fraction, in ascending order:

        - ``fraction``, ``trees``: the fraction, and the number of trees of its forest;
        - ``error`` (or ``score``), ``standard_error``: the out-of-bag error, and its standard error over the choice of
          rows;
        - ``difference``, ``difference_se``: how much worse the fraction is than the best (positive is worse, for scores
          too), and the standard error over other rows, paired row by row, and other trees;
        - ``seconds``: time to train the forest.
    params : dict or estimator
        Your parameters, or a copy of your estimator, with the best fraction. Give them to `rfsize.grow`.
    metric : str
        Name of the column: "error" if less is better, "score" if more is better.
    rule : str
        As you gave it.
    own : float or None
        Your own fraction, if your parameters name one. ``rule="keep"`` chooses it unless another fraction is better by
        more than noise.
    left_out : tuple of float
        Fractions that were not compared, because rows would have had too few out-of-bag votes.
    n_rows, n_dropped : int
        Number of rows compared, and of rows left out because some forest had no out-of-bag vote on them.
    of_labels : bool
        Whether the forests classify.

    See Also
    --------
    select_bagging_fraction : Search for the fraction.
    grow : Train with it.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> params = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "verbosity": -1}
    >>> found = rfsize.select_bagging_fraction(params, lgb.Dataset(X, y), fractions=[0.2, 0.5], n_trees=50)
    >>> found.curve["fraction"].tolist(), found.trees_grown
    ([0.2, 0.5], 100)
    >>> bool(found.curve["error"].max() < 0.2)
    True
    """

    best: float
    params: Any
    curve: NDArray[np.void]
    metric: str
    rule: str
    own: float | None
    left_out: tuple[float, ...]
    n_rows: int
    n_dropped: int
    of_labels: bool

    @property
    def trees_grown(self) -> int:
        """Number of trees that the search trained."""
        return int(self.curve["trees"].sum())

    def to_frame(self) -> pandas.DataFrame:
        """The curve as a pandas.DataFrame.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        import pandas

        return pandas.DataFrame(self.curve)

    def to_dict(self) -> dict[str, Any]:
        """The search as plain Python values that ``json`` can write, without `params`."""
        names = self.curve.dtype.names or ()
        rows = [dict(zip(names, row, strict=True)) for row in self.curve.tolist()]
        told = ("best", "own", "rule", "metric", "n_rows", "n_dropped")
        return {**{name: getattr(self, name) for name in told}, "left_out": list(self.left_out), "curve": rows}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the out-of-bag curve with its standard errors, and the chosen fraction.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
        """
        if ax is None:
            ax = new_axes()
        self._draw(ax)
        ax.set_title("\n".join(wrap(self._choice, _LINE)))
        ax.set_xlabel("bagging fraction (rows drawn without replacement)")
        ax.axvline(self.best, color="C1", linewidth=1.0, linestyle="--", zorder=1)
        finish(ax)
        return ax

    def _draw(self, ax: Axes) -> None:
        from matplotlib.ticker import PercentFormatter

        curve = self.curve
        style: dict[str, Any] = {"fmt": "o-", "color": "C0", "elinewidth": 1.0, "capsize": 2.5}
        label = f"out-of-bag {self.metric} ± standard error"
        ax.errorbar(curve["fraction"], curve[self.metric], curve["standard_error"], label=label, **style)
        chosen = curve[curve["fraction"] == self.best]
        ax.plot(chosen["fraction"], chosen[self.metric], "D", color="C1", zorder=5, label="chosen")
        ax.set_ylabel(f"out-of-bag {self.metric}")
        if self._of_shares:
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))

    def _account(self) -> Account:
        at = int((self.curve["fraction"] == self.best).argmax())
        error, off = (self._number(self.curve[name][at]) for name in (self.metric, "standard_error"))
        picture = Picture(f"Out-of-bag {self.metric} over the bagging fraction", self.plot)
        rows = tuple(
            (
                f"{row['fraction']:.3f}",
                f"{row['trees']:,}",
                f"{self._number(row[self.metric])} ± {self._number(row['standard_error'])}",
                f"{self._number(row['difference'])} ± {self._number(row['difference_se'])}",
            )
            for row in self.curve
        )
        grid = Grid(("fraction", "trees", f"out-of-bag {self.metric}", "worse than the best by"), rows, at)
        return Account(
            title="Bagging fraction",
            verdict=sentence(self._choice),
            cautions=tuple(Remark(sentence(text)) for text in self._remarks),
            figures=(
                Figure("bagging fraction", f"{self.best:.3f}", f"worth {self._ratio} with replacement"),
                Figure(f"out-of-bag {self.metric}", error, f"± {off}"),
                *self._next_best,
            ),
            sections=(Section("", pictures=(picture,), grids=(grid,)),),
            code="forest, report = rfsize.grow(search.params, data)  # with this fraction, and as many trees as needed",
            origin=(("rows", f"{self.n_rows:,}, {self._judged}"), ("trees grown to compare", f"{self.trees_grown:,}")),
        )

    @property
    def _next_best(self) -> tuple[Figure, ...]:
        """How much better the best fraction is than the next best, with the 95 % interval; empty for one fraction."""
        others = self.curve[self.curve["fraction"] != self._least]
        if not len(others):
            return ()
        other = others[others["difference"].argmin()]
        low, high = (self._number(other["difference"] + side * _SE * other["difference_se"]) for side in (-1.0, 1.0))
        what = f"{self._least:.3f} is better than {other['fraction']:.3f} by"
        return (Figure(what, self._number(other["difference"]), f"95 %: {low} to {high}".replace("-", "−")),)

    def __str__(self) -> str:
        columns = (self.metric, "standard_error", "difference", "difference_se")
        lines = [f"{'fraction':>9}{'trees':>7}{self.metric:>10}{'± s.e.':>10}{'worse by':>10}{'± s.e.':>10}"]
        for row in self.curve:
            numbers = "".join(f"{self._number(row[name]):>10}" for name in columns)
            mark = "*" if row["fraction"] == self.best else " "
            lines.append(f"{mark}{row['fraction']:>8.3f}{row['trees']:>7,}{numbers}")
        lines.append(self._choice)
        lines += [f"! {text}" for text in self._remarks]
        lines.append(f"fraction {self.best:.3f} is worth a sampling ratio of {self._ratio} with replacement")
        lines.append(f"{self.trees_grown:,} trees grown; {self.n_rows:,} rows, {self._judged}")
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def _of_shares(self) -> bool:
        return self.of_labels and self.metric == "error"

    @property
    def _ratio(self) -> str:
        return f"{ratio_with_replacement(self.best):.2f}"

    def _number(self, value: float) -> str:
        return f"{100.0 * value:.2f} %" if self._of_shares else f"{value:.4g}"

    @property
    def _choice(self) -> str:
        """The sentence that says which fraction is chosen, and how much better it is."""
        n = len(self.curve)
        if self.own is None or self.own in self.left_out:
            return f"fraction {self.best:.3f} has the best {self.metric} of {n}{self._level}"
        own = self.curve[self.curve["fraction"] == self.own][0]
        apart = f"{self._number(own['difference'])} ± {self._number(own['difference_se'])}"
        if self.best != self.own:
            return f"take fraction {self.best:.3f}: its {self.metric} is better than your {self.own:.3f}'s by {apart}"
        if self._least == self.own:
            return f"keep your fraction {self.own:.3f}: it has the best {self.metric} of {n}{self._level}"
        return f"keep your fraction {self.own:.3f}: the best of {n}, {self._least:.3f}, is better by {apart}: noise"

    @property
    def _level(self) -> str:
        """How many other fractions may be as good as the best one."""
        level = np.sum(self.curve["difference"] <= _SE * self.curve["difference_se"]) - 1
        return f"; {how_many(int(level), 'other')} may be as good, within noise" if level else ""

    @property
    def _least(self) -> float:
        """The fraction with the best error or score."""
        return float(self.curve["fraction"][self.curve["difference"].argmin()])

    @property
    def _remarks(self) -> list[str]:
        """That fractions were left out, and that the best is the smallest or the largest of those compared."""
        remarks, fractions = [], self.curve["fraction"]
        if self.left_out:
            left_out = ", ".join(f"{fraction:.3f}" for fraction in self.left_out)
            own = ", your own," if self.own in self.left_out else ""
            remarks.append(
                f"left out: {left_out}{own} for which {int(self.curve['trees'][0]):,} trees leave rows too few "
                "out-of-bag votes: give a larger n_trees"
            )
        if len(fractions) > 1 and self._least in (fractions[0], fractions[-1]):
            remarks.append(
                f"the best {self.metric} is at {self._least:.3f}, at the end of the fractions compared: compare "
                "fractions beyond it"
            )
        return remarks

    @property
    def _judged(self) -> str:
        left_out = (
            f"; {self.n_dropped:,} left out, because in some forest every tree saw them" if self.n_dropped else ""
        )
        return f"judged by the trees that did not see them{left_out}"
