"""The trees of an XGBoost model, for compiling them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.errors import NotAForestError
from rfsize.trees import Conventions, Missing, Reading, TreeTable

_BELOW_ZERO = float(np.nextafter(np.float32(0), np.float32(-1)))


def tree_table(learner: dict[str, Any], order: NDArray[np.int64], value: NDArray[Any], vote: NDArray[Any]) -> TreeTable:
    """All trees of a forest in the given order; ``value`` and ``vote`` are those of its nodes in the same order."""
    stored = learner["gradient_booster"]["model"]["trees"]
    trees = [stored[index] for index in order]

    def joined(name: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([np.asarray(tree[name], dtype=dtype) for tree in trees])

    left, right = joined("left_children", np.int64), joined("right_children", np.int64)
    default_left = joined("default_left", np.int64) > 0
    is_categorical = (joined("split_type", np.int64) == 1) & (left != -1)
    members = [categories for tree in trees for categories in _members(tree)]
    if len(members) != is_categorical.sum():
        raise NotAForestError("the XGBoost model is damaged: the sets of categories do not fit the splits")
    # Members of the set go right in XGBoost, and left in a TreeTable.
    left, right = np.where(is_categorical, right, left), np.where(is_categorical, left, right)
    missing = np.where(default_left, Missing.NAN_LEFT, Missing.NAN_RIGHT)
    missing[is_categorical] = Missing.CATEGORY
    # x < threshold in single precision is x ≤ the number before it.
    below = np.nextafter(joined("split_conditions", np.float32), np.float32(-np.inf))
    return TreeTable(
        n_nodes=np.array([len(tree["left_children"]) for tree in trees]),
        left=left,
        right=right,
        feature=joined("split_indices", np.int64),
        threshold=below.astype(np.float64),
        missing=missing.astype(np.uint8),
        missing_is_member=~default_left[is_categorical],
        members=members,
        value=np.asarray(value, dtype=np.float64),
        vote=np.asarray(vote, dtype=np.uint8),
    )


def conventions(learner: dict[str, Any], missing: float) -> Conventions:
    """How XGBoost reads rows and turns scores into probabilities."""
    stored = learner["gradient_booster"]["model"]
    encoded = stored.get("cats", {}).get("enc", [])
    categories = {feature: _categories(column) for feature, column in enumerate(encoded) if column["values"]}
    return Conventions(
        framework="XGBoost",
        reading=Reading(single_precision=True, missing=missing, zero_within=-1.0, lowest_category=_BELOW_ZERO),
        link="softmax" if learner["objective"]["name"].startswith("multi:") else "logistic",
        absent_is_missing=True,
        takes_codes="cats" not in stored,
        categories=tuple(categories.values()),
        category_features=tuple(categories),
    )


def _members(tree: dict[str, Any]) -> list[NDArray[np.int64]]:
    """The set of categories of each categorical split, by the number of its node."""
    categories = np.asarray(tree["categories"], dtype=np.int64)
    spans = zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True)
    return [categories[start : start + size] for _, start, size in sorted(spans)]


def _categories(column: dict[str, Any]) -> tuple[Any, ...]:
    """Categories of one column: numbers as they are, text as the bytes of all of them and where each ends."""
    if "offsets" not in column:
        return tuple(column["values"])
    text, ends = bytes(value % 256 for value in column["values"]), column["offsets"]
    return tuple(text[start:stop].decode("utf-8") for start, stop in itertools.pairwise(ends))
