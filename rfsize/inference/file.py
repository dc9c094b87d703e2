"""A compiled forest as one file, an `Archive`. Reading checks every detail, because the file can come from anyone.

No tree is walked before it is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._files import written_whole
from rfsize._util import MAX_CLASSES, is_digest
from rfsize.exceptions import FileError
from rfsize.inference.archive import Archive, opened, require
from rfsize.models.conventions import Conventions, Reading
from rfsize.models.link import LINKS
from rfsize.models.model import OUTPUTS
from rfsize.stopping.table import StopTable
from rfsize.walking import layout
from rfsize.walking.layout import Columns, Nodes, PackedForest

MOST_FEATURES = 1 << 24
LARGEST_SCORE = 1e300  # of a leaf: sums of larger scores overflow


_ROUNDING = 1e-9  # allowed for shares that sum to 1
MOST_FORESTS = 10_000  # in one file
_SUMS = 4.0  # sums of scores stay this many times below the largest number, also after a link multiplies them

_TREES: dict[str, tuple[Any, ...]] = {
    "nodes": (np.uint8,),  # a bit for each node, 1 for a leaf; then columns and ranks of splits, by bytes
    "value": (np.float32, np.float64),  # of each leaf, as scores are added
    "vote": (np.uint16,),  # of each leaf
    "tree_start": (np.int64,),
    "bit_start": (np.int64,),
    "bits": (np.uint32,),
}
_COLUMNS: dict[str, tuple[Any, ...]] = {
    "feature": (np.int64,),
    "cut_start": (np.int64,),
    "cuts": (np.uint8,),  # by bytes
    "start": (np.int64,),
    "missing": (np.uint8,),
    "base": (np.int64,),
}


_COLUMN, _RANK, _CUT = np.dtype("<u4"), np.dtype("<u2"), np.dtype("<f8")
"""Numbers written byte by byte: the first bytes of all numbers, then the second bytes, …. That compresses better."""


def _bytes_of(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.uint8]:
    return array.astype(dtype).view(np.uint8).reshape(-1, dtype.itemsize).T.ravel()


def _check_sizes(sizes: dict[str, int]) -> None:
    """Check that no array is larger than a forest of so many nodes can have."""
    n_nodes, n_cuts = 8 * sizes["trees.nodes"], sizes["columns.cuts"] // _CUT.itemsize
    require(n_nodes <= 32 * layout.MOST_NODES, "more nodes than any forest's")
    require(sizes["classes"] <= MAX_CLASSES, f"{sizes['classes']:,} classes, more than any forest's")
    require(sizes["trees.value"] <= n_nodes * max(1, sizes["classes"]), "more scores than classes for a leaf")
    require(sizes["trees.tree_start"] <= n_nodes + 1, "more trees than nodes")
    for name in ("trees.vote", "trees.bit_start"):
        require(sizes[name] <= n_nodes, f"more {name} than nodes")
    require(n_cuts <= n_nodes * layout.MOST_CATEGORIES, "more thresholds than splits")


def _named(trees: dict[str, tuple[Any, ...]], columns: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...] | None]:
    of_trees = {f"trees.{name}": types for name, types in trees.items()}
    return {"classes": None, **of_trees, **{f"columns.{name}": types for name, types in columns.items()}}


_FILE = Archive(form="rfsize forest", version=9, arrays=_named(_TREES, _COLUMNS), check_sizes=_check_sizes)


# Holds the arrays of a forest as they are used.
_PLAIN = Archive(
    form="rfsize plain forest",
    version=2,
    arrays=_named({**_TREES, "nodes": (np.uint64,)}, {**_COLUMNS, "cuts": (np.float64,)}),
    check_sizes=lambda sizes: require(sizes["classes"] <= MAX_CLASSES, f"{sizes['classes']:,} classes"),
    deflated=False,
)

# Holds the files of several forests, one after another.
_SEVERAL = Archive(
    form="rfsize mean of forests",
    version=2,
    arrays={"sizes": (np.int64,), "forests": (np.uint8,)},
    check_sizes=lambda sizes: require(sizes["sizes"] <= MOST_FORESTS, f"{sizes['sizes']:,} forests, more than any has"),
    deflated=False,
)


Saved = tuple[PackedForest, StopTable | None, str]
"""A forest, its table, and the voting that makes its labels."""


def save_forest(
    path: Path, forest: PackedForest, table: StopTable | None, voting: str, *, compress: bool = True
) -> None:
    """Write a forest to a file, whole or not at all; ``ValueError`` if the file could not be read again."""
    with _readable(path) as partial, partial.open("wb") as file:
        _write(file, (forest, table, voting), compress=compress)


def save_forests(path: Path, forests: list[Saved]) -> None:
    """Write several forests to one file; as `save_forest`."""
    if len(forests) > MOST_FORESTS:
        raise ValueError(f"a file holds at most {MOST_FORESTS:,} forests, found {len(forests):,}: pickle them")
    parts = [BytesIO() for _ in forests]
    for part, forest in zip(parts, forests, strict=True):
        _write(part, forest, compress=True)
    sizes = np.array([part.tell() for part in parts], dtype=np.int64)
    content = np.concatenate([np.frombuffer(part.getbuffer(), np.uint8) for part in parts])
    with _readable(path) as partial, partial.open("wb") as file:
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


@contextmanager
def _readable(path: Path) -> Iterator[Path]:
    """A file to write, which takes the place of ``path`` only if it can be read."""
    with written_whole(path) as partial:
        yield partial
        try:
            load_forests(partial)
        except FileError as error:
            raise ValueError(
                f"{path} was not written, because it could not be read again ({error.__cause__ or error}): pickle the "
                "compiled forest"
            ) from error


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


def _unpacked_trees(arrays: dict[str, NDArray[Any]], missing: NDArray[np.uint8]) -> Nodes:
    """The trees, from what `_packed` gives; `PackedForest` checks them."""
    start, packed, score, vote = (arrays[name] for name in ("tree_start", "nodes", "value", "vote"))
    n_trees, n_nodes = start.size - 1, int(start[-1]) if start.size else 0
    n_splits, n_bits = (n_nodes - n_trees) // 2, -(-n_nodes // 8)
    n_leaves = n_nodes - n_splits
    require(0 < n_trees <= n_nodes and n_leaves == n_splits + n_trees, "a tree has not one leaf more than splits")
    place_of_rank = n_bits + _COLUMN.itemsize * n_splits
    require(packed.size == place_of_rank + _RANK.itemsize * n_splits, "trees of other nodes than it has")
    require(score.size and score.size % n_leaves == 0, "not as many scores for each leaf")
    require(vote.size in (0, n_leaves), "a leaf without a vote")
    nodes, leaf = np.empty(n_nodes, dtype=np.uint64), np.empty(n_leaves, dtype=np.int64)
    is_leaf, column, rank = np.split(packed, [n_bits, place_of_rank])
    _core.unpack_nodes(is_leaf, column, rank, missing, start, nodes, leaf)
    value = np.zeros((n_nodes, score.size // n_leaves), score.dtype)
    value[leaf] = score.reshape(n_leaves, -1)
    votes = np.zeros(n_nodes if vote.size else 0, vote.dtype)
    votes[leaf[: vote.size]] = vote
    return Nodes(nodes, value, votes, start, arrays["bit_start"], arrays["bits"])


def load_forests(path: Path, *, mapped: bool = False) -> list[Saved]:
    """Read a file that `save_forest` or `save_forests` wrote, and check it.

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
            require(sizes.size > 1 and (sizes > 0).all() and (sizes <= whole.size).all(), "a forest of no size")
            require(int(sizes.sum()) == whole.size, "forests of other sizes than their file")
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
    columns = {name: arrays[f"columns.{name}"] for name in _COLUMNS}
    if archive is _PLAIN:
        trees = Nodes(*(arrays[f"trees.{name}"] for name in Nodes._fields))
        n_nodes, n_values = trees.nodes.size, trees.value.size
        require(n_nodes and n_values and n_values % n_nodes == 0, "not as many scores for each leaf")
        trees = trees._replace(value=trees.value.reshape(n_nodes, -1))
    else:
        columns["cuts"] = _unpacked_cuts(columns["cuts"])
        trees = _unpacked_trees({name: arrays[f"trees.{name}"] for name in _TREES}, columns["missing"])
    forest = _checked(content, trees, Columns(**columns), arrays["classes"])
    voting, table = content["voting"], content["table"]
    require(voting == "soft" or (voting == "hard" and forest.classes.size), "unknown words for how labels are made")
    return forest, None if table is None else StopTable.from_dict(table), voting


