"""Files that somebody wrote to do harm: refused by rfsize's own errors, quickly, and before memory is asked for."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.damaged import damaged_archive, damaged_bytes, damaged_forest
from helpers.forests import Data

OURS = (rfsize.ForestFileError, rfsize.TableError)


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
    with pytest.raises(rfsize.ForestFileError):
        rfsize.load(path)


@pytest.mark.parametrize("point", [0xD800, 0x110000, 0xFFFFFFFF])
def test_labels_that_are_no_text(point: int, saved: bytes, tmp_path: Path) -> None:
    labels = np.array([65, 66, point], dtype=np.uint32).view("<U1")
    path = with_members(saved, tmp_path / "forest.npz", classes=lambda _: npy(labels))
    with pytest.raises(rfsize.ForestFileError, match="no text"):
        rfsize.load(path)


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    for path in (tmp_path, Path(os.devnull)):
        with pytest.raises(rfsize.ForestFileError, match="no regular file"):
            rfsize.load(path)


def test_a_sparse_file_of_many_gigabytes_is_not_read(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "forest.npz"
    with path.open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(rfsize.ForestFileError):
        rfsize.load(path)
    claimed = np.zeros(1, dtype=np.uint64)
    header = npy(claimed).replace(b"(1,), }    ", b"(%d,), }" % (1 << 30))[:128]
    path = with_members(saved, path, trees__nodes=lambda _: header)
    with pytest.raises(rfsize.ForestFileError):
        rfsize.load(path)


def test_a_member_that_claims_to_take_gigabytes_when_compressed(saved: bytes, tmp_path: Path) -> None:
    """By that claim zipfile asks for memory, whatever the member's own size."""
    path = tmp_path / "forest.npz"
    for name in zipfile.ZipFile(io.BytesIO(saved)).namelist():
        entry = saved.rindex(b"PK\x01\x02", 0, saved.rindex(name.encode()))
        path.write_bytes(saved[: entry + 20] + (1 << 31).to_bytes(4, "little") + saved[entry + 24 :])
        with pytest.raises(rfsize.ForestFileError) as refused:
            rfsize.load(path)
        assert not isinstance(refused.value.__cause__, MemoryError)


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
    with pytest.raises(rfsize.ForestFileError, match=message):
        rfsize.load(path)


def test_shares_that_are_none(data: Data, tmp_path: Path) -> None:
    rfsize.compile(RandomForestClassifier(5, max_depth=3, random_state=0).fit(data.X, data.y)).save(tmp_path / "f.npz")

    def doubled(content: bytes) -> bytes:
        return npy(2.0 * np.load(io.BytesIO(content)))

    path = with_members((tmp_path / "f.npz").read_bytes(), tmp_path / "g.npz", trees__value=doubled)
    with pytest.raises(rfsize.ForestFileError, match="share is none"):
        rfsize.load(path)


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
@given(seed=st.integers(0, 2**32), damage=st.sampled_from([damaged_bytes, damaged_archive, damaged_forest]))
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
