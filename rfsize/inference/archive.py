"""Files of arrays and one JSON text, without pickles and checked in every detail when they are read.

Most are npz archives, whose checksums find accidental damage. Files that load at once hold the arrays as they are used,
one after another: the text, which tells their types and sizes, stands in front. A file can come from anyone, so no
memory is allocated for a size that the file merely claims.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._files import check_format, json_of

# Errors that damaged or hostile content can raise when it is parsed. Endless depth raises a RuntimeError.
DAMAGE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
# The same for archives. A place before the beginning of an archive raises an OSError.
_DAMAGED = (*DAMAGE, zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError)

_TEXT = "metadata"
_LARGEST_TEXT = 64_000_000  # bytes
# The header that NumPy writes for a list of numbers or text. NumPy's own reader would evaluate any header.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<order>[<>|=])(?P<kind>[iufbU])(?P<width>[0-9]{1,6})', "
    rb"'fortran_order': False, 'shape': \((?P<size>[0-9]{1,19}),\), \} *\n",
    re.DOTALL,
)
_LONGEST_HEADER, _LONGEST_LABEL = 256, 100_000
# A file may unpack to at most the first number times its size, plus the second number of bytes.
_UNPACKED, _LITTLE = 100, 1 << 20


# Begins a file of arrays as they are used. Each array begins at a multiple of so many bytes.
_PLAIN = b"\x93RFSIZE\n"
_ALIGNED = 64


def is_plain(path: Path) -> bool:
    """Whether a file begins as `Archive.write_plain` does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_PLAIN)) == _PLAIN


def require(fits: Any, what: str) -> None:
    """``ValueError`` with the text ``what`` unless ``fits``."""
    if not fits:
        raise ValueError(what)


