"""Tables calibrated on rows: what their certificates count, how exact the bounds are, and that they hold elsewhere."""

from __future__ import annotations

import copy
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers import zoo
from helpers.trained import FRAMEWORKS, problem, train
from rfsize import StopTable
from rfsize.exceptions import LabelsOnlyWarning

ALPHA, CONFIDENCE, TREES = 0.97, 0.95, 61


(TRAIN, TRUTH), (REST, _), (FRESH, _) = problem(1500, 1), problem(2000, 2), problem(2500, 3)
KINDS = [f"{framework} {task}" for framework in FRAMEWORKS for task in ("two", "three")]
OF_KINDS = pytest.mark.parametrize("kind", KINDS)


@cache
def forest_of(kind: str) -> Any:
    framework, task = kind.split()
    return train(framework, TRAIN, TRUTH[task], TREES)


def margins(score: np.ndarray, cut: float) -> tuple[np.ndarray, np.ndarray]:
    """Lead and label in the mean of the first trees, each of shape (n_rows, n_trees)."""
    mean = score.cumsum(axis=1) / np.arange(1, score.shape[1] + 1)[:, None]
    if mean.shape[2] == 1:
        return np.abs(mean[:, :, 0] - cut), (mean[:, :, 0] > cut).astype(int)
    ordered = np.sort(mean, axis=2)
    return ordered[:, :, -1] - ordered[:, :, -2], mean.argmax(axis=2)


def assert_counts(table: StopTable, final: np.ndarray, differs: np.ndarray, n_used: np.ndarray) -> None:
    """The certificate holds what the rows say."""
    counts = [(final == label).sum() for label in range(max(1, table.n_classes))]
    assert table.certificate.rows == len(final) == sum(counts)
    assert table.certificate.disagreements == differs.sum()
    assert table.expected_trees() == pytest.approx(n_used.mean())
    assert table.expected_disagreement() == pytest.approx(differs.mean())
    for outcome, label, count in zip(table.by_class(), range(len(counts)), counts, strict=True):
        of_class = final == label
        expected = [count / len(final), differs[of_class].mean(), n_used[of_class].mean()]
        assert [outcome.share, outcome.disagreement, outcome.trees] == pytest.approx(expected, nan_ok=True)


def assert_bound(table: StopTable, alpha: float, confidence: float = CONFIDENCE) -> None:
    """The exact binomial bound, which the boldest of many rules nearly takes up."""
    certificate = table.certificate
    bound = certificate.exact_bound
    assert binom.cdf(certificate.disagreements, certificate.rows, bound) == pytest.approx(1 - confidence, rel=1e-6)
    assert 0.5 * (1 - alpha) < bound <= (1 - alpha) * (1 + 1e-9)
    assert certificate.bound == pytest.approx(1 - alpha)


# ------------------------------------------------------------------------------------------------- labels by averages


@OF_KINDS
def test_labels_by_averages(kind: str) -> None:
    forest = forest_of(kind)
    table = StopTable.calibrate(forest, REST, alpha=ALPHA)
    assert (table.voting, table.promise, table.metric) == ("soft", "certified", "labels")
    cut = 0.5 if "sklearn" in kind else 0.0
    score = zoo.tree_scores(forest, REST)
    (lead, label), (labels, n_used) = margins(score, cut), table.apply(score)
    rows = np.arange(len(n_used))
    assert (labels == label[rows, n_used - 1]).all()
    assert_counts(table, label[:, -1], labels != label[:, -1], n_used)
    assert_bound(table, ALPHA)
    assert n_used.mean() < 40
    # A row stops at the first lead that is large enough, and leads that are enough fall from tree to tree.
    stops = [lead[n_used == trees, trees - 1].min(initial=np.inf) for trees in range(1, TREES)]
    goes_on = [lead[n_used > trees, trees - 1].max(initial=0.0) for trees in range(1, TREES)]
    assert all(above >= below for above, below in zip(stops, goes_on, strict=True))
    assert (np.maximum.accumulate(goes_on[::-1])[::-1] <= np.minimum.accumulate(stops) + 1e-12).all()
    fresh = zoo.tree_scores(forest, FRESH)
    assert (table.apply(fresh)[0] != margins(fresh, cut)[1][:, -1]).mean() < 1.5 * (1 - ALPHA)


