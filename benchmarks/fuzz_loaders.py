"""The kinds of files that `fuzz` damages: intact files, ways to damage them, and the code that reads and uses them."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb

import rfsize
from rfsize.cli.models import load_model
from rfsize.integrations.xgboost import model_json
from rfsize.integrations.xgboost.first_round import Nodes, base_margins, gradients, refuse_other_starts, start_of
from rfsize.integrations.xgboost.forest import _leaf_table
from rfsize.integrations.xgboost.independent import check_forest
from rfsize.models.damage import damage_refused
from rfsize.stopping.document import checksum

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.damaged import (
    damaged_archive,
    damaged_bytes,
    damaged_numbers,
    damaged_text,
    damaged_values,
    some,
)
from helpers.damaged_models import damaged_lightgbm_file, damaged_xgboost_file

PARAMS: dict[str, Any] = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
PARAMS |= {"num_leaves": 6, "verbosity": -1, "num_threads": 1, "min_data_per_group": 1, "feature_fraction": 0.7}
FOREST = {"objective": "binary:logistic", "subsample": 0.6, "max_depth": 3, "nthread": 1, "num_parallel_tree": 3}


class FrameworkError(Exception):
    """A framework refused the damaged model, so rfsize never sees it."""


class Loader(NamedTuple):
    """The parts of a case; files of ``other`` models must be refused, intact or damaged."""

    whole: list[bytes]
    damaged: Callable[[bytes, np.random.Generator], bytes]
    read: Callable[[bytes], None]
    other: tuple[bytes, ...] = ()


def problem() -> tuple[np.ndarray, np.ndarray]:
    """Rows with a category in the first column, and three classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 0] = rng.integers(0, 5, size=300)
    return X, np.digitize(X[:, 1] + (X[:, 0] > 2), [-0.3, 0.8])


def use(compiled: rfsize.CompiledForest) -> None:
    """Check that a loaded forest predicts."""
    rows = np.zeros((2, compiled.forest.n_features))
    rows[1] = np.nan
    predicted = compiled.predict(rows)
    try:
        predicted = compiled.predict_proba(rows)
    except rfsize.exceptions.NotAForestError:  # of numbers
        pass
    else:
        compiled.votes(rows)
    if not np.isfinite(predicted).all():
        raise AssertionError("a prediction is not finite")


def use_model(model: Any, X: np.ndarray, **drawn: Any) -> None:
    """Compile a model that its framework accepted, count its votes, and draw its bags again."""
    compiled = rfsize.compile(model)
    use(compiled)
    if compiled.forest.n_features == X.shape[1]:
        with contextlib.suppress(rfsize.exceptions.NotAForestError):  # of numbers
            if rfsize.tree_outputs(model, X).votes != compiled.votes(X):
                raise AssertionError("the compiled forest votes otherwise")
        with contextlib.suppress(rfsize.exceptions.InbagError, rfsize.exceptions.NotAForestError):
            rfsize.inbag(model, X, **drawn)


def lightgbm_texts() -> list[bytes]:
    """Models with two classes, with three classes, and of a regression."""
    X, y = problem()
    targets = (({}, y > 0), ({"objective": "multiclass", "num_class": 3}, y), ({"objective": "quantile"}, X[:, 1]))
    return [
        lgb.train(PARAMS | more, lgb.Dataset(X, label, categorical_feature=[0]), 3).model_to_string().encode()
        for more, label in targets
    ]


def damaged_lightgbm(content: bytes, rng: np.random.Generator) -> bytes:
    """Damaged, and without sizes of trees: LightGBM then reads tree by tree, and its errors can be caught."""
    text = re.sub("\ntree_sizes=.*", "", content.decode())
    for _ in range(some(rng, (1, 1, 1, 2, 3))):
        text = damaged_text(text, rng)
    return text.encode()


def lightgbm_model() -> Loader:
    """Texts of models, read by LightGBM."""
    X, _ = problem()

    def read(content: bytes) -> None:
        try:
            model = lgb.Booster(model_str=content.decode())
        except (lgb.basic.LightGBMError, ValueError, TypeError, RecursionError, UnicodeError) as error:
            raise FrameworkError from error
        use_model(model, X)

    return Loader(lightgbm_texts()[:2], damaged_lightgbm, read)


