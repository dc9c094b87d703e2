"""Compare three ways to make a forest smaller: its first trees, chosen trees, and chosen trees with refitted leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rfsize.adapters.base import Adapter
from rfsize.certifying.certificate import tested
from rfsize.shrinking.candidates import Candidate
from rfsize.shrinking.tested import Tested, Tester
from rfsize.sizing.goals.weighed import Smaller
from rfsize.utils.typing import Floats, Int64s

_MOST = 7  # sizes that a picture has room for
_LARGER = 8  # a picture shows no size larger than so many times the forest that is kept


@dataclass(frozen=True, eq=False)
class Ways:
    """Forests of the sizes that were tried, made in each way.

    Attributes
    ----------
    tester : Tester
        Rows that certify.
    order : ndarray of int64
        The trees in the order in which they are chosen.
    average : {"micro", "macro"}
        Whether the loss is a share of all rows, or of the rows of the class with the largest share.
    """

    tester: Tester
    order: Int64s
    average: str

    def of(self, tried: Sequence[Tested], n_kept: int) -> tuple[Smaller, ...]:
        """Smaller forests, way by way; refitted forests come last."""
        some = _some(tried, n_kept)
        sizes = sorted(one.n_trees for one in some)
        refitted = [one for one in some if one.candidate.raw is not None]
        return (
            *self._first_of(np.arange(self._adapter.n_trees), sizes, "first trees"),
            *self._first_of(self.order, sizes, "chosen trees"),
            *(self._smaller("chosen and refitted", one.candidate, one.mean) for one in refitted),
        )

    @property
    def _adapter(self) -> Adapter:
        return self.tester.rows.adapter

    def _first_of(self, order: Int64s, sizes: list[int], way: str) -> Iterator[Smaller]:
        """The first trees of an order, without refitted leaves."""
        total, done = np.zeros_like(self.tester.rows.whole), 0
        for size in sizes:
            total += (size - done) * self.tester.rows.mean(order[done:size])
            done = size
            yield self._smaller(way, Candidate(order[:size], None), total / size)

    def _smaller(self, way: str, candidate: Candidate, mean: Floats) -> Smaller:
        differing, rows = tested(self.tester.differing(mean), self.tester.in_class, self.average)
        make = partial(self._adapter.shrunk, candidate.members, candidate.raw)
        return Smaller(way, len(candidate.members), float((differing / rows).max()), make)


def _some(tried: Sequence[Tested], n_kept: int) -> list[Tested]:
    """Choose the forests to show, always with the smallest one and the one that is kept."""
    near = [one for one in tried if one.n_trees <= _LARGER * n_kept]
    places = set(np.linspace(0, len(near) - 1, _MOST).round().astype(int).tolist())
    return [one for place, one in enumerate(near) if place in places or one.n_trees == n_kept]
