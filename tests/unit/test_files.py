"""What is saved is written whole or not at all, and nothing else is touched."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import rfsize
from helpers.models import model

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files, and keeps readers' files")
TABLE = rfsize.StopTable.build(31)
SAVES: dict[str, Callable[[], Callable[[Path], object]]] = {
    "table": lambda: TABLE.save,
    "forest": lambda: rfsize.compile(model("lightgbm").model).save,
    "source": lambda: rfsize.compile(model("lightgbm").model).to_c,
    "page": lambda: rfsize.size(rfsize.Votes([[3, 97], [60, 40]]), alpha=0.9).to_html,
}


def test_no_other_file_is_touched(tmp_path: Path) -> None:
    for name in ("table.partial.json", "table.json.tmp", "table"):
        (tmp_path / name).write_text("mine")
    TABLE.save(tmp_path / "table.json")
    assert sorted(path.read_text() == "mine" for path in tmp_path.iterdir()) == [False, True, True, True]


@posix
@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_is_followed(exists: bool, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "table.json"
    target.write_text("old") if exists else None
    link.symlink_to(Path("elsewhere") / "target")
    TABLE.save(link)
    assert link.is_symlink()
    assert rfsize.StopTable.load(target) == TABLE
    assert len(list(tmp_path.rglob("*"))) == 3


@posix
def test_modes(tmp_path: Path) -> None:
    path, old = tmp_path / "table.json", os.umask(0o027)
    try:
        TABLE.save(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o664)
    TABLE.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o664


def test_what_is_no_place_for_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        TABLE.save(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"nowhere.table\.json"):
        TABLE.save(tmp_path / "nowhere" / "table.json")
    assert not list(tmp_path.iterdir())


@posix
def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe"):
        TABLE.save(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@posix
@pytest.mark.parametrize("what", SAVES)
def test_a_full_disk_costs_nothing(what: str, tmp_path: Path) -> None:
    import resource

    path, save = tmp_path / "kept", SAVES[what]()
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]
    save(path)
    assert path.read_bytes() != b"old"
