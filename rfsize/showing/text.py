"""Every sentence of a report on the size of a forest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from rfsize._util import Caution, how_many, in_percent, printable
from rfsize.statistics.certify import CertifiedCurve
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import TAIL, Estimate
from rfsize.statistics.first_trees import more_rows_note
from rfsize.statistics.labels import FEWEST_ROWS
from rfsize.statistics.metrics import get_metric, label_of
from rfsize.statistics.row_errors import PairedCurve

if TYPE_CHECKING:
    from rfsize.api.report import Report

RARE = 0.05
"""A class with a smaller share of the labels is rare."""

_CLASSES_SHOWN = 12

_Class = TypeVar("_Class")

VOTED = {"hard": "majority vote", "soft": "averaged scores"}


# Numbers


def finite(size: int | float) -> int | None:
    """A size for ``json``; None if it is infinite."""
    return int(size) if math.isfinite(size) else None


def rows_from(n_rows: int, source: str) -> str:
    """The number of rows and their source, such as "569 out-of-bag rows"."""
    if source == "oob":
        return how_many(n_rows, "out-of-bag row")
    rows = how_many(n_rows, "row")
    return f"the {rows} you gave" if source == "rows given" else f"{rows} in {source}"


def decimals(interval: tuple[float, float]) -> int:
    """How many decimals to print of a number with this interval."""
    length = interval[1] - interval[0]
    return int(np.clip(2 - np.floor(np.log10(max(length, 1e-12))), 0, 8))


def in_round_percent(share: float) -> str:
    """A share to two digits, such as "26 %"."""
    return f"{float(f'{100.0 * share:.2g}'):g} %"


def in_words(size: int | float) -> str:
    """A size as reports print it."""
    return f"{size:,}" if math.isfinite(size) else "inf"


def roughly(size: int | float) -> int | float:
    """A size to three digits; more are not known of a forest far larger than the one at hand."""
    if not math.isfinite(size):
        return size
    return int(round(size, min(0, 2 - math.floor(math.log10(max(size, 1))))))


def from_to(interval: tuple[int | float, int | float]) -> str:
    """An interval of sizes, such as "19 to 45" or "190 or more"."""
    low, high = interval
    return f"{in_words(low)} to {in_words(high)}" if math.isfinite(high) else f"{in_words(low)} or more"


def sentence(text: str) -> str:
    """Make a sentence of a remark: start with a capital, and end with a period."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def most_changed(classes: Iterable[_Class], change: Callable[[_Class], float]) -> tuple[list[_Class], str]:
    """The classes that change most, as many as there is room for, and a heading for them."""
    known = sorted(classes, key=change, reverse=True)
    most = known[:_CLASSES_SHOWN]
    of_many = "" if len(most) == len(known) else f", the {len(most)} of {len(known)} that change most"
    return most, f"by class{of_many}"


# Criteria


def title(criterion: Criterion) -> str:
    """The name of the number that is estimated, such as "T*(0.99)"."""
    if criterion.kind == "labels":
        return f"T*({criterion.alpha!r}{', macro' if criterion.average == 'macro' else ''})"
    if criterion.kind == "certificate":
        trees = "first" if criterion.target == "model" else "chosen"
        return f"{trees} trees that answer {in_percent(criterion.alpha)} of rows as all do"
    if criterion.kind == "importance":
        level = level_in_words(criterion)
        return f"T*(rank correlation {level})" if criterion.top is None else f"T*({level} of the first {criterion.top})"
    return f"T*({criterion.name} within {level_in_words(criterion)})"


def level_in_words(criterion: Criterion) -> str:
    """The level in words, such as "99 %"."""
    if criterion.is_share:
        return in_percent(criterion.alpha)
    return f"{criterion.alpha:g}" if criterion.takes_alpha else f"{criterion.level:.4g}"


