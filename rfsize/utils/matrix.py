"""Rows of a feature matrix of any kind: how many there are, and how to take some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from tqdm.auto import tqdm

# Cells of (rows × trees) held at once while votes are counted; a few hundred megabytes at the most.
CELLS_PER_BLOCK = 1 << 22

# A progress bar shows only when counting takes longer than this.
SECONDS_BEFORE_PROGRESS = 2.0


def as_rows(X: Any) -> Any:
    """``X`` in a form that `take` can slice, and known to be a non-empty matrix.

    Raises
    ------
    ValueError
        If ``X`` is missing, is no matrix, or has no rows.
    """
    if X is None:
        raise ValueError("X is missing: give the rows to vote on, as the framework takes them in predict")
    if isinstance(X, (list, tuple)):
        X = np.asarray(X)
    if issparse(X):
        X = X.tocsr()
    if not (hasattr(X, "shape") or hasattr(X, "num_row")):
        raise ValueError(
            f"X is a {type(X).__module__}.{type(X).__qualname__}; give a NumPy array, a DataFrame, a SciPy sparse "
            "matrix or an Arrow table"
        )
    shape = X.shape if hasattr(X, "shape") else (X.num_row(), X.num_col())
    if len(shape) != 2:
        raise ValueError(
            f"X must have two dimensions, rows and features, found shape {tuple(shape)}; a single row is "
            "X.reshape(1, -1)"
        )
    if shape[0] == 0:
        raise ValueError("X has no rows")
    names = column_names(X)
    if names is not None and len(set(names)) < len(names):
        raise ValueError(f"X has columns of the same name: {sorted({name for name in names if names.count(name) > 1})}")
    texts = [field.name for field in getattr(X, "schema", ()) if str(field.type).startswith("dictionary")]
    if texts:
        raise ValueError(
            f"the Arrow columns {texts} are dictionaries, which the frameworks do not take: give X.to_pandas()"
        )
    return X


def check_columns(X: Any, names: list[str] | None, features: int, *, spaces_become_underscores: bool) -> None:
    """Raise ``ValueError`` where the columns of ``X`` are not those of training: ``names`` if it had any."""
    found = column_names(X)
    if found is not None and spaces_become_underscores:
        found = [name.replace(" ", "_") for name in found]
    if found is not None and names is not None and found != names:
        missing, unknown = sorted(set(names) - set(found)), sorted(set(found) - set(names))
        raise ValueError(
            f"the columns of X are not those of training: missing {missing}, unknown {unknown}"
            if missing or unknown
            else f"the columns of X are in another order than at training: give X[{names}]"
        )
    if n_features(X) != features:
        raise ValueError(f"X has {n_features(X)} columns, but the forest was trained on {features} features")


def column_names(X: Any) -> list[str] | None:
    """Names of the columns of a DataFrame or Arrow table, None for what has none."""
    names = getattr(X, "column_names", None)
    if names is None and hasattr(X, "iloc"):
        names = X.columns
    return None if names is None else [str(name) for name in names]


def select(X: Any, names: Sequence[str], *, spaces_become_underscores: bool = False) -> Any:
    """The columns of a DataFrame that have these names, in their order; all of them where one name is missing."""
    columns = [str(name) for name in X.columns]
    if spaces_become_underscores:
        columns = [name.replace(" ", "_") for name in columns]
    return X.iloc[:, [columns.index(name) for name in names]] if set(names) <= set(columns) else X


def n_rows(X: Any) -> int:
    """Rows of what `as_rows` returned."""
    return int(X.shape[0] if hasattr(X, "shape") else X.num_row())


def n_features(X: Any) -> int:
    """Columns of what `as_rows` returned."""
    return int(X.shape[1] if hasattr(X, "shape") else X.num_col())


def take(X: Any, start: int, stop: int) -> Any:
    """Rows ``start`` to ``stop`` of what `as_rows` returned, in the same form."""
    if start == 0 and stop == n_rows(X):
        return X
    if hasattr(X, "iloc"):
        return X.iloc[start:stop]
    if hasattr(X, "to_batches"):  # an Arrow table
        return X.slice(start, stop - start)
    if hasattr(X, "num_row"):  # an XGBoost DMatrix
        return X.slice(np.arange(start, stop))
    return X[start:stop]


def blocks(rows: int, n_trees: int, *, what: str) -> Iterator[tuple[int, int]]:
    """Ranges of rows small enough to hold one number per row and tree, with a progress bar when slow."""
    step = max(1, CELLS_PER_BLOCK // max(1, n_trees))
    with tqdm(total=rows, desc=what, unit=" rows", unit_scale=True, delay=SECONDS_BEFORE_PROGRESS, leave=False) as bar:
        for start in range(0, rows, step):
            stop = min(rows, start + step)
            yield start, stop
            bar.update(stop - start)
