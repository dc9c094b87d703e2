"""Reads LightGBM's models, forests and boosted trees, from their text, and cuts and rewrites them.

Shrinkage, DART's weights and the score before the first tree are in the leaf values that LightGBM writes, so a raw
score is the plain sum of leaf values in the order of the trees, in a forest divided by their number.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight

from rfsize._util import Floats, Int64s, class_indices, sample_weights
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.integrations.lightgbm.bags import (
    BAGS_NOTE,
    LightGbmBags,
    Sampling,
    exact_value,
    leading_bags,
    rebuilt_bags,
    seed_dependence,
    shared_bags,
    with_exact_fractions,
)
from rfsize.models.bags import Bags, Layout
from rfsize.models.conventions import Conventions, Reading
from rfsize.models.ensemble import Missing, TreeEnsemble, TreeNodes
from rfsize.models.framework import reading
from rfsize.models.model import Forest, Model, Output, boosted

_CLASSIFICATIONS = {"binary", "cross_entropy", "multiclass", "multiclassova"}

# Objectives with which the parameter pred_early_stop changes predictions, in any boosting.
_STOPPING_EARLY = {"binary", "multiclass", "multiclassova", "lambdarank", "rank_xendcg"}

# The link of each objective. A model of a custom objective names none, and predicts raw scores.
LINKS = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"),
    **dict.fromkeys(("lambdarank", "rank_xendcg", "custom"), "identity"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    "binary": "logistic",
    "cross_entropy": "logistic",
    "cross_entropy_lambda": "softplus",
    "multiclass": "softmax",
    "multiclassova": "one-vs-all",
}

# Names of the number of trees in a LightGBM estimator.
TREE_COUNT_NAMES = {
    *("n_estimators", "num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round", "num_rounds"),
    *("nrounds", "num_boost_round", "max_iter"),
}

# Line among the parameters of a forest that `rfsize.shrink` made; LightGBM keeps it.
_PRUNED_NOTE = "rfsize_shrunk"

# Bits of decision_type.
_CATEGORICAL, _DEFAULT_LEFT, _MISSING_SHIFT = 1, 2, 2
# How a split treats missing values, by LightGBM's missing type (none, zero, NaN) and direction (right, left).
_MISSING = np.array(
    [(Missing.AS_ZERO, Missing.AS_ZERO), (Missing.ZERO_RIGHT, Missing.ZERO_LEFT), (Missing.NAN_RIGHT, Missing.NAN_LEFT)]
)
_READING = Reading(
    single_precision=False,
    zero_within=float(np.float32(1e-35)),  # LightGBM treats smaller numbers as zero
    lowest_category=-1.0,  # LightGBM reads a category as a C int, which rounds towards zero
)


@dataclass(frozen=True)
class ModelText:
    """LightGBM's text of a model.

    Attributes
    ----------
    header, parameters : dict from str to str
        What the text says of the model, and the parameters of its training.
    trees : tuple of dict from str to str
        The lines of each tree by their names.
    categories : list of list
        Categories of each column that was categorical in pandas, in the order of their codes.
    """

    header: dict[str, str]
    trees: tuple[dict[str, str], ...]
    parameters: dict[str, str]
    categories: list[list[Any]]

    @classmethod
    def read(cls, text: str) -> ModelText:
        """Take ``Booster.model_to_string()`` apart."""
        head = text.partition("\nend of trees")[0].partition("\nTree=")[0]
        parameters = text.partition("\nparameters:\n")[2].partition("\nend of parameters")[0]
        pairs = (line.strip("[]").partition(": ")[::2] for line in parameters.split("\n"))
        categories = text.rpartition("\npandas_categorical:")[1:]  # only the Python package writes this line
        return cls(
            _lines(head),
            tree_lines(text),
            {name: value for name, value in pairs if name},
            (json.loads(categories[1].partition("\n")[0]) if categories[0] else None) or [],
        )

    @property
    def objective(self) -> str:
        """Name of the objective."""
        return self.header.get("objective", "custom").partition(" ")[0]

    @property
    def trees_per_iteration(self) -> int:
        """1, or the number of scores."""
        return int(self.header["num_tree_per_iteration"])

    @property
    def n_classes(self) -> int:
        """Number of classes that the model predicts; 0 if it predicts numbers."""
        return max(2, self.trees_per_iteration) if self.objective in _CLASSIFICATIONS else 0

    @property
    def link(self) -> tuple[str, float]:
        """Kind and slope of the link from raw scores to predictions."""
        options = self.header.get("objective", "custom").split(" ")[1:]
        slope = next((option.removeprefix("sigmoid:") for option in options if option.startswith("sigmoid:")), "1")
        return "square" if "sqrt" in options else LINKS[self.objective], float(slope)

    def truth(self, label: NDArray[Any]) -> NDArray[Any]:
        """Training labels as LightGBM reads them, of which a binary objective reads only the sign."""
        return (label > 0).astype(np.int64) if self.objective == "binary" else label

    @property
    def conventions(self) -> Conventions:
        """How LightGBM reads rows and turns scores into predictions."""
        kinds = self.header["feature_infos"].split(" ")
        categorical = [feature for feature, kind in enumerate(kinds) if kind[:1] not in {"[", ""} and ":" in kind]
        categories, (link, slope) = tuple(map(tuple, self.categories)), self.link
        # LightGBM reads ordered categories as numbers, and ignores a column with one category.
        is_known = len(categorical) == len(categories)
        return Conventions(
            framework="LightGBM",
            reading=_READING,
            link=link,
            slope=slope,
            averages="average_output" in self.header,
            spaces_become_underscores=True,
            unknown_category_is_missing=True,
            categories=categories,
            category_features=tuple(categorical) if is_known else None if categories else (),
            coded_features=() if categories else tuple(categorical),
        )

    def sampling(self, trees: TreeEnsemble, params: dict[str, Any]) -> Sampling:
        """How rows and features were drawn; ``trees`` are those of the text, ``params`` the booster's, not rounded."""
        n_rows = np.bincount(trees.tree_of_node, weights=trees.cover).astype(np.float64)
        n_features = sum(kind != "none" for kind in self.header["feature_infos"].split(" "))
        bag_sizes, parameters = n_rows[:: self.trees_per_iteration], with_exact_fractions(self.parameters, params)
        return Sampling(parameters, self.objective, n_features, self.trees_per_iteration, bag_sizes)


