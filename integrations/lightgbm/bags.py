"""How LightGBM samples rows and features: draws the bags again from their seed, and finds dependent trees."""

from __future__ import annotations

import copy
import itertools
import math
import sys
from functools import cache
from typing import Any, cast

import numpy as np

from rfsize import _core
from rfsize.exceptions import InbagError
from rfsize.integrations.lightgbm.model_text import ForestText
from rfsize.models.bags import FRESH_ROWS, LaidOutBags, Layout
from rfsize.models.leaves import Leaves
from rfsize.models.model import dependence
from rfsize.utils.typing import Bools, Floats, Int64s
from rfsize.utils.warn import Caution

# Parameters of the feature sampling, and their names in LightGBM's scikit-learn estimators.
_WRAPPERS_NAME = {"feature_fraction": "colsample_bytree", "feature_fraction_bynode": "colsample_bynode"}

_RNG_BLOCK = 1024  # rows that share one generator
_RNG_MULTIPLIER, _RNG_INCREMENT = 214013, 2531011
_RNG_LEVELS = 32768  # number of distinct draws

_MOST_FULL = -40.0  # logarithm of the chance that a bag holds all rows, below which no bag does


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
    """Why trees share bags; None if they do not."""
    every = int(float(forest.parameters.get("bagging_freq", 1)))
    fractions = (float(forest.parameters.get(f"{kind}bagging_fraction", 1)) for kind in ("", "pos_", "neg_"))
    if every <= 1 or min(fractions) >= 1.0:
        return None
    return (
        f"bagging_freq={every} gives {every} consecutive trees the same bag, so their votes are not independent and T* "
        "may be too small; train with bagging_freq=1"
    )


def seed_dependence(forest: ForestText) -> str | None:
    """Why forests of other seeds predict differently, whatever their size; None if they do not.

    LightGBM has a congruential generator modulo 2³². If it samples k of n features with k > n / log2(k), it uses the
    high bits, which are good. For a smaller k it uses the low bits: the lowest bit alternates 0, 1, 0, 1, … and the
    next has a period of 4. If all trees of one iteration together draw an even number of times, the same tree of every
    iteration begins with the same lowest bit. Throughout the forest it meets some features, and some pairs of features,
    more often than others. The seed decides which ones, so two forests of thousands of trees predict differently.
    """
    n = sum(kind != "none" for kind in forest.header.get("feature_infos", "").split(" "))
    for name in _WRAPPERS_NAME:
        fraction = float(forest.parameters.get(name, 1.0))
        if fraction >= 1.0 or n == 0:
            continue
        drawn = max(int(n * fraction + 0.5), 1)
        if _uses_low_bits(drawn, n) and drawn * forest.n_outputs % 2 == 0:
            enough = next(k for k in range(drawn, n + 1) if not _uses_low_bits(k, n))
            return (
                f"LightGBM draws {drawn} of {n} features by a generator that repeats itself, so its seed decides which "
                "features the trees use. A forest of another seed may differ on more rows than alpha allows, whatever "
                f"its size: train with {name} ({_WRAPPERS_NAME[name]}) of at least "
                f"{math.ceil(100.0 * enough / n) / 100.0:g}, where LightGBM draws in another way"
            )
        n = drawn  # nodes sample among the features of their tree
    return None


def _uses_low_bits(k: int, n: int) -> bool:
    return k < n and (k == 1 or k <= n / np.log2(k))


def cautions(forest: ForestText) -> tuple[Caution, ...]:
    """Warnings about trees that are not independent draws."""
    return dependence(shared_bags(forest), seed_dependence(forest))


