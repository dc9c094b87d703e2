"""Reads LightGBM's model text: the properties of a forest, and its trees for compiling."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.exceptions import InbagError, NotAForestError
from rfsize.models.bags import FRESH_ROWS
from rfsize.models.damage import (
    LARGEST_SCORE,
    MOST_FEATURES,
    check_children,
    number,
    refuse,
    whole_number,
    whole_numbers,
)
from rfsize.models.ensemble import Conventions, Missing, Reading, TreeNodes
from rfsize.models.link import Link
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import MAX_CLASSES


@dataclass(frozen=True)
class ForestText:
    """A forest as LightGBM's model text describes it."""

    header: dict[str, str]
    trees: tuple[str, ...]
    parameters: dict[str, str]
    pandas_categorical: list[list[Any]]
    leaf_value: tuple[Floats, ...]
    leaf_count: tuple[Floats, ...]
    n_outputs: int

    @classmethod
    def read(cls, text: str, *, casts_votes: bool = True) -> ForestText:
        """Parse ``Booster.model_to_string()``; refuse anything but a forest, and with ``casts_votes`` a regression."""
        head, *trees = text.partition("\nend of trees")[0].split("\nTree=")
        # Only LightGBM's Python package writes this line.
        _, kept, listed = text.rpartition("\npandas_categorical:")
        categories = _categories(listed.partition("\n")[0] if kept else "null")
        header = dict(line.partition("=")[::2] for line in head.split("\n"))
        _, found, tail = text.rpartition("\nparameters:")
        tail = tail.partition("end of parameters")[0] if found else ""
        pairs = (line.strip("[]").partition(": ") for line in tail.split("\n"))
        parameters = {name: value for name, _, value in pairs if name}
        if "average_output" not in header:
            if parameters.get("boosting") == "rf":
                refuse("its text has no line average_output")
            raise NotAForestError(
                f"the LightGBM model was trained with boosting='{parameters.get('boosting', 'gbdt')}', where each tree "
                "corrects the ones before it; T*(α) needs independent trees: train with boosting='rf'"
            )
        objective = header.get("objective", "custom")
        if casts_votes and objective.partition(" ")[0] not in _OBJECTIVES:
            raise NotAForestError(
                f"the forest's objective is '{objective}', whose trees cast no votes"
                + (
                    ": size it by what it predicts, with metric='scores' and a tolerance"
                    if objective.partition(" ")[0] in LINKS
                    else ""
                )
                + f". Forests that vote are those of {', '.join(sorted(_OBJECTIVES))}"
            )
        if not trees:
            raise NotAForestError("the LightGBM model has no trees: train it first")
        if any("\nis_linear=1" in tree for tree in trees):
            raise NotAForestError(
                "the forest has linear trees, whose votes depend on more than the leaf; train with linear_tree=False"
            )
        for name in _READ_OF_HEADER:
            if name not in header:
                refuse(f"its text has no line {name}=")
        shrunk = {shrinkage for tree in trees for shrinkage in numbers(tree, "shrinkage").tolist()} - {1.0}
        if shrunk:
            raise NotAForestError(
                f"the LightGBM model says that it is a forest, but its trees have weights, {sorted(shrunk)[:3]}, "
                "as in boosting, where each tree corrects the ones before it; train with boosting='rf'"
            )
        values, counts = zip(*map(_leaves, trees), strict=True)
        n_outputs = _n_outputs(header, len(trees))
        _check_numbers(parameters)
        return cls(header, tuple(trees), parameters, categories, values, counts, n_outputs)

    @property
    def casts_votes(self) -> bool:
        """Whether the trees classify."""
        return self.header.get("objective", "").partition(" ")[0] in _OBJECTIVES

    @property
    def n_classes(self) -> int:
        """Number of classes that the trees vote for; 0 if they cast no votes."""
        return max(2, self.n_outputs) if self.casts_votes else 0

    @property
    def is_bagged(self) -> bool:
        """Whether by the parameters trees were trained on parts of the rows."""
        fractions = (float(self.parameters.get(f"{kind}bagging_fraction", 1)) for kind in ("", "pos_", "neg_"))
        return int(float(self.parameters.get("bagging_freq", 0))) > 0 and min(fractions) < 1.0

    def members(self) -> Iterator[list[str]]:
        """The texts of the trees that vote together, without their numbers."""
        for first in range(0, len(self.trees), self.n_outputs):
            yield [tree.partition("\n")[2].strip() for tree in self.trees[first : first + self.n_outputs]]

    @property
    def sigmoid(self) -> float:
        """Slope of the link from score to probability of class 1."""
        found = self.header["objective"].partition("sigmoid:")[2].split(" ")[0]
        return number(found or 1.0, "sigmoid", _SMALLEST, LARGEST_SCORE)

    @property
    def link(self) -> Link:
        """The link from mean scores to predictions; `NotAForestError` if the objective has no known link."""
        name, _, options = self.header.get("objective", "custom").partition(" ")
        if name not in LINKS:
            raise NotAForestError(
                f"the forest's objective is '{name}', which rfsize does not read; it sizes classification and "
                f"regression forests ({', '.join(LINKS)})"
            )
        return Link("square" if name == "regression" and options == "sqrt" else LINKS[name], self.sigmoid)

    def truth(self, label: NDArray[Any]) -> NDArray[Any]:
        """Training labels as LightGBM reads them: class indices, or numbers.

        A binary objective reads only the sign of a label. The labels of a cross-entropy may be probabilities between 0
        and 1: such soft labels stay as they are, see `are_soft`.
        """
        if self.header.get("objective", "").startswith("binary"):
            return (label > 0).astype(np.int64)
        is_whole = self.casts_votes and not (label % 1).any()
        return label.astype(np.int64 if is_whole else np.float64)

    def blocks(self) -> list[tuple[int, int]]:
        """Bagging seed and number of trees of each forest that was merged into this one. Truncation keeps the first.

        Raises
        ------
        InbagError
            If the text does not name them, or names impossible values.
        """
        notes = [name for name in self.parameters if name.startswith(BAGS_NOTE)]
        n_trees = len(self.trees) // self.n_outputs
        if not notes:
            return [(int(self.number("bagging_seed")), n_trees)]
        blocks = [(int(seed), int(trees)) for seed, trees in re.findall(_BLOCK, notes[0])]
        intact = notes == [bags_note(blocks)] and len(dict(blocks)) == len(blocks) and 0 not in dict(blocks).values()
        if not intact or sum(trees for _, trees in blocks) < n_trees:
            raise InbagError(
                f"the model text's note of how its bags were drawn is damaged: '{notes[0][:80]}' for {n_trees} trees; "
                f"take {FRESH_ROWS}"
            )
        ends = itertools.accumulate(trees for _, trees in blocks)
        return [
            (seed, min(trees, n_trees - end + trees))
            for (seed, trees), end in zip(blocks, ends, strict=True)
            if end - trees < n_trees
        ]

    def number(self, name: str) -> float:
        """A numeric training parameter; `InbagError` if the text does not have it."""
        try:
            return float(self.parameters[name])
        except (KeyError, ValueError):
            raise InbagError(
                f"the model text does not say {name}, so the bags cannot be rebuilt; take {FRESH_ROWS}"
            ) from None


