"""One metric by all of its names, and what may be meant by a name that is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rfsize
from helpers.forests import Data


@pytest.fixture(scope="module")
def fresh_y(data: Data) -> np.ndarray:
    signal = data.fresh[:, 0] + data.fresh[:, 1] * data.fresh[:, 2]
    return (signal + 0.7 * np.random.default_rng(1).normal(size=len(signal)) > 0.3).astype(int)


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("auc", ["roc_auc", "AUC", "roc_auc_score"]),
        ("log_loss", ["log_loss", "neg_log_loss", "LogLoss", "neg-log-loss"]),
        ("brier", ["neg_brier_score", "Brier score"]),
        ("accuracy", ["accuracy_score", "Accuracy"]),
    ],
)
def test_a_metric_is_one_by_all_of_its_names(
    name: str, others: list[str], lgb_booster: Any, data: Data, fresh_y: np.ndarray
) -> None:
    counted = rfsize.tree_outputs(lgb_booster, data.fresh, fresh_y)
    report = rfsize.size(counted, metric=name, tolerance=0.01)
    labels, loss = rfsize.size(counted, alpha=0.9), report.loss_at(10)
    assert loss.value > 0.0
    for other in others:
        assert rfsize.size(counted, metric=other, tolerance=0.01).to_dict() == report.to_dict()
        assert labels.loss_at(10, other) == report.loss_at(10, other) == loss


def test_what_may_be_meant_is_said(lgb_booster: Any, data: Data, fresh_y: np.ndarray) -> None:
    counted = rfsize.tree_outputs(lgb_booster, data.fresh, fresh_y)
    for typed, meant in (("acurracy", "accuracy"), ("f1_marco", "f1_macro"), ("label", "labels"), ("log-los", "log")):
        with pytest.raises(ValueError, match=f"did you mean '{meant}"):
            rfsize.size(counted, metric=typed, tolerance=0.01)
    with pytest.raises(ValueError, match="did you mean 'auc'"):
        rfsize.size(counted, alpha=0.9).loss_at(10, "aucc")
