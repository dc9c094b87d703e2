"""The effect of a learning rate on a forest: only with 1 is a forest the mean of its trees, but the default is 0.3.

Each tree of a round learns a step from base_score, and its leaves store the learning rate times this step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from rfsize.integrations.xgboost.first_round import Gradients
from rfsize.integrations.xgboost.independent import was_sampled
from rfsize.integrations.xgboost.model_json import VOTING
from rfsize.models.model import Shrinking

_AS_ONE = 0.005


def learning_rate(found: Gradients | None, n_trees: int, settings: dict[str, Any]) -> float | None:
    """The learning rate of a forest of ``n_trees``; None if neither its nodes nor its settings show it.

    A booster from a file has default settings, by which nothing was sampled.
    """
    told = None if found is None else found.learning_rate(n_trees)
    if told is None and was_sampled(settings):
        return float(settings["learning_rate"])
    return told


def shrinking(rate: float | None, objective: str, margins: NDArray[np.float32] | None = None) -> Shrinking | None:
    """The effect of a learning rate on a forest whose trees begin at ``margins``, if known; None for a rate of 1."""
    if rate is None or abs(rate - 1.0) <= _AS_ONE:
        return None
    keeps = None if margins is None or objective not in VOTING else _threshold_that_keeps_labels(margins)
    predicted = "probabilities" if objective in VOTING else "predictions"
    moved, wrong = ("squeezed towards", "small") if rate < 1.0 else ("stretched away from", "large")
    labels = ""
    if objective in VOTING and margins is not None:
        labels = ". Its labels lean towards the classes that base_score favours"
        if keeps == 0.5:
            labels = ". Its labels are the same as with learning_rate=1, since base_score favours no class"
    return Shrinking(
        f"the forest was trained with learning_rate={rate:.3g}, so each tree counts only {rate:.3g} times what it "
        f"learned, and its {predicted} are {moved} base_score, the prediction before the first tree. T* and losses by "
        f"{predicted}, scores or metrics come out too {wrong}{labels}. Train with learning_rate=1; XGBoost's "
        "default, 0.3, is for boosting",
        keeps,
    )


def _threshold_that_keeps_labels(margins: NDArray[np.float32]) -> float | None:
    """The threshold at which labels do not depend on the learning rate; None if there is none."""
    if margins.size > 1:
        return 0.5 if np.ptp(margins) == 0.0 else None
    return float(expit(margins.astype(np.float64))[0])
