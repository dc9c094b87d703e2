"""Files written whole or not at all, and members of archives that anyone may have written."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A file to write to, which becomes ``path`` when all went well; its name ends alike, as XGBoost goes by that."""
    partial = path.with_name(f"{path.stem}.partial{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def member_of(archive: zipfile.ZipFile, name: str, at_most: int) -> bytes:
    """What an archive holds under a name, which may be deflated.

    Raises
    ------
    ValueError
        If it is compressed in another way, or takes more than ``at_most`` bytes.
    KeyError
        If there is none.
    """
    member = archive.getinfo(name)
    is_stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
    # Memory is asked for by what it is said to take when compressed, which can be no more than the archive.
    is_whole = member.compress_size <= _size(archive) and member.file_size <= at_most
    if not is_whole or not (is_stored or member.compress_type == zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name!r} is compressed in an unknown way, or of another size than it should have")
    with archive.open(member) as file:
        return file.read(at_most)


def _size(archive: zipfile.ZipFile) -> int:
    """Bytes of the archive itself."""
    assert archive.fp is not None
    return archive.fp.seek(0, os.SEEK_END)
