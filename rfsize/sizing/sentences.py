"""A report in words: how many trees are enough, what stays the same, what suffers, the price, and the rows."""

from __future__ import annotations

import math

from rfsize._util import how_many, in_percent
from rfsize.reporting.words import sentence
from rfsize.sizing.sized_forest import SizedForest
from rfsize.sizing.words import from_to, in_words, roughly, rows_from


def headline(report: SizedForest) -> str:
    """T* in a few words, such as ``T*(0.99) = 613 (480 to 790)``."""
    if report._answer.is_bound:
        return f"{report.goal.title} is at most {in_words(report.n_trees)}"
    return f"{report.goal.title} = {in_words(report.n_trees)} ({from_to(report.interval)})"


def lines(report: SizedForest) -> str:
    """The printed report."""
    said = [f"! {one.text}" for one in report._cautions]
    if report.enough:
        first, rest = how_many_are_enough(report), [] if is_whole(report) else [report._answer.said(report.n_kept)]
    else:
        first, rest = how_many_are_needed(report), [what_now(report)]
    rest += [*said, *_beside(report, said), *remarks(report), origin(report)]
    return "\n  ".join([first, *rest])


def finding(report: SizedForest) -> str:
    """The warning about a forest that is too small."""
    return f"{how_many_are_needed(report)}. {sentence(what_now(report))}".rstrip(".")


def _trees(report: SizedForest) -> str:
    """The name of all trees in a sentence, such as "your 500 trees"."""
    trees = how_many(report.available, "tree")
    return f"your {trees}" if report.goal.confidence is None else f"the {trees} grown"


def is_whole(report: SizedForest) -> bool:
    """Whether all trees are kept because no fewer are certified."""
    return report.certificate is not None and report.n_kept == report.available


def how_many_are_enough(report: SizedForest) -> str:
    """The first line of a forest that is large enough."""
    kept, trees = report.n_kept, _trees(report)
    if report.certificate is not None:
        if is_whole(report):
            return f"no fewer than {trees} {'is' if kept == 1 else 'are'} certified"
        which = f"{report._answer.which(kept, trees)} {'is' if kept == 1 else 'are'}"
        return f"{which} {report._answer.are} (certified, {in_percent(report.certificate.confidence)} sure)"
    if kept < report.available:
        trees = report._answer.which(kept, trees)
    return f"{trees} {'is' if kept == 1 else 'are'} {report._likely}enough {_how_sure(report)}"


def _how_sure(report: SizedForest) -> str:
    if report._answer.is_bound:
        return "(95 % sure; fewer may do)" if report.n_kept > 1 else "(95 % sure)"
    interval = f"95 % interval {from_to(report.interval)}"
    if report.goal.confidence is None:
        return f"({interval})"
    sure = f"{100.0 * report.goal.confidence:g} % sure"
    return f"({sure}; T* is about {in_words(report.n_trees)}, {interval})"


def how_many_are_needed(report: SizedForest) -> str:
    """The first line of a forest that is too small."""
    trees = _trees(report)
    are = "is" if report.available == 1 else "are"
    if report._cannot_tell is not None:
        return f"{trees} cannot tell how many are enough"
    if math.isinf(report.n_trees):
        return f"{trees} {are} not enough"
    if report.n_trees <= report.available:
        sure = f"{100.0 * float(report.goal.confidence or 0.0):g} %"
        return f"{trees} may not be enough: up to {in_words(report._wanted)} are needed to be {sure} sure"
    if report._answer.is_bound:
        return f"{trees} {are} {report._likely}not enough: up to {in_words(report.n_trees)} may be needed"
    low, high = map(roughly, report.interval)
    needed = f"about {in_words(roughly(report.n_trees))} are needed (95 % interval {from_to((low, high))})"
    return f"{trees} {are} {report._likely}not enough: {needed}"


def what_now(report: SizedForest) -> str:
    """What a forest that is too small reaches, and what you can do."""
    if report._cannot_tell is not None:
        return f"{report._cannot_tell}. No tree is dropped"
    reached = report._answer.said(report.available)
    aim = f"for {report.goal.level_in_words}, train more trees or ask for {report.goal.easier}"
    if report.goal.confidence not in (None, 0.5):
        aim += " or a lower confidence"
    if math.isinf(report.n_trees):
        return f"{report._answer.why_infinite()}. With {how_many(report.available, 'tree')} {reached}; {aim}"
    return f"{reached}; {aim}"


def _beside(report: SizedForest, said: list[str]) -> list[str]:
    """The line of the other losses, without those that a warning names already."""
    others = [report._answer_to(name) for name in report._beside]
    losses = [other.in_short(report.n_kept) for other in others]
    unsaid = ", ".join(loss for loss in losses if not any(loss in line for line in said))
    return [f"against {others[0].against}: {unsaid}"] if unsaid else []


def remarks(report: SizedForest) -> list[str]:
    """Notes of the report; if the trees do not tell T*, only those about the rows."""
    notes = [] if report._cannot_tell is not None else [*report._answer.notes(), *_of_first_trees(report)]
    return [*(f"note: {note}" for note in [*notes, *report.notes_on_rows]), *_of_groups(report)]


def _of_first_trees(report: SizedForest) -> list[str]:
    """Why a grown forest keeps more trees than its confidence in T* requires."""
    kept = report.n_kept
    if not report.enough or kept > report._fewest_alike:
        return []
    alike = f"labels of all {report.available:,} trees grown on {report.goal.level_in_words} of rows"
    return [f"the first {kept:,} trees are kept: fewer would not give the {alike}"]


def _of_groups(report: SizedForest) -> list[str]:
    """Which rows belong together."""
    if report.groups == "given":
        return ["by groups: no tree votes on a row of a group that it was trained on"]
    if not report.copied:
        return []
    copied = f"{in_percent(max(report.copied, 0.0001))} of the rows occur more than once"
    if report.groups == "copies":
        return [f"{copied}: equal rows count as one, and no tree votes on a row that equals one of its training rows"]
    return [f"{copied}; each counts as a row of its own"]


def origin(report: SizedForest) -> str:
    """The rows and votes that the report was computed from."""
    answer = report._answer
    votes = "vote" if report.goal.of_votes else "tree"
    dropped = (
        f"; {how_many(answer.n_dropped, 'row')} left out, with too few trees to judge them" if answer.n_dropped else ""
    )
    rows = rows_from(answer.n_rows, report.source)
    return f"from {rows}, {how_many(round(answer.votes_per_row), votes)} each{dropped}"
