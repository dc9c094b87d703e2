"""Files that older versions wrote load, and give the answers that they gave then.

Those in ``data`` are of rfsize 0.1.0 as of commit 4168bd3, the last before it was divided into packages: forests of
500 random rows with missing values and a category, trained by LightGBM 4.7, XGBoost 3.2 and scikit-learn 1.9, compiled,
saved, and loaded again to record in ``answers.npz`` what they said of 60 more rows; stop tables, likewise asked about
40 rows of random votes; and the search of `test_a_search_is_taken_up`, run from the beginning.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import rfsize

DATA = Path(__file__).parent / "data"
TABLES = ["binary", "limit", "ternary", "leaders", "weighted"]


@pytest.fixture(scope="module")
def answers() -> dict[str, np.ndarray]:
    with np.load(DATA / "answers.npz") as file:
        return dict(file)


@pytest.mark.parametrize("name", ["lightgbm_multiclass", "xgboost_binary", "adaboost"])
def test_compiled_forests(name: str, answers: dict[str, np.ndarray]) -> None:
    forest = rfsize.load(DATA / f"{name}.npz")
    # Trees of scikit-learn's AdaBoost were trained without missing values.
    rows = np.nan_to_num(answers["rows"]) if name == "adaboost" else answers["rows"]
    labels, trees = forest.predict(rows, return_trees=True)
    assert_same(labels, answers[f"{name}.labels"])
    assert_same(trees, answers[f"{name}.trees"])
    # NumPy's exp rounds the last bits by the processor's kind.
    np.testing.assert_array_max_ulp(forest.predict_proba(rows), answers[f"{name}.probabilities"], maxulp=4)
    if name != "adaboost":
        assert_same(forest.votes(rows).counts, answers[f"{name}.votes"])


def test_the_table_of_a_compiled_forest() -> None:
    table = rfsize.load(DATA / "lightgbm_multiclass.npz").table
    assert table is not None
    assert (table.kind, table.n_trees, table.n_classes, table.alpha) == ("ternary", 21, 3, 0.95)
    assert rfsize.load(DATA / "xgboost_binary.npz").table is None


@pytest.mark.parametrize("name", TABLES)
def test_stop_tables(name: str, answers: dict[str, np.ndarray]) -> None:
    table = rfsize.StopTable.load(DATA / f"table_{name}.json")
    assert table.kind == ("binary" if name == "limit" else name)
    labels, trees = table.apply(answers[f"table_{name}.votes"])
    assert_same(labels, answers[f"table_{name}.labels"])
    assert_same(trees, answers[f"table_{name}.trees"])
    if name != "weighted":
        expected = [table.expected_trees(), table.expected_disagreement(), table.expected_unsettled()]
        np.testing.assert_allclose(expected, answers[f"table_{name}.expected"], rtol=1e-12)


def test_a_search_is_taken_up(answers: dict[str, np.ndarray], tmp_path: Path) -> None:
    file = tmp_path / "search.zip"
    shutil.copy(DATA / "search.zip", file)
    found = search_of_answers(answers, file, [0.3, 0.5, 0.7])
    assert_same(found.curve, answers["search.curve"])  # with the seconds of the first time
    assert file.read_bytes() == (DATA / "search.zip").read_bytes()


def test_a_search_of_files_without_blocks_goes_on(answers: dict[str, np.ndarray], tmp_path: Path) -> None:
    file = tmp_path / "search.zip"
    shutil.copy(DATA / "search.zip", file)
    first = search_of_answers(answers, file, [0.3, 0.5, 0.6, 0.7])
    again = search_of_answers(answers, file, [0.3, 0.5, 0.6, 0.7])
    assert again.curve["seconds"].tolist() == first.curve["seconds"].tolist()
    assert again.curve["size"].tolist() == first.curve["size"].tolist()
    assert_same(search_of_answers(answers, file, [0.3, 0.5, 0.7]).curve, answers["search.curve"])


def search_of_answers(answers: dict[str, np.ndarray], file: Path, fractions: list[float]) -> rfsize.FractionSearch:
    params: dict[str, Any] = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "num_leaves": 6, "seed": 3}
    return rfsize.select_bagging_fraction(
        {**params, "verbose": -1, "num_threads": 1},
        lgb.Dataset(answers["search.X"].astype(float), answers["search.y"]),
        fractions,
        n_trees=25,
        alpha=0.95,
        voting="hard",  # the default then
        estimator="plugin",
        resume=file,
    )


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal to the bit."""
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
