"""Taking up a search that was interrupted, and refusing files that are not its own."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import rfsize
from helpers.damaged import damaged_search
from helpers.forests import LIGHTGBM, Data
from helpers.fraction_searches import ROWS, accuracy, given, search
from rfsize.adapters.registry import trainer_for
from rfsize.training.bagging_fraction import select_bagging_fraction
from rfsize.training.checkpoint import SearchFile


class Interrupting:
    """A scorer that stops the search at one of its comparisons."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return accuracy(estimator, X, y)


def assert_same_curve(one: np.ndarray, other: np.ndarray, but: str = "") -> None:
    for name in one.dtype.names or ():
        if name != but:
            np.testing.assert_array_equal(one[name], other[name])


def test_an_interrupted_elimination_ends_like_any_other(framework: str, data: Data, tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_trees": 60, "search": "elimination", "scoring": accuracy}
    fractions = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8)
    whole = search(framework, data, fractions, **options)
    file = tmp_path / "search.zip"
    with pytest.raises(KeyboardInterrupt):  # in the second comparison
        search(framework, data, fractions, **{**options, "scoring": Interrupting(700)}, resume=file)
    with zipfile.ZipFile(file) as archive:
        assert len(json.loads(archive.read("search.json"))["seconds"]) == 9
    resumed = search(framework, data, fractions, **options, resume=file)
    assert_same_curve(resumed.curve, whole.curve, but="seconds")
    assert resumed.to_dict()["report"] == whole.to_dict()["report"]
    assert (
        rfsize.tree_outputs(resumed.booster, data.fresh).votes == rfsize.tree_outputs(whole.booster, data.fresh).votes
    )
    before = file.read_bytes()
    again = search(framework, data, fractions, **options, resume=file)
    assert_same_curve(again.curve, resumed.curve)  # with the seconds of the first time
    assert file.read_bytes() == before


