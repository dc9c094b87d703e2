"""How far predictions are from the infinite forest's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reference.blocks
import reference.deviation
from helpers.scores import some_scores
from rfsize.counting.blocks import N_BLOCKS, TreeBlocks
from rfsize.counting.scores import Scores
from rfsize.estimation.deviation import Deviations, noise_of_trees
from rfsize.estimation.intervals import REPLICATES
from rfsize.models.link import LINKS, Link


def scores_with(mean: Any, covariance: Any, asked: int = 100) -> Scores:
    """Scores of one row with given moments."""
    mean, covariance = np.atleast_2d(mean), np.atleast_2d(covariance)
    one, other = np.triu_indices(mean.shape[1])
    return Scores(np.array([asked], dtype=np.int32), mean, covariance[one, other][None] * (asked - 1.0))


@pytest.mark.parametrize("kind", LINKS)
def test_links(kind: str) -> None:
    score = np.random.default_rng(0).normal(size=(7, 3))
    expected = [reference.deviation.predicted(kind, 1.5 * row) for row in score]
    link = Link(kind, 1.5)
    assert np.allclose(link.predicted(score), expected)
    for index, own in enumerate(np.eye(3)):
        slope = (link.predicted(score + 1e-6 * own) - link.predicted(score - 1e-6 * own)) / 2e-6
        assert np.allclose(link.steepness(score)[:, index], slope[:, index], atol=1e-6)


@pytest.mark.parametrize("kind", ["logistic", "identity"])
def test_probabilities_of_two_classes(kind: str) -> None:
    score = np.array([[0.2], [0.7]])
    of_1 = np.array([reference.deviation.predicted(kind, row)[0] for row in score])
    assert np.allclose(Link(kind).probabilities(score), np.stack([1.0 - of_1, of_1], axis=1))
    far = Link("logistic").probabilities(np.array([[60.0]]))
    assert 0.0 < far[0, 0] < 1e-25


@pytest.mark.parametrize(
    ("kind", "mean", "covariance"),
    [
        ("identity", [3.0], [[4.0]]),
        ("logistic", [2.0], [[9.0]]),
        ("exp", [1.0], [[1.0]]),
        ("square", [0.1], [[1.0]]),
        ("softmax", [1.0, 0.5, -1.0], [[4.0, 1.0, -2.0], [1.0, 2.0, 0.0], [-2.0, 0.0, 5.0]]),
        ("one-vs-all", [1.0, -0.5], [[4.0, 3.0], [3.0, 4.0]]),
    ],
)
@pytest.mark.parametrize("n_trees", [2, 50])
def test_deviation_through_the_link(kind: str, mean: Any, covariance: Any, n_trees: int) -> None:
    """Also where a linearised link would be far off: the standard deviation of the logistic one's score is 2.1."""
    found = Deviations(scores_with(mean, covariance), Link(kind)).at(n_trees)
    expected = reference.deviation.deviations(kind, mean, covariance, n_trees, 20_000)
    assert found.rms == pytest.approx(np.sqrt(np.mean(expected**2)), rel=0.04)
    assert found.p95 == pytest.approx(np.quantile(expected, 0.95), rel=0.03)


def test_rms_of_plain_means_is_exact() -> None:
    scores = some_scores()
    found = Deviations(scores, Link("identity")).sizes(0.1)
    assert found[0] == pytest.approx(scores.covariance(0, 0).mean() / 0.01, rel=0.01)


@pytest.mark.parametrize(("kind", "n_scores"), [("logistic", 1), ("identity", 1), ("softmax", 3)])
@pytest.mark.parametrize("tolerance", [0.01, 0.3])
def test_sizes_are_the_smallest(kind: str, n_scores: int, tolerance: float) -> None:
    deviations = Deviations(some_scores(n_scores=n_scores), Link(kind))
    sizes = deviations.sizes(tolerance)
    for name, size in zip(("rms", "p95"), sizes, strict=True):
        assert getattr(deviations.at(size), name) <= tolerance
        assert size == 1 or getattr(deviations.at(size - 1), name) > tolerance


def test_trees_that_all_say_the_same_need_one() -> None:
    scores = Scores.of(np.ones((5, 20, 3)))
    assert Deviations(scores, Link("softmax")).sizes(1e-6) == (1, 1)
    assert Deviations(scores, Link("softmax")).replicates(1e-6, 1).tolist() == [1.0] * REPLICATES


@pytest.mark.parametrize("n_trees", [2, 20, 47])
@pytest.mark.parametrize(
    ("kind", "n_scores"),
    [("identity", 1), ("logistic", 1), ("exp", 1), ("square", 1), ("softmax", 3), ("one-vs-all", 3)],
)
def test_noise_of_trees(kind: str, n_scores: int, n_trees: int) -> None:
    """Some trees are wild on all rows, and each row may ask about two trees in three."""
    rng = np.random.default_rng(n_trees)
    wild = 1.0 + rng.exponential(size=(1, n_trees, 1))
    score = rng.normal(size=(60, 1, n_scores)) + wild * rng.normal(size=(60, n_trees, n_scores))
    may_vote = rng.random((60, n_trees)) < 2 / 3
    may_vote[0] = False
    blocks = blocks_of(score, may_vote)
    expected = reference.deviation.noise_of_trees(kind, score, may_vote, N_BLOCKS)
    assert noise_of_trees(blocks, Link(kind)) == pytest.approx(expected, rel=1e-6)


def test_noise_of_trees_that_cannot_be_told() -> None:
    one = blocks_of(np.ones((5, 1, 1)), np.ones((5, 1), dtype=bool))
    alike = blocks_of(np.ones((5, 40, 1)), np.ones((5, 40), dtype=bool))
    for blocks in (one, alike, TreeBlocks.nothing(np.arange(5), 2, 1)):
        assert noise_of_trees(blocks, Link("identity")) == 0.0


def test_noise_of_trees_is_what_sums_over_trees_scatter_by() -> None:
    """Of trees that say the same of all rows, it is the relative error of one sample variance."""
    rng = np.random.default_rng(3)
    found, variance = [], []
    for _ in range(200):
        score = np.broadcast_to(rng.normal(size=(1, 100, 1)), (10, 100, 1))
        found.append(noise_of_trees(blocks_of(score, np.ones((10, 100), dtype=bool)), Link("identity")))
        variance.append(np.var(score[0], ddof=1))
    assert np.mean(found) == pytest.approx(np.std(np.log(variance)), rel=0.15)


def blocks_of(score: np.ndarray, may_vote: np.ndarray) -> TreeBlocks:
    """Of scores of shape (n_rows, n_trees, n_scores)."""
    label = np.zeros(may_vote.T.shape, dtype=int)
    parts = reference.blocks.of_shared_bags(label, score.transpose(1, 0, 2), ~may_vote.T, 1)
    counts = parts["votes"].sum(axis=1, dtype=np.int32)
    return TreeBlocks(np.arange(len(score)), counts, Scores.of(score, may_vote), n_trees=score.shape[1], **parts)