@pytest.mark.parametrize(("alpha", "confidence"), [(0.99, 0.95), (0.9, 0.95), (0.98, 0.8), (0.95, 0.999)])
def test_fewest_rows_that_certify(alpha: float, confidence: float) -> None:
    fewest = math.ceil(math.log(1 - confidence) / math.log(alpha))
    with pytest.raises(ValueError, match=f"{fewest} rows"):
        StopTable.calibrate(forest_of("lightgbm two"), REST[: fewest - 1], alpha=alpha, confidence=confidence)
    table = StopTable.calibrate(forest_of("lightgbm two"), REST[:fewest], alpha=alpha, confidence=confidence)
    assert (table.certificate.rows, table.certificate.disagreements) == (fewest, 0)


def test_macro_bounds_each_class() -> None:
    forest = forest_of("lightgbm three")
    micro, macro = (StopTable.calibrate(forest, REST, alpha=0.95, average=name) for name in ("micro", "macro"))
    assert macro.expected_trees() > micro.expected_trees()
    for outcome in macro.by_class():
        rows = round(outcome.share * macro.certificate.rows)
        assert binom.cdf(round(outcome.disagreement * rows), rows, 0.05) <= 1 - CONFIDENCE + 1e-9
    labels = forest.predict(REST).argmax(axis=1)
    few = np.concatenate([REST[labels == labels[0]][:500], REST[labels != labels[0]][:20]])
    with pytest.raises(ValueError, match="average='macro'"):
        StopTable.calibrate(forest, few, average="macro")
    advised = StopTable.calibrate(forest, few, alpha=0.99)
    assert advised.certificate.rows == len(few)


@OF_KINDS
def test_a_class_without_rows_certifies_nothing(kind: str) -> None:
    forest = forest_of(kind)
    labels = rfsize.compile(forest).predict_labels(REST)
    for call in (
        lambda rows: StopTable.calibrate(forest, rows, alpha=0.9, average="macro"),
        lambda rows: rfsize.size(forest, rows, alpha=0.9, average="macro", target="model"),
        lambda rows: rfsize.truncate(forest, rows, alpha=0.9, average="macro", target="model"),
        lambda rows: rfsize.shrink(forest, rows, alpha=0.9, average="macro"),
        lambda rows: rfsize.shrink(forest, rows, n_trees=5, average="macro"),
    ):
        with pytest.raises(ValueError, match="average='macro'"):
            call(REST[labels != labels[0]])


def test_of_many_draws_of_rows_few_certify_too_much() -> None:
    """A table breaks its promise in one draw of ten at most; and what 40 draws scatter by."""
    X, y = problem(7500, 7)
    forest = RandomForestClassifier(31, max_depth=5, random_state=0).fit(X[:1500], y["two"][:1500])
    score = zoo.tree_scores(forest, X[1500:])
    final, rng, broken = margins(score, 0.5)[1][:, -1], np.random.default_rng(0), 0
    for _ in range(40):
        rows = rng.choice(len(score), 700, replace=False)
        table = StopTable.calibrate(forest, X[1500:][rows], alpha=0.98, confidence=0.9)
        broken += (table.apply(score)[0] != final).mean() > 0.02
    assert broken <= binom.ppf(0.999, 40, 0.1)


def test_rare_classes_are_warned_of() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(9000, 5))
    y = (X[:, 0] + 0.6 * rng.normal(size=9000) > 2.4).astype(int)
    forest = RandomForestClassifier(TREES, max_features=2, random_state=0).fit(X[:4000], y[:4000])
    with pytest.warns(LabelsOnlyWarning, match="average='macro'"):
        StopTable.calibrate(forest, X[4000:], alpha=0.98)


# -------------------------------------------------------------------------------------------------------------- votes


