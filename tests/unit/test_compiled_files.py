"""Files of compiled forests hold everything, and whatever else stands in a file is refused or harmless."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers import zoo
from helpers.damaged import damaged_archive, damaged_bytes, damaged_numbers, deflated, file_of, inflated, parts_of
from helpers.zoo import KINDS, model, rows_for
from rfsize.exceptions import FileError

TABLES: dict[str, Any] = {  # of a kind of forest; None for a built table, of votes
    "lgb softmax": {"metric": "labels"},
    "xgb logistic": {"metric": "probabilities", "tolerance": 0.1},
    "lgb poisson": {"metric": "scores", "tolerance": 0.5},
    "random forest": None,
    "xgb regression": "no table",
    "lgb classifier": {"metric": "labels", "threshold": 0.3},
}

PLAIN = ", plain"
FILES = [name + ending for name in TABLES for ending in ("", PLAIN)]


def compiled(name: str) -> Any:
    table, options = None, TABLES[name]
    if options is None:
        table = rfsize.StopTable.build(zoo.TREES, alpha=0.9)
    elif options != "no table":
        table = zoo.calibrated(name, **options)
    return rfsize.compile(model(name), table)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The file of each kind of forest with its table, compressed and not."""
    path, content = tmp_path_factory.mktemp("files") / "forest.rfsize", {}
    for name in FILES:
        compiled(name.removesuffix(PLAIN)).save(path, compress=not name.endswith(PLAIN))
        content[name] = path.read_bytes()
    return content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "forest.rfsize"


def assert_same(again: Any, fast: Any, X: np.ndarray) -> None:
    for method in ("predict", "predict_labels", "predict_proba")[: 3 if len(fast.classes) else 1]:
        for rows in (X, X[:3]):
            for actual, other in zip(
                *(getattr(of, method)(rows, return_trees=True) for of in (again, fast)), strict=True
            ):
                assert actual.dtype == other.dtype
                assert np.array_equal(actual, other)
    assert (again.table, again.voting, again.n_trees) == (fast.table, fast.voting, fast.n_trees)
    assert fast.table is not None or repr(again) == repr(fast)  # a table says where it is from


@pytest.mark.parametrize("name", KINDS)
def test_a_file_holds_everything(name: str, path: Path) -> None:
    for options in ({}, {"voting": "hard"}) if KINDS[name].n_classes and "adaboost" not in name else ({},):
        fast = rfsize.compile(model(name), **options)
        fast.save(path)
        assert_same(rfsize.load(path), fast, rows_for(name, 600))
        fast.save(path, compress=False)
        for mmap in (False, True):
            assert_same(rfsize.load(path, mmap=mmap), fast, rows_for(name, 600))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
def test_a_file_holds_its_table(name: str, files: dict[str, bytes], path: Path) -> None:
    path.write_bytes(files[name])
    assert_same(rfsize.load(path), compiled(name), rows_for(name, 600))


# ----------------------------------------------------------------------------------------------------- any damage


def assert_harmless(path: Path) -> None:
    """Refused by rfsize's own errors, or read and answered with what a forest answers."""
    try:
        fast = rfsize.load(path)
    except FileError as error:
        assert not isinstance(error.__cause__, MemoryError)  # noqa: PT017
        return
    for X in (np.zeros((2, zoo.FEATURES)), np.full((20, zoo.FEATURES), 3.0)):
        try:
            answer, n_used = fast.predict(X, return_trees=True)
        except ValueError as error:
            assert "columns" in str(error)  # noqa: PT017 (the number of features is what was damaged)
            return
        assert ((n_used >= 1) & (n_used <= fast.n_trees)).all()
        labels, shares = (fast.predict_labels(X), fast.predict_proba(X)) if len(fast.classes) else ([], answer)
        assert np.isin(labels, fast.classes).all()
        assert shares.dtype.kind != "f" or not np.isnan(shares).any()


@settings(max_examples=250)
@given(
    seed=st.integers(0, 2**32),
    damage=st.sampled_from([damaged_bytes, damaged_archive, damaged_numbers]),
    name=st.sampled_from(FILES),
)
def test_damaged_files_do_no_harm(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, seed: int, damage: Any, name: str
) -> None:
    """Its bytes, or those that are compressed; numbers of a sound array and values of the text. Checksums fit again."""
    path = tmp_path_factory.getbasetemp() / "damaged.rfsize"
    path.write_bytes(damage(files[name], np.random.default_rng(seed)))
    assert_harmless(path)


@settings(max_examples=100)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), is_cut=st.booleans())
def test_a_damaged_bit_changes_no_prediction(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, place: float, bit: int, is_cut: bool
) -> None:
    """It is refused, but for bits that inflate does not read."""
    path, content = tmp_path_factory.getbasetemp() / "bit.rfsize", bytearray(files["lgb poisson"])
    at, rows = int(place * len(content)), rows_for("lgb poisson", 50)
    content[at] ^= 1 << bit
    path.write_bytes(content[:at] if is_cut else content)
    with suppress(FileError):
        predicted = rfsize.load(path).predict(rows)
        assert not is_cut
        np.testing.assert_array_equal(predicted, compiled("lgb poisson").predict(rows))


