"""XGBoost random forests (one round of parallel trees): their votes, their bags, and truncation."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from rfsize.exceptions import InbagError, NotAForestError
from rfsize.integrations.xgboost.bags import (
    DrawnBags,
    XgboostBags,
    can_be_of,
    forget,
    possible_seeds,
    remember,
    remembered,
    round_shares,
)
from rfsize.integrations.xgboost.categories import categorical, check_names
from rfsize.integrations.xgboost.dmatrix import check_dmatrix
from rfsize.integrations.xgboost.first_round import (
    Gradients,
    Nodes,
    Start,
    base_margins,
    gradients,
    refuse_other_starts,
    start_of,
)
from rfsize.integrations.xgboost.independent import are_alike, check_forest, in_one_round, was_sampled
from rfsize.integrations.xgboost.learning_rate import learning_rate, shrinking
from rfsize.integrations.xgboost.model_json import (
    ADAPTIVE,
    CONSTANT_HESSIAN,
    LINKS,
    VOTING,
    assembled,
    conventions,
    document,
    leaf_values,
    members,
    reason,
    scores_per_leaf,
    tree_table,
    with_leaf_values,
    without_trees,
)
from rfsize.integrations.xgboost.smoothed import smoothed_masses
from rfsize.models.bags import FRESH_ROWS, Bags, Layout
from rfsize.models.columns import Categorical
from rfsize.models.damage import (
    number,
    refuse,
)
from rfsize.models.ensemble import Conventions, TreeNodes
from rfsize.models.identical import refuse_identical
from rfsize.models.leaves import LeafLabels, Leaves, kept_as_single, known_truth
from rfsize.models.link import Link
from rfsize.models.model import Forest
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import class_indices, one_per_row, sample_weights, share, whole

# If base_score is nearer to the largest label, single precision is too coarse to compare leaves with labels.
_COARSE = 0.01

HISTOGRAM_UPDATER = "grow_quantile_histmaker"

# Attribute of a booster that was shrunk. Files keep attributes.
SHRUNK = "rfsize_shrunk"


class XgboostForest(Forest):
    """One round of parallel trees in an `xgboost.Booster`, by itself or inside a fitted estimator.

    Attributes
    ----------
    booster : Booster
        The booster that holds the trees.
    tree_of : ndarray of int64, shape (n_trees, n_outputs)
        Trees of the booster that make up each member.
    missing : float
        Value in rows that means missing, besides NaN.
    """

    framework = "XGBoost"

    def __init__(self, model: Any, *, casts_votes: bool = True) -> None:
        self._model = model
        self.booster = booster_of(model)
        kept = getattr(model, "missing", None)
        self.missing = math.nan if kept is None else float(kept)
        self._was_told_missing = False
        self._read(document(self.booster)["learner"], casts_votes)

    def _read(self, learner: dict[str, Any], casts_votes: bool) -> None:
        model = self._model
        check_forest(learner, model, casts_votes=casts_votes)
        self._beside_trees = without_trees(learner)
        self._objective = learner["objective"]["name"]
        self.link = Link(LINKS[self._objective])
        self.tree_of = members(learner)
        self.n_trees = len(self.tree_of)
        config = self._config()["gradient_booster"]
        if not was_sampled(config["tree_train_param"]):
            stored = learner["gradient_booster"]["model"]["trees"]
            select = ([stored[tree] for tree in trees] for trees in self.tree_of)
            refuse_identical(select, are_alike, in_one_round(model))
        self.n_features = int(learner["learner_model_param"]["num_feature"])
        self.feature_names = list(self.booster.feature_names or ()) or None
        n_classes = max(2, int(learner["learner_model_param"]["num_class"])) if self._objective in VOTING else 0
        self.classes = np.asarray(getattr(model, "classes_", np.arange(n_classes)))
        if model is not self.booster and self._objective == "multi:softmax":
            self.classes = self.classes.astype(np.int32)  # the type that its predict returns
        weight = learner["objective"].get("reg_loss_param", {}).get("scale_pos_weight", 1)
        self._scale_pos_weight = number(weight, "scale_pos_weight", 0.0, 1e30)
        self._margins = base_margins(learner, max(self.tree_of.shape[1], scores_per_leaf(learner)))
        nodes = Nodes.of(learner)
        self.leaves = _leaf_table(learner, nodes, self.tree_of, self._margins)
        self.is_pruned = self.booster.attr(SHRUNK) is not None
        self._start = start_of(learner, self._margins)
        # Leaves that were refitted, by rfsize or as quantiles, hold no gradients.
        has_gradients = not self.is_pruned and self._objective not in ADAPTIVE
        self._gradient = gradients(nodes) if has_gradients else None
        if self._start is not None and not self.is_pruned:
            refuse_other_starts(self._start, nodes, self._gradient)
        self._children = [
            (np.array(tree["left_children"]), np.array(tree["right_children"]))
            for tree in learner["gradient_booster"]["model"]["trees"]
        ]
        rate = learning_rate(self._gradient, self.n_trees, config["tree_train_param"])
        self.shrinking = shrinking(rate, self._objective, self._margins)
        approximate = config["gbtree_train_param"]["updater"] == "grow_histmaker"
        if approximate and float(config["tree_train_param"]["subsample"]) < 1.0:
            self.shared_bags = (
                "tree_method='approx' gives all parallel trees the same bag, so their votes are not independent and T* "
                "may be too small; train with tree_method='hist'"
            )

    @property
    def output(self) -> str:
        if hasattr(self._model, "classes_") or not self.classes.size:
            return super().output
        return "class numbers" if self._objective == "multi:softmax" else "probabilities"

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = json.loads(self.booster.save_config())["learner"]
        return config

    @property
    def n_bytes(self) -> int:
        return len(self.booster.save_raw("ubj"))

    def leaf_index(self, X: Any) -> NDArray[Any]:
        return self.arranged(self.booster.predict(self.matrix(X), pred_leaf=True))

    def arranged(self, leaf: NDArray[Any]) -> Int64s:
        """XGBoost's output with ``pred_leaf``, one column per tree, brought into the shape of `leaf_index`."""
        return leaf.reshape(len(leaf), -1)[:, self.tree_of].astype(np.int64)

    def matrix(self, X: Any) -> xgb.DMatrix:
        """Rows as a DMatrix, with the names and the missing value of the model."""
        if isinstance(X, xgb.DMatrix):
            return X
        if hasattr(X, "iloc") and self.feature_names is None:
            # A forest without names reads columns by position, and a DMatrix does not allow all names.
            X = X.set_axis([f"f{index}" for index in range(X.shape[1])], axis=1)
        names = {}
        if not (hasattr(X, "columns") or hasattr(X, "column_names")):
            names = {"feature_names": self.booster.feature_names, "feature_types": self.booster.feature_types}
        try:
            return xgb.DMatrix(X, missing=self.missing, enable_categorical=True, **names)
        except xgb.core.XGBoostError as error:  # infinite numbers, for instance
            raise ValueError(f"XGBoost does not take the rows X: {reason(error)}") from error

    def read_as_missing(self, missing: float) -> None:
        if not isinstance(missing, Real) or isinstance(missing, bool):
            raise ValueError(f"missing must be a number, found {missing!r}")
        if self._model is not self.booster and not np.array_equal(missing, self.missing, equal_nan=True):
            raise ValueError(
                f"missing={missing!r}, but the {type(self._model).__name__} was fitted with missing={self.missing!r}, "
                "and stores it: leave missing out"
            )
        self.missing, self._was_told_missing = float(missing), True

    def tree_table(self, threshold: float) -> TreeNodes:
        order = self.tree_of.ravel()
        starts, sizes = self.leaves.offset.ravel(), [len(self._children[tree][0]) for tree in order]
        nodes = np.concatenate([np.arange(start, start + size) for start, size in zip(starts, sizes, strict=True)])
        learner, vote = document(self.booster)["learner"], self.leaf_votes(threshold)
        value = leaf_values(learner)[nodes].reshape(nodes.size, -1)
        return tree_table(learner, order, value, vote[nodes] if vote.size else vote)

    @property
    def conventions(self) -> Conventions:
        with np.errstate(over="ignore"):
            missing = float(np.float32(self.missing))  # XGBoost compares it with rows in single precision
        return conventions(self._beside_trees, missing, self._margins)

    @property
    def categorical(self) -> Categorical:
        return categorical(self._beside_trees)

    def check(self, X: Any) -> Any:
        X = super().check(X)
        if hasattr(X, "iloc") and any(str(dtype) == "category" for dtype in X.dtypes):
            check_names(self._beside_trees, X)
        if isinstance(X, xgb.DMatrix):
            kept_by = None if self._was_told_missing else type(self._model).__name__
            check_dmatrix(X, self.missing, kept_by=kept_by)
        return X

    def bags(
        self, layout: Layout, y: Any, sample_weight: Any, seed: int | None, subsample: float | None
    ) -> XgboostBags:
        self._refuse_other_samplings()
        n_rows = layout.n_rows
        is_given = seed is not None or subsample is not None
        masses = self._possible_masses(n_rows, y, sample_weight)
        stored = np.empty(self.tree_of.size)
        stored[self.tree_of] = self.leaves.mass[self.leaves.offset]  # at the roots: the first node of each tree
        found: dict[bytes, XgboostBags] = {}
        likeliest = None
        for drawn, mass in ((one, mass) for one in self._possible_bags(seed, subsample) for mass in masses):
            bags = XgboostBags(layout, self.tree_of, drawn, mass, self._unit_hessian)
            likeliest = likeliest or bags
            if bags.sizes_fit(stored):
                found[drawn.tree_seed.tobytes()] = bags
                if not is_given:
                    break
        if likeliest is None:
            raise InbagError(
                "the model says subsample=1. Either it was loaded from a file, which does not store its settings: go "
                "on with rfsize.tree_outputs(model, X, y, oob=True, seed=..., subsample=...), with the values of the "
                "training. Or it was trained without bagging, and no row is out of bag: train with a "
                f"subsample below 1, such as 0.632, or take {FRESH_ROWS}"
            )
        if len(found) > 1:
            raise InbagError(
                f"the bags of this model can be rebuilt in {len(found)} ways: its file does not store how its "
                "columns were sampled, and it has too few trees or rows to tell these apart; keep boosters as "
                f"pickles, or take {FRESH_ROWS}"
            )
        if not found and y is None and self._objective in ADAPTIVE:
            raise InbagError(
                f"without y the bags could not be proven: from XGBoost 3.4 on, what a row adds to the sums that a "
                f"forest of '{self._objective}' stores in its leaves depends on its label. Give the training rows "
                f"with their y, or take {FRESH_ROWS}"
            )
        # If none fits, the proof of the likeliest bags says what is wrong.
        bags = next(iter(found.values()), likeliest)
        bags.fit = bool(found)
        if y is not None and self._gradient is not None:
            bags.labels = self._leaf_labels(self._gradient, y, n_rows)
        return bags

    def _leaf_labels(self, gradient: Gradients, y: Any, n_rows: int) -> LeafLabels | None:
        """How labels give the leaf values of trees that begin at base_score; None if labels do not fit the model."""
        start = self._start
        if start is None:  # squared error: the hessian is 1, and the prediction is the margin
            start = Start(self._margins.astype(np.float64), np.ones(self._margins.size), np.inf)
        label = known_truth(self.classes, y, n_rows)
        if label is None or (start.largest - start.prediction < _COARSE).any():
            return None
        output = np.empty(self.tree_of.size, dtype=np.int64)
        output[self.tree_of] = np.arange(self.tree_of.shape[1])
        weight = self.leaves.mass / start.hessian[np.repeat(output, [len(left) for left, _ in self._children])]
        target = kept_as_single(label, start.prediction.size) - start.prediction
        return LeafLabels(target, -gradient.total, weight, error=gradient.error)

    @property
    def _unit_hessian(self) -> Floats:
        """What a row of unit weight adds to the hessians of the trees of each output; NaN if unknown."""
        if self._start is None:
            return np.full(self.tree_of.shape[1], np.nan)
        hessian = np.where(self._start.is_precise, self._start.hessian, np.nan)
        return hessian if hessian.size == self.tree_of.shape[1] else hessian.sum(keepdims=True)

    @property
    def mass_of_a_row(self) -> Floats:
        # The hessian of squared error is 1.
        return np.ones(self.tree_of.shape[1]) if self._start is None else self._unit_hessian

    def likely_bags(self, layout: Layout, y: Any, sample_weight: Any) -> Bags | None:
        known, n_rows, sizes = next(self._possible_bags(None, None), None), layout.n_rows, self.rows_in_bags
        is_counted = sample_weight is None and self._scale_pos_weight == 1.0 and self._objective not in ADAPTIVE
        if known is not None and is_counted and not can_be_of(n_rows, sizes, known.subsample):
            return None
        found = super().likely_bags(layout, y, sample_weight)
        # A file keeps no settings. Likely ones are XGBoost's default seed and a round subsample.
        guesses = round_shares(n_rows, sizes) if found is None and known is None else []
        for subsample in guesses:
            try:
                bags = self.bags(layout, y, sample_weight, 0, subsample)
            except InbagError:
                continue
            bags.labels = None
            if bags.fit:
                return bags
        return found

    def leading_bags(self, n_rows: int) -> Bags | None:
        drawn = self.drawn_bags()
        if drawn is None or self.shared_bags is not None:
            return None
        return XgboostBags(Layout.alone(n_rows), self.tree_of, drawn, np.ones(n_rows), self._unit_hessian)

    def drawn_bags(self) -> DrawnBags | None:
        """How the bags were drawn, as stored in the booster and not proven; None if it does not store it."""
        if self._config()["gradient_booster"]["gbtree_train_param"]["updater"] != HISTOGRAM_UPDATER:
            return None
        return next(self._possible_bags(None, None), None)

    def _possible_bags(self, seed: int | None, subsample: float | None) -> Iterator[DrawnBags]:
        """Ways in which the bags may have been drawn, the likeliest first; empty if the booster stores nothing."""
        is_given = seed is not None or subsample is not None
        drawn = None if is_given else remembered(self.booster, self.tree_of.size)
        if drawn is not None:
            yield drawn
        config = self._config()
        training = config["gradient_booster"]["tree_train_param"]
        fraction = float(training.get("subsample", 1.0)) if subsample is None else subsample
        if fraction == 1.0:
            return
        share("subsample", fraction)
        chosen = int(config["generic_param"]["seed"]) if seed is None else whole("seed", seed, at_least=-(2**63))
        for tree_seed in possible_seeds(chosen, self._children, training, forgotten=is_given):
            yield DrawnBags(fraction, tree_seed)

    def _refuse_other_samplings(self) -> None:
        if self._objective not in CONSTANT_HESSIAN:
            raise InbagError(
                f"XGBoost stores in each leaf a sum over its rows, in which with '{self._objective}' rows may count "
                f"differently, so the sums cannot prove the bags; train with one of "
                f"{', '.join(sorted(CONSTANT_HESSIAN))}, or take {FRESH_ROWS}"
            )
        if self.shared_bags is not None:
            raise InbagError(f"no row is out of bag for some trees only: {self.shared_bags}, or take {FRESH_ROWS}")
        training = self._config()["gradient_booster"]["tree_train_param"]
        if training.get("sampling_method", "uniform") != "uniform":
            raise InbagError("rows were sampled by gradient, and such bags cannot be rebuilt; take " + FRESH_ROWS)
        if not self.leaves.mass.any():
            raise InbagError(
                "trees that score all classes (multi_strategy='multi_output_tree') do not keep how many rows reached "
                "their leaves before XGBoost 3.2, so no bag can be proven: train with XGBoost 3.2 or newer, or with "
                f"multi_strategy='one_output_per_tree', or take {FRESH_ROWS}"
            )

    def _possible_masses(self, n_rows: int, y: Any, sample_weight: Any) -> list[Floats]:
        """What each row may add, one array per XGBoost version that may have trained the forest, likeliest first."""
        mass = self._row_masses(n_rows, y, sample_weight)
        if y is None or self._objective not in ADAPTIVE or self._margins.size > 1:
            return [mass]
        label = one_per_row(y, n_rows).astype(np.float64)
        return [smoothed_masses(self._objective, float(self._margins[0]), label, mass), mass]

    def _row_masses(self, n_rows: int, y: Any, sample_weight: Any) -> Floats:
        """What each row in the bag adds to the hessian of its leaf, up to a constant factor."""
        weight = sample_weights(sample_weight, n_rows)
        if self._scale_pos_weight == 1.0:
            return weight
        if not self.classes.size:
            raise InbagError(
                f"the forest was trained with scale_pos_weight={self._scale_pos_weight:g}, which is for classes: train "
                f"without it, or take {FRESH_ROWS}"
            )
        if y is None:
            raise InbagError(
                f"the forest was trained with scale_pos_weight={self._scale_pos_weight:g}, so the proof of its bags "
                "needs the labels: give y"
            )
        return np.where(class_indices(self.classes, y, n_rows) == 1, self._scale_pos_weight, 1.0) * weight

    def first(self, n_trees: int) -> Any:
        kept = self.tree_of[:n_trees]
        booster = assembled([(self.booster, kept)])
        drawn = self.drawn_bags()
        if drawn is not None:
            remember(booster, drawn._replace(tree_seed=drawn.tree_seed[kept.T.ravel()]))
        return self.with_booster(booster)

    def select(self, members: Int64s, raw: NDArray[Any] | None) -> Any:
        kept = self.tree_of[members]
        booster = assembled([(self.booster, kept)])
        if raw is not None:
            booster = with_leaf_values(booster, self._values_of(members, raw))
        forget(booster)
        booster.set_attr(**{SHRUNK: "1"})
        return self.with_booster(booster)

    def _values_of(self, members: Int64s, raw: NDArray[Any]) -> list[NDArray[np.float32]]:
        """What the nodes of some members add to the margin, tree by tree in the booster's order."""
        added = self._added(raw, len(members))
        firsts = self.leaves.offset[members].T.ravel()
        return [
            added[first : first + len(self._children[tree][0])]
            for first, tree in zip(firsts, self.tree_of[members].T.ravel(), strict=True)
        ]

    def _added(self, raw: NDArray[Any], n_members: int) -> NDArray[np.float32]:
        """What leaves with these scores add to the margin in a forest of ``n_members`` members."""
        return ((raw - self._margin_of_leaf) / n_members).astype(np.float32)

    def as_stored(self, raw: Floats, n_members: int) -> NDArray[Any]:
        return np.asarray(self._margin_of_leaf + self._added(raw, n_members) * np.float32(n_members))

    @property
    def _margin_of_leaf(self) -> NDArray[np.float32]:
        """The margin at which the tree of each leaf begins."""
        return self._margins if self.leaves.raw.ndim > 1 else self._margins[self._output_of_leaf]

    def with_booster(self, booster: xgb.Booster) -> Any:
        """A new model of the caller's type that holds ``booster``, which has other trees and is otherwise like this."""
        if self._model is self.booster:
            return booster
        model = copy.copy(self._model)
        config = json.loads(booster.save_config())["learner"]
        n_trees = int(config["gradient_booster"]["gbtree_model_param"]["num_parallel_tree"])
        setattr(model, tree_count_parameter(model), n_trees)
        model._Booster = booster
        return model

    def training_data(self, X: Any, label: NDArray[Any], sample_weight: Any) -> xgb.DMatrix:
        """The training rows of a classifier with ``label`` (class indices), in the form that `xgboost.train` takes."""
        if isinstance(X, xgb.DMatrix):
            raise ValueError("X is a DMatrix, and classifiers are not fitted on one; give the rows that its fit took")
        data = self.matrix(X)
        data.set_info(label=label, weight=None if sample_weight is None else sample_weights(sample_weight, len(label)))
        return data