def test_intervals_that_are_taken_up_know_of_the_trees(framework: str, data: Data, tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_trees": 60, "voting": "soft"}
    whole = search(framework, data, (0.2, 0.5), **options)
    first = search(framework, data, (0.2, 0.5), **options, resume=tmp_path / "search")
    again = search(framework, data, (0.2, 0.5), **options, resume=tmp_path / "search")
    assert_same_curve(first.curve, whole.curve, but="seconds")
    assert_same_curve(again.curve, first.curve)


def test_forests_serve_another_rule_scorer_and_grid(data: Data, tmp_path: Path) -> None:
    file = tmp_path / "search"
    first = search("xgboost", data, resume=file)
    other = search("xgboost", data, (0.1, 0.2, 0.45, 0.7), rule="one-se", scoring=accuracy, resume=str(file))
    assert other.curve["seconds"][1:].tolist() == first.curve["seconds"].tolist()


@pytest.mark.parametrize("what", ["params", "seed", "labels", "weights", "features"])
def test_a_file_of_another_search_is_refused(what: str, framework: str, data: Data, tmp_path: Path) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    file = tmp_path / "search"
    options: dict[str, Any] = {"fractions": [0.5], "n_trees": 24, "alpha": 0.6, "resume": file}
    select_bagging_fraction(*given(framework, X, y), **options)
    other: dict[str, Any] = {"X": X[:, ::-1] if what == "features" else X, "y": 1 - y if what == "labels" else y}
    if what == "weights":
        other["weight"] = np.full(ROWS, 2.0)
    if what == "params":
        other["max_depth"] = 4
    if what == "seed":
        options["seed"] = 5
    with pytest.raises(ValueError, match=f"other .*{what}.*another file"):
        select_bagging_fraction(*given(framework, **other), **options)


def damaged(file: Path, name: str, content: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    """Write the file again with one member changed."""
    with zipfile.ZipFile(file) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    members[name] = content
    with zipfile.ZipFile(file, "w", compression) as archive:
        for member, bytes_of in members.items():
            archive.writestr(member, bytes_of)


@pytest.mark.parametrize("what", ["cut", "text", "counts", "negative", "nan", "size", "compressed", "key", "version"])
def test_a_damaged_file_is_refused(what: str, data: Data, tmp_path: Path) -> None:
    file = tmp_path / "search"
    search("xgboost", data, [0.5], n_trees=24, resume=file)
    whole = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        text = json.loads(archive.read("search.json"))
    if what == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif what == "text":
        damaged(file, "search.json", b"[1, 2")
    elif what == "counts":
        damaged(file, "0.5/24/counts", np.ones((ROWS, 2), dtype="<i4").tobytes())
    elif what == "negative":
        damaged(file, "0.5/24/asked", np.full(ROWS, -1, dtype="<i4").tobytes())
    elif what == "nan":
        damaged(file, "0.5/24/scatter", np.full(ROWS, np.nan).tobytes())
    elif what == "size":
        damaged(file, "0.5/24/mean", bytes(8))
    elif what == "compressed":
        damaged(file, "0.5/24/mean", bytes(8 * ROWS), zipfile.ZIP_DEFLATED)
    elif what == "key":
        damaged(file, "search.json", json.dumps({**text, "seconds": {"0.5/ten": 1.0}}).encode())
    else:
        damaged(file, "search.json", json.dumps({**text, "version": 1}).encode())
    with pytest.raises(ValueError, match="cannot be taken up"):
        search("xgboost", data, [0.5], n_trees=24, resume=file)


@pytest.fixture(scope="module")
def searched(data: Data, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, Any]:
    """A search file, what it holds, and the trainer and parameters that it is of."""
    file = tmp_path_factory.mktemp("searched") / "search"
    search("lightgbm", data, [0.5], n_trees=24, resume=file)
    params, dtrain = given("lightgbm", data.X[:ROWS], data.y[:ROWS])
    return file, file.read_bytes(), (trainer_for(params, dtrain), params)


@settings(max_examples=200)
@drawn(member=st.integers(0, 8), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), signed=st.booleans())
def test_no_altered_number_is_taken_up(
    searched: tuple[Path, bytes, Any], member: int, place: float, bit: int, signed: bool
) -> None:
    """Where the archive's own checksums are left as they were, and where they are those of the altered bytes."""
    file, content, search_of = searched
    file.write_bytes(content)
    with zipfile.ZipFile(file) as archive:
        info = archive.infolist()[member]
        altered = bytearray(archive.read(info))
    at = int(place * len(altered))
    altered[at] ^= 1 << bit
    if signed:
        damaged(file, info.filename, bytes(altered))
    else:
        start = content.index(info.filename.encode(), info.header_offset) + len(info.filename)
        file.write_bytes(content[:start] + altered + content[start + len(altered) :])
    with pytest.raises(ValueError, match="cannot be taken up"):
        SearchFile(file, *search_of, 0)


@settings(max_examples=200)
@drawn(seed=st.integers(0, 2**32))
def test_files_signed_by_somebody_else(searched: tuple[Path, bytes, Any], seed: int) -> None:
    """Whoever signs may be hostile: what is taken up is votes that do not contradict themselves."""
    file, content, search_of = searched
    file.write_bytes(damaged_search(content, np.random.default_rng(seed)))
    try:
        states = SearchFile(file, *search_of, 0)._states
    except ValueError as error:
        if not re.search("cannot be taken up|was written by a search", str(error)):
            raise
        return
    for state in states.values():
        scores, counts = state.out_of_bag.scores, state.out_of_bag.counts
        assert np.isfinite(scores.mean).all()
        assert np.isfinite(scores.scatter).all()
        assert (counts >= 0).all()
        assert (counts.sum(axis=1) == scores.asked).all()


@pytest.mark.parametrize("path", ["", "missing/search.zip"])
def test_a_file_that_cannot_be_written_is_refused_at_once(path: str, tmp_path: Path) -> None:
    dtrain = lgb.Dataset(np.random.default_rng(0).normal(size=(100, 8)), np.arange(100) % 2)
    with pytest.raises(ValueError, match="no file that can be written"):
        select_bagging_fraction(LIGHTGBM, dtrain, [0.3, 0.5], n_trees=24, resume=tmp_path / path)
