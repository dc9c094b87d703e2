"""The trees of an XGBoost model: reads them from its JSON, prepares them for compiling, and makes other models."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from rfsize.exceptions import NotAForestError
from rfsize.integrations.xgboost.categories import categorical, names_of
from rfsize.models.damage import (
    MOST_FEATURES,
    NUMBER,
    TEXT,
    WHOLE,
    check_children,
    check_depth,
    check_form,
    refuse,
    whole_number,
    whole_numbers,
)
from rfsize.models.ensemble import Conventions, Missing, Reading, TreeNodes
from rfsize.utils.typing import Int64s
from rfsize.utils.validation import MAX_CLASSES

VERSION = tuple(int(part) for part in re.findall("[0-9]+", xgb.__version__)[:3])

# The link of each objective whose trees can be averaged; the objectives that classify; and the objectives whose hessian
# is the same for all rows of unit weight, which the proof of the bags needs.
LINKS = {
    "binary:logistic": "logistic",
    "multi:softprob": "softmax",
    "multi:softmax": "softmax",
    "reg:logistic": "logistic",
    **dict.fromkeys(
        ("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror"),
        "identity",
    ),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), "exp"),
}
VOTING = {"binary:logistic", "multi:softprob", "multi:softmax"}
ADAPTIVE = {"reg:absoluteerror", "reg:quantileerror"}  # leaves hold quantiles up to XGBoost 3.2; see `smoothed`
CONSTANT_HESSIAN = VOTING | ADAPTIVE | {"reg:squarederror", "reg:logistic", "count:poisson"}

_BELOW_ZERO = float(np.nextafter(np.float32(0), np.float32(-1)))


def document(booster: xgb.Booster) -> dict[str, Any]:
    """The model as XGBoost's own JSON; `NotAForestError` if XGBoost cannot write it."""
    try:
        content: dict[str, Any] = json.loads(booster.save_raw("json"))
    except xgb.core.XGBoostError as error:
        raise NotAForestError(
            f"XGBoost cannot write the model out ({reason(error)}): train it first, or save it again where it is whole"
        ) from error
    return content


def reason(error: Exception) -> str:
    """XGBoost's message, without the place in its sources."""
    return str(error).partition("\n")[0].rpartition(": ")[2]


# The parts of a model that are read, with their types: first the head, which every model has, then trees.
_HEAD = {
    "learner_model_param": {"num_class": TEXT, "num_feature": TEXT, "base_score": TEXT, "num_target?": TEXT},
    "objective": {"name": TEXT, "reg_loss_param?": {"scale_pos_weight?": TEXT}},
    "gradient_booster": {"name": TEXT},
    "feature_names?": [TEXT],
    "feature_types?": [TEXT],
}
_FEATURE_TYPES = {"int", "float", "i", "q", "c"}
_OF_NODES = {  # lists of one entry for each node
    "left_children": [WHOLE],
    "right_children": [WHOLE],
    "parents": [WHOLE],
    "split_indices": [WHOLE],
    "split_conditions": [NUMBER],
    "default_left": [WHOLE],
    "split_type": [WHOLE],
}
_TREE = {
    **_OF_NODES,
    "id": WHOLE,
    "base_weights": [NUMBER],
    "leaf_weights?": [NUMBER],
    "sum_hessian?": [NUMBER],
    "loss_changes?": [NUMBER],
    "categories": [WHOLE],
    "categories_nodes": [WHOLE],
    "categories_segments": [WHOLE],
    "categories_sizes": [WHOLE],
    "tree_param": {"num_nodes": TEXT, "num_feature": TEXT, "num_deleted": TEXT, "size_leaf_vector": TEXT},
}
_TREES = {
    "gbtree_model_param": {"num_trees": TEXT, "num_parallel_tree": TEXT},
    "iteration_indptr": [WHOLE],
    "tree_info": [WHOLE],
    "trees": [_TREE],
    "cats?": {
        "enc": [{"values": [NUMBER], "offsets?": [WHOLE], "type?": WHOLE}],
        "feature_segments": [WHOLE],
        "sorted_idx": [WHOLE],
    },
}


def check_head(learner: Any) -> None:
    """Check that a document names the kind of its model; `NotAForestError` if not."""
    check_form(learner, _HEAD, "learner")


def check_trees(learner: dict[str, Any]) -> None:
    """Check that an ensemble of trees has the expected form; `NotAForestError` if not."""
    check_form(learner["gradient_booster"], {"model": _TREES}, "learner.gradient_booster")
    for column in learner["gradient_booster"]["model"].get("cats", {}).get("enc", []):
        if "offsets" in column:
            check_form(column["values"], [WHOLE], "the text of a feature's categories")


