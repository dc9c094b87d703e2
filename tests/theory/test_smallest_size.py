"""The search for the smallest size: what a look at every size finds, with few looks."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from rfsize.theory import smallest_size
from rfsize.theory.arguments import MAX_TREES

Loss = Callable[[int], float]

LOSSES: dict[str, Loss] = {
    "power law": lambda n_trees: 0.3 / n_trees,
    "slow": lambda n_trees: 0.3 / math.sqrt(n_trees),
    "fast": lambda n_trees: math.exp(-n_trees / 50.0),
    "steps": lambda n_trees: 1.0 / (1 + n_trees // 40),
    "none from some size on": lambda n_trees: 1.0 if n_trees < 777 else 0.0,
}


def with_few_looks(loss: Loss) -> Loss:
    """A loss that may be asked about 100 sizes."""
    looks = iter(range(100))

    def asked(n_trees: int) -> float:
        assert next(looks, None) is not None, "too many looks"
        return loss(n_trees)

    return asked


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("guess", [1, 20, 5000, 1e12])
@pytest.mark.parametrize("kind", LOSSES)
def test_a_few_looks_find_what_a_look_at_every_size_finds(kind: str, guess: float, *, odd: bool) -> None:
    loss, level = LOSSES[kind], 0.0201
    expected = next(n_trees for n_trees in range(1, 10_000, 2 if odd else 1) if loss(n_trees) <= level)
    assert smallest_size(with_few_looks(loss), level, guess=guess, odd=odd) == expected


@pytest.mark.parametrize("odd", [False, True])
def test_sizes_end_somewhere(*, odd: bool) -> None:
    last = MAX_TREES if MAX_TREES % 2 or not odd else MAX_TREES - 1
    assert smallest_size(with_few_looks(lambda n_trees: float(n_trees < last)), 0.5, odd=odd) == last
    assert smallest_size(with_few_looks(lambda n_trees: 1.0), 0.5, odd=odd) == math.inf
    assert smallest_size(with_few_looks(lambda n_trees: 0.0), 0.5, odd=odd) == 1
