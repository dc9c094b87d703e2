"""Files of arrays and one JSON text, without pickles and checked in every detail when they are read.

The text tells the types and sizes of the arrays, which follow as they are used. All that may be deflated, under a
checksum that finds accidental damage. A file can come from anyone, so no memory is allocated for a size that the file
merely claims.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._files import check_format, json_of, refusing_damage, require

_PLAIN, _DEFLATED = b"\x93RFSIZE\n", b"\x93RFSIZEz"  # the first bytes of a file
_ALIGNED = 64  # each array begins at a multiple of so many bytes
_LARGEST_TEXT, _CHUNK = 64_000_000, 1 << 18  # bytes
_DTYPE = re.compile("[<|][iufbU][0-9]{1,6}")
# A file may unpack to at most the first number times its size, plus the second number of bytes.
_UNPACKED, _LITTLE = 100, 1 << 20


class Archive(NamedTuple):
    """A file format.

    Attributes
    ----------
    form, version
        Name and version of the format, as the text of a file has them.
    arrays : dict
        The types that each one-dimensional array may have; None for any numbers or text.
    deflated : bool
        Whether files are deflated.
    """

    form: str
    version: int
    arrays: dict[str, tuple[Any, ...] | None]
    deflated: bool = True

    def write_to(self, file: BinaryIO, content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Write to an open file."""
        in_order = {name: arrays[name].astype(arrays[name].dtype.newbyteorder("<")) for name in self.arrays}
        described = {name: [array.dtype.str, array.size] for name, array in in_order.items()}
        text = json.dumps({"format": self.form, "version": self.version, "arrays": described, **content}).encode()
        whole = bytearray(_PLAIN + len(text).to_bytes(8, "little"))
        for part in (text, *(array.tobytes() for array in in_order.values())):
            whole += part + bytes(-(len(whole) + len(part)) % _ALIGNED)
        file.write(_DEFLATED + zlib.compress(whole) if self.deflated else whole)

    def arrays_in(self, whole: Any, at: int, described: Any) -> dict[str, NDArray[Any]]:
        """The arrays that the text of a file describes, which lie in its bytes from ``at`` on."""
        require(list(described) == list(self.arrays), "it has other arrays")
        arrays = {}
        for name, (dtype, size) in described.items():
            types = self.arrays[name]
            require(type(dtype) is str and _DTYPE.fullmatch(dtype), f"{name} has no type")
            require(types is None or np.dtype(dtype).newbyteorder("=") in types, f"{name} is {dtype}")
            require(type(size) is int and size >= 0, f"{name} is of no size")
            array = np.frombuffer(whole, dtype, size, at)  # ValueError beyond the end
            if array.dtype.kind == "U":
                points = array.view("<u4")
                are_characters = ((points < 0xD800) | ((points > 0xDFFF) & (points <= 0x10FFFF))).all()
                require(are_characters, f"{name} holds what is no text")
            arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
            at += array.nbytes + -(at + array.nbytes) % _ALIGNED
        require(at == len(whole), "its arrays are not of the size that they claim")
        return arrays


@contextmanager
def opened(
    path: Path, formats: tuple[Archive, ...], part: bytes | None = None, *, mapped: bool = False
) -> Iterator[tuple[Archive, dict[str, Any], dict[str, NDArray[Any]]]]:
    """The format of a file, its text, and its arrays in native byte order. Parse them inside the ``with`` block.

    If the archive is only a part of the file at ``path``, ``part`` holds the bytes of this part. With ``mapped``, the
    arrays of a file that is not deflated stay in it, and processes share them.

    Raises
    ------
    FileError
        If the file is damaged, or the block raises an error as damaged content does.
    OSError
        If the file cannot be opened.
    """
    with refusing(path):
        require(part is not None or path.is_file() or not path.exists(), "it is no regular file")
    with path.open("rb") if part is None else BytesIO(part) as file, refusing(path):
        whole, start = _bytes_of(file), len(_PLAIN) + 8
        require(whole[: len(_PLAIN)] == _PLAIN, "it begins as no such file")
        stop = start + int.from_bytes(whole[len(_PLAIN) : start], "little")
        require(stop <= min(len(whole), _LARGEST_TEXT), "its text is longer than the file")
        content = json_of(bytes(whole[start:stop]))
        archive = next((known for known in formats if known.form == content["format"]), formats[0])
        check_format(content, archive.form, archive.version)
        arrays = archive.arrays_in(whole, stop + -stop % _ALIGNED, content.pop("arrays"))
        if isinstance(whole, mmap) and not mapped:
            arrays = {name: array.copy() for name, array in arrays.items()}
        yield archive, content, arrays


def refusing(path: Path) -> AbstractContextManager[None]:
    """Raise `FileError` instead of the errors that damaged or hostile content of a file raises."""
    return refusing_damage(f"{path} is not a forest file, or is damaged", "compile the model and save it again")


def _bytes_of(file: BinaryIO) -> mmap | bytearray:
    """The content of a file, inflated; ``ValueError`` if it is damaged or unpacks to too much."""
    begins = file.read(len(_PLAIN))
    if begins == _PLAIN:
        return mmap(file.fileno(), 0, access=ACCESS_READ)
    require(begins == _DEFLATED, "it begins as no such file")
    inflating, whole, n_read = zlib.decompressobj(), bytearray(), 0
    while not inflating.eof:
        chunk = file.read(_CHUNK)
        require(chunk, "its end is missing")
        n_read += len(chunk)
        most = _UNPACKED * n_read + _LITTLE
        whole += inflating.decompress(chunk, most - len(whole) + 1)
        require(len(whole) <= most, f"it unpacks to more than {most:,} bytes")
    require(not inflating.unused_data and not file.read(1), "something follows its end")
    return whole
