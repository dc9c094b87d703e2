"""Reads UBJ, the binary form of JSON in which XGBoost stores models, before XGBoost itself reads it.

XGBoost does not check the lengths in a file, and reads beyond its end if they are wrong. It uses a part of the format:
lengths are 64-bit numbers, numbers have their high bytes first, and an array has either one type for all its numbers or
a type before each value (https://ubjson.org).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.models.damage import refuse

_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_CONSTANTS = {b"T": True, b"F": False, b"Z": None}
_DEEPEST = 64  # models have eight levels


def read(content: bytes) -> Any:
    """Parse a file into the same Python types as `json.loads`.

    Raises
    ------
    NotAForestError
        If the file breaks off, goes on after its end, has a key twice, or holds anything that XGBoost does not write.
    """
    reader = _Reader(content)
    document = reader.value(0)
    if reader.at != len(content):
        refuse(f"its document ends after {reader.at} of {len(content)} bytes")
    return document


class _Reader:
    """Reads values from a place in a file."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def value(self, depth: int) -> Any:
        """Read a value of any type. Its type comes first."""
        kind = self._take(1)
        if kind in _NUMBERS:
            return self._numbers(kind, 1)[0]
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == b"S":
            return self._text()
        nested = {b"{": self._object, b"[": self._array}
        if kind not in nested or depth > _DEEPEST:
            refuse(f"byte {self.at - 1} begins no value, or lies too deep in others")
        return nested[kind](depth + 1)

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self._passes(b"}"):
            name = self._text()
            if name in found:
                refuse(f"it names {name[:40]!r} twice in one object")
            found[name] = self.value(depth)
        return found

    def _array(self, depth: int) -> list[Any]:
        if self._passes(b"$"):
            kind = self._take(1)
            if kind not in _NUMBERS:
                refuse(f"byte {self.at - 1} is no type of numbers")
            return self._numbers(kind, self._length())
        if self._content[self.at : self.at + 1] == b"#":
            return [self.value(depth) for _ in range(self._checked(self._length()))]
        found = []
        while not self._passes(b"]"):
            found.append(self.value(depth))
        return found

    def _numbers(self, kind: bytes, length: int) -> list[Any]:
        numbers = np.dtype(_NUMBERS[kind])
        return np.frombuffer(self._take(length * numbers.itemsize), dtype=numbers).tolist()

    def _text(self) -> str:
        if not self._passes(b"L"):
            refuse(f"byte {self.at} does not say how long a text is")
        text = self._take(self._numbers(b"L", 1)[0])
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as error:
            refuse(f"the text before byte {self.at} is not UTF-8", error)

    def _length(self) -> int:
        if not (self._passes(b"#") and self._passes(b"L")):
            refuse(f"byte {self.at} does not say how long an array is")
        return int(self._numbers(b"L", 1)[0])

    def _passes(self, mark: bytes) -> bool:
        """Whether the next byte is ``mark``; if so, go past it."""
        found = self._content[self.at : self.at + 1] == mark
        self.at += found
        return found

    def _take(self, length: int) -> bytes:
        start, self.at = self.at, self.at + self._checked(length)
        return self._content[start : self.at]

    def _checked(self, length: int) -> int:
        """Check a length against the rest of the file, in which each item takes at least one byte."""
        if not 0 <= length <= len(self._content) - self.at:
            refuse(f"at byte {self.at} it says that {length:,} more follow, and {len(self._content) - self.at:,} do")
        return length
