"""Files and texts damaged at random, as an accident or somebody hostile would."""

from __future__ import annotations

import copy
import io
import re
import zipfile
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


def some(rng: np.random.Generator, choices: Any) -> Any:
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
        return "\n".join([*lines[:at], some(rng, lines), *lines[at + 1 :]])
    tokens = list(_TOKEN.finditer(lines[at]))
    if tokens:
        # Not the name, where there is anything else.
        token = some(rng, tokens[1:] or tokens)
        lines[at] = lines[at][: token.start()] + some(rng, NASTY) + lines[at][token.end() :]
    return "\n".join(lines)


def damaged_values(document: Any, rng: np.random.Generator) -> Any:
    """One value of a JSON document, at any depth, replaced, left out or doubled."""
    document = copy.deepcopy(document)
    place: Any = document
    while True:
        key = some(rng, list(place)) if isinstance(place, dict) else int(rng.integers(len(place)))
        if not isinstance(place[key], (dict, list)) or not place[key] or rng.random() < 0.1:
            break
        place = place[key]
    kind = rng.integers(6)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, list):
        place.insert(key, place[key])
    else:
        place[key] = some(rng, VALUES)
    return document


def damaged_archive(content: bytes, rng: np.random.Generator) -> bytes:
    """One member of a zip archive damaged, under checksums of the archive that fit again."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = some(rng, [name for name in members if members[name]])
    members[name] = damaged_bytes(members[name], rng)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for member, of_member in members.items():
            archive.writestr(member, of_member)
    return file.getvalue()
