"""A `RightSizedClassifier` above whose threshold labels are class 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rfsize
from helpers.classifiers import KINDS
from helpers.forests import Data
from rfsize import RightSizedClassifier

NAMES = np.array(["no", "yes"])
OF_TREES = ["lightgbm", "xgboost", "random forest"]

pytestmark = [
    pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning"),
    pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning"),
]


@pytest.mark.parametrize("kind", OF_TREES)
def test_it_is_sized_and_predicts_above_it(kind: str, data: Data) -> None:
    y = NAMES[data.y]
    model = RightSizedClassifier(KINDS[kind], alpha=0.95, threshold=0.3).fit(data.X, y)
    target = data.y if kind == "xgboost" else y
    grown, report = rfsize.grow(KINDS[kind], data.X, target, alpha=0.95, threshold=0.3)
    usual = rfsize.grow(KINDS[kind], data.X, target, alpha=0.95)[1]
    assert (model.n_trees_, str(model.report_)) == (report.n_kept, str(report))
    assert str(report) != str(usual)
    above = grown.predict_proba(data.fresh)[:, 1] > 0.3
    assert np.array_equal(model.predict(data.fresh), NAMES[above.astype(int)])
    assert (above != (grown.predict_proba(data.fresh)[:, 1] > 0.5)).any()
    found = rfsize.tree_outputs(model, data.X, y, oob=True)
    labels, asked = found.predict_labels(fill="no"), found.votes.asked > 0
    assert model.oob_score_ == pytest.approx(np.mean(labels[asked] == y[asked]))
    assert np.array_equal(rfsize.compile(model).predict(data.fresh), model.predict(data.fresh))


def test_by_cross_validation(data: Data) -> None:
    forest = KINDS["extra-trees"]
    sizes = [RightSizedClassifier(forest, alpha=0.9, threshold=at).fit(data.X, data.y) for at in (0.2, 0.5)]
    assert [model.report_.source for model in sizes] == ["cross-validation"] * 2
    assert str(sizes[0].report_) != str(sizes[1].report_)


@pytest.mark.parametrize(
    ("threshold", "message"), [(1.0, "threshold must"), ("half", "threshold must"), (0.3, "a score for each class")]
)
def test_what_does_not_fit_is_refused(threshold: Any, message: str, data: Data) -> None:
    with pytest.raises(ValueError, match=message):
        RightSizedClassifier(KINDS["random forest"], threshold=threshold).fit(data.X, data.three)