def tree_lines(text: str) -> tuple[dict[str, str], ...]:
    """The lines of each tree by their names, as in `ModelText`, without what the text says of the model."""
    _, *trees = text.partition("\nend of trees")[0].split("\nTree=")
    return tuple(_lines(tree.partition("\n")[2]) for tree in trees)


def _lines(text: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in text.split("\n") if line)


def tree_nodes(trees: Sequence[dict[str, str]]) -> tuple[TreeNodes, Floats]:
    """The nodes of trees, in each tree inner nodes before leaves, and the number of training rows in each leaf."""
    n_leaves = np.array([int(tree["num_leaves"]) for tree in trees])
    n_nodes = 2 * n_leaves - 1
    is_leaf = np.repeat(np.tile([False, True], len(trees)), np.column_stack([n_leaves - 1, n_leaves]).ravel())

    def inner(name: str) -> Floats:
        numbers = np.zeros(is_leaf.size)
        numbers[~is_leaf] = _numbers(trees, name)
        return numbers

    def child(name: str) -> Int64s:
        number = inner(name).astype(np.int64)  # a leaf j is written as -(j + 1)
        number[number < 0] = (np.repeat(n_leaves, n_nodes) - 2 - number)[number < 0]
        return np.where(is_leaf, -1, number)

    decision, threshold = inner("decision_type").astype(np.int64), inner("threshold")
    missing = _MISSING[np.minimum(decision >> _MISSING_SHIFT & 3, 2), (decision & _DEFAULT_LEFT > 0).astype(np.int64)]
    is_categorical = decision & _CATEGORICAL > 0
    missing[is_categorical] = Missing.CATEGORY
    missing[is_leaf] = 0
    categories_left = []
    if is_categorical.any():
        places = np.split(np.where(is_categorical, threshold, -1.0).astype(np.int64), np.cumsum(n_nodes)[:-1])
        for tree, place in zip(trees, places, strict=True):
            categories_left += _sets(tree, place[place >= 0])
    values, counts = map(np.concatenate, zip(*map(leaves_of, trees), strict=True))
    if not np.isfinite(values).all():
        raise NotAForestError("a leaf of the LightGBM model has a value that is not finite: train the model again")
    value, cover = np.zeros((is_leaf.size, 1)), np.zeros(is_leaf.size)
    value[is_leaf, 0], cover[is_leaf] = values, counts
    left, right, feature = child("left_child"), child("right_child"), inner("split_feature")
    missing_goes_left = np.zeros(len(categories_left))
    nodes = TreeNodes(n_nodes, left, right, feature, threshold, missing, missing_goes_left, categories_left, value)
    return nodes, cover


