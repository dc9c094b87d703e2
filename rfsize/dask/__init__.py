"""Forests on rows in Dask arrays and DataFrames: `import rfsize.dask`; install the extra ``rfsize[dask]``."""

from __future__ import annotations

from rfsize.dask.grow import grow
from rfsize.dask.rows import predict, predict_labels, predict_proba, rows

__all__ = ["grow", "predict", "predict_labels", "predict_proba", "rows"]
