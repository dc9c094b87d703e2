"""Files that somebody wrote to do harm: refused by rfsize's own errors, quickly, and before memory is asked for."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.compiled_forests import CLASSIFIERS, REGRESSORS, answers
from helpers.damaged import damaged_archive, damaged_bytes, damaged_numbers
from helpers.forests import Data

OURS = (rfsize.exceptions.ForestFileError, rfsize.exceptions.TableError)


@pytest.fixture(scope="module")
def saved(lgb_multiclass: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "forest.npz"
    rfsize.compile(lgb_multiclass).save(path)
    return path.read_bytes()


def with_members(saved: bytes, path: Path, **changes: Any) -> Path:
    """The archive with the bytes of some members changed."""
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            change = changes.get(name.removesuffix(".npy").replace(".", "__"), lambda content: content)
            new.writestr(name, change(old.read(name)))
    return path


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


HEADERS = [
    b"{'descr': '<u8', 'fortran_order': False, 'shape': (" + b"(" * 80 + b"), }",
    b"{'descr': '<u8', 'fortran_order': False, 'shape': (3,)} + {}",
    b"{'descr': '<u8', 'fortran_order': False, 'shape': (-1,), }",
    b"{'descr': '<u8', 'fortran_order': True, 'shape': (3,), }",
    b"{'descr': '<u3', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': [('a', '<u8')], 'fortran_order': False, 'shape': (3,), }",
    b"   indented = 1\n  x",
    b"\xff\xfe\x00",
    b"'''never closed",
]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("member", ["trees__nodes", "classes", "metadata"])
def test_headers_of_another_form(header: bytes, member: str, saved: bytes, tmp_path: Path) -> None:
    padded = header + b" " * (117 - len(header) % 118) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + bytes(24)
    path = with_members(saved, tmp_path / "forest.npz", **{member: lambda _: content})
    with pytest.raises(rfsize.exceptions.ForestFileError):
        rfsize.load(path)


@pytest.mark.parametrize("point", [0xD800, 0x110000, 0xFFFFFFFF])
def test_labels_that_are_no_text(point: int, saved: bytes, tmp_path: Path) -> None:
    labels = np.array([65, 66, point], dtype=np.uint32).view("<U1")
    path = with_members(saved, tmp_path / "forest.npz", classes=lambda _: npy(labels))
    with pytest.raises(rfsize.exceptions.ForestFileError, match="no text"):
        rfsize.load(path)


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    for path in (tmp_path, Path(os.devnull)):
        with pytest.raises(rfsize.exceptions.ForestFileError, match="no regular file"):
            rfsize.load(path)


def test_a_sparse_file_of_many_gigabytes_is_not_read(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "forest.npz"
    with path.open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(rfsize.exceptions.ForestFileError):
        rfsize.load(path)
    claimed = np.zeros(1, dtype=np.uint8)
    header = npy(claimed).replace(b"(1,), }    ", b"(%d,), }" % (1 << 30))[:128]
    path = with_members(saved, path, trees__nodes=lambda _: header)
    with pytest.raises(rfsize.exceptions.ForestFileError):
        rfsize.load(path)


def test_a_member_that_claims_to_take_gigabytes_when_compressed(saved: bytes, tmp_path: Path) -> None:
    """By that claim zipfile asks for memory, whatever the member's own size."""
    path = tmp_path / "forest.npz"
    for name in zipfile.ZipFile(io.BytesIO(saved)).namelist():
        entry = saved.rindex(b"PK\x01\x02", 0, saved.rindex(name.encode()))
        path.write_bytes(saved[: entry + 20] + (1 << 31).to_bytes(4, "little") + saved[entry + 24 :])
        with pytest.raises(rfsize.exceptions.ForestFileError) as refused:
            rfsize.load(path)
        assert not isinstance(refused.value.__cause__, MemoryError)


def test_a_small_file_that_unpacks_to_gigabytes(saved: bytes, tmp_path: Path) -> None:
    with np.load(io.BytesIO(saved)) as archive:
        arrays = dict(archive)
    arrays["trees.nodes"] = np.zeros(1 << 26, dtype=np.uint8)
    np.savez_compressed(tmp_path / "forest.npz", **arrays)
    tracemalloc.start()
    with pytest.raises(rfsize.exceptions.ForestFileError, match="unpacks to"):
        rfsize.load(tmp_path / "forest.npz")
    assert tracemalloc.get_traced_memory()[1] < 1 << 23
    tracemalloc.stop()


