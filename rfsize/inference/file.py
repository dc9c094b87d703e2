"""A compiled forest as one file: an npz archive without pickles, checked in every detail when read.

Nothing is allocated for a size that the file merely claims, and nothing is walked over that has not been checked:
whoever wrote the file may be careless or hostile.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import PREDICTIONS
from rfsize.adapters.damage import LARGEST_SCORE, MOST_FEATURES
from rfsize.adapters.trees import Conventions, Reading
from rfsize.errors import ForestFileError, TableError
from rfsize.stopping.table import StopTable
from rfsize.utils.files import member_of, written_whole
from rfsize.utils.validation import MAX_CLASSES, is_digest
from rfsize.voting.links import LINKS
from rfsize.walking import layout
from rfsize.walking.layout import Columns, Forest, Nodes

_FORMAT, _VERSION = "rfsize forest", 4
_AGAIN = "; compile the model and save it again"

# The form in which NumPy writes a list of numbers or text.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<order>[<>|=])(?P<kind>[iufbU])(?P<width>[0-9]{1,6})', "
    rb"'fortran_order': False, 'shape': \((?P<size>[0-9]{1,19}),\), \} *\n",
    re.DOTALL,
)
_LONGEST_HEADER, _LONGEST_LABEL = 256, 100_000
_LARGEST_METADATA = 64_000_000  # bytes; the largest table takes a few millions, and there may be many categories
# What a file unpacks to is at most so many times its size, far beyond that of nodes that name their children; and more
# where it is little.
_UNPACKED, _LITTLE = 100, 1 << 20
_ROUNDING = 1e-9  # of shares that sum to 1
_SUMS = 4.0  # sums of scores, and what a link multiplies them by, stay so many times below the largest number

# What reading an archive that anyone may have written can raise; an OSError comes of a place before its beginning.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, OSError),
    *(KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError, MemoryError),
)

_TREES = {
    "nodes": np.uint64,
    "value": np.float64,
    "vote": np.uint16,
    "tree_start": np.int64,
    "bit_start": np.int64,
    "bits": np.uint32,
}
_PRECISIONS = (np.float32, np.float64)  # in which scores are added
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


def save_forest(path: Path, forest: Forest, table: StopTable | None, voting: str) -> None:
    """Write the file whole, or not at all."""
    classes = forest.classes
    if classes.dtype.kind == "O" and all(isinstance(label, str) and not label.endswith("\0") for label in classes):
        classes = classes.astype(np.str_)
    if classes.dtype.kind not in "iufbU":
        raise ValueError(
            "the class labels must be numbers or text that ends with no NUL to be written to a file, found "
            f"{classes.tolist()}; train with such labels, or pickle the predictor"
        )
    metadata = {
        "format": _FORMAT,
        "version": _VERSION,
        "n_outputs": forest.n_outputs,
        "n_features": forest.n_features,
        "feature_names": forest.feature_names,
        "conventions": _conventions_to_dict(forest.conventions),
        "threshold": forest.threshold,
        "voting": voting,
        "predict_gives": forest.predict_gives,
        "digest": forest.digest,
        "table": None if table is None else table.to_dict(),
    }
    arrays = {f"trees.{name}": array.ravel() for name, array in forest.trees._asdict().items()}
    arrays |= {f"columns.{name}": array for name, array in forest.columns._asdict().items()}
    text = np.frombuffer(json.dumps(metadata).encode(), dtype=np.uint8)
    with written_whole(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, metadata=text, classes=classes, **arrays)


def load_forest(path: Path) -> tuple[Forest, StopTable | None, str]:
    """Read and check what `save` wrote: the forest, its table, and what labels go by.

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
            threshold=metadata["threshold"],
            digest=_digest(metadata["digest"]),
            predict_gives=metadata["predict_gives"],
        )
        _check_head(forest)
        _check_votes(forest)
        _check_shares(forest)
        table = None if metadata["table"] is None else StopTable.from_dict(metadata["table"])
        voting = metadata["voting"]
        _require(voting == "soft" or (voting == "hard" and forest.classes.size), "labels go by nothing known")
    except (*_DAMAGE, RecursionError) as error:
        if isinstance(error, (ForestFileError, TableError)):
            raise
        raise ForestFileError(f"{path} is damaged, or was not written by rfsize: {error!r}{_AGAIN}") from error
    return forest, table, voting


def _require(fits: Any, what: str) -> None:
    if not fits:
        raise ForestFileError(f"the forest file is damaged, or was not written by rfsize: {what}{_AGAIN}")


def _digest(value: Any) -> str | None:
    _require(value is None or is_digest(value), "its digest is none")
    return value