def aim(criterion: Criterion) -> str:
    """What a forest of T* trees does, such as "give the labels of an unlimited forest on 99 % of the rows"."""
    macro, level = criterion.average == "macro", level_in_words(criterion)
    if criterion.kind == "labels":
        rows = "the rows of each class, averaged over the classes" if macro else "rows"
        return f"give the labels of an unlimited forest on {level} of {rows}"
    if criterion.kind == "certificate":
        return f"give {_kept_by(criterion)} on {level} of {'the rows of every class' if macro else 'rows'}"
    if criterion.kind == "predictions":
        return f"give {criterion.name} within {level} of an unlimited forest's"
    if criterion.kind == "metric":
        return f"keep the {label_of(criterion.name)} within {level} of an unlimited forest's"
    if criterion.top is None:
        return f"order the columns as a forest of another seed does, by a rank correlation of {level}"
    return f"have {level} of the first {criterion.top} columns in common with a forest of another seed"


def _kept_by(criterion: Criterion) -> str:
    """What a row must get from fewer trees: the label, the probabilities or the score of all trees."""
    if criterion.of_labels and criterion.voting == "hard":
        return "the label that most of your trees vote for"
    if criterion.of_labels:
        return "the label of all your trees"
    return f"{criterion.name} within {criterion.tolerance:.4g} of those of all your trees"


def easier(criterion: Criterion) -> str:
    """What the user can ask for instead if the criterion takes too many trees."""
    if criterion.kind == "certificate" and not criterion.of_labels:
        return "a lower alpha or a larger tolerance"
    return "a lower alpha" if criterion.takes_alpha else "a larger tolerance"


def axis(criterion: Criterion) -> str:
    """What a picture calls the loss."""
    macro = criterion.average == "macro"
    if criterion.kind == "labels":
        return "labels that still change" + (" (mean of the classes)" if macro else "")
    if criterion.kind == "certificate":
        return f"rows answered otherwise than by all trees{' (worst class)' if macro else ''}"
    if criterion.kind == "predictions":
        return f"{criterion.name} are off by"
    if criterion.kind == "metric":
        return f"{label_of(criterion.name)} is expected to be worse by"
    if criterion.top is None:
        return "1 less the rank correlation of two forests"
    return f"of the first {criterion.top} columns, two forests differ in"


def agreement_axis(criterion: Criterion) -> str:
    """What a picture calls the share of rows that stays the same; for other criteria, the loss."""
    macro = criterion.average == "macro"
    if criterion.kind == "labels":
        return "rows with the label of an unlimited forest" + (" (mean of the classes)" if macro else "")
    if criterion.kind == "certificate":
        return "rows answered as by all trees" + (" (worst class)" if macro else "")
    return axis(criterion)


# Losses


def loss_sentence(criterion: Criterion, estimate: Estimate, n_trees: int) -> str:
    """The line of the report about the loss of ``n_trees`` trees."""
    loss, (low, high) = estimate.curve.at(n_trees), estimate.curve.interval(n_trees)
    if criterion.kind == "labels":
        averaged = "" if criterion.average == "micro" else ", averaged over the classes"
        return f"{in_percent(1.0 - loss)} of labels equal those of an unlimited forest{averaged}"
    if isinstance(estimate.curve, CertifiedCurve):
        # The bound at the chosen size is not certified itself, because it was used to choose the size.
        rows = "rows" if criterion.average == "micro" else "each class's rows"
        differing = f"{int(estimate.curve.counts.at(n_trees).sum()):,} of {estimate.n_rows:,} differ"
        return f"at least {in_percent(criterion.alpha)} of {rows} like these get {_kept_by(criterion)} ({differing})"
    if criterion.kind == "predictions":
        return f"95 % of {criterion.name} are within {loss:.2g} of an unlimited forest's"
    if criterion.kind == "metric":
        worse = f"{'at most ' if estimate.is_bound else ''}{loss:.2g} worse than an unlimited forest's"
        interval = f"{min(low, loss):.2g} to {max(high, loss):.2g}"
        reached = f"all trees reach {estimate.details.value:.4g}"
        return f"{label_of(criterion.name)} is expected to be {worse} ({interval}); {reached}"
    alike, most, least = 1.0 - loss, 1.0 - low, 1.0 - high
    if criterion.top is None:
        return f"importances of two such forests have a rank correlation of {alike:.3f} ({least:.3f} to {most:.3f})"
    top = criterion.top
    return (
        f"two such forests have {top * alike:.1f} of the first {top} columns in common ({top * least:.1f} to "
        f"{top * most:.1f})"
    )


