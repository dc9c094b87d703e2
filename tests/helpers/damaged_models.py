"""Files of models damaged by what they are made of: lists, counts, trees and lengths that fit together no longer.

Single numbers and bytes that are others (`helpers.damaged`) mostly end in an error of whoever reads them. What is
damaged here has the form of a model: numbers that are swapped, moved, repeated or left out, in one tree or in all.
"""

from __future__ import annotations

import copy
import json
import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from helpers.damaged import damaged_bytes, damaged_text, damaged_values, some

# The types of the lists in XGBoost's UBJ; other lists have a type before each value.
_TYPES = {
    **dict.fromkeys(("left_children", "right_children", "parents", "split_indices"), "l"),
    **dict.fromkeys(("categories", "categories_nodes", "offsets", "feature_segments", "sorted_idx"), "l"),
    **dict.fromkeys(("categories_segments", "categories_sizes"), "L"),
    **dict.fromkeys(("default_left", "split_type"), "U"),
    **dict.fromkeys(("base_weights", "leaf_weights", "loss_changes", "split_conditions", "sum_hessian"), "d"),
}
_PACKED = {"U": "B", "l": "i", "L": "q", "d": "f"}
_EXTREMES = (-(2**31), -2, -1, 0, 1, 2, 2**24, 2**31 - 1, 2**31, 2**32, 2**63 - 1)


def damaged_lightgbm_file(content: bytes, rng: np.random.Generator) -> bytes:
    """A text of LightGBM, damaged in its bytes, its lines, its numbers or its trees."""
    if rng.random() < 0.1:
        return damaged_bytes(content, rng)
    text = content.decode()
    for _ in range(some(rng, (1, 1, 1, 2, 3))):
        text = some(rng, (damaged_text, _damaged_numbers, _damaged_numbers, _swapped_lines, _damaged_trees))(text, rng)
    return (_with_sizes(text) if rng.random() < 0.6 else text).encode()


def damaged_xgboost_file(content: bytes, rng: np.random.Generator) -> bytes:
    """JSON of XGBoost, damaged in its bytes, its values, its lists or its trees, and written as JSON or UBJ."""
    document = json.loads(content)
    for _ in range(some(rng, (0, 1, 1, 1, 2, 3))):
        document = some(rng, (damaged_values, _damaged_list, _damaged_list, _swapped_lists, _damaged_count))(
            document, rng
        )
    if rng.random() < 0.5:
        text = json.dumps(document)
        return (_named_twice(text, rng) if rng.random() < 0.1 else text).encode()
    try:
        found = as_ubj(document)
    except (struct.error, TypeError, ValueError, OverflowError):  # numbers of which UBJ has none
        return json.dumps(document).encode()
    return some(rng, (damaged_bytes, _damaged_length, lambda whole, _: whole))(found, rng)


def as_ubj(value: Any, name: str = "") -> bytes:
    """A document as XGBoost writes it."""
    if isinstance(value, dict):
        return b"{" + b"".join(_packed_text(key) + as_ubj(value[key], key) for key in value) + b"}"
    if isinstance(value, list) and name in _TYPES:
        kind = _TYPES[name]
        return (
            f"[${kind}#L".encode()
            + struct.pack(">q", len(value))
            + struct.pack(f">{len(value)}{_PACKED[kind]}", *value)
        )
    if isinstance(value, list):
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(as_ubj, value))
    if isinstance(value, str):
        return b"S" + _packed_text(value)
    if isinstance(value, bool) or value is None:
        return {True: b"T", False: b"F", None: b"Z"}[value]
    return b"L" + struct.pack(">q", value) if isinstance(value, int) else b"d" + struct.pack(">f", value)


def _packed_text(text: str) -> bytes:
    return b"L" + struct.pack(">q", len(text.encode())) + text.encode()


def _damaged_length(content: bytes, rng: np.random.Generator) -> bytes:
    """UBJ with another length of a text or a list."""
    place = some(rng, list(re.finditer(rb"L(?=\0\0\0\0)", content))).end()
    (length,) = struct.unpack(">q", content[place : place + 8])
    other = some(rng, (length - 1, length + 1, 2 * length, length + 2**16, -1, -length, 2**31, 2**40, 2**62))
    return content[:place] + struct.pack(">q", other) + content[place + 8 :]


def _named_twice(text: str, rng: np.random.Generator) -> str:
    """JSON that gives one name of an object two values."""
    name = some(rng, list(re.finditer(r'"\w+": (?=[\[{"0-9])', text)))
    return text[: name.start()] + name.group() + some(rng, ("[]", '"1"', "{}", "[0]")) + ", " + text[name.start() :]


