"""A compiled forest as one file: an uncompressed npz archive without pickles, checked in every detail when read.

Nothing is allocated for a size that the file merely claims, and nothing is walked over that has not been checked:
whoever wrote the file may be careless or hostile.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.trees import Conventions, Missing, Reading
from rfsize.errors import ForestFileError, TableError
from rfsize.inference import layout
from rfsize.inference.layout import Columns, Forest, Nodes
from rfsize.stopping.table import StopTable
from rfsize.utils.files import stored_member, written_whole

_FORMAT, _VERSION = "rfsize forest", 2
_AGAIN = "; compile the model and save it again"

_TREES = {
    "nodes": np.uint64,
    "value": np.float64,
    "vote": np.uint16,
    "tree_start": np.int64,
    "bit_start": np.int64,
    "bits": np.uint32,
}
_COLUMNS = {
    "feature": np.int64,
    "cut_start": np.int64,
    "cuts": np.float64,
    "start": np.int64,
    "missing": np.uint8,
    "base": np.int64,
}
_DTYPES = {f"trees.{name}": dtype for name, dtype in _TREES.items()} | {
    f"columns.{name}": dtype for name, dtype in _COLUMNS.items()
}


def save_forest(path: Path, forest: Forest, table: StopTable | None) -> None:
    """Write the file whole, or not at all."""
    classes = forest.classes
    if classes.dtype.kind == "O" and all(isinstance(label, str) for label in classes):
        classes = classes.astype(np.str_)
    if classes.dtype.kind not in "iufbU":
        raise ValueError(
            f"the class labels must be numbers or text to be written to a file, found {classes.tolist()}; train with "
            "such labels, or pickle the predictor"
        )
    metadata = {
        "format": _FORMAT,
        "version": _VERSION,
        "n_outputs": forest.n_outputs,
        "n_features": forest.n_features,
        "feature_names": forest.feature_names,
        "conventions": _conventions_to_dict(forest.conventions),
        "table": None if table is None else table.to_dict(),
    }
    arrays = {f"trees.{name}": array.ravel() for name, array in forest.trees._asdict().items()}
    arrays |= {f"columns.{name}": array for name, array in forest.columns._asdict().items()}
    text = np.frombuffer(json.dumps(metadata).encode(), dtype=np.uint8)
    with written_whole(path) as partial, partial.open("wb") as file:
        np.savez(file, metadata=text, classes=classes, **arrays)


def load_forest(path: Path) -> tuple[Forest, StopTable | None]:
    """Read and check what `save` wrote.

    Raises
    ------
    ForestFileError
        If the file is damaged, or was not written by `CompiledForest.save`.
    OSError
        If it cannot be read.
    """
    arrays = _arrays(path)
    try:
        metadata = json.loads(arrays["metadata"].tobytes().decode("utf-8"))
        if metadata["format"] != _FORMAT or metadata["version"] != _VERSION:
            raise ForestFileError(
                f"{path} has format {metadata['format']!r}, version {metadata['version']!r}; this rfsize reads "
                f"{_FORMAT!r}, version {_VERSION}{_AGAIN}"
            )
        forest = Forest(
            trees=_trees({name: arrays[f"trees.{name}"] for name in _TREES}),
            columns=Columns(**{name: arrays[f"columns.{name}"] for name in _COLUMNS}),
            n_outputs=_whole(metadata["n_outputs"], 1),
            n_features=_whole(metadata["n_features"], 1),
            feature_names=metadata["feature_names"],
            classes=arrays["classes"],
            conventions=_conventions_from_dict(metadata["conventions"]),
        )
        _check_trees(forest.trees)
        _check_head(forest)
        _check_columns(forest)
        _check_nodes(forest)
        table = None if metadata["table"] is None else StopTable.from_dict(metadata["table"])
        if table is not None:
            same = (table.n_trees, table.n_classes) == (forest.n_trees, len(forest.classes))
            _require(same, "the table is for another forest")
    except (KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, (ForestFileError, TableError)):
            raise
        raise ForestFileError(f"{path} is damaged, or was not written by rfsize: {error!r}{_AGAIN}") from error
    return forest, table


def _require(fits: Any, what: str) -> None:
    if not fits:
        raise ForestFileError(f"the forest file is damaged, or was not written by rfsize: {what}{_AGAIN}")


def _whole(value: Any, at_least: int) -> int:
    _require(type(value) is int and at_least <= value < 1 << 31, f"{value!r} is not a size")
    return int(value)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the archive, each of the size that its bytes in the file have."""
    names = [*_DTYPES, "metadata", "classes"]
    try:
        with zipfile.ZipFile(path) as archive:
            _require(sorted(archive.namelist()) == sorted(f"{name}.npy" for name in names), "it has other arrays")
            size = path.stat().st_size
            contents = {name: stored_member(archive, f"{name}.npy", at_most=size) for name in names}
    except ForestFileError:
        raise
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise ForestFileError(f"{path} is no forest file, or breaks off: {error}{_AGAIN}") from error
    return {name: _array(content, name) for name, content in contents.items()}


