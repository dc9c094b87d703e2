"""Weighted votes: the lossless stop against exact arithmetic, every way the rest could vote, and real AdaBoost."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import reference.stopping
from helpers.stop_tables import member_weights, weighted_tables
from rfsize.exceptions import TableError
from rfsize.stopping.document import checksum
from rfsize.stopping.rules.weighted import WeightedStops
from rfsize.stopping.table import StopTable

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SEEDS = st.integers(0, 2**32)


def some_rows(n_rows: int, n_members: int, n_classes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, n_classes, (n_rows, n_members))


def are_equal(weights: np.ndarray) -> bool:
    return np.unique(weights[weights > 0.0]).size == 1


@settings(max_examples=300)
@given(member_weights(), st.integers(2, 5), SEEDS)
def test_labels_are_those_of_all_members(weights: np.ndarray, n_classes: int, seed: int) -> None:
    votes = some_rows(20, len(weights), n_classes, seed)
    labels, asked = StopTable.lossless(weights, n_classes=n_classes).apply(votes)
    for row, label, members in zip(votes.tolist(), labels.tolist(), asked.tolist(), strict=True):
        if not are_equal(weights):
            assert label == reference.stopping.weighted_vote(weights.tolist(), row, n_classes)
        assert (
            reference.stopping.weighted_stop(weights.tolist(), row, n_classes)[1]
            <= members
            <= np.count_nonzero(weights)
        )
    assert labels.dtype == asked.dtype == np.int64


@settings(max_examples=200)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=12).filter(any), st.sampled_from([2, 3, 5]), SEEDS)
def test_whole_weights_stop_as_early_as_can_be(weights: list[int], n_classes: int, seed: int) -> None:
    """Their sums are exact, those of -1/(K - 1) as well, so nothing is kept for rounding."""
    votes = some_rows(20, len(weights), n_classes, seed)
    labels, asked = StopTable.lossless(weights, n_classes=n_classes).apply(votes)
    expected = [
        reference.stopping.weighted_stop([float(weight) for weight in weights], row, n_classes)
        for row in votes.tolist()
    ]
    assert list(zip(labels.tolist(), asked.tolist(), strict=True)) == expected


@settings(max_examples=100)
@given(st.lists(st.floats(0.01, 3.0), min_size=2, max_size=10), st.integers(2, 5), SEEDS)
def test_rounding_costs_no_members(weights: list[float], n_classes: int, seed: int) -> None:
    """Where no lead comes near the remaining weight, as with weights at random, no more members are asked."""
    generator = np.random.default_rng(seed)
    shaken = np.array(weights) * generator.uniform(0.5, 1.0, len(weights))
    votes = generator.integers(0, n_classes, (20, len(weights)))
    _, asked = StopTable.lossless(shaken, n_classes=n_classes).apply(votes)
    assert asked.tolist() == [
        reference.stopping.weighted_stop(shaken.tolist(), row, n_classes)[1] for row in votes.tolist()
    ]


@settings(max_examples=60)
@given(member_weights(largest=6), st.integers(2, 3), SEEDS)
def test_no_votes_of_the_rest_would_change_the_label(weights: np.ndarray, n_classes: int, seed: int) -> None:
    table = StopTable.lossless(weights, n_classes=n_classes)
    assert isinstance(table.stops, WeightedStops)
    for row in some_rows(3, len(weights), n_classes, seed):
        (label,), (members,) = table.apply(row[None])
        rest = [member for member in range(len(weights)) if member not in table.stops.order[:members]]
        for votes in product(range(n_classes), repeat=len(rest)):
            row[rest] = votes
            final = table.stops.winner(row[None], n_classes)[0]
            assert final == label
            if not are_equal(weights):
                assert final == reference.stopping.weighted_vote(weights.tolist(), row.tolist(), n_classes)


@settings(max_examples=60)
@given(st.floats(1e-6, 100.0), st.integers(1, 40), st.integers(2, 6), SEEDS)
def test_equal_weights_are_a_plain_vote(weight: float, n_members: int, n_classes: int, seed: int) -> None:
    votes = some_rows(50, n_members, n_classes, seed)
    plain = StopTable.build(n_members, alpha=1.0, n_classes=n_classes)
    weighted = StopTable.lossless(np.full(n_members, weight), n_classes=n_classes)
    for ours, theirs in zip(weighted.apply(votes), plain.apply(votes), strict=True):
        assert np.array_equal(ours, theirs)


def test_members_are_asked_from_the_heaviest_down() -> None:
    table = StopTable.lossless([0.5, 3.0, 0.0, 1.0, 3.0, 1.0])
    assert isinstance(table.stops, WeightedStops)
    assert table.stops.order.tolist() == [1, 4, 3, 5, 0, 2]
    # Members 1 and 4 outweigh the rest; where they part, it takes all but the last.
    labels, asked = table.apply([[0, 1, 0, 0, 1, 0], [0, 1, 1, 0, 0, 0], [1, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    assert labels.tolist() == [1, 0, 1, 1]
    assert asked.tolist() == [2, 4, 4, 5]
    labels, asked = StopTable.lossless([1.0, 5.0, 1.0]).apply([[0, 1, 0]])
    assert (labels.tolist(), asked.tolist()) == ([1], [1])


def test_rounding_decides_as_in_adaboost() -> None:
    """Tenths whose exact sums are level, or in the other order than those of AdaBoost's arithmetic."""
    generator = np.random.default_rng(0)
    decided = 0
    for n_classes in (2, 3, 4):
        for _ in range(60):
            weights = generator.integers(1, 8, 9) * 0.1
            votes = generator.integers(0, n_classes, (20, 9))
            labels, _ = StopTable.lossless(weights, n_classes=n_classes).apply(votes)
            for row, label in zip(votes.tolist(), labels.tolist(), strict=True):
                assert label == reference.stopping.weighted_vote(weights.tolist(), row, n_classes)
                decided += label != reference.stopping.weighted_stop(weights.tolist(), row, n_classes)[0]
    assert decided > 50


