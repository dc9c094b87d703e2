"""Scikit-learn's models in skops files, for the command line; pickles are never read.

skops loads types that it knows to run nothing. Of the trees of forests it says that their numbers are not checked, so
that a file may send scikit-learn beyond its arrays: here they are checked.
"""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
from sklearn.tree._tree import Tree

from rfsize.adapters.damage import MOST_FEATURES, check_children
from rfsize.integrations.sklearn.forest import is_tree
from rfsize.utils.validation import whole

# What skops does not load unless told to, of all that forests, bagging and boosting of scikit-learn are made of.
_TRUSTED = ["sklearn.tree._tree.Tree"]

# An archive of compressed members may be so many times as large when it is unpacked.
_MOST_EXPANDED = 100


def read_model(path: Path) -> Any:
    """A model from a skops file.

    Raises
    ------
    ImportError
        If skops is not installed.
    ValueError
        If the file holds other types than scikit-learn's and NumPy's own, or is damaged.
    """
    skops = _skops()
    model: Any = None
    try:
        _check_archive(path)
        unknown = sorted(set(skops.get_untrusted_types(file=path)) - set(_TRUSTED))
        if not unknown:
            model = skops.load(path, trusted=_TRUSTED)
    except Exception as error:  # of skops, zipfile, NumPy or scikit-learn, by what is damaged
        _refuse(path, error)
    if unknown:
        raise ValueError(
            f"{path} holds types that are neither scikit-learn's nor NumPy's: {', '.join(unknown)[:300]}; rfsize "
            "reads no others from files, so use this model in Python"
        )
    try:
        _check_trees(model)
        _try(model)
    except Exception as error:  # what is missing or does not fit, scikit-learn finds in many ways
        _refuse(path, error)
    return model


def write_model(model: Any, path: Path) -> None:
    """Write a model with skops."""
    _skops().dump(model, path)


def _skops() -> ModuleType:
    try:
        import skops.io
    except ImportError:
        raise ImportError("models of scikit-learn are read and written by skops: pip install rfsize[skops]") from None
    return skops.io


def _refuse(path: Path, error: Exception) -> NoReturn:
    raise ValueError(
        f"{path} is a skops file that cannot be read ({type(error).__name__}: {str(error)[:200]}): write it again with "
        "skops.io.dump, by the same version of scikit-learn"
    ) from error


def _check_archive(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > _MOST_EXPANDED * path.stat().st_size:
            raise ValueError(f"it takes {unpacked:,} bytes when it is unpacked")
        schema = json.loads(archive.read("schema.json"))
    for node in _nodes(schema):
        # scikit-learn reads as many numbers of classes as there are outputs, whether they are there or not.
        if node.get("__class__") == "Tree" and node["__reduce__"]["args"]["content"][2].get("content") != "1":
            raise ValueError("a tree has several outputs")


def _nodes(found: Any) -> Iterator[dict[str, Any]]:
    waiting = [found]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _check_trees(model: Any) -> None:
    """``ValueError`` where a walk down some tree of a model would leave the tree, or the row's features."""
    seen, waiting = set(), [(model, None)]
    while waiting:
        thing, n_features = waiting.pop()
        if isinstance(thing, Tree):
            _check_tree(thing, n_features)
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, dict):
            waiting.extend((part, n_features) for part in thing.values())
        elif isinstance(thing, (list, tuple, set)) or (isinstance(thing, np.ndarray) and thing.dtype.kind == "O"):
            waiting.extend((part, n_features) for part in thing)
        elif hasattr(thing, "__dict__"):
            waiting.extend((part, getattr(thing, "n_features_in_", None)) for part in vars(thing).values())
    members = list(getattr(model, "estimators_", ()))
    if members:
        _check_features(model, members)


def _check_features(model: Any, members: list[Any]) -> None:
    """``ValueError`` where members take features that the rows of their ensemble do not have."""
    n_features = whole("n_features_in_", model.n_features_in_, at_least=1, at_most=MOST_FEATURES)
    taken = getattr(model, "estimators_features_", [None] * len(members))
    for member, features in zip(members, taken, strict=True):
        if features is not None and not all(0 <= feature < n_features for feature in features):
            raise ValueError("a member takes features that the rows do not have")
        if is_tree(member) and member.n_features_in_ != (n_features if features is None else len(features)):
            raise ValueError("a tree takes other rows than its ensemble")


def _try(model: Any) -> None:
    """Predict a row with an ensemble of trees, which tells whether all that it takes is there."""
    members = getattr(model, "estimators_", ())
    if len(members) and all(map(is_tree, members)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the row has no names
            model.predict(np.zeros((1, model.n_features_in_)))


def _check_tree(tree: Any, n_features: Any) -> None:
    left, right = tree.children_left, tree.children_right
    splits = left >= 0
    check_children(left[splits], right[splits], tree.node_count, "a tree")
    if not (left[~splits] == right[~splits]).all() or tree.node_count < 1 or tree.n_outputs != 1:
        raise ValueError("a leaf of a tree has a child")
    feature = tree.feature[splits]
    if tree.n_features != n_features or not ((feature >= 0) & (feature < n_features)).all():
        raise ValueError("a tree splits by a feature that its rows do not have")
