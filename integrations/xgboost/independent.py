"""Checks that an XGBoost model is a forest of independent trees, and has the messages if it is not."""

from __future__ import annotations

from typing import Any

import xgboost as xgb

from rfsize.exceptions import NotAForestError
from rfsize.integrations.xgboost.model_json import LINKS, VOTING, check, check_head, check_trees
from rfsize.models.damage import MOST_FEATURES, refuse, whole_number

_SAMPLINGS = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")


def boosted(found: str, model: Any) -> NotAForestError:
    """The error for a model that is, or would be, boosted in several rounds."""
    return NotAForestError(
        f"{found}, where each round corrects the ones before it; T*(α) needs independent trees: train them in one "
        f"round, as {in_one_round(model)} does"
    )


def in_one_round(model: Any) -> str:
    """Code for the user to copy, which trains a forest in the way that ``model`` was trained."""
    if isinstance(model, xgb.XGBModel):
        kind = "XGBRegressor" if isinstance(model, xgb.XGBRegressor) else "XGBClassifier"
        return f"{kind}(n_estimators=1, num_parallel_tree=100, learning_rate=1, subsample=0.632, colsample_bynode=0.6)"
    forest = {"num_parallel_tree": 100, "learning_rate": 1, "subsample": 0.632, "colsample_bynode": 0.6}
    return f"xgboost.train(params | {forest}, dtrain, num_boost_round=1)"


def check_forest(learner: dict[str, Any], model: Any, *, casts_votes: bool) -> None:
    """Check that a document is whole, and that rfsize reads its kind of forest; ``model`` is for messages.

    Raises
    ------
    NotAForestError
        If the document is damaged, or not such a forest.
    """
    _refuse_other_models(learner, model)
    objective = learner["objective"]["name"]
    _refuse_other_objectives(objective, casts_votes)
    if hasattr(model, "classes_") and LINKS[objective] not in ("logistic", "softmax"):
        raise NotAForestError(
            f"the {type(model).__name__} was trained with objective='{objective}', which predicts numbers and no "
            "probabilities of classes: train it with objective='binary:logistic' or 'multi:softprob', or give "
            "model.get_booster(), which predicts the numbers"
        )
    check(learner)


def _refuse_other_models(learner: dict[str, Any], model: Any) -> None:
    check_head(learner)
    kind = learner["gradient_booster"]["name"]
    stored = learner["gradient_booster"].get("model")
    if isinstance(stored, dict) and "weight_drop" in stored:  # since 3.4 XGBoost also stores dart as gbtree
        kind = "dart"
    if kind != "gbtree":
        raise NotAForestError(
            f"the XGBoost model was trained with booster='{kind}'; T*(α) needs independent trees: leave booster out, "
            f"and train them in one round, as {in_one_round(model)} does"
        )
    check_trees(learner)
    forest = learner["gradient_booster"]["model"]
    rounds = len(forest["iteration_indptr"]) - 1
    if rounds < 1 or not forest["trees"]:
        raise NotAForestError("the XGBoost model has no trees: train it first")
    if rounds > 1:
        raise boosted(f"the XGBoost model was boosted for {rounds} rounds", model)
    if forest["iteration_indptr"] != [0, len(forest["trees"])]:
        refuse(f"its one round has the trees {forest['iteration_indptr']} of {len(forest['trees'])}")
    if whole_number(learner["learner_model_param"].get("num_target", 1), "num_target", 0, MOST_FEATURES) > 1:
        raise NotAForestError("the forest predicts several targets at once; train a forest for each column of y")


def _refuse_other_objectives(objective: str, casts_votes: bool) -> None:
    if objective == "binary:logitraw":
        raise NotAForestError(
            "the forest's objective is 'binary:logitraw'; train with 'binary:logistic', the same trees"
        )
    if objective not in LINKS:
        raise NotAForestError(
            f"the forest's objective is '{objective}', which rfsize does not read; it sizes classification and "
            f"regression forests ({', '.join(sorted(LINKS))})"
        )
    if casts_votes and objective not in VOTING:
        raise NotAForestError(
            f"the forest's objective is '{objective}', whose trees cast no votes: size it by what it predicts, with "
            f"metric='scores' and a tolerance. Forests that vote are those of {', '.join(sorted(VOTING))}"
        )


def was_sampled(settings: dict[str, Any]) -> bool:
    """Whether by its settings a booster sampled rows or columns. False if a file has lost the settings."""
    return any(float(settings.get(name, 1.0)) < 1.0 for name in _SAMPLINGS)


def are_alike(trees: list[dict[str, Any]], others: list[dict[str, Any]]) -> bool:
    """Whether the trees of two members have the same splits, the same leaves, and the same numbers of rows in them."""
    pairs = zip(trees, others, strict=True)
    are_split = any(len(tree["left_children"]) > 1 for tree in trees)
    return are_split and all({**tree, "id": 0} == {**other, "id": 0} for tree, other in pairs)
