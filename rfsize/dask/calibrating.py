"""Stop tables calibrated on rows that lie on workers."""

from __future__ import annotations

from typing import Any

from rfsize.adapters.columns import known_columns
from rfsize.adapters.registry import adapter_for
from rfsize.dask.rows import BlocksOnWorkers
from rfsize.stopping.table import Metric, StopTable


def calibrate(
    model: Any, X: Any, *, client: Any = None, metric: Metric = "labels", missing: float | None = None, **options: Any
) -> StopTable:
    """Calibrate a stop table on rows that the forest was not trained on, where these lie.

    What travels is what 2048 rules do on a block of rows, 32 kB for each class. Of averaged scores, the leads of some
    rows to learn on travel besides, at most 100 MB in all; of predicted numbers, 8 bytes a score of one row in ten; of
    the majority vote a byte a tree and row, at most 256 MB in all.

    Parameters
    ----------
    model, X, client
        As in `count`, with rows that the forest was not trained on.
    metric, **options
        As in `rfsize.StopTable.calibrate`.
    missing
        As in `count`.

    Returns
    -------
    StopTable
        Equal to that of the same rows in memory, with its ``certificate``.

    Raises
    ------
    NotAForestError, ValueError
        As by `rfsize.StopTable.calibrate` and `count`.

    Warns
    -----
    RareClassWarning
        If the rows of a class are answered otherwise more often than in one of five.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from distributed import Client
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(2000, random_state=0)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X[:1000], y[:1000])
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     table = rfsize.dask.calibrate(forest, da.from_array(X[1000:], chunks=(300, -1)), alpha=0.98)
    >>> table.promise, table.certificate == rfsize.StopTable.calibrate(forest, X[1000:], alpha=0.98).certificate
    ('certified', True)
    """
    adapter = adapter_for(model, casts_votes=metric == "labels", missing=missing)
    X = known_columns(X, adapter.feature_names, spaces_become_underscores=adapter.spaces_become_underscores)
    blocks = BlocksOnWorkers(X, client)
    blocks.tell_missing(adapter, missing)
    return StopTable.calibrate(adapter, blocks.pieces(), metric=metric, **options)