def test_arrays_of_other_sizes_than_they_claim(files: dict[str, bytes], path: Path) -> None:
    for content in (files["lgb softmax"], files["lgb softmax, plain"]):
        text, arrays = parts_of(content)
        dtype, size = text["arrays"]["trees.nodes"]
        whole, most = inflated(content), [dtype, 1 << 60]
        claims = most, [dtype, -1], [dtype, 2 * size], [dtype, str(size)], ["|O", 1], ["<U0", 1], [3, size], None
        for hostile in (
            *(file_of(text, arrays, content, **{"trees.nodes": claim}) for claim in claims),
            *(
                file_of(text, arrays, content, classes=most),
                file_of(text, {**arrays, "extra": arrays["classes"]}, content),
            ),
            *(deflated(other, content) for other in (whole[:-64], whole + bytes(64), whole[:20], whole[:8])),
            *(content + b"x", content[:20], content[:8], b"x" + content),
        ):
            path.write_bytes(hostile)
            for mmap in (False, True):
                with pytest.raises(FileError):
                    rfsize.load(path, mmap=mmap)


def test_a_compressed_file_is_not_mapped(files: dict[str, bytes], path: Path) -> None:
    path.write_bytes(files["lgb softmax"])
    with pytest.raises(ValueError, match="compress=False"):
        rfsize.load(path, mmap=True)
    with pytest.raises(FileNotFoundError):
        rfsize.load(path.with_name("other"), mmap=True)


# ------------------------------------------------------------------------------------- damage that must be refused


def with_field(content: bytes, place: str, value: Any) -> bytes:
    """Another value in the text of a file, at names that dots separate; without a value, left out."""
    *outer, last = place.split(".")
    text, arrays = parts_of(content)
    inner = text
    for name in outer:
        inner = inner[name]
    assert last in inner
    inner[last] = value
    if value is ...:
        del inner[last]
    return file_of(text, arrays, content)


NO_NUMBER = [None, "1.0", [], True, float("nan"), float("inf"), 10**400]
FIELDS: list[tuple[str, str, list[Any]]] = [
    ("lgb softmax", "format", ["other", None]),
    ("lgb softmax", "version", [3, 10**400, True]),
    ("lgb softmax", "n_outputs", [0, 2, True, "3"]),
    ("lgb softmax", "n_features", [0, 2, 2**31, 10**30, 6.0]),
    ("lgb softmax", "feature_names", [["a"], [1] * 6, "abcdef", {}]),
    ("lgb softmax", "voting", [None, "auto", "SOFT", ["soft"], "hard", ...]),
    ("random forest", "voting", ["soft", ...]),
    ("lgb poisson", "voting", ["hard", None]),
    ("lgb softmax", "predict_gives", ["numbers", None, 3]),
    ("lgb poisson", "predict_gives", ["labels"]),
    ("lgb classifier", "threshold", [*NO_NUMBER, 0.0, 1.0, -0.5, 0.5, ...]),
    ("lgb softmax", "threshold", [0.3, None]),
    ("lgb softmax", "digest", ["../etc", 3]),
    ("lgb softmax", "table", [3, "table", {}, rfsize.StopTable.build(9).to_dict(), ...]),
    ("lgb softmax", "table.n_trees", [20, None]),
    ("lgb softmax", "conventions", [None, [], {}, ...]),
    ("lgb softmax", "conventions.framework", ["", "\x1b[2J", "LightGBM\n", "a" * 1000, "<b>"]),
    ("lgb softmax", "conventions.link", ["exp", "square", "", None]),
    ("xgb logistic", "conventions.link", ["softmax", "exp", "one-vs-all", 3]),
    ("lgb poisson", "conventions.link", ["softmax", "one-vs-all", "log"]),
    ("xgb logistic", "conventions.slope", ["-0x1p+0", "0x0p+0", "inf", "nan", "", 1.0, "0x1p+1000"]),
    ("xgb logistic", "conventions.start", [None, 0.5, [None], ["0.0"], [0.0, 0.0], [1e308], [1e39]]),
    ("xgb logistic", "conventions.averages", [None, 0, "true"]),
    ("random forest", "conventions.start", [[0.5]]),
    ("random forest", "conventions.absent_is_missing", [0, "no"]),
    ("random forest", "conventions.categories", [[{}], 3]),
    ("random forest", "conventions.category_features", [[1], "a"]),
]


@pytest.mark.parametrize(
    ("name", "place", "value"), [(name, place, value) for name, place, values in FIELDS for value in values]
)
def test_fields_that_do_not_fit(name: str, place: str, value: Any, files: dict[str, bytes], path: Path) -> None:
    path.write_bytes(with_field(files[name], place, value))
    with pytest.raises(FileError):
        rfsize.load(path)