def _altered(values: list[Any], rng: np.random.Generator) -> list[Any]:
    """A list in another order, with other numbers, or of another length."""
    values, at, other = list(values), int(rng.integers(len(values))), int(rng.integers(len(values)))
    kind = int(rng.integers(8))
    if kind == 0:
        return [values[index] for index in rng.permutation(len(values))]
    if kind == 1:
        return values[:at] + values[at + 1 :]
    if kind == 2:
        return values[: at + 1] + values[other:]
    if kind == 3:
        values[at], values[other] = values[other], values[at]
    elif kind == 4:
        values[at] = values[other]
    elif kind == 5:
        values[at] = some(rng, (*_EXTREMES, len(values), len(values) - 1, at))
    elif kind == 6:
        values[at] = values[at] + some(rng, (-1, 1))
    else:
        values = values[at:]
    return values


def _lists(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a document the lists of numbers lie that hold any."""
    if isinstance(found, dict):
        for key in found:
            yield from _lists(found[key], (*path, key))
    elif isinstance(found, list) and found:
        if all(isinstance(value, (int, float)) for value in found):
            yield path
        else:
            for index, value in enumerate(found):
                yield from _lists(value, (*path, index))


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def _damaged_list(document: Any, rng: np.random.Generator) -> Any:
    """One list of numbers altered, or the lists of that length beside it in the same way."""
    document = copy.deepcopy(document)
    places = list(_lists(document))
    if not places:
        return document
    *path, name = some(rng, places)
    wrapper = _at(document, tuple(path))
    names = [name]
    if isinstance(wrapper, dict) and rng.random() < 0.3:
        alike = [key for key in wrapper if isinstance(wrapper[key], list) and len(wrapper[key]) == len(wrapper[name])]
        names = [key for key in alike if all(isinstance(value, (int, float)) for value in wrapper[key])]
    seed = int(rng.integers(2**32))
    for key in names:
        wrapper[key] = _altered(wrapper[key], np.random.default_rng(seed))
    return document


def _swapped_lists(document: Any, rng: np.random.Generator) -> Any:
    """Two lists of numbers in each other's place, mostly of one name in two trees."""
    document = copy.deepcopy(document)
    places = list(_lists(document))
    if not places:
        return document
    *path, name = some(rng, places)
    alike = [place for place in places if place[-1] == name] if rng.random() < 0.7 else places
    *other_path, other = some(rng, alike)
    wrapper, other_holder = _at(document, tuple(path)), _at(document, tuple(other_path))
    wrapper[name], other_holder[other] = other_holder[other], wrapper[name]
    return document


def _damaged_count(document: Any, rng: np.random.Generator) -> Any:
    """One number that is written as text, such as a count of nodes, a little larger or smaller, or another one."""
    text = json.dumps(document)
    counts = list(re.finditer(r'"(-?[0-9]+)"', text))
    if not counts:
        return document
    at = some(rng, counts)
    number = int(at.group(1))
    other = some(rng, (number - 1, number + 1, -number, *_EXTREMES, int(some(rng, counts).group(1))))
    return json.loads(text[: at.start()] + f'"{other}"' + text[at.end() :])


def _damaged_numbers(text: str, rng: np.random.Generator) -> str:
    """The whole numbers of one line altered."""
    lines = text.split("\n")
    places = [at for at, line in enumerate(lines) if re.fullmatch(r"\w+=(-?\d+)( -?\d+)*", line)]
    if places:
        at = some(rng, places)
        name, _, values = lines[at].partition("=")
        lines[at] = f"{name}={' '.join(map(str, _altered(list(map(int, values.split(' '))), rng)))}"
    return "\n".join(lines)


def _swapped_lines(text: str, rng: np.random.Generator) -> str:
    """Two lines of one name, of two trees, in each other's place."""
    lines = text.split("\n")
    named = [line.partition("=")[0] if "=" in line else "" for line in lines]
    at = int(some(rng, [index for index, name in enumerate(named) if name] or [0]))
    other = int(some(rng, [index for index, name in enumerate(named) if name == named[at]]))
    lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def _damaged_trees(text: str, rng: np.random.Generator) -> str:
    """Trees left out, doubled, or in another order."""
    head, *trees = text.partition("\nend of trees")[0].split("\nTree=")
    if not trees:
        return text
    return "\nTree=".join([head, *_altered_order(trees, rng)]) + "\nend of trees" + text.partition("\nend of trees")[2]


def _altered_order(trees: list[str], rng: np.random.Generator) -> list[str]:
    at, kind = int(rng.integers(len(trees))), int(rng.integers(3))
    if kind == 0:
        return trees[:at] + trees[at + 1 :]
    return [*trees, trees[at]] if kind == 1 else [trees[index] for index in rng.permutation(len(trees))]


def _with_sizes(text: str) -> str:
    """The text with the sizes of trees that they have now."""
    head, *trees = text.partition("\nend of trees")[0].split("\nTree=")
    sizes = " ".join(str(len(f"\nTree={tree}".encode())) for tree in trees)
    return text.replace(head, re.sub(r"tree_sizes=.*", f"tree_sizes={sizes}", head), 1)