def _checked(content: dict[str, Any], trees: Nodes, columns: Columns, classes: NDArray[Any]) -> PackedForest:
    forest = PackedForest(
        trees=trees,
        columns=columns,
        n_outputs=_whole(content["n_outputs"], 1),
        n_features=_whole(content["n_features"], 1),
        feature_names=content["feature_names"],
        classes=classes,
        conventions=_conventions_from_dict(content["conventions"]),
        threshold=content["threshold"],
        digest=content["digest"],
        output=content["predict_gives"],
        is_pruned=content["is_shrunk"],
        is_forest=content["is_forest"],
    )
    _check_head(forest)
    _check_votes(forest)
    _check_shares(forest)
    return forest


def _whole(value: Any, at_least: int) -> int:
    require(type(value) is int and at_least <= value < 1 << 31, f"{value!r} is not a size")
    return int(value)


def _check_head(forest: PackedForest) -> None:
    require(forest.digest is None or is_digest(forest.digest), "its digest is none")
    require(1 in (forest.n_outputs, forest.trees.value.shape[1]), "several trees and several scores for a vote")
    n_classes = max(2, forest.n_scores) if forest.classes.size else 0
    links = _LINKS_OF_SEVERAL if forest.n_scores > 1 else _LINKS_OF_ONE if n_classes else _LINKS_OF_NUMBERS
    require(forest.conventions.link in links, "scores of another link")
    require(n_classes or forest.n_scores == 1, "several numbers for a row")
    require(forest.classes.size == n_classes, f"{forest.classes.size} class labels, not {n_classes}")
    require(len(set(forest.classes.tolist())) == n_classes, "two classes of one name")
    require(type(forest.threshold) is float and 0.0 < forest.threshold < 1.0, "a threshold that is no probability")
    require(forest.threshold == 0.5 or (n_classes == 2 and forest.n_scores == 1), "a threshold of no class")
    require(forest.n_features <= MOST_FEATURES, f"{forest.n_features:,} features, more than any forest's")
    gives = OUTPUTS[:-1] if n_classes else OUTPUTS[-1:]
    require(forest.output in gives, "predict gives nothing known")
    require(type(forest.is_pruned) is bool, "it does not say whether it is shrunk")
    require(type(forest.is_forest) is bool, "it does not say whether its trees are boosted")
    _check_scores(forest)
    require((forest.classes == forest.classes).all(), "a class without a name")
    require((forest.trees.tree_start.size - 1) % forest.n_outputs == 0, "not as many trees for each class")
    names = forest.feature_names
    if names is not None:
        require(isinstance(names, list) and len(names) == forest.n_features, "not one name for each feature")
        require(all(isinstance(name, str) for name in names), "a feature's name is no text")
    categorical = [*(forest.conventions.category_features or ()), *forest.conventions.coded_features]
    require(len(set(categorical)) == len(categorical), "a feature with two lists of categories")
    require(all(feature < forest.n_features for feature in categorical), "categories of an unknown feature")


