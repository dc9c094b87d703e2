"""The page of a report on the size of a forest."""

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
from rfsize.models.framework import framework_of
from rfsize.showing.html import Alert, KeyNumber, Page, Picture, Section, Table
from rfsize.showing.plots import draw_by_class, draw_distances, draw_size
from rfsize.showing.text import (
    aim,
    axis,
    from_to,
    how_likely,
    how_many_are_enough,
    how_many_are_needed,
    in_words,
    most_changed,
    others_compared_with,
    remarks,
    sentence,
    shown_warnings,
    title,
    what_now,
)
from rfsize.statistics.certify import CertifiedCurve
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import Estimate
from rfsize.statistics.labels import LabelDetails
from rfsize.statistics.metrics import label_of

if TYPE_CHECKING:
    from rfsize.api.report import Report

SOURCES = {
    "oob": "out of bag: the trees that did not see a training row predict it",
    "rows given": "as given: all trees predict them",
}
_GROUPS = {"given": "as given", "copies": "copies of a row", "rows": "each row alone", "unknown": "not looked for"}

# Other levels that a report lists: values of alpha, and factors of the tolerance.
_ALPHAS, _TOLERANCES = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999), (4.0, 2.0, 1.0, 0.5, 0.25)

_SIZES = 10  # about as many sizes of chosen trees as a table lists


def report_page(report: Report) -> Page:
    """The contents of the page of a report."""
    kept = report.n_kept
    return Page(
        title=f"Size of the forest, {title(report.criterion)}",
        verdict=_verdict(report),
        is_good=_is_good(report),
        alerts=_alerts(report),
        numbers=_numbers(report),
        sections=(
            Section("", tuple(map(sentence, remarks(report)))),
            Section(f"What {how_many(kept, 'tree')} lose", (_compared(report),), tables=_losses(report)),
            Section("How many trees to ask for", _unlimited(report), _pictures(report), _levels(report)),
        ),
        code=_code(report),
        origin=_origin(report),
    )


def _is_good(report: Report) -> bool | None:
    if not report.enough or shown_warnings(report):
        return False
    return None if how_likely(report) else True


def _verdict(report: Report) -> str:
    if report.enough:
        return sentence(f"{how_many_are_enough(report)} to {aim(report.criterion)}")
    return sentence(how_many_are_needed(report))


def _alerts(report: Report) -> tuple[Alert, ...]:
    """The warnings. If the forest is too small, what to do; the verdict says the rest."""
    alerts = tuple(Alert(sentence(warning.text), _call(report, warning.options)) for warning in shown_warnings(report))
    return alerts if report.enough else (*alerts, Alert(sentence(what_now(report))))


def _call(report: Report, options: Mapping[str, Any]) -> str:
    """The line of code that gives other options; empty if there are none."""
    if not options:
        return ""
    if report.criterion.target == "chosen":
        return f"small, report = rfsize.shrink(model, X, {as_arguments(options)})"
    rows = {"oob": "model, X, y, oob=True", "rows given": "model, X, y"}.get(report.source, "outputs")
    return f"report = rfsize.size({rows}, {as_arguments(options)})"


def _numbers(report: Report) -> tuple[KeyNumber, ...]:
    criterion, kept, available = report.criterion, report.n_kept, report.available
    whose = "trees grown" if criterion.is_training else "trees of your forest"
    enough = how_likely(report) + ("enough" if report.enough else "not enough")
    trees = KeyNumber(whose, f"{available:,}", enough)
    if kept < available:
        trees = KeyNumber(f"{whose}, kept", f"{available:,} → {kept:,}", enough)
    what = title(criterion)
    if report.certificate is not None:
        what = f"fewest {'first' if criterion.target == 'model' else 'chosen'} trees that are certified"
    n_trees = ("at most " if report.estimate.is_bound else "") + _size(report.n_trees)
    loss = _loss(criterion, report.estimate.curve.at(kept))
    return (
        trees,
        KeyNumber(what, n_trees, _how_sure(report)),
        KeyNumber(axis(criterion), loss, f"with {how_many(kept, 'tree')}"),
    )


def _how_sure(report: Report) -> str:
    if report.certificate is not None:
        return f"certified, {in_percent(report.certificate.confidence)} sure"
    return "95 %" if report.estimate.is_bound else f"95 %: {from_to(report.interval)}"


def _size(size: int | float) -> str:
    return in_words(size) if math.isfinite(size) else "not known"


def _loss(criterion: Criterion, loss: float) -> str:
    return in_percent(loss) if criterion.is_share else f"{loss:.2g}"