def leaves_of(tree: dict[str, str]) -> tuple[Floats, Floats]:
    """The values of the leaves of a tree, and the number of training rows in each; 0 for a single leaf."""
    value = _numbers([tree], "leaf_value")
    return value, _numbers([tree], "leaf_count") if value.size > 1 else np.zeros(1)


def _numbers(trees: Sequence[dict[str, str]], name: str) -> Floats:
    """The numbers in one line of each tree, one tree after the other."""
    return np.array(" ".join(tree.get(name, "") for tree in trees).split(), dtype=np.float64)


def _sets(tree: dict[str, str], places: Int64s) -> list[Int64s]:
    """The categories that go left in some categorical splits, from LightGBM's bit sets."""
    ends = _numbers([tree], "cat_boundaries").astype(np.int64)
    words = _numbers([tree], "cat_threshold").astype(np.uint32)
    bits = (words[ends[place] : ends[place + 1]].view(np.uint8) for place in places)
    return [np.flatnonzero(np.unpackbits(of_set, bitorder="little")) for of_set in bits]


class LightGbmModel(Model):
    """A trained model of LightGBM, of any boosting, by itself or inside a fitted estimator.

    Parameters
    ----------
    model : lightgbm.Booster or fitted estimator
    text : ModelText
        The text of its booster, of the iterations that ``predict`` uses by default.

    Raises
    ------
    NotAForestError
        If trees are linear, leaves are not finite, or the classes are not those of the objective.
    """

    framework = "LightGBM"
    ensemble: TreeEnsemble

    def __init__(self, model: Any, text: ModelText) -> None:
        self._model, self.booster, self.text = model, booster_of(model), text
        if any(tree.get("is_linear", "0") != "0" for tree in text.trees):
            raise NotAForestError("rfsize does not read LightGBM's linear trees: train with linear_tree=False")
        stops_early = hasattr(model, "get_params") and model.get_params().get("pred_early_stop")
        if stops_early and text.objective in _STOPPING_EARLY:
            raise NotAForestError("pred_early_stop uses only some of the trees: set_params(pred_early_stop=False)")
        nodes, cover = tree_nodes(text.trees)
        names, conventions = self.booster.feature_name(), text.conventions
        self.ensemble = TreeEnsemble(
            nodes=nodes,
            trees_per_iteration=text.trees_per_iteration,
            classes=_classes(model, text),
            n_features=self.booster.num_feature(),
            feature_names=None if names == [f"Column_{index}" for index in range(len(names))] else names,
            conventions=replace(conventions, slope=exact_value(conventions.slope, self.booster.params, "sigmoid")),
            cover=cover,
        )
        self.is_pruned = _PRUNED_NOTE in text.parameters
        boosting = text.parameters.get("boosting", "gbdt")
        self.why_no_forest = boosted(f"this LightGBM model has boosting='{boosting}'", "train with boosting='rf'")

    @property
    def output(self) -> Output:
        is_classifier = hasattr(self._model, "classes_")
        return super().output if is_classifier or not self.classes.size else "probabilities"

    @property
    def n_bytes(self) -> int:
        return len(self.booster.model_to_string().encode())

    def apply(self, X: Any) -> NDArray[np.int64]:
        trees = self.ensemble
        leaf = np.asarray(self.booster.predict(X, pred_leaf=True, num_iteration=self.n_trees), dtype=np.int64)
        n_inner = trees.nodes.n_nodes.reshape(trees.tree_start.shape) // 2
        return leaf.reshape(-1, *trees.tree_start.shape) + trees.tree_start + n_inner

    def truth(self, y: Any) -> Any:
        """The labels of a Booster as in training: a binary objective reads only their sign."""
        labels = np.asarray(y).ravel()
        are_numbers = labels.dtype.kind in "biuf" and np.isfinite(labels).all()
        if hasattr(self._model, "classes_") or not np.array_equal(self.classes, [0, 1]) or not are_numbers:
            return y
        return self.text.truth(labels)

    def first(self, n_trees: int) -> Any:
        return self.with_booster(loaded(self.booster.model_to_string(num_iteration=n_trees)))

    def select(self, trees: Int64s, leaf_values: NDArray[Any] | None = None) -> Any:
        text = self.booster.model_to_string()
        if "\nparameters:\n" not in text:
            raise NotAForestError("the LightGBM model stores no parameters, where rfsize notes this: train it again")
        stored, arrays = trees_of(text), self.ensemble
        numbers = np.arange(len(stored)).reshape(arrays.tree_start.shape)[trees].ravel()
        kept = [stored[number] for number in numbers]
        if leaf_values is not None:
            values = np.split(leaf_values.ravel(), arrays.tree_start.ravel()[1:])
            is_leaf = np.split(arrays.nodes.left == -1, arrays.tree_start.ravel()[1:])
            kept = [_with_leaf_values(stored[number], values[number][is_leaf[number]]) for number in numbers]
        return self.with_booster(loaded(with_trees(text, kept, _PRUNED_NOTE)))

    def with_booster(self, booster: lgb.Booster) -> Any:
        """A new model of the caller's type that holds ``booster``, which has other trees and is otherwise like this."""
        if self._model is self.booster:
            return booster
        model = copy.copy(self._model)
        model._other_params = dict(model._other_params)  # copied, because set_params changes it
        n_trees = booster.current_iteration()
        model.set_params(**dict.fromkeys(TREE_COUNT_NAMES & model.get_params().keys(), n_trees))
        model._Booster = booster
        model._best_iteration = n_trees
        return model


