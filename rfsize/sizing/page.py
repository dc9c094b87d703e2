"""What reports on the size of a forest say of themselves on a page."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from rfsize.reporting.account import Account, Figure, Grid, Picture, Section
from rfsize.reporting.words import sentence
from rfsize.sizing.goals.base import Answer, Goal, Loss
from rfsize.sizing.plots import plot_report
from rfsize.sizing.sentences import how_many_are_enough, how_many_are_needed, remarks, what_now
from rfsize.sizing.sized_forest import SizedForest
from rfsize.sizing.words import from_to, in_words, metric_in_words
from rfsize.utils.words import how_many, in_percent

SOURCES = {
    "oob": "out of bag: each training row is judged by the trees that did not see it",
    "rows given": "as given: judged by all trees",
}
_GROUPS = {"given": "as given", "copies": "copies of a row", "rows": "each row alone", "unknown": "not looked for"}


def report_account(report: SizedForest) -> Account:
    """The account of a report."""
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
            Section("What a forest loses", (_LOST if report.certificate is None else _DIFFERS,), grids=grids),
            Section("How the forest converges", pictures=_pictures(report)),
        ),
        code=_code(report),
        origin=_origin(report),
    )


_LOST = "How far forests of so many trees are from an unlimited forest, on average over such forests."


_DIFFERS = (
    "How many rows the smaller forest answers unlike all trees of yours; and how far forests of as many trees are from "
    "an unlimited forest, or a shrunken one from yours."
)


_SIZES = 10  # of shrunken forests, about as many as a table has


def _is_good(report: SizedForest) -> bool | None:
    if not report.enough or report._cautions:
        return False
    return None if report._likely else True


def _verdict(report: SizedForest) -> str:
    if report.enough:
        return sentence(f"{how_many_are_enough(report)} to {report.goal.aim}")
    return sentence(how_many_are_needed(report))


def _cautions(report: SizedForest) -> tuple[str, ...]:
    """The warnings; of a forest that is too small what to do, since the verdict says the rest."""
    texts = [one.text for one in report._cautions]
    return tuple(map(sentence, texts if report.enough else [*texts, what_now(report)]))


def _figures(report: SizedForest, loss: Loss) -> tuple[Figure, ...]:
    answer = report._answer
    return (
        Figure(
            report.goal.title,
            ("at most " if answer.is_bound else "") + _size(report.n_trees),
            _how_sure(report),
        ),
        Figure(
            "trees of your forest" if report.goal.confidence is None else "trees grown",
            f"{report.available:,}",
            report._likely + ("enough" if report.enough else "not enough"),
        ),
        Figure(report.goal.axis, _loss(report.goal, loss), f"with {how_many(report.n_kept, 'tree')}"),
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
    """What forests of the size to keep, of the size at hand, and of some around them lose."""
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
    return Picture(says, partial(plot_report, report)), *report._answer.pictures()


def _code(report: SizedForest) -> str:
    goal = report.goal
    if not goal.is_of_predictions:
        return ""
    # A forest that was grown has been cut when its training ended.
    if report.enough and report.n_kept < report.available and goal.confidence is None:
        return (
            f"small = {goal.made_by}  # {report.n_kept:,} trees, a model of the same type\n"
            "fast = rfsize.compile(small)  # predicts what small.predict does, many times faster"
        )
    if report.enough:
        return "fast = rfsize.compile(model)  # predicts what model.predict does, many times faster"
    given = "".join(f", {name}={_literal(value)}" for name, value in goal.options.items())
    return f"# trains until the forest is large enough\nlarger, report = rfsize.grow(params, data{given})"


def _literal(value: Any) -> str:
    """A value as one would type it; a scorer's name says nothing of how one gets it."""
    return "scorer" if callable(value) else repr(value)


def _origin(report: SizedForest) -> tuple[tuple[str, str], ...]:
    answer = report._answer
    dropped = f"; {answer.n_dropped:,} more could not be asked about" if answer.n_dropped else ""
    return (
        ("rows", f"{how_many(answer.n_rows, 'row')}, {SOURCES.get(report.source, report.source)}{dropped}"),
        ("trees asked of a row", f"{answer.votes_per_row:,.1f} of {report.available:,} on average"),
        ("rows that belong together", _GROUPS[report.groups]),
    )
