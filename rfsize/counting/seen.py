"""Which trees saw a row of a group, in one bit for each tree and group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Bags
from rfsize.utils.matrix import blocks
from rfsize.voting.groups import Groups


class SeenByGroup:
    """Trees whose bag holds a row of a group; one pass over all bags finds them.

    Parameters
    ----------
    bags : Bags
        The forest's bags.
    groups : Groups
        Rows that belong together, at least two of them.
    """

    def __init__(self, bags: Bags, groups: Groups) -> None:
        assert groups.index is not None
        self._index = groups.index
        of_one_row = bags.take(0, 1)
        self._trees = of_one_row.shape[1:]
        self._seen = np.zeros((groups.n_groups, (of_one_row.size + 7) // 8), dtype=np.uint8)
        for start, stop in blocks(bags.n_rows, of_one_row.size, what="bags of groups"):
            belongs = self._index[start:stop] >= 0
            if belongs.any():
                self._add(self._index[start:stop][belongs], bags.take(start, stop)[belongs])

    def _add(self, group: NDArray[np.int64], inbag: NDArray[np.bool_]) -> None:
        bits = np.packbits(inbag.reshape(len(inbag), -1), axis=1)
        order = np.argsort(group, kind="stable")
        present, first = np.unique(group[order], return_index=True)
        self._seen[present] |= np.bitwise_or.reduceat(bits[order], first, axis=0)

    def with_group(self, start: int, stop: int, inbag: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """In-bag mask of rows ``start`` to ``stop``, with the trees that saw another row of the group."""
        group = self._index[start:stop]
        belongs = group >= 0
        bits = np.unpackbits(self._seen[group[belongs]], axis=1, count=int(np.prod(self._trees)))
        inbag = inbag.copy()
        inbag[belongs] |= bits.reshape(-1, *self._trees).view(np.bool_)
        return inbag
