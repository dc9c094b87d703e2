"""The file from which a search continues: the votes of the forests so far, and what they were trained on.

It is an `Archive`, not compressed, with the arrays of all forests one after another. The first arrays belong to a
probe, a single tree that shows whether the data are the same. The file is written whole after each step.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.trainer import Trainer
from rfsize.utils.archive import Archive, require
from rfsize.utils.typing import Floats
from rfsize.voting.blocks import TreeBlocks
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.scores import Scores
from rfsize.voting.tallied import Tallied

_PROBE = 0.5  # bagging fraction of the probe


class State(NamedTuple):
    """The out-of-bag outputs of one forest, and the seconds that its training took."""

    out_of_bag: Tallied
    seconds: float


class SearchFile:
    """Keeps states by fraction and steps of training; without a path, keeps nothing.

    Parameters
    ----------
    path : Path or None
        File to continue, or to begin.
    trainer, params, seed, groups
        Training data, parameters, seed, and which rows belong together. All must be the same as in the file.

    Raises
    ------
    ValueError
        If the file is damaged, or was written for other parameters, data or another seed.
    """

    def __init__(
        self, path: Path | None, trainer: Trainer, params: dict[str, Any], seed: int | None, groups: Groups = ALONE
    ) -> None:
        self._path = path
        self._states: dict[str, State] = {}
        if path is None:
            return
        if path.is_dir() or not path.parent.is_dir():
            raise ValueError(
                f"resume={str(path)!r}: no file can be written there, because it is a folder, or its folder does not "
                "exist"
            )
        # The file holds no features, so a tree trained again shows whether they are the same.
        probe = trainer.start(fraction=_PROBE, seed=seed)
        probe.add(1)
        self._probe = deepcopy(probe.out_of_bag)
        self._file = _file_of(self._probe)
        self._origin = {
            "framework": trainer.framework,
            "params": json.loads(json.dumps(params, sort_keys=True, default=repr)),
            "seed": seed,
            "labels": _digest(trainer.label),
            "weights": None if trainer.weight is None else _digest(trainer.weight),
            "groups": None if groups.index is None else _digest(groups.index),
        }
        if path.exists():
            self._read(path)

    def get(self, fraction: float, steps: Sequence[int]) -> State | None:
        """The state of a forest that took these numbers of trees one after another; None if unknown."""
        return self._states.get(_key(fraction, steps))

    def put(self, fraction: float, steps: Sequence[int], state: State) -> None:
        """Keep a state, in memory and in the file."""
        if self._path is not None:
            self._states[_key(fraction, steps)] = State(deepcopy(state.out_of_bag), state.seconds)
            self._write(self._path)

    def _write(self, path: Path) -> None:
        forests = [_arrays(self._probe), *(_arrays(state.out_of_bag) for state in self._states.values())]
        arrays = {name: np.concatenate([each[name].ravel() for each in forests], dtype=_TYPES[name]) for name in _TYPES}
        seconds = {key: state.seconds for key, state in self._states.items()}
        self._file.write(path, {**self._origin, "seconds": seconds}, arrays)

    def _read(self, path: Path) -> None:
        with self._file.read(path) as (text, arrays):
            stored = {name: text[name] for name in self._origin}
            keys, seconds = list(text["seconds"]), [_seconds(took) for took in text["seconds"].values()]
            probe, *forests = self._forests([1, *map(_n_trees, keys)], arrays)
        other = [name for name in self._origin if stored[name] != self._origin[name]]
        if not other and not _alike(probe, self._probe):
            other = ["features (a tree grown again came out otherwise)"]
        if other:
            raise ValueError(
                f"{path} was written by a search with other {', '.join(other)}. Give the same again, or another file"
            )
        self._states = dict(zip(keys, map(State, forests, seconds), strict=True))

    def _forests(self, n_trees: list[int], arrays: dict[str, NDArray[Any]]) -> list[Tallied]:
        """Forests with ``n_trees`` trees each, from the arrays of a file."""
        shapes = [like.shape for like in _arrays(self._probe).values()]
        of_all = [arrays[name].reshape(len(n_trees), *shape) for name, shape in zip(_TYPES, shapes, strict=True)]
        return [self._out_of_bag(each, *of_each) for each, *of_each in zip(n_trees, *of_all, strict=True)]

    def _out_of_bag(
        self,
        n_trees: int,
        counts: NDArray[np.int32],
        asked: NDArray[np.int32],
        mean: Floats,
        scatter: Floats,
        *of_blocks: NDArray[Any],
    ) -> Tallied:
        """The out-of-bag outputs of one forest; ``ValueError`` if they contradict each other."""
        votes, total, squares, asked_in_blocks, first = of_blocks
        for trees in (asked, votes, asked_in_blocks):
            require(((trees >= 0) & (trees <= n_trees)).all(), "votes of more trees than were grown")
        require((counts >= 0).all(), "fewer votes than none")
        require(not counts.size or (counts.sum(axis=1, dtype=np.int64) == asked).all(), "votes that no tree cast")
        require(all(np.isfinite(some).all() for some in (mean, scatter, total, squares, first)), "a score without end")
        require((squares >= 0.0).all(), "a square below 0")
        scores, rows = Scores(asked, mean, scatter), _blocks_of(self._probe).rows
        blocks = TreeBlocks(
            rows, counts[rows], scores.take(rows), votes, total, squares, asked_in_blocks, first, n_trees
        )
        return Tallied(counts, scores, blocks)


_OF_ROWS = {"counts": np.int32, "asked": np.int32, "mean": np.float64, "scatter": np.float64}
_IN_BLOCKS = {"votes": np.int32, "total": np.float64, "squares": np.float64, "asked": np.int32, "first": np.float64}
_TYPES: dict[str, Any] = _OF_ROWS | {f"blocks.{name}": kind for name, kind in _IN_BLOCKS.items()}


def _file_of(probe: Tallied) -> Archive:
    """The format of a file with the arrays of several forests on the same data."""
    of_each = {name: array.size for name, array in _arrays(probe).items()}

    def check_sizes(sizes: dict[str, int]) -> None:
        n_forests = sizes["asked"] // of_each["asked"]
        fits = n_forests and all(sizes[name] == n_forests * size for name, size in of_each.items())
        require(fits, "its arrays are not of the size of these data")

    return Archive(
        form="rfsize bagging fraction search",
        version=5,
        arrays={name: (kind,) for name, kind in _TYPES.items()},
        check_sizes=check_sizes,
        error=ValueError,
        refusal=(
            "the search cannot continue from {path}: it is damaged, for other data, or was not written by "
            "select_bagging_fraction ({found}). Give another file, or delete this one"
        ),
        deflated=False,  # it is written often, and scores hardly compress
    )


def _arrays(forest: Tallied) -> dict[str, NDArray[Any]]:
    scores, blocks = forest.scores, _blocks_of(forest)
    of_rows: list[NDArray[Any]] = [forest.counts, scores.asked, scores.mean, scores.scatter]
    in_blocks: list[NDArray[Any]] = [blocks.votes, blocks.total, blocks.squares, blocks.asked, blocks.first]
    return dict(zip(_TYPES, of_rows + in_blocks, strict=True))


def _blocks_of(forest: Tallied) -> TreeBlocks:
    assert forest.blocks is not None
    return forest.blocks


def _key(fraction: float, steps: Sequence[int]) -> str:
    return f"{fraction!r}/{'+'.join(map(str, steps))}"


def _n_trees(key: str) -> int:
    """Number of trees of the forest behind a key; ``ValueError`` if the key is invalid."""
    fraction, steps = key.split("/")
    n_trees = sum(int(step) for step in steps.split("+"))
    require(0.0 < float(fraction) < 1.0 and n_trees >= 1, f"{key!r} is no forest")
    return n_trees


def _seconds(found: Any) -> float:
    seconds = float(found)
    require(math.isfinite(seconds) and seconds >= 0.0, "a forest that took no time")
    return seconds


def _alike(one: Tallied, other: Tallied) -> bool:
    same = np.array_equal(one.counts, other.counts) and np.array_equal(one.scores.asked, other.scores.asked)
    # Threads can add up in another order.
    return same and np.allclose(one.scores.mean, other.scores.mean, rtol=1e-6, atol=1e-9)


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array, dtype=np.float64).tobytes()).hexdigest()
