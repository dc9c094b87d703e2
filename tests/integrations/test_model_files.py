"""Files of models as the command line takes them: rfsize reads them before their framework, which would die of some."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from helpers.damaged_models import as_ubj
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.cli.models import load_model
from rfsize.integrations.xgboost import ubj
from rfsize.models.damage import check_depth


@pytest.fixture(scope="module")
def text(data: Data) -> str:
    X = data.X.copy()
    X[:, 0] = np.digitize(X[:, 0], [-1, 0, 1])
    options: dict[str, Any] = {"dataset": {"categorical_feature": [0]}, "num_leaves": 6, "min_data_per_group": 1}
    return str(train_lightgbm(X, data.three, 2, objective="multiclass", num_class=3, **options).model_to_string())


@pytest.fixture(scope="module")
def document(data: Data) -> dict[str, Any]:
    frame = pd.DataFrame(data.X).rename(columns=str)
    frame["0"] = np.digitize(data.X[:, 0], [-1, 0, 1])
    matrix = xgb.DMatrix(frame, data.y, feature_types=["c", *(data.X.shape[1] - 1) * ["q"]], enable_categorical=True)
    params = {"objective": "binary:logistic", "num_parallel_tree": 2, "max_depth": 3, "max_cat_to_onehot": 1}
    return dict(json.loads(xgb.train(params, matrix, 1).save_raw("json")))


def load(folder: Path, content: bytes) -> Any:
    path = folder / "model"
    path.write_bytes(content)
    return load_model(path).model


def test_no_file_kills_the_process(text: str, document: dict[str, Any], tmp_path: Path) -> None:
    """In a process of its own: each model that is read is used by its framework and written out."""
    (tmp_path / "text").write_text(text)
    (tmp_path / "document").write_text(json.dumps(document))
    code = """
        import contextlib, pathlib, sys
        import numpy as np
        import rfsize
        from helpers.damaged_models import damaged_lightgbm_file, damaged_xgboost_file
        from rfsize.cli.models import load_model

        folder = pathlib.Path(sys.argv[1])
        for name, damaged in (("text", damaged_lightgbm_file), ("document", damaged_xgboost_file)):
            whole = (folder / name).read_bytes()
            for seed in range(200):
                (folder / "model").write_bytes(damaged(whole, np.random.default_rng(seed)))
                with contextlib.suppress(ValueError):
                    loaded = load_model(folder / "model")
                    rfsize.tree_outputs(loaded.model, np.zeros((3, 8))).votes
                    loaded.integration.save(loaded.model, folder / ("again" + loaded.integration.file_ending))
        print("alive")
    """
    command = [sys.executable, "-W", "ignore", "-c", "if True:" + code, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.stdout.endswith("alive\n"), ended.stderr[-1000:]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\nnum_leaves=6", "\nnum_leaves=7", "num_leaves of tree 0 is '7', not a number from 6 to 6"),
        ("\nnum_leaves=6", "", "tree 0 is 'None', not a number from 6 to 6"),
        ("\nnum_cat=", "\nnum_cat=9", "num_cat of tree 0 is '9.', not a number from 0 to 5"),
        ("\nsplit_feature=", "\nsplit_feature=2147483647 ", "tree 0 has 6 split_feature, expected 5"),
        ("\nleft_child=", "\nleft_child=+", r"left_child of tree 0 is '\+.*', not whole numbers"),
        ("\nleft_child=", "\nleft_child= ", "left_child of tree 0 is ' .*', not whole numbers"),
        ("\nsplit_gain=", "\nsplit_gain=1 ", "tree 0 has 6 split_gain, expected 5"),
        ("\nsplit_gain=", "\nsplit_gain=\x1c", "split_gain of tree 0 holds something that is not a number"),
        ("\ncat_boundaries=0 ", "\ncat_boundaries=1 ", "do not begin and end where it says"),
        ("\nis_linear=0", "\nis_linear=2", "is_linear of tree 0 is '2'"),
        ("\nshrinkage=1", "\nshrinkage", "tree 0 has the line 'shrinkage' twice, or where there should be none"),
        ("\nshrinkage=1", "\nshrinkage=1\nnum_leaves=6", "has the line 'num_leaves=6' twice"),
        ("\nshrinkage=1", "\nshrinkage=1\n" + "\n".join(f"a{n}=" for n in range(9)), "or more than 22"),
        ("\ntree_sizes=", "\ntree_sizes=1", "its trees are not as long as tree_sizes says"),
        ("\nnum_class=3", "\nnum_class=3e0", "num_class of the header is '3e0', not whole numbers"),
        ("\nnum_class=3", "\nnum_class=3\nnum_class=3", "the header has the line 'num_class=3' twice"),
        ("multiclass num_class:3", "multiclass num_class:9", r"its objective is of \['9'\] classes"),
        ("\nmax_feature_idx=7", "\nmax_feature_idx=0", "split_feature of tree 0 holds something other than"),
        ("\nlabel_index=0", "", "its text has no line label_index="),
        ("\n[boosting: rf]", "\n[boosting rf]", "has no line|among its parameters is the line '.boosting rf.'"),
        ("\nend of parameters", "", "among its parameters|its parameters have no end"),
        ("\nend of trees", "", "it breaks off"),
        ("\nTree=1", "\r\nTree=1", "line ends or bytes that LightGBM does not write"),
    ],
)
def test_lightgbm_texts_are_refused_by_what_was_found(
    old: str, new: str, message: str, text: str, tmp_path: Path
) -> None:
    assert old in text
    changed = text.replace(old, new, 1)
    if "tree_sizes" not in old:
        changed = changed.replace("tree_sizes=", "as_long_as=")
    with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
        load(tmp_path, changed.encode())


TREE = ("learner", "gradient_booster", "model", "trees", 0)
MODEL = TREE[:3]


def _mirrored(tree: dict[str, Any]) -> dict[str, Any]:
    left, right = tree["left_children"], tree["right_children"]
    return {**tree, "left_children": right, "right_children": left}


def changed(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(document))
    place = copy
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value(place[path[-1]]) if callable(value) else value
    return dict(copy)


@pytest.mark.parametrize("write", [lambda found: json.dumps(found).encode(), as_ubj], ids=["json", "ubj"])
@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((*TREE, "split_type"), lambda found: [*found[:-1], 1], "sets of categories of tree 0 do not fit its splits"),
        ((*TREE, "split_type"), lambda found: [2, *found[1:]], "split_type of tree 0 holds something other than"),
        ((*TREE, "categories_sizes"), lambda found: [0, *found[1:]], "sets of categories of tree 0 do not fit"),
        ((*TREE, "split_indices"), lambda found: [8, *found[1:]], "split_indices of tree 0 holds something other than"),
        (TREE, lambda tree: _mirrored(tree), "has not its right child after its left one"),
        ((*TREE, "parents"), lambda found: [*found[:-1], 2**31 - 1], "has another parent than the split"),
        ((*TREE, "loss_changes"), lambda found: found[1:], "loss_changes, expected"),
        ((*TREE, "id"), 1, "id of tree 0 is '1', not a number from 0 to 0"),
        ((*TREE, "tree_param", "num_nodes"), "1", "num_nodes of tree 0 is '1'"),
        ((*TREE, "tree_param", "num_feature"), "-2147483648", "num_feature of tree 0 is '-2147483648'"),
        ((*TREE, "tree_param", "num_deleted"), "1", "num_deleted of tree 0 is '1', not a number from 0 to 0"),
        ((*MODEL, "gbtree_model_param", "num_trees"), "3", "num_trees is '3', not a number from 2 to 2"),
        ((*MODEL, "gbtree_model_param", "num_parallel_tree"), "0", "num_parallel_tree is '0'"),
        ((*MODEL, "trees"), lambda found: found[:1], "its one round has the trees"),
        ((*MODEL, "iteration_indptr"), None, "has no 'iteration_indptr'"),
        (("learner", "attributes"), {"best": 3}, "the attributes holds a int, expected only texts"),
        (("version",), [1, 7, 6], "was written by XGBoost 1.7, whose models do not say which trees are of one round"),
        (("version",), None, "the file has no 'version'"),
        (("learner", "objective", "name"), "rank:ndcg", "which rfsize does not read"),
        (("learner", "gradient_booster", "name"), "dart", "was trained with booster='dart'"),
        ((*MODEL, "weight_drop"), [1.0, 1.0], "was trained with booster='dart'"),
    ],
)
def test_xgboost_files_are_refused_by_what_was_found(
    path: tuple[Any, ...], value: Any, message: str, write: Any, document: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
        load(tmp_path, write(changed(document, path, value)))


def test_trees_of_several_scores_as_older_xgboost_wrote_them(data: Data, tmp_path: Path) -> None:
    """XGBoost 3.2 dies of a tree without what it keeps in trees since."""
    params = {"objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree"}
    model = train_xgboost(data.X, data.three, 2, max_depth=2, **params)
    found = json.loads(model.save_raw("json"))
    if "leaf_weights" not in found["learner"]["gradient_booster"]["model"]["trees"][0]:
        pytest.skip("this XGBoost keeps no more in such trees than older ones")
    assert load(tmp_path, json.dumps(found).encode()).num_boosted_rounds() == 1
    leaf = found["learner"]["gradient_booster"]["model"]["trees"][0]["left_children"].index(-1)
    astray = changed(found, (*TREE, "right_children", leaf), 5)
    with pytest.raises(
        rfsize.exceptions.NotAForestError, match="the numbers of the leaves of tree 0 holds something other than"
    ):
        load(tmp_path, json.dumps(astray).encode())
    older = changed(found, (*TREE, "loss_changes"), None)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="have no loss_changes, as those of XGBoost before"):
        load(tmp_path, json.dumps(older).encode())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"{L" + struct.pack(">q", 7), b"{L" + struct.pack(">q", 1 << 40), "it says that 1,099,511,627,776 more"),
        (b"{L" + struct.pack(">q", 7), b"{L" + struct.pack(">q", -7), "it says that -7 more follow"),
        (b"[$l#L", b"[$l#l", "does not say how long an array is"),
        (b"[$l#L", b"[$C#L", "is no type of numbers"),
        (b"learner{", b"learner|", "begins no value, or lies too deep"),
        (b"learner{", b"\xff" + b"earner{", "is not UTF-8"),
        (b"learner{", b"learner" + 100 * b"[", "lies too deep in others"),
    ],
)
def test_ubj_is_refused_by_what_was_found(
    old: bytes, new: bytes, message: str, document: dict[str, Any], tmp_path: Path
) -> None:
    found = as_ubj(document)
    content = found.replace(old, new, 1)
    assert content != found
    with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
        load(tmp_path, content)


def test_names_that_stand_twice(document: dict[str, Any], tmp_path: Path) -> None:
    """XGBoost takes the first of them in UBJ and the last in JSON."""
    text = json.dumps(document).replace('"id": 0', '"id": 0, "id": 1', 1)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="holds a key twice"):
        load(tmp_path, text.encode())
    version = b"L" + struct.pack(">q", 7) + b"version"
    twice = as_ubj(document)[:-1] + version + b"Z}"
    with pytest.raises(rfsize.exceptions.NotAForestError, match="names 'version' twice"):
        load(tmp_path, twice)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="its document ends after"):
        load(tmp_path, as_ubj(document) + b"Z")


def test_ubj_is_read_as_xgboost_writes_it(document: dict[str, Any]) -> None:
    booster = xgb.Booster()
    booster.load_model(bytearray(json.dumps(document).encode()))
    binary, text = ubj.read(bytes(booster.save_raw("ubj"))), json.loads(booster.save_raw("json"))
    assert _single(binary) == _single(text)
    assert _single(ubj.read(as_ubj(text))) == _single(text)


def _single(found: Any) -> Any:
    """A document with its numbers in single precision, in which XGBoost keeps them."""
    if isinstance(found, dict):
        return {key: _single(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_single(value) for value in found]
    return float(np.float32(found)) if isinstance(found, float) else found


def test_whole_files_of_every_kind_are_read(data: Data, tmp_path: Path) -> None:
    """Pruned trees, names that look like lines of a text, trees of one leaf, categories by name."""
    frame = pd.DataFrame(data.X, columns=["Tree", "end of trees", "parameters", *map(str, range(data.X.shape[1] - 3))])
    one_leaf = {"min_data_in_leaf": len(data.X)}
    for options in ({}, one_leaf, {"objective": "quantile"}, {"monotone_constraints": [1, *7 * [0]]}):
        model = train_lightgbm(frame, data.y, 3, **options)
        read = load(tmp_path, model.model_to_string().encode())
        assert np.array_equal(read.predict(frame), model.predict(frame))
    frame["Tree"] = pd.Categorical(np.where(data.X[:, 0] > 0, "high", "low"))
    matrix = xgb.DMatrix(frame, data.y, enable_categorical=True)
    plain = xgb.DMatrix(data.X, data.y)
    pruned = {"updater": "grow_colmaker,prune", "gamma": 30.0, "tree_method": "exact"}
    params = {"objective": "binary:logistic", "num_parallel_tree": 3, "max_depth": 4, "nthread": 1}
    for options, rows in (({"max_cat_to_onehot": 1}, matrix), (pruned, plain), ({"gamma": 1e9}, plain)):
        model = xgb.train(params | options, rows, 1)
        for kind in ("json", "ubj"):
            read = load(tmp_path, bytes(model.save_raw(kind)))
            assert np.array_equal(read.predict(rows), model.predict(rows))
        if options is pruned:
            trees = json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
            assert any(tree["tree_param"]["num_deleted"] != "0" for tree in trees)


def test_boosted_models_are_refused_unread(data: Data, tmp_path: Path) -> None:
    boosted = lgb.train({"objective": "binary", "verbosity": -1}, lgb.Dataset(data.X, data.y), 2)
    with pytest.raises(
        rfsize.exceptions.NotAForestError, match=r"model: the LightGBM model was trained with boosting='gbdt'"
    ):
        load(tmp_path, boosted.model_to_string().encode())
    rounds = xgb.train({"objective": "binary:logistic"}, xgb.DMatrix(data.X, data.y), 2)
    with pytest.raises(rfsize.exceptions.NotAForestError, match=r"model: the XGBoost model was boosted for 2 rounds"):
        load(tmp_path, bytes(rounds.save_raw("ubj")))


def test_trees_that_no_stack_holds() -> None:
    n_splits = 20_000
    left = np.concatenate([np.arange(1, n_splits + 1), np.full(n_splits + 1, -1)])
    right = np.concatenate([np.arange(n_splits + 1, 2 * n_splits + 1), np.full(n_splits + 1, -1)])
    with pytest.raises(rfsize.exceptions.NotAForestError, match="tree 0 is more than 16,384 splits deep"):
        check_depth(left, right, "tree 0")
    level = np.arange(2 * n_splits + 1)
    balanced = np.where(level < n_splits, 2 * level + 1, -1)
    check_depth(balanced, np.where(balanced == -1, -1, balanced + 1), "tree 0")
