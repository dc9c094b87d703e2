"""Every sentence of results: of reports, scores, comparisons, importances and bagging fractions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from rfsize._util import Caution, how_many, in_percent, printable
from rfsize.statistics.certify import CertifiedCurve
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import Estimate
from rfsize.statistics.metrics import METRICS, label_of
from rfsize.statistics.row_errors import PairedCurve
from rfsize.theory import ratio_with_replacement

if TYPE_CHECKING:
    from rfsize.api.compare import Comparison, Difference
    from rfsize.api.importance import Importance, Importances
    from rfsize.api.oob_score import OobScore
    from rfsize.api.report import Report
    from rfsize.training.bagging_fraction import FractionSearch

RARE = 0.05
"""A class with a smaller share of the labels is rare."""

_COLUMNS, _LETTERS = 20, 24  # shown at most: of many columns, and of a long name

_MANY_BELOW = 0.25  # share of rows below alpha that a report names

_VOTED = {"hard": "majority vote", "soft": "averaged scores"}
_SE = 1.96  # standard errors on either side of a 95 % interval


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


def shortened(name: Any) -> str:
    """A name cut to the space beside a picture or in a table."""
    shown = printable(name)
    return shown if len(shown) <= _LETTERS else shown[: _LETTERS - 1] + "…"


# Criteria


def title_of(criterion: Criterion) -> str:
    """What T* of labels, predictions or a metric is called, such as "T*(0.99)"."""
    if criterion.kind == "labels":
        return f"T*({criterion.alpha!r}{', macro' if criterion.average == 'macro' else ''})"
    return f"T*({criterion.name} within {level_in_words(criterion)})"


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
    name = label_of(criterion.name)
    if isinstance(estimate.curve, PairedCurve):
        return paired_phrase(criterion.name, loss, estimate.curve.loss(n_trees).error)
    if loss == 0.0:
        return f"{name} unchanged"
    sign = "−" if estimate.details.worse < 0.0 else "+"
    return f"{name} {sign}{loss:.2g}{' at most' if estimate.is_bound else ''}"


def paired_phrase(metric: str, loss: float, error: float) -> str:
    """A loss against all trees on the same rows, such as "AUC −0.013 (± 0.004)"."""
    name = label_of(metric)
    if abs(loss) < 1e-12:
        return f"{name} unchanged"
    falls = (loss > 0.0) == METRICS[metric].larger_is_better
    return f"{name} {'−' if falls else '+'}{abs(loss):.2g} (± {error:.1g})"


# Reports


def headline(report: Report) -> str:
    """T* in a few words, such as ``T*(0.99) = 613 (480 to 790)``."""
    if report.estimate.is_bound:
        return f"{title_of(report.criterion)} is at most {in_words(report.n_trees)}"
    return f"{title_of(report.criterion)} = {in_words(report.n_trees)} ({from_to(report.interval)})"


def report_text(report: Report) -> str:
    """The printed report."""
    answer, *rest = report_lines(report)
    return "\n".join([*filter(None, [report.criterion.why]), "\n  ".join([answer, *rest])])


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
    """The warnings, without the one about a forest that is too small, since other lines of a report say that."""
    said = None if report.enough else too_small(report)
    return [warning for warning in report.warnings if warning.text != said]


def too_small(report: Report) -> str:
    """The warning about a forest that is too small."""
    return f"{verdict(report)}; {what_now(report)}"


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
    return f"({_confidence(report)} sure; T* is about {in_words(report.n_trees)}, {interval})"


def _confidence(report: Report) -> str:
    """How sure a forest in training must be large enough."""
    return f"{100.0 * float(report.criterion.confidence or 0.0):g} %"


def _needed(report: Report, trees: str) -> str:
    """The verdict on a forest that is too small."""
    are, needed = "is" if report.available == 1 else "are", in_words(report.n_trees)
    if report.estimate.problem is not None:
        return f"{trees} cannot tell how many are enough"
    if math.isinf(report.n_trees):
        return f"{trees} {are} not enough"
    if report.n_trees <= report.available:
        sure = report.upper(float(report.criterion.confidence or 0.0))
        up_to = f"up to {in_words(sure)} are needed to be {_confidence(report)} sure"
        return f"{trees} may not be enough: {up_to}"
    if report.estimate.is_bound:
        return f"{trees} {are} {how_likely(report)}not enough: up to {needed} may be needed"
    low, high = map(_roughly, report.interval)
    needed = f"about {in_words(_roughly(report.n_trees))} are needed (95 % interval {from_to((low, high))})"
    return f"{trees} {are} {how_likely(report)}not enough: {needed}"


def _roughly(size: int | float) -> int | float:
    """A size to three digits; more are not known of a forest far larger than the one at hand."""
    if not math.isfinite(size):
        return size
    return int(round(size, min(0, 2 - math.floor(math.log10(max(size, 1))))))


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
    criterion, estimate = report.criterion, report.estimate
    if criterion.kind == "labels":
        of_size = _notes_on_labels(report)
    elif criterion.kind == "certificate":
        of_size = _notes_on_certificate(report) if criterion.n_trees is None else []
    else:
        of_size = list(estimate.notes)
    return [*filter(None, [criterion.basis]), *of_size]


def _notes_on_certificate(report: Report) -> list[str]:
    criterion, details = report.criterion, report.estimate.details
    if details.voting is None or criterion.voting in ("auto", details.predict_voting):
        return []
    return [_own_predict(criterion.voting, details.predict_voting)]


def _notes_on_labels(report: Report) -> list[str]:
    details, n_rows = report.estimate.details, report.estimate.n_rows
    if details is None:
        return []
    noted = [] if details.tie_warning is None else [details.tie_warning]
    if report.criterion.average == "micro" and len(details.label_shares) == 2:
        noted += [
            f"class {printable(label)} has only {how_many(rows, 'row')}: the interval may be too narrow"
            for label, rows in details.classes_of_few_rows(n_rows).items()
            if rows
        ]
    if details.predict_voting not in (None, details.voting):
        noted.append(_own_predict(details.voting, str(details.predict_voting)))
    if report.enough and (details.below_alpha or 0.0) >= _MANY_BELOW:
        share, level = in_round_percent(details.below_alpha), level_in_words(report.criterion)
        noted.append(
            f"{share} of rows keep their label with a probability below {level}: see outputs.agreement({report.n_kept})"
        )
    return noted


def _own_predict(voting: str, predict_voting: str) -> str:
    """A note for labels by a voting rule that is not the one of the model's own ``predict``."""
    return f"this report is about labels by {_VOTED[voting]}; the model's own predict goes by {_VOTED[predict_voting]}"


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
    dropped = ""
    if estimate.n_dropped:
        dropped = f"; {how_many(estimate.n_dropped, 'row')} left out, with too few trees to predict them"
    rows = rows_from(estimate.n_rows, report.source)
    return f"from {rows}, {how_many(round(estimate.votes_per_row), votes)} each{dropped}"


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


