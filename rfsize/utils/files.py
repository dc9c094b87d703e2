"""Files written whole or not at all, and members of archives that anyone may have written."""

from __future__ import annotations

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


def stored_member(archive: zipfile.ZipFile, name: str, at_most: int) -> bytes:
    """What is stored under a name; what is not compressed cannot be larger than the file.

    Raises
    ------
    ValueError
        If it is compressed, or takes more than ``at_most`` bytes.
    KeyError
        If there is none.
    """
    member = archive.getinfo(name)
    # Memory is asked for by what it is said to take when compressed.
    is_stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
    if not is_stored or member.file_size > at_most:
        raise ValueError(f"{name!r} is compressed, or of another size than it should have")
    return archive.read(member)
