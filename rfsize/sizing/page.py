"""The HTML page of a report on the size of a forest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from rfsize._util import as_arguments, how_many, in_percent
from rfsize.reporting.account import Account, Figure, Grid, Picture, Remark, Section
from rfsize.reporting.words import sentence
from rfsize.sizing.described import described
from rfsize.sizing.goals.base import Answer, Goal, Loss
from rfsize.sizing.plots import draw_size
from rfsize.sizing.sentences import how_many_are_enough, how_many_are_needed, remarks, what_now
from rfsize.sizing.sized_forest import SizedForest
from rfsize.sizing.words import from_to, in_words, metric_in_words

SOURCES = {
    "oob": "out of bag: each training row is judged by the trees that did not see it",
    "rows given": "as given: judged by all trees",
}
_GROUPS = {"given": "as given", "copies": "copies of a row", "rows": "each row alone", "unknown": "not looked for"}


def report_account(report: SizedForest) -> Account:
    """The contents of the page of a report."""
    goal, kept = report.goal, report.n_kept
    loss = report.loss_at(kept)
    answers = [report._answer, *map(report._answer_to, report._beside)]
    grids = (_losses(report, answers), *(grid for answer in answers for grid in answer.grids(kept)))
    return Account(
        title=f"Size of the forest, {goal.title}",
        verdict=_verdict(report),
        is_good=_is_good(report),
        cautions=_cautions(report),
        figures=_figures(report, loss),
        sections=(
            Section("", tuple(map(sentence, remarks(report)))),
            Section(f"What {how_many(kept, 'tree')} lose", (_lost(report),), grids=grids),
            Section("How many trees to ask for", _unlimited(report), _pictures(report), _levels(report)),
        ),
        code=_code(report),
        origin=_origin(report),
    )


def _unlimited(report: SizedForest) -> tuple[str, ...]:
    """The explanation of an unlimited forest, if smaller forests are compared with one."""
    if report._answer.tried is not None:
        return ()
    return (
        "An unlimited forest is yours with infinitely many trees: its predictions no longer depend on the luck of the "
        "seed.",
    )


def _lost(report: SizedForest) -> str:
    """What the table of losses compares, in a sentence."""
    if report.certificate is None:
        return "Each line: what forests of that size are expected to lose against an unlimited forest."
    if report._answer.tried is not None:
        return "Each line: what a smaller forest loses against all of your trees, on the same rows."
    return f"First the rows with another answer than by all of your trees; then losses against {_rest(report)}."


def _rest(report: SizedForest) -> str:
    others = [report._answer_to(name).against for name in report._beside]
    return others[0] if others else report._answer.against


# Other levels that a report lists: values of alpha, and factors of the tolerance.
_ALPHAS, _TOLERANCES = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999), (4.0, 2.0, 1.0, 0.5, 0.25)

_SIZES = 10  # about as many sizes of shrunken forests as a table lists


def _is_good(report: SizedForest) -> bool | None:
    if not report.enough or report._cautions:
        return False
    return None if report._likely else True


def _verdict(report: SizedForest) -> str:
    if report.enough:
        return sentence(f"{how_many_are_enough(report)} to {report.goal.aim}")
    return sentence(how_many_are_needed(report))


def _cautions(report: SizedForest) -> tuple[Remark, ...]:
    """The warnings. If the forest is too small, what to do; the verdict says the rest."""
    remarks = tuple(Remark(sentence(one.text), _call(report, one.options)) for one in report._cautions)
    return remarks if report.enough else (*remarks, Remark(sentence(what_now(report))))


def _call(report: SizedForest, options: Mapping[str, Any]) -> str:
    """The line of code that gives other options; empty if there are none."""
    rows = {"oob": "model, X, y, oob=True", "rows given": "model, X, y"}.get(report.source, "outputs")
    return report.goal.call.format(rows=rows, options=as_arguments(options)) if options else ""


def _figures(report: SizedForest, loss: Loss) -> tuple[Figure, ...]:
    n_trees = ("at most " if report._answer.is_bound else "") + _size(report.n_trees)
    return (
        *_before_and_after(report),
        Figure(_what(report), n_trees, _how_sure(report)),
        Figure(report.goal.axis, _loss(report.goal, loss), f"with {how_many(report.n_kept, 'tree')}"),
    )


def _what(report: SizedForest) -> str:
    if report.certificate is None:
        return report.goal.title
    return f"fewest {'first' if report._answer.tried is None else 'chosen'} trees that are certified"


def _before_and_after(report: SizedForest) -> tuple[Figure, ...]:
    """Trees of the forest at hand and of the smaller one."""
    kept, available = report.n_kept, report.available
    whose = "trees of your forest" if report.goal.confidence is None else "trees grown"
    enough = report._likely + ("enough" if report.enough else "not enough")
    if kept >= available:
        return (Figure(whose, f"{available:,}", enough),)
    return (Figure(f"{whose}, kept", f"{available:,} → {kept:,}", enough),)


def _levels(report: SizedForest) -> tuple[Grid, ...]:
    """The table of how many trees other levels take."""
    goal = report.goal
    own = 1.0 - goal.level if goal.takes_alpha else goal.level
    levels = _ALPHAS if goal.takes_alpha else tuple(factor * goal.level for factor in _TOLERANCES)
    known = {round(level, 12): f"{level:.6g}" for level in (*levels, own)}
    sizes = {}
    for level in sorted(known, reverse=not goal.takes_alpha):
        with suppress(ValueError):  # a level that too few rows cannot certify is left out
            sizes[level] = report.size_at(level)
    if report._cannot_tell is not None or not sizes:
        return ()
    rows = tuple((known[level], _size(size)) for level, size in sizes.items())
    marked = list(sizes).index(round(own, 12)) if round(own, 12) in sizes else None
    return (
        Grid(("alpha" if goal.takes_alpha else "tolerance", "trees"), rows, marked, "Trees that other levels take"),
    )


def _how_sure(report: SizedForest) -> str:
    if report.certificate is not None:
        return f"certified, {in_percent(report.certificate.confidence)} sure"
    return "95 %" if report._answer.is_bound else f"95 %: {from_to(report.interval)}"


def _size(size: int | float) -> str:
    return in_words(size) if math.isfinite(size) else "not known"


def _loss(goal: Goal, loss: Loss) -> str:
    return in_percent(loss.value) if goal.is_share else f"{loss.value:.2g}"


def _losses(report: SizedForest, answers: list[Answer]) -> Grid:
    """The table of losses of the forest to keep, of the forest at hand, and of some sizes around them."""
    kept, at_hand = report.n_kept, report.available
    sizes = sorted({max(1, kept // 4), kept, at_hand} | ({4 * at_hand} if report.certificate is None else set()))
    tried = report._answer.tried
    if tried is not None:
        sizes = sorted({*tried[:: 1 + len(tried) // _SIZES], kept, at_hand})
    heads = tuple(map(_head, answers))
    rows = tuple((f"{size:,}", *(_loss(answer.goal, answer.loss(size)) for answer in answers)) for size in sizes)
    return Grid(("trees", *heads), rows, sizes.index(kept))


def _head(answer: Answer) -> str:
    return metric_in_words(answer.goal.name) if answer.certificate is None else answer.goal.axis


def _pictures(report: SizedForest) -> tuple[Picture, ...]:
    says = f"{report.goal.axis} over the number of trees".capitalize()
    return Picture(says, partial(draw_size, report)), *report._answer.pictures()


def _code(report: SizedForest) -> str:
    goal = report.goal
    if not goal.is_of_predictions:
        return ""
    # A grown forest was already cut when its training ended.
    if report.enough and report.n_kept < report.available and goal.confidence is None:
        return (
            f"small = {goal.made_by}  # {how_many(report.n_kept, 'tree')}, a model of the same type\n"
            "fast = rfsize.compile(small)  # predicts what small.predict does, many times faster"
        )
    if report.enough:
        return "fast = rfsize.compile(model)  # predicts what model.predict does, many times faster"
    what = "model, X, y" if _is_estimator(report) else "params, data"
    options = as_arguments(goal.options)
    return f"# trains until the forest is large enough\nlarger, report = rfsize.grow({what}, {options})"


def _is_estimator(report: SizedForest) -> bool:
    """Whether the model is trained by ``fit``; False if the report no longer refers to a model."""
    task = None if report._outputs is None else report._outputs.task
    return task is not None and hasattr(task.forest.with_booster(task.forest.booster), "fit")


def _origin(report: SizedForest) -> tuple[tuple[str, str], ...]:
    answer = report._answer
    dropped = f"; {answer.n_dropped:,} more could not be asked about" if answer.n_dropped else ""
    return (
        *described(report._outputs),
        ("rows", f"{how_many(answer.n_rows, 'row')}, {SOURCES.get(report.source, report.source)}{dropped}"),
        ("trees asked of a row", f"{answer.votes_per_row:,.1f} of {report.available:,} on average"),
        ("rows that belong together", _GROUPS[report.groups]),
    )
