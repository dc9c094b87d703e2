"""LightGBM random forests: their votes, their bags, and truncation."""

from __future__ import annotations

import bisect
import copy
import itertools
import math
import warnings
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight

from rfsize.adapters.base import Adapter, Bags, Leaves
from rfsize.adapters.registry import resumed
from rfsize.adapters.trainer import ForestInTraining
from rfsize.adapters.trees import Conventions, TreeTable
from rfsize.errors import InbagError, NotAForestError, SeedDependenceWarning, SharedBagsWarning
from rfsize.integrations.lightgbm_columns import seed_dependence
from rfsize.integrations.lightgbm_text import ForestText, conventions, tree_table
from rfsize.utils.matrix import n_rows
from rfsize.utils.validation import class_indices, sample_weights

# ---------------------------------------------------------------------------------------------------------
# Bags

_RNG_BLOCK = 1024  # rows that share one generator
_RNG_MULTIPLIER, _RNG_INCREMENT = 214013, 2531011
_RNG_LEVELS = 32768  # distinct draws


@cache
def _jump(steps: int) -> tuple[np.uint32, np.uint32]:
    """Multiplier and increment that advance the generator by ``steps`` at once, modulo 2³²."""
    if steps == 0:
        return np.uint32(1), np.uint32(0)
    multiplier, increment = (int(part) for part in _jump(steps // 2))
    multiplier, increment = multiplier * multiplier, increment * (multiplier + 1)
    if steps % 2:
        multiplier, increment = multiplier * _RNG_MULTIPLIER, increment * _RNG_MULTIPLIER + _RNG_INCREMENT
    return np.uint32(multiplier % 2**32), np.uint32(increment % 2**32)


def shared_bags(forest: ForestText) -> str | None:
    """Why trees share bags, where they do."""
    every = int(float(forest.parameters.get("bagging_freq", 1)))
    fractions = (float(forest.parameters.get(f"{kind}bagging_fraction", 1)) for kind in ("", "pos_", "neg_"))
    if every <= 1 or min(fractions) >= 1.0:
        return None
    return (
        f"bagging_freq={every} gives {every} consecutive trees the same bag, so their votes are not independent and T* "
        "may be too small; train with bagging_freq=1"
    )


def warn_of_dependence(forest: ForestText, *, stacklevel: int) -> None:
    """Warn where the trees of a forest are no independent draws of all that its parameters allow."""
    for category, caveat in (
        (SharedBagsWarning, shared_bags(forest)),
        (SeedDependenceWarning, seed_dependence(forest)),
    ):
        if caveat is not None:
            warnings.warn(caveat, category, stacklevel=stacklevel)


class LightGbmBags(Bags):
    """Bags drawn by LightGBM's bagging strategy.

    Each block of 1024 rows has a linear congruential generator of its own, seeded ``bagging_seed`` + block;
    each new bag draws once for every row in order, and a row is in the bag where its draw is below the
    bagging fraction (with balanced bagging, the fraction of its class). Each of the forests that a merged one
    consists of has a seed of its own.
    """

    def __init__(self, forest: ForestText, n_rows: int, levels: NDArray[np.int64] | int) -> None:
        self.n_rows = n_rows
        self.trees_per_bag = int(forest.number("bagging_freq"))
        self.levels = np.broadcast_to(levels, n_rows)
        self.blocks = forest.blocks()
        self.n_members = sum(trees for _, trees in self.blocks)
        self.is_full = self._full_bags()

    def _full_bags(self) -> NDArray[np.bool_]:
        """Trees after the first bag of all rows in their block: LightGBM draws no more, and uses all rows for good."""
        full = np.zeros(self.n_members, dtype=np.bool_)
        chance = np.log(np.maximum(np.minimum(self.levels / _RNG_LEVELS, 1.0), 1e-300)).sum()
        if chance < -40.0:
            return full
        draws = Draws(self, 0, self.n_rows)
        start = 0
        for _, trees in self.blocks:
            block = range(start, start + trees)
            full[next((tree for tree in block if draws.drawn(tree).all()), start + trees) : start + trees] = True
            start += trees
        return full

    def take(self, start: int, stop: int) -> NDArray[np.bool_]:
        draws = Draws(self, start, stop)
        inbag = np.stack([draws.drawn(tree) for tree in range(self.n_members)], axis=1)
        inbag[:, self.is_full] = True
        return inbag[:, :, None]

    def row_mass(self, start: int, stop: int) -> NDArray[np.float64]:
        return np.ones((stop - start, 1, 1))

    def contradicted(self, leaves: Leaves, rebuilt: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(rebuilt != leaves.mass)

    @property
    def advice(self) -> str:
        return (
            "Give exactly the training rows, all of them, in the order of training (and y, where the bagging is "
            "balanced); bags drawn on a GPU, by several machines, or with parameters that were changed during training "
            "cannot be rebuilt."
        )


class Draws:
    """The draws for some of the rows, of any tree.

    The last block of a forest may be drawn further than its trees go, while they are being trained.
    """

    def __init__(self, bags: LightGbmBags, start: int, stop: int) -> None:
        block, place = np.divmod(np.arange(start, stop), _RNG_BLOCK)
        multiplier, increment = np.array([_jump(steps) for steps in range(_RNG_BLOCK + 1)], dtype=np.uint32).T
        self._first = [
            ((seed + block) % 2**32).astype(np.uint32) * multiplier[place + 1] + increment[place + 1]
            for seed, _ in bags.blocks
        ]
        self._first_tree = list(itertools.accumulate((trees for _, trees in bags.blocks[:-1]), initial=0))
        self._levels = bags.levels[start:stop]
        self._trees_per_bag = bags.trees_per_bag
        # A block draws once for each of its rows, and the last one has fewer.
        last_block = (bags.n_rows - 1) // _RNG_BLOCK * _RNG_BLOCK
        cut = max(last_block - start, 0)
        self._parts = ((slice(0, cut), _RNG_BLOCK), (slice(cut, None), bags.n_rows - last_block))

    def drawn(self, tree: int) -> NDArray[np.bool_]:
        """Mask of the rows drawn for ``tree``."""
        forest = bisect.bisect_right(self._first_tree, tree) - 1
        first, tree = self._first[forest], tree - self._first_tree[forest]
        state = np.empty_like(first)
        for rows, rows_of_block in self._parts:
            multiplier, increment = _jump(tree // self._trees_per_bag * rows_of_block)
            state[rows] = first[rows] * multiplier + increment
        return ((state >> np.uint32(16)) & np.uint32(_RNG_LEVELS - 1)) < self._levels


def rebuilt_bags(forest: ForestText, n_rows: int, positive: NDArray[np.bool_] | None) -> LightGbmBags:
    """The bags of a forest, their sizes already found to match."""
    refuse_other_samplers(forest.parameters)
    _refuse_no_bagging(forest)
    candidates = _candidate_levels(forest, positive)
    # Trees of one leaf store no bag size. One candidate is checked on three bags, so that wrong rows are refused
    # before any tree is walked; several differ by a row here and there, so then all the bags must tell.
    sizes = {tree: count.sum() for tree, count in enumerate(forest.leaf_count[:: forest.n_outputs]) if count.size > 1}
    if sizes and min(sizes.values()) == n_rows:
        raise InbagError(
            f"every bag holds all {n_rows} rows (LightGBM draws no others once the first is full), so no row is out "
            "of bag; give validation rows and leave oob=False"
        )
    checked = list(sizes)[: 3 if len(candidates) == 1 else None]
    for levels in candidates:
        bags = LightGbmBags(forest, n_rows, levels)
        draws = Draws(bags, 0, n_rows)
        if all(draws.drawn(tree).sum() == sizes[tree] for tree in checked if not bags.is_full[tree]):
            return bags
    raise InbagError(
        f"X has {n_rows} rows, for which the rebuilt bags do not have the sizes that LightGBM stored (the first holds "
        f"{sizes[checked[0]]:.0f} rows). {bags.advice} Otherwise give validation rows and leave oob=False"
    )


def refuse_other_samplers(parameters: dict[str, str]) -> None:
    """Raise `InbagError` where a model text's parameters name a sampler whose bags cannot be rebuilt."""
    other = {
        "data_sample_strategy": ("bagging", "rows were sampled by gradient (GOSS)"),
        "bagging_by_query": ("0", "whole queries were sampled"),
        "tree_learner": ("serial", "the forest was trained by several machines"),
        "num_machines": ("1", "the forest was trained by several machines"),
    }
    for name, (expected, what) in other.items():
        if parameters.get(name, expected) != expected:
            raise InbagError(
                f"{what} ({name}={parameters[name]}), and such bags cannot be rebuilt; give validation rows and leave "
                "oob=False"
            )


def _refuse_no_bagging(forest: ForestText) -> None:
    fractions = [forest.number(f"{kind}bagging_fraction") for kind in ("", "pos_", "neg_")]
    if forest.number("bagging_freq") < 1 or min(fractions) >= 1.0:
        raise InbagError(
            "the forest was trained without bagging (bagging_fraction=1 or bagging_freq=0), so no row is out of bag; "
            "give validation rows and leave oob=False"
        )


def _candidate_levels(forest: ForestText, positive: NDArray[np.bool_] | None) -> list[Any]:
    """Draws below which a row is in the bag, per row or for all; more than one where the text is too coarse."""
    balanced = min(forest.number("pos_bagging_fraction"), forest.number("neg_bagging_fraction")) < 1.0
    if not balanced or not forest.header["objective"].startswith("binary"):
        return _levels(forest, "bagging_fraction")
    if positive is None:
        raise InbagError(
            "the bagging was balanced (pos_/neg_bagging_fraction), so the bags depend on the labels: give y"
        )
    if not positive.any():
        return _levels(forest, "bagging_fraction")
    pairs = itertools.product(_levels(forest, "pos_bagging_fraction"), _levels(forest, "neg_bagging_fraction"))
    return [np.where(positive, of_positive, of_negative) for of_positive, of_negative in pairs]


def _levels(forest: ForestText, name: str) -> list[int]:
    """Draws that fall below a bagging fraction, of which the model text gives six digits."""
    fraction = forest.number(name)
    exact = math.ceil(fraction * _RNG_LEVELS)
    if len(forest.parameters[name].replace(".", "").lstrip("0")) != 6:
        return [exact]
    rounding = 0.5 * 10.0 ** (math.floor(math.log10(fraction)) - 5)
    low, high = (math.ceil(bound * _RNG_LEVELS) for bound in (fraction - rounding, fraction + rounding))
    return [exact, *(level for level in range(low, high + 1) if level != exact)]


# ---------------------------------------------------------------------------------------------------------
# The adapter


class LightGbmForest(Adapter):
    """A `lightgbm.Booster` in rf mode, alone or inside a fitted `LGBMClassifier`.

    Attributes
    ----------
    booster : Booster
        What holds the trees.
    """

    framework = "LightGBM"
    spaces_become_underscores = True

    def __init__(self, model: Any, *, casts_votes: bool = True) -> None:
        self._model = model
        self.booster: lgb.Booster = model if isinstance(model, lgb.Booster) else model.booster_
        if self.booster.num_trees() == 0:
            raise NotAForestError("the LightGBM model has no trees: train it first")
        self._forest = ForestText.read(self.booster.model_to_string(), casts_votes=casts_votes)
        self.link = self._forest.link
        n_outputs = self._forest.n_outputs
        self.n_trees = len(self._forest.leaf_value) // n_outputs
        self.n_features = self.booster.num_feature()
        names = self.booster.feature_name()
        self.feature_names = None if names == [f"Column_{index}" for index in range(len(names))] else names
        n_classes = max(2, n_outputs) if self._forest.casts_votes else 0
        self.classes = np.asarray(getattr(model, "classes_", np.arange(n_classes)))
        if len(self.classes) != n_classes:
            raise NotAForestError(
                f"the model knows only the class {self.classes.tolist()}; there is nothing to vote on"
            )
        self.leaves = self._leaf_table()
        self.shared_bags = shared_bags(self._forest)
        self.seed_dependence = seed_dependence(self._forest)

    def _leaf_table(self) -> Leaves:
        forest = self._forest
        sizes = np.array([value.size for value in forest.leaf_value])
        raw = np.concatenate(forest.leaf_value)
        return Leaves(
            offset=(np.cumsum(sizes) - sizes).reshape(self.n_trees, forest.n_outputs),
            score=np.asarray(self.link.predicted(raw)) if forest.n_outputs == 1 else raw,
            raw=raw,
            mass=np.concatenate(forest.leaf_count),
            provable=np.repeat(sizes > 1, sizes),
        )

    def check(self, X: Any) -> Any:
        if hasattr(X, "num_row"):
            raise ValueError(
                "X is an XGBoost DMatrix, which LightGBM does not take; give the rows as an array or DataFrame"
            )
        return super().check(X)

    def leaf_index(self, X: Any) -> NDArray[Any]:
        leaf = np.asarray(self.booster.predict(X, pred_leaf=True, num_iteration=self.n_trees))
        return leaf.reshape(-1, self.n_trees, self._forest.n_outputs).astype(np.int64, copy=False)

    def tree_table(self, threshold: float) -> TreeTable:
        return tree_table(self._forest, self.leaves.raw, self.leaf_votes(threshold))

    @property
    def conventions(self) -> Conventions:
        return conventions(self._forest)

    def bags(self, n_rows: int, y: Any, sample_weight: Any, seed: int | None, subsample: float | None) -> LightGbmBags:
        if seed is not None or subsample is not None:
            raise InbagError(
                "a LightGBM model holds its own bagging_seed and bagging_fraction: leave out seed and subsample"
            )
        balanced = any(float(self._forest.parameters.get(f"{sign}_bagging_fraction", 1)) < 1 for sign in ("pos", "neg"))
        return rebuilt_bags(self._forest, n_rows, self._positive(y, n_rows) if balanced and y is not None else None)

    def _positive(self, y: Any, n_rows: int) -> NDArray[np.bool_]:
        """Training labels that LightGBM took for positive."""
        if hasattr(self._model, "classes_"):
            return class_indices(self.classes, y, n_rows) > 0
        try:
            label = np.asarray(y, dtype=np.float64).ravel()
        except ValueError:
            raise ValueError("y must hold the numbers that the Booster was trained on, found text") from None
        if label.shape != (n_rows,):
            raise ValueError(f"y must hold one label per row of X: {n_rows} expected, {label.size} found")
        return label > 0

    def truncated(self, n_trees: int) -> Any:
        return self.with_booster(lgb.Booster(model_str=self.booster.model_to_string(num_iteration=n_trees)))

    def with_booster(self, booster: lgb.Booster) -> Any:
        """A new model of the caller's type that holds ``booster``, a forest like this one of other trees."""
        if self._model is self.booster:
            return booster
        model = copy.copy(self._model)
        model._other_params = dict(model._other_params)  # set_params writes into it
        n_trees = booster.current_iteration()
        given = TREE_COUNT_NAMES & model.get_params().keys()
        model.set_params(**dict.fromkeys(given, n_trees))
        model._Booster = booster
        model._best_iteration = n_trees
        return model

    def in_training(self, X: Any, y: Any, sample_weight: Any, threshold: float) -> ForestInTraining:
        label = class_indices(self.classes, y, n_rows(X))
        return resumed(self, self.training_data(X, label, sample_weight), threshold)

    def training_data(self, X: Any, label: NDArray[Any], sample_weight: Any) -> lgb.Dataset:
        """Rows that a classifier was fitted on, with ``label`` (class indices), as `lightgbm.train` takes them."""
        weight = None if sample_weight is None else sample_weights(sample_weight, len(label))
        if self._model.class_weight is not None:
            of_class = compute_sample_weight(self._model.class_weight, self.classes[label])
            weight = of_class if weight is None else weight * of_class
        return lgb.Dataset(X, label, weight=weight, free_raw_data=False)


# Names under which a classifier may have been told its number of trees.
TREE_COUNT_NAMES = {
    "n_estimators",
    "num_iterations",
    "num_iteration",
    "n_iter",
    "num_tree",
    "num_trees",
    "num_round",
    "num_rounds",
    "nrounds",
    "num_boost_round",
    "max_iter",
}


def adapt(model: Any, *, casts_votes: bool = True) -> LightGbmForest:
    """The adapter of a LightGBM model; raises `NotAForestError` where there is none, or none that ``casts_votes``."""
    if isinstance(model, lgb.CVBooster):
        raise NotAForestError("a CVBooster holds several forests; size each of cvbooster.boosters alone")
    if not isinstance(model, (lgb.Booster, lgb.LGBMModel)):
        raise NotAForestError(f"a lightgbm.{type(model).__qualname__} is no model; give a Booster or LGBMClassifier")
    return LightGbmForest(model, casts_votes=casts_votes)
