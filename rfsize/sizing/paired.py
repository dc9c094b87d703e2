"""What a smaller forest loses against all trees of the forest at hand, measured on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from rfsize._util import Caution, Floats, in_percent, printable
from rfsize.exceptions import LabelsOnlyWarning, RfsizeError
from rfsize.models.link import Predictor
from rfsize.sizing.metrics import Metric
from rfsize.sizing.named_metrics import metric_with_truth
from rfsize.sizing.words import RARE, in_round_percent, metric_in_words

AUC_LOSS, RELATIVE_LOSS = 0.005, 0.02
"""A forest cut for its labels gets a warning if it loses more: of the AUC; and, if a class is rare, of the log loss or
Brier score, as a share of it. (With balanced classes this loss is normal: labels take fewer trees.)"""

# A loss that these rows cannot tell from 0 must be this many times as large.
_UNSURE = 2.0

# Without labels: a rare class's probabilities may move by this share of their standard deviation, as root mean square.
# Noise of this size costs about 0.006 of an AUC of 0.75.
_MOVED = 0.25

_SURE = 1.645  # standard errors, for a one-sided test at 5 %


class PairedLoss(NamedTuple):
    """A metric of a smaller forest compared with the metric of the whole forest, on the same rows.

    Attributes
    ----------
    lost : float
        How much worse the smaller forest is.
    error : float
        Standard error of ``lost``, over the choice of the rows.
    """

    lost: float
    error: float

    @classmethod
    def of(cls, metric: Metric, predicted: Floats, by_all: Floats) -> PairedLoss:
        """From the predictions of both forests, for a metric whose first-order terms by row are known."""
        rows = np.arange(len(metric.truth))
        of_few, of_all = (metric.influence(rows, predictions) for predictions in (predicted, by_all))
        assert of_few is not None
        assert of_all is not None
        lost = metric.worse * (metric.value(rows, predicted) - metric.value(rows, by_all))
        return cls(lost, float(np.sqrt(np.square(of_few - of_all).sum())))

    def in_short(self, metric: str) -> str:
        """The loss in a few words, such as "AUC −0.013 (± 0.004)"."""
        name = metric_in_words(metric)
        if abs(self.lost) < 1e-12:
            return f"{name} unchanged"
        falls = (self.lost > 0.0) == (metric == "auc")
        return f"{name} {'−' if falls else '+'}{abs(self.lost):.2g} (± {self.error:.1g})"


def paired_metrics(predictor: Predictor, n_rows: int, y: Any, weight: Any = None) -> Iterator[Metric]:
    """The metrics that smaller forests are compared by, without those that these rows do not define."""
    for name in {0: ("rmse",), 2: ("auc", "log_loss")}.get(len(predictor.classes), ("log_loss",)):
        with suppress(RfsizeError):
            yield metric_with_truth(name, predictor, n_rows, y, weight)


def harms_of_cut(
    predictor: Predictor,
    few: Floats,
    whole: Floats,
    shares: dict[Any, float],
    advice: Callable[[str, float], dict[str, Any]],
    metrics: Iterator[Metric] | None,
) -> list[Caution]:
    """Warnings about what else a forest loses that was cut for its labels.

    Parameters
    ----------
    predictor : Predictor
        Turns mean scores into probabilities.
    few, whole : ndarray, shape (n_rows, n_scores)
        Mean scores of the smaller forest and of all trees.
    shares : dict of class label to float
        Share of the rows to which all trees give each class.
    advice : callable
        Takes a metric and a tolerance, and returns the arguments of the call that keeps it.
    metrics : iterator of Metric, or None
        The metrics with the truth; None if it is not known. Then only the probabilities of rare classes are compared.
    """
    by_few, by_all = predictor.predictions(few), predictor.predictions(whole)
    moved, tolerance = _moved(by_few, by_all)
    with np.errstate(invalid="ignore"):
        losses = [(metric, PairedLoss.of(metric, by_few, by_all)) for metric in metrics or ()]
    rare = np.array(list(shares.values())) < RARE
    if losses := [(metric, loss) for metric, loss in losses if np.isfinite(loss.lost)]:
        found = (_harm(metric, loss, by_all, bool(rare.any()), advice, tolerance) for metric, loss in losses)
        return [harm for harm in found if harm is not None]
    worst = int(np.where(rare, moved, 0.0).argmax())
    if not rare.any() or moved[worst] <= _MOVED:
        return []
    text = (
        f"probabilities of class {printable(list(shares)[worst])} (mean {in_percent(float(by_all[:, worst].mean()))}) "
        f"move by {in_round_percent(float(moved[worst]))} of their standard deviation, and ranking with them; keep them"
    )
    return [Caution.advising(LabelsOnlyWarning, text, **advice("probabilities", tolerance))]


def _moved(by_few: Floats, by_all: Floats) -> tuple[Floats, float]:
    """How far the probabilities of each class move, in standard deviations, and a tolerance that would notice it."""
    spread = by_all.std(axis=0)
    moved = np.sqrt(np.square(by_few - by_all).mean(axis=0)) / np.maximum(spread, 1e-12)
    return moved, float(f"{max(_MOVED * spread[moved.argmax()], 1e-6):.1g}")


def _harm(
    metric: Metric,
    loss: PairedLoss,
    by_all: Floats,
    is_rare: bool,
    advice: Callable[[str, float], dict[str, Any]],
    tolerance: float,
) -> Caution | None:
    """The warning about a metric, if these rows show a loss that is too large."""
    is_ranking = metric.name == "auc"
    now = metric.value(np.arange(len(metric.truth)), by_all)
    limit = AUC_LOSS if is_ranking else RELATIVE_LOSS * now
    is_sure = loss.lost > max(limit, _SURE * loss.error)
    is_likely = loss.lost > max(_UNSURE * limit, loss.error)
    if not (is_ranking or is_rare) or not (is_sure or is_likely):
        return None
    what = "ranking" if is_ranking else "probabilities"
    suffer = ("suffers" if is_ranking else "suffer") if is_sure else "may suffer"
    text = f"{what} {suffer}: {loss.in_short(metric.name)} against all trees ({now:.3g}); keep them"
    return Caution.advising(LabelsOnlyWarning, text, **advice(metric.name, tolerance))
