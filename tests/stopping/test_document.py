"""Saved stop tables: what survives, and what is refused."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.damaged import damaged_values, some
from helpers.stop_tables import some_votes, tables
from rfsize.exceptions import TableError
from rfsize.stopping.document import checksum
from rfsize.stopping.table import StopTable


@settings(deadline=None, max_examples=60)
@given(tables)
def test_tables_survive_their_dictionary(table: StopTable) -> None:
    restored = StopTable.from_dict(json.loads(json.dumps(table.to_dict())))
    assert restored == table
    assert repr(restored) == repr(table)


SAVED = [
    {"n_trees": 21, "prior": some_votes(2)},
    {"n_trees": 21, "alpha": 0.9},
    {"n_trees": 31, "alpha": 1.0},
    {"n_trees": 9, "n_classes": 3},
    {"n_trees": 15, "prior": some_votes(4)},
    {"n_trees": 15, "n_classes": 5, "alpha": 1.0},
]


@pytest.fixture(scope="module")
def saved() -> list[StopTable]:
    """Tables of every kind of votes."""
    return [StopTable.build(**arguments) for arguments in SAVED]


def test_saved_tables_load(saved: list[StopTable], tmp_path: Path) -> None:
    for table in saved:
        table.save(tmp_path / "table.json")
        assert StopTable.load(tmp_path / "table.json") == table
    with pytest.raises(FileNotFoundError):
        StopTable.load(tmp_path / "none.json")


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_are_refused(data: st.DataObject, saved: list[StopTable], tmp_path: Path) -> None:
    table = data.draw(st.sampled_from(saved))
    path = tmp_path / "damaged.json"
    table.save(path)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    try:
        loaded = StopTable.load(path)
    except TableError:
        return
    assert loaded == table


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_altered_values_are_refused_or_make_a_table(seed: int, saved: list[StopTable]) -> None:
    """Signed again, as somebody hostile would."""
    rng = np.random.default_rng(seed)
    document = damaged_values(some(rng, saved).to_dict(), rng)
    rest = {key: value for key, value in document.items() if key != "checksum"}
    with contextlib.suppress(ValueError):  # what is not finite cannot be signed
        document = {**rest, "checksum": checksum(rest)}
    try:
        table = StopTable.from_dict(document)
    except TableError:
        return
    votes = rng.integers(0, table.n_classes, (5, table.n_trees))
    labels, asked = table.apply(votes)
    assert ((labels >= 0) & (labels < table.n_classes) & (asked >= 1) & (asked <= table.n_trees)).all()
    repr(table)


HOSTILE_BYTES = [
    b"",
    b"\xff\xfe\x00",
    b"[" * 200_000,
    b'{"a":' * 200_000,
    b"[]",
    b"null",
    b"1" * 100_000,
    b"NaN",
    b'{"version": Infinity}',
    b'{"format":"rfsize.StopTable","format":"rfsize.StopTable"}',
]


@pytest.mark.parametrize("content", HOSTILE_BYTES, ids=range(len(HOSTILE_BYTES)))
def test_hostile_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "hostile.json").write_bytes(content)
    with pytest.raises(TableError):
        StopTable.load(tmp_path / "hostile.json")


def test_huge_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    StopTable.build(21).save(tmp_path / "table.json")
    monkeypatch.setattr("rfsize.stopping.document._LARGEST_FILE", 100)
    with pytest.raises(TableError, match="larger than"):
        StopTable.load(tmp_path / "table.json")


def forged(arguments: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A document with changes, and a checksum that fits them."""
    document = {**StopTable.build(**arguments).to_dict(), **changes}
    rest = {key: value for key, value in document.items() if key != "checksum"}
    return {**rest, "checksum": checksum(rest)}


BOUNDS = StopTable.build(21).to_dict()["stops"]
TRAILING = {"lower": [-1] + [0] * 10 + list(range(11)), "upper": [1] + [1] * 10 + list(range(1, 12))}

CERTIFICATE = {
    "rows": [400, 100],
    "disagreements": [0, 0],
    "trees": [800, 200],
    "confidence": 0.95,
    "average": "micro",
    "forest": None,
}

FORGERIES = [
    ({"n_trees": 21}, {"format": "other"}, "another kind of file"),
    ({"n_trees": 21}, {"version": 4}, "reads version 5"),
    ({"n_trees": 21}, {"version": True}, "version"),
    ({"n_trees": 21}, {"version": 10**400}, "more than 64 bits"),
    ({"n_trees": 21}, {"extra": 1}, "has the keys"),
    ({"n_trees": 21}, {"n_trees": 21.0}, "n_trees"),
    ({"n_trees": 21}, {"n_trees": 10**30}, "n_trees"),
    ({"n_trees": 21}, {"n_classes": 3}, "kind"),
    ({"n_trees": 21}, {"alpha": 1}, "alpha"),
    ({"n_trees": 21}, {"alpha": 0.0}, "alpha"),
    ({"n_trees": 21}, {"kind": ["binary"]}, "kind"),
    ({"n_trees": 21}, {"prior": [1.0] * 22}, "sum to 1"),
    ({"n_trees": 21}, {"prior": [1] * 22}, "type float"),
    ({"n_trees": 21}, {"prior": [0.5]}, "list of 22"),
    ({"n_trees": 21}, {"prior": [-1.0, 2.0] + [0.0] * 20}, "at least 0"),
    ({"n_trees": 21}, {"stops": []}, "stops"),
    ({"n_trees": 21}, {"stops": {"lower": [0], "upper": [0]}}, "list of 22"),
    ({"n_trees": 21}, {"stops": {**BOUNDS, "upper": [10**30] * 22}}, "64 bits"),
    ({"n_trees": 21}, {"stops": {**BOUNDS, "upper": [True] * 22}}, "type int"),
    ({"n_trees": 21}, {"stops": {**BOUNDS, "lower": [5] * 22}}, "bounds"),
    ({"n_trees": 21}, {"stops": {**BOUNDS, "lower": [-1] * 22}}, "bounds"),
    ({"n_trees": 21}, {"stops": TRAILING}, "half"),
    ({"n_trees": 21}, {"nominal": 0.9}, "nominal"),
    ({"n_trees": 21}, {"certificate": {**CERTIFICATE, "disagreements": [9, 0]}, "nominal": 0.9}, "promises"),
    ({"n_trees": 15, "n_classes": 4}, {"stops": {"upper": [1] * 16}}, "half"),
    ({"n_trees": 15, "n_classes": 4}, {"stops": {"upper": [0] * 16}}, "half"),
    ({"n_trees": 15, "n_classes": 4}, {"stops": {"upper": [17] * 16}}, "at most"),
]


@pytest.mark.parametrize(("arguments", "changes", "message"), FORGERIES, ids=range(len(FORGERIES)))
def test_forged_tables_are_refused(arguments: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        StopTable.from_dict(forged(arguments, **changes))


def test_a_changed_figure_breaks_thechecksum() -> None:
    document = StopTable.build(21).to_dict()
    with pytest.raises(TableError, match="checksum"):
        StopTable.from_dict({**document, "alpha": 0.98})


@pytest.mark.parametrize("document", [None, [], {}, {1: 2}, {"format": {}}, "table"])
def test_other_documents_are_refused(document: Any) -> None:
    with pytest.raises(TableError, match="has no format"):
        StopTable.from_dict(document)
