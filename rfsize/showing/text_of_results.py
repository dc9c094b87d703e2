"""Every sentence of other results than reports: scores, comparisons, importances and bagging fractions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rfsize._util import how_many
from rfsize.showing.text import in_digits, rows_from, shortened
from rfsize.statistics.metrics import label_of
from rfsize.theory import ratio_with_replacement

if TYPE_CHECKING:
    from rfsize.api.compare import Comparison, Difference
    from rfsize.api.importance import Importance, Importances
    from rfsize.api.oob_score import OobScore
    from rfsize.training.bagging_fraction import FractionSearch

_COLUMNS = 20  # most columns of importances that are printed
_SE = 1.96  # standard errors on either side of a 95 % interval


def _table(rows: Sequence[tuple[str, ...]], marks: Sequence[str]) -> list[str]:
    """The lines of a printed table, each after its mark; the first column has names, the others numbers."""
    names, *numbers = zip(*rows, strict=True)
    aligned = [[name.ljust(max(map(len, names))) for name in names]]
    aligned += [[cell.rjust(max(map(len, column))) for cell in column] for column in numbers]
    return ["  ".join(cells) for cells in zip(marks, *aligned, strict=True)]


# Scores


def score_text(score: OobScore) -> str:
    """The printed score."""
    value, at_all, low, high = in_digits((score.value, score.at_all_trees, *score.interval), score.interval)
    dropped = f"; {score.n_dropped:,} left out, which every tree saw" if score.n_dropped else ""
    return (
        f"{label_of(score.metric)} {value} out of bag, with {score.votes_per_row:.1f} trees a row\n"
        f"about {at_all} with all {how_many(score.available, 'tree')}; on fresh rows {low} to {high} (95 %)\n"
        f"from {how_many(score.n_rows, 'out-of-bag row')}{dropped}"
    )


# Comparisons


def comparison_text(comparison: Comparison) -> str:
    """The printed comparison; numbers have as many digits as the interval of the difference is worth."""

    def digits(*values: float) -> tuple[str, ...]:
        return tuple(number.replace("-", "−") for number in in_digits(values, comparison.at_hand.interval))

    def shown(difference: Difference) -> str:
        value, low, high = digits(difference.value, *difference.interval)
        return f"first minus second {value} (95 % interval {low} to {high})"

    first, second = digits(*comparison.values)
    dropped = f"; {comparison.n_dropped:,} left out, with no tree to predict them" if comparison.n_dropped else ""
    rows, of_first, of_second = rows_from(comparison.n_rows, comparison.source), *comparison.n_trees
    trees = how_many(of_first, "tree") + ("" if of_first == of_second else f" and {of_second:,}")
    return (
        f"{comparison_verdict(comparison)}\n"
        f"  with {trees}: {shown(comparison.at_hand)}\n"
        f"  with unlimited trees: {comparison.why if comparison.limit is None else shown(comparison.limit)}\n"
        f"  {label_of(comparison.metric)} {first} and {second} on {rows}{dropped}"
    )


def comparison_verdict(comparison: Comparison) -> str:
    """Which forest is better as it is, and which setting with unlimited trees."""
    name, verdicts = label_of(comparison.metric), []
    for difference in filter(None, (comparison.at_hand, comparison.limit)):
        better = f"the {difference.better} setting has the better {name}"
        verdicts.append(f"the difference of {name} is within noise" if difference.better is None else better)
    return verdicts[0] if len(set(verdicts)) == 1 else f"{verdicts[0]}; with unlimited trees {verdicts[1]}"


# Importances


def importances_lines(importances: Importances) -> list[str]:
    """How many columns matter, the metric with no column shuffled and what a loss is, and from what."""
    columns, trees = importances.columns, how_many(importances.available, "tree")
    matter = sum(not column.is_noise for column in columns)
    rows = how_many(importances.n_rows, "out-of-bag row")
    metric = f"out of bag, the {label_of(importances.metric)} is {importances.score:.4g}"
    return [
        f"{matter} of {how_many(len(columns), 'column')} {'matters' if matter == 1 else 'matter'} beyond noise",
        f"{metric}; loss: how much worse it becomes when the column is shuffled",
        f"from {rows}, {importances.votes_per_row:.1f} of {trees} each",
    ]


def importance_cells(column: Importance) -> tuple[str, str, str]:
    """Name, loss and interval of a column, for a table."""
    value, low, high = in_digits((column.value, *column.interval), column.interval)
    return shortened(column.name), value, f"{low} to {high}"


def importances_text(importances: Importances) -> str:
    """The printed table."""
    columns, more = importances.columns[:_COLUMNS], len(importances.columns) - _COLUMNS
    marks = ["~" if column.is_noise else " " for column in columns]
    table = _table([("", "loss", "95 % interval"), *map(importance_cells, columns)], [" ", *marks])
    if more > 0:
        table.append(f"   and {how_many(more, 'more column')}")
    title, metric, origin = importances_lines(importances)
    noise = "; ~ may be noise" if any(column.is_noise for column in importances.columns) else ""
    return "\n".join([f"{title}{noise}", metric, *table, origin])


# Bagging fractions


def fraction_text(search: FractionSearch) -> str:
    """The lines of a printed search for the bagging fraction."""
    marks = ["*" if fraction == search.best else " " for fraction in search.curve["fraction"]]
    return "\n".join([*_table(fraction_cells(search), [" ", *marks]), *fraction_lines(search)])


def fraction_lines(search: FractionSearch) -> list[str]:
    """What a search says beside its table: the choice, remarks, and the rows."""
    ratio, trees = f"{ratio_with_replacement(search.best):.2f}", f"{search.curve['trees'].sum():,} trees grown"
    dropped = f"; {search.n_dropped:,} left out, because in some forest every tree saw them" if search.n_dropped else ""
    return [
        fraction_choice(search),
        *(f"! {text}" for text in fraction_remarks(search)),
        f"fraction {search.best:.3f} is worth a sampling ratio of {ratio} with replacement",
        f"{trees}; {search.n_rows:,} rows, predicted by the trees that did not see them{dropped}",
    ]


def fraction_cells(search: FractionSearch) -> list[tuple[str, ...]]:
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
    n_alike = int(np.sum(difference <= _SE * search.curve["difference_se"])) - 1
    also = f"; {how_many(n_alike, 'other')} may be as good, within noise" if n_alike else ""
    is_best = f"has the best {metric} of {n_fractions}{also}"
    if search.own is None or search.gain is None or search.gain_se is None:  # your own fraction was not compared
        return f"fraction {search.best:.3f} {is_best}"
    if search.best != search.own:
        gain = f"{_fraction_number(search, search.gain)} ± {_fraction_number(search, search.gain_se)}"
        return f"take fraction {search.best:.3f}: expect a better {metric} than your {search.own:.3f}'s by {gain}"
    if least == search.own:
        return f"keep your fraction {search.own:.3f}: it {is_best}"
    own = search.curve[search.curve["fraction"] == search.own][0]
    apart = f"{_fraction_number(search, own['difference'])} ± {_fraction_number(search, own['difference_se'])}"
    lucky = f"the best of {n_fractions}, {least:.3f}, is better by {apart}"
    return f"keep your fraction {search.own:.3f}: {lucky}, which is mostly luck"


def fraction_remarks(search: FractionSearch) -> list[str]:
    """That fractions were left out, and that the best is the smallest or the largest of those compared."""
    remarks, fractions = [], search.curve["fraction"]
    if search.left_out:
        left_out = ", ".join(f"{fraction:.3f}" for fraction in search.left_out)
        own = ", your own," if search.own in search.left_out else ""
        few = f"{search.curve['trees'][0]:,} trees leave rows too few out-of-bag votes: give a larger n_trees"
        remarks.append(f"left out: {left_out}{own} for which {few}")
    best = fractions[search.curve["difference"].argmin()]
    if len(fractions) > 1 and best in (fractions[0], fractions[-1]):
        end = "at the end of the fractions compared: compare fractions beyond it"
        remarks.append(f"the best {search.metric} is at {best:.3f}, {end}")
    return remarks