def _whole(value: Any, at_least: int) -> int:
    _require(type(value) is int and at_least <= value < 1 << 31, f"{value!r} is not a size")
    return int(value)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the archive, each of the kind and size that the others allow, before any of them is read."""
    names = [*_DTYPES, "metadata", "classes"]
    if path.exists() and not path.is_file():
        raise ForestFileError(f"{path} is no regular file{_AGAIN}")
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                _require(sorted(archive.namelist()) == sorted(f"{name}.npy" for name in names), "it has other arrays")
                headers = {name: _header(archive, name) for name in names}
                _check_sizes({name: header.size for name, header in headers.items()})
                unpacked = sum(header.size * header.dtype.itemsize for header in headers.values())
                _require(unpacked <= _UNPACKED * path.stat().st_size + _LITTLE, f"it unpacks to {unpacked:,} bytes")
                return {name: _array(archive, name, header) for name, header in headers.items()}
        except _DAMAGE as error:
            if isinstance(error, ForestFileError):
                raise
            raise ForestFileError(f"{path} is no forest file, or breaks off: {error}{_AGAIN}") from error


class _Header(NamedTuple):
    """What an array says of itself."""

    dtype: np.dtype[Any]
    size: int
    begins: int


def _header(archive: zipfile.ZipFile, name: str) -> _Header:
    """The header of an array, by the one form that `save_forest` writes; NumPy's own reader evaluates any."""
    member = archive.getinfo(f"{name}.npy")
    with archive.open(member) as file:
        start = file.read(_LONGEST_HEADER)
    found = _NPY.match(start)
    _require(found, f"{name} is not in the first npy format, or no list")
    assert found is not None
    order, kind, width, size = found["order"].decode(), found["kind"].decode(), int(found["width"]), int(found["size"])
    wanted = {"classes": "iufbU", "metadata": "u"}.get(name, np.dtype(_DTYPES.get(name, np.uint8)).kind)
    known = {"U": range(1, _LONGEST_LABEL + 1), "b": (1,), "f": (2, 4, 8)}.get(kind, (1, 2, 4, 8))
    _require(kind in wanted and width in known, f"{name} holds {kind}{width}")
    begins = 10 + int.from_bytes(start[8:10], "little")
    dtype = np.dtype(f"{order}{kind}{width}")
    own = _PRECISIONS if name == "trees.value" else (_DTYPES.get(name, np.uint8),)
    _require(name == "classes" or dtype.newbyteorder("=") in own, f"{name} is {dtype}")
    _require(begins + size * dtype.itemsize == member.file_size, f"{name} is not of the size it claims")
    return _Header(dtype, size, begins)


def _check_sizes(sizes: dict[str, int]) -> None:
    """That no array is larger than a forest of so many nodes can have."""
    n_nodes = sizes["trees.nodes"]
    _require(n_nodes <= layout.MOST_NODES, f"{n_nodes:,} nodes, more than any forest's")
    _require(sizes["metadata"] <= _LARGEST_METADATA, "more text than any forest's")
    _require(sizes["classes"] <= MAX_CLASSES, f"{sizes['classes']:,} classes, more than any forest's")
    _require(sizes["trees.value"] <= n_nodes * max(1, sizes["classes"]), "more scores than classes for a leaf")
    _require(sizes["trees.tree_start"] <= n_nodes + 1, "more trees than nodes")
    for name in ("trees.vote", "trees.bit_start"):
        _require(sizes[name] <= n_nodes, f"more {name} than nodes")
    _require(sizes["columns.cuts"] <= n_nodes * layout.MOST_CATEGORIES, "more thresholds than splits")


def _array(archive: zipfile.ZipFile, name: str, header: _Header) -> NDArray[Any]:
    content = member_of(archive, f"{name}.npy", at_most=header.begins + header.size * header.dtype.itemsize)
    array = (
        np.frombuffer(content, dtype=header.dtype, offset=header.begins) if header.size else np.zeros(0, header.dtype)
    )
    array = array.astype(header.dtype.newbyteorder("="))
    if array.dtype.kind == "U":
        points = array.view(np.uint32)
        _require(((points < 0xD800) | ((points > 0xDFFF) & (points <= 0x10FFFF))).all(), "a class label is no text")
    return array


def _trees(arrays: dict[str, NDArray[Any]]) -> Nodes:
    n_nodes, n_values = arrays["nodes"].size, arrays["value"].size
    _require(n_nodes and n_values and n_values % n_nodes == 0, "not as many scores for each leaf")
    return Nodes(**arrays | {"value": arrays["value"].reshape(n_nodes, -1)})


