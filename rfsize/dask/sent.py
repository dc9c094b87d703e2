"""Rows that workers are sent, all of them to each."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from rfsize.dask.blocks import checked_collection, parts_of
from rfsize.utils.rows import joined

# So long a worker that is paused keeps the others waiting.
_SECONDS_FOR_PAUSED = 1.0


class RowsForWorkers:
    """Rows of a collection, or of this process, for every worker.

    Parameters
    ----------
    client : distributed.Client
        Of the workers.
    X : dask.array.Array, dask.dataframe.DataFrame, or rows in memory
        The rows.

    Attributes
    ----------
    n_rows : int or None
        How many they are; None where that is known when they are computed.

    Raises
    ------
    ValueError
        If ``X`` is neither.
    """

    def __init__(self, client: Any, X: Any) -> None:
        from dask.base import is_dask_collection

        self._client = client
        in_memory = not is_dask_collection(X)
        if not in_memory:
            X = checked_collection(X)
        if len(getattr(X, "shape", ())) != 2:
            raise ValueError(
                f"data is a {type(X).__module__}.{type(X).__qualname__}; give Dask arrays or DataFrames, or "
                "arrays, DataFrames or sparse matrices of this process, as rows and features, with label and "
                "weight beside them"
            )
        self.n_rows = int(X.shape[0]) if isinstance(X.shape[0], Integral) else None
        self._here: list[Any] = [X] if in_memory else []
        self._parts: list[Any] = [] if in_memory else client.compute(parts_of(X))

    def sent_to(self, more: Any, address: str) -> list[Any]:
        """The futures of something more, and of the rows, on their way to the worker of an address."""
        sent = self._client.scatter([more, *self._here], workers=[address], hash=False, timeout=_SECONDS_FOR_PAUSED)
        return [*sent, *self._parts]


def all_rows(parts: Sequence[Any]) -> Any:
    """The rows of all parts, in their order."""
    if len(parts) > 1 and hasattr(parts[0], "columns"):
        from dask.dataframe.dispatch import concat  # which unites categories

        return concat(list(parts))
    return joined(list(parts))
