"""The bags of XGBoost's parallel trees: the seeds that drew them, and what a booster stores about them."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from rfsize import _core
from rfsize.exceptions import InbagError
from rfsize.integrations.xgboost.model_json import VERSION
from rfsize.models.bags import LaidOutBags, Layout
from rfsize.models.leaves import Leaves
from rfsize.utils.matrix import CELLS_PER_BLOCK
from rfsize.utils.typing import Bools, Floats, Int64s
from rfsize.utils.validation import share

_RNG_MULTIPLIER = 16807

# The left and the right child of each node of a tree, -1 at leaves.
Children = tuple[Int64s, Int64s]

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


# The bags of a forest differ from their expected size by at most this many standard deviations.
_DEVIATIONS = 4.5
# Likely values of subsample; 0.632 is the share of a bootstrap sample.
_ROUND_SHARES = (*(part / 100 for part in range(1, 100)), 0.632)


class DrawnBags(NamedTuple):
    """How the bags of a model's trees were drawn.

    Attributes
    ----------
    subsample : float
        Share of the rows.
    tree_seed : ndarray of uint64, shape (n_trees,)
        Seed of the bag of each tree, in the order of the model's trees.
    """

    subsample: float
    tree_seed: NDArray[np.uint64]


def remember(booster: xgb.Booster, drawn: DrawnBags) -> None:
    """Store how the bags were drawn as an attribute of the booster. Files keep attributes, but no settings."""
    booster.set_attr(**{_ATTRIBUTE: json.dumps({"subsample": drawn.subsample, "seeds": drawn.tree_seed.tolist()})})


def forget(booster: xgb.Booster) -> None:
    """Remove the attribute that `remember` wrote."""
    booster.set_attr(**{_ATTRIBUTE: None})


def remembered(booster: xgb.Booster, n_trees: int) -> DrawnBags | None:
    """Read the attribute that `remember` wrote; None if there is none.

    Raises
    ------
    InbagError
        If the attribute is damaged. It comes with the file, and a file can come from anyone.
    """
    try:
        text = booster.attr(_ATTRIBUTE)
        if text is None:
            return None
        stored = json.loads(text)
        subsample, seeds = share("subsample", stored["subsample"]), stored["seeds"]
        if not isinstance(seeds, list) or len(seeds) != n_trees:
            raise ValueError(f"there is not one seed for each of {n_trees} trees")
        if not all(type(seed) is int and 0 <= seed < 2**32 for seed in seeds):
            raise ValueError("a seed is no whole number of 32 bits")
    except (ValueError, TypeError, KeyError, RecursionError, AssertionError) as error:
        raise InbagError(
            f"the booster's attribute {_ATTRIBUTE!r}, which tells how its bags were drawn, is damaged ({error}); "
            f"remove it by set_attr({_ATTRIBUTE}=None), or go on with rfsize.tree_outputs(model, X, y, oob=True, "
            "seed=..., subsample=...)"
        ) from error
    return DrawnBags(subsample, np.array(seeds, dtype=np.uint64))


class XgboostBags(LaidOutBags):
    """Bags drawn by XGBoost's histogram updater with uniform sampling on the CPU.

    The Mersenne twister of the booster's seed gives one seed per tree. From this seed a multiplicative congruential
    generator modulo 2⁶³ draws once for every row in order. A row is in the bag if its draw is below ``subsample``.

    Parameters
    ----------
    layout : Layout
        The machines on which the training rows lay.
    tree_of : ndarray of int64, shape (n_members, n_outputs)
        Trees of the booster that make up each member.
    drawn : DrawnBags
        How the bags were drawn.
    mass : ndarray of float64, shape (n_rows,)
        Weights of the rows.
    hessian : ndarray of float64, shape (n_outputs,)
        Hessian of a row of unit weight by the booster's base_score; NaN if unknown.
    """

    def __init__(self, layout: Layout, tree_of: Int64s, drawn: DrawnBags, mass: Floats, hessian: Floats) -> None:
        self.layout = layout
        self.drawn = drawn
        self._hessian = hessian
        self._tree_of = tree_of
        self._level = float(np.float32(drawn.subsample)) * 2.0**63
        self._mass = mass

    def take(self, start: int, stop: int) -> Bools:
        return self._inbag(start, stop, self.drawn.tree_seed[self._tree_of.ravel()]).reshape(-1, *self._tree_of.shape)

    def _inbag(self, start: int, stop: int, tree_seed: NDArray[np.uint64]) -> Bools:
        """Mask of rows ``start`` to ``stop``, shape (rows, seeds)."""
        steps, inbag = self._steps(start, stop), np.empty((stop - start, tree_seed.size), dtype=np.bool_)
        _core.draw_xgboost(steps, tree_seed, self._level, inbag)
        return inbag

    def _steps(self, start: int, stop: int) -> NDArray[np.uint64]:
        """The factor by which each row multiplies a seed, by the number of the row on its machine."""
        return np.concatenate([_steps(run.first, run.stop) for run in self.layout.runs(start, stop)])

    def part(self, start: int, stop: int) -> XgboostBags:
        part = cast(XgboostBags, super().part(start, stop))
        part._mass = self._mass[start:stop]
        return part

    def sizes_fit(self, stored: Floats) -> bool:
        """Whether the sizes of some bags are in proportion to the hessians at the roots of their trees.

        This is not the proof, but a quick look at a few trees of each class, to choose among the possible seeds. With
        more rows, fewer trees are enough, and memory holds fewer.
        """
        few = min(len(self._tree_of), 32, max(3, CELLS_PER_BLOCK // self.n_rows))
        for trees in self._tree_of.T:
            some = np.unique(trees[[*range(few), -1]])
            sizes = self._mass @ self._inbag(0, self.n_rows, self.drawn.tree_seed[some])
            ratio = stored[some] / np.maximum(sizes, 1e-300)
            if np.ptp(ratio) > 1e-4 * ratio.mean():
                return False
        return True

    def row_mass(self, start: int, stop: int) -> Floats:
        return self._mass[start:stop, None, None]

    def contradicted(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        # The hessian of a row of unit weight is the same in a class, whatever its value.
        group_of_tree = np.arange(leaves.offset.size) % leaves.offset.shape[1]
        group = group_of_tree[leaves.tree_of_leaf()]
        stored = np.where(leaves.provable, leaves.mass, 0.0)
        unit = np.bincount(group, weights=stored) / np.maximum(
            np.bincount(group, weights=np.where(leaves.provable, rebuilt, 0.0)), 1e-300
        )
        expected = rebuilt * unit[group]
        tolerance = _RELATIVE_TOLERANCE * np.abs(expected) + _ROW_TOLERANCE * unit[group] * self._mass.mean()
        # With nearly empty bags, unit and tolerance can be anything. But a leaf with a stored sum saw at least one row.
        unseen = (rebuilt == 0.0) & (leaves.mass > _OF_NO_WEIGHT * leaves.mass.max(initial=0.0))
        wrong = np.asarray((np.abs(expected - leaves.mass) > tolerance) | unseen)
        if not (wrong & leaves.provable).any():
            self._refuse_other_hessians(unit)
        return wrong

    def exceeded(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        unit = self._hessian[leaves.tree_of_leaf() % leaves.offset.shape[1]]
        return np.asarray((rebuilt - 0.5 * self._mass.mean()) * unit > (1.0 + _UNIT_TOLERANCE) * leaves.mass)

    def _refuse_other_hessians(self, unit: Floats) -> None:
        """Raise `InbagError` if the bags are proven, but the hessian of their rows does not fit base_score."""
        ratio = unit / self._hessian
        # Skips NaN, and outputs whose trees prove nothing.
        off = ratio[(unit > 0.0) & (np.abs(ratio - 1.0) > _UNIT_TOLERANCE)]
        if off.size:
            raise InbagError(
                f"the bags of the forest are as rebuilt, but each row in them has {off[0]:.4g} times the hessian "
                "that the booster's base_score gives it. Either the rows had weights at training: go on with "
                "rfsize.tree_outputs(model, X, y, oob=True, sample_weight=...). Or they had a base_margin, which "
                "predict does not know: train without it, and give a constant one as base_score"
            )

    @property
    def advice(self) -> str:
        return (
            "Give exactly the training rows, all of them, in the order of training. A booster keeps neither weights "
            "nor what meant missing, and one from a file neither seed nor subsample: go on with "
            "rfsize.tree_outputs(model, X, y, oob=True, sample_weight=..., missing=..., seed=..., subsample=...), "
            "with what the training had. If several workers trained it, give the DaskDMatrix of the training as X, "
            "or rfsize.dask.rows(X, layout=...). Bags cannot be rebuilt with base_margin, feature_weights or "
            "seed_per_iteration, or drawn on a GPU, or by tree_method='exact'."
        )


def _steps(start: int, stop: int) -> NDArray[np.uint64]:
    """The factors by which the generator has multiplied a seed at rows ``start`` to ``stop``, modulo 2⁶⁴."""
    steps = np.full(stop - start, _RNG_MULTIPLIER, dtype=np.uint64)
    steps[0] = pow(_RNG_MULTIPLIER, start + 1, 2**64)
    with np.errstate(over="ignore"):
        return np.cumprod(steps)


def possible_seeds(
    seed: int, trees: list[Children], parameters: dict[str, Any], *, forgotten: bool
) -> Iterator[NDArray[np.uint64]]:
    """Seeds from which the bags of the trees may have been drawn, the likeliest first."""
    for places in _places(trees, parameters, forgotten=forgotten):
        outputs = np.random.RandomState(seed % 2**32).randint(0, 2**32, size=places[-1] + 1, dtype=np.uint32)
        yield outputs[places].astype(np.uint64)


def _places(trees: list[Children], parameters: dict[str, Any], *, forgotten: bool) -> Iterator[Int64s]:
    """Which outputs of the twister may have seeded the bags of the trees, the likeliest first.

    Up to XGBoost 3.2 these are outputs 1, 2, 3, … From 3.3 on the twister also samples columns, so the seeds of bags
    are further apart. A model from a file has ``forgotten`` the sampling of columns and the limits of trees. Neither a
    file nor a pickle says which version trained the model.
    """
    growth = _Growth(trees)
    sampled = tuple(float(parameters[f"colsample_by{unit}"]) < 1.0 for unit in ("tree", "level", "node"))
    limits = {name: int(parameters[name]) for name in ("max_depth", "max_leaves")}
    spaced = growth.seed_places(sampled, **limits, by_loss=parameters["grow_policy"] == "lossguide")
    in_turn = np.arange(1, len(trees) + 1)
    yield from (in_turn, spaced) if VERSION < (3, 3) else (spaced, in_turn)
    if forgotten:
        depths, leaves, policies = (growth.deepest, 0), (0, growth.most_leaves), (False, True)
        for choice in itertools.product(itertools.product((False, True), repeat=3), depths, leaves, policies):
            guessed, max_depth, max_leaves, by_loss = choice
            yield growth.seed_places(guessed, max_depth=max_depth, max_leaves=max_leaves, by_loss=by_loss)


class _Growth:
    """Counts how often XGBoost sampled columns for each tree: once for each node that it tried to split."""

    def __init__(self, trees: list[Children]) -> None:
        depths = [_depths(tree) for tree in trees]
        splits = [depth[left != -1] for depth, (left, _) in zip(depths, trees, strict=True)]
        self.deepest = max(int(depth.max()) for depth in depths)
        self._splits = np.array([np.bincount(depth, minlength=self.deepest + 1) for depth in splits])
        self._leaves = np.array([np.sum(left == -1) for left, _ in trees])
        self.most_leaves = int(self._leaves.max())
        # Nodes are numbered in the order of their making, so the last node shows the depth of the last split.
        self._last_depth = np.array([max(int(depth[-1]) - 1, 0) for depth in depths])

    def seed_places(self, sampled: tuple[bool, ...], *, max_depth: int, max_leaves: int, by_loss: bool) -> Int64s:
        """The outputs of the twister that seed the bags of the trees, from XGBoost 3.3 on."""
        by_tree, by_level, by_node = sampled
        # Splits whose children were tried: not those at the depth limit, and not those of the last step if it made the
        # last allowed leaf.
        tried = self._splits.copy()
        if max_depth > 0:
            tried[:, max_depth - 1 :] = 0
        full = np.flatnonzero(self._leaves == max_leaves)
        last = self._last_depth[full]
        tried[full, last] -= np.minimum(tried[full, last], 1 if by_loss else (tried[full, last] - 1) % _BATCH + 1)
        draws = 1 + by_tree + by_level * (1 + (tried > 0).sum(axis=1)) + by_node * (1 + 2 * tried.sum(axis=1))
        return np.cumsum(draws) - draws


def _depths(tree: Children) -> Int64s:
    """Depth of each node, from the root down."""
    left, right = tree
    depth = np.zeros(left.size, dtype=np.int64)
    nodes, level = np.zeros(1, dtype=np.int64), 0
    while nodes.size and level <= left.size:
        depth[nodes] = level
        parents = nodes[left[nodes] != -1]
        nodes, level = np.concatenate([left[parents], right[parents]]), level + 1
    return depth


def can_be_of(n_rows: int, sizes: Floats, subsample: float) -> bool:
    """Whether bags of these sizes can have been drawn from this number of rows.

    True if no size is known: there are only trees of one leaf, or sizes are NaN.
    """
    if not sizes.size:
        return True
    deviation = math.sqrt(n_rows * (1.0 / subsample - 1.0) / sizes.size)
    # XGBoost puts two rows in every bag.
    return not abs(sizes.mean() / subsample - n_rows) > _DEVIATIONS * deviation + 2


def round_shares(n_rows: int, sizes: Floats) -> list[float]:
    """Round values of subsample that fit the sizes of the bags; empty if no size is known."""
    if not sizes.size:
        return []
    drawn = float(sizes.mean()) / n_rows
    deviation = math.sqrt(max(drawn * (1.0 - drawn), 0.0) / (n_rows * sizes.size))
    return [part for part in _ROUND_SHARES if abs(drawn - part) < _DEVIATIONS * deviation]
