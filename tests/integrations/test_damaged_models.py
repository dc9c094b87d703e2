"""Models that somebody damaged, or wrote: refused by rfsize's own errors, and before memory is asked for."""

from __future__ import annotations

import contextlib
import json
from typing import Any, NoReturn

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

import rfsize
from helpers.damaged import damaged_text, damaged_values
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.integrations.lightgbm.bags import seed_dependence, shared_bags
from rfsize.integrations.lightgbm.model_text import ForestText, conventions, tree_table
from rfsize.integrations.xgboost import model_json
from rfsize.integrations.xgboost.first_round import base_margins

OURS = (rfsize.exceptions.NotAForestError, rfsize.exceptions.InbagError)


@pytest.fixture(scope="module")
def text(data: Data) -> str:
    X = data.X.copy()
    X[:, 0] = np.digitize(X[:, 0], [-1, 0, 1])
    options: dict[str, Any] = {"dataset": {"categorical_feature": [0]}, "num_leaves": 6, "min_data_per_group": 1}
    return str(train_lightgbm(X, data.three, 2, objective="multiclass", num_class=3, **options).model_to_string())


@pytest.fixture(scope="module")
def document(data: Data) -> dict[str, Any]:
    raw = train_xgboost(data.X, data.three, 2, max_depth=2, objective="multi:softprob", num_class=3).save_raw("json")
    return dict(json.loads(raw))


@pytest.fixture(scope="module")
def categorical(data: Data) -> dict[str, Any]:
    frame = pd.DataFrame(data.X).rename(columns=str)
    frame["0"] = pd.Categorical(np.where(data.X[:, 0] > 0, "high", "low"))
    matrix = xgb.DMatrix(frame, data.y, enable_categorical=True)
    params = {"objective": "binary:logistic", "num_parallel_tree": 2, "max_depth": 3, "max_cat_to_onehot": 1}
    found: dict[str, Any] = json.loads(xgb.train(params, matrix, 1).save_raw("json"))
    return found


def read_text(text: str) -> None:
    """Without LightGBM, which takes most damage, and crashes on some."""
    forest = ForestText.read(text)
    shared_bags(forest)
    seed_dependence(forest)
    forest.blocks()
    conventions(forest)
    value = np.concatenate(forest.leaf_value)
    assert np.isfinite(tree_table(forest, value, np.zeros(0)).value).all()


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_lightgbm_text(text: str, seed: int) -> None:
    with contextlib.suppress(*OURS):
        read_text(damaged_text(text, np.random.default_rng(seed)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\nleaf_count=", "\nleaf_count=1 ", "tree 0 has 6 leaves and 7 counts of rows in them"),
        ("\nthreshold=", "\nthreshold=1 ", "tree 0 has 6 threshold, expected 5"),
        ("\nright_child=", "\nright_child=1 ", "tree 0 has 6 right_child, expected 5"),
        ("\nsplit_feature=", "\nsplit_feature=x", "split_feature of tree 0 holds something that is not a number"),
        ("\nfeature_infos=", "\n", "its text has no line feature_infos="),
        ("\naverage_output", "\n", "its text has no line average_output"),
        ("pandas_categorical:null", "pandas_categorical:nul", "not a list of categories for each column"),
    ],
)
def test_lightgbm_texts_are_refused_by_what_was_found(old: str, new: str, message: str, text: str) -> None:
    assert old in text
    with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
        read_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pandas_categorical:null", "pandas_categorical:[5]", "pandas_categorical is"),
        ("\nnum_class=3", "\nnum_class=-3", "num_class is '-3'"),
        ("[bagging_freq: 1]", "[bagging_freq: inf]", "bagging_freq is 'inf'"),
        ("[bagging_fraction: 0.632]", "[bagging_fraction: 0]", "bagging_fraction is '0'"),
    ],
)
def test_lightgbm_models_that_lightgbm_loads(old: str, new: str, message: str, text: str) -> None:
    assert old in text
    with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
        rfsize.compile(lgb.Booster(model_str=text.replace(old, new)))


def read_document(document: Any) -> None:
    """Without XGBoost, for the same reason."""
    model_json.check_head(document)
    model_json.check_trees(document)
    if document["objective"]["name"] not in model_json.LINKS or not document["gradient_booster"]["model"]["trees"]:
        return  # what the adapter refuses first
    model_json.check(document)
    order, value = model_json.members(document).ravel(), model_json.leaf_values(document)
    model_json.conventions(document, np.nan, np.zeros(1, dtype=np.float32))
    model_json.tree_table(document, order, value.reshape(len(value), -1), np.zeros(0))


@settings(max_examples=500)
@given(seed=st.integers(0, 2**32), several=st.booleans())
def test_xgboost_json(document: dict[str, Any], categorical: dict[str, Any], several: bool, seed: int) -> None:
    learner = (document if several else categorical)["learner"]
    with contextlib.suppress(*OURS):
        read_document(damaged_values(learner, np.random.default_rng(seed)))


