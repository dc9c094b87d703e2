"""The contents of every page: of reports, scores, comparisons, importances and fractions, which `html.py` writes."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from rfsize._util import how_many, in_percent, printable
from rfsize.exceptions import LabelsOnlyWarning, NotConvergedWarning
from rfsize.showing.html import Page, Picture, Table
from rfsize.showing.plots import draw_size
from rfsize.showing.text import axis_label, in_words, others_compared_with, report_lines
from rfsize.showing.text_of_results import (
    comparison_text,
    fraction_cells,
    fraction_lines,
    importance_cells,
    importances_origin,
    importances_score,
    importances_title,
    score_text,
)
from rfsize.statistics.certify import CertifiedCurve
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.labels import LabelDetails
from rfsize.statistics.metrics import label_of

if TYPE_CHECKING:
    from rfsize.api.compare import Comparison
    from rfsize.api.importance import Importances
    from rfsize.api.oob_score import OobScore
    from rfsize.api.report import Report
    from rfsize.training.bagging_fraction import FractionSearch

# Other levels that a report lists: values of alpha, and factors of the tolerance.
_ALPHAS, _TOLERANCES = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999), (4.0, 2.0, 1.0, 0.5, 0.25)

_SIZES = 10  # about as many sizes of chosen trees as a table lists
_CLASSES, _COLUMNS = 12, 40  # most classes in the table of labels, and columns in that of importances


def report_page(report: Report) -> Page:
    """The page of a report: its lines, its curve, and what other sizes lose and other levels take."""
    alt = f"{axis_label(report.criterion)}, over the number of trees"
    tables = [_losses(report), *_changed_labels(report), *_levels(report)]
    return Page("Size", report_lines(report), [Picture(alt, partial(draw_size, report))], tables, _code(report))


def _losses(report: Report) -> Table:
    """What the forest to keep, the forest at hand and some sizes around them lose."""
    kept, available, curve = report.n_kept, report.available, report.estimate.curve
    sizes = {max(1, kept // 4), kept, available} | ({4 * available} if report.certificate is None else set())
    if report.criterion.is_shrunk and isinstance(curve, CertifiedCurve):
        tried = curve.sizes.tolist()
        sizes = {*tried[:: 1 + len(tried) // _SIZES], kept, available}
    losses = [(report.criterion, report.estimate), *report.others.values()]
    own = "rows unlike all trees" if report.certificate is not None else label_of(report.criterion.name)
    heads = ("trees", own, *(label_of(criterion.name) for criterion, _ in report.others.values()))
    rows = [
        (f"{size:,}", *(_loss(criterion, estimate.curve.at(size)) for criterion, estimate in losses))
        for size in sorted(sizes)
    ]
    title = f"What is lost against {others_compared_with(report)}"
    return Table(heads, rows, sorted(sizes).index(kept), title)


def _loss(criterion: Criterion, loss: float) -> str:
    return in_percent(loss) if criterion.is_share else f"{loss:.2g}"


def _changed_labels(report: Report) -> list[Table]:
    """The labels that still change, by class."""
    tables, kept = [], report.n_kept
    for estimate in (report.estimate, *(other for _, other in report.others.values())):
        details = estimate.details
        if isinstance(details, LabelDetails) and len(details.by_class) > 1:
            changed = {label: curve.at(kept) for label, curve in details.by_class.items()}
            most = sorted(changed, key=changed.__getitem__, reverse=True)[:_CLASSES]
            heads = ("class", "share of the rows", f"labels that still change with {how_many(kept, 'tree')}")
            shares = [map(in_percent, (details.label_shares[label], changed[label])) for label in most]
            rows = [(printable(label), *cells) for label, cells in zip(most, shares, strict=True)]
            of_many = f", the {len(most)} of {len(changed)} that change most" if len(most) < len(changed) else ""
            tables.append(Table(heads, rows, title=f"By class{of_many}"))
    return tables


def _levels(report: Report) -> list[Table]:
    """How many trees other levels take."""
    criterion = report.criterion
    if report.estimate.problem is not None or criterion.n_trees is not None:
        return []
    own = criterion.alpha if criterion.takes_alpha else criterion.level
    levels = _ALPHAS if criterion.takes_alpha else tuple(factor * own for factor in _TOLERANCES)
    rows: list[tuple[str, str]] = []
    marked = None
    for level in sorted({*levels, own}, reverse=not criterion.takes_alpha):
        with suppress(ValueError):  # a level that too few rows cannot certify is left out
            rows.append((f"{level:.6g}", in_words(report.size_at(level))))
            marked = len(rows) - 1 if level == own else marked
    head = "alpha" if criterion.takes_alpha else "tolerance"
    return [Table((head, "trees"), rows, marked, "Trees that other levels take")]


def _code(report: Report) -> str:
    """Python that cuts and compiles; empty if nothing is cut, or a warning says what to do instead."""
    criterion = report.criterion
    is_warned = any(warning.category in (LabelsOnlyWarning, NotConvergedWarning) for warning in report.warnings)
    if is_warned or criterion.is_training or criterion.kind == "importance" or report.n_kept == report.available:
        return ""
    cut = "" if criterion.is_shrunk else "small = rfsize.truncate(model, n_trees=report)\n"
    return f"{cut}fast = rfsize.compile(small)  # predicts what small.predict does, many times faster"


def score_page(score: OobScore) -> Page:
    """The page of a score."""
    picture = Picture(f"{label_of(score.metric)} over the number of trees", score.plot)
    return Page("Out-of-bag score", score_text(score).splitlines(), [picture], [])


def comparison_page(comparison: Comparison) -> Page:
    """The page of a comparison."""
    return Page("Two settings compared", comparison_text(comparison).splitlines(), [], [])


def importances_page(importances: Importances) -> Page:
    """The page of importances."""
    heads = ("rank", "column", f"loss of {label_of(importances.metric)}", "95 % interval")
    rows = [(str(column.rank), *importance_cells(column)) for column in importances.columns[:_COLUMNS]]
    lines = [importances_title(importances), importances_score(importances), importances_origin(importances)]
    picture = Picture("Importances, from the largest on", importances.plot)
    return Page("Importances of columns, out of bag", lines, [picture], [Table(heads, rows)])


def fraction_page(search: FractionSearch) -> Page:
    """The page of a search for the bagging fraction."""
    heads, *rows = fraction_cells(search)
    picture = Picture(f"Out-of-bag {search.metric} over the bagging fraction", search.plot)
    table = Table(heads, rows, search.curve["fraction"].tolist().index(search.best))
    code = "forest, report = rfsize.grow(search.params, data)  # with this fraction, and as many trees as needed"
    return Page("Bagging fraction", fraction_lines(search), [picture], [table], code)