def are_soft(forest: ForestText, truth: NDArray[Any] | None) -> bool:
    """Whether labels that `ForestText.truth` returned are probabilities of class 1, with no class for a row."""
    return truth is not None and forest.casts_votes and truth.dtype.kind == "f"


# LightGBM keeps the parameter lines of a loaded model, and ignores lines without a value. So the name of such a line
# holds the seeds and the numbers of trees of a merged forest: "rfsize_bags 3x100 77x50".
BAGS_NOTE = "rfsize_bags"
_BLOCK = r" (-?[0-9]{1,10})x([0-9]{1,9})\b"


def bags_note(blocks: list[tuple[int, int]]) -> str:
    """The note on the blocks in the text of a merged forest."""
    return BAGS_NOTE + "".join(f" {seed}x{trees}" for seed, trees in blocks)


# The note of a forest that was shrunk.
SHRUNK_NOTE = "rfsize_shrunk"

_READ_OF_HEADER = ("num_class", "num_tree_per_iteration", "feature_infos")
_OBJECTIVES = {"binary", "cross_entropy", "multiclass", "multiclassova"}

# The link of each objective.
LINKS = {
    "binary": "logistic",
    "cross_entropy": "logistic",
    "multiclass": "softmax",
    "multiclassova": "one-vs-all",
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
}


_LARGEST_INT = 2**31 - 1
_SMALLEST = 1e-300  # the smallest value of a parameter that must be above zero

# The allowed ranges of the parameters that rfsize reads.
_FRACTIONS = (
    *("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction"),
    *("feature_fraction", "feature_fraction_bynode"),
)
_WHOLE = ("bagging_freq", "bagging_seed")


def _check_numbers(parameters: dict[str, str]) -> None:
    for name in parameters.keys() & set(_FRACTIONS):
        number(parameters[name], name, _SMALLEST, 1.0)
    for name in parameters.keys() & set(_WHOLE):
        whole_number(parameters[name], name, -_LARGEST_INT - 1, _LARGEST_INT)


