"""Files of compiled forests hold everything, and whatever else stands in a file is refused or harmless."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers import zoo
from helpers.damaged import archive_of, damaged_archive, damaged_bytes, damaged_numbers, members_of
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


def compiled(name: str) -> Any:
    table, options = None, TABLES[name]
    if options is None:
        table = rfsize.StopTable.build(zoo.TREES, alpha=0.9)
    elif options != "no table":
        table = zoo.calibrated(name, **options)
    return rfsize.compile(model(name), table)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The file of each kind of forest with its table."""
    path, content = tmp_path_factory.mktemp("files") / "forest.npz", {}
    for name in TABLES:
        compiled(name).save(path)
        content[name] = path.read_bytes()
    return content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "forest.npz"


def assert_same(again: Any, fast: Any, X: np.ndarray) -> None:
    for method in ("predict", "predict_labels", "predict_proba")[: 3 if len(fast.classes) else 1]:
        for rows in (X, X[:3]):
            for one, other in zip(*(getattr(of, method)(rows, return_trees=True) for of in (again, fast)), strict=True):
                assert one.dtype == other.dtype
                assert np.array_equal(one, other)
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


def test_files_inflated_or_of_other_byte_orders(files: dict[str, bytes], path: Path) -> None:
    path.write_bytes(files["xgb logistic"])
    fast = rfsize.load(path)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["trees.value"] = arrays["trees.value"].astype(arrays["trees.value"].dtype.newbyteorder(">"))
    np.savez(path, **arrays)
    assert len(files["xgb logistic"]) < 0.5 * path.stat().st_size
    assert_same(rfsize.load(path), fast, rows_for("xgb logistic", 600))


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
            answer, asked = fast.predict(X, return_trees=True)
        except ValueError as error:
            assert "columns" in str(error)  # noqa: PT017 (the number of features is what was damaged)
            return
        assert ((asked >= 1) & (asked <= fast.n_trees)).all()
        labels, shares = (fast.predict_labels(X), fast.predict_proba(X)) if len(fast.classes) else ([], answer)
        assert np.isin(labels, fast.classes).all()
        assert shares.dtype.kind != "f" or not np.isnan(shares).any()


@settings(max_examples=250)
@given(
    seed=st.integers(0, 2**32),
    damage=st.sampled_from([damaged_bytes, damaged_archive, damaged_numbers]),
    name=st.sampled_from(list(TABLES)),
)
def test_damaged_files_do_no_harm(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, seed: int, damage: Any, name: str
) -> None:
    """The archive; the bytes of an array; numbers of a sound array and values of the text. Checksums fit again."""
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(damage(files[name], np.random.default_rng(seed)))
    assert_harmless(path)


@settings(max_examples=100)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), is_cut=st.booleans())
def test_a_damaged_bit_is_seen(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, place: float, bit: int, is_cut: bool
) -> None:
    path, content = tmp_path_factory.getbasetemp() / "bit.npz", bytearray(files["lgb poisson"])
    at = int(place * len(content))
    content[at] ^= 1 << bit
    path.write_bytes(content[:at] if is_cut else content)
    try:
        again = rfsize.load(path)
    except FileError:
        return
    path.write_bytes(files["lgb poisson"])  # what was damaged is padding, or a date of the archive
    assert_same(again, rfsize.load(path), rows_for("lgb poisson", 50))


