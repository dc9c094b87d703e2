"""The report: interval, text, picture."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import rfsize
from rfsize import theory


def votes_from(rng: np.random.Generator, n_rows: int, asked: int = 2001) -> rfsize.Votes:
    """Votes of rows whose fractions come from a Beta(0.5, 0.5), so that T*(0.95) is near 27."""
    for_class_1 = rng.binomial(asked, rng.beta(0.5, 0.5, size=n_rows))
    return rfsize.Votes(np.stack([asked - for_class_1, for_class_1], axis=1))


def test_interval_is_the_bootstrap_over_rows() -> None:
    rng = np.random.default_rng(0)
    votes = votes_from(rng, 400)
    report = rfsize.size(votes, alpha=0.95)
    fractions = votes.fractions()[:, 1]
    replicates = [theory.ensemble_size(0.95, rng.choice(fractions, 400)) for _ in range(400)]
    low, high = np.quantile(replicates, [0.025, 0.975])
    assert report.interval[0] == pytest.approx(low, rel=0.2, abs=2)
    assert report.interval[1] == pytest.approx(high, rel=0.2, abs=2)
    assert report.interval == rfsize.size(votes, alpha=0.95).interval
    assert all(bound % 2 == 1 for bound in report.interval)


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    truth = theory.ensemble_size(0.95, (np.sin(np.linspace(0, np.pi / 2, 20_001)[:-1] + 1e-5)) ** 2)
    covered = 0
    for _ in range(100):
        low, high = rfsize.size(votes_from(rng, 500), alpha=0.95).interval
        covered += low <= truth <= high
    assert 87 <= covered <= 100


def test_interval_may_be_infinite() -> None:
    counts = np.array([[5, 5]] * 3 + [[0, 10]] * 97)
    low, high = rfsize.size(rfsize.Votes(counts), alpha=0.98).interval
    assert low <= high == math.inf


def test_unanimous_votes_need_one_tree() -> None:
    report = rfsize.size(rfsize.Votes([[0, 10], [10, 0]]))
    assert (report.n_trees, report.interval) == (1, (1, 1))
    assert report.converged
    assert report.agreement(1) == 1.0


def test_too_few_votes_to_tell() -> None:
    report = rfsize.size(rfsize.Votes([[0, 9], [9, 0]]))
    assert not report.converged
    assert report.n_kept == 9
    assert "too few to tell" in str(report)


def test_text() -> None:
    report = rfsize.size(votes_from(np.random.default_rng(2), 500), alpha=0.95)
    text = str(report)
    assert text == repr(report)
    assert f"T*(0.95) = {report.n_trees}" in text
    assert "500 rows (rows given), 2,001 votes each" in text
    assert "enough" in text
    assert report.headline() in text


def test_dictionary_is_json() -> None:
    report = rfsize.size(votes_from(np.random.default_rng(3), 500), alpha=0.95)
    values = json.loads(json.dumps(report.to_dict()))
    assert values["n_trees"] == report.n_trees
    assert values["interval"] == list(report.interval)
    assert values["converged"] is True


@pytest.mark.parametrize("alpha", [0.95, 0.9999])
def test_plot(alpha: float, tmp_path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    report = rfsize.size(votes_from(np.random.default_rng(4), 500, asked=101), alpha=alpha)
    axes = report.plot()
    axes.figure.savefig(tmp_path / "report.png")
    assert (tmp_path / "report.png").stat().st_size > 5000
    assert ("large enough" in axes.get_title()) == report.converged
    _, mine = plt.subplots()
    assert report.plot(ax=mine) is mine
    plt.close("all")