class LightGbmForest(LightGbmModel, Forest):
    """A forest of ``boosting="rf"``.

    Attributes
    ----------
    sampling : Sampling
        How LightGBM drew the rows and features of its trees.
    """

    sampled_by = "bagging_freq=1, bagging_fraction=0.632, and a feature_fraction that leaves some columns out"

    def __init__(self, model: Any, text: ModelText) -> None:
        super().__init__(model, text)
        self.sampling = text.sampling(self.ensemble, self.booster.params)
        self.shared_bags = shared_bags(self.sampling)
        self.seed_dependence = seed_dependence(self.sampling)

    def bags(
        self, layout: Layout, y: Any, sample_weight: Any, seed: int | None, subsample: float | None
    ) -> LightGbmBags:
        if seed is not None or subsample is not None:
            raise InbagError("a LightGBM model stores its bagging_seed: leave out seed and subsample")
        positive = None
        if self.sampling.is_balanced and y is not None:
            positive = class_indices(self.classes, self.truth(y), layout.n_rows) > 0
        return rebuilt_bags(self.sampling, layout, positive)

    def leading_bags(self, n_rows: int) -> Bags | None:
        return leading_bags(self.sampling, n_rows)

    def training_data(self, X: Any, label: NDArray[Any], sample_weight: Any) -> lgb.Dataset:
        """The training rows of an estimator with ``label`` (class indices), in the form that `lightgbm.train` takes."""
        weight = None if sample_weight is None else sample_weights(sample_weight, len(label))
        if self._model.class_weight is not None:
            of_class = compute_sample_weight(self._model.class_weight, self.classes[label])
            weight = of_class if weight is None else weight * of_class
        return lgb.Dataset(X, label, weight=weight, free_raw_data=False)