def _categories(text: str) -> list[list[Any]]:
    """The categories of each column that was categorical in pandas."""
    try:
        found: Any = json.loads(text) or []
    except (ValueError, RecursionError):
        found = None
    alike = isinstance(found, list) and all(isinstance(column, list) for column in found)
    if not alike or any(isinstance(category, (list, dict)) for column in found for category in column):
        refuse(f"pandas_categorical is {text[:40]!r}, not a list of categories for each column")
    return found


def _n_outputs(header: dict[str, str], n_trees: int) -> int:
    """Trees of one iteration: as many as the link has scores."""
    n_outputs = whole_number(header["num_tree_per_iteration"], "num_tree_per_iteration", 1, MAX_CLASSES)
    # LightGBM allocates its predictions by the number of classes.
    whole_number(header["num_class"], "num_class", n_outputs, n_outputs)
    link = LINKS.get(header.get("objective", "custom").partition(" ")[0])
    if n_trees % n_outputs or (link is not None and (n_outputs > 1) != (link in ("softmax", "one-vs-all"))):
        refuse(f"num_tree_per_iteration is {n_outputs}, which does not fit {n_trees} trees of its objective")
    return n_outputs


def _leaves(tree: str) -> tuple[Floats, Floats]:
    """Values of the leaves of a tree, and the number of in-bag rows that LightGBM counted in each."""
    values, counts = numbers(tree, "leaf_value"), numbers(tree, "leaf_count")
    if not (np.abs(values) < LARGEST_SCORE).all():
        refuse(f"{tree_name(tree)} has a leaf whose score cannot be averaged")
    if values.size == 1:
        # For a single leaf, LightGBM writes no count or a meaningless one.
        return values, np.zeros(1)
    if values.size == 0 or values.size != counts.size:
        refuse(f"{tree_name(tree)} has {values.size} leaves and {counts.size} counts of rows in them")
    whole_numbers(counts, f"leaf_count of {tree_name(tree)}", 0, _LARGEST_INT)
    left, right = _children(tree, values.size)
    check_children(left, right, 2 * values.size - 1, tree_name(tree))
    return values, counts


def _children(tree: str, n_leaves: int) -> list[Int64s]:
    """The left and the right child of each split. Leaf j is written as -(j + 1); here leaves follow the splits."""
    children = []
    for name in ("left_child", "right_child"):
        found = listed(tree, name, n_leaves - 1)
        child = whole_numbers(found, f"{name} of {tree_name(tree)}", -n_leaves, n_leaves - 2)
        children.append(np.where(child < 0, n_leaves - 2 - child, child))
    return children


def numbers(tree: str, name: str) -> Floats:
    """The numbers in one line of the text of a tree; empty if it has no such line."""
    line = tree.partition(f"\n{name}=")[2].partition("\n")[0]
    if not (line.isascii() and line.isprintable()):
        # Python and LightGBM treat different characters as spaces.
        refuse(f"{name} of {tree_name(tree)} holds something that is not a number: {line[:40]!r}")
    try:
        return np.array(line.split(), dtype=np.float64)
    except ValueError as error:
        refuse(f"{name} of {tree_name(tree)} holds something that is not a number ({str(error)[:80]})", error)


def listed(tree: str, name: str, size: int) -> Floats:
    """The numbers in a line that must hold ``size`` of them."""
    found = numbers(tree, name)
    if found.size != size:
        refuse(f"{tree_name(tree)} has {found.size} {name}, expected {size}")
    return found


def tree_name(tree: str) -> str:
    """The name of a tree for messages. Its text begins with its number."""
    return f"tree {tree.partition(chr(10))[0][:10]}"


# Bits of decision_type.
_CATEGORICAL, _DEFAULT_LEFT, _MISSING_SHIFT = 1, 2, 2
# How a split treats missing values, by LightGBM's missing type (none, zero, NaN) and direction (right, left).
_MISSING = np.array(
    [
        [Missing.AS_ZERO, Missing.AS_ZERO],
        [Missing.ZERO_RIGHT, Missing.ZERO_LEFT],
        [Missing.NAN_RIGHT, Missing.NAN_LEFT],
    ],
    dtype=np.uint8,
)
_ZERO = float(np.float32(1e-35))  # LightGBM treats smaller numbers as zero


class Nodes(NamedTuple):
    """The nodes of a tree in the form of `TreeNodes`, inner nodes before leaves."""

    left: Int64s
    right: Int64s
    feature: Int64s
    threshold: Floats
    missing: NDArray[np.uint8]
    members: list[Int64s]


