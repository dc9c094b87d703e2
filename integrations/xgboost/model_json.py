"""XGBoost's JSON: how a `TreeEnsemble` is read from it, and how models of other trees are written."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from rfsize._util import Int64s
from rfsize.exceptions import NotAForestError
from rfsize.models.conventions import Conventions, Reading
from rfsize.models.ensemble import Missing, TreeEnsemble, TreeNodes

VERSION = tuple(int(part) for part in re.findall("[0-9]+", xgb.__version__)[:3])

# The link of each objective, and the objectives that classify.
LINKS = {
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "logistic"),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
    "binary:hinge": "step",
    **dict.fromkeys(("reg:squarederror", "reg:squaredlogerror", "reg:pseudohubererror"), "identity"),
    **dict.fromkeys(("reg:absoluteerror", "reg:quantileerror", "reg:expectileerror"), "identity"),
    **dict.fromkeys(("binary:logitraw", "rank:pairwise", "rank:ndcg", "rank:map"), "identity"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"), "exp"),
}
VOTING = {"binary:logistic", "multi:softprob", "multi:softmax", "binary:hinge"}

_BELOW_ZERO = float(np.nextafter(np.float32(0), np.float32(-1)))
_LARGEST_MARGIN = np.float32(1e30)


def document(booster: xgb.Booster) -> dict[str, Any]:
    """The "learner" of XGBoost's own JSON; `NotAForestError` if XGBoost cannot write it."""
    try:
        learner: dict[str, Any] = json.loads(booster.save_raw("json"))["learner"]
    except xgb.core.XGBoostError as error:
        raise NotAForestError(f"XGBoost cannot write the model ({reason(error)}): train or load it again") from error
    # XGBoost does not decode the escapes of JSON, by which it holds control characters and letters beyond ASCII.
    learner["feature_names"] = list(booster.feature_names or ())
    return learner


def reason(error: Exception) -> str:
    """XGBoost's message, without the place in its sources."""
    return str(error).partition("\n")[0].rpartition(": ")[2]


def tree_model(learner: dict[str, Any]) -> dict[str, Any]:
    """The part of a document that holds the trees."""
    booster = learner["gradient_booster"]
    model: dict[str, Any] = booster.get("gbtree", booster)["model"]  # nested in dart up to 3.2
    return model


def is_dart(learner: dict[str, Any]) -> bool:
    """Whether trees were dropped in training. XGBoost 3.3 and 3.4 call this gbtree, with weights of trees."""
    booster = learner["gradient_booster"]
    return booster["name"] == "dart" or "weight_drop" in booster or "weight_drop" in booster["model"]


def refuse_other_models(learner: dict[str, Any]) -> None:
    """Raise `NotAForestError` for a model without trees, of several targets, or of an unknown objective."""
    kind, objective = learner["gradient_booster"]["name"], learner["objective"]["name"]
    if kind not in ("gbtree", "dart"):
        raise NotAForestError(f"the XGBoost model of booster='{kind}' has no trees: leave booster out")
    if not tree_model(learner)["trees"]:
        raise NotAForestError("the XGBoost model has no trees: train it first")
    if int(learner["learner_model_param"].get("num_target", 1)) > 1:
        raise NotAForestError("the XGBoost model predicts several targets: train one for each column of y or quantile")
    if objective not in LINKS:
        raise NotAForestError(f"rfsize does not read objective='{objective}', but {', '.join(sorted(LINKS))}")


def tree_order(learner: dict[str, Any]) -> Int64s:
    """Numbers of the trees in the booster, shape (n_rounds, parallel trees, n_outputs).

    Raises
    ------
    NotAForestError
        If rounds have different numbers of trees.
    """
    stored = tree_model(learner)
    n_outputs = 1 if scores_per_leaf(learner) > 1 else max(1, int(learner["learner_model_param"]["num_class"]))
    starts = np.asarray(stored["iteration_indptr"])
    per_round = np.diff(starts)
    if (per_round != per_round[0]).any() or starts[0] != 0 or starts[-1] != len(stored["trees"]):
        raise NotAForestError("the rounds of the XGBoost model have different numbers of trees: give booster[:1]")
    tree_class = np.asarray(stored["tree_info"]).reshape(len(per_round), -1)
    order = np.argsort(tree_class, axis=1, kind="stable").reshape(len(per_round), n_outputs, -1)
    return np.asarray(order.transpose(0, 2, 1) + starts[:-1, None, None], dtype=np.int64)


