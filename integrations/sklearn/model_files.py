"""Scikit-learn models in skops files, for the command line; rfsize never reads pickles.

skops loads only types that cannot run code. It does not check the numbers in trees, so a forged file could make
scikit-learn read outside its arrays. This module checks these numbers.
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

from rfsize.integrations.sklearn.forest import is_tree
from rfsize.models.damage import MOST_FEATURES, check_children
from rfsize.utils.validation import whole

# The one type in scikit-learn's forests, bagging and boosting that skops loads only if told to trust it.
_TRUSTED = ["sklearn.tree._tree.Tree"]

# Largest allowed ratio of unpacked to packed size of an archive.
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
    except Exception as error:  # from skops, zipfile, NumPy or scikit-learn, depending on the damage
        _refuse(path, error)
    if unknown:
        raise ValueError(
            f"{path} holds types that are neither scikit-learn's nor NumPy's: {', '.join(unknown)[:300]}; rfsize "
            "reads no others from files, so use this model in Python"
        )
    try:
        _check_trees(model)
        _try(model)
    except Exception as error:  # scikit-learn raises many kinds of errors for damaged models
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
        # scikit-learn reads one number of classes for each output, even beyond the end of the stored array.
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
    """Raise ``ValueError`` if a walk down a tree could leave the tree's nodes or the row's features."""
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
    """Raise ``ValueError`` if members use features that the rows of their ensemble do not have."""
    n_features = whole("n_features_in_", model.n_features_in_, at_least=1, at_most=MOST_FEATURES)
    taken = getattr(model, "estimators_features_", [None] * len(members))
    for member, features in zip(members, taken, strict=True):
        if features is not None and not all(0 <= feature < n_features for feature in features):
            raise ValueError("a member takes features that the rows do not have")
        if is_tree(member) and member.n_features_in_ != (n_features if features is None else len(features)):
            raise ValueError("a tree takes other rows than its ensemble")


def _try(model: Any) -> None:
    """Predict one row with an ensemble of trees, to find out whether parts of the model are missing."""
    members = getattr(model, "estimators_", ())
    if len(members) and all(map(is_tree, members)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the row has no feature names
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
