"""Rows that lie elsewhere, such as on Dask's workers, and are asked about there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any

from rfsize.adapters.base import Adapter


class RowsElsewhere(ABC):
    """Rows that know how a forest is asked about them."""

    @abstractmethod
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
    ) -> Any:
        """The forest on these rows, a `ForestOnRows`; arguments as of `ForestOnRows.of`."""


def rows_elsewhere(X: Any) -> RowsElsewhere | None:
    """Rows that lie on Dask's workers, as `rfsize.dask.rows` wraps them; None of rows that are here."""
    if isinstance(X, RowsElsewhere):
        return X
    # Of Dask itself, or of a framework's module for it: neither is imported where nobody uses it.
    if not any("dask" in kind.__module__.split(".")[:2] for kind in type(X).__mro__):
        return None
    found: RowsElsewhere = import_module("rfsize.dask").rows(X)
    return found
