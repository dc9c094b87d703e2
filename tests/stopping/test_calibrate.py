"""Tables calibrated on rows, and certified: what the rules do, what the bound is, and what it holds for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

import rfsize
from helpers.forests import train_lightgbm, train_xgboost
from helpers.stop_tables import some_votes
from rfsize.certifying.certificate import (
    Certificate,
    ClassCounts,
    bounds,
    fewest_rows,
    finest_alpha,
    most_disagreements,
)
from rfsize.certifying.promise import Promise
from rfsize.certifying.trees_on_rows import TreesOnRows
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.stopping.rules.averages import AverageStops, limits_tried, needed_leads, running_leads
from rfsize.stopping.rules.scores import Tallies

ALPHA, CONFIDENCE = 0.97, 0.95


def problem(n_classes: int = 2, rows: int = 6000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6))
    score = X @ np.random.default_rng(n_classes).normal(size=(6, n_classes)) + 0.5 * rng.normal(size=(rows, n_classes))
    return X, score.argmax(axis=1)


X2, Y2 = problem(2)
X4, Y4 = problem(4)
TRAIN, REST, FRESH = slice(0, 1500), slice(1500, 3500), slice(3500, None)
SEVERAL = {"objective": "multiclass", "num_class": 4}
MODELS: dict[str, tuple[Any, np.ndarray]] = {
    "lightgbm": (lambda: train_lightgbm(X2[TRAIN], Y2[TRAIN]), X2),
    "lightgbm, four classes": (lambda: train_lightgbm(X4[TRAIN], Y4[TRAIN], **SEVERAL), X4),
    "xgboost": (lambda: train_xgboost(X2[TRAIN], Y2[TRAIN]), X2),
    "xgboost, four classes": (
        lambda: train_xgboost(X4[TRAIN], Y4[TRAIN], objective="multi:softprob", num_class=4),
        X4,
    ),
    "random forest": (lambda: RandomForestClassifier(61, max_depth=6, random_state=0).fit(X4[TRAIN], Y4[TRAIN]), X4),
    "extra-trees": (lambda: ExtraTreesClassifier(61, max_depth=6, random_state=0).fit(X2[TRAIN], Y2[TRAIN]), X2),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> tuple[Any, np.ndarray]:
    make, X = MODELS[request.param]
    return make(), X


def scores_of(model: Any, X: np.ndarray) -> np.ndarray:
    return np.concatenate(TreesOnRows(ForestOnRows.of(model, X)).added_up("scores", lambda said, _: [said], list))


def test_labels_of_all_trees_are_those_of_predict(model: tuple[Any, np.ndarray]) -> None:
    forest, X = model
    scores = scores_of(forest, X[FRESH])
    cut = TreesOnRows.of(forest, X[FRESH], casts_votes=True).cut
    label = running_leads(scores, cut)[1][:, -1]
    given = xgb.DMatrix(X[FRESH]) if isinstance(forest, xgb.Booster) else X[FRESH]
    predicted = forest.predict_proba(given) if hasattr(forest, "predict_proba") else forest.predict(given)
    if predicted.ndim == 2:
        assert np.array_equal(label, predicted.argmax(axis=1))
    else:
        assert np.array_equal(label, predicted > 0.5)


def test_a_calibrated_table_does_what_its_certificate_says(model: tuple[Any, np.ndarray]) -> None:
    forest, X = model
    table = rfsize.StopTable.calibrate(forest, X[REST], alpha=ALPHA)
    scores = scores_of(forest, X[REST])
    labels, asked = table.apply(scores)
    assert isinstance(table.stops, AverageStops)
    final = running_leads(scores, table.stops.cut)[1][:, -1]
    certificate = table.certificate
    assert certificate is not None
    assert certificate.counts == ClassCounts.of(final, labels != final, asked, table.n_classes)
    assert certificate.rows == 2000
    assert certificate.bound <= 1 - ALPHA
    assert table.expected_trees() == asked.mean() < 40
    assert (table.voting, table.promise, table.kind) == ("soft", "certified", "averages")
    fresh = scores_of(forest, X[FRESH])
    label, final = table.apply(fresh)[0], running_leads(fresh, table.stops.cut)[1][:, -1]
    assert (label != final).mean() < 1.5 * (1 - ALPHA)


def test_rules_go_from_asking_all_trees_to_asking_one_in_steps_of_a_percent(model: tuple[Any, np.ndarray]) -> None:
    forest, X = model
    trees, plain = TreesOnRows.of(forest, X[REST], casts_votes=True), needed_leads(1.0, 61)[1:]
    limits, lead = limits_tried(trees, plain), running_leads(scores_of(forest, X[REST]), trees.cut)[0]
    assert (lead[:, :-1] < limits[0] * plain[:-1]).all()
    assert (lead[:, 0] >= limits[-1] * plain[0]).mean() > 0.99
    steps = limits[:-1] / limits[1:]
    assert steps.min() > 1.0
    assert steps.max() < 1.01


def test_blocks_of_rows_give_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = MODELS["random forest"][0]()
    for voting in ("soft", "hard"):
        whole = rfsize.StopTable.calibrate(forest, X4[REST], alpha=ALPHA, voting=voting)
        with monkeypatch.context() as patched:
            patched.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 61 * 8 * 37)
            assert rfsize.StopTable.calibrate(forest, X4[REST], alpha=ALPHA, voting=voting) == whole


def stopped(evidence: Any, number: int, limit: float, narrows: bool) -> int:
    """Trees that one row asks, by a plain loop."""
    for t in range(1, number):
        if evidence[t - 1] >= limit * (np.sqrt((number - t) / (t * number)) if narrows else 1.0):
            return t
    return number


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 9), st.booleans())
def test_rules_are_counted_as_plain_loops_count_them(seed: int, n_trees: int, narrows: bool) -> None:
    rng = np.random.default_rng(seed)
    evidence, limits = rng.gamma(1.0, 1.0, (12, n_trees)), np.sort(rng.gamma(1.0, 2.0, 15))[::-1].copy()
    group, differs = rng.integers(0, 3, 12), rng.random((12, n_trees)) < 0.4
    differs[:, -1] = False
    scale = needed_leads(1.0, n_trees)[1:] if narrows else np.ones(n_trees)
    found = Tallies.of(evidence, differs, group, limits, scale, 3)
    expected = np.zeros((2, 3, 15), dtype=np.int64)
    for rule, limit in enumerate(limits):
        for row in range(12):
            asked = stopped(evidence[row], n_trees, limit, narrows)
            expected[0, group[row], rule] += differs[row, asked - 1]
            expected[1, group[row], rule] += asked
    assert np.array_equal([found.differing, found.trees], expected)
    assert np.array_equal(found.rows, np.bincount(group, minlength=3))


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 3000), st.floats(0.5, 0.9999), st.floats(0.5, 0.999), st.integers(0, 60))
def test_bounds_are_exact(rows: int, alpha: float, confidence: float, differing: int) -> None:
    differing = min(differing, rows - 1)
    bound = float(bounds(np.array([differing]), np.array([rows]), confidence)[0])
    assert binom.cdf(differing, rows, bound) == pytest.approx(1.0 - confidence, rel=1e-6)
    most = most_disagreements(rows, alpha, confidence)
    passed = [k for k in range(rows) if k <= 1 + rows * (1 - alpha) and binom.cdf(k, rows, 1 - alpha) <= 1 - confidence]
    assert abs(most - (max(passed) if passed else -1)) <= (0 if not passed else 1)
    needed = fewest_rows(alpha, confidence)
    assert most_disagreements(needed, alpha, confidence) == 0
    assert needed == 1 or most_disagreements(needed - 1, alpha, confidence) == -1


def test_299_rows_certify_one_percent() -> None:
    assert fewest_rows(0.99, 0.95) == 299


def test_testing_stops_at_the_first_rule_that_fails() -> None:
    rows = np.array([450, 450])
    differing = np.array([[0, 1, 9, 1], [0, 1, 0, 0]])
    micro, macro = (Promise(0.99, 0.95, average) for average in ("micro", "macro"))
    assert micro.boldest(differing, rows) == 1
    assert macro.boldest(differing, rows) == 0
    assert micro.boldest(differing, np.array([100, 100])) == -1
    assert macro.boldest(differing[:, :2], np.array([1000, 0])) == -1  # no row certifies the second class


def test_too_few_rows_are_refused_with_how_many_it_takes() -> None:
    forest = MODELS["lightgbm"][0]()
    with pytest.raises(ValueError, match=r"200 rows cannot certify .* give at least 299 rows"):
        rfsize.StopTable.calibrate(forest, X2[1500:1700])
    said = forest.predict(X2[REST])
    rare = np.concatenate([X2[REST][said < 0.5][:500], X2[REST][said > 0.5][:20]])
    with pytest.raises(ValueError, match=r"average='macro'.* 7,774 rows"):
        rfsize.StopTable.calibrate(forest, rare, average="macro")
    advised = finest_alpha(len(rare), 0.95)
    with pytest.raises(ValueError, match=rf"these rows can certify average='micro' with alpha={advised}$"):
        rfsize.StopTable.calibrate(forest, rare, average="macro")
    assert rfsize.StopTable.calibrate(forest, rare, alpha=advised).certificate is not None


def test_a_class_without_rows_certifies_nothing(model: tuple[Any, np.ndarray]) -> None:
    forest, X = model
    labels = rfsize.compile(forest).predict_labels(X[REST])
    rows = X[REST][labels != labels[0]]
    calls = (
        lambda: rfsize.StopTable.calibrate(forest, rows, alpha=0.9, average="macro"),
        lambda: rfsize.size(forest, rows, alpha=0.9, average="macro", target="forest"),
        lambda: rfsize.truncate(forest, rows, alpha=0.9, average="macro", target="forest"),
        lambda: rfsize.shrink(forest, rows, alpha=0.9, average="macro"),
        lambda: rfsize.shrink(forest, rows, n_trees=5, average="macro"),
    )
    for call in calls:
        with pytest.raises(ValueError, match="average='macro'"):
            call()


@given(rows=st.integers(10, 10**7), confidence=st.sampled_from([0.5, 0.8, 0.95, 0.999]))
def test_the_finest_alpha_is_one_that_rows_certify(rows: int, confidence: float) -> None:
    alpha = finest_alpha(rows, confidence)
    assert 0.0 < alpha < 1.0
    assert fewest_rows(alpha, confidence) <= rows
    one_less = 10.0 ** np.floor(np.log10(1.0 - alpha) + 1e-9)
    finer = alpha + (one_less if 1.0 - alpha > 1.5 * one_less else one_less / 10.0)
    assert finer >= 1.0 or fewest_rows(finer, confidence) > 0.999 * rows


def test_macro_bounds_each_class() -> None:
    forest = MODELS["lightgbm, four classes"][0]()
    micro = rfsize.StopTable.calibrate(forest, X4[REST], alpha=0.95)
    macro = rfsize.StopTable.calibrate(forest, X4[REST], alpha=0.95, average="macro")
    assert micro.certificate is not None
    assert macro.certificate is not None
    assert macro.expected_trees() > micro.expected_trees()
    for outcome, rows in zip(macro.by_class(), macro.certificate.counts.rows, strict=True):
        assert bounds(np.array([round(outcome.disagreement * rows)]), np.array([rows]), CONFIDENCE)[0] <= 0.05
    assert macro.certificate.bound <= 0.05


def test_a_cut_of_one_probability_is_the_tables() -> None:
    forest = MODELS["xgboost"][0]()
    table = rfsize.StopTable.calibrate(forest, X2[REST], alpha=ALPHA, threshold=0.2)
    assert isinstance(table.stops, AverageStops)
    assert table.stops.cut == pytest.approx(math.log(0.2 / 0.8))
    assert table.certificate is not None
    assert table.certificate.counts.rows[1] == (forest.predict(xgb.DMatrix(X2[REST])) > 0.2).sum()


def test_tables_of_votes_are_certified() -> None:
    forest = MODELS["lightgbm"][0]()
    built = rfsize.StopTable.build(61, alpha=ALPHA, prior=rfsize.tree_outputs(forest, X2[TRAIN], oob=True))
    table = built.certified(forest, X2[REST])
    votes = rfsize.tree_outputs(forest, X2[REST]).by_tree()
    labels, asked = table.apply(votes)
    winner = (votes.sum(axis=1) > 30).astype(int)
    assert table.certificate is not None
    assert table.certificate.counts == ClassCounts.of(winner, labels != winner, asked, 2)
    assert table.certificate.bound <= 1 - ALPHA
    assert (table.alpha, table.kind) == (ALPHA, "binary")
    assert table.expected_trees() == pytest.approx(asked.mean())
    assert table.expected_disagreement() == pytest.approx((labels != winner).mean())
    assert rfsize.StopTable.from_dict(table.to_dict()) == table
    assert "certified at 95 %" in repr(table)


def test_tables_of_many_classes_are_certified() -> None:
    forest = MODELS["lightgbm, four classes"][0]()
    built = rfsize.StopTable.build(61, alpha=0.95, prior=rfsize.tree_outputs(forest, X4[TRAIN], oob=True).votes)
    table = built.certified(forest, X4[REST])
    assert table.certificate is not None
    counts = table.certificate.counts
    assert (table.expected_trees(), table.expected_disagreement()) == (counts.mean_trees, counts.disagreement)
    assert rfsize.StopTable.from_dict(table.to_dict()) == table
    asked = built.apply(rfsize.tree_outputs(forest, X4[REST]).by_tree())[1]
    assert table.expected_trees() < asked.mean()  # which shares 1 - alpha among the rivals


def test_ensembles_that_predict_by_votes_get_tables_of_votes() -> None:
    ensemble = BaggingClassifier(KNeighborsClassifier(), 15, random_state=0).fit(X2[:300], Y2[:300])
    hard = RandomForestClassifier(61, max_depth=6, random_state=0).fit(X2[TRAIN], Y2[TRAIN])
    for forest, voting in ((hard, "hard"), (ensemble, "hard")):
        table = rfsize.StopTable.calibrate(forest, X2[REST], alpha=0.95, voting=voting)
        assert (table.voting, table.promise, table.kind) == ("hard", "certified", "binary")
        assert table.certificate is not None
        assert table.certificate.rows == 1600


def test_of_many_choices_of_rows_few_give_a_table_that_disagrees_more() -> None:
    forest, X = MODELS["random forest"][0](), problem(4, rows=40_000, seed=7)[0]
    trees = TreesOnRows.of(forest, X, casts_votes=True)
    blocks = trees.added_up("scores", lambda scores, _: [running_leads(scores, trees.cut)], list)
    lead, label = (np.concatenate(part) for part in zip(*blocks, strict=True))
    truly = {}
    wanted, rng, above = Promise(0.98, 0.9, "micro"), np.random.default_rng(0), 0
    limits = np.geomspace(5.0, 0.01, 300)
    for _ in range(200):
        rows = rng.integers(0, len(X), 700)
        final = label[rows, -1].astype(np.int64)
        differs = label[rows] != final[:, None]
        rule = Tallies.of(lead[rows], differs, final, limits, needed_leads(1.0, 61)[1:], 4).boldest(wanted, range(4))
        if rule not in truly:
            first = (lead >= needed_leads(limits[rule], 61)[1:]).argmax(axis=1)
            truly[rule] = (label[np.arange(len(X)), first] != label[:, -1]).mean()
        above += truly[rule] > 0.02
    # One in ten, and what 200 draws scatter by.
    assert above <= binom.ppf(0.999, 200, 0.1)
    assert len(truly) > 1


def test_tables_say_what_rare_classes_lose() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(12_000, 5))
    y = (X[:, 0] + 0.6 * rng.normal(size=12_000) > 2.4).astype(int)
    forest = RandomForestClassifier(61, max_features=2, random_state=0).fit(X[:4000], y[:4000])
    with pytest.warns(rfsize.exceptions.RareClassWarning, match=r"1 \(\d.*average='macro'"):
        table = rfsize.StopTable.calibrate(forest, X[4000:], alpha=0.98)
    assert "of rare classes' rows: 1 (" in repr(table)
    votes = rfsize.Votes([[99, 2]] * 9700 + [[48, 53]] * 300, ["no", "yes"])
    with pytest.warns(rfsize.exceptions.RareClassWarning, match="'yes'"):
        built = rfsize.StopTable.build(101, alpha=0.95, prior=votes)
    assert built.classes == ("no", "yes")


def test_outcomes_of_classes_add_up() -> None:
    table = rfsize.StopTable.build(21, alpha=0.95, prior=some_votes(2))
    found = table.by_class()
    assert sum(outcome.share for outcome in found) == pytest.approx(1.0)
    assert sum(o.share * o.disagreement for o in found) == pytest.approx(table.expected_disagreement(), rel=1e-9)
    assert sum(o.share * o.trees for o in found) == pytest.approx(table.expected_trees())
    votes = np.random.default_rng(0).permuted(np.repeat([0, 1, 1], 7)[None].repeat(4000, 0), axis=1)
    only = rfsize.StopTable.build(21, alpha=0.95, prior=np.eye(22)[14])
    assert only.by_class()[1].trees == pytest.approx(only.apply(votes)[1].mean(), rel=0.05)
    assert math.isnan(only.by_class()[0].disagreement)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.0}, "alpha"),
        ({"confidence": 0.0}, "confidence"),
        ({"voting": "loud"}, "voting"),
        ({"average": "mean"}, "average"),
        ({}, "rows that the forest was trained on"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    forest = MODELS["lightgbm"][0]()
    with pytest.raises(ValueError, match=message):
        rfsize.StopTable.calibrate(forest, X2[TRAIN], **options)


def test_tables_of_other_forests_are_not_certified() -> None:
    forest = MODELS["lightgbm"][0]()
    with pytest.raises(ValueError, match="for 21 trees and 2 classes, the forest has 61 trees"):
        rfsize.StopTable.build(21).certified(forest, X2[REST])
    for table in (
        rfsize.StopTable.build(61, alpha=1.0),
        rfsize.StopTable.lossless(np.ones(61)),
        rfsize.StopTable.calibrate(forest, X2[REST]),
    ):
        with pytest.raises(ValueError, match="certified is for tables of votes"):
            table.certified(forest, X2[REST])


def test_a_certificate_claims_what_was_asked_for_and_not_the_bound_of_the_rule_it_chose() -> None:
    counts = ClassCounts((990, 10), (2, 3), (2000, 40))
    certificate = Certificate(counts, 0.98, 0.95)
    assert certificate.bound == 0.02
    assert certificate.exact_bound == pytest.approx(bounds(np.array([5]), np.array([1000]), 0.95)[0])
    assert "2 %" in str(certificate)
    assert f"{100 * certificate.exact_bound:.2f}" not in str(certificate)
    # Neither rounds to what nobody can certify.
    surest = Certificate(ClassCounts((10**6,), (0,), (10**6,)), 0.999993, 0.999)
    assert "0.0007 %" in str(surest)
    assert "99.9 %" in str(surest)
    assert Certificate(counts, 0.98, 0.95, "macro").exact_bound > 0.5


def test_a_confidence_below_a_half_certifies_nothing() -> None:
    forest = RandomForestClassifier(20, random_state=0).fit(X2[TRAIN], Y2[TRAIN])
    with pytest.raises(ValueError, match=r"confidence must be at least 0\.5"):
        rfsize.StopTable.calibrate(forest, X2[REST], alpha=ALPHA, confidence=0.3)
