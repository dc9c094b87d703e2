"""Models and training data from files, for the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.registry import framework_of


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
