"""Files of arrays and one JSON text: npz archives without pickles, of which nothing is read that has not been checked.

The checksums that zip archives keep find what an accident alters. Nothing is allocated for a size that a file merely
claims: whoever wrote it may be careless or hostile.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.files import check_format, json_of, member_of, size_of, written_whole

# What goes wrong where content that anyone may have written is taken apart; endless depth is a RuntimeError,
# and a MemoryError a size that no content justifies.
DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
# The same of archives; an OSError comes of a place before their beginning.
_DAMAGED = (*DAMAGE, zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError)

_TEXT = "metadata"
_LARGEST_TEXT = 64_000_000  # bytes
# The form in which NumPy writes a list of numbers or text; its own reader evaluates any.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<order>[<>|=])(?P<kind>[iufbU])(?P<width>[0-9]{1,6})', "
    rb"'fortran_order': False, 'shape': \((?P<size>[0-9]{1,19}),\), \} *\n",
    re.DOTALL,
)
_LONGEST_HEADER, _LONGEST_LABEL = 256, 100_000
# What a file unpacks to is at most so many times its size, and more where it is little.
_UNPACKED, _LITTLE = 100, 1 << 20


def require(fits: Any, what: str) -> None:
    """``ValueError`` that says what is wrong, where something does not fit."""
    if not fits:
        raise ValueError(what)


class Archive(NamedTuple):
    """A kind of file.

    Attributes
    ----------
    form, version
        What its text says of it.
    arrays : dict
        Types that each array, which is a list, may have; None for any numbers or text.
    check_sizes : callable
        Raises ``ValueError`` where the sizes of the arrays, by name, are none that they can have.
    error : type
        What is raised of a damaged file.
    refusal : str
        Its message, in which ``{path}`` and ``{found}``, what is wrong, are filled in.
    deflated : bool
        Whether files are written compressed; both kinds are read.
    """

    form: str
    version: int
    arrays: dict[str, tuple[Any, ...] | None]
    check_sizes: Callable[[dict[str, int]], None]
    error: type[ValueError]
    refusal: str
    deflated: bool = True

    def write(self, path: Path, content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Write a file whole, or not at all."""
        with written_whole(path) as partial, partial.open("wb") as file:
            self.write_to(file, content, arrays)

    def write_to(self, file: BinaryIO, content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """The same into an open file."""
        text = json.dumps({"format": self.form, "version": self.version, **content}).encode()
        members: dict[str, Any] = {_TEXT: np.frombuffer(text, dtype=np.uint8), **arrays}
        (np.savez_compressed if self.deflated else np.savez)(file, **members)

    def is_like(self, path: Path) -> bool:
        """Whether a file holds arrays of these names, whatever they are; `read` checks that."""
        if not path.is_file():
            return False
        with suppress(*_DAMAGED), zipfile.ZipFile(path) as archive:
            return self._has_all(archive)
        return False

    @contextmanager
    def read(self, path: Path, part: bytes | None = None) -> Iterator[tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
        """The text of a file and its arrays in native byte order, to be taken apart in a block.

        Of a file that is a ``part`` of the one at ``path``, these are the bytes.

        Raises
        ------
        ValueError
            An ``error`` of the file, where it is damaged or taking it apart fails.
        OSError
            If it cannot be opened.
        """
        if path.exists() and not path.is_file():
            raise self._refusal(path, "it is no regular file")
        with path.open("rb") if part is None else BytesIO(part) as file:
            try:
                with zipfile.ZipFile(file) as archive:
                    arrays = self._arrays(archive)
                content = json_of(arrays.pop(_TEXT).tobytes())
                check_format(content, self.form, self.version)
                yield content, arrays
            except _DAMAGED as error:
                is_told = isinstance(error, (ValueError, zipfile.BadZipFile))
                raise self._refusal(path, str(error) if is_told else repr(error)) from error

    def _refusal(self, path: Path, found: str) -> ValueError:
        return self.error(self.refusal.format(path=path, found=found))

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
    """What an array says of itself."""

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
    found = _NPY.match(start)
    if found is None:
        raise ValueError(f"{name} is not in the first npy format, or no list")
    order, kind, width = found["order"].decode(), found["kind"].decode(), int(found["width"])
    known = {"U": range(1, _LONGEST_LABEL + 1), "b": (1,), "f": (2, 4, 8)}.get(kind, (1, 2, 4, 8))
    require(width in known, f"{name} holds {kind}{width}")
    header = _Header(np.dtype(f"{order}{kind}{width}"), int(found["size"]), 10 + int.from_bytes(start[8:10], "little"))
    require(types is None or header.dtype.newbyteorder("=") in types, f"{name} is {header.dtype}")
    require(header.begins + header.n_bytes == member.file_size, f"{name} is not of the size it claims")
    return header


def _array(archive: zipfile.ZipFile, name: str, header: _Header) -> NDArray[Any]:
    content = member_of(archive, f"{name}.npy", at_most=header.begins + header.n_bytes)
    array = np.frombuffer(content[header.begins :], dtype=header.dtype).astype(header.dtype.newbyteorder("="))
    if array.dtype.kind == "U":
        points = array.view(np.uint32)
        require(((points < 0xD800) | ((points > 0xDFFF) & (points <= 0x10FFFF))).all(), f"{name} holds what is no text")
    return array
