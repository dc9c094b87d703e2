"""How LightGBM samples rows and features: draws the bags again from their seed, and finds dependent trees."""

from __future__ import annotations

import copy
import itertools
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s
from rfsize.exceptions import InbagError
from rfsize.models.bags import FRESH_ROWS, LaidOutBags, Layout

_BAGGING_FRACTIONS = ("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction")
FRACTION_NAMES = ("bagging_fraction", "bagging", "sub_row", "subsample")
"""All names of the bagging fraction."""

# Parameters of the feature sampling, and their names in LightGBM's scikit-learn estimators.
_FEATURE_FRACTIONS = {"feature_fraction": "colsample_bytree", "feature_fraction_bynode": "colsample_bynode"}

_RNG_BLOCK = 1024  # rows that share one generator
_RNG_MULTIPLIER, _RNG_INCREMENT = 214013, 2531011
_RNG_LEVELS = 32768  # number of distinct draws

_MOST_FULL = -40.0  # logarithm of the chance that a bag holds all rows, below which no bag does

# LightGBM keeps the parameter lines of a loaded model, and ignores lines without a value. So the name of such a line
# holds the seeds and the numbers of trees of a merged forest: "rfsize_bags 3x100 77x50".
BAGS_NOTE = "rfsize_bags"
_BLOCK = re.compile(r" (-?[0-9]{1,10})x([0-9]{1,9})\b")


def bags_note(blocks: list[tuple[int, int]]) -> str:
    """The note on the blocks in the text of a merged forest."""
    return BAGS_NOTE + "".join(f" {seed}x{trees}" for seed, trees in blocks)


def exact_value(rounded: float, params: dict[str, Any], *names: str) -> float:
    """A number that a model text rounds to six digits, as ``params`` have it under one of the names, if they do."""
    given = (float(params[name]) for name in names if params.get(name) is not None)
    return next((value for value in given if math.isclose(value, rounded, rel_tol=1e-5)), rounded)


def with_exact_fractions(parameters: dict[str, str], params: dict[str, Any]) -> dict[str, str]:
    """The parameters of a model text, with the bagging fractions to the precision of ``params``."""
    exact = dict(parameters)
    for name in parameters.keys() & set(_BAGGING_FRACTIONS):
        aliases = (name.replace("bagging_fraction", alias) for alias in FRACTION_NAMES)
        exact[name] = repr(exact_value(float(parameters[name]), params, *aliases))
    return exact


