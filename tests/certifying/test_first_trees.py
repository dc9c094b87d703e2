"""Rows that the first trees answer otherwise, the sizes that are tried, and which of them rows certify."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from rfsize.certifying.certificate import most_disagreements
from rfsize.certifying.promise import Promise
from rfsize.certifying.smaller_forests import (
    FirstTrees,
    Likeness,
    _by_averages,
    _by_predictions,
    _by_votes,
    sizes_tried,
)
from rfsize.models.link import Link, Predictor

WANTED = Promise(0.95, 0.9, "micro")


def plain(label_of_first: list[list[int]], n_classes: int) -> tuple[list[int], list[list[int]]]:
    """Rows by the label of all trees, and those of them that the first 1, …, T trees label otherwise."""
    rows = [0] * n_classes
    differing = [[0] * len(label_of_first[0]) for _ in range(n_classes)]
    for labels in label_of_first:
        rows[labels[-1]] += 1
        for t, label in enumerate(labels):
            differing[labels[-1]][t] += label != labels[-1]
    return rows, differing


def assert_counted(found: FirstTrees, rows: list[int], differing: list[list[int]]) -> None:
    assert found.rows.tolist() == rows
    assert found.differing.tolist() == differing


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 12), st.integers(2, 4))
def test_votes(seed: int, n_rows: int, n_trees: int, n_classes: int) -> None:
    votes = np.random.default_rng(seed).integers(0, n_classes, (n_rows, n_trees))
    labels = [[int(np.bincount(row[: t + 1]).argmax()) for t in range(n_trees)] for row in votes]
    assert_counted(_by_votes(votes, np.arange(n_rows), n_classes=n_classes), *plain(labels, n_classes))


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 12), st.sampled_from([1, 3]))
def test_averaged_scores(seed: int, n_rows: int, n_trees: int, n_scores: int) -> None:
    scores, cut = np.random.default_rng(seed).normal(size=(n_rows, n_trees, n_scores)), 0.1
    labels = []
    for row in scores:
        means = [row[: t + 1].mean(axis=0) for t in range(n_trees)]
        labels.append([int(mean[0] > cut) if n_scores == 1 else int(mean.argmax()) for mean in means])
    n_classes = max(2, n_scores)
    found = _by_averages(scores, np.arange(n_rows), cut=cut, n_classes=n_classes)
    assert_counted(found, *plain(labels, n_classes))


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 12))
def test_probabilities(seed: int, n_rows: int, n_trees: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(n_rows, n_trees, 3))
    predictor, tolerance = Predictor(np.arange(3), Link("softmax", 2.0)), 0.2
    rows, differing = [0] * 3, [[0] * n_trees for _ in range(3)]
    for row in scores:
        of_first = [np.exp(2.0 * row[: t + 1].mean(axis=0)) for t in range(n_trees)]
        of_first = [one / one.sum() for one in of_first]
        of_all = of_first[-1]
        rows[int(of_all.argmax())] += 1
        for t, one in enumerate(of_first):
            differing[int(of_all.argmax())][t] += np.abs(one - of_all).max() > tolerance
    found = _by_predictions(scores, np.arange(n_rows), likeness=Likeness(predictor, "probabilities", tolerance))
    assert_counted(found, rows, differing)


def test_numbers_of_a_regression_have_one_class() -> None:
    scores = np.array([[[1.0], [2.0], [3.0]], [[2.0], [2.0], [2.0]]])
    predictor = Predictor(np.zeros(0), Link("identity"))
    found = _by_predictions(scores, np.arange(2), likeness=Likeness(predictor, "scores", 0.75))
    assert_counted(found, [2], [[1, 0, 0]])


@given(st.integers(1, 5000))
def test_sizes_tried_go_from_all_trees_but_one_to_one(n_trees: int) -> None:
    sizes = sizes_tried(n_trees)
    if n_trees == 1:
        assert not sizes.size
    else:
        assert sizes[0] == n_trees - 1
        assert sizes[-1] == 1
        assert (np.diff(sizes) < 0).all()
        apart = np.sqrt(1.0 / sizes - 1.0 / n_trees)
        # A step of a single tree may be a longer one.
        assert ((apart[1:] <= 1.05 * apart[:-1] + 1e-9) | (np.diff(sizes) == -1)).all()


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.sampled_from([0.6, 0.9, 0.99]), st.sampled_from([0.5, 0.9]))
def test_the_fewest_trees_are_the_last_before_the_first_that_fails(
    seed: int, n_trees: int, confidence: float, alpha: float
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 120, 2)
    rows[0] += 80
    falling = np.sort(rng.uniform(0.0, 0.6, n_trees))[::-1] * rng.uniform(0.8, 1.2, n_trees)
    differing = np.minimum(rng.poisson(falling * rows[:, None]), rows[:, None])
    differing[:, -1] = 0
    for average in ("micro", "macro"):
        expected = n_trees
        for size in sizes_tried(n_trees):
            seen, of = differing[:, size - 1], rows
            if average == "micro":
                seen, of = seen.sum(keepdims=True), of.sum(keepdims=True)
            # Clopper and Pearson: so few differ with a chance of at most 1 − confidence where 1 − α of all do. A class
            # without rows certifies nothing.
            chance = [binom.cdf(k, n, 1.0 - alpha) if n else 1.0 for k, n in zip(seen, of, strict=True)]
            if max(chance) > 1.0 - confidence:
                break
            expected = int(size)
        assert FirstTrees(rows, differing).fewest(Promise(alpha, confidence, average)) == expected


def test_a_bad_size_seldom_passes_and_a_good_one_mostly() -> None:
    """Of forests whose sizes below 40 are bad, as the law of disagreement has it."""
    rng = np.random.default_rng(0)
    n_trees, n_rows, first_good = 200, 2000, 40
    sizes = np.arange(1, n_trees + 1)
    apart = np.sqrt(1.0 / sizes - 1.0 / n_trees)
    share = 0.05 * apart / apart[first_good - 1]
    # Rows differ up to a size of their own, as most do.
    differs_below = np.searchsorted(-share, -rng.uniform(size=(1000, n_rows)))
    kept = []
    for below in differs_below:
        differing = n_rows - np.cumsum(np.bincount(below, minlength=n_trees + 1))[:n_trees]
        kept.append(FirstTrees(np.array([n_rows]), differing[None]).fewest(Promise(0.95, 0.95, "micro")))
    assert np.mean(np.array(kept) < first_good) < 0.07
    assert np.median(kept) < 1.5 * first_good


@pytest.mark.parametrize("confidence", [0.025, 0.5, 0.9])
@pytest.mark.parametrize("rows", [1, 50, 3000])
def test_most_disagreements_at_any_confidence(rows: int, confidence: float) -> None:
    for alpha in (0.5, 0.9, 0.99):
        passing = [k for k in range(rows) if binom.cdf(k, rows, 1.0 - alpha) <= 1.0 - confidence]
        assert most_disagreements(rows, alpha, confidence) == max(passing, default=-1)


def test_blocks_add_up() -> None:
    votes = np.random.default_rng(0).integers(0, 3, (50, 20))
    total = FirstTrees.nothing(3, 20)
    for block in (votes[:7], votes[7:]):
        total += _by_votes(block, np.arange(len(block)), n_classes=3)
    whole = _by_votes(votes, np.arange(50), n_classes=3)
    assert_counted(total, whole.rows.tolist(), whole.differing.tolist())


def test_all_trees_and_more_answer_as_all_trees_do() -> None:
    first = FirstTrees(np.array([10]), np.array([[3, 1, 0]]))
    assert [first.at(n).tolist() for n in (1, 2, 3, 4)] == [[3], [1], [0], [0]]
    assert first.certificate(2, WANTED).disagreements == 1
    assert first.times(4.0).differing.tolist() == [[12, 4, 0]]
