"""Sizes of forests that average scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from scipy import stats
from scipy.special import ndtr
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from xgboost import XGBClassifier

import reference.leads
import rfsize
from helpers.curves import interval_of
from helpers.forests import Data
from helpers.reports import agreement
from rfsize.counting.blocks import N_BLOCKS, TreeBlocks, dealt, first_asked
from rfsize.counting.scores import Scores
from rfsize.estimation import soft
from rfsize.models.framework import read_forest

ALPHAS = (0.9, 0.95, 0.99)


def in_blocks(score: np.ndarray) -> TreeBlocks:
    """Blocks of the trees, by their scores of shape (n_rows, n_trees, n_scores)."""
    n_rows, n_trees, n_scores = score.shape
    counts = np.zeros((n_rows, n_scores), dtype=np.int32)
    parts = {"votes": np.zeros((n_rows, N_BLOCKS, n_scores), dtype=np.int32), "total": dealt(score)}
    all_asked = np.ones((n_rows, n_trees, 1), dtype=np.bool_)
    parts |= {"squares": dealt(score**2), "asked": dealt(all_asked.astype(np.int32))}
    parts |= {"first": first_asked(score, all_asked)}
    return TreeBlocks(np.arange(n_rows), counts, Scores.of(score), n_trees=n_trees, **parts)


def test_halves_are_of_every_other_tree() -> None:
    score = scored(30, 2 * N_BLOCKS + 3, 3, 0)
    blocks = in_blocks(score)
    for first, half in enumerate(blocks.halves()):
        expected = Scores.of(score[:, [tree for tree in range(score.shape[1]) if tree % N_BLOCKS % 2 == first]])
        assert np.array_equal(half.asked, expected.asked)
        assert half.mean == pytest.approx(expected.mean)
        assert half.covariance(0, 2) == pytest.approx(blocks.scores.covariance(0, 2))


@pytest.mark.parametrize("n_classes", [4, 8, 12])
def test_halves_of_the_trees_tell_the_bias_of_many_classes(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    means = rng.normal(size=(3000, 1, n_classes))
    score = means + 2.0 * rng.normal(size=(3000, 20, n_classes))
    behind = np.sort(means[:, 0].max(axis=1, keepdims=True) - means[:, 0], axis=1)[:, 1:]
    truth = math.log(soft.SoftLeads(behind / math.sqrt(8.0), np.ones(3000)).size(0.95))
    biased, found = (soft.smooth(Scores.of(score), 0.0, blocks) for blocks in (None, in_blocks(score)))
    bias = math.log(biased.size(0.95)) - truth
    assert bias > {4: 0.1, 8: 0.7, 12: 1.0}[n_classes]
    assert -0.25 < math.log(found.size(0.95)) - truth < 0.5 * bias
    low, high = interval_of(found.replicates(1), 0.95)
    assert low < math.exp(truth) < high


def test_halves_say_nothing_of_two_classes() -> None:
    score = scored(300, 20, 1, 0)
    assert soft.smooth(Scores.of(score), 0.0, in_blocks(score)).size(0.95) == soft.smooth(Scores.of(score), 0.0).size(
        0.95
    )


def scored(n_rows: int, n_trees: int, n_scores: int, seed: int) -> np.ndarray:
    """Scores of each tree, (n_rows, n_trees, n_scores); the classes' scores lie about means of the row."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_rows, 1, n_scores))
    return means + rng.uniform(0.2, 2.0, (n_rows, 1, n_scores)) * rng.normal(size=(n_rows, n_trees, n_scores))


@pytest.mark.parametrize("n_scores", [1, 2, 3, 26])
def test_plug_in_estimate(n_scores: int) -> None:
    score, cut = scored(40, 12, n_scores, n_scores), 0.3 if n_scores == 1 else 0.0
    rows = [reference.leads.leads(row.tolist(), cut) for row in score]
    found = soft.Leads.of(Scores.of(score), cut)
    assert found.lead == pytest.approx(np.array(rows))
    estimate = soft.plug_in(Scores.of(score), cut)
    for n_trees in (1, 3, 10, 1001):
        assert estimate.disagreement(n_trees) == pytest.approx(reference.leads.disagreement(rows, n_trees), rel=1e-6)
    for alpha in ALPHAS[:2]:
        assert estimate.size(alpha) == reference.leads.size(rows, alpha)


