"""Rows as a `DMatrix` holds them, or a `DaskDMatrix`: whether they can be read as a forest does."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import xgboost as xgb

from rfsize.adapters.integration import CollectionOnWorkers


def holds_rows(data: xgb.DMatrix) -> bool:
    """Whether rows can be taken of it: they are neither binned nor in external memory."""
    if isinstance(data, xgb.QuantileDMatrix):
        return False
    try:
        data.slice([0])
    except xgb.core.XGBoostError:
        return False
    return True


def check_dmatrix(X: xgb.DMatrix, missing: float, *, kept_by: str | None) -> None:
    """Raise ``ValueError`` where rows cannot be taken of it, or are not read as the forest reads them.

    Parameters
    ----------
    X : DMatrix
    missing : float
        What the forest reads as missing, besides NaN.
    kept_by : str or None
        The kind of model that keeps it; None where the user has told it instead.
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
    # A slice has forgotten what was missing, but not which of its numbers were.
    if not math.isnan(missing) and (X.get_data().data == np.float32(missing)).any():
        raise ValueError(
            f"X is a DMatrix in which {missing:g} is a number, and the {kept_by} was fitted with missing={missing:g}: "
            f"make it as xgboost.DMatrix(X, missing={missing:g}), or give the rows as an array or DataFrame"
        )


def held_on_workers(X: Any) -> CollectionOnWorkers | None:
    """What a ``DaskDMatrix``, or one of its kinds, holds; None of anything else."""
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
