"""Which size is looked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import rfsize
from helpers.outputs import outputs_of
from rfsize.counting.evidence import Evidence
from rfsize.counting.scores import Scores
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.goals.named import goal_of
from rfsize.sizing.report import report_of


def outputs(n_trees: int = 40, share: float = 0.45) -> Evidence:
    rng = np.random.default_rng(0)
    score = rng.normal(rng.normal(size=(300, 1, 1)), 1.0, size=(300, n_trees, 1))
    counts = rng.binomial(n_trees, share, size=300)
    return outputs_of(
        rfsize.Votes(np.stack([n_trees - counts, counts], axis=1)), Scores.of(score), cut=0.3, voting="soft"
    )


@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize("method", ["plugin", "auto"])
def test_a_report_is_of_the_goal(voting: str, method: str) -> None:
    report = report_of(replace(outputs(), n_trees=50, source="oob"), LabelGoal(0.9, voting, method=method))
    found = (report.goal.alpha, report._answer.goal.voting, report.available, report.source)
    assert found == (0.9, voting, 50, "oob")
    assert report.n_trees == report.size_at(0.9)
    assert method == "auto" or report._answer.estimate.name == "plugin"
    asked_for = {"metric": "labels", "alpha": 0.9, "voting": voting, "average": "micro"}
    assert asked_for.items() <= report.to_dict().items()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"alpha": 1.0}, "alpha"), ({"voting": "averaged"}, "voting"), ({"method": "best"}, "method")],
)
def test_what_is_no_goal_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LabelGoal(**options)


def test_a_threshold_is_for_what_may_go_by_labels() -> None:
    """Training votes at it, which a metric of probabilities is not changed by."""
    assert goal_of("accuracy", 0.01, threshold=0.3) == goal_of("accuracy", 0.01)
    assert goal_of("f1", 0.01, threshold=0.3) == goal_of("f1", 0.01)  # a scorer, and nobody knows what it asks for
    for metric in ("auc", "log_loss", "probabilities"):
        with pytest.raises(ValueError, match="threshold"):
            goal_of(metric, 0.01, threshold=0.3)


def test_importances_say_what_to_call() -> None:
    for metric in ("importance", "feature_importances", "Permutation_Importance"):
        with pytest.raises(ValueError, match=r"rfsize\.oob_importance\(model, X, y\)\.size\(top=10\)"):
            rfsize.size(rfsize.Votes([[3, 97], [20, 80]]), metric=metric, tolerance=0.1)