class Archive(NamedTuple):
    """A file format.

    Attributes
    ----------
    form, version
        Name and version of the format, as the text of a file has them.
    arrays : dict
        The types that each one-dimensional array may have; None for any numbers or text.
    check_sizes : callable
        Takes the sizes of the arrays by name, and raises ``ValueError`` if they are impossible.
    error : type
        The error that a damaged file raises.
    refusal : str
        The message of the error, in which ``{path}`` and ``{reason}`` (what is wrong) are filled in.
    deflated : bool
        Whether files are written compressed. Both kinds can be read.
    """

    form: str
    version: int
    arrays: dict[str, tuple[Any, ...] | None]
    check_sizes: Callable[[dict[str, int]], None]
    error: type[ValueError]
    refusal: str
    deflated: bool = True

    def write_to(self, file: BinaryIO, content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Write to an open file."""
        text = json.dumps({"format": self.form, "version": self.version, **content}).encode()
        members: dict[str, Any] = {_TEXT: np.frombuffer(text, dtype=np.uint8), **arrays}
        (np.savez_compressed if self.deflated else np.savez)(file, **members)

    def is_like(self, path: Path) -> bool:
        """Whether a file holds arrays of these names. Their content is checked by `read`."""
        if not path.is_file():
            return False
        with suppress(*_DAMAGED), zipfile.ZipFile(path) as archive:
            return self._has_all(archive)
        return False

    @contextmanager
    def read(self, path: Path, part: bytes | None = None) -> Iterator[tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
        """The text of a file and its arrays in native byte order. Parse them inside the ``with`` block.

        If the archive is only a part of the file at ``path``, ``part`` holds the bytes of this part.

        Raises
        ------
        ValueError
            The ``error`` of the format, if the file is damaged or the block raises an error of `DAMAGE`.
        OSError
            If the file cannot be opened.
        """
        with self._opened(path) if part is None else BytesIO(part) as file, self._guarded(path):
            with zipfile.ZipFile(file) as archive:
                arrays = self._arrays(archive)
            content = json_of(arrays.pop(_TEXT).tobytes())
            check_format(content, self.form, self.version)
            yield content, arrays

    def write_plain(self, file: BinaryIO, content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Write to an open file the arrays as they are used."""
        kept = {name: np.ascontiguousarray(arrays[name]) for name in self.arrays}
        described = {name: [array.dtype.str, array.size] for name, array in kept.items()}
        whole = {"format": self.form, "version": self.version, "arrays": described, **content}
        text = json.dumps(whole).encode()
        file.write(_PLAIN + len(text).to_bytes(8, "little"))
        for part in (text, *(array.tobytes() for array in kept.values())):
            file.write(part)
            file.write(bytes(-file.tell() % _ALIGNED))

    @contextmanager
    def read_plain(self, path: Path, *, mapped: bool) -> Iterator[tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
        """As `read`, of what `write_plain` wrote; ``mapped`` leaves the arrays in the file, which processes share."""
        with self._opened(path) as file, self._guarded(path):
            whole: Any = mmap(file.fileno(), 0, access=ACCESS_READ) if mapped else file.read()
            start = len(_PLAIN) + 8
            stop = start + int.from_bytes(whole[len(_PLAIN) : start], "little")
            require(stop <= min(len(whole), start + _LARGEST_TEXT), "its text is longer than the file")
            content = json_of(whole[start:stop])
            check_format(content, self.form, self.version)
            described = content["arrays"]
            require(list(described) == list(self.arrays), "it has other arrays")
            headers, at = {}, stop
            for name, (dtype, size) in described.items():
                require(type(dtype) is str and re.fullmatch("[<>|][iufbU][0-9]{1,6}", dtype), f"{name} has no type")
                require(type(size) is int and size >= 0, f"{name} is of no size")
                headers[name] = _Header(np.dtype(dtype), size, at + -at % _ALIGNED)
                at = headers[name].begins + headers[name].n_bytes
                types = self.arrays[name]
                require(types is None or headers[name].dtype in types, f"{name} is {dtype}")
            require(at + -at % _ALIGNED == len(whole), "its arrays are not of the size that they claim")
            self.check_sizes({name: header.size for name, header in headers.items()})
            arrays = {name: np.frombuffer(whole, *header) for name, header in headers.items()}
            for name, array in arrays.items():
                _check_text(name, array)
            yield content, arrays

    def _opened(self, path: Path) -> BinaryIO:
        if path.exists() and not path.is_file():
            raise self._refusal(path, "it is no regular file")
        return path.open("rb")

    @contextmanager
    def _guarded(self, path: Path) -> Iterator[None]:
        """Turn what damaged content raises into the error of the format."""
        try:
            yield
        except _DAMAGED as error:
            is_told = isinstance(error, (ValueError, zipfile.BadZipFile))
            raise self._refusal(path, str(error) if is_told else repr(error)) from error

    def _refusal(self, path: Path, reason: str) -> ValueError:
        return self.error(self.refusal.format(path=path, reason=reason))

    def _arrays(self, archive: zipfile.ZipFile) -> dict[str, NDArray[Any]]:
        kinds = {**self.arrays, _TEXT: (np.uint8,)}
        require(self._has_all(archive), "it has other arrays")
        headers = {name: _header(archive, name, known) for name, known in kinds.items()}
        self.check_sizes({name: header.size for name, header in headers.items()})
        require(headers[_TEXT].size <= _LARGEST_TEXT, "its text is too long")
        unpacked = sum(header.n_bytes for header in headers.values())
        require(unpacked <= _UNPACKED * size_of(archive) + _LITTLE, f"it unpacks to {unpacked:,} bytes")
        return {name: _array(archive, name, header) for name, header in headers.items()}

    def _has_all(self, archive: zipfile.ZipFile) -> bool:
        return sorted(archive.namelist()) == sorted(f"{name}.npy" for name in (*self.arrays, _TEXT))


class _Header(NamedTuple):
    """The header of an array."""

    dtype: np.dtype[Any]
    size: int
    begins: int

    @property
    def n_bytes(self) -> int:
        return self.size * self.dtype.itemsize


def _header(archive: zipfile.ZipFile, name: str, types: tuple[Any, ...] | None) -> _Header:
    member = archive.getinfo(f"{name}.npy")
    with archive.open(member) as file:
        start = file.read(_LONGEST_HEADER)
    match = _NPY.match(start)
    if match is None:
        raise ValueError(f"{name} is not in the first npy format, or no list")
    order, kind, width = match["order"].decode(), match["kind"].decode(), int(match["width"])
    known = {"U": range(1, _LONGEST_LABEL + 1), "b": (1,), "f": (2, 4, 8)}.get(kind, (1, 2, 4, 8))
    require(width in known, f"{name} holds {kind}{width}")
    header = _Header(np.dtype(f"{order}{kind}{width}"), int(match["size"]), 10 + int.from_bytes(start[8:10], "little"))
    require(types is None or header.dtype.newbyteorder("=") in types, f"{name} is {header.dtype}")
    require(header.begins + header.n_bytes == member.file_size, f"{name} is not of the size it claims")
    return header


def _array(archive: zipfile.ZipFile, name: str, header: _Header) -> NDArray[Any]:
    content = member_of(archive, f"{name}.npy", at_most=header.begins + header.n_bytes)
    array = np.frombuffer(content[header.begins :], dtype=header.dtype).astype(header.dtype.newbyteorder("="))
    _check_text(name, array)
    return array


def _check_text(name: str, array: NDArray[Any]) -> None:
    if array.dtype.kind == "U":
        points = array.view(np.uint32)
        require(((points < 0xD800) | ((points > 0xDFFF) & (points <= 0x10FFFF))).all(), f"{name} holds what is no text")


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
