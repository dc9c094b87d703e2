"""LightGBM's models and training data from files, for the command line.

LightGBM reads most damage without a word, and later reads and writes beyond its arrays. So rfsize reads a file first,
and LightGBM sees only what rfsize found to be whole, and a forest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb

from rfsize.adapters.damage import damage_refused, refuse
from rfsize.integrations.lightgbm.model_text import ForestText
from rfsize.integrations.lightgbm.text_form import check_text, check_trees

_BAGGING = ("bagging_fraction", "subsample", "sub_row", "bagging", "pos_bagging_fraction", "neg_bagging_fraction")

_CLASS_NAMES = b"\nrfsize_class_names:"


def load(path: Path) -> lgb.Booster:
    """A booster from its text.

    Raises
    ------
    NotAForestError
        If the text is damaged, or holds no forest that rfsize reads.
    """
    with damage_refused():
        text = check_text(path.read_bytes())
        check_trees(ForestText.read(text, casts_votes=False))
    try:
        return lgb.Booster(model_str=text)
    except (lgb.basic.LightGBMError, ValueError) as error:  # also of the parameters, which come back as JSON
        refuse(f"LightGBM cannot read it ({error})", error)


def class_names(path: Path) -> str | None:
    """What `keep_class_names` wrote."""
    _, found, rest = path.read_bytes().rpartition(_CLASS_NAMES)
    return rest.partition(b"\n")[0].strip().decode("ascii", errors="replace") if found else None


def keep_class_names(path: Path, names: str) -> None:
    """Names on a line of their own after the parameters, where LightGBM reads nothing but the categories below."""
    text = path.read_bytes()
    end = text.rfind(b"\npandas_categorical:")
    path.write_bytes(text[:end] + _CLASS_NAMES + names.encode("ascii") + text[end:])


def forest_data(
    X: Any, y: Any, given: dict[str, Any], *, n_classes: int | None, is_binary: bool, bagged: bool
) -> tuple[dict[str, Any], lgb.Dataset]:
    """Parameters and Dataset of a forest; see `Integration.forest_data`."""
    params: dict[str, Any] = {"boosting": "rf", "bagging_freq": 1, "verbosity": -1}
    if n_classes is not None:
        params |= {"objective": "binary"} if is_binary else {"objective": "multiclass", "num_class": n_classes}
    if bagged and not given.keys() & set(_BAGGING):
        params["bagging_fraction"] = 0.632
    return params | given, lgb.Dataset(X, y, free_raw_data=False)
