"""Writes files whole or not at all, and reads JSON without trusting its content."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
import tempfile
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
    status = _status(path)
    is_special = status is not None and not stat.S_ISREG(status.st_mode)
    # The resolved name of a pipe in /proc does not exist.
    target = path if is_special else Path(os.path.realpath(path))
    folder = Path(tempfile.gettempdir()) if is_special else target.parent
    # Readers of whole folders skip names that begin with a dot.
    partial = folder / f".rfsize-{secrets.token_hex(8)}{path.suffix}"
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _SHARED if status is None else _OWN))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        yield partial
        if is_special:
            with partial.open("rb") as content, target.open("wb") as file:
                shutil.copyfileobj(content, file)
        else:
            with partial.open("rb+") as file:  # on the disk first, so that no crash leaves a name without its content
                os.fsync(file.fileno())
            if status is not None:
                partial.chmod(stat.S_IMODE(status.st_mode))
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _status(path: Path) -> os.stat_result | None:
    """The status of an existing file, None if there is none; ``OSError`` if it cannot be written."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return status


def json_of(content: bytes) -> Any:
    """Parse JSON; ``ValueError`` if it is invalid, has a key twice, or is nested too deeply."""
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_named_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("it holds a key twice")
    return document


def check_format(document: Any, form: str, version: int) -> None:
    """``ValueError`` if a document is not of this format and version."""
    if type(document) is not dict or not {"format", "version"} <= set(document):
        keys = sorted(map(str, document))[:20] if isinstance(document, dict) else type(document).__name__
        raise ValueError(f"it has no format and version; found {str(keys)[:400]}")
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
