"""Warnings about what else suffers if a forest is cut, and about sizes that the rows leave open."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rfsize._util import Caution, Floats, how_many, in_percent, printable
from rfsize.counting.outputs import predictor_of, why_no_forest
from rfsize.exceptions import LabelsOnlyWarning, NotConvergedWarning
from rfsize.models.link import Predictor
from rfsize.showing.text import (
    RARE,
    class_of_few,
    from_to,
    in_round_percent,
    loss_phrase,
    paired_change,
    rows_from,
    signed,
    verdict,
    what_now,
)
from rfsize.statistics.certify import CertifiedCurve
from rfsize.statistics.criterion import Criterion, options_of
from rfsize.statistics.curve import Estimate, LossCurve
from rfsize.statistics.labels import FEWEST_ROWS
from rfsize.statistics.metrics import Metric, label_of, value_or_nan
from rfsize.statistics.named_metrics import goes_by_labels_alone, metric_of
from rfsize.statistics.row_errors import PairedLoss, paired_metrics

if TYPE_CHECKING:
    from rfsize.api.report import Report

# If the upper end of an interval is more than _WIDE times the lower end, the interval leaves the size open. Sizes below
# _FEW_TREES count as _FEW_TREES: a few trees more cost nothing.
_WIDE, _FEW_TREES = 4.0, 3

# A warning is given if more than _CHANGED times 1 − α of a class's labels change, or if a class gets fewer labels than
# 1/_LABELS of its mean probability. A warning names at most _NAMED classes.
_CHANGED, _LABELS, _NAMED = 4.0, 10.0, 3

AUC_LOSS, RELATIVE_LOSS = 0.005, 0.02
"""A forest cut for its labels gets a warning if it loses more: of the AUC; and, if a class is rare, of the log loss or
Brier score, as a share of it. (With balanced classes this loss is normal: labels take fewer trees.)"""

# The tolerances that a warning about a forest cut for its labels advises.
_TOLERANCE = {"auc": 0.001, "log_loss": 0.001, "brier": 0.0005}
# A loss that these rows cannot tell from 0 must be this many times as large.
_UNSURE = 2.0

# Without labels: a rare class's probabilities may move by this share of their standard deviation, as root mean square.
# Noise of this size costs about 0.006 of an AUC of 0.75.
_MOVED = 0.25

_SURE = 1.645  # standard errors, for a one-sided test at 5 %

# If only an upper bound of the loss is known, it must exceed the limit by this factor, since the loss is often half the
# bound. And the quantile at which the loss of small forests counts as sure.
_BOUND, _LEAST = 2.0, 0.05


def warnings_of_size(report: Report, harms: Sequence[Caution] = ()) -> tuple[Caution, ...]:
    """All warnings that follow from the estimates of a report; ``harms`` are losses measured against all trees."""
    if not report.enough:
        too_small = Caution(NotConvergedWarning, f"{verdict(report)}; {what_now(report)}")
        return (too_small, *_few_rows_of_classes(report))
    return (*_open_size(report), *_few_rows_of_classes(report), *_suffering(report), *harms)


def _open_size(report: Report) -> tuple[Caution, ...]:
    """A warning if the rows and trees leave open how many of the trees are enough."""
    criterion, (low, high) = report.criterion, report.interval
    if report.certificate is not None or criterion.is_training or criterion.kind == "importance":
        return ()
    if report.estimate.is_bound or high <= min(report.available, _WIDE * max(low, _FEW_TREES)):
        return ()
    more = "give more rows" if report.source == "rows given" else "more rows or more trees narrow it"
    rows = rows_from(report.estimate.n_rows, report.source)
    return (Caution(NotConvergedWarning, f"{rows} leave the size open: {from_to((low, high))} trees; {more}"),)


def _few_rows_of_classes(report: Report) -> list[Caution]:
    """Warnings about classes that are averaged over, and that too few of the rows get to tell their size."""
    criterion, estimate = report.criterion, report.estimate
    if criterion.kind != "labels" or criterion.average != "macro" or estimate.problem:
        return []
    warnings = []
    for label, rows in list(estimate.details.classes_of_few_rows(estimate.n_rows).items())[:_NAMED]:
        text = f"no row gets class {printable(label)}, and the mean over the classes leaves it out: give more rows"
        if rows:
            n_rows = how_many(math.ceil(estimate.n_rows * FEWEST_ROWS / rows), "row")
            text = f"{class_of_few(label, rows)}, too few to tell its size: give about {n_rows} like these"
        warnings.append(Caution(NotConvergedWarning, text))
    return warnings


def _suffering(report: Report) -> list[Caution]:
    """What suffers, by the estimates, if the forest is cut to the trees that are kept for its labels."""
    criterion, estimate, n_trees = report.criterion, report.estimate, report.n_kept
    if not _is_about_labels(report):
        return []
    if isinstance(estimate.curve, CertifiedCurve):
        changed, shares = estimate.curve.by_class(n_trees), estimate.curve.label_shares
        return _changing_classes(changed, shares, criterion, "differ from those of all trees")
    details, changed = estimate.details if criterion.kind == "labels" else report.others["labels"][1].details, {}
    if criterion.kind == "labels":
        changed = {label: of_class.at(n_trees) for label, of_class in details.by_class.items()}
    watched = _watched(details.label_shares)
    of_metrics = [_estimated_harm(*other, n_trees) for name, other in report.others.items() if name in watched]
    return [
        *_changing_classes(changed, details.label_shares, criterion, "still change"),
        *_unlabelled_classes(details.label_shares, details.probabilities or []),
        *filter(None, of_metrics),
    ]


def _is_about_labels(report: Report) -> bool:
    """Whether the forest is sized by its labels, or by a metric of labels alone if the report knows those too."""
    outputs, metric = report.outputs, report.criterion.metric
    if report.criterion.kind != "metric" or outputs is None or "labels" not in report.others:
        return metric == "labels"
    return goes_by_labels_alone(metric_of(metric, outputs), predictor_of(outputs))


def _changing_classes(
    changed: Mapping[Any, float], shares: Mapping[Any, float], criterion: Criterion, how: str
) -> list[Caution]:
    """A warning about classes in which many more labels change than the criterion allows on average."""
    most = sorted(changed, key=lambda label: -changed[label])
    suffer = [label for label in most if changed[label] > _CHANGED * criterion.level]
    if criterion.average == "macro" or not suffer:
        return []
    named = "; ".join(
        f"class {printable(label)} (predicted on {in_round_percent(shares[label])} of rows): "
        f"{in_round_percent(changed[label])} of its labels"
        for label in suffer[:_NAMED]
    )
    more = "" if len(suffer) <= _NAMED else f" (and {len(suffer) - _NAMED} more classes)"
    warning = Caution.advising(LabelsOnlyWarning, f"{named} {how}{more}; size them", average="macro")
    # It is the same question of each class.
    own = {name: value for name, value in options_of(criterion).items() if name != "n_trees" and value != "labels"}
    return [replace(warning, options={**own, **warning.options})]


def _unlabelled_classes(shares: Mapping[Any, float], probabilities: Sequence[float], **options: Any) -> list[Caution]:
    """Warnings about classes that get far fewer labels than their mean probability suggests.

    ``probabilities`` are in the order of the classes, or empty if they are not known. ``options`` are further arguments
    of the advised call.
    """
    advice = {"metric": "probabilities", "tolerance": 0.01, **options}
    return [
        Caution.advising(
            LabelsOnlyWarning,
            f"class {printable(label)} gets {in_percent(share)} of the labels, and its mean probability is "
            f"{in_percent(mean)}; size its probabilities",
            **advice,
        )
        for (label, share), mean in zip(shares.items(), probabilities, strict=False)
        if _LABELS * share < mean
    ]


def _watched(shares: Mapping[Any, float]) -> set[str]:
    """Metrics that a forest cut for its labels should not lose; without a rare class only the AUC."""
    return set(_TOLERANCE) if min(shares.values()) < RARE else {"auc"}


def _estimated_harm(criterion: Criterion, estimate: Estimate, n_trees: int) -> Caution | None:
    """The warning about a metric that a forest loses which was cut for its labels; None if it loses little.

    If halves of the trees show no clear loss, small forests may still show one; for the others only a bound is known.
    """
    name, curve, details = criterion.name, estimate.curve, estimate.details
    assert isinstance(curve, LossCurve)
    loss, least, limit = curve.at(n_trees), curve.quantile(n_trees, _LEAST), _limit(name, details.value)
    is_sure = details.is_significant or least > limit
    if loss <= (limit if is_sure else _BOUND * limit):
        return None
    lost = signed(loss * details.worse, "" if is_sure else " at most")
    if is_sure and not details.is_significant:
        lost = f"{signed(least * details.worse)} to {lost}"
    lost += "; size it" if name == "auc" else f" (all trees: {details.value:.3g}); size them"
    return _harm(name, f"{label_of(name)} {lost}", is_sure, {"metric": name, "tolerance": _TOLERANCE[name]})


def _limit(metric: str, value: float) -> float:
    """The largest loss of a metric with this value that needs no warning."""
    return AUC_LOSS if metric == "auc" else RELATIVE_LOSS * value


def _harm(metric: str, lost: str, is_sure: bool, advice: dict[str, Any]) -> Caution:
    """The warning that a metric suffers; ``lost`` says how much, and ends with what the arguments ``advice`` do."""
    what, suffer = ("ranking", "suffers") if metric == "auc" else ("probabilities", "suffer")
    return Caution.advising(LabelsOnlyWarning, f"{what} {suffer if is_sure else 'may suffer'}: {lost}", **advice)


def warnings_of_bytes(max_bytes: int, kept: int, n_trees: int, report: Report | None) -> list[Caution]:
    """The warning about a forest that ``max_bytes`` cuts below what is enough; without report, below half of it."""
    is_enough = 2 * kept >= n_trees if report is None else report.enough and kept >= report.n_kept
    if is_enough:
        return []
    lost = "give X to see what that loses"
    if report is not None:
        lost = f"{loss_phrase(report.criterion, report.estimate, kept)}, and {verdict(report)}"
    remedies = "Allow more bytes, train smaller trees, or keep all of them by rfsize.compile(model).save(path)"
    text = f"max_bytes={max_bytes:,} keeps {how_many(kept, 'tree')} of {n_trees:,}: {lost}. {remedies}"
    return [Caution(NotConvergedWarning, text)]


# Losses against all trees, on the same rows


def harms_of_cut(
    report: Report, predictor: Predictor, few: Floats | None, whole: Floats, y: Any = None, weight: Any = None
) -> list[Caution]:
    """Warnings about what else a forest loses that was cut for its labels, by a certificate.

    Parameters
    ----------
    report : Report
    predictor : Predictor
        Turns mean scores into probabilities.
    few, whole : ndarray, shape (n_rows, n_scores)
        Mean scores of the smaller forest and of all trees. Without ``few``, only labels are compared with
        probabilities.
    y, weight : ndarray, shape (n_rows,), optional
        The truth and weights of the rows. Without ``y``, only the probabilities of rare classes are compared.
    """
    by_all, outputs, curve = predictor.predictions(whole), report.outputs, report.estimate.curve
    assert isinstance(curve, CertifiedCurve)
    shares, of_target = curve.label_shares, {} if report.criterion.is_shrunk else {"target": "model"}
    harms = _unlabelled_classes(shares, by_all.mean(axis=0).tolist(), **of_target)
    if few is None:
        return harms
    by_few, rare = predictor.predictions(few), np.array(list(shares.values())) < RARE
    spread = by_all.std(axis=0)
    moved = np.sqrt(np.square(by_few - by_all).mean(axis=0)) / np.maximum(spread, 1e-12)
    # A tolerance of the probabilities that would notice how far they moved, and with it what metrics measure.
    tolerance = float(f"{max(_MOVED * spread[moved.argmax()], 1e-6):.1g}")
    keep_probabilities = {"metric": "probabilities", "tolerance": tolerance, **of_target}
    metrics = () if y is None else paired_metrics(predictor, len(whole), y, weight)
    watched = _watched(shares)
    with np.errstate(invalid="ignore"):
        losses = [(metric, PairedLoss.of(metric, by_few, by_all)) for metric in metrics if metric.name in watched]
    losses = [(metric, loss) for metric, loss in losses if np.isfinite(loss.lost)]
    has_limit = outputs is not None and why_no_forest(outputs) is None
    for metric, loss in losses:
        of_metric = {"metric": metric.name, "tolerance": _TOLERANCE[metric.name], "target": "limit"}
        harms += _measured_harm(metric, loss, by_all, of_metric if has_limit else keep_probabilities)
    worst = int(np.where(rare, moved, 0.0).argmax())
    if not losses and rare.any() and moved[worst] > _MOVED:
        of_class = f"of class {printable(list(shares)[worst])} (mean {in_percent(float(by_all[:, worst].mean()))})"
        far = f"{in_round_percent(float(moved[worst]))} of their standard deviation, and ranking with them"
        text = f"probabilities {of_class} move by {far}; keep them"
        harms.append(Caution.advising(LabelsOnlyWarning, text, **keep_probabilities))
    return harms


def _measured_harm(metric: Metric, loss: PairedLoss, by_all: Floats, advice: dict[str, Any]) -> list[Caution]:
    """The warning about a metric, if these rows show a loss that is too large."""
    value = value_or_nan(metric, np.arange(len(metric.truth)), by_all)
    limit = _limit(metric.name, value)
    is_sure = loss.lost > max(limit, _SURE * loss.error)
    if not is_sure and loss.lost <= max(_UNSURE * limit, loss.error):
        return []
    lost = f"{paired_change(metric, loss)} against all trees ({value:.3g}); keep them"
    return [_harm(metric.name, lost, is_sure, advice)]