def scores_per_leaf(learner: dict[str, Any]) -> int:
    """Number of classes that a tree scores: more than one with ``multi_strategy="multi_output_tree"``."""
    (width,) = {int(tree["tree_param"]["size_leaf_vector"]) for tree in tree_model(learner)["trees"]}
    return max(1, width)


def read_ensemble(
    learner: dict[str, Any], order: Int64s, missing: float, classes: NDArray[Any], parallel_trees: int
) -> TreeEnsemble:
    """The trees as arrays, in the ``order`` of `tree_order`; rows miss NaN and ``missing``."""
    stored, width = tree_model(learner), scores_per_leaf(learner)
    trees = [stored["trees"][tree] for tree in order.ravel()]
    nodes = _read_nodes(trees, width, tree_weights(learner)[order.ravel()])
    if not np.isfinite(nodes.value).all():
        raise NotAForestError("a tree of the XGBoost model has a leaf that is no finite number: train it again")
    # Before XGBoost 3.2, trees that score all classes store no hessians.
    cover = [tree.get("sum_hessian") or np.zeros(size) for tree, size in zip(trees, nodes.n_nodes, strict=True)]
    return TreeEnsemble(
        nodes,
        order.shape[-1],
        classes,
        int(learner["learner_model_param"]["num_feature"]),
        learner["feature_names"] or None,
        _conventions(learner, missing, _base_margins(learner)),
        np.concatenate(cover).astype(np.float64),
        parallel_trees,
    )


def tree_weights(learner: dict[str, Any]) -> NDArray[np.float32]:
    """What dart multiplies the leaves of each tree with."""
    booster, stored = learner["gradient_booster"], tree_model(learner)
    weights = booster.get("weight_drop") or stored.get("weight_drop") or [1.0] * len(stored["trees"])
    return np.asarray(weights, dtype=np.float32)


def _read_nodes(trees: list[dict[str, Any]], width: int, weight: NDArray[np.float32]) -> TreeNodes:
    def joined(name: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([np.asarray(tree[name], dtype=dtype) for tree in trees])

    sizes = np.array([len(tree["left_children"]) for tree in trees])
    left, right = joined("left_children", np.int64), joined("right_children", np.int64)
    is_leaf = left == -1
    right[is_leaf] = -1  # trees that score several classes store the numbers of their leaves there
    is_categorical = (joined("split_type", np.int64) == 1) & ~is_leaf
    default_left = joined("default_left", np.int64) > 0
    missing = np.where(default_left, Missing.NAN_LEFT, Missing.NAN_RIGHT)
    missing[is_categorical] = Missing.CATEGORY
    value = np.concatenate([leaf_values(tree, width) for tree in trees]) * np.repeat(weight, sizes)[:, None]
    return TreeNodes(
        n_nodes=sizes,
        # Categories of the set go right in XGBoost, and left in TreeNodes.
        left=np.where(is_categorical, right, left),
        right=np.where(is_categorical, left, right),
        feature=np.where(is_leaf, 0, joined("split_indices", np.int64)),
        # x < threshold in single precision is x ≤ the number before it.
        threshold=np.nextafter(joined("split_conditions", np.float32), np.float32(-np.inf)).astype(np.float64),
        missing=missing,
        missing_goes_left=~default_left[is_categorical],
        categories_left=[categories for tree in trees for categories in _category_sets(tree)],
        value=np.where(is_leaf[:, None], value, np.float32(0.0)),
    )


def _category_sets(tree: dict[str, Any]) -> list[Int64s]:
    """The set of categories of each categorical split, in the order of the nodes."""
    categories = np.asarray(tree["categories"], dtype=np.int64)
    spans = zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True)
    # A split that was pruned to a leaf keeps its set.
    return [categories[start : start + size] for node, start, size in spans if tree["left_children"][node] != -1]


