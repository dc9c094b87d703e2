"""Every sentence of a report; those of other results are in `text_of_results`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from rfsize._util import Caution, how_many, in_percent, printable
from rfsize.statistics.certify import CertifiedCurve
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import Estimate
from rfsize.statistics.first_trees import CertificateDetails
from rfsize.statistics.labels import LabelDetails
from rfsize.statistics.metrics import METRICS, Metric, label_of
from rfsize.statistics.row_errors import PairedCurve, PairedLoss

if TYPE_CHECKING:
    from rfsize.api.report import Report

RARE = 0.05
"""A class with a smaller share of the labels is rare."""

_LETTERS = 24  # shown of a long name

_MANY_BELOW = 0.25  # share of rows below alpha that a report names

_VOTED = {"hard": "majority vote", "soft": "averaged scores"}


# Numbers


def rows_from(n_rows: int, source: str) -> str:
    """The number of rows and their source, such as "569 out-of-bag rows"."""
    if source == "oob":
        return how_many(n_rows, "out-of-bag row")
    rows = how_many(n_rows, "row")
    return f"the {rows} you gave" if source == "rows given" else f"{rows} in {source}"


def in_digits(values: Iterable[float], interval: tuple[float, float]) -> tuple[str, ...]:
    """Numbers with as many digits as this interval is worth."""
    length = interval[1] - interval[0]
    digits = int(np.clip(2 - np.floor(np.log10(max(length, 1e-12))), 0, 8))
    return tuple(f"{value:.{digits}f}" for value in values)


def in_round_percent(share: float) -> str:
    """A share to two digits, such as "26 %"."""
    return f"{float(f'{100.0 * share:.2g}'):g} %"


def in_words(size: int | float) -> str:
    """A size as reports print it."""
    return f"{size:,}" if math.isfinite(size) else "inf"


def from_to(interval: tuple[int | float, int | float]) -> str:
    """An interval of sizes, such as "19 to 45" or "190 or more"."""
    low, high = interval
    return f"{in_words(low)} to {in_words(high)}" if math.isfinite(high) else f"{in_words(low)} or more"


def class_of_few(label: Any, n_rows: int) -> str:
    """That a class has few rows."""
    return f"class {printable(label)} has only {how_many(n_rows, 'row')}"


def shortened(name: Any) -> str:
    """A name cut to the space beside a picture or in a table."""
    shown = printable(name)
    return shown if len(shown) <= _LETTERS else shown[: _LETTERS - 1] + "…"


# Criteria


def axis_label(criterion: Criterion) -> str:
    """What is drawn over the number of trees: the share that stays the same, or the loss."""
    is_macro = criterion.average == "macro"
    if criterion.kind == "labels":
        return f"labels that stay the same{' (mean of the classes)' if is_macro else ''}"
    if criterion.kind == "certificate":
        return f"rows answered as by all trees{' (worst class)' if is_macro else ''}"
    if criterion.kind == "importance":
        alike = "1 less the rank correlation of two forests"
        return alike if criterion.top is None else f"of the first {criterion.top} columns, common to two forests"
    if criterion.kind == "metric":
        return f"{label_of(criterion.name)} is expected to be worse by"
    return f"{criterion.name} are off by"


def level_in_words(criterion: Criterion) -> str:
    """The level in words, such as "99 %"."""
    if criterion.is_share:
        return in_percent(criterion.alpha)
    return f"{criterion.alpha:g}" if criterion.takes_alpha else f"{criterion.level:.4g}"


def _kept_by(criterion: Criterion) -> str:
    """What a row must get from fewer trees: the label, the probabilities or the score of all trees."""
    if criterion.of_labels and criterion.voting == "hard":
        return "the label that most of your trees vote for"
    if criterion.of_labels:
        return "the label of all your trees"
    return f"{criterion.name} within {criterion.tolerance:.4g} of those of all your trees"


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
        differing = f"{int(estimate.curve.differing_at(n_trees).sum()):,} of {estimate.n_rows:,} differ"
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
    common = f"{top * alike:.1f} of the first {top} columns in common"
    return f"two such forests have {common} ({top * least:.1f} to {top * most:.1f})"


def loss_phrase(criterion: Criterion, estimate: Estimate, n_trees: int) -> str:
    """The loss of ``n_trees`` trees in a few words, for the list in a report on another criterion."""
    loss = estimate.curve.at(n_trees)
    if criterion.kind == "labels":
        return f"{in_percent(loss)} of labels change"
    if criterion.kind == "certificate":
        return f"{in_percent(loss)} of rows are answered otherwise than by all trees"
    if criterion.kind == "predictions":
        return f"{criterion.name} ±{loss:.2g}"
    if isinstance(estimate.curve, PairedCurve):
        return paired_change(METRICS[criterion.name], estimate.curve.loss(n_trees))
    how_sure = " at most" if estimate.is_bound else ""
    return f"{label_of(criterion.name)} {signed(loss * estimate.details.worse, how_sure)}"


def paired_change(metric: Metric, loss: PairedLoss) -> str:
    """A loss against all trees on the same rows, such as "AUC −0.013 (± 0.004)"."""
    return f"{metric.label} {signed(loss.lost * metric.worse, f' (± {loss.error:.1g})')}"


def signed(change: float, how_sure: str = "") -> str:
    """A change of a metric, such as "−0.013"."""
    return "unchanged" if abs(change) < 1e-12 else f"{'−' if change < 0.0 else '+'}{abs(change):.2g}{how_sure}"


# Reports


def headline(report: Report) -> str:
    """T* in a few words, such as ``T*(0.99) = 613 (480 to 790)``."""
    criterion, n_trees = report.criterion, in_words(report.n_trees)
    level = f"{criterion.name} within {level_in_words(criterion)}"
    if criterion.kind == "labels":
        level = f"{criterion.alpha!r}{', macro' if criterion.average == 'macro' else ''}"
    size = f"is at most {n_trees}" if report.estimate.is_bound else f"= {n_trees} ({from_to(report.interval)})"
    return f"T*({level}) {size}"


def report_text(report: Report) -> str:
    """The printed report."""
    why = f"{report.criterion.why}\n" if report.criterion.why else ""
    return why + "\n  ".join(report_lines(report))


def report_lines(report: Report) -> list[str]:
    """The lines of a report: the answer, what stays the same, what is lost, against what, and from what."""
    rest = [] if keeps_all(report) else [loss_sentence(report.criterion, report.estimate, report.n_kept)]
    if not report.enough:
        rest = [what_now(report)]
    warned = [f"! {warning.text}" for warning in shown_warnings(report)]
    # Other losses, without those that a warning names already.
    losses = [loss_phrase(criterion, estimate, report.n_kept) for criterion, estimate in report.others.values()]
    unsaid = ", ".join(loss for loss in losses if not any(loss in line for line in warned))
    others = [f"against {others_compared_with(report)}: {unsaid}"] if unsaid else []
    return [verdict(report), *rest, *warned, *others, *remarks(report), _origin(report)]


def shown_warnings(report: Report) -> list[Caution]:
    """The warnings, without the one about a forest that is too small, which begins as the report does."""
    return [warning for warning in report.warnings if not warning.text.startswith(verdict(report))]


def keeps_all(report: Report) -> bool:
    """Whether all trees are kept because no fewer are certified."""
    return report.certificate is not None and report.n_kept == report.available


def how_likely(report: Report) -> str:
    """How sure it is whether the trees at hand are enough: "", "probably " or "perhaps "."""
    low, high = report.interval
    if report.estimate.problem is not None or not low <= report.available < high:
        return ""
    return "perhaps " if report.estimate.is_bound else "probably "


def verdict(report: Report) -> str:
    """The first line: how many trees are enough, or how many are needed."""
    trees = how_many(report.available, "tree")
    trees = f"the {trees} grown" if report.criterion.is_training else f"your {trees}"
    return _enough(report, trees) if report.enough else _needed(report, trees)


def _enough(report: Report, trees: str) -> str:
    """The verdict on a forest that is large enough; ``trees`` are such as "your 500 trees"."""
    kept, criterion, certificate = report.n_kept, report.criterion, report.certificate
    are = "is" if kept == 1 else "are"
    if keeps_all(report):
        return f"no fewer than {trees} {are} certified"
    if certificate is None:
        trees = f"{kept:,} of {trees}" if kept < report.available else trees
        return f"{trees} {are} {how_likely(report)}enough {_how_sure(report)}"
    made = ["chosen"] if criterion.target == "chosen" else []
    made += ["refitted"] if criterion.is_shrunk and kept <= report.estimate.details.n_refitted else []
    trees = f"{kept:,} of {trees}, {' and '.join(made)}," if made else f"the first {kept:,} of {trees}"
    enough = "enough" if criterion.n_trees is None else "kept"
    return f"{trees} {are} {enough} (certified, {in_percent(certificate.confidence)} sure)"


def _how_sure(report: Report) -> str:
    if report.estimate.is_bound:
        return "(95 % sure; fewer may do)" if report.n_kept > 1 else "(95 % sure)"
    interval = f"95 % interval {from_to(report.interval)}"
    if not report.criterion.is_training:
        return f"({interval})"
    confidence = in_percent(report.criterion.confidence or 0.0)
    return f"({confidence} sure; T* is about {in_words(report.n_trees)}, {interval})"


def _needed(report: Report, trees: str) -> str:
    """The verdict on a forest that is too small."""
    are, needed = "is" if report.available == 1 else "are", in_words(report.n_trees)
    if report.estimate.problem is not None:
        return f"{trees} cannot tell how many are enough"
    if math.isinf(report.n_trees):
        return f"{trees} {are} not enough"
    if report.n_trees <= report.available:
        confidence = report.criterion.confidence or 0.0
        up_to = f"up to {in_words(report.upper(confidence))} are needed to be {in_percent(confidence)} sure"
        return f"{trees} may not be enough: {up_to}"
    if report.estimate.is_bound:
        return f"{trees} {are} {how_likely(report)}not enough: up to {needed} may be needed"
    low, high = map(_roughly, report.interval)
    needed = f"about {in_words(_roughly(report.n_trees))} are needed"
    needed += f" (95 % interval {from_to((low, high))})" if report.estimate.has_interval else ""
    return f"{trees} {are} {how_likely(report)}not enough: {needed}"


def _roughly(size: int | float) -> int | float:
    """A size to three digits; more are not known of a forest far larger than the one at hand."""
    return int(float(f"{size:.3g}")) if math.isfinite(size) else size


def what_now(report: Report) -> str:
    """What a forest that is too small reaches, and what you can do."""
    criterion, estimate = report.criterion, report.estimate
    if estimate.problem is not None:
        return f"{estimate.problem}. No tree is dropped"
    reached = loss_sentence(criterion, estimate, report.available)
    easier = "a lower alpha" if criterion.takes_alpha else "a larger tolerance"
    if criterion.kind == "certificate" and not criterion.of_labels:
        easier = "a lower alpha or a larger tolerance"
    if criterion.is_training and criterion.confidence != 0.5:
        easier += " or a lower confidence"
    advice = f"for {level_in_words(criterion)}, train more trees or ask for {easier}"
    if math.isinf(estimate.n_trees):
        return f"{estimate.why_infinite}. With {how_many(report.available, 'tree')} {reached}; {advice}"
    return f"{reached}; {advice}"


def others_compared_with(report: Report) -> str:
    """The forest that the other losses of a report compare with."""
    is_paired = any(isinstance(estimate.curve, PairedCurve) for _, estimate in report.others.values())
    return "all of your trees" if is_paired else "an unlimited forest"


def remarks(report: Report) -> list[str]:
    """Notes of the report; if the trees do not tell T*, only those about the rows."""
    of_size = [] if report.estimate.problem is not None else notes(report)
    kept = report.n_kept
    if report.enough and kept <= report.min_kept:
        alike = f"labels of all {report.available:,} trees grown on {level_in_words(report.criterion)} of rows"
        of_size.append(f"the first {kept:,} trees are kept: fewer would not give the {alike}")
    return [*(f"note: {note}" for note in [*of_size, *report.notes_on_rows]), *_rows_apart(report)]


def notes(report: Report) -> list[str]:
    """What the report adds to T*."""
    details, of_details = report.estimate.details, []
    if isinstance(details, LabelDetails):
        of_details = _notes_on_labels(report, details)
    elif isinstance(details, CertificateDetails):
        of_details = _own_predict(details)
    return [*filter(None, [report.criterion.basis]), *report.estimate.notes, *of_details]


def _notes_on_labels(report: Report, details: LabelDetails) -> list[str]:
    few = {}
    if report.criterion.average == "micro" and len(details.label_shares) == 2:
        few = details.classes_of_few_rows(report.estimate.n_rows)
    too_narrow = "the interval may be too narrow"
    noted = [f"{class_of_few(label, n_rows)}: {too_narrow}" for label, n_rows in few.items() if n_rows]
    noted += _own_predict(details)
    if report.enough and (details.below_alpha or 0.0) >= _MANY_BELOW:
        share, level = in_round_percent(details.below_alpha or 0.0), level_in_words(report.criterion)
        keep = f"{share} of rows keep their label with a probability below {level}"
        noted.append(f"{keep}: see outputs.agreement({report.n_kept})")
    return noted


def _own_predict(details: LabelDetails | CertificateDetails) -> list[str]:
    """A note if labels are by a voting rule that is not the one of the model's own ``predict``."""
    labels, predict = details.voting, details.predict_voting
    if labels is None or predict is None or labels == predict:
        return []
    return [f"this report is about labels by {_VOTED[labels]}; the model's own predict goes by {_VOTED[predict]}"]


def _rows_apart(report: Report) -> list[str]:
    """Which rows belong together."""
    if report.groups == "given":
        return ["by groups: no tree votes on a row of a group that it was trained on"]
    if not report.copied:
        return []
    copied = f"{in_percent(max(report.copied, 0.0001))} of the rows occur more than once"
    if report.groups == "copies":
        return [f"{copied}: equal rows count as one, and no tree votes on a row that equals one of its training rows"]
    return [f"{copied}; each counts as a row of its own"]


def _origin(report: Report) -> str:
    """The rows and votes that the report was computed from."""
    estimate, criterion = report.estimate, report.criterion
    votes = "vote" if criterion.metric == "labels" and criterion.target == "limit" else "tree"
    dropped = f"; {how_many(estimate.n_dropped, 'row')} left out, with too few trees to predict them"
    dropped = dropped if estimate.n_dropped else ""
    rows = rows_from(estimate.n_rows, report.source)
    return f"from {rows}, {how_many(round(estimate.votes_per_row), votes)} each{dropped}"
