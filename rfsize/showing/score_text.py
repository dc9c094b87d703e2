"""Scores and comparisons in words, and their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfsize._util import how_many
from rfsize.showing.html import Alert, KeyNumber, Page, Picture, Section, Table
from rfsize.showing.text import decimals, rows_from, sentence
from rfsize.statistics.metrics import label_of

if TYPE_CHECKING:
    from rfsize.api.compare import Comparison, Difference
    from rfsize.api.oob_score import OobScore

_SOURCES = {
    "oob": "out of bag: each training row is predicted by the trees that did not see it",
    "rows given": "as given: predicted by all trees",
}
_GROUPED = {"given": " in groups", "copies": " with copies in groups"}


def score_text(score: OobScore) -> str:
    """The lines of a printed score."""
    value, at_all, low, high = (
        f"{number:.{decimals(score.interval)}f}" for number in (score.value, score.at_all_trees, *score.interval)
    )
    dropped = f"; {score.n_dropped:,} left out, which every tree saw" if score.n_dropped else ""
    trees = how_many(score.available, "tree")
    return (
        f"{label_of(score.metric)} {value} out of bag, with {score.votes_per_row:.1f} trees a row\n"
        f"about {at_all} with all {trees}; on fresh rows {low} to {high} (95 %)\n"
        f"from {rows_from(score.n_rows, score.source)}{_GROUPED.get(score.groups, '')}{dropped}"
    )


def score_page(score: OobScore) -> Page:
    """The contents of the page of a score."""
    value, at_all, low, high = (
        f"{number:.{decimals(score.interval)}f}" for number in (score.value, score.at_all_trees, *score.interval)
    )
    trees, name = how_many(score.available, "tree"), label_of(score.metric)
    return Page(
        title="Out-of-bag score",
        verdict=f"On fresh rows the {name} of all {trees} is {low} to {high} (95 %).",
        numbers=(
            KeyNumber(f"{name}, out of bag", value, f"of {score.votes_per_row:.1f} trees a row"),
            KeyNumber(f"{name}, all trees", at_all, f"95 %: {low} to {high}"),
        ),
        sections=(Section("", pictures=(Picture(f"{name} over the number of trees", score.plot),)),),
        origin=(("rows", f"{how_many(score.n_rows, 'row')}, {_SOURCES[score.source]}"),),
    )


def comparison_text(comparison: Comparison) -> str:
    """The lines of a printed comparison."""
    first, second = _in_digits(comparison, *comparison.values)
    dropped = f"; {comparison.n_dropped:,} left out, with no tree to predict them" if comparison.n_dropped else ""
    limit = comparison.why if comparison.limit is None else _difference(comparison, comparison.limit)
    rows = rows_from(comparison.n_rows, comparison.source)
    return (
        f"{_verdict(comparison)}\n"
        f"  {_with_all_trees(comparison)}: {_difference(comparison, comparison.at_hand)}\n"
        f"  with unlimited trees: {limit}\n"
        f"  {label_of(comparison.metric)} {first} and {second} on {rows}{dropped}"
    )


def comparison_page(comparison: Comparison) -> Page:
    """The contents of the page of a comparison."""
    name, values = label_of(comparison.metric), _in_digits(comparison, *comparison.values)
    differences = [(_with_all_trees(comparison), comparison.at_hand)]
    differences += [] if comparison.limit is None else [("with unlimited trees", comparison.limit)]
    cells = tuple((where, *_in_digits(comparison, of.value, *of.interval)) for where, of in differences)
    figures = zip(("first", "second"), values, comparison.n_trees, strict=True)
    source = _SOURCES.get(comparison.source, comparison.source)
    return Page(
        title="Two settings compared",
        verdict=sentence(_verdict(comparison)),
        alerts=(Alert(sentence(f"with unlimited trees: {comparison.why}")),) if comparison.why else (),
        numbers=tuple(KeyNumber(f"{name}, {which}", value, how_many(n, "tree")) for which, value, n in figures),
        sections=(Section("", tables=(Table(("first minus second", "difference", "from", "to"), cells),)),),
        origin=(("rows", f"{how_many(comparison.n_rows, 'row')}, {source}"),),
    )


def _with_all_trees(comparison: Comparison) -> str:
    first, second = comparison.n_trees
    return f"with {how_many(first, 'tree')}" + ("" if first == second else f" and {second:,}")


def _verdict(comparison: Comparison) -> str:
    """Which setting is better, with the trees at hand and with unlimited trees."""
    now, name = comparison.at_hand.better, label_of(comparison.metric)
    limit = now if comparison.limit is None else comparison.limit.better
    if now == limit and now is None:
        return f"the difference of {name} is within noise: the rows and trees do not tell which is better"
    if now == limit:
        return f"the {now} setting has the better {name}"
    if now is None:
        within = "with the trees at hand the difference is within noise"
        return f"with unlimited trees the {limit} setting has the better {name}; {within}"
    rest = "that is within noise" if limit is None else f"the {limit} has"
    return f"the {now} setting has the better {name} at hand; with unlimited trees {rest}"


def _difference(comparison: Comparison, difference: Difference) -> str:
    value, low, high = _in_digits(comparison, difference.value, *difference.interval)
    return f"first minus second {value} (95 % interval {low} to {high})"


def _in_digits(comparison: Comparison, *values: float) -> tuple[str, ...]:
    """Values of the metric, with as many digits as the interval of the difference is worth."""
    digits = decimals(comparison.at_hand.interval)
    return tuple(f"{value:.{digits}f}".replace("-", "−") for value in values)
