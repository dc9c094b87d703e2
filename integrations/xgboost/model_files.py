"""Reads XGBoost models from files, for the command line.

XGBoost reads most damaged files without an error, and later reads and writes beyond its arrays. So rfsize reads a file
first, and XGBoost gets only files that rfsize found to be whole, and to be forests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xgboost as xgb

from rfsize.exceptions import NotAForestError
from rfsize.integrations.xgboost import ubj
from rfsize.integrations.xgboost.independent import check_forest
from rfsize.integrations.xgboost.model_json import VERSION, reason, scores_per_leaf
from rfsize.models.damage import TEXT, WHOLE, check_form, damage_refused, refuse
from rfsize.utils.files import json_of

_FIRST_THAT_KEEPS_ROUNDS = [2, 0]

# What XGBoost stores for trees that score several classes. It reads this without a check that it is there.
_FIRST_THAT_KEEPS_LEAVES = (3, 2)
_OF_SEVERAL_SCORES = {"leaf_weights", "loss_changes", "sum_hessian"}


def read_model(path: Path) -> xgb.Booster:
    """Read a booster from JSON or UBJ.

    Raises
    ------
    NotAForestError
        If the file is damaged, or does not hold a forest that rfsize can read.
    """
    content = path.read_bytes()
    with damage_refused():
        document = ubj.read(content) if content[1:2] == b"L" else json_of(content)
        check_form(document, {"version": [WHOLE], "learner": {"attributes": {}}}, "the file")
        check_form(list(document["learner"]["attributes"].values()), [TEXT], "the attributes")
        if document["version"][:2] < _FIRST_THAT_KEEPS_ROUNDS:
            raise NotAForestError(
                f"{path} was written by XGBoost {'.'.join(map(str, document['version'][:2]))}, whose models do not say "
                "which trees are of one round: read it with XGBoost, and save it again"
            )
        check_forest(document["learner"], None, casts_votes=False)
        _refuse_older_trees(document["learner"])
    booster = xgb.Booster()
    try:
        booster.load_model(bytearray(content))
    except xgb.core.XGBoostError as error:
        refuse(f"XGBoost cannot read it ({reason(error)})", error)
    return booster


def _refuse_older_trees(learner: dict[str, Any]) -> None:
    trees = learner["gradient_booster"]["model"]["trees"]
    lacking = _OF_SEVERAL_SCORES - set.intersection(*(set(tree) for tree in trees))
    if VERSION >= _FIRST_THAT_KEEPS_LEAVES and scores_per_leaf(learner) > 1 and lacking:
        raise NotAForestError(
            f"the trees of several scores have no {min(lacking)}, as those of XGBoost before 3.2, and XGBoost "
            f"{xgb.__version__} cannot read them: read the model with the XGBoost that wrote it, or train it again"
        )
