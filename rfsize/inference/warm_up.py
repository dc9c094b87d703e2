"""Compiling what prediction needs before anyone waits for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.trees import Conventions, Missing, Reading, TreeTable
from rfsize.inference.compiled import CompiledForest
from rfsize.inference.few_rows import MOST
from rfsize.walking.layout import Forest, laid_out


def warm_up() -> None:
    """Compile what compiled forests predict with, or load it from the cache on disk.

    Otherwise the first prediction of a process does it, and the first of an installation waits for the compiler. In the
    build of a container image, with ``NUMBA_CACHE_DIR`` set to a folder of the image, it leaves the machine code there.
    It needs no model: forests of LightGBM and scikit-learn (double precision) and of XGBoost (single) are compiled for,
    labels by averaged scores and by votes, probabilities and numbers, one row and many, of arrays and data frames of
    either precision. Sparse rows and tables calibrated for probabilities are compiled when first met.

    Raises
    ------
    ImportError
        If numba cannot be imported.

    Examples
    --------
    >>> import rfsize
    >>> rfsize.warm_up()
    """
    for precision in (np.float64, np.float32):
        forest = _stumps(np.dtype(precision))
        for voting in ("soft", "hard"):
            fast = CompiledForest(forest, voting=voting, n_jobs=1)
            for rows in _rows():
                fast.predict(rows)
                if voting == "soft":
                    fast.predict_proba(rows)


def _stumps(precision: np.dtype[np.floating[Any]]) -> Forest:
    """A forest of two trees of one split, which adds up scores in this precision."""
    table = TreeTable(
        n_nodes=np.array([3, 3]),
        left=np.tile([1, -1, -1], 2),
        right=np.tile([2, -1, -1], 2),
        feature=np.zeros(6, dtype=np.int64),
        threshold=np.zeros(6),
        missing=np.full(6, Missing.NAN_LEFT, dtype=np.uint8),
        missing_is_member=np.zeros(0, dtype=np.bool_),
        members=[],
        value=np.tile(np.array([0.0, -1.0, 1.0], dtype=precision), 2)[:, None],
        vote=np.tile(np.array([0, 0, 1], dtype=np.uint16), 2),
    )
    trees, columns = laid_out(table)
    reading = Reading(single_precision=precision == np.float32, missing=np.nan, zero_within=-1.0, lowest_category=-1.0)
    return Forest(
        trees=trees,
        columns=columns,
        n_outputs=1,
        n_features=2,
        feature_names=None,
        classes=np.arange(2),
        conventions=Conventions("rfsize", reading, link="logistic"),
    )


def _rows() -> list[NDArray[np.floating[Any]]]:
    """One row and many, in all layouts that arrays, data frames and blocks of their rows have."""
    many = [np.zeros((MOST + 1, 2), dtype=precision) for precision in (np.float64, np.float32)]
    by_column = [np.asfortranarray(rows) for rows in many]
    apart = [np.repeat(rows, 2, axis=0)[::2] for rows in many]
    return [many[0][:1], *many, *by_column, *apart]