def _stored_values(tree: dict[str, Any], width: int) -> tuple[str, Int64s]:
    """The list of a tree that holds the values of its leaves, and the place in it of each node that is a leaf."""
    left = np.asarray(tree["left_children"])
    if width > 1 and "leaf_weights" in tree:  # since XGBoost 3.2, by the number of the leaf
        return "leaf_weights", np.where(left == -1, tree["right_children"], 0)
    return "split_conditions" if width == 1 else "base_weights", np.arange(left.size)


def leaf_values(tree: dict[str, Any], width: int) -> NDArray[np.float32]:
    """What the leaves of a tree add to the margins, shape (n_nodes, width); any numbers at inner nodes."""
    name, place = _stored_values(tree, width)
    return np.asarray(tree[name], dtype=np.float32).reshape(-1, width)[place]


def with_leaf_values(tree: dict[str, Any], values: NDArray[np.float32]) -> dict[str, Any]:
    """The same tree with other leaf values, shape (n_nodes, width); those at inner nodes are ignored."""
    leaf, width = np.asarray(tree["left_children"]) == -1, values.shape[1]
    name, place = _stored_values(tree, width)
    numbers = np.asarray(tree[name], dtype=np.float32).reshape(-1, width)
    numbers[place[leaf]] = values[leaf]
    return tree | {name: numbers.ravel().astype(np.float64).tolist()}


def _base_margins(learner: dict[str, Any]) -> NDArray[np.float32]:
    """What the booster adds to the trees' sum of each score, to the last bit: what it predicts without any trees.

    XGBoost takes logarithms of ``base_score`` with its own C library, and another library can differ in the last bit.
    """
    stored = tree_model(learner)
    sizes = stored["gbtree_model_param"] | {"num_trees": "0"}
    model = {name: part for name, part in stored.items() if name != "weight_drop"}
    model |= {"trees": [], "tree_info": [], "iteration_indptr": [0], "gbtree_model_param": sizes}
    without = learner | {"gradient_booster": {"name": "gbtree", "model": model}}
    # Otherwise XGBoost would still estimate base_score from labels.
    without["learner_model_param"] = learner["learner_model_param"] | {"boost_from_average": "0"}
    empty = xgb.Booster(model_file=written(without))
    margins = empty.predict(xgb.DMatrix(np.zeros((1, 1))), output_margin=True, validate_features=False).ravel()
    # If all rows have one label, the margin is infinite. A large number has the same effect, and can be averaged.
    return np.clip(margins, -_LARGEST_MARGIN, _LARGEST_MARGIN)


def _conventions(learner: dict[str, Any], missing: float, margins: NDArray[np.float32]) -> Conventions:
    """How XGBoost reads rows and adds up scores."""
    stored, objective = tree_model(learner), learner["objective"]["name"]
    encoded = stored.get("cats", {}).get("enc", [])
    is_ascii = [column.get("offsets") is None or _text(column).isascii() for column in encoded]
    named = tuple(feature for feature, column in enumerate(encoded) if column["values"] and is_ascii[feature])
    declared = [feature for feature, kind in enumerate(learner.get("feature_types", ())) if kind == "c"]
    return Conventions(
        framework="XGBoost",
        reading=reading_of(missing),
        link=LINKS[objective],
        base=tuple(margins.tolist()),
        averages=False,
        labels_of_scores=objective == "multi:softmax",
        takes_codes="cats" not in stored or not all(is_ascii),  # frames have the codes of training: `confused_columns`
        categories=tuple(_category_names(encoded[feature]) for feature in named),
        category_features=named,
        coded_features=tuple(feature for feature in declared if feature not in named),
        unreadable=None if all(is_ascii) else _NOT_ASCII,
    )


_NOT_ASCII = (
    "the XGBoost model holds categories that are not ASCII, and XGBoost does not say where each of their names ends: "
    "train on categories of ASCII names, or on their codes as numbers with feature_types='c'"
)