def loss_phrase(criterion: Criterion, estimate: Estimate, n_trees: int) -> str:
    """The loss of ``n_trees`` trees in a few words, for the list in a report on another criterion."""
    loss = estimate.curve.at(n_trees)
    if criterion.kind == "labels":
        return f"{in_percent(loss)} of labels change"
    if criterion.kind == "certificate":
        return f"{in_percent(loss)} of rows are answered otherwise than by all trees"
    if criterion.kind == "predictions":
        return f"{criterion.name} ±{loss:.2g}"
    if criterion.kind == "importance":
        return f"importances unlike by {loss:.2g}"
    name = label_of(criterion.name)
    if isinstance(estimate.curve, PairedCurve):
        return paired_phrase(criterion.name, loss, estimate.curve.error(n_trees))
    if loss == 0.0:
        return f"{name} unchanged"
    sign = "−" if estimate.details.larger_is_better else "+"
    return f"{name} {sign}{loss:.2g}{' at most' if estimate.is_bound else ''}"


def paired_phrase(metric: str, loss: float, error: float) -> str:
    """A loss against all trees on the same rows, such as "AUC −0.013 (± 0.004)"."""
    name = label_of(metric)
    if abs(loss) < 1e-12:
        return f"{name} unchanged"
    falls = (loss > 0.0) == get_metric(metric).larger_is_better
    return f"{name} {'−' if falls else '+'}{abs(loss):.2g} (± {error:.1g})"


# Reports


def headline(report: Report) -> str:
    """T* in a few words, such as ``T*(0.99) = 613 (480 to 790)``."""
    if report.estimate.is_bound:
        return f"{title(report.criterion)} is at most {in_words(report.n_trees)}"
    return f"{title(report.criterion)} = {in_words(report.n_trees)} ({from_to(report.interval)})"


def lines(report: Report) -> str:
    """The printed report."""
    warned = [f"! {warning.text}" for warning in shown_warnings(report)]
    if report.enough:
        first = how_many_are_enough(report)
        rest = [] if keeps_all(report) else [loss_sentence(report.criterion, report.estimate, report.n_kept)]
    else:
        first, rest = how_many_are_needed(report), [what_now(report)]
    rest += [*warned, *_other_losses(report, warned), *remarks(report), origin(report)]
    return "\n  ".join([first, *rest])


def shown_warnings(report: Report) -> list[Caution]:
    """The warnings, without the one about a forest that is too small, since other lines of a report say that."""
    said = None if report.enough else too_small(report)
    return [warning for warning in report.warnings if warning.text != said]


def too_small(report: Report) -> str:
    """The warning about a forest that is too small."""
    return f"{how_many_are_needed(report)}. {sentence(what_now(report))}".rstrip(".")


def whose_trees(report: Report) -> str:
    """The name of all trees in a sentence, such as "your 500 trees"."""
    trees = how_many(report.available, "tree")
    return f"the {trees} grown" if report.criterion.is_training else f"your {trees}"


def keeps_all(report: Report) -> bool:
    """Whether all trees are kept because no fewer are certified."""
    return report.certificate is not None and report.n_kept == report.available


def how_likely(report: Report) -> str:
    """How sure it is whether the trees at hand are enough: "", "probably " or "perhaps "."""
    low, high = report.interval
    if report.estimate.problem is not None or not low <= report.available < high:
        return ""
    return "perhaps " if report.estimate.is_bound else "probably "


