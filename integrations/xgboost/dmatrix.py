"""Checks that the rows of a `DMatrix` or a `DaskDMatrix` can be read in the way that a forest reads them."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import xgboost as xgb

from rfsize.models.framework import CollectionOnWorkers


def holds_rows(data: xgb.DMatrix) -> bool:
    """Whether rows can be taken out: they are neither binned nor in external memory."""
    if isinstance(data, xgb.QuantileDMatrix):
        return False
    try:
        data.slice([0])
    except xgb.core.XGBoostError:
        return False
    return True


def check_dmatrix(X: xgb.DMatrix, missing: float, *, kept_by: str | None) -> None:
    """Raise ``ValueError`` if rows cannot be taken out, or the forest reads them in another way.

    Parameters
    ----------
    X : DMatrix
    missing : float
        Value that the forest reads as missing, besides NaN.
    kept_by : str or None
        The kind of model that stores this value; None if the user gave it.
    """
    if not holds_rows(X):
        raise ValueError(
            f"X holds binned rows, or rows in external memory ({type(X).__name__}), of which rfsize cannot take a "
            "part; give the rows as an array or DataFrame"
        )
    if X.get_base_margin().size:
        raise ValueError("X has a base_margin, which moves every tree's vote; give the rows without one")
    if kept_by is None:
        raise ValueError(
            "X is a DMatrix, which was made with its own missing value: leave missing out, or give "
            "the rows as an array or DataFrame"
        )
    # A slice does not keep the missing value, but it keeps which of its numbers were missing.
    if not math.isnan(missing) and (X.get_data().data == np.float32(missing)).any():
        raise ValueError(
            f"X is a DMatrix in which {missing:g} is a number, and the {kept_by} was fitted with missing={missing:g}: "
            f"make it as xgboost.DMatrix(X, missing={missing:g}), or give the rows as an array or DataFrame"
        )


def held_on_workers(X: Any) -> CollectionOnWorkers | None:
    """The rows of a ``DaskDMatrix`` or a subclass; None for anything else."""
    if not any((kind.__module__, kind.__name__) == ("xgboost.dask", "DaskDMatrix") for kind in type(X).__mro__):
        return None
    from dask import delayed

    number = X.partition_order
    held = sorted((part for parts in X.worker_map.values() for part in parts), key=lambda part: number[part.key])
    if "base_margin" in held[0].client.submit(list, held[0], pure=False).result():
        raise ValueError("X has a base_margin, which moves every tree's vote; give the rows without one")
    rows = delayed(operator.itemgetter("data"))
    machines = [[number[part.key] for part in parts] for parts in X.worker_map.values()]
    return CollectionOnWorkers([rows(part) for part in held], machines, int(X.num_col()), X.missing)