@pytest.fixture(scope="module")
def boosted(data: Any) -> dict[str, AdaBoostClassifier]:
    """AdaBoost of two and three classes, of stumps and deeper trees, one of which ends early, and of no trees."""
    settings: dict[str, Any] = {"random_state": 0}
    return {
        "stumps": AdaBoostClassifier(n_estimators=60, **settings).fit(data.X, data.y),
        "three": AdaBoostClassifier(n_estimators=60, **settings).fit(data.X, np.array(["a", "b", "c"])[data.three]),
        "deep": AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), n_estimators=40, **settings).fit(
            data.X, data.three
        ),
        "early": AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), n_estimators=90, **settings).fit(
            data.X[:60], (data.X[:60, 0] > 0.3).astype(int) + (data.X[:60, 1] * data.X[:60, 2] > 0)
        ),
        "linear": AdaBoostClassifier(LogisticRegression(), n_estimators=20, **settings).fit(data.X, data.three),
    }


def member_votes(model: AdaBoostClassifier, X: np.ndarray) -> np.ndarray:
    """Class index that each member votes for."""
    return np.stack([np.searchsorted(model.classes_, member.predict(X)) for member in model.estimators_], axis=1)


@pytest.mark.parametrize("name", ["stumps", "three", "deep", "early", "linear"])
def test_labels_of_adaboost(name: str, boosted: dict[str, AdaBoostClassifier], data: Any) -> None:
    model, X = boosted[name], np.concatenate([data.X, data.fresh])
    weights = model.estimator_weights_[: len(model.estimators_)]
    table = StopTable.lossless(weights, n_classes=model.n_classes_)
    labels, asked = table.apply(member_votes(model, X))
    assert np.array_equal(model.classes_[labels], model.predict(X))
    assert asked.max() <= len(model.estimators_)
    assert asked.mean() < 0.95 * len(model.estimators_)
    if name == "early":
        assert len(model.estimators_) < len(model.estimator_weights_)


@pytest.mark.parametrize("name", ["stumps", "three"])
def test_labels_of_adaboost_where_rounding_decides(
    name: str, boosted: dict[str, AdaBoostClassifier], data: Any
) -> None:
    """The framework's own arithmetic on weights whose sums are often level but for their rounding."""
    model, generator = boosted[name], np.random.default_rng(0)
    weights, votes = model.estimator_weights_.copy(), member_votes(model, data.X)
    try:
        for _ in range(5):
            model.estimator_weights_ = generator.integers(1, 4, weights.size) * 0.1
            table = StopTable.lossless(model.estimator_weights_, n_classes=model.n_classes_)
            assert np.array_equal(model.classes_[table.apply(votes)[0]], model.predict(data.X))
    finally:
        model.estimator_weights_ = weights


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(0), "found 0"),
        (np.ones(10_002), "1 to 10001 members, found 10002"),
        ([[1.0, 2.0]], r"shape \(1, 2\)"),
        (["1"], "dtype <U1"),
        ([True], "dtype bool"),
        (2.0, r"shape \(\)"),
        ([1.0, np.nan], "NaN or infinity; leave out"),
        ([1.0, np.inf], "NaN or infinity"),
        ([1.0, -0.5], r"found -0.5: .* turn its votes"),
        ([0.0, 0.0], "all 0.*alpha=1"),
        ([1.0, 1e301], "at most 1e.300"),
    ],
)
def test_bad_weights_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StopTable.lossless(weights)