def metadata_with(**fields: Any) -> Any:
    def change(content: bytes) -> bytes:
        found = json.loads(np.load(io.BytesIO(content)).tobytes())
        return npy(np.frombuffer(json.dumps(found | fields).encode(), dtype=np.uint8))

    return change


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metadata": metadata_with(n_features=2**31 - 1, feature_names=None)}, "more than any forest's"),
        ({"trees__value": lambda _: None}, "too large to be added up"),
    ],
)
def test_numbers_beyond_any_forest(changes: Any, message: str, saved: bytes, tmp_path: Path) -> None:
    if "trees__value" in changes:
        changes = {"trees__value": lambda content: npy(np.full_like(np.load(io.BytesIO(content)), 1e308))}
    path = with_members(saved, tmp_path / "forest.npz", **changes)
    with pytest.raises(rfsize.exceptions.ForestFileError, match=message):
        rfsize.load(path)


@pytest.mark.parametrize(
    ("times", "message"), [(2.0, "share is not from 0 to 1"), (0.0, "do not sum to 1"), (0.99, "do not sum to 1")]
)
def test_shares_that_are_none(times: float, message: str, data: Data, tmp_path: Path) -> None:
    rfsize.compile(RandomForestClassifier(5, max_depth=3, random_state=0).fit(data.X, data.y)).save(tmp_path / "f.npz")

    def multiplied(content: bytes) -> bytes:
        return npy(times * np.load(io.BytesIO(content)))

    path = with_members((tmp_path / "f.npz").read_bytes(), tmp_path / "g.npz", trees__value=multiplied)
    with pytest.raises(rfsize.exceptions.ForestFileError, match=message):
        rfsize.load(path)


KINDS = {
    "labels": ("lgb booster", "labels"),
    "labels of three": ("xgb three", "labels"),
    "probabilities": ("xgb booster", "probabilities"),
    "shares": ("random forest", "none"),
    "numbers": ("lgb poisson", "scores"),
    "numbers alone": ("xgb uneven regression", "none"),
}


