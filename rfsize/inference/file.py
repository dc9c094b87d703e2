"""A compiled forest as one file, an `Archive`. Reading checks every detail, because the file can come from anyone.

No tree is walked before it is checked.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._files import require, written_whole
from rfsize._util import MAX_CLASSES, is_digest
from rfsize.exceptions import FileError
from rfsize.inference.archive import Archive, opened
from rfsize.models.conventions import Conventions, Reading
from rfsize.models.model import OUTPUTS
from rfsize.stopping.table import StopTable
from rfsize.walking import layout
from rfsize.walking.layout import Columns, Nodes, PackedForest

MOST_FEATURES = 1 << 24
LARGEST_SCORE = 1e300  # of a leaf: sums of larger scores overflow


_SUMS = 4.0  # sums of scores stay this many times below the largest number, also after a link multiplies them

_ARRAYS: dict[str, tuple[Any, ...] | None] = {
    "classes": None,
    "trees.nodes": (np.uint8,),  # a bit for each node, 1 for a leaf; then columns and ranks of splits, by bytes
    "trees.value": (np.float32, np.float64),  # of each leaf, as scores are added
    "trees.vote": (np.uint16,),  # of each leaf
    "trees.tree_start": (np.int64,),
    "trees.bit_start": (np.int64,),
    "trees.bits": (np.uint32,),
    "columns.feature": (np.int64,),
    "columns.cut_start": (np.int64,),
    "columns.cuts": (np.uint8,),  # by bytes
    "columns.start": (np.int64,),
    "columns.missing": (np.uint8,),
    "columns.base": (np.int64,),
}
_FILE = Archive("rfsize forest", 9, _ARRAYS)

# Holds the arrays of a forest as they are used.
_AS_USED: dict[str, tuple[Any, ...] | None] = {"trees.nodes": (np.uint64,), "columns.cuts": (np.float64,)}
_PLAIN = Archive("rfsize plain forest", 2, _ARRAYS | _AS_USED, deflated=False)

# Holds the files of several forests, one after another.
_SEVERAL = Archive("rfsize mean of forests", 2, {"sizes": (np.int64,), "forests": (np.uint8,)}, deflated=False)

_COLUMN, _RANK, _CUT = np.dtype("<u4"), np.dtype("<u2"), np.dtype("<f8")
"""Numbers written byte by byte: the first bytes of all numbers, then the second bytes, …. That compresses better."""


def _bytes_of(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.uint8]:
    return array.astype(dtype).view(np.uint8).reshape(-1, dtype.itemsize).T.ravel()


Saved = tuple[PackedForest, StopTable | None, str]
"""A forest, its table, and the voting that makes its labels."""


def save_forests(path: Path, forests: list[Saved], *, compress: bool = True) -> None:
    """Write forests to one file, whole or not at all; ``ValueError`` if the file could not be read again."""
    with written_whole(path) as partial:
        with partial.open("wb") as file:
            if len(forests) == 1:
                _write(file, forests[0], compress=compress)
            else:
                _write_several(file, forests)
        try:
            load_forests(partial)
        except FileError as error:
            raise ValueError(
                f"{path} was not written, because it could not be read again ({error.__cause__ or error}): pickle the "
                "compiled forest"
            ) from error


def _write_several(file: BinaryIO, forests: list[Saved]) -> None:
    parts = [BytesIO() for _ in forests]
    for part, forest in zip(parts, forests, strict=True):
        _write(part, forest, compress=True)
    sizes = np.array([part.tell() for part in parts], dtype=np.int64)
    content = np.concatenate([np.frombuffer(part.getbuffer(), np.uint8) for part in parts])
    _SEVERAL.write_to(file, {}, {"sizes": sizes, "forests": content})


def _write(file: BinaryIO, saved: Saved, *, compress: bool) -> None:
    content, (forest, *_) = _described(*saved), saved
    arrays = {"classes": _plain_classes(forest.classes)}
    arrays |= {f"trees.{name}": array.ravel() for name, array in forest.trees._asdict().items()}
    arrays |= {f"columns.{name}": array for name, array in forest.columns._asdict().items()}
    if compress:
        _FILE.write_to(file, content, {**arrays, **_packed(forest)})
    else:
        _PLAIN.write_to(file, content, arrays)


def _plain_classes(classes: NDArray[Any]) -> NDArray[Any]:
    """Class labels without objects; ``ValueError`` if they are neither numbers nor text."""
    if classes.dtype.kind == "O" and all(isinstance(label, str) and not label.endswith("\0") for label in classes):
        classes = classes.astype(np.str_)
    if classes.dtype.kind not in "iufbU":
        raise ValueError(
            "the class labels must be numbers or text that ends with no NUL to be written to a file, found "
            f"{classes.tolist()}; train with such labels, or pickle the predictor"
        )
    return classes


def _described(forest: PackedForest, table: StopTable | None, voting: str) -> dict[str, Any]:
    """The text to write."""
    return {
        "n_outputs": forest.n_outputs,
        "n_features": forest.n_features,
        "feature_names": forest.feature_names,
        "conventions": _conventions_to_dict(forest.conventions),
        "threshold": forest.threshold,
        "voting": voting,
        "predict_gives": forest.output,
        "is_shrunk": forest.is_pruned,
        "is_forest": forest.is_forest,
        "digest": forest.digest,
        "table": None if table is None else table.to_dict(),
    }


def _packed(forest: PackedForest) -> dict[str, NDArray[Any]]:
    """The arrays that a compressed file holds in shorter form, without what follows from others: children of splits."""
    trees = forest.trees
    is_leaf = trees.nodes & layout.RANK_MASK == layout.HIGHEST_RANK
    splits = trees.nodes[~is_leaf]
    columns = _bytes_of(splits >> layout.COLUMN_SHIFT & layout.COLUMN_MASK, _COLUMN)
    nodes = np.concatenate([np.packbits(is_leaf), columns, _bytes_of(splits & layout.RANK_MASK, _RANK)])
    return {
        "trees.nodes": nodes,
        "trees.value": trees.value[is_leaf].ravel(),
        "trees.vote": trees.vote[is_leaf] if trees.vote.size else trees.vote,
        "columns.cuts": _bytes_of(forest.columns.cuts, _CUT),
    }


def _unpacked_cuts(content: NDArray[np.uint8]) -> NDArray[np.float64]:
    require(content.size % _CUT.itemsize == 0, "thresholds that are no whole numbers of bytes")
    return np.ascontiguousarray(content.reshape(_CUT.itemsize, -1).T).view(_CUT).ravel().astype(np.float64)


def _unpacked_trees(arrays: dict[str, NDArray[Any]]) -> Nodes:
    """The trees, from what `_packed` gives; `PackedForest` checks them."""
    start, packed, score, vote = (arrays[f"trees.{name}"] for name in ("tree_start", "nodes", "value", "vote"))
    n_trees, n_nodes = start.size - 1, int(start[-1]) if start.size else 0
    n_splits, n_bits = (n_nodes - n_trees) // 2, -(-n_nodes // 8)
    n_leaves = n_nodes - n_splits
    require(0 < n_trees <= n_nodes and n_leaves == n_splits + n_trees, "a tree has not one leaf more than splits")
    place_of_rank = n_bits + _COLUMN.itemsize * n_splits
    require(packed.size == place_of_rank + _RANK.itemsize * n_splits, "trees of other nodes than it has")
    require(score.size and score.size % n_leaves == 0, "not as many scores for each leaf")
    require(vote.size in (0, n_leaves), "a leaf without a vote")
    bits, column, rank = np.split(packed, [n_bits, place_of_rank])
    nodes, is_leaf = np.empty(n_nodes, dtype=np.uint64), np.unpackbits(bits, count=n_nodes).view(np.bool_)
    _core.unpack_nodes(is_leaf, column, rank, arrays["columns.missing"], start, nodes)
    leaf = np.flatnonzero(is_leaf)
    value = np.zeros((n_nodes, score.size // n_leaves), score.dtype)
    value[leaf] = score.reshape(n_leaves, -1)
    votes = np.zeros(n_nodes if vote.size else 0, vote.dtype)
    votes[leaf[: vote.size]] = vote
    return Nodes(nodes, value, votes, start, arrays["trees.bit_start"], arrays["trees.bits"])


def load_forests(path: Path, *, mapped: bool = False) -> list[Saved]:
    """Read a file that `save_forests` wrote, and check it.

    With ``mapped``, the arrays of one forest stay in a file that is not compressed.

    Raises
    ------
    FileError
        If the file is damaged, or was not written by rfsize.
    OSError
        If the file cannot be read.
    ValueError
        If processes cannot share the file.
    """
    with opened(path, (_FILE, _PLAIN, _SEVERAL), mapped=mapped) as (archive, content, arrays):
        if archive is _SEVERAL:
            sizes, whole = arrays["sizes"], arrays["forests"]
            are_sizes = sizes.size > 1 and (sizes > 0).all() and (sizes <= whole.size).all()
            require(are_sizes and int(sizes.sum()) == whole.size, "forests of other sizes than their file")
            parts, forests = np.split(whole, np.cumsum(sizes)[:-1]), []
        else:
            parts, forests = [], [_forest_of(archive, content, arrays)]
    for part in parts:
        with opened(path, (_FILE,), part.tobytes()) as of_part:
            forests.append(_forest_of(*of_part))
    if mapped and archive is not _PLAIN:
        raise ValueError(
            f"{path} is compressed or holds several forests, and processes can only share a forest as it is used: "
            "write each forest to a file of its own, with CompiledForest.save(path, compress=False)"
        )
    return forests


def _forest_of(archive: Archive, content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Saved:
    """The forest of a file of one; raises what damaged content raises."""
    columns = Columns(*(arrays[f"columns.{name}"] for name in Columns._fields))
    if archive is _PLAIN:
        trees = Nodes(*(arrays[f"trees.{name}"] for name in Nodes._fields))
        n_nodes, n_values = trees.nodes.size, trees.value.size
        require(n_nodes and n_values and n_values % n_nodes == 0, "not as many scores for each leaf")
        trees = trees._replace(value=trees.value.reshape(n_nodes, -1))
    else:
        columns = columns._replace(cuts=_unpacked_cuts(arrays["columns.cuts"]))
        trees = _unpacked_trees(arrays)
    forest = _checked(content, trees, columns, arrays["classes"])
    voting, table = content["voting"], content["table"]
    require(voting == "soft" or (voting == "hard" and forest.classes.size), "unknown words for how labels are made")
    return forest, None if table is None else StopTable.from_dict(table), voting


def _checked(content: dict[str, Any], trees: Nodes, columns: Columns, classes: NDArray[Any]) -> PackedForest:
    names = content["feature_names"]
    forest = PackedForest(
        trees=trees,
        columns=columns,
        n_outputs=int(content["n_outputs"]),
        n_features=int(content["n_features"]),
        feature_names=None if names is None else list(map(str, names)),
        classes=classes,
        conventions=_conventions_from_dict(content["conventions"]),
        threshold=float(content["threshold"]),
        digest=content["digest"],
        output=content["predict_gives"],
        is_pruned=bool(content["is_shrunk"]),
        is_forest=bool(content["is_forest"]),
    )
    # Whatever was of another type, or is unknown, would not be written like that.
    written = _described(forest, None, content["voting"])
    given = {name: value for name, value in content.items() if name not in ("format", "version")} | {"table": None}
    is_same = json.dumps(written, sort_keys=True) == json.dumps(given, sort_keys=True)
    require(is_same, "its text has a field of another type, or one that is unknown")
    _check_head(forest)
    _check_leaves(forest)
    return forest


def _check_head(forest: PackedForest) -> None:
    require(forest.digest is None or is_digest(forest.digest), "its digest is none")
    n_classes = max(2, forest.n_scores) if forest.classes.size else 0
    links = _LINKS_OF_SEVERAL if forest.n_scores > 1 else _LINKS_OF_ONE if n_classes else _LINKS_OF_NUMBERS
    require(forest.conventions.link in links, "scores of another link")
    require(n_classes or forest.n_scores == 1, "several numbers for a row")
    require(forest.classes.size == n_classes <= MAX_CLASSES, f"{forest.classes.size} class labels, not {n_classes}")
    require(len(set(forest.classes.tolist())) == n_classes, "two classes of one name")
    require((forest.classes == forest.classes).all(), "a class without a name")
    require(0.0 < forest.threshold < 1.0, "a threshold that is no probability")
    require(forest.threshold == 0.5 or (n_classes == 2 and forest.n_scores == 1), "a threshold of no class")
    require(1 <= forest.n_features <= MOST_FEATURES, f"{forest.n_features:,} features")
    require(forest.output in (OUTPUTS[:-1] if n_classes else OUTPUTS[-1:]), "predict gives nothing known")
    is_named = forest.feature_names is None or len(forest.feature_names) == forest.n_features
    require(is_named, "not one name for each feature")
    categorical = [*(forest.conventions.category_features or ()), *forest.conventions.coded_features]
    require(len(set(categorical)) == len(categorical), "a feature with two lists of categories")
    require(all(0 <= feature < forest.n_features for feature in categorical), "categories of an unknown feature")


def _check_leaves(forest: PackedForest) -> None:
    """Check that the mean of the scores of any leaves has a probability, and that leaves vote for a class."""
    value, vote, conventions = forest.trees.value, forest.trees.vote, forest.conventions
    require(0.0 < conventions.slope < LARGEST_SCORE, "a link of no slope, or a falling one")
    are_comparable = 0.0 < conventions.divisor < math.inf and abs(conventions.cut) < LARGEST_SCORE
    require(are_comparable, "scores that cannot be compared")
    require(len(conventions.base) in (0, forest.n_scores), "not as many sums as scores")
    largest = float(np.abs(value).max()) * (1 if conventions.averages else forest.n_trees)
    largest = float(np.max(np.abs([largest, *conventions.base]))) * max(conventions.slope, 1.0)
    most = min(LARGEST_SCORE, float(np.finfo(value.dtype).max) / _SUMS)
    require(largest <= most, "a score that is no number, or too large to be added up")
    one_votes = forest.n_outputs == 1 and forest.classes.size
    require(vote.size == (len(value) if one_votes else 0), "a leaf without a vote")
    require((vote < forest.classes.size).all(), "a vote for an unknown class")


def _conventions_to_dict(conventions: Conventions) -> dict[str, Any]:
    known = vars(conventions) | conventions.reading._asdict()
    return {
        **{name: known[name] for name in _FLAGS + _TEXTS},
        **{name: float(known[name]).hex() for name in _NUMBERS},  # JSON has neither NaN nor infinity
        **{name: known[name] for name in _FLAGS_OF_READING},
        "start": list(conventions.base),
        "categories": conventions.categories,
        "category_features": conventions.category_features,
        "coded_features": conventions.coded_features,
    }


_FLAGS = [field.name for field in fields(Conventions) if field.type == "bool"]
_FLAGS_OF_READING = [name for name, value in Reading(False)._asdict().items() if type(value) is bool]
_TEXTS = ["framework", "link"]
_FRAMEWORK = re.compile("[A-Za-z][A-Za-z0-9 ._-]{0,63}")
_NUMBERS = ["slope", "divisor", "cut", "missing", "zero_within", "lowest_category"]
_LINKS_OF_ONE, _LINKS_OF_SEVERAL = ("logistic", "identity", "step"), ("softmax", "one-vs-all", "identity", "logistic")
_LINKS_OF_NUMBERS = ("identity", "exp", "square", "logistic", "softplus")


def _conventions_from_dict(fields: dict[str, Any]) -> Conventions:
    require(_FRAMEWORK.fullmatch(fields["framework"]), "a framework whose name is not a name")
    known: dict[str, Any] = {name: bool(fields[name]) for name in _FLAGS + _FLAGS_OF_READING}
    known |= {name: float.fromhex(fields[name]) for name in _NUMBERS}
    known |= {name: fields[name] for name in _TEXTS}
    reading = Reading(**{name: known.pop(name) for name in Reading._fields})
    require(not np.isnan([reading.zero_within, reading.lowest_category]).any(), "a NaN")
    categories, features = tuple(map(tuple, fields["categories"])), fields["category_features"]
    are_scalars = all(isinstance(category, str | int | float) for known in categories for category in known)
    require(are_scalars, "a category that is no number and no text")
    require(features is None or len(features) == len(categories), "not one feature for each list of categories")
    return Conventions(
        **known,
        base=tuple(map(float, fields["start"])),
        reading=reading,
        categories=categories,
        category_features=None if features is None else tuple(map(int, features)),
        coded_features=tuple(map(int, fields["coded_features"])),
    )
