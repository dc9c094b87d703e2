"""Models, tables and predictions in files, for the command line."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def load_table(path: Path, target: str | None) -> tuple[Any, Any]:
    """Features and, if ``target`` names a column or array, labels.

    Returns
    -------
    X : ndarray or pandas.DataFrame
        Every column but the target; text columns of a DataFrame are categorical.
    y : ndarray, pandas.Series or None
        The target.

    Raises
    ------
    ValueError
        If the file cannot be read, its kind is not known, or the target is not in it.
    """
    name = path.name.lower()
    readers = {".npy": _from_npy, ".npz": _from_npz, ".csv": _from_csv, ".csv.gz": _from_csv, ".parquet": _from_parquet}
    reader = next((reader for ending, reader in readers.items() if name.endswith(ending)), None)
    if reader is None:
        raise ValueError(f"{path} is not a known kind of table; give {', '.join(readers)}")
    try:
        return reader(path, target)
    except (EOFError, zipfile.BadZipFile, zlib.error, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} could not be read: {error}") from error


def load_features(path: Path, target: str) -> Any:
    """Features of a table that may or may not have the column of labels, which is left out."""
    try:
        return load_table(path, target)[0]
    except ValueError as missing:
        try:
            return load_table(path, None)[0]
        except ValueError:
            raise missing from None


def without(X: Any, names: Sequence[str], path: Path) -> Any:
    """The table without some columns; ``ValueError`` where it has none of such a name."""
    unknown = [name for name in names if name not in getattr(X, "columns", ())]
    if unknown:
        raise ValueError(f"{path} has no columns {unknown} to drop; it has {list(getattr(X, 'columns', ()))}")
    return X.drop(columns=list(names)) if names else X


def like_table(X: Any, other: Any) -> Any:
    """The columns of ``X`` in the order of those of ``other``, where both have names and ``X`` has them all."""
    names = list(getattr(other, "columns", ()))
    return X[names] if names and set(names) <= set(getattr(X, "columns", ())) else X


def _from_npy(path: Path, target: str | None) -> tuple[Any, Any]:
    if target is not None:
        raise ValueError(f"{path} holds one array without column names, so --target cannot be taken from it")
    X = np.load(path, allow_pickle=False)
    if not isinstance(X, np.ndarray):
        raise ValueError(f"{path} holds several arrays; name it .npz")
    return X, None


def _from_npz(path: Path, target: str | None) -> tuple[Any, Any]:
    with np.load(path, allow_pickle=False) as arrays:
        names = set(arrays.files)
        if target is not None and target not in names:
            raise ValueError(f"{path} has no array '{target}'; it has {sorted(names)}")
        features = names - {target, "y"}
        if "X" in features:
            features = {"X"}
        if len(features) != 1:
            raise ValueError(f"{path} must hold one array X of features (and labels y), found {sorted(names)}")
        label = target or ("y" if "y" in names else None)
        return arrays[features.pop()], None if label is None else arrays[label]


def _from_csv(path: Path, target: str | None) -> tuple[Any, Any]:
    return _columns(imported_pandas(path).read_csv(path), path, target)


def _from_parquet(path: Path, target: str | None) -> tuple[Any, Any]:
    return _columns(imported_pandas(path).read_parquet(path), path, target)


def imported_pandas(path: Path) -> Any:
    try:
        import pandas
    except ImportError:
        raise ValueError(f"reading {path} needs pandas: pip install rfsize[files]") from None
    return pandas


def _columns(frame: Any, path: Path, target: str | None) -> tuple[Any, Any]:
    labels = None
    if target is not None:
        if target not in frame.columns:
            raise ValueError(f"{path} has no column '{target}'; it has {list(frame.columns)}")
        labels = frame.pop(target)
    texts = frame.select_dtypes(include=["object", "string"]).columns
    return frame.astype(dict.fromkeys(texts, "category")), labels
