"""Which forest, threshold and classes a stop table speaks of, and that no other is compiled with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.naive_bayes import GaussianNB

import rfsize
from helpers import models, zoo
from helpers.damaged import signed
from rfsize.exceptions import FileError

X, SIGNAL = np.nan_to_num(zoo.training()[0]), zoo.training()[1]
ROWS, FRESH = np.nan_to_num(zoo.fresh_rows(1200, seed=5)), np.nan_to_num(zoo.fresh_rows(500))
AT = 0.2
pytestmark = pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")


def trained(framework: str, n_classes: int = 2, seed: int = 1) -> Any:
    y = zoo.classes_of(SIGNAL, n_classes)
    several = {} if n_classes == 2 else {"num_class": n_classes}
    if framework == "lightgbm":
        return zoo.lightgbm("multiclass" if several else "binary", y, X=X, seed=seed, **several)
    if framework == "xgboost":
        return zoo.xgboost("multi:softprob" if several else "binary:logistic", y, X, seed=seed, **several)
    return RandomForestClassifier(zoo.TREES, max_depth=4, random_state=seed).fit(X, y)


def tables_at(model: Any, **threshold: float) -> dict[str, rfsize.StopTable]:
    """A table of each kind."""
    built = rfsize.StopTable.build(zoo.TREES, alpha=0.9, prior=rfsize.tree_outputs(model, ROWS, **threshold).votes)
    return {
        "scores": rfsize.StopTable.calibrate(model, ROWS, alpha=0.9, voting="soft", **threshold),
        "certified votes": rfsize.StopTable.calibrate(model, ROWS, alpha=0.9, voting="hard", **threshold),
        "built": built,
    }


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost", "scikit-learn"])
def test_the_threshold_of_a_table_is_taken_along(framework: str, tmp_path: Path) -> None:
    model = trained(framework)
    for table in tables_at(model, threshold=AT).values():
        table.save(tmp_path / "table.json")
        fast = rfsize.compile(model, rfsize.StopTable.load(tmp_path / "table.json"))
        wholes = (rfsize.compile(model, voting=fast.voting, threshold=at) for at in (AT, 0.5))
        right, wrong = (np.mean(whole.predict_labels(FRESH) != fast.predict_labels(FRESH)) for whole in wholes)
        assert right < min(0.2, wrong)
        fast.save(tmp_path / "forest.rfsize")
        for same in (rfsize.compile(model, table, threshold=AT), rfsize.load(tmp_path / "forest.rfsize")):
            assert same.predict_labels(FRESH).tolist() == fast.predict_labels(FRESH).tolist()
        with pytest.raises(ValueError, match="threshold"):
            rfsize.compile(model, table, threshold=0.5)


def test_tables_of_any_threshold() -> None:
    model = trained("scikit-learn")
    counts = rfsize.tree_outputs(model, ROWS, threshold=AT).votes.counts
    for table in (
        rfsize.StopTable.build(zoo.TREES, alpha=0.9),
        rfsize.StopTable.build(zoo.TREES, alpha=0.9, prior=rfsize.Votes(counts)),
        rfsize.StopTable.calibrate(model, ROWS, metric="probabilities", tolerance=0.1, alpha=0.9),
    ):
        assert table.threshold is None
        for threshold in (AT, 0.5):
            share = rfsize.compile(model, table, threshold=threshold).predict_proba(FRESH)[:, 1]
            assert np.abs(share - model.predict_proba(FRESH)[:, 1]).mean() < 0.1


def test_classes_of_a_table_are_compared() -> None:
    def forest(*names: Any) -> Any:
        return RandomForestClassifier(zoo.TREES, random_state=0).fit(X, np.array(names)[zoo.classes_of(SIGNAL, 2)])

    table, by_number = (
        rfsize.StopTable.build(zoo.TREES, prior=rfsize.tree_outputs(model, ROWS).votes)
        for model in (forest("ash", "elm"), forest(0, 1))
    )
    assert table.classes == ("ash", "elm")
    for names, given in ((("ash", "elm"), table), ((0, 1), table), (("ash", "elm"), by_number)):
        rfsize.compile(forest(*names), given)  # a booster knows its classes by their numbers alone
    with pytest.raises(ValueError, match="'birch'"):
        rfsize.compile(forest("birch", "elm"), table)


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost", "scikit-learn"])
@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_a_certificate_is_of_one_forest(framework: str, voting: Any, tmp_path: Path) -> None:
    model, other = (trained(framework, 3, seed) for seed in (1, 2))
    table = rfsize.StopTable.calibrate(model, ROWS, alpha=0.9, voting=voting)
    built = rfsize.StopTable.build(zoo.TREES, alpha=0.9, n_classes=3)
    ways = {"lightgbm": ["text"], "xgboost": ["json", "ubj"]}.get(framework, [])
    for same in (model, *(models.kept_in(model, way, tmp_path) for way in ("pickle", *ways))):
        assert rfsize.compile(same, table).table is table
    rfsize.compile(other, built)
    with pytest.raises(ValueError, match=r"StopTable\.calibrate\(model, X\)"):
        rfsize.compile(other, table)


def test_a_certificate_of_a_regression() -> None:
    model, other = (RandomForestRegressor(21, max_depth=4, random_state=seed).fit(X, SIGNAL) for seed in (1, 2))
    table = rfsize.StopTable.calibrate(model, ROWS, alpha=0.9, metric="scores", tolerance=0.3)
    assert rfsize.compile(model, table).table is table
    with pytest.raises(ValueError, match=r"StopTable\.calibrate"):
        rfsize.compile(other, table)


def test_a_certificate_that_names_no_forest() -> None:
    """As those of members that are no trees, which have no leaves to tell them by."""
    members = BaggingClassifier(GaussianNB(), 21, random_state=0).fit(X, zoo.classes_of(SIGNAL, 2))
    table = rfsize.StopTable.calibrate(members, ROWS, alpha=0.9, voting="hard")
    assert table.certificate.bound <= 0.1
    document = rfsize.StopTable.calibrate(trained("scikit-learn"), ROWS, alpha=0.9).to_dict()
    document["certificate"]["forest"] = None
    anonymous = rfsize.StopTable.from_dict(signed(document))
    assert rfsize.compile(trained("scikit-learn", seed=2), anonymous).table is anonymous
    document["certificate"]["forest"] = "../etc"
    with pytest.raises(FileError):
        rfsize.StopTable.from_dict(signed(document))


def test_votes_know_their_threshold() -> None:
    model = trained("xgboost")
    votes = rfsize.tree_outputs(model, ROWS, threshold=AT).votes
    compiled = rfsize.compile(model, threshold=AT).votes(ROWS)
    assert votes.threshold == votes.take(slice(5)).threshold == compiled.threshold == AT
    assert rfsize.Votes([[3, 4]]).threshold is None
