"""From how many trees rows have a probability of their class, and what is said where these are few."""

from __future__ import annotations

import numpy as np
import pytest

from rfsize.exceptions import InfiniteLossWarning, UndefinedMetricError
from rfsize.sizing.chances import Chances, cautions_of
from rfsize.sizing.named_metrics import metric_with_truth
from rfsize.voting.links import Link, Predictor

JUDGE = metric_with_truth("log_loss", Predictor(np.arange(2), Link("identity")), 4, np.array([0, 1, 0, 1]), None)


@pytest.mark.parametrize("chances", [Chances(500, 0, 0, 0), Chances(500, 0, 3, 0), Chances(500, 0, 0, 9)])
def test_nothing_is_said_where_no_row_is_near_to_none_or_none_is_without(chances: Chances) -> None:
    assert cautions_of(JUDGE, chances) == ()


def test_rows_of_few_trees_are_warned_of_where_some_get_no_probability() -> None:
    (caution,) = cautions_of(JUDGE, Chances(500, 0, 3, 9))
    assert caution.category is InfiniteLossWarning
    assert "on 9 rows of 500 some class gets no probability" in caution.text
    assert "on 3 rows only a few" in caution.text


def test_rows_that_hang_on_one_tree_or_two_are_refused() -> None:
    with pytest.raises(UndefinedMetricError, match="on 2 of 500 rows, only one or two of the trees asked"):
        cautions_of(JUDGE, Chances(500, 2, 0, 0))
