"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import rfsize
from rfsize.utils import files
from rfsize.utils.files import written_whole

if sys.platform != "win32":
    import resource

_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files, and keeps readers' files")


def write(path: Path, content: bytes) -> None:
    with written_whole(path) as partial:
        partial.write_bytes(content)


def test_no_other_file_is_touched(tmp_path: Path) -> None:
    for name in ("table.partial.json", "table.json.tmp", "table"):
        (tmp_path / name).write_text("mine")
    write(tmp_path / "table.json", b"new")
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["mine", "mine", "mine", "new"]


@_POSIX
@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_is_followed(exists: bool, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    if exists:
        (tmp_path / "elsewhere" / "target").write_text("old")
    link = tmp_path / "table.json"
    link.symlink_to(Path("elsewhere") / "target")
    write(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "elsewhere" / "target").read_text() == "new"
    assert len(list(tmp_path.rglob("*"))) == 3


@_POSIX
def test_modes(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    old = os.umask(0o027)
    try:
        write(path, b"new")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    for mode in (0o600, 0o664):
        path.chmod(mode)
        write(path, b"again")
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_file_that_may_not_be_written_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text("old")
    path.chmod(0o444)
    if not os.access(path, os.W_OK):  # everything may be written by root
        with pytest.raises(PermissionError, match=r"table\.json"):
            write(path, b"new")
        assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["table.json"]


def test_what_is_no_place_for_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        write(tmp_path, b"new")
    with pytest.raises(FileNotFoundError, match=r"nowhere.table\.json"):
        write(tmp_path / "nowhere" / "table.json", b"new")
    assert not list(tmp_path.iterdir())


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text("old")
    with suppress(KeyboardInterrupt), written_whole(path) as partial:
        partial.write_text("half of the ne")
        raise KeyboardInterrupt
    assert [one.read_text() for one in tmp_path.iterdir()] == ["old"]


@_POSIX
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe.csv", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(pipe, b"new")
    reader.join(10)
    assert read == [b"new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [one.name for one in tmp_path.iterdir()] == ["pipe.csv"]


_WRITER = """
import runpy, sys
written_whole = runpy.run_path(sys.argv[3])["written_whole"]  # without the packages that rfsize imports
for _ in range(30):
    with written_whole(sys.argv[1]) as partial:
        partial.write_bytes(sys.argv[2].encode() * 500_000)
"""


@_POSIX
def test_two_processes_and_a_reader_see_whole_files(tmp_path: Path) -> None:
    path, contents = tmp_path / "table.json", {letter.encode() * 500_000 for letter in "ab"}
    write(path, min(contents))
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, str(path), letter, files.__file__]) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(path.read_bytes())
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen == contents
    assert [one.name for one in tmp_path.iterdir()] == ["table.json"]


def _forest() -> Any:
    X = np.random.default_rng(0).normal(size=(200, 3))
    return rfsize.compile(RandomForestClassifier(9, random_state=0).fit(X, X[:, 0] > 0), n_jobs=1)


_WRITERS: dict[str, Callable[[], Callable[[Path], object]]] = {
    "table": lambda: rfsize.StopTable.build(101).save,
    "forest": lambda: _forest().save,
    "source": lambda: _forest().to_c,
    "page": lambda: rfsize.size(rfsize.Votes([[3, 97], [60, 40]]), alpha=0.9).to_html,
}


@_POSIX
@pytest.mark.parametrize("what", _WRITERS)
def test_a_full_disk_costs_nothing(what: str, tmp_path: Path) -> None:
    path, save = tmp_path / "kept", _WRITERS[what]()
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [one.read_text() for one in tmp_path.iterdir()] == ["old"]
    save(path)
    assert path.read_bytes() != b"old"
