"""Every integration does what rfsize asks of one: the three that rfsize brings, and one that somebody else installs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier
from xgboost import XGBClassifier

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.models import registry
from rfsize.models.framework import Framework
from rfsize.testing import check_framework

ROWS, TREES = 400, 15
ALL = {"entry point", "votes", "truncation", "compiled", "bags", "more trees", "refusals"}
NOT_GROWN = {"more trees"}
SCORES_ONLY = {"votes", "compiled", "more trees"}

XGBOOST = {"n_estimators": 1, "num_parallel_tree": TREES, "learning_rate": 1, "subsample": 0.6, "n_jobs": 1}
LIGHTGBM = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "verbose": -1, "n_jobs": 1}

# Models, and what their integration refuses to do.
MODELS: dict[str, tuple[Any, set[str]]] = {
    "lightgbm": (lambda X, y, three: train_lightgbm(X, y, TREES), NOT_GROWN),
    "lightgbm, three classes": (
        lambda X, y, three: train_lightgbm(X, three, TREES, objective="multiclass", num_class=3),
        NOT_GROWN,
    ),
    "lightgbm, one against all": (
        lambda X, y, three: train_lightgbm(X, three, TREES, objective="multiclassova", num_class=3),
        NOT_GROWN,
    ),
    "lightgbm, regression": (
        lambda X, y, three: train_lightgbm(X, X[:, 0], TREES, objective="regression"),
        SCORES_ONLY,
    ),
    "LGBMClassifier": (lambda X, y, three: LGBMClassifier(n_estimators=TREES, **LIGHTGBM).fit(X, y), set()),
    "xgboost": (lambda X, y, three: train_xgboost(X, y, TREES), NOT_GROWN),
    "xgboost, three classes": (
        lambda X, y, three: train_xgboost(X, three, TREES, objective="multi:softprob", num_class=3),
        NOT_GROWN,
    ),
    "xgboost, regression": (
        lambda X, y, three: train_xgboost(X, X[:, 0], TREES, objective="reg:squarederror"),
        SCORES_ONLY,
    ),
    "XGBClassifier": (lambda X, y, three: XGBClassifier(**XGBOOST).fit(X, three), set()),
    "RandomForestClassifier": (lambda X, y, three: RandomForestClassifier(TREES, random_state=0).fit(X, three), set()),
    "ExtraTreesClassifier": (
        lambda X, y, three: ExtraTreesClassifier(TREES, bootstrap=True, random_state=0).fit(X, y),
        set(),
    ),
    "RandomForestRegressor": (
        lambda X, y, three: RandomForestRegressor(TREES, random_state=0).fit(X, X[:, 0]),
        SCORES_ONLY,
    ),
    "BaggingClassifier": (
        lambda X, y, three: BaggingClassifier(KNeighborsClassifier(3), TREES, max_samples=0.5, random_state=0).fit(
            X, y
        ),
        {"compiled"},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_three_that_rfsize_brings(name: str, data: Data) -> None:
    train, refuses = MODELS[name]
    X, y, three = data.X[:ROWS], data.y[:ROWS], data.three[:ROWS]
    model = train(X, y, three)
    integration = registry.framework_of(model)
    assert integration is not None
    labels = {0: X[:, 0], 2: y, 3: three}[len(integration.adapt(model, casts_votes=False).classes)]
    found = check_framework(integration, model, X, labels)
    assert set(found) == ALL
    assert {what for what, answer in found.items() if answer != "right"} == refuses
    assert all(answer == "right" or answer.startswith("refused: ") for answer in found.values())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The distribution of somebody else, installed from a folder; its framework and its integration."""
    folder = tmp_path_factory.mktemp("third party")
    source, target = folder / "source", folder / "site"
    shutil.copytree(Path(__file__).parent / "third_party" / "baggedtrees", source)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(target), str(source)], check=True, capture_output=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(target))
        registry._entries.cache_clear()
        import baggedtrees

        yield baggedtrees, registry.framework_named("baggedtrees")
    registry._entries.cache_clear()
    registry.framework_named.cache_clear()