def check(learner: dict[str, Any]) -> None:
    """Check that the numbers and arrays of a forest fit together, before memory is allocated by them.

    Raises
    ------
    NotAForestError
        If they do not.
    """
    n_classes = whole_number(learner["learner_model_param"]["num_class"], "num_class", 0, MAX_CLASSES)
    n_features = _checked_features(learner)
    stored = learner["gradient_booster"]["model"]
    width = scores_per_leaf(learner)
    for index, tree in enumerate(stored["trees"]):
        whole_number(tree["id"], f"id of tree {index}", index, index)
        _check_tree(tree, f"tree {index}", width, n_features)
    if (n_classes > 1) != (LINKS[learner["objective"]["name"]] == "softmax") or width not in (1, n_classes):
        refuse(f"num_class is {n_classes}, which does not fit the objective or trees of {width} scores")
    n_outputs = 1 if width > 1 else max(1, n_classes)
    n_trees = len(stored["trees"])
    if whole_numbers(stored["tree_info"], "tree_info", 0, n_outputs - 1).size != n_trees:
        refuse("tree_info has not one class for each tree")
    whole_number(stored["gbtree_model_param"]["num_trees"], "num_trees", n_trees, n_trees)
    whole_number(stored["gbtree_model_param"]["num_parallel_tree"], "num_parallel_tree", 1, n_trees)
    _check_categories(stored.get("cats"), n_features)


def _checked_features(learner: dict[str, Any]) -> int:
    """The number of features, after a check that all or none have names and types."""
    n_features = whole_number(learner["learner_model_param"]["num_feature"], "num_feature", 0, MOST_FEATURES)
    for name in ("feature_names", "feature_types"):
        n_found = len(learner.get(name, []))
        if n_found not in (0, n_features):
            refuse(f"there are {n_found} {name}, expected {n_features}")
    unknown = set(learner.get("feature_types", [])) - _FEATURE_TYPES
    if unknown:
        refuse(f"a feature is of the type {min(unknown)[:40]!r}, expected one of {', '.join(sorted(_FEATURE_TYPES))}")
    return n_features


def _check_tree(tree: dict[str, Any], name: str, width: int, n_features: int) -> None:
    n_nodes = len(tree["left_children"])
    if n_nodes == 0:
        refuse(f"{name} has no nodes")
    whole_number(tree["tree_param"]["num_nodes"], f"num_nodes of {name}", n_nodes, n_nodes)
    whole_number(tree["tree_param"]["num_feature"], f"num_feature of {name}", n_features, n_features)
    left = whole_numbers(tree["left_children"], f"left_children of {name}", -1, n_nodes - 1)
    right = whole_numbers(tree["right_children"], f"right_children of {name}", -1, n_nodes - 1)
    inner = left != -1
    n_leaves = n_nodes - int(np.count_nonzero(inner))
    sizes = dict.fromkeys([*_OF_NODES, "sum_hessian", "loss_changes"], n_nodes) | {"base_weights": n_nodes * width}
    if width > 1:
        sizes["leaf_weights"] = n_leaves * width
    for of_nodes, size in sizes.items():
        if of_nodes in tree and len(tree[of_nodes]) != size:
            refuse(f"{name} has {len(tree[of_nodes])} {of_nodes}, expected {size}")
    if "leaf_weights" in tree:  # each leaf has a number, which is a place in leaf_weights
        whole_numbers(right[~inner], f"the numbers of the leaves of {name}", 0, n_leaves - 1)
    check_children(left[inner], right[inner], n_nodes, name)
    if (right[inner] != left[inner] + 1).any():
        refuse(f"a split of {name} has not its right child after its left one, where XGBoost looks for it")
    check_depth(left, right, name)
    whole_numbers(np.asarray(tree["split_indices"])[inner], f"split_indices of {name}", 0, n_features - 1)
    _check_parents(tree, left, right, name)
    whole_numbers(tree["split_type"], f"split_type of {name}", 0, 1)
    _categories_of_splits(tree)