def _check_scores(forest: PackedForest) -> None:
    """Check that the mean of the scores of any leaves has a probability."""
    value, conventions = forest.trees.value, forest.conventions
    require(np.isfinite(value).all(), "a leaf without a score")
    require(0.0 < conventions.slope < LARGEST_SCORE, "a link of no slope, or a falling one")
    require(conventions.divisor > 0.0 and abs(conventions.cut) < LARGEST_SCORE, "scores that cannot be compared")
    start = conventions.base
    require(len(start) in (0, forest.n_scores), "not as many sums as scores")
    largest = float(np.abs(value).max()) * (1 if conventions.averages else forest.n_trees)
    largest = max(largest, *map(abs, start), 0.0) * max(conventions.slope, 1.0)
    most = min(LARGEST_SCORE, float(np.finfo(value.dtype).max) / _SUMS)
    require(largest <= most, "a leaf whose score is too large to be added up")


def _check_shares(forest: PackedForest) -> None:
    """If leaves hold the shares of classes, check that these are shares, and that the forest averages them."""
    conventions = forest.conventions
    if conventions.link != "identity" or not forest.classes.size:
        return
    is_mean = conventions.averages and conventions.slope == 1.0 and not any(conventions.base)
    require(is_mean, "class shares that are not averaged")
    value = forest.trees.value[forest.trees.nodes & layout.RANK_MASK == layout.RANK_MASK]
    rounding = max(_ROUNDING, value.shape[1] * float(np.finfo(value.dtype).eps))
    require(value.min() >= -rounding and value.max() <= 1.0 + rounding, "a leaf whose share is not from 0 to 1")
    are_whole = value.shape[1] == 1 or (np.abs(value.sum(axis=1) - 1.0) <= rounding).all()
    require(are_whole, "a leaf whose shares do not sum to 1")