def test_bad_classes_and_votes_are_refused() -> None:
    with pytest.raises(ValueError, match="n_classes"):
        StopTable.lossless([1.0, 2.0], n_classes=1)
    with pytest.raises(ValueError, match=r"shape \(n_rows, 2\)"):
        StopTable.lossless([1.0, 2.0]).apply([[0, 1, 0]])
    with pytest.raises(ValueError, match="from 0 to 1"):
        StopTable.lossless([1.0, 2.0]).apply([[0, 2]])
    assert StopTable.lossless([1.0, 2.0]).apply(np.empty((0, 2), dtype=int))[0].shape == (0,)


def test_what_the_table_promises() -> None:
    table = StopTable.lossless([1.0, 2.0, 3.5], n_classes=4)
    assert (table.alpha, table.prior, table.kind) == (1.0, None, "weighted")
    assert table.expected_disagreement() == 0.0
    with pytest.raises(ValueError, match="apply"):
        table.expected_trees()
    assert repr(table) == "StopTable(3 weighted members, 4 classes, lossless)"


def test_large_tables() -> None:
    weights = np.random.default_rng(0).random(10_001)
    votes = some_rows(20, 10_001, 3, 0)
    labels, _ = StopTable.lossless(weights, n_classes=3).apply(votes)
    assert labels.tolist() == [reference.stopping.weighted_vote(weights.tolist(), row, 3) for row in votes.tolist()]


def test_plot_names_what_it_shows() -> None:
    table = StopTable.lossless([0.5, 3.0, 0.0, 1.0])
    figure, ax = plt.subplots()
    assert table.plot(ax) is ax
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any("remaining weight" in label for label in labels)
    assert ax.get_xlim() == (0.0, 3.0)
    plt.close(figure)


@settings(max_examples=60)
@given(weighted_tables, SEEDS)
def test_tables_survive_their_dictionary(table: StopTable, seed: int) -> None:
    restored = StopTable.from_dict(json.loads(json.dumps(table.to_dict())))
    votes = some_rows(20, table.n_trees, table.n_classes, seed)
    assert restored == table
    assert repr(restored) == repr(table)
    for ours, theirs in zip(restored.apply(votes), table.apply(votes), strict=True):
        assert np.array_equal(ours, theirs)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_files_are_refused(tmp_path: Path, place: float, byte: int, cut: bool) -> None:
    table, path = StopTable.lossless([0.5, 3.0, 0.0, 1.7], n_classes=3), tmp_path / "damaged.json"
    table.save(path)
    content = bytearray(path.read_bytes())
    at = int(place * len(content))
    content[at] = byte
    path.write_bytes(content[:at] if cut else content)
    try:
        assert StopTable.load(path) == table
    except TableError:
        return


STOPS = {"weights": [0.5, 3.0, 0.0, 1.7], "against": -0.5, "total": 5.2}

FORGERIES = [
    ({"kind": "leaders"}, "kind"),
    ({"kind": "averages"}, "keys cut, needed"),
    ({"alpha": 0.99}, "alpha of 1"),
    ({"prior": [0.2] * 5}, "no prior"),
    ({"measured": [1.0, 0.0]}, "measured"),
    ({"n_trees": 5}, "list of 5"),
    ({"n_classes": 4}, "against"),
    ({"stops": {**STOPS, "weights": [1.0, 2.0]}}, "list of 4"),
    ({"stops": {**STOPS, "weights": [1, 2, 3, 4]}}, "type float"),
    ({"stops": {**STOPS, "weights": [1.0, -2.0, 3.0, 3.2]}}, "between 0"),
    ({"stops": {**STOPS, "weights": [0.0] * 4}}, "not all be 0"),
    ({"stops": {**STOPS, "weights": [1e301] * 4}}, "between 0"),
    ({"stops": {**STOPS, "against": -1.0}}, "against"),
    ({"stops": {**STOPS, "against": None}}, "type float"),
    ({"stops": {**STOPS, "total": 5.1}}, "total"),
    ({"stops": {**STOPS, "total": 1e9}}, "total"),
    ({"stops": {**STOPS, "total": 0.0}}, "total"),
    ({"stops": {**STOPS, "order": [1, 3, 0]}}, "keys"),
    ({"stops": [1.0]}, "keys"),
]


@pytest.mark.parametrize(("changes", "message"), FORGERIES, ids=range(len(FORGERIES)))
def test_forged_tables_are_refused(changes: dict[str, Any], message: str) -> None:
    document = {**StopTable.lossless(STOPS["weights"], n_classes=3).to_dict(), **changes}
    document["checksum"] = checksum({key: value for key, value in document.items() if key != "checksum"})
    with pytest.raises(TableError, match=message):
        StopTable.from_dict(document)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_files_with_weights_that_are_no_numbers_are_refused(number: str, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    StopTable.lossless([0.5, 3.0, 1.7]).save(path)
    path.write_text(path.read_text().replace("1.7", number))
    with pytest.raises(TableError):
        StopTable.load(path)