@pytest.mark.parametrize("classes", [2, 3])
def test_one_that_somebody_else_installs(installed: Any, data: Data, classes: int) -> None:
    framework, integration = installed
    X, y = data.X[:ROWS], (data.y if classes == 2 else data.three)[:ROWS]
    model = framework.BaggedTrees(TREES).fit(X, y)
    found = check_framework(integration, model, X, y)
    assert {what for what, answer in found.items() if answer != "right"} == NOT_GROWN
    report = rfsize.size(model, X, oob=True, alpha=0.9)
    assert report.source == "oob"
    small = rfsize.truncate(model, n_trees=5)
    assert type(small) is framework.BaggedTrees
    assert len(small.trees_) == 5
    assert len(model.trees_) == TREES
    expected = rfsize.tree_outputs(model, data.fresh[:50]).votes.winner()
    assert np.array_equal(rfsize.compile(model, voting="hard").predict(data.fresh[:50]), expected)
    with pytest.raises(ValueError, match="cannot train more trees of baggedtrees"):
        rfsize.grow(model, X, y)


def broken(integration: Framework, damage: Any) -> Framework:
    """The same integration, whose adapters are damaged; it goes by the entry point of the sound one."""

    class Broken(type(integration)):  # type: ignore[misc]
        def adapt(self, model: Any, *, casts_votes: bool = True) -> Any:
            adapter = super().adapt(model, casts_votes=casts_votes)
            damage(adapter)
            return adapter

    return Broken()


def _other_votes(adapter: Any) -> None:
    leaf_votes = adapter.leaf_votes
    adapter.leaf_votes = lambda threshold: 1 - leaf_votes(threshold)


def _other_leaves(adapter: Any) -> None:
    leaf_index = adapter.leaf_index
    adapter.leaf_index = lambda X: leaf_index(X)[:, ::-1]


def _raw_off(adapter: Any) -> None:
    adapter.leaves = replace(adapter.leaves, raw=adapter.leaves.raw * 1.01)


def _one_tree_short(adapter: Any) -> None:
    truncated = adapter.truncated
    adapter.truncated = lambda n_trees: truncated(max(1, n_trees - 1))


def _anything_proves(adapter: Any) -> None:
    bags = adapter.bags

    def lenient(*arguments: Any) -> Any:
        found = bags(*arguments)
        found.contradicted = lambda leaves, rebuilt: np.zeros(len(rebuilt), dtype=bool)
        return found

    adapter.bags = lenient


def _takes_any_columns(adapter: Any) -> None:
    adapter.check = lambda X: X


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_other_votes, "alone predicts"),
        (_other_leaves, "alone predicts|trees do not have"),
        (_raw_off, "off the mean of their scores"),
        (_one_tree_short, r"alone predicts|has \d+ trees"),
        (_anything_proves, "in another order"),
        (_takes_any_columns, "column too many"),
    ],
)
@pytest.mark.parametrize("framework", ["lightgbm", "xgboost", "sklearn"])
def test_what_is_wrong_is_found(
    framework: str, damage: Any, message: str, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    model = {
        "lightgbm": lambda: train_lightgbm(X, y, TREES),
        "xgboost": lambda: train_xgboost(X, y, TREES),
        "sklearn": lambda: RandomForestClassifier(TREES, max_depth=4, random_state=0).fit(X, y),
    }[framework]()
    integration = broken(registry.framework_named(framework), damage)
    monkeypatch.setattr("rfsize.testing.framework_of", lambda model: integration)
    with pytest.raises(AssertionError, match=message):
        check_framework(integration, model, X, y)


def test_an_integration_of_other_models_is_refused(lgb_booster: Any, data: Data) -> None:
    with pytest.raises(AssertionError, match="name its entry point"):
        check_framework(registry.framework_named("sklearn"), lgb_booster, data.X, data.y)


def test_a_model_that_is_changed_is_found(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    model = RandomForestClassifier(TREES, random_state=0).fit(X, y)

    def damage(adapter: Any) -> None:
        truncated = adapter.truncated

        def forgetful(n_trees: int) -> Any:
            found = truncated(n_trees)
            if n_trees == TREES:
                model.estimators_.reverse()
                model.estimators_.pop()
            return found

        adapter.truncated = forgetful

    integration = broken(registry.framework_named("sklearn"), damage)
    monkeypatch.setattr("rfsize.testing.framework_of", lambda model: integration)
    with pytest.raises(AssertionError, match="caller's model"):
        check_framework(integration, model, X, y)
