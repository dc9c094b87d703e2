"""Models, tables and predictions in files, for the command line."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from rfsize.adapters.registry import framework_of
from rfsize.inference.layout import Forest
from rfsize.utils.matrix import SECONDS_BEFORE_PROGRESS


def load_model(path: Path) -> Any:
    """A LightGBM text model or an XGBoost JSON/UBJ model; which one is read from the first bytes.

    Raises
    ------
    ValueError
        If the file is neither, or its framework cannot read it.
    """
    content = path.read_bytes()
    if content.startswith((b"tree\n", b"tree\r\n")):
        import lightgbm

        if b"\nend of trees" not in content.replace(b"\r\n", b"\n"):
            raise ValueError(f"{path} is a LightGBM model that breaks off; write it again with save_model")
        return lightgbm.Booster(model_str=content.decode("utf-8"))
    if content.startswith(b"{"):
        import xgboost

        booster = xgboost.Booster()
        booster.load_model(bytearray(content))
        return booster
    raise ValueError(f"{path} is neither a LightGBM text model nor an XGBoost JSON or UBJ model")


def check_model_name(framework: str | None, path: Path) -> None:
    """Raise ``ValueError`` where a file's name does not go with the format that a framework's models are written in."""
    is_json = path.suffix in {".json", ".ubj"}
    if framework == "xgboost" and not is_json:
        raise ValueError(f"an XGBoost model is written to a .json or .ubj file, found {path}")
    if framework != "xgboost" and is_json:
        raise ValueError(f"a LightGBM model is written as text, to a .txt file for instance, found {path}")


def features_of(model: Any, X: Any) -> Any:
    """The columns of a table that ``model`` was trained on, found by name where both have names.

    Raises
    ------
    ValueError
        If a text column would be coded otherwise than at training.
    """
    if not hasattr(X, "columns"):
        return X
    names = model.feature_names if _is_xgboost(model) else model.feature_name()
    columns = [str(name) if _is_xgboost(model) else str(name).replace(" ", "_") for name in X.columns]
    if names is not None and set(names) <= set(columns):
        X = X.iloc[:, [columns.index(name) for name in names]]
    texts = list(X.select_dtypes(include="category").columns)
    if _is_xgboost(model) and texts:
        import xgboost

        if tuple(int(part) for part in xgboost.__version__.split(".")[:2]) < (3, 1):
            raise ValueError(
                f"the columns {texts} hold categories, which models of XGBoost {xgboost.__version__} do not keep; give "
                "their integer codes, or use XGBoost 3.1 or later"
            )
    return X.to_numpy() if names is None and not texts else X


def _is_xgboost(model: Any) -> bool:
    return framework_of(model) == "xgboost"


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
    return _columns(_pandas(path).read_csv(path), path, target)


def _from_parquet(path: Path, target: str | None) -> tuple[Any, Any]:
    return _columns(_pandas(path).read_parquet(path), path, target)


def _pandas(path: Path) -> Any:
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


# ---------------------------------------------------------------------------------------------------------
# Training

_OBJECTIVE = ("objective", "objective_type", "app", "application", "loss")
_OF_CLASSES = ("binary", "multi", "softmax", "ova", "ovr")


def load_params(text: str | None) -> dict[str, Any]:
    """Training parameters from JSON, or from the file that holds it.

    Raises
    ------
    ValueError
        If that is no JSON object.
    OSError
        If there is no such file.
    """
    if text is None:
        return {}
    content = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8")
    try:
        params = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the parameters are not JSON: {error}") from error
    if not isinstance(params, dict):
        raise ValueError(f'the parameters must be a JSON object such as {{"max_depth": 8}}, found {text[:80]!r}')
    return params


_BAGGING = {
    "lightgbm": ("bagging_fraction", "subsample", "sub_row", "bagging", "pos_bagging_fraction", "neg_bagging_fraction"),
    "xgboost": ("subsample",),
}


def training_data(
    framework: str, X: Any, y: Any, given: dict[str, Any], *, bagged: bool = False
) -> tuple[dict[str, Any], Any, list[Any] | None]:
    """What a framework trains a forest on, from a table and from parameters that may leave out what it tells.

    Where the forest is to be ``bagged`` and the parameters name no bagging fraction, it is 0.632.

    Returns
    -------
    params : dict
        ``given``, with the objective and the number of classes of the labels where it names none.
    dtrain : lightgbm.Dataset or xgboost.DMatrix
        The rows, with labels coded 0, 1, … in ascending order.
    classes : list or None
        The label behind each code; None where the objective takes labels as numbers.

    Raises
    ------
    ValueError
        If labels are missing, of one class only, or numbers for which no objective is named.
    """
    objective = next((str(given[name]) for name in _OBJECTIVE if name in given), None)
    params = {"boosting": "rf", "bagging_freq": 1, "verbosity": -1} if framework == "lightgbm" else {}
    classes = None
    if objective is None or objective.startswith(_OF_CLASSES):
        classes, y = _coded(y, objective)
        params |= _of_classes(framework, len(classes), objective)
    if bagged and not given.keys() & set(_BAGGING[framework]):
        params[_BAGGING[framework][0]] = 0.632
    if framework == "lightgbm":
        import lightgbm

        return params | given, lightgbm.Dataset(X, y, free_raw_data=False), classes
    import xgboost

    return params | given, xgboost.DMatrix(X, y, enable_categorical=True), classes


def _coded(y: Any, objective: str | None) -> tuple[list[Any], NDArray[np.int64]]:
    labels = np.asarray(y)
    missing = [label is None or label != label for label in labels.tolist()]
    if any(missing):
        raise ValueError(f"{sum(missing)} rows have no label; leave them out of the table")
    if labels.dtype.kind == "O":
        labels = labels.astype(np.str_)
    if not labels.size:
        raise ValueError("the table has no rows")
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"all labels are {classes.tolist()[0]!r}: there is nothing to learn")
    numbers = classes.dtype.kind == "f" and (classes != np.floor(classes)).any()
    if objective is None and (numbers or 2 * len(classes) > len(labels)):
        raise ValueError(
            f"the labels have {len(classes)} different values on {len(labels)} rows, such as {classes.tolist()[0]!r}: "
            'if they are numbers to predict, name the objective in the parameters, "regression" for LightGBM or '
            '"reg:squarederror" for XGBoost'
        )
    return classes.tolist(), codes


def _of_classes(framework: str, n_classes: int, objective: str | None) -> dict[str, Any]:
    many = n_classes > 2 if objective is None else not objective.startswith("binary")
    if framework == "lightgbm":
        return {"objective": "multiclass", "num_class": n_classes} if many else {"objective": "binary"}
    # One tree for all classes has one bag; of trees with bags of their own, a few more votes are lost.
    one_tree = {"multi_strategy": "multi_output_tree"}
    return (
        {"objective": "multi:softprob", "num_class": n_classes, **one_tree}
        if many
        else {"objective": "binary:logistic"}
    )


# ---------------------------------------------------------------------------------------------------------
# Predictions, piece by piece

_ROWS_PER_PIECE = 100_000


def pieces(path: Path) -> Iterator[Any]:
    """The rows of a table, some at a time, with a progress bar when it takes long; nothing is made categorical.

    Raises
    ------
    ValueError
        If the file cannot be read, or its kind is not known.
    """
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        found = _csv_pieces(path)
    elif name.endswith(".parquet"):
        found = _parquet_pieces(path)
    else:
        X, _ = load_table(path, None)
        found = (X[start : start + _ROWS_PER_PIECE] for start in range(0, len(X), _ROWS_PER_PIECE))
    with tqdm(desc="predicting", unit=" rows", unit_scale=True, delay=SECONDS_BEFORE_PROGRESS, leave=False) as bar:
        while True:
            try:
                piece = next(found, None)
            except (EOFError, zlib.error, OSError, UnicodeDecodeError) as error:
                raise ValueError(f"{path} could not be read: {error}") from error
            if piece is None:
                return
            yield piece
            bar.update(len(piece))


def _csv_pieces(path: Path) -> Iterator[Any]:
    with _pandas(path).read_csv(path, chunksize=_ROWS_PER_PIECE) as reader:
        yield from reader


def _parquet_pieces(path: Path) -> Iterator[Any]:
    _pandas(path)
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS_PER_PIECE):
            yield batch.to_pandas()


def features_of_forest(forest: Forest, piece: Any) -> Any:
    """The columns of a piece that ``forest`` was trained on, found by name where both have names.

    Columns that were categorical at training become so again, whatever a reader took their values for.
    """
    if not hasattr(piece, "columns"):
        return piece
    conventions = forest.conventions
    names = [str(name) for name in piece.columns]
    if conventions.spaces_become_underscores:
        names = [name.replace(" ", "_") for name in names]
    if forest.feature_names is not None and set(forest.feature_names) <= set(names):
        piece = piece.iloc[:, [names.index(name) for name in forest.feature_names]]
    elif forest.feature_names is None and not conventions.categories:
        return piece.to_numpy()
    categorical = {piece.columns[feature]: "category" for feature in conventions.category_features or ()}
    return piece.astype(categorical)


@contextmanager
def prediction_writer(path: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Writes columns to a CSV or Parquet file, piece after piece.

    Raises
    ------
    ValueError
        If the name of the file ends otherwise.
    """
    pandas = _pandas(path)
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        writer: Any = None

        def write(columns: dict[str, Any]) -> None:
            nonlocal writer
            piece = pyarrow.table(columns)
            writer = writer or pyarrow.parquet.ParquetWriter(path, piece.schema)
            writer.write_table(piece)

        try:
            yield write
        finally:
            if writer is not None:
                writer.close()
        return
    if path.suffix != ".csv":
        raise ValueError(f"predictions are written to a .csv or .parquet file, found {path}")
    with path.open("w", encoding="utf-8", newline="") as file:
        yield lambda columns: pandas.DataFrame(columns).to_csv(file, index=False, header=file.tell() == 0)
