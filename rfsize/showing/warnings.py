"""Warnings about what else suffers if a forest is cut, and about sizes that the rows leave open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rfsize._util import Caution, how_many, in_percent, printable
from rfsize.exceptions import LabelsOnlyWarning, NotConvergedWarning
from rfsize.showing.text import RARE, from_to, in_round_percent, metric_in_words, rows_from, too_small
from rfsize.statistics.certify import CertifiedCurve
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import Estimate, LossCurve

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
# If only an upper bound of the loss is known, it must exceed the limit by this factor, since the loss is often half the
# bound. And the quantile at which the loss of small forests counts as sure.
_BOUND, _LEAST = 2.0, 0.05


def warnings_of_size(report: Report, harms: Sequence[Caution] = ()) -> tuple[Caution, ...]:
    """All warnings that follow from the estimates of a report; ``harms`` are losses measured against all trees."""
    if not report.enough:
        return (Caution(NotConvergedWarning, too_small(report)),)
    return (*_open_size(report), *_suffering(report, harms))


def _open_size(report: Report) -> tuple[Caution, ...]:
    """A warning if the rows and trees leave open how many of the trees are enough."""
    criterion = report.criterion
    if report.certificate is not None or criterion.is_training or criterion.kind == "importance":
        return ()
    low, high = report.interval
    if report.estimate.is_bound or high <= min(report.available, _WIDE * max(low, _FEW_TREES)):
        return ()
    more = "give more rows" if report.source == "rows given" else "more rows or more trees narrow it"
    rows = rows_from(report.estimate.n_rows, report.source)
    return (Caution(NotConvergedWarning, f"{rows} leave the size open: {from_to((low, high))} trees; {more}"),)


def _suffering(report: Report, harms: Sequence[Caution]) -> list[Caution]:
    """What suffers if the forest is cut to the trees that are kept for its labels."""
    criterion, details, n_trees = report.criterion, report.estimate.details, report.n_kept
    if criterion.metric != "labels" or details is None:
        return []
    shares, curve = details.label_shares, report.estimate.curve
    if isinstance(curve, CertifiedCurve):
        if n_trees == report.available:
            return []
        changed, how = curve.by_class(n_trees), "differ from those of all trees"
        return [*changing_classes(changed, shares, criterion, how), *harms]
    changed = {label: of_class.at(n_trees) for label, of_class in details.by_class.items()}
    is_rare = min(shares.values()) < RARE
    of_metrics = [_harm(*other, n_trees, of_a_rare_class=is_rare) for other in report.others.values()]
    return [
        *changing_classes(changed, shares, criterion, "still change"),
        *unlabelled_classes(shares, details.probabilities or []),
        *(harm for harm in of_metrics if harm is not None),
    ]


def changing_classes(
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
    own = {name: value for name, value in criterion.options.items() if name != "n_trees" and value != "labels"}
    return [replace(warning, options={**own, **warning.options})]


def unlabelled_classes(shares: Mapping[Any, float], probabilities: Sequence[float], **options: Any) -> list[Caution]:
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


def _harm(criterion: Criterion, estimate: Estimate, n_trees: int, *, of_a_rare_class: bool) -> Caution | None:
    """The warning about a metric that a forest loses which was cut for its labels; None if it loses little."""
    name, is_ranking = criterion.name, criterion.name == "auc"
    if name not in _TOLERANCE or not (is_ranking or of_a_rare_class):
        return None
    value = estimate.details.value
    limit = AUC_LOSS if is_ranking else RELATIVE_LOSS * value
    is_sure, loss = _too_much(estimate, n_trees, limit)
    if loss is None:
        return None
    suffer = ("suffers" if is_ranking else "suffer") if is_sure else "may suffer"
    words = metric_in_words(name)
    text = f"ranking {suffer}: {words} {loss}; size it"
    if not is_ranking:
        text = f"probabilities {suffer}: {words} {loss} (all trees: {value:.3g}); size them"
    return Caution.advising(LabelsOnlyWarning, text, metric=name, tolerance=_TOLERANCE[name])


def _too_much(estimate: Estimate, n_trees: int, limit: float) -> tuple[bool, str | None]:
    """Whether ``n_trees`` trees surely lose more than ``limit``, and how much in words; None if they do not.

    If halves of the trees show no clear loss, small forests may still show one; for the others only a bound is known.
    """
    curve = estimate.curve
    assert isinstance(curve, LossCurve)
    sign = "−" if estimate.details.larger_is_better else "+"
    loss, least = curve.at(n_trees), curve.quantile(n_trees, _LEAST)
    if estimate.details.is_significant:
        return True, f"{sign}{loss:.2g}" if loss > limit else None
    if least > limit:
        return True, f"{sign}{least:.2g} to {sign}{loss:.2g}"
    return False, f"{sign}{loss:.2g} at most" if loss > _BOUND * limit else None


def cut_warning(max_bytes: int, kept: int, what_is_lost: str, compiled_bytes: int | None) -> Caution:
    """The warning about a forest that ``max_bytes`` cuts below what is enough, or far."""
    remedies = "Allow more bytes, or train smaller trees"
    if compiled_bytes is not None:
        remedies = (
            f"rfsize.compile(model).save(path) writes all trees, without loss, in {compiled_bytes:,} bytes. {remedies}"
        )
    text = f"max_bytes={max_bytes:,} keeps {how_many(kept, 'tree')}, {what_is_lost}. {remedies}"
    return Caution(NotConvergedWarning, text)