def _array(content: bytes, name: str) -> NDArray[Any]:
    file = io.BytesIO(content)
    _require(np.lib.format.read_magic(file) == (1, 0), f"{name} is not in the first npy format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    _require(len(shape) == 1 and not dtype.hasobject, f"{name} is not a list of numbers or text")
    _require(shape[0] * dtype.itemsize == len(content) - file.tell(), f"{name} is not of the size it claims")
    array = np.frombuffer(content, dtype=dtype, offset=file.tell()) if shape[0] else np.zeros(0, dtype)
    if name == "classes":
        _require(dtype.kind in "iufbU", "class labels are neither numbers nor text")
        return array.astype(dtype.newbyteorder("="))
    wanted = np.dtype(np.uint8 if name == "metadata" else _DTYPES[name])
    _require(dtype.newbyteorder("=") == wanted, f"{name} is {dtype}, not {wanted}")
    return array.astype(wanted)


def _trees(arrays: dict[str, NDArray[Any]]) -> Nodes:
    n_nodes, n_values = arrays["nodes"].size, arrays["value"].size
    _require(n_nodes and n_values and n_values % n_nodes == 0, "not as many scores for each leaf")
    return Nodes(**arrays | {"value": arrays["value"].reshape(n_nodes, -1)})


def _check_trees(trees: Nodes) -> None:
    """That the nodes of each tree make a tree, in breadth-first order: so every walk goes on to a leaf."""
    nodes, start = trees.nodes, trees.tree_start
    _require(start.size >= 2 and start[0] == 0 and start[-1] == nodes.size, "trees break off")
    # Before any difference of them, which would wrap around.
    _require(((start >= 0) & (start <= nodes.size)).all(), "a tree beyond the nodes")
    _require((np.diff(start) > 0).all() and nodes.size <= layout.MOST_NODES, "a tree without nodes")
    is_inner = nodes & layout.RANK_MASK != layout.RANK_MASK
    left = (nodes >> layout.LEFT_SHIFT).astype(np.int64)
    place = np.arange(nodes.size)
    first = np.repeat(start[:-1], np.diff(start))
    # The children of the k-th split of a tree are its nodes 2k + 1 and 2k + 2.
    before = np.cumsum(is_inner) - is_inner
    nth = before - before[first]
    _require((left == np.where(is_inner, first + 2 * nth + 1, place)).all(), "a node has other children than its own")
    _require((left[is_inner] > place[is_inner]).all(), "a node comes after its children")
    splits = np.add.reduceat(is_inner.astype(np.int64), start[:-1])
    _require((2 * splits + 1 == np.diff(start)).all(), "a tree has not one leaf more than splits")


def _check_head(forest: Forest) -> None:
    _require(1 in (forest.n_outputs, forest.trees.value.shape[1]), "several trees and several scores for a vote")
    alone = forest.conventions.link == "logistic"
    _require(alone == (forest.n_scores == 1) or forest.conventions.link == "identity", "scores of another link")
    n_classes = max(2, forest.n_scores)
    _require(forest.classes.size == n_classes, f"{forest.classes.size} class labels, not {n_classes}")
    _require(len(set(forest.classes.tolist())) == n_classes, "two classes of one name")
    _require((forest.classes == forest.classes).all(), "a class without a name")
    _require((forest.trees.tree_start.size - 1) % forest.n_outputs == 0, "not as many trees for each class")
    names = forest.feature_names
    if names is not None:
        _require(isinstance(names, list) and len(names) == forest.n_features, "not one name for each feature")
        _require(all(isinstance(name, str) for name in names), "a feature's name is no text")
    categorical = forest.conventions.category_features or ()
    _require(len(set(categorical)) == len(categorical), "a feature with two lists of categories")
    _require(all(feature < forest.n_features for feature in categorical), "categories of an unknown feature")


def _check_columns(forest: Forest) -> None:
    columns = forest.columns
    feature, cuts, kind, base = columns.feature, columns.cuts, columns.missing, columns.base
    _require((feature >= 0).all() and (feature < forest.n_features).all(), "a feature that rows do not have")
    _require((np.diff(feature) >= 0).all(), "features out of order")
    for start, size in ((columns.cut_start, cuts.size), (columns.start, kind.size)):
        _require(start.size == feature.size + 1 and start[0] == 0 and start[-1] == size, "a list breaks off")
        _require(((start >= 0) & (start <= size)).all() and (np.diff(start) >= 0).all(), "a list runs backwards")
    _require((np.diff(columns.start) > 0).all(), "a feature without a column")
    _require(base.size == kind.size and (kind < len(Missing)).all(), "an unknown kind of column")
    entry = np.repeat(np.arange(feature.size), np.diff(columns.start))
    n_cuts = np.diff(columns.cut_start)
    inside = np.ones(max(cuts.size - 1, 0), dtype=np.bool_)
    inside[columns.cut_start[1:-1][(columns.cut_start[1:-1] > 0) & (columns.cut_start[1:-1] < cuts.size)] - 1] = False
    _require(not np.isnan(cuts).any() and (np.diff(cuts)[inside] > 0).all(), "thresholds out of order")
    is_category = kind == Missing.CATEGORY
    with_category = entry[is_category]
    _require((np.diff(columns.start)[with_category] == 1).all(), "a categorical feature with two columns")
    _require((n_cuts[with_category] <= layout.MOST_CATEGORIES).all(), "too many categories")
    _require(((base >= 0) & ((base < n_cuts[entry]) | is_category)).all(), "a column without thresholds")


def _check_nodes(forest: Forest) -> None:
    trees, columns, nodes, n_nodes = forest.trees, forest.columns, forest.trees.nodes, forest.trees.nodes.size
    rank = (nodes & layout.RANK_MASK).astype(np.int64)
    column = (nodes >> layout.COLUMN_SHIFT & layout.COLUMN_MASK).astype(np.int64)
    is_category = nodes & layout.CATEGORICAL != 0
    is_leaf = rank == layout.HIGHEST_RANK
    _require(not (is_leaf & (is_category | (column != 0))).any(), "a leaf that tests a column")
    _require((column[~is_leaf] < columns.missing.size).all(), "a split that tests no column")
    entry = np.repeat(np.arange(columns.feature.size), np.diff(columns.start))
    n_cuts = np.diff(columns.cut_start)[entry]
    tested, split_rank = column[~is_leaf], rank[~is_leaf]
    kind = columns.missing[tested] == Missing.CATEGORY
    _require((kind == is_category[~is_leaf]).all(), "a split of another kind than its column")
    _require((split_rank + columns.base[tested] < n_cuts[tested])[~kind].all(), "a split without a threshold")
    _require(trees.bit_start.size == (n_nodes if trees.bits.size else 0), "sets of categories break off")
    _require(trees.bits.size > 0 or not is_category.any(), "a categorical split without a set")
    if trees.bits.size:
        words = -(-(n_cuts[column[is_category]] + 2) // 32)
        start = trees.bit_start[is_category]
        _require(((start >= 0) & (start <= trees.bits.size - words)).all(), "a set of categories that breaks off")
    _require(np.isfinite(trees.value).all(), "a leaf without a score")
    _require(trees.vote.size == (n_nodes if forest.n_outputs == 1 else 0), "a leaf without a vote")
    _require((trees.vote < forest.classes.size).all(), "a vote for an unknown class")


def _conventions_to_dict(conventions: Conventions) -> dict[str, Any]:
    fields = {name: getattr(conventions, name) for name in _FLAGS + _TEXTS}
    numbers = {"slope": conventions.slope, **conventions.reading._asdict()}
    return {
        **fields,
        # JSON has neither NaN nor infinity.
        **{name: float(numbers[name]).hex() for name in _NUMBERS},
        "single_precision": conventions.reading.single_precision,
        "categories": conventions.categories,
        "category_features": conventions.category_features,
    }


_FLAGS = (
    "absent_is_missing",
    "spaces_become_underscores",
    "unknown_category_is_missing",
    "refuses_infinite",
    "refuses_missing",
    "takes_codes",
)
_TEXTS = ("framework", "link")
_NUMBERS = ("slope", "missing", "zero_within", "lowest_category")
_LINKS = {"logistic", "softmax", "one-vs-all", "identity"}


def _conventions_from_dict(fields: dict[str, Any]) -> Conventions:
    _require(all(type(fields[name]) is bool for name in (*_FLAGS, "single_precision")), "a flag is missing")
    _require(all(type(fields[name]) is str for name in _TEXTS + _NUMBERS), "a convention is missing")
    _require(fields["link"] in _LINKS, f"unknown link {fields['link']!r}")
    numbers = {name: float.fromhex(fields[name]) for name in _NUMBERS}
    slope = numbers.pop("slope")
    _require(np.isfinite(slope) and not np.isnan([numbers["zero_within"], numbers["lowest_category"]]).any(), "a NaN")
    categories, features = fields["categories"], fields["category_features"]
    _require(isinstance(categories, list) and all(isinstance(known, list) for known in categories), "categories")
    scalars = (str, int, float)
    _require(all(isinstance(category, scalars) for known in categories for category in known), "categories")
    if features is not None:
        _require(isinstance(features, list) and len(features) == len(categories), "category_features")
        features = tuple(_whole(feature, 0) for feature in features)
    return Conventions(
        **{name: fields[name] for name in _FLAGS + _TEXTS},
        slope=slope,
        reading=Reading(single_precision=fields["single_precision"], **numbers),
        categories=tuple(map(tuple, categories)),
        category_features=features,
    )