@pytest.mark.parametrize(("kind", "n_classes"), [("lightgbm two", 2), ("sklearn three", 3)])
def test_votes_are_certified(kind: str, n_classes: int) -> None:
    forest, alpha = forest_of(kind), 0.95
    table = StopTable.calibrate(forest, REST, alpha=alpha, voting="hard")
    votes = rfsize.tree_outputs(forest, REST).by_tree()
    labels, n_used = table.apply(votes)
    counts = np.stack([(votes == label).cumsum(axis=1) for label in range(n_classes)], axis=2)
    final = counts[:, -1].argmax(axis=1)
    assert_counts(table, final, labels != final, n_used)
    assert_bound(table, alpha)
    assert (table.voting, table.promise, table.alpha) == ("hard", "certified", alpha)
    lossless = StopTable.build(TREES, alpha=1.0, n_classes=n_classes)
    soonest = lossless.apply(votes)[1]
    assert n_used.mean() < 0.8 * soonest.mean()
    # A row stops at the first lead that is large enough for so many trees, or where no vote left can change its label.
    ordered = np.sort(counts, axis=2)
    lead = ordered[:, :, -1] - ordered[:, :, -2]
    for trees in range(1, TREES):
        stops, goes_on = lead[(n_used == trees) & (soonest > trees), trees - 1], lead[n_used > trees, trees - 1]
        assert stops.min(initial=TREES) > goes_on.max(initial=-1)
    assert (labels == counts[np.arange(len(n_used)), n_used - 1].argmax(axis=1)).all()


# ------------------------------------------------------------------------------------------- the arithmetic that runs


@pytest.mark.parametrize(
    "options", [{"voting": "soft"}, {"voting": "hard"}, {"metric": "probabilities", "tolerance": 0.05}], ids=str
)
@OF_KINDS
def test_certificates_count_what_compiled_forests_answer(kind: str, options: dict[str, Any]) -> None:
    assert_counted_as_compiled(forest_of(kind), **options)


@pytest.mark.parametrize("kind", ["xgboost two", "xgboost three"])
def test_certificates_count_sums_in_single_precision(kind: str) -> None:
    """Leaves of ± 3·10⁴, whose sums single precision rounds by hundredths."""
    rng = np.random.default_rng(0)
    forest = zoo.with_leaves(forest_of(kind), lambda leaves: leaves + rng.choice([-3e4, 3e4], len(leaves)))
    score = zoo.tree_scores(forest, REST)
    rounded, exact = score.astype(np.float32).cumsum(axis=1, dtype=np.float32), score.cumsum(axis=1, dtype=np.float64)
    assert np.abs(rounded - exact).max() > 1e-3
    assert_counted_as_compiled(forest)


def assert_counted_as_compiled(forest: Any, **options: Any) -> None:
    table = StopTable.calibrate(forest, REST, alpha=0.95, **options)
    fast, whole = rfsize.compile(forest, table), rfsize.compile(forest, voting=table.voting)
    if table.metric == "labels":
        (answers, n_used), final = fast.predict_labels(REST, return_trees=True), whole.predict_labels(REST)
        certifies, differs = np.ones(len(REST), dtype=bool), answers != final
    else:
        (answers, n_used), final = fast.predict_proba(REST, return_trees=True), whole.predict_proba(REST)
        certifies = np.arange(len(REST)) % 10 > 0
        differs = np.abs(answers.astype(float) - final).max(axis=1) > 0.05
    assert table.certificate.disagreements == differs[certifies].sum()
    assert sum(table.certificate.counts.trees) == n_used[certifies].sum()


# -------------------------------------------------------------------------------------------- probabilities and scores


def spread_left(score: np.ndarray, shaping: np.ndarray, is_logistic: bool) -> np.ndarray:
    """What each row's trees say that the others may change, shape (n_rows, n_trees); see `SpreadStops`.

    The variance of the rows that shape the rule counts as much as that of 16 trees.
    """
    n_trees, n_used = score.shape[1], np.arange(1, score.shape[1] + 1)[:, None]
    mean = score.cumsum(axis=1) / n_used
    squares = np.stack([((score[:, :t] - mean[:, t - 1 : t]) ** 2).sum(axis=1) for t in range(1, n_trees + 1)], axis=1)
    variance = (16 * shaping.var(axis=1, ddof=1).mean(axis=0) + squares) / (15 + n_used)
    steepness = 1 / (2 + 2 * np.cosh(mean)) if is_logistic else 1.0
    return (np.sqrt(variance) * steepness).max(axis=2) * np.sqrt(1 / n_used[:, 0] - 1 / n_trees)