def read(model: Any, *, num_iteration: int | None = None) -> LightGbmModel:
    """Read a booster or a fitted estimator: a `LightGbmForest` if its trees are independent draws.

    The first ``num_iteration`` iterations are read; by default those that ``predict`` uses.

    Raises
    ------
    NotAForestError
        If it is no model, has no trees or linear ones, or rfsize cannot read its text.
    """
    booster = booster_of(model)
    if booster.num_trees() == 0:
        raise NotAForestError("the LightGBM model has no trees: train it first")
    with reading("LightGBM 4.3 to 4.7"):
        text = ModelText.read(booster.model_to_string(num_iteration=num_iteration))
        return (LightGbmForest if "average_output" in text.header else LightGbmModel)(model, text)


def forest_of(booster: lgb.Booster, *, num_iteration: int | None = None) -> LightGbmForest:
    """Read the forest of a booster, as `read` does; `NotAForestError` if it is none."""
    forest = read(booster, num_iteration=num_iteration)
    if not isinstance(forest, LightGbmForest):
        raise NotAForestError(forest.why_no_forest)
    return forest


def booster_of(model: Any) -> lgb.Booster:
    """The booster of a model; `NotAForestError` if it has none."""
    if isinstance(model, lgb.CVBooster):
        raise NotAForestError("a CVBooster holds several models: give one, or rfsize.compile(cvbooster.boosters)")
    if isinstance(model, lgb.Booster):
        return model
    if isinstance(model, lgb.LGBMModel):
        return model.booster_
    raise NotAForestError(f"a {type(model).__name__} is no model: give a lightgbm.Booster or a fitted LGBMClassifier")


def _classes(model: Any, text: ModelText) -> NDArray[Any]:
    """Labels of the classes, in class order; empty if the model predicts numbers."""
    n_classes, classes = text.n_classes, getattr(model, "classes_", None)
    if text.objective == "custom" or classes is None:
        return np.arange(n_classes)
    if not n_classes:
        raise NotAForestError(f"'{text.objective}' predicts no classes: train 'binary', or give model.booster_")
    if len(classes) != n_classes:
        raise NotAForestError(f"of {len(classes)} classes the trees score {n_classes}: train on rows of each class")
    return np.asarray(classes)


def loaded(text: str) -> lgb.Booster:
    """The booster of a model text, with its own number of iterations among its parameters."""
    n_trees = text.count("\nTree=") // int(re.findall(r"\nnum_tree_per_iteration=(\d+)\n", text)[0])
    return lgb.Booster(model_str=re.sub(r"(?m)^\[num_iterations: .*\]$", f"[num_iterations: {n_trees}]", text, count=1))


def trees_of(text: str) -> list[str]:
    """The text of each tree, without its number."""
    start, stop = text.index("\nTree=0\n") + 1, text.index("\nend of trees\n") + 1
    return re.split(r"^Tree=[0-9]+\n", text[start:stop], flags=re.MULTILINE)[1:]


def with_trees(text: str, trees: Sequence[str], note: str) -> str:
    """A model text with other trees, and with another note on its bags or on how its trees were chosen."""
    numbered = [f"Tree={number}\n{tree}" for number, tree in enumerate(trees)]
    head = text.partition("\ntree_sizes=")[0]
    sizes = " ".join(str(len(tree.encode())) for tree in numbered)
    tail = text.partition("\nend of trees\n")[2]
    tail = re.sub(rf"^\[{BAGS_NOTE}.*\n", "", tail, flags=re.MULTILINE)
    tail = tail.replace("\nparameters:\n", f"\nparameters:\n[{note}: ]\n", 1)
    return f"{head}\ntree_sizes={sizes}\n\n{''.join(numbered)}end of trees\n{tail}"


def _with_leaf_values(tree: str, values: Floats) -> str:
    """The text of a tree with other leaf values."""
    line = f"leaf_value={' '.join(map(repr, values.tolist()))}"
    return re.sub(r"(?m)^leaf_value=.*$", line, tree, count=1)