class LightGbmBags(LaidOutBags):
    """Bags drawn by LightGBM's bagging strategy.

    Each block of 1024 rows has its own linear congruential generator with the seed ``bagging_seed`` + block. Each
    new bag draws once for every row in order. A row is in the bag if its draw is below the bagging fraction (with
    balanced bagging, the fraction of its class). Each forest in a merged forest has its own seed.
    """

    def __init__(self, forest: ForestText, layout: Layout, levels: Int64s | int) -> None:
        self.layout = layout
        self.trees_per_bag = int(forest.number("bagging_freq"))
        self.levels = np.broadcast_to(levels, layout.n_rows)
        self.blocks = forest.blocks()
        self.n_members = sum(trees for _, trees in self.blocks)
        self.first_member = 0
        self.is_full = self._full_bags()

    def select(self, start: int, stop: int) -> LightGbmBags:
        """The bags of members ``start`` to ``stop`` of a forest in training, which may not have them yet."""
        bags = copy.copy(self)
        (seed, _), bags.n_members = self.blocks[0], stop
        bags.blocks = [(seed, stop)]
        bags.is_full = bags._full_bags()[:, start:]
        bags.first_member, bags.n_members = start, stop - start
        return bags

    def _full_bags(self) -> Bools:
        """Trees after the first bag in their block that holds all rows of a machine; shape (n_machines, n_members).

        From there on LightGBM draws no more bags on that machine, and always uses all its rows.
        """
        full = np.zeros((len(self.layout.sizes), self.n_members), dtype=np.bool_)
        machine_of_row = self.layout.machine_of_row
        chance = np.log(np.maximum(np.minimum(self.levels / _RNG_LEVELS, 1.0), 1e-300))
        for machine in np.flatnonzero(np.bincount(machine_of_row, weights=chance) >= _MOST_FULL):
            alone = copy.copy(self)
            alone.layout, alone.levels = self.layout.only(int(machine)), self.levels[machine_of_row == machine]
            draws = Draws(alone, 0, alone.n_rows)
            start = 0
            for _, trees in self.blocks:
                block = range(start, start + trees)
                first = next((tree for tree in block if draws.drawn(tree).all()), start + trees)
                full[machine, first : start + trees] = True
                start += trees
        return full

    def part(self, start: int, stop: int) -> LightGbmBags:
        part = cast(LightGbmBags, super().part(start, stop))
        part.levels = self.levels[start:stop]
        return part

    def take(self, start: int, stop: int) -> Bools:
        draws = Draws(self, start, stop)
        inbag = draws.of_trees(range(self.first_member, self.first_member + self.n_members))
        for run in self.layout.runs(start, stop):
            inbag[run.rows, self.is_full[run.machine]] = True
        return inbag[:, :, None]

    def row_mass(self, start: int, stop: int) -> Floats:
        return np.ones((stop - start, 1, 1))

    def contradicted(self, leaves: Leaves, rebuilt: Floats) -> Bools:
        return np.asarray(rebuilt != leaves.mass)

    @property
    def advice(self) -> str:
        return (
            "Give exactly the training rows, all of them, in the order of training, and y if the bagging is "
            "balanced. If several workers trained the forest, say which rows each of them had: "
            "rfsize.dask.rows(X, layout=...). Bags drawn on a GPU, or with parameters that were "
            "changed during training, cannot be rebuilt."
        )