def test_rows_of_one_tree_or_none_are_left_out() -> None:
    score = scored(20, 5, 1, 0)
    may_vote = np.ones((20, 5), dtype=bool)
    may_vote[3], may_vote[7, 1:], may_vote[9, 2:] = False, False, False
    leads = soft.Leads.of(Scores.of(score, may_vote), 0.0)
    assert leads.asked.tolist() == [2 if row == 9 else 5 for row in range(20) if row not in (3, 7)]
    with pytest.raises(ValueError, match="no row has the scores of two trees"):
        soft.plug_in(Scores.of(score[:, :1]), 0.0)


@pytest.mark.parametrize("estimator", ["plugin", "smooth", "auto"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_scores_that_are_no_numbers_are_refused(estimator: str, bad: float) -> None:
    score = scored(20, 5, 1, 0)
    score[4, 2] = bad
    with np.errstate(invalid="ignore"):
        scores = Scores.of(score)
    with pytest.raises(ValueError, match="must be finite"):
        soft.ESTIMATORS[estimator](scores, 0.0)


@pytest.mark.parametrize("cut", [0.0, 0.1, -1.7])
def test_trees_that_all_say_the_same_are_certain(cut: float) -> None:
    """Even what they say is a tie: all forests then break it alike."""
    rows = np.stack([np.full(7, value) for value in (cut, cut + 0.3, cut - 1e-9)])[:, :, None]
    leads = soft.Leads.of(Scores.of(rows), cut)
    assert np.isinf(leads.lead).all()
    parts = Scores.of(rows[:, :3]).plus(Scores.of(rows[:, 3:]))
    assert np.isinf(soft.Leads.of(parts, cut).lead).all()
    assert soft.plug_in(Scores.of(rows), cut).size(0.999) == 1


def test_classes_of_equal_scores_on_every_tree_are_certain() -> None:
    score = scored(50, 9, 4, 1)
    score[:, :, 2] = score[:, :, 0] = score.max(axis=2) + np.linspace(0.5, 1.0, 9)
    leads = soft.Leads.of(Scores.of(score), 0.0)
    assert np.isinf(leads.lead[:, 1]).all()  # class 0 wins, class 2 is its second rival
    assert np.isfinite(leads.lead[:, [0, 2]]).all()


def test_level_scores_never_settle() -> None:
    tied = np.array([[1.0, -1.0]] * 30 + [[1.0, 2.0]] * 70)[:, :, None]
    estimate = soft.plug_in(Scores.of(tied), 0.0)
    assert estimate.disagreement(10**9 + 1) == pytest.approx(0.15)
    assert estimate.size(0.8) < math.inf
    assert estimate.size(0.99) == math.inf
    assert estimate.why_infinite(0.99).startswith("on 30 % of the rows the averaged scores are exactly level")
    assert "would be needed" in estimate.why_infinite(0.8)
    assert soft.smooth(Scores.of(tied), 0.0).size(0.99) < math.inf


@given(st.lists(st.floats(0.0, 1e6) | st.floats(0.0, 1.0), min_size=1, max_size=50))
def test_leads_that_are_alike_are_put_together(lead: list[float]) -> None:
    rows = np.array(lead)[:, None]
    estimate = soft.SoftLeads.of(soft.Leads(rows, np.full(len(lead), 9)))
    for n_trees in (1, 101, 10**6 + 1):
        expected = reference.leads.disagreement(rows.tolist(), n_trees)
        assert estimate.disagreement(n_trees) == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_a_million_rows_are_a_few_thousand_leads() -> None:
    lead = np.abs(np.random.default_rng(0).standard_cauchy(1_000_000))
    estimate = soft.SoftLeads.of(soft.Leads(lead[:, None], np.full(len(lead), 37)))
    assert len(estimate._rows) < 20_000
    assert estimate._rows.sum() == 1_000_000
    assert estimate.disagreement(101) == pytest.approx(float(stats.norm.sf(math.sqrt(101) * lead).mean()), rel=1e-6)
    low, high = interval_of(estimate.replicates(estimate.size(0.99)), 0.99)
    assert low <= estimate.size(0.99) <= high < 1.05 * low


@pytest.mark.parametrize("n_classes", [3, 6])
def test_the_product_over_the_rivals_is_near_the_truth(n_classes: int) -> None:
    """Against forests of scores drawn anew, which sum to one; few rows are near a tie, as at a confidence of 0.97."""
    rng = np.random.default_rng(n_classes)
    n_rows, n_trees, draws = 400, 25, 4000
    spread = rng.normal(size=(n_rows, n_classes, n_classes)) / math.sqrt(n_classes)
    spread -= spread.mean(axis=1, keepdims=True)
    means = 3.0 * rng.normal(size=(n_rows, n_classes))
    leader = means.argmax(axis=1)
    differs = np.zeros(n_rows)
    for _ in range(draws):
        noise = np.einsum("rij,rj->ri", spread, rng.normal(size=(n_rows, n_classes))) / math.sqrt(n_trees)
        differs += (means + noise).argmax(axis=1) != leader
    one, other = np.triu_indices(n_classes)
    scatter = (spread @ spread.transpose(0, 2, 1))[:, one, other]
    estimate = soft.plug_in(Scores(np.full(n_rows, 10**6), means, scatter * (10**6 - 1)), 0.0)
    found, true = estimate.disagreement(n_trees), differs.mean() / draws
    assert 0.02 < true < 0.06
    assert true - 3.0 * math.sqrt(true / draws / n_rows) < found < 1.05 * true


LEADS = np.array([0.0, 0.1, 0.9, 1.1, 3.5, 50.0, math.inf])


@pytest.mark.parametrize("asked", [2, 7, 40, 1000])
def test_likelihood_of_a_lead(asked: int) -> None:
    cells = soft.LeadCells.of(LEADS, np.full(len(LEADS), asked))
    pi = np.linspace(0.01, 0.5, 20)
    found = cells.log_likelihood(pi)
    near = int(np.sum(~cells.far))
    assert cells.rows.tolist() == [1] * near + [len(LEADS) - near] * (near < len(LEADS))
    for row, lead in zip(found, LEADS, strict=False):
        expected = [reference.leads.log_likelihood(lead, asked, fraction) for fraction in pi.tolist()]
        np.testing.assert_allclose(row - row.max(), np.array(expected) - max(expected), rtol=1e-6, atol=1e-9)


def test_alike_leads_share_a_cell() -> None:
    rng = np.random.default_rng(5)
    lead, asked = np.abs(rng.standard_cauchy(200_000)), rng.integers(2, 1000, 200_000)
    cells = soft.LeadCells.of(lead, asked)
    assert len(cells.rows) < 5000
    assert cells.rows.sum() == 200_000
    assert cells.rows @ cells.asked == pytest.approx(asked.sum())
    assert cells.rows[cells.far].sum() == np.sum(lead / np.sqrt(1.0 - 1.0 / asked) >= np.maximum(1, 3 / np.sqrt(asked)))
    assert cells.angle.max() < math.pi / 2.0


def test_scores_of_zero_and_one_are_votes() -> None:
    """Trees that are sure of what they say: their averaged scores are the majority of their votes."""
    rng = np.random.default_rng(3)
    asked = rng.integers(20, 60, 2000)
    count = rng.binomial(asked, rng.beta(0.5, 0.5, 2000))
    trees = np.arange(60)
    score = (trees < count[:, None])[:, :, None].astype(float)
    scores = Scores.of(score, trees < asked[:, None])
    hard = rfsize.size(rfsize.Votes(np.stack([asked - count, count], axis=1), n_trees=60), method="smooth")
    found = soft.smooth(scores, 0.5)
    for alpha in ALPHAS[1:]:
        assert found.size(alpha) == pytest.approx(hard.size_at(alpha), rel=0.15)


def test_a_pile_of_rows_at_a_tie_is_told() -> None:
    """Half of the trees know one of two things, and half the other."""
    rng = np.random.default_rng(4)
    side = rng.normal(size=(1000, 2))
    side[:300] = rng.choice([-1.0, 1.0], (300, 1)) * [1.0, -1.0]
    score = side[:, rng.integers(0, 2, 400)] + 0.1 * rng.normal(size=(1000, 400))
    scores = Scores.of(score[:, :, None])
    smooth, chosen = soft.smooth(scores, 0.0), soft.ESTIMATORS["auto"](scores, 0.0)
    assert "more rows at a tie" in str(smooth.caveat)
    assert (chosen.name, chosen.caveat) == ("plugin", smooth.caveat)
    assert soft.ESTIMATORS["auto"](drawn(300, 100, 0), 0.0).name == "smooth"


@pytest.mark.parametrize("n_scores", [1, 3])
def test_certain_rows_need_the_fewer_trees_the_more_they_are(n_scores: int) -> None:
    score = np.zeros((100_000, 30, n_scores))
    score[:, :, -1] = 1.0
    scores = Scores.of(score)
    sizes = [soft.smooth(scores.take(np.arange(n)), 0.5).size(0.95) for n in (1, 10, 100, 1000, 100_000)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 10
    assert sizes[-1] == 1


def drawn(n_rows: int, n_trees: int, seed: int) -> Scores:
    """Scores of ±1 and a little more, of rows whose leads are as votes with fractions from a beta distribution."""
    rng = np.random.default_rng(seed)
    pi = rng.beta(0.5, 0.5, size=(n_rows, 1))
    score = np.where(rng.random((n_rows, n_trees)) < pi, 1.0, -1.0) + 0.3 * rng.normal(size=(n_rows, n_trees))
    return Scores.of(score[:, :, None], rng.random((n_rows, n_trees)) < 0.37)


@pytest.fixture(scope="module")
def truth() -> int | float:
    pi = stats.beta(0.5, 0.5).ppf((np.arange(20_000) + 0.5) / 20_000)
    lead = np.abs(2.0 * pi - 1.0) / np.sqrt(4.0 * pi * (1.0 - pi) + 0.09)
    return soft.SoftLeads.of(soft.Leads(lead[:, None], np.full(len(lead), 2))).size(0.99)


@pytest.mark.parametrize("n_trees", [50, 1000])
def test_recovers_the_size_from_many_rows(truth: int, n_trees: int) -> None:
    assert soft.smooth(drawn(6000, n_trees, 0), 0.0).size(0.99) == pytest.approx(truth, rel=0.2)


def test_nearer_than_the_plug_in_and_covered_by_the_interval(truth: int) -> None:
    errors: dict[str, list[float]] = {"smooth": [], "plugin": []}
    covered = 0
    for seed in range(40):
        scores = drawn(300, 100, seed)
        for name, found in errors.items():
            estimate = soft.ESTIMATORS[name](scores, 0.0)
            found.append(math.log(estimate.size(0.99) / truth))
        low, high = interval_of(soft.smooth(scores, 0.0).replicates(1), 0.99)
        covered += low <= truth <= high
    rms = {name: math.sqrt(np.mean(np.square(found))) for name, found in errors.items()}
    assert rms["smooth"] < min(rms["plugin"], 0.45)
    assert covered >= 36


def test_many_classes_of_which_two_count_are_two_classes() -> None:
    """Scores of classes that are far behind change nothing."""
    rng = np.random.default_rng(8)
    score = np.zeros((500, 40, 4))
    score[:, :, 2] = rng.normal(size=(500, 1)) + rng.normal(size=(500, 40))
    score[:, :, 1] = -50.0 + rng.normal(size=(500, 40))
    score[:, :, 3] = -60.0 + rng.normal(size=(500, 40))
    for estimator in ("plugin", "smooth"):
        many = soft.ESTIMATORS[estimator](Scores.of(score), 0.0)
        two = soft.ESTIMATORS[estimator](Scores.of(score[:, :, 2:3]), 0.0)
        assert many.size(0.99) == pytest.approx(two.size(0.99), rel=1e-6)
        assert interval_of(many.replicates(101), 0.99) == pytest.approx(interval_of(two.replicates(101), 0.99), rel=0.2)


def test_further_rivals_add_to_the_smooth_estimate() -> None:
    rng = np.random.default_rng(9)
    score = 0.3 * rng.normal(size=(2000, 1, 5)) + rng.normal(size=(2000, 150, 5))
    leads = soft.Leads.of(Scores.of(score), 0.0)
    every, smooth = soft.SoftLeads.of(leads), soft.smooth(Scores.of(score), 0.0)
    for n_trees in (11, 101, 1001):
        share = every.disagreement(n_trees) / every.nearest().disagreement(n_trees)
        alone = ndtr(-math.sqrt(n_trees) * smooth._lead[:, 0]) @ smooth._density.mass
        assert smooth.disagreement(n_trees) == pytest.approx(share * alone, rel=1e-2)
        assert share > 1.02


def test_predictions_of_forests_of_that_size(data: Data) -> None:
    """What it is for: `predict` of small forests against that of a large one."""
    forest = RandomForestClassifier(501, min_samples_leaf=5, random_state=0).fit(data.X, data.y)
    scores: Any = np.stack([tree.predict_proba(data.fresh)[:, 1] for tree in forest.estimators_], axis=1)
    trees = soft.smooth(Scores.of(scores[:, :, None]), 0.5).size(0.95)
    rng = np.random.default_rng(0)
    differs = [
        np.mean((scores[:, rng.integers(0, 501, trees)].mean(axis=1) > 0.5) != (scores.mean(axis=1) > 0.5))
        for _ in range(400)
    ]
    assert np.mean(differs) == pytest.approx(0.05, abs=0.01)


def of_a_rare_class(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Class 1 is 2 % of the rows; class 2, beside, a fifth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 7))
    signal = 1.2 * X[:, 0] + X[:, 1] * X[:, 2] + 0.8 * np.abs(X[:, 3]) + 0.7 * rng.logistic(size=n_rows)
    return X, (signal > 5.0).astype(int)


FEW = {
    "extra-trees": ExtraTreesClassifier(150, bootstrap=True, random_state=0),
    "random forest": RandomForestClassifier(150, min_samples_leaf=2, random_state=0),
    "LightGBM": LGBMClassifier(
        boosting_type="rf", n_estimators=150, subsample=0.6, subsample_freq=1, min_child_samples=2, verbose=-1, n_jobs=1
    ),
    "XGBoost": XGBClassifier(
        n_estimators=1, num_parallel_tree=150, learning_rate=1, subsample=0.6, colsample_bynode=0.4, n_jobs=1
    ),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", FEW)
def test_what_a_few_trees_change_is_measured(kind: str, n_classes: int) -> None:
    """A single tree that is grown out votes 0 or 1, which no normal law describes; T is small and a class is rare."""
    (X, y), (fresh, _) = of_a_rare_class(1000, 9), of_a_rare_class(1500, 10)
    if n_classes == 3:
        y = np.where(X[:, 5] > 0.8, 2, y)
    model = FEW[kind].fit(X, y)
    counted = rfsize.tree_outputs(model, fresh)
    score = counted_scores(model, fresh)
    label = labels_of(score.mean(axis=1))
    report = rfsize.size(counted, alpha=0.9, voting="soft")
    for n_trees in (1, 3, 7):
        forests = [score[:, start : start + n_trees].mean(axis=1) for start in range(0, 151 - n_trees, n_trees)]
        changed = np.mean([labels_of(one) != label for one in forests])
        assert report.loss_at(n_trees).value == pytest.approx(changed, rel=0.25, abs=0.002)


def counted_scores(model: Any, X: np.ndarray) -> np.ndarray:
    """Scores of single trees, shape (n_rows, n_trees, n_scores), relative to a tie of two classes."""
    adapter = read_forest(model, casts_votes=False)
    score = np.asarray(adapter.leaves.raw_scores(adapter.leaf_index(adapter.check(X)) + adapter.leaves.offset), float)
    return score - 0.5 if score.shape[2] == 1 and score.min() >= 0.0 else score


def labels_of(mean: np.ndarray) -> np.ndarray:
    return (mean[:, 0] > 0.0).astype(int) if mean.shape[1] == 1 else mean.argmax(axis=1)


@pytest.mark.parametrize("estimator", ["plugin", "smooth"])
def test_report(booster: Any, data: Data, estimator: str) -> None:
    report = rfsize.size(booster, data.X, oob=True, voting="soft", method=estimator)
    low, high = report.interval
    assert low <= report.n_trees <= high
    assert report._answer.goal.voting == "soft"
    assert report._answer.estimate.name == estimator
    sizes = [report.size_at(alpha) for alpha in ALPHAS]
    assert sizes == sorted(sizes)
    assert agreement(report, int(sizes[1])) >= 0.95 > agreement(report, max(1, int(sizes[1]) - 2)) or sizes[1] == 1
