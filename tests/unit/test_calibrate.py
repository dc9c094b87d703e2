"""Tables calibrated on rows: what their certificates count, how exact the bounds are, and that they hold elsewhere."""

from __future__ import annotations

import copy
import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from scipy.stats import binom
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier

import rfsize
from helpers import zoo
from rfsize import StopTable
from rfsize.exceptions import LabelsOnlyWarning

ALPHA, CONFIDENCE, TREES = 0.97, 0.95, 61


def problem(n_classes: int, n_rows: int = 6000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, slopes = rng.normal(size=(n_rows, 6)), np.random.default_rng(n_classes).normal(size=(6, n_classes))
    X[:, 3] = rng.integers(0, 3, n_rows)  # a category to LightGBM and XGBoost
    return X, (X @ slopes + 0.5 * rng.normal(size=(n_rows, n_classes))).argmax(axis=1)


X2, Y2 = problem(2)
X4, Y4 = problem(4)
NUMBER = 3 * X2[:, 0] + X2[:, 1] * X2[:, 2] + np.random.default_rng(1).normal(size=6000)
TRAIN, REST, FRESH = slice(0, 1500), slice(1500, 3500), slice(3500, None)
KINDS: dict[str, Any] = {
    "lightgbm": lambda: zoo.lightgbm("binary", Y2[TRAIN], TREES, X2[TRAIN]),
    "lightgbm of four": lambda: zoo.lightgbm("multiclass", Y4[TRAIN], TREES, X4[TRAIN], num_class=4),
    "xgboost": lambda: zoo.xgboost("binary:logistic", Y2[TRAIN], X2[TRAIN], num_parallel_tree=TREES),
    "xgboost of four": lambda: zoo.xgboost(
        "multi:softprob", Y4[TRAIN], X4[TRAIN], num_parallel_tree=TREES, num_class=4
    ),
    "random forest": lambda: RandomForestClassifier(TREES, max_depth=6, random_state=0).fit(X2[TRAIN], Y2[TRAIN]),
    "random forest of four": lambda: RandomForestClassifier(TREES, max_depth=6, random_state=0).fit(
        X4[TRAIN], Y4[TRAIN]
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def forests() -> dict[str, Any]:
    return {name: make() for name, make in KINDS.items()}


def rows_of(kind: str) -> np.ndarray:
    return X4 if "four" in kind else X2


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


def test_labels_by_averages(kind: str, forests: dict[str, Any]) -> None:
    forest, X = forests[kind], rows_of(kind)
    table = StopTable.calibrate(forest, X[REST], alpha=ALPHA)
    assert (table.voting, table.promise, table.metric) == ("soft", "certified", "labels")
    cut = 0.5 if "forest" in kind else 0.0
    score = zoo.tree_scores(forest, X[REST])
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
    fresh = zoo.tree_scores(forest, X[FRESH])
    assert (table.apply(fresh)[0] != margins(fresh, cut)[1][:, -1]).mean() < 1.5 * (1 - ALPHA)


@pytest.mark.parametrize(("alpha", "confidence"), [(0.99, 0.95), (0.9, 0.95), (0.98, 0.8), (0.95, 0.999)])
def test_fewest_rows_that_certify(alpha: float, confidence: float, forests: dict[str, Any]) -> None:
    fewest = math.ceil(math.log(1 - confidence) / math.log(alpha))
    with pytest.raises(ValueError, match=f"{fewest} rows"):
        StopTable.calibrate(forests["lightgbm"], X2[REST][: fewest - 1], alpha=alpha, confidence=confidence)
    table = StopTable.calibrate(forests["lightgbm"], X2[REST][:fewest], alpha=alpha, confidence=confidence)
    assert (table.certificate.rows, table.certificate.disagreements) == (fewest, 0)


def test_macro_bounds_each_class(forests: dict[str, Any]) -> None:
    forest = forests["lightgbm of four"]
    micro, macro = (StopTable.calibrate(forest, X4[REST], alpha=0.95, average=name) for name in ("micro", "macro"))
    assert macro.expected_trees() > micro.expected_trees()
    for outcome in macro.by_class():
        rows = round(outcome.share * macro.certificate.rows)
        assert binom.cdf(round(outcome.disagreement * rows), rows, 0.05) <= 1 - CONFIDENCE + 1e-9
    labels = forest.predict(X4[REST]).argmax(axis=1)
    few = np.concatenate([X4[REST][labels == labels[0]][:500], X4[REST][labels != labels[0]][:20]])
    with pytest.raises(ValueError, match="average='macro'"):
        StopTable.calibrate(forest, few, average="macro")
    advised = StopTable.calibrate(forest, few, alpha=0.99)
    assert advised.certificate.rows == len(few)


def test_a_class_without_rows_certifies_nothing(kind: str, forests: dict[str, Any]) -> None:
    forest, X = forests[kind], rows_of(kind)[REST]
    labels = rfsize.compile(forest).predict_labels(X)
    for call in (
        lambda rows: StopTable.calibrate(forest, rows, alpha=0.9, average="macro"),
        lambda rows: rfsize.size(forest, rows, alpha=0.9, average="macro", target="model"),
        lambda rows: rfsize.truncate(forest, rows, alpha=0.9, average="macro", target="model"),
        lambda rows: rfsize.shrink(forest, rows, alpha=0.9, average="macro"),
        lambda rows: rfsize.shrink(forest, rows, n_trees=5, average="macro"),
    ):
        with pytest.raises(ValueError, match="average='macro'"):
            call(X[labels != labels[0]])


def test_of_many_draws_of_rows_few_certify_too_much() -> None:
    """A table breaks its promise in one draw of ten at most; and what 40 draws scatter by."""
    X, y = problem(2, 7500, seed=7)
    forest = RandomForestClassifier(31, max_depth=5, random_state=0).fit(X[:1500], y[:1500])
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


@pytest.mark.parametrize("name", ["lightgbm", "random forest of four"])
def test_votes_are_certified(name: str, forests: dict[str, Any]) -> None:
    forest, X = forests[name], rows_of(name)
    n_classes, alpha = 4 if "four" in name else 2, 0.95
    table, votes = (
        StopTable.calibrate(forest, X[REST], alpha=alpha, voting="hard"),
        rfsize.tree_outputs(forest, X[REST]).by_tree(),
    )
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


def scaled_leaves(booster: Any, factor: float) -> Any:
    """An XGBoost model whose leaves are so large that single precision rounds their sums."""
    document = json.loads(booster.save_raw("json"))
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        for node, left in enumerate(tree["left_children"]):
            if left == -1:
                tree["split_conditions"][node] = tree["split_conditions"][node] + factor * (1 if node % 2 else -1)
    return xgb.Booster(model_file=bytearray(json.dumps(document).encode()))


@pytest.mark.parametrize(
    "options", [{"voting": "soft"}, {"voting": "hard"}, {"metric": "probabilities", "tolerance": 0.05}], ids=str
)
def test_certificates_count_what_compiled_forests_answer(
    kind: str, forests: dict[str, Any], options: dict[str, Any]
) -> None:
    assert_counted_as_compiled(forests[kind], rows_of(kind)[REST], **options)


@pytest.mark.parametrize("name", ["xgboost", "xgboost of four"])
def test_certificates_count_sums_in_single_precision(name: str, forests: dict[str, Any]) -> None:
    """Leaves of ± 3·10⁴, whose sums single precision rounds by hundredths."""
    forest = scaled_leaves(forests[name], 3e4)
    rounded = zoo.tree_scores(forest, rows_of(name)[REST]).astype(np.float32).cumsum(axis=1, dtype=np.float32)
    exact = zoo.tree_scores(forest, rows_of(name)[REST]).cumsum(axis=1, dtype=np.float64)
    assert np.abs(rounded - exact).max() > 1e-3
    assert_counted_as_compiled(forest, rows_of(name)[REST])


def assert_counted_as_compiled(forest: Any, X: np.ndarray, **options: Any) -> None:
    table = StopTable.calibrate(forest, X, alpha=0.95, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rfsize.exceptions.RfsizeWarning)
        fast, whole = rfsize.compile(forest, table), rfsize.compile(forest, voting=table.voting)
    if table.metric == "labels":
        (answers, n_used), final = fast.predict_labels(X, return_trees=True), whole.predict_labels(X)
        certifies, differs = np.ones(len(X), dtype=bool), answers != final
    else:
        (answers, n_used), final = fast.predict_proba(X, return_trees=True), whole.predict_proba(X)
        certifies = np.arange(len(X)) % 10 > 0
        differs = np.abs(answers.astype(float) - final).max(axis=1) > 0.05
    assert table.certificate.disagreements == differs[certifies].sum()
    assert sum(table.certificate.counts.trees) == n_used[certifies].sum()


# -------------------------------------------------------------------------------------------- probabilities and scores


def spread_left(score: np.ndarray, shaping: np.ndarray, steepness: Any) -> np.ndarray:
    """What each row's trees say that the others may change, shape (n_rows, n_trees); see `SpreadStops`.

    The variance of the rows that shape the rule counts as much as that of 16 trees.
    """
    n_trees, n_used = score.shape[1], np.arange(1, score.shape[1] + 1)[:, None]
    mean = score.cumsum(axis=1) / n_used
    squares = np.stack([((score[:, :t] - mean[:, t - 1 : t]) ** 2).sum(axis=1) for t in range(1, n_trees + 1)], axis=1)
    variance = (16 * shaping.var(axis=1, ddof=1).mean(axis=0) + squares) / (15 + n_used)
    return (np.sqrt(variance) * steepness(mean)).max(axis=2) * np.sqrt(1 / n_used[:, 0] - 1 / n_trees)


NUMBERS: dict[str, Any] = {  # the model, the metric, the link of the mean, and its slope
    "lightgbm": (lambda: zoo.lightgbm("regression", NUMBER[TRAIN], TREES, X2[TRAIN]), "scores", None),
    "xgboost": (
        lambda: zoo.xgboost("reg:squarederror", NUMBER[TRAIN], X2[TRAIN], num_parallel_tree=TREES),
        "scores",
        None,
    ),
    "extra-trees": (
        lambda: ExtraTreesRegressor(TREES, min_samples_leaf=3, random_state=0).fit(X2[TRAIN], NUMBER[TRAIN]),
        "scores",
        None,
    ),
    "shares of two": (KINDS["random forest"], "probabilities", None),
    "shares of four": (KINDS["random forest of four"], "probabilities", None),
    "logistic": (KINDS["lightgbm"], "probabilities", lambda mean: 1 / (2 + 2 * np.cosh(mean))),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_by_the_spread_of_a_row(name: str) -> None:
    make, metric, steepness = NUMBERS[name]
    forest, X = make(), X4 if name == "shares of four" else X2
    tolerance = 0.1 if metric == "probabilities" else 0.5
    table = StopTable.calibrate(forest, X[REST], alpha=ALPHA, metric=metric, tolerance=tolerance)
    shapes = np.arange(2000) % 10 == 0  # rows that shape the rule do not certify it
    score = zoo.tree_scores(forest, X[REST]).astype(float)
    predicted, n_used = table.apply(score)
    final = _linked(score.mean(axis=1), table.n_classes, name == "logistic")
    assert ((n_used % 8 == 0) | (n_used == TREES)).all()
    seen = np.arange(TREES)[:, None] < n_used[:, None, None]
    expected = _linked((score * seen).sum(axis=1) / n_used[:, None], table.n_classes, name == "logistic")
    np.testing.assert_allclose(predicted, expected, rtol=1e-6, atol=1e-9)
    label = final.argmax(axis=1) if metric == "probabilities" else np.zeros(2000, dtype=int)
    differs = np.abs(predicted - final).max(axis=1) > tolerance
    assert_counts(table, label[~shapes], differs[~shapes], n_used[~shapes])
    assert_bound(table, ALPHA)
    assert n_used.mean() < 55
    # A row stops the first time that it is looked at with no more left to change than one limit allows.
    left = spread_left(score, score[shapes], steepness or (lambda mean: np.ones_like(mean)))[:, 7:-1:8]
    stopped = [left[n_used == 8 * (look + 1), look] for look in range(left.shape[1])]
    goes_on = [left[n_used > 8 * (look + 1), look] for look in range(left.shape[1])]
    assert np.concatenate(stopped).max() <= np.concatenate(goes_on).min() * (1 + 1e-6)
    fresh = zoo.tree_scores(forest, X[FRESH])
    actual, whole = table.apply(fresh)[0], _linked(fresh.mean(axis=1), table.n_classes, name == "logistic")
    assert (np.abs(actual - whole).max(axis=1) > tolerance).mean() < 0.045


def _linked(mean: np.ndarray, n_classes: int, is_logistic: bool) -> np.ndarray:
    share = 1 / (1 + np.exp(-mean)) if is_logistic else mean
    return np.concatenate([1 - share, share], axis=1) if n_classes == 2 else share


def test_macro_of_probabilities() -> None:
    forest = RandomForestClassifier(TREES, min_samples_leaf=3, random_state=0).fit(X4[TRAIN], Y4[TRAIN])
    options: dict[str, Any] = {"metric": "probabilities", "tolerance": 0.1, "average": "macro"}
    table = StopTable.calibrate(forest, X4[REST], alpha=0.9, **options)
    assert max(outcome.disagreement for outcome in table.by_class()) < 0.1


def test_a_tolerance_of_nothing_takes_all_trees(forests: dict[str, Any]) -> None:
    options: dict[str, Any] = {"metric": "probabilities", "tolerance": 1e-12}
    table = StopTable.calibrate(forests["random forest"], X2[REST], alpha=0.99, **options)
    assert table.certificate.disagreements == 0
    assert table.expected_trees() > 0.95 * TREES


def test_large_numbers_keep_their_spread() -> None:
    """Of time stamps, whose squares double precision cannot tell apart."""
    first = ExtraTreesRegressor(TREES, min_samples_leaf=3, random_state=0).fit(X2[TRAIN], NUMBER[TRAIN])
    later = copy.deepcopy(first)
    for tree in later.estimators_:
        tree.tree_.value[:] += 2.0**30
    tables = [StopTable.calibrate(forest, X2[REST], metric="scores", tolerance=0.5) for forest in (first, later)]
    plain, moved = (rfsize.compile(*both) for both in zip((first, later), tables, strict=True))
    (numbers, n_used), (others, trees) = (fast.predict(X2[FRESH], return_trees=True) for fast in (plain, moved))
    assert (n_used == trees).mean() > 0.99
    assert np.abs(others - 2.0**30 - numbers)[n_used == trees].max() < 1e-3
    assert tables[1].expected_trees() == pytest.approx(tables[0].expected_trees(), rel=0.01)
    score = zoo.tree_scores(later, X2[FRESH])
    for of in (score, score - 2.0**30):
        assert np.mean(tables[1].apply(of)[1] == trees) > 0.999
    assert len(np.unique(trees)) > 1