def how_many_are_enough(report: Report) -> str:
    """The first line of a forest that is large enough."""
    kept, trees = report.n_kept, whose_trees(report)
    are = "is" if kept == 1 else "are"
    if report.certificate is not None:
        if keeps_all(report):
            return f"no fewer than {trees} {are} certified"
        enough = "enough" if report.criterion.n_trees is None else "kept"
        sure = in_percent(report.certificate.confidence)
        return f"{_which(report, kept, trees)} {are} {enough} (certified, {sure} sure)"
    trees = _which(report, kept, trees) if kept < report.available else trees
    return f"{trees} {are} {how_likely(report)}enough {_how_sure(report)}"


def _which(report: Report, kept: int, trees: str) -> str:
    """The subject of a sentence about the kept trees, such as "105 of your 500 trees"."""
    if report.criterion.target == "limit":
        return f"{kept:,} of {trees}"
    if report.criterion.target == "model":
        return f"the first of {trees}" if kept == 1 else f"the first {kept:,} of {trees}"
    refitted = "chosen and refitted" if kept <= report.estimate.details.n_refitted else "chosen but not refitted"
    return f"{kept:,} of {trees}, {refitted},"


def _how_sure(report: Report) -> str:
    if report.estimate.is_bound:
        return "(95 % sure; fewer may do)" if report.n_kept > 1 else "(95 % sure)"
    interval = f"95 % interval {from_to(report.interval)}"
    if not report.criterion.is_training:
        return f"({interval})"
    sure = f"{100.0 * float(report.criterion.confidence or 0.0):g} % sure"
    return f"({sure}; T* is about {in_words(report.n_trees)}, {interval})"


def how_many_are_needed(report: Report) -> str:
    """The first line of a forest that is too small."""
    trees = whose_trees(report)
    are = "is" if report.available == 1 else "are"
    if report.estimate.problem is not None:
        return f"{trees} cannot tell how many are enough"
    if math.isinf(report.n_trees):
        return f"{trees} {are} not enough"
    if report.n_trees <= report.available:
        sure = f"{100.0 * float(report.criterion.confidence or 0.0):g} %"
        return f"{trees} may not be enough: up to {in_words(report.required)} are needed to be {sure} sure"
    likely = how_likely(report)
    if report.estimate.is_bound:
        return f"{trees} {are} {likely}not enough: up to {in_words(report.n_trees)} may be needed"
    low, high = map(roughly, report.interval)
    needed = f"about {in_words(roughly(report.n_trees))} are needed (95 % interval {from_to((low, high))})"
    return f"{trees} {are} {likely}not enough: {needed}"


def what_now(report: Report) -> str:
    """What a forest that is too small reaches, and what you can do."""
    criterion, estimate = report.criterion, report.estimate
    if estimate.problem is not None:
        return f"{estimate.problem}. No tree is dropped"
    reached = loss_sentence(criterion, estimate, report.available)
    advice = f"for {level_in_words(criterion)}, train more trees or ask for {easier(criterion)}"
    if criterion.is_training and criterion.confidence != 0.5:
        advice += " or a lower confidence"
    if estimate.why_infinite is not None:
        return f"{estimate.why_infinite}. With {how_many(report.available, 'tree')} {reached}; {advice}"
    return f"{reached}; {advice}"


def _other_losses(report: Report, warned: list[str]) -> list[str]:
    """The line of the other losses, without those that a warning names already."""
    losses = [loss_phrase(criterion, estimate, report.n_kept) for criterion, estimate in report.others.values()]
    unsaid = ", ".join(loss for loss in losses if not any(loss in line for line in warned))
    return [f"against {others_compared_with(report)}: {unsaid}"] if unsaid else []


def others_compared_with(report: Report) -> str:
    """The forest that the other losses of a report compare with."""
    return "all of your trees" if report.criterion.target == "chosen" else "an unlimited forest"


