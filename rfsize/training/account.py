"""What a search for the bagging fraction says of itself on a page."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from rfsize.reporting.account import Account, Figure, Grid, Picture, Section
from rfsize.theory.sampling_ratio import ratio_with_replacement
from rfsize.training.plots import Search, plot_bagging_fraction


class DoneSearch(Search, Protocol):
    """What the account of a search reads."""

    @property
    def n_rows(self) -> int: ...
    @property
    def n_dropped(self) -> int: ...
    @property
    def trees_grown(self) -> int: ...


def search_account(search: DoneSearch) -> Account:
    """The account of a search."""
    which = "the best" if search.rule == "best" else "the smallest within one standard error of the best"
    at = int((search.curve["fraction"] == search.best).argmax())
    error, off = (_number(search, search.curve[name][at]) for name in (search.metric, "standard_error"))
    picture = Picture(f"Out-of-bag {search.metric} over the bagging fraction", partial(plot_bagging_fraction, search))
    ratio = f"{ratio_with_replacement(search.best):.2f} with replacement"
    left_out = f"; {search.n_dropped:,} left out, which some forest had no such tree for" if search.n_dropped else ""
    return Account(
        title="Bagging fraction",
        verdict=f"A bagging fraction of {search.best:.3f} is {which} of {len(search.curve)}.",
        figures=(
            Figure("bagging fraction", f"{search.best:.3f}", f"worth {ratio}"),
            Figure(f"out-of-bag {search.metric}", error, f"± {off}"),
        ),
        sections=(Section("", pictures=(picture,), grids=(_grid(search, at),)),),
        code="forest, report = rfsize.grow(search.params, data)  # of that fraction, and as many trees as it takes",
        origin=(
            ("rows", f"{search.n_rows:,}, judged by the trees that did not see them{left_out}"),
            ("trees grown to compare", f"{search.trees_grown:,}"),
        ),
    )


def _number(search: Search, value: float) -> str:
    return f"{value:.2%}" if search.of_labels and search.metric == "error" else f"{value:.4g}"


def _grid(search: Search, at: int) -> Grid:
    """The curve."""
    rows = tuple(
        (
            f"{row['fraction']:.3f}",
            f"{row['trees']:,}",
            f"{_number(search, row[search.metric])} ± {_number(search, row['standard_error'])}",
            f"{_number(search, row['difference'])} ± {_number(search, row['difference_se'])}",
        )
        for row in search.curve
    )
    return Grid(
        ("fraction", "trees", f"out-of-bag {search.metric}", "worse than the best by"),
        rows,
        at,
    )
