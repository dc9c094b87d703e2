"""The contents of every page: of reports, scores, comparisons, importances and fractions, which `html.py` writes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rfsize._util import as_arguments, how_many, in_percent, printable
from rfsize.counting.outputs import TreeOutputs
from rfsize.exceptions import LabelsOnlyWarning, NotConvergedWarning
from rfsize.models.framework import framework_of
from rfsize.showing.html import Alert, KeyNumber, Page, Picture, Section, Table
from rfsize.showing.plots import draw_by_class, draw_size
from rfsize.showing.text import (
    comparison_in_digits,
    comparison_verdict,
    fraction_cells,
    fraction_choice,
    fraction_remarks,
    fraction_rows,
    from_to,
    how_likely,
    importance_cells,
    importances_score,
    importances_title,
    in_words,
    most_changed,
    others_compared_with,
    remarks,
    score_in_digits,
    sentence,
    shown_warnings,
    verdict,
    what_now,
    with_all_trees,
    words_of,
)
from rfsize.statistics.certify import CertifiedCurve
from rfsize.statistics.criterion import Criterion, options_of
from rfsize.statistics.labels import LabelDetails
from rfsize.statistics.metrics import label_of

if TYPE_CHECKING:
    from rfsize.api.compare import Comparison
    from rfsize.api.importance import Importances
    from rfsize.api.oob_score import OobScore
    from rfsize.api.report import Report
    from rfsize.training.bagging_fraction import FractionSearch

_SOURCES = {
    "oob": "out of bag: the trees that did not see a training row predict it",
    "rows given": "as given: all trees predict them",
}
_GROUPS = {"given": "as given", "copies": "copies of a row", "rows": "each row alone", "unknown": "not looked for"}

# Other levels that a report lists: values of alpha, and factors of the tolerance.
_ALPHAS, _TOLERANCES = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999), (4.0, 2.0, 1.0, 0.5, 0.25)

_SIZES = 10  # about as many sizes of chosen trees as a table lists
_COLUMNS = 40  # most columns in the table of importances


def _rows(n_rows: int, source: str) -> str:
    """How many rows, and who predicts them."""
    return f"{how_many(n_rows, 'row')}, {_SOURCES.get(source, source)}"


# Reports


def report_page(report: Report) -> Page:
    """The contents of the page of a report."""
    words, kept = words_of(report.criterion), report.n_kept
    is_sure = report.enough and not shown_warnings(report)
    unlimited = (
        "An unlimited forest is yours with infinitely many trees: its predictions no longer depend on the luck of the "
        "seed."
    )
    return Page(
        title=f"Size of the forest, {words.title}",
        verdict=sentence(f"{verdict(report)} to {words.aim}" if report.enough else verdict(report)),
        is_good=None if is_sure and how_likely(report) else is_sure,
        alerts=_alerts(report),
        numbers=_numbers(report),
        sections=(
            Section("", tuple(map(sentence, [*filter(None, [report.criterion.why]), *remarks(report)]))),
            Section(f"What {how_many(kept, 'tree')} lose", (_compared(report),), tables=_losses(report)),
            Section(
                "Sizes for other levels",
                (unlimited,) if report.certificate is None else (),
                _pictures(report),
                _levels(report),
            ),
        ),
        code=_code(report),
        origin=_origin(report),
    )


def _alerts(report: Report) -> tuple[Alert, ...]:
    """The warnings. If the forest is too small, what to do; the verdict says the rest."""
    alerts = tuple(Alert(sentence(warning.text), _call(report, warning.options)) for warning in shown_warnings(report))
    return alerts if report.enough else (*alerts, Alert(sentence(what_now(report))))


def _call(report: Report, options: Mapping[str, Any]) -> str:
    """The line of code that gives other options; empty if there are none."""
    if not options:
        return ""
    if report.criterion.is_shrunk:
        return f"small, report = rfsize.shrink(model, X, {as_arguments(options)})"
    rows = {"oob": "model, X, y, oob=True", "rows given": "model, X, y"}.get(report.source, "outputs")
    return f"report = rfsize.size({rows}, {as_arguments(options)})"


def _numbers(report: Report) -> tuple[KeyNumber, ...]:
    criterion, kept, available = report.criterion, report.n_kept, report.available
    is_bound, certificate = report.estimate.is_bound, report.certificate
    whose = "trees grown" if criterion.is_training else "trees of your forest"
    enough = how_likely(report) + ("enough" if report.enough else "not enough")
    trees = KeyNumber(whose, f"{available:,}", enough)
    if kept < available:
        trees = KeyNumber(f"{whose}, kept", f"{available:,} → {kept:,}", enough)
    words = words_of(criterion)
    what, sure = words.title, "95 %" if is_bound else f"95 %: {from_to(report.interval)}"
    if certificate is not None:
        what = f"fewest {'chosen' if criterion.target == 'chosen' else 'first'} trees that are certified"
        sure = f"certified, {in_percent(certificate.confidence)} sure"
    loss = _loss(criterion, report.estimate.curve.at(kept))
    return (
        trees,
        KeyNumber(what, ("at most " if is_bound else "") + _size(report.n_trees), sure),
        KeyNumber(words.loss, loss, f"with {how_many(kept, 'tree')}"),
    )


def _size(size: int | float) -> str:
    return in_words(size) if math.isfinite(size) else "not known"


def _loss(criterion: Criterion, loss: float) -> str:
    return in_percent(loss) if criterion.is_share else f"{loss:.2g}"


def _compared(report: Report) -> str:
    """What the table of losses compares, in a sentence."""
    if report.certificate is None:
        return "Each line: what forests of that size are expected to lose against an unlimited forest."
    if not report.others:
        return "Each line: what a smaller forest loses against all of your trees, on the same rows."
    others = others_compared_with(report)
    return f"First the rows with another answer than by all of your trees; then losses against {others}."


def _losses(report: Report) -> tuple[Table, ...]:
    """Losses of the forest to keep, of the forest at hand, and of some sizes around them; and by class."""
    kept, available = report.n_kept, report.available
    sizes = {max(1, kept // 4), kept, available} | ({4 * available} if report.certificate is None else set())
    curve = report.estimate.curve
    if report.criterion.is_shrunk and isinstance(curve, CertifiedCurve):
        tried = curve.counts.sizes.tolist()
        sizes = {*tried[:: 1 + len(tried) // _SIZES], kept, available}
    losses = [(report.criterion, report.estimate), *report.others.values()]
    own = label_of(report.criterion.name) if report.certificate is None else words_of(report.criterion).loss
    heads = ("trees", own, *(label_of(criterion.name) for criterion, _ in report.others.values()))
    ordered = sorted(sizes)
    rows = tuple(
        (f"{size:,}", *(_loss(criterion, estimate.curve.at(size)) for criterion, estimate in losses))
        for size in ordered
    )
    by_class = [_by_class(estimate.details, kept) for _, estimate in losses]
    return (Table(heads, rows, ordered.index(kept)), *filter(None, by_class))


def _by_class(details: Any, n_trees: int) -> Table | None:
    """The labels that still change, by class; None if the estimate is not of labels."""
    if not isinstance(details, LabelDetails) or len(details.by_class) < 2:
        return None
    changed = {label: curve.at(n_trees) for label, curve in details.by_class.items()}
    most, which = most_changed(changed, lambda label: changed[label])
    shares = details.label_shares
    rows = tuple((printable(label), in_percent(shares[label]), in_percent(changed[label])) for label in most)
    heads = ("class", "share of the rows", f"labels that still change with {how_many(n_trees, 'tree')}")
    return Table(heads, rows, title=which.capitalize())


def _levels(report: Report) -> tuple[Table, ...]:
    """The table of how many trees other levels take."""
    criterion = report.criterion
    if report.estimate.problem is not None or criterion.n_trees is not None:
        return ()
    own = criterion.alpha if criterion.takes_alpha else criterion.level
    levels = _ALPHAS if criterion.takes_alpha else tuple(factor * own for factor in _TOLERANCES)
    known = {round(level, 12): f"{level:.6g}" for level in (*levels, own)}
    sizes = {}
    for level in sorted(known, reverse=not criterion.takes_alpha):
        with suppress(ValueError):  # a level that too few rows cannot certify is left out
            sizes[level] = report.size_at(level)
    rows = tuple((known[level], _size(size)) for level, size in sizes.items())
    marked = list(sizes).index(round(own, 12)) if round(own, 12) in sizes else None
    head = "alpha" if criterion.takes_alpha else "tolerance"
    return (Table((head, "trees"), rows, marked, "Trees that other levels take"),) if rows else ()


def _pictures(report: Report) -> tuple[Picture, ...]:
    alt = f"{words_of(report.criterion).loss} over the number of trees".capitalize()
    over_size = Picture(alt, partial(draw_size, report))
    is_of_labels = isinstance(report.estimate.details, LabelDetails)
    if not is_of_labels or report.criterion.average == "micro" or math.isinf(report.n_trees):
        return (over_size,)
    return over_size, Picture("Labels that still change, by class", partial(draw_by_class, report))


def _code(report: Report) -> str:
    criterion = report.criterion
    if criterion.kind == "importance":
        return ""
    # A grown forest was already cut when its training ended.
    if report.enough and report.n_kept < report.available and not criterion.is_training:
        if any(warning.category in (LabelsOnlyWarning, NotConvergedWarning) for warning in report.warnings):
            return ""  # the warning says what to do instead
        made_by = "rfsize.shrink(model, X)[0]" if criterion.is_shrunk else "rfsize.truncate(model, n_trees=report)"
        return (
            f"small = {made_by}  # {how_many(report.n_kept, 'tree')}, a model of the same type\n"
            "fast = rfsize.compile(small)  # predicts what small.predict does, many times faster"
        )
    if report.enough or report.certificate is not None:
        return "fast = rfsize.compile(model)  # predicts what model.predict does, many times faster"
    # Without a model at hand, as after pickling, nobody knows whether it is trained by ``fit``.
    task = None if report.outputs is None else report.outputs.task
    is_estimator = task is not None and hasattr(task.forest.with_booster(task.forest.booster), "fit")
    data, options = "model, X, y" if is_estimator else "params, data", as_arguments(options_of(criterion))
    return f"# trains until the forest is large enough\nlarger, report = rfsize.grow({data}, {options})"


def _origin(report: Report) -> tuple[tuple[str, str], ...]:
    estimate = report.estimate
    dropped = f"; too few trees can predict {estimate.n_dropped:,} more" if estimate.n_dropped else ""
    return (
        *_model(report.outputs),
        ("rows", f"{_rows(estimate.n_rows, report.source)}{dropped}"),
        ("trees that predict a row", f"{estimate.votes_per_row:,.1f} of {report.available:,} on average"),
        ("rows that belong together", _GROUPS[report.groups]),
    )


def _model(outputs: TreeOutputs | None) -> tuple[tuple[str, str], ...]:
    """The model, its trees and its parameters; empty if the model is not at hand."""
    if outputs is None or outputs.task is None:
        return ()
    forest = outputs.task.forest
    kind = type(forest.booster).__name__ if forest.wrapper is None else forest.wrapper.kind
    n_classes = len(forest.classes)
    task = f"{n_classes} classes" if n_classes else "regression"
    members = ("members", f"{forest.n_trees:,}")
    if forest.ensemble is not None:
        leaves = np.count_nonzero(forest.ensemble.nodes.left == -1) / forest.ensemble.tree_start.size
        members = ("trees", f"{forest.n_trees:,}, of {leaves:,.0f} leaves on average")
    known = ", ".join(f"{name}={value}" for name, value in _parameters(forest.booster).items())
    return (
        ("model", f"{kind} ({forest.framework}), {task}, {how_many(forest.n_features, 'column')}"),
        members,
        *((("parameters", known),) if known else ()),
    )


def _parameters(booster: Any) -> dict[str, Any]:
    """The training parameters that the model stores; for an estimator, only those that differ from the defaults."""
    if hasattr(booster, "get_params"):
        usual = inspect.signature(type(booster)).parameters
        given = booster.get_params(deep=False).items()
        return {name: value for name, value in given if name not in usual or usual[name].default is not value}
    framework = framework_of(booster)
    with suppress(ValueError):
        return {} if framework is None or framework.training is None else framework.training.params_of(booster)
    return {}


# Other results


def score_page(score: OobScore) -> Page:
    """The contents of the page of a score."""
    value, at_all, low, high = score_in_digits(score)
    trees, name = how_many(score.available, "tree"), label_of(score.metric)
    return Page(
        title="Out-of-bag score",
        verdict=f"On fresh rows the {name} of all {trees} is {low} to {high} (95 %).",
        numbers=(
            KeyNumber(f"{name}, out of bag", value, f"of {score.votes_per_row:.1f} trees a row"),
            KeyNumber(f"{name}, all trees", at_all, f"95 %: {low} to {high}"),
        ),
        sections=(Section("", pictures=(Picture(f"{name} over the number of trees", score.plot),)),),
        origin=(("rows", _rows(score.n_rows, score.source)),),
    )


def comparison_page(comparison: Comparison) -> Page:
    """The contents of the page of a comparison."""
    name, values = label_of(comparison.metric), comparison_in_digits(comparison, *comparison.values)
    differences = [(with_all_trees(comparison), comparison.at_hand)]
    differences += [] if comparison.limit is None else [("with unlimited trees", comparison.limit)]
    cells = tuple((where, *comparison_in_digits(comparison, of.value, *of.interval)) for where, of in differences)
    figures = zip(("first", "second"), values, comparison.n_trees, strict=True)
    return Page(
        title="Two settings compared",
        verdict=sentence(comparison_verdict(comparison)),
        alerts=(Alert(sentence(f"with unlimited trees: {comparison.why}")),) if comparison.why else (),
        numbers=tuple(KeyNumber(f"{name}, {which}", value, how_many(n, "tree")) for which, value, n in figures),
        sections=(Section("", tables=(Table(("first minus second", "difference", "from", "to"), cells),)),),
        origin=(("rows", _rows(comparison.n_rows, comparison.source)),),
    )


def importances_page(importances: Importances) -> Page:
    """The contents of the page of importances."""
    heads = ("rank", "column", f"loss of {label_of(importances.metric)}", "95 % interval", "ranks it may have")
    rows = tuple((str(column.rank), *importance_cells(column)) for column in importances.columns[:_COLUMNS])
    return Page(
        title="Importances of columns, out of bag",
        verdict=sentence(importances_title(importances)),
        sections=(
            Section("", (sentence(importances_score(importances)),)),
            Section("From the most important on", pictures=(Picture("importances", importances.plot),)),
            Section("In numbers", tables=(Table(heads, rows),)),
        ),
        origin=(
            ("rows", _rows(importances.n_rows, "oob")),
            ("trees of a row", f"{importances.votes_per_row:,.1f} of {importances.available:,} on average"),
        ),
    )


def fraction_page(search: FractionSearch) -> Page:
    """The contents of the page of a search for the bagging fraction."""
    heads, *rows = fraction_cells(search)
    picture = Picture(f"Out-of-bag {search.metric} over the bagging fraction", search.plot)
    table = Table(heads, tuple(rows), int((search.curve["fraction"] == search.best).argmax()))
    return Page(
        title="Bagging fraction",
        verdict=sentence(fraction_choice(search)),
        alerts=tuple(Alert(sentence(text)) for text in fraction_remarks(search)),
        sections=(Section("", pictures=(picture,), tables=(table,)),),
        code="forest, report = rfsize.grow(search.params, data)  # with this fraction, and as many trees as needed",
        origin=(("rows", fraction_rows(search)), ("trees grown to compare", f"{search.trees_grown:,}")),
    )
