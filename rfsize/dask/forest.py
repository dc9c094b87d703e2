"""A forest on rows that lie on workers, which count what its trees say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rfsize.adapters.base import Adapter
from rfsize.adapters.columns import known_columns
from rfsize.adapters.layout import Layout
from rfsize.counting.copies import resolved
from rfsize.counting.forest_on_rows import ForestOnRows, Keeps, PartOfRows, refuse_options_of_bags
from rfsize.counting.tally import Tallied
from rfsize.dask.clients import here
from rfsize.dask.rows import BlocksOnWorkers, as_said
from rfsize.utils.typing import Floats
from rfsize.voting.averages import Averages
from rfsize.voting.groups import ALONE


@dataclass(frozen=True, eq=False, kw_only=True)
class ForestOnWorkers(ForestOnRows):
    """What it takes to ask the trees of a forest on the workers that its rows lie on.

    What `ForestOnRows` visits row by row, such as the votes of single trees, is asked here, from a block of rows at a
    time.

    Attributes
    ----------
    blocks : BlocksOnWorkers
        The rows.
    """

    blocks: BlocksOnWorkers

    @classmethod
    def asked(
        cls,
        adapter: Adapter,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        client: Any,
        oob: bool,
        layout: Sequence[Sequence[int]] | None,
        threshold: float,
        seed: int | None,
        subsample: float | None,
        groups: Any,
        missing: float | None,
    ) -> ForestOnWorkers:
        """Of rows on workers, which are checked; arguments as in `rfsize.dask.count`, labels and weights here."""
        threshold = adapter.checked_threshold(threshold)
        if not oob:
            refuse_options_of_bags(seed=seed, subsample=subsample)
        if not oob and (groups is not None or layout is not None):
            raise ValueError(
                "groups and layout say which trees saw a training row, and oob=False asks all trees about all rows: "
                "leave them out, or give the training rows with oob=True"
            )
        underscores = adapter.spaces_become_underscores
        X = known_columns(X, adapter.feature_names, spaces_become_underscores=underscores)
        blocks = BlocksOnWorkers(X, client)
        blocks.tell_missing(adapter, missing)
        rows, bags, alike = blocks.pieces(), None, ALONE
        if oob:
            bags = adapter.laid_out_bags(blocks.layout(layout), y, sample_weight, seed, subsample)
            alike = resolved(here(groups, client), rows, blocks.n_rows)
        return cls(adapter, rows, bags, threshold, alike, blocks=blocks)

    @property
    def layout(self) -> Layout:
        """Where the rows lay, if they are those of training: on the workers of a DaskDMatrix, or all on one."""
        return self.blocks.layout(None)

    def on(self, X: Any) -> ForestOnRows:
        """The same forest on other rows, which are here."""
        return ForestOnRows(self.adapter, X, self.bags, self.threshold, self.groups)

    def tallied(self, keeps: Keeps) -> Tallied:
        """What is added up of all rows, block by block on their workers, once the bags are proven here."""
        what = "votes and scores" if keeps == "all" else "votes"
        return self.joined(self.blocks.each(_count, self.adapter, partial(self.part, keeps=keeps), what=what))

    def averages(self) -> Averages:
        """Averaged scores of all rows, and of parts of the forest; of members that are no trees asked here."""
        return self.tallied("all").averages or super().averages()


def _count(block: Any, adapter: Adapter, part: PartOfRows) -> tuple[Tallied, list[Floats]]:
    """On a worker: what the trees say of a block of the rows."""
    return part.tallied(adapter, adapter.check(as_said(block, len(part.rows))))