def _check_parents(tree: dict[str, Any], left: Int64s, right: Int64s, name: str) -> None:
    """Check that each node below the root is a child of its parent, or one of the pruned nodes that the tree counts."""
    inner = np.flatnonzero(left != -1)
    expected = np.asarray(tree["parents"])
    children = np.concatenate([left[inner], right[inner]])
    expected[children] = np.concatenate([inner, inner])
    pruned = np.setdiff1d(np.arange(1, left.size), children)
    whole_number(tree["tree_param"]["num_deleted"], f"num_deleted of {name}", pruned.size, pruned.size)
    whole_numbers(expected[pruned], f"parents of {name}", 0, len(left) - 1)
    if not np.array_equal(expected, tree["parents"]):
        refuse(f"a node of {name} has another parent than the split whose child it is")


def _check_categories(stored: dict[str, Any] | None, n_features: int) -> None:
    """Check that categories belong to features, and that their order holds each place once."""
    if not stored or not stored["enc"]:
        return
    if len(stored["enc"]) > n_features:
        refuse("there are categories of more features than the rows have")
    sizes = [_n_categories(column) for column in stored["enc"]]
    if stored["feature_segments"] != [0, *itertools.accumulate(sizes)]:
        refuse("the categories of features do not begin and end where it says")
    order = whole_numbers(stored["sorted_idx"], "the order of categories", 0, max(sizes))
    if order.size and (order.size != sum(sizes) or (order >= np.repeat(sizes, sizes)).any()):
        refuse("the order of categories has not one place for each of them")


def _n_categories(column: dict[str, Any]) -> int:
    """The number of categories of a feature, after a check of where their names end."""
    if "offsets" not in column or not column["values"]:
        return len(column["values"])
    ends = column["offsets"]
    if not ends or sorted(ends) != ends or ends[0] != 0 or ends[-1] != len(column["values"]):
        refuse("the names of a feature's categories do not end where it says")
    return len(ends) - 1


_MOST_CATEGORIES = 1 << 24  # the most category codes that XGBoost takes
_MOST_BITS = 1 << 35  # for all sets of categories of a tree; a set takes one bit for every code up to its largest


def without_trees(learner: dict[str, Any]) -> dict[str, Any]:
    """The document without its trees, which take nearly all of its size."""
    booster = learner["gradient_booster"]
    kept = {name: part for name, part in booster["model"].items() if name != "trees"}
    return {**learner, "gradient_booster": {**booster, "model": kept}}


def members(learner: dict[str, Any]) -> Int64s:
    """Trees that vote together, shape (n_members, n_outputs): the t-th tree of each class, or one for all classes.

    Raises
    ------
    NotAForestError
        If the classes have different numbers of trees.
    """
    tree_class = np.asarray(learner["gradient_booster"]["model"]["tree_info"])
    n_outputs = 1 if scores_per_leaf(learner) > 1 else max(1, int(learner["learner_model_param"]["num_class"]))
    n_trees = tree_class.size // n_outputs
    if not np.array_equal(np.bincount(tree_class, minlength=n_outputs), np.full(n_outputs, n_trees)):
        raise NotAForestError(f"the model does not have equally many trees for each of {n_outputs} outputs")
    return np.argsort(tree_class, kind="stable").reshape(n_outputs, n_trees).T


def scores_per_leaf(learner: dict[str, Any]) -> int:
    """Number of classes that a tree scores: more than one with ``multi_strategy="multi_output_tree"``."""
    sizes = {
        whole_number(tree["tree_param"]["size_leaf_vector"], "size_leaf_vector", 0, MAX_CLASSES)
        for tree in learner["gradient_booster"]["model"]["trees"]
    }
    if len(sizes) > 1:
        refuse(f"its trees score different numbers of classes, {sizes}")
    return max(1, sizes.pop())


def leaf_values(learner: dict[str, Any]) -> NDArray[np.float32]:
    """What each leaf adds to the margin of the booster, by node; NaN at inner nodes.

    Returns
    -------
    ndarray of float32, shape (n_nodes,), or (n_nodes, n_classes) if one tree scores all classes
    """
    trees, width = learner["gradient_booster"]["model"]["trees"], scores_per_leaf(learner)
    value = np.concatenate(
        [_leaf_vectors(tree, width) if width > 1 else _floats(tree, "split_conditions") for tree in trees]
    )
    value[np.concatenate([tree["left_children"] for tree in trees]) != -1] = np.nan
    return value


def _leaf_vectors(tree: dict[str, Any], width: int) -> NDArray[np.float32]:
    vectors = _floats(tree, "base_weights").reshape(-1, width)
    if "leaf_weights" in tree:  # since XGBoost 3.2, indexed by the number of the leaf
        leaf = np.asarray(tree["left_children"]) == -1
        number = whole_numbers(np.asarray(tree["right_children"])[leaf], "leaf", 0, int(np.count_nonzero(leaf)) - 1)
        vectors[leaf] = _floats(tree, "leaf_weights").reshape(-1, width)[number]
    return vectors


