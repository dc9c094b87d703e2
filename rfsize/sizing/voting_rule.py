"""VotingRule: what is estimated by one rule of voting, and the rows that it is from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.estimation.base import Curves, Estimate
from rfsize.estimation.strata import by_strata
from rfsize.sizing.base import too_many_untold
from rfsize.voting.blocks import TreeBlocks


class VotingRule(NamedTuple):
    """The estimate by one rule of voting, and the rows that it is from, as a report has them.

    Rows that belong together may have no votes left, and are not like the others: unless they are few, ``untold`` says
    that T* is not known.
    """

    estimate: Estimate
    n_rows: int
    n_dropped: int
    votes_per_row: float
    untold: bool
    blocks: TreeBlocks | None

    @classmethod
    def of(
        cls,
        estimate: Callable[[NDArray[np.bool_] | slice], Estimate],
        asked: NDArray[np.int32],
        sizes: NDArray[np.int64] | None,
        blocks: TreeBlocks | None,
        *,
        at_least: int,
    ) -> VotingRule:
        """From the rows of which so many trees were asked ``at_least``, made of the rows that a mask names.

        ``sizes`` are those of the rows' groups; None where rows stand alone.
        """
        used = asked[asked >= at_least]
        n_dropped = len(asked) - len(used)
        untold = sizes is not None and too_many_untold(n_dropped, len(asked))
        found = estimate(slice(None)) if sizes is None else by_strata(sizes, asked, estimate, at_least=at_least)
        return cls(found, len(used), n_dropped, float(used.mean()), untold, blocks)

    def curves(self, alpha: float) -> Curves:
        """Disagreement around T*(α) as it might also have come out, of other rows and other trees."""
        return self.estimate.shaken_replicates(self.estimate.size(alpha), self.blocks)

    def size(self, alpha: float) -> int | float:
        """T*(α); infinite where it is not known."""
        return math.inf if self.untold else self.estimate.size(alpha)

    def said(self, alpha: float) -> dict[str, Any]:
        """What a report says by this rule."""
        rows = {name: getattr(self, name) for name in ("n_rows", "n_dropped", "votes_per_row")}
        return {"n_trees": self.size(alpha), **rows}
