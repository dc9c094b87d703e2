"""Forests cut to size, of LightGBM and XGBoost alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reference.counting
import rfsize
from helpers.forests import TREES, Data, predict, raw_trees


def test_truncated_forest_is_the_mean_of_its_first_trees(booster: Any, data: Data) -> None:
    before = predict(booster, data.fresh)
    small = rfsize.truncate(booster, data.fresh, alpha=0.9)
    kept = rfsize.size(booster, data.fresh, alpha=0.9).n_trees
    assert type(small) is type(booster)
    assert rfsize.tree_outputs(small, data.fresh).votes.n_trees == kept < TREES
    logits = np.log(1 / raw_trees(booster, data.fresh)[:kept] - 1)
    assert predict(small, data.fresh) == pytest.approx(1 / (1 + np.exp(logits.mean(axis=0))), abs=1e-6)
    assert np.array_equal(predict(booster, data.fresh), before)


def test_truncated_forest_votes_as_the_first_trees_of_the_large_one(booster: Any, data: Data) -> None:
    small = rfsize.truncate(booster, n_trees=7)
    labels = (raw_trees(booster, data.fresh)[:7] > 0.5).astype(int)
    assert np.array_equal(rfsize.tree_outputs(small, data.fresh).votes.counts, reference.counting.votes(labels, 2))


def test_truncated_forest_still_gives_out_of_bag_votes(booster: Any, data: Data) -> None:
    small = rfsize.truncate(booster, n_trees=20)
    assert np.array_equal(rfsize.inbag(small, data.X), rfsize.inbag(booster, data.X)[:20])


def test_a_forest_that_is_too_small_is_kept_whole_with_a_warning(booster: Any, data: Data) -> None:
    report = rfsize.size(booster, data.fresh, alpha=0.985)
    assert not report.enough
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match=f"{report.n_trees:,} are needed"):
        small = rfsize.truncate(booster, data.fresh, alpha=0.985)
    assert small is not booster
    assert np.array_equal(predict(small, data.fresh), predict(booster, data.fresh))


def test_a_forest_of_one_tree_is_not_enough(booster: Any, data: Data) -> None:
    small = rfsize.truncate(booster, n_trees=1)
    assert not rfsize.size(small, data.fresh, alpha=0.9).enough
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="too few to tell"):
        rfsize.truncate(small, data.fresh, alpha=0.9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, data: rfsize.truncate(model, n_trees=0), "from 1 to 61"),
        (lambda model, data: rfsize.truncate(model, n_trees=62), "from 1 to 61"),
        (lambda model, data: rfsize.truncate(model, n_trees=2.5), "from 1 to 61"),
        (lambda model, data: rfsize.truncate(model, n_trees=True), "from 1 to 61"),
        (
            lambda model, data: rfsize.truncate(model, data.fresh, n_trees=5),
            "^X would have no effect: n_trees says what to keep",
        ),
        (lambda model, data: rfsize.truncate(model, n_trees=5, alpha=0.99), "^alpha would have no effect"),
        (lambda model, data: rfsize.truncate(rfsize.Votes([[1, 2]])), "cuts a model"),
    ],
)
def test_refusals(call: Any, message: str, booster: Any, data: Data) -> None:
    with pytest.raises(ValueError, match=message):
        call(booster, data)
