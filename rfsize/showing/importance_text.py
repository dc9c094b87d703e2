"""Importances in words, and their page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfsize._util import how_many
from rfsize.showing.html import Page, Picture, Section, Table
from rfsize.showing.plotting import shortened
from rfsize.showing.text import decimals
from rfsize.statistics.metrics import label_of

if TYPE_CHECKING:
    from rfsize.api.importance import Importance, Importances

_PRINTED, _ON_PAGE = 20, 40  # most columns of the printed table, and of the page


def importances_title(importances: Importances) -> str:
    """How many columns matter."""
    n_columns = len(importances.columns)
    matter = sum(not column.is_noise for column in importances.columns)
    return f"{matter} of {how_many(n_columns, 'column')} {'matters' if matter == 1 else 'matter'} beyond noise"


def importances_text(importances: Importances) -> str:
    """The printed table."""
    columns, more = importances.columns[:_PRINTED], len(importances.columns) - _PRINTED
    rows = [("", "loss", "95 % interval", "ranks"), *map(_cells, columns)]
    width = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    marks = [" ", *("~" if column.is_noise else " " for column in columns)]
    table = [
        f"{mark}  {name:{width[0]}}  {value:>{width[1]}}  {interval:>{width[2]}}  {ranks:>{width[3]}}"
        for mark, (name, value, interval, ranks) in zip(marks, rows, strict=True)
    ]
    if more > 0:
        table.append(f"   and {how_many(more, 'more column')}")
    noise = "; ~ may be noise" if any(column.is_noise for column in importances.columns) else ""
    trees = how_many(importances.available, "tree")
    origin = f"from {how_many(importances.n_rows, 'out-of-bag row')}, {importances.votes_per_row:.1f} of {trees} each"
    return "\n".join([_score(importances), *table, f"{importances_title(importances)}{noise}", origin])


def importances_page(importances: Importances) -> Page:
    """The contents of the page."""
    score = _score(importances)
    heads = ("rank", "column", f"loss of {label_of(importances.metric)}", "95 % interval", "ranks it may have")
    rows = tuple((str(column.rank), *_cells(column)) for column in importances.columns[:_ON_PAGE])
    return Page(
        title="Importances of columns, out of bag",
        verdict=f"{importances_title(importances)}.",
        sections=(
            Section("", (f"{score[0].upper()}{score[1:]}.",)),
            Section("From the most important on", pictures=(Picture("importances", importances.plot),)),
            Section("In numbers", tables=(Table(heads, rows),)),
        ),
        origin=(
            ("rows", f"{how_many(importances.n_rows, 'row')}, out of bag"),
            ("trees of a row", f"{importances.votes_per_row:,.1f} of {importances.available:,} on average"),
        ),
    )


def _score(importances: Importances) -> str:
    return (
        f"out of bag, the {label_of(importances.metric)} is {importances.score:.4g}; loss: how much worse it "
        "becomes when the column is shuffled"
    )


def _cells(column: Importance) -> tuple[str, str, str, str]:
    digits, (low, high), (first, last) = decimals(column.interval), column.interval, column.rank_interval
    ranks = str(first) if first == last else f"{first} to {last}"
    return shortened(column.name), f"{column.value:.{digits}f}", f"{low:.{digits}f} to {high:.{digits}f}", ranks
