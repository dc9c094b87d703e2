"""Files written whole or not at all, and read as data that nobody vouches for."""

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

_SHARED, _OWN = 0o666, 0o600  # modes: of a new file, less the umask; of one that is to take the place of another


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new empty file to write to, whose content ``path`` has once the block ends without an error.

    Everything that rfsize writes to a path goes this way. Whoever reads ``path`` meanwhile reads the old file or the
    new, whole, and the last of several writers stays. A symbolic link is followed, the mode of a file that was there is
    kept, and what is no regular file (a pipe, a device) is written to. The new file ends like ``path``, as XGBoost goes
    by that.

    Raises
    ------
    OSError
        If ``path`` is a folder, or may not be written; it is then as it was.
    """
    path = Path(path)
    found = _status(path)
    is_special = found is not None and not stat.S_ISREG(found.st_mode)
    # Of a pipe in a folder of processes the resolved name does not exist.
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
    """Of what is there, None where nothing is; ``OSError`` where it may not be written."""
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
    """An empty file of a name that nobody else has; readers of whole folders leave out names that begin with a dot."""
    path = folder / f".rfsize-{secrets.token_hex(8)}{suffix}"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    return path


def _flush(path: Path) -> None:
    """Bring a file to the disk, so that no crash leaves its name without its content."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _copy(path: Path, target: Path) -> None:
    with path.open("rb") as content, target.open("wb") as file:
        shutil.copyfileobj(content, file)


def json_of(content: bytes) -> Any:
    """The JSON that a file holds; ``ValueError`` where it is none, names a key twice or has no end of depth."""
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
    """``ValueError`` where a document does not say that it is of this format and version."""
    if type(document) is not dict or not {"format", "version"} <= set(document):
        found = sorted(map(str, document))[:20] if isinstance(document, dict) else type(document).__name__
        raise ValueError(f"it has no format and version; found {str(found)[:400]}")
    if document["format"] != form:
        raise ValueError(f"its format is {short(document['format'])}, expected {form!r}: this is another kind of file")
    if type(document["version"]) is not int or document["version"] != version:
        raise ValueError(f"its version is {short(document['version'])}, but this rfsize reads version {version}")


def short(value: Any) -> str:
    """What was found, in one line whatever it is."""
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    return repr(value)[:80]


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
    is_whole = member.compress_size <= size_of(archive) and member.file_size <= at_most
    if not is_whole or not (is_stored or member.compress_type == zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name!r} is compressed in an unknown way, or of another size than it should have")
    with archive.open(member) as file:
        return file.read(at_most)


def size_of(archive: zipfile.ZipFile) -> int:
    """Bytes of the archive itself."""
    assert archive.fp is not None
    return archive.fp.seek(0, os.SEEK_END)
