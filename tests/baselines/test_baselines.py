"""Older rules for the number of trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import reference.baselines
import rfsize
from helpers.forests import Data
from rfsize.baselines import banfield_size, mcnemar_size
from rfsize.utils.words import in_percent

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SMALL = {"min_rows": 1, "max_rows": 40, "min_trees": 4, "max_trees": 12}


@st.composite
def voted(draw: st.DrawFn, min_rows: int, max_rows: int, min_trees: int, max_trees: int) -> Any:
    """Votes of three classes, most of them right, so that larger sizes do beat smaller ones; and the classes."""
    n_rows, n_trees = draw(st.integers(min_rows, max_rows)), draw(st.integers(min_trees, max_trees))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    y = generator.integers(0, 3, n_rows)
    right = generator.random((n_rows, n_trees)) < generator.uniform(0.4, 0.9)
    votes = np.where(right, y[:, None], generator.integers(0, 3, (n_rows, n_trees)))
    return votes, y, generator.random((n_trees, n_rows)) < draw(st.sampled_from([0.1, 0.632]))


@pytest.fixture(scope="module")
def forest(data: Data) -> RandomForestClassifier:
    return RandomForestClassifier(120, min_samples_leaf=5, random_state=3).fit(data.X[:700], data.three[:700])


def votes_of(forest: RandomForestClassifier, X: np.ndarray) -> np.ndarray:
    return np.stack([tree.predict(X) for tree in forest.estimators_], axis=1).astype(np.int64)


def check_all_pairs(found: rfsize.baselines.McNemarSize, votes: np.ndarray, y: np.ndarray, exact: bool = False) -> None:
    sizes = found.sizes.tolist()
    pairs = reference.baselines.mcnemar_sizes(votes, y, sizes, exact)
    p_values = [[pairs[m, n][0] for n in sizes] for m in sizes]
    assert np.allclose(found.p_values, p_values, rtol=1e-9, atol=0.0)
    beaten = [[n > m and pairs[m, n][0] < found.level and pairs[m, n][1] for n in sizes] for m in sizes]
    assert np.array_equal(found.beaten, beaten)
    assert found.accuracy.tolist() == [float(reference.baselines.prefix_accuracy(votes, y, None)[m - 1]) for m in sizes]
    assert found.n_rows == len(y)


@given(voted(**SMALL), st.integers(1, 2), st.sampled_from([0.05, 0.3, 0.7]), st.booleans())
def test_mcnemar_is_as_restated(some: Any, step: int, level: float, exact: bool) -> None:
    votes, y, _ = some
    found = mcnemar_size(votes, y, step=step, level=level, exact=exact, classes=[0, 1, 2])
    check_all_pairs(found, votes, y, exact)
    sizes = list(range(step, votes.shape[1] + 1, step))
    assert found.sizes.tolist() == sizes
    assert found.n_trees == reference.baselines.mcnemar_size(votes, y, sizes, level, exact)
    assert found.converged == (found.n_trees < sizes[-1])


@given(voted(**SMALL), st.integers(1, 2), st.integers(1, 5), st.sampled_from([0.05, 0.3, 0.7]), st.booleans())
def test_incremental_mcnemar_is_as_restated(some: Any, step: int, patience: int, level: float, exact: bool) -> None:
    votes, y, _ = some
    found = mcnemar_size(votes, y, step=step, level=level, patience=patience, exact=exact, classes=[0, 1, 2])
    sizes = list(range(step, votes.shape[1] + 1, step))
    chosen, grown = reference.baselines.mcnemar_growing(votes, y, sizes, level, patience, exact)
    assert (found.n_trees, found.sizes[-1]) == (chosen, grown)
    assert found.converged == ((grown - chosen) // step >= patience)


def test_mcnemar_on_a_forest(forest: RandomForestClassifier, data: Data) -> None:
    votes, y = votes_of(forest, data.X[1000:])[:, :33], data.three[1000:]
    found = mcnemar_size(votes, y, step=3)
    check_all_pairs(found, votes, y)
    assert found.n_trees == reference.baselines.mcnemar_size(votes, y, found.sizes.tolist(), 0.05)
    assert found.n_trees > 3
    assert found.converged
    assert f"{found.n_trees - 3} trees are beaten by" in str(found)
    assert mcnemar_size(votes, y, step=16).reason.endswith("it is the smallest size compared")


@pytest.mark.parametrize(
    ("b", "c"), [(0, 0), (3, 3), (3, 9), (9, 10), (0, 19), (10, 10), (9, 11), (10, 11), (4, 16), (0, 20), (90, 140)]
)
@pytest.mark.parametrize("exact", [False, True])
def test_fewer_than_20_discordant_rows_are_equality_or_tested_exactly(exact: bool, b: int, c: int) -> None:
    # One tree against three: b rows that only the first tree gets right, c that only the other two do.
    y = np.zeros(b + c + 5, dtype=int)
    votes = np.zeros((len(y), 3), dtype=int)
    votes[:b, 1:] = 1
    votes[b : b + c, 0] = 1
    p_values = mcnemar_size(votes, y, exact=exact, classes=[0, 1]).p_values
    assert p_values[0, 2] == p_values[2, 0] == pytest.approx(reference.baselines.mcnemar(b, c, exact), rel=1e-12)


def test_a_significantly_worse_larger_size_does_not_beat() -> None:
    y = np.zeros(50, dtype=int)
    votes = np.ones((50, 3), dtype=int)
    votes[:, 0] = 0
    found = mcnemar_size(votes, y)
    assert found.p_values[0, 2] < 1e-6
    assert not found.beaten.any()
    assert found.n_trees == 1


def test_the_largest_size_is_not_called_enough() -> None:
    y = np.zeros(50, dtype=int)
    votes = np.ones((50, 3), dtype=int)
    votes[:, 1:] = 0
    found = mcnemar_size(votes, y)
    assert (found.n_trees, found.converged) == (2, True)
    found = mcnemar_size(votes[:, :2], y)
    assert (found.n_trees, found.converged) == (2, False)
    assert "only 0 larger" in found.reason
    assert "give more trees" in found.reason


@given(voted(**SMALL), st.integers(1, 6), st.integers(1, 4), st.booleans())
def test_banfield_is_as_restated(some: Any, window: int, batch: int, oob: bool) -> None:
    votes, y, inbag = some
    inbag[0, 0] = False
    bags = inbag if oob else None
    found = banfield_size(votes, y, inbag=bags, window=window, batch=batch, classes=[0, 1, 2])
    accuracy = reference.baselines.prefix_accuracy(votes, y, bags)
    assert np.allclose(found.accuracy, [float(share) for share in accuracy], rtol=1e-12)
    chosen, grown = reference.baselines.banfield(accuracy, window, batch)
    assert (found.n_trees, found.converged) == (chosen, grown is not None)
    assert found.grown == (grown or votes.shape[1] // batch * batch)


def test_banfield_on_a_forest(forest: RandomForestClassifier, data: Data) -> None:
    votes, y = votes_of(forest, data.X[:700]), data.three[:700]
    inbag = np.zeros(votes.T.shape, dtype=bool)
    for bag, rows in zip(inbag, forest.estimators_samples_, strict=True):
        bag[rows] = True
    found = banfield_size(votes, y, inbag=inbag)
    assert (found.n_trees, found.grown) == reference.baselines.banfield(
        reference.baselines.prefix_accuracy(votes, y, inbag), 5, 20
    )
    assert found.converged
    assert f"{in_percent(found.accuracy[found.n_trees - 1])} is the highest within trees" in found.reason
    assert "brought no improvement: the highest smoothed accuracy" in found.reason
    few = banfield_size(votes[:, :25], y, inbag=inbag[:25])
    assert (few.converged, few.grown) == (False, 20)
    assert "ran out" in str(few)
    assert banfield_size(votes, y).accuracy[-1] > found.accuracy[-1] + 0.02


def test_votes_and_bags_of_models(lgb_booster: lgb.Booster, data: Data) -> None:
    names = np.array(["low", "middle", "high"])[data.three]
    labelled = RandomForestClassifier(61, random_state=3).fit(data.X, names)
    for model, y, named in ((lgb_booster, data.y, {}), (labelled, names, {"classes": labelled.classes_})):
        votes, inbag = rfsize.tree_outputs(model, data.X).by_tree(), rfsize.inbag(model, data.X)
        counted = rfsize.tree_outputs(model, data.X, oob=True).votes
        right = counted.winner() == y
        assert banfield_size(votes, y, inbag=inbag, **named).accuracy[-1] == right[counted.asked > 0].mean()
        assert (
            mcnemar_size(votes, y, **named).accuracy[-1]
            == (rfsize.tree_outputs(model, data.X).votes.winner() == y).mean()
        )


def test_types_labels_and_blocks(forest: RandomForestClassifier, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    votes, y = votes_of(forest, data.X[700:]), data.three[700:]
    inbag = np.random.default_rng(0).random(votes.T.shape) < 0.6
    sizes = mcnemar_size(votes, y, step=10)
    batches = banfield_size(votes, y, inbag=inbag)
    kept = votes.copy(), y.copy(), inbag.copy()
    names = np.array(["low", "middle", "high"])
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 7 * 120)
    found = mcnemar_size(votes.astype(np.uint8).tolist(), pd.Series(names[y]), step=10, classes=names)
    assert np.array_equal(found.p_values, sizes.p_values)
    again = banfield_size(np.asfortranarray(votes), y.astype(float), inbag=inbag)
    assert np.array_equal(again.accuracy, batches.accuracy)
    assert all(np.array_equal(now, was) for now, was in zip((votes, y, inbag), kept, strict=True))
    assert mcnemar_size(votes > 0, y > 0).n_trees == mcnemar_size((votes > 0).astype(int), (y > 0).astype(int)).n_trees


def test_one_row() -> None:
    found = mcnemar_size([[1, 0, 0, 0, 0, 0]], [0])
    assert (found.n_trees, found.p_values.min()) == (1, 1.0)
    assert banfield_size([[1, 0, 0, 0, 0, 0]], [0], batch=2).n_trees == 5


VOTES = np.tile([0, 1, 1], (6, 10))
LABELS = np.array([0, 1, 1, 0, 1, 1])


@pytest.mark.parametrize("rule", [mcnemar_size, banfield_size])
@pytest.mark.parametrize(
    ("votes", "y", "named", "message"),
    [
        (VOTES, LABELS[:5], {}, "6 expected, 5 found"),
        (VOTES, np.array([0, 1, 1, 0, 1, np.nan]), {}, r"\[nan\].*the label of each class index"),
        (VOTES, LABELS + 1, {}, r"\[2\]; it knows \[0, 1\].*classes="),
        (VOTES, np.array(["no", "yes"])[LABELS], {}, "the label of each class index"),
        (VOTES, np.array(["no", "yes"])[LABELS], {"classes": ["no", "maybe"]}, r"does not know: \['yes'\]"),
        (VOTES, LABELS, {"classes": [0, 0]}, "each class index once"),
        (VOTES, LABELS, {"classes": [[0, 1]]}, "each class index once"),
        (VOTES, LABELS, {"classes": [0]}, "from 0 to 0; found 0 to 1"),
        (VOTES - 1, LABELS, {}, "found -1 to 0"),
        (VOTES * 10**9, LABELS, {}, "found 0 to 1000000000"),
        (VOTES.astype(float), LABELS, {}, "whole numbers.*float64"),
        (np.where(VOTES == 1, np.nan, 0.0), LABELS, {}, "whole numbers"),
        (VOTES[0], LABELS, {}, r"shape \(30,\)"),
        (VOTES[:0], LABELS[:0], {}, r"shape \(0, 30\)"),
        (VOTES[:, :0], LABELS, {}, r"shape \(6, 0\)"),
        (VOTES[:, :1], LABELS, {"classes": [0, 1]}, "1 trees"),
    ],
)
def test_careless_votes(
    rule: Callable[..., Any], votes: np.ndarray, y: np.ndarray, named: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        rule(votes, y, **named)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mcnemar_size(VOTES, LABELS, step=16), "30 trees at a step of 16 make 1 sizes.*at least 32"),
        (lambda: mcnemar_size(VOTES, LABELS, step=40), "make 0 sizes"),
        (lambda: mcnemar_size(VOTES, LABELS, step=0), "step must be a whole number of at least 1"),
        (lambda: mcnemar_size(VOTES, LABELS, level=5), "level must be"),
        (lambda: mcnemar_size(VOTES, LABELS, patience=0), "patience must be"),
        (lambda: mcnemar_size(np.zeros((1, 6001), dtype=int), [0]), "6,001 sizes.*at least 3"),
        (lambda: banfield_size(VOTES[:, :19], LABELS), "19 trees, fewer than a batch of 20"),
        (lambda: banfield_size(VOTES, LABELS, batch=2.5), "batch must be"),
        (lambda: banfield_size(VOTES, LABELS, window=0), "window must be"),
        (lambda: banfield_size(VOTES, LABELS, inbag=VOTES == 1), r"\(30, 6\), as rfsize.inbag.*\(6, 30\)"),
        (lambda: banfield_size(VOTES, LABELS, inbag=VOTES.T), "of bool.*found int64"),
        (lambda: banfield_size(VOTES, LABELS, inbag=VOTES.T == 0), "every row is in the bag of the first tree"),
    ],
)
def test_careless_arguments(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_plots(forest: RandomForestClassifier, data: Data) -> None:
    votes, y = votes_of(forest, data.X[700:]), data.three[700:]
    sized = [(mcnemar_size(votes, y, step=5), "m* = {} trees"), (banfield_size(votes, y), "chosen: {} trees")]
    for found, shown in sized:
        _, ax = plt.subplots()
        assert found.plot(ax) is ax
        assert shown.format(found.n_trees) in [text.get_text() for text in ax.get_legend().get_texts()]
        assert found.plot() is not ax
        plt.close("all")


def test_the_matrix_is_dark_where_sizes_differ() -> None:
    found = mcnemar_size(np.repeat([[1, 0, 0]], 50, axis=0), np.zeros(50, dtype=int))
    image = found.plot().images[0]
    red = image.to_rgba(image.get_array())[..., 0]
    assert np.array_equal(red < 0.5, found.p_values < 0.05)
    assert tuple(image.get_extent()) == (0.5, 3.5, 0.5, 3.5)
    plt.close("all")
