"""What labels a stop table speaks of, and what it may meet: trees, classes, threshold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.stopping.document import checksum

TREES, AT = 41, 0.2
FORESTS = {
    "random forest": lambda X, y: RandomForestClassifier(TREES, random_state=0).fit(X, y),
    "lightgbm": lambda X, y: train_lightgbm(X, y, TREES),
    "xgboost": lambda X, y: train_xgboost(X, y, TREES),
}


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(1200, 8))


def tables(model: Any, rows: np.ndarray, **threshold: float) -> dict[str, rfsize.StopTable]:
    """One of each kind, of labels above a threshold."""
    votes = rfsize.tree_outputs(model, rows, **threshold).votes
    built = rfsize.StopTable.build(TREES, alpha=0.9, prior=votes)
    return {
        "averaged scores": rfsize.StopTable.calibrate(model, rows, alpha=0.9, voting="soft", **threshold),
        "certified votes": rfsize.StopTable.calibrate(model, rows, alpha=0.9, voting="hard", **threshold),
        "built": built,
        "built and certified": built.certified(model, rows),
    }


@pytest.mark.parametrize("kind", FORESTS)
def test_the_threshold_of_a_table_is_taken_along(kind: str, data: Data, rows: np.ndarray, tmp_path: Path) -> None:
    model = FORESTS[kind](data.X, data.y)
    for name, table in tables(model, rows, threshold=AT).items():
        assert table.threshold == AT
        assert "threshold=0.2" in repr(table)
        table.save(tmp_path / "table.json")
        fast = rfsize.compile(model, rfsize.StopTable.load(tmp_path / "table.json"))
        assert fast.forest.threshold == AT
        whole = rfsize.compile(model, voting=fast.voting, threshold=AT).predict_labels(data.fresh)
        differ = np.mean(fast.predict_labels(data.fresh) != whole)
        assert differ <= 0.15, name
        said = rfsize.compile(model, table, threshold=AT)
        assert np.array_equal(said.predict_labels(data.fresh), fast.predict_labels(data.fresh))
        fast.save(tmp_path / "forest.npz")
        again = rfsize.load(tmp_path / "forest.npz")
        assert (again.table, again.forest.threshold) == (fast.table, AT)


@pytest.mark.parametrize("kind", FORESTS)
def test_another_threshold_is_refused(kind: str, data: Data, rows: np.ndarray) -> None:
    model = FORESTS[kind](data.X, data.y)
    for made_at, asked in ((AT, 0.5), (0.5, AT), (AT, 0.3)):
        for table in tables(model, rows, threshold=made_at).values():
            with pytest.raises(ValueError, match=f"a threshold of {made_at:g}, found threshold={asked:g}"):
                rfsize.compile(model, table, threshold=asked)
    built = tables(model, rows, threshold=AT)["built"]
    with pytest.raises(ValueError, match=r"a threshold of 0\.2, found threshold=0\.5"):
        built.certified(model, rows, threshold=0.5)


def test_tables_that_speak_of_any_threshold(data: Data, rows: np.ndarray) -> None:
    model = FORESTS["random forest"](data.X, data.y)
    counts = rfsize.tree_outputs(model, rows, threshold=AT).votes.counts
    near = rfsize.StopTable.calibrate(model, rows, metric="probabilities", tolerance=0.1, alpha=0.9)
    for table in (
        rfsize.StopTable.build(TREES, alpha=0.9),
        rfsize.StopTable.build(TREES, alpha=0.9, prior=rfsize.Votes(counts)),
        near,
    ):
        assert table.threshold is None
        assert rfsize.compile(model, table).forest.threshold == 0.5
        assert rfsize.compile(model, table, threshold=AT).forest.threshold == AT
    each_class = rfsize.StopTable.calibrate(
        model, rows, metric="probabilities", tolerance=0.2, alpha=0.8, average="macro", threshold=AT
    )
    assert each_class.threshold == AT


def test_classes_are_compared(data: Data, rows: np.ndarray) -> None:
    def forest(*names: Any) -> Any:
        return ExtraTreesClassifier(TREES, random_state=0).fit(data.X, np.array(names)[data.y])

    table = rfsize.StopTable.build(TREES, prior=rfsize.tree_outputs(forest("ash", "elm"), rows).votes)
    assert table.classes == ("ash", "elm")
    rfsize.compile(forest("ash", "elm"), table)
    with pytest.raises(ValueError, match="for the classes 'ash', 'elm', the forest has 'birch', 'elm'"):
        rfsize.compile(forest("birch", "elm"), table)
    with pytest.raises(ValueError, match="for the classes 'ash', 'elm', the forest has 'birch', 'elm'"):
        table.certified(forest("birch", "elm"), rows)
    # A booster knows its classes by their numbers alone.
    by_number = rfsize.StopTable.build(TREES, prior=rfsize.tree_outputs(forest(0, 1), rows).votes)
    for named, other in ((table, forest(0, 1)), (by_number, forest("ash", "elm"))):
        rfsize.compile(other, named)


def test_a_forest_s_file_with_a_table_of_another_threshold(data: Data, rows: np.ndarray, tmp_path: Path) -> None:
    model = FORESTS["random forest"](data.X, data.y)
    fast = rfsize.compile(model, tables(model, rows)["built"])
    fast.table = replace(fast.table, threshold=AT)
    fast.save(tmp_path / "forest.npz")
    with pytest.raises(rfsize.exceptions.ForestFileError, match=r"a threshold of 0\.2, found threshold=0\.5"):
        rfsize.load(tmp_path / "forest.npz")


@pytest.mark.parametrize("threshold", [0.0, 1.0, 2, "0.5", True])
def test_a_forged_threshold(threshold: Any) -> None:
    document = {**rfsize.StopTable.build(11).to_dict(), "threshold": threshold}
    document["checksum"] = checksum({name: value for name, value in document.items() if name != "checksum"})
    with pytest.raises(rfsize.exceptions.TableError, match="threshold must be a probability"):
        rfsize.StopTable.from_dict(document)


def test_votes_know_their_threshold(data: Data, rows: np.ndarray) -> None:
    model = FORESTS["xgboost"](data.X, data.y)
    votes = rfsize.tree_outputs(model, rows, threshold=AT).votes
    assert votes.threshold == AT
    assert votes.take(slice(5)).threshold == AT
    assert rfsize.tree_outputs(model, rows, threshold=AT).votes.threshold == AT
    assert rfsize.compile(model, threshold=AT).votes(rows).threshold == AT
    assert rfsize.Votes([[3, 4]]).threshold is None
    assert rfsize.Votes([[3, 4]]).merge(rfsize.Votes([[1, 2]], threshold=AT)).threshold == AT
    for join in (votes.merge, votes.concat):
        with pytest.raises(ValueError, match=r"above 0\.2 in the one and above 0\.5 in the other"):
            join(rfsize.tree_outputs(model, rows).votes)
    with pytest.raises(ValueError, match="for two classes, and the votes are for 3"):
        rfsize.Votes([[1, 2, 3]], threshold=AT)