def importances_title(importances: Importances) -> str:
    """How many columns matter."""
    matter = sum(not column.is_noise for column in importances.columns)
    columns = how_many(len(importances.columns), "column")
    return f"{matter} of {columns} {'matters' if matter == 1 else 'matter'} beyond noise"


def importances_score(importances: Importances) -> str:
    """The metric with no column shuffled, and what a loss is."""
    return (
        f"out of bag, the {label_of(importances.metric)} is {importances.score:.4g}; loss: how much worse it "
        "becomes when the column is shuffled"
    )


def importance_cells(column: Importance) -> tuple[str, str, str]:
    """Name, loss and interval of a column, for a table."""
    value, low, high = in_digits((column.value, *column.interval), column.interval)
    return shortened(column.name), value, f"{low} to {high}"


def importances_text(importances: Importances) -> str:
    """The printed table."""
    columns, more = importances.columns[:_COLUMNS], len(importances.columns) - _COLUMNS
    rows = [("", "loss", "95 % interval"), *map(importance_cells, columns)]
    width = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    marks = [" ", *("~" if column.is_noise else " " for column in columns)]
    table = [
        f"{mark}  {name:{width[0]}}  {value:>{width[1]}}  {interval:>{width[2]}}"
        for mark, (name, value, interval) in zip(marks, rows, strict=True)
    ]
    if more > 0:
        table.append(f"   and {how_many(more, 'more column')}")
    noise = "; ~ may be noise" if any(column.is_noise for column in importances.columns) else ""
    title = f"{importances_title(importances)}{noise}"
    return "\n".join([importances_score(importances), *table, title, importances_origin(importances)])


def importances_origin(importances: Importances) -> str:
    """The rows and votes that importances were computed from."""
    trees = how_many(importances.available, "tree")
    return f"from {how_many(importances.n_rows, 'out-of-bag row')}, {importances.votes_per_row:.1f} of {trees} each"


# Bagging fractions


def fraction_text(search: FractionSearch) -> str:
    """The lines of a printed search for the bagging fraction."""
    marks = ["*" if fraction == search.best else " " for fraction in search.curve["fraction"]]
    lines = [
        f"{mark}{fraction:>8}{trees:>7}" + "".join(f"{number:>10}" for number in numbers)
        for mark, (fraction, trees, *numbers) in zip([" ", *marks], fraction_cells(search), strict=True)
    ]
    return "\n".join([*lines, *fraction_lines(search)])


def fraction_lines(search: FractionSearch) -> list[str]:
    """What a search says beside its table: the choice, remarks, and the rows."""
    ratio = f"{ratio_with_replacement(search.best):.2f}"
    n_dropped = search.n_dropped
    dropped = f"; {n_dropped:,} left out, because in some forest every tree saw them" if n_dropped else ""
    return [
        fraction_choice(search),
        *(f"! {text}" for text in fraction_remarks(search)),
        f"fraction {search.best:.3f} is worth a sampling ratio of {ratio} with replacement",
        f"{search.curve['trees'].sum():,} trees grown; {search.n_rows:,} rows, predicted by the trees that did not see "
        f"them{dropped}",
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
        remarks.append(
            f"left out: {left_out}{own} for which {int(search.curve['trees'][0]):,} trees leave rows too few "
            "out-of-bag votes: give a larger n_trees"
        )
    least = fractions[search.curve["difference"].argmin()]
    if len(fractions) > 1 and least in (fractions[0], fractions[-1]):
        end = "at the end of the fractions compared: compare fractions beyond it"
        remarks.append(f"the best {search.metric} is at {least:.3f}, {end}")
    return remarks
