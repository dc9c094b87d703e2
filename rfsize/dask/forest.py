"""A forest on rows that lie on workers, which count what its trees say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rfsize.adapters.bags import LaidOutBags, Layout
from rfsize.adapters.base import Adapter
from rfsize.adapters.columns import known_columns
from rfsize.counting.copies import resolved
from rfsize.counting.forest_on_rows import ForestOnRows, Keeps, PartOfRows, RowsElsewhere
from rfsize.dask.blocks import BlocksOnWorkers, as_said
from rfsize.dask.clients import here
from rfsize.exceptions import InbagError
from rfsize.utils.typing import Floats
from rfsize.voting.averages import Averages
from rfsize.voting.groups import ALONE
from rfsize.voting.tallied import Tallied


@dataclass(frozen=True, eq=False)
class ForestOnWorkers(ForestOnRows):
    """What it takes to ask the trees of a forest on the workers that its rows lie on.

    What `ForestOnRows` visits row by row, such as the votes of single trees, is asked here, from a block of rows at a
    time.
    """

    X: BlocksOnWorkers

    @property
    def layout(self) -> Layout:
        """Where the rows lay, if they are those of training: on the workers of a DaskDMatrix, or all on one."""
        return self.X.layout(None)

    def here(self, values: Any) -> Any:
        """Labels or weights of the rows, brought here from workers."""
        return here(values, self.X.client)

    def on(self, X: Any) -> ForestOnRows:
        """The same forest on other rows, which are here."""
        return ForestOnRows(self.adapter, X, self.bags, self.threshold, self.groups)

    def tallied(self, keeps: Keeps) -> Tallied:
        """What is added up of all rows, block by block on their workers, once the bags are proven here."""
        what = "votes and scores" if keeps == "all" else "votes"
        return self.joined(self.X.each_of_its_own(_count, self.adapter, partial(self.part, keeps=keeps), what=what))

    def averages(self) -> Averages:
        """Averaged scores of all rows, and of parts of the forest."""
        found = self.tallied("all").averages
        assert found is not None  # "all" keeps them
        return found


def _count(block: Any, adapter: Adapter, part: PartOfRows) -> tuple[Tallied, list[Floats]]:
    """On a worker: what the trees say of a block of the rows."""
    return part.tallied(adapter, adapter.check(as_said(block, len(part.rows))))


@dataclass(frozen=True)
class RowsOnWorkers(RowsElsewhere):
    """Rows on workers, as `rows` says; attributes as its arguments."""

    X: Any
    layout: Sequence[Sequence[int]] | None = None
    client: Any = None

    def asked(
        self,
        adapter: Adapter,
        *,
        oob: bool,
        threshold: float,
        y: Any,
        sample_weight: Any,
        seed: int | None,
        subsample: float | None,
        groups: Any,
        missing: float | None,
    ) -> ForestOnWorkers:
        if not oob and self.layout is not None:
            raise ValueError(
                "layout says which trees saw a training row, and oob=False asks all trees about all rows: leave it "
                "out, or give the training rows with oob=True"
            )
        underscores = adapter.spaces_become_underscores
        X = known_columns(self.X, adapter.feature_names, spaces_become_underscores=underscores)
        blocks = BlocksOnWorkers(X, self.client)
        blocks.tell_missing(adapter, missing)
        bags, alike = None, ALONE
        if oob:
            y, sample_weight = here(y, blocks.client), here(sample_weight, blocks.client)
            bags = adapter.bags(blocks.layout(self.layout), y, sample_weight, seed, subsample)
            if not isinstance(bags, LaidOutBags):
                raise InbagError(
                    f"rfsize does not know which rows each worker of {adapter.framework} trains on, so it cannot tell "
                    "which rows are out of bag: give the training rows to rfsize itself, in memory or in pieces, or "
                    "give validation rows with oob=False"
                )
            alike = resolved(here(groups, blocks.client), blocks, blocks.shape[0])
        return ForestOnWorkers(adapter, blocks, bags, threshold, alike)


def rows(X: Any, *, layout: Sequence[Sequence[int]] | None = None, client: Any = None) -> RowsOnWorkers:
    """Rows of a Dask collection, with the layout that they had in training, and the client to use.

    You can give Dask's arrays and DataFrames directly to `rfsize.tree_outputs`, `size`, `truncate`, `oob_score` and
    `StopTable.calibrate`. The rows stay on the workers; only the trees' outputs come back, with two classes 28 to 40
    bytes a row, and at most 400 MB besides. With ``oob``, the proof takes 8 to 24 bytes of each block for each leaf of
    the forest, and sends up to 24 for each row; copies are looked for by 72 bytes a row. A calibration brings 32 kB of
    each block for each class, and besides the leads of some rows to learn on, at most 100 MB, or of the majority vote a
    byte a tree and row, at most 256 MB in all.

    Parameters
    ----------
    X : dask.array.Array, dask.dataframe.DataFrame or xgboost.dask.DaskDMatrix, shape (n_rows, n_features)
        Rows, in chunks of any lengths, known or not; those of an array hold whole rows, or are made to. A DaskDMatrix
        keeps where its rows lay, and what in them means missing.
    layout : list of lists of int, optional
        With ``oob=True``, the partitions of ``X`` that each worker held while the forest was trained, in the worker's
        order: each worker draws bags over its own rows. By default one worker held all rows. A DaskDMatrix knows it.
    client : distributed.Client, optional
        By default the client that is in use.

    Returns
    -------
    RowsOnWorkers
        Give it in place of ``X``.

    See Also
    --------
    rfsize.size : Takes such rows.
    rfsize.tree_outputs : Takes such rows.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X[:300], y[:300])
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     there = rfsize.dask.rows(da.from_array(X[300:], chunks=(100, -1)), client=client)
    ...     outputs = rfsize.tree_outputs(forest, there)
    >>> outputs.votes == rfsize.tree_outputs(forest, X[300:]).votes
    True
    """
    return RowsOnWorkers(X, layout, client)
