"""The categories that an XGBoost model stores, and whether XGBoost reads those of a DataFrame alike."""

from __future__ import annotations

import itertools
import re
from typing import Any

import xgboost as xgb

from rfsize.exceptions import NotAForestError
from rfsize.models.columns import Categorical

# From this version on, XGBoost counts the bytes of names. Before, it counts letters, and cuts other names than ASCII.
_COUNTS_BYTES = tuple(map(int, re.findall("[0-9]+", xgb.__version__)[:2])) >= (3, 4)


def categorical(learner: dict[str, Any]) -> Categorical:
    """The features that were categorical at training."""
    stored = learner["gradient_booster"]["model"]
    encoded = stored.get("cats", {}).get("enc", [])
    named = tuple(feature for feature, column in enumerate(encoded) if column["values"])
    declared = [feature for feature, kind in enumerate(learner.get("feature_types", ())) if kind == "c"]
    coded = tuple(feature for feature in declared if feature not in named)
    return Categorical(named, len(named), coded, takes_codes="cats" not in stored)


def names_of(column: dict[str, Any]) -> tuple[Any, ...]:
    """The categories of one column. XGBoost stores text as the bytes of all names, and where each name ends."""
    if "offsets" not in column:
        return tuple(column["values"])
    text, ends = _text(column), column["offsets"]
    if not text.isascii():
        # From pandas, XGBoost before 3.4 stores ends in characters, and as many bytes as characters.
        raise NotAForestError(
            "the XGBoost model holds categories that are not ASCII, and XGBoost does not say where each of their names "
            "ends: train on categories of ASCII names, or on their codes as numbers with feature_types='c'"
        )
    return tuple(text[start:stop].decode("ascii") for start, stop in itertools.pairwise(ends))


def check_names(learner: dict[str, Any], X: Any) -> None:
    """Raise ``ValueError`` if XGBoost would confuse categories of a DataFrame.

    Before 3.4, XGBoost cuts names that are not ASCII in the wrong places, in the model and in the frame. The cut names
    stand for the same categories only if all categories are as at training.
    """
    encoded = learner["gradient_booster"]["model"].get("cats", {}).get("enc", [])
    wrong = []
    for position, column in enumerate(encoded):
        if "offsets" not in column or str(X.dtypes.iloc[position]) != "category":
            continue
        names = [str(name) for name in X.iloc[:, position].cat.categories]
        text = "".join(names)
        sizes = (len(name.encode() if _COUNTS_BYTES else name) for name in names)
        ends = list(itertools.accumulate(sizes, initial=0))
        is_as_stored = ends == column["offsets"] and text.encode()[: ends[-1]] == _text(column)
        if not is_as_stored and not (text.isascii() and _text(column).isascii()):
            wrong.append(str(X.columns[position]))
    if wrong:
        raise ValueError(
            f"the columns {wrong} of X hold other categories than at training, or in another order, and of names that "
            "are not ASCII XGBoost takes one for another: give them the categories of training, with "
            ".cat.set_categories"
        )


def _text(column: dict[str, Any]) -> bytes:
    return bytes(value % 256 for value in column["values"])
