"""Rows that lie on Dask workers, which send them down the trees themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rfsize.counting.task import RowsElsewhere
from rfsize.dask.blocks import BlocksOnWorkers
from rfsize.models.bags import Layout
from rfsize.models.model import Forest


@dataclass(frozen=True)
class RowsOnWorkers(RowsElsewhere):
    """The result of `rows`; its attributes are the arguments of `rows`."""

    X: Any
    layout: Sequence[Sequence[int]] | None = None
    client: Any = None

    def opened(self, forest: Forest, *, oob: bool, missing: float | None) -> tuple[BlocksOnWorkers, Layout]:
        if not oob and self.layout is not None:
            raise ValueError(
                "layout says which trees saw a training row, and with oob=False all trees vote on all rows: leave it "
                "out, or give the training rows with oob=True"
            )
        blocks = BlocksOnWorkers(self.X, self.client, forest.columns)
        blocks.tell_missing(forest, missing)
        return blocks, blocks.layout(self.layout)


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
    rfsize.tree_outputs : Count the votes once for several questions; takes such rows.

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
