"""What suffers where a forest is cut to the size of its labels: rare classes, rankings and probabilities."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rfsize.exceptions import LabelsOnlyWarning
from rfsize.sizing.goals.base import Answer
from rfsize.sizing.goals.labels import LabelAnswer
from rfsize.sizing.goals.metric import MetricAnswer
from rfsize.sizing.loss import MetricLoss
from rfsize.sizing.words import RARE, in_percent, in_round_percent
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
_SAID, _TOLERANCE = {"log_loss": "log loss", "brier": "Brier score"}, {"log_loss": 0.001, "brier": 0.0005}


class LabelsSized(Protocol):
    """What is read of a report about labels."""

    @property
    def answer(self) -> Answer: ...
    @property
    def n_kept(self) -> int: ...
    @property
    def beside(self) -> tuple[str, ...]: ...
    def answer_of(self, metric: str) -> Answer: ...


def what_suffers(report: LabelsSized) -> tuple[Caution, ...]:
    """Warnings of a forest of the trees to keep, which are enough for its labels as a whole."""
    answer = report.answer
    assert isinstance(answer, LabelAnswer)
    found = [*_changing_classes(answer, report.n_kept), *_unlabelled_classes(answer), *_metrics(answer, report)]
    return tuple(Caution(LabelsOnlyWarning, text) for text in found)


def _changing_classes(answer: LabelAnswer, kept: int) -> list[str]:
    if answer.goal.average != "micro":
        return []
    changed = answer.by_class(kept)
    suffer = [of for of in sorted(changed, key=lambda of: -changed[of]) if changed[of] > _CHANGED * answer.goal.level]
    if not suffer:
        return []
    shares = answer.label_shares
    named = "; ".join(
        f"class {printable(of)} ({in_round_percent(shares[of])} of rows): {in_round_percent(changed[of])} of its "
        "labels still change"
        for of in suffer[:_NAMED]
    )
    more = "" if len(suffer) <= _NAMED else f"; so it is with {len(suffer) - _NAMED} more"
    return [f"{named}{more}, with {how_many(kept, 'tree')}; size labels of rare classes by average='macro'"]


def _unlabelled_classes(answer: LabelAnswer) -> list[str]:
    return [
        f"class {printable(name)} gets {in_percent(given)} of the labels; its mean probability is "
        f"{in_percent(expected)}: size its probabilities by metric='probabilities', tolerance=0.01"
        for name, given, expected in answer.labels_and_probabilities()
        if _LABELS * given < expected
    ]


def _metrics(answer: LabelAnswer, report: LabelsSized) -> list[str]:
    found: list[str] = []
    trees, of_a_rare_class = how_many(report.n_kept, "tree"), min(answer.label_shares.values()) < RARE
    for name in report.beside:
        other = report.answer_of(name)
        if not isinstance(other, MetricAnswer):
            continue
        if name == "auc":
            lost = _lost(other.lost, report.n_kept, _AUC, "−")
            if lost is not None:
                suffers = "suffers" if lost.surely else "may suffer"
                found.append(
                    f"ranking {suffers}: AUC {lost.words} with {trees}; size it by metric='auc', tolerance=0.001"
                )
        elif of_a_rare_class:
            lost = _lost(other.lost, report.n_kept, _OF_PROBABILITIES * other.now, "+")
            if lost is not None:
                suffer = "suffer" if lost.surely else "may suffer"
                advice = f"size them by metric='{name}', tolerance={_TOLERANCE[name]}"
                said = f"{_SAID[name]} {lost.words}, of {other.now:.3g}, with {trees}"
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
