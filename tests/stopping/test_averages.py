"""Tables of averaged scores: where they stop, and what their files may say."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rfsize.certifying.certificate import Certificate, ClassCounts
from rfsize.exceptions import TableError
from rfsize.stopping.document import checksum
from rfsize.stopping.rules.averages import AverageStops
from rfsize.stopping.table import StopTable

COUNTS = ClassCounts(rows=(400, 100), disagreements=(0, 0), trees=(800, 200))


def average_table(needed: Any, *, cut: float = 0.5, n_classes: int = 2, **more: Any) -> StopTable:
    known = more or {"certificate": Certificate(COUNTS, 0.99, 0.95)}
    stops = AverageStops(np.array([math.inf, *needed]), cut)
    known["threshold"] = 0.5 if n_classes == 2 else None
    return StopTable(len(needed), n_classes, 0.99, stops=stops, **known)


def settled(scores: Any, needed: list[float], cut: float) -> tuple[int, int]:
    """Label and trees asked of one row, by a plain loop."""
    for asked in range(1, len(scores) + 1):
        mean = [sum(one[k] for one in scores[:asked]) / asked for k in range(len(scores[0]))]
        if len(mean) == 1:
            label, lead = int(mean[0] > cut), abs(mean[0] - cut)
        else:
            label = mean.index(max(mean))
            lead = mean[label] - max(mean[:label] + mean[label + 1 :])
        if lead >= needed[asked - 1]:
            return label, asked
    raise AssertionError("the last tree settles every row")


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 2**32),
    st.integers(1, 12),
    st.sampled_from([1, 2, 3, 5]),
    st.sampled_from([0.3, 1.0, 4.0]),
)
def test_rows_stop_where_a_plain_loop_stops(seed: int, n_trees: int, n_scores: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(-8, 9, (6, n_trees, n_scores)) / 8.0  # exact sums, and ties
    needed = [*np.sort(rng.gamma(1.0, scale, n_trees - 1))[::-1].tolist(), 0.0]
    table = average_table(needed, cut=0.125, n_classes=max(2, n_scores))
    labels, asked = table.apply(scores)
    expected = [settled(one.tolist(), needed, 0.125) for one in scores]
    assert list(zip(labels.tolist(), asked.tolist(), strict=True)) == expected


def test_what_a_table_of_scores_says_of_itself() -> None:
    table = average_table([1.0, 0.5, 0.0])
    assert (table.kind, table.voting, table.promise) == ("averages", "soft", "certified")
    assert table.expected_trees() == pytest.approx(2.0)
    assert table.expected_disagreement() == 0.0


@pytest.mark.parametrize(
    "scores", [np.zeros((4, 2, 1)), np.zeros((4, 3, 3)), np.zeros((4, 3, 1), dtype=str), np.zeros(3)]
)
def test_other_scores_are_refused(scores: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"goes by scores: .* shape \(n_rows, 3, 1\)"):
        average_table([1.0, 0.5, 0.0]).apply(scores)


def test_tables_survive_their_dictionary() -> None:
    for table in (
        average_table([1.0, 0.5, 0.0]),
        average_table([0.5, 0.0], certificate=Certificate(COUNTS, 0.99, 0.95), classes=("no", "yes")),
        average_table([0.5, 0.0], certificate=Certificate(COUNTS, 0.99, 0.9), classes=(1, 2.5)),
    ):
        restored = StopTable.from_dict(json.loads(json.dumps(table.to_dict())))
        assert restored == table
        assert restored.certificate == table.certificate
        assert restored.classes == table.classes


CERTIFICATE = average_table([1.0, 0.0]).to_dict()["certificate"]
FORGERIES: list[tuple[dict[str, Any], str]] = [
    ({"stops": {"needed": [1.0, 0.5], "cut": 0.5}}, "list of 3"),
    ({"stops": {"needed": [1.0, 1.5, 0.0], "cut": 0.5}}, "must fall"),
    ({"stops": {"needed": [1.0, 0.5, 0.1], "cut": 0.5}}, "end with 0"),
    ({"stops": {"needed": [1.0, 0.5, -1.0], "cut": 0.5}}, "end with 0"),
    ({"stops": {"needed": [1.0, 1, 0.0], "cut": 0.5}}, "type float"),
    ({"stops": {"needed": [1.0, 0.5, 0.0], "cut": None}}, "cut"),
    ({"stops": {"needed": [1.0, 0.5, 0.0]}}, "keys cut, needed"),
    ({"prior": [0.25] * 4}, "no prior"),
    ({"measured": [1.0, 0.0]}, "has the keys"),
    ({"nominal": 0.9}, "nominal"),
    ({"nominal": 2.0}, "nominal"),
    ({"certificate": None}, "has a certificate"),
    ({"certificate": {**CERTIFICATE, "disagreements": [2, 0]}}, "bound is 1.2"),
    ({"certificate": {**CERTIFICATE, "average": "macro"}}, "bound is 2.9"),
    ({"certificate": {**CERTIFICATE, "average": "mean"}}, "average"),
    ({"certificate": {**CERTIFICATE, "confidence": 0.999}}, "bound is 1.3"),
    ({"certificate": {**CERTIFICATE, "confidence": 1.0}}, "confidence"),
    ({"certificate": {**CERTIFICATE, "rows": [400]}}, "list of 2"),
    ({"certificate": {**CERTIFICATE, "rows": [2**62, 2**62]}}, "rows must"),
    ({"certificate": {**CERTIFICATE, "rows": [0, 0]}}, "not all be 0"),
    ({"certificate": {**CERTIFICATE, "disagreements": [-1, 0]}}, "disagreements must"),
    ({"certificate": {**CERTIFICATE, "trees": [399, 200]}}, "trees must"),
    ({"certificate": {**CERTIFICATE, "trees": [1201, 200]}}, "trees must"),
    ({"certificate": {**CERTIFICATE, "extra": 1}}, "must have the keys"),
    ({"certificate": []}, "must have the keys"),
    ({"alpha": 1.0}, "certifies an alpha of 1"),
    ({"classes": ["a"]}, "list of 2"),
    ({"classes": ["a", "a"]}, "different"),
    ({"classes": ["a", []]}, "numbers or text"),
    ({"classes": ["a", "b" * 10_001]}, "numbers or text"),
    ({"classes": [1, 10**30]}, "numbers or text"),
    ({"kind": "binary"}, "keys lower, upper"),
]


@pytest.mark.parametrize(("changes", "message"), FORGERIES, ids=range(len(FORGERIES)))
def test_forged_tables_are_refused(changes: dict[str, Any], message: str) -> None:
    document = {**average_table([1.0, 0.5, 0.0]).to_dict(), **changes}
    rest = {key: value for key, value in document.items() if key != "checksum"}
    with pytest.raises(TableError, match=message):
        StopTable.from_dict({**rest, "checksum": checksum(rest)})


def test_votes_have_no_certificate_without_the_alpha_that_they_were_built_with() -> None:
    document = {**StopTable.build(3).to_dict(), "certificate": CERTIFICATE}
    rest = {key: value for key, value in document.items() if key != "checksum"}
    with pytest.raises(TableError, match="nominal"):
        StopTable.from_dict({**rest, "checksum": checksum(rest)})
