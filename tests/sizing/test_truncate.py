"""Forests cut to size, of LightGBM and XGBoost alike."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import reference.counting
import rfsize
from helpers.forests import TREES, Data, predict, raw_trees, train_lightgbm, train_xgboost
from rfsize.exceptions import NotConvergedWarning
from rfsize.models.framework import read_forest
from rfsize.utils.words import in_percent


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
            "^X would have no effect: n_trees sets the size",
        ),
        (lambda model, data: rfsize.truncate(model, n_trees=5, alpha=0.99), "^alpha would have no effect"),
        (lambda model, data: rfsize.truncate(rfsize.Votes([[1, 2]])), "cuts a model"),
        (lambda model, data: rfsize.truncate(model, rfsize.size(model, data.fresh)), "n_trees=report"),
    ],
)
def test_refusals(call: Any, message: str, booster: Any, data: Data) -> None:
    with pytest.raises(ValueError, match=message):
        call(booster, data)


def n_bytes(model: Any) -> int:
    if isinstance(model, lgb.Booster):
        return len(model.model_to_string().encode())
    return len(model.save_raw("ubj")) if isinstance(model, xgb.Booster) else len(pickle.dumps(model))


@pytest.fixture(params=["lightgbm", "xgboost", "sklearn"], scope="module")
def forest(request: pytest.FixtureRequest, data: Data) -> Any:
    train = {"lightgbm": train_lightgbm, "xgboost": train_xgboost}.get(request.param)
    if train is not None:
        return train(data.X, data.y, 40)
    return RandomForestClassifier(40, min_samples_leaf=20, random_state=0).fit(data.X, data.y)


class TestMaxBytes:
    def test_the_largest_forest_within_is_kept(self, forest: Any) -> None:
        for n_trees in (1, 2, 13, 39):
            most = n_bytes(rfsize.truncate(forest, n_trees=n_trees))
            for budget, kept in ((most, n_trees), (most - 1, n_trees - 1)):
                if kept == 0:
                    with pytest.raises(ValueError, match=f"a file of one tree has {most:,} bytes"):
                        rfsize.truncate(forest, max_bytes=budget)
                else:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", NotConvergedWarning)
                        small = rfsize.truncate(forest, max_bytes=budget)
                    assert (type(small), read_forest(small).n_trees) == (type(forest), kept)
        whole = n_bytes(rfsize.truncate(forest, n_trees=40))  # XGBoost's remembers its bags
        assert read_forest(rfsize.truncate(forest, max_bytes=whole)).n_trees == 40

    def test_what_fewer_trees_lose_is_said(self, forest: Any, data: Data) -> None:
        report = rfsize.size(forest, data.fresh, alpha=0.95)
        assert report.enough
        budget = n_bytes(rfsize.truncate(forest, n_trees=3))
        with pytest.warns(NotConvergedWarning, match=f"keeps 3 trees, fewer than the {report.n_kept}") as warned:
            small = rfsize.truncate(forest, data.fresh, alpha=0.95, max_bytes=budget)
        assert read_forest(small).n_trees == 3
        assert f": {in_percent(report.loss_at(3).value)} of labels change" in str(warned[-1].message)
        with warnings.catch_warnings():
            warnings.simplefilter("error", NotConvergedWarning)
            rfsize.truncate(forest, data.fresh, alpha=0.95, max_bytes=n_bytes(forest))
        with pytest.warns(NotConvergedWarning, match="are not known to be enough"):
            rfsize.truncate(forest, data.fresh, alpha=0.9999, max_bytes=budget)

    def test_a_deep_cut_names_the_bytes_of_the_compiled_forest(self, forest: Any, tmp_path: Path) -> None:
        rfsize.compile(forest).save(tmp_path / "forest")
        compiled = (tmp_path / "forest").stat().st_size
        with pytest.warns(NotConvergedWarning, match=f"{compiled:,} bytes"):
            rfsize.truncate(forest, max_bytes=n_bytes(rfsize.truncate(forest, n_trees=3)))
        with warnings.catch_warnings():
            warnings.simplefilter("error", NotConvergedWarning)
            rfsize.truncate(forest, max_bytes=n_bytes(rfsize.truncate(forest, n_trees=30)))

    def test_refusals(self, forest: Any, data: Data) -> None:
        with pytest.raises(ValueError, match="give one of them"):
            rfsize.truncate(forest, n_trees=3, max_bytes=10_000)
        with pytest.raises(ValueError, match="max_bytes must be"):
            rfsize.truncate(forest, max_bytes=0)
        with pytest.raises(ValueError, match="without X the forest is not sized"):
            rfsize.truncate(forest, max_bytes=10_000, alpha=0.9)
