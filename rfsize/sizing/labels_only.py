"""What suffers where a forest is cut to the size of its labels: rare classes, rankings and probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from rfsize.errors import LabelsOnlyWarning
from rfsize.sizing.loss import MetricLoss
from rfsize.sizing.price import Price, Pricing
from rfsize.sizing.words import RARE, in_round_percent
from rfsize.utils.warn import Caution
from rfsize.utils.words import how_many, printable

# How many times 1 − α of a class's labels may change, and how many fewer of the labels it may get than its mean
# probability tells of; of many classes, those named.
_CHANGED, _LABELS, _NAMED = 4.0, 10.0, 3
# What a forest may be expected to lose: of the area under the ROC curve; and where a class has few of the labels, of
# the logarithmic loss, or the Brier score, as a share of it (of balanced classes, more trees than labels take improve
# it by as much).
_AUC, _OF_PROBABILITIES = 0.005, 0.02
# Where the loss is known by a bound alone: how many times as much that must be, since the loss is often a half of it;
# and which quantile of what small forests lose is sure.
_BOUND, _LEAST = 2.0, 0.05
_SAID, _TOLERANCE = {"logloss": "log loss", "brier": "Brier score"}, {"logloss": 0.001, "brier": 0.0005}


class SizedLabels(Protocol):
    """What is read of a report about labels."""

    @property
    def alpha(self) -> float: ...
    @property
    def average(self) -> str: ...
    @property
    def n_kept(self) -> int: ...
    @property
    def label_shares(self) -> dict[Any, float]: ...
    @property
    def pricing(self) -> Pricing: ...
    def agreement_by_class(self, n_trees: int) -> dict[Any, float]: ...
    def price(self, n_trees: int | None = None) -> Price: ...


def what_suffers(report: SizedLabels) -> tuple[Caution, ...]:
    """Warnings of a forest of the trees to keep, which are enough for its labels as a whole."""
    found = [*_changing_classes(report), *_unlabelled_classes(report), *_metrics(report)]
    return tuple(Caution(LabelsOnlyWarning, text) for text in found)


def _changing_classes(report: SizedLabels) -> list[str]:
    if report.average != "micro":
        return []
    changed = {of: 1.0 - agreement for of, agreement in report.agreement_by_class(report.n_kept).items()}
    suffer = [of for of in sorted(changed, key=lambda of: -changed[of]) if changed[of] > _CHANGED * (1 - report.alpha)]
    if not suffer:
        return []
    shares = report.label_shares
    named = "; ".join(
        f"class {printable(of)} ({in_round_percent(shares[of])} of rows): {in_round_percent(changed[of])} of its "
        "labels still change"
        for of in suffer[:_NAMED]
    )
    more = "" if len(suffer) <= _NAMED else f"; so it is with {len(suffer) - _NAMED} more"
    return [f"{named}{more}, with {how_many(report.n_kept, 'tree')}; size labels of rare classes by average='macro'"]


def _unlabelled_classes(report: SizedLabels) -> list[str]:
    probability = report.pricing.mean_probabilities()
    if probability is None:
        return []
    classes = zip(report.label_shares.items(), np.asarray(probability).tolist(), strict=True)
    return [
        f"class {printable(name)} gets {given:.2%} of the labels; its mean probability is {expected:.2%}: size its "
        "probabilities by criterion='probability', tolerance=0.01"
        for (name, given), expected in classes
        if _LABELS * given < expected
    ]


def _metrics(report: SizedLabels) -> list[str]:
    price, found = report.price(), []
    of_a_rare_class = min(report.label_shares.values()) < RARE
    for name in price.metrics:
        known, trees = report.pricing.losses[name], how_many(price.n_trees, "tree")
        if name == "auc":
            lost = _lost(known, price.n_trees, _AUC, "-")
            if lost is not None:
                suffers = "suffers" if lost.surely else "may suffer"
                advice = "size it by criterion='auc', tolerance=0.001"
                found.append(f"ranking {suffers}: AUC {lost.words} with {trees}; {advice}")
        elif of_a_rare_class:
            lost = _lost(known, price.n_trees, _OF_PROBABILITIES * known.value, "+")
            if lost is not None:
                suffer = "suffer" if lost.surely else "may suffer"
                advice = f"size them by criterion='{name}', tolerance={_TOLERANCE[name]}"
                said = f"{_SAID[name]} {lost.words}, of {known.value:.3g}, with {trees}"
                found.append(f"probabilities {suffer}: {said}; {advice}")
    return found


class _Lost(NamedTuple):
    """Whether a metric surely loses too much, and how much in words."""

    surely: bool
    words: str


def _lost(found: MetricLoss, n_trees: int, most: float, sign: str) -> _Lost | None:
    """What a metric loses by so few trees; None where that is no more than ``most``, as far as the trees tell.

    Where halves of the trees lose too little to be told from nothing, what smaller forests lose may be known all the
    same, and no more than a bound of the rest.
    """
    lost, measured = float(found.loss(n_trees)), float(found.loss(n_trees, _LEAST))
    if found.is_told:
        return _Lost(True, f"{sign}{lost:.2g}") if lost > most else None
    if measured > most:
        return _Lost(True, f"{sign}{measured:.2g} to {sign}{lost:.2g}")
    return _Lost(False, f"{sign}{lost:.2g} at most") if lost > _BOUND * most else None
