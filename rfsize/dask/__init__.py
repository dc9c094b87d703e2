"""Forests on the rows of Dask arrays and DataFrames: `import rfsize.dask`, with the extra ``rfsize[dask]``."""

from __future__ import annotations

from rfsize.dask.calibrating import calibrate
from rfsize.dask.counting import count, votes
from rfsize.dask.growing import grow
from rfsize.dask.predicting import predict, predict_labels, predict_proba
from rfsize.dask.sizing import oob_score, size, truncate

__all__ = [
    "calibrate",
    "count",
    "grow",
    "oob_score",
    "predict",
    "predict_labels",
    "predict_proba",
    "size",
    "truncate",
    "votes",
]
