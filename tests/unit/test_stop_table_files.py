"""Files of stop tables hold everything, and whatever else stands in a file is refused or harmless."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rfsize
from helpers import zoo
from helpers.damaged import damaged_bytes, damaged_values, signed
from rfsize import StopTable
from rfsize.exceptions import FileError

TABLES: dict[str, Callable[[], StopTable]] = {  # one of every kind
    "uniform": lambda: StopTable.build(21, alpha=0.9),
    "one tree": lambda: StopTable.build(1),
    "votes": lambda: StopTable.build(31, alpha=0.9, prior=rfsize.Votes([[30, 7], [2, 35], [15, 16]], n_trees=100)),
    "lossless": lambda: StopTable.build(31, alpha=1.0),
    "three classes": lambda: StopTable.build(9, n_classes=3),
    "weights": lambda: StopTable.lossless([0.5, 3.0, 0.0, 1.7], n_classes=3),
    "many classes": lambda: StopTable.build(9, alpha=0.9, n_classes=30),
    "certified votes": lambda: zoo.calibrated("random forest", voting="hard"),
    "certified votes of three": lambda: zoo.calibrated("random forest of three", voting="hard"),
    "averages": lambda: zoo.calibrated("lgb classifier", threshold=0.3),
    "averages of three": lambda: zoo.calibrated("random forest of three", average="macro"),
    "sums": lambda: zoo.calibrated("adaboost, stumps"),
    "sums of three": lambda: zoo.calibrated("adaboost"),
    "boosted probabilities": lambda: zoo.calibrated("adaboost", metric="probabilities", tolerance=0.1),
    "probabilities": lambda: zoo.calibrated("xgb softprob", metric="probabilities", tolerance=0.1),
    "scores": lambda: zoo.calibrated("lgb poisson", metric="scores", tolerance=0.5),
}


@cache
def table_of(name: str) -> StopTable:
    return TABLES[name]()


def outputs_for(table: StopTable, seed: int = 0) -> np.ndarray:
    """What trees may say: votes, or scores."""
    rng = np.random.default_rng(seed)
    if table.voting == "hard":
        return rng.integers(0, table.n_classes, (20, table.n_trees))
    has_cut = table.kind == "spread" or "cut" in table.to_dict()["stops"]  # of two classes, or there are two scores
    return rng.normal(size=(20, table.n_trees, 1 if table.n_classes <= 2 and has_cut else table.n_classes))


def same_answers(table: StopTable, other: StopTable) -> bool:
    outputs = outputs_for(table)
    return all(np.array_equal(*both) for both in zip(table.apply(outputs), other.apply(outputs), strict=True))


@pytest.mark.parametrize("name", list(TABLES))
def test_a_file_holds_everything(name: str, tmp_path: Path) -> None:
    table = table_of(name)
    table.save(tmp_path / "table.json")
    for again in (
        StopTable.load(tmp_path / "table.json"),
        StopTable.from_dict(json.loads(json.dumps(table.to_dict()))),
    ):
        assert again == table
        assert repr(again) == f"{repr(table)[:-1]}, as claimed by the file)"
        assert (again.certificate, again.classes) == (table.certificate, table.classes)
        assert same_answers(again, table)


def test_checksums_are_as_here() -> None:
    """Or else the tests below would be refused for their checksums."""
    for table in map(table_of, TABLES):
        assert signed(table.to_dict()) == table.to_dict()


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(list(TABLES)))
def test_damaged_files_are_refused(seed: int, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path, rng = tmp_path_factory.getbasetemp() / "damaged.json", np.random.default_rng(seed)
    path.write_bytes(damaged_bytes(json.dumps(table_of(name).to_dict()).encode(), rng))
    try:
        assert StopTable.load(path) == table_of(name)
    except FileError:
        return


@settings(max_examples=400)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(list(TABLES)))
def test_altered_values_are_refused_or_harmless(seed: int, name: str) -> None:
    """Signed again, as somebody hostile would."""
    document = damaged_values(table_of(name).to_dict(), np.random.default_rng(seed))
    with contextlib.suppress(ValueError):  # what is not finite cannot be signed
        document = signed(document)
    try:
        table = StopTable.from_dict(document)
    except FileError:
        return
    answer, n_used = table.apply(outputs_for(table, seed))
    assert ((n_used >= 1) & (n_used <= table.n_trees)).all()
    assert (
        ((answer >= 0) & (answer < table.n_classes)).all() if table.metric == "labels" else not np.isnan(answer).any()
    )
    assert repr(table)


Values = dict[str, list[Any]]
ONES = [1.0] * (zoo.TREES - 1)
SPREAD: Values = {"limit": [-1.0], "pooled": [[], [0.1], [-0.1] * 3], "weight": [0.0, -1.0], "every": [0, 2**63]}
SPREAD |= {"link": ["cube", None], "slope": [0.0, -1.0, "1"], "metric": ["labels"], "tolerance": [0.0]}
BOOSTED: Values = {"left": [[], [-1.0, *ONES]], "unit": [None, [-1.0, *ONES]]}
BOOSTED |= {"share": [[0.0, *ONES], [*ONES, 0.5], [2.0, *ONES]]}
EXPECTED = [[[1.0, 0.0, 3.0]], [[0.6, 0.0, 3.0], [0.5, 0.0, 3.0]], [[0.5, 0.0, 3.0], [0.5, -0.1, 3.0]]]
EXPECTED += [[[0.5, 0.0, 3.0], [0.5, 0.1, 22.0]], [[0.5, 0.0, 3.0], [0.5, None, None]]]
UNIFORM: Values = {"format": ["other"], "version": [5], "n_trees": [10**30], "n_classes": [1], "alpha": [0.0]}
UNIFORM |= {"kind": ["weighted"], "prior": [None, "flat"], "threshold": [1.0], "expected": EXPECTED}
UNIFORM |= {"stops": [{"low": [5] * 21, "high": [6] * 21}, {"low": [-1] * 20 + [10], "high": [1] * 20 + [11]}]}
WEIGHTS = [[0.5, 3.0, 0.0], [-1.0, 3.0, 0.0, 1.7], [0.0] * 4]
AVERAGES: Values = {"alpha": [1.0, 0.999], "certificate": [None], "threshold": [None], "prior": ["given"]}
AVERAGES |= {"classes": [["a", "a"], ["a", []]], "expected": [[[0.5, 0.0, 3.0], [0.5, 0.0, 3.0]]]}
AVERAGES |= {"stops": [{"margin": margin, "cut": 0.5} for margin in ([1.0] * 21, [0.0] * 19 + [1.0, 0.0])]}
AVERAGES |= {"certificate.rows": [[2**62, 2**62]], "certificate.disagreements": [[200, 0]]}
AVERAGES |= {"certificate.trees": [[1, 1]], "certificate.confidence": [1.0], "certificate.average": ["mean"]}
AVERAGES |= {"certificate.forest": ["../etc"]}
TALLIES = [{"upper": [1] * 10}, {"tallies": "00"}, {"tallies": "zz" * 28}, {"margin": [0] * 9}]
LIES: dict[str, Values] = {  # of a table: values that an entry, or one within it, cannot have
    "uniform": UNIFORM,
    "three classes": {"stops": TALLIES, "threshold": [0.3]},
    "many classes": {"stops": [{"tallies": "00"}]},
    "weights": {"alpha": [0.9], "prior": ["uniform"], "stops": [{"weights": weights} for weights in WEIGHTS]},
    "averages": AVERAGES,
    "sums": {"stops": [{"margin": [1.0] * 21, "cut": 0.0}]},
    "certified votes": {"prior": ["given"], "certificate.average": ["macro"]},
    "probabilities": {f"stops.{entry}": values for entry, values in SPREAD.items()},
    "boosted probabilities": {f"stops.{entry}": values for entry, values in (SPREAD | BOOSTED).items()},
}
OF_LIES = [(name, place, value) for name, of in LIES.items() for place, values in of.items() for value in values]


@pytest.mark.parametrize(("name", "place", "value"), OF_LIES, ids=range(len(OF_LIES)))
def test_promises_that_cannot_be_are_refused(name: str, place: str, value: Any) -> None:
    document = table_of(name).to_dict()
    outer, _, inner = place.rpartition(".")
    entries = document[outer] if outer else document
    assert inner in entries
    entries[inner] = value
    with pytest.raises(FileError):
        StopTable.from_dict(signed(document))


def test_trees_that_agree_on_all_rows_have_no_spread() -> None:
    document = table_of("probabilities").to_dict()
    document["stops"]["pooled"] = [0.0] * len(document["stops"]["pooled"])
    assert StopTable.from_dict(signed(document)).to_dict() == signed(document)


def test_a_changed_figure_breaks_the_checksum() -> None:
    for table in map(table_of, TABLES):
        with pytest.raises(FileError, match="checksum"):
            StopTable.from_dict({**table.to_dict(), "checksum": "0" * 64})


HOSTILE = [
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
    b" " * 20_000_000,
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_files_are_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StopTable.load(tmp_path / "table.json")
    (tmp_path / "table.json").write_bytes(content)
    with pytest.raises(FileError):
        StopTable.load(tmp_path / "table.json")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_are_none(number: str, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    table_of("weights").save(path)
    path.write_text(path.read_text().replace("1.7", number))
    with pytest.raises(FileError):
        StopTable.load(path)


@pytest.mark.parametrize("document", [None, [], {}, {1: 2}, {"format": {}}, "table"])
def test_other_documents_are_refused(document: Any) -> None:
    with pytest.raises(FileError):
        StopTable.from_dict(document)