def booster_of(model: Any) -> xgb.Booster:
    """The booster of a model; `NotAForestError` if it has none."""
    if isinstance(model, xgb.Booster):
        return model
    if isinstance(model, xgb.XGBModel):
        return model.get_booster()
    raise NotAForestError(f"a {type(model).__name__} is no model; give an xgboost.Booster or a fitted XGBClassifier")


def tree_count_parameter(estimator: Any) -> str:
    """The parameter for the number of parallel trees. Only in the random forests it is n_estimators.

    The class is checked by its name, because XGBoost 3.4 deprecates XGBRFClassifier and XGBRFRegressor.
    """
    kinds = {kind.__name__ for kind in type(estimator).__mro__}
    return "n_estimators" if kinds & {"XGBRFClassifier", "XGBRFRegressor"} else "num_parallel_tree"


def _predicted(learner: dict[str, Any], margin: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return Link(LINKS[learner["objective"]["name"]]).predicted(margin)


def _leaf_table(learner: dict[str, Any], nodes: Nodes, tree_of: Int64s, margins: NDArray[np.float32]) -> Leaves:
    """The leaves, indexed by XGBoost's node numbers. Inner nodes have no score."""
    trees = learner["gradient_booster"]["model"]["trees"]
    sizes = np.array([len(tree["left_children"]) for tree in trees])
    offset = np.cumsum(sizes) - sizes
    value = leaf_values(learner)
    base = margins
    if value.ndim == 1:
        of_tree = np.empty(tree_of.size, dtype=np.float32)
        of_tree[tree_of] = margins
        base = np.repeat(of_tree, sizes)
    margin = base + value * np.float32(len(tree_of))
    is_leaf = nodes.left == -1
    if not np.isfinite(margin[is_leaf]).all():
        refuse("a tree has a leaf whose score cannot be averaged")
    return Leaves(
        offset=offset[tree_of],
        score=margin if value.ndim > 1 or tree_of.shape[1] > 1 else _predicted(learner, margin),
        raw=margin,
        mass=nodes.hessian,
        provable=is_leaf & np.repeat(sizes > 1, sizes),
    )
