"""Which trees saw a row of a group, in one bit for each tree and group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Bags
from rfsize.utils.matrix import blocks
from rfsize.utils.typing import Int64s
from rfsize.voting.groups import Groups


@dataclass(frozen=True, eq=False)
class SeenByGroup:
    """Trees whose bag holds a row of a group.

    Attributes
    ----------
    index : ndarray of int64, shape (n_rows,)
        Number of the group of each row, -1 where no other row belongs to it.
    trees : tuple of int
        Members, and outputs with bags of their own.
    seen : ndarray of uint8, shape (n_groups, ...)
        For each group a bit for each tree.
    """

    index: Int64s
    trees: tuple[int, ...]
    seen: NDArray[np.uint8]

    @classmethod
    def of(cls, bags: Bags, groups: Groups) -> SeenByGroup | None:
        """Of a forest's bags, by one pass over all of them; None where no rows belong together."""
        if groups.index is None:
            return None
        of_one_row = bags.take(0, 1)
        seen = np.zeros((groups.n_groups, (of_one_row.size + 7) // 8), dtype=np.uint8)
        found = cls(groups.index, of_one_row.shape[1:], seen)
        for start, stop in blocks(bags.n_rows, of_one_row.size, what="bags of groups"):
            belongs = found.index[start:stop] >= 0
            if belongs.any():
                found._add(found.index[start:stop][belongs], bags.take(start, stop)[belongs])
        return found

    def part(self, start: int, stop: int) -> SeenByGroup:
        """Of rows ``start`` to ``stop`` alone."""
        present, index = np.unique(self.index[start:stop], return_inverse=True)
        stand_alone = int(present[0] == -1)  # the number of all of them
        return SeenByGroup(index - stand_alone, self.trees, self.seen[present[stand_alone:]])

    def _add(self, group: NDArray[np.int64], inbag: NDArray[np.bool_]) -> None:
        bits = np.packbits(inbag.reshape(len(inbag), -1), axis=1)
        order = np.argsort(group, kind="stable")
        present, first = np.unique(group[order], return_index=True)
        self.seen[present] |= np.bitwise_or.reduceat(bits[order], first, axis=0)

    def with_group(self, start: int, stop: int, inbag: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """In-bag mask of rows ``start`` to ``stop``, with the trees that saw another row of the group."""
        group = self.index[start:stop]
        belongs = group >= 0
        bits = np.unpackbits(self.seen[group[belongs]], axis=1, count=int(np.prod(self.trees)))
        inbag = inbag.copy()
        inbag[belongs] |= bits.reshape(-1, *self.trees).view(np.bool_)
        return inbag