def tree_table(forest: ForestText, score: NDArray[np.floating[Any]], vote: NDArray[Any]) -> TreeNodes:
    """All trees of a forest, inner nodes before leaves, with the score of each leaf and its vote, if any."""
    trees = [nodes_of(text, value.size) for text, value in zip(forest.trees, forest.leaf_value, strict=True)]
    members = [categories for tree in trees for categories in tree.members]
    n_leaves = np.array([value.size for value in forest.leaf_value])
    is_leaf = np.concatenate([tree.left for tree in trees]) == -1
    value = np.zeros((is_leaf.size, 1))
    value[is_leaf, 0] = score
    at_leaf = np.zeros(is_leaf.size if vote.size else 0, dtype=np.uint16)
    if vote.size:
        at_leaf[is_leaf] = vote
    names = ("left", "right", "feature", "threshold", "missing")
    joined: dict[str, Any] = {name: np.concatenate([getattr(tree, name) for tree in trees]) for name in names}
    return TreeNodes(
        n_nodes=2 * n_leaves - 1,
        missing_is_member=np.zeros(len(members), dtype=np.bool_),
        members=members,
        value=value,
        vote=at_leaf,
        leaf=np.concatenate([np.arange(1 - size, size) for size in n_leaves]),  # leaves follow the inner nodes
        **joined,
    )


def conventions(forest: ForestText) -> Conventions:
    """How LightGBM reads rows and turns scores into probabilities."""
    kinds = forest.header["feature_infos"].split(" ")
    categorical = [feature for feature, kind in enumerate(kinds) if kind[:1] not in {"[", ""} and ":" in kind]
    categories = tuple(map(tuple, forest.pandas_categorical))
    return Conventions(
        framework="LightGBM",
        # LightGBM reads a category as a C int, which rounds towards zero.
        reading=Reading(single_precision=False, missing=np.nan, zero_within=_ZERO, lowest_category=-1.0),
        link=forest.link.kind,
        slope=forest.link.slope,
        spaces_become_underscores=True,
        unknown_category_is_missing=True,
        categories=categories,
        # LightGBM reads ordered categories as numbers, and ignores a column with one category.
        category_features=tuple(categorical) if len(categorical) == len(categories) else None if categories else (),
        coded_features=() if categories else tuple(categorical),
    )


def nodes_of(text: str, n_leaves: int) -> Nodes:
    """The nodes of a tree from its text."""
    name, n_inner = tree_name(text), n_leaves - 1
    threshold = listed(text, "threshold", n_inner)
    feature = whole_numbers(listed(text, "split_feature", n_inner), f"split_feature of {name}", 0, MOST_FEATURES)
    decision = whole_numbers(listed(text, "decision_type", n_inner), f"decision_type of {name}", -128, 127)
    is_categorical = decision & _CATEGORICAL > 0
    missing = _MISSING[np.minimum(decision >> _MISSING_SHIFT & 3, 2), (decision & _DEFAULT_LEFT > 0).astype(np.int64)]
    missing[is_categorical] = Missing.CATEGORY
    at_leaves = np.zeros(n_leaves)
    left, right = (np.append(child, at_leaves - 1).astype(np.int64) for child in _children(text, n_leaves))
    place = whole_numbers(threshold[is_categorical], f"threshold of categories of {name}", 0, _LARGEST_INT)
    return Nodes(
        left=left,
        right=right,
        feature=np.append(feature, at_leaves).astype(np.int64),
        threshold=np.append(threshold, at_leaves),
        missing=np.append(missing, at_leaves).astype(np.uint8),
        members=_members(text, place),
    )


def _members(text: str, place: Int64s) -> list[Int64s]:
    """Categories that go left in each categorical split, from LightGBM's bit sets."""
    name = tree_name(text)
    ends = whole_numbers(numbers(text, "cat_boundaries"), f"cat_boundaries of {name}", 0, _LARGEST_INT)
    words = whole_numbers(numbers(text, "cat_threshold"), f"cat_threshold of {name}", 0, 2**32 - 1).astype(np.uint32)
    starts = np.append(0, ends)
    if starts[:2].any() or starts[-1] != words.size or (np.diff(starts) < 0).any() or (place + 1 >= ends.size).any():
        refuse(f"the sets of categories of {name} do not begin and end where it says")
    bits = (words[ends[index] : ends[index + 1]].view(np.uint8) for index in place)
    return [np.flatnonzero(np.unpackbits(of_set, bitorder="little")) for of_set in bits]
