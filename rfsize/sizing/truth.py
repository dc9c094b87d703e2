"""Truth: what is known of the rows that a forest is sized on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.sizing.metrics import Metric
from rfsize.sizing.named_metrics import MetricLike, metric_with_truth
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import one_per_row, refuse_unused, sample_weights, training_labels
from rfsize.voting.groups import Groups
from rfsize.voting.outputs import TreeOutputs


@dataclass(frozen=True, eq=False)
class Truth:
    """Labels or numbers of the rows, and their weights in metrics.

    Attributes
    ----------
    y : array_like, shape (n_rows,)
        In the encoding of the forest.
    sample_weight : array_like, shape (n_rows,), or None
        Weights.
    groups : Groups
        Rows that belong together. Of copies that count once, sizes know one.
    """

    y: Any
    sample_weight: Any
    groups: Groups

    def check(self, outputs: TreeOutputs) -> None:
        """Raise ``ValueError`` where it does not fit the rows and classes that the outputs are of."""
        classes = np.zeros(0) if outputs.votes is None else outputs.votes.classes
        n_rows = len(outputs) if self.groups.once is None else len(self.groups.once)
        training_labels(classes, self.y, n_rows)
        sample_weights(self.sample_weight, n_rows)

    def judge(self, metric: MetricLike, outputs: TreeOutputs) -> Metric:
        """A metric of the rows that the outputs are of; ``ValueError`` where it does not fit them."""
        once = self.groups.once
        n_rows = len(outputs) if once is None else len(once)
        y, weight = one_per_row(self.y, n_rows), self.sample_weight
        if once is not None:
            y, weight = y[once], None if weight is None else one_per_row(weight, n_rows)[once]
        return metric_with_truth(metric, outputs.predictor, len(outputs), y, weight)

    @property
    def units(self) -> Int64s | None:
        """Numbers of the groups of those rows; None where each is one of its own."""
        if self.groups.index is None:
            return None
        numbers: NDArray[np.int64] = self.groups.numbers
        return numbers if self.groups.once is None else numbers[self.groups.once]


def refuse_weights_alone(y: Any, sample_weight: Any) -> None:
    """Raise ``ValueError`` where rows have weights, and no truth for a metric to weigh."""
    if y is None:
        refuse_unused(
            "it weighs the rows in metrics, which compare predictions with y. Give y too, or leave sample_weight out",
            sample_weight=sample_weight,
        )


def predictions_for(outputs: TreeOutputs, judge: Metric) -> Callable[[Floats], Floats]:
    """What makes predictions of mean scores, as a metric takes them; an order of single scores is that of these."""
    if judge.by_order and outputs.scores is not None and outputs.scores.n_scores == 1:
        return _as_they_are
    return outputs.predictor.predictions


def _as_they_are(mean: Floats) -> Floats:
    return mean
