"""Writes files whole or not at all, and reads files without trusting their content."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SHARED, _OWN = 0o666, 0o600  # modes: of a new file, less the umask; of a file that will replace another


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new empty file to write to. It takes the place of ``path`` if the block ends without an error.

    rfsize writes every file this way. Another process that reads ``path`` meanwhile gets the whole old or the whole new
    file. If several write, the last one wins. A symbolic link is followed, and an old file passes on its mode. A pipe
    or a device is written to directly. The new file has the ending of ``path``, because XGBoost chooses the format by
    it.

    Raises
    ------
    OSError
        If ``path`` is a folder or cannot be written. ``path`` is then unchanged.
    """
    path = Path(path)
    found = _status(path)
    is_special = found is not None and not stat.S_ISREG(found.st_mode)
    # The resolved name of a pipe in /proc does not exist.
    target = path if is_special else Path(os.path.realpath(path))
    folder = Path(tempfile.gettempdir()) if is_special else target.parent
    try:
        partial = _new_file(folder, path.suffix, _SHARED if found is None else _OWN)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        yield partial
        if is_special:
            _copy(partial, target)
        else:
            _flush(partial)
            if found is not None:
                partial.chmod(stat.S_IMODE(found.st_mode))
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _status(path: Path) -> os.stat_result | None:
    """The status of an existing file, None if there is none; ``OSError`` if it cannot be written."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return found


def _new_file(folder: Path, suffix: str, mode: int) -> Path:
    """An empty file with a unique name. The name begins with a dot, which readers of whole folders skip."""
    path = folder / f".rfsize-{secrets.token_hex(8)}{suffix}"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    return path


def _flush(path: Path) -> None:
    """Flush a file to the disk, so that no crash leaves its name without its content."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _copy(path: Path, target: Path) -> None:
    with path.open("rb") as content, target.open("wb") as file:
        shutil.copyfileobj(content, file)


def json_of(content: bytes) -> Any:
    """Parse JSON; ``ValueError`` if it is invalid, has a key twice, or is nested too deeply."""
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_named_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it holds a key twice")
    return found


def check_format(document: Any, form: str, version: int) -> None:
    """``ValueError`` if a document is not of this format and version."""
    if type(document) is not dict or not {"format", "version"} <= set(document):
        found = sorted(map(str, document))[:20] if isinstance(document, dict) else type(document).__name__
        raise ValueError(f"it has no format and version; found {str(found)[:400]}")
    if document["format"] != form:
        raise ValueError(f"its format is {short(document['format'])}, expected {form!r}: this is another kind of file")
    if type(document["version"]) is not int or document["version"] != version:
        raise ValueError(f"its version is {short(document['version'])}, but this rfsize reads version {version}")


def short(value: Any) -> str:
    """Any value in one line of a message."""
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    return repr(value)[:80]


def member_of(archive: zipfile.ZipFile, name: str, at_most: int) -> bytes:
    """The content of a member of an archive, deflated or not.

    Raises
    ------
    ValueError
        If the member is compressed in another way, or takes more than ``at_most`` bytes.
    KeyError
        If there is no such member.
    """
    member = archive.getinfo(name)
    is_stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
    # Memory is allocated by the claimed compressed size, which cannot exceed the archive.
    is_whole = member.compress_size <= size_of(archive) and member.file_size <= at_most
    if not is_whole or not (is_stored or member.compress_type == zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name!r} is compressed in an unknown way, or of another size than it should have")
    with archive.open(member) as file:
        return file.read(at_most)


def size_of(archive: zipfile.ZipFile) -> int:
    """Size of the archive in bytes."""
    assert archive.fp is not None
    return archive.fp.seek(0, os.SEEK_END)