def _check_votes(forest: PackedForest) -> None:
    one_votes = forest.n_outputs == 1 and forest.classes.size
    require(forest.trees.vote.size == (forest.trees.nodes.size if one_votes else 0), "a leaf without a vote")
    require((forest.trees.vote < forest.classes.size).all(), "a vote for an unknown class")


def _conventions_to_dict(conventions: Conventions) -> dict[str, Any]:
    fields, reading = {name: getattr(conventions, name) for name in _FLAGS + _TEXTS}, conventions.reading._asdict()
    numbers = {name: getattr(conventions, name) for name in _FACTORS} | reading
    return {
        **fields,
        # JSON has neither NaN nor infinity.
        **{name: float(numbers[name]).hex() for name in _NUMBERS},
        **{name: reading[name] for name in _FLAGS_OF_READING},
        "start": list(conventions.base),
        "categories": conventions.categories,
        "category_features": conventions.category_features,
        "coded_features": conventions.coded_features,
    }


_FLAGS = [field.name for field in fields(Conventions) if field.type == "bool"]
_FLAGS_OF_READING = [name for name, value in Reading(False)._asdict().items() if type(value) is bool]
_TEXTS = ["framework", "link"]
_FRAMEWORK = re.compile("[A-Za-z][A-Za-z0-9 ._-]{0,63}")
_FACTORS = ["slope", "divisor", "cut"]
_NUMBERS = [*_FACTORS, "missing", "zero_within", "lowest_category"]
_LINKS_OF_ONE, _LINKS_OF_SEVERAL = ("logistic", "identity", "step"), ("softmax", "one-vs-all", "identity", "logistic")
_LINKS_OF_NUMBERS = ("identity", "exp", "square", "logistic", "softplus")


def _conventions_from_dict(fields: dict[str, Any]) -> Conventions:
    require(all(type(fields[name]) is bool for name in _FLAGS + _FLAGS_OF_READING), "a flag is missing")
    require(all(type(fields[name]) is str for name in _TEXTS + _NUMBERS), "a convention is missing")
    require(fields["link"] in LINKS, f"unknown link {fields['link']!r}")
    require(_FRAMEWORK.fullmatch(fields["framework"]), "a framework whose name is not a name")
    start = fields["start"]
    require(isinstance(start, list) and all(type(number) is float and np.isfinite(number) for number in start), "start")
    numbers: dict[str, Any] = {name: float.fromhex(fields[name]) for name in _NUMBERS}
    slope, divisor, cut = (numbers.pop(name) for name in _FACTORS)
    require(np.isfinite([slope, divisor, cut]).all(), "a factor of scores that is not finite")
    require(not np.isnan([numbers["zero_within"], numbers["lowest_category"]]).any(), "a NaN")
    categories, features = fields["categories"], fields["category_features"]
    require(isinstance(categories, list) and all(isinstance(known, list) for known in categories), "categories")
    scalars = (str, int, float)
    require(all(isinstance(category, scalars) for known in categories for category in known), "categories")
    if features is not None:
        require(isinstance(features, list) and len(features) == len(categories), "category_features")
        features = tuple(_whole(feature, 0) for feature in features)
    require(isinstance(fields["coded_features"], list), "coded_features")
    return Conventions(
        **{name: fields[name] for name in _FLAGS + _TEXTS},
        slope=slope,
        divisor=divisor,
        cut=cut,
        base=tuple(start),
        reading=Reading(**{name: fields[name] for name in _FLAGS_OF_READING}, **numbers),
        categories=tuple(map(tuple, categories)),
        category_features=features,
        coded_features=tuple(_whole(feature, 0) for feature in fields["coded_features"]),
    )
