"""The file by which a search is taken up again: what the trees grown so far say, and of what they were grown.

A zip archive without compression, of one JSON text and the raw bytes of arrays whose sizes are known beforehand:
nothing in it is unpickled, and nothing is read that does not have its size. The text holds a digest of each array, and
one of itself, so that no altered number is taken up. It is written whole after each step.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.trainer import Trainer
from rfsize.utils.files import member_of, written_whole
from rfsize.voting.blocks import TreeBlocks
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.out_of_bag import OutOfBag
from rfsize.voting.scores import Scores

_FORMAT, _VERSION = "rfsize bagging fraction search", 4
_WITHOUT_DIGESTS, _WITHOUT_BLOCKS, _WITHOUT_FIRST = 1, 2, 3  # versions before, which are still read
_TEXT = "search.json"
_LARGEST_TEXT = 10_000_000  # bytes
_PROBE = 0.5  # fraction of the tree by which data are told apart


class State(NamedTuple):
    """What the trees of one forest say of the rows that they did not see, and the seconds that it took to grow them."""

    out_of_bag: OutOfBag
    seconds: float


class SearchFile:
    """States by fraction and steps of growth; without a path, none are kept.

    Parameters
    ----------
    path : Path or None
        File to take up, or to begin.
    trainer, params, seed, groups
        What the forests are grown of, and from, and which rows belong together.

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
            raise ValueError(f"resume={str(path)!r} is no file that can be written: it is a folder, or in none")
        # One tree tells other features apart, for which nothing else stands here.
        probe = trainer.start(fraction=_PROBE, seed=seed)
        probe.add(1)
        self._probe = deepcopy(probe.out_of_bag)
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
        """What is known of a forest grown by these numbers of trees, one after another."""
        return self._states.get(_key(fraction, steps))

    def put(self, fraction: float, steps: Sequence[int], state: State) -> None:
        """Keep it, in the file too."""
        if self._path is not None:
            out_of_bag = deepcopy(state.out_of_bag)
            if self._probe.blocks is None:
                out_of_bag = replace(out_of_bag, blocks=None)
            self._states[_key(fraction, steps)] = State(out_of_bag, state.seconds)
            self._write(self._path)

    def _write(self, path: Path) -> None:
        seconds = {key: state.seconds for key, state in self._states.items()}
        sums = {"probe": self._probe, **{key: state.out_of_bag for key, state in self._states.items()}}
        arrays = {
            f"{key}/{name}": array.astype(_STORED[name])
            for key, of_key in sums.items()
            for name, array in _arrays(of_key).items()
        }
        digests = {name: _digest_of(array.tobytes()) for name, array in arrays.items()}
        # A file that was begun without blocks, or without their first trees, is gone on with without them.
        version = _WITHOUT_BLOCKS if self._probe.blocks is None else _VERSION
        text = {"format": _FORMAT, "version": version, **self._origin, "seconds": seconds, "digests": digests}
        with written_whole(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_TEXT, json.dumps({**text, "checksum": _checksum(text)}))
            for name, array in arrays.items():
                archive.writestr(name, array.tobytes())

    def _read(self, path: Path) -> None:
        file = path.open("rb")  # where that fails, the file is not to blame
        try:
            with file, zipfile.ZipFile(file) as archive:
                text = json.loads(member_of(archive, _TEXT, at_most=_LARGEST_TEXT))
                digests = _checked_digests(text)
                if text["version"] != _VERSION:
                    self._probe = replace(self._probe, blocks=None)
                seconds = {str(key): float(value) for key, value in text["seconds"].items()}
                probe = self._sums(archive, "probe", 1, digests)
                states = {key: self._state(archive, key, value, digests) for key, value in seconds.items()}
        except _DAMAGE as error:
            raise ValueError(
                f"{path} cannot be taken up: it is damaged, for other data, or was not written by "
                f"select_bagging_fraction ({error}). Give another file, or delete this one"
            ) from error
        other = [name for name in self._origin if text.get(name) != self._origin[name]]
        if not other and not _alike(probe, self._probe):
            other = ["features (a tree grown again came out otherwise)"]
        if other:
            raise ValueError(
                f"{path} was written by a search with other {', '.join(other)}. Give what it was begun with, or "
                "another file"
            )
        self._states = states

    def _state(self, archive: zipfile.ZipFile, key: str, seconds: float, digests: dict[str, str] | None) -> State:
        fraction, steps = key.split("/")
        n_trees = sum(int(step) for step in steps.split("+"))
        if not (0.0 < float(fraction) < 1.0 and n_trees >= 1 and math.isfinite(seconds) and seconds >= 0.0):
            raise ValueError(f"{key!r} is no forest")
        return State(self._sums(archive, key, n_trees, digests), seconds)

    def _sums(self, archive: zipfile.ZipFile, key: str, n_trees: int, digests: dict[str, str] | None) -> OutOfBag:
        found: dict[str, NDArray[Any]] = {}
        for name, like in _arrays(self._probe).items():
            shape, dtype = like.shape, _STORED[name]
            size = math.prod(shape) * np.dtype(dtype).itemsize
            content = member_of(archive, f"{key}/{name}", at_most=size)
            if digests is not None and _digest_of(content) != digests[f"{key}/{name}"]:
                raise ValueError(f"the digest of {key}/{name} does not fit its content")
            found[name] = np.frombuffer(content, dtype).reshape(shape)
        asked, counts = found["asked"], found["counts"]
        fits = (asked >= 0).all() and (asked <= n_trees).all()
        fits = fits and np.isfinite(found["mean"]).all() and np.isfinite(found["scatter"]).all()
        if counts.shape[1]:
            fits = fits and (counts >= 0).all() and (counts.sum(axis=1, dtype=np.int64) == asked).all()
        if not fits:
            raise ValueError(f"the votes of {key!r} contradict themselves")
        scores = Scores(asked, found["mean"], found["scatter"])
        return OutOfBag(counts, scores, self._blocks(counts, scores, n_trees, found))

    def _blocks(
        self, counts: NDArray[Any], scores: Scores, n_trees: int, found: dict[str, NDArray[Any]]
    ) -> TreeBlocks | None:
        """The blocks of trees; none of a file written before they were kept as they are now."""
        like = self._probe.blocks
        if like is None:
            return None
        votes, total, squares, asked, first = (found[name] for name in _OF_BLOCKS)
        fits = all((one >= 0).all() and (one <= n_trees).all() for one in (votes, asked))
        fits = fits and all(np.isfinite(one).all() for one in (total, squares, first))
        if not (fits and (squares >= 0.0).all()):
            raise ValueError("the blocks of trees contradict themselves")
        rows = like.rows
        return TreeBlocks(rows, counts[rows], scores.take(rows), votes, total, squares, asked, first, n_trees)


