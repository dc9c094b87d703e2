"""Checks that a file is exactly a LightGBM text, before LightGBM reads it.

LightGBM does not look for the end of its input, and puts zeros in place of missing numbers. This module checks what
LightGBM does not: each line is in its place and appears once, trees begin where the header says, whole numbers are
written as such, and no number is missing. `ForestText` checks the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from rfsize.integrations.lightgbm.model_text import ForestText, listed, nodes_of, tree_name
from rfsize.models.damage import MOST_FEATURES, refuse, whole_number, whole_numbers

_TREE = re.compile(rb"^Tree=", re.MULTILINE)
_END = b"\nend of trees\n"
_MOST_LINES = 22  # of a tree; LightGBM reads further lines as the next tree
_WHOLE = re.compile(r"-?[0-9]{1,10}( -?[0-9]{1,10})*|")
_PARAMETER = re.compile(r"\[[^:\[\]]+: .*\]")

# Numbers of the splits of a tree that rfsize does not read.
_OF_SPLITS_PERHAPS = ("split_gain", "internal_value", "internal_weight", "internal_count")
_WHOLE_LINES = (
    *("num_leaves", "num_cat", "split_feature", "decision_type", "left_child", "right_child", "leaf_count"),
    *("internal_count", "cat_boundaries", "cat_threshold", "is_linear"),
)
_WHOLE_OF_HEADER = ("num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "tree_sizes")


def check_text(content: bytes) -> str:
    """Check that a file has the form that LightGBM writes, except for the numbers in its trees; return its text.

    Raises
    ------
    NotAForestError
        If it does not have this form.
    """
    if b"\r" in content or b"\0" in content:
        refuse("it has line ends or bytes that LightGBM does not write, as of a text that another system changed")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse(f"it is not UTF-8 ({error})", error)
    if content.count(_END) != 1:
        refuse("it breaks off: it has not one line that says 'end of trees'")
    end = content.index(_END) + 1
    places = [*(found.start() for found in _TREE.finditer(content, 0, end)), end]
    head = content[: places[0]].decode("utf-8")
    header = _lines(head.split("\n"), "the header", ("tree", "average_output"))
    _check_header(header, np.diff(places).tolist())
    _check_parameters(text.partition("\nend of trees\n")[2].split("\n"))
    return text


def check_trees(forest: ForestText) -> None:
    """Check that the trees of a text are whole; `NotAForestError` if they are not."""
    n_features = whole_number(forest.header["max_feature_idx"], "max_feature_idx", 0, MOST_FEATURES) + 1
    for tree, values in zip(forest.trees, forest.leaf_value, strict=True):
        _check_tree(tree, values.size, n_features)


def _lines(lines: Iterable[str], name: str, alone: tuple[str, ...] = ()) -> dict[str, str]:
    """The values of lines by their names. Each name must be unique; lines in ``alone`` have no value."""
    found: dict[str, str] = {}
    for line in filter(None, lines):
        key, equals, value = line.partition("=")
        if key in found or not ((key and equals) or line in alone):
            refuse(f"{name} has the line {line[:40]!r} twice, or where there should be none")
        found[key] = value
    return found


def _check_whole(lines: dict[str, str], names: Iterable[str], name: str) -> None:
    for key in lines.keys() & set(names):
        if not _WHOLE.fullmatch(lines[key]):
            refuse(f"{key} of {name} is {lines[key][:40]!r}, not whole numbers with spaces between them")


def _check_header(header: dict[str, str], sizes: list[int]) -> None:
    _check_whole(header, _WHOLE_OF_HEADER, "the header")
    for name in ("label_index", "max_feature_idx", "feature_names"):
        if name not in header:
            refuse(f"its text has no line {name}=")
    if "tree_sizes" in header and header["tree_sizes"] != " ".join(map(str, sizes)):
        refuse("its trees are not as long as tree_sizes says")
    options = [option.partition(":")[::2] for option in header.get("objective", "custom").split(" ")[1:]]
    n_classes = [value for key, value in options if key == "num_class"]
    if n_classes not in ([], [header.get("num_class")]):
        refuse(f"its objective is of {n_classes} classes, and num_class is {header.get('num_class')!r}")


def _check_parameters(lines: list[str]) -> None:
    """Check that the parameters have the form that LightGBM parses."""
    inside = False
    for line in filter(None, lines):
        if line == "end of parameters":
            inside = False
        elif inside and not _PARAMETER.fullmatch(line):
            refuse(f"among its parameters is the line {line[:40]!r}")
        inside = inside or line == "parameters:"
    if inside:
        refuse("its parameters have no end")


def _check_tree(tree: str, n_leaves: int, n_features: int) -> None:
    name = tree_name(tree)
    body, _, rest = tree.partition("\n")[2].partition("\n\n")
    lines = _lines(body.split("\n"), name)
    if rest.strip("\n") or len(body.strip("\n").split("\n")) > _MOST_LINES:
        refuse(f"{name} has lines after its end, or more than {_MOST_LINES}")
    _check_whole(lines, _WHOLE_LINES, name)
    for key, least in (("num_leaves", n_leaves), ("num_cat", 0)):
        most = n_leaves if key == "num_leaves" else n_leaves - 1
        whole_number(lines.get(key), f"{key} of {name}", least, most)
    if lines.get("is_linear", "0") != "0":
        refuse(f"is_linear of {name} is {lines['is_linear'][:40]!r}")
    if n_leaves == 1:
        return
    sizes = dict.fromkeys(_OF_SPLITS_PERHAPS, n_leaves - 1) | {"leaf_weight": n_leaves}
    for key in sizes.keys() & lines.keys():
        listed(tree, key, sizes[key])
    n_sets = int(lines["num_cat"])
    listed(tree, "cat_boundaries", n_sets + 1 if n_sets else 0)
    features = nodes_of(tree, n_leaves).feature
    whole_numbers(features, f"split_feature of {name}", 0, n_features - 1)