def _check_head(forest: Forest) -> None:
    _require(1 in (forest.n_outputs, forest.trees.value.shape[1]), "several trees and several scores for a vote")
    n_classes = max(2, forest.n_scores) if forest.classes.size else 0
    links = _LINKS_OF_SEVERAL if forest.n_scores > 1 else _LINKS_OF_ONE if n_classes else _LINKS_OF_NUMBERS
    _require(forest.conventions.link in links, "scores of another link")
    _require(n_classes or forest.n_scores == 1, "several numbers for a row")
    _require(forest.classes.size == n_classes, f"{forest.classes.size} class labels, not {n_classes}")
    _require(len(set(forest.classes.tolist())) == n_classes, "two classes of one name")
    _require(type(forest.threshold) is float and 0.0 < forest.threshold < 1.0, "a threshold that is no probability")
    _require(forest.threshold == 0.5 or (n_classes == 2 and forest.n_scores == 1), "a threshold of no class")
    _require(forest.n_features <= MOST_FEATURES, f"{forest.n_features:,} features, more than any forest's")
    gives = PREDICTIONS[:-1] if n_classes else PREDICTIONS[-1:]
    _require(forest.predict_gives in gives, "predict gives nothing known")
    _check_scores(forest)
    _require((forest.classes == forest.classes).all(), "a class without a name")
    _require((forest.trees.tree_start.size - 1) % forest.n_outputs == 0, "not as many trees for each class")
    names = forest.feature_names
    if names is not None:
        _require(isinstance(names, list) and len(names) == forest.n_features, "not one name for each feature")
        _require(all(isinstance(name, str) for name in names), "a feature's name is no text")
    categorical = forest.conventions.category_features or ()
    _require(len(set(categorical)) == len(categorical), "a feature with two lists of categories")
    _require(all(feature < forest.n_features for feature in categorical), "categories of an unknown feature")


def _check_scores(forest: Forest) -> None:
    """That the mean of any leaves' scores has a probability."""
    value, conventions = forest.trees.value, forest.conventions
    _require(np.isfinite(value).all(), "a leaf without a score")
    _require(0.0 < conventions.slope < LARGEST_SCORE, "a link of no slope, or a falling one")
    start = conventions.start
    _require(len(start) in (0, forest.n_scores), "not as many sums as scores")
    largest = float(np.abs(value).max()) * (1 if conventions.averages else forest.n_trees)
    largest = max(largest, *map(abs, start), 0.0) * max(conventions.slope, 1.0)
    most = min(LARGEST_SCORE, float(np.finfo(value.dtype).max) / _SUMS)
    _require(largest <= most, "a leaf whose score is too large to be added up")


def _check_shares(forest: Forest) -> None:
    """That leaves which hold the classes' shares of their rows hold such, and that the forest averages them."""
    conventions = forest.conventions
    if conventions.link != "identity" or not forest.classes.size:
        return
    is_mean = conventions.averages and conventions.slope == 1.0 and not any(conventions.start)
    _require(is_mean, "shares of which no mean is taken")
    value = forest.trees.value[forest.trees.nodes & layout.RANK_MASK == layout.RANK_MASK]
    rounding = max(_ROUNDING, value.shape[1] * float(np.finfo(value.dtype).eps))
    _require(value.min() >= -rounding and value.max() <= 1.0 + rounding, "a leaf whose share is none")
    are_whole = value.shape[1] == 1 or (np.abs(value.sum(axis=1) - 1.0) <= rounding).all()
    _require(are_whole, "a leaf whose shares do not sum to 1")


def _check_votes(forest: Forest) -> None:
    one_votes = forest.n_outputs == 1 and forest.classes.size
    _require(forest.trees.vote.size == (forest.trees.nodes.size if one_votes else 0), "a leaf without a vote")
    _require((forest.trees.vote < forest.classes.size).all(), "a vote for an unknown class")


def _conventions_to_dict(conventions: Conventions) -> dict[str, Any]:
    fields = {name: getattr(conventions, name) for name in _FLAGS + _TEXTS}
    numbers = {"slope": conventions.slope, **conventions.reading._asdict()}
    return {
        **fields,
        # JSON has neither NaN nor infinity.
        **{name: float(numbers[name]).hex() for name in _NUMBERS},
        "single_precision": conventions.reading.single_precision,
        "start": list(conventions.start),
        "categories": conventions.categories,
        "category_features": conventions.category_features,
    }


_FLAGS = (
    "averages",
    "absent_is_missing",
    "spaces_become_underscores",
    "unknown_category_is_missing",
    "refuses_infinite",
    "refuses_missing",
    "labels_of_scores",
    "takes_codes",
)
_TEXTS = ("framework", "link")
_FRAMEWORK = re.compile("[A-Za-z][A-Za-z0-9 ._-]{0,63}")
_NUMBERS = ("slope", "missing", "zero_within", "lowest_category")
_LINKS_OF_ONE, _LINKS_OF_SEVERAL = ("logistic", "identity"), ("softmax", "one-vs-all", "identity")
_LINKS_OF_NUMBERS = ("identity", "exp", "square", "logistic")


def _conventions_from_dict(fields: dict[str, Any]) -> Conventions:
    _require(all(type(fields[name]) is bool for name in (*_FLAGS, "single_precision")), "a flag is missing")
    _require(all(type(fields[name]) is str for name in _TEXTS + _NUMBERS), "a convention is missing")
    _require(fields["link"] in LINKS, f"unknown link {fields['link']!r}")
    _require(_FRAMEWORK.fullmatch(fields["framework"]), "a framework whose name is none")
    start = fields["start"]
    _require(isinstance(start, list) and all(type(one) is float and np.isfinite(one) for one in start), "start")
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
        start=tuple(start),
        reading=Reading(single_precision=fields["single_precision"], **numbers),
        categories=tuple(map(tuple, categories)),
        category_features=features,
    )
