"""Files that are damaged, or somebody else's."""

import json
import os
import pickle
import re
from pathlib import Path

import lightgbm as lgb
import numpy as np
import xgboost as xgb

import rfsize
from refusals.at_hand import LIGHTGBM, AtHand
from refusals.entry import Group
from rfsize.exceptions import ForestFileError, NotAForestError, TableError

GROUP = Group(
    "Files",
    "Files may come from anyone. None of rfsize's holds code, each is checked in every detail, and nothing is read or "
    "allocated for a size that the file merely claims.",
)
_AGAIN = "compile the model and save it again"


@GROUP.refuses(
    "loading a file that is damaged or cut off",
    ForestFileError,
    "is not a forest file, or is damaged",
    why="a number that changed is another forest",
    instead=_AGAIN,
)
def cut_off(at: AtHand) -> object:
    rfsize.compile(at.model).save(at.folder / "forest.npz")
    return rfsize.load(at.file("cut.npz", (at.folder / "forest.npz").read_bytes()[:-100]))


@GROUP.refuses(
    "loading a pickle",
    ForestFileError,
    "is not a forest file, or is damaged: File is not a zip file",
    why="loading a pickle can run any program",
    instead="`CompiledForest.save`",
)
def a_pickle(at: AtHand) -> object:
    return rfsize.load(at.file("forest.pkl", pickle.dumps(rfsize.compile(at.model))))


@GROUP.refuses(
    "loading an archive of other arrays",
    ForestFileError,
    "it has other arrays",
    why="it is no forest",
    instead=_AGAIN,
)
def other_arrays(at: AtHand) -> object:
    np.savez(at.folder / "other.npz", X=at.X)
    return rfsize.load(at.folder / "other.npz")


@GROUP.refuses(
    "loading `/dev/zero`, a pipe or a folder",
    ForestFileError,
    "is no regular file",
    why="it may never end",
    instead="a file",
)
def no_file(at: AtHand) -> object:
    return rfsize.load(Path("/dev/zero" if Path("/dev/zero").exists() else os.devnull))


@GROUP.refuses(
    "loading a file of many gigabytes of nothing",
    ForestFileError,
    "is not a forest file",
    why="it is refused before it is read",
    instead=_AGAIN,
)
def sparse_file(at: AtHand) -> object:
    with (at.folder / "sparse.npz").open("wb") as file:
        file.truncate(1 << 34)
    return rfsize.load(at.folder / "sparse.npz")


@GROUP.refuses(
    "a stop table that is damaged",
    TableError,
    "the checksum does not fit the content",
    why="a bound that changed breaks its promise",
    instead="build and save the table again",
)
def damaged_table(at: AtHand) -> object:
    document = rfsize.StopTable.build(11, alpha=0.99).to_dict()
    return rfsize.StopTable.from_dict(document | {"alpha": 0.98})


@GROUP.refuses(
    "a stop table that is signed, and breaks its promise all the same",
    TableError,
    "the bounds must stop no row before the first tree",
    why="whoever signs may be hostile",
    instead="build and save the table again",
)
def hostile_table(at: AtHand) -> object:
    document = rfsize.StopTable.build(11, alpha=0.99).to_dict()
    document["stops"]["upper"][0] = 0
    return rfsize.StopTable.from_dict(document)


@GROUP.refuses(
    "a file of other JSON as a table, or one that is too large",
    TableError,
    "the file is larger than 16,000,000 bytes, more than any stop table",
    why="it is not read any further",
    instead="what `StopTable.save` wrote",
)
def large_table(at: AtHand) -> object:
    return rfsize.StopTable.load(at.file("large.json", bytes(16_000_001)))


@GROUP.refuses(
    "a LightGBM text whose trees share children, or have other numbers of leaves and splits",
    NotAForestError,
    "share a child, so it is not a tree",
    why="LightGBM takes it, and reads beyond its arrays",
    instead="save the original model again, or train it again",
)
def damaged_text(at: AtHand) -> object:
    # Without the sizes of the trees LightGBM reads one after another.
    text = re.sub("\ntree_sizes=.*", "", at.model.model_to_string())
    last_child_first = re.sub(r"(\nright_child=)\S+(.* )(\S+)", r"\1\3\2\3", text)
    return rfsize.compile(lgb.Booster(model_str=last_child_first))


@GROUP.refuses(
    "an XGBoost document that contradicts itself",
    NotAForestError,
    "the model is damaged: there are 2 feature_names, expected 4",
    why="XGBoost takes it, and fails where rows are given",
    instead="save the original model again, or train it again",
)
def damaged_document(at: AtHand) -> object:
    document = json.loads(at.booster.save_raw("json"))
    document["learner"]["feature_names"] = ["a", "b"]
    model = xgb.Booster()
    model.load_model(bytearray(json.dumps(document).encode()))
    return rfsize.tree_outputs(model, at.X_val).votes


@GROUP.refuses(
    "taking up a search with other data, parameters or seed",
    ValueError,
    "was written by a search with other labels",
    why="it holds other forests",
    instead="the same again, or another file",
)
def another_search(at: AtHand) -> object:
    options = {"fractions": [0.4, 0.6], "n_trees": 30, "resume": at.folder / "search.zip"}
    rfsize.select_bagging_fraction(LIGHTGBM, lgb.Dataset(at.X, at.y), **options)
    return rfsize.select_bagging_fraction(LIGHTGBM, lgb.Dataset(at.X, 1 - at.y), **options)


@GROUP.refuses(
    "taking up a search whose file is damaged",
    ValueError,
    "the search cannot continue from",
    why="a number that changed is another forest",
    instead="another file, or delete this one",
)
def damaged_search(at: AtHand) -> object:
    options = {"fractions": [0.4, 0.6], "n_trees": 30, "resume": at.file("none.zip", "no archive")}
    return rfsize.select_bagging_fraction(LIGHTGBM, lgb.Dataset(at.X, at.y), **options)
