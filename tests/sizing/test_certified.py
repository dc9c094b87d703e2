"""A forest cut to its fewest first trees that are certified to answer as all of them do."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from scipy import sparse
from scipy.stats import binom
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier

import rfsize
from helpers.forests import train_lightgbm, train_xgboost
from rfsize.certifying.promise import Promise
from rfsize.certifying.smaller_forests import sizes_tried
from rfsize.exceptions import NotCertifiedWarning

ALPHA, CONFIDENCE = 0.95, 0.9


def problem(n_classes: int, rows: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(rows, 6)).round(2)
    score = X @ rng.normal(size=(6, n_classes)) + 0.7 * rng.normal(size=(rows, n_classes))
    return X, score.argmax(axis=1)


X2, Y2 = problem(2)
X4, Y4 = problem(4)
TRAIN, REST = slice(0, 1500), slice(1500, None)
SEVERAL = {"objective": "multi:softprob", "num_class": 4}
FORESTS: dict[str, Any] = {
    "lightgbm": lambda: (train_lightgbm(X2[TRAIN], Y2[TRAIN], 90), X2),
    "lightgbm, four classes": lambda: (
        train_lightgbm(X4[TRAIN], Y4[TRAIN], 90, objective="multiclass", num_class=4),
        X4,
    ),
    "xgboost": lambda: (train_xgboost(X2[TRAIN], Y2[TRAIN], 90), X2),
    "xgboost, four classes": lambda: (train_xgboost(X4[TRAIN], Y4[TRAIN], 90, **SEVERAL), X4),
    "random forest": lambda: (RandomForestClassifier(90, random_state=0).fit(X4[TRAIN], Y4[TRAIN]), X4),
    "bagging that votes": lambda: (
        BaggingClassifier(_Without(), 90, max_samples=0.3, random_state=0).fit(X2[TRAIN, :2], Y2[TRAIN]),
        X2[:, :2],
    ),
}


class _Without(KNeighborsClassifier):
    """A learner without probabilities, so that bagging counts its votes."""

    predict_proba = property()  # type: ignore[assignment]


@pytest.fixture(scope="module", params=FORESTS)
def forest(request: pytest.FixtureRequest) -> tuple[Any, np.ndarray]:
    model, X = FORESTS[request.param]()
    return model, X[REST]


@pytest.fixture(scope="module")
def trees() -> RandomForestClassifier:
    return RandomForestClassifier(120, random_state=0).fit(X2[TRAIN], Y2[TRAIN])


def predictions(model: Any, X: np.ndarray) -> np.ndarray:
    """Probabilities by the framework itself, or labels where it has none."""
    if isinstance(model, xgb.Booster):
        found = model.predict(xgb.DMatrix(X))
    else:
        found = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    return found if found.ndim == 2 else np.column_stack([1.0 - found, found])


def test_labels_of_the_frameworks_themselves(forest: tuple[Any, np.ndarray]) -> None:
    model, X = forest
    report = rfsize.size(model, X, target="forest", alpha=ALPHA, confidence=CONFIDENCE)
    small = rfsize.truncate(model, n_trees=report)
    label = predictions(model, X).argmax(axis=1)
    differs = predictions(small, X).argmax(axis=1) != label
    known = report.certificate
    assert known is not None
    assert known.disagreements == differs.sum()
    assert known.counts.rows == tuple(np.bincount(label))
    assert known.rows == len(X) == report.n_rows
    assert known.bound <= 1.0 - ALPHA
    assert report.n_trees < report.available == 90
    assert report.loss_at(int(report.n_trees)).value == pytest.approx(differs.mean())
    assert report.loss_at(90) == report.loss_at(1000)
    assert report.loss_at(90).value == 0.0
    # One size further, and the bound is passed.
    tried = sizes_tried(90).tolist()
    further = tried[tried.index(report.n_trees) + 1]
    differing = round(report.loss_at(further).value * len(X))
    assert binom.cdf(differing, len(X), 1.0 - ALPHA) > 1.0 - CONFIDENCE


def test_probabilities_of_the_frameworks_themselves(forest: tuple[Any, np.ndarray]) -> None:
    model, X = forest
    goal = {"metric": "probabilities", "tolerance": 0.05, "alpha": 0.9}
    report = rfsize.size(model, X, target="forest", **goal)
    small = rfsize.truncate(model, X, target="forest", **goal)
    apart = np.abs(predictions(small, X) - predictions(model, X)).max(axis=1)
    assert report.certificate.disagreements == pytest.approx((apart > 0.05).sum(), abs=1)  # XGBoost's are rounded
    assert report.n_trees < 90
    assert "probabilities within 0.05" in str(report)


def test_votes_can_be_certified_where_scores_are_averaged(forest: tuple[Any, np.ndarray]) -> None:
    model, X = forest
    report = rfsize.size(model, X, target="forest", alpha=0.9, voting="hard")
    tree_votes = rfsize.tree_outputs(model, X).by_tree()
    majority = [np.array([np.bincount(row[:n]).argmax() for row in tree_votes]) for n in (report.n_trees, 90)]
    assert report.certificate.disagreements == (majority[0] != majority[1]).sum()


def test_numbers() -> None:
    y = X2[:, 0] * X2[:, 1] + X2[:, 2]
    model = RandomForestRegressor(80, random_state=0).fit(X2[TRAIN], y[TRAIN])
    report = rfsize.size(model, X2[REST], target="forest", metric="scores", tolerance=0.1, alpha=0.9)
    small = rfsize.truncate(model, n_trees=report)
    apart = np.abs(small.predict(X2[REST]) - model.predict(X2[REST]))
    assert report.certificate.disagreements == (apart > 0.1).sum()
    by_default = rfsize.size(model, X2[REST], y[REST], target="forest")
    assert by_default.to_dict()["tolerance"] == pytest.approx(0.05 * y[REST].std())
    with pytest.raises(ValueError, match="standard deviation"):
        rfsize.size(model, X2[REST], target="forest")


def test_macro_bounds_every_class(trees: RandomForestClassifier) -> None:
    X, y = problem(4, 8000)
    weights = np.where(y == 0, 0.05, 1.0) * np.random.default_rng(0).uniform(size=len(y))
    some = np.argsort(-weights)[:6000]  # class 0 is rare
    model = RandomForestClassifier(100, random_state=0).fit(X[some[:1500]], y[some[:1500]])
    rows = X[some[1500:]]
    micro, macro = (
        rfsize.size(model, rows, target="forest", alpha=0.9, average=average) for average in ("micro", "macro")
    )
    counts = macro.certificate.counts
    for differing, of in zip(counts.disagreements, counts.rows, strict=True):
        assert not of or binom.cdf(differing, of, 0.1) <= 0.05
    assert micro.n_trees < macro.n_trees
    assert macro.loss_at(5).value == max(macro.loss_at(5).by_class.values())


def test_surer_takes_more_trees(trees: RandomForestClassifier) -> None:
    report = rfsize.size(trees, X2[REST], target="forest", alpha=0.97)
    low, high = report.interval
    assert low <= report.upper(0.5) <= report.n_trees <= high
    assert report.upper(0.95) == report.n_trees
    assert report.upper(0.8) == rfsize.size(trees, X2[REST], target="forest", alpha=0.97, confidence=0.8).n_trees
    assert report.size_at(0.9) == rfsize.size(trees, X2[REST], target="forest", alpha=0.9).n_trees < report.n_trees
    assert 1 <= report.upper(1e-6) <= report.upper(0.5)
    for confidence in (1e-200, 9e-7):
        with pytest.raises(ValueError, match=r"confidence must be at least 0\.000001 and below 1, found"):
            report.upper(confidence)


@pytest.mark.parametrize("given", [pd.DataFrame, sparse.csr_matrix])
def test_rows_of_any_kind(trees: RandomForestClassifier, given: Any) -> None:
    expected = rfsize.size(trees, X2[REST], target="forest", alpha=0.97)
    assert rfsize.size(trees, given(X2[REST]), target="forest", alpha=0.97).to_dict() == expected.to_dict()


def test_outputs_of_fresh_rows_are_taken(trees: RandomForestClassifier) -> None:
    outputs = rfsize.tree_outputs(trees, X2[REST], threshold=0.3)
    report = rfsize.size(outputs, target="forest", alpha=0.97)
    small = rfsize.truncate(outputs, target="forest", alpha=0.97)
    labels = [model.predict_proba(X2[REST])[:, 1] > 0.3 for model in (small, trees)]
    assert report.certificate.disagreements == (labels[0] != labels[1]).sum()


def test_what_a_report_says(trees: RandomForestClassifier) -> None:
    report = rfsize.size(trees, X2[REST], Y2[REST], target="forest", alpha=0.97)
    text, known = str(report), report.certificate
    assert text.startswith(f"the first {report.n_trees} of your 120 trees are enough (certified, 95 % sure)")
    assert f"({known.disagreements} of {known.rows:,} differ)" in text
    assert "at least 97 % of rows like these get the label of all your trees" in text  # and not the bound seen
    assert "14,000 rows like these would certify about" in text
    expected = rfsize.size(trees, X2[REST], alpha=0.97)
    assert f"a new forest needs {expected.n_trees:,} trees" in text
    told = json.loads(json.dumps(report.to_dict()))
    assert told["certificate"]["bound"] == known.bound
    assert (told["target"], told["confidence"], told["limit_n_trees"]) == ("forest", 0.95, expected.n_trees)
    # What it tells of an unlimited forest is what a report on it tells.
    assert report.loss_at(50, "labels") == expected.loss_at(50)
    again = pickle.loads(pickle.dumps(report))
    assert str(again) == text
    assert again.certificate == known


def test_page_and_picture(trees: RandomForestClassifier, tmp_path: Any) -> None:
    report = rfsize.size(trees, X2[REST], target="forest", alpha=0.97)
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert f"The first {report.n_trees} of your 120 trees are enough" in page
    title = report.plot().get_title()
    assert title.startswith(f"The first {report.n_trees} of your 120 trees")


def test_where_no_fewer_are_certified(trees: RandomForestClassifier) -> None:
    near_ties = np.argsort(np.abs(trees.predict_proba(X2[REST])[:, 1] - 0.5))
    few = X2[REST][near_ties[:300]]
    with pytest.warns(NotCertifiedWarning, match="300 rows certify no fewer than all 120 trees"):
        small = rfsize.truncate(trees, few, target="forest")
    assert len(small.estimators_) == 120
    with pytest.warns(NotCertifiedWarning):
        report = rfsize.size(trees, few, target="forest")
    assert report.n_trees == report.n_kept == 120
    assert str(report).startswith("no fewer than your 120 trees are certified")
    one = RandomForestClassifier(1, random_state=0).fit(X2[TRAIN], Y2[TRAIN])
    with pytest.warns(NotCertifiedWarning):
        assert rfsize.size(one, X2[REST], target="forest").n_trees == 1


def test_as_many_rows_as_asked_are_enough() -> None:
    promise = Promise(alpha=0.99, confidence=0.95, average="micro")
    promise.check_rows(np.array([200, 99]), ["a", "b"])
    with pytest.raises(ValueError, match="298 rows cannot certify"):
        promise.check_rows(np.array([200, 98]), ["a", "b"])


HARD = {"voting": "hard"}

REFUSED: dict[str, tuple[Any, str]] = {
    "too few rows": (lambda trees: rfsize.size(trees, X2[REST][:100], target="forest"), "at least 299 rows"),
    "no rows": (lambda trees: rfsize.size(trees, X2[:0], target="forest"), "row"),
    "training rows": (lambda trees: rfsize.size(trees, X2[TRAIN], target="forest"), "the rows that|trained on"),
    "out of bag": (lambda trees: rfsize.size(trees, X2[TRAIN], oob=True, target="forest"), "out of bag each row"),
    "outputs out of bag": (
        lambda trees: rfsize.size(rfsize.tree_outputs(trees, X2[TRAIN], oob=True), target="forest"),
        "out of bag each row",
    ),
    "cross-validation": (
        lambda trees: rfsize.size(rfsize.tree_outputs(trees, X2[TRAIN], Y2[TRAIN], cv=3), target="forest"),
        "each fold has a forest of its own",
    ),
    "counted votes": (
        lambda _: rfsize.size(rfsize.Votes([[3, 97]] * 400), target="forest"),
        "refer to no model",
    ),
    "a ranking": (
        lambda trees: rfsize.size(trees, X2[REST], Y2[REST], metric="auc", target="forest"),
        "auc is no share of rows",
    ),
    "a misspelt metric": (
        lambda trees: rfsize.size(trees, X2[REST], metric="lables", target="forest"),
        "did you mean 'labels'",
    ),
    "no tolerance": (lambda trees: rfsize.size(trees, X2[REST], metric="probabilities", target="forest"), "tolerance"),
    "a tolerance of labels": (
        lambda trees: rfsize.size(trees, X2[REST], metric="labels", tolerance=0.1, target="forest"),
        "leave it out",
    ),
    "another target": (lambda trees: rfsize.size(trees, X2[REST], target="all"), "'limit', 'forest'"),
    "no confidence": (lambda trees: rfsize.size(trees, X2[REST], confidence=1.0, target="forest"), "confidence"),
    "a class of few rows": (
        lambda trees: rfsize.size(trees, X2[REST], alpha=0.999, average="macro", target="forest"),
        "of each class",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_certified_is_refused(what: str, trees: RandomForestClassifier) -> None:
    call, words = REFUSED[what]
    with pytest.raises(ValueError, match=words):
        call(trees)


def test_the_certificate_is_of_this_forest(trees: RandomForestClassifier) -> None:
    report = rfsize.size(trees, X2[REST], target="forest", alpha=0.97)
    table = rfsize.StopTable.calibrate(trees, X2[REST], alpha=0.97)
    assert report.certificate.forest == table.certificate.forest is not None


def test_a_booster_of_lightgbm_keeps_its_type() -> None:
    model = train_lightgbm(X2[TRAIN], Y2[TRAIN], 60)
    small = rfsize.truncate(model, X2[REST], target="forest", alpha=0.9)
    assert isinstance(small, lgb.Booster)
    assert small.num_trees() < model.num_trees() == 60


NO_LABELS = {
    "probabilities": {"metric": "probabilities", "tolerance": 0.1},
    "scores": {"metric": "scores", "tolerance": 0.1},
}


@pytest.mark.parametrize("what", NO_LABELS)
def test_voting_without_labels_is_refused(trees: RandomForestClassifier, what: str) -> None:
    for voting in ("hard", "soft"):
        with pytest.raises(ValueError, match="voting would have no effect: it is for labels"):
            rfsize.size(trees, X2[REST], target="forest", alpha=0.9, voting=voting, **NO_LABELS[what])
    plain, auto = (
        rfsize.size(trees, X2[REST], target="forest", alpha=0.9, **NO_LABELS[what], **voting).to_dict()
        for voting in ({}, {"voting": "auto"})
    )
    assert plain == auto
    assert "voting" not in plain


def test_voting_of_numbers_is_refused() -> None:
    model = RandomForestRegressor(5, random_state=0).fit(X2[TRAIN], X2[TRAIN, 0])
    with pytest.raises(ValueError, match="voting would have no effect"):
        rfsize.size(model, X2[REST], target="forest", tolerance=0.1, voting="hard")


def test_labels_by_votes_are_not_called_those_of_the_forest(trees: RandomForestClassifier) -> None:
    report = rfsize.size(trees, X2[REST], target="forest", alpha=0.9, voting="hard")
    assert "% of rows like these get the label that most of your trees vote for (" in str(report)
    assert "to give the label that most of your trees vote for on 90 % of rows" in report._repr_html_()
    by_predict = rfsize.size(trees, X2[REST], target="forest", alpha=0.9)
    assert "% of rows like these get the label of all your trees (" in str(by_predict)


def test_the_report_of_another_forest_is_refused(trees: RandomForestClassifier) -> None:
    report = rfsize.size(trees, X2[REST], target="forest", alpha=0.9)
    other = RandomForestClassifier(120, random_state=1).fit(X2[TRAIN], Y2[TRAIN])
    with pytest.raises(ValueError, match="the report of another forest"):
        rfsize.truncate(other, n_trees=report)
    with pytest.raises(ValueError, match="the report of another forest"):
        rfsize.truncate(other, n_trees=pickle.loads(pickle.dumps(report)))
    again = pickle.loads(pickle.dumps(trees))
    assert len(rfsize.truncate(again, n_trees=report).estimators_) == report.n_trees


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_the_same_forest_from_a_file_takes_the_report(kind: str, tmp_path: Any) -> None:
    model, X = FORESTS[kind]()
    report = rfsize.size(model, X[REST], target="forest", alpha=0.9)
    path = tmp_path / "model.json"
    model.save_model(path)
    again = lgb.Booster(model_file=path) if kind == "lightgbm" else xgb.Booster(model_file=path)
    small = rfsize.truncate(again, n_trees=report)
    assert np.array_equal(predictions(small, X), predictions(rfsize.truncate(model, n_trees=report), X))


def test_all_trees_answer_as_they_do(trees: RandomForestClassifier) -> None:
    report = rfsize.size(trees, X2[REST], target="forest", alpha=0.9)
    assert report.loss_at(120).interval == report.loss_at(121).interval == (0.0, 0.0)
    assert report.loss_at(119).interval[1] > 0.0


def test_few_trees_say_nothing_of_an_unlimited_forest() -> None:
    for n_trees, told in ((9, False), (60, True)):
        model = RandomForestClassifier(n_trees, random_state=0).fit(X2[TRAIN], Y2[TRAIN])
        for goal in ({}, {"metric": "probabilities", "tolerance": 0.3}):
            report = rfsize.size(model, X2[REST], target="forest", alpha=0.8, **goal)
            assert (report.to_dict()["limit_n_trees"] is not None) == told
            assert ("T*(" in str(report)) == told


def test_a_single_tree_cannot_be_cut(tmp_path: Any) -> None:
    one = RandomForestClassifier(1, random_state=0).fit(X2[TRAIN], Y2[TRAIN])
    with pytest.warns(NotCertifiedWarning, match="a forest of 1 tree cannot be cut"):
        report = rfsize.size(one, X2[REST], target="forest", alpha=0.5)
    assert str(report).startswith("no fewer than your 1 tree is certified")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report.to_html(tmp_path / "page.html")


def test_what_asks_for_less(trees: RandomForestClassifier) -> None:
    with pytest.warns(NotCertifiedWarning, match="a lower alpha or a larger tolerance asks for less"):
        rfsize.size(trees, X2[REST], target="forest", metric="probabilities", tolerance=1e-9)
    two = RandomForestClassifier(2, random_state=0).fit(X2[TRAIN], Y2[TRAIN])
    with pytest.warns(NotCertifiedWarning, match="all 2 trees: a lower alpha asks for less"):
        rfsize.size(two, X2[REST], target="forest")


def test_one_tree_is_called_the_first(trees: RandomForestClassifier) -> None:
    report = rfsize.size(trees, X2[REST], target="forest", alpha=0.5)
    assert str(report).startswith("the first of your 120 trees is enough (certified, 95 % sure)")


def test_a_confidence_below_a_half_is_refused(trees: RandomForestClassifier) -> None:
    with pytest.raises(ValueError, match=r"confidence must be at least 0.5, found 0.3"):
        rfsize.size(trees, X2[REST], target="forest", confidence=0.3)
    assert "50 % sure" in str(rfsize.size(trees, X2[REST], target="forest", alpha=0.9, confidence=0.5))


def test_options_beside_a_number_of_trees(trees: RandomForestClassifier) -> None:
    with pytest.raises(ValueError, match="confidence would have no effect: n_trees sets the size"):
        rfsize.truncate(trees, n_trees=5, confidence=0.9)


def test_a_pickled_report_says_what_it_knows_of_an_unlimited_forest(trees: RandomForestClassifier) -> None:
    report = pickle.loads(pickle.dumps(rfsize.size(trees, X2[REST], target="forest", alpha=0.9)))
    with pytest.raises(ValueError, match="knows only the loss of labels, probabilities"):
        report.loss_at(10, "auc")


@pytest.mark.parametrize("target", ["limit", "forest"])
def test_numbers_of_numpy_are_written_as_those_of_python(trees: RandomForestClassifier, target: str) -> None:
    for number in (np.float32(0.75), np.float64(0.75)):
        report = rfsize.size(trees, X2[REST], target=target, alpha=number)
        assert "np." not in str(report)
        assert json.loads(json.dumps(report.to_dict()))["alpha"] == 0.75


def test_votes_that_predict_does_not_go_by_are_named(trees: RandomForestClassifier) -> None:
    by_votes, own = (rfsize.size(trees, X2[REST], target="forest", alpha=0.9, **given) for given in (HARD, {}))
    assert "labels by majority vote" in str(by_votes)
    assert "majority vote" not in str(own)


def test_what_a_ranking_suffers_names_a_call_that_is_not_refused(trees: RandomForestClassifier) -> None:
    report = rfsize.size(trees, X2[REST], Y2[REST], target="forest", alpha=0.6)
    suffers = [one.text for one in report.warnings if "AUC" in one.text]
    assert suffers
    assert suffers[0].endswith("target='limit'")