# What reading a file that anyone may have written can raise; a RuntimeError is an encrypted archive, or endless depth.
_DAMAGE = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, RuntimeError, TypeError, ValueError),
    *(OSError, zipfile.BadZipFile),  # an OSError is a place before the beginning of the file
)
_IN_BLOCKS = {"votes": "<i4", "total": "<f8", "squares": "<f8", "asked": "<i4", "first": "<f8"}
_OF_BLOCKS = {f"{name} of blocks": kind for name, kind in _IN_BLOCKS.items()}
_STORED = {"counts": "<i4", "asked": "<i4", "mean": "<f8", "scatter": "<f8"} | _OF_BLOCKS


def _arrays(sums: OutOfBag) -> dict[str, NDArray[Any]]:
    scores, blocks = sums.scores, sums.blocks
    found: dict[str, NDArray[Any]] = {
        "counts": sums.counts,
        "asked": scores.asked,
        "mean": scores.mean,
        "scatter": scores.scatter,
    }
    if blocks is None:
        return found
    of_blocks: list[NDArray[Any]] = [blocks.votes, blocks.total, blocks.squares, blocks.asked, blocks.first]
    return found | dict(zip(_OF_BLOCKS, of_blocks, strict=True))


def _key(fraction: float, steps: Sequence[int]) -> str:
    return f"{fraction!r}/{'+'.join(map(str, steps))}"


def _alike(one: OutOfBag, other: OutOfBag) -> bool:
    same = np.array_equal(one.counts, other.counts) and np.array_equal(one.scores.asked, other.scores.asked)
    # Threads may add up in another order.
    return same and np.allclose(one.scores.mean, other.scores.mean, rtol=1e-6, atol=1e-9)


def _checked_digests(text: Any) -> dict[str, str] | None:
    """The digest of each array, from a text whose own fits; None for the version that had none."""
    found = text["format"], text["version"]
    if found == (_FORMAT, _WITHOUT_DIGESTS) and not {"digests", "checksum"} & text.keys():
        return None
    if found not in ((_FORMAT, version) for version in (_WITHOUT_BLOCKS, _WITHOUT_FIRST, _VERSION)):
        raise ValueError(f"it is no file of {_FORMAT!r}, version {_VERSION}")
    if text.pop("checksum") != _checksum(text):
        raise ValueError("the checksum does not fit the content")
    digests: dict[str, str] = text["digests"]
    return digests


def _checksum(text: dict[str, Any]) -> str:
    return _digest_of(json.dumps(text, sort_keys=True).encode())


def _digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array, dtype=np.float64).tobytes()).hexdigest()
