"""Taking up a search that was interrupted, and refusing files that are not its own."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from helpers.damaged import damaged_numbers
from helpers.forests import LIGHTGBM, Data
from helpers.fraction_searches import ROWS, accuracy, given, search
from rfsize.integrations.lightgbm.trainer import LightGbmTrainer
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
    options: dict[str, Any] = {"n_trees": 60, "search": "elimination", "metric": accuracy}
    fractions = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8)
    whole = search(framework, data, fractions, **options)
    file = tmp_path / "search.zip"
    with pytest.raises(KeyboardInterrupt):  # in the second comparison
        search(framework, data, fractions, **{**options, "metric": Interrupting(700)}, resume=file)
    with np.load(file) as archive:
        assert len(json.loads(archive["metadata"].tobytes())["seconds"]) == 9
    resumed = search(framework, data, fractions, **options, resume=file)
    assert_same_curve(resumed.curve, whole.curve, but="seconds")
    assert resumed.params == whole.params
    before = file.read_bytes()
    again = search(framework, data, fractions, **options, resume=file)
    assert_same_curve(again.curve, resumed.curve)  # with the seconds of the first time
    assert file.read_bytes() == before


def test_a_search_that_was_taken_up_is_the_same(framework: str, data: Data, tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_trees": 60, "voting": "soft"}
    whole = search(framework, data, (0.2, 0.5), **options)
    first = search(framework, data, (0.2, 0.5), **options, resume=tmp_path / "search")
    again = search(framework, data, (0.2, 0.5), **options, resume=tmp_path / "search")
    assert_same_curve(first.curve, whole.curve, but="seconds")
    assert_same_curve(again.curve, first.curve)


def test_forests_serve_another_rule_scorer_and_grid(data: Data, tmp_path: Path) -> None:
    file = tmp_path / "search"
    first = search("xgboost", data, resume=file)
    other = search("xgboost", data, (0.1, 0.2, 0.45, 0.7), rule="one-se", metric=accuracy, resume=str(file))
    assert other.curve["seconds"][1:].tolist() == first.curve["seconds"].tolist()


@pytest.mark.parametrize("what", ["params", "seed", "labels", "weights", "features"])
def test_a_file_of_another_search_is_refused(what: str, framework: str, data: Data, tmp_path: Path) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    file = tmp_path / "search"
    options: dict[str, Any] = {"fractions": [0.5], "n_trees": 24, "rule": "best", "resume": file}
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


def altered(file: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Write the file again with one array changed, or its text."""
    with np.load(file) as archive:
        arrays = dict(archive)
    if name == "metadata":
        text = json.dumps(change(json.loads(arrays[name].tobytes()))).encode()
        arrays[name] = np.frombuffer(text, dtype=np.uint8)
    else:
        arrays[name] = change(arrays[name])
    with file.open("wb") as content:
        np.savez(content, **arrays)


def without_a_key(text: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in text.items() if name != "labels"}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("counts", np.ones_like),
        ("asked", lambda asked: -asked),
        ("asked", lambda asked: asked + np.int32(100)),
        ("mean", lambda mean: mean[:1]),
        ("mean", lambda mean: mean.astype(np.float32)),
        ("scatter", lambda scatter: np.full_like(scatter, np.nan)),
        ("blocks.votes", lambda votes: votes + np.int32(100)),
        ("blocks.squares", lambda squares: squares - 100.0),
        ("blocks.first", lambda first: np.full_like(first, np.inf)),
        ("metadata", lambda text: [1, 2]),
        ("metadata", lambda text: text | {"version": 4}),
        ("metadata", lambda text: text | {"format": "rfsize forest"}),
        ("metadata", lambda text: text | {"seconds": {"0.5/ten": 1.0}}),
        ("metadata", lambda text: text | {"seconds": {"1.5/24": 1.0}}),
        ("metadata", lambda text: text | {"seconds": {"0.5/24": -1.0}}),
        ("metadata", lambda text: text | {"seconds": {"0.5/24": 1.0, "0.6/24": 1.0}}),
        ("metadata", lambda text: text | {"seconds": {}}),
        ("metadata", without_a_key),
    ],
)
def test_a_damaged_file_is_refused(name: str, change: Callable[[Any], Any], data: Data, tmp_path: Path) -> None:
    file = tmp_path / "search"
    search("xgboost", data, [0.5], n_trees=24, resume=file)
    altered(file, name, change)
    with pytest.raises(ValueError, match="cannot continue from"):
        search("xgboost", data, [0.5], n_trees=24, resume=file)


def test_a_file_that_was_cut_off_is_refused(data: Data, tmp_path: Path) -> None:
    file = tmp_path / "search"
    search("xgboost", data, [0.5], n_trees=24, resume=file)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ValueError, match="cannot continue from"):
        search("xgboost", data, [0.5], n_trees=24, resume=file)


def test_sizes_are_looked_at_before_arrays_are_read(data: Data, tmp_path: Path) -> None:
    file = tmp_path / "search"
    search("xgboost", data, [0.5], n_trees=24, resume=file)
    altered(file, "mean", lambda mean: np.tile(mean, 2))
    with pytest.raises(ValueError, match=r"cannot continue from.*not of the size of these data"):
        search("xgboost", data, [0.5], n_trees=24, resume=file)


@pytest.fixture(scope="module")
def searched(data: Data, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, Any]:
    """A search file, what it holds, and the trainer and parameters that it is of."""
    file = tmp_path_factory.mktemp("searched") / "search"
    search("lightgbm", data, [0.5], n_trees=24, resume=file)
    params, dtrain = given("lightgbm", data.X[:ROWS], data.y[:ROWS])
    return file, file.read_bytes(), (LightGbmTrainer(params, dtrain), params)


@settings(max_examples=200)
@drawn(member=st.integers(0, 9), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_no_altered_bit_is_taken_up(searched: tuple[Path, bytes, Any], member: int, place: float, bit: int) -> None:
    file, content, search_of = searched
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        info = archive.infolist()[member]
    name_and_more = struct.unpack("<HH", content[info.header_offset + 26 : info.header_offset + 30])
    start = info.header_offset + 30 + sum(name_and_more)
    changed = bytearray(content)
    changed[start + int(place * info.file_size)] ^= 1 << bit
    file.write_bytes(changed)
    with pytest.raises(ValueError, match="cannot continue from"):
        SearchFile(file, *search_of, 0)


@settings(max_examples=200)
@drawn(seed=st.integers(0, 2**32))
def test_files_written_by_somebody_else(searched: tuple[Path, bytes, Any], seed: int) -> None:
    """Somebody who may be hostile: what is taken up is votes that do not contradict themselves."""
    file, content, search_of = searched
    file.write_bytes(damaged_numbers(content, np.random.default_rng(seed)))
    try:
        states = SearchFile(file, *search_of, 0)._states
    except ValueError as error:
        if not re.search("cannot continue from|was written by a search", str(error)):
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
    with pytest.raises(ValueError, match="no file can be written there"):
        select_bagging_fraction(LIGHTGBM, dtrain, fractions=[0.3, 0.5], n_trees=24, rule="best", resume=tmp_path / path)
