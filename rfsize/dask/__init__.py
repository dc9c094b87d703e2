"""Forests on rows in Dask arrays and DataFrames: `import rfsize.dask`; install the extra ``rfsize[dask]``."""

from __future__ import annotations

from rfsize.dask.forest import rows
from rfsize.dask.growing import grow
from rfsize.dask.predicting import predict, predict_labels, predict_proba

__all__ = ["grow", "predict", "predict_labels", "predict_proba", "rows"]