@pytest.fixture(scope="module")
def files(data: Data, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A file of averaged scores of each kind."""
    found, fresh = {}, np.random.default_rng(22).normal(size=(2000, data.X.shape[1]))
    for kind, (name, metric) in KINDS.items():
        model = (CLASSIFIERS | REGRESSORS)[name](data)
        given: Any = {} if metric == "labels" else {"tolerance": 0.1}
        table = None
        if metric != "none":
            table = rfsize.StopTable.calibrate(model, fresh, alpha=0.9, metric=metric, **given)
        path = tmp_path_factory.mktemp("files") / "forest.npz"
        rfsize.compile(model, table).save(path)
        found[kind] = path.read_bytes()
    return found


def metadata_set(*place: str, to: Any) -> Any:
    def change(content: bytes) -> bytes:
        whole = json.loads(np.load(io.BytesIO(content)).tobytes())
        inner = whole
        for name in place[:-1]:
            inner = inner[name]
        assert place[-1] in inner
        inner[place[-1]] = to
        return npy(np.frombuffer(json.dumps(whole).encode(), dtype=np.uint8))

    return change


CONVENTIONS, STOPS = ("conventions",), ("table", "stops")
NO_NUMBER: list[Any] = [None, "1.0", [], {}, True, float("nan"), float("inf"), 10**400]
DAMAGES: list[tuple[str, tuple[str, ...], list[Any]]] = [
    ("labels", ("voting",), [None, "auto", "SOFT", 1, ["soft"], {}, "hard"]),
    ("labels of three", ("voting",), ["hard"]),
    ("probabilities", ("voting",), ["hard"]),
    ("numbers", ("voting",), ["hard", "auto", None]),
    ("numbers alone", ("voting",), ["hard", "auto", None]),
    ("labels", ("threshold",), [*NO_NUMBER, 0.0, 1.0, -0.5, 0, 1, 0.3]),
    ("labels of three", ("threshold",), [0.3, None]),
    ("shares", ("threshold",), [1.5]),
    ("shares", (*CONVENTIONS, "averages"), [False]),
    ("shares", (*CONVENTIONS, "slope"), ["0x1p+1"]),
    ("shares", (*CONVENTIONS, "start"), [[0.5, 0.5]]),
    ("labels", (*CONVENTIONS, "framework"), ["", "\x1b[2J", "LightGBM\n", "a" * 1000, "<b>", None]),
    (
        "labels",
        (*CONVENTIONS, "start"),
        [None, 0.5, "0", [None], ["0.0"], [1], [0.0, 0.0], [float("nan")], [1e308], {}],
    ),
    ("labels of three", (*CONVENTIONS, "start"), [[0.0], [0.0, 0.0], [0.0] * 4, [float("inf")] * 3, [1e300] * 3]),
    ("numbers alone", (*CONVENTIONS, "start"), [[-1e308], [1e39], [[0.5]]]),
    ("labels", (*CONVENTIONS, "averages"), [None, 0, 1, "true", [], 1.0]),
    ("labels", (*CONVENTIONS, "link"), ["softmax", "exp", "square", "one-vs-all", "", None, 3]),
    ("labels of three", (*CONVENTIONS, "link"), ["logistic", "exp", "square"]),
    ("numbers", (*CONVENTIONS, "link"), ["softmax", "one-vs-all", "log", None, []]),
    ("labels", (*CONVENTIONS, "slope"), ["-0x1p+0", "0x0p+0", "inf", "nan", "", 1.0, None, "0x1p+1000"]),
    ("labels", (*STOPS, "cut"), [*NO_NUMBER, 0, 1.0]),
    ("labels", (*STOPS, "needed"), [None, [], [0.0], [0.0] * 20, [1.0] * 21, [float("nan")] * 21, [-1.0] * 20 + [0.0]]),
    ("labels", (*STOPS, "needed"), [[0.0] * 19 + [1.0, 0.0], [None] * 21, [10**400] * 21, [0] * 21]),
    ("labels of three", (*STOPS, "needed"), [[0.0] * 22, ["0.0"] * 21]),
    ("labels", ("table", "kind"), ["spread", "binary", "weighted", None]),
    ("probabilities", ("table", "kind"), ["averages", "leaders", []]),
    ("probabilities", (*STOPS, "limit"), [*NO_NUMBER, -1.0]),
    ("probabilities", (*STOPS, "pooled"), [None, 0.1, [], [0.1] * 3, [-0.1], [float("nan")], [None]]),
    ("probabilities", (*STOPS, "weight"), [*NO_NUMBER, 0.0, -1.0]),
    ("probabilities", (*STOPS, "every"), [*NO_NUMBER, 0, -1, 8.0, 2**63]),
    ("probabilities", (*STOPS, "link"), ["log", None, [], {}]),
    ("probabilities", (*STOPS, "slope"), [*NO_NUMBER, 0.0]),
    ("probabilities", (*STOPS, "metric"), ["agreement", "score", None, []]),
    ("probabilities", (*STOPS, "tolerance"), [*NO_NUMBER, 0.0, -0.1]),
    ("numbers", (*STOPS, "metric"), ["probabilities", "agreement"]),
    ("numbers", (*STOPS, "pooled"), [[], [0.1, 0.1], [-1.0]]),
    ("numbers", ("table", "n_classes"), [0, 2, True, None]),
    ("numbers", ("table", "n_trees"), [20, 22, None]),
]


@pytest.mark.parametrize(
    ("kind", "place", "value"), [(kind, place, value) for kind, place, values in DAMAGES for value in values]
)
def test_fields_of_averaged_scores(
    kind: str, place: tuple[str, ...], value: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    path = with_members(files[kind], tmp_path / "forest.npz", metadata=metadata_set(*place, to=value))
    with pytest.raises(OURS):
        rfsize.load(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("field", ["voting", "threshold", "conventions", "table"])
def test_fields_that_are_left_out(field: str, kind: str, files: dict[str, bytes], tmp_path: Path) -> None:
    def without(content: bytes) -> bytes:
        whole = json.loads(np.load(io.BytesIO(content)).tobytes())
        del whole[field]
        return npy(np.frombuffer(json.dumps(whole).encode(), dtype=np.uint8))

    with pytest.raises(OURS):
        rfsize.load(with_members(files[kind], tmp_path / "forest.npz", metadata=without))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_leaves_that_no_forest_has(value: float, kind: str, files: dict[str, bytes], tmp_path: Path) -> None:
    def change(content: bytes) -> bytes:
        leaves = np.load(io.BytesIO(content))
        leaves[-1] = value
        return npy(leaves)

    with pytest.raises(OURS):
        rfsize.load(with_members(files[kind], tmp_path / "forest.npz", trees__value=change))


@pytest.mark.parametrize("kind", KINDS)
def test_leaves_too_large_to_be_added_up(kind: str, files: dict[str, bytes], tmp_path: Path) -> None:
    """In the precision in which they are added: two trees of single precision have no sum, nor a difference."""

    def change(content: bytes) -> bytes:
        leaves = np.load(io.BytesIO(content))
        leaves[:] = np.finfo(leaves.dtype).max
        return npy(leaves)

    with pytest.raises(OURS):
        rfsize.load(with_members(files[kind], tmp_path / "forest.npz", trees__value=change))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["<f2", "<i8", "|b1", "<c16", "|O"])
def test_leaves_of_another_precision(dtype: str, kind: str, files: dict[str, bytes], tmp_path: Path) -> None:
    def change(content: bytes) -> bytes:
        return npy(np.load(io.BytesIO(content)).astype(dtype))

    with pytest.raises(OURS):
        rfsize.load(with_members(files[kind], tmp_path / "forest.npz", trees__value=change))


@pytest.mark.parametrize("kind", KINDS)
def test_leaves_of_the_other_byte_order(kind: str, files: dict[str, bytes], data: Data, tmp_path: Path) -> None:
    def change(content: bytes) -> bytes:
        leaves = np.load(io.BytesIO(content))
        return npy(leaves.astype(leaves.dtype.newbyteorder(">")))

    (tmp_path / "own.npz").write_bytes(files[kind])
    expected = answers(rfsize.load(tmp_path / "own.npz"))(data.fresh)
    path = with_members(files[kind], tmp_path / "forest.npz", trees__value=change)
    assert np.array_equal(answers(rfsize.load(path))(data.fresh), expected)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("threshold", [5e-324, 1e-310, 1e-300, 1.0 - 2.0**-53])
@pytest.mark.parametrize("slope", [1.0, 5e-324, 1e-300, 1e-9])
def test_thresholds_and_slopes_at_the_ends(
    threshold: float, slope: float, data: Data, lgb_booster: Any, tmp_path: Path
) -> None:
    """Refused when read, or else answered."""
    rfsize.compile(lgb_booster).save(tmp_path / "own.npz")

    def change(content: bytes) -> bytes:
        content = metadata_set("threshold", to=threshold)(content)
        return bytes(metadata_set("conventions", "slope", to=slope.hex())(content))

    path = with_members((tmp_path / "own.npz").read_bytes(), tmp_path / "forest.npz", metadata=change)
    try:
        fast = rfsize.load(path)
    except OURS:
        return
    assert set(fast.predict_labels(data.fresh)) <= {0, 1}
    assert np.array_equal(fast.predict_labels(data.fresh[:2]), fast.predict_labels(data.fresh)[:2])


@settings(max_examples=300)
@given(
    seed=st.integers(0, 2**32),
    damage=st.sampled_from([damaged_archive, damaged_numbers]),
    kind=st.sampled_from(list(KINDS)),
)
def test_damaged_files_of_averaged_scores(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, seed: int, damage: Any, kind: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged_scores.npz"
    path.write_bytes(damage(files[kind], np.random.default_rng(seed)))
    try:
        fast = rfsize.load(path)
    except OURS:
        return
    for rows in (np.zeros((2, fast.forest.n_features)), np.zeros((20, fast.forest.n_features))):
        labels, asked = answers(fast)(rows, return_trees=True)
        assert ((asked >= 1) & (asked <= fast.n_trees)).all()
        if len(fast.classes):
            assert np.isin(labels, fast.classes).all()
            assert np.isfinite(fast.predict_proba(rows)).all()
        else:
            # Links of numbers are not bounded.
            assert not np.isnan(labels).any()


@settings(max_examples=300)
@given(
    member=st.sampled_from(["trees.nodes", "trees.tree_start", "columns.cuts", "classes", "metadata"]),
    place=st.floats(0, 1, exclude_max=True),
    damage=st.binary(min_size=1, max_size=4),
)
def test_damage_inside_a_sound_archive(
    saved: bytes, tmp_path_factory: pytest.TempPathFactory, member: str, place: float, damage: bytes
) -> None:
    """The checksum of the archive is that of the damaged content, as somebody hostile would write it."""

    def change(content: bytes) -> bytes:
        at = int(place * len(content))
        return content[:at] + damage + content[at + len(damage) :]

    path = tmp_path_factory.getbasetemp() / "hostile.npz"
    try:
        fast = rfsize.load(with_members(saved, path, **{member.replace(".", "__"): change}))
    except OURS:
        return
    assert np.isfinite(fast.predict_proba(np.zeros((2, fast.forest.n_features)))).all()


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), damage=st.sampled_from([damaged_bytes, damaged_archive, damaged_numbers]))
def test_damaged_files(saved: bytes, tmp_path_factory: pytest.TempPathFactory, seed: int, damage: Any) -> None:
    """The archive, the bytes of an array, and numbers of an array whose form is sound."""
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(damage(saved, np.random.default_rng(seed)))
    try:
        fast = rfsize.load(path)
    except OURS:
        return
    rows = np.zeros((2, fast.forest.n_features))
    assert np.isfinite(fast.predict_proba(rows)).all()
    assert fast.votes(rows).n_trees == fast.n_trees