def _compared(report: Report) -> str:
    """What the table of losses compares, in a sentence."""
    if report.certificate is None:
        return "Each line: what forests of that size are expected to lose against an unlimited forest."
    if report.criterion.target == "chosen":
        return "Each line: what a smaller forest loses against all of your trees, on the same rows."
    others = others_compared_with(report)
    return f"First the rows with another answer than by all of your trees; then losses against {others}."


def _losses(report: Report) -> tuple[Table, ...]:
    """Losses of the forest to keep, of the forest at hand, and of some sizes around them; and by class."""
    kept, available = report.n_kept, report.available
    sizes = {max(1, kept // 4), kept, available} | ({4 * available} if report.certificate is None else set())
    curve = report.estimate.curve
    if report.criterion.target == "chosen" and isinstance(curve, CertifiedCurve):
        tried = curve.counts.sizes.tolist()
        sizes = {*tried[:: 1 + len(tried) // _SIZES], kept, available}
    losses = [(report.criterion, report.estimate), *report.others.values()]
    own = label_of(report.criterion.name) if report.certificate is None else axis(report.criterion)
    others = tuple(label_of(criterion.name) for criterion, _ in report.others.values())
    ordered = sorted(sizes)
    rows = tuple(
        (f"{size:,}", *(_loss(criterion, estimate.curve.at(size)) for criterion, estimate in losses))
        for size in ordered
    )
    by_class = [table for _, estimate in losses for table in _by_class(estimate, kept)]
    return (Table(("trees", own, *others), rows, ordered.index(kept)), *by_class)


def _by_class(estimate: Estimate, n_trees: int) -> tuple[Table, ...]:
    """The labels that still change, by class."""
    details = estimate.details
    if not isinstance(details, LabelDetails) or len(details.by_class) < 2:
        return ()
    changed = {label: curve.at(n_trees) for label, curve in details.by_class.items()}
    most, which = most_changed(changed, lambda label: changed[label])
    shares = details.label_shares
    rows = tuple((printable(label), in_percent(shares[label]), in_percent(changed[label])) for label in most)
    heads = ("class", "share of the rows", f"labels that still change with {how_many(n_trees, 'tree')}")
    return (Table(heads, rows, title=which.capitalize()),)


def _unlimited(report: Report) -> tuple[str, ...]:
    """The explanation of an unlimited forest, if smaller forests are compared with one."""
    if report.criterion.target == "chosen":
        return ()
    return (
        "An unlimited forest is yours with infinitely many trees: its predictions no longer depend on the luck of the "
        "seed.",
    )


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
    over_size = Picture(f"{axis(report.criterion)} over the number of trees".capitalize(), partial(draw_size, report))
    details = report.estimate.details
    if not isinstance(details, LabelDetails):
        return (over_size,)
    near = Picture("Share of the rows by their distance from a tie", partial(draw_distances, details.distances))
    if report.criterion.average == "micro" or math.isinf(report.n_trees):
        return over_size, near
    return over_size, near, Picture("Labels that still change, by class", partial(draw_by_class, report))


def _code(report: Report) -> str:
    criterion = report.criterion
    if criterion.kind == "importance":
        return ""
    # A grown forest was already cut when its training ended.
    if report.enough and report.n_kept < report.available and not criterion.is_training:
        made_by = "rfsize.truncate(model, n_trees=report)"
        made_by = "rfsize.shrink(model, X)[0]" if criterion.target == "chosen" else made_by
        return (
            f"small = {made_by}  # {how_many(report.n_kept, 'tree')}, a model of the same type\n"
            "fast = rfsize.compile(small)  # predicts what small.predict does, many times faster"
        )
    if report.enough or isinstance(report.estimate.curve, CertifiedCurve):
        return "fast = rfsize.compile(model)  # predicts what model.predict does, many times faster"
    what = "model, X, y" if _is_estimator(report.outputs) else "params, data"
    options = as_arguments(criterion.options)
    return f"# trains until the forest is large enough\nlarger, report = rfsize.grow({what}, {options})"


def _is_estimator(outputs: TreeOutputs | None) -> bool:
    """Whether the model is trained by ``fit``; False if the report no longer refers to a model."""
    task = None if outputs is None else outputs.task
    return task is not None and hasattr(task.forest.with_booster(task.forest.booster), "fit")


def _origin(report: Report) -> tuple[tuple[str, str], ...]:
    estimate = report.estimate
    dropped = f"; too few trees can predict {estimate.n_dropped:,} more" if estimate.n_dropped else ""
    rows = f"{how_many(estimate.n_rows, 'row')}, {SOURCES.get(report.source, report.source)}{dropped}"
    return (
        *_model(report.outputs),
        ("rows", rows),
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
