"""FractionSearch: the result of a search for the bagging fraction, as text, HTML page and picture."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rfsize.reporting.account import Account, Figure, Grid, Picture, Remark, Section
from rfsize.reporting.result import Result
from rfsize.reporting.words import sentence
from rfsize.theory.sampling_ratio import ratio_with_replacement
from rfsize.utils.plotting import finish, ink, new_axes
from rfsize.utils.words import how_many

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
        One row per fraction, in ascending order, from the last comparison in which the fraction took part:

        - ``fraction``, ``trees``: the fraction, and the number of trees of its forest;
        - ``error`` (or ``score``), ``standard_error``: the out-of-bag error, and its standard error over the choice of
          rows;
        - ``difference``, ``difference_se``: how much worse the fraction is than the best (positive is worse, for scores
          too), and the standard error over other rows, paired row by row, and other trees;
        - ``seconds``: time to train the forest;
        - ``dropped``: the comparison that dropped the fraction, counted from 1; 0 if it stayed to the end.
    params : dict or estimator
        Your parameters, or a copy of your estimator, with the best fraction. Give them to `rfsize.grow`.
    metric : str
        Name of the column: "error" if less is better, "score" if more is better.
    rule, search : str
        As you gave them.
    own : float or None
        Your own fraction, if your parameters name one. ``rule="keep"`` chooses it unless another fraction is better by
        more than noise.
    n_rows, n_dropped : int
        Number of rows in the last comparison, and of rows left out because some forest had no out-of-bag vote on them.
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
    search: str
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
        told = ("best", "own", "rule", "search", "metric", "n_rows", "n_dropped")
        return {**{name: getattr(self, name) for name in told}, "curve": rows}

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
        """Draw the curve. Fractions that were dropped early had fewer trees, so the line leaves them out."""
        from matplotlib.ticker import PercentFormatter

        early = self.curve["dropped"] > 0
        stayed, dropped = self.curve[~early], self.curve[early]
        ax.errorbar(
            stayed["fraction"],
            stayed[self.metric],
            stayed["standard_error"],
            fmt="o",
            color="C0",
            linestyle="none" if early.any() else "-",
            elinewidth=1.0,
            capsize=2.5,
            label=f"out-of-bag {self.metric} ± standard error",
        )
        if early.any():
            label = f"{self.metric} of fewer trees, when dropped"
            error = dropped["standard_error"]
            style: dict[str, Any] = {"fmt": ".", "color": ink(ax), "alpha": 0.5, "elinewidth": 1.0}
            ax.errorbar(dropped["fraction"], dropped[self.metric], error, **style, label=label)
        chosen = stayed[stayed["fraction"] == self.best]
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
            cautions=tuple(Remark(sentence(text)) for text in self._at_an_end),
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
        others = self.curve[(self.curve["dropped"] == 0) & (self.curve["fraction"] != self._least)]
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
            dropped = f"dropped after comparison {row['dropped']}" if row["dropped"] else ""
            mark = "*" if row["fraction"] == self.best else " "
            lines.append(f"{mark}{row['fraction']:>8.3f}{row['trees']:>7,}{numbers}  {dropped}".rstrip())
        lines.append(self._choice)
        lines += [f"! {said}" for said in self._at_an_end]
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
        if self.rule == "one-se":
            return f"fraction {self.best:.3f} is the smallest of {n} within one standard error of the best"
        if self.own is None:
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
    def _at_an_end(self) -> list[str]:
        """A caution if the best fraction is the smallest or the largest of the fractions compared."""
        fractions = self.curve["fraction"]
        if len(fractions) < 2 or self._least not in (fractions[0], fractions[-1]):
            return []
        return [
            f"the best {self.metric} is at {self._least:.3f}, at the end of the fractions compared: compare fractions "
            "beyond it"
        ]

    @property
    def _judged(self) -> str:
        left_out = (
            f"; {self.n_dropped:,} left out, because in some forest every tree saw them" if self.n_dropped else ""
        )
        return f"judged by the trees that did not see them{left_out}"
