"""When rows stop: what all rules of stopping have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import Bools, Int64s, whole
from rfsize.walking.layout import PackedForest

MAX_TREES = 10_001
"""The largest forest that a table can be built for."""

CHECK_EVERY = 8
"""A row is checked after this many trees, if a check after each tree would take longer than the tree itself."""

_CELLS_PER_BLOCK = 1 << 17  # votes or scores, which stay in the cache


class Rule(ABC):
    """When rows stop, and which answer they get.

    Attributes
    ----------
    kind : str
        Its name in files and in `repr`.
    voting : {"hard", "soft"}
        Whether it reads the votes of the trees ("hard") or their scores.
    metric : {"labels", "probabilities", "scores"}
        What a row gets as answer.
    adds_up : bool
        Whether it is for boosted trees, whose partial scores it reads, and not for trees that are independent draws.
    """

    voting: str
    metric: str
    adds_up: bool = False

    @property
    @abstractmethod
    def kind(self) -> str: ...

    @abstractmethod
    def on(self, forest: PackedForest) -> Any:
        """The rule on rows of a forest; ``ValueError`` if it does not fit."""

    @abstractmethod
    def answers(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        """The answer of each row, and the number of trees until it stops.

        Parameters
        ----------
        outputs : ndarray, shape (n, T) of votes, (n, T, n_scores) of scores
            Outputs of all trees, in the order of the model. If `adds_up`: partial scores, those of the first 1, …, T
            trees together.
        n_classes : int
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Arrays and numbers as plain Python values."""


def leads(sums: NDArray[Any]) -> tuple[Int64s, NDArray[Any], Bools]:
    """The class with the largest sum, its lead over the next, and whether it comes before that. Ties: lowest index.

    ``sums`` has shape (…, n_classes), and what is returned has shape (…).
    """
    first, second = sums[..., 0], sums[..., 1]
    leader = (second > first).astype(np.int64)
    following = 1 - leader
    most, next_most = np.maximum(first, second), np.minimum(first, second)
    for label in range(2, sums.shape[-1]):
        number = sums[..., label]
        is_ahead, is_next = number > most, number > next_most
        following[is_next] = label
        np.copyto(following, leader, where=is_ahead)
        leader[is_ahead] = label
        next_most = np.maximum(next_most, np.minimum(most, number))
        most = np.maximum(most, number)
    return leader, most - next_most, leader < following


def outside(number: NDArray[Any], low: Any, high: Any) -> Int64s:
    """0 for numbers of at most ``low``, 1 for others of at least ``high``, -1 for those between."""
    return np.where(number <= low, 0, np.where(number >= high, 1, -1))


def first_settled(label: Int64s) -> tuple[Int64s, Int64s]:
    """The first label of each row that is not -1, and after how many trees; -1 after all if there is none."""
    is_settled = label >= 0
    n_used = np.where(is_settled.any(axis=1), is_settled.argmax(axis=1) + 1, label.shape[1])
    return label[np.arange(len(label)), n_used - 1], n_used


def in_blocks(rule: Rule, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
    """`Rule.answers`, block by block."""
    step = max(1, _CELLS_PER_BLOCK // (outputs.shape[1] * max((n_classes, *outputs.shape[2:]))))
    starts = range(0, max(1, len(outputs)), step)
    blocks = [rule.answers(outputs[start : start + step], n_classes) for start in starts]
    answers, n_used = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return answers, n_used


def checked_outputs(rule: Rule, outputs: ArrayLike, n_trees: int, n_classes: int) -> NDArray[Any]:
    """Check votes or scores of all trees; ``ValueError`` if they are not what the rule reads."""
    values, shape = np.asarray(outputs), f"of shape (n_rows, {n_trees}"
    if rule.voting == "hard":
        fits = values.ndim == 2 and values.dtype.kind in "iub"
        fits = fits and (not values.size or 0 <= values.min() <= values.max() < n_classes)
        wanted = f"tree_votes must hold the class of each tree, whole numbers from 0 to {n_classes - 1} {shape})"
    else:
        values = values[:, :, None] if values.ndim == 2 else values
        n_scores = {1, 2} if n_classes == 2 else {n_classes}
        fits = values.ndim == 3 and (values.shape[2] in n_scores or n_classes == 1)
        fits = fits and values.dtype.kind in "iuf" and bool(np.isfinite(values).all())
        which = "the first 1, …, T trees together" if rule.adds_up else "each tree alone"
        wanted = f"this table goes by scores: give those of {which}, before the link, finite numbers {shape}, "
        wanted += f"{n_classes if n_classes > 2 else 1})"
    if not fits or values.shape[1] != n_trees:
        raise ValueError(f"{wanted}, and not {described(values)}")
    return values.astype(np.int64) if values.dtype.kind == "b" else values


def described(values: NDArray[Any]) -> str:
    """Shape, type and range of numbers, for messages."""
    ends = f", from {values.min()} to {values.max()}" if values.size and values.dtype.kind in "iuf" else ""
    return f"shape {values.shape}, dtype {values.dtype}{ends}"


def checked_trees(n_trees: int) -> int:
    """Check that a forest is not too large for a table."""
    advice = "; truncate a larger forest first (rfsize.truncate)"
    return whole("n_trees", n_trees, at_least=1, at_most=MAX_TREES, advice=advice)
