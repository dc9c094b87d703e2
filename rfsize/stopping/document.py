"""The file of a stop table: strict JSON with a checksum. Reading trusts nothing in the file."""

from __future__ import annotations

import hashlib
import json
from os import PathLike
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rfsize._files import check_format, json_of, short, written_whole
from rfsize.exceptions import FileError

FORMAT, VERSION = "rfsize.StopTable", 5

_LARGEST_FILE = 16_000_000  # bytes; the largest table takes a few millions


def write_document(path: str | PathLike[str], document: dict[str, Any]) -> None:
    """Write a signed document, whole or not at all."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


def read_document(path: str | PathLike[str]) -> Any:
    """Read a JSON file; ``FileError`` if it is not JSON."""
    with open(path, "rb") as file:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        refuse(f"the file is larger than {_LARGEST_FILE:,} bytes, more than any stop table")
    try:
        return json_of(content)
    except ValueError as error:
        refuse(f"the file is not JSON as a stop table is stored: {str(error)[:200]}")


def signed(content: dict[str, Any]) -> dict[str, Any]:
    """The document with its format, its version, and a checksum over everything."""
    document = {"format": FORMAT, "version": VERSION, **content}
    return {**document, "checksum": checksum(document)}


def checksum(document: dict[str, Any]) -> str:
    """The checksum over everything in a document but the checksum itself."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def check_signature(document: dict[str, Any]) -> None:
    """Raise ``FileError`` if the checksum does not fit the document."""
    if document["checksum"] != checksum({key: value for key, value in document.items() if key != "checksum"}):
        refuse("the checksum does not fit the content: the table is damaged")


def content_of(document: Any, names: tuple[str, ...]) -> Fields:
    """The content of a document that `signed` made; ``FileError`` if format, version or keys are wrong."""
    keys = {"format", "version", *names, "checksum"}
    try:
        check_format(document, FORMAT, VERSION)
    except ValueError as error:
        refuse(str(error))
    if set(document) != keys:
        own_keys = ", ".join(sorted(map(str, document))[:20])[:400]
        refuse(f"a stop table of version {VERSION} has the keys {', '.join(sorted(keys))}; found {own_keys}")
    return Fields(document)


def refuse(reason: str) -> NoReturn:
    """Raise `FileError` with what was found and what to do."""
    raise FileError(f"{reason}; build and save the table again")


class Fields:
    """Reads entries of a document by name, each with its type and range checked; ``FileError`` if one is wrong."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def within(self, name: str, names: tuple[str, ...], what: str | None = None) -> Fields:
        """The entries of a JSON object that must have exactly these keys; ``what`` to call it in the error."""
        value = self[name]
        if type(value) is not dict or set(value) != set(names):
            refuse(f"{what or name} must have the keys {', '.join(sorted(names))}, found {short(value)}")
        return Fields(value)

    def whole(self, name: str, least: int, most: int) -> int:
        """A whole number."""
        value = self[name]
        if type(value) is not int or not least <= value <= most:
            refuse(f"{name} must be a whole number from {least} to {most}, found {short(value)}")
        return value

    def real(self, name: str) -> float:
        """A finite floating-point number."""
        return float(_checked_numbers([self[name]], name, float, 1)[0])

    def alpha(self, name: str) -> float:
        """A share above 0, and at most 1."""
        value = self[name]
        if type(value) is not float or not 0.0 < value <= 1.0:
            refuse(f"{name} must be a fraction above 0 and at most 1, found {short(value)}")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of the allowed words."""
        value = self[name]
        if type(value) is not str or value not in choices:
            refuse(f"{name} must be one of {', '.join(choices)} for these trees and classes, found {short(value)}")
        return value

    def numbers(self, name: str, of: type, length: int | None = None) -> NDArray[Any]:
        """A list of finite numbers of one type, as an array."""
        return _checked_numbers(self[name], name, of, length)


def _checked_numbers(value: Any, name: str, of: type, length: int | None) -> NDArray[Any]:
    if type(value) is not list or (length is not None and len(value) != length):
        refuse(f"{name} must be a list{'' if length is None else f' of {length}'}, found {short(value)}")
    if not all(type(item) is of for item in value):
        refuse(f"{name} must hold numbers of type {of.__name__} only")
    try:
        array = np.array(value, dtype=np.int64 if of is int else np.float64)
    except OverflowError:
        refuse(f"{name} holds a number of more than 64 bits")
    if not np.isfinite(array).all():
        refuse(f"{name} holds a number that is not finite")
    return array
