"""Writes files whole or not at all, and reads JSON without trusting its content."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as short
from typing import Any

from rfsize.exceptions import FileError

_SHARED, _OWN = 0o666, 0o600  # modes: of a new file, less the umask; of a file that will replace another


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new empty file to write to. It takes the place of ``path`` if the block ends without an error.

    rfsize writes every file this way. Another process that reads ``path`` meanwhile gets the whole old or the whole new
    file. If several write, the last one wins. A symbolic link is followed, and an old file passes on its mode. The new
    file has the ending of ``path``, because XGBoost chooses the format by it.

    Raises
    ------
    OSError
        If ``path`` is a folder, a pipe or a device, or cannot be written. ``path`` is then unchanged.
    """
    path, mode = Path(path), None
    if path.exists():
        if not path.is_file():
            raise OSError(errno.EISDIR if path.is_dir() else errno.EINVAL, "not a file to write to", str(path))
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        mode = stat.S_IMODE(path.stat().st_mode)
    target = Path(os.path.realpath(path))
    # Readers of whole folders skip names that begin with a dot.
    partial = target.parent / f".rfsize-{secrets.token_hex(8)}{path.suffix}"
    try:
        partial.touch(_SHARED if mode is None else _OWN, exist_ok=False)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        yield partial
        with partial.open("rb+") as file:  # on the disk first, so that no crash leaves a name without its content
            os.fsync(file.fileno())
        if mode is not None:
            partial.chmod(mode)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def require(fits: Any, what: str) -> None:
    """``ValueError`` with the text ``what`` unless ``fits``."""
    if not fits:
        raise ValueError(what)


# Errors that damaged or hostile content can raise when it is parsed. Endless depth raises a RuntimeError.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, zlib.error, OSError)


@contextmanager
def refusing_damage(what: str, advice: str) -> Iterator[None]:
    """Turn errors that damaged content raises into `FileError`: first ``what`` is wrong, then why, then what to do."""
    try:
        yield
    except _DAMAGE as error:
        reason = str(error) if isinstance(error, ValueError) else repr(error)
        raise FileError(f"{what} ({reason[:400]}): {advice}") from error


def json_of(content: bytes) -> Any:
    """Parse JSON; ``ValueError`` if it is invalid or nested too deeply."""
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_format(document: Any, form: str, version: int) -> None:
    """``ValueError`` if a document is not of this format and version."""
    known = document if isinstance(document, dict) else {}
    if (known.get("format"), known.get("version")) != (form, version):
        found = f"{short(known.get('format'))} of version {short(known.get('version'))}"
        raise ValueError(f"it is {found}, and this rfsize reads {form!r} of version {version}")