class Draws:
    """The draws for some of the rows, for any tree.

    While a forest is in training, its last block can be drawn beyond its trees.
    """

    def __init__(self, bags: LightGbmBags, start: int, stop: int) -> None:
        runs = list(bags.layout.runs(start, stop))
        number = np.concatenate([np.arange(run.first, run.stop) for run in runs])
        block, place = np.divmod(number, _RNG_BLOCK)
        multiplier, increment = np.array([_jump(steps) for steps in range(_RNG_BLOCK + 1)], dtype=np.uint32).T
        first = [
            ((seed + block) % 2**32).astype(np.uint32) * multiplier[place + 1] + increment[place + 1]
            for seed, _ in bags.blocks
        ]
        ends = [*itertools.accumulate(trees for _, trees in bags.blocks[:-1]), sys.maxsize]
        self._forests = list(zip(first, [0, *ends[:-1]], ends, strict=True))
        self._levels = np.ascontiguousarray(bags.levels[start:stop])
        self._trees_per_bag = bags.trees_per_bag
        # A block draws once for each of its rows. The last block of each machine has fewer rows.
        self._parts: list[tuple[slice, int]] = []
        for run in runs:
            n_rows = int(bags.layout.sizes[run.machine])
            last_block = (n_rows - 1) // _RNG_BLOCK * _RNG_BLOCK
            cut = run.rows.start + min(max(last_block - run.first, 0), run.stop - run.first)
            parts = (slice(run.rows.start, cut), _RNG_BLOCK), (slice(cut, run.rows.stop), n_rows - last_block)
            self._parts += [(rows, length) for rows, length in parts if rows.start < rows.stop]

    def drawn(self, tree: int) -> Bools:
        """Mask of the rows drawn for ``tree``."""
        return self.of_trees(range(tree, tree + 1))[:, 0]

    def of_trees(self, trees: range) -> Bools:
        """Masks of the rows drawn for some trees, shape (n_rows, n_trees)."""
        inbag = np.empty((len(self._levels), len(trees)), dtype=np.bool_)
        for first, start, stop in self._forests:
            some = range(max(trees.start, start), min(trees.stop, stop))
            for rows, rows_of_block in self._parts if some else ():
                jumps = [_jump((tree - start) // self._trees_per_bag * rows_of_block) for tree in some]
                multiplier, increment = np.array(jumps, dtype=np.uint32).T.copy()
                place = rows.start, some.start - trees.start
                _core.draw_lightgbm(first[rows], multiplier, increment, self._levels[rows], inbag, *place)
        return inbag


def rebuilt_bags(forest: ForestText, layout: Layout, positive: Bools | None) -> LightGbmBags:
    """The bags of a forest, after a check of their sizes."""
    refuse_other_samplers(forest.parameters, n_machines=len(layout.sizes))
    n_rows = layout.n_rows
    _refuse_no_bagging(forest)
    candidates = _candidate_levels(forest, positive)
    # Trees of one leaf store no bag size. A single candidate is checked on three bags, so that wrong rows are refused
    # before any tree is walked. Several candidates differ by single rows, so all bags must decide among them.
    sizes = _stored_sizes(forest)
    if sizes and min(sizes.values()) == n_rows:
        raise InbagError(f"every bag holds all {n_rows} rows, so no row is out of bag; take {FRESH_ROWS}")
    checked = dict(list(sizes.items())[: 3 if len(candidates) == 1 else None])
    for levels in candidates:
        bags = LightGbmBags(forest, layout, levels)
        if _have_sizes(bags, checked):
            return bags
    raise InbagError(
        f"X has {n_rows} rows, and the bags rebuilt for them do not have the sizes that LightGBM stored (the first "
        f"holds {next(iter(checked.values())):.0f} rows). {bags.advice} Otherwise take {FRESH_ROWS}"
    )


def leading_bags(forest: ForestText, n_rows: int) -> LightGbmBags | None:
    """The bags of the first training rows, up to ``n_rows``, if these can be drawn without all rows; None if not.

    A bag draws once for each row of a block of 1024, so that only the last block depends on the number of training
    rows. The sizes of the bags tell this number; where it is large, whole blocks are enough.
    """
    try:
        refuse_other_samplers(forest.parameters)
        _refuse_no_bagging(forest)
        level = _levels(forest, "bagging_fraction")[0]
    except InbagError:
        return None
    sizes = _stored_sizes(forest)
    balanced = min(float(forest.parameters.get(f"{kind}_bagging_fraction", 1.0)) for kind in ("pos", "neg")) < 1.0
    if balanced or not sizes:
        return None
    fraction, largest = level / _RNG_LEVELS, int(max(sizes.values()))
    if largest > 4 * _RNG_BLOCK:
        n_whole = min(n_rows, largest // _RNG_BLOCK * _RNG_BLOCK)
        if largest * math.log(fraction) > _MOST_FULL:
            return None
        nothing = np.zeros(1, dtype=np.int64)
        return LightGbmBags(forest, Layout(np.array([n_whole]), nothing, nothing, np.array([2 * largest])), level)
    likely = float(np.mean(list(sizes.values()))) / fraction
    off = 6.0 * math.sqrt(likely * (1.0 - fraction) / (fraction * len(sizes))) + 1.0
    for n_trained in sorted(
        range(max(largest, int(likely - off)), int(likely + off) + 1), key=lambda n: abs(n - likely)
    ):
        bags = LightGbmBags(forest, Layout.alone(n_trained), level)
        if _have_sizes(bags, sizes):
            return bags
    return None


def _stored_sizes(forest: ForestText) -> dict[int, float]:
    """The number of rows in the bag of each member, as far as it is stored: trees of one leaf store none."""
    counts = enumerate(forest.leaf_count[:: forest.n_outputs])
    return {tree: float(count.sum()) for tree, count in counts if count.size > 1}


def _have_sizes(bags: LightGbmBags, sizes: dict[int, float]) -> bool:
    """Whether the bags of some members have the stored sizes."""
    draws = Draws(bags, 0, bags.n_rows)
    return all(draws.drawn(tree).sum() == size for tree, size in sizes.items() if not bags.is_full[:, tree].any())


def refuse_other_samplers(parameters: dict[str, str], *, n_machines: int = 1) -> None:
    """Raise `InbagError` if the parameters of a model text name a sampler whose bags cannot be rebuilt."""
    other = {
        "data_sample_strategy": ("bagging", "rows were sampled by gradient (GOSS)"),
        "bagging_by_query": ("0", "whole queries were sampled"),
    }
    for name, (expected, what) in other.items():
        if parameters.get(name, expected) != expected:
            raise InbagError(f"{what} ({name}={parameters[name]}), and such bags cannot be rebuilt; take {FRESH_ROWS}")
    _refuse_other_machines(parameters, n_machines)


def _refuse_other_machines(parameters: dict[str, str], n_machines: int) -> None:
    """Raise `InbagError` if the layout of the rows names another number of machines than trained the forest."""
    learner, trained = parameters.get("tree_learner", "serial"), parameters.get("num_machines", "1")
    if trained == str(n_machines) and (learner == "serial") == (n_machines == 1):
        return
    if (trained, learner) == ("1", "serial"):
        raise InbagError(
            f"one machine trained the forest, and layout names {n_machines} that held rows: leave layout out, and "
            "give the training rows in their order"
        )
    raise InbagError(
        f"the forest was trained by several machines (tree_learner={learner}, num_machines={trained}), each with "
        f"bags of its own rows, and X is laid out for {n_machines}: name the partitions of each machine, "
        f"rfsize.dask.rows(X, layout=...); or take {FRESH_ROWS}"
    )


def _refuse_no_bagging(forest: ForestText) -> None:
    fractions = [forest.number(f"{kind}bagging_fraction") for kind in ("", "pos_", "neg_")]
    if forest.number("bagging_freq") < 1 or min(fractions) >= 1.0:
        raise InbagError(
            "the forest was trained without bagging (bagging_fraction=1 or bagging_freq=0), so no row is out of bag; "
            f"train with bagging_fraction=0.632 and bagging_freq=1, or take {FRESH_ROWS}"
        )


def _candidate_levels(forest: ForestText, positive: Bools | None) -> list[Any]:
    """Candidates for the draw below which a row is in the bag; several if the model text is too coarse."""
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
    """The possible numbers of draws below a bagging fraction, which the model text rounds to six digits."""
    fraction = forest.number(name)
    exact = math.ceil(fraction * _RNG_LEVELS)
    if len(forest.parameters[name].replace(".", "").lstrip("0")) != 6:
        return [exact]
    rounding = 0.5 * 10.0 ** (math.floor(math.log10(fraction)) - 5)
    low, high = (math.ceil(bound * _RNG_LEVELS) for bound in (fraction - rounding, fraction + rounding))
    return [exact, *(level for level in range(low, high + 1) if level != exact)]