def remarks(report: Report) -> list[str]:
    """Notes of the report; if the trees do not tell T*, only those about the rows."""
    all_notes = [] if report.estimate.problem is not None else [*notes(report), *_first_trees_kept(report)]
    return [*(f"note: {note}" for note in [*all_notes, *report.notes_on_rows]), *_grouped_rows(report)]


def notes(report: Report) -> list[str]:
    """What the report adds to T*."""
    criterion, estimate = report.criterion, report.estimate
    if criterion.kind == "labels":
        return _notes_on_labels(report)
    if criterion.kind != "certificate":
        return list(estimate.notes)
    details = estimate.details
    ahead = details.with_more_rows if estimate.n_trees < report.available else None
    noted = [] if ahead is None else [more_rows_note(ahead)]
    if details.limit is not None and math.isfinite(details.limit[1].n_trees):
        limit, unlimited = details.limit
        interval = tuple(unlimited.curve.size_quantile(limit.level, share) for share in (TAIL, 1.0 - TAIL))
        noted.append(
            f"a new forest needs {how_many(unlimited.n_trees, 'tree')} ({from_to(interval)}) to predict like an "
            f"unlimited forest, on average over forests: {title(limit)}"
        )
    if details.voting is not None and criterion.voting not in ("auto", details.predict_voting):
        noted.append(_own_predict(criterion.voting, details.predict_voting))
    return noted if criterion.n_trees is None else []


def _notes_on_labels(report: Report) -> list[str]:
    details, n_rows = report.estimate.details, report.estimate.n_rows
    if details is None:
        return []
    noted = [] if details.tie_warning is None else [details.tie_warning]
    sizes = {label: round(share * n_rows) for label, share in details.label_shares.items()}
    small = {label: rows for label, rows in sizes.items() if 0 < rows < FEWEST_ROWS}
    if report.criterion.average == "macro" and small:
        few = ", ".join(f"{printable(label)} ({rows:,})" for label, rows in small.items())
        noted.append(f"few rows get these classes, so their labels are uncertain: {few}")
    elif len(sizes) == 2:
        noted += [
            f"class {printable(label)} has only {how_many(rows, 'row')}: the interval may be too narrow"
            for label, rows in small.items()
        ]
    if details.predict_voting not in (None, details.voting):
        noted.append(_own_predict(details.voting, str(details.predict_voting)))
    return noted


def _own_predict(voting: str, predict_voting: str) -> str:
    """A note for labels by a voting rule that is not the one of the model's own ``predict``."""
    return f"this report is about labels by {VOTED[voting]}; the model's own predict goes by {VOTED[predict_voting]}"


def _first_trees_kept(report: Report) -> list[str]:
    """Why a grown forest keeps more trees than its confidence in T* requires."""
    kept = report.n_kept
    if not report.enough or kept > report.min_kept:
        return []
    alike = f"labels of all {report.available:,} trees grown on {level_in_words(report.criterion)} of rows"
    return [f"the first {kept:,} trees are kept: fewer would not give the {alike}"]


def _grouped_rows(report: Report) -> list[str]:
    """Which rows belong together."""
    if report.groups == "given":
        return ["by groups: no tree votes on a row of a group that it was trained on"]
    if not report.copied:
        return []
    copied = f"{in_percent(max(report.copied, 0.0001))} of the rows occur more than once"
    if report.groups == "copies":
        return [f"{copied}: equal rows count as one, and no tree votes on a row that equals one of its training rows"]
    return [f"{copied}; each counts as a row of its own"]


def origin(report: Report) -> str:
    """The rows and votes that the report was computed from."""
    estimate = report.estimate
    votes = "vote" if report.criterion.metric == "labels" else "tree"
    dropped = ""
    if estimate.n_dropped:
        dropped = f"; {how_many(estimate.n_dropped, 'row')} left out, with too few trees to predict them"
    rows = rows_from(estimate.n_rows, report.source)
    return f"from {rows}, {how_many(round(estimate.votes_per_row), votes)} each{dropped}"