def xgboost_models() -> Iterator[xgb.Booster]:
    """Models with two classes, with three classes, and with trees that score all classes."""
    X, y = problem()
    several = FOREST | {"objective": "multi:softprob", "num_class": 3}
    for params, label in ((FOREST, y > 0), (several, y), (several | {"multi_strategy": "multi_output_tree"}, y)):
        types = ["q" if "multi_strategy" in params else "c", "q", "q", "q"]
        matrix = xgb.DMatrix(X, label, feature_types=types, enable_categorical=True)
        yield xgb.train(params | {"max_cat_to_onehot": 1}, matrix, 1)


def damaged_xgboost(content: bytes, rng: np.random.Generator) -> bytes:
    """JSON with one to three changed values, or UBJ with some changed bytes."""
    if content.startswith(b'{"'):
        document = json.loads(content)
        for _ in range(some(rng, (1, 1, 1, 2, 3))):
            document = damaged_values(document, rng)
        return json.dumps(document).encode()
    return damaged_bytes(content, rng)


def xgboost_json() -> Loader:
    """Documents of models, read without XGBoost."""

    def read(content: bytes) -> None:
        with damage_refused():
            learner = json.loads(content).get("learner")
            check_forest(learner, None, casts_votes=False)
            members, value = model_json.members(learner), model_json.leaf_values(learner)
            margins = base_margins(learner, max(members.shape[1], model_json.scores_per_leaf(learner)))
            _leaf_table(learner, members, margins)
            start, nodes = start_of(learner, margins), Nodes.of(learner)
            if start is not None:
                refuse_other_starts(start, nodes, gradients(nodes))
            model_json.conventions(learner, np.nan, margins)
            model_json.tree_table(learner, members.ravel(), value.reshape(len(value), -1), np.zeros(0))

    X, y = problem()
    frame = pd.DataFrame(X).astype({0: "str"}).astype({0: "category"}).rename(columns=str)
    named = xgb.train(FOREST | {"max_cat_to_onehot": 1}, xgb.DMatrix(frame, y > 0, enable_categorical=True), 1)
    return Loader([bytes(model.save_raw("json")) for model in (*xgboost_models(), named)], damaged_xgboost, read)


def xgboost_model() -> Loader:
    """Models as JSON and UBJ, read by XGBoost."""
    X, _ = problem()

    def read(content: bytes) -> None:
        model = xgb.Booster()
        try:
            model.load_model(bytearray(content))
        except (xgb.core.XGBoostError, ValueError) as error:
            raise FrameworkError from error
        use_model(model, X, seed=0, subsample=0.6)

    whole = [bytes(model.save_raw(kind)) for kind in ("json", "json", "ubj") for model in xgboost_models()]
    return Loader(whole, damaged_xgboost, read)


def use_file(path: Path, X: np.ndarray) -> None:
    """Check that the command line uses, cuts and writes the model of a file without harm."""
    loaded = load_model(path)
    try:
        own = loaded.integration.predictions(loaded.model, X)
    except (lgb.basic.LightGBMError, xgb.core.XGBoostError, ValueError, TypeError) as error:
        raise FrameworkError from error
    use_model(loaded.model, X)
    if own.shape[0] != len(X):
        raise AssertionError("the framework predicts other rows")
    with contextlib.suppress(ValueError):  # of a forest whose trees cast no votes, for one
        loaded.integration.save(rfsize.truncate(loaded.model, n_trees=1), path)
    loaded.integration.save(loaded.model, path)


def lightgbm_files() -> Loader:
    """Files of LightGBM for the command line, with damaged parts."""
    X, y = problem()
    path = Path(tempfile.mkdtemp()) / "model.txt"
    boosted = lgb.train(PARAMS | {"boosting": "gbdt"}, lgb.Dataset(X, y > 0), 3)
    frame = pd.DataFrame(X).astype({0: "str"}).astype({0: "category"}).rename(columns=str)
    named = lgb.train(PARAMS, lgb.Dataset(frame, y > 0), 5)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        use_file(path, X)

    whole, other = [*lightgbm_texts(), named.model_to_string().encode()], boosted.model_to_string().encode()
    return Loader(whole, damaged_lightgbm_file, not_a_forest_is_refused(read), (other,))


def xgboost_files() -> Loader:
    """Files of XGBoost for the command line, JSON and UBJ, with damaged parts."""
    X, y = problem()
    path = Path(tempfile.mkdtemp()) / "model.ubj"
    frame = pd.DataFrame(X).astype({0: "str"}).astype({0: "category"}).rename(columns=str)
    named = xgb.train(FOREST | {"max_cat_to_onehot": 1}, xgb.DMatrix(frame, y > 0, enable_categorical=True), 1)
    boosted = xgb.train(FOREST | {"booster": "dart"}, xgb.DMatrix(X, y > 0), 2)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        use_file(path, X)

    whole = [bytes(model.save_raw("json")) for model in (*xgboost_models(), named)]
    return Loader(whole, damaged_xgboost_file, not_a_forest_is_refused(read), (bytes(boosted.save_raw("json")),))


