"""Files and texts damaged at random, as an accident or somebody hostile would."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import zlib
from typing import Any

import numpy as np

NASTY = (
    *("", "x", "nan", "inf", "-inf", "-1", "0", "1", "1.5", "1e308", "-1e308", "1e-320", "2147483647", "2147483648"),
    *("-2147483649", "4294967296", "9223372036854775808", "1" + 400 * "0", "[5]", "[[[]]]", "null", "{}", '["a"]'),
)
VALUES = (
    *(None, True, -1, 0, 1, 2, 7, 255, 2**31 - 1, 2**31, 2**32, 2**63, 10**400, 1.5, -1.0, 1e308, float("nan")),
    *(float("inf"), "", "x", "-1", "1", "2", "2147483647", "1e400", [], [5], [[]], {}, {"a": 1}, ["a"], "é\u0000"),
)
_TOKEN = re.compile(r"[^\s=:\[\]]+")


def pick(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def damaged_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """A few bytes changed, left out or put in, or the end cut off."""
    at, length = int(rng.integers(len(content))), int(rng.integers(1, 9))
    kind = rng.integers(4)
    if kind == 0:
        return content[:at]
    new = rng.bytes(length)
    if kind == 1:
        return content[:at] + new + content[at:]
    return content[:at] + (new if kind == 2 else b"") + content[at + length :]


def damaged_text(text: str, rng: np.random.Generator) -> str:
    """One line's number, or a whole line, replaced, left out or doubled."""
    lines = text.split("\n")
    at = int(rng.integers(len(lines)))
    kind = rng.integers(8)
    if kind == 0:
        return "\n".join(lines[:at] + lines[at + 1 :])
    if kind == 1:
        return "\n".join([*lines[: at + 1], *lines[at:]])
    if kind == 2:
        return "\n".join([*lines[:at], pick(rng, lines), *lines[at + 1 :]])
    tokens = list(_TOKEN.finditer(lines[at]))
    if tokens:
        # Not the name, where there is anything else.
        token = pick(rng, tokens[1:] or tokens)
        lines[at] = lines[at][: token.start()] + pick(rng, NASTY) + lines[at][token.end() :]
    return "\n".join(lines)


def damaged_values(document: Any, rng: np.random.Generator) -> Any:
    """One value of a JSON document, at any depth, replaced, left out or doubled."""
    document = copy.deepcopy(document)
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        if not keys:
            return document
        # Most of a document lies deep in it.
        deeper = [key for key in keys if isinstance(place[key], (dict, list)) and place[key]]
        key = pick(rng, deeper if deeper and rng.random() < 0.7 else keys)
        if not isinstance(place[key], (dict, list)) or not place[key] or rng.random() < 0.1:
            break
        place = place[key]
    kind = rng.integers(6)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, list):
        place.insert(key, place[key])
    else:
        # Most readers look at the type first, so half of the values are of the same.
        alike = [value for value in VALUES if type(value) is type(place[key])]
        place[key] = pick(rng, alike if alike and rng.random() < 0.5 else VALUES)
    return document


def damaged_archive(content: bytes, rng: np.random.Generator) -> bytes:
    """Bytes of a compiled forest's file damaged, under a checksum that fits again."""
    return deflated(damaged_bytes(inflated(content), rng), like=content)


def damaged_numbers(content: bytes, rng: np.random.Generator) -> bytes:
    """Numbers of one array of a compiled forest's file, or a value of its text, replaced by sound ones."""
    text, arrays = parts_of(content)
    name = pick(rng, ["", *(name for name in arrays if arrays[name].size)])
    if not name:
        return file_of(damaged_values(text, rng), arrays, like=content)
    array = arrays[name]
    at, other = rng.integers(array.size, size=(2, int(rng.integers(1, 4))))
    if array.dtype.kind == "U" or rng.random() < 0.5:
        array[at] = array[other]
    elif array.dtype.kind == "f":
        array[at] = pick(rng, (0.0, -1.0, 1e308, -1e308, np.nan, np.inf, 5e-324))
    else:
        # One bit of a packed node is another column, rank or child.
        array.view(np.uint8)[int(rng.integers(array.nbytes))] ^= np.uint8(1 << int(rng.integers(8)))
    return file_of(text, arrays, like=content)


def inflated(content: bytes) -> bytes:
    """The file of a compiled forest, not compressed."""
    return zlib.decompress(content[8:]) if content[7:8] == b"z" else content


def deflated(content: bytes, like: bytes) -> bytes:
    """The file compressed, if ``like`` is."""
    return like[:8] + zlib.compress(content) if like[7:8] == b"z" else content


def parts_of(content: bytes) -> tuple[Any, dict[str, Any]]:
    """The text of a compiled forest's file, and its arrays."""
    content, arrays = inflated(content), {}
    at = 16 + int.from_bytes(content[8:16], "little")
    text = json.loads(content[16:at])
    for name, (dtype, size) in text["arrays"].items():
        at += -at % 64
        arrays[name] = np.frombuffer(content, dtype, size, at).copy()
        at += arrays[name].nbytes
    return text, arrays


def file_of(text: Any, arrays: dict[str, Any], like: bytes, **claims: Any) -> bytes:
    """The file of a compiled forest, which describes its arrays as they are but for ``claims``."""
    described = {name: [array.dtype.str, array.size] for name, array in arrays.items()} | claims
    if isinstance(text, dict) and isinstance(text.get("arrays"), dict):
        text = {**text, "arrays": described}
    written = json.dumps(text).encode()
    content = b"\x93RFSIZE\n" + len(written).to_bytes(8, "little") + written
    for array in arrays.values():
        content += bytes(-len(content) % 64) + array.tobytes()
    return deflated(content + bytes(-len(content) % 64), like)


def signed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with a checksum that fits it, as somebody hostile would write it."""
    rest = {name: value for name, value in document.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {**rest, "checksum": hashlib.sha256(text.encode()).hexdigest()}