def at(document: Any, path: str, value: Any) -> Any:
    """A copy of a document with another value at a place of it, or nothing there."""
    changed = json.loads(json.dumps(document))
    *path_to, last = path.split(".")
    place = changed
    for key in path_to:
        place = place[int(key) if isinstance(place, list) else key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return changed


TREE = "gradient_booster.model.trees.1"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("objective", [], "learner.objective is a list of 0, expected an object"),
        ("gradient_booster.model.trees", None, "learner.gradient_booster.model has no 'trees'"),
        ("gradient_booster.model.trees", {}, "model.trees is an object, expected a list of objects"),
        (f"{TREE}.left_children", {}, r"trees\[1\].left_children is an object, expected a list of whole numbers"),
        (f"{TREE}.left_children", [1.5], r"trees\[1\].left_children holds a float, expected only whole numbers"),
        (f"{TREE}.split_conditions", ["x"], r"trees\[1\].split_conditions holds a str, expected only numbers"),
        (f"{TREE}.default_left", [2**64], r"trees\[1\].default_left holds a number of more than 64 bits"),
        (f"{TREE}.split_conditions", [10**400], "split_conditions holds a number of more than 64 bits"),
        (f"{TREE}.split_type", [0], "tree 1 has 1 split_type, expected 7"),
        (f"{TREE}.sum_hessian", [1.0], "tree 1 has 1 sum_hessian, expected 7"),
        (f"{TREE}.tree_param.size_leaf_vector", 1, r"size_leaf_vector is 1, expected a text"),
        (f"{TREE}.categories_nodes", [1], "tree 1 has not one node, place and size for each set of categories"),
        ("learner_model_param.num_class", 10**400, "num_class is a number of more than 64 bits, expected a text"),
        ("feature_names", ["a", "b"], "there are 2 feature_names, expected 8"),
        ("feature_types", 8 * ["x"], "a feature is of the type 'x', expected one of c, float, i, int, q"),
    ],
)
def test_xgboost_documents_are_refused_by_what_was_found(
    path: str, value: Any, message: str, document: dict[str, Any]
) -> None:
    with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
        read_document(at(document["learner"], path, value))


@pytest.mark.parametrize("ends", [[], [1, 3, 6], [0, 4, 3, 9], [0, 3, 1 << 40]])
def test_names_of_categories_that_end_elsewhere(ends: list[int], categorical: dict[str, Any]) -> None:
    if "cats" not in categorical["learner"]["gradient_booster"]["model"]:
        pytest.skip("XGBoost keeps no names of categories before 3.1")
    column = "gradient_booster.model.cats.enc.0"
    with pytest.raises(rfsize.exceptions.NotAForestError, match="do not end where it says"):
        read_document(at(categorical["learner"], f"{column}.offsets", ends))
    with pytest.raises(rfsize.exceptions.NotAForestError, match="the text of a feature's categories holds a float"):
        read_document(at(categorical["learner"], f"{column}.values", [1.5]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[5E-1", "base_score is '.5E-1', expected numbers"),
        ('["x"]', "base_score holds a str, expected only numbers"),
        ("[5E-1,5E-1]", "base_score holds 2 numbers, expected 3"),
    ],
)
def test_margins_of_no_trees(text: str, message: str, document: dict[str, Any]) -> None:
    learner = at(document["learner"], "learner_model_param.base_score", text)
    with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
        base_margins(learner, model_json.members(learner).shape[1])


def test_xgboost_models_that_xgboost_loads(document: dict[str, Any], data: Data) -> None:
    """Each of these ended in an error of XGBoost's when rows were given."""
    for path, value, message in (
        ("feature_types", 7 * ["float"], "there are 7 feature_types, expected 8"),
        ("feature_names", ["a"], "there are 1 feature_names, expected 8"),
        ("gradient_booster.model.iteration_indptr", [-1, 6], r"its one round has the trees \[-1, 6\] of 6"),
    ):
        booster = xgb.Booster()
        booster.load_model(
            bytearray(json.dumps({**document, "learner": at(document["learner"], path, value)}).encode())
        )
        with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
            rfsize.tree_outputs(booster, data.fresh)


def written(document: dict[str, Any], **learner_model_param: str) -> xgb.Booster:
    changed = json.loads(json.dumps(document))
    changed["learner"]["learner_model_param"].update(learner_model_param)
    booster = xgb.Booster()
    booster.load_model(bytearray(json.dumps(changed).encode()))
    return booster


@pytest.mark.parametrize("name", ["num_class", "num_feature"])
def test_xgboost_models_that_claim_gigabytes(name: str, document: dict[str, Any]) -> None:
    with pytest.raises(rfsize.exceptions.NotAForestError, match=r"the model is damaged|cannot write the model out"):
        rfsize.compile(written(document, **{name: "2147483647"}))


@pytest.mark.parametrize("error", [KeyError("trees"), MemoryError()])
def test_an_error_that_the_model_did_not_cause_is_not_called_damage(
    error: Exception, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a lack of memory, or a fault of rfsize: training the model again would not help."""

    def fails(*_: Any, **__: Any) -> NoReturn:
        raise error

    models = train_lightgbm(data.X, data.y, 3), train_xgboost(data.X, data.y, 3)
    monkeypatch.setattr(np, "concatenate", fails)
    for model in models:
        with pytest.raises(type(error)):
            rfsize.compile(model)