def not_a_forest_is_refused(read: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The same reader; the command line's message about other files counts as one of rfsize's own errors."""

    def reading(content: bytes) -> None:
        try:
            read(content)
        except ValueError as error:
            if "is neither" in str(error):
                raise rfsize.exceptions.NotAForestError(str(error)) from error
            raise

    return reading


def compiled_forests() -> Loader:
    """Files of `rfsize.load`."""
    X, y = problem()
    path = Path(tempfile.mkdtemp()) / "forest.npz"
    whole = []
    model = lgb.train(PARAMS, lgb.Dataset(X, y > 0, categorical_feature=[0]), 3)
    for forest in (rfsize.compile(model, rfsize.StopTable.build(3, alpha=0.9)), *map(rfsize.compile, xgboost_models())):
        forest.save(path)
        whole.append(path.read_bytes())

    def read(content: bytes) -> None:
        path.write_bytes(content)
        use(rfsize.load(path))

    def damaged(content: bytes, rng: np.random.Generator) -> bytes:
        return some(rng, (damaged_bytes, damaged_archive, damaged_archive, damaged_numbers))(content, rng)

    return Loader(whole, damaged, read)


def damaged_table(content: bytes, rng: np.random.Generator) -> bytes:
    """A stop table with damaged bytes, or with a changed value and mostly a new signature."""
    if rng.random() > 0.7:
        return damaged_bytes(content, rng)
    document = damaged_values(json.loads(content), rng)
    rest = {key: value for key, value in document.items() if key != "checksum"}
    with contextlib.suppress(ValueError):  # NaN cannot be signed
        document = {**rest, "checksum": checksum(rest)}
    return json.dumps(document).encode()


def stop_tables() -> Loader:
    """Files of `StopTable.load`, most of them with a new signature."""
    path = Path(tempfile.mkdtemp()) / "table.json"
    whole = []
    for n_classes in (2, 3, 4):
        rfsize.StopTable.build(9, alpha=0.9, n_classes=n_classes).save(path)
        whole.append(path.read_bytes())
    rfsize.StopTable.lossless([3.0, 2.0, 1.5, 1.0]).save(path)
    whole.append(path.read_bytes())

    def read(content: bytes) -> None:
        path.write_bytes(content)
        table = rfsize.StopTable.load(path)
        str(table)
        if table.kind == "binary" and not np.isfinite(table.expected_trees()):
            raise AssertionError("the expected trees are not finite")

    return Loader(whole, damaged_table, read)


def certified_tables() -> Loader:
    """Stop tables with certificates, from each kind of calibration, compiled with their forest."""
    path = Path(tempfile.mkdtemp()) / "table.json"
    X, y = problem()
    rows = np.random.default_rng(1).normal(size=(1000, X.shape[1]))
    several = PARAMS | {"objective": "multiclass", "num_class": 3}
    two, three = (
        lgb.train(given, lgb.Dataset(X, y if "num_class" in given else y > 0), 15) for given in (PARAMS, several)
    )
    wanted = ({"voting": "soft"}, {"voting": "hard"}, {"metric": "probabilities", "tolerance": 0.2})
    tables = [
        (model, rfsize.StopTable.calibrate(model, rows, alpha=0.8, **more)) for model in (two, three) for more in wanted
    ]
    forest_of, whole = {}, []
    for model, table in tables:
        table.save(path)
        whole.append(path.read_bytes())
        forest_of[table.n_classes] = model

    def read(content: bytes) -> None:
        path.write_bytes(content)
        table = rfsize.StopTable.load(path)
        str(table), repr(table)
        if table.n_classes in forest_of:
            with contextlib.suppress(ValueError):  # made for another forest
                use(rfsize.compile(forest_of[table.n_classes], table))

    return Loader(whole, damaged_table, read)


LOADERS: dict[str, Callable[[], Loader]] = {
    "compiled forest": compiled_forests,
    "stop table": stop_tables,
    "certified table": certified_tables,
    "LightGBM file": lightgbm_files,
    "XGBoost file": xgboost_files,
    "XGBoost document": xgboost_json,
    "LightGBM model": lightgbm_model,
    "XGBoost model": xgboost_model,
}