@dataclass(frozen=True)
class Sampling:
    """What a model says of how LightGBM drew the rows and features of its trees.

    Attributes
    ----------
    parameters : dict from str to str
        Parameters of the training, as the model text has them.
    objective : str
        Name of the objective.
    n_features : int
        Number of features that are not constant.
    trees_per_iteration : int
    bag_sizes : ndarray of float64, shape (n_trees,)
        Number of rows in the bag of each iteration; 0 where its first tree has one leaf, which stores none.
    """

    parameters: dict[str, str]
    objective: str
    n_features: int
    trees_per_iteration: int
    bag_sizes: Floats

    def number(self, name: str) -> float:
        """A numeric parameter; `InbagError` if the model does not say it."""
        try:
            return float(self.parameters[name])
        except (KeyError, ValueError):
            raise InbagError(f"the model does not say {name}, so bags cannot be rebuilt: take {FRESH_ROWS}") from None

    @property
    def is_balanced(self) -> bool:
        """Whether the rows of each of two classes had a fraction of their own."""
        if not self.objective.startswith("binary"):
            return False
        return min(float(self.parameters.get(name, 1)) for name in _BAGGING_FRACTIONS[1:]) < 1.0

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Bagging seed and number of trees of each forest that was merged into this one; truncation keeps the first.

        Raises
        ------
        InbagError
            If the model does not say them, or its note of them is damaged.
        """
        notes = [name for name in self.parameters if name.startswith(BAGS_NOTE)]
        n_trees = len(self.bag_sizes)
        if not notes:
            return [(int(self.number("bagging_seed")), n_trees)]
        blocks, left = [], n_trees
        for seed, trees in _BLOCK.findall(notes[0]):
            blocks.append((int(seed), min(int(trees), left)))
            left -= blocks[-1][1]
        if left:
            raise InbagError(f"the model's note of its bags is damaged, '{notes[0][:80]}': take {FRESH_ROWS}")
        return [(seed, trees) for seed, trees in blocks if trees]


def shared_bags(sampling: Sampling) -> str | None:
    """Why trees share bags; None if they do not."""
    every = int(float(sampling.parameters.get("bagging_freq", 1)))
    if every <= 1 or min(float(sampling.parameters.get(name, 1)) for name in _BAGGING_FRACTIONS) >= 1.0:
        return None
    return f"bagging_freq={every} gives {every} trees the same bag, so T* may be too small: train with bagging_freq=1"


def seed_dependence(sampling: Sampling) -> str | None:
    """Why forests of other seeds predict differently, whatever their size; None if they do not.

    LightGBM has a congruential generator modulo 2³². If it samples k of n features with k > n / log2(k), it uses the
    high bits, which are good. For a smaller k it uses the low bits: the lowest bit alternates 0, 1, 0, 1, … and the
    next has a period of 4. If all trees of one iteration together draw an even number of times, the same tree of every
    iteration begins with the same lowest bit. Throughout the forest it meets some features, and some pairs of features,
    more often than others. The seed decides which ones, so two forests of thousands of trees predict differently.
    """
    n = sampling.n_features
    for name, of_estimators in _FEATURE_FRACTIONS.items():
        fraction = float(sampling.parameters.get(name, 1.0))
        if fraction >= 1.0 or n == 0:
            continue
        drawn = max(int(n * fraction + 0.5), 1)
        if _uses_low_bits(drawn, n) and drawn * sampling.trees_per_iteration % 2 == 0:
            enough = next(k for k in range(drawn, n + 1) if not _uses_low_bits(k, n))
            return (
                f"LightGBM draws {drawn} of {n} features by a generator that repeats itself, so forests of other seeds "
                f"may differ on more rows than alpha allows, whatever their size: train with {name} ({of_estimators}) "
                f"of at least {math.ceil(100.0 * enough / n) / 100.0:g}, where LightGBM draws in another way"
            )
        n = drawn  # nodes sample among the features of their tree
    return None


def _uses_low_bits(k: int, n: int) -> bool:
    return k < n and (k == 1 or k <= n / np.log2(k))


@cache
def _jump(steps: int) -> tuple[np.uint32, np.uint32]:
    """Multiplier and increment that advance the generator by ``steps`` at once, modulo 2³²."""
    # The increment is that of one step times the sum of the powers of the multiplier, which is a quotient.
    multiplier = pow(_RNG_MULTIPLIER, steps, (_RNG_MULTIPLIER - 1) << 32)
    increment = (multiplier - 1) // (_RNG_MULTIPLIER - 1) * _RNG_INCREMENT
    return np.uint32(multiplier % 2**32), np.uint32(increment % 2**32)


class LightGbmBags(LaidOutBags):
    """Bags drawn by LightGBM's bagging strategy.

    Each block of 1024 rows has its own linear congruential generator with the seed ``bagging_seed`` + block. Each
    new bag draws once for every row in order. A row is in the bag if its draw is below the bagging fraction (with
    balanced bagging, the fraction of its class). Each forest in a merged forest has its own seed.

    Parameters
    ----------
    sampling : Sampling
    layout : Layout
        Where the training rows lay.
    levels : int or ndarray of int64, shape (n_rows,)
        Number of the 32,768 draws that put a row in the bag.
    """

    by_row = "levels"
    advice = (
        "Give exactly the training rows, all of them, in the order of training, and y if the bagging is balanced. If "
        "several workers trained the forest, say which rows each of them had: rfsize.dask.rows(X, layout=...). Bags "
        "drawn on a GPU, or with parameters that were changed during training, cannot be rebuilt."
    )

    def __init__(self, sampling: Sampling, layout: Layout, levels: Int64s | int) -> None:
        self.layout = layout
        self.trees_per_bag = int(sampling.number("bagging_freq"))
        self.levels = np.broadcast_to(levels, layout.n_rows)
        self.blocks = sampling.blocks
        self.n_trees = len(sampling.bag_sizes)
        self.first_tree = 0
        self.is_full = self._full_bags()

    def select(self, start: int, stop: int) -> LightGbmBags:
        """The bags of trees ``start`` to ``stop`` of a forest in training, which may not have them yet."""
        bags = copy.copy(self)
        bags.blocks, bags.n_trees = [(self.blocks[0][0], stop)], stop
        bags.is_full = bags._full_bags()[:, start:]
        bags.first_tree, bags.n_trees = start, stop - start
        return bags

    def _full_bags(self) -> Bools:
        """Trees after the first bag in their block that holds all rows of a machine; shape (n_machines, n_trees).

        From there on LightGBM draws no more bags on that machine, and always uses all its rows.
        """
        full = np.zeros((len(self.layout.sizes), self.n_trees), dtype=np.bool_)
        machine_of_row, draws = self.layout.machine_of_row, None
        chance = np.log(np.maximum(np.minimum(self.levels / _RNG_LEVELS, 1.0), 1e-300))
        for machine in np.flatnonzero(np.bincount(machine_of_row, weights=chance) >= _MOST_FULL):
            draws, rows, start = draws or Draws(self, 0, self.n_rows), machine_of_row == machine, 0
            for _, trees in self.blocks:
                block = range(start, start + trees)
                first = next((tree for tree in block if draws.drawn(tree)[rows].all()), start + trees)
                full[machine, first : start + trees] = True
                start += trees
        return full

    def take(self, start: int, stop: int) -> Bools:
        draws = Draws(self, start, stop)
        inbag = draws.of_trees(range(self.first_tree, self.first_tree + self.n_trees))
        for run in self.layout.runs(start, stop):
            inbag[run.rows, self.is_full[run.machine]] = True
        return inbag[:, :, None]

    def have_sizes(self, sizes: dict[int, float]) -> bool:
        """Whether the bags of these trees have the sizes that the model stores."""
        draws = Draws(self, 0, self.n_rows)
        return all(draws.drawn(tree).sum() == size for tree, size in sizes.items() if not self.is_full[:, tree].any())


class Draws:
    """The draws for rows ``start`` to ``stop``, for any tree.

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
        """Masks of the rows drawn for ``trees``, shape (n_rows, n_trees)."""
        inbag = np.empty((len(self._levels), len(trees)), dtype=np.bool_)
        for first, start, stop in self._forests:
            drawn = range(max(trees.start, start), min(trees.stop, stop))
            for rows, rows_of_block in self._parts if drawn else ():
                jumps = [_jump((tree - start) // self._trees_per_bag * rows_of_block) for tree in drawn]
                multiplier, increment = np.array(jumps, dtype=np.uint32).T.copy()
                draws = first[rows], multiplier, increment, self._levels[rows]
                _core.draw_lightgbm(*draws, inbag[rows], drawn.start - trees.start)
        return inbag


def rebuilt_bags(sampling: Sampling, layout: Layout, positive: Bools | None) -> LightGbmBags:
    """The bags of a forest, after a check of their sizes.

    Parameters
    ----------
    sampling : Sampling
    layout : Layout
        Where the training rows lay.
    positive : ndarray of bool, shape (n_rows,), or None
        Training rows of the positive class, for balanced bagging; None if not known.

    Raises
    ------
    InbagError
        If the bags cannot be rebuilt, do not have the stored sizes, or hold all rows.
    """
    refuse_other_sampling(sampling, n_machines=len(layout.sizes))
    # Trees of one leaf store no bag size. A single candidate is checked on three bags, so that wrong rows are refused
    # before any tree is walked. Several candidates differ by single rows, so all bags must decide among them.
    candidates, sizes, n_rows = list(_candidate_levels(sampling, positive)), _stored_sizes(sampling), layout.n_rows
    if sizes and min(sizes.values()) == n_rows:
        raise InbagError(f"every bag holds all {n_rows} rows, so no row is out of bag: take {FRESH_ROWS}")
    checked = dict(list(sizes.items())[: 3 if len(candidates) == 1 else None])
    for levels in candidates:
        bags = LightGbmBags(sampling, layout, levels)
        if bags.have_sizes(checked):
            return bags
    raise InbagError(f"X has {n_rows} rows, whose bags have other sizes than LightGBM stored. {LightGbmBags.advice}")


def leading_bags(sampling: Sampling, n_rows: int) -> LightGbmBags | None:
    """The bags of the first training rows, up to ``n_rows``, if these can be drawn without all rows; None if not.

    A bag draws once for each row of a block of 1024, so that only the last block depends on the number of training
    rows. The sizes of the bags tell this number; where it is large, whole blocks are enough.

    Raises
    ------
    InbagError
        If the bags cannot be rebuilt.
    """
    sizes = _stored_sizes(sampling)
    if sampling.is_balanced or not sizes:
        return None
    refuse_other_sampling(sampling)
    level = next(_levels(sampling, "bagging_fraction"))
    fraction, largest = level / _RNG_LEVELS, int(max(sizes.values()))
    if largest > 4 * _RNG_BLOCK:
        n_whole = min(n_rows, largest // _RNG_BLOCK * _RNG_BLOCK)
        if largest * math.log(fraction) > _MOST_FULL:
            return None
        nothing = np.zeros(1, dtype=np.int64)
        return LightGbmBags(sampling, Layout(np.array([n_whole]), nothing, nothing, np.array([2 * largest])), level)
    likely = float(np.mean(list(sizes.values()))) / fraction
    off = 6.0 * math.sqrt(likely * (1.0 - fraction) / (fraction * len(sizes))) + 1.0
    lengths = range(max(largest, int(likely - off)), int(likely + off) + 1)
    candidates = (
        LightGbmBags(sampling, Layout.alone(n), level) for n in sorted(lengths, key=lambda n: abs(n - likely))
    )
    return next((bags for bags in candidates if bags.have_sizes(sizes)), None)


def _stored_sizes(sampling: Sampling) -> dict[int, float]:
    """The stored number of rows in the bag of each tree."""
    return {tree: size for tree, size in enumerate(sampling.bag_sizes.tolist()) if size}


def refuse_other_sampling(sampling: Sampling, *, n_machines: int = 1) -> None:
    """Raise `InbagError` if the bags cannot be rebuilt, or hold all rows."""
    parameters = sampling.parameters
    others = (("data_sample_strategy", "bagging", "GOSS"), ("bagging_by_query", "0", "whole queries"))
    for name, expected, what in others:
        if (value := parameters.get(name, expected)) != expected:
            raise InbagError(f"bags of {what} ({name}={value}) cannot be rebuilt: take {FRESH_ROWS}")
    trained = parameters.get("num_machines", "1")
    if trained != str(n_machines):
        raise InbagError(f"num_machines={trained}, layout names {n_machines}: give rfsize.dask.rows(X, layout=...)")
    if sampling.number("bagging_freq") < 1 or min(map(sampling.number, _BAGGING_FRACTIONS)) >= 1.0:
        raise InbagError(f"trees saw all rows: train with bagging_freq=1, bagging_fraction=0.632, or take {FRESH_ROWS}")


def _candidate_levels(sampling: Sampling, positive: Bools | None) -> Iterator[Any]:
    """Candidates for the draw below which a row is in the bag; several if the model text is too coarse."""
    if sampling.is_balanced and positive is None:
        raise InbagError("the bagging was balanced (pos_/neg_bagging_fraction), so bags depend on the labels: give y")
    if positive is None or not (sampling.is_balanced and positive.any()):
        yield from _levels(sampling, "bagging_fraction")
        return
    for levels in itertools.product(*(_levels(sampling, name) for name in _BAGGING_FRACTIONS[1:])):
        yield np.where(positive, *levels)


def _levels(sampling: Sampling, name: str) -> Iterator[int]:
    """The possible numbers of draws below a bagging fraction, which the model text rounds to six digits."""
    fraction = sampling.number(name)
    exact = math.ceil(fraction * _RNG_LEVELS)
    yield exact
    if len(sampling.parameters[name].replace(".", "").lstrip("0")) == 6:
        rounding = 0.5 * 10.0 ** (math.floor(math.log10(fraction)) - 5)
        low, high = (math.ceil(bound * _RNG_LEVELS) for bound in (fraction - rounding, fraction + rounding))
        yield from (level for level in range(low, high + 1) if level != exact)
