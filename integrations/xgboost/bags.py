"""The bags of XGBoost's parallel trees: the seeds that drew them, and what a booster stores about them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import CELLS_PER_BLOCK, Bools, Floats, Int64s, share
from rfsize.exceptions import InbagError
from rfsize.integrations.xgboost.model_json import LINKS, VERSION, VOTING
from rfsize.models.bags import LaidOutBags, Layout
from rfsize.models.ensemble import TreeEnsemble

# Objectives whose rows of unit weight all add the same hessian, which the proof of the bags needs.
ADAPTIVE = {"reg:absoluteerror", "reg:quantileerror"}  # until XGBoost 3.2, see `smoothed_cover`
CONSTANT_HESSIAN = VOTING - {"binary:hinge"} | ADAPTIVE | {"reg:squarederror", "reg:logistic", "count:poisson"}

_RNG_MULTIPLIER = 16807
_BATCH = 256  # the most nodes of one depth that are split in one step
_ATTRIBUTE = "rfsize_bags"

# Stored hessians are sums in single precision: they match to this share of the sum …
_RELATIVE_TOLERANCE = 4e-6
# … and to this share of one average row.
_ROW_TOLERANCE = 0.02
# Rows without weight add at most this share of the largest sum.
_OF_NO_WEIGHT = 1e-12
# The hessian of a row of unit weight fits base_score to this relative error.
_UNIT_TOLERANCE = 1e-3
# Nearer to 0 and 1, single precision does not resolve a probability.
_NEAREST = 1e-5

_SMOOTHING, _LEAST_RATIO = 0.04, 3.0e-4  # of XGBoost 3.4


def why_not_rebuilt(settings: dict[str, Any]) -> str | None:
    """Why the bags of a booster with these settings cannot be rebuilt, and what to train with; None if they can."""
    booster, generic = settings["gradient_booster"], settings["generic_param"]
    updater, device = booster["gbtree_train_param"]["updater"], generic["device"]
    if updater == "grow_histmaker":
        return "tree_method='approx' gives all parallel trees the same bag: train with tree_method='hist'"
    if updater != "grow_quantile_histmaker" or device != "cpu":
        return f"bags of {updater} on device={device} cannot be rebuilt: train with tree_method='hist', device='cpu'"
    if booster["tree_train_param"].get("sampling_method", "uniform") != "uniform":
        return "bags sampled by gradient cannot be rebuilt: train with sampling_method='uniform'"
    return None


class DrawnBags(NamedTuple):
    """How the bags of a model's trees were drawn.

    Attributes
    ----------
    subsample : float
        Share of the rows.
    tree_seed : ndarray of uint64, shape (n_trees,)
        Seed of the bag of each tree, in the order of the booster's trees.
    """

    subsample: float
    tree_seed: NDArray[np.uint64]


def write_bag_seeds(booster: xgb.Booster, drawn: DrawnBags | None) -> None:
    """Store how the bags were drawn as an attribute, which files keep, unlike settings; None removes the attribute."""
    text = drawn and json.dumps({"subsample": drawn.subsample, "seeds": drawn.tree_seed.tolist()})
    booster.set_attr(**{_ATTRIBUTE: text})


def read_bag_seeds(booster: xgb.Booster, n_trees: int) -> DrawnBags | None:
    """Read the attribute that `write_bag_seeds` wrote; None if there is none, `InbagError` if it is damaged."""
    text = booster.attr(_ATTRIBUTE)
    if text is None:
        return None
    try:
        stored = json.loads(text)
        if min(stored["seeds"]) < 0:
            raise ValueError("a seed is negative")  # NumPy 1 would take it
        seeds = np.array(stored["seeds"], dtype=np.uint64).reshape(n_trees)
        return DrawnBags(share("subsample", stored["subsample"]), seeds)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise InbagError(f"the note of bags is damaged ({error}): booster.set_attr(rfsize_bags=None)") from error


class XgboostBags(LaidOutBags):
    """Bags drawn by XGBoost's histogram updater with uniform sampling on the CPU.

    The Mersenne twister of the booster's seed gives one seed per tree. From this seed a multiplicative congruential
    generator modulo 2⁶³ draws once for every row in order. A row is in the bag if its draw is below ``subsample``.

    Parameters
    ----------
    layout : Layout
        The machines on which the training rows lay.
    tree_of : ndarray of int64, shape (n_trees, n_outputs)
        Trees of the booster that make up each iteration.
    drawn : DrawnBags
        How the bags were drawn.
    row_cover : ndarray of float64, shape (n_rows,)
        What rows in the bag add to the hessian of their leaf, up to a constant factor: their weights.
    hessian : ndarray of float64, shape (n_outputs,)
        Hessian of a row of unit weight by the booster's base_score; NaN if unknown.
    """

    def __init__(self, layout: Layout, tree_of: Int64s, drawn: DrawnBags, row_cover: Floats, hessian: Floats) -> None:
        self.layout = layout
        self.drawn = drawn
        self._hessian = hessian
        self._tree_of = tree_of
        self._level = float(np.float32(drawn.subsample)) * 2.0**63
        self.row_cover = row_cover

    def take(self, start: int, stop: int) -> Bools:
        return self._inbag(start, stop, self.drawn.tree_seed[self._tree_of.ravel()]).reshape(-1, *self._tree_of.shape)

    def _inbag(self, start: int, stop: int, tree_seed: NDArray[np.uint64]) -> Bools:
        """Mask of rows ``start`` to ``stop``, shape (rows, seeds)."""
        # The factor by which each row multiplies a seed, by the number of the row on its machine.
        steps = np.concatenate([_steps(run.first, run.stop) for run in self.layout.runs(start, stop)])
        inbag = np.empty((stop - start, tree_seed.size), dtype=np.bool_)
        _core.draw_xgboost(steps, tree_seed, self._level, inbag)
        return inbag

    def sizes_fit(self, root_cover: Floats) -> bool:
        """Whether the sizes of some bags are in proportion to the hessians at the roots, shape (n_trees, n_outputs).

        This is not the proof, but a quick look at a few trees of each class, to choose among the possible seeds. With
        more rows, fewer trees are enough, and memory holds fewer.
        """
        few = min(len(self._tree_of), 32, max(3, CELLS_PER_BLOCK // self.n_rows))
        looked_at = np.unique([*range(few), len(self._tree_of) - 1])
        for trees, stored in zip(self._tree_of[looked_at].T, root_cover[looked_at].T, strict=True):
            sizes = self.row_cover @ self._inbag(0, self.n_rows, self.drawn.tree_seed[trees])
            ratio = stored / np.maximum(sizes, 1e-300)
            if np.ptp(ratio) > 1e-4 * ratio.mean():
                return False
        return True

    def row_mass(self, start: int, stop: int) -> Floats:
        return self.row_cover[start:stop, None, None]

    def contradicted(self, trees: TreeEnsemble, rebuilt: Floats) -> Bools:
        # The hessian of a row of unit weight is the same in a class, whatever its value.
        output, cover, has_cover = trees.output_of_node, trees.cover, trees.has_cover
        total, rebuilt_total = (np.bincount(output, np.where(has_cover, sums, 0.0)) for sums in (cover, rebuilt))
        unit = total / np.maximum(rebuilt_total, 1e-300)
        expected = rebuilt * unit[output]
        tolerance = _RELATIVE_TOLERANCE * np.abs(expected) + _ROW_TOLERANCE * unit[output] * self.row_cover.mean()
        # With nearly empty bags, unit and tolerance can be anything. But a leaf with a stored sum saw at least one row.
        unseen = (rebuilt == 0.0) & (cover > _OF_NO_WEIGHT * cover[has_cover].max(initial=0.0))
        return np.asarray((np.abs(expected - cover) > tolerance) | unseen)

    def exceeded(self, trees: TreeEnsemble, rebuilt: Floats) -> Bools:
        unit = self._hessian[trees.output_of_node]
        return np.asarray((rebuilt - 0.5 * self.row_cover.mean()) * unit > (1.0 + _UNIT_TOLERANCE) * trees.cover)

    by_row = "row_cover"
    advice = (
        "Give exactly the training rows, all of them, in their order. A booster keeps neither weights nor what meant "
        "missing, and one from a file no seed or subsample: go on with rfsize.tree_outputs(model, X, y, oob=True, "
        "sample_weight=..., missing=..., seed=..., subsample=...). If several workers trained it, give their "
        "DaskDMatrix, or rfsize.dask.rows(X, layout=...). No bags of base_margin, feature_weights or a GPU."
    )


def _steps(start: int, stop: int) -> NDArray[np.uint64]:
    """The factors by which the generator has multiplied a seed at rows ``start`` to ``stop``, modulo 2⁶⁴."""
    steps = np.full(stop - start, _RNG_MULTIPLIER, dtype=np.uint64)
    steps[0] = pow(_RNG_MULTIPLIER, start + 1, 2**64)
    with np.errstate(over="ignore"):
        return np.cumprod(steps)


# Hessians


def row_hessian(objective: str, margins: NDArray[np.float32], max_delta_step: float) -> Floats:
    """Hessian of a row of unit weight before any tree, by output, NaN where single precision is too coarse.

    NaN too if it does not show where the trees began: it is 1, or differs from row to row.
    """
    if objective not in CONSTANT_HESSIAN or LINKS[objective] == "identity":
        return np.full(margins.shape, np.nan)
    if LINKS[objective] == "exp":
        mean = np.exp(np.clip(margins.astype(np.float64), -80.0, 80.0))
        return np.where(mean > _NEAREST, mean * np.exp(max_delta_step), np.nan)
    # In single precision, as in XGBoost: if p is near 1, then 1 − p is coarse.
    unit, likely = np.float32(1.0), np.exp(margins - margins.max())
    is_softmax = LINKS[objective] == "softmax"
    p = (likely / likely.sum(dtype=np.float64)).astype(np.float32) if is_softmax else unit / (unit + np.exp(-margins))
    hessian = (2.0 if is_softmax else 1.0) * (p * (unit - p)).astype(np.float64)
    return np.where(np.minimum(p, unit - p) > _NEAREST, hessian, np.nan)


def smoothed_cover(objective: str, start: float, label: Floats, weight: Floats) -> Floats:
    """What rows add to the sums of their leaf under absolute and quantile errors, from XGBoost 3.4 on, (n_rows,).

    Up to 3.2 each row adds its weight w. From 3.4 on XGBoost smooths these errors. A row then adds less if its label y
    is further from the ``start``, the prediction before any tree. With r = start − y, and the scale
    S = (Σ w √|r| / Σ w)² of all training rows, it adds

        w · S / √(S² + r²)                                 for reg:absoluteerror,
        w / 0.08 · max(tanh(x)/x, 0.0003), x = r / 0.04 S  for reg:quantileerror.

    See MeanAbsoluteError in src/objective/regression_obj.cu and QuantileRegression in quantile_obj.cu of XGBoost 3.4.
    """
    residual = np.float64(np.float32(start)) - np.asarray(label, dtype=np.float32).astype(np.float64)
    scale = (weight @ np.sqrt(np.abs(residual)) / max(weight.sum(), 1e-300)) ** 2
    if scale == 0.0:  # all labels are base_score, and no tree splits
        return weight
    if objective == "reg:absoluteerror":
        return np.asarray(weight * scale / np.hypot(scale, residual))
    x = residual / (_SMOOTHING * scale)
    ratio = np.divide(np.tanh(x), x, out=np.ones_like(x), where=x != 0.0)
    return np.asarray(weight * 0.5 / _SMOOTHING * np.maximum(ratio, _LEAST_RATIO))


# Seeds


def candidate_seeds(
    seed: int, trees: TreeEnsemble, tree_of: Int64s, settings: dict[str, Any], *, is_from_file: bool
) -> Iterator[NDArray[np.uint64]]:
    """Seeds from which the bags of the booster's trees may have been drawn, the likeliest first.

    Up to XGBoost 3.2 these are outputs 1, 2, 3, … of the twister. From 3.3 on the twister also samples columns, so the
    seeds of bags are further apart. Neither a file nor a pickle says which version trained the model.

    Parameters
    ----------
    seed : int
    trees : TreeEnsemble
    tree_of : ndarray of int64, shape (n_trees, n_outputs)
        Number in the booster of each of its trees.
    settings : dict
        Those of the tree growing, as a booster stores them.
    is_from_file : bool
        Whether these may be lost, as in a file: then all that they can have been are tried.
    """
    for places in _seed_places(_growth(trees, tree_of), settings, is_from_file):
        outputs = np.random.RandomState(seed % 2**32).randint(0, 2**32, size=places[-1] + 1, dtype=np.uint32)
        yield outputs[places].astype(np.uint64)


def _seed_places(growth: _Growth, settings: dict[str, Any], is_from_file: bool) -> Iterator[Int64s]:
    """Which outputs of the twister may have seeded the bags of the trees, the likeliest first."""
    sampled = tuple(float(settings[f"colsample_by{unit}"]) < 1.0 for unit in ("tree", "level", "node"))
    limits_of_settings = int(settings["max_depth"]), int(settings["max_leaves"])
    spaced = _spaced_places(growth, sampled, *limits_of_settings, settings["grow_policy"] == "lossguide")
    in_turn = np.arange(1, len(growth.n_leaves) + 1)
    yield from (in_turn, spaced) if VERSION < (3, 3) else (spaced, in_turn)
    if is_from_file:
        limits = (growth.n_splits.shape[1] - 1, 0), (0, int(growth.n_leaves.max())), (False, True)
        for guess in itertools.product(itertools.product((False, True), repeat=3), *limits):
            yield _spaced_places(growth, *guess)


class _Growth(NamedTuple):
    """How trees grew, to count how often XGBoost sampled columns: once for each node that it tried to split.

    Attributes
    ----------
    n_splits : ndarray of int64, shape (n_trees, depths)
    n_leaves, last_depth : ndarray of int64, shape (n_trees,)
        Number of leaves, and depth of the last split.
    """

    n_splits: Int64s
    n_leaves: Int64s
    last_depth: Int64s


def _growth(trees: TreeEnsemble, tree_of: Int64s) -> _Growth:
    """How the trees grew, in the order of the booster."""
    nodes, tree, start = trees.nodes, trees.tree_of_node, trees.tree_start.ravel()
    depth, level, at = np.zeros(tree.size, dtype=np.int64), 0, start
    while at.size and level <= tree.size:
        depth[at] = level
        parents = at[nodes.left[at] != -1]
        children = np.concatenate([nodes.left[parents], nodes.right[parents]])
        at, level = children + np.tile(start[tree[parents]], 2), level + 1
    is_split, order = nodes.left != -1, np.argsort(tree_of, axis=None)
    n_splits = np.zeros((start.size, level), dtype=np.int64)
    np.add.at(n_splits, (tree[is_split], depth[is_split]), 1)
    # Nodes are numbered in the order of their making, so the last node shows the depth of the last split.
    last_depth = np.maximum(depth[start + nodes.n_nodes - 1] - 1, 0)
    return _Growth(n_splits[order], np.bincount(tree[~is_split])[order], last_depth[order])


def _spaced_places(
    growth: _Growth, sampled: tuple[bool, ...], max_depth: int, max_leaves: int, by_loss: bool
) -> Int64s:
    """The outputs of the twister that seed bags from XGBoost 3.3 on; columns ``sampled`` by tree, level, node."""
    by_tree, by_level, by_node = sampled
    # Splits whose children were tried: not those at the depth limit, and not those of the last step if it made the
    # last allowed leaf.
    tried = growth.n_splits.copy()
    if max_depth > 0:
        tried[:, max_depth - 1 :] = 0
    full = np.flatnonzero(growth.n_leaves == max_leaves)
    last = growth.last_depth[full]
    at_once = 1 if by_loss else (tried[full, last] - 1) % _BATCH + 1
    tried[full, last] -= np.minimum(tried[full, last], at_once)
    draws = 1 + by_tree + by_level * (1 + (tried > 0).sum(axis=1)) + by_node * (1 + 2 * tried.sum(axis=1))
    return np.cumsum(draws) - draws