@pytest.fixture(scope="module")
def plain_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files that are not compressed."""
    path, content = tmp_path_factory.mktemp("plain") / "forest.npz", {}
    for name in TABLES:
        compiled(name).save(path, compress=False)
        content[name] = path.read_bytes()
    return content


@settings(max_examples=250)
@given(
    place=st.floats(0, 1, exclude_max=True),
    word=st.sampled_from([0, 1, 0xFFFF, 2**31, 2**36, 2**63 - 1, 2**64 - 1, 0x7FF0000000000000, 0x7E37E43C8800759C]),
    in_text=st.booleans(),
    name=st.sampled_from(list(TABLES)),
)
def test_damaged_plain_files_do_no_harm(
    plain_files: dict[str, bytes],
    tmp_path_factory: pytest.TempPathFactory,
    place: float,
    word: int,
    in_text: bool,
    name: str,
) -> None:
    """A word of an array, or some bytes of the text; nothing has a checksum."""
    path, content = tmp_path_factory.getbasetemp() / "plain.npz", bytearray(plain_files[name])
    stop = 16 + int.from_bytes(content[8:16], "little")
    at = int(place * stop) if in_text else stop + int(place * (len(content) - stop)) // 8 * 8
    content[at : at + 8] = word.to_bytes(8, "little")
    path.write_bytes(content)
    assert_harmless(path)


def test_plain_files_that_are_refused(plain_files: dict[str, bytes], path: Path) -> None:
    content = plain_files["lgb softmax"]
    stop = 16 + int.from_bytes(content[8:16], "little")
    text = content[16:stop]
    described = json.loads(text)["arrays"]
    size = described["trees.nodes"][1]

    def told(old: str, new: str) -> bytes:
        changed = text.replace(old.encode(), new.encode())
        assert changed != text
        return content[:8] + len(changed).to_bytes(8, "little") + changed + bytes(-(16 + len(changed)) % 64) + rest

    rest = content[stop + -stop % 64 :]
    claims = f'"<u8", {1 << 60}', '"<u8", -1', f'"<u4", {2 * size}', '"|O", 1'
    changes = [(f'"<u8", {size}', claim) for claim in claims]
    for hostile in (
        *(told(*change) for change in changes),
        content[:-64],
        content + bytes(64),
        content[:20],
        content[:8],
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


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def with_member(content: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    members = members_of(content)
    members[f"{name}.npy"] = change(members[f"{name}.npy"])
    return archive_of(members)


def with_field(content: bytes, place: str, value: Any) -> bytes:
    """Another value in the text of a file, at names that dots separate; without a value, left out."""
    *outer, last = place.split(".")

    def change(member: bytes) -> bytes:
        whole = json.loads(np.load(io.BytesIO(member)).tobytes())
        inner = whole
        for name in outer:
            inner = inner[name]
        assert last in inner
        inner[last] = value
        if value is ...:
            del inner[last]
        return npy(np.frombuffer(json.dumps(whole).encode(), dtype=np.uint8))

    return with_member(content, "metadata", change)


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
    ("random forest", "conventions.averages", [False]),
    ("random forest", "conventions.start", [[0.5, 0.5]]),
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
    ("random forest", "trees.value", lambda value: 2.0 * value),
    ("random forest", "trees.value", lambda value: 0.99 * value),
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
    path.write_bytes(with_member(files[name], array, lambda member: npy(change(np.load(io.BytesIO(member)).copy()))))
    with pytest.raises(FileError):
        rfsize.load(path)


HEADERS = [
    b"{'descr': '<u8', 'fortran_order': False, 'shape': (" + b"(" * 80 + b"), }",
    b"{'descr': '<u8', 'fortran_order': False, 'shape': (-1,), }",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % (1 << 50),
    b"{'descr': '<u8', 'fortran_order': True, 'shape': (3,), }",
    b"{'descr': '<u3', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': [('a', '<u8')], 'fortran_order': False, 'shape': (3,), }",
    b"   indented = 1\n  x",
    b"\xff\xfe\x00",
    b"'''never closed",
]


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
@pytest.mark.parametrize("array", ["trees.nodes", "classes", "metadata"])
def test_headers_of_another_form(array: str, header: bytes, files: dict[str, bytes], path: Path) -> None:
    padded = header + b" " * (117 - len(header) % 118) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + bytes(24)
    path.write_bytes(with_member(files["lgb softmax"], array, lambda _: content))
    with pytest.raises(FileError):
        rfsize.load(path)


def test_files_that_ask_for_memory(files: dict[str, bytes], path: Path) -> None:
    """Empty for gigabytes, or unpacked or said to be of gigabytes: refused before memory is taken."""
    content, claims = files["lgb softmax"], []
    for name in members_of(content):
        entry = content.rindex(b"PK\x01\x02", 0, content.rindex(name.encode()))
        claims.append(content[: entry + 20] + (1 << 31).to_bytes(4, "little") + content[entry + 24 :])
    with np.load(io.BytesIO(content)) as archive:
        bomb = {**archive, "trees.nodes": np.zeros(1 << 26, dtype=np.uint8)}
        n_nodes = 1 << 16  # of which one would be a leaf, of very many scores
        wide = {
            **archive,
            "trees.nodes": np.zeros(n_nodes // 8 + 6 * (n_nodes - 1), np.uint8),
            "trees.tree_start": np.array([0, n_nodes]),
            "trees.value": np.zeros(1 << 17),
            "trees.vote": np.zeros(0, np.uint16),
        }
    packed, spread = io.BytesIO(), io.BytesIO()
    np.savez_compressed(packed, **bomb)
    np.savez_compressed(spread, **wide)
    del bomb, wide
    tracemalloc.start()
    for hostile in (*claims, packed.getvalue(), spread.getvalue(), None):
        if hostile is None:
            os.truncate(path, 1 << 34)
        else:
            path.write_bytes(hostile)
        with pytest.raises(FileError) as refused:
            rfsize.load(path)
        assert not isinstance(refused.value.__cause__, MemoryError)
    assert tracemalloc.get_traced_memory()[1] < 1 << 23
    tracemalloc.stop()


def test_what_is_no_forest_file(files: dict[str, bytes], path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rfsize.load(path)
    for other in (path.parent, Path(os.devnull)):
        with pytest.raises(FileError):
            rfsize.load(other)
    members = members_of(files["lgb softmax"])
    for content in (b"", b"hello", archive_of({"a.npy": npy(np.zeros(3))})):
        path.write_bytes(content)
        with pytest.raises(FileError):
            rfsize.load(path)
    for arrays in ({**members, "extra.npy": npy(np.zeros(1))}, dict(list(members.items())[1:])):
        path.write_bytes(archive_of(arrays))
        with pytest.raises(FileError):
            rfsize.load(path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("classes.npy", members["classes.npy"])
    with pytest.raises(FileError):
        rfsize.load(path)


def test_files_that_cannot_be_read_are_not_written(path: Path) -> None:
    X, y = np.nan_to_num(zoo.training()[0]), zoo.classes_of(zoo.training()[1], 2)
    forest = RandomForestClassifier(3, random_state=0).fit(X, y)
    tree = forest.estimators_[0].tree_
    tree.value[tree.children_left == -1] *= 2.0  # somebody's own, whose shares are none
    nuls = RandomForestClassifier(3, random_state=0).fit(X, np.array(["a\0", "b\0"], dtype=object)[y])
    for fast in (rfsize.compile(forest), rfsize.compile([forest, forest]), rfsize.compile(nuls)):
        with pytest.raises(ValueError, match="pickle"):
            fast.save(path)
        assert not list(path.parent.iterdir())
    with pytest.raises(FileNotFoundError):
        rfsize.compile(model("lgb softmax")).save(path / "forest.npz")
