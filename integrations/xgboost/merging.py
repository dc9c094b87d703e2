"""Merges several XGBoost forests into one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import xgboost as xgb

from rfsize.exceptions import NotAForestError
from rfsize.integrations.xgboost.bags import DrawnBags, forget, remember
from rfsize.integrations.xgboost.forest import XgboostForest
from rfsize.integrations.xgboost.model_json import assembled, document, scores_per_leaf
from rfsize.utils.typing import Int64s


def merged(boosters: Sequence[xgb.Booster]) -> xgb.Booster:
    """Merge all trees of several forests into one new forest, which predicts the mean of the trees.

    The forests must have been trained on the same data with the same parameters, except for the number of trees and the
    seed, which must be different. The merged booster stores the seeds of its bags if all forests store theirs.

    Parameters
    ----------
    boosters : sequence of Booster
        Forests of one round of parallel trees each. They are not changed.

    Returns
    -------
    Booster
        A booster with the names, attributes and settings of the first.

    Raises
    ------
    NotAForestError
        If a booster is not a forest of independent trees, or the forests differ in anything but their trees.
    """
    forests = [XgboostForest(booster, casts_votes=False) for booster in boosters]
    refuse_differences(boosters)
    drawn = [forest.drawn_bags() for forest in forests]
    known = [bags for bags in drawn if bags is not None]
    if len({np.float32(bags.subsample) for bags in known}) > 1:
        raise NotAForestError(
            f"the forests differ in subsample: {[bags.subsample for bags in known]}; train them alike"
        )
    parts = [(forest.booster, forest.tree_of) for forest in forests]
    return put_together(parts, known if len(known) == len(forests) else None)


def put_together(parts: Sequence[tuple[xgb.Booster, Int64s]], drawn: Sequence[DrawnBags] | None) -> xgb.Booster:
    """One booster of members of forests that are known to fit together, with a note on how their bags were drawn."""
    booster = assembled(parts)
    if drawn is None:
        forget(booster)
        return booster
    seeds = [bags.tree_seed[tree_of] for (_, tree_of), bags in zip(parts, drawn, strict=True)]
    remember(booster, DrawnBags(drawn[0].subsample, np.concatenate(seeds).T.ravel()))
    return booster


def refuse_differences(boosters: Sequence[xgb.Booster]) -> None:
    """Raise `NotAForestError` if boosters were not trained with the same data and parameters."""
    first, *others = [_signature(booster) for booster in boosters]
    for index, other in enumerate(others, start=1):
        for what, value in first.items():
            same = np.allclose(value, other[what], rtol=1e-6, atol=0) if what == "base_score" else value == other[what]
            if not same:
                raise NotAForestError(
                    f"forests 0 and {index} differ in {what}: {value} and {other[what]}; merge forests trained on the "
                    "same data with the same parameters, except for seed and num_parallel_tree"
                )


def _signature(booster: xgb.Booster) -> dict[str, Any]:
    """The properties that forests must share to be merged."""
    learner = document(booster)["learner"]
    parameters = learner["learner_model_param"]
    return {
        "objective": learner["objective"],
        "num_class": parameters["num_class"],
        "the number of classes that a tree scores": scores_per_leaf(learner),
        "num_feature": parameters["num_feature"],
        "feature names": learner["feature_names"],
        "feature types": learner["feature_types"],
        "categories": learner["gradient_booster"]["model"].get("cats"),
        "base_score": np.atleast_1d(json.loads(parameters["base_score"])).tolist(),
    }