def reading_of(missing: float) -> Reading:
    """How XGBoost reads a value, where ``missing`` means missing, besides NaN."""
    with np.errstate(over="ignore"):
        missing = float(np.float32(missing))  # XGBoost compares it with rows in single precision
    return Reading(True, missing, lowest_category=_BELOW_ZERO, absent_is_missing=True, reads_by_column=True)


def _category_names(column: dict[str, Any]) -> tuple[Any, ...]:
    """The categories of one column. XGBoost stores text as the bytes of all names, and where each name ends.

    But from pandas, XGBoost before 3.4 stores the ends in characters, and cuts off the last bytes if not all are ASCII.
    """
    if "offsets" not in column:
        return tuple(column["values"])
    text = _text(column).decode("ascii")
    return tuple(text[start:stop] for start, stop in itertools.pairwise(column["offsets"]))


def confused_columns(encoded: list[dict[str, Any]], names: list[str] | None, X: Any) -> list[str]:
    """The columns of a frame whose categories XGBoost would confuse, by the stored categories of the features.

    Before 3.4, XGBoost cuts names that are not ASCII in the wrong places, in the model and in the frame. The cut names
    stand for the same categories only if all categories are as at training. Only pandas tells them and their order.
    """
    if hasattr(X, "dtype") or isinstance(X, xgb.DMatrix):
        return []
    wrong = []
    for feature, stored in enumerate(encoded):
        if "offsets" not in stored:
            continue
        categories: list[str] = []
        if hasattr(X, "iloc"):
            column = X.iloc[:, feature] if names is None else X[names[feature]]
            if str(column.dtype) != "category":
                continue
            categories = list(map(str, column.cat.categories))
        text, n_stored = "".join(categories), len(stored["offsets"]) - 1
        is_as_stored = len(categories) == n_stored and text.encode().startswith(_text(stored))
        if not is_as_stored and not (text.isascii() and _text(stored).isascii()):
            wrong.append(str(feature if names is None else names[feature]))
    return wrong


def _text(column: dict[str, Any]) -> bytes:
    return bytes(value % 256 for value in column["values"])


def written(learner: dict[str, Any]) -> bytearray:
    """A model for `Booster.load_model`, without names and attributes, whose escapes XGBoost would not decode."""
    texts: dict[str, Any] = {"attributes": {}, "feature_names": [], "feature_types": []}
    return bytearray(json.dumps({"learner": learner | texts, "version": VERSION}).encode())


def booster_of_trees(
    booster: xgb.Booster, learner: dict[str, Any], trees: Sequence[dict[str, Any]], shape: tuple[int, int, int]
) -> xgb.Booster:
    """A new booster with these trees, and with the names, attributes and training settings of ``booster``.

    Parameters
    ----------
    booster : Booster
    learner : dict
        Its document, which is changed.
    trees : sequence of dict
        Round by round, and in a round by parallel tree, then by class.
    shape : tuple of int
        Numbers of rounds, parallel trees and outputs.
    """
    order = np.arange(len(trees)).reshape(shape).transpose(0, 2, 1).ravel()
    n_rounds, parallel, n_outputs = shape
    stored = tree_model(learner)
    stored.pop("weight_drop", None)  # leaf values have it
    sizes = {"num_trees": str(len(trees)), "num_parallel_tree": str(parallel)}
    stored |= {
        "trees": [dict(trees[tree], id=index) for index, tree in enumerate(order.tolist())],
        "tree_info": np.tile(np.repeat(np.arange(n_outputs), parallel), n_rounds).tolist(),
        "iteration_indptr": list(range(0, len(trees) + 1, parallel * n_outputs)),
        "gbtree_model_param": stored["gbtree_model_param"] | sizes,
    }
    config = json.loads(booster.save_config())
    was_dart = is_dart(learner)
    learner["gradient_booster"] = {"name": "gbtree", "model": stored}
    new = xgb.Booster()
    new.load_model(written(learner))
    if not was_dart:  # the JSON of a model has no training settings, but out-of-bag votes need them
        config["learner"]["gradient_booster"]["gbtree_model_param"].update(sizes)
        new.load_config(json.dumps(config))
    new.feature_names, new.feature_types = booster.feature_names, booster.feature_types
    new.set_attr(**booster.attributes())
    return new
