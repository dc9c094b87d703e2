"""Scores, comparisons and bagging fractions in words, and their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rfsize._util import how_many
from rfsize.showing.html import Alert, KeyNumber, Page, Picture, Section, Table
from rfsize.showing.text import decimals, rows_from, sentence
from rfsize.statistics.metrics import label_of
from rfsize.theory import ratio_with_replacement

if TYPE_CHECKING:
    from rfsize.api.compare import Comparison, Difference
    from rfsize.api.oob_score import OobScore
    from rfsize.training.bagging_fraction import FractionSearch

_SOURCES = {
    "oob": "out of bag: each training row is predicted by the trees that did not see it",
    "rows given": "as given: predicted by all trees",
}
_SE = 1.96  # standard errors on either side of a 95 % interval
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


def fraction_text(search: FractionSearch) -> str:
    """The lines of a printed search for the bagging fraction."""
    marks = ["*" if fraction == search.best else " " for fraction in search.curve["fraction"]]
    lines = [
        f"{mark}{fraction:>8}{trees:>7}" + "".join(f"{number:>10}" for number in numbers)
        for mark, (fraction, trees, *numbers) in zip([" ", *marks], _fraction_cells(search), strict=True)
    ]
    lines += [fraction_choice(search), *(f"! {text}" for text in _fraction_remarks(search))]
    ratio = f"{ratio_with_replacement(search.best):.2f}"
    lines.append(f"fraction {search.best:.3f} is worth a sampling ratio of {ratio} with replacement")
    return "\n".join([*lines, f"{search.trees_grown:,} trees grown; {_fraction_rows(search)}"])


def fraction_page(search: FractionSearch) -> Page:
    """The contents of the page of a search for the bagging fraction."""
    heads, *rows = _fraction_cells(search)
    picture = Picture(f"Out-of-bag {search.metric} over the bagging fraction", search.plot)
    table = Table(heads, tuple(rows), int((search.curve["fraction"] == search.best).argmax()))
    return Page(
        title="Bagging fraction",
        verdict=sentence(fraction_choice(search)),
        alerts=tuple(Alert(sentence(text)) for text in _fraction_remarks(search)),
        sections=(Section("", pictures=(picture,), tables=(table,)),),
        code="forest, report = rfsize.grow(search.params, data)  # with this fraction, and as many trees as needed",
        origin=(("rows", _fraction_rows(search)), ("trees grown to compare", f"{search.trees_grown:,}")),
    )


def _fraction_cells(search: FractionSearch) -> list[tuple[str, ...]]:
    """The heads and the rows of the table of all fractions."""
    names = (search.metric, "standard_error", "difference", "difference_se")
    cells: list[tuple[str, ...]] = [("fraction", "trees", search.metric, "± s.e.", "worse by", "± s.e.")]
    for row in search.curve:
        numbers = (_fraction_number(search, row[name]) for name in names)
        cells.append((f"{row['fraction']:.3f}", f"{row['trees']:,}", *numbers))
    return cells


def _fraction_number(search: FractionSearch, value: float) -> str:
    """An error of labels as a share, any other error or score as a number."""
    return f"{100.0 * value:.2f} %" if search.of_labels and search.metric == "error" else f"{value:.4g}"


def fraction_choice(search: FractionSearch) -> str:
    """The sentence that says which fraction is chosen, and how much better it is."""
    metric, n_fractions, difference = search.metric, len(search.curve), search.curve["difference"]
    least = float(search.curve["fraction"][difference.argmin()])
    level = int(np.sum(difference <= _SE * search.curve["difference_se"])) - 1
    also = f"; {how_many(level, 'other')} may be as good, within noise" if level else ""
    if search.own is None or search.own in search.left_out:
        return f"fraction {search.best:.3f} has the best {metric} of {n_fractions}{also}"
    own = search.curve[search.curve["fraction"] == search.own][0]
    apart = f"{_fraction_number(search, own['difference'])} ± {_fraction_number(search, own['difference_se'])}"
    if search.best != search.own:
        return f"take fraction {search.best:.3f}: its {metric} is better than your {search.own:.3f}'s by {apart}"
    if least == search.own:
        return f"keep your fraction {search.own:.3f}: it has the best {metric} of {n_fractions}{also}"
    return f"keep your fraction {search.own:.3f}: the best of {n_fractions}, {least:.3f}, is better by {apart}: noise"


def _fraction_remarks(search: FractionSearch) -> list[str]:
    """That fractions were left out, and that the best is the smallest or the largest of those compared."""
    remarks, fractions = [], search.curve["fraction"]
    if search.left_out:
        left_out = ", ".join(f"{fraction:.3f}" for fraction in search.left_out)
        own = ", your own," if search.own in search.left_out else ""
        remarks.append(
            f"left out: {left_out}{own} for which {int(search.curve['trees'][0]):,} trees leave rows too few "
            "out-of-bag votes: give a larger n_trees"
        )
    least = fractions[search.curve["difference"].argmin()]
    if len(fractions) > 1 and least in (fractions[0], fractions[-1]):
        end = "at the end of the fractions compared: compare fractions beyond it"
        remarks.append(f"the best {search.metric} is at {least:.3f}, {end}")
    return remarks


def _fraction_rows(search: FractionSearch) -> str:
    n_dropped = search.n_dropped
    dropped = f"; {n_dropped:,} left out, because in some forest every tree saw them" if n_dropped else ""
    return f"{search.n_rows:,} rows, predicted by the trees that did not see them{dropped}"
