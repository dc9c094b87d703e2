"""Stop tables of boosted models, against plain sums of leaves, and the frameworks' own first iterations."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from contract.test_boosted import KINDS as ALL
from contract.test_boosted import SKLEARN, Boosted, trained
from contract.test_boosted_cuts import FRESH, LABELS, NUMBERS, label_of
from distributed import Client
from scipy.stats import binom
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import FixedThresholdClassifier

import reference.stopping
import rfsize
from helpers.boosted import CLASSIFIERS, STOPPING, by_first_iterations, classifier, stopped_early
from helpers.in_c import InC
from rfsize import StopTable

ALPHA, SURE = 0.9, 0.9
CERTIFIED: dict[str, Any] = {"alpha": ALPHA, "confidence": SURE}
SETS_SCALE = np.arange(len(FRESH)) % 10 == 0
pytestmark = pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")


def of_kinds(*kinds: tuple[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", kinds, ids=": ".join)


KINDS = of_kinds(*LABELS)


@cache
def table_of(*kind: str) -> StopTable:
    return StopTable.calibrate(trained(*kind).native, FRESH, **CERTIFIED)


def partial_scores(boosted: Boosted, rows: np.ndarray) -> np.ndarray:
    """Scores of the first 1, 2, … trees (of each class), shape (n_rows, T, n_scores), one tree after another."""
    model = boosted.model
    trees, value = model.ensemble, model.ensemble.nodes.value
    leaves = model.apply(next(model.open(rows).chunks()).read(0, len(rows))).reshape(len(rows), -1)
    added = value[leaves].reshape(len(rows), -1, trees.trees_per_iteration * value.shape[1])
    base = np.array(trees.conventions.base or 0.0, dtype=value.dtype)
    sums, partial, weight = np.zeros((len(rows), added.shape[2]), dtype=value.dtype) + base, [], 0.0
    for number in range(added.shape[1]):
        sums = sums + added[:, number]
        weight += float(np.abs(added[:, number]).max()) if trees.conventions.divisor != 1.0 else 0.0
        partial.append(sums / (weight or 1.0))
    return np.stack(partial, axis=1)[:, :, -trees.n_scores :]


def cut_of(boosted: Boosted) -> float:
    return boosted.model.raw_threshold(0.5) if boosted.model.n_scores == 1 else 0.0


# Labels


@KINDS
def test_labels_are_those_of_partial_sums(kind: tuple[str, str], tmp_path: Path) -> None:
    boosted, table = trained(*kind), table_of(*kind)
    score, margin = partial_scores(boosted, FRESH), table.stops.margin
    label, n_used = reference.stopping.by_lead(score, margin, cut_of(boosted))
    own = label_of(boosted.predict(FRESH))
    compiled = rfsize.compile(boosted.native, table)
    compiled.save(tmp_path / "packed.rfsize")
    compiled.save(tmp_path / "plain.rfsize", compress=False)
    loaded = (rfsize.load(tmp_path / "packed.rfsize"), rfsize.load(tmp_path / "plain.rfsize", mmap=True))
    for fast in (compiled, *loaded):
        labels, used = fast.predict_labels(FRESH, return_trees=True)
        np.testing.assert_array_equal(labels, compiled.classes[label])
        np.testing.assert_array_equal(used, n_used)
        for row in range(20):
            assert fast.predict_labels(FRESH[[row]], return_trees=True) == (labels[row], used[row])
    for again, used in (InC(compiled, tmp_path).labels(boosted.coded(FRESH)), table.apply(score)):
        np.testing.assert_array_equal(again, label)
        np.testing.assert_array_equal(used, n_used)
    counts = table.certificate.counts
    assert sum(counts.rows) == (~SETS_SCALE).sum()
    assert sum(counts.disagreements) == (labels != own)[~SETS_SCALE].sum()
    assert sum(counts.trees) == n_used[~SETS_SCALE].sum()


@KINDS
def test_margins_are_the_boldest_that_rows_certify(kind: tuple[str, str]) -> None:
    boosted, table = trained(*kind), table_of(*kind)
    score, cut = partial_scores(boosted, FRESH), cut_of(boosted)
    schedule = reference.stopping.lead_schedule(score[SETS_SCALE], cut)
    moves = schedule[:-1] > 1e-3 * schedule[0]
    factor = table.stops.margin[1:-1][moves] / schedule[:-1][moves]
    np.testing.assert_allclose(factor, factor[0], rtol=1e-4)
    final = reference.stopping.by_lead(score[:, -1:], np.zeros(2), cut)[0]

    def fails(ratio: float) -> bool:
        label, _ = reference.stopping.by_lead(score, table.stops.margin * ratio, cut)
        differs = (label != final)[~SETS_SCALE]
        return bool(binom.cdf(differs.sum(), differs.size, 1 - ALPHA) > 1 - SURE)

    step = (1e5 * score.shape[1]) ** (1 / 2047)  # from each factor to the next
    assert not any(fails(step**more) for more in range(0, 200, 5))
    assert fails(1 / step) or table.expected_trees() == 8.0


@of_kinds(("lightgbm", "gbdt"), ("xgboost", "parallel trees"), ("sklearn", "adaboost"))
def test_thresholds(kind: tuple[str, str]) -> None:
    boosted = trained(*kind)
    table = StopTable.calibrate(boosted.native, FRESH, threshold=0.3, **CERTIFIED)
    compiled, whole = rfsize.compile(boosted.native, table), rfsize.compile(boosted.native, threshold=0.3)
    label, n_used = compiled.predict_labels(FRESH, return_trees=True)
    own = whole.predict_proba(FRESH)[:, 1] > 0.3
    assert table.certificate.disagreements == ((label == compiled.classes[1]) != own)[~SETS_SCALE].sum()
    assert sum(table.certificate.counts.trees) == n_used[~SETS_SCALE].sum() < 0.9 * whole.n_trees * (~SETS_SCALE).sum()
    with pytest.raises(ValueError, match="threshold"):
        rfsize.compile(boosted.native, table, threshold=0.5)


def assert_cut_and_stopped_as_counted(model: Any, n_trees: int) -> None:
    """Where the size, the cut and a table of a model take so many iterations as all."""
    report, table = rfsize.size(model, FRESH, **CERTIFIED), StopTable.calibrate(model, FRESH, **CERTIFIED)
    assert report.available == table.n_trees == n_trees
    assert max(report.n_trees, table.expected_trees()) < n_trees
    own, small = model.predict(FRESH), rfsize.truncate(model, n_trees=report)
    assert report.certificate.disagreements == (small.predict(FRESH) != own).sum()
    stopped = rfsize.compile(model, table).predict(FRESH)
    assert table.certificate.disagreements == (stopped != own)[~SETS_SCALE].sum()


def test_threshold_of_a_wrapped_model() -> None:
    inside = GradientBoostingClassifier(n_estimators=40, random_state=0)
    model = FixedThresholdClassifier(inside, threshold=0.3, pos_label="yes").fit(*SKLEARN["binary"][1:])
    assert_cut_and_stopped_as_counted(model, 40)


@pytest.mark.parametrize("name", STOPPING)
def test_only_iterations_up_to_the_best_count(name: str) -> None:
    model, best = stopped_early(name, *SKLEARN["three, zero"][1:])
    assert best < 200
    assert_cut_and_stopped_as_counted(model, best)


# Probabilities and numbers


@of_kinds(*NUMBERS)
def test_numbers_are_those_of_the_first_iterations(kind: tuple[str, str], tmp_path: Path) -> None:
    boosted = trained(*kind)
    predicted = np.stack([boosted.predict(FRESH, n) for n in range(1, boosted.model.n_trees + 1)], axis=1)
    apart = np.abs(predicted.astype(float) - predicted[:, -1:].astype(float))
    tolerance = float(np.quantile(apart[:, 7], ALPHA))
    table = StopTable.calibrate(boosted.native, FRESH, metric="scores", tolerance=tolerance, **CERTIFIED)
    assert_first_iterations(boosted.native, table, predicted, apart > tolerance, "predict", tmp_path)
    score = partial_scores(boosted, FRESH).astype(float)
    numbers, trees = table.apply(score)
    predicted, n_used = rfsize.compile(boosted.native, table).predict(FRESH, return_trees=True)
    np.testing.assert_array_equal(n_used, trees)
    np.testing.assert_allclose(numbers[:, 0], predicted, rtol=1e-5)
    left = reference.stopping.boosted_left(score, score[SETS_SCALE], table.stops.link.steepness)[:, 7]
    np.testing.assert_array_equal(trees == 8, left <= table.stops.limit)


def assert_first_iterations(
    model: Any, table: StopTable, predicted: np.ndarray, differs: np.ndarray, name: str, folder: Path
) -> None:
    """Rows get what the model predicts by its first iterations, and the certificate counts those that differ."""
    compiled, rows = rfsize.compile(model, table), np.arange(len(FRESH))
    compiled.save(folder / "boosted.rfsize")
    for fast in (compiled, rfsize.load(folder / "boosted.rfsize")):
        answers, n_used = getattr(fast, name)(FRESH, return_trees=True)
        np.testing.assert_allclose(answers, predicted[rows, n_used - 1], rtol=1e-6)
    stops = differs[rows, n_used - 1][~SETS_SCALE]
    assert (table.certificate.disagreements, table.certificate.rows) == (stops.sum(), stops.size)
    assert sum(table.certificate.counts.trees) == n_used[~SETS_SCALE].sum() < 0.95 * table.n_trees * stops.size
    assert binom.cdf(stops.sum(), stops.size, 1 - ALPHA) <= 1 - SURE
    assert set(n_used.tolist()) <= {*range(8, table.n_trees, 8), table.n_trees}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_those_of_the_first_iterations(name: str, n_classes: int, tmp_path: Path) -> None:
    model = classifier(name, 60, *SKLEARN["binary" if n_classes == 2 else "three, zero"][1:])
    probability = by_first_iterations(model, FRESH, 60)
    apart = np.abs(probability.astype(float) - probability[:, -1:].astype(float)).max(axis=2)
    tolerance = float(np.quantile(apart[:, 31], ALPHA))
    table = StopTable.calibrate(model, FRESH, metric="probabilities", tolerance=tolerance, **CERTIFIED)
    assert_first_iterations(model, table, probability, apart > tolerance, "predict_proba", tmp_path)


@of_kinds(*(kind for kind in ALL if not kind[1].startswith("rf")))
def test_certificates_count_what_compiled_models_predict(kind: tuple[str, str]) -> None:
    boosted = trained(*kind)
    options = {"metric": "probabilities" if boosted.model.classes.size else "scores", "tolerance": 0.1}
    table = StopTable.calibrate(boosted.native, FRESH, **options, **CERTIFIED, **boosted.missing)
    compiled, whole = (rfsize.compile(boosted.native, of, **boosted.missing) for of in (table, None))
    name = "predict_proba" if table.metric == "probabilities" else "predict"
    answers, n_used = getattr(compiled, name)(FRESH, return_trees=True)
    apart = np.abs(answers.astype(float) - getattr(whole, name)(FRESH)).reshape(len(FRESH), -1).max(axis=1)
    assert table.certificate.disagreements == (apart > 0.1)[~SETS_SCALE].sum()
    assert sum(table.certificate.counts.trees) == n_used[~SETS_SCALE].sum()


# Which model, and which rows


def test_a_table_is_of_one_model() -> None:
    native, table = trained("lightgbm", "gbdt").native, table_of("lightgbm", "gbdt")
    of_rf = StopTable.calibrate(trained("lightgbm", "rf").native, FRESH, alpha=0.6)
    for other, given, names in (
        (trained("lightgbm", "dart").native, table, "another forest"),
        (trained("lightgbm", "rf").native, table, "boosted"),
        (native, of_rf, "boosted"),
        (native, StopTable.build(12, alpha=0.9), "boosted"),
        (trained("sklearn", "adaboost").native, StopTable.lossless(np.ones(15)), "boosted"),
    ):
        with pytest.raises(ValueError, match=names):
            rfsize.compile(other, given)


def test_rows_on_workers() -> None:
    model = trained("lightgbm", "multiclass").native
    near: dict[str, Any] = {"metric": "probabilities", "tolerance": 0.1}
    with Client(processes=False, dashboard_address=None):
        there = da.from_array(FRESH, chunks=(230, -1))
        assert rfsize.size(model, there, **CERTIFIED).to_dict() == rfsize.size(model, FRESH, **CERTIFIED).to_dict()
        for options in ({}, near):
            tables = [StopTable.calibrate(model, rows, **options, **CERTIFIED) for rows in (there, FRESH)]
            assert tables[0] == tables[1]


@of_kinds(("lightgbm", "gbdt"), ("sklearn", "binary"), ("sklearn", "three by histogram"))
def test_training_rows_certify_nothing(kind: tuple[str, str]) -> None:
    boosted = trained(*kind)
    for call in (rfsize.truncate, StopTable.calibrate):
        with pytest.raises(ValueError, match="trained on"):
            call(boosted.native, boosted.rows, **CERTIFIED)


def test_as_many_rows_as_the_error_says_certify() -> None:
    native = trained("lightgbm", "gbdt").native
    with pytest.raises(ValueError, match="333 rows"):
        StopTable.calibrate(native, FRESH[:332])
    assert StopTable.calibrate(native, FRESH[:333]).certificate.rows == 299
