"""A report in words, line by line: how many trees, what stays, what suffers, against what, from what."""

from __future__ import annotations

import math
from typing import Protocol

from rfsize.exceptions import NotConvergedWarning
from rfsize.reporting.words import sentence
from rfsize.sizing.goals.base import Answer, Goal, Loss
from rfsize.sizing.words import from_to, in_words
from rfsize.utils.warn import Caution
from rfsize.utils.words import how_many


class Told(Protocol):
    """What is read of a report."""

    @property
    def goal(self) -> Goal: ...
    @property
    def answer(self) -> Answer: ...
    @property
    def available(self) -> int: ...
    @property
    def source(self) -> str: ...
    @property
    def copied(self) -> float | None: ...
    @property
    def groups(self) -> str: ...
    @property
    def n_trees(self) -> int | float: ...
    @property
    def interval(self) -> tuple[int | float, int | float]: ...
    @property
    def enough(self) -> bool: ...
    @property
    def wanted(self) -> int | float: ...
    @property
    def n_kept(self) -> int: ...
    @property
    def likely(self) -> str: ...
    @property
    def cannot_tell(self) -> str | None: ...
    @property
    def warnings(self) -> tuple[Caution, ...]: ...
    @property
    def beside(self) -> tuple[str, ...]: ...
    def loss_at(self, n_trees: int, metric: str | None = None) -> Loss: ...
    def answer_of(self, metric: str) -> Answer: ...


def lines(report: Told) -> str:
    """What a report prints."""
    said = [f"! {one.text}" for one in report.warnings if one.category is not NotConvergedWarning]
    if report.enough:
        first, rest = how_many_are_enough(report), [report.answer.said(report.n_kept)]
    else:
        first, rest = how_many_are_needed(report), [what_now(report)]
    rest += [*said, *_beside(report), *remarks(report), origin(report)]
    return "\n  ".join([first, *rest])


def finding(report: Told) -> str:
    """What a warning says of a forest that is too small."""
    return f"{how_many_are_needed(report)}. {sentence(what_now(report))}".rstrip(".")


def _trees(report: Told) -> str:
    """The trees that there are."""
    trees = how_many(report.available, "tree")
    return f"your {trees}" if report.goal.confidence is None else f"the {trees} grown"


def how_many_are_enough(report: Told) -> str:
    """The first line of a forest that is large enough."""
    kept, trees = report.n_kept, _trees(report)
    if kept < report.available:
        trees = f"{kept:,} of {trees}"
    return f"{trees} {'is' if kept == 1 else 'are'} {report.likely}enough {_how_sure(report)}"


def _how_sure(report: Told) -> str:
    if report.answer.is_bound:
        return "(95 % sure; fewer may do)"
    interval = f"95 % interval {from_to(report.interval)}"
    if report.goal.confidence is None:
        return f"({interval})"
    sure = f"{100.0 * report.goal.confidence:g} % sure"
    return f"({sure}; T* is about {in_words(report.n_trees)}, {interval})"


def how_many_are_needed(report: Told) -> str:
    """The first line of a forest that is too small."""
    trees = _trees(report)
    are = "is" if report.available == 1 else "are"
    if report.cannot_tell is not None:
        return f"{trees} cannot tell how many are enough"
    if math.isinf(report.n_trees):
        return f"{trees} {are} not enough"
    if report.n_trees <= report.available:
        sure = f"{100.0 * float(report.goal.confidence or 0.0):g} %"
        return f"{trees} may not be enough: it takes up to {in_words(report.wanted)} to be {sure} sure"
    if report.answer.is_bound:
        return f"{trees} {are} {report.likely}not enough: up to {in_words(report.n_trees)} may be needed"
    return (
        f"{trees} {are} {report.likely}not enough: about {in_words(report.n_trees)} are needed (95 % interval "
        f"{from_to(report.interval)})"
    )


def what_now(report: Told) -> str:
    """What a forest that is too small reaches, and what to do."""
    if report.cannot_tell is not None:
        return f"{report.cannot_tell}. No tree is dropped"
    reached = report.answer.said(report.available)
    aim = f"for {report.goal.level_in_words} train more trees, or ask for {report.goal.easier}"
    if report.goal.confidence not in (None, 0.5):
        aim += " or a lower confidence"
    if math.isinf(report.n_trees):
        return f"{report.answer.why_infinite()}. Of {report.available:,} trees {reached}; {aim}"
    return f"{reached}; {aim}"


def _beside(report: Told) -> list[str]:
    """What the forest loses of anything else."""
    others = [report.answer_of(name).in_short(report.n_kept) for name in report.beside]
    return [f"against an unlimited forest: {', '.join(others)}"] if others else []


def remarks(report: Told) -> list[str]:
    """What you should know beside T*."""
    return [*(f"note: {note}" for note in report.answer.notes()), *_of_groups(report)]


def _of_groups(report: Told) -> list[str]:
    """Which rows belong together."""
    if report.groups == "given":
        return ["by groups: no tree votes on a row of a group that it saw"]
    if report.groups == "unknown":
        return ["copies of rows were not looked for: the training data hold no rows that can be read"]
    if not report.copied:
        return []
    copied = f"{max(report.copied, 0.0001):.2%} of the rows have a copy"
    if report.groups == "copies":
        return [f"{copied}: each counts once, and no tree that saw a copy votes on it"]
    return [f"{copied}, and count as rows of their own"]


def origin(report: Told) -> str:
    """From what it was estimated."""
    answer = report.answer
    rows = f"{answer.n_rows:,} {'out-of-bag ' if report.source == 'oob' else ''}row{'' if answer.n_rows == 1 else 's'}"
    if report.source != "oob":
        rows += " given" if report.source == "rows given" else f" ({report.source})"
    votes = "vote" if report.goal.of_votes else "tree"
    dropped = (
        f"; {how_many(answer.n_dropped, 'row')} left out, which too few trees may judge" if answer.n_dropped else ""
    )
    return f"from {rows}, {how_many(round(answer.votes_per_row), votes)} each{dropped}"