@pytest.mark.parametrize("kind", [*(f"{of} number" for of in FRAMEWORKS), KINDS[0], *KINDS[-2:]])
def test_numbers_by_the_spread_of_a_row(kind: str) -> None:
    """Numbers, shares of classes, and a logistic link of the mean, whose slope counts."""
    forest, is_logistic = forest_of(kind), kind == "lightgbm two"
    metric = "scores" if "number" in kind else "probabilities"
    tolerance = 0.1 if metric == "probabilities" else 0.2
    table = StopTable.calibrate(forest, REST, alpha=ALPHA, metric=metric, tolerance=tolerance)
    shapes = np.arange(2000) % 10 == 0  # rows that shape the rule do not certify it
    score = zoo.tree_scores(forest, REST).astype(float)
    predicted, n_used = table.apply(score)
    final = _linked(score.mean(axis=1), table.n_classes, is_logistic)
    assert ((n_used % 8 == 0) | (n_used == TREES)).all()
    seen = np.arange(TREES)[:, None] < n_used[:, None, None]
    expected = _linked((score * seen).sum(axis=1) / n_used[:, None], table.n_classes, is_logistic)
    np.testing.assert_allclose(predicted, expected, rtol=1e-6, atol=1e-9)
    label = final.argmax(axis=1) if metric == "probabilities" else np.zeros(2000, dtype=int)
    differs = np.abs(predicted - final).max(axis=1) > tolerance
    assert_counts(table, label[~shapes], differs[~shapes], n_used[~shapes])
    assert_bound(table, ALPHA)
    assert n_used.mean() < 55
    # A row stops the first time that it is looked at with no more left to change than one limit allows.
    left = spread_left(score, score[shapes], is_logistic)[:, 7:-1:8]
    stopped = [left[n_used == 8 * (look + 1), look] for look in range(left.shape[1])]
    goes_on = [left[n_used > 8 * (look + 1), look] for look in range(left.shape[1])]
    assert np.concatenate(stopped).max() <= np.concatenate(goes_on).min() * (1 + 1e-6)
    fresh = zoo.tree_scores(forest, FRESH)
    actual, whole = table.apply(fresh)[0], _linked(fresh.mean(axis=1), table.n_classes, is_logistic)
    assert (np.abs(actual - whole).max(axis=1) > tolerance).mean() < 0.045


def _linked(mean: np.ndarray, n_classes: int, is_logistic: bool) -> np.ndarray:
    share = 1 / (1 + np.exp(-mean)) if is_logistic else mean
    return np.concatenate([1 - share, share], axis=1) if n_classes == 2 else share


def test_macro_of_probabilities() -> None:
    options: dict[str, Any] = {"metric": "probabilities", "tolerance": 0.1, "average": "macro"}
    table = StopTable.calibrate(forest_of("sklearn three"), REST, alpha=0.9, **options)
    assert max(outcome.disagreement for outcome in table.by_class()) < 0.1


def test_large_numbers_keep_their_spread() -> None:
    """Of time stamps, whose squares double precision cannot tell apart."""
    first = forest_of("sklearn number")
    later = copy.deepcopy(first)
    for tree in later.estimators_:
        tree.tree_.value[:] += 2.0**30
    tables = [StopTable.calibrate(forest, REST, metric="scores", tolerance=0.5) for forest in (first, later)]
    plain, moved = (rfsize.compile(*both) for both in zip((first, later), tables, strict=True))
    (numbers, n_used), (others, trees) = (fast.predict(FRESH, return_trees=True) for fast in (plain, moved))
    assert (n_used == trees).mean() > 0.99
    assert np.abs(others - 2.0**30 - numbers)[n_used == trees].max() < 1e-3
    assert tables[1].expected_trees() == pytest.approx(tables[0].expected_trees(), rel=0.01)
    score = zoo.tree_scores(later, FRESH)
    for of in (score, score - 2.0**30):
        assert np.mean(tables[1].apply(of)[1] == trees) > 0.999
    assert len(np.unique(trees)) > 1
