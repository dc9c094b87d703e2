"""A forest on rows that lie on Dask workers: each worker counts the trees' votes on its own rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rfsize.counting.averages import Averages
from rfsize.counting.copies import resolved
from rfsize.counting.forest_on_rows import ForestOnRows, Keeps, PartOfRows, RowsElsewhere
from rfsize.counting.groups import ALONE
from rfsize.counting.tallied import Tallied
from rfsize.dask.blocks import BlocksOnWorkers
from rfsize.dask.clients import here
from rfsize.exceptions import InbagError
from rfsize.models.bags import FRESH_ROWS, LaidOutBags, Layout
from rfsize.models.model import Forest
from rfsize.utils.typing import Floats


@dataclass(frozen=True, eq=False)
class ForestOnWorkers(ForestOnRows):
    """A forest whose trees are asked on the workers where the rows lie.

    Where `ForestOnRows` visits single rows, as for the votes of single trees, blocks of rows are brought here one at a
    time and the trees are asked in this process.
    """

    X: BlocksOnWorkers

    @property
    def layout(self) -> Layout:
        """Which worker held which rows during training: as a DaskDMatrix stores it, or one worker held all rows."""
        return self.X.layout(None)

    def here(self, values: Any) -> Any:
        """Labels or weights of the rows, brought from the workers to this process."""
        return here(values, self.X.client)

    def on(self, X: Any) -> ForestOnRows:
        """The same forest on other rows, which lie in this process."""
        return ForestOnRows(self.adapter, X, self.bags, self.threshold, self.groups)

    def tallied(self, keeps: Keeps) -> Tallied:
        """The trees' votes and scores, added up block by block on the workers; the bags are proven here before."""
        what = "votes and scores" if keeps == "all" else "votes"
        return self.joined(self.X.each_of_its_own(_count, self.adapter, partial(self.part, keeps=keeps), what=what))

    def averages(self) -> Averages:
        """Averaged scores of all rows, and of parts of the forest."""
        found = self.tallied("all").averages
        assert found is not None  # "all" keeps them
        return found


def _count(block: Any, adapter: Forest, part: PartOfRows) -> tuple[Tallied, list[Floats]]:
    """On a worker: the trees' votes and scores on a block of rows."""
    return part.tallied(adapter, adapter.open(block))


@dataclass(frozen=True)
class RowsOnWorkers(RowsElsewhere):
    """The result of `rows`; its attributes are the arguments of `rows`."""

    X: Any
    layout: Sequence[Sequence[int]] | None = None
    client: Any = None

    def asked(
        self,
        adapter: Forest,
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
        blocks = BlocksOnWorkers(self.X, self.client, adapter.columns)
        blocks.tell_missing(adapter, missing)
        bags, alike = None, ALONE
        if oob:
            y, sample_weight = here(y, blocks.client), here(sample_weight, blocks.client)
            bags = adapter.bags(blocks.layout(self.layout), y, sample_weight, seed, subsample)
            if not isinstance(bags, LaidOutBags):
                raise InbagError(
                    f"rfsize does not know which rows each worker of {adapter.framework} trains on, so it cannot tell "
                    "which rows are out of bag: give the training rows to rfsize itself, in memory or in pieces, or "
                    f"take {FRESH_ROWS}"
                )
            alike = resolved(here(groups, blocks.client), blocks, blocks.shape[0])
        return ForestOnWorkers(adapter, blocks, bags, threshold, alike)


def rows(X: Any, *, layout: Sequence[Sequence[int]] | None = None, client: Any = None) -> RowsOnWorkers:
    """Say which worker held which rows of a Dask collection during training, and which client to use.

    You need this only to give a ``layout`` or a ``client``: `rfsize.tree_outputs`, `size`, `truncate`, `oob_score` and
    `StopTable.calibrate` take Dask arrays and DataFrames directly. The rows stay on the workers.

    Parameters
    ----------
    X : dask.array.Array, dask.dataframe.DataFrame or xgboost.dask.DaskDMatrix, shape (n_rows, n_features)
        Rows, in chunks of any lengths, known or unknown. Arrays whose chunks split rows are rechunked. A DaskDMatrix
        knows which worker held which rows, and which value means missing.
    layout : list of lists of int, optional
        With ``oob=True``: for each worker, the partitions of ``X`` that it held during training, in the worker's order
        (each worker draws bags from its own rows). By default one worker held all rows. Not with a DaskDMatrix, which
        knows its layout.
    client : distributed.Client, optional
        By default the client that is in use.

    Returns
    -------
    RowsOnWorkers
        Give this object in place of ``X``.

    See Also
    --------
    rfsize.size : Find how many trees are enough; takes such rows.
    rfsize.tree_outputs : Ask the trees once for several questions; takes such rows.

    Notes
    -----
    What comes to your process: the trees' outputs (with two classes 28 to 40 bytes a row) and at most 400 MB besides.
    With ``oob``, proving the bags takes 8 to 24 bytes for each block and leaf, and sends up to 24 bytes a row to the
    workers; looking for copies takes 72 bytes a row. A calibration takes 32 kB for each block and class, and in
    addition at most 100 MB for the rows that the table is learnt from; with the majority vote, one byte for each tree
    and row, at most 256 MB in all.

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