def _floats(tree: dict[str, Any], name: str) -> NDArray[np.float32]:
    return np.asarray(tree[name], dtype=np.float32)


def assembled(parts: Sequence[tuple[xgb.Booster, Int64s]]) -> xgb.Booster:
    """A new booster of some members of one or several forests. It predicts their mean.

    Names, attributes and training settings come from the first forest.

    Parameters
    ----------
    parts : sequence of (Booster, ndarray of int64, shape (n_members, n_outputs))
        Boosters that are the same except for their trees, and which of their trees to take.
    """
    n_trees = sum(len(kept) for _, kept in parts)
    by_output: list[list[dict[str, Any]]] = [[] for _ in range(parts[0][1].shape[1])]
    result = document(parts[0][0])
    for index, (booster, kept) in enumerate(parts):
        stored = (document(booster) if index else result)["learner"]["gradient_booster"]["model"]["trees"]
        scale = len(stored) // len(by_output) / n_trees
        for trees, of_output in zip(by_output, kept.T, strict=True):
            trees += [_rescaled(stored[tree], scale) for tree in of_output]
    forest = result["learner"]["gradient_booster"]["model"]
    forest["trees"] = [dict(tree, id=index) for index, tree in enumerate(itertools.chain(*by_output))]
    forest["tree_info"] = [output for output, trees in enumerate(by_output) for _ in trees]
    forest["iteration_indptr"] = [0, len(forest["trees"])]
    sizes = {"num_trees": str(len(forest["trees"])), "num_parallel_tree": str(n_trees)}
    forest["gbtree_model_param"].update(sizes)
    # The JSON of a model has no training settings, but out-of-bag votes need them.
    config = json.loads(parts[0][0].save_config())
    config["learner"]["gradient_booster"]["gbtree_model_param"].update(sizes)
    return _like(parts[0][0], result, json.dumps(config))


def _like(booster: xgb.Booster, model: dict[str, Any], config: str) -> xgb.Booster:
    """A new booster of the document ``model``, with the names, types of features and attributes of ``booster``."""
    new = xgb.Booster()
    new.load_model(written(model["learner"]))
    new.load_config(config)
    new.feature_names, new.feature_types = booster.feature_names, booster.feature_types
    new.set_attr(**booster.attributes())
    return new


def written(learner: dict[str, Any]) -> bytearray:
    """A model for `Booster.load_model`, without names and attributes.

    XGBoost does not decode the escapes by which JSON holds control characters and letters beyond ASCII.
    """
    texts: dict[str, Any] = {"attributes": {}, "feature_names": [], "feature_types": []}
    return bytearray(json.dumps({"learner": learner | texts, "version": VERSION}).encode())


def with_leaf_values(booster: xgb.Booster, values: Sequence[NDArray[np.float32]]) -> xgb.Booster:
    """A new booster with other leaf values. Values at inner nodes are ignored.

    Parameters
    ----------
    values : sequence of ndarray, shape (n_nodes,), or (n_nodes, n_classes) if one tree scores all classes
        The values at the nodes of each tree, in the order of the booster.
    """
    result = document(booster)
    forest = result["learner"]["gradient_booster"]["model"]
    forest["trees"] = [_with_values(tree, of) for tree, of in zip(forest["trees"], values, strict=True)]
    return _like(booster, result, booster.save_config())


def _with_values(tree: dict[str, Any], values: NDArray[np.float32]) -> dict[str, Any]:
    leaf = np.asarray(tree["left_children"]) == -1
    changed = dict(tree)
    names = ("split_conditions", "base_weights") if values.ndim == 1 else ("base_weights",)
    for name in names:
        found = _floats(tree, name).reshape(values.shape)
        found[leaf] = values[leaf]
        changed[name] = found.ravel().astype(np.float64).tolist()
    if "leaf_weights" in tree:
        by_number = _floats(tree, "leaf_weights").reshape(-1, values.shape[1])
        by_number[np.asarray(tree["right_children"])[leaf]] = values[leaf]
        changed["leaf_weights"] = by_number.ravel().astype(np.float64).tolist()
    return changed


