"""Forests on the rows of Dask arrays and DataFrames: `import rfsize.dask`, with the extra ``rfsize[dask]``."""

from __future__ import annotations

from rfsize.dask.calibrating import calibrate
from rfsize.dask.counting import count, oob_score, size, votes
from rfsize.dask.growing import grow
from rfsize.dask.predicting import predict, predict_proba

__all__ = ["calibrate", "count", "grow", "oob_score", "predict", "predict_proba", "size", "votes"]
