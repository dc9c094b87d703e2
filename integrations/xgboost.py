"""XGBoost random forests (one round of parallel trees): their votes, their bags, and truncation."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray
from scipy.special import expit

from rfsize.adapter import Adapter, Bags, Leaves
from rfsize.checks import class_indices, sample_weights, share
from rfsize.errors import InbagError, NotAForestError
from rfsize.integrations.xgboost_trees import conventions, tree_table
from rfsize.rows import CELLS_PER_BLOCK
from rfsize.trees import Conventions, TreeTable

_BINARY = {"binary:logistic"}
_MULTICLASS = {"multi:softprob", "multi:softmax"}

_NO_LEAF = np.float32(np.nan)

# ---------------------------------------------------------------------------------------------------------
# Bags

_RNG_MULTIPLIER = 16807
_RNG_MASK = np.uint64(2**63 - 1)

# The left and the right child of each node of a tree, -1 at leaves.
_Children = tuple[NDArray[np.int64], NDArray[np.int64]]

_BATCH = 256  # nodes of one depth that are split in one step

# Stored hessians are sums in single precision: they match to this share of the sum …
_RELATIVE_TOLERANCE = 4e-6
# … and to this share of one average row.
_ROW_TOLERANCE = 0.02


class XgboostBags(Bags):
    """Bags drawn by XGBoost's histogram updater with uniform sampling on the CPU.

    The Mersenne twister of the booster's seed gives one seed per tree; from it a multiplicative congruential
    generator modulo 2⁶³ draws once for every row in order, and a row is in the bag where its draw is below
    ``subsample``.
    """

    def __init__(
        self,
        n_rows: int,
        tree_of: NDArray[np.int64],
        tree_seed: NDArray[np.uint64],
        subsample: float,
        mass: NDArray[np.float64],
    ) -> None:
        self.n_rows = n_rows
        self._tree_of = tree_of
        self._tree_seed = tree_seed
        self._level = float(np.float32(subsample)) * 2.0**63
        self._mass = mass

    def take(self, start: int, stop: int) -> NDArray[np.bool_]:
        return self._inbag(start, stop, self._tree_seed)[:, self._tree_of]

    def _inbag(self, start: int, stop: int, tree_seed: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Mask of rows ``start`` to ``stop``, shape (rows, seeds)."""
        with np.errstate(over="ignore"):
            steps = np.full(stop - start, _RNG_MULTIPLIER, dtype=np.uint64)
            steps[0] = pow(_RNG_MULTIPLIER, start + 1, 2**64)
            drawn = np.cumprod(steps)[:, None] * tree_seed & _RNG_MASK
        return drawn.astype(np.float64) < self._level

    def sizes_fit(self, stored: NDArray[np.float64]) -> bool:
        """Whether the sizes of some bags are in proportion to the hessians stored at the roots of their trees.

        A quick look at a few trees of each class, to choose among the seeds that are possible; not the proof. The
        more rows, the fewer trees it takes to tell, and the fewer there is memory for.
        """
        few = min(len(self._tree_of), 32, max(3, CELLS_PER_BLOCK // self.n_rows))
        for trees in self._tree_of.T:
            some = np.unique(trees[[*range(few), -1]])
            sizes = self._mass @ self._inbag(0, self.n_rows, self._tree_seed[some])
            ratio = stored[some] / np.maximum(sizes, 1e-300)
            if np.ptp(ratio) > 1e-4 * ratio.mean():
                return False
        return True

    def row_mass(self, start: int, stop: int) -> NDArray[np.float64]:
        return self._mass[start:stop]

    def contradicted(self, leaves: Leaves, rebuilt: NDArray[np.float64]) -> NDArray[np.bool_]:
        # The hessian of a row of unit weight is a constant of its class, and its value is the model's affair.
        group_of_tree = np.arange(leaves.offset.size) % leaves.offset.shape[1]
        group = group_of_tree[leaves.tree_of_leaf()]
        stored = np.where(leaves.provable, leaves.mass, 0.0)
        unit = np.bincount(group, weights=stored) / np.maximum(
            np.bincount(group, weights=np.where(leaves.provable, rebuilt, 0.0)), 1e-300
        )
        expected = rebuilt * unit[group]
        tolerance = _RELATIVE_TOLERANCE * np.abs(expected) + _ROW_TOLERANCE * unit[group] * self._mass.mean()
        return np.asarray(np.abs(expected - leaves.mass) > tolerance)

    @property
    def advice(self) -> str:
        return (
            "Give exactly the training rows, all of them, in the order of training, with sample_weight= where the "
            "forest was trained with weights; a model loaded from a file has forgotten its seed= and subsample=, and a "
            "booster taken out of a classifier what it took for missing. With base_margin or seed_per_iteration, bags "
            "drawn on a GPU, by several machines, or by tree_method='exact', and those of a truncated multiclass "
            "forest, cannot be rebuilt."
        )


def _seed_places(trees: list[_Children], parameters: dict[str, Any], *, forgotten: bool) -> Iterator[NDArray[np.int64]]:
    """Which outputs of the twister may have seeded the trees' bags, the likeliest first.

    Up to XGBoost 3.2 these are outputs 1, 2, 3, … From 3.3 on the twister also serves the sampling of columns,
    and the seeds of bags lie further apart. A model loaded from a file has ``forgotten`` how columns were sampled
    and trees limited; neither it nor a pickle says which version trained it.
    """
    growth = _Growth(trees)
    sampled = tuple(float(parameters[f"colsample_by{unit}"]) < 1.0 for unit in ("tree", "level", "node"))
    limits = {name: int(parameters[name]) for name in ("max_depth", "max_leaves")}
    spaced = growth.seed_places(sampled, **limits, by_loss=parameters["grow_policy"] == "lossguide")
    in_turn = np.arange(1, len(trees) + 1)
    is_old = tuple(int(part) for part in xgb.__version__.split(".")[:2]) < (3, 3)
    yield from (in_turn, spaced) if is_old else (spaced, in_turn)
    if forgotten:
        depths, leaves, policies = (growth.deepest, 0), (0, growth.most_leaves), (False, True)
        for choice in itertools.product(itertools.product((False, True), repeat=3), depths, leaves, policies):
            guessed, max_depth, max_leaves, by_loss = choice
            yield growth.seed_places(guessed, max_depth=max_depth, max_leaves=max_leaves, by_loss=by_loss)


class _Growth:
    """How often XGBoost sampled columns while it grew each tree: once for each node it tried to split."""

    def __init__(self, trees: list[_Children]) -> None:
        depths = [_depths(tree) for tree in trees]
        splits = [depth[left != -1] for depth, (left, _) in zip(depths, trees, strict=True)]
        self.deepest = max(int(depth.max()) for depth in depths)
        self._splits = np.array([np.bincount(depth, minlength=self.deepest + 1) for depth in splits])
        self._leaves = np.array([np.sum(left == -1) for left, _ in trees])
        self.most_leaves = int(self._leaves.max())
        # Nodes are numbered as they are made, so the last one tells how deep the last split was.
        self._last_depth = np.array([max(int(depth[-1]) - 1, 0) for depth in depths])

    def seed_places(
        self, sampled: tuple[bool, ...], *, max_depth: int, max_leaves: int, by_loss: bool
    ) -> NDArray[np.int64]:
        """Outputs of the twister, from XGBoost 3.3 on, that seed the bags of the trees in turn."""
        by_tree, by_level, by_node = sampled
        # The children of these splits were tried: not those at the depth limit, nor those of the last step when it
        # made the last leaf that was allowed.
        tried = self._splits.copy()
        if max_depth > 0:
            tried[:, max_depth - 1 :] = 0
        full = np.flatnonzero(self._leaves == max_leaves)
        last = self._last_depth[full]
        tried[full, last] -= np.minimum(tried[full, last], 1 if by_loss else (tried[full, last] - 1) % _BATCH + 1)
        draws = 1 + by_tree + by_level * (1 + (tried > 0).sum(axis=1)) + by_node * (1 + 2 * tried.sum(axis=1))
        return np.cumsum(draws) - draws


def _depths(tree: _Children) -> NDArray[np.int64]:
    """Depth of each node, from the root down."""
    left, right = tree
    depth = np.zeros(left.size, dtype=np.int64)
    nodes, level = np.zeros(1, dtype=np.int64), 0
    while nodes.size and level <= left.size:
        depth[nodes] = level
        parents = nodes[left[nodes] != -1]
        nodes, level = np.concatenate([left[parents], right[parents]]), level + 1
    return depth


# ---------------------------------------------------------------------------------------------------------
# The adapter


class XgboostForest(Adapter):
    """One round of parallel trees in an `xgboost.Booster`, alone or inside a fitted classifier."""

    framework = "XGBoost"

    def __init__(self, model: Any, *, casts_votes: bool = True) -> None:
        self._model = model
        self._booster: xgb.Booster = model if isinstance(model, xgb.Booster) else model.get_booster()
        learner = _document(self._booster)["learner"]
        _refuse_other_models(learner)
        if casts_votes:
            _refuse_other_objectives(learner["objective"]["name"])
        forest = learner["gradient_booster"]["model"]
        tree_class = np.asarray(forest["tree_info"])
        n_outputs = max(1, int(learner["learner_model_param"]["num_class"]))
        self.n_trees = tree_class.size // n_outputs
        if not np.array_equal(np.bincount(tree_class, minlength=n_outputs), np.full(n_outputs, self.n_trees)):
            raise NotAForestError(f"the model does not have equally many trees for each of {n_outputs} outputs")
        self.n_features = int(learner["learner_model_param"]["num_feature"])
        self.feature_names = list(self._booster.feature_names or ()) or None
        self.classes = np.asarray(getattr(model, "classes_", np.arange(max(2, n_outputs))))
        # Member t is made of the t-th tree of each class.
        self._tree_of = np.argsort(tree_class, kind="stable").reshape(n_outputs, self.n_trees).T
        self._scale_pos_weight = float(learner["objective"].get("reg_loss_param", {}).get("scale_pos_weight", 1))
        self.leaves = _leaf_table(learner, self._tree_of)
        self._children = [
            (np.array(tree["left_children"]), np.array(tree["right_children"])) for tree in forest["trees"]
        ]
        config = self._config()["gradient_booster"]
        approximate = config["gbtree_train_param"]["updater"] == "grow_histmaker"
        if approximate and float(config["tree_train_param"]["subsample"]) < 1.0:
            self.shared_bags = (
                "tree_method='approx' gives all parallel trees the same bag, so their votes are not independent and T* "
                "may be too small; train with tree_method='hist'"
            )

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = json.loads(self._booster.save_config())["learner"]
        return config

    def leaf_index(self, X: Any) -> NDArray[Any]:
        leaf = self._booster.predict(self._matrix(X), pred_leaf=True, strict_shape=True)
        n_outputs = self._tree_of.shape[1]
        return leaf.reshape(-1, n_outputs, self.n_trees).transpose(0, 2, 1).astype(np.int64)

    def _matrix(self, X: Any) -> xgb.DMatrix:
        if isinstance(X, xgb.DMatrix):
            return X
        if hasattr(X, "iloc") and self.feature_names is None:
            # A forest without names goes by position; some names a DMatrix does not even take.
            X = X.set_axis([f"f{index}" for index in range(X.shape[1])], axis=1)
        names = {}
        if not (hasattr(X, "columns") or hasattr(X, "column_names")):
            names = {"feature_names": self._booster.feature_names, "feature_types": self._booster.feature_types}
        missing = getattr(self._model, "missing", np.nan)
        return xgb.DMatrix(X, missing=missing, enable_categorical=True, **names)

    def tree_table(self, threshold: float) -> TreeTable:
        learner = _document(self._booster)["learner"]
        order, offset = self._tree_of.ravel(), self.leaves.offset.ravel()
        sizes = [len(self._children[tree][0]) for tree in order]
        nodes = np.concatenate([np.arange(start, start + size) for start, size in zip(offset, sizes, strict=True)])
        score = self.leaves.score[nodes]
        if self._tree_of.shape[1] > 1:
            return tree_table(learner, order, score, np.zeros(0))
        return tree_table(learner, order, _margins(learner, self._tree_of)[nodes], score > threshold)

    @property
    def conventions(self) -> Conventions:
        return conventions(_document(self._booster)["learner"], float(getattr(self._model, "missing", np.nan)))

    def check(self, X: Any) -> Any:
        X = super().check(X)
        if isinstance(X, xgb.QuantileDMatrix):
            raise ValueError(
                "X is a QuantileDMatrix, of which no rows can be taken; give the rows as an array or DataFrame"
            )
        if isinstance(X, xgb.DMatrix) and X.get_base_margin().size:
            raise ValueError("X has a base_margin, which moves every tree's vote; give the rows without one")
        return X

    def bags(self, n_rows: int, y: Any, sample_weight: Any, seed: int | None, subsample: float | None) -> XgboostBags:
        config = self._config()
        training = config["gradient_booster"]["tree_train_param"]
        if self.shared_bags is not None:
            raise InbagError(f"no row is out of bag for some trees only: {self.shared_bags}, or give validation rows")
        if training.get("sampling_method", "uniform") != "uniform":
            raise InbagError("rows were sampled by gradient, and such bags cannot be rebuilt; give validation rows")
        fraction = float(training.get("subsample", 1.0)) if subsample is None else subsample
        if fraction == 1.0:
            raise InbagError(
                "the booster says subsample=1: either it was trained without bagging, and no row is out of bag, or it "
                "was loaded from a file, which does not keep its settings; then give seed= and subsample= as at "
                "training. Otherwise give validation rows and leave oob=False"
            )
        share("subsample", fraction)
        mass = sample_weights(sample_weight, n_rows)
        if self._scale_pos_weight != 1.0:
            if y is None:
                raise InbagError(
                    f"the forest was trained with scale_pos_weight={self._scale_pos_weight:g}, so the proof of its "
                    "bags needs the labels: give y"
                )
            mass = np.where(class_indices(self.classes, y, n_rows) == 1, self._scale_pos_weight, 1.0) * mass
        chosen = int(config["generic_param"]["seed"]) if seed is None else int(seed)
        stored = np.empty(self._tree_of.size)
        stored[self._tree_of] = self.leaves.mass[self.leaves.offset]  # at the roots, which come first
        told = seed is not None or subsample is not None
        found: dict[bytes, XgboostBags] = {}
        likeliest = None
        for places in _seed_places(self._children, training, forgotten=told):
            outputs = np.random.RandomState(chosen % 2**32).randint(0, 2**32, size=places[-1] + 1, dtype=np.uint32)
            bags = XgboostBags(n_rows, self._tree_of, outputs[places].astype(np.uint64), fraction, mass)
            likeliest = likeliest or bags
            if bags.sizes_fit(stored):
                found[places.tobytes()] = bags
        if told and len(found) > 1:
            raise InbagError(
                f"the bags of this model can be rebuilt in {len(found)} ways, because its file does not keep how its "
                "columns were sampled, and it has too few trees or rows to tell them apart; keep boosters as pickles, "
                "or give validation rows and leave oob=False"
            )
        assert likeliest is not None
        # Where none fits, the proof of the likeliest will say what is wrong.
        return next(iter(found.values()), likeliest)

    def truncated(self, n_trees: int) -> Any:
        booster = self._truncated_booster(n_trees)
        if self._model is self._booster:
            return booster
        model = copy.copy(self._model)
        is_forest = isinstance(model, (xgb.XGBRFClassifier, xgb.XGBRFRegressor))
        setattr(model, "n_estimators" if is_forest else "num_parallel_tree", n_trees)
        model._Booster = booster
        return model

    def _truncated_booster(self, n_trees: int) -> xgb.Booster:
        document = _document(self._booster)
        forest = document["learner"]["gradient_booster"]["model"]
        scale = self.n_trees / n_trees
        kept = self._tree_of[:n_trees].T.ravel()
        forest["trees"] = [_rescaled(forest["trees"][tree], scale, index) for index, tree in enumerate(kept)]
        forest["tree_info"] = [forest["tree_info"][tree] for tree in kept]
        forest["iteration_indptr"] = [0, kept.size]
        forest["gbtree_model_param"].update(num_trees=str(kept.size), num_parallel_tree=str(n_trees))
        booster = xgb.Booster()
        booster.load_model(bytearray(json.dumps(document).encode()))
        # A model keeps no training settings; with them, out-of-bag votes stay possible.
        config = json.loads(self._booster.save_config())
        config["learner"]["gradient_booster"]["gbtree_model_param"].update(
            num_trees=str(kept.size), num_parallel_tree=str(n_trees)
        )
        booster.load_config(json.dumps(config))
        return booster


def adapt(model: Any) -> XgboostForest:
    """The adapter of an XGBoost model; raises `NotAForestError` where there is none."""
    if not isinstance(model, (xgb.Booster, xgb.XGBModel)):
        raise NotAForestError(f"an xgboost.{type(model).__qualname__} is no model; give a Booster or XGBRFClassifier")
    return XgboostForest(model)


def _document(booster: xgb.Booster) -> dict[str, Any]:
    """The model as XGBoost's own JSON."""
    document: dict[str, Any] = json.loads(booster.save_raw("json"))
    return document


def _refuse_other_models(learner: dict[str, Any]) -> None:
    kind = learner["gradient_booster"]["name"]
    if kind != "gbtree":
        raise NotAForestError(
            f"the XGBoost model was trained with booster='{kind}'; T*(α) needs independent trees: train one round of "
            "booster='gbtree' with num_parallel_tree (XGBRFClassifier does)"
        )
    forest = learner["gradient_booster"]["model"]
    rounds = len(forest["iteration_indptr"]) - 1
    if rounds < 1 or not forest["trees"]:
        raise NotAForestError("the XGBoost model has no trees: train it first")
    if rounds > 1:
        raise NotAForestError(
            f"the XGBoost model was boosted for {rounds} rounds, where each round corrects the ones before it; T*(α) "
            "needs independent trees: train one round with num_parallel_tree (XGBRFClassifier does)"
        )
    if any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in forest["trees"]):
        raise NotAForestError(
            "the forest has one tree for all classes (multi_strategy='multi_output_tree'), which is not supported yet; "
            "train with multi_strategy='one_output_per_tree'"
        )
    if int(learner["learner_model_param"].get("num_target", 1)) > 1:
        raise NotAForestError("the forest predicts several labels at once; train one forest for each")


def _refuse_other_objectives(objective: str) -> None:
    if objective == "binary:logitraw":
        raise NotAForestError(
            "the forest's objective is 'binary:logitraw'; train with 'binary:logistic', the same trees"
        )
    if objective not in _BINARY | _MULTICLASS:
        raise NotAForestError(
            f"the forest's objective is '{objective}', whose trees cast no votes; rfsize sizes classification forests "
            f"({', '.join(sorted(_BINARY | _MULTICLASS))})"
        )


def _leaf_table(learner: dict[str, Any], tree_of: NDArray[np.int64]) -> Leaves:
    """Leaves by node, so that XGBoost's node numbers index the table; inner nodes have no score."""
    trees = learner["gradient_booster"]["model"]["trees"]
    sizes = np.array([len(tree["left_children"]) for tree in trees])
    offset = np.cumsum(sizes) - sizes
    margin = _margins(learner, tree_of)
    is_leaf = ~np.isnan(margin)
    return Leaves(
        offset=offset[tree_of],
        score=margin if tree_of.shape[1] > 1 else expit(margin),
        raw=margin,
        mass=np.concatenate([np.asarray(tree["sum_hessian"], dtype=np.float64) for tree in trees]),
        provable=is_leaf & np.repeat(sizes > 1, sizes),
    )


def _margins(learner: dict[str, Any], tree_of: NDArray[np.int64]) -> NDArray[np.float32]:
    """What each leaf's tree predicts alone before the link, by node; inner nodes have no margin."""
    trees = learner["gradient_booster"]["model"]["trees"]
    value = np.concatenate([np.asarray(tree["split_conditions"], dtype=np.float32) for tree in trees])
    value[np.concatenate([tree["left_children"] for tree in trees]) != -1] = _NO_LEAF
    sizes = [len(tree["left_children"]) for tree in trees]
    return np.repeat(_base_margins(learner, tree_of), sizes) + value * np.float32(tree_of.shape[0])


def _base_margins(learner: dict[str, Any], tree_of: NDArray[np.int64]) -> NDArray[np.float32]:
    """What the booster adds to each tree's output, in the order of the trees: one number or one per class."""
    stored = np.atleast_1d(json.loads(learner["learner_model_param"]["base_score"])).astype(np.float32)
    if learner["objective"]["name"] in _BINARY:
        stored = -np.log(1.0 / stored - 1.0)
    margins = np.empty(tree_of.size, dtype=np.float32)
    margins[tree_of] = np.broadcast_to(stored, tree_of.shape[1])
    return margins


def _rescaled(tree: dict[str, Any], scale: float, index: int) -> dict[str, Any]:
    """The tree with its leaves weighing ``scale`` times as much."""
    leaf = np.asarray(tree["left_children"]) == -1
    scaled = dict(tree, id=index)
    for name in ("split_conditions", "base_weights"):
        values = np.asarray(tree[name], dtype=np.float32)
        values[leaf] = (values[leaf].astype(np.float64) * scale).astype(np.float32)
        scaled[name] = values.astype(np.float64).tolist()
    return scaled
