"""A certificate holds for one forest: no other is compiled with its table, and the same one is, however it was kept."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.stopping.document import checksum

ANOTHER = r"certified for another forest .* StopTable\.calibrate\(model, X\)"


def certified(model: Any, data: Data, **options: Any) -> rfsize.StopTable:
    return rfsize.StopTable.calibrate(model, data.fresh, alpha=0.9, **options)


def trained(framework: str, data: Data, seed: int) -> Any:
    if framework == "scikit-learn":
        return RandomForestClassifier(21, max_depth=4, random_state=seed).fit(data.X, data.three)
    train, several = (
        (train_lightgbm, {"objective": "multiclass"})
        if framework == "lightgbm"
        else (train_xgboost, {"objective": "multi:softprob"})
    )
    return train(data.X, data.three, 21, num_class=3, seed=seed, **several)


def kept(model: Any, folder: Path) -> list[Any]:
    """The model read from whatever it is kept in."""
    found = [pickle.loads(pickle.dumps(model))]
    if isinstance(model, lgb.Booster):
        found.append(lgb.Booster(model_str=model.model_to_string()))
    if isinstance(model, xgb.Booster):
        for ending in ("json", "ubj"):
            model.save_model(folder / f"model.{ending}")
            found.append(xgb.Booster(model_file=folder / f"model.{ending}"))
    return found


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost", "scikit-learn"])
@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_another_forest_is_refused(framework: str, voting: Any, data: Data, tmp_path: Path) -> None:
    model, other = (trained(framework, data, seed) for seed in (1, 2))
    table = certified(model, data, voting=voting)
    for same in (model, *kept(model, tmp_path)):
        assert rfsize.compile(same, table).table is table
    with pytest.raises(ValueError, match=ANOTHER):
        rfsize.compile(other, table)
    built = rfsize.StopTable.build(21, alpha=0.9, n_classes=3)
    rfsize.compile(other, built)
    with pytest.raises(ValueError, match=ANOTHER):
        rfsize.compile(other, built.certified(model, data.fresh))


def test_compiled_forests_are_known_by_their_model(data: Data, tmp_path: Path) -> None:
    model, other = (trained("lightgbm", data, seed) for seed in (1, 2))
    rfsize.compile(model).save(tmp_path / "forest.npz")
    for fast in (rfsize.compile(model), rfsize.load(tmp_path / "forest.npz")):
        table = certified(fast, data)
        assert rfsize.compile(model, table).table is table
        assert rfsize.CompiledForest(fast.forest, certified(model, data)).table is not None
        with pytest.raises(ValueError, match=ANOTHER):
            rfsize.compile(other, table)


def test_regressions(data: Data) -> None:
    model, other = (
        RandomForestRegressor(21, max_depth=4, random_state=seed).fit(data.X, data.X[:, 0]) for seed in (1, 2)
    )
    table = certified(model, data, metric="scores", tolerance=0.3)
    assert rfsize.compile(model, table).table is table
    with pytest.raises(ValueError, match=ANOTHER):
        rfsize.compile(other, table)


def test_a_table_that_does_not_tell_its_forest(data: Data, tmp_path: Path) -> None:
    """As those of forests that have no leaves to tell them by."""
    model, other = (trained("scikit-learn", data, seed) for seed in (1, 2))
    document = certified(model, data).to_dict()
    document["certificate"]["forest"] = None
    del document["checksum"]
    table = rfsize.StopTable.from_dict({**document, "checksum": checksum(document)})
    assert rfsize.compile(other, table).table is table
    document["certificate"]["forest"] = "../etc"
    with pytest.raises(rfsize.exceptions.TableError, match="SHA-256"):
        rfsize.StopTable.from_dict({**document, "checksum": checksum(document)})


def test_members_that_are_no_trees(data: Data) -> None:
    from sklearn.ensemble import BaggingClassifier
    from sklearn.naive_bayes import GaussianNB

    model = BaggingClassifier(GaussianNB(), 21, random_state=0).fit(data.X, data.y)
    table = certified(model, data, voting="hard")
    assert np.isfinite(table.certificate.bound)