def put(index: Any, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[index] = value
        return array

    return change


ARRAYS: list[tuple[str, str, Callable[[np.ndarray], np.ndarray]]] = [
    ("lgb softmax", "trees.nodes", lambda nodes: nodes[: len(nodes) // 2]),
    ("lgb softmax", "trees.nodes", lambda nodes: ~nodes),
    ("lgb softmax", "trees.nodes", put(slice(0, 4), 0)),  # too few leaves
    ("lgb softmax", "trees.nodes", put(slice(0, 4), 0xFF)),
    ("lgb softmax", "trees.nodes", put(slice(-200, None), 0xFF)),  # of the highest ranks
    ("lgb softmax", "trees.tree_start", lambda start: start[:1]),
    ("lgb softmax", "trees.tree_start", lambda start: start[:0]),
    ("lgb softmax", "trees.tree_start", put(1, 2)),
    ("lgb softmax", "trees.tree_start", put(slice(1, 3), [2**63 - 1, -2])),
    ("lgb softmax", "trees.value", lambda value: np.tile(value, 2)),
    ("lgb softmax", "trees.value", lambda value: value.astype(np.float16)),
    *((name, "trees.value", put(-1, value)) for name in TABLES for value in (np.nan, np.inf)),
    *((name, "trees.value", lambda value: np.full_like(value, np.finfo(value.dtype).max)) for name in TABLES),
    ("random forest", "trees.vote", put(-1, 2)),
    ("lgb softmax", "columns.feature", put(-1, 99)),
    ("lgb softmax", "columns.cuts", lambda cuts: cuts[::-1].copy()),
    ("lgb softmax", "columns.cut_start", put(slice(1, 3), [2**63 - 1, -2])),
    ("lgb softmax", "columns.base", put(0, 10**9)),
    ("lgb softmax", "classes", lambda classes: classes[:1]),
    ("lgb softmax", "classes", lambda classes: np.zeros(3)),
    ("lgb softmax", "classes", lambda classes: np.full(3, np.nan)),
    ("lgb softmax", "classes", lambda classes: classes.astype(complex)),
    ("lgb softmax", "classes", lambda _: np.array([65, 66, 0xD800], np.uint32).view("<U1")),
]


@pytest.mark.parametrize(("name", "array", "change"), ARRAYS, ids=range(len(ARRAYS)))
def test_arrays_that_do_not_fit(name: str, array: str, change: Any, files: dict[str, bytes], path: Path) -> None:
    text, arrays = parts_of(files[name])
    path.write_bytes(file_of(text, {**arrays, array: change(arrays[array])}, files[name]))
    with pytest.raises(FileError):
        rfsize.load(path)


def test_files_that_ask_for_memory(files: dict[str, bytes], path: Path) -> None:
    """Empty for gigabytes, or unpacked to gigabytes: refused before memory is taken."""
    content = files["lgb softmax"]
    text, arrays = parts_of(content)
    bomb = file_of(text, {**arrays, "trees.nodes": np.zeros(1 << 26, dtype=np.uint8)}, content)
    n_nodes = 1 << 16  # of which one would be a leaf, of very many scores
    wide = {
        "trees.nodes": np.zeros(n_nodes // 8 + 6 * (n_nodes - 1), np.uint8),
        "trees.tree_start": np.array([0, n_nodes]),
        "trees.value": np.zeros(1 << 17),
        "trees.vote": np.zeros(0, np.uint16),
    }
    spread = file_of(text, {**arrays, **wide}, content)
    tracemalloc.start()
    for hostile, size in ((bomb, 0), (spread, 0), (content, 1 << 34), (files["lgb softmax, plain"], 1 << 34)):
        path.write_bytes(hostile)
        os.truncate(path, size or len(hostile))
        with pytest.raises(FileError) as refused:
            rfsize.load(path)
        assert not isinstance(refused.value.__cause__, MemoryError)
    assert tracemalloc.get_traced_memory()[1] < 1 << 25
    tracemalloc.stop()


def test_what_is_no_forest_file(files: dict[str, bytes], path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rfsize.load(path)
    for other in (path.parent, Path(os.devnull)):
        with pytest.raises(FileError):
            rfsize.load(other)
    text, arrays = parts_of(files["lgb softmax"])
    first = dict(list(arrays.items())[1:])
    for content in (b"", b"hello", files["lgb softmax"][:8], file_of(text, first, files["lgb softmax"])):
        path.write_bytes(content)
        with pytest.raises(FileError):
            rfsize.load(path)


def test_files_that_cannot_be_read_are_not_written(path: Path) -> None:
    X, y = np.nan_to_num(zoo.training()[0]), zoo.classes_of(zoo.training()[1], 2)
    forest = RandomForestClassifier(3, random_state=0).fit(X, y)
    tree = forest.estimators_[0].tree_
    tree.value[tree.children_left == -1] *= 1e305  # somebody's own, whose sums may overflow
    nuls = RandomForestClassifier(3, random_state=0).fit(X, np.array(["a\0", "b\0"], dtype=object)[y])
    for fast in (rfsize.compile(forest), rfsize.compile([forest, forest]), rfsize.compile(nuls)):
        with pytest.raises(ValueError, match="pickle"):
            fast.save(path)
        assert not list(path.parent.iterdir())
    with pytest.raises(FileNotFoundError):
        rfsize.compile(model("lgb softmax")).save(path / "forest.rfsize")
