"""T* of labels: by votes and averaged scores, over rows and classes, at thresholds, from all rows or some."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import Perceptron
from sklearn.neighbors import KNeighborsClassifier

import reference.majority
import reference.margins
import rfsize
from helpers.lookup import by_one_score, rows_of
from helpers.trained import FRAMEWORKS, FRESH, TRUTH, X, Y, model, predicted, train, tree_scores
from rfsize import theory
from rfsize.exceptions import FewVotesError, NotConvergedWarning


def two_classes(count: np.ndarray, n_votes: int) -> rfsize.Votes:
    return rfsize.Votes(np.stack([n_votes - count, count], axis=1))


# The plug-in estimate


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("oob", [False, True])
def test_size_by_votes_is_the_plug_in_of_the_trees_alone(framework: str, oob: bool) -> None:
    forest, rows = model(framework), X if oob else FRESH
    score = tree_scores(forest, rows)
    label = score.argmax(axis=2) if framework == "sklearn" else score[:, :, 0] > 0.0
    may_vote = ~rfsize.inbag(forest, X).T if oob else np.ones(label.shape, dtype=bool)
    voted = may_vote.any(axis=1)
    pi = ((label & may_vote).sum(axis=1) / np.maximum(may_vote.sum(axis=1), 1))[voted]
    report = rfsize.size(forest, rows, alpha=0.9, oob=oob, voting="hard", method="plugin")
    assert report.n_trees == reference.majority.ensemble_size(0.9, pi.tolist())
    assert report.size_at(0.8) == reference.majority.ensemble_size(0.8, pi.tolist())
    assert report.loss_at(11).value == pytest.approx(theory.mean_disagreement(11, pi))
    assert (report.available, report.source) == (60, "oob" if oob else "rows given")
    assert (report.estimate.n_rows, report.estimate.n_dropped) == (voted.sum(), (~voted).sum())
    assert report.estimate.votes_per_row == pytest.approx(may_vote.sum(axis=1)[voted].mean())


@pytest.mark.parametrize("n_classes", [2, 5])
def test_interval_is_the_bootstrap_over_rows(n_classes: int) -> None:
    """Wider, by how much estimates near a tie were measured to be further off."""
    rng, sizes = np.random.default_rng(0), []
    share = rng.dirichlet(np.full(n_classes, 0.5 if n_classes == 2 else 0.3), 400)
    votes = rfsize.Votes(rng.multinomial(2001 if n_classes == 2 else 201, share))
    report = rfsize.size(votes, alpha=0.95, method="plugin")
    for _ in range(120):
        drawn = votes.take(rng.integers(len(votes.counts), size=len(votes.counts)))
        sizes.append(rfsize.size(drawn, alpha=0.95, method="plugin").n_trees)
    logs, wider = np.log(sizes), 1.25 if n_classes == 2 else 1.15
    expected = logs.mean() + wider * (np.quantile(logs, [0.025, 0.975]) - logs.mean())
    assert np.log(report.interval) == pytest.approx(expected, abs=0.15)
    assert all(bound % 2 == 1 for bound in report.interval)
    assert report.interval == rfsize.size(votes, alpha=0.95, method="plugin").interval


def test_rows_at_a_tie_make_the_size_infinite() -> None:
    for votes in ([[5, 5], [10, 0]], [[40, 40, 20], [100, 0, 0]], [[5000001, 5000000, 1]]):
        report = rfsize.size(rfsize.Votes(votes), alpha=0.9999999, method="plugin")
        assert (report.n_trees, report.enough, report.to_dict()["n_trees"]) == (math.inf, False, None)
        assert report.to_dict()["reason"] is not None
    few = rfsize.size(rfsize.Votes([[5, 5]] * 3 + [[0, 10]] * 97), alpha=0.98, method="plugin")
    assert few.interval[1] == math.inf


@pytest.mark.parametrize(("n_classes", "fewest"), [(2, 10), (3, 16), (8, 30)])
def test_many_classes_take_more_votes(n_classes: int, fewest: int) -> None:
    pi = np.random.default_rng(0).dirichlet([0.2] * n_classes, 200)
    for n_votes in (fewest - 1, fewest):
        report = rfsize.size(rfsize.Votes(np.random.default_rng(1).multinomial(n_votes, pi)), alpha=0.6)
        assert report.enough == (n_votes == fewest)
        assert (report.interval == (1, math.inf)) == (n_votes < fewest) == (report.upper(0.8) == math.inf)
        assert report.n_kept == (report.n_trees if report.enough else n_votes)


@pytest.mark.parametrize("n_rows", [49, 50])
def test_few_rows_of_a_class_are_noted(n_rows: int) -> None:
    report = rfsize.size(rfsize.Votes([[3, 27], [14, 16]] * 200 + [[20, 10]] * n_rows), alpha=0.9)
    assert len(report.to_dict()["notes"]) == (n_rows == 49)


# Rules of voting

MODELS: dict[str, Any] = {
    "neighbours": BaggingClassifier(KNeighborsClassifier(), n_estimators=41, random_state=1),
    "perceptron": BaggingClassifier(Perceptron(), n_estimators=41, max_features=0.7, random_state=1),
}


@pytest.mark.parametrize("kind", ["lightgbm", *MODELS])
def test_labels_of_predict_are_sized_by_default(kind: str) -> None:
    forest = MODELS[kind].fit(X, Y["three"]) if kind in MODELS else model(kind, "three")
    voting = "hard" if kind == "perceptron" else "soft"
    rows = FRESH[:250]
    report, outputs = rfsize.size(forest, rows, alpha=0.7), rfsize.tree_outputs(forest, rows)
    values = report.to_dict()
    assert (values["voting"], values["predict_obeys"]) == (voting, voting)
    for same in (rfsize.size(forest, rows, alpha=0.7, voting=voting), rfsize.size(outputs, alpha=0.7)):
        assert (same.n_trees, same.interval) == (report.n_trees, report.interval)
    of_votes = rfsize.size(outputs.votes, alpha=0.7).to_dict()
    assert (of_votes["voting"], of_votes["predict_obeys"]) == ("hard", None)
    hard = rfsize.size(forest, rows, alpha=0.7, voting="hard")
    assert (hard.loss_at(9) == report.loss_at(9)) == (voting == "hard")


@pytest.mark.parametrize("n_trees", [12, 20, 30])
def test_few_trees_do_not_agree_by_chance(n_trees: int) -> None:
    """Out of bag, single rows have trees enough for two forests of nine, and nearly all of these rows agree."""
    report = rfsize.size(train("sklearn", X, Y["two"], n_trees), X, oob=True, alpha=0.99)
    losses = [report.loss_at(size).value for size in range(1, 40, 2)]
    assert losses == sorted(losses, reverse=True)
    assert report.n_trees > report.interval[0] > 40 or math.isinf(report.interval[1])


def test_soft_rows_need_the_scores_of_two_trees() -> None:
    """Rows that one tree has scored have a vote, but no spread."""
    score = np.random.default_rng(7).normal(size=(200, 30))
    forest = by_one_score(score, max_samples=0.95, bootstrap=False)
    n_votes = (~rfsize.inbag(forest, rows_of(score))).sum(axis=0)
    soft, hard = (rfsize.size(forest, rows_of(score), alpha=0.6, oob=True, voting=of) for of in ("soft", "hard"))
    assert (soft.estimate.n_rows, soft.estimate.n_dropped) == ((n_votes > 1).sum(), (n_votes < 2).sum())
    assert (hard.estimate.n_rows, hard.estimate.n_dropped) == ((n_votes > 0).sum(), (n_votes < 1).sum())


# Over the classes


def test_macro_is_the_mean_over_classes_of_direct_sums() -> None:
    votes = two_classes(np.array([0, 3, 9, 20, 44] * 6 + [52, 71, 101] * 4), 101)
    pi = votes.fractions()[:, 1].tolist()
    report = rfsize.size(votes, average="macro", alpha=0.9, method="plugin")

    def lost(n_trees: int) -> list[float]:
        by_class = [[fraction for fraction in pi if (fraction > 0.5) == label] for label in (False, True)]
        return [float(np.mean([reference.majority.disagreement(n_trees, of) for of in part])) for part in by_class]

    for n_trees in (1, 7, 41):
        loss = report.loss_at(n_trees)
        assert list(loss.by_class.values()) == pytest.approx(lost(n_trees))
        assert loss.value == pytest.approx(np.mean(lost(n_trees)))
    enough = [np.mean(lost(n_trees)) <= 0.1 for n_trees in range(1, int(report.n_trees) + 1, 2)]
    assert enough == [False] * (len(enough) - 1) + [True]
    assert report.n_trees > rfsize.size(votes, alpha=0.9, method="plugin").n_trees


@given(
    st.integers(2, 4).flatmap(
        lambda k: st.lists(
            st.lists(st.integers(0, 9), min_size=k, max_size=k).filter(any), min_size=1, max_size=30
        ).filter(lambda rows: any(sum(row) > 1 for row in rows))
    ),
    st.integers(0, 40).map(lambda half: 2 * half + 1),
)
@settings(max_examples=40)
def test_micro_and_macro_of_any_votes(counts: list[list[int]], n_trees: int) -> None:
    votes = rfsize.Votes(counts, n_trees=max(map(sum, counts)))
    try:
        micro, macro = (rfsize.size(votes, alpha=0.9, method="plugin", average=of) for of in ("micro", "macro"))
    except FewVotesError:  # rows of far fewer votes than others are refused
        reject()
    by_class, shares = macro.loss_at(n_trees).by_class, macro.to_dict()["label_shares"]
    assert by_class == micro.loss_at(n_trees).by_class
    assert by_class.keys() == {int(of) for of, share in shares.items() if share > 0.0}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert macro.loss_at(n_trees).value == pytest.approx(np.mean(list(by_class.values())))
    whole = sum(shares[str(of)] * lost for of, lost in by_class.items())
    assert micro.loss_at(n_trees).value == pytest.approx(whole, rel=5e-3)  # margins are merged if they are alike
    smooth = rfsize.size(votes, alpha=0.9, method="smooth")
    for report in (macro, smooth):
        assert report.interval[0] <= report.n_trees <= report.interval[1]
    sizes = [smooth.estimate.curve.size(level) for level in (0.4, 0.1, 0.01, 0.001)]
    assert sizes == sorted(sizes)
    assert all(math.isfinite(size) and size % 2 == 1 for size in sizes)
    assert smooth.loss_at(int(sizes[2])).value <= 0.01 * (1.0 + 1e-9)


def test_classes_of_few_rows_are_warned_of_in_a_macro_average() -> None:
    counts = np.array([[40, 0, 0]] * 480 + [[4, 36, 0]] * 20)
    few, many, micro = (
        rfsize.size(rfsize.Votes(of), alpha=0.8, average=average)
        for of, average in ((counts, "macro"), (np.tile(counts[:, :2], (3, 1)), "macro"), (counts, "micro"))
    )
    assert [warning.category for warning in few.warnings] == [NotConvergedWarning] * 2  # of 20 rows, and of none
    assert few.enough
    assert not {warning.category for warning in (*many.warnings, *micro.warnings)} & {NotConvergedWarning}


@pytest.mark.parametrize("n_rows", [0, 9, 10])
def test_a_mean_over_classes_takes_rows_of_two(n_rows: int) -> None:
    votes = rfsize.Votes([[40, 4, 1]] * 300 + [[9, 35, 1]] * n_rows + [[9, 1, 35]] * min(n_rows, 9))
    report = rfsize.size(votes, alpha=0.9, average="macro")
    assert report.enough == (n_rows == 10) == math.isfinite(report.n_trees)
    assert (report.interval == (1, math.inf)) == (n_rows < 10)


def test_tied_classes_take_turns() -> None:
    votes = rfsize.Votes([[4, 4, 1]] * 24 + [[3, 3, 3]] * 24 + [[0, 0, 9]] * 12)
    shares = rfsize.size(votes, alpha=0.5, method="plugin").to_dict()["label_shares"]
    assert list(shares.values()) == pytest.approx([1 / 3, 1 / 3, 1 / 3], abs=0.02)


NOISY = (Y["number"] > 1.6).astype(int)


# Thresholds, and some of the rows


@pytest.mark.parametrize(("framework", "voting"), [*zip(FRAMEWORKS, ["hard", "soft", "soft"], strict=True)])
def test_forests_at_a_threshold_disagree_as_often_as_allowed(framework: str, voting: str) -> None:
    """Real labels at the threshold: the framework's probability for averaged scores, the majority for votes."""

    def labels(forest: Any) -> np.ndarray:
        if voting == "soft":
            return predicted(forest, FRESH)[:, 1] > 0.1
        return rfsize.tree_outputs(forest, FRESH, threshold=0.1).votes.winner() == 1

    large, seed = train(framework, X, NOISY, 250), "random_state" if framework == "sklearn" else "seed"
    report = rfsize.size(rfsize.tree_outputs(large, FRESH, threshold=0.1), alpha=0.95, voting=voting)
    others = [labels(train(framework, X, NOISY, int(report.n_trees), **{seed: number})) for number in range(6)]
    assert report.enough
    assert np.mean([of != labels(large) for of in others]) == pytest.approx(0.05, abs=0.015)
    assert rfsize.size(large, FRESH, alpha=0.95, voting=voting).n_trees < report.n_trees


def test_drawn_rows_are_sized_as_if_given_alone() -> None:
    drawn = np.sort(np.random.default_rng(0).choice(len(FRESH), 300, replace=False))
    of_drawn = rfsize.size(model("lightgbm"), FRESH[drawn], TRUTH["two"][drawn], alpha=0.8)
    report = rfsize.size(model("lightgbm"), FRESH, TRUTH["two"], alpha=0.8, max_rows=300)
    assert (report.estimate.n_rows, report.to_dict()) == (300, of_drawn.to_dict())
    of_all = rfsize.size(model("lightgbm"), FRESH, alpha=0.8)
    for enough in (len(FRESH), "auto"):
        assert rfsize.size(model("lightgbm"), FRESH, alpha=0.8, max_rows=enough).to_dict() == of_all.to_dict()


def test_auto_draws_a_hundred_thousand_rows() -> None:
    many = np.random.default_rng(3).normal(size=(101_000, 6))
    forest = model("lightgbm", n_trees=20)
    report, expected = (rfsize.size(forest, many, alpha=0.8, max_rows=of) for of in ("auto", 10**5))
    assert (report.estimate.n_rows, report.to_dict()) == (100_000, expected.to_dict())
