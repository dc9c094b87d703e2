"""What a stop table says of itself on a page."""

from __future__ import annotations

import math
from functools import partial
from typing import Protocol

from rfsize.reporting.account import Account, Figure, Grid, Picture, Section
from rfsize.reporting.words import most_changed
from rfsize.stopping.certificate import ClassOutcome
from rfsize.stopping.plots import Table, draw_certificate, draw_stops
from rfsize.stopping.spread import SpreadStops
from rfsize.utils.words import how_many, printable

_PROMISES = {
    "certified": "certified for this forest, with its trees in their order, on rows like those of the certificate",
    "expected": "expected on average over forests like this one",
}


class KnownTable(Table, Protocol):
    """What the account of a stop table reads."""

    @property
    def kind(self) -> str: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def promise(self) -> str: ...
    def expected_disagreement(self) -> float: ...
    def by_class(self) -> list[ClassOutcome]: ...


def table_account(table: KnownTable) -> Account:
    """The account of a stop table."""
    return Account(
        title="Stop table",
        verdict=_verdict(table),
        figures=() if table.kind == "weighted" else _figures(table),
        sections=(Section("", (), _pictures(table), _by_class(table)),),
        code="" if table.kind == "weighted" else _CODE,
        origin=_origin(table),
    )


_CODE = """# all trees, of which each row asks only as many as settle it
table = rfsize.StopTable.load("table.json")  # what table.save("table.json") wrote
fast = rfsize.compile(model, table)"""


def _verdict(table: KnownTable) -> str:
    if table.kind == "weighted":
        members = how_many(table.n_trees, "weighted member")
        return f"Of {members}, rows ask as many as settle the outcome, and no label changes."
    asked = f"Rows ask {table.expected_trees():,.1f} of the {how_many(table.n_trees, 'tree')} on average"
    other = _other(table)
    if table.certificate is None:
        return f"{asked}, and {table.expected_disagreement():.2%} of them are expected to {other}."
    of = "them" if table.certificate.average == "micro" else "each class's rows"
    sure = f"certified with {table.certificate.confidence:.0%} confidence"
    return f"{asked}, and at most {table.certificate.bound:.2%} of {of} {other}: {sure}."


def _other(table: KnownTable) -> str:
    if isinstance(table.stops, SpreadStops):
        return f"get {table.stops.metric} that are off by more than {table.stops.tolerance:g}"
    return "get another label than all trees give"


def _figures(table: KnownTable) -> tuple[Figure, ...]:
    found = [Figure("trees asked per row", f"{table.expected_trees():,.1f}", f"of {table.n_trees:,}")]
    if table.certificate is None:
        return (*found, Figure("rows that differ", f"{table.expected_disagreement():.2%}", "expected"))
    known = table.certificate
    of = "" if known.average == "micro" else "of each class, "
    return (
        *found,
        Figure("rows that differed", f"{known.disagreements:,}", f"of {known.rows:,}"),
        Figure("certified: at most", f"{known.bound:.2%}", f"{of}with {known.confidence:.0%} confidence"),
    )


def _pictures(table: KnownTable) -> tuple[Picture, ...]:
    stops = Picture("When a row stops asking trees", partial(draw_stops, table))
    if table.certificate is None:
        return (stops,)
    return stops, Picture("Rows that differ, and what is certified of them", partial(draw_certificate, table))


def _by_class(table: KnownTable) -> tuple[Grid, ...]:
    known = [outcome for outcome in table.by_class() if not math.isnan(outcome.trees)]
    if len(known) < 2:
        return ()
    most, title = most_changed(known, lambda outcome: outcome.disagreement)
    rows = tuple(
        (printable(one.label), f"{one.share:.2%}", f"{one.disagreement:.2%}", f"{one.trees:,.1f}") for one in most
    )
    return (Grid(("class", "share of the rows", "rows that differ", "trees asked"), rows, title=title.capitalize()),)


def _origin(table: KnownTable) -> tuple[tuple[str, str], ...]:
    rule = ("rule", f"{table.rule}, α = {table.alpha!r}, {'averaged scores' if table.voting == 'soft' else 'votes'}")
    certificate = () if table.certificate is None else (("certificate", str(table.certificate)),)
    return (rule, *certificate, ("promise", "nothing changes" if table.alpha == 1.0 else _PROMISES[table.promise]))