def _rescaled(tree: dict[str, Any], scale: float) -> dict[str, Any]:
    """The tree with its leaf values times ``scale``."""
    leaf, width = np.asarray(tree["left_children"]) == -1, int(tree["tree_param"]["size_leaf_vector"])
    weighed = {"split_conditions": leaf, "base_weights": leaf}
    if width > 1:
        weighed = {"base_weights": np.repeat(leaf, width), "leaf_weights": np.ones(leaf.sum() * width, dtype=np.bool_)}
    scaled = dict(tree)
    for name in weighed.keys() & tree.keys():
        values = _floats(tree, name)
        values[weighed[name]] = (values[weighed[name]].astype(np.float64) * scale).astype(np.float32)
        scaled[name] = values.astype(np.float64).tolist()
    return scaled


def tree_table(learner: dict[str, Any], order: Int64s, value: NDArray[Any], vote: NDArray[Any]) -> TreeNodes:
    """The trees of a forest in the given order. ``value`` and ``vote`` have the nodes in the same order."""
    stored = learner["gradient_booster"]["model"]["trees"]
    trees = [stored[index] for index in order]

    def joined(name: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([np.asarray(tree[name], dtype=dtype) for tree in trees])

    left, right = joined("left_children", np.int64), joined("right_children", np.int64)
    right[left == -1] = -1  # trees that score several classes store the numbers of their leaves there
    default_left = joined("default_left", np.int64) > 0
    is_categorical = (joined("split_type", np.int64) == 1) & (left != -1)
    sets = [categories for tree in trees for categories in _categories_of_splits(tree)]
    # Categories of the set go right in XGBoost, and left in a TreeNodes.
    left, right = np.where(is_categorical, right, left), np.where(is_categorical, left, right)
    missing = np.where(default_left, Missing.NAN_LEFT, Missing.NAN_RIGHT)
    missing[is_categorical] = Missing.CATEGORY
    # x < threshold in single precision is x ≤ the number before it.
    below = np.nextafter(joined("split_conditions", np.float32), np.float32(-np.inf))
    return TreeNodes(
        n_nodes=np.array([len(tree["left_children"]) for tree in trees]),
        left=left,
        right=right,
        feature=joined("split_indices", np.int64),
        threshold=below.astype(np.float64),
        missing=missing.astype(np.uint8),
        missing_is_member=~default_left[is_categorical],
        members=sets,
        value=value,
        vote=np.asarray(vote, dtype=np.uint16),
    )


def conventions(learner: dict[str, Any], missing: float, margins: NDArray[np.float32]) -> Conventions:
    """How XGBoost reads rows and adds up scores. The sums start with the ``margins``."""
    stored = learner["gradient_booster"]["model"]
    encoded, kinds = stored.get("cats", {}).get("enc", []), categorical(learner)
    categories = tuple(names_of(encoded[feature]) for feature in kinds.named or ())
    return Conventions(
        framework="XGBoost",
        reading=Reading(single_precision=True, missing=missing, zero_within=-1.0, lowest_category=_BELOW_ZERO),
        link=LINKS[learner["objective"]["name"]],
        start=tuple(margins.tolist()),
        averages=False,
        absent_is_missing=True,
        reads_by_column=True,
        labels_of_scores=learner["objective"]["name"] == "multi:softmax",
        takes_codes=kinds.takes_codes,
        categories=categories,
        category_features=kinds.named,
        coded_features=kinds.coded,
    )


def _categories_of_splits(tree: dict[str, Any]) -> list[Int64s]:
    """The set of categories of each categorical split, in the order of the nodes."""
    name = f"tree {tree.get('id', '')}"
    categories = whole_numbers(tree["categories"], f"categories of {name}", 0, _MOST_CATEGORIES)
    lists = [tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"]]
    if len(set(map(len, lists))) > 1:
        refuse(f"{name} has not one node, place and size for each set of categories")
    spans = list(zip(*lists, strict=True))
    is_categorical = np.asarray(tree["split_type"]) == 1  # also where a split was pruned to a leaf
    within = all(0 <= start < start + size <= categories.size for _, start, size in spans)
    if not within or tree["categories_nodes"] != np.flatnonzero(is_categorical).tolist():
        refuse(f"the sets of categories of {name} do not fit its splits")
    sets = [categories[start : start + size] for _, start, size in spans]
    if sum(int(found.max()) for found in sets) > _MOST_BITS:
        refuse(f"the sets of categories of {name} take more than {_MOST_BITS:,} bits")
    is_split = np.asarray(tree["left_children"]) != -1
    return [found for node, found in zip(tree["categories_nodes"], sets, strict=True) if is_split[node]]
